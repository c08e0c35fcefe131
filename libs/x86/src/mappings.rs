//! The mappings of device registers, which stay: a second request finds the first's.
use alloc::vec::Vec;

const PAGE_BYTES: u64 = 4096;

/// A mapping of whole pages.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    physical: u64,
    bytes: u64,
    at: u64,
}

impl Mapping {
    /// Makes a mapping of the pages that have the `bytes` bytes at `physical`. `map` maps them, given their physical address
    /// and number of bytes, and returns their virtual address.
    pub fn of(physical: u64, bytes: u64, map: impl FnOnce(u64, u64) -> u64) -> Mapping {
        let start = physical / PAGE_BYTES * PAGE_BYTES;
        let length = (physical + bytes).next_multiple_of(PAGE_BYTES) - start;
        Mapping { physical: start, bytes: length, at: map(start, length) }
    }

    /// Returns the virtual address of `physical`, which is mapped.
    pub fn address_of(&self, physical: u64) -> u64 {
        self.at + (physical - self.physical)
    }

    fn find(&self, physical: u64, bytes: u64) -> Option<u64> {
        let offset = physical.checked_sub(self.physical)?;
        (offset.checked_add(bytes)? <= self.bytes).then(|| self.address_of(physical))
    }
}

/// All mappings of device registers.
#[derive(Debug, Default)]
pub struct Mappings(Vec<Mapping>);

impl Mappings {
    /// Makes a set without mappings.
    pub const fn new() -> Mappings {
        Mappings(Vec::new())
    }

    /// Returns the virtual address of the `bytes` bytes at `physical`, if one mapping has them all.
    pub fn find(&self, physical: u64, bytes: u64) -> Option<u64> {
        self.0.iter().find_map(|one| one.find(physical, bytes))
    }

    /// Adds a mapping.
    pub fn add(&mut self, mapping: Mapping) {
        self.0.push(mapping);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_found_again() {
        let mut all = Mappings::new();
        all.add(Mapping::of(0xfee0_0000, 1, |start, bytes| {
            assert_eq!((start, bytes), (0xfee0_0000, 0x1000));
            0x20_0000
        }));
        all.add(Mapping::of(0xfebf_1f00, 0x200, |start, bytes| {
            assert_eq!((start, bytes), (0xfebf_1000, 0x2000));
            0x10_0000
        }));
        assert_eq!(all.find(0xfebf_1f00, 0x200), Some(0x10_0f00));
        assert_eq!(all.find(0xfee0_0020, 4), Some(0x20_0020));
        assert_eq!(all.find(0xfebf_1000, 0x2000), Some(0x10_0000));
        assert_eq!(all.find(0xfebf_1000, 0x2001), None);
        assert_eq!(all.find(0xfebf_0fff, 1), None);
        assert_eq!(all.find(0xfebf_1f00, u64::MAX), None);
    }
}
