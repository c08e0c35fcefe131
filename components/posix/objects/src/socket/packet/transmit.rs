//! [`TransmitRing`]: the frames that a program gives to be sent in memory that it shares with the socket (PACKET_TX_RING).
use super::{
    ring::{RingPages, RingRequest, RingVersion},
    zeroes,
};
use alloc::vec::Vec;
use rt::memory::Frame;
use vfs::Errno;

/// States of a frame.
const AVAILABLE: u32 = 0;
const SEND_REQUEST: u32 = 1;
const WRONG_FORMAT: u32 = 1 << 2;

/// The place of the first byte of a frame in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameStart {
    /// Behind the header of the slot.
    BehindHeader,
    /// At the offset of the link's header (PACKET_TX_HAS_OFF, SOCK_RAW).
    AtLink,
    /// At the offset of the network's header (PACKET_TX_HAS_OFF, SOCK_DGRAM).
    AtNetwork,
}

/// A frame that is to be sent.
pub(super) struct GivenFrame {
    /// Offset of its status.
    at: usize,
    /// The bytes, or `EINVAL` or `EMSGSIZE` for a frame whose numbers are wrong.
    pub(super) bytes: Result<Vec<u8>, Errno>,
}

/// The ring of frames to be sent.
pub(super) struct TransmitRing {
    version: RingVersion,
    pages: RingPages,
    request: RingRequest,
    head: u32,
}

impl TransmitRing {
    /// Makes a ring for a request that was checked.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn new(request: RingRequest, version: RingVersion) -> Result<TransmitRing, Errno> {
        Ok(TransmitRing { version, pages: RingPages::new(&request)?, request, head: 0 })
    }
    /// Returns its pages.
    pub(super) fn pages(&self) -> &[Frame] {
        self.pages.pages()
    }
    /// Returns the numbers that its program asked for.
    pub(super) fn described(&self) -> [u32; 7] {
        self.request.described()
    }
    /// Returns the offset of a frame's status.
    fn status_at(&self, number: u32) -> usize {
        self.request.slot(number) + if self.version == RingVersion::Three { 20 } else { 0 }
    }
    /// Returns the next frame that is to be sent.
    pub(super) fn next(&self, start: FrameStart) -> Option<GivenFrame> {
        let at = self.status_at(self.head);
        if self.pages.word(at) & SEND_REQUEST == 0 {
            return None;
        }
        Some(GivenFrame { at, bytes: self.bytes(self.request.slot(self.head), start) })
    }
    /// Returns the offset of the first byte of the frame at `slot`, of which `length` are to be sent (`tpacket_parse_header`).
    fn first(&self, (slot, length): (usize, usize), start: FrameStart) -> Result<usize, Errno> {
        let least = self.version.header();
        let most = (self.request.frame_bytes as usize).checked_sub(length);
        let offsets_at = match self.version {
            RingVersion::One => 16,
            RingVersion::Two => 12,
            RingVersion::Three => 24,
        };
        let offsets = self.pages.word(slot + offsets_at);
        let first = match start {
            FrameStart::BehindHeader => return Ok(least),
            FrameStart::AtLink => offsets & 0xffff,
            FrameStart::AtNetwork => offsets >> 16,
        };
        let first = first as usize;
        let is_inside = first >= least && most.is_some_and(|most| first <= most);
        if is_inside { Ok(first) } else { Err(Errno::EINVAL) }
    }
    /// Copies the bytes of the frame at an offset.
    fn bytes(&self, slot: usize, start: FrameStart) -> Result<Vec<u8>, Errno> {
        let (length_at, next) = match self.version {
            RingVersion::One => (8, 0),
            RingVersion::Two => (4, 0),
            RingVersion::Three => (16, self.pages.word(slot)),
        };
        if next != 0 {
            return Err(Errno::EINVAL);
        }
        let length = self.pages.word(slot + length_at) as usize;
        if length > (self.request.frame_bytes as usize).saturating_sub(self.version.header()) {
            return Err(Errno::EMSGSIZE);
        }
        let first = self.first((slot, length), start)?;
        let mut bytes = zeroes(length)?;
        self.pages.read(slot + first, &mut bytes);
        Ok(bytes)
    }
    /// Gives a frame back to the program: it was sent, or dropped.
    pub(super) fn finish(&mut self, frame: &GivenFrame) {
        self.pages.publish(frame.at, AVAILABLE);
        self.head = (self.head + 1) % self.request.frames.max(1);
    }
    /// Tells the program that a frame has a wrong format. It stays the next one.
    pub(super) fn refuse(&mut self, frame: &GivenFrame) {
        self.pages.publish(frame.at, WRONG_FORMAT);
    }
}
