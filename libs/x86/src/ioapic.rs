//! The I/O APIC: registers and redirection entries.
//!
//! Source: Intel 82093AA data sheet, 3.0.

/// Offset of the register that selects another.
pub const SELECT: usize = 0x00;
/// Offset of the register that was selected.
pub const DATA: usize = 0x10;
/// Register: version, and in bits 16 to 23 the highest line.
pub const VERSION: u32 = 1;
/// A redirection entry that delivers nothing.
pub const MASKED: u32 = 1 << 16;

/// Returns the register of the low half of line `line`'s redirection entry. The high half, with the destination, is the
/// next register.
pub const fn entry(line: u32) -> u32 {
    0x10 + 2 * line
}

/// Returns the number of lines of a controller, from its version register.
pub const fn lines(version: u32) -> u32 {
    (version >> 16 & 0xff) + 1
}

/// The form of a line's signal.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// The line is level-triggered, not edge-triggered.
    pub is_level: bool,
    /// The line is active when it is low.
    pub is_active_low: bool,
}

/// Returns the low half of a redirection entry: fixed delivery of `vector`, not masked.
pub const fn redirection(vector: u8, signal: Signal) -> u32 {
    vector as u32 | (signal.is_active_low as u32) << 13 | (signal.is_level as u32) << 15
}

/// Returns the high half for delivery to the local APIC `destination`.
pub const fn to(destination: u32) -> u32 {
    destination << 24
}

/// Returns the high half for an IOMMU that remaps interrupts; its entry with the number of the vector has the destination
/// (VT-d 3.4, 5.1.5.1).
pub const fn remapped(vector: u8) -> u32 {
    (vector as u32) << 17 | 1 << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_lines_are_the_data_sheets() {
        // IOAPICVER of the 82093AA: version 0x11, 24 entries; IOREDTBL23 is at 0x3e.
        assert_eq!(lines(0x0017_0011), 24);
        assert_eq!(entry(23), 0x3e);
    }

    #[test]
    fn a_remapped_entry_names_the_entry_and_its_format() {
        assert_eq!(remapped(0x31), 0x31 << (49 - 32) | 1 << (48 - 32));
        assert_eq!(to(5), 5 << (56 - 32));
    }

    #[test]
    fn polarity_and_trigger_are_bits_13_and_15() {
        let entry = |is_level, is_active_low| redirection(0x31, Signal { is_level, is_active_low });
        assert_eq!(entry(false, false), 0x31);
        assert_eq!(entry(false, true), 0x2031);
        assert_eq!(entry(true, false), 0x8031);
        assert_eq!(entry(true, true) & MASKED, 0);
    }
}
