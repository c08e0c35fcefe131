//! How a process ended, and what wait(2) reports of it.

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It called exit with these eight bits.
    Exited(u8),
    /// A signal ended it.
    Signalled {
        /// Number of the signal.
        signal: u8,
        /// The signal's action is to dump core (no dump is written; the bit is as on Linux with a core limit of 0).
        has_core: bool,
    },
}

impl ExitStatus {
    /// The word wait4(2) stores.
    pub fn wait_word(self) -> u32 {
        match self {
            ExitStatus::Exited(code) => u32::from(code) << 8,
            ExitStatus::Signalled { signal, has_core } => u32::from(signal) | if has_core { 0x80 } else { 0 },
        }
    }
}

/// The word for a stopped child.
pub fn stopped_word(signal: u8) -> u32 {
    u32::from(signal) << 8 | 0x7f
}

/// The word for a continued child.
pub const CONTINUED_WORD: u32 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_linux() {
        assert_eq!(ExitStatus::Exited(3).wait_word(), 0x300);
        assert_eq!(ExitStatus::Signalled { signal: 9, has_core: false }.wait_word(), 9);
        assert_eq!(stopped_word(19), 0x137f);
    }
}
