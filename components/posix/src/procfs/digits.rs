//! Numbers written to a text without `core::fmt`, which costs several times as much.
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

#[inline(always)]
fn write(text: &mut Vec<u8>, mut number: u64, base: u64, width: usize) {
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
    let start = DIGITS_MAX.saturating_sub(count.max(width));
    text.extend_from_slice(digits.get(start..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

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
