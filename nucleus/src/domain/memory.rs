//! Kernel calls about memory: pages, regions, buffers for devices.
use super::{Domain, calls::Done, run::READ_WRITE};
use crate::{
    capability::Capability,
    dma::DmaBuffer,
    memory::{NoMemory, PAGE},
};
use ::calls::{Call, KEPT, Status};
use alloc::{sync::Arc, vec::Vec};
use program::Registers;

impl Domain {
    /// Address space for `pages` pages and an unmapped one behind.
    pub(super) fn room(&self, pages: usize) -> u64 {
        let mut taken = self.taken.lock();
        let start = taken.next;
        taken.next += ((pages + 1) * PAGE) as u64;
        start
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
                if !start.is_multiple_of(PAGE as u64) || end > crate::memory::space::USER_END {
                    return Err(Status::Invalid);
                }
                self.uncharge(self.space.unmap(start, end));
                Ok(())
            }
            Call::Map => {
                self.charge(pages)?;
                let start = self.room(pages);
                if self.space.map_zeroed(start, pages, READ_WRITE).is_err() {
                    self.space.unmap(start, start + (pages * PAGE) as u64);
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
                let mut buffer = DmaBuffer::allocate(pages * PAGE)?;
                if let Some(window) = self.window.as_ref().filter(|_| is_dma) {
                    let loan = buffer.lend(window)?;
                    buffer.keep(loan);
                }
                let buffer = Arc::new(buffer);
                let device_address = buffer.device_address();
                let handle = self.grant(Capability::Region(buffer.clone()))?;
                let mapped = self.map_buffer(handle, &buffer);
                if mapped.is_err() {
                    // Memory that was not charged is not kept.
                    self.close(handle)?;
                }
                let start = mapped?;
                registers.rdi = start;
                (registers.rsi, registers.rdx) =
                    if is_dma { (device_address, handle) } else { (handle, 0) };
                Ok(())
            }
        }
    }

    /// Maps `buffer`, which `handle` names, charged; where.
    fn map_buffer(&self, handle: u64, buffer: &DmaBuffer) -> Result<u64, Status> {
        let frames: Vec<u32> = buffer.frames().collect();
        self.charge(frames.len())?;
        let start = self.room(frames.len());
        match self.space.map(start, &frames, READ_WRITE) {
            Ok(_) => {
                self.taken.lock().mapped.push((handle, start, frames.len()));
                Ok(start)
            }
            Err(NoMemory) => {
                self.space.unmap(start, start + (frames.len() * PAGE) as u64);
                self.uncharge(frames.len());
                Err(Status::NoMemory)
            }
        }
    }

    /// The memory that outlives this domain is for its devices too.
    fn lend_kept(&self, handle: u64, buffer: &DmaBuffer) -> Done {
        let window = self.window.as_ref().filter(|_| handle == KEPT && self.grants.can_use_dma);
        if let Some(window) = window {
            let loan = buffer.lend(window)?;
            self.taken.lock().kept = Some(loan);
        }
        Ok(())
    }

    pub(super) fn map_held(&self, handle: u64, registers: &mut Registers) -> Done {
        let Capability::Region(buffer) = self.held(handle)? else { return Err(Status::Refused) };
        let known = self.taken.lock().mapped.iter().find(|&&(of, ..)| of == handle).copied();
        registers.rdi = match known {
            Some((_, start, _)) => start,
            None => {
                self.lend_kept(handle, &buffer)?;
                self.map_buffer(handle, &buffer)?
            }
        };
        registers.rsi = buffer.bytes() as u64;
        registers.rdx =
            if handle == KEPT && self.grants.can_use_dma { buffer.device_address() } else { 0 };
        Ok(())
    }
}
