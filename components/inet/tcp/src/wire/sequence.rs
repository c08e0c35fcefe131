//! Sequence numbers (RFC 9293 section 3.4): numbers of 32 bits on the wire, positions of 64 bits in the machine.
//!
//! A position counts the sequence space of one direction: the SYN has position 0, the first byte of data position 1, and the FIN
//! the position behind the last byte. The crate `recovery` counts in the same way.

/// The origin of one direction: the sequence number of its SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(pub u32);

impl Origin {
    /// Returns the sequence number of a position.
    #[inline]
    pub const fn number(self, position: u64) -> u32 {
        self.0.wrapping_add(position as u32)
    }

    /// Returns the distance from position `near` to the sequence number `number`, in -2^31..2^31.
    #[inline]
    pub const fn distance(self, near: u64, number: u32) -> i64 {
        number.wrapping_sub(self.number(near)).cast_signed() as i64
    }

    /// Returns the position of the sequence number `number` that is nearest to position `near`. `None` if it lies before
    /// position 0.
    #[inline]
    pub const fn position(self, near: u64, number: u32) -> Option<u64> {
        near.checked_add_signed(self.distance(near, number))
    }
}

/// Returns whether sequence number `left` is before `right` (RFC 9293 section 3.4).
#[inline]
pub const fn is_before(left: u32, right: u32) -> bool {
    left.wrapping_sub(right).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_numbers_convert_across_the_wrap() {
        let origin = Origin(u32::MAX - 10);
        assert_eq!(origin.number(0), u32::MAX - 10);
        assert_eq!(origin.number(21), 10);
        assert_eq!(origin.position(0, 10), Some(21));
        assert_eq!(origin.position(1 << 40, origin.number((1 << 40) + 77)), Some((1 << 40) + 77));
        assert_eq!(origin.position(0, u32::MAX - 11), None);
        assert!(is_before(u32::MAX, 3) && !is_before(3, u32::MAX) && !is_before(3, 3));
    }
}
