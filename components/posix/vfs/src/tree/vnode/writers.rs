//! The descriptions that have a vnode open, and the programs that keep it from being written.
use super::Vnode;
use crate::base::errno::Errno;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

impl Vnode {
    /// Counts a description open for writing, until [`Vnode::end_write`].
    ///
    /// # Errors
    /// `ETXTBSY` while it is being executed.
    pub(crate) fn begin_write(&self) -> Result<(), Errno> {
        let more = |writers: i32| (writers >= 0).then_some(writers + 1);
        match self.writers.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(0) => {
                self.instance.written().fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(_) => Err(Errno::ETXTBSY),
        }
    }
    pub(crate) fn end_write(&self) {
        if self.writers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.instance.written().fetch_sub(1, Ordering::AcqRel);
        }
    }
    /// Counts a description that leaves traces, until [`Vnode::end_use`].
    #[inline]
    pub(crate) fn begin_use(&self) {
        self.uses.fetch_add(1, Ordering::Relaxed);
    }
    /// Returns whether it was the last use.
    #[inline]
    pub(crate) fn end_use(&self) -> bool {
        self.uses.fetch_sub(1, Ordering::AcqRel) == 1
    }
    /// Returns whether there are descriptions that leave traces.
    pub(crate) fn is_seen_in_use(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }
    /// Forbids opening it for writing until the returned guard is dropped (for a program being executed).
    ///
    /// # Errors
    /// `ETXTBSY` while somebody has it open for writing.
    pub fn deny_write(self: &Arc<Self>) -> Result<DenyWrite, Errno> {
        let less = |writers: i32| (writers <= 0).then_some(writers - 1);
        match self.writers.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
            Ok(_) => Ok(DenyWrite { vnode: self.clone() }),
            Err(_) => Err(Errno::ETXTBSY),
        }
    }
}

/// While this guard exists, opening the vnode for writing fails with `ETXTBSY`.
pub struct DenyWrite {
    vnode: Arc<Vnode>,
}

impl Drop for DenyWrite {
    fn drop(&mut self) {
        self.vnode.writers.fetch_add(1, Ordering::AcqRel);
    }
}
