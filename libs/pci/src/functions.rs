//! The functions of a machine and their owners: each has one owner at a time.
use crate::Function;
use alloc::vec::Vec;
use program::DeviceError;

/// The functions found, and which of them are taken.
#[derive(Debug)]
pub struct Functions {
    found: Vec<Function>,
    /// Addresses of the functions that have an owner.
    taken: Vec<u16>,
}

impl Functions {
    /// Makes the table of the functions `found`, which have no owners.
    pub const fn new(found: Vec<Function>) -> Functions {
        Functions { found, taken: Vec::new() }
    }
    /// Returns all functions.
    pub fn all(&self) -> &[Function] {
        &self.found
    }
    /// Returns the function at `address`.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`].
    pub fn find(&self, address: u16) -> Result<Function, DeviceError> {
        let found = self.found.iter().find(|function| function.address == address);
        found.copied().ok_or(DeviceError::NotFound)
    }
    /// Takes the function at `address`.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] if there is none, `Refused` if it has an owner.
    pub fn take(&mut self, address: u16) -> Result<Function, DeviceError> {
        let function = self.find(address)?;
        if self.taken.contains(&address) {
            return Err(DeviceError::Refused);
        }
        self.taken.push(address);
        Ok(function)
    }
    /// Gives the function at `address` back.
    pub fn give_back(&mut self, address: u16) {
        self.taken.retain(|&taken| taken != address);
    }
}

impl Function {
    /// Returns the physical address and the size of memory BAR `index`, in bytes.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] if it is empty or an I/O BAR.
    pub fn bar(&self, index: u8) -> Result<(u64, u64), DeviceError> {
        let bar = self.bars.get(usize::from(index)).filter(|(_, bytes)| *bytes > 0);
        bar.copied().ok_or(DeviceError::NotFound)
    }
}
