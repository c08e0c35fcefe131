//! A model behind the MMIO transport's registers.
use super::{Model, lock};
use rt::host::DeviceRegisters;
use std::sync::Arc;

pub(super) struct MmioRegisters(pub(super) Arc<Model>);

fn set_low(word: &mut u64, value: u64) {
    *word = *word & !0xffff_ffff | value & 0xffff_ffff;
}

fn set_high(word: &mut u64, value: u64) {
    *word = *word & 0xffff_ffff | value << 32;
}

impl DeviceRegisters for MmioRegisters {
    fn read(&self, offset: usize, bytes: usize) -> u64 {
        let model = &*self.0;
        match offset {
            0x00 => 0x7472_6976,
            0x04 => 2,
            0x08 => u64::from(model.kind),
            0x10 => {
                let [select, _] = lock(&model.state).feature_select;
                model.features >> (select * 32) & 0xffff_ffff
            }
            0x34 => model.with_selected(|queue| queue.size_max).unwrap_or(0).into(),
            0x44 => model.with_selected(|queue| queue.is_enabled).unwrap_or(false).into(),
            0x60 => lock(&model.state).interrupt_status.into(),
            0x70 => lock(&model.state).status.into(),
            0x100.. => model.read_config(offset - 0x100, bytes),
            _ => 0,
        }
    }

    fn write(&self, offset: usize, _bytes: usize, value: u64) {
        let model = &*self.0;
        match offset {
            0x14 => lock(&model.state).feature_select[0] = value as u32,
            0x20 => {
                let mut state = lock(&model.state);
                match state.feature_select[1] {
                    0 => set_low(&mut state.driver_features, value),
                    _ => set_high(&mut state.driver_features, value),
                }
            }
            0x24 => lock(&model.state).feature_select[1] = value as u32,
            0x30 => lock(&model.state).queue_select = value as u16,
            0x50 => model.behaviour.notified(model, value as u16),
            0x64 => lock(&model.state).interrupt_status &= !(value as u32),
            0x70 => model.set_status(value as u8),
            _ => {
                model.with_selected(|queue| match offset {
                    0x38 => queue.size = value as u16,
                    0x44 => queue.is_enabled = value == 1,
                    0x80 => set_low(&mut queue.descriptors, value),
                    0x84 => set_high(&mut queue.descriptors, value),
                    0x90 => set_low(&mut queue.driver, value),
                    0x94 => set_high(&mut queue.driver, value),
                    0xa0 => set_low(&mut queue.device, value),
                    0xa4 => set_high(&mut queue.device, value),
                    _ => {}
                });
            }
        }
    }
}
