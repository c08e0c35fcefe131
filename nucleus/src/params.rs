//! Kernel parameters: the command line the boot loader gave, kept for ever.
//!
//! `name=value` words separated by blanks; the last one of a name wins. Set once by boot before
//! other processors run.
use core::sync::atomic::{AtomicBool, Ordering};

/// Longest command line kept; the rest is cut off.
pub const MAX_BYTES: usize = 2048;

struct Line(core::cell::UnsafeCell<([u8; MAX_BYTES], usize)>);

// SAFETY: written by `set` only, once, before `IS_SET` is true; read only after.
unsafe impl Sync for Line {}

static LINE: Line = Line(core::cell::UnsafeCell::new(([0; MAX_BYTES], 0)));
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Keeps a copy of `line`, cut at [`MAX_BYTES`] or where it stops being UTF-8.
///
/// # Safety
/// Once, while one processor runs.
pub unsafe fn set(line: &[u8]) {
    let line = &line[..line.len().min(MAX_BYTES)];
    let valid = core::str::from_utf8(line).map_or_else(|error| error.valid_up_to(), str::len);
    // SAFETY: the caller says nobody else is here, and readers wait for `IS_SET`.
    let kept = unsafe { &mut *LINE.0.get() };
    kept.0[..valid].copy_from_slice(&line[..valid]);
    kept.1 = valid;
    IS_SET.store(true, Ordering::Release);
}

/// The command line; empty before [`set`].
pub fn command_line() -> &'static str {
    if !IS_SET.load(Ordering::Acquire) {
        return "";
    }
    // SAFETY: never written after `IS_SET`.
    let kept = unsafe { &*LINE.0.get() };
    core::str::from_utf8(&kept.0[..kept.1]).unwrap_or("")
}

/// Value of the last `name=value`, or `""` for a bare `name`.
pub fn get(name: &str) -> Option<&'static str> {
    find(command_line(), name)
}

/// Value of the last `name=value` as a number, decimal or `0x` hexadecimal.
pub fn number(name: &str) -> Option<u64> {
    parse_number(get(name)?)
}

/// A decimal or `0x` hexadecimal number.
pub fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn find<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().rev().find_map(|word| match word.split_once('=') {
        Some((key, value)) if key == name => Some(value),
        None if word == name => Some(""),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_name_wins() {
        assert_eq!(find("a=1 b a=2", "a"), Some("2"));
        assert_eq!(find("a=1 b a=2", "b"), Some(""));
        assert_eq!(find("a=1 b a=2", "c"), None);
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(parse_number("0xf4"), Some(0xf4));
        assert_eq!(parse_number("12"), Some(12));
        assert_eq!(parse_number("x"), None);
    }
}
