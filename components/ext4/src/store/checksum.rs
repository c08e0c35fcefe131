//! The checksums of ext4: CRC-32C (`metadata_csum`) and CRC-16 (`uninit_bg`), continued from a seed
//! and without a final inversion, as the format wants them.
pub(crate) use rt::checksum::crc32c;

/// Polynomial of CRC-32, highest bit first.
const CRC32: u32 = 0x04c1_1db7;

/// Continues a CRC-32 that takes the highest bit of each byte first (journals with `journal_checksum`, v1).
pub(crate) fn crc32(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| (crc << 1) ^ (CRC32 * (crc >> 31)))
    })
}

/// Reflected polynomial x^16 + x^15 + x^2 + 1.
const ANSI: u16 = 0xa001;

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
        assert_eq!(
            !crc32c(!0, b"123456789"),
            0xe306_9283,
            "of the polynomial that the format wants"
        );
        assert_eq!(crc16(0, b"123456789"), 0xbb3d);
        assert_eq!(crc32(!0, b"123456789"), 0x0376_e6e7, "CRC-32/MPEG-2");
    }
}
