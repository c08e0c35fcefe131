//! The features of the processor that CPUID reports.
//!
//! The processor is given as a function from leaf and subleaf to eax, ebx, ecx and edx. Source: Intel SDM volume
//! 2, CPUID; volume 3, 2.5 for CR4.

/// The features that the nucleus uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Supervisor mode may not execute user pages.
    pub has_smep: bool,
    /// Supervisor mode may access user pages only after `stac`.
    pub has_smap: bool,
    /// User mode may not read descriptor tables.
    pub has_umip: bool,
    /// User mode may set its segment bases.
    pub has_fsgsbase: bool,
    /// The processor has `xsave`.
    pub has_xsave: bool,
    /// The processor has `rdrand`.
    pub has_rdrand: bool,
    /// The processor has `rdseed`.
    pub has_rdseed: bool,
    /// The local APIC timer fires at a time-stamp.
    pub has_tsc_deadline: bool,
    /// The machine is a virtual one.
    pub has_hypervisor: bool,
    /// User mode may read the number of its processor (`rdtscp`).
    pub has_rdtscp: bool,
}

impl Features {
    /// Reads the features from the processor.
    pub fn of(cpuid: impl Fn(u32, u32) -> [u32; 4]) -> Features {
        let [highest, ..] = cpuid(0, 0);
        let [_, _, one_c, _] = cpuid(1, 0);
        let [_, seven_b, seven_c, _] = if highest >= 7 { cpuid(7, 0) } else { [0; 4] };
        let [.., extended_d] = cpuid(0x8000_0001, 0);
        let is_set = |word: u32, bit: u32| word >> bit & 1 != 0;
        Features {
            has_smep: is_set(seven_b, 7),
            has_smap: is_set(seven_b, 20),
            has_umip: is_set(seven_c, 2),
            has_fsgsbase: is_set(seven_b, 0),
            has_xsave: is_set(one_c, 26),
            has_rdrand: is_set(one_c, 30),
            has_rdseed: is_set(seven_b, 18),
            has_tsc_deadline: is_set(one_c, 24),
            has_hypervisor: is_set(one_c, 31),
            has_rdtscp: is_set(extended_d, 27),
        }
    }

    /// Returns the bits of CR4 to set: machine checks, global pages, SSE and its exceptions, and those of present
    /// features.
    pub fn cr4(&self) -> u64 {
        const ALWAYS: u64 = 1 << 6 | 1 << 7 | 1 << 9 | 1 << 10;
        let bit = |has: bool, bit: u32| u64::from(has) << bit;
        ALWAYS
            | bit(self.has_umip, 11)
            | bit(self.has_fsgsbase, 16)
            | bit(self.has_xsave, 18)
            | bit(self.has_smep, 20)
            | bit(self.has_smap, 21)
    }
}

/// Returns the rate of the time-stamp counter, if the processor (leaf 0x15) or a hypervisor (leaf 0x40000010)
/// reports it.
pub fn counter_hz(cpuid: impl Fn(u32, u32) -> [u32; 4]) -> Option<u64> {
    if cpuid(0, 0)[0] >= 0x15 {
        let [denominator, numerator, crystal_hz, _] = cpuid(0x15, 0);
        if denominator != 0 && numerator != 0 && crystal_hz != 0 {
            return Some(u64::from(crystal_hz) * u64::from(numerator) / u64::from(denominator));
        }
    }
    if Features::of(&cpuid).has_hypervisor && cpuid(0x4000_0000, 0)[0] >= 0x4000_0010 {
        let [khz, ..] = cpuid(0x4000_0010, 0);
        return (khz != 0).then(|| u64::from(khz) * 1000);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_has_its_bit() {
        let all = |_, _| [7, u32::MAX, u32::MAX, u32::MAX];
        let none = |_, _| [7, 0, 0, 0];
        assert_eq!(Features::of(none), Features::default());
        // PGE 7, OSFXSR 9, OSXMMEXCPT 10, UMIP 11, FSGSBASE 16, OSXSAVE 18, SMEP 20, SMAP 21.
        assert_eq!(Features::of(all).cr4(), 0x35_0ec0);
        assert_eq!(Features::default().cr4(), 0x6c0);
        let umip = |leaf, _| [7, 0, if leaf == 7 { 1 << 2 } else { 0 }, 0];
        assert_eq!(Features::of(umip), Features { has_umip: true, ..Features::default() });
        let xsave = |leaf, _| [7, 0, if leaf == 1 { 1 << 26 } else { 0 }, 0];
        assert_eq!(Features::of(xsave), Features { has_xsave: true, ..Features::default() });
    }

    #[test]
    fn an_old_processor_has_no_leaf_7() {
        let old = |leaf, _| if leaf == 7 { [u32::MAX; 4] } else { [6, 0, 0, 0] };
        assert_eq!(Features::of(old), Features::default());
    }

    #[test]
    fn the_crystal_tells_the_rate_before_the_hypervisor() {
        // The crystal of 24 MHz times 176 / 2 gives 2112 MHz.
        let intel = |leaf, _| match leaf {
            0 => [0x16, 0, 0, 0],
            0x15 => [2, 176, 24_000_000, 0],
            _ => [0; 4],
        };
        assert_eq!(counter_hz(intel), Some(2_112_000_000));
        let guest = |leaf, _| match leaf {
            0 => [0xd, 0, 0, 0],
            1 => [0, 0, 1 << 31, 0],
            0x4000_0000 => [0x4000_0010, 0, 0, 0],
            0x4000_0010 => [2_500_000, 0, 0, 0],
            _ => [0; 4],
        };
        assert_eq!(counter_hz(guest), Some(2_500_000_000));
        assert_eq!(counter_hz(|_, _| [0; 4]), None);
    }
}
