//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! [`Sum`] is the ones' complement sum of the bytes so far. Sums of the pieces of a packet combine in their order, also where a piece
//! begins at an odd offset. The bytes are summed in the machine's order, 64 bits at a time: the sum does not depend on the order
//! of bytes but for a swap at the end (RFC 1071, section 2).
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes that one step of the loop sums.
const STEP: usize = 64;
const WORD: usize = 8;

/// The ones' complement sum of a sequence of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Sum of folded parts, in the machine's order.
    total: u64,
    /// The number of bytes so far is odd.
    is_odd: bool,
}

impl Sum {
    /// The sum of no bytes.
    pub const fn new() -> Sum {
        Sum { total: 0, is_odd: false }
    }
    /// Returns the sum of `bytes`.
    pub fn of(bytes: &[u8]) -> Sum {
        Sum { total: u64::from(fold(sum_words(bytes))), is_odd: bytes.len() % 2 == 1 }
    }
    /// Returns the sum of the addresses, the protocol and the length of a packet of a transport (RFC 793, RFC 8200 section 8.1).
    /// Addresses of different families give the sum of the second's family without the first.
    pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: u32) -> Sum {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Sum::pseudo_header4(source, destination, protocol, length)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Sum::pseudo_header6(source, destination, protocol, length)
            }
            (_, IpAddr::V4(destination)) => {
                Sum::pseudo_header4(Ipv4Addr::UNSPECIFIED, destination, protocol, length)
            }
            (_, IpAddr::V6(destination)) => {
                Sum::pseudo_header6(Ipv6Addr::UNSPECIFIED, destination, protocol, length)
            }
        }
    }
    /// Returns the sum of `length` bytes whose first stands at `offset`, of which the words of 64 bits have the sum `total`.
    pub fn of_words(total: u128, offset: usize, length: usize) -> Sum {
        let part = fold(total);
        let part = if offset % 2 == 1 { part.swap_bytes() } else { part };
        Sum { total: u64::from(part), is_odd: length % 2 == 1 }
    }
    /// Returns the sum of the pseudo header of IPv4.
    pub fn pseudo_header4(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
        length: u32,
    ) -> Sum {
        let mut sum = Sum::of(&source.octets());
        sum.add(&destination.octets());
        sum.add_numbers(protocol, length);
        sum
    }
    /// Returns the sum of the pseudo header of IPv6.
    pub fn pseudo_header6(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: u8,
        length: u32,
    ) -> Sum {
        let mut sum = Sum::of(&source.octets());
        sum.add(&destination.octets());
        sum.add_numbers(protocol, length);
        sum
    }
    fn add_numbers(&mut self, protocol: u8, length: u32) {
        self.add(&length.to_be_bytes());
        self.add(&u16::from(protocol).to_be_bytes());
    }
    /// Appends `bytes`.
    pub fn add(&mut self, bytes: &[u8]) {
        self.append(Sum::of(bytes));
    }
    /// Appends the bytes whose sum is `later`.
    pub fn append(&mut self, later: Sum) {
        let part = fold(later.total.into());
        let part = if self.is_odd { part.swap_bytes() } else { part };
        // Folding keeps the total below 2^17, so it cannot overflow.
        self.total = u64::from(fold(self.total.into())) + u64::from(part);
        self.is_odd ^= later.is_odd;
    }
    /// Appends the 16 bits of `word`.
    pub fn add_word(&mut self, word: u16) {
        self.add(&word.to_be_bytes());
    }
    /// Returns the sum, not complemented: the value of the field of a partial checksum.
    pub fn folded(self) -> u16 {
        u16::from_be(fold(self.total.into()))
    }
    /// Returns the value of the checksum's field, if the bytes had zero there.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
    /// Returns the value of UDP's field: zero, which says "no checksum", becomes 0xffff (RFC 768).
    pub fn checksum_of_udp(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            other => other,
        }
    }
    /// Returns whether bytes that contain their checksum are intact.
    pub fn is_valid(self) -> bool {
        self.folded() == 0xffff
    }
}

/// Returns `checksum` after a word of the covered bytes changed from `old` to `new` (RFC 1624, equation 3).
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u128::from(!checksum) + u128::from(!old) + u128::from(new))
}

/// Returns `checksum` after covered bytes at an even offset changed from `old` to `new`, which are equally long.
pub fn updated_bytes(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    updated(checksum, Sum::of(old).folded(), Sum::of(new).folded())
}

/// Sums words of 64 bits. The carry out of one is added to the next, which is one instruction a word.
fn sum_words(bytes: &[u8]) -> u128 {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let mut total = 0u64;
    for step in steps {
        let mut carry = false;
        for word in step.as_chunks::<WORD>().0 {
            (total, carry) = total.carrying_add(u64::from_ne_bytes(*word), carry);
        }
        // A sum of nothing but ones carries once more.
        (total, carry) = total.carrying_add(0, carry);
        total += u64::from(carry);
    }
    let mut sum = u128::from(total);
    let (words, tail) = rest.as_chunks::<WORD>();
    for word in words {
        sum += u128::from(u64::from_ne_bytes(*word));
    }
    let mut last = [0; WORD];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    sum + u128::from(u64::from_ne_bytes(last))
}

/// Adds the carries until 16 bits are left.
fn fold(sum: u128) -> u16 {
    let sum = (sum & u128::from(u64::MAX)) + (sum >> 64);
    let (low, carry) = (sum as u64).overflowing_add((sum >> 64) as u64);
    let sum = (low & 0xffff_ffff) + (low >> 32) + u64::from(carry);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sum by the definition: words of 16 bits, big-endian.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum = 0u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_rfc_1071_gives_its_sum() {
        let sum = Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
        assert_eq!(sum.checksum(), 0x220d);
    }

    #[test]
    fn a_sum_of_ones_does_not_overflow() {
        assert_eq!(Sum::of(&[0xff; 65_536]).folded(), 0xffff);
        assert_eq!(fold(u128::MAX), 0xffff);
    }

    #[test]
    fn the_example_of_rfc_1624_gives_its_checksum() {
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Sum::of(&bytes).folded(), reference(&bytes));
        }

        #[test]
        fn sums_of_pieces_combine(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            cuts in proptest::collection::vec(0usize..300, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| (*cut).min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let (mut sum, mut from) = (Sum::new(), 0);
            for cut in cuts {
                sum.append(Sum::of(&bytes[from..cut]));
                from = cut;
            }
            prop_assert_eq!(sum.folded(), reference(&bytes));
        }

        #[test]
        fn an_update_equals_a_new_sum(
            mut bytes in proptest::collection::vec(any::<u8>(), 2..60),
            place in 0usize..29,
            word in any::<u16>(),
        ) {
            let place = place * 2 % (bytes.len() / 2 * 2);
            let before = Sum::of(&bytes).checksum();
            let old = u16::from_be_bytes([bytes[place], bytes[place + 1]]);
            bytes[place..place + 2].copy_from_slice(&word.to_be_bytes());
            let after = Sum::of(&bytes).checksum();
            let new = updated(before, old, word);
            // Zero has two forms; a sum over data that are not all zero never gives 0xffff as checksum.
            prop_assert!(new == after || bytes.iter().all(|byte| *byte == 0));
        }
    }
}
