//! CRC-32C. Uses the processor's instruction if it has one, eight bytes at a time in ordinary registers; otherwise tables made
//! at compile time ("slicing by 8", Kounavis and Berry 2005). It costs no system call in any world. Source: Intel SDM volume 2,
//! CRC32; RFC 3720, 12.1.
use core::{
    arch::{asm, x86_64::__cpuid},
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// The Castagnoli polynomial, reflected.
const CASTAGNOLI: u32 = 0x82f6_3b78;
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

fn by_tables(seed: u32, bytes: &[u8]) -> u32 {
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

/// Bytes that one round of [`by_instruction`] takes.
const ROUND: usize = 64;

/// Computes the CRC by the processor's instruction, which it must [have](has_instruction).
fn by_instruction(seed: u32, bytes: &[u8]) -> u32 {
    let (rounds, rest) = bytes.as_chunks::<ROUND>();
    let (words, rest) = rest.as_chunks::<8>();
    let mut sum = u64::from(seed);
    for round in rounds {
        // SAFETY: reads the 64 bytes of the round; the caller knows the instruction.
        unsafe {
            asm!(
                "crc32 {sum}, qword ptr [{from}]",
                "crc32 {sum}, qword ptr [{from} + 8]",
                "crc32 {sum}, qword ptr [{from} + 16]",
                "crc32 {sum}, qword ptr [{from} + 24]",
                "crc32 {sum}, qword ptr [{from} + 32]",
                "crc32 {sum}, qword ptr [{from} + 40]",
                "crc32 {sum}, qword ptr [{from} + 48]",
                "crc32 {sum}, qword ptr [{from} + 56]",
                sum = inout(reg) sum,
                from = in(reg) round.as_ptr(),
                options(nostack, readonly, preserves_flags),
            );
        }
    }
    for word in words {
        let word = u64::from_le_bytes(*word);
        // SAFETY: registers only.
        unsafe {
            asm!("crc32 {sum}, {word}", sum = inout(reg) sum, word = in(reg) word, options(nostack, nomem, preserves_flags));
        }
    }
    let [t0, ..] = &TABLES;
    rest.iter().fold(sum as u32, |sum, byte| (sum >> 8) ^ entry(t0, sum ^ u32::from(*byte)))
}

/// Whether the processor has the instruction: `UNKNOWN` until it was asked.
static HAS_INSTRUCTION: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

#[cold]
fn find_out() -> u8 {
    const SSE_4_2: u32 = 1 << 20;
    let found = if __cpuid(1).ecx & SSE_4_2 == 0 { NO } else { YES };
    HAS_INSTRUCTION.store(found, Relaxed);
    found
}

#[inline]
fn has_instruction() -> bool {
    match HAS_INSTRUCTION.load(Relaxed) {
        UNKNOWN => find_out() == YES,
        known => known == YES,
    }
}

/// Continues a CRC-32C over `bytes`, without inversions.
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    if has_instruction() { by_instruction(seed, bytes) } else { by_tables(seed, bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_catalogue_come_out() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
        assert_eq!(!by_tables(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_sum_continued_is_the_sum_of_the_whole() {
        let bytes: Vec<u8> = (0..100).collect();
        for middle in 0..100 {
            let (a, b) = bytes.split_at(middle);
            assert_eq!(crc32c(crc32c(!0, a), b), crc32c(!0, &bytes));
        }
    }

    #[test]
    fn tables_and_the_instruction_agree_at_every_length() {
        let bytes: Vec<u8> = (0..300u32).map(|n| (n * n % 251) as u8).collect();
        for length in 0..bytes.len() {
            let part = &bytes[bytes.len() - length..];
            assert_eq!(crc32c(7, part), by_tables(7, part), "{length}");
        }
    }
}
