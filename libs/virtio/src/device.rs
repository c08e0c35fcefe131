//! Finding and opening a device, and negotiating its features (section 3.1).
use crate::{
    Error, feature,
    mmio::{self, MmioTransport},
    pci::{self, PciTransport},
    queue::{Notification, Queue},
    transport::{Transport, Vector},
};
use alloc::{boxed::Box, vec::Vec};
use rt::device::{DmaBuffer, MmioDevice, PciFunction, pci_functions, virtio_mmio_devices};

mod status {
    pub(super) const ACKNOWLEDGE: u8 = 1;
    pub(super) const DRIVER: u8 = 2;
    pub(super) const DRIVER_OK: u8 = 4;
    pub(super) const FEATURES_OK: u8 = 8;
}

/// Number of times that a register is read again for an answer that comes at once on a working
/// device.
const PATIENCE: usize = 100_000;
/// Number of times that the configuration is read again because it changed meanwhile.
const CONFIG_TRIES: usize = 16;

/// A virtio device that was found and is not yet opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// A device on PCI.
    Pci(PciFunction),
    /// A device on its own page of registers.
    Mmio(MmioDevice),
}

impl core::fmt::Display for Candidate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Candidate::Pci(function) => write!(f, "PCI {}", function.address),
            Candidate::Mmio(device) => write!(f, "MMIO {:#x}", device.base),
        }
    }
}

/// Returns every device of type `kind` (see [`crate::kind`]), PCI first, each bus in address order.
pub fn candidates(kind: u32) -> Vec<Candidate> {
    let on_pci = pci_functions()
        .into_iter()
        .filter(|function| pci::device_kind(*function) == Some(kind))
        .map(Candidate::Pci);
    let on_mmio = virtio_mmio_devices()
        .into_iter()
        .filter(|device| mmio::device_kind(*device) == Some(kind))
        .map(Candidate::Mmio);
    on_pci.chain(on_mmio).collect()
}

/// The layout of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlan {
    /// Number of the queue.
    pub index: u16,
    /// Entries wanted; the device may have fewer.
    pub size: u16,
    /// The greatest number of buffers of a chain in an indirect table; 0 for no such tables.
    pub indirect: u16,
    /// The vector of the queue's interrupts.
    pub vector: u16,
}

/// An opened device; reset when dropped.
pub struct Device {
    transport: Box<dyn Transport>,
    features: u64,
}

impl Device {
    /// Opens and resets a device and negotiates the features: those of `wanted` that it offers,
    /// with the ring features and VERSION_1.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(candidate: Candidate, wanted: u64) -> Result<Device, Error> {
        Device::open_choosing(candidate, |_| wanted)
    }

    /// Opens a device as [`Device::open`] does. `choose` returns the wanted ones of the offered
    /// features, if some need others.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open_choosing(
        candidate: Candidate,
        choose: impl FnOnce(u64) -> u64,
    ) -> Result<Device, Error> {
        let transport: Box<dyn Transport> = match candidate {
            Candidate::Pci(function) => Box::new(PciTransport::open(function)?),
            Candidate::Mmio(device) => Box::new(MmioTransport::open(device)?),
        };
        let mut device = Device { transport, features: 0 };
        if !device.reset() {
            return Err(Error::Stuck);
        }
        device.negotiate(choose)?;
        Ok(device)
    }

    fn negotiate(&mut self, choose: impl FnOnce(u64) -> u64) -> Result<(), Error> {
        self.add_status(status::ACKNOWLEDGE);
        self.add_status(status::DRIVER);
        let ring = feature::INDIRECT | feature::EVENT_INDEX;
        let offered = self.transport.device_features();
        let any = choose(offered) | ring | feature::VERSION_1 | feature::ACCESS_PLATFORM;
        self.features = offered & any;
        if !self.has(feature::VERSION_1) {
            return Err(Error::NotModern);
        }
        self.transport.set_driver_features(self.features);
        self.add_status(status::FEATURES_OK);
        let is_agreed = self.transport.status() & status::FEATURES_OK != 0;
        if is_agreed { Ok(()) } else { Err(Error::Features) }
    }

    fn add_status(&self, bit: u8) {
        self.transport.set_status(self.transport.status() | bit);
    }

    /// Returns whether all of these features were negotiated.
    pub fn has(&self, features: u64) -> bool {
        self.features & features == features
    }

    /// Opens up to `wanted` interrupts; at least one. The first also reports configuration changes.
    ///
    /// # Errors
    /// [`Error`].
    pub fn vectors(&self, wanted: u16) -> Result<Vec<Vector>, Error> {
        self.transport.open_vectors(wanted)
    }

    /// Sets a queue up. `T` is the driver's data for each chain in flight.
    ///
    /// # Errors
    /// [`Error::NoQueue`], or memory was refused.
    pub fn queue<T>(&self, plan: QueuePlan) -> Result<Queue<T>, Error> {
        self.queue_in(plan, None)
    }

    /// Sets a queue up as [`Device::queue`] does, in `memory` if that is given; it is cleared.
    ///
    /// # Errors
    /// Those of [`Device::queue`], or the memory is too short.
    pub fn queue_in<T>(
        &self,
        plan: QueuePlan,
        memory: Option<DmaBuffer>,
    ) -> Result<Queue<T>, Error> {
        let most = self.transport.queue_size_max(plan.index);
        // Sizes are powers of two; another size that a device gives is rounded down.
        let size = plan.size.min(1 << most.checked_ilog2().ok_or(Error::NoQueue)?);
        let indirect = if self.has(feature::INDIRECT) { plan.indirect.min(size) } else { 0 };
        let has_index = self.has(feature::EVENT_INDEX);
        let notice = if has_index { Notification::ByIndex } else { Notification::ByFlag };
        let mut queue = Queue::new(size, indirect, notice, memory)?;
        let addresses = queue.addresses();
        let doorbell = self.transport.enable_queue(plan.index, size, addresses, plan.vector)?;
        queue.set_doorbell(doorbell);
        Ok(queue)
    }

    /// Lets the device work, after everything is set up.
    pub fn start(&self) {
        self.add_status(status::DRIVER_OK);
    }

    /// Stops the device. Returns `false` if it did not answer. Afterwards it accesses no memory.
    pub fn reset(&self) -> bool {
        self.transport.set_status(0);
        (0..PATIENCE).any(|_| self.transport.status() == 0)
    }

    /// Reads `N` bytes of configuration, all from one generation of it.
    pub fn config<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        for _ in 0..CONFIG_TRIES {
            let before = self.transport.config_generation();
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = self.transport.config_read8(offset.saturating_add(index));
            }
            if self.transport.config_generation() == before {
                break;
            }
        }
        bytes
    }
}

impl core::fmt::Debug for Device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Device").field("features", &self.features).finish_non_exhaustive()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.reset();
    }
}
