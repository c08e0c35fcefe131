//! ICMPv6 (RFC 4443): echo, and errors in both directions.
use super::{
    events::IcmpWay,
    icmp::{CHECKSUM_OFFSET, bound_for, carrier_of},
    path::{Path, SendRequest},
    stack::{Cast, Delivery, PacketOrigin, Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{
        address::Family,
        buffer::{Buffer, BufferChain},
        packets::{Arrival, Departure},
    },
    sockets::errors::{self, Quoted, RemoteError},
    tables::interface::InterfaceIndex,
};
use core::net::IpAddr;
use packet::{
    Sum,
    icmp::{self, IcmpHeader},
    icmpv6::{Icmpv6Message, unreachable},
    ipv6::{self, Ipv6Header, ROUTER_ALERT_MLD, Walk, problem},
    mld::MldMessage,
    ndp::NdpMessage,
    protocol,
};
use zerocopy::{FromBytes, IntoBytes};

impl<B: Buffer> Stack<B> {
    pub(crate) fn input_icmpv6(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let payload = &delivery.payload;
        let Ok((header, _)) = IcmpHeader::ref_from_prefix(payload.head()) else {
            return self.dropped(DropReason::Transport);
        };
        let ends = (delivery.source, delivery.destination);
        let length = payload.length() as u32;
        let mut sum = Sum::pseudo_header(ends.0, ends.1, protocol::ICMPV6, length);
        sum.append(payload.sum());
        if !sum.is_valid() {
            return self.dropped(DropReason::Checksum);
        }
        run.events.icmp(Family::V6, IcmpWay::In, header.kind);
        if NdpMessage::is_kind(header.kind) {
            return self.input_ndp(run, delivery);
        }
        if MldMessage::is_kind(header.kind) {
            return self.input_mld(run, delivery);
        }
        match Icmpv6Message::parse(payload.head()) {
            Ok(Icmpv6Message::EchoRequest { identifier, sequence }) => {
                let reply = Icmpv6Message::EchoReply { identifier, sequence };
                self.answer_echo6(run, delivery, reply);
            }
            Ok(message) if message.is_error() => self.input_error6(run, delivery, message),
            Ok(Icmpv6Message::EchoReply { identifier, .. }) => {
                self.input_ping(run, delivery, identifier);
            }
            // Raw sockets have it already, and nobody is told if there is none.
            _ => {}
        }
    }
    /// Answers echo, also to groups, from an address of its own (RFC 4443, section 4.2).
    fn answer_echo6(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        reply: Icmpv6Message,
    ) {
        if delivery.source.is_unspecified() || delivery.source.is_multicast() {
            return self.dropped(DropReason::NotForUs);
        }
        let data = delivery.payload.part(icmp::HEADER_LENGTH..usize::MAX);
        let Some(data) = data.to_chain() else { return self.dropped(DropReason::NoMemory) };
        let request = SendRequest {
            source: (delivery.cast == Cast::Unicast).then_some(delivery.destination),
            interface: bound_for(delivery),
            traffic_class: delivery.traffic_class,
            label: delivery.origin.label,
            ..SendRequest::new(delivery.source, protocol::ICMPV6)
        };
        self.send_icmpv6(run, &request, reply.header().as_bytes(), data);
    }
    /// Sends a message of ICMPv6 whose checksum is empty.
    pub(crate) fn send_icmpv6(
        &self,
        run: &mut StackRun<'_, B>,
        request: &SendRequest,
        message: &[u8],
        data: BufferChain<B>,
    ) {
        let Ok(path) = self.path(run, request) else { return };
        let Some(mut packet) = sealed(&path, request, message, data) else { return };
        if request.extension.bytes > 0 && packet.headers.prepend(&ROUTER_ALERT_MLD).is_err() {
            return self.dropped(DropReason::NoMemory);
        }
        // An error that cannot be told is no reason for another one.
        let _ = self.send_on(run, &path, request, packet);
    }
    /// Tells the sender of a packet of an error, unless the rules forbid it (RFC 4443, section 2.4).
    pub(crate) fn send_error6(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        message: Icmpv6Message,
    ) {
        let is_for_all = matches!(
            message,
            Icmpv6Message::TooBig { .. }
                | Icmpv6Message::ParameterProblem { code: problem::OPTION, .. }
        );
        let is_asked = (delivery.cast == Cast::Unicast || is_for_all)
            && !delivery.source.is_unspecified()
            && !delivery.source.is_multicast()
            && quotable6(delivery);
        if !is_asked {
            return;
        }
        if !self.may_tell(run, delivery) {
            return self.dropped(DropReason::ErrorLimit);
        }
        let room = usize::from(ipv6::MTU_MIN) - ipv6::HEADER_LENGTH - icmp::HEADER_LENGTH;
        let Some(quote) = delivery.network.part(0..room).to_chain() else {
            return self.dropped(DropReason::NoMemory);
        };
        let request = SendRequest {
            source: (delivery.cast == Cast::Unicast).then_some(delivery.destination),
            interface: bound_for(delivery),
            label: delivery.origin.label,
            ..SendRequest::new(delivery.source, protocol::ICMPV6)
        };
        self.send_icmpv6(run, &request, message.header().as_bytes(), quote);
    }
    /// Tells the sender of a datagram that no socket has its port.
    pub(crate) fn refuse_port6(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let code = unreachable::PORT;
        self.send_error6(run, delivery, Icmpv6Message::Unreachable { code });
    }
    /// Tells the sender of a packet, which is this host, that a neighbour does not answer.
    pub(crate) fn tell_unreachable6(
        &self,
        run: &mut StackRun<'_, B>,
        interface: InterfaceIndex,
        packet: &Departure<B>,
    ) {
        let head = packet.headers.as_slice();
        let Ok(header) = Ipv6Header::parse_quoted(head) else { return };
        let Some(network) = Arrival::new(head, &packet.payload, head.len()) else { return };
        let Some(label) =
            self.label_of_sent(run, interface, |link| self.told6(run, link, &network))
        else {
            return;
        };
        let source = IpAddr::V6(header.source());
        let delivery = Delivery {
            origin: PacketOrigin { interface, cast: Cast::Unicast, is_looped: true, label },
            cast: Cast::Unicast,
            source,
            destination: source,
            protocol: header.next_header,
            protocol_at: 6,
            hop_limit: header.hop_limit,
            traffic_class: header.traffic_class(),
            payload: network.part(ipv6::HEADER_LENGTH..usize::MAX),
            network,
        };
        let code = unreachable::ADDRESS;
        self.send_error6(run, &delivery, Icmpv6Message::Unreachable { code });
    }
    /// Takes an error about a packet that this host sent.
    fn input_error6(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        message: Icmpv6Message,
    ) {
        self.with_quote(delivery, |quote| self.input_quote6(run, delivery, message, quote));
    }
    fn input_quote6(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        message: Icmpv6Message,
        quote: &Arrival<'_, B>,
    ) {
        let head = quote.head();
        let (Ok(header), Ok(walk)) = (Ipv6Header::parse_quoted(head), Walk::of(head)) else {
            return self.dropped(DropReason::Transport);
        };
        let is_sent = run.configuration.local_kind(header.source().into()).is_some();
        let Some((error, is_hard)) = errors::of_icmpv6(message).filter(|_| is_sent) else {
            return;
        };
        let mtu = if let Icmpv6Message::TooBig { mtu } = message { mtu } else { 0 };
        let of_message = message.header();
        let (kind, code, carrier) = (of_message.kind, of_message.code, carrier_of(run, delivery));
        let remote = RemoteError { error, is_hard, kind, code, carrier, mtu };
        let quoted = Quoted {
            protocol: walk.protocol,
            source: header.source().into(),
            destination: header.destination().into(),
            length: header.total_length() as u32,
            payload: quote.part(walk.payload..usize::MAX),
            interface: delivery.origin.interface,
            label: delivery.origin.label,
        };
        // Fragments behind the first have no ports.
        if walk.fragment.is_none_or(|fragment| fragment.header.place().offset == 0) {
            self.input_error(run, &quoted, remote);
        }
    }
}

/// Returns the packet of a message, with its checksum.
fn sealed<B: Buffer>(
    path: &Path,
    request: &SendRequest,
    message: &[u8],
    data: BufferChain<B>,
) -> Option<Departure<B>> {
    let mut packet = Departure::new(message, data)?;
    let length = packet.length() as u32;
    let ends = (path.source, request.destination);
    let mut sum = Sum::pseudo_header(ends.0, ends.1, protocol::ICMPV6, length);
    sum.append(packet.sum());
    packet.patch(CHECKSUM_OFFSET, sum.checksum());
    Some(packet)
}

/// Returns whether an error may be told about a packet: one that is no error and no redirect itself.
fn quotable6<B: Buffer>(delivery: &Delivery<'_, B>) -> bool {
    const REDIRECT: u8 = 137;
    let Ok(walk) = Walk::of(delivery.network.head()) else { return true };
    if walk.protocol != protocol::ICMPV6 {
        return true;
    }
    let above = delivery.network.part(walk.payload..usize::MAX);
    Icmpv6Message::parse(above.head())
        .is_ok_and(|message| !message.is_error() && message.header().kind != REDIRECT)
}
