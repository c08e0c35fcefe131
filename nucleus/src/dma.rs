//! Shared memory: physically contiguous frames that a device and a driver, or two components, share.
//!
//! References into a buffer are only to atomics, because the other side may write at any time.
use crate::{
    arch::{
        boot::phys_to_virt,
        iommu::{Access, Window},
    },
    memory::{NoMemory, charge::Charge, frames},
    spin::{PreemptLock, SpinLock},
};
use ::calls::Quota;
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::{iter::repeat_n, sync::atomic::AtomicU64};

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

/// The memory that a domain's devices reach, as clients of the domain lend to it.
#[derive(Clone, Debug, Default)]
pub struct Lending {
    /// The window; `None` without an IOMMU.
    pub window: Option<Arc<Window>>,
    late: Arc<Late>,
}

impl Lending {
    /// Makes the object for a domain's window.
    pub fn new(window: Option<Arc<Window>>) -> Lending {
        Lending { window, late: Arc::default() }
    }
}

/// Frames that were lent without an IOMMU by a client that has ended. The device may reach them until its domain has ended.
#[derive(Debug)]
struct Late(SpinLock<Vec<u32>>);

impl Default for Late {
    fn default() -> Self {
        Late(SpinLock::new(class!("nucleus.late_loans"), Vec::new()))
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        frames::release_all(core::mem::take(&mut *self.0.lock()));
    }
}

/// A client's loans to devices. When this is dropped they are taken back.
#[derive(Debug)]
pub struct Loans {
    /// The memory of the devices.
    pub to: Lending,
    /// Number of loans of each frame that is lent.
    frames: PreemptLock<BTreeMap<u32, u32>>,
}

impl Loans {
    /// Makes an empty list of loans.
    pub fn new(to: Lending) -> Loans {
        Loans { to, frames: PreemptLock::new(class!("nucleus.loans"), BTreeMap::new()) }
    }

    /// Lends each of `loans`.
    ///
    /// # Errors
    /// Those of [`Window::lend`].
    pub fn lend<I>(&self, loans: I) -> Result<(), NoMemory>
    where
        I: Iterator<Item = (u32, Access)> + Clone,
    {
        let mut frames = self.frames.lock();
        match &self.to.window {
            Some(window) => window.lend(loans.clone())?,
            None => loans.clone().for_each(|(frame, _)| frames::retain(frame)),
        }
        loans.for_each(|(frame, _)| *frames.entry(frame).or_default() += 1);
        Ok(())
    }

    /// Takes back one loan of each of `returned`; those that are not lent are left out.
    pub fn take_back(&self, returned: &mut [u32]) {
        let mut frames = self.frames.lock();
        let mut count = 0;
        for index in 0..returned.len() {
            let frame = returned[index];
            let Some(loans) = frames.get_mut(&frame) else { continue };
            *loans -= 1;
            if *loans == 0 {
                frames.remove(&frame);
            }
            returned[count] = frame;
            count += 1;
        }
        self.release(returned[..count].iter().copied());
    }

    /// Takes back all loans, of which the driver says that its devices have none.
    pub fn take_back_all(&self) {
        let lent = core::mem::take(&mut *self.frames.lock());
        self.release(each(&lent));
    }

    fn release(&self, returned: impl Iterator<Item = u32> + Clone) {
        match &self.to.window {
            Some(window) => window.take_back(returned),
            None => _ = frames::release_all(returned),
        }
    }
}

fn each(loans: &BTreeMap<u32, u32>) -> impl Iterator<Item = u32> + Clone {
    loans.iter().flat_map(|(&frame, &loans)| repeat_n(frame, loans as usize))
}

impl Drop for Loans {
    fn drop(&mut self) {
        match &self.to.window {
            Some(_) => self.take_back_all(),
            None => self.to.late.0.lock().extend(each(&self.frames.lock())),
        }
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
