//! The headers of a segment between two connections of this host, which never is a packet: for taps, and for TCP_SAVE_SYN.
use super::{
    arrival::TcpArrival,
    ends::{address, reversed},
    header::{self, HEADER_MAX},
    path::StreamPath,
};
use crate::{
    base::{address::Family, packets::Headers},
    tables::configuration::HOPS,
};
use alloc::boxed::Box;
use core::{net::IpAddr, ops::Range};
use packet::{
    Sum,
    ipv4::{Cutting, FragmentPlace, Ipv4Fields},
    ipv6::Ipv6Fields,
    protocol,
    tcp::CHECKSUM_OFFSET,
};
use tcp::{Flow, TcpFlags, TcpSegment};
use zerocopy::IntoBytes;

/// Returns the headers of IP and TCP for the part `range` of a segment's payload, and the EtherType. The checksum of TCP is that of
/// the pseudo header. `None` if no header has room for the length.
pub(crate) fn segment_headers(arrival: &TcpArrival, range: Range<u32>) -> Option<(Headers, u16)> {
    let flow = reversed(&arrival.flow);
    let mut part = TcpSegment {
        seq: arrival.segment.seq.wrapping_add(range.start),
        length: range.end - range.start,
        ..arrival.segment
    };
    if range.end < arrival.segment.length {
        part.flags -= TcpFlags::FIN | TcpFlags::PSH;
    }
    headers(&flow, &part, (0, HOPS))
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
