//! A part of a device's registers, with checked bounds.
use alloc::sync::Arc;
use rt::device::Mmio;

/// Registers from `start` of a mapped region. A load beyond `bytes` reads all ones, and a store there
/// has no effect.
#[derive(Clone, Debug)]
pub(crate) struct RegisterWindow {
    region: Arc<Mmio>,
    start: usize,
    bytes: usize,
}

impl RegisterWindow {
    /// Returns the part, if it lies inside the region.
    pub(crate) fn new(region: Arc<Mmio>, start: usize, bytes: usize) -> Option<RegisterWindow> {
        let end = start.checked_add(bytes)?;
        (end <= region.bytes()).then_some(RegisterWindow { region, start, bytes })
    }

    /// Returns the offset in the region, if an access of `width` bytes lies inside.
    fn at(&self, offset: usize, width: usize) -> Option<usize> {
        let end = offset.checked_add(width)?;
        (end <= self.bytes).then_some(self.start + offset)
    }

    pub(crate) fn read8(&self, offset: usize) -> u8 {
        self.at(offset, 1).map_or(u8::MAX, |at| self.region.read8(at))
    }

    pub(crate) fn read16(&self, offset: usize) -> u16 {
        self.at(offset, 2).map_or(u16::MAX, |at| self.region.read16(at))
    }

    pub(crate) fn read32(&self, offset: usize) -> u32 {
        self.at(offset, 4).map_or(u32::MAX, |at| self.region.read32(at))
    }

    pub(crate) fn write8(&self, offset: usize, value: u8) {
        if let Some(at) = self.at(offset, 1) {
            self.region.write8(at, value);
        }
    }

    pub(crate) fn write16(&self, offset: usize, value: u16) {
        if let Some(at) = self.at(offset, 2) {
            self.region.write16(at, value);
        }
    }

    pub(crate) fn write32(&self, offset: usize, value: u32) {
        if let Some(at) = self.at(offset, 4) {
            self.region.write32(at, value);
        }
    }

    /// Writes a 64-bit register as two longs, the low one first (section 4.1.3.1).
    pub(crate) fn write64(&self, offset: usize, value: u64) {
        self.write32(offset, value as u32);
        self.write32(offset + 4, (value >> 32) as u32);
    }
}
