//! The rings between an interface's client and its driver, in one region.
//!
//! ```text
//! word     0  ring of packets and buffers: 768 entries of 24 words   (client to driver)
//!      18448  ring of ends and reception: 1344 entries of 5 words    (driver to client)
//!      25184  end
//!
//! packet    0 tag 8 | 8 kind 1, flags 1, header length 1, segments here 1 | 12 start and offset of the checksum 2 + 2
//!          16 hash of the flow 4 | 20 size and header length of segmentation 2 + 2 | 24 header 144 | 168 segments 3 times 8
//! more      0 tag | 8 kind, flags, 0, segments here | 24 segments 18 times 8
//! buffers   8 kind, 0, 0, buffers here | 24 buffers 18 times: number 4, frame 4
//! segment   0 frame 4 | 4 offset 2 | 6 length 2
//!
//! end       0 tag 8 | 8 kind 1, flags 1, result 1, length of the lead 1 | 12 offset and length 2 + 2
//! or piece 16 start and offset of the checksum, size and header length of segmentation 4 times 2 | 24 lead 12 | 36 unused 4
//! ```
//! The tag of a piece is its buffer's number. There is room for all packets on their way, and for all buffers that come back, so
//! neither side waits for room.
#[cfg(any(not(target_os = "none"), skerry_process))]
use super::ReceivedPiece;
use super::{
    ChecksumState, HEADER_MAX, LEAD_MAX, NUMBERS, NicError, PartialChecksum, SEGMENTS_MAX,
    Segmentation, SegmentationKind,
};
use super::{Packet, PacketSegment};
use rt::ring::words_for;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The greatest number of packets on their way to a driver.
pub(crate) const SENDS: usize = 256;
/// Entries of a packet, at most.
pub(crate) const PACKET_ENTRIES: usize = 2;
/// Entries that may hold buffers.
pub(crate) const BUFFER_ENTRIES: usize = 256;
const FORTH: usize = PACKET_ENTRIES * SENDS + BUFFER_ENTRIES;
/// Entries for changes of the link and announcements.
const EVENTS: usize = 64;
const BACK: usize = SENDS + NUMBERS as usize + EVENTS;
const FORTH_WORDS: usize = words_for::<ForthEntry>(FORTH);
const BACK_WORDS: usize = words_for::<BackEntry>(BACK);
/// Sizes of the two rings, in words.
pub(crate) const RINGS: [usize; 2] = [FORTH_WORDS, BACK_WORDS];
const _: () = assert!(FORTH_WORDS == 18448 && BACK_WORDS == 25184 - 18448);

/// Segments in the first entry of a packet, and in the second.
pub(crate) const FIRST: usize = 3;
const SECOND: usize = HEADER_MAX / size_of::<SegmentEntry>();
const _: () = assert!(FIRST + SECOND == SEGMENTS_MAX);
/// Buffers in an entry.
pub(crate) const BUFFERS: usize = HEADER_MAX / size_of::<BufferEntry>();

/// Kinds of entries of the client.
pub(crate) const PACKET: u8 = 0;
pub(crate) const MORE_SEGMENTS: u8 = 1;
pub(crate) const LEND: u8 = 2;

/// Kinds of entries of the driver.
pub(crate) const SENT: u8 = 0;
pub(crate) const PIECE: u8 = 1;
pub(crate) const LINK: u8 = 2;
pub(crate) const ANNOUNCE: u8 = 3;

/// Flags: the checksum is partial; it is valid; segmentation with ECN; another entry belongs to the packet.
const PARTIAL: u8 = 1;
const VALID: u8 = 2;
const ECN: u8 = 4;
pub(crate) const MORE: u8 = 8;
const KIND_SHIFT: u8 = 4;

/// A segment in an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct SegmentEntry {
    pub(super) frame: u32,
    pub(super) offset: u16,
    pub(super) length: u16,
}

/// A buffer in an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct BufferEntry {
    pub(super) number: u32,
    pub(super) frame: u32,
}

/// The entry of the client: a packet, the rest of one, or buffers.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct ForthEntry {
    pub(super) tag: u64,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) header_length: u8,
    pub(super) count: u8,
    offload: Offload,
    pub(super) flow: u32,
    cut: Cut,
    pub(super) bytes: [u8; HEADER_MAX],
    pub(super) segments: [SegmentEntry; FIRST],
}
const _: () = assert!(size_of::<ForthEntry>() == 192);

