//! The checksums of ext4: CRC-32C (`metadata_csum`) and CRC-16 (`uninit_bg`), continued from a seed
//! and without a final inversion, as the format wants them.
//!
//! CRC-32C goes eight bytes a step by tables made at compile time ("slicing by 8", Kounavis and
//! Berry 2005): this kernel's target has no SSE 4.2 by contract, and a program's registers are live.

/// Reflected Castagnoli polynomial.
const CASTAGNOLI: u32 = 0x82f6_3b78;
/// Reflected polynomial x^16 + x^15 + x^2 + 1.
const ANSI: u16 = 0xa001;

const TABLES: [[u32; 256]; 8] = tables();

#[allow(clippy::indexing_slicing, reason = "evaluated at compile time, where a panic is an error")]
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (CASTAGNOLI * (crc & 1));
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

fn entry(table: &[u32; 256], byte: u32) -> u32 {
    table.get((byte & 0xff) as usize).copied().unwrap_or(0)
}

/// Continues a CRC-32C over `bytes`.
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    let [t0, t1, t2, t3, t4, t5, t6, t7] = &TABLES;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut crc = seed;
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        let (low, high) = (word as u32, (word >> 32) as u32);
        crc = entry(t7, low) ^ entry(t6, low >> 8) ^ entry(t5, low >> 16) ^ entry(t4, low >> 24);
        crc ^= entry(t3, high) ^ entry(t2, high >> 8) ^ entry(t1, high >> 16);
        crc ^= entry(t0, high >> 24);
    }
    rest.iter().fold(crc, |crc, byte| (crc >> 8) ^ entry(t0, crc ^ u32::from(*byte)))
}

/// Continues a CRC-16 over `bytes`.
pub(crate) fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| (crc >> 1) ^ (ANSI * (crc & 1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_catalogue_come_out() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
        assert_eq!(crc16(0, b"123456789"), 0xbb3d);
    }

    #[test]
    fn a_sum_continued_is_the_sum_of_the_whole() {
        let bytes: Vec<u8> = (0..100).collect();
        for middle in 0..100 {
            let (a, b) = bytes.split_at(middle);
            assert_eq!(crc32c(crc32c(!0, a), b), crc32c(!0, &bytes));
        }
    }
}
