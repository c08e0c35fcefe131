//! [`ExtensionHeaders`]: the extension headers of IPv6 that a program gives its datagrams (RFC 8200, RFC 3542), and
//! [`ReceivedExtensions`]: those of a packet that came.
//!
//! ```text
//! on the wire   IPv6 | hop-by-hop | destination options for the hosts of the route | routing | destination options | payload
//!                     <------------- repeated in each fragment ------------------>
//! ```
use crate::marshal::Marshal;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Kinds of headers: the numbers by which the header before names them.
pub mod extension {
    /// Options for every host on the way.
    pub const HOP_BY_HOP: u8 = 0;
    /// A routing header.
    pub const ROUTING: u8 = 43;
    /// Options for the destination, or for the hosts of a route.
    pub const DESTINATION: u8 = 60;
}
use extension::{DESTINATION, HOP_BY_HOP, ROUTING};

/// Type of the routing header of segment routing (RFC 8754).
const SEGMENT_ROUTE: u8 = 4;
/// Bytes of the routing header of segment routing before its segments.
const SEGMENTS_AT: usize = 8;
const ADDRESS_BYTES: usize = 16;

/// Returns the length of the header that `bytes` begin with, in bytes, as the header tells it; `None` without a length.
pub fn header_length(bytes: &[u8]) -> Option<usize> {
    bytes.get(1).map(|units| usize::from(*units) * 8 + 8)
}

/// The extension headers of a datagram. Each is whole; its first byte, the next header, is written when it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Marshal)]
pub struct ExtensionHeaders {
    /// Options for every host on the way (`IPV6_HOPOPTS`).
    pub hop_by_hop: Option<Vec<u8>>,
    /// Options for the hosts that the routing header names (`IPV6_RTHDRDSTOPTS`). They are not sent without one.
    pub of_route: Option<Vec<u8>>,
    /// The routing header (`IPV6_RTHDR`), checked by [`is_segment_route`].
    pub routing: Option<Vec<u8>>,
    /// Options for the destination (`IPV6_DSTOPTS`).
    pub destination: Option<Vec<u8>>,
}

/// Extension headers as they stand in a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenExtensions {
    /// The headers, one after the other.
    pub bytes: Vec<u8>,
    /// The kind of the first one.
    pub first: u8,
    /// The number of bytes that each fragment repeats.
    pub repeated: u16,
}

impl ExtensionHeaders {
    /// Returns whether there are none that would be sent.
    pub fn is_empty(&self) -> bool {
        self.hop_by_hop.is_none() && self.routing.is_none() && self.destination.is_none()
    }
    /// Returns the first host of the route that a routing header names.
    pub fn first_hop(&self) -> Option<Ipv6Addr> {
        let header = self.routing.as_deref()?;
        segment(header, header.get(3).copied()?)
    }
    /// Returns the headers of a packet to `destination` whose payload has the protocol `protocol`. `None` if they are too many.
    pub fn written(&self, destination: Ipv6Addr, protocol: u8) -> Option<WrittenExtensions> {
        let routing = self.routing.as_deref().map(|header| routed(header, destination));
        let of_route = self.of_route.as_deref().filter(|_| routing.is_some());
        let chain = [
            (HOP_BY_HOP, self.hop_by_hop.as_deref()),
            (DESTINATION, of_route),
            (ROUTING, routing.as_deref()),
            (DESTINATION, self.destination.as_deref()),
        ];
        let (mut bytes, mut starts) = (Vec::new(), Vec::new());
        let mut repeated = 0;
        for (place, (kind, header)) in chain.into_iter().enumerate() {
            if let Some(header) = header {
                starts.push((kind, bytes.len()));
                bytes.extend_from_slice(header);
            }
            if place + 2 == chain.len() {
                repeated = u16::try_from(bytes.len()).ok()?;
            }
        }
        let next = starts.iter().skip(1).map(|(kind, _)| *kind).chain([protocol]);
        for ((_, start), next) in starts.iter().zip(next) {
            *bytes.get_mut(*start)? = next;
        }
        u16::try_from(bytes.len()).ok()?;
        Some(WrittenExtensions { bytes, first: starts.first()?.0, repeated })
    }
}

