//! The headers of a segment between two connections of this host, which never is a packet, for taps.
use super::{
    arrival::TcpArrival,
    ends::{address, reversed},
    header::{self, HEADER_MAX},
};
use crate::{base::packets::Headers, tables::configuration::HOPS};
use core::{net::IpAddr, ops::Range};
use packet::{
    Sum,
    ethernet::ethertype,
    ipv4::{Cutting, FragmentPlace, Ipv4Fields},
    ipv6::Ipv6Fields,
    protocol,
    tcp::CHECKSUM_OFFSET,
};
use tcp::{TcpFlags, TcpSegment};
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
    let mut bytes = [0; HEADER_MAX];
    let length = header::write(&flow, &part, &mut bytes)?;
    let all = length.checked_add(part.length as usize)?;
    let (source, destination) = (address(flow.local), address(flow.remote));
    let sum = Sum::pseudo_header(source, destination, protocol::TCP, u32::try_from(all).ok()?);
    let field = bytes.get_mut(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2)?;
    field.copy_from_slice(&sum.folded().to_be_bytes());
    let mut headers = Headers::new();
    headers.prepend(bytes.get(..length)?).ok()?;
    let kind = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let fields = Ipv4Fields {
                source,
                destination,
                protocol: protocol::TCP,
                traffic_class: 0,
                ttl: HOPS,
                identification: 0,
                cutting: Cutting::Forbidden,
                place: FragmentPlace::default(),
            };
            headers.prepend(fields.header(&[], all).ok()?.as_bytes()).ok()?;
            ethertype::IPV4
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let fields = Ipv6Fields {
                source,
                destination,
                next_header: protocol::TCP,
                traffic_class: 0,
                flow_label: 0,
                hop_limit: HOPS,
            };
            headers.prepend(fields.header(all).ok()?.as_bytes()).ok()?;
            ethertype::IPV6
        }
        _ => return None,
    };
    Some((headers, kind))
}
