//! [`Setting`]: a number that root sets in `/proc/sys`, read by Linux's rules (`kernel/sysctl.c`).
use alloc::{format, vec::Vec};
use core::sync::atomic::{AtomicI64, Ordering::Relaxed};
use vfs::Errno;

/// A number with its bounds.
pub struct Setting {
    value: AtomicI64,
    least: i64,
    most: i64,
}

impl Setting {
    /// Makes a number that is `value` at first and can be set from `least` to `most`.
    pub const fn new(value: i64, least: i64, most: i64) -> Setting {
        Setting { value: AtomicI64::new(value), least, most }
    }
    /// Makes a number that can have any value of an `int`.
    pub const fn int(value: i32) -> Setting {
        Setting::new(value as i64, i32::MIN as i64, i32::MAX as i64)
    }
    /// Makes a number that can have any value of an `int` that is not negative.
    pub const fn count(value: u32) -> Setting {
        Setting::new(value as i64, 0, i32::MAX as i64)
    }
    /// Returns the current number.
    #[inline]
    pub fn get(&self) -> i64 {
        self.value.load(Relaxed)
    }
    /// Returns a number that is never negative, as a size.
    #[inline]
    pub fn size(&self) -> usize {
        usize::try_from(self.get()).unwrap_or(0)
    }
    /// Sets it to a number within its bounds.
    pub fn put(&self, value: i64) {
        self.value.store(value, Relaxed);
    }
    /// Returns the text that a read of the setting returns.
    pub fn text(&self) -> Vec<u8> {
        format!("{}\n", self.get()).into_bytes()
    }
    /// Sets it to the written number.
    ///
    /// # Errors
    /// `EINVAL` if the text is not a number, and for one out of bounds.
    pub fn set(&self, written: &[u8]) -> Result<(), Errno> {
        self.set_to(first_number(written)?)
    }
    /// Sets it to a number.
    ///
    /// # Errors
    /// `EINVAL` for one out of bounds.
    pub fn set_to(&self, value: i64) -> Result<(), Errno> {
        if !(self.least..=self.most).contains(&value) {
            return Err(Errno::EINVAL);
        }
        self.value.store(value, Relaxed);
        Ok(())
    }
}

/// Returns the first of the written numbers; the rest of the text is ignored.
///
/// # Errors
/// `EINVAL` if there is none.
pub fn first_number(written: &[u8]) -> Result<i64, Errno> {
    numbers(written).next().ok_or(Errno::EINVAL)?
}

/// Returns the written numbers, up to a NUL: separated by blanks, with an optional sign, and in base 8,
/// 10 or 16 as in C.
pub fn numbers(written: &[u8]) -> impl Iterator<Item = Result<i64, Errno>> {
    let text = written.split(|byte| *byte == 0).next().unwrap_or_default();
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(number)
}

fn number(word: &[u8]) -> Result<i64, Errno> {
    let (is_negative, digits) = match word.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let hex = digits.strip_prefix(b"0x").or_else(|| digits.strip_prefix(b"0X"));
    let (base, digits) = match (hex, digits) {
        (Some(hex), _) => (16, hex),
        (None, [b'0', _, ..]) => (8, digits),
        _ => (10, digits),
    };
    if let Some(b'+' | b'-') = digits.first() {
        return Err(Errno::EINVAL);
    }
    let text = core::str::from_utf8(digits).map_err(|_| Errno::EINVAL)?;
    let value = i64::from_str_radix(text, base).map_err(|_| Errno::EINVAL)?;
    Ok(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_in_c() {
        for text in ["16", " 16\n", "0x10", "020", "16 and more", "16\0x"] {
            assert_eq!(first_number(text.as_bytes()), Ok(16), "{text:?}");
        }
        for text in ["", " ", "x", "16x", "--1", "0x", "+1", "9223372036854775808"] {
            assert_eq!(first_number(text.as_bytes()), Err(Errno::EINVAL), "{text:?}");
        }
        assert_eq!(numbers(b"1 -2\t3\n").collect::<Result<Vec<_>, _>>(), Ok(alloc::vec![1, -2, 3]));
    }

    #[test]
    fn a_setting_keeps_within_its_bounds() {
        let setting = Setting::new(5, 2, 9);
        for text in ["1", "10", "-3", "x"] {
            assert_eq!(setting.set(text.as_bytes()), Err(Errno::EINVAL));
        }
        assert_eq!(setting.text(), b"5\n");
        assert_eq!(setting.set(b"9\n"), Ok(()));
        assert_eq!(setting.get(), 9);
    }
}
