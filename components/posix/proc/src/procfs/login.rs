//! `/proc/PID/loginuid` and `sessionid` ([`process::login`]).
//! Source: Linux `fs/proc/base.c`, `proc_loginuid_write`.
use super::process::Subject;
use alloc::{format, vec::Vec};
use process::{Task, audit};
use vfs::{Errno, Principal};

/// Number of bytes of a write that are read.
const TEXT_BYTES: usize = 34;

/// Returns the login uid, without a newline.
pub fn user(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let task = subject.task().ok_or(Errno::ESRCH)?;
    Ok(format!("{}", task.login.user()).into_bytes())
}

/// Returns the session, without a newline.
pub fn session(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let task = subject.task().ok_or(Errno::ESRCH)?;
    Ok(format!("{}", task.login.session()).into_bytes())
}

/// Sets the login uid of the writing task itself, from one write.
pub fn set_user(
    subject: &Subject,
    offset: u64,
    data: &[u8],
    writer: &dyn Principal,
) -> Result<(), Errno> {
    let task = Task::of(writer).ok_or(Errno::EPERM)?;
    let named = subject.thread.as_ref().map_or(subject.process.id(), |thread| thread.id());
    if task.id() != named {
        return Err(Errno::EPERM);
    }
    if offset != 0 {
        return Err(Errno::EINVAL);
    }
    audit::log_in(task, number(data)?)
}

/// Parses a decimal number as `kstrtouint` does: an optional plus sign, and an optional newline at
/// the end.
fn number(data: &[u8]) -> Result<u32, Errno> {
    let data = data.get(..TEXT_BYTES).unwrap_or(data);
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Errno::EINVAL);
    }
    let text = core::str::from_utf8(digits).map_err(|_| Errno::EINVAL)?;
    text.parse().map_err(|_| Errno::ERANGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_linux_takes() {
        let right = [(&b"0"[..], 0), (b"+17\n", 17), (b"4294967295", u32::MAX), (b"5\0rest", 5)];
        for (text, value) in right {
            assert_eq!(number(text), Ok(value));
        }
        for wrong in [&b""[..], b"\n", b"-1", b" 1", b"1 ", b"1\n\n", b"0x1", b"+", b"\0"] {
            assert_eq!(number(wrong), Err(Errno::EINVAL));
        }
        assert_eq!(number(b"4294967296"), Err(Errno::ERANGE));
    }
}
