//! Packets of the stack in the form that cards take.
use crate::steering;
use alloc::vec::Vec;
use inet::{BufferChain, Departure, LinkOffloads, PartChecksum, cut_tcp, device_work};
use interfaces::nic::{
    HEADER_MAX, HeaderBytes, NicInfo, Offloads, Packet, PacketSegment, PartialChecksum,
    Segmentation, SegmentationKind,
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
    /// Returns the work that the card, or [`Limits::packets`] for it, takes off the stack.
    pub fn link_offloads(&self) -> LinkOffloads {
        let pairs = [
            (Offloads::SEND_TCP4, LinkOffloads::TCP4),
            (Offloads::SEND_TCP6, LinkOffloads::TCP6),
            (Offloads::SEND_UDP, LinkOffloads::UDP),
        ];
        let mut offloads = LinkOffloads::CUT_TCP;
        if self.offloads.contains(Offloads::SEND_CHECKSUM) {
            offloads |= LinkOffloads::CHECKSUM;
            for (has, gives) in pairs {
                offloads.set(gives, self.offloads.contains(has));
            }
        }
        offloads
    }
    /// Appends the packets for the card to `packets`: one, or the parts of one that the card does not cut. Returns the number of
    /// those that are lost, because memory was refused or they cannot be sent.
    pub fn packets(&self, departure: Departure<PacketSegment>, packets: &mut Vec<Packet>) -> u64 {
        let count = u64::from(departure.parts());
        let before = packets.len();
        let headers = departure.headers.as_slice();
        let work =
            departure.offload.map(|offload| device_work(headers, ethernet::HEADER_LENGTH, offload));
        match work {
            // The headers do not have what the work is about.
            Some(None) => count,
            Some(Some((checksum, Some(cut)))) if !self.does_card_cut(&departure, cut) => {
                self.parts(departure, checksum, packets);
                count.saturating_sub((packets.len() - before) as u64)
            }
            work => {
                let Departure { headers, payload, .. } = departure;
                match self.push(headers.as_slice(), payload, work.flatten(), packets) {
                    Some(()) => 0,
                    None => count,
                }
            }
        }
    }
    /// Returns whether the card cuts a packet.
    fn does_card_cut(&self, packet: &Departure<PacketSegment>, cut: Segmentation) -> bool {
        let needed = match cut.kind {
            SegmentationKind::Tcp4 => Offloads::SEND_CHECKSUM | Offloads::SEND_TCP4,
            SegmentationKind::Tcp6 => Offloads::SEND_CHECKSUM | Offloads::SEND_TCP6,
            SegmentationKind::Udp => return true,
        };
        // A card that does not know ECN would repeat the flag CWR in each segment.
        let knows_flags = !cut.has_ecn || self.offloads.contains(Offloads::SEND_ECN);
        let fits = packet.payload.pieces().len() <= self.segments;
        self.offloads.contains(needed) && knows_flags && fits
    }
    /// Appends the parts of a packet of TCP.
    fn parts(
        &self,
        departure: Departure<PacketSegment>,
        checksum: PartialChecksum,
        packets: &mut Vec<Packet>,
    ) {
        let (sums, work) = if self.offloads.contains(Offloads::SEND_CHECKSUM) {
            (PartChecksum::LeftToDevice, Some((checksum, None)))
        } else {
            (PartChecksum::Written, None)
        };
        packets.reserve(departure.parts() as usize);
        // A packet of anything but TCP is lost, which the caller sees by the number of parts.
        let _ = cut_tcp(departure, ethernet::HEADER_LENGTH, sums, |headers, payload| {
            // One that is lost is missing, too.
            let _ = self.push(headers, payload, work, packets);
        });
    }
    /// Appends a packet for the card, with the work that the card does. `None` if memory was refused, or it cannot be sent.
    #[inline]
    fn push(
        &self,
        headers: &[u8],
        payload: BufferChain<PacketSegment>,
        work: Option<(PartialChecksum, Option<Segmentation>)>,
        packets: &mut Vec<Packet>,
    ) -> Option<()> {
        let whole = with_payload(headers, &payload);
        let segments = if whole.is_some() { Vec::new() } else { self.segments(payload)? };
        let (checksum, segmentation) =
            work.map_or((None, None), |(checksum, cut)| (Some(checksum), cut));
        let flow = self.key.map_or(0, |key| steering::flow(headers, key));
        // The header is written in its place, since it is most of the packet.
        let header = HeaderBytes::EMPTY;
        packets.push(Packet { tag: 0, header, segments, checksum, segmentation, flow });
        let header = &mut packets.last_mut()?.header;
        let is_set = match &whole {
            Some((bytes, length)) => header.set(bytes.get(..*length).unwrap_or_default()),
            None => header.set(headers),
        };
        if !is_set {
            packets.pop();
            return None;
        }
        Some(())
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
}

/// Returns the bytes of a whole packet that fits into those of headers, and their number: it needs no frame that the device reaches.
fn with_payload(
    headers: &[u8],
    payload: &BufferChain<PacketSegment>,
) -> Option<([u8; HEADER_MAX], usize)> {
    let length = headers.len().checked_add(payload.length())?;
    if length > HEADER_MAX {
        return None;
    }
    let mut bytes = [0; HEADER_MAX];
    bytes.get_mut(..headers.len())?.copy_from_slice(headers);
    let copied = payload.read(0, bytes.get_mut(headers.len()..length)?);
    (copied == payload.length()).then_some((bytes, length))
}
