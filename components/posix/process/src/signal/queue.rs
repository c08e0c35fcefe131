//! [`SignalQueue`]: the pending signals of a task or a process.
//!
//! A standard signal is pending once, however often it is sent; each instance of a real-time signal is
//! kept, in order, up to the limit. Lower numbers are taken first, but signals that the running
//! instruction caused come before all others.
use super::{
    info::Info,
    number::{FIRST_REAL_TIME, SYNCHRONOUS, SignalSet, bit},
};
use alloc::collections::VecDeque;

/// Greatest overrun of a timer that is reported (`INT_MAX`).
pub const OVERRUN_MAX: u32 = i32::MAX as u32;

/// Pending signals.
#[derive(Debug, Default)]
pub struct SignalQueue {
    pending: SignalSet,
    infos: VecDeque<Info>,
}

/// The result of queueing a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// The signal is pending now.
    Added,
    /// The signal is a standard one that was pending already: nothing changed.
    Coalesced,
    /// The signal is a real-time one beyond the limit.
    Full,
}

impl SignalQueue {
    /// Makes an empty queue.
    pub const fn new() -> SignalQueue {
        SignalQueue { pending: 0, infos: VecDeque::new() }
    }
    /// Returns the set of pending signals.
    pub fn pending(&self) -> SignalSet {
        self.pending
    }
    /// Makes `info`'s signal pending.
    pub fn push(&mut self, info: Info, limit: u64) -> Queued {
        let signal = info.number();
        if signal < FIRST_REAL_TIME {
            if self.pending & bit(signal) != 0 {
                return Queued::Coalesced;
            }
        } else if self.infos.len() as u64 >= limit {
            return Queued::Full;
        }
        self.pending |= bit(signal);
        self.infos.push_back(info);
        Queued::Added
    }
    /// Takes the next signal of `wanted`.
    #[inline]
    pub fn take(&mut self, wanted: SignalSet) -> Option<Info> {
        let ready = self.pending & wanted;
        (ready != 0).then(|| self.take_first(ready))
    }
    /// Takes the next signal of `ready`, all of which are pending.
    fn take_first(&mut self, ready: SignalSet) -> Info {
        let first = if ready & SYNCHRONOUS != 0 { ready & SYNCHRONOUS } else { ready };
        let signal = first.trailing_zeros() as u8 + 1;
        let is_wanted = |info: &Info| info.number() == signal;
        let info = self.infos.pop_front_if(|oldest| is_wanted(oldest)).or_else(|| {
            let index = self.infos.iter().position(is_wanted);
            index.and_then(|index| self.infos.remove(index))
        });
        if signal < FIRST_REAL_TIME || !self.infos.iter().any(is_wanted) {
            self.pending &= !bit(signal);
        }
        info.unwrap_or_else(|| Info::kernel(signal))
    }
    /// Adds `more` expirations to the pending signal of POSIX timer `id`; returns `false` if it is not
    /// pending.
    pub fn count_overrun(&mut self, id: u32, more: u32) -> bool {
        let mut infos = self.infos.iter_mut();
        let Some(info) = infos.find(|info| info.is_of_timer() && info.sender().0 == id) else {
            return false;
        };
        let overrun = info.sender().1.saturating_add(more).min(OVERRUN_MAX);
        info.set_sender(id, overrun);
        true
    }
    /// Removes every pending signal of `set`.
    pub fn discard(&mut self, set: SignalSet) {
        if self.pending & set != 0 {
            self.pending &= !set;
            self.infos.retain(|info| bit(info.number()) & set == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{SIGHUP, SIGSEGV, SIGTERM},
        *,
    };

    #[test]
    fn standard_signals_coalesce() {
        let mut queue = SignalQueue::new();
        assert_eq!(queue.push(Info::kernel(SIGTERM), 10), Queued::Added);
        assert_eq!(queue.push(Info::kernel(SIGTERM), 10), Queued::Coalesced);
        assert!(queue.take(u64::MAX).is_some());
        assert!(queue.take(u64::MAX).is_none());
    }

    #[test]
    fn real_time_signals_are_kept_in_order_up_to_the_limit() {
        let mut queue = SignalQueue::new();
        for value in 0..3 {
            let pushed = queue.push(Info::timer(40, value, 0, 0), 2);
            assert_eq!(pushed == Queued::Full, value == 2);
        }
        assert_eq!(queue.take(u64::MAX).unwrap().sender().0, 0);
        assert_eq!(queue.pending(), bit(40));
        assert_eq!(queue.take(u64::MAX).unwrap().sender().0, 1);
        assert_eq!(queue.pending(), 0);
    }

    #[test]
    fn faults_come_before_lower_numbers() {
        let mut queue = SignalQueue::new();
        queue.push(Info::kernel(SIGHUP), 10);
        queue.push(Info::kernel(SIGSEGV), 10);
        assert_eq!(queue.take(u64::MAX).unwrap().number(), SIGSEGV);
        assert_eq!(queue.take(u64::MAX).unwrap().number(), SIGHUP);
    }

    #[test]
    fn blocked_signals_stay() {
        let mut queue = SignalQueue::new();
        queue.push(Info::kernel(SIGTERM), 10);
        assert!(queue.take(!bit(SIGTERM)).is_none());
        queue.discard(bit(SIGTERM));
        assert_eq!(queue.pending(), 0);
    }
}
