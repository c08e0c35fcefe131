//! Errors of writes nobody waited for, kept until told (the semantics of Linux's `errseq_t`).
//!
//! [`ErrorSequence`] is what failed, [`Told`] how far one open description was told. Each
//! description hears of an error once, by fsync; one opened later hears of it only if nobody did.
use crate::errno::Errno;
use core::sync::atomic::{AtomicU64, Ordering};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static ERRORS = "vfs.errors";
}

struct State {
    count: u64,
    last: Errno,
    was_told: bool,
}

/// Errors of a file or of a file system. Its lock is a leaf.
pub(crate) struct ErrorSequence(Mutex<State>);

/// Which errors a description was told of.
#[derive(Debug)]
pub(crate) struct Told(AtomicU64);

impl ErrorSequence {
    pub(crate) fn new() -> ErrorSequence {
        let state = State { count: 0, last: Errno::EIO, was_told: true };
        ErrorSequence(Mutex::new(&ERRORS, state))
    }
    /// An error, to be told.
    pub(crate) fn record(&self, error: Errno) {
        let mut state = self.0.lock();
        state.count += 1;
        state.last = error;
        state.was_told = false;
    }
    /// Where a new description begins.
    pub(crate) fn sample(&self) -> Told {
        let state = self.0.lock();
        Told(AtomicU64::new(if state.was_told { state.count } else { 0 }))
    }
    /// The last error since `told`, which moves on.
    ///
    /// # Errors
    /// The one recorded.
    pub(crate) fn check(&self, told: &Told) -> Result<(), Errno> {
        let mut state = self.0.lock();
        if told.0.swap(state.count, Ordering::Relaxed) == state.count {
            return Ok(());
        }
        state.was_told = true;
        Err(state.last)
    }
}

#[cfg(test)]
mod tests {
    use super::{Errno, ErrorSequence};

    #[test]
    fn every_description_is_told_of_an_error_once() {
        let errors = ErrorSequence::new();
        let (one, other) = (errors.sample(), errors.sample());
        assert_eq!(errors.check(&one), Ok(()));
        errors.record(Errno::ENOSPC);
        assert_eq!(errors.check(&one), Err(Errno::ENOSPC));
        assert_eq!(errors.check(&one), Ok(()));
        assert_eq!(errors.check(&other), Err(Errno::ENOSPC));
        assert_eq!(errors.check(&other), Ok(()));
    }
    #[test]
    fn a_late_opener_is_told_only_of_what_nobody_heard() {
        let errors = ErrorSequence::new();
        errors.record(Errno::EIO);
        let late = errors.sample();
        assert_eq!(errors.check(&late), Err(Errno::EIO));
        let later = errors.sample();
        assert_eq!(errors.check(&later), Ok(()));
    }
}
