//! [`FilterSlot`]: the program that looks at what a socket receives (`SO_ATTACH_FILTER`).
use alloc::{boxed::Box, sync::Arc};
use bpf::{PacketBytes, PacketFacts, PacketProgram};
use core::sync::atomic::{AtomicBool, Ordering};
use rt::{
    lock_class,
    sync::{Once, RwLock},
};

lock_class! {
    static FILTER = "socket.filter";
}

/// The filter of a socket. The client sets it; the side that receives asks it. Without a filter, that costs one load.
pub struct FilterSlot {
    is_set: AtomicBool,
    program: RwLock<Option<Arc<PacketProgram>>>,
    watcher: Once<FilterWatcher>,
}

/// The function that hears of each change of a filter.
pub type FilterWatcher = Box<dyn Fn(Option<&PacketProgram>) + Send + Sync>;

impl Default for FilterSlot {
    fn default() -> FilterSlot {
        FilterSlot {
            is_set: AtomicBool::new(false),
            program: RwLock::new(&FILTER, None),
            watcher: Once::new(),
        }
    }
}

impl FilterSlot {
    /// Sets or removes the program. Returns the one before it.
    pub fn set(&self, program: Option<Arc<PacketProgram>>) -> Option<Arc<PacketProgram>> {
        let before = {
            let mut place = self.program.write();
            self.is_set.store(program.is_some(), Ordering::Release);
            core::mem::replace(&mut *place, program.clone())
        };
        if let Some(watcher) = self.watcher.get() {
            watcher(program.as_deref());
        }
        before
    }
    /// Has `watcher` hear of each change from now on, and of the present program. There is one watcher.
    pub fn watch(&self, watcher: FilterWatcher) {
        let watcher = self.watcher.get_or_init(|| watcher);
        if let Some(program) = self.get() {
            watcher(Some(&program));
        }
    }
    /// Takes over the program of another slot, if it has one.
    pub fn follow(&self, other: &FilterSlot) {
        if let Some(program) = other.get() {
            self.set(Some(program));
        }
    }
    /// Returns the program.
    #[inline]
    pub fn get(&self) -> Option<Arc<PacketProgram>> {
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        self.program.read().clone()
    }
    /// Returns the number of bytes that the socket gets of a packet: all without a filter, none of one that is dropped.
    /// `facts` is asked only if there is a filter.
    #[inline]
    pub fn admit(&self, bytes: &dyn PacketBytes, facts: impl FnOnce() -> PacketFacts) -> usize {
        match self.get() {
            None => bytes.length(),
            Some(program) => program.admit(bytes, &facts()).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_admits_all_until_a_program_is_set() {
        let slot = FilterSlot::default();
        let bytes = &[1_u8, 2, 3][..];
        let admitted = |slot: &FilterSlot| slot.admit(&bytes, PacketFacts::default);
        assert_eq!(admitted(&slot), 3);
        for (answer, expected) in [(2, 2), (9, 3), (0, 0)] {
            let program = PacketProgram::new(&[6 | answer << 32]).unwrap();
            slot.set(Some(Arc::new(program)));
            assert_eq!(admitted(&slot), expected);
        }
        assert!(slot.set(None).is_some());
        assert_eq!(admitted(&slot), 3);
    }
}
