//! Shared memory: physically contiguous frames that a device and a driver, or two components, share.
//!
//! References into a buffer are only to atomics, because the other side may write at any time.
use crate::{
    arch::{
        boot::phys_to_virt,
        iommu::{Access, Window},
    },
    memory::{NoMemory, charge::Charge, frames},
};
use ::calls::Quota;
use alloc::sync::Arc;
use core::sync::atomic::AtomicU64;

const PAGE: usize = 4096;

/// A buffer; its memory is freed when it is dropped.
#[derive(Debug)]
pub struct DmaBuffer {
    physical: u64,
    pages: usize,
    loan: Option<Loan>,
    /// Charge to the domain that made the buffer.
    charge: Option<Charge>,
}

/// A buffer's frames, lent to a window until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Loan {
    window: Arc<Window>,
    physical: u64,
    pages: usize,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.window.take_back(frames_of(self.physical, self.pages));
    }
}

/// Returns the numbers of `pages` frames from `physical`.
fn frames_of(physical: u64, pages: usize) -> impl Iterator<Item = u32> + Clone {
    ((physical / PAGE as u64) as u32..).take(pages)
}

impl DmaBuffer {
    /// Allocates at least `bytes` bytes, zeroed.
    ///
    /// # Errors
    /// [`NoMemory`], also if no contiguous run is free.
    pub fn allocate(bytes: usize) -> Result<DmaBuffer, NoMemory> {
        let pages = bytes.max(1).div_ceil(PAGE);
        let first = frames::allocate_counted_run(pages).ok_or(NoMemory)?;
        let physical = u64::from(first) * PAGE as u64;
        let at = phys_to_virt(physical) as *mut u8;
        // SAFETY: `pages` frames from `physical` are ours and in the direct map.
        unsafe { at.write_bytes(0, pages * PAGE) };
        Ok(DmaBuffer { physical, pages, loan: None, charge: None })
    }

    /// Lends the buffer to `window`, for reading and writing.
    ///
    /// # Errors
    /// Those of [`Window::lend`].
    pub fn lend(&self, window: &Arc<Window>) -> Result<Loan, NoMemory> {
        window.lend(self.frames().map(|frame| (frame, Access::Both)))?;
        Ok(Loan { window: window.clone(), physical: self.physical, pages: self.pages })
    }

    /// Allocates like [`DmaBuffer::allocate`] and holds `charge` as long as the buffer lives.
    ///
    /// # Errors
    /// Those of [`DmaBuffer::allocate`].
    pub fn charged(bytes: usize, charge: Charge) -> Result<DmaBuffer, NoMemory> {
        let mut buffer = DmaBuffer::allocate(bytes)?;
        buffer.charge = Some(charge);
        Ok(buffer)
    }

    /// Returns whether the buffer is charged to `quota`.
    pub fn is_charged_to(&self, quota: &Arc<Quota>) -> bool {
        self.charge.as_ref().is_some_and(|charge| charge.is_to(quota))
    }

    /// Holds `loan` as long as the buffer lives.
    pub fn keep(&mut self, loan: Loan) {
        self.loan = Some(loan);
    }

    /// Returns the whole buffer as words.
    pub fn words(&self) -> &[AtomicU64] {
        let at = phys_to_virt(self.physical) as *const AtomicU64;
        // SAFETY: frames of ours in the direct map, aligned; atomics may be shared with anyone.
        unsafe { core::slice::from_raw_parts(at, self.pages * PAGE / 8) }
    }

    /// Returns the numbers of the buffer's frames.
    pub fn frames(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        frames_of(self.physical, self.pages)
    }

    /// Returns the physical address, which is also the device's.
    pub fn device_address(&self) -> u64 {
        self.physical
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> usize {
        self.pages * PAGE
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        drop(self.loan.take());
        // Frames to which others have references stay allocated for them.
        frames::release_run((self.physical / PAGE as u64) as u32, self.pages);
    }
}
