//! Kernel calls about memory: pages, regions, buffers for devices.
use super::{
    Domain,
    calls::Done,
    run::{Pinned, READ_WRITE},
};
use crate::{
    capability::{Capability, Region},
    dma::DmaBuffer,
    memory::{NoMemory, PAGE, charge::Charge, frames, space::Protection},
};
use ::calls::{Call, KEPT, Status};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering::Release;
use program::Registers;
use x86::paging::Entry;

/// A region that is mapped, and kept as long as it is: pages of the space borrow its frames.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) handle: u64,
    pub(super) start: u64,
    pub(super) region: Region,
    /// Pages charged for the mapping.
    pub(super) charged: usize,
}

impl Mapped {
    fn touches(&self, start: u64, end: u64) -> bool {
        start < self.start + self.region.bytes() as u64 && self.start < end
    }
}

impl Domain {
    /// Reserves address space for `pages` pages and an unmapped page behind them. Returns its start.
    pub(super) fn room(&self, pages: usize) -> u64 {
        self.room_at(pages, 0).unwrap_or_default()
    }

    /// Reserves room as [`Domain::room`] does, at a multiple of `alignment`, a power of two; or of a page, if that is 0.
    fn room_at(&self, pages: usize, alignment: u64) -> Result<u64, Status> {
        const ALIGNMENT_MAX: u64 = 1 << 21;
        let alignment = alignment.max(PAGE as u64);
        if !alignment.is_power_of_two() || alignment > ALIGNMENT_MAX {
            return Err(Status::Invalid);
        }
        let mut taken = self.taken.lock();
        let start = taken.next.next_multiple_of(alignment);
        taken.next = start + ((pages + 1) * PAGE) as u64;
        Ok(start)
    }

    pub(super) fn memory(&self, call: Call, registers: &mut Registers) -> Done {
        const PAGES_MAX: usize = 1 << 20;
        let bytes = if call == Call::Unmap { registers.rsi } else { registers.rdi };
        let pages = usize::try_from(bytes).map_err(|_| Status::Invalid)?.div_ceil(PAGE);
        if pages == 0 || pages > PAGES_MAX {
            return Err(Status::Invalid);
        }
        match call {
            Call::Unmap => {
                let start = registers.rdi;
                let end = start.checked_add((pages * PAGE) as u64).ok_or(Status::Invalid)?;
                if !start.is_multiple_of(PAGE as u64) || self.space.bytes_from(start) < end - start
                {
                    return Err(Status::Invalid);
                }
                // A mapped region is freed by its handle, to which its charge belongs.
                let mapped = self.mapped.lock();
                if mapped.iter().any(|region| region.touches(start, end)) {
                    return Err(Status::Invalid);
                }
                self.uncharge(self.unmap(start, pages));
                Ok(())
            }
            Call::Map => {
                let start = self.room_at(pages, registers.rsi)?;
                self.charge(pages)?;
                if self.space.map_zeroed(start, pages, READ_WRITE).is_err() {
                    let _ = self.space.unmap(start, start + (pages * PAGE) as u64);
                    self.uncharge(pages);
                    return Err(Status::NoMemory);
                }
                registers.rdi = start;
                Ok(())
            }
            _ => {
                let is_dma = call == Call::DmaAllocate;
                if is_dma && !self.grants.can_use_dma {
                    return Err(Status::Refused);
                }
                self.programs.give_back_retired();
                let charge = Charge::new(&self.quota, pages)?;
                let mut buffer = DmaBuffer::charged(pages * PAGE, charge)?;
                if let Some(window) = self.lending.window.as_ref().filter(|_| is_dma) {
                    buffer.keep(buffer.lend(window)?);
                }
                let device_address = buffer.device_address();
                let handle = self.grant(Capability::Region(Arc::new(buffer).into()))?;
                let mapped = self.map_region(handle);
                if mapped.is_err() {
                    // Memory whose mapping was refused is not kept.
                    self.close(handle)?;
                }
                let (start, _) = mapped?;
                registers.rdi = start;
                (registers.rsi, registers.rdx) =
                    if is_dma { (device_address, handle) } else { (handle, 0) };
                Ok(())
            }
        }
    }

