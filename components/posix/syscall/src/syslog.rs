//! The kernel's log in the format of syslog(2): one line for each record, with its level in angle
//! brackets at the beginning.
use super::entry::Entry;
use alloc::{string::String, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as raw;
use process::{
    call::Call,
    system::{CONSOLE_LEVELS, HIDES_LOG},
};
use vfs::{Errno, credentials::Capabilities};

/// The system call that this file implements.
pub const CALLS: &[Entry] = &[Entry::partial(
    raw::__NR_syslog,
    "syslog",
    "SYSLOG_ACTION_READ, which would wait for what comes; console levels have no effect",
    syslog,
)];

/// Position in the log, in bytes ever written to it, before which records are not shown again
/// (SYSLOG_ACTION_CLEAR).
static CLEARED: AtomicU64 = AtomicU64::new(0);

/// Actions of syslog(2).
mod action {
    pub const CLOSE: i32 = 0;
    pub const OPEN: i32 = 1;
    pub const READ_ALL: i32 = 3;
    pub const READ_CLEAR: i32 = 4;
    pub const CLEAR: i32 = 5;
    pub const CONSOLE_OFF: i32 = 6;
    pub const CONSOLE_ON: i32 = 7;
    pub const CONSOLE_LEVEL: i32 = 8;
    pub const SIZE_UNREAD: i32 = 9;
    pub const SIZE_BUFFER: i32 = 10;
}

fn syslog(call: &mut Call<'_>) -> Result<u64, Errno> {
    let credentials = call.task.credentials();
    let action = call.int(0);
    let is_open = matches!(action, action::READ_ALL | action::SIZE_BUFFER)
        && !HIDES_LOG.load(Ordering::Relaxed);
    if !is_open
        && !credentials.has(Capabilities::SYSLOG)
        && !credentials.has(Capabilities::SYS_ADMIN)
    {
        return Err(Errno::EPERM);
    }
    match action {
        action::CLOSE | action::OPEN | action::CONSOLE_OFF | action::CONSOLE_ON => Ok(0),
        action::READ_ALL | action::READ_CLEAR => read(call, action),
        action::CLEAR => {
            let log = rt::system::log();
            CLEARED.store(log.end(), Ordering::Relaxed);
            Ok(0)
        }
        action::CONSOLE_LEVEL if (1..=8).contains(&call.int(2)) => {
            let [console, _, least, _] = &CONSOLE_LEVELS;
            console.put(i64::from(call.int(2)).max(least.get()));
            Ok(0)
        }
        // Partial reads are not supported.
        action::SIZE_UNREAD => Ok(records(&rt::system::log().text).len() as u64),
        // The levels need room too.
        action::SIZE_BUFFER => Ok(2 * rt::system::LOG_BYTES as u64),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns the newest whole records for which there is room (READ_ALL, READ_CLEAR).
fn read(call: &Call<'_>, action: i32) -> Result<u64, Errno> {
    let room = usize::try_from(call.int(2)).map_err(|_| Errno::EINVAL)?;
    if call.word(1) == 0 {
        return Err(Errno::EINVAL);
    }
    if room == 0 {
        return Ok(0);
    }
    let log = rt::system::log();
    let unseen = records(log.since(CLEARED.load(Ordering::Relaxed)));
    let part = newest(&unseen, room);
    call.memory.write_bytes(call.word(1), part)?;
    if action == action::READ_CLEAR {
        CLEARED.store(log.end(), Ordering::Relaxed);
    }
    Ok(part.len() as u64)
}

/// Converts lines of this kernel's log, `[seconds] LEVEL component: text`, to Linux's format.
fn records(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut records = Vec::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        let parts = line.split_once("] ").and_then(|(time, rest)| {
            let (letter, rest) = rest.split_once(' ')?;
            time.starts_with('[').then_some((time, priority(letter)?, rest))
        });
        let record: [&str; 4] = match parts {
            Some((time, priority, rest)) => [priority, time, "] ", rest],
            None => ["", "", "", line],
        };
        record.iter().for_each(|part| records.extend_from_slice(part.as_bytes()));
    }
    records
}

/// Returns the name of a level at the beginning of a record.
fn priority(letter: &str) -> Option<&'static str> {
    match letter {
        "E" => Some("<3>"),
        "W" => Some("<4>"),
        "I" => Some("<6>"),
        "D" | "T" => Some("<7>"),
        _ => None,
    }
}

/// Returns the whole lines at the end of `text` that are at most `room` bytes.
fn newest(text: &[u8], room: usize) -> &[u8] {
    let Some(cut) = text.len().checked_sub(room).filter(|&cut| cut > 0) else { return text };
    // A line that begins right at the cut fits: the byte before is the end of another.
    let before = text.get(cut - 1..).unwrap_or_default();
    let line = before.iter().position(|&byte| byte == b'\n').map(|end| end + 1);
    before.get(line.unwrap_or(before.len())..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_stand_before_the_lines_that_have_one() {
        let text = "cut off\n[    0.000001] I nucleus: up\n[   12.5] E posix: [x] W y: no\n  at 0x1\n[1] x";
        let expected = "cut off\n<6>[    0.000001] nucleus: up\n<3>[   12.5] posix: [x] W y: no\n  at 0x1\n[1] x";
        assert_eq!(records(text.as_bytes()), expected.as_bytes());
    }

    #[test]
    fn what_is_read_is_whole_lines() {
        let parts = (0..=9).map(|room| newest(b"ab\nc\ndef\n", room).len());
        assert_eq!(parts.collect::<Vec<_>>(), [0, 0, 0, 0, 4, 4, 6, 6, 6, 9]);
        assert_eq!(newest(b"abc", 2), b"");
    }
}
