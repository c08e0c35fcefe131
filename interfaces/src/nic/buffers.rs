//! Buffers for reception, and received packets.
use super::{ChecksumState, Segmentation};
use alloc::vec::Vec;
use rt::memory::Frame;

/// The numbers of buffers end here.
pub const NUMBERS: u32 = 1024;
/// The greatest number of bytes of a piece that stand beside its frame.
pub const LEAD_MAX: usize = 12;
/// Offset of the bytes in a buffer that the device fills. A lead stands before it, and the client's own notes before that.
pub const PAYLOAD_OFFSET: u16 = 16;

/// A frame that the device fills.
#[derive(Debug)]
pub struct ReceiveBuffer {
    /// The client's number for it, below [`NUMBERS`].
    pub number: u32,
    /// The frame.
    pub frame: Frame,
}

/// The first bytes of a piece, if its driver has them: they belong into the frame, just before the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    length: u8,
    bytes: [u8; LEAD_MAX],
}

impl Lead {
    /// Returns `bytes` as a lead; `None` if they are too many.
    pub fn new(bytes: &[u8]) -> Option<Lead> {
        let mut lead = Lead { length: u8::try_from(bytes.len()).ok()?, bytes: [0; LEAD_MAX] };
        lead.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(lead)
    }
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// A part of a received packet: the bytes of one buffer.
#[derive(Debug)]
pub struct ReceivedPiece {
    /// The buffer.
    pub buffer: ReceiveBuffer,
    /// First byte in the frame.
    pub offset: u16,
    /// Bytes, not passing the frame's end.
    pub length: u16,
    /// Bytes before these. A client never sees any ([`ReceivedPiece::settle`]).
    pub lead: Lead,
}

impl ReceivedPiece {
    /// Writes the lead into the frame, unless the frame's memory is in another world.
    pub fn settle(&mut self) {
        let bytes = self.lead.as_slice();
        let length = bytes.len() as u16;
        if length == 0 || length > self.offset {
            return;
        }
        let offset = self.offset - length;
        if self.buffer.frame.write(offset.into(), bytes) == bytes.len() {
            self.lead = Lead::default();
            self.offset = offset;
            self.length += length;
        }
    }
    /// Returns the length, with the lead.
    pub fn bytes(&self) -> usize {
        usize::from(self.length) + self.lead.as_slice().len()
    }
}

/// A received packet: its pieces in order, from the Ethernet header on.
#[derive(Debug)]
pub struct Received {
    /// The first piece.
    pub first: ReceivedPiece,
    /// The others, if the packet took several buffers.
    pub more: Vec<ReceivedPiece>,
    /// The state of the checksum.
    pub checksum: ChecksumState,
    /// The way in which the packet was merged of several.
    pub segmentation: Option<Segmentation>,
}

impl Received {
    /// Returns all pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &ReceivedPiece> {
        core::iter::once(&self.first).chain(&self.more)
    }
    /// Returns the number of merged buffers.
    pub fn buffers(&self) -> usize {
        1 + self.more.len()
    }
    /// Returns the length of the packet.
    pub fn bytes(&self) -> usize {
        self.pieces().map(ReceivedPiece::bytes).sum()
    }
    /// Returns the buffers, to be lent again.
    pub fn into_buffers(self) -> impl Iterator<Item = ReceiveBuffer> {
        core::iter::once(self.first).chain(self.more).map(|piece| piece.buffer)
    }
}
