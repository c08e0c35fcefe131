//! The packets on their way as taps see them.
use super::Taps;
use crate::{
    base::{
        buffer::BufferChain,
        packets::{Arrival, Departure, PacketParts, TransportChecksum},
    },
    service::tunnels::protocol_of as protocol_of_packet,
    tables::interface::{Interface, InterfaceIndex},
};
use bpf::PacketBytes;
use interfaces::{
    nic::PacketSegment,
    sockets::{FrameChecksum, SeenFrame, packet_kind},
};
use labels::SecrecyId;
use packet::{
    MacAddress,
    ethernet::{self, Ethernet, EthernetHeader, ethertype},
};
use zerocopy::IntoBytes;

/// EtherType of frames whose header has a length in its place (`ETH_P_802_2`).
const LENGTH: u16 = 4;

/// A received packet, from the header of the link on.
struct ReceivedParts<'p, 'a>(&'p Arrival<'a, PacketSegment>);

impl PacketBytes for ReceivedParts<'_, '_> {
    fn length(&self) -> usize {
        self.0.length()
    }
    fn read(&self, offset: i64, out: &mut [u8]) -> bool {
        usize::try_from(offset).is_ok_and(|at| self.0.read_packet(at, out))
    }
}

/// Returns the EtherType of a frame.
fn protocol_of(header: &EthernetHeader) -> u16 {
    match header.ethertype.get() {
        ethertype::MIN.. => header.ethertype.get(),
        _ => LENGTH,
    }
}

/// Returns the state of the checksum of a packet that came.
fn checksum_of_received(frame: &Arrival<'_, PacketSegment>) -> FrameChecksum {
    match frame.checksum() {
        TransportChecksum::Unverified => FrameChecksum::Unknown,
        TransportChecksum::Verified => FrameChecksum::Verified,
        TransportChecksum::Partial => FrameChecksum::Partial,
    }
}

/// Returns the state of the checksum of a packet that is sent.
fn checksum_of(packet: &Departure<PacketSegment>) -> FrameChecksum {
    match packet.offload {
        Some(_) => FrameChecksum::Partial,
        None => FrameChecksum::Unknown,
    }
}

/// Returns the kind of a received frame by its receiver.
fn kind_of(destination: MacAddress, own: MacAddress) -> u8 {
    match destination {
        ethernet::BROADCAST => packet_kind::BROADCAST,
        group if ethernet::is_group(group) => packet_kind::MULTICAST,
        one if one == own => packet_kind::HOST,
        _ => packet_kind::OTHER_HOST,
    }
}

/// The link of a frame: number of the interface, its address, and the type of its hardware.
#[derive(Clone, Copy)]
struct FrameLink {
    index: InterfaceIndex,
    own: MacAddress,
    hardware: u16,
}

impl FrameLink {
    fn of(interface: &Interface) -> FrameLink {
        let Interface { index, mac, hardware, .. } = *interface;
        FrameLink { index, own: mac, hardware }
    }
    /// Returns the packet of an interface whose packets have no header.
    fn headerless<'f>(
        self,
        protocol: u16,
        checksum: FrameChecksum,
        bytes: &'f dyn PacketBytes,
    ) -> SeenFrame<'f> {
        SeenFrame {
            interface: self.index.0,
            hardware: self.hardware,
            kind: packet_kind::HOST,
            protocol,
            source: self.own,
            link_length: 0,
            checksum,
            at_ns: rt::time::wall_ns(),
            bytes,
        }
    }
}

/// Returns a frame with the header of Ethernet in `head`; `None` if it is too short for one.
fn frame_of<'f>(
    head: &[u8],
    FrameLink { index, own, hardware }: FrameLink,
    checksum: FrameChecksum,
    bytes: &'f dyn PacketBytes,
) -> Option<SeenFrame<'f>> {
    let header = Ethernet::parse(head).ok()?.header;
    Some(SeenFrame {
        interface: index.0,
        hardware,
        kind: kind_of(header.destination, own),
        protocol: protocol_of(header),
        source: header.source,
        link_length: ethernet::HEADER_LENGTH,
        checksum,
        at_ns: rt::time::wall_ns(),
        bytes,
    })
}

