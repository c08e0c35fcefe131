//! A split virtqueue (section 2.7).
//!
//! ```text
//! descriptors  16 bytes each: address 8 | bytes 4 | flags 2 | next 2
//! driver area  flags 2 | index 2 | heads 2 each | used_event 2
//! device area  flags 2 | index 2 | (head 4, written 4) each | avail_event 2
//! ```
//! All three and the indirect tables are DMA memory. The device can write all of it, so only the device area is read back,
//! and its contents are checked. The chains, their lengths and their being in flight are recorded in `chains` and `free`,
//! in the driver's own memory.
use crate::{
    Error,
    transport::{Doorbell, QueueAddresses},
};
use alloc::vec::Vec;
use rt::device::{DeviceError, DmaBuffer, fence};

const DESCRIPTOR_BYTES: usize = 16;
const FLAG_NEXT: u16 = 1;
const FLAG_WRITE: u16 = 2;
const FLAG_INDIRECT: u16 = 4;
/// Flag in the device area: the device wants no notifications.
const NO_NOTIFY: u16 = 1;

/// The device's access to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferAccess {
    /// The device reads the buffer.
    Read,
    /// The device writes the buffer.
    Write,
}

/// A piece of memory for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Device address.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// The device's access.
    pub access: BufferAccess,
}

/// A chain that the device is done with.
#[derive(Debug, PartialEq, Eq)]
pub struct Used<T> {
    /// The payload that was given with the chain.
    pub payload: T,
    /// Bytes that the device says it wrote, never more than the chain had room for.
    pub written: u32,
}

/// A chain in flight.
#[derive(Debug)]
struct Chain<T> {
    payload: T,
    descriptors: u16,
    writable: u32,
}

/// The way in which each side says when it wants a notification (2.7.7, 2.7.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    /// By a flag: always or never.
    ByFlag,
    /// By the index of an entry: VIRTIO_F_EVENT_IDX.
    ByIndex,
}

/// A virtqueue. It has no lock: the driver puts it under its own.
#[derive(Debug)]
pub struct Queue<T> {
    size: u16,
    indirect: u16,
    notice: Notification,
    memory: DmaBuffer,
    tables: Option<DmaBuffer>,
    driver_area: usize,
    device_area: usize,
    doorbell: Option<Doorbell>,
    /// The chains in flight, by head: the driver's own record.
    chains: Vec<Option<Chain<T>>>,
    /// For each descriptor, the next one in its chain or on the free list.
    next: Vec<u16>,
    free_head: u16,
    free: u16,
    in_flight: u16,
    /// Index up to which the driver has filled the queue.
    filled: u16,
    /// Index that the device was told.
    published: u16,
    /// Index up to which the device area was read.
    taken: u16,
}

impl<T> Queue<T> {
    /// Makes a queue in `memory`, which is cleared, or in new memory.
    pub(crate) fn new(
        size: u16,
        indirect: u16,
        notice: Notification,
        memory: Option<DmaBuffer>,
    ) -> Result<Queue<T>, Error> {
        let count = usize::from(size);
        let QueueLayout { driver_area, device_area, bytes } = QueueLayout::of(size);
        let memory = match memory {
            Some(memory) if memory.bytes() >= bytes => {
                (0..bytes.div_ceil(8)).for_each(|word| memory.store64(word * 8, 0));
                memory
            }
            Some(_) => return Err(Error::Device(DeviceError::NoMemory)),
            None => DmaBuffer::allocate(bytes)?,
        };
        let tables = match usize::from(indirect) {
            0 => None,
            entries => Some(DmaBuffer::allocate(count * entries * DESCRIPTOR_BYTES)?),
        };
        Ok(Queue {
            size,
            indirect,
            notice,
            memory,
            tables,
            driver_area,
            device_area,
            doorbell: None,
            chains: (0..count).map(|_| None).collect(),
            next: (1..=size).collect(),
            free_head: 0,
            free: size,
            in_flight: 0,
            filled: 0,
            published: 0,
            taken: 0,
        })
    }

    pub(crate) fn addresses(&self) -> QueueAddresses {
        let base = self.memory.device_address();
        QueueAddresses {
            descriptors: base,
            driver: base + self.driver_area as u64,
            device: base + self.device_area as u64,
        }
    }

    pub(crate) fn set_doorbell(&mut self, doorbell: Doorbell) {
        self.doorbell = Some(doorbell);
    }

    /// Returns the number of entries.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Returns the index up to which the device area was read. With it and the queue's memory, [`left_behind`] finds the
    /// chains that were not.
    pub fn taken(&self) -> u16 {
        self.taken
    }

    /// Returns the number of chains that the device has.
    pub fn in_flight(&self) -> u16 {
        self.in_flight
    }

