//! Packets to be sent, and their ends.
use super::{NicError, SendSink};
use crate::marshal::Marshal;
use alloc::{sync::Arc, vec::Vec};
use rt::memory::Frame;

/// The greatest number of header bytes of a packet.
pub const HEADER_MAX: usize = 144;
/// The greatest number of segments of a packet.
pub const SEGMENTS_MAX: usize = 21;
/// Length of an Ethernet header, and so of the shortest packet.
pub const PACKET_MIN: usize = 14;

/// The first bytes of a packet, which the client writes in place.
#[derive(Clone, Copy)]
pub struct HeaderBytes {
    length: u8,
    bytes: [u8; HEADER_MAX],
}

impl HeaderBytes {
    /// No bytes.
    pub const EMPTY: HeaderBytes = HeaderBytes { length: 0, bytes: [0; HEADER_MAX] };
    /// Returns `bytes` as a header; `None` if they are too many.
    pub fn new(bytes: &[u8]) -> Option<HeaderBytes> {
        let mut header = HeaderBytes::EMPTY;
        header.set(bytes).then_some(header)
    }
    /// Becomes `bytes`, in place. Returns whether they are not too many.
    pub fn set(&mut self, bytes: &[u8]) -> bool {
        let Some(place) = self.bytes.get_mut(..bytes.len()) else { return false };
        place.copy_from_slice(bytes);
        self.length = bytes.len() as u8;
        true
    }
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl PartialEq for HeaderBytes {
    fn eq(&self, other: &HeaderBytes) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for HeaderBytes {}

impl core::fmt::Debug for HeaderBytes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x?}", self.as_slice())
    }
}

/// A part of a frame, of any alignment.
#[derive(Clone, Debug)]
pub struct PacketSegment {
    /// The frame, lent to the device until the packet's end.
    pub frame: Frame,
    /// First byte.
    pub offset: u32,
    /// Bytes, not passing the frame's end.
    pub length: u32,
}

/// A checksum that covers the packet from `start` on and of which the field at `start + offset` holds the pseudo header's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct PartialChecksum {
    /// First byte that is summed.
    pub start: u16,
    /// Offset of the checksum's field from `start`.
    pub offset: u16,
}

impl PartialChecksum {
    /// Returns whether the field lies in a packet of `bytes` bytes.
    pub fn is_inside(&self, bytes: usize) -> bool {
        usize::from(self.start) + usize::from(self.offset) + 2 <= bytes
    }
}

/// The protocol by which a packet is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum SegmentationKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over either, each segment a datagram.
    Udp,
}

/// The way in which a packet is cut, or was merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct Segmentation {
    /// The protocol.
    pub kind: SegmentationKind,
    /// Payload bytes of each segment but the last.
    pub size: u16,
    /// Bytes of all headers, which are repeated in each segment. Of a received packet a hint of the device, or zero.
    pub header_length: u16,
    /// The congestion-window-reduced flag of TCP is set, in the first segment alone.
    pub has_ecn: bool,
}

/// The state of a received packet's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum ChecksumState {
    /// Nothing is known of it.
    Unknown,
    /// The device has checked it.
    Valid,
    /// It holds the pseudo header's part alone, because the packet never left the host. Its data are good.
    Partial(PartialChecksum),
}

/// A packet to be sent: its header bytes, then its segments.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The client's own number, handed back at the end.
    pub tag: u64,
    /// The first bytes, from the Ethernet header on.
    pub header: HeaderBytes,
    /// The parts of frames that hold the rest, in order.
    pub segments: Vec<PacketSegment>,
    /// The checksum that the device completes.
    pub checksum: Option<PartialChecksum>,
    /// The way in which the device cuts the packet. Needs a checksum.
    pub segmentation: Option<Segmentation>,
    /// Hash of the flow: it chooses the queue.
    pub flow: u32,
}

impl Packet {
    /// Returns the length of the whole packet.
    pub fn bytes(&self) -> usize {
        let of_segments = self.segments.iter().map(|segment| segment.length as usize);
        self.header.as_slice().len() + of_segments.sum::<usize>()
    }
}

/// The end of a packet.
#[derive(Debug)]
pub struct Sent {
    /// Tag of the packet.
    pub tag: u64,
    /// Success once the device has taken the packet; nothing is known of its arrival.
    pub result: Result<(), NicError>,
    /// The packet's segments, whose frames are the client's again.
    pub segments: Vec<PacketSegment>,
}

/// The end of a packet, and the sink that must be told of it.
pub struct Ended {
    /// The sink.
    pub sink: Arc<dyn SendSink>,
    /// The end.
    pub sent: Sent,
}

/// Tells the sinks of `ended`, in batches, and empties it. `batch` is empty before and after. Called without locks.
pub fn tell(ended: &mut Vec<Ended>, batch: &mut Vec<Sent>) {
    let mut last: Option<Arc<dyn SendSink>> = None;
    for Ended { sink, sent } in ended.drain(..) {
        if let Some(other) = last.take_if(|last| !Arc::ptr_eq(last, &sink)) {
            other.sent(batch);
            batch.clear();
        }
        batch.push(sent);
        last.get_or_insert(sink);
    }
    if let Some(last) = last {
        last.sent(batch);
        batch.clear();
    }
}
