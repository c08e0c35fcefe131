//! States of threads and exceptions of the kernel in words.
use core::fmt::{Display, Formatter, Result};

/// Converts `ns` to whole milliseconds.
pub const fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

/// The activity of a thread: running, ready or blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The thread has a processor.
    Runs,
    /// The thread waits for a processor.
    Ready,
    /// The thread is blocked.
    Waits {
        /// The address of the word that it waits on.
        word: usize,
        /// The value in the word.
        value: u32,
        /// A kick ends the wait.
        is_interruptible: bool,
        /// Time that it has waited.
        for_ns: u64,
        /// Time until the wait's deadline.
        left_ns: Option<u64>,
    },
    /// The thread is about to end.
    Ends,
}

impl Display for Doing {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match *self {
            Doing::Runs => write!(f, "runs"),
            Doing::Ready => write!(f, "is ready"),
            Doing::Ends => write!(f, "ends"),
            Doing::Waits { word, value, is_interruptible, for_ns, left_ns } => {
                let how = if is_interruptible { "waits" } else { "waits uninterruptibly" };
                write!(f, "{how} on word {word:#x} (now {value:#x}) for {} ms", ms(for_ns))?;
                match left_ns {
                    Some(left_ns) => write!(f, ", {} ms more at most", ms(left_ns)),
                    None => Ok(()),
                }
            }
        }
    }
}

/// An exception that the kernel did not expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Number of the exception.
    pub vector: u64,
    /// The processor's error code.
    pub error_code: u64,
    /// The address whose access faulted last.
    pub address: u64,
    /// The address is in the guard page below a kernel stack.
    pub is_guard: bool,
    /// The stack pointer.
    pub rsp: u64,
}

impl Display for Trap {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Trap { vector, error_code: code, address, is_guard, rsp } = *self;
        match vector {
            8 | 14 if is_guard => write!(f, "kernel stack overflow at {address:#x}"),
            8 => write!(f, "double fault, last address {address:#x}, rsp {rsp:#x}"),
            14 => {
                write!(
                    f,
                    "page fault in the kernel at {address:#x} (error {code:#x}, rsp {rsp:#x})"
                )
            }
            18 => write!(f, "machine check, rsp {rsp:#x}"),
            _ => write!(f, "exception {vector} in the kernel (error {code:#x}, rsp {rsp:#x})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn a_wait_says_how_long_it_takes() {
        let wait = |left_ns: Option<u64>| Doing::Waits {
            word: 0x10,
            value: 2,
            is_interruptible: left_ns.is_some(),
            for_ns: 5_400_000,
            left_ns,
        };
        let plain = "waits uninterruptibly on word 0x10 (now 0x2) for 5 ms";
        assert_eq!(wait(None).to_string(), plain);
        let limited = "waits on word 0x10 (now 0x2) for 5 ms, 7 ms more at most";
        assert_eq!(wait(Some(7_000_000)).to_string(), limited);
    }

    #[test]
    fn an_overflow_is_told_from_other_faults() {
        let trap = |vector, is_guard| {
            Trap { vector, error_code: 2, address: 0x1000, is_guard, rsp: 0x20 }.to_string()
        };
        assert_eq!(trap(14, true), "kernel stack overflow at 0x1000");
        assert_eq!(trap(8, true), trap(14, true));
        assert_eq!(trap(14, false), "page fault in the kernel at 0x1000 (error 0x2, rsp 0x20)");
        assert_eq!(trap(8, false), "double fault, last address 0x1000, rsp 0x20");
        assert_eq!(trap(13, true), "exception 13 in the kernel (error 0x2, rsp 0x20)");
    }
}
