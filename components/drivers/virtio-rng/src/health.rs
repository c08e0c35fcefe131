//! The health tests of a source of entropy (NIST SP 800-90B, section 4.4), on bytes.
//!
//! Both tests assume 4 bits of entropy a byte, half of the amount that a virtio device promises, and fail on a good source with
//! a probability of 2^-30. At the start, and again after a failure, a source has to pass them for [`STARTUP`] bytes (section
//! 4.3) before its output may be used.

/// Number of equal values in a row at which a source fails: `1 + ceil(30 / 4)` (section 4.4.1).
const REPETITIONS: u32 = 9;
/// Bytes of a window of the adaptive proportion test (section 4.4.2).
const WINDOW: u32 = 512;
/// Number of times that the first value of a window is in the window at which a source fails: `1 + critbinom(512, 1/16, 1 -
/// 2^-30)`.
const PROPORTION: u32 = 71;
/// Number of bytes that must pass before the output is used.
pub(crate) const STARTUP: u32 = 1024;

/// The state of the tests.
#[derive(Debug, Default)]
pub(crate) struct Health {
    last: Option<u8>,
    repetitions: u32,
    /// The first value of the window.
    watched: u8,
    seen: u32,
    /// Number of bytes of the window so far.
    place: u32,
    /// Bytes that passed since the start or the last failure, up to [`STARTUP`].
    passed: u32,
}

/// A test that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The same value came too often in a row.
    Repetition,
    /// The same value came too often in a window.
    Proportion,
}

impl Health {
    /// Returns whether the output may be used: the source has passed for long enough.
    pub(crate) fn is_good(&self) -> bool {
        self.passed == STARTUP
    }

    /// Tests the next `bytes` of the source.
    ///
    /// # Errors
    /// The test that failed. The source must then pass for [`STARTUP`] bytes again.
    pub(crate) fn test(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for byte in bytes {
            if let Err(failure) = self.step(*byte) {
                *self = Health::default();
                return Err(failure);
            }
            self.passed = (self.passed + 1).min(STARTUP);
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Result<(), Failure> {
        self.repetitions = if self.last == Some(byte) { self.repetitions + 1 } else { 1 };
        self.last = Some(byte);
        if self.place == 0 {
            (self.watched, self.seen) = (byte, 0);
        }
        self.seen += u32::from(byte == self.watched);
        self.place = (self.place + 1) % WINDOW;
        match (self.repetitions >= REPETITIONS, self.seen >= PROPORTION) {
            (true, _) => Err(Failure::Repetition),
            (_, true) => Err(Failure::Proportion),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes from a linear congruential generator's upper bits.
    fn noise(count: usize) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn noise_passes_and_is_good_after_the_startup() {
        let mut health = Health::default();
        let noise = noise(100_000);
        let (first, rest) = noise.split_at(STARTUP as usize - 1);
        assert_eq!(health.test(first), Ok(()));
        assert!(!health.is_good());
        assert_eq!(health.test(rest), Ok(()));
        assert!(health.is_good());
    }

    #[test]
    fn a_value_that_repeats_fails_and_the_source_starts_anew() {
        let mut health = Health::default();
        assert_eq!(health.test(&noise(STARTUP as usize)), Ok(()));
        assert_eq!(health.test(&[7; REPETITIONS as usize - 1]), Ok(()));
        assert!(health.is_good());
        assert_eq!(health.test(&[7]), Err(Failure::Repetition));
        assert!(!health.is_good());
        // The repetitions may be spread over several pieces.
        let mut health = Health::default();
        let pieces = [[0; 4], [0; 4], [0; 4]];
        let failed = pieces.iter().find_map(|piece| health.test(piece).err());
        assert_eq!(failed, Some(Failure::Repetition));
    }

    #[test]
    fn a_value_that_comes_too_often_in_a_window_fails() {
        // Every seventh byte equals the first of the window: 74 of 512, when 71 is a failure.
        let mut bytes: Vec<u8> =
            (0..WINDOW).map(|at| if at % 7 == 0 { 0 } else { at as u8 | 1 }).collect();
        assert_eq!(Health::default().test(&bytes), Err(Failure::Proportion));
        // Every eighth byte equals it: 64.
        bytes
            .iter_mut()
            .enumerate()
            .for_each(|(at, byte)| *byte = if at % 8 == 0 { 0 } else { at as u8 | 1 });
        assert_eq!(Health::default().test(&bytes), Ok(()));
    }

    #[test]
    fn the_cutoff_of_a_window_is_that_of_the_standard() {
        // This finds the smallest count that a source of 4 bits a byte exceeds with a probability of at most 2^-30.
        let (trials, p) = (f64::from(WINDOW), 1.0 / 16.0f64);
        let mut probability = (1.0 - p).powf(trials);
        let mut sum = probability;
        let mut count = 0.0;
        while 1.0 - sum > 0.5f64.powi(30) {
            probability *= (trials - count) / (count + 1.0) * p / (1.0 - p);
            count += 1.0;
            sum += probability;
        }
        assert_eq!(count as u32 + 1, PROPORTION);
    }
}
