//! The PCI transport (section 4.1): structures found by vendor capabilities, interrupts by MSI-X.
//!
//! ```text
//! capability  0 id 9 | 1 next | 2 length | 3 type | 4 bar | 8 offset | 12 bytes | (notify) 16 multiplier
//! common      0 feature select, 4 features, 8 driver select, 12 driver features, 16 config vector,
//!             18 queues, 20 status, 21 generation, 22 queue select, 24 size, 26 vector, 28 enable,
//!             30 notify offset, 32 descriptors, 40 driver area, 48 device area
//! ```
use crate::{
    Error,
    transport::{Doorbell, DoorbellWidth, QueueAddresses, Transport, Vector},
    window::RegisterWindow,
};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use rt::device::{Mmio, PciDevice, PciFunction};

const VIRTIO_VENDOR: u16 = 0x1af4;
const CAPABILITY_VENDOR: u32 = 9;
/// The greatest number of entries of a list of capabilities (256 bytes, at least 4 each).
const MOST_CAPABILITIES: usize = 48;
const NO_VECTOR: u16 = 0xffff;

mod common {
    pub(super) const DEVICE_FEATURE_SELECT: usize = 0;
    pub(super) const DEVICE_FEATURE: usize = 4;
    pub(super) const DRIVER_FEATURE_SELECT: usize = 8;
    pub(super) const DRIVER_FEATURE: usize = 12;
    pub(super) const CONFIG_VECTOR: usize = 16;
    pub(super) const STATUS: usize = 20;
    pub(super) const GENERATION: usize = 21;
    pub(super) const QUEUE_SELECT: usize = 22;
    pub(super) const QUEUE_SIZE: usize = 24;
    pub(super) const QUEUE_VECTOR: usize = 26;
    pub(super) const QUEUE_ENABLE: usize = 28;
    pub(super) const QUEUE_NOTIFY_OFFSET: usize = 30;
    pub(super) const QUEUE_DESCRIPTORS: usize = 32;
    pub(super) const QUEUE_DRIVER: usize = 40;
    pub(super) const QUEUE_DEVICE: usize = 48;
    pub(super) const BYTES: usize = 56;
}

/// An opened transport.
pub(crate) struct PciTransport {
    pci: PciDevice,
    common: RegisterWindow,
    notify: RegisterWindow,
    notify_multiplier: usize,
    config: Option<RegisterWindow>,
}

/// Returns the device type of a virtio function.
pub fn device_kind(function: PciFunction) -> Option<u32> {
    if function.vendor != VIRTIO_VENDOR {
        return None;
    }
    match function.device {
        0x1000..0x1040 => Some(u32::from(function.subsystem)),
        0x1040..0x1080 => Some(u32::from(function.device - 0x1040)),
        _ => None,
    }
}

/// The place of a structure, from its capability.
struct StructurePlace {
    bar: u8,
    offset: usize,
    bytes: usize,
    notify_multiplier: usize,
}

fn read_place(pci: &PciDevice, at: u16) -> (u8, StructurePlace) {
    let read = |offset: u16, bytes| pci.read_config(at.saturating_add(offset), bytes);
    let place = StructurePlace {
        bar: read(4, 1) as u8,
        offset: read(8, 4) as usize,
        bytes: read(12, 4) as usize,
        notify_multiplier: read(16, 4) as usize,
    };
    (read(3, 1) as u8, place)
}

/// Returns the first structure of each type (1 common, 2 notify, 3 interrupt status, 4 device).
fn structures(pci: &PciDevice) -> BTreeMap<u8, StructurePlace> {
    let mut found = BTreeMap::new();
    let mut at = pci.read_config(0x34, 1) as u16 & 0xfc;
    for _ in 0..MOST_CAPABILITIES {
        if at < 0x40 {
            break;
        }
        if pci.read_config(at, 1) == CAPABILITY_VENDOR {
            let (kind, place) = read_place(pci, at);
            // A BAR number that is not valid must be ignored (6 and 7 are reserved).
            if place.bar < 6 {
                found.entry(kind).or_insert(place);
            }
        }
        at = pci.read_config(at + 1, 1) as u16 & 0xfc;
    }
    found
}

