//! The bytes before a packet that programs read and write: `struct tun_pi` and `struct virtio_net_hdr`.
//!
//! ```text
//! tun_pi           0 flags 2 | 2 EtherType 2, in the order of the network
//! virtio_net_hdr   0 flags 1, kind 1 | 2 length of headers 2 | 4 bytes of a segment 2 | 6 start and offset of the checksum 2 + 2
//! ```
//! Source: Linux `include/uapi/linux/if_tun.h`, `virtio_net.h`, and `include/linux/virtio_net.h` for the checks.
use interfaces::nic::{ChecksumState, Packet, PartialChecksum, Segmentation, SegmentationKind};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout,
    byteorder::{BigEndian, LittleEndian, U16},
};

/// `TUN_PKT_STRIP`: the program has no room for the whole packet.
pub const CUT: u16 = 1;

/// `struct tun_pi`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct PacketInfo {
    /// [`CUT`].
    pub flags: U16<LittleEndian>,
    /// EtherType.
    pub protocol: U16<BigEndian>,
}

/// `struct virtio_net_hdr`, with numbers in the order of this machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct VnetHeader {
    /// [`NEEDS_CHECKSUM`].
    pub flags: u8,
    /// Kind of segmentation: `VIRTIO_NET_HDR_GSO_*`.
    pub kind: u8,
    /// Bytes of headers: a hint.
    pub header_length: U16<LittleEndian>,
    /// Payload bytes of each segment.
    pub segment: U16<LittleEndian>,
    /// First byte that is summed.
    pub start: U16<LittleEndian>,
    /// Offset of the checksum's field from there.
    pub offset: U16<LittleEndian>,
}

