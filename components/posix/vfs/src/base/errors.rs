//! Errors of writes for which no thread waited, kept until they are reported (the semantics of
//! Linux's `errseq_t`).
//!
//! [`ErrorSequence`] is the record of the failures of a file, [`ReportedErrors`] the position up to which one
//! open description has been given them. Each description reports an error once, by fsync; a
//! description that is opened later reports it only if no other one did.
use crate::base::errno::{Errno, ErrorNumber};
use core::sync::atomic::{AtomicU64, Ordering};

/// The word holds the number of errors so far, whether the last one was reported, and its errno.
const COUNT_SHIFT: u32 = 17;
const WAS_TOLD: u64 = 1 << 16;

/// Errors of a file or of a file system.
#[derive(Debug)]
pub(crate) struct ErrorSequence(AtomicU64);

/// The position up to which one description has reported errors.
#[derive(Debug)]
pub(crate) struct ReportedErrors(AtomicU64);

impl ErrorSequence {
    pub(crate) fn new() -> ErrorSequence {
        ErrorSequence(AtomicU64::new(WAS_TOLD))
    }
    /// Records an error that is to be reported.
    pub(crate) fn record(&self, error: Errno) {
        let number = error.number() as u64;
        let next = |word: u64| Some(((word >> COUNT_SHIFT) + 1) << COUNT_SHIFT | number);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
    /// Returns the position at which a new description begins.
    pub(crate) fn sample(&self) -> ReportedErrors {
        let word = self.0.load(Ordering::Relaxed);
        ReportedErrors(AtomicU64::new(if word & WAS_TOLD != 0 { word >> COUNT_SHIFT } else { 0 }))
    }
    /// Reports the last error since `told`, and moves `told` past it.
    ///
    /// # Errors
    /// The recorded error.
    pub(crate) fn check(&self, told: &ReportedErrors) -> Result<(), Errno> {
        let word = self.0.load(Ordering::Relaxed);
        let count = word >> COUNT_SHIFT;
        if told.0.load(Ordering::Relaxed) == count || told.0.swap(count, Ordering::Relaxed) == count
        {
            return Ok(());
        }
        // An error recorded meanwhile is another one, and not reported.
        let seen = word | WAS_TOLD;
        let _ = self.0.compare_exchange(word, seen, Ordering::Relaxed, Ordering::Relaxed);
        let number = ErrorNumber::from_word(u64::from(word as u16));
        Err(number.map_or(Errno::EIO, Errno::Failed))
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
