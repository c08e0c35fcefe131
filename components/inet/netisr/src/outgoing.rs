//! Packets of the stack in the form that cards take.
use crate::steering;
use alloc::vec::Vec;
use inet::{BufferChain, Departure, LinkOffloads, TransportOffload, device_work};
use interfaces::nic::{
    HEADER_MAX, HeaderBytes, NicInfo, Offloads, Packet, PacketSegment, PartialChecksum,
    Segmentation,
};
use packet::ethernet;
use rt::{PAGE_BYTES, memory::Frame};

/// The properties of a card that packets for it depend on.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    offloads: Offloads,
    segments: usize,
    /// Secret of the hash that chooses the queue; `None` if there is one queue.
    key: Option<u64>,
}

impl Limits {
    /// Returns the properties of a card. `key` is a secret.
    pub fn of(info: &NicInfo, key: u64) -> Limits {
        let key = (info.pairs_max > 1).then_some(key);
        Limits { offloads: info.offloads, segments: info.max_segments, key }
    }
    /// Returns the work that the card takes off the stack.
    pub fn link_offloads(&self) -> LinkOffloads {
        let pairs = [
            (Offloads::SEND_TCP4, LinkOffloads::TCP4),
            (Offloads::SEND_TCP6, LinkOffloads::TCP6),
            (Offloads::SEND_UDP, LinkOffloads::UDP),
        ];
        let mut offloads = LinkOffloads::empty();
        if self.offloads.contains(Offloads::SEND_CHECKSUM) {
            offloads |= LinkOffloads::CHECKSUM;
            for (has, gives) in pairs {
                offloads.set(gives, self.offloads.contains(has));
            }
        }
        offloads
    }
    /// Returns the packet for the card. `None` if memory was refused, or it cannot be sent.
    pub fn packet(&self, departure: Departure<PacketSegment>) -> Option<Packet> {
        let Departure { headers, payload, offload } = departure;
        let headers = headers.as_slice();
        let (header, segments) = match with_payload(headers, &payload) {
            Some(whole) => (whole, Vec::new()),
            None => (HeaderBytes::new(headers)?, self.segments(payload)?),
        };
        let (checksum, segmentation) = match offload {
            Some(offload) => {
                let (checksum, segmentation) = self.offload(headers, offload)?;
                (Some(checksum), segmentation)
            }
            None => (None, None),
        };
        let flow = self.key.map_or(0, |key| steering::flow(headers, key));
        Some(Packet { tag: 0, header, segments, checksum, segmentation, flow })
    }
    /// Returns the parts of frames that hold `payload`: copies if it is in more than the card takes.
    fn segments(&self, payload: BufferChain<PacketSegment>) -> Option<Vec<PacketSegment>> {
        if payload.pieces().len() <= self.segments {
            return Some(payload.into_pieces());
        }
        let mut copies = Vec::new();
        for start in (0..payload.length()).step_by(PAGE_BYTES) {
            let mut frame = Frame::unfilled().ok()?;
            let length = payload.read(start, frame.exclusive()?) as u32;
            copies.push(PacketSegment { frame, offset: 0, length });
        }
        (copies.len() <= self.segments).then_some(copies)
    }
    /// Returns the work that is left to the card.
    fn offload(
        &self,
        headers: &[u8],
        offload: TransportOffload,
    ) -> Option<(PartialChecksum, Option<Segmentation>)> {
        let (checksum, segmentation) = device_work(headers, ethernet::HEADER_LENGTH, offload)?;
        // A card that does not know ECN repeats the flag in each segment.
        let knows_ecn = self.offloads.contains(Offloads::SEND_ECN);
        let segmentation =
            segmentation.map(|one| Segmentation { has_ecn: one.has_ecn && knows_ecn, ..one });
        Some((checksum, segmentation))
    }
}

/// Returns a whole packet that fits into header bytes: it needs no frame that the device reaches.
fn with_payload(headers: &[u8], payload: &BufferChain<PacketSegment>) -> Option<HeaderBytes> {
    let length = headers.len().checked_add(payload.length())?;
    if length > HEADER_MAX {
        return None;
    }
    let mut bytes = [0; HEADER_MAX];
    bytes.get_mut(..headers.len())?.copy_from_slice(headers);
    let copied = payload.read(0, bytes.get_mut(headers.len()..length)?);
    (copied == payload.length()).then(|| HeaderBytes::new(bytes.get(..length)?))?
}