/// Bytes of `struct tun_pi`.
pub const INFO_BYTES: usize = size_of::<PacketInfo>();
/// Bytes of `struct virtio_net_hdr`, and so the least that a program may set for them.
pub const VNET_BYTES: usize = size_of::<VnetHeader>();
const _: () = assert!(INFO_BYTES == 4 && VNET_BYTES == 10);

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
pub const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_TCPV4`, `_UDP`, `_TCPV6` and `_ECN`.
const TCP4: u8 = 1;
const UDP: u8 = 3;
const TCP6: u8 = 4;
const ECN: u8 = 0x80;
/// `GSO_BY_FRAGS`: a size of segments that Linux uses itself.
const BY_FRAGMENTS: u16 = 0xffff;
/// Least bytes of headers of IPv4, IPv6, TCP and UDP.
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 2;

/// A header that makes no sense for its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHeader;

impl VnetHeader {
    /// Sets the hint of headers of a packet of `length` bytes to at least those up to the checksum (`tun_get_user`).
    ///
    /// # Errors
    /// [`BadHeader`] if the hint is longer than the packet.
    pub fn settle(&mut self, length: usize) -> Result<(), BadHeader> {
        let behind = usize::from(self.start.get())
            .saturating_add(self.offset.get().into())
            .saturating_add(CHECKSUM_BYTES);
        if self.flags & NEEDS_CHECKSUM != 0 && behind > self.header_length.get().into() {
            // As in Linux the sum is cut to 16 bits.
            self.header_length.set(behind as u16);
        }
        if usize::from(self.header_length.get()) > length { Err(BadHeader) } else { Ok(()) }
    }
    /// Returns the state of the checksum of a packet of `length` bytes that has this header (`virtio_net_hdr_to_skb`).
    ///
    /// # Errors
    /// [`BadHeader`] for a kind or a size of segments that there is not, and for headers behind the packet's end.
    pub fn checksum(&self, length: usize) -> Result<ChecksumState, BadHeader> {
        let (network, transport) = match self.kind & !ECN {
            0 if self.kind == 0 => (IPV4_BYTES, 0),
            TCP4 => (IPV4_BYTES, TCP_BYTES),
            TCP6 => (IPV6_BYTES, TCP_BYTES),
            UDP => (IPV4_BYTES, UDP_BYTES),
            _ => return Err(BadHeader),
        };
        let is_cut = self.kind != 0;
        if is_cut && matches!(self.segment.get(), 0 | BY_FRAGMENTS) {
            return Err(BadHeader);
        }
        let (start, offset) = (self.start.get(), self.offset.get());
        if self.flags & NEEDS_CHECKSUM == 0 {
            let is_whole = !is_cut || network + transport <= length;
            return if is_whole { Ok(ChecksumState::Unknown) } else { Err(BadHeader) };
        }
        let at = usize::from(start);
        let needed = at + transport.max(usize::from(offset) + CHECKSUM_BYTES);
        if needed > length || network.max(at) + transport > length {
            return Err(BadHeader);
        }
        Ok(ChecksumState::Partial(PartialChecksum { start, offset }))
    }
    /// Returns the header of a packet that the stack sends (`virtio_net_hdr_from_skb`).
    pub fn of(packet: &Packet) -> VnetHeader {
        let mut header = VnetHeader::default();
        if let Some(Segmentation { kind, size, header_length, has_ecn }) = packet.segmentation {
            header.kind = match kind {
                SegmentationKind::Tcp4 => TCP4,
                SegmentationKind::Tcp6 => TCP6,
                SegmentationKind::Udp => UDP,
            } | if has_ecn { ECN } else { 0 };
            header.segment.set(size);
            header.header_length.set(header_length);
        }
        if let Some(PartialChecksum { start, offset }) = packet.checksum {
            header.flags = NEEDS_CHECKSUM;
            header.start.set(start);
            header.offset.set(offset);
        }
        header
    }
}

/// Returns the EtherType of a packet of IP by its version; `None` for another one.
pub fn protocol_of(first: u8) -> Option<u16> {
    match first >> 4 {
        4 => Some(0x0800),
        6 => Some(0x86dd),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(flags: u8, kind: u8, numbers: [u16; 4]) -> VnetHeader {
        let [header_length, segment, start, offset] = numbers.map(U16::new);
        VnetHeader { flags, kind, header_length, segment, start, offset }
    }

    #[test]
    fn a_header_of_zeroes_says_nothing() {
        assert_eq!(VnetHeader::default().checksum(0), Ok(ChecksumState::Unknown));
        assert_eq!(header(2, 0, [0; 4]).checksum(40), Ok(ChecksumState::Unknown));
        assert_eq!(header(0, 0, [0; 4]).settle(0), Ok(()));
    }

    #[test]
    fn a_checksum_lies_in_the_packet() {
        let state = header(1, 0, [0, 0, 20, 6]).checksum(28);
        let expected = ChecksumState::Partial(PartialChecksum { start: 20, offset: 6 });
        assert_eq!(state, Ok(expected));
        assert_eq!(header(1, 0, [0, 0, 20, 7]).checksum(28), Err(BadHeader));
        assert_eq!(header(1, 0, [0, 0, 65_535, 65_535]).checksum(65_535), Err(BadHeader));
        assert_eq!(header(1, 0, [0, 0, 4, 6]).checksum(19), Err(BadHeader), "no room for IP");
    }

    #[test]
    fn segments_have_a_known_kind_a_size_and_headers() {
        for (kind, least) in [(1, 40), (3, 28), (4, 60), (0x81, 40), (0x84, 60)] {
            assert_eq!(header(0, kind, [0, 100, 0, 0]).checksum(least), Ok(ChecksumState::Unknown));
            assert_eq!(header(0, kind, [0, 100, 0, 0]).checksum(least - 1), Err(BadHeader));
            assert_eq!(header(0, kind, [0, 0, 0, 0]).checksum(1000), Err(BadHeader));
            assert_eq!(header(0, kind, [0, 0xffff, 0, 0]).checksum(1000), Err(BadHeader));
        }
        for kind in [2, 5, 6, 0x80, 0x85, 0x7f] {
            assert_eq!(header(0, kind, [0, 100, 0, 0]).checksum(1000), Err(BadHeader));
        }
    }

    #[test]
    fn the_hint_reaches_to_the_checksum_and_not_behind_the_packet() {
        let mut one = header(1, 0, [0, 0, 20, 6]);
        assert_eq!((one.settle(28), one.header_length.get()), (Ok(()), 28));
        assert_eq!(header(1, 0, [0, 0, 20, 6]).settle(27), Err(BadHeader));
        assert_eq!(header(0, 0, [41, 0, 0, 0]).settle(40), Err(BadHeader));
    }

    proptest! {
        #[test]
        fn any_header_is_refused_or_has_its_checksum_inside(
            bytes in any::<[u8; VNET_BYTES]>(), length in 0usize..70_000,
        ) {
            let mut header = VnetHeader::read_from_bytes(&bytes).unwrap();
            if header.settle(length).is_ok()
                && let Ok(ChecksumState::Partial(place)) = header.checksum(length)
            {
                prop_assert!(place.is_inside(length));
            }
        }
    }
}
