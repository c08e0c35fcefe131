//! The common part of PCI and MMIO: the registers of a device, its interrupts, its doorbells.
use crate::{Error, window::RegisterWindow};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::*};
use rt::{device::Interrupt, thread::Woken, time::Instant};

/// The addresses of a queue's three areas, as the device sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueAddresses {
    pub(crate) descriptors: u64,
    pub(crate) driver: u64,
    pub(crate) device: u64,
}

/// A device's registers.
pub(crate) trait Transport: Send + Sync {
    fn device_features(&self) -> u64;
    fn set_driver_features(&self, features: u64);
    fn status(&self) -> u8;
    fn set_status(&self, status: u8);
    /// Returns a number that changes when the configuration does.
    fn config_generation(&self) -> u32;
    fn config_read8(&self, offset: usize) -> u8;
    /// Returns the most entries of the queue; zero if there is no such queue.
    fn queue_size_max(&self, queue: u16) -> u16;
    /// Gives the queue to the device, with its interrupts at vector `vector`. Returns its doorbell.
    fn enable_queue(
        &self,
        queue: u16,
        size: u16,
        addresses: QueueAddresses,
        vector: u16,
    ) -> Result<Doorbell, Error>;
    /// Opens up to `wanted` interrupts; at least one. Vector 0 also reports configuration changes.
    fn open_vectors(&self, wanted: u16) -> Result<Vec<Vector>, Error>;
}

/// The register that tells the device of new chains in a queue.
#[derive(Debug)]
pub(crate) struct Doorbell {
    pub(crate) window: RegisterWindow,
    pub(crate) offset: usize,
    pub(crate) queue: u16,
    pub(crate) width: DoorbellWidth,
}

/// The width of the doorbell register: a word on PCI, a long on MMIO.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DoorbellWidth {
    Word,
    Long,
}

impl Doorbell {
    pub(crate) fn ring(&self) {
        match self.width {
            DoorbellWidth::Word => self.window.write16(self.offset, self.queue),
            DoorbellWidth::Long => self.window.write32(self.offset, u32::from(self.queue)),
        }
    }
}

/// An interrupt of the device, for which one thread waits.
#[derive(Debug)]
pub struct Vector {
    pub(crate) interrupt: Interrupt,
    /// On MMIO: the registers with interrupt status and acknowledgement.
    pub(crate) line: Option<RegisterWindow>,
    /// On MMIO: an interrupt said that the configuration changed.
    is_changed: AtomicBool,
}

/// On MMIO: offset of the interrupt status (read); the acknowledgement (write) follows it.
pub(crate) const INTERRUPT_STATUS: usize = 0x60;
const INTERRUPT_ACKNOWLEDGE: usize = 0x64;
/// On MMIO: the cause of an interrupt for a change of the configuration.
const CONFIG_CHANGED: u32 = 2;

impl Vector {
    pub(crate) fn new(interrupt: Interrupt, line: Option<RegisterWindow>) -> Vector {
        Vector { interrupt, line, is_changed: AtomicBool::new(false) }
    }

    /// Returns whether the configuration may have changed since the last call. On PCI only the
    /// configuration itself tells.
    pub fn may_be_changed(&self) -> bool {
        self.line.is_none() || self.is_changed.swap(false, AcqRel)
    }

    /// Blocks until the device interrupts, until [`Vector::wake`], or until the deadline.
    pub fn wait(&self, deadline: Option<Instant>) -> Woken {
        let woken = self.interrupt.wait(deadline);
        if let Some(registers) = &self.line
            && woken != Woken::TimedOut
        {
            let causes = registers.read32(INTERRUPT_STATUS);
            if causes & CONFIG_CHANGED != 0 {
                self.is_changed.store(true, Release);
            }
            if causes != 0 {
                registers.write32(INTERRUPT_ACKNOWLEDGE, causes);
            }
            self.interrupt.acknowledge();
        }
        woken
    }

    /// Ends a wait under way or the next one.
    pub fn wake(&self) {
        self.interrupt.wake();
    }
}
