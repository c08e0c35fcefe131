//! Exit status of a process, and the words with which wait(2) reports it.

/// Exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// The process called exit with these eight bits.
    Exited(u8),
    /// This signal ended the process (never with a core dump: none is written).
    Signalled(u8),
}

impl ExitStatus {
    /// Returns the word that wait4(2) stores.
    pub fn wait_word(self) -> u32 {
        match self {
            ExitStatus::Exited(code) => u32::from(code) << 8,
            ExitStatus::Signalled(signal) => u32::from(signal),
        }
    }
    /// Converts a word of [`ExitStatus::wait_word`] back.
    pub fn from_wait_word(word: u32) -> ExitStatus {
        match word as u8 {
            0 => ExitStatus::Exited((word >> 8) as u8),
            signal => ExitStatus::Signalled(signal),
        }
    }
}

/// Returns the word for a stopped child.
pub fn stopped_word(signal: u8) -> u32 {
    u32::from(signal) << 8 | 0x7f
}

/// The word of a continued child.
pub const CONTINUED_WORD: u32 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_linux() {
        assert_eq!(ExitStatus::Exited(3).wait_word(), 0x300);
        assert_eq!(ExitStatus::Signalled(9).wait_word(), 9);
        assert_eq!(stopped_word(19), 0x137f);
    }

    #[test]
    fn words_tell_what_they_were_made_of() {
        let statuses = [0, 3, 255].map(ExitStatus::Exited).into_iter();
        for status in statuses.chain([1, 9, 31, 64].map(ExitStatus::Signalled)) {
            assert_eq!(ExitStatus::from_wait_word(status.wait_word()), status);
        }
    }
}
