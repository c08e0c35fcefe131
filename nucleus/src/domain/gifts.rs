//! Taking back what was given, from whoever has it: capabilities, what they mapped, and those who wait by them.
use super::{Domain, PAGE};
use crate::{
    capability::{Capability, EndpointRight, Gift},
    memory::shootdown,
    spin::SpinLock,
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::Ordering::SeqCst;
use sync::class::LockClass;

static ALL_CLASS: LockClass = LockClass::new("nucleus.domain.all");
/// Every domain.
static ALL: SpinLock<Vec<Weak<Domain>>> = SpinLock::new(&ALL_CLASS, Vec::new());

/// Counts `domain` among those that may have been given something.
pub(super) fn enter(domain: &Arc<Domain>) {
    ALL.lock().push(Arc::downgrade(domain));
}

/// Forgets the domain that is being dropped.
pub(super) fn leave() {
    ALL.lock().retain(|one| one.strong_count() > 0);
}

/// Ends `gifts`: when this returns nobody has what was given, or anything that was made of it.
pub fn take_back(gifts: impl IntoIterator<Item = Arc<Gift>>) {
    if gifts.into_iter().map(|gift| gift.end()).count() > 0 {
        let all = ALL.lock().clone();
        all.iter().filter_map(Weak::upgrade).for_each(|domain| domain.lose());
    }
}

impl Domain {
    /// Loses what was taken back.
    fn lose(&self) {
        let mut slot = 0;
        loop {
            let mut held = self.held.lock();
            let Some((handle, capability, after)) = held.next(slot) else { return };
            slot = after;
            if !capability.is_over() {
                continue;
            }
            let lost = core::mem::replace(capability, Capability::Gone);
            drop(held);
            self.forget(handle);
            if let Capability::Endpoint(EndpointRight { endpoint, .. }) = &lost {
                // Whoever still believed what he remembered of the handle has come to the endpoint when each processor has
                // answered: he does so with interrupts off.
                shootdown::user(&self.space, 0, 1);
                endpoint.turn_away(&self.space, handle);
            }
        }
    }

    /// Nobody remembers what `handle` named, and what it mapped is unmapped.
    pub(super) fn forget(&self, handle: u64) {
        self.version.fetch_add(1, SeqCst);
        let mut mapped = self.mapped.lock();
        if let Some(at) = mapped.iter().position(|&(of, ..)| of == handle) {
            let (_, start, pages) = mapped.swap_remove(at);
            self.uncharge(self.space.unmap(start, start + (pages * PAGE) as u64));
        }
    }
}
