//! One queue of buffers for reception.
//!
//! A chain is 12 bytes of the driver's own memory and the rest of a lent frame, so the driver reads the device's header although
//! it cannot read the frames of another world. The first 12 bytes of the second and further buffers of a packet are payload; they
//! travel as the piece's [`Lead`].
use crate::header::{HEADER_BYTES, NetHeader, SEGMENTED_MAX};
use alloc::{collections::VecDeque, vec::Vec};
use interfaces::nic::{
    Lead, Offloads, PACKET_MIN, PAYLOAD_OFFSET, ReceiveBuffer, Received, ReceivedPiece,
};
use rt::{
    PAGE_BYTES,
    device::{DmaBuffer, frame_address},
};
use virtio::{Buffer, BufferAccess, Error, Queue, Used};
use zerocopy::FromBytes;

const SLOT_BYTES: usize = 16;
/// Buffers of a chain.
pub(crate) const CHAIN: u16 = 2;
/// Bytes of a frame that the device fills.
pub(crate) const FRAME_BYTES: usize = PAGE_BYTES - PAYLOAD_OFFSET as usize;

/// A buffer that the device has.
pub(crate) struct Posted {
    slot: u16,
    buffer: ReceiveBuffer,
}

/// A packet of which some buffers came.
struct PartialPacket {
    header: NetHeader,
    first: ReceivedPiece,
    more: Vec<ReceivedPiece>,
    /// Buffers that are missing.
    missing: u16,
    bytes: usize,
}

/// The ways in which the device describes packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveMode {
    pub(crate) offloads: Offloads,
    /// A packet may take several buffers.
    pub(crate) is_merged: bool,
}

/// A queue, its slots for headers, and the buffers for which it has no room.
pub(crate) struct ReceiveRing {
    queue: Queue<Posted>,
    headers: DmaBuffer,
    free_slots: Vec<u16>,
    spare: VecDeque<ReceiveBuffer>,
    partial: Option<PartialPacket>,
    mode: ReceiveMode,
    /// Packets that made no sense.
    pub(crate) errors: u64,
}

impl ReceiveRing {
    /// Makes a ring without buffers.
    pub(crate) fn new(queue: Queue<Posted>, mode: ReceiveMode) -> Result<ReceiveRing, Error> {
        let count = queue.size();
        let headers = DmaBuffer::allocate(usize::from(count) * SLOT_BYTES)?;
        let free_slots = (0..count).rev().collect();
        let (spare, partial) = (VecDeque::new(), None);
        Ok(ReceiveRing { queue, headers, free_slots, spare, partial, mode, errors: 0 })
    }

    /// Returns the number of buffers that the device holds at once.
    pub(crate) fn depth(&self) -> usize {
        self.queue.size().into()
    }

    /// Takes a buffer. The device gets it at [`ReceiveRing::post`].
    pub(crate) fn lend(&mut self, buffer: ReceiveBuffer) {
        self.spare.push_back(buffer);
    }

    /// Gives the device as many buffers as it takes, with one notification.
    pub(crate) fn post(&mut self) {
        while self.queue.has_room(CHAIN.into())
            && let Some(slot) = self.free_slots.pop()
        {
            let Some(buffer) = self.spare.pop_front() else {
                self.free_slots.push(slot);
                break;
            };
            self.post_one(slot, buffer);
        }
        self.queue.publish();
    }

    fn post_one(&mut self, slot: u16, buffer: ReceiveBuffer) {
        let Some(frame) = frame_address(&buffer.frame) else {
            log::error!("virtio-net: no device reaches buffer {}", buffer.number);
            return self.free_slots.push(slot);
        };
        let access = BufferAccess::Write;
        let address = self.headers.device_address() + (usize::from(slot) * SLOT_BYTES) as u64;
        let header = Buffer { address, bytes: HEADER_BYTES as u32, access };
        let address = frame + u64::from(PAYLOAD_OFFSET);
        let payload = Buffer { address, bytes: FRAME_BYTES as u32, access };
        if let Err(Posted { slot, buffer }) =
            self.queue.add(&[header, payload], Posted { slot, buffer })
        {
            self.free_slots.push(slot);
            self.spare.push_back(buffer);
        }
    }