    /// Returns the most buffers of one chain; a chain is never longer than the queue (section 2.7.5.3.1).
    pub fn chain_max(&self) -> u16 {
        self.size
    }

    /// Returns whether a chain of `buffers` fits now.
    pub fn has_room(&self, buffers: usize) -> bool {
        self.needed(buffers).is_some_and(|needed| needed <= self.free)
    }

    /// Returns the number of descriptors that a chain takes; `None` if it can never fit.
    fn needed(&self, buffers: usize) -> Option<u16> {
        let buffers = u16::try_from(buffers).ok()?;
        match buffers {
            0 => None,
            1 => Some(1),
            _ if buffers <= self.indirect => Some(1),
            _ => (buffers <= self.size).then_some(buffers),
        }
    }

    /// Puts a chain into the queue, with the buffers that the device reads first. The device is not told yet.
    ///
    /// # Errors
    /// Returns the payload if there is no room.
    pub fn add(&mut self, buffers: &[Buffer], payload: T) -> Result<(), T> {
        let Some(descriptors) = self.needed(buffers.len()).filter(|needed| *needed <= self.free)
        else {
            return Err(payload);
        };
        let head = self.free_head;
        if descriptors == 1 && buffers.len() > 1 {
            self.write_table(head, buffers);
        } else {
            self.write_chain(head, buffers);
        }
        for _ in 0..descriptors {
            self.free_head = self.next_of(self.free_head);
        }
        let writes = buffers.iter().filter(|buffer| buffer.access == BufferAccess::Write);
        let writable = writes.fold(0_u32, |sum, buffer| sum.saturating_add(buffer.bytes));
        if let Some(slot) = self.chains.get_mut(usize::from(head)) {
            *slot = Some(Chain { payload, descriptors, writable });
        }
        self.free -= descriptors;
        self.in_flight += 1;
        let entry = self.driver_area + 4 + 2 * usize::from(self.filled % self.size);
        self.memory.store16(entry, head);
        self.filled = self.filled.wrapping_add(1);
        Ok(())
    }

    fn next_of(&self, descriptor: u16) -> u16 {
        self.next.get(usize::from(descriptor)).copied().unwrap_or(0)
    }

    /// Writes the buffers into the descriptors from `head` on the free list.
    fn write_chain(&self, head: u16, buffers: &[Buffer]) {
        let mut at = head;
        for (index, buffer) in buffers.iter().enumerate() {
            let next = (index + 1 < buffers.len()).then(|| self.next_of(at));
            self.memory.store_all(usize::from(at) * DESCRIPTOR_BYTES, encode(buffer, next));
            at = next.unwrap_or(0);
        }
    }

    /// Writes the buffers into `head`'s table, and the table into `head`.
    fn write_table(&self, head: u16, buffers: &[Buffer]) {
        let Some(tables) = &self.tables else { return };
        let start = usize::from(head) * usize::from(self.indirect) * DESCRIPTOR_BYTES;
        for (index, buffer) in buffers.iter().enumerate() {
            let next = (index + 1 < buffers.len()).then_some(index as u16 + 1);
            tables.store_all(start + index * DESCRIPTOR_BYTES, encode(buffer, next));
        }
        let table = Buffer {
            address: tables.device_address() + start as u64,
            bytes: (buffers.len() * DESCRIPTOR_BYTES) as u32,
            access: BufferAccess::Read,
        };
        let [address, rest] = encode(&table, None);
        let words = [address, rest | u64::from(FLAG_INDIRECT) << 32];
        self.memory.store_all(usize::from(head) * DESCRIPTOR_BYTES, words);
    }

    /// Tells the device of every chain added since the last time, with one notification at most.
    pub fn publish(&mut self) {
        if self.filled == self.published {
            return;
        }
        let (before, now) = (self.published, self.filled);
        self.memory.store16(self.driver_area + 2, now);
        self.published = now;
        fence();
        if self.is_notification_wanted(before, now)
            && let Some(doorbell) = &self.doorbell
        {
            doorbell.ring();
        }
    }

