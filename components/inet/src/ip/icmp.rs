//! ICMP (RFC 792, RFC 1122 section 3.2.2): echo, and errors in both directions.
use super::{
    events::IcmpWay,
    options,
    path::SendRequest,
    stack::{Cast, Delivery, PacketOrigin, Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{
        address::Family,
        buffer::{Buffer, BufferChain},
        packets::{Arrival, Departure, HEAD_MIN},
    },
    sockets::errors::{self, ErrorCarrier, Quoted, RemoteError},
    tables::{interface::InterfaceIndex, neighbours::NeighbourKey},
};
use core::net::{IpAddr, Ipv4Addr};
use interfaces::sockets::Ipv4OptionList;
use packet::{
    icmp::{self, IcmpMessage, unreachable},
    ipv4::Ipv4,
    ipv6::Ipv6Header,
    protocol,
};
use zerocopy::IntoBytes;

/// Length of an error, at most (RFC 1812, section 4.3.2.3).
const ERROR_MAX: usize = 576;
/// Type of service of errors: internetwork control (RFC 1812, section 4.3.2.5), with these bits of the packet's own.
const CONTROL_CLASS: u8 = 0xc0;
const SERVICE_BITS: u8 = 0x1e;
/// Offset of the checksum in a message.
pub(crate) const CHECKSUM_OFFSET: usize = 2;

impl<B: Buffer> Stack<B> {
    pub(crate) fn input_icmp(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let payload = &delivery.payload;
        let Ok(message) = IcmpMessage::parse(payload.head()) else {
            return self.dropped(DropReason::Transport);
        };
        if !payload.sum().is_valid() {
            return self.dropped(DropReason::Checksum);
        }
        run.events.icmp(Family::V4, IcmpWay::In, message.header().kind);
        match message {
            IcmpMessage::EchoRequest { identifier, sequence } => {
                let reply = IcmpMessage::EchoReply { identifier, sequence };
                self.answer_echo(run, delivery, reply);
            }
            message if message.is_error() => self.input_error4(run, delivery, message),
            IcmpMessage::EchoReply { identifier, .. } => {
                self.input_ping(run, delivery, identifier);
            }
            // Raw sockets have it already, and nobody is told if there is none.
            _ => {}
        }
    }
    /// Takes an error about a packet that this host sent.
    fn input_error4(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        message: IcmpMessage,
    ) {
        self.with_quote(delivery, |quote| self.input_quote4(run, delivery, message, quote));
    }
    /// Calls `take` with the packet that an error of either version quotes, as far as it is quoted.
    pub(crate) fn with_quote(
        &self,
        delivery: &Delivery<'_, B>,
        take: impl FnOnce(&Arrival<'_, B>),
    ) {
        let quote = delivery.payload.part(icmp::HEADER_LENGTH..usize::MAX);
        let mut head = [0; HEAD_MIN];
        let Some((chain, count)) = quote.gather(&mut head) else {
            return self.dropped(DropReason::NoMemory);
        };
        if let Some(quote) = Arrival::new(head.get(..count).unwrap_or_default(), &chain, 0) {
            take(&quote);
        }
    }
    fn input_quote4(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        message: IcmpMessage,
        quote: &Arrival<'_, B>,
    ) {
        let Ok(packet) = Ipv4::parse_quoted(quote.head()) else {
            return self.dropped(DropReason::Transport);
        };
        let header = packet.header;
        let is_sent = run.configuration.local_kind(header.source().into()).is_some();
        let Some((error, is_hard)) = errors::of_icmp(message).filter(|_| is_sent) else { return };
        let mtu = match message {
            IcmpMessage::Unreachable { code: unreachable::TOO_BIG, mtu } => mtu.into(),
            _ => 0,
        };
        let message = message.header();
        let remote = RemoteError {
            error,
            is_hard,
            kind: message.kind,
            code: message.code,
            carrier: carrier_of(run, delivery),
            mtu,
        };
        let quoted = Quoted {
            protocol: header.protocol,
            source: header.source().into(),
            destination: header.destination().into(),
            length: header.total_length() as u32,
            payload: quote.part(header.length()..usize::MAX),
            interface: delivery.origin.interface,
            label: delivery.origin.label,
        };
        // Fragments behind the first have no ports.
        if header.place().offset == 0 {
            self.input_error(run, &quoted, remote);
        }
    }
    /// Tells the sender of a datagram that no socket has its port.
    pub(crate) fn refuse_port(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        if delivery.destination.is_ipv4() {
            let code = unreachable::PORT;
            self.send_error4(run, delivery, IcmpMessage::Unreachable { code, mtu: 0 });
        } else {
            self.refuse_port6(run, delivery);
        }
    }
    fn answer_echo(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        reply: IcmpMessage,
    ) {
        let (ignores_all, ignores_groups) = self.echo.all();
        let is_ignored = ignores_all || ignores_groups && delivery.cast != Cast::Unicast;
        if is_ignored || !is_one_host(delivery.source) {
            return self.dropped(DropReason::NotForUs);
        }
        let Some(options) = answer_options(delivery) else {
            return self.dropped(DropReason::Option);
        };
        let data = delivery.payload.part(icmp::HEADER_LENGTH..usize::MAX);
        let Some(data) = data.to_chain() else { return self.dropped(DropReason::NoMemory) };
        let request = SendRequest {
            source: (delivery.cast == Cast::Unicast).then_some(delivery.destination),
            interface: bound_for(delivery),
            traffic_class: delivery.traffic_class,
            label: delivery.origin.label,
            ..SendRequest::new(delivery.source, protocol::ICMP)
        };
        self.send_icmp(run, &request, (reply, options), data);
    }
    fn send_icmp(
        &self,
        run: &mut StackRun<'_, B>,
        request: &SendRequest,
        (message, options): (IcmpMessage, Ipv4OptionList),
        data: BufferChain<B>,
    ) {
        let header = message.header();
        let Some(mut packet) = Departure::new(header.as_bytes(), data) else { return };
        let checksum = packet.sum().checksum();
        packet.patch(CHECKSUM_OFFSET, checksum);
        // An error that cannot be told is no reason for another one.
        let _ = match options.is_empty() {
            true => self.send(run, request, packet).map(|_| ()),
            false => self.send_with_options(run, request, &options, packet),
        };
    }
    /// Tells the sender of a packet of an error, unless the rules forbid it (RFC 1122, section 3.2.2).
    pub(crate) fn send_error4(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        message: IcmpMessage,
    ) {
        let is_asked = delivery.cast == Cast::Unicast
            && (delivery.origin.cast == Cast::Unicast || delivery.origin.is_looped)
            && is_one_host(delivery.source)
            && quotable(&delivery.network);
        if !is_asked {
            return;
        }
        if !self.may_tell(run, delivery) {
            return self.dropped(DropReason::ErrorLimit);
        }
        let Some(options) = answer_options(delivery) else {
            return self.dropped(DropReason::Option);
        };
        let headers = packet::ipv4::HEADER_LENGTH + options.length() + icmp::HEADER_LENGTH;
        let room = ERROR_MAX - headers;
        let Some(quote) = delivery.network.part(0..room).to_chain() else {
            return self.dropped(DropReason::NoMemory);
        };
        let request = SendRequest {
            source: Some(delivery.destination),
            interface: bound_for(delivery),
            traffic_class: CONTROL_CLASS | delivery.traffic_class & SERVICE_BITS,
            label: delivery.origin.label,
            ..SendRequest::new(delivery.source, protocol::ICMP)
        };
        self.send_icmp(run, &request, (message, options), quote);
    }
    /// Returns whether the limit of errors allows one about a packet. Loopback has no limit, as on Linux.
    pub(crate) fn may_tell(&self, run: &StackRun<'_, B>, delivery: &Delivery<'_, B>) -> bool {
        delivery.origin.interface == InterfaceIndex::LOOPBACK
            || self.error_limit.lock().allows(delivery.source, run.now_ns)
    }
    /// Tells the sender of a packet, which is this host, that a neighbour does not answer.
    pub(crate) fn tell_unreachable(
        &self,
        run: &mut StackRun<'_, B>,
        (interface, _): NeighbourKey,
        packet: Departure<B>,
    ) {
        let head = packet.headers.as_slice();
        if Ipv6Header::parse_quoted(head).is_ok() {
            return self.tell_unreachable6(run, interface, &packet);
        }
        let Ok(parsed) = Ipv4::parse_quoted(head) else { return };
        let Some(network) = Arrival::new(head, &packet.payload, head.len()) else { return };
        let Some(label) = self.label_of_sent(run, interface, |link| self.told4(run, link, &parsed))
        else {
            return;
        };
        let source = IpAddr::V4(parsed.header.source());
        let delivery = Delivery {
            origin: PacketOrigin { interface, cast: Cast::Unicast, is_looped: true, label },
            cast: Cast::Unicast,
            source,
            destination: source,
            protocol: parsed.header.protocol,
            protocol_at: 9,
            hop_limit: parsed.header.ttl,
            traffic_class: parsed.header.traffic_class,
            payload: network.part(parsed.payload()),
            network,
        };
        let code = unreachable::HOST;
        self.send_error4(run, &delivery, IcmpMessage::Unreachable { code, mtu: 0 });
    }
}

/// Returns the options of an answer to a packet; `None` if they would be malformed.
fn answer_options<B: Buffer>(delivery: &Delivery<'_, B>) -> Option<Ipv4OptionList> {
    match options::options_of(delivery) {
        None => Some(Ipv4OptionList::EMPTY),
        Some(came) => options::answer_to(&came, delivery.source),
    }
}

/// Returns the packet of a message of ICMP as sockets are told of it.
pub(crate) fn carrier_of<B>(run: &StackRun<'_, B>, delivery: &Delivery<'_, B>) -> ErrorCarrier {
    ErrorCarrier {
        offender: delivery.source,
        receiver: delivery.destination,
        interface: delivery.origin.interface.0,
        hop_limit: delivery.hop_limit,
        traffic_class: delivery.traffic_class,
        received_ns: run.now_ns,
    }
}

/// Returns the interface that an answer has to leave through: that of link-local packets of IPv6.
pub(crate) fn bound_for<B>(delivery: &Delivery<'_, B>) -> Option<InterfaceIndex> {
    use crate::base::address::AddressScope;
    let is_confined = delivery.source.is_ipv6()
        && AddressScope::of(delivery.source) == AddressScope::Link
        && !delivery.origin.is_looped;
    is_confined.then_some(delivery.origin.interface)
}

fn is_one_host(address: IpAddr) -> bool {
    let is_all = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !address.is_unspecified() && !address.is_multicast() && !is_all
}

/// Returns whether an error may be told about a packet: the first fragment of one that is no error itself.
fn quotable<B: Buffer>(network: &Arrival<'_, B>) -> bool {
    let Ok(packet) = Ipv4::parse_quoted(network.head()) else { return false };
    if packet.header.place().offset > 0 {
        return false;
    }
    if packet.header.protocol != protocol::ICMP {
        return true;
    }
    let above = network.part(packet.payload());
    IcmpMessage::parse(above.head()).is_ok_and(|message| !message.is_error())
}
