//! A model behind PCI: configuration space with the vendor capabilities, and one BAR for all
//! structures.
//!
//! ```text
//! BAR 4   0x000 common | 0x100 notify (multiplier 4) | 0x200 interrupt status | 0x300 device
//! ```
use super::{Model, lock};
use rt::{
    device::{PciAddress, PciFunction},
    host::{DeviceRegisters, PciModel, Plugged, add_pci},
};
use std::sync::Arc;

const BAR: u8 = 4;
const BAR_BYTES: usize = 0x400;
const NOTIFY: usize = 0x100;
const CONFIG: usize = 0x300;

struct ConfigSpace([u8; 256]);

impl ConfigSpace {
    fn new() -> ConfigSpace {
        let mut space = ConfigSpace([0; 256]);
        space.0[0x34] = 0x40;
        space.capability(0x40, 0x50, (1, 0), 0x100);
        space.capability(0x50, 0x70, (2, NOTIFY as u32), 0x100);
        space.0[0x60] = 4;
        space.capability(0x70, 0, (4, CONFIG as u32), 0x100);
        space
    }

    fn capability(&mut self, at: usize, next: u8, (kind, offset): (u8, u32), bytes: u32) {
        self.0[at..at + 5].copy_from_slice(&[9, next, 20, kind, BAR]);
        self.0[at + 8..at + 12].copy_from_slice(&offset.to_le_bytes());
        self.0[at + 12..at + 16].copy_from_slice(&bytes.to_le_bytes());
    }
}

impl DeviceRegisters for ConfigSpace {
    fn read(&self, offset: usize, bytes: usize) -> u64 {
        let byte = |index: usize| u64::from(self.0.get(offset + index).copied().unwrap_or(0xff));
        (0..bytes).map(|index| byte(index) << (index * 8)).sum()
    }
    fn write(&self, _offset: usize, _bytes: usize, _value: u64) {}
}

struct Bar(Arc<Model>);

pub(super) fn plug(
    model: &Arc<Model>,
    address: PciAddress,
    vectors: u16,
) -> (PciFunction, Plugged) {
    let function = PciFunction {
        address,
        vendor: 0x1af4,
        device: 0x1040 + model.kind as u16,
        class: 0,
        subsystem: 0,
    };
    let mut bars = [const { None }; 6];
    let registers: Arc<dyn DeviceRegisters> = Arc::new(Bar(model.clone()));
    bars[usize::from(BAR)] = Some((BAR_BYTES, registers));
    let config = Arc::new(ConfigSpace::new());
    (function, add_pci(PciModel { function, config, bars, msix_entries: vectors }))
}

fn set_half(word: &mut u64, offset: usize, value: u64) {
    let shift = offset % 8 * 8;
    *word = *word & !(0xffff_ffff << shift) | value << shift;
}

impl Bar {
    fn write_queue(&self, offset: usize, value: u64) {
        self.0.with_selected(|queue| match offset {
            24 => queue.size = value as u16,
            26 => queue.vector = value as u16,
            28 => queue.is_enabled = value == 1,
            32 | 36 => set_half(&mut queue.descriptors, offset, value),
            40 | 44 => set_half(&mut queue.driver, offset, value),
            48 | 52 => set_half(&mut queue.device, offset, value),
            _ => {}
        });
    }
}

impl DeviceRegisters for Bar {
    fn read(&self, offset: usize, bytes: usize) -> u64 {
        let model = &*self.0;
        match offset {
            4 => {
                let [select, _] = lock(&model.state).feature_select;
                model.features >> (select * 32) & 0xffff_ffff
            }
            20 => lock(&model.state).status.into(),
            24 => model.with_selected(|queue| queue.size_max).unwrap_or(0).into(),
            26 => model.with_selected(|queue| queue.vector).unwrap_or(0xffff).into(),
            30 => lock(&model.state).queue_select.into(),
            CONFIG.. => model.read_config(offset - CONFIG, bytes),
            _ => 0,
        }
    }

    fn write(&self, offset: usize, _bytes: usize, value: u64) {
        let model = &*self.0;
        match offset {
            0 => lock(&model.state).feature_select[0] = value as u32,
            8 => lock(&model.state).feature_select[1] = value as u32,
            12 => {
                let mut state = lock(&model.state);
                let select = state.feature_select[1] as usize;
                set_half(&mut state.driver_features, select * 4, value);
            }
            20 => model.set_status(value as u8),
            22 => lock(&model.state).queue_select = value as u16,
            24..56 => self.write_queue(offset, value),
            NOTIFY..0x200 => model.behaviour.notified(model, value as u16),
            _ => {}
        }
    }
}
