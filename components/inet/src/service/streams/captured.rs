//! A segment between two connections of this host, which never is a packet, as taps, raw sockets and TCP_SAVE_SYN see it.
use super::{
    arrival::TcpArrival,
    ends::{address, reversed},
    header::{self, HEADER_MAX},
    path::StreamPath,
};
use crate::{
    base::{
        address::Family,
        buffer::BufferChain,
        packets::{Arrival, Headers, TransportChecksum},
    },
    ip::stack::{Cast, Delivery, PacketOrigin},
    service::{inet::Inet, passage::Passage},
    tables::interface::InterfaceIndex,
};
use alloc::boxed::Box;
use core::{net::IpAddr, ops::Range};
use interfaces::nic::PacketSegment;
use packet::{
    Sum,
    ipv4::{self, Cutting, FragmentPlace, Ipv4Fields},
    ipv6::{self, Ipv6Fields},
    protocol,
    tcp::CHECKSUM_OFFSET,
};
use tcp::{Flow, TcpFlags, TcpSegment};
use zerocopy::IntoBytes;

/// Bytes of payload of a segment that make one packet, at most: no header of IP has room for more.
const PAYLOAD_MAX: u32 = 65_400;

impl Inet {
    /// Shows a segment to taps and to raw sockets of TCP, as the packets that it would have been.
    #[cold]
    pub(crate) fn capture(&self, passage: &mut Passage, arrival: &TcpArrival) {
        let payload = BufferChain::from_pieces(arrival.payload.clone());
        let mut at = 0;
        loop {
            let end = arrival.segment.length.min(at + PAYLOAD_MAX);
            let part = payload.slice(at as usize..end as usize);
            let Some((headers, kind)) = segment_headers(arrival, at..end) else { return };
            let headers = headers.as_slice();
            if self.taps().are_watching() {
                self.taps().passed_segment((headers, kind), &part, arrival.flow.label);
            }
            if let Some(packet) = Arrival::new(headers, &part, headers.len()) {
                let network = packet.with_checksum(TransportChecksum::Partial);
                let delivery = delivery_of(arrival, network);
                self.run_in(passage, |stack, run| stack.input_raw(run, &delivery));
            }
            at = end;
            if at >= arrival.segment.length {
                return;
            }
        }
    }
}

/// Returns the delivery of the packet `network` of a segment.
fn delivery_of<'p>(
    arrival: &TcpArrival,
    network: Arrival<'p, PacketSegment>,
) -> Delivery<'p, PacketSegment> {
    let source = address(arrival.flow.remote);
    let (length, protocol_at) = match source {
        IpAddr::V4(_) => (ipv4::HEADER_LENGTH, 9),
        IpAddr::V6(_) => (ipv6::HEADER_LENGTH, 6),
    };
    Delivery {
        origin: PacketOrigin {
            interface: InterfaceIndex::LOOPBACK,
            cast: Cast::Unicast,
            is_looped: true,
            label: arrival.flow.label,
        },
        cast: Cast::Unicast,
        source,
        destination: address(arrival.flow.local),
        protocol: protocol::TCP,
        protocol_at,
        hop_limit: arrival.hop_limit,
        traffic_class: arrival.traffic_class,
        payload: network.part(length..usize::MAX),
        network,
    }
}

/// Returns the headers of IP and TCP for the part `range` of a segment's payload, and the EtherType. The checksum of TCP is that of
/// the pseudo header. `None` if no header has room for the length.
fn segment_headers(arrival: &TcpArrival, range: Range<u32>) -> Option<(Headers, u16)> {
    let flow = reversed(&arrival.flow);
    let mut part = TcpSegment {
        seq: arrival.segment.seq.wrapping_add(range.start),
        length: range.end - range.start,
        ..arrival.segment
    };
    if range.end < arrival.segment.length {
        part.flags -= TcpFlags::FIN | TcpFlags::PSH;
    }
    headers(&flow, &part, (arrival.traffic_class, arrival.hop_limit))
}

/// Returns the headers that a listener keeps of a SYN (TCP_SAVE_SYN), as its packet would have them.
#[cold]
pub(super) fn saved(path: &StreamPath, flow: &Flow, segment: &TcpSegment) -> Option<Box<[u8]>> {
    let fields = (path.request.traffic_class, path.path.hop_limit);
    headers(flow, segment, fields).map(|(headers, _)| headers.as_slice().into())
}

/// Returns the headers of IP and TCP of a segment, and the EtherType. The checksum of TCP is that of the pseudo header, as on
/// Linux's loopback.
fn headers(
    flow: &Flow,
    segment: &TcpSegment,
    (traffic_class, hop_limit): (u8, u8),
) -> Option<(Headers, u16)> {
    let mut bytes = [0; HEADER_MAX];
    let length = header::write(flow, segment, &mut bytes)?;
    let all = length.checked_add(segment.length as usize)?;
    let (source, destination) = (address(flow.local), address(flow.remote));
    let sum = Sum::pseudo_header(source, destination, protocol::TCP, u32::try_from(all).ok()?);
    let field = bytes.get_mut(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2)?;
    field.copy_from_slice(&sum.folded().to_be_bytes());
    let mut headers = Headers::new();
    headers.prepend(bytes.get(..length)?).ok()?;
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let fields = Ipv4Fields {
                source,
                destination,
                protocol: protocol::TCP,
                traffic_class,
                ttl: hop_limit,
                identification: 0,
                cutting: Cutting::Forbidden,
                place: FragmentPlace::default(),
            };
            headers.prepend(fields.header(&[], all).ok()?.as_bytes()).ok()?;
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let fields = Ipv6Fields {
                source,
                destination,
                next_header: protocol::TCP,
                traffic_class,
                flow_label: 0,
                hop_limit,
            };
            headers.prepend(fields.header(all).ok()?.as_bytes()).ok()?;
        }
        _ => return None,
    }
    Some((headers, Family::of(source).ethertype()))
}
