//! One queue of packets to be sent: slots with the device's header and the packet's own, packets in flight.
//!
//! ```text
//! slot    0 header of the device 12 | 12 header bytes of the packet, up to 144 | 156 unused 4
//! ```
use crate::header::{HEADER_BYTES, NetHeader};
use alloc::{sync::Arc, vec::Vec};
use interfaces::nic::{
    Ended, HEADER_MAX, NicError, Packet, PacketSegment, SEGMENTS_MAX, SendSink, Sent,
};
use rt::device::{DmaBuffer, frame_address};
use virtio::{Buffer, BufferAccess, Error, Queue};
use zerocopy::IntoBytes;

const SLOT_BYTES: usize = 160;
const _: () = assert!(HEADER_BYTES + HEADER_MAX <= SLOT_BYTES);
/// The greatest number of buffers of a packet: the slot's, and one a segment.
pub(crate) const BUFFERS_MAX: u16 = 1 + SEGMENTS_MAX as u16;

/// The part of the queue that the device may be done with before it interrupts.
const DELAYED_SHARE: u16 = 4;
/// The client is told at once of that many packets that the device is done with; of fewer at the driver's next look.
const ENDS_MIN: u16 = 16;

/// A packet in flight.
pub(crate) struct SendFlight {
    slot: u16,
    bytes: u32,
    tag: u64,
    sink: Arc<dyn SendSink>,
    /// Keeps the frames until the device is done.
    segments: Vec<PacketSegment>,
}

impl SendFlight {
    fn end(self, result: Result<(), NicError>) -> Ended {
        let SendFlight { tag, sink, segments, .. } = self;
        Ended { sink, sent: Sent { tag, result, segments } }
    }
}

/// A queue and its slots.
pub(crate) struct SendRing {
    queue: Queue<SendFlight>,
    slots: DmaBuffer,
    free_slots: Vec<u16>,
    /// A packet waits for room.
    is_awaited: bool,
    /// Scratch list, reused from packet to packet.
    buffers: Vec<Buffer>,
}

impl SendRing {
    /// Makes a ring with slots for every entry of `queue`.
    pub(crate) fn new(queue: Queue<SendFlight>) -> Result<SendRing, Error> {
        let count = queue.size();
        let slots = DmaBuffer::allocate(usize::from(count) * SLOT_BYTES)?;
        let free_slots = (0..count).rev().collect();
        let buffers = Vec::with_capacity(BUFFERS_MAX.into());
        let mut ring = SendRing { queue, slots, free_slots, is_awaited: false, buffers };
        let delay = ring.delay();
        ring.queue.arm_after(delay);
        Ok(ring)
    }

    /// Returns the number of packets that it holds at once.
    pub(crate) fn depth(&self) -> usize {
        self.queue.size().into()
    }

    /// Returns the most segments of a packet.
    pub(crate) fn max_segments(&self) -> usize {
        usize::from(self.queue.chain_max().min(BUFFERS_MAX)).saturating_sub(1)
    }

    /// Returns whether `packet` fits now.
    pub(crate) fn has_room(&self, packet: &Packet) -> bool {
        !self.free_slots.is_empty() && self.queue.has_room(1 + packet.segments.len())
    }

    /// Puts a checked packet of `bytes` bytes, which fits, into the ring. The device is not told yet.
    ///
    /// # Errors
    /// Returns the end of the packet.
    pub(crate) fn add(
        &mut self,
        packet: Packet,
        (bytes, sink): (usize, &Arc<dyn SendSink>),
    ) -> Result<(), Ended> {
        let slot = self.free_slots.pop().unwrap_or_default();
        let at = usize::from(slot) * SLOT_BYTES;
        let mut start = [0; SLOT_BYTES];
        let (device, rest) = start.split_at_mut(HEADER_BYTES);
        device.copy_from_slice(NetHeader::of(&packet).as_bytes());
        let header = packet.header.as_slice();
        rest.iter_mut().zip(header).for_each(|(to, from)| *to = *from);
        let written = HEADER_BYTES + header.len();
        self.slots.write(at, start.get(..written).unwrap_or_default());
        self.buffers.clear();
        let address = self.slots.device_address() + at as u64;
        let access = BufferAccess::Read;
        self.buffers.push(Buffer { address, bytes: written as u32, access });
        for segment in &packet.segments {
            // A packet was refused if no device reaches one of its frames.
            let Some(frame) = frame_address(&segment.frame) else { continue };
            let address = frame + u64::from(segment.offset);
            self.buffers.push(Buffer { address, bytes: segment.length, access });
        }
        let Packet { tag, segments, .. } = packet;
        let flight = SendFlight { slot, bytes: bytes as u32, tag, sink: sink.clone(), segments };
        self.queue.add(&self.buffers, flight).map_err(|refused| {
            self.free_slots.push(refused.slot);
            refused.end(Err(NicError::Device))
        })
    }

    /// Tells the device of all added packets.
    pub(crate) fn publish(&mut self) {
        self.queue.publish();
    }

    /// Returns whether there are packets whose ends were not taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.queue.in_flight() > 0
    }

    /// Returns whether the device says that it is done with packets that were not taken.
    #[cfg(test)]
    pub(crate) fn has_ends(&self) -> bool {
        self.queue.ready() > 0
    }

    /// Returns whether ends should be taken now: there are many, a packet waits for room, or the device cannot be right.
    pub(crate) fn has_due_ends(&self) -> bool {
        let enough = if self.is_awaited { 1 } else { ENDS_MIN.min(self.delay()) };
        let ready = self.queue.ready();
        ready >= enough || ready > self.queue.in_flight()
    }

    /// Asks for an interrupt at the next end, because a packet found no room. Returns whether there is an end already.
    pub(crate) fn await_room(&mut self) -> bool {
        self.is_awaited = true;
        self.queue.arm()
    }

    /// Returns the number of ends at which the device interrupts.
    fn delay(&self) -> u16 {
        (self.queue.size() / DELAYED_SHARE).max(1)
    }

    /// Takes every packet that the device is done with, and asks for an interrupt when it is done with a part of the queue more.
    /// Returns their number and bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; packets taken before that are in `done`.
    pub(crate) fn take_all(&mut self, done: &mut Vec<Ended>) -> Result<(u64, u64), Error> {
        let (mut packets, mut bytes) = (0, 0);
        self.is_awaited = false;
        loop {
            while let Some(used) = self.queue.take()? {
                self.free_slots.push(used.payload.slot);
                packets += 1;
                bytes += u64::from(used.payload.bytes);
                done.push(used.payload.end(Ok(())));
            }
            let delay = self.delay();
            if !self.queue.arm_after(delay) {
                return Ok((packets, bytes));
            }
        }
    }

    /// Ends all packets in flight; the device was reset.
    pub(crate) fn abandon(&mut self, error: NicError) -> Vec<Ended> {
        self.free_slots.clear();
        self.queue.abandon().into_iter().map(|flight| flight.end(Err(error))).collect()
    }
}