impl PciTransport {
    pub(crate) fn open(function: PciFunction) -> Result<PciTransport, Error> {
        let pci = PciDevice::open(function)?;
        let places = structures(&pci);
        let mut bars: BTreeMap<u8, Arc<Mmio>> = BTreeMap::new();
        let mut window = |kind| -> Result<Option<RegisterWindow>, Error> {
            let Some(place) = places.get(&kind) else { return Ok(None) };
            let region = match bars.get(&place.bar) {
                Some(region) => region.clone(),
                None => {
                    let region = Arc::new(pci.bar(place.bar)?);
                    bars.insert(place.bar, region.clone());
                    region
                }
            };
            Ok(RegisterWindow::new(region, place.offset, place.bytes))
        };
        let common = window(1)?.ok_or(Error::NotModern)?;
        let notify = window(2)?.ok_or(Error::NotModern)?;
        let config = window(4)?;
        let has_room = places.get(&1).is_some_and(|place| place.bytes >= common::BYTES);
        if !has_room {
            return Err(Error::NotModern);
        }
        let notify_multiplier = places.get(&2).map_or(0, |place| place.notify_multiplier);
        Ok(PciTransport { pci, common, notify, notify_multiplier, config })
    }

    fn select(&self, queue: u16) {
        self.common.write16(common::QUEUE_SELECT, queue);
    }
}

impl Transport for PciTransport {
    fn device_features(&self) -> u64 {
        let half = |select| {
            self.common.write32(common::DEVICE_FEATURE_SELECT, select);
            u64::from(self.common.read32(common::DEVICE_FEATURE))
        };
        half(0) | half(1) << 32
    }

    fn set_driver_features(&self, features: u64) {
        for select in [0, 1] {
            self.common.write32(common::DRIVER_FEATURE_SELECT, select);
            self.common.write32(common::DRIVER_FEATURE, (features >> (select * 32)) as u32);
        }
    }

    fn status(&self) -> u8 {
        self.common.read8(common::STATUS)
    }

    fn set_status(&self, status: u8) {
        self.common.write8(common::STATUS, status);
    }

    fn config_generation(&self) -> u32 {
        u32::from(self.common.read8(common::GENERATION))
    }

    fn config_read8(&self, offset: usize) -> u8 {
        self.config.as_ref().map_or(0, |config| config.read8(offset))
    }

    fn queue_size_max(&self, queue: u16) -> u16 {
        self.select(queue);
        self.common.read16(common::QUEUE_SIZE)
    }

    fn enable_queue(
        &self,
        queue: u16,
        size: u16,
        addresses: QueueAddresses,
        vector: u16,
    ) -> Result<Doorbell, Error> {
        self.select(queue);
        let registers = &self.common;
        registers.write16(common::QUEUE_SIZE, size);
        registers.write64(common::QUEUE_DESCRIPTORS, addresses.descriptors);
        registers.write64(common::QUEUE_DRIVER, addresses.driver);
        registers.write64(common::QUEUE_DEVICE, addresses.device);
        registers.write16(common::QUEUE_VECTOR, vector);
        if registers.read16(common::QUEUE_VECTOR) == NO_VECTOR {
            return Err(Error::Corrupt("the device has no room for an interrupt vector"));
        }
        let offset = usize::from(registers.read16(common::QUEUE_NOTIFY_OFFSET));
        registers.write16(common::QUEUE_ENABLE, 1);
        Ok(Doorbell {
            window: self.notify.clone(),
            offset: offset.saturating_mul(self.notify_multiplier),
            queue,
            width: DoorbellWidth::Word,
        })
    }

    fn open_vectors(&self, wanted: u16) -> Result<Vec<Vector>, Error> {
        let count = wanted.min(self.pci.msix_entries());
        if count == 0 {
            return Err(Error::NotModern);
        }
        // Queues share a vector if the machine has no more vectors.
        let open = |entry| Some(Vector::new(self.pci.msix(entry).ok()?, None));
        let vectors: Vec<Vector> = (0..count).map_while(open).collect();
        if vectors.is_empty() {
            return Err(Error::NoVector);
        }
        self.common.write16(common::CONFIG_VECTOR, 0);
        Ok(vectors)
    }
}
