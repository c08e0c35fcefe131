//! The functions of a machine and who has them: each has one owner at a time.
use crate::Function;
use alloc::vec::Vec;
use program::DeviceError;

/// See the module's page.
#[derive(Debug)]
pub struct Functions {
    found: Vec<Function>,
    /// Addresses of those that somebody has.
    taken: Vec<u16>,
}

impl Functions {
    /// Those `found`; nobody has them.
    pub const fn new(found: Vec<Function>) -> Functions {
        Functions { found, taken: Vec::new() }
    }
    /// All of them.
    pub fn all(&self) -> &[Function] {
        &self.found
    }
    /// The one at `address`.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`].
    pub fn find(&self, address: u16) -> Result<Function, DeviceError> {
        let found = self.found.iter().find(|function| function.address == address);
        found.copied().ok_or(DeviceError::NotFound)
    }
    /// Takes the one at `address`.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where there is none, `Refused` where somebody has it.
    pub fn take(&mut self, address: u16) -> Result<Function, DeviceError> {
        let function = self.find(address)?;
        if self.taken.contains(&address) {
            return Err(DeviceError::Refused);
        }
        self.taken.push(address);
        Ok(function)
    }
    /// Gives it back.
    pub fn give_back(&mut self, address: u16) {
        self.taken.retain(|&taken| taken != address);
    }
}

impl Function {
    /// Physical address and bytes of memory BAR `index`.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where it is empty or of ports.
    pub fn bar(&self, index: u8) -> Result<(u64, u64), DeviceError> {
        let bar = self.bars.get(usize::from(index)).filter(|(_, bytes)| *bytes > 0);
        bar.copied().ok_or(DeviceError::NotFound)
    }
}
