//! The headers of a SYN that never was a packet, for TCP_SAVE_SYN: those that the packet would have.
use super::{header, path::StreamPath};
use alloc::{boxed::Box, vec::Vec};
use core::net::IpAddr;
use packet::{
    Sum,
    ipv4::{Cutting, FragmentPlace, Ipv4Fields},
    ipv6::Ipv6Fields,
    protocol,
    tcp::CHECKSUM_OFFSET,
};
use tcp::{Flow, TcpSegment};
use zerocopy::IntoBytes;

/// Returns the headers of IP and TCP. The checksum of TCP holds the sum of the pseudo header alone, as on Linux's loopback.
#[cold]
pub(super) fn headers(path: &StreamPath, flow: &Flow, segment: &TcpSegment) -> Option<Box<[u8]>> {
    let (request, path) = (&path.request, &path.path);
    let mut bytes = [0; header::HEADER_MAX];
    let length = header::write(flow, segment, &mut bytes)?;
    let all = length + segment.length as usize;
    let sum = Sum::pseudo_header(path.source, request.destination, protocol::TCP, all as u32);
    let place = bytes.get_mut(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2)?;
    place.copy_from_slice(&sum.folded().to_be_bytes());
    let mut found: Vec<u8> = match (path.source, request.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ipv4Fields {
            source,
            destination,
            protocol: protocol::TCP,
            traffic_class: request.traffic_class,
            ttl: path.hop_limit,
            identification: 0,
            cutting: Cutting::Forbidden,
            place: FragmentPlace::default(),
        }
        .header(&[], all)
        .ok()?
        .as_bytes()
        .into(),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ipv6Fields {
            source,
            destination,
            next_header: protocol::TCP,
            traffic_class: request.traffic_class,
            flow_label: 0,
            hop_limit: path.hop_limit,
        }
        .header(all)
        .ok()?
        .as_bytes()
        .into(),
        _ => return None,
    };
    found.extend_from_slice(bytes.get(..length)?);
    Some(found.into_boxed_slice())
}
