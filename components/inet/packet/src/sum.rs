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
    /// Sum of folded parts and words, in the machine's order.
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
    #[inline]
    pub fn of(bytes: &[u8]) -> Sum {
        Sum { total: u64::from(fold(sum_words(bytes))), is_odd: bytes.len() % 2 == 1 }
    }
    /// Returns the sum of a part of constant length, which needs no loop.
    #[inline(always)]
    pub fn of_array<const N: usize>(bytes: &[u8; N]) -> Sum {
        const { assert!(N.is_multiple_of(4)) };
        let (words, rest) = bytes.as_chunks::<WORD>();
        let total = words.iter().fold(0, |total, word| add(total, u64::from_ne_bytes(*word)));
        let (halves, _) = rest.as_chunks();
        let total =
            halves.iter().fold(total, |total, half| add(total, u32::from_ne_bytes(*half).into()));
        Sum { total: fold(total).into(), is_odd: false }
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
    #[inline]
    pub fn of_words(total: u128, offset: usize, length: usize) -> Sum {
        let part = fold(add(total as u64, (total >> 64) as u64));
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
        let addresses = [source, destination].map(|one| u64::from(u32::from(one).to_be()));
        let numbers = u64::from(length.to_be()) + u64::from(u16::from(protocol).to_be());
        let total = addresses.iter().sum::<u64>() + numbers;
        Sum { total: u64::from(fold(total)), is_odd: false }
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
    #[inline]
    pub fn append(&mut self, later: Sum) {
        let part = fold(later.total);
        let part = if self.is_odd { part.swap_bytes() } else { part };
        // Folding keeps the total below 2^17, so it cannot overflow.
        self.total = u64::from(fold(self.total)) + u64::from(part);
        self.is_odd ^= later.is_odd;
    }
    /// Appends the 16 bits of `word`.
    #[inline]
    pub fn add_word(&mut self, word: u16) {
        let part = if self.is_odd { word.to_be().swap_bytes() } else { word.to_be() };
        // It takes 2^47 words for an overflow.
        self.total += u64::from(part);
    }
    /// Appends the 32 bits of `number`.
    #[inline]
    pub fn add_number(&mut self, number: u32) {
        self.add_word((number >> 16) as u16);
        self.add_word(number as u16);
    }
    /// Returns the sum, not complemented: the value of the field of a partial checksum.
    pub fn folded(self) -> u16 {
        u16::from_be(fold(self.total))
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
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// Returns `checksum` after covered bytes at an even offset changed from `old` to `new`, which are equally long.
pub fn updated_bytes(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    updated(checksum, Sum::of(old).folded(), Sum::of(new).folded())
}

/// Sums words of 64 bits. The carry out of one is added to the next, which is one instruction a word.
#[inline]
fn sum_words(bytes: &[u8]) -> u64 {
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
    let (words, tail) = rest.as_chunks::<WORD>();
    for word in words {
        total = add(total, u64::from_ne_bytes(*word));
    }
    // Shorter words count as if zeros were behind them, which halves and quarters of a word of 64 bits may be added without.
    let (halves, tail) = tail.as_chunks();
    for half in halves {
        total = add(total, u32::from_ne_bytes(*half).into());
    }
    let (quarters, tail) = tail.as_chunks();
    for quarter in quarters {
        total = add(total, u16::from_ne_bytes(*quarter).into());
    }
    tail.iter().fold(total, |total, last| add(total, u16::from_ne_bytes([*last, 0]).into()))
}

/// Adds with the carry out of 64 bits, which a second one cannot follow.
#[inline]
fn add(total: u64, word: u64) -> u64 {
    let (sum, carry) = total.overflowing_add(word);
    sum + u64::from(carry)
}

/// Adds the carries until 16 bits are left.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
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
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(Sum::of_words(u128::MAX, 0, 0).folded(), 0xffff);
    }

    #[test]
    fn the_example_of_rfc_1624_gives_its_checksum() {
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn the_sum_of_an_array_is_that_of_its_bytes(bytes in any::<[u8; 20]>(), short in any::<[u8; 8]>()) {
            prop_assert_eq!(Sum::of_array(&bytes).folded(), reference(&bytes));
            prop_assert_eq!(Sum::of_array(&short).folded(), reference(&short));
        }

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
                match bytes[from..cut] {
                    [a, b] => sum.add_word(u16::from_be_bytes([a, b])),
                    [a, b, c, d] => sum.add_number(u32::from_be_bytes([a, b, c, d])),
                    ref part => sum.append(Sum::of(part)),
                }
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