    /// Unmaps the present pages of the `pages` pages from `start`. Returns their number.
    pub(super) fn unmap(&self, start: u64, pages: usize) -> usize {
        // A component's tables are never shared, so no memory is needed.
        let unmapped = self.space.unmap(start, start + (pages * PAGE) as u64).unwrap_or(0);
        self.unmapped.fetch_add(1, Release);
        unmapped
    }

    /// Maps the region that `handle` names, unless it is mapped. It is charged unless this domain made it. Returns its
    /// address and the region.
    fn map_region(&self, handle: u64) -> Result<(u64, Region), Status> {
        let mut mapped = self.mapped.lock();
        // A thread that takes the region back removes it from the table first and then looks here.
        let region = match self.held(handle)? {
            Capability::Region(region) => region,
            Capability::Window(_) => return Err(Status::Invalid),
            Capability::Lender(_) => return Err(Status::Unknown),
            _ => return Err(Status::NotFound),
        };
        if let Some(known) = mapped.iter().find(|known| known.handle == handle) {
            return Ok((known.start, region));
        }
        let list: Vec<u32> = region.frames().collect();
        // Programs may get pages of the domain's own regions.
        let is_own = region.is_charged_to(&self.quota) && !region.is_given();
        let charged = if region.is_charged_to(&self.quota) { 0 } else { list.len() };
        self.charge(charged)?;
        let start = self.room(list.len());
        let flags = Entry::allowing(if region.can_write { READ_WRITE } else { Protection::READ });
        let entered = if is_own && self.grants.can_run {
            self.space.enter(start, &list, flags | Entry::OF_REGION, frames::retain)
        } else {
            self.space.enter(start, &list, flags | Entry::BORROWED, |_| ())
        };
        match entered {
            Ok(_) => {
                mapped.push(Mapped { handle, start, region: region.clone(), charged });
                Ok((start, region))
            }
            Err(NoMemory) => {
                let _ = self.space.unmap(start, start + (list.len() * PAGE) as u64);
                self.uncharge(charged);
                Err(Status::NoMemory)
            }
        }
    }

    /// Pins the `bytes` bytes at `address`, which is aligned to 8, for as long as a thread lives. They are not in a region, which
    /// can be taken back.
    pub(super) fn pin_own(&self, address: u64, bytes: usize) -> Result<Pinned, Status> {
        // No region is mapped or unmapped meanwhile.
        let mapped = self.mapped.lock();
        let is_shared = |region: &Mapped| region.touches(address, address.saturating_add(1));
        if !address.is_multiple_of(8) || mapped.iter().any(is_shared) {
            return Err(Status::Invalid);
        }
        Pinned::new(self, address, bytes)
    }

    /// Lends the memory that outlives this domain to its devices, if `handle` names that.
    fn lend_kept(&self, handle: u64, buffer: &Region) -> Done {
        let is_kept = handle == KEPT && self.grants.can_use_dma && !buffer.is_given();
        let window = self.lending.window.as_ref().filter(|_| is_kept);
        if let Some(window) = window.filter(|_| self.taken.lock().kept.is_none()) {
            let loan = buffer.lend(window)?;
            self.taken.lock().kept = Some(loan);
        }
        Ok(())
    }

    pub(super) fn map_held(&self, handle: u64, registers: &mut Registers) -> Done {
        let (start, region) = self.map_region(handle)?;
        self.lend_kept(handle, &region)?;
        (registers.rdi, registers.rsi) = (start, region.bytes() as u64);
        registers.rdx =
            if handle == KEPT && self.grants.can_use_dma { region.device_address() } else { 0 };
        Ok(())
    }
}
