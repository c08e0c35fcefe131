//! Numbers in bytes, and the checksum.
use crate::BLOCK_BYTES;

/// Place of the checksum of a block.
pub(crate) const SUM: usize = BLOCK_BYTES - 4;

pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

pub(crate) fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_le_bytes(*word))
}

/// Copies `data` to `at`, as far as it fits.
pub(crate) fn put(bytes: &mut [u8], at: usize, data: &[u8]) {
    let room = bytes.get_mut(at..).unwrap_or_default();
    room.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
}

/// CRC-32C of half bytes.
const HALVES: [u32; 16] = {
    let mut table = [0; 16];
    let mut index = 0;
    while index < 16 {
        let mut sum = index as u32;
        let mut bit = 0;
        while bit < 4 {
            sum = sum >> 1 ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
            bit += 1;
        }
        #[expect(clippy::indexing_slicing, reason = "both have 16 places")]
        {
            table[index] = sum;
        }
        index += 1;
    }
    table
};

/// Returns the checksum of a block (CRC-32C).
fn sum_of(block: &[u8; BLOCK_BYTES]) -> u32 {
    let half = |sum: u32, bits: u32| {
        let index = (sum ^ bits) & 0xf;
        sum >> 4 ^ HALVES.get(index as usize).copied().unwrap_or_default()
    };
    let bytes = block.iter().take(SUM);
    !bytes.fold(u32::MAX, |sum, byte| half(half(sum, (*byte).into()), u32::from(*byte) >> 4))
}

/// Writes the checksum of a block into it.
pub(crate) fn seal(block: &mut [u8; BLOCK_BYTES]) {
    let sum = sum_of(block);
    put(block, SUM, &sum.to_le_bytes());
}

/// Returns whether a block has its checksum.
pub(crate) fn is_sealed(block: &[u8; BLOCK_BYTES]) -> bool {
    block.last_chunk() == Some(&sum_of(block).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_known_one() {
        // Thirty-two zero bytes: RFC 3720, B.4. The table is checked by the same fold over fewer bytes.
        let half = |sum: u32, bits: u32| sum >> 4 ^ HALVES[((sum ^ bits) & 0xf) as usize];
        let sum = !(0..32).fold(u32::MAX, |sum, _| half(half(sum, 0), 0));
        assert_eq!(sum, 0x8a91_36aa);
    }

    #[test]
    fn each_changed_byte_breaks_the_seal() {
        let mut block = [7; BLOCK_BYTES];
        seal(&mut block);
        assert!(is_sealed(&block));
        for at in 0..BLOCK_BYTES {
            block[at] ^= 0x10;
            assert!(!is_sealed(&block));
            block[at] ^= 0x10;
        }
    }
}
