//! A virtqueue with buffers of equal size in DMA memory, one for each slot.
use crate::ledger::PortLedger;
use alloc::{collections::VecDeque, vec::Vec};
use rt::device::DmaBuffer;
use virtio::{Buffer, BufferAccess, Error, Queue};

/// The queue, its buffers, and the set of those that the driver has.
pub(crate) struct BufferSlots {
    queue: Queue<u16>,
    memory: DmaBuffer,
    slot_bytes: usize,
    /// Number of buffers.
    count: usize,
    free: Vec<u16>,
    /// The positions in the output, if this is an output queue with a ledger.
    marks: Option<Marks>,
    is_dead: bool,
}

/// Positions in the output, which outlive the driver.
struct Marks {
    ledger: PortLedger,
    /// Position behind the output put into buffers, and behind the output that the device took.
    put: u64,
    taken: u64,
    /// Position behind each buffer that the device has, in order.
    behind: VecDeque<u64>,
}

/// The greatest number of bytes by which the device can be ahead of its client's position. A position beyond that is invalid.
const AHEAD_MAX: u64 = 1 << 20;

/// A filled buffer that came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub(crate) slot: u16,
    pub(crate) bytes: usize,
}

impl BufferSlots {
    pub(crate) fn new(
        queue: Queue<u16>,
        count: u16,
        slot_bytes: usize,
    ) -> Result<BufferSlots, Error> {
        let memory = DmaBuffer::allocate(usize::from(count) * slot_bytes)?;
        Ok(BufferSlots::within(queue, memory, slot_bytes))
    }

    /// Makes slots for as many buffers as `memory` holds.
    pub(crate) fn within(queue: Queue<u16>, memory: DmaBuffer, slot_bytes: usize) -> BufferSlots {
        let count = (memory.bytes() / slot_bytes).min(queue.size().into()) as u16;
        let free = (0..count).rev().collect();
        BufferSlots {
            queue,
            memory,
            slot_bytes,
            count: count.into(),
            free,
            marks: None,
            is_dead: false,
        }
    }

    /// Records in `ledger` the output that the device has.
    pub(crate) fn marked(self, ledger: PortLedger) -> BufferSlots {
        let position = ledger.output_end();
        BufferSlots {
            marks: Some(Marks { ledger, put: position, taken: position, behind: VecDeque::new() }),
            ..self
        }
    }

    /// Marks the buffer as not free.
    pub(crate) fn withhold(&mut self, slot: u16) {
        self.free.retain(|&free| free != slot);
    }

    /// Returns the index up to which buffers came back.
    pub(crate) fn taken(&self) -> u16 {
        self.queue.taken()
    }

    /// Takes the position of a client that knows that the device has all before `sent`. Returns the position that the
    /// device really has reached. To be called when the device has none of the buffers.
    pub(crate) fn pick_up(&mut self, sent: u64) -> u64 {
        let index = self.queue.taken();
        let Some(marks) = &mut self.marks else { return sent };
        if marks.taken.checked_sub(sent).is_none_or(|ahead| ahead > AHEAD_MAX) {
            // There was no earlier driver, or its state is lost.
            marks.taken = sent;
            marks.ledger.taken(sent, index);
        }
        marks.put = marks.taken;
        marks.taken
    }

    /// Returns the position up to which the device took output.
    pub(crate) fn reached(&self) -> u64 {
        self.marks.as_ref().map_or(0, |marks| marks.taken)
    }

    /// Counts output that is discarded because the other end is closed.
    pub(crate) fn skip(&mut self, bytes: usize) {
        if let Some(marks) = &mut self.marks {
            marks.put += bytes as u64;
        }
    }

    /// Records that the next buffer ends `bytes` bytes later.
    fn mark(&mut self, slot: u16, bytes: usize) {
        if let Some(marks) = &mut self.marks {
            marks.put += bytes as u64;
            marks.ledger.set_behind(slot, marks.put);
            marks.behind.push_back(marks.put);
        }
    }

    fn start(&self, slot: u16) -> usize {
        usize::from(slot) * self.slot_bytes
    }

    fn give(&mut self, slot: u16, bytes: usize, access: BufferAccess) {
        let address = self.memory.device_address() + self.start(slot) as u64;
        let buffer = Buffer { address, bytes: bytes as u32, access };
        if let Err(slot) = self.queue.add(&[buffer], slot) {
            self.free.push(slot);
        }
    }

    /// Gives every free buffer to the device to be filled.
    pub(crate) fn offer_all(&mut self) {
        while !self.is_dead
            && let Some(slot) = self.free.pop()
        {
            self.give(slot, self.slot_bytes, BufferAccess::Write);
        }
        self.publish();
    }

    /// Copies as much of `data` into free buffers as fits and queues them. Returns how much. [`BufferSlots::publish`] tells the
    /// device.
    pub(crate) fn put(&mut self, data: &[u8]) -> usize {
        let mut sent = 0;
        for chunk in data.chunks(self.slot_bytes) {
            let Some(slot) = (if self.is_dead { None } else { self.free.pop() }) else { break };
            self.memory.write(self.start(slot), chunk);
            self.mark(slot, chunk.len());
            self.give(slot, chunk.len(), BufferAccess::Read);
            sent += chunk.len();
        }
        sent
    }

    /// Does [`BufferSlots::put`] and tells the device.
    pub(crate) fn send(&mut self, data: &[u8]) -> usize {
        let sent = self.put(data);
        self.publish();
        sent
    }

    /// Returns whether the driver has all buffers back.
    pub(crate) fn has_all(&self) -> bool {
        self.free.len() >= self.count
    }

    /// Takes sent buffers back without asking for an interrupt. Returns whether there were any.
    pub(crate) fn reclaim(&mut self) -> Result<bool, Error> {
        let mut has_any = false;
        while !self.is_dead
            && let Some(used) = self.queue.take()?
        {
            if let Some(marks) = &mut self.marks {
                marks.taken = marks.behind.pop_front().unwrap_or(marks.put);
                marks.ledger.taken(marks.taken, self.queue.taken());
            }
            self.free.push(used.payload);
            has_any = true;
        }
        Ok(has_any)
    }

    /// Asks for an interrupt when the next buffer is sent. Returns `true` if one is sent already.
    pub(crate) fn arm(&mut self) -> bool {
        !self.is_dead && self.queue.arm()
    }

    /// Tells the device of the queued buffers.
    pub(crate) fn publish(&mut self) {
        if !self.is_dead {
            self.queue.publish();
        }
    }

    /// Takes the next buffer that the device is done with. The driver keeps it until [`BufferSlots::recycle`].
    pub(crate) fn take(&mut self) -> Result<Option<Filled>, Error> {
        if self.is_dead {
            return Ok(None);
        }
        loop {
            if let Some(used) = self.queue.take()? {
                let bytes = used.written as usize;
                return Ok(Some(Filled { slot: used.payload, bytes }));
            }
            if !self.queue.arm() {
                return Ok(None);
            }
        }
    }

    /// Marks the buffer as free again.
    pub(crate) fn recycle(&mut self, slot: u16) {
        self.free.push(slot);
    }

    /// Copies from a buffer that came back, from byte `from` on.
    pub(crate) fn read(&self, filled: Filled, from: usize, out: &mut [u8]) {
        self.memory.read(self.start(filled.slot) + from, out);
    }

    /// Returns whether the device has none of the buffers.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_dead || self.queue.in_flight() == 0
    }

    /// Ends the queue after the device was reset: nothing goes in or out any more.
    pub(crate) fn kill(&mut self) {
        self.is_dead = true;
    }
}
