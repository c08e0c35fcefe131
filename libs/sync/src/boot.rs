//! [`BootCell`]: a value that boot writes once, before other processors run.
use core::cell::UnsafeCell;

/// A cell that boot writes once, before other processors run.
#[derive(Debug)]
pub struct BootCell<T>(UnsafeCell<Option<T>>);

// SAFETY: written by `set` only, once, while one processor runs; only read after.
unsafe impl<T: Sync> Sync for BootCell<T> {}

impl<T> BootCell<T> {
    /// Makes a cell that is not written yet.
    #[expect(clippy::new_without_default, reason = "it stands in a static")]
    pub const fn new() -> BootCell<T> {
        BootCell(UnsafeCell::new(None))
    }

    /// Writes the value.
    ///
    /// # Safety
    /// Call it once, while one processor runs and no reference from [`BootCell::get`] exists.
    pub unsafe fn set(&self, value: T) {
        // SAFETY: as the caller says.
        unsafe { *self.0.get() = Some(value) };
    }

    /// Returns the value; `None` if it is not written yet.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: `set`'s caller says that nobody writes while this is borrowed.
        unsafe { &*self.0.get() }.as_ref()
    }
}
