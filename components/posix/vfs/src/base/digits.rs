//! [`Text`]: the text of a generated file, with numbers written without `core::fmt`, which costs several times as much.
use alloc::vec::Vec;

/// Digits of the longest number: 2^64 - 1 in decimal.
const DIGITS_MAX: usize = 20;

/// Appends `number` in lower-case hexadecimal, with zeroes in front up to `width` digits.
pub fn write_hex(text: &mut Vec<u8>, number: u64, width: usize) {
    write(text, number, 16, width);
}

/// Appends `number` in decimal.
pub fn write_decimal(text: &mut Vec<u8>, number: u64) {
    write(text, number, 10, 1);
}

/// The text of a file in the making.
pub struct Text(Vec<u8>);

impl Text {
    /// Makes an empty text with room for `bytes` bytes.
    pub fn with_room(bytes: usize) -> Text {
        Text(Vec::with_capacity(bytes))
    }
    /// Appends these bytes.
    pub fn put(&mut self, bytes: impl AsRef<[u8]>) -> &mut Text {
        self.0.extend_from_slice(bytes.as_ref());
        self
    }
    /// Appends a number in decimal.
    pub fn number(&mut self, number: impl Into<u64>) -> &mut Text {
        write(&mut self.0, number.into(), 10, 1);
        self
    }
    /// Appends a number in decimal, with zeroes in front up to two digits.
    pub fn two_digits(&mut self, number: u64) -> &mut Text {
        write(&mut self.0, number, 10, 2);
        self
    }
    /// Appends a number that may be negative.
    pub fn signed(&mut self, number: i64) -> &mut Text {
        if number < 0 {
            self.0.push(b'-');
        }
        self.number(number.unsigned_abs())
    }
    /// Appends a number in decimal, with blanks in front up to `width` characters.
    pub fn right(&mut self, number: u64, width: usize) -> &mut Text {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        self.0.resize(self.0.len() + width.saturating_sub(digits), b' ');
        self.number(number)
    }
    /// Appends a number in hexadecimal, with zeroes in front up to `width` digits.
    pub fn hex(&mut self, number: u64, width: usize) -> &mut Text {
        write(&mut self.0, number, 16, width);
        self
    }
    /// Appends `name`, a colon, a tab and a number, as a line.
    pub fn line(&mut self, name: &str, number: impl Into<u64>) -> &mut Text {
        self.put(name).put(":\t").number(number).put("\n")
    }
    /// Returns the bytes of the text.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[inline(always)]
fn write(text: &mut Vec<u8>, number: u64, base: u64, width: usize) {
    text.extend_from_slice(Digits::new(number, base, width).bytes());
}

/// The digits of a number, on the stack.
pub struct Digits {
    digits: [u8; DIGITS_MAX],
    start: usize,
}

impl Digits {
    /// Makes the digits of a number in decimal.
    pub fn decimal(number: u64) -> Digits {
        Digits::new(number, 10, 1)
    }
    #[inline(always)]
    fn new(mut number: u64, base: u64, width: usize) -> Digits {
        let mut digits = [b'0'; DIGITS_MAX];
        let mut count = 0;
        for place in digits.iter_mut().rev() {
            if number == 0 {
                break;
            }
            let digit = (number % base) as u8;
            *place = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            number /= base;
            count += 1;
        }
        Digits { digits, start: DIGITS_MAX.saturating_sub(count.max(width)) }
    }
    /// Returns the digits as text.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.digits.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn texts_are_those_of_fmt() {
        for number in [0, 7, 10, 99, 100, 12_345_678, 123_456_789, u64::MAX] {
            let mut text = Text::with_room(8);
            text.right(number, 8).put(" ").signed(-(number as i64 >> 1)).put(" ");
            text.two_digits(number).put(" ").hex(number, 3).put("\n").line("a", number);
            let signed = -(number as i64 >> 1);
            let expected = format!("{number:>8} {signed} {number:02} {number:03x}\na:\t{number}\n");
            assert_eq!(text.finish(), expected.into_bytes());
        }
    }

    #[test]
    fn digits_are_those_of_fmt() {
        for number in [0, 1, 9, 10, 15, 16, 255, 0x7fff_ffff, 0x7fff_ffff_f000, u64::MAX] {
            let mut text = Vec::new();
            write_hex(&mut text, number, 8);
            text.push(b' ');
            write_hex(&mut text, number, 2);
            text.push(b' ');
            write_decimal(&mut text, number);
            assert_eq!(text, format!("{number:08x} {number:02x} {number}").into_bytes());
        }
    }
}
