//! Input: the frame, the header of IPv4, and the choice of the protocol above.
use super::{
    events::PacketEvent,
    stack::{Cast, Claim, Delivery, PacketOrigin, Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{address::Family, buffer::Buffer, packets::Arrival},
    tables::{
        interface::{Interface, InterfaceFlags, InterfaceIndex},
        routes::RouteKind,
    },
};
use core::net::{IpAddr, Ipv4Addr};
use labels::SecrecyId;
use packet::{
    ethernet::{self, Ethernet, ethertype},
    icmp::{IcmpMessage, unreachable},
    icmpv6::Icmpv6Message,
    ipv4::Ipv4,
    ipv6::problem,
    protocol,
};

impl<B: Buffer> Stack<B> {
    /// Takes a frame.
    pub(crate) fn input_frame(
        &self,
        run: &mut StackRun<'_, B>,
        index: InterfaceIndex,
        frame: &Arrival<'_, B>,
    ) {
        let Some(interface) = self.up(run, index) else {
            return self.dropped(DropReason::InterfaceDown);
        };
        let label = interface.label.of_packets();
        if interface.is_headerless() {
            let cast = Cast::Unicast;
            let origin = PacketOrigin { interface: index, cast, is_looped: false, label };
            return self.input_packet(run, origin, frame);
        }
        let Ok(parsed) = Ethernet::parse(frame.head()) else {
            return self.dropped(DropReason::Malformed);
        };
        let destination = parsed.header.destination;
        let cast = match destination {
            ethernet::BROADCAST => Cast::Broadcast,
            group if ethernet::is_group(group) => Cast::Multicast,
            one if one == interface.mac => Cast::Unicast,
            // A card that receives everything receives what is for others.
            _ => return self.dropped(DropReason::NotForUs),
        };
        let origin = PacketOrigin { interface: index, cast, is_looped: false, label };
        let payload = frame.part(ethernet::HEADER_LENGTH..usize::MAX);
        match parsed.header.ethertype.get() {
            ethertype::IPV4 | ethertype::IPV6 => self.input_packet(run, origin, &payload),
            ethertype::ARP => self.input_arp(run, interface, &payload),
            _ => self.dropped(DropReason::UnknownEthertype),
        }
    }
    /// Takes a packet of IP.
    pub(crate) fn input_packet(
        &self,
        run: &mut StackRun<'_, B>,
        origin: PacketOrigin,
        packet: &Arrival<'_, B>,
    ) {
        match packet.head().first().map(|byte| byte >> 4) {
            Some(4) => {
                run.events.add(PacketEvent::In4, 1);
                run.events.add(PacketEvent::InOctets4, packet.length() as u64);
                self.input4(run, origin, packet);
            }
            Some(6) => {
                run.events.add(PacketEvent::In6, 1);
                run.events.add(PacketEvent::InOctets6, packet.length() as u64);
                self.input6(run, origin, packet);
            }
            _ => self.dropped(DropReason::Malformed),
        }
    }
    fn input4(&self, run: &mut StackRun<'_, B>, mut origin: PacketOrigin, packet: &Arrival<'_, B>) {
        let Ok(parsed) = Ipv4::parse(packet.head(), packet.length()) else {
            return self.dropped(DropReason::Malformed);
        };
        if origin.label == SecrecyId::TOLD {
            match self.told4(run, origin.interface, &parsed) {
                Some(label) => origin.label = label,
                None => return,
            }
        }
        let header = parsed.header;
        let network = packet.part(0..header.total_length());
        let (source, destination) = (header.source(), header.destination());
        if !origin.is_looped && is_martian(run, source, destination) {
            return self.dropped(DropReason::Martian);
        }
        let Some(cast) = cast_of(run, origin, destination) else {
            return self.dropped(DropReason::NotForUs);
        };
        run.events.ecn(Family::V4, header.traffic_class);
        let bytes = network.length() as u64;
        match cast {
            Cast::Unicast => {}
            Cast::Multicast => {
                run.events.add(PacketEvent::InGroup4, 1);
                run.events.add(PacketEvent::InGroupOctets4, bytes);
            }
            Cast::Broadcast => {
                run.events.add(PacketEvent::InBroadcast, 1);
                run.events.add(PacketEvent::InBroadcastOctets, bytes);
            }
        }
        let delivery = Delivery {
            origin,
            cast,
            source: source.into(),
            destination: destination.into(),
            protocol: header.protocol,
            protocol_at: 9,
            hop_limit: header.ttl,
            traffic_class: header.traffic_class,
            payload: network.part(parsed.payload()),
            network,
        };
        if parsed.options.is_empty() {
            self.accept4(run, &parsed, &delivery);
        } else {
            self.input_with_options(run, &parsed, &delivery);
        }
    }
    /// Takes a packet for this host whose header and options are right.
    pub(crate) fn accept4(
        &self,
        run: &mut StackRun<'_, B>,
        packet: &Ipv4<'_>,
        delivery: &Delivery<'_, B>,
    ) {
        if packet.header.place().is_fragment() {
            return self.reassemble4(run, packet, delivery);
        }
        self.deliver(run, delivery);
    }
    /// Gives a whole packet to raw sockets, and to its protocol.
    pub(crate) fn deliver(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let family = Family::of(delivery.destination);
        run.events.note(family, [PacketEvent::Deliver4, PacketEvent::Deliver6]);
        let of_raw = self.input_raw(run, delivery);
        match (delivery.protocol, delivery.destination) {
            (protocol::ICMP, IpAddr::V4(_)) => self.input_icmp(run, delivery),
            (protocol::IGMP, IpAddr::V4(_)) => self.input_igmp(run, delivery),
            (protocol::ICMPV6, IpAddr::V6(_)) => self.input_icmpv6(run, delivery),
            (protocol::NONE, IpAddr::V6(_)) => {}
            (protocol::UDP, _) => self.input_udp(run, delivery),
            (protocol::UDP_LITE, _) => self.input_lite(run, delivery),
            _ => {
                let of_other = run.surroundings.deliver(delivery);
                if of_raw == Claim::Unknown && of_other == Claim::Unknown {
                    self.refuse_protocol(run, delivery);
                }
            }
        }
    }
    fn refuse_protocol(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        self.dropped(DropReason::NoSocket);
        if self.lacks_sockets() {
            return;
        }
        if delivery.destination.is_ipv4() {
            let code = unreachable::PROTOCOL;
            let message = IcmpMessage::Unreachable { code, mtu: 0 };
            return self.send_error4(run, delivery, message);
        }
        let (code, pointer) = (problem::NEXT_HEADER, delivery.protocol_at);
        self.send_error6(run, delivery, Icmpv6Message::ParameterProblem { code, pointer });
    }
}

/// Returns whether a packet from outside has addresses that cannot come from there (RFC 1122 section 3.2.1.3, RFC 1812 section 5.3.7).
fn is_martian<B>(run: &StackRun<'_, B>, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
    let has_bad_source = source.is_multicast()
        || source.is_broadcast()
        || source.is_loopback()
        || matches!(source.octets(), [0, ..] if !source.is_unspecified())
        || source.is_unspecified() && !destination.is_broadcast() && !destination.is_multicast();
    let has_bad_destination = destination.is_loopback() || matches!(destination.octets(), [0, ..]);
    // Our own address as the source: a forgery, or another host that has our address.
    has_bad_source || has_bad_destination || run.configuration.local_kind(source.into()).is_some()
}

/// Returns the way in which a packet reaches this host; `None` if it does not.
fn cast_of<B>(run: &StackRun<'_, B>, origin: PacketOrigin, destination: Ipv4Addr) -> Option<Cast> {
    if destination.is_broadcast() {
        return Some(Cast::Broadcast);
    }
    if destination.is_multicast() {
        let interface = run.configuration.interface(origin.interface)?;
        return is_member(interface, destination.into()).then_some(Cast::Multicast);
    }
    match run.configuration.local_kind(destination.into())? {
        // An address of this host in a broadcast of the link is a trick (RFC 1122, section 3.3.6).
        RouteKind::Local if origin.cast == Cast::Unicast || origin.is_looped => Some(Cast::Unicast),
        RouteKind::Broadcast => Some(Cast::Broadcast),
        _ => None,
    }
}

/// Returns whether packets to `group` are received on `interface`.
fn is_member(interface: &Interface, group: IpAddr) -> bool {
    interface.flags.contains(InterfaceFlags::ALLMULTI)
        || interface.groups.contains_key(&group)
        || group == IpAddr::V4(packet::igmp::ALL_HOSTS)
}