/// Returns a routing header of segment routing for `destination`, which is the last host of its route.
fn routed(header: &[u8], destination: Ipv6Addr) -> Vec<u8> {
    let mut header = header.to_vec();
    let place = header.get_mut(SEGMENTS_AT..SEGMENTS_AT + ADDRESS_BYTES);
    place.unwrap_or_default().copy_from_slice(&destination.octets());
    header
}

/// Returns a segment of a routing header of segment routing.
fn segment(header: &[u8], number: u8) -> Option<Ipv6Addr> {
    let at = SEGMENTS_AT + usize::from(number) * ADDRESS_BYTES;
    let octets: [u8; ADDRESS_BYTES] = *header.get(at..)?.first_chunk()?;
    Some(octets.into())
}

/// Returns whether `header`, all that a program gave, is a routing header of segment routing (`seg6_validate_srh`).
pub fn is_segment_route(header: &[u8]) -> bool {
    let [_, units, kind, left, last, ..] = *header else { return false };
    let end = SEGMENTS_AT + (usize::from(last) + 1) * ADDRESS_BYTES;
    let mut rest = match header.get(end..) {
        Some(rest) if kind == SEGMENT_ROUTE && left <= last => rest,
        _ => return false,
    };
    if usize::from(units) * 8 + 8 != header.len() {
        return false;
    }
    while let [_, length, ..] = *rest {
        match rest.get(2 + usize::from(length)..) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty()
}

/// The extension headers of a received packet.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct ReceivedExtensions {
    /// The kind of the first one.
    pub first: u8,
    /// The headers, one after the other.
    pub bytes: Vec<u8>,
}

impl ReceivedExtensions {
    /// Returns the headers with their kinds, but for those of fragments.
    pub fn headers(&self) -> impl Iterator<Item = (u8, &[u8])> {
        const FRAGMENT: u8 = 44;
        let (mut kind, mut rest) = (self.first, &*self.bytes);
        let all = core::iter::from_fn(move || {
            let length = if kind == FRAGMENT { 8 } else { header_length(rest)? };
            let (header, behind) = rest.split_at_checked(length)?;
            let found = (kind, header);
            (kind, rest) = (*header.first()?, behind);
            Some(found)
        });
        all.filter(|(kind, _)| *kind != FRAGMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const UDP: u8 = 17;

    fn segment_route(left: u8) -> Vec<u8> {
        let mut header = vec![0, 4, 4, left, 1, 0, 0, 0];
        header.extend([0; 16]);
        header.extend([9; 16]);
        header
    }

    #[test]
    fn headers_are_linked_in_the_order_of_the_wire() {
        let options = |last| Some(vec![0, 0, 1, 3, 0, 0, 0, last]);
        let given = ExtensionHeaders {
            hop_by_hop: options(1),
            of_route: options(2),
            routing: Some(segment_route(1)),
            destination: options(3),
        };
        assert_eq!(given.first_hop(), Some(Ipv6Addr::from([9; 16])));
        let written = given.written(Ipv6Addr::LOCALHOST, UDP).unwrap();
        assert_eq!((written.first, written.repeated), (HOP_BY_HOP, 56));
        let received = ReceivedExtensions { first: written.first, bytes: written.bytes.clone() };
        let kinds: Vec<u8> = received.headers().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [HOP_BY_HOP, DESTINATION, ROUTING, DESTINATION]);
        let (_, route) = received.headers().nth(2).unwrap();
        assert_eq!(route[8..24], Ipv6Addr::LOCALHOST.octets());
        assert_eq!(written.bytes[56], UDP, "the last header names the protocol");
    }
    #[test]
    fn options_of_a_route_are_not_sent_without_one() {
        let of_route = Some(vec![0, 0, 1, 4, 0, 0, 0, 0]);
        let given = ExtensionHeaders { of_route, ..ExtensionHeaders::default() };
        assert!(given.is_empty());
        assert_eq!(given.written(Ipv6Addr::LOCALHOST, UDP), None);
    }
    #[test]
    fn a_segment_route_is_as_long_as_it_says() {
        assert!(is_segment_route(&segment_route(0)));
        assert!(!is_segment_route(&segment_route(2)), "more hosts left than there are");
        assert!(!is_segment_route(&segment_route(0)[..24]));
        let mut other = segment_route(0);
        other[2] = 0;
        assert!(!is_segment_route(&other), "another type");
    }
}