    fn is_notification_wanted(&self, before: u16, now: u16) -> bool {
        if self.notice == Notification::ByFlag {
            return self.memory.load16(self.device_area) & NO_NOTIFY == 0;
        }
        let event = self.memory.load16(self.device_area + 4 + 8 * usize::from(self.size));
        now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before)
    }

    /// Takes the next chain that the device is done with.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the device wrote something invalid. The queue is then unusable, and the device must be reset.
    pub fn take(&mut self) -> Result<Option<Used<T>>, Error> {
        let ready = self.ready();
        if ready == 0 {
            return Ok(None);
        }
        if ready > self.in_flight {
            return Err(Error::Corrupt("more chains used than were in flight"));
        }
        let entry = self.device_area + 4 + 8 * usize::from(self.taken % self.size);
        let (head, written) = (self.memory.load32(entry) as usize, self.memory.load32(entry + 4));
        let Some(chain) = self.chains.get_mut(head).and_then(Option::take) else {
            return Err(Error::Corrupt("a chain used that was not in flight"));
        };
        self.taken = self.taken.wrapping_add(1);
        self.give_back(head as u16, chain.descriptors);
        if written > chain.writable {
            // The chain is over in any case. At most the size of its buffers was written.
            log::debug!("virtio: a device says it wrote {written} bytes of {}", chain.writable);
        }
        Ok(Some(Used { payload: chain.payload, written: written.min(chain.writable) }))
    }

    fn give_back(&mut self, head: u16, descriptors: u16) {
        let mut last = head;
        for _ in 1..descriptors {
            last = self.next_of(last);
        }
        if let Some(next) = self.next.get_mut(usize::from(last)) {
            *next = self.free_head;
        }
        self.free_head = head;
        self.free += descriptors;
        self.in_flight -= 1;
    }

    /// Asks for an interrupt at the next used chain. Returns `true` if one is there already, so that the caller takes it
    /// before it waits.
    pub fn arm(&mut self) -> bool {
        self.arm_after(1)
    }

    /// Asks for an interrupt when the device is done with that many further chains, at least 1; without VIRTIO_F_EVENT_IDX it comes
    /// at each. Returns `true` if they are there already, so that the caller takes them before it waits.
    pub fn arm_after(&mut self, chains: u16) -> bool {
        if self.notice == Notification::ByIndex {
            let event = self.driver_area + 4 + 2 * usize::from(self.size);
            self.memory.store16(event, self.taken.wrapping_add(chains).wrapping_sub(1));
        }
        fence();
        self.ready() >= chains
    }

    /// Returns the number of chains that the device is done with and that were not taken, as the device says.
    pub fn ready(&self) -> u16 {
        self.memory.load16(self.device_area + 2).wrapping_sub(self.taken)
    }

    /// Ends every chain in flight, after the device was reset. The queue is empty then and cannot be used by the device any
    /// more.
    pub fn abandon(&mut self) -> Vec<T> {
        let payloads = self.chains.iter_mut().filter_map(Option::take);
        let payloads = payloads.map(|chain| chain.payload).collect();
        self.free = 0;
        self.in_flight = 0;
        payloads
    }
}

/// The offsets of the areas in the memory of a queue.
struct QueueLayout {
    driver_area: usize,
    device_area: usize,
    /// Bytes of all areas.
    bytes: usize,
}

impl QueueLayout {
    fn of(size: u16) -> QueueLayout {
        let count = usize::from(size);
        let driver_area = count * DESCRIPTOR_BYTES;
        let device_area = (driver_area + 6 + 2 * count).next_multiple_of(4);
        QueueLayout {
            driver_area,
            device_area,
            bytes: (device_area + 6 + 8 * count).next_multiple_of(8),
        }
    }
}

/// Returns the chains that a device was done with in a queue of `size` entries in `memory`, from index `from` on, each by
/// the address of its first buffer and the bytes written. The queue's driver died, and the device was stopped. Returns
/// `None` if the contents are invalid. Chains in indirect tables are not looked into.
pub fn left_behind(memory: &DmaBuffer, size: u16, from: u16) -> Option<Vec<(u64, u32)>> {
    let QueueLayout { device_area, bytes, .. } = QueueLayout::of(size);
    let count = memory.load16(device_area + 2).wrapping_sub(from);
    if !size.is_power_of_two() || memory.bytes() < bytes || count > size {
        return None;
    }
    let one = |behind: u16| {
        let place = usize::from(from.wrapping_add(behind) % size);
        let entry = device_area + 4 + 8 * place;
        let (head, written) = (memory.load32(entry) as usize, memory.load32(entry + 4));
        let is_head = head < usize::from(size);
        is_head.then(|| (memory.load64(head * DESCRIPTOR_BYTES), written))
    };
    (0..count).map(one).collect()
}

/// Encodes a descriptor: address; bytes, flags and the next one (VIRTIO 1.2, 2.7.5).
fn encode(buffer: &Buffer, next: Option<u16>) -> [u64; 2] {
    let write = if buffer.access == BufferAccess::Write { FLAG_WRITE } else { 0 };
    let flags = write | if next.is_some() { FLAG_NEXT } else { 0 };
    let next = u64::from(next.unwrap_or(0));
    [buffer.address, u64::from(buffer.bytes) | u64::from(flags) << 32 | next << 48]
}
