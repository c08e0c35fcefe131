//! [`Registration`]: the area that a task has registered.
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use vfs::Errno;

/// The registered area of a task, at first none. Only the task itself changes it, and its creator before it runs.
#[derive(Default)]
pub struct Registration {
    /// The address; 0 if there is none.
    address: AtomicU64,
    bytes: AtomicU32,
    signature: AtomicU32,
}

impl Registration {
    /// The address of the area; 0: there is none.
    #[inline]
    pub(super) fn address(&self) -> u64 {
        self.address.load(Relaxed)
    }
    /// Returns whether an area is registered.
    #[inline]
    pub fn is_there(&self) -> bool {
        self.address.load(Relaxed) != 0
    }
    /// Copies the registration of `other` (fork).
    pub fn copy(&self, other: &Registration) {
        self.set(other.address.load(Relaxed), other.bytes.load(Relaxed), other.signature());
    }
    /// Removes the registration (exec).
    pub fn end(&self) {
        if self.is_there() {
            rt::user::report_moves(false);
            self.set(0, 0, 0);
        }
    }
    pub(super) fn set(&self, address: u64, bytes: u32, signature: u32) {
        self.address.store(address, Relaxed);
        self.bytes.store(bytes, Relaxed);
        self.signature.store(signature, Relaxed);
    }
    pub(super) fn signature(&self) -> u32 {
        self.signature.load(Relaxed)
    }
    /// Checks that `address`, `bytes` and `signature` are those of the registration.
    pub(super) fn check(&self, address: u64, bytes: u32, signature: u32) -> Result<(), Errno> {
        if self.address.load(Relaxed) != address || self.bytes.load(Relaxed) != bytes {
            return Err(Errno::EINVAL);
        }
        if self.signature() == signature { Ok(()) } else { Err(Errno::EPERM) }
    }
}