impl Taps {
    /// Shows a frame that came by a card.
    pub(crate) fn received(&self, interface: &Interface, frame: &Arrival<'_, PacketSegment>) {
        if interface.is_headerless() {
            return self.received_as(interface, frame, protocol_of_packet(frame.head()));
        }
        let bytes = ReceivedParts(frame);
        let (link, checksum) = (FrameLink::of(interface), checksum_of_received(frame));
        if let Some(frame) = frame_of(frame.head(), link, checksum, &bytes) {
            self.show(&frame, None, None);
        }
    }
    /// Shows a packet without a header of a link, whose EtherType the sender has told.
    pub(crate) fn received_as(
        &self,
        interface: &Interface,
        packet: &Arrival<'_, PacketSegment>,
        protocol: u16,
    ) {
        let (bytes, checksum) = (ReceivedParts(packet), checksum_of_received(packet));
        self.show(&FrameLink::of(interface).headerless(protocol, checksum, &bytes), None, None);
    }
    /// Shows a frame that a card is to send, but not to the tap `sender`.
    pub(crate) fn sent(
        &self,
        index: InterfaceIndex,
        packet: &Departure<PacketSegment>,
        sender: Option<u64>,
    ) {
        let headers = packet.headers.as_slice();
        let bytes = PacketParts { headers: [headers, &[]], payload: &packet.payload };
        let checksum = checksum_of(packet);
        let (hardware, has_header) = self.shape(index);
        let link = FrameLink { index, own: [0; 6], hardware };
        let frame = match has_header {
            true => frame_of(headers, link, checksum, &bytes),
            false => Some(link.headerless(protocol_of_packet(headers), checksum, &bytes)),
        };
        if let Some(frame) = frame {
            self.show(&SeenFrame { kind: packet_kind::OUTGOING, ..frame }, sender, None);
        }
    }
    /// Shows a frame of loopback, first as a sent one, but not to the tap `sender`, then as a received one.
    pub(super) fn passed(
        &self,
        (head, bytes): (&[u8], &PacketParts<'_, PacketSegment>),
        checksum: FrameChecksum,
        (sender, label): (Option<u64>, SecrecyId),
    ) {
        let index = InterfaceIndex::LOOPBACK;
        let link = FrameLink { index, own: [0; 6], hardware: index.hardware() };
        if let Some(frame) = frame_of(head, link, checksum, bytes) {
            let sent = SeenFrame { kind: packet_kind::OUTGOING, ..frame };
            self.show(&sent, sender, Some(label));
            self.show(&frame_again(&frame, head), None, Some(label));
        }
    }
    /// Shows a packet of IP that goes over loopback.
    pub(crate) fn looped(&self, packet: &Departure<PacketSegment>, label: SecrecyId) {
        let kind = packet.headers.family().ethertype();
        let link = EthernetHeader::new([0; 6], [0; 6], kind);
        let link = link.as_bytes();
        let headers = [link, packet.headers.as_slice()];
        let bytes = PacketParts { headers, payload: &packet.payload };
        self.passed((link, &bytes), checksum_of(packet), (None, label));
    }
    /// Shows a packet that is only made to be seen, of these headers and EtherType. Its checksum is that of the pseudo header, as that
    /// of a packet whose sum the interface is to write.
    pub(crate) fn passed_segment(
        &self,
        (headers, kind): (&[u8], u16),
        payload: &BufferChain<PacketSegment>,
        label: SecrecyId,
    ) {
        let link = EthernetHeader::new([0; 6], [0; 6], kind);
        let parts = PacketParts { headers: [link.as_bytes(), headers], payload };
        self.passed((link.as_bytes(), &parts), FrameChecksum::Partial, (None, label));
    }
}

/// Returns a frame of loopback as it comes back.
fn frame_again<'f>(frame: &SeenFrame<'f>, head: &[u8]) -> SeenFrame<'f> {
    let destination = head.first_chunk().copied().unwrap_or_default();
    SeenFrame { kind: kind_of(destination, [0; 6]), ..*frame }
}
