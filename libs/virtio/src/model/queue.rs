//! The device's side of a split virtqueue.
use rt::host::{device_load16, device_read, device_store16, device_write};
use std::{vec, vec::Vec};

const FLAG_NEXT: u16 = 1;
const FLAG_WRITE: u16 = 2;
const FLAG_INDIRECT: u16 = 4;

/// The values that the driver wrote into a queue's registers.
#[derive(Debug)]
pub(super) struct QueueRegisters {
    pub(super) size_max: u16,
    pub(super) size: u16,
    pub(super) is_enabled: bool,
    pub(super) vector: u16,
    pub(super) descriptors: u64,
    pub(super) driver: u64,
    pub(super) device: u64,
}

impl QueueRegisters {
    pub(super) fn new(size_max: u16) -> QueueRegisters {
        QueueRegisters {
            size_max,
            size: size_max,
            is_enabled: false,
            vector: 0,
            descriptors: 0,
            driver: 0,
            device: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        *self = QueueRegisters::new(self.size_max);
    }
}

/// A chain of buffers from the driver.
#[derive(Debug)]
pub struct Chain {
    head: u16,
    readable: Vec<(u64, u32)>,
    writable: Vec<(u64, u32)>,
}

impl Chain {
    pub(super) fn head(&self) -> u16 {
        self.head
    }

    /// Returns the number of buffers.
    pub fn buffers(&self) -> usize {
        self.readable.len() + self.writable.len()
    }

    /// Reads all data that the driver sends.
    ///
    /// # Panics
    /// Panics if the driver names an address that is not memory.
    pub fn read(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (address, bytes) in &self.readable {
            let mut part = vec![0; *bytes as usize];
            assert!(device_read(*address, &mut part), "no memory at {address:#x}");
            all.extend(part);
        }
        all
    }

    /// Returns the number of bytes that the device may write.
    pub fn writable_bytes(&self) -> usize {
        self.writable.iter().map(|(_, bytes)| *bytes as usize).sum()
    }

    /// Writes `data` from byte `offset` of the writable buffers. Returns how much fitted.
    ///
    /// # Panics
    /// Panics if the driver names an address that is not memory.
    pub fn write(&self, offset: usize, data: &[u8]) -> usize {
        let (mut skip, mut rest) = (offset, data);
        for (address, bytes) in &self.writable {
            let room = *bytes as usize;
            let from = skip.min(room);
            let (now, later) = rest.split_at(rest.len().min(room - from));
            assert!(device_write(address + from as u64, now), "no memory at {address:#x}");
            skip -= from;
            rest = later;
        }
        data.len() - rest.len()
    }
}

/// The position of the device in a queue.
#[derive(Debug, Default)]
pub struct ModelQueue {
    seen: u16,
    used: u16,
}

impl ModelQueue {
    pub(super) fn pop(&mut self, registers: &QueueRegisters) -> Option<Chain> {
        let index = device_load16(registers.driver + 2);
        if !registers.is_enabled || index == self.seen {
            return None;
        }
        let slot = u64::from(self.seen % registers.size);
        let head = device_load16(registers.driver + 4 + 2 * slot);
        self.seen = self.seen.wrapping_add(1);
        // The device asks for a notification at the very next chain.
        device_store16(registers.device + 4 + 8 * u64::from(registers.size), self.seen);
        let mut chain = Chain { head, readable: Vec::new(), writable: Vec::new() };
        follow(&mut chain, registers.descriptors, head);
        Some(chain)
    }

    /// Returns the number of chains that were not popped.
    pub(super) fn waiting(&self, registers: &QueueRegisters) -> u16 {
        if !registers.is_enabled {
            return 0;
        }
        device_load16(registers.driver + 2).wrapping_sub(self.seen)
    }

    /// Writes a used entry. Returns whether the driver asked, by its event index, for an interrupt at this entry.
    pub(super) fn push(&mut self, registers: &QueueRegisters, head: u32, written: u32) -> bool {
        let slot = u64::from(self.used % registers.size);
        let entry = u64::from(head) | u64::from(written) << 32;
        let is_written = device_write(registers.device + 4 + 8 * slot, &entry.to_le_bytes());
        assert!(is_written, "the queue has no device area");
        let before = self.used;
        self.used = self.used.wrapping_add(1);
        device_store16(registers.device + 2, self.used);
        rt::device::fence();
        let event = device_load16(registers.driver + 4 + 2 * u64::from(registers.size));
        event == before
    }
}

fn follow(chain: &mut Chain, table: u64, first: u16) {
    let mut at = first;
    loop {
        let mut bytes = [0; 16];
        assert!(device_read(table + 16 * u64::from(at), &mut bytes), "no descriptor {at}");
        let words = u128::from_le_bytes(bytes);
        let (address, bytes) = (words as u64, (words >> 64) as u32);
        let (flags, next) = ((words >> 96) as u16, (words >> 112) as u16);
        if flags & FLAG_INDIRECT != 0 {
            assert_eq!(flags & (FLAG_NEXT | FLAG_WRITE), 0, "a table is the only descriptor");
            return follow(chain, address, 0);
        }
        if flags & FLAG_WRITE != 0 {
            chain.writable.push((address, bytes));
        } else {
            assert!(chain.writable.is_empty(), "what the device reads comes first");
            chain.readable.push((address, bytes));
        }
        if flags & FLAG_NEXT == 0 {
            return;
        }
        at = next;
    }
}
