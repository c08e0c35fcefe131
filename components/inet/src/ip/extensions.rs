//! Extension headers of IPv6: those of packets that come, and of datagrams that are sent.
use super::{
    path::{HeaderExtension, SendRequest},
    stack::Delivery,
};
use crate::{
    base::{buffer::Buffer, packets::Arrival},
    sockets::errors::SocketError,
};
use alloc::{vec, vec::Vec};
use core::net::IpAddr;
use interfaces::sockets::{ReceivedExtensions, SentDatagram, WrittenExtensions, header_length};
use packet::{
    ipv6::{HEADER_LENGTH, Ipv6Header, Walk, WalkFault},
    protocol,
};

/// Bytes of a packet that are looked at for extension headers, at most.
pub(crate) const LONG_HEAD: usize = 4096;
/// Bytes of a header above IP that protocols look at, at most.
const UPPER_HEAD: usize = 128;

/// Returns the extension headers of a received packet; `None` without any.
#[inline]
pub(crate) fn received<B: Buffer>(delivery: &Delivery<'_, B>) -> Option<ReceivedExtensions> {
    let of_headers = delivery.payload.start().saturating_sub(delivery.network.start());
    if of_headers <= HEADER_LENGTH || delivery.source.is_ipv4() {
        return None;
    }
    let head = delivery.network.head();
    let first = Ipv6Header::parse_quoted(head).ok()?.next_header;
    Some(ReceivedExtensions { first, bytes: head.get(HEADER_LENGTH..of_headers)?.to_vec() })
}

/// Returns the extension headers of a datagram to the destination of `request`, which goes to the first host of their route then.
///
/// # Errors
/// [`SocketError::MessageSize`] if they are too long for any packet.
pub(crate) fn of_datagram(
    datagram: &SentDatagram,
    request: &mut SendRequest,
) -> Result<Option<WrittenExtensions>, SocketError> {
    let IpAddr::V6(destination) = request.destination else { return Ok(None) };
    let given = datagram.extensions.as_deref().filter(|given| !given.is_empty());
    let Some(given) = given else { return Ok(None) };
    let written = given.written(destination, request.protocol);
    let written = written.ok_or(SocketError::MessageSize)?;
    request.extension = HeaderExtension {
        bytes: written.bytes.len() as u16,
        first: written.first,
        repeated: written.repeated,
    };
    request.destination = given.first_hop().map_or(request.destination, IpAddr::V6);
    Ok(Some(written))
}

/// Has the last of the headers in `front`, which each fragment repeats, name the header of the fragment. Returns the kind of header
/// that it named; `None` without headers.
pub(crate) fn name_fragment(front: &mut [u8]) -> Option<u8> {
    let mut at = 0;
    while let Some(length) = front.get(at..).and_then(header_length)
        && at + length < front.len()
    {
        at += length;
    }
    front.get_mut(at).map(|named| core::mem::replace(named, protocol::FRAGMENT))
}

/// Returns more of the first bytes of a packet than its head has, if its extension headers and the header behind them go beyond that.
pub(crate) fn longer_head<B: Buffer>(
    network: &Arrival<'_, B>,
    walk: &Result<Walk, WalkFault>,
) -> Option<Vec<u8>> {
    let head = network.head();
    let is_cut = match walk {
        Ok(walk) => walk.fragment.is_none() && walk.payload + UPPER_HEAD > head.len(),
        Err(fault) => *fault == WalkFault::Drop,
    };
    let length = network.length().min(LONG_HEAD);
    let has_extensions = head.get(6).is_some_and(|kind| {
        matches!(*kind, protocol::HOP_BY_HOP | protocol::DESTINATION | protocol::ROUTING)
    });
    if !is_cut || !has_extensions || head.len() >= length {
        return None;
    }
    let mut longer = vec![0; length];
    network.read_packet(network.start(), &mut longer).then_some(longer)
}
