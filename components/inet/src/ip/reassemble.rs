//! Fragments that come: to their packets, and these to their protocols.
use super::{
    events::PacketEvent,
    extensions::LONG_HEAD,
    stack::{Cast, Delivery, PacketOrigin, Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{
        address::Family,
        buffer::{Buffer, BufferChain},
        packets::{Arrival, HEAD_MIN},
    },
    tables::reassembly::{ExpiredPacket, Fragment, FragmentKey, Reassembled},
};
use alloc::vec::Vec;
use core::net::IpAddr;
use packet::{
    icmp::{IcmpMessage, exceeded},
    icmpv6::Icmpv6Message,
    ipv4::{Cutting, FragmentPlace, Ipv4, Ipv4Fields},
    ipv6::{FoundFragment, Ipv6Header, Walk, problem},
    protocol,
};
use zerocopy::IntoBytes;

/// Bytes of a header above IP that the first fragment holds, at least.
const UPPER_MIN: usize = 8;
/// Offset of the length in the header of IPv6.
const LENGTH_AT: usize = 4;

impl<B: Buffer> Stack<B> {
    /// Takes a fragment of IPv4.
    pub(crate) fn reassemble4(
        &self,
        run: &mut StackRun<'_, B>,
        packet: &Ipv4<'_>,
        delivery: &Delivery<'_, B>,
    ) {
        let place = packet.header.place();
        let key = FragmentKey {
            source: delivery.source,
            destination: delivery.destination,
            identification: packet.header.identification.get().into(),
            protocol: packet.header.protocol,
            interface: delivery.origin.interface,
            label: delivery.origin.label,
        };
        let headers = [packet.header.as_bytes(), packet.options].concat();
        let Some((headers, payload)) = self.add_fragment(run, key, place, headers, delivery) else {
            return;
        };
        let Ok(first) = Ipv4::parse_quoted(&headers) else { return };
        let fields = Ipv4Fields {
            source: first.header.source(),
            destination: first.header.destination(),
            protocol: first.header.protocol,
            traffic_class: first.header.traffic_class,
            ttl: first.header.ttl,
            identification: first.header.identification.get(),
            cutting: Cutting::Allowed,
            place: FragmentPlace::default(),
        };
        let Ok(header) = fields.header(first.options, payload.length()) else {
            return self.dropped(DropReason::Fragment);
        };
        let mut head = [header.as_bytes(), first.options].concat();
        let of_header = head.len();
        extend(&mut head, &payload, HEAD_MIN);
        let Some(network) = Arrival::new(&head, &payload, of_header) else { return };
        let whole = Delivery {
            payload: network.part(of_header..usize::MAX),
            network,
            hop_limit: first.header.ttl,
            traffic_class: first.header.traffic_class,
            ..*delivery
        };
        self.deliver(run, &whole);
    }
    /// Takes a fragment of IPv6. Its header is at `found.at`.
    pub(crate) fn reassemble6(
        &self,
        run: &mut StackRun<'_, B>,
        found: &FoundFragment,
        delivery: &Delivery<'_, B>,
    ) {
        let place = found.header.place();
        if let Some(message) = fault6(found, delivery) {
            self.dropped(DropReason::Fragment);
            return self.send_error6(run, delivery, message);
        }
        let key = FragmentKey {
            source: delivery.source,
            destination: delivery.destination,
            identification: found.header.identification.get(),
            protocol: 0,
            interface: delivery.origin.interface,
            label: delivery.origin.label,
        };
        let mut headers = Vec::from(delivery.network.head().get(..found.at).unwrap_or_default());
        if let Some(kind) = headers.get_mut(found.named_at) {
            *kind = found.header.next_header;
        }
        let Some((mut head, payload)) = self.add_fragment(run, key, place, headers, delivery)
        else {
            return;
        };
        let of_headers = head.len();
        let length = of_headers.saturating_add(payload.length());
        let length = length.checked_sub(packet::ipv6::HEADER_LENGTH);
        let Some(length) = length.and_then(|length| u16::try_from(length).ok()) else {
            return self.dropped(DropReason::Fragment);
        };
        let field = head.get_mut(LENGTH_AT..).unwrap_or_default();
        for (to, from) in field.iter_mut().zip(length.to_be_bytes()) {
            *to = from;
        }
        let has_more = found.header.next_header == protocol::DESTINATION;
        extend(&mut head, &payload, if has_more { LONG_HEAD } else { HEAD_MIN });
        let Some(network) = Arrival::new(&head, &payload, of_headers) else { return };
        self.accept6(run, (delivery.origin, delivery.cast), &network);
    }
    /// Adds a fragment to its packet. Returns the packet if it is whole now.
    fn add_fragment(
        &self,
        run: &StackRun<'_, B>,
        key: FragmentKey,
        place: FragmentPlace,
        headers: Vec<u8>,
        delivery: &Delivery<'_, B>,
    ) -> Option<(Vec<u8>, BufferChain<B>)> {
        let family = Family::of(delivery.destination);
        run.events.note(family, [PacketEvent::Reassemble4, PacketEvent::Reassemble6]);
        let Some(payload) = delivery.payload.to_chain() else {
            self.dropped(DropReason::NoMemory);
            return None;
        };
        let fragment = Fragment {
            offset: place.offset.into(),
            has_more: place.has_more,
            headers: if place.offset == 0 { headers } else { Vec::new() },
            payload,
        };
        match self.reassembly.lock().add(key, fragment, run.now_ns) {
            Reassembled::Waiting => None,
            Reassembled::Refused => {
                self.dropped(DropReason::Fragment);
                None
            }
            Reassembled::Whole(headers, payload) => {
                run.events.note(family, [PacketEvent::Reassembled4, PacketEvent::Reassembled6]);
                Some((headers, payload))
            }
        }
    }
    /// Does what time demands for fragments.
    pub(crate) fn poll_fragments(&self, run: &mut StackRun<'_, B>) {
        let (count, expired) = self.reassembly.lock().poll(run.now_ns);
        (0..count).for_each(|_| self.dropped(DropReason::ReassemblyTimeout));
        for packet in expired {
            self.tell_expired(run, packet);
        }
    }
    /// Tells the sender of a packet that the rest of it did not come.
    fn tell_expired(&self, run: &mut StackRun<'_, B>, (key, headers, payload): ExpiredPacket<B>) {
        let of_headers = headers.len();
        let mut head = headers;
        extend(&mut head, &payload, HEAD_MIN);
        let Some(network) = Arrival::new(&head, &payload, of_headers) else { return };
        let is_group = key.destination.is_multicast();
        let cast = if is_group { Cast::Multicast } else { Cast::Unicast };
        let delivery = Delivery {
            origin: PacketOrigin {
                interface: key.interface,
                cast,
                is_looped: false,
                label: key.label,
            },
            cast,
            source: key.source,
            destination: key.destination,
            protocol: key.protocol,
            protocol_at: 0,
            hop_limit: 0,
            traffic_class: 0,
            payload: network.part(of_headers..usize::MAX),
            network,
        };
        let code = exceeded::REASSEMBLY;
        match key.source {
            IpAddr::V4(_) => self.send_error4(run, &delivery, IcmpMessage::TimeExceeded { code }),
            IpAddr::V6(_) => self.send_error6(run, &delivery, Icmpv6Message::TimeExceeded { code }),
        }
    }
}

/// Appends the first bytes of the payload, at most `most`, so that the headers above IP are contiguous.
fn extend<B: Buffer>(head: &mut Vec<u8>, payload: &BufferChain<B>, most: usize) {
    let start = head.len();
    head.resize(start + most.min(payload.length()), 0);
    payload.read(0, head.get_mut(start..).unwrap_or_default());
}

/// Returns the error about a fragment of IPv6 that cannot be (RFC 8200 section 4.5, RFC 7112).
fn fault6<B: Buffer>(found: &FoundFragment, delivery: &Delivery<'_, B>) -> Option<Icmpv6Message> {
    let (place, length) = (found.header.place(), delivery.payload.length());
    let fault = |code, pointer: usize| {
        Some(Icmpv6Message::ParameterProblem { code, pointer: pointer as u32 })
    };
    if place.has_more && !length.is_multiple_of(8) {
        return fault(problem::FIELD, LENGTH_AT);
    }
    if usize::from(place.offset) + length > usize::from(u16::MAX) {
        return fault(problem::FIELD, found.at + 2);
    }
    if place.offset > 0 {
        return None;
    }
    let bytes = delivery.payload.whole()?;
    let walk = Walk::of_reassembled(bytes, found.header.next_header);
    let has_upper = walk.is_ok_and(|walk| walk.payload + UPPER_MIN <= bytes.len());
    if has_upper { None } else { fault(problem::CHAIN, 0) }
}

/// Returns the header of a packet that has been put together, and the walk through its headers; `None` if it is a fragment again.
pub(crate) fn rewalk(head: &[u8]) -> Option<(&Ipv6Header, Walk)> {
    let header = Ipv6Header::parse_quoted(head).ok()?;
    let walk = Walk::of(head).ok()?;
    walk.fragment.is_none().then_some((header, walk))
}
