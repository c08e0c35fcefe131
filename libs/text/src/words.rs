//! States of threads and exceptions of the kernel in words.
use core::fmt::{Arguments, Display, Formatter, Result};

/// Converts `ns` to whole milliseconds.
pub const fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

/// A name, cut to 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortName([u8; 16]);

impl ShortName {
    /// Cuts `name`.
    pub fn new(name: &str) -> ShortName {
        let mut short = [0; 16];
        short.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
        ShortName(short)
    }

    /// Returns the name; `?` if a character was cut.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        self.0.get(..end).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or("?")
    }

    /// Returns the name as two words, little-endian, with zeroes behind it.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.0.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word))
    }
}

/// A line of the kernel's log.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
    /// Time since boot.
    pub at_ns: u64,
    /// The level, in words.
    pub level: &'a str,
    /// The module that logs.
    pub target: &'a str,
    /// The text.
    pub text: Arguments<'a>,
}

impl Display for LogLine<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let us = self.at_ns / 1000;
        let (whole, part) = (us / 1_000_000, us % 1_000_000);
        let level = self.level.get(..1).unwrap_or("?");
        let target = self.target.split("::").next().unwrap_or("");
        writeln!(f, "[{whole:5}.{part:06}] {level} {target}: {}", self.text)
    }
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
    fn a_name_is_cut_to_sixteen_bytes() {
        let name = ShortName::new("virtio-blk");
        assert_eq!((name.as_str(), ShortName::default().as_str()), ("virtio-blk", ""));
        let words = [*b"virtio-b", *b"lk\0\0\0\0\0\0"].map(u64::from_le_bytes);
        assert!(name.words().eq(words));
        assert_eq!(ShortName::new("seventeen letters").as_str(), "seventeen letter");
        assert_eq!(ShortName::new("fifteen letterst\u{e9}").as_str(), "fifteen letterst");
        assert_eq!(ShortName::new("fifteen letters\u{e9}").as_str(), "?");
    }

    #[test]
    fn a_line_of_the_log_has_time_level_and_crate() {
        let line = |at_ns| LogLine {
            at_ns,
            level: "INFO",
            target: "nucleus::arch::iommu",
            text: format_args!("text"),
        };
        assert_eq!(line(1_234_567_890).to_string(), "[    1.234567] I nucleus: text\n");
        assert_eq!(line(999).to_string(), "[    0.000000] I nucleus: text\n");
    }

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
