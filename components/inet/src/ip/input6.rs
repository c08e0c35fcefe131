//! Input of IPv6 (RFC 8200).
use super::{
    events::PacketEvent,
    extensions::longer_head,
    reassemble::rewalk,
    stack::{Cast, Delivery, PacketOrigin, Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{address::Family, buffer::Buffer, packets::Arrival},
    tables::{
        interface::{Interface, InterfaceFlags},
        routes::RouteKind,
    },
};
use core::net::{IpAddr, Ipv6Addr};
use labels::SecrecyId;
use packet::{
    icmpv6::Icmpv6Message,
    ipv6::{self, Audience, Ipv6Header, Walk, WalkFault, solicited_node},
};

impl<B: Buffer> Stack<B> {
    pub(crate) fn input6(
        &self,
        run: &mut StackRun<'_, B>,
        mut origin: PacketOrigin,
        packet: &Arrival<'_, B>,
    ) {
        let Ok(header) = Ipv6Header::parse(packet.head(), packet.length()) else {
            return self.dropped(DropReason::Malformed);
        };
        if origin.label == SecrecyId::TOLD {
            match self.told6(run, origin.interface, packet) {
                Some(label) => origin.label = label,
                None => return,
            }
        }
        let network = packet.part(0..header.total_length());
        let (source, destination) = (header.source(), header.destination());
        if !origin.is_looped && is_martian6(run, source, destination) {
            return self.dropped(DropReason::Martian);
        }
        let Some(cast) = cast_of6(run, origin, destination) else {
            return self.dropped(DropReason::NotForUs);
        };
        run.events.ecn(Family::V6, header.traffic_class());
        if cast == Cast::Multicast {
            run.events.add(PacketEvent::InGroup6, 1);
            run.events.add(PacketEvent::InGroupOctets6, network.length() as u64);
        }
        let mut delivery = Delivery {
            origin,
            cast,
            source: source.into(),
            destination: destination.into(),
            protocol: header.next_header,
            protocol_at: 6,
            hop_limit: header.hop_limit,
            traffic_class: header.traffic_class(),
            payload: network.part(ipv6::HEADER_LENGTH..usize::MAX),
            network,
        };
        let walk = Walk::of(delivery.network.head());
        if let Some(head) = longer_head(&delivery.network, &walk) {
            return self.input6_longer(run, origin, (&head, &delivery.network));
        }
        let walk = match walk {
            Ok(walk) => walk,
            Err(fault) => return self.refuse_headers(run, &delivery, fault),
        };
        if let Some(found) = walk.fragment {
            delivery.payload = delivery.network.part(ipv6::payload(header, &walk));
            return self.reassemble6(run, &found, &delivery);
        }
        delivery.payload = delivery.network.part(ipv6::payload(header, &walk));
        (delivery.protocol, delivery.protocol_at) = (walk.protocol, walk.protocol_at as u32);
        self.deliver(run, &delivery);
    }
    /// Takes a packet whose headers go beyond what it showed of its first bytes, with more of them.
    fn input6_longer(
        &self,
        run: &mut StackRun<'_, B>,
        origin: PacketOrigin,
        (head, network): (&[u8], &Arrival<'_, B>),
    ) {
        let longer = network.to_chain();
        let Some(packet) = longer.as_ref().and_then(|chain| Arrival::new(head, chain, 0)) else {
            return self.dropped(DropReason::NoMemory);
        };
        let packet = packet.with_checksum(network.checksum()).with_segment(network.segment());
        self.input6(run, origin, &packet);
    }
    /// Delivers a packet that has been put together.
    pub(crate) fn accept6(
        &self,
        run: &mut StackRun<'_, B>,
        (origin, cast): (PacketOrigin, Cast),
        network: &Arrival<'_, B>,
    ) {
        let Some((header, walk)) = rewalk(network.head()) else {
            return self.dropped(DropReason::Fragment);
        };
        let delivery = Delivery {
            origin,
            cast,
            source: header.source().into(),
            destination: header.destination().into(),
            protocol: walk.protocol,
            protocol_at: walk.protocol_at as u32,
            hop_limit: header.hop_limit,
            traffic_class: header.traffic_class(),
            payload: network.part(ipv6::payload(header, &walk)),
            network: network.clone(),
        };
        self.deliver(run, &delivery);
    }
    pub(crate) fn refuse_headers(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        fault: WalkFault,
    ) {
        self.dropped(DropReason::Option);
        if let WalkFault::Problem { code, pointer, audience } = fault
            && (audience == Audience::All || delivery.cast == Cast::Unicast)
        {
            let problem = Icmpv6Message::ParameterProblem { code, pointer };
            self.send_error6(run, delivery, problem);
        }
    }
}

/// Returns whether a packet from outside has addresses that cannot come from there (RFC 4291).
fn is_martian6<B>(run: &StackRun<'_, B>, source: Ipv6Addr, destination: Ipv6Addr) -> bool {
    source.is_multicast()
        || source.is_loopback()
        || destination.is_loopback()
        || destination.is_unspecified()
        || source.is_unspecified() && !destination.is_multicast()
        // Scope 0 is reserved, and scope 1 stays in its host.
        || matches!(destination.octets(), [0xff, scope, ..] if scope & 0xf < 2)
        || run.configuration.local_kind(source.into()).is_some()
}

/// Returns the way in which a packet reaches this host; `None` if it does not.
fn cast_of6<B>(run: &StackRun<'_, B>, origin: PacketOrigin, destination: Ipv6Addr) -> Option<Cast> {
    if destination.is_multicast() {
        let interface = run.configuration.interface(origin.interface)?;
        return is_member6(interface, destination).then_some(Cast::Multicast);
    }
    let is_local = run.configuration.local_kind(destination.into()) == Some(RouteKind::Local);
    if !is_local {
        return None;
    }
    // A link-local address is known on its own link alone.
    let is_here = origin.is_looped
        || !destination.is_unicast_link_local()
        || run
            .configuration
            .interface(origin.interface)
            .is_some_and(|one| one.address(destination.into()).is_some());
    is_here.then_some(Cast::Unicast)
}

/// Returns whether packets to `group` are received on `interface`. All addresses count, also those that are not in use yet.
fn is_member6(interface: &Interface, group: Ipv6Addr) -> bool {
    group == ipv6::ALL_NODES
        || interface.flags.contains(InterfaceFlags::ALLMULTI)
        || interface.groups.contains_key(&group.into())
        || interface.addresses.iter().any(|one| match one.address {
            IpAddr::V6(address) => solicited_node(address) == group,
            IpAddr::V4(_) => false,
        })
}