    /// Takes every packet that the device has received, gives it further buffers, and asks for an interrupt at the next packet.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; packets taken before that are in `done`.
    pub(crate) fn take_all(&mut self, done: &mut Vec<Received>) -> Result<(), Error> {
        loop {
            while let Some(Used { payload, written }) = self.queue.take()? {
                let mut bytes = [0; HEADER_BYTES];
                self.headers.read(usize::from(payload.slot) * SLOT_BYTES, &mut bytes);
                self.free_slots.push(payload.slot);
                self.take_buffer(payload.buffer, (bytes, written as usize), done);
            }
            self.post();
            if !self.queue.arm() {
                return Ok(());
            }
        }
    }

    /// Handles one buffer of which `written` bytes were written, the first of them to `start`.
    fn take_buffer(
        &mut self,
        buffer: ReceiveBuffer,
        (start, written): ([u8; HEADER_BYTES], usize),
        done: &mut Vec<Received>,
    ) {
        let length = written.saturating_sub(HEADER_BYTES).min(FRAME_BYTES) as u16;
        let mut piece =
            ReceivedPiece { buffer, offset: PAYLOAD_OFFSET, length, lead: Lead::default() };
        let Some(partial) = &mut self.partial else {
            return self.begin(piece, &start, done);
        };
        let lead = start.get(..written.min(HEADER_BYTES)).unwrap_or_default();
        piece.lead = Lead::new(lead).unwrap_or_default();
        piece.settle();
        partial.missing -= 1;
        partial.bytes += piece.bytes();
        let is_sound = written > 0 && partial.bytes <= SEGMENTED_MAX;
        partial.more.push(piece);
        if is_sound && partial.missing > 0 {
            return;
        }
        match (is_sound, self.partial.take()) {
            (true, Some(partial)) => self.finish(partial, done),
            (false, Some(partial)) => self.refuse(partial),
            (_, None) => {}
        }
    }

    fn begin(
        &mut self,
        first: ReceivedPiece,
        start: &[u8; HEADER_BYTES],
        done: &mut Vec<Received>,
    ) {
        let header = NetHeader::read_from_bytes(start).unwrap_or_default();
        let buffers = if self.mode.is_merged { header.buffers.get() } else { 1 };
        let bytes = first.bytes();
        let missing = buffers.saturating_sub(1);
        let mut partial = PartialPacket { header, first, more: Vec::new(), missing, bytes };
        // The device cannot have used more buffers than it was given.
        if buffers == 0 || missing > self.queue.in_flight() {
            return self.refuse(partial);
        }
        if missing == 0 {
            return self.finish(partial, done);
        }
        partial.more.reserve_exact(missing.into());
        self.partial = Some(partial);
    }

    fn finish(&mut self, partial: PartialPacket, done: &mut Vec<Received>) {
        let meaning = partial.header.meaning(partial.bytes, self.mode.offloads);
        let Some((checksum, segmentation)) = meaning.filter(|_| partial.bytes >= PACKET_MIN) else {
            return self.refuse(partial);
        };
        let PartialPacket { first, more, .. } = partial;
        done.push(Received { first, more, checksum, segmentation });
    }

    /// Drops a packet that makes no sense.
    fn refuse(&mut self, partial: PartialPacket) {
        self.errors += 1;
        let pieces = core::iter::once(partial.first).chain(partial.more);
        self.spare.extend(pieces.map(|piece| piece.buffer));
    }

    /// Takes all buffers from the device, which was reset.
    pub(crate) fn abandon(&mut self) -> Vec<ReceiveBuffer> {
        self.free_slots.clear();
        let partial = self.partial.take().map(|partial| {
            core::iter::once(partial.first).chain(partial.more).map(|piece| piece.buffer)
        });
        let posted = self.queue.abandon().into_iter().map(|posted| posted.buffer);
        partial.into_iter().flatten().chain(posted).chain(self.spare.drain(..)).collect()
    }
}
