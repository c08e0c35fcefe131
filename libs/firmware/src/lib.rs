//! The information of firmware and boot loader for the nucleus: start information, parameters, ACPI tables, and the
//! symbol table that the build puts behind the image.
//!
//! The parsers are pure and read bytes of physical memory ([`Memory`]), which may hold anything: a parser skips
//! malformed parts and never reads outside its input. They use no heap, because they run before there is one.
#![no_std]
#![forbid(unsafe_code)]

pub mod acpi;
pub mod boot;
mod list;
pub mod parameters;
pub mod symbols;
#[cfg(test)]
mod tests;

pub use list::List;

/// Access to physical memory: returns the `length` bytes at an address, `None` if they cannot be read.
pub type Memory<'a> = &'a dyn Fn(u64, usize) -> Option<&'a [u8]>;

/// Little-endian numbers in bytes. Reads outside the bytes return zero.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn get<const N: usize>(&self, offset: usize) -> [u8; N] {
        let bytes = self.0.get(offset..).and_then(|rest| rest.first_chunk());
        bytes.copied().unwrap_or([0; N])
    }
    fn u8(&self, offset: usize) -> u8 {
        self.get::<1>(offset)[0]
    }
    fn u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.get(offset))
    }
    fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.get(offset))
    }
    fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.get(offset))
    }
}
