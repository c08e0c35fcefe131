//! The MMIO transport (section 4.2): one page of registers, and one interrupt line for all events.
use crate::{
    Error,
    transport::{Doorbell, DoorbellWidth, QueueAddresses, Transport, Vector},
    window::RegisterWindow,
};
use alloc::{sync::Arc, vec, vec::Vec};
use rt::device::{Interrupt, Mmio, MmioDevice};

const MAGIC: u32 = 0x7472_6976;
const MODERN: u32 = 2;

mod register {
    pub(super) const MAGIC: usize = 0x00;
    pub(super) const VERSION: usize = 0x04;
    pub(super) const DEVICE_ID: usize = 0x08;
    pub(super) const DEVICE_FEATURES: usize = 0x10;
    pub(super) const DEVICE_FEATURES_SELECT: usize = 0x14;
    pub(super) const DRIVER_FEATURES: usize = 0x20;
    pub(super) const DRIVER_FEATURES_SELECT: usize = 0x24;
    pub(super) const QUEUE_SELECT: usize = 0x30;
    pub(super) const QUEUE_SIZE_MAX: usize = 0x34;
    pub(super) const QUEUE_SIZE: usize = 0x38;
    pub(super) const QUEUE_READY: usize = 0x44;
    pub(super) const QUEUE_NOTIFY: usize = 0x50;
    pub(super) const STATUS: usize = 0x70;
    pub(super) const QUEUE_DESCRIPTORS: usize = 0x80;
    pub(super) const QUEUE_DRIVER: usize = 0x90;
    pub(super) const QUEUE_DEVICE: usize = 0xa0;
    pub(super) const CONFIG_GENERATION: usize = 0xfc;
    pub(super) const CONFIG: usize = 0x100;
}

/// An opened transport.
pub(crate) struct MmioTransport {
    device: MmioDevice,
    registers: RegisterWindow,
}

/// Returns the device type behind a transport; `None` if there is no (modern) device.
pub(crate) fn device_kind(device: MmioDevice) -> Option<u32> {
    let registers = open(device).ok()?;
    let kind = registers.read32(register::DEVICE_ID);
    if registers.read32(register::MAGIC) != MAGIC || kind == 0 {
        return None;
    }
    if registers.read32(register::VERSION) != MODERN {
        log::warn!("virtio-mmio at {:#x}: legacy device of type {kind} left alone", device.base);
        return None;
    }
    Some(kind)
}

fn open(device: MmioDevice) -> Result<RegisterWindow, Error> {
    let region = Arc::new(Mmio::open(device)?);
    let bytes = region.bytes();
    RegisterWindow::new(region, 0, bytes).ok_or(Error::NotModern)
}

impl MmioTransport {
    pub(crate) fn open(device: MmioDevice) -> Result<MmioTransport, Error> {
        Ok(MmioTransport { device, registers: open(device)? })
    }
}

impl Transport for MmioTransport {
    fn device_features(&self) -> u64 {
        let half = |select| {
            self.registers.write32(register::DEVICE_FEATURES_SELECT, select);
            u64::from(self.registers.read32(register::DEVICE_FEATURES))
        };
        half(0) | half(1) << 32
    }

    fn set_driver_features(&self, features: u64) {
        for select in [0, 1] {
            self.registers.write32(register::DRIVER_FEATURES_SELECT, select);
            self.registers.write32(register::DRIVER_FEATURES, (features >> (select * 32)) as u32);
        }
    }

    fn status(&self) -> u8 {
        self.registers.read32(register::STATUS) as u8
    }

    fn set_status(&self, status: u8) {
        self.registers.write32(register::STATUS, u32::from(status));
    }

    fn config_generation(&self) -> u32 {
        self.registers.read32(register::CONFIG_GENERATION)
    }

    fn config_read8(&self, offset: usize) -> u8 {
        self.registers.read8(register::CONFIG.saturating_add(offset))
    }

    fn queue_size_max(&self, queue: u16) -> u16 {
        self.registers.write32(register::QUEUE_SELECT, u32::from(queue));
        self.registers.read32(register::QUEUE_SIZE_MAX).min(1 << 15) as u16
    }

    fn enable_queue(
        &self,
        queue: u16,
        size: u16,
        addresses: QueueAddresses,
        _vector: u16,
    ) -> Result<Doorbell, Error> {
        let registers = &self.registers;
        registers.write32(register::QUEUE_SELECT, u32::from(queue));
        if registers.read32(register::QUEUE_READY) != 0 {
            return Err(Error::Corrupt("a queue is ready after reset"));
        }
        registers.write32(register::QUEUE_SIZE, u32::from(size));
        registers.write64(register::QUEUE_DESCRIPTORS, addresses.descriptors);
        registers.write64(register::QUEUE_DRIVER, addresses.driver);
        registers.write64(register::QUEUE_DEVICE, addresses.device);
        registers.write32(register::QUEUE_READY, 1);
        Ok(Doorbell {
            window: registers.clone(),
            offset: register::QUEUE_NOTIFY,
            queue,
            width: DoorbellWidth::Long,
        })
    }

    fn open_vectors(&self, _wanted: u16) -> Result<Vec<Vector>, Error> {
        let interrupt = Interrupt::open(self.device.interrupt)?;
        Ok(vec![Vector::new(interrupt, Some(self.registers.clone()))])
    }
}