/// The entry of the driver: an end, a piece of a received packet, or an event.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct BackEntry {
    pub(super) tag: u64,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) result: u8,
    pub(super) lead_length: u8,
    pub(super) offset: u16,
    pub(super) length: u16,
    offload: Offload,
    cut: Cut,
    pub(super) lead: [u8; LEAD_MAX],
    unused: [u8; 4],
}
const _: () = assert!(size_of::<BackEntry>() == 40);

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Offload {
    start: u16,
    offset: u16,
}

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Cut {
    size: u16,
    header_length: u16,
}

/// Encodes a segmentation as flags and fields.
fn encode_cut(segmentation: Option<Segmentation>) -> (u8, Cut) {
    let Some(Segmentation { kind, size, header_length, has_ecn }) = segmentation else {
        return (0, Cut::default());
    };
    let kind = match kind {
        SegmentationKind::Tcp4 => 1,
        SegmentationKind::Tcp6 => 2,
        SegmentationKind::Udp => 3,
    };
    (kind << KIND_SHIFT | if has_ecn { ECN } else { 0 }, Cut { size, header_length })
}

/// Decodes a segmentation; `None` if there is no such kind.
fn decode_cut(flags: u8, cut: Cut) -> Option<Option<Segmentation>> {
    let kind = match flags >> KIND_SHIFT {
        0 => return (flags & ECN == 0).then_some(None),
        1 => SegmentationKind::Tcp4,
        2 => SegmentationKind::Tcp6,
        3 => SegmentationKind::Udp,
        _ => return None,
    };
    let Cut { size, header_length } = cut;
    Some(Some(Segmentation { kind, size, header_length, has_ecn: flags & ECN != 0 }))
}

impl ForthEntry {
    fn new(tag: u64, kind: u8) -> ForthEntry {
        let (offload, cut) = (Offload::default(), Cut::default());
        let (flags, header_length, count, flow) = (0, 0, 0, 0);
        let (bytes, segments) = ([0; HEADER_MAX], [SegmentEntry::default(); FIRST]);
        ForthEntry { tag, kind, flags, header_length, count, offload, flow, cut, bytes, segments }
    }

    /// Encodes `packet`, which is encodable, under `tag`: in one entry, or two.
    pub(super) fn of(packet: &Packet, tag: u64) -> (ForthEntry, Option<ForthEntry>) {
        let mut entry = ForthEntry::new(tag, PACKET);
        let header = packet.header.as_slice();
        entry.bytes.iter_mut().zip(header).for_each(|(to, from)| *to = *from);
        entry.header_length = header.len() as u8;
        entry.flow = packet.flow;
        (entry.flags, entry.cut) = encode_cut(packet.segmentation);
        if let Some(PartialChecksum { start, offset }) = packet.checksum {
            entry.flags |= PARTIAL;
            entry.offload = Offload { start, offset };
        }
        let first = packet.segments.len().min(FIRST);
        entry.count = first as u8;
        let encode = |segment: &PacketSegment| SegmentEntry {
            frame: segment.frame.partner_id().0,
            offset: segment.offset as u16,
            length: segment.length as u16,
        };
        entry.segments.iter_mut().zip(&packet.segments).for_each(|(to, from)| *to = encode(from));
        let rest = packet.segments.get(first..).filter(|rest| !rest.is_empty());
        let more = rest.map(|rest| {
            entry.flags |= MORE;
            let mut more = ForthEntry::new(tag, MORE_SEGMENTS);
            more.count = rest.len() as u8;
            let mut list = [SegmentEntry::default(); SECOND];
            list.iter_mut().zip(rest).for_each(|(to, from)| *to = encode(from));
            more.bytes.copy_from_slice(list.as_bytes());
            more
        });
        (entry, more)
    }

    /// Encodes buffers, at most [`BUFFERS`].
    pub(super) fn of_buffers(buffers: &[BufferEntry]) -> ForthEntry {
        let mut entry = ForthEntry::new(0, LEND);
        let bytes = buffers.as_bytes();
        entry.bytes.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        entry.count = buffers.len().min(BUFFERS) as u8;
        entry
    }

