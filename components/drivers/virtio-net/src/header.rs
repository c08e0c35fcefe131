//! The header before each packet (section 5.1.6).
use interfaces::nic::{
    ChecksumState, NicError, NicInfo, Offloads, PACKET_MIN, Packet, PacketSegment, PartialChecksum,
    Segmentation, SegmentationKind,
};
use rt::PAGE_BYTES;
use zerocopy::{FromBytes, Immutable, IntoBytes, little_endian::U16};

pub(crate) const HEADER_BYTES: usize = size_of::<NetHeader>();
const _: () = assert!(HEADER_BYTES == 12);

const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;

const WHOLE: u8 = 0;
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

/// Bytes of an Ethernet header with a VLAN tag.
pub(crate) const LINK_BYTES: usize = PACKET_MIN + 4;
/// The greatest length of a packet that is cut, or was merged.
pub(crate) const SEGMENTED_MAX: usize = 65535 + LINK_BYTES;

/// `struct virtio_net_hdr_v1`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct NetHeader {
    flags: u8,
    kind: u8,
    header_length: U16,
    size: U16,
    checksum_start: U16,
    checksum_offset: U16,
    pub(crate) buffers: U16,
}

impl NetHeader {
    /// Returns the header of a packet to be sent.
    pub(crate) fn of(packet: &Packet) -> NetHeader {
        let mut header = NetHeader::default();
        if let Some(PartialChecksum { start, offset }) = packet.checksum {
            header.flags = NEEDS_CHECKSUM;
            header.checksum_start = start.into();
            header.checksum_offset = offset.into();
        }
        if let Some(Segmentation { kind, size, header_length, has_ecn }) = packet.segmentation {
            header.kind = match kind {
                SegmentationKind::Tcp4 => TCP4,
                SegmentationKind::Tcp6 => TCP6,
                SegmentationKind::Udp => UDP,
            } | if has_ecn { ECN } else { 0 };
            header.size = size.into();
            header.header_length = header_length.into();
        }
        header
    }

    /// Returns the state of the checksum and the merging of a received packet of `bytes` bytes; `None` if it makes no sense or
    /// needs an offload that is not in `offloads`.
    pub(crate) fn meaning(
        &self,
        bytes: usize,
        offloads: Offloads,
    ) -> Option<(ChecksumState, Option<Segmentation>)> {
        let has_checksum = offloads.contains(Offloads::RECEIVE_CHECKSUM);
        let checksum = if self.flags & NEEDS_CHECKSUM != 0 {
            let (start, offset) = (self.checksum_start.get(), self.checksum_offset.get());
            let partial = PartialChecksum { start, offset };
            if !has_checksum || !partial.is_inside(bytes) {
                return None;
            }
            ChecksumState::Partial(partial)
        } else if has_checksum && self.flags & DATA_VALID != 0 {
            ChecksumState::Valid
        } else {
            ChecksumState::Unknown
        };
        let has_ecn = self.kind & ECN != 0;
        let (kind, needed) = match self.kind & !ECN {
            WHOLE if !has_ecn => return Some((checksum, None)),
            TCP4 => (SegmentationKind::Tcp4, Offloads::RECEIVE_TCP4),
            TCP6 => (SegmentationKind::Tcp6, Offloads::RECEIVE_TCP6),
            UDP if !has_ecn => (SegmentationKind::Udp, Offloads::RECEIVE_UDP),
            _ => return None,
        };
        let is_agreed = offloads.contains(needed)
            && (!has_ecn || offloads.contains(Offloads::RECEIVE_ECN))
            && self.size.get() > 0;
        let header_length = self.header_length.get().min(bytes.min(u16::MAX.into()) as u16);
        let size = self.size.get();
        is_agreed.then_some((checksum, Some(Segmentation { kind, size, header_length, has_ecn })))
    }
}

/// Checks a packet to be sent. Returns its length.
pub(crate) fn check(packet: &Packet, info: &NicInfo) -> Result<usize, NicError> {
    let is_good = |segment: &PacketSegment| {
        let end = u64::from(segment.offset) + u64::from(segment.length);
        segment.length > 0
            && end <= PAGE_BYTES as u64
            && rt::device::frame_address(&segment.frame).is_some()
    };
    let is_sound =
        packet.segments.len() <= info.max_segments && packet.segments.iter().all(is_good);
    if !is_sound {
        return Err(NicError::Invalid);
    }
    let bytes = packet.bytes();
    let longest = match packet.segmentation {
        Some(_) => SEGMENTED_MAX,
        None => usize::from(info.mtu) + LINK_BYTES,
    };
    if !(PACKET_MIN..=longest).contains(&bytes) {
        return Err(NicError::Invalid);
    }
    if let Some(checksum) = packet.checksum {
        if !info.offloads.contains(Offloads::SEND_CHECKSUM) {
            return Err(NicError::Unsupported);
        }
        if !checksum.is_inside(bytes) {
            return Err(NicError::Invalid);
        }
    }
    if let Some(segmentation) = packet.segmentation {
        check_segmentation(&segmentation, packet, (bytes, info.offloads))?;
    }
    Ok(bytes)
}

fn check_segmentation(
    segmentation: &Segmentation,
    packet: &Packet,
    (bytes, offloads): (usize, Offloads),
) -> Result<(), NicError> {
    let needed = match segmentation.kind {
        SegmentationKind::Tcp4 => Offloads::SEND_TCP4,
        SegmentationKind::Tcp6 => Offloads::SEND_TCP6,
        SegmentationKind::Udp => Offloads::SEND_UDP,
    };
    let has_ecn = segmentation.has_ecn;
    if !offloads.contains(needed) || has_ecn && !offloads.contains(Offloads::SEND_ECN) {
        return Err(NicError::Unsupported);
    }
    let headers = PACKET_MIN..=bytes;
    let is_sound = packet.checksum.is_some()
        && segmentation.size > 0
        && headers.contains(&segmentation.header_length.into())
        && !(has_ecn && segmentation.kind == SegmentationKind::Udp);
    if is_sound { Ok(()) } else { Err(NicError::Invalid) }
}
