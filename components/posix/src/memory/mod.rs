//! The address spaces of programs.
use alloc::sync::Arc;

/// An address space.
pub struct AddressSpace;

impl AddressSpace {
    /// The space of a process that has none: every access is `EFAULT`.
    pub fn absent() -> Arc<AddressSpace> {
        Arc::new(AddressSpace)
    }
}
