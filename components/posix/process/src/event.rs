//! The stamps of audit's events ([`stamp`]), and the one that a task's present call has ([`CallMark`]).
use ::audit::StampedTime;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Returns the stamp of a new event.
pub fn stamp() -> StampedTime {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    StampedTime { wall_ms: rt::time::wall_ns() / 1_000_000, serial }
}

/// Whether the present call of a task has a record of another kind, which the record of the call is to accompany.
#[derive(Default)]
pub struct CallMark {
    /// The task's calls are audited.
    is_audited: AtomicBool,
    /// Number of the event; zero for none.
    serial: AtomicU32,
    wall_ms: AtomicU64,
}

impl CallMark {
    /// Makes the mark of a task whose calls are not audited.
    pub const fn new() -> CallMark {
        CallMark {
            is_audited: AtomicBool::new(false),
            serial: AtomicU32::new(0),
            wall_ms: AtomicU64::new(0),
        }
    }
    /// Returns whether the task's calls are audited.
    pub fn is_audited(&self) -> bool {
        self.is_audited.load(Ordering::Relaxed)
    }
    /// Sets whether the task's calls are audited.
    pub fn set_audited(&self, is_audited: bool) {
        self.is_audited.store(is_audited, Ordering::Relaxed);
    }
    /// Returns the stamp for a record that the task's present call causes. The task itself calls this.
    pub fn stamp(&self) -> StampedTime {
        if !self.is_audited.load(Ordering::Relaxed) {
            return stamp();
        }
        match self.serial.load(Ordering::Relaxed) {
            0 => {
                let new = stamp();
                self.wall_ms.store(new.wall_ms, Ordering::Relaxed);
                self.serial.store(new.serial, Ordering::Relaxed);
                new
            }
            serial => StampedTime { wall_ms: self.wall_ms.load(Ordering::Relaxed), serial },
        }
    }
    /// Returns whether a record was written that the record of the call is to accompany.
    #[inline]
    pub fn is_stamped(&self) -> bool {
        self.serial.load(Ordering::Relaxed) != 0
    }
    /// Forgets a record that no record of a call accompanies.
    #[inline]
    pub fn forget(&self) {
        self.serial.store(0, Ordering::Relaxed);
    }
    /// Returns the stamp of that record, and forgets it.
    pub fn take(&self) -> Option<StampedTime> {
        let serial = self.serial.swap(0, Ordering::Relaxed);
        let wall_ms = self.wall_ms.load(Ordering::Relaxed);
        (serial != 0).then_some(StampedTime { wall_ms, serial })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_of_an_audited_call_share_a_stamp() {
        let mark = CallMark::new();
        assert_ne!(mark.stamp(), mark.stamp());
        assert!(!mark.is_stamped());
        mark.set_audited(true);
        let first = mark.stamp();
        assert_eq!(mark.stamp(), first);
        assert_eq!(mark.take(), Some(first));
        assert_eq!(mark.take(), None);
        assert_ne!(mark.stamp().serial, first.serial);
    }
}