    /// Returns the checksum and the segmentation of a packet; `None` if they make no sense.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn offloads(&self) -> Option<(Option<PartialChecksum>, Option<Segmentation>)> {
        let Offload { start, offset } = self.offload;
        let checksum = (self.flags & PARTIAL != 0).then_some(PartialChecksum { start, offset });
        Some((checksum, decode_cut(self.flags, self.cut)?))
    }

    /// Returns the segments of a second entry, as many as there can be.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn more_segments(&self) -> [SegmentEntry; SECOND] {
        FromBytes::read_from_bytes(&self.bytes).unwrap_or_default()
    }

    /// Returns the buffers, as many as there can be.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn buffers(&self) -> [BufferEntry; BUFFERS] {
        FromBytes::read_from_bytes(&self.bytes).unwrap_or_default()
    }
}

/// Returns whether `packet` can be encoded in entries.
pub(super) fn is_encodable(packet: &Packet) -> bool {
    let fits = |segment: &PacketSegment| {
        u16::try_from(segment.offset).is_ok() && u16::try_from(segment.length).is_ok()
    };
    packet.segments.len() <= SEGMENTS_MAX && packet.segments.iter().all(fits)
}

impl BackEntry {
    /// Makes the entry of a packet's end.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn sent(tag: u64, result: Result<(), NicError>) -> BackEntry {
        let result = match result {
            Ok(()) => 0,
            Err(NicError::Invalid) => 1,
            Err(NicError::Unsupported) => 2,
            Err(NicError::Refused) => 3,
            Err(NicError::TimedOut) => 4,
            Err(NicError::Device) => 5,
            Err(NicError::Restarted) => 6,
            Err(NicError::NoMemory) => 7,
        };
        BackEntry { tag, kind: SENT, result, ..BackEntry::default() }
    }

    /// Makes the entry of an event.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn event(kind: u8, is_up: u8) -> BackEntry {
        BackEntry { kind, result: is_up, ..BackEntry::default() }
    }

    /// Makes the entry of a piece.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn piece(piece: &ReceivedPiece, flags: u8) -> BackEntry {
        let said = piece.lead.as_slice();
        let mut lead = [0; LEAD_MAX];
        lead.iter_mut().zip(said).for_each(|(to, from)| *to = *from);
        let ReceivedPiece { buffer, offset, length, .. } = piece;
        BackEntry {
            tag: buffer.number.into(),
            kind: PIECE,
            flags,
            lead_length: said.len() as u8,
            offset: *offset,
            length: *length,
            lead,
            ..BackEntry::default()
        }
    }

    /// Notes the checksum and the merging in the entry of a packet's first piece.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn note(&mut self, checksum: ChecksumState, segmentation: Option<Segmentation>) {
        let (flags, cut) = encode_cut(segmentation);
        self.flags |= flags;
        self.cut = cut;
        match checksum {
            ChecksumState::Unknown => {}
            ChecksumState::Valid => self.flags |= VALID,
            ChecksumState::Partial(PartialChecksum { start, offset }) => {
                self.flags |= PARTIAL;
                self.offload = Offload { start, offset };
            }
        }
    }

    /// Returns the result of a packet; `None` if there is no such result.
    pub(super) fn result(&self) -> Option<Result<(), NicError>> {
        Some(Err(match self.result {
            0 => return Some(Ok(())),
            1 => NicError::Invalid,
            2 => NicError::Unsupported,
            3 => NicError::Refused,
            4 => NicError::TimedOut,
            5 => NicError::Device,
            6 => NicError::Restarted,
            7 => NicError::NoMemory,
            _ => return None,
        }))
    }

    /// Returns the checksum and the merging of a received packet; `None` if they make no sense.
    pub(super) fn meaning(&self) -> Option<(ChecksumState, Option<Segmentation>)> {
        let Offload { start, offset } = self.offload;
        let checksum = match (self.flags & PARTIAL != 0, self.flags & VALID != 0) {
            (true, true) => return None,
            (true, false) => ChecksumState::Partial(PartialChecksum { start, offset }),
            (false, true) => ChecksumState::Valid,
            (false, false) => ChecksumState::Unknown,
        };
        Some((checksum, decode_cut(self.flags, self.cut)?))
    }
}
