//! [`StackSocket`]: the stack's part of an Internet socket.
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use rt::sync::Once;
use vfs::Errno;

/// The stack's socket behind an Internet socket: the first one, or another that takes IPv6 alone (IPV6_V6ONLY). Of the two, one is
/// in use. A call that changes the choice holds the socket's `control`.
pub(super) struct StackSocket<T: ?Sized> {
    first: Arc<T>,
    only_v6: Once<Arc<T>>,
    is_only_v6: AtomicBool,
}

impl<T: ?Sized> StackSocket<T> {
    pub(super) fn new(first: Arc<T>) -> StackSocket<T> {
        StackSocket { first, only_v6: Once::new(), is_only_v6: AtomicBool::new(false) }
    }
    /// Returns the socket in use.
    #[inline]
    pub(super) fn get(&self) -> &T {
        match self.only_v6.get() {
            Some(socket) if self.is_only_v6.load(Ordering::Relaxed) => socket,
            _ => &self.first,
        }
    }
    /// Returns the socket that is not in use, if there are two.
    pub(super) fn unused(&self) -> Option<&T> {
        let only_v6 = self.only_v6.get()?;
        Some(if self.is_only_v6.load(Ordering::Relaxed) { &self.first } else { only_v6 })
    }
    /// Has the first socket in use.
    pub(super) fn take_first(&self) {
        self.is_only_v6.store(false, Ordering::Relaxed);
    }
    /// Has the socket in use that takes IPv6 alone, which `open` makes the first time.
    ///
    /// # Errors
    /// Those of `open`.
    pub(super) fn take_only_v6(
        &self,
        open: impl FnOnce() -> Result<Arc<T>, Errno>,
    ) -> Result<(), Errno> {
        self.only_v6.get_or_try_init(open)?;
        self.is_only_v6.store(true, Ordering::Relaxed);
        Ok(())
    }
}
