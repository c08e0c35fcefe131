//! Neighbour discovery (RFC 4861): solicitations, advertisements, redirects.
use super::{
    path::SendRequest,
    stack::{Delivery, Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{
        address::Prefix,
        buffer::{Buffer, BufferChain},
    },
    tables::{
        interface::{AddressFlags, Interface},
        neighbours::Lesson,
        routes::{Route, TableId, maker},
        sources,
    },
};
use core::net::{IpAddr, Ipv6Addr};
use packet::{
    HeaderWriter, MacAddress,
    ipv6::{ALL_NODES, solicited_node},
    ndp::{HOP_LIMIT, NdpMessage, NdpOption, NdpOptions, NeighbourFlags},
    protocol,
};

/// Time for which a redirect counts, in nanoseconds.
const REDIRECT_NS: u64 = 600 * 1_000_000_000;
/// Routes that routers of the link may make, at most.
pub(crate) const ROUTES_MAX: usize = 128;
/// Bytes of a message, at most.
const MESSAGE_MAX: usize = 64;

/// The addresses of the link that a message tells.
#[derive(Clone, Copy, Debug, Default)]
struct LinkAddresses {
    source: Option<MacAddress>,
    target: Option<MacAddress>,
}

impl LinkAddresses {
    fn of(options: NdpOptions<'_>) -> LinkAddresses {
        let is_station = |mac: &MacAddress| !packet::ethernet::is_group(*mac);
        let mut all = LinkAddresses::default();
        for option in options.flatten() {
            match option {
                NdpOption::SourceLink(mac) => all.source = Some(mac).filter(is_station),
                NdpOption::TargetLink(mac) => all.target = Some(mac).filter(is_station),
                _ => {}
            }
        }
        all
    }
}

impl<B: Buffer> Stack<B> {
    pub(crate) fn input_ndp(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let interface = self.up(run, delivery.origin.interface);
        let message = delivery.payload.whole().map(NdpMessage::parse);
        // A router passes nothing on with 255 hops, so such a packet comes from the link.
        let (Some(interface), IpAddr::V6(source), IpAddr::V6(destination), HOP_LIMIT) =
            (interface, delivery.source, delivery.destination, delivery.hop_limit)
        else {
            return self.dropped(DropReason::Discovery);
        };
        let Some(Ok(Some((message, options)))) = message else {
            return self.dropped(DropReason::Discovery);
        };
        let links = LinkAddresses::of(options.clone());
        match message {
            NdpMessage::NeighbourSolicitation { target } => {
                self.input_solicitation(run, interface, (source, destination, target), links);
            }
            NdpMessage::NeighbourAdvertisement { flags, target } => {
                let is_sound =
                    !(destination.is_multicast() && flags.contains(NeighbourFlags::SOLICITED));
                if !is_sound {
                    return self.dropped(DropReason::Discovery);
                }
                self.input_advertisement(run, interface, (flags, target), links.target);
            }
            NdpMessage::RouterAdvertisement { .. } if source.is_unicast_link_local() => {
                if let Some(mac) = links.source {
                    self.learn(run, interface, (source.into(), Some(mac)), Lesson::Asked);
                }
                self.input_router(run, interface, source, (message, options));
            }
            NdpMessage::Redirect { target, destination } if source.is_unicast_link_local() => {
                self.input_redirect(run, interface, source, (target, destination), links);
            }
            // This host is no router.
            NdpMessage::RouterSolicitation => {}
            _ => self.dropped(DropReason::Discovery),
        }
    }
    fn input_solicitation(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        (source, destination, target): (Ipv6Addr, Ipv6Addr, Ipv6Addr),
        links: LinkAddresses,
    ) {
        let Some(own) = interface.address(target.into()) else { return };
        let is_probe = source.is_unspecified();
        if is_probe && (destination != solicited_node(target) || links.source.is_some()) {
            return self.dropped(DropReason::Discovery);
        }
        if own.flags.contains(AddressFlags::TENTATIVE) {
            if is_probe {
                self.duplicate_found(run, interface, target);
            }
            return;
        }
        if !own.is_usable() {
            return;
        }
        if !is_probe && links.source.is_some() {
            self.learn(run, interface, (source.into(), links.source), Lesson::Asked);
        }
        let flags = NeighbourFlags::OVERRIDE;
        let (flags, receiver) =
            if is_probe { (flags, ALL_NODES) } else { (flags | NeighbourFlags::SOLICITED, source) };
        let message = NdpMessage::NeighbourAdvertisement { flags, target };
        let option = [NdpOption::TargetLink(interface.mac)];
        let options = if interface.is_headerless() { &[][..] } else { &option };
        self.send_ndp(run, interface, (target, receiver), &message, options);
    }
    fn input_advertisement(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        (flags, target): (NeighbourFlags, Ipv6Addr),
        mac: Option<MacAddress>,
    ) {
        if let Some(own) = interface.address(target.into()) {
            if own.flags.contains(AddressFlags::TENTATIVE) {
                self.duplicate_found(run, interface, target);
            }
            return;
        }
        let lesson = Lesson::Told {
            is_solicited: flags.contains(NeighbourFlags::SOLICITED),
            replaces: flags.contains(NeighbourFlags::OVERRIDE),
            is_router: Some(flags.contains(NeighbourFlags::ROUTER)),
        };
        if self.learn(run, interface, (target.into(), mac), lesson) {
            self.forget_router(interface, target);
        }
    }
    /// Removes the routes through a router that is none any more.
    fn forget_router(&self, interface: &Interface, router: Ipv6Addr) {
        let is_through = |route: &Route| {
            route.protocol == maker::ADVERTISEMENT
                && route.interface == interface.index
                && route.gateway == Some(router.into())
        };
        let _ = self.configure(|all| {
            all.routes.retain(|_, route| !is_through(route));
            Ok::<(), ()>(())
        });
    }
    /// Takes a better next hop from the router that is the present one (RFC 4861, section 8.3).
    fn input_redirect(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        router: Ipv6Addr,
        (target, destination): (Ipv6Addr, Ipv6Addr),
        links: LinkAddresses,
    ) {
        let is_on_link = target == destination;
        let route = run.configuration.route(destination.into(), Some(interface.index), run.now_ns);
        let is_present = route.is_some_and(|route| route.gateway == Some(router.into()));
        if !is_present || !is_on_link && !target.is_unicast_link_local() {
            return self.dropped(DropReason::Discovery);
        }
        if links.target.is_some() {
            self.learn(run, interface, (target.into(), links.target), Lesson::Asked);
        }
        let route = Route {
            gateway: (!is_on_link).then_some(target.into()),
            protocol: maker::ADVERTISEMENT,
            expires_ns: Some(run.now_ns.saturating_add(REDIRECT_NS)),
            ..Route::on_link(Prefix::host(destination.into()), interface.index)
        };
        let _ = self.configure(|all| {
            let host = route.destination;
            all.routes
                .retain(|_, old| old.protocol != maker::ADVERTISEMENT || old.destination != host);
            let made = all.routes.iter().filter(|(_, one)| one.protocol == maker::ADVERTISEMENT);
            if made.count() >= ROUTES_MAX {
                return Err(crate::tables::routes::RouteError::Invalid);
            }
            all.routes.add(TableId::MAIN, route)
        });
    }
    /// Asks for the address of a neighbour of IPv6: at its known address, or in its group.
    pub(crate) fn solicit6(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        target: Ipv6Addr,
        mac: Option<MacAddress>,
    ) {
        let source = sources::source(run.configuration, interface, target.into(), target.into());
        let Some(IpAddr::V6(source)) = source else { return };
        let receiver = if mac.is_some() { target } else { solicited_node(target) };
        let message = NdpMessage::NeighbourSolicitation { target };
        let option = NdpOption::SourceLink(interface.mac);
        self.send_ndp(run, interface, (source, receiver), &message, &[option]);
    }
    /// Sends a message on the link of an interface.
    pub(crate) fn send_ndp(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        (source, destination): (Ipv6Addr, Ipv6Addr),
        message: &NdpMessage,
        options: &[NdpOption<'_>],
    ) {
        let mut bytes = [0; MESSAGE_MAX];
        let mut writer = HeaderWriter::new(&mut bytes);
        let is_whole = message.write(&mut writer).is_ok()
            && options.iter().all(|option| option.write(&mut writer).is_ok());
        let request = SendRequest {
            source: Some(source.into()),
            interface: Some(interface.index),
            hop_limit: Some(HOP_LIMIT),
            is_looped: false,
            ..SendRequest::new(destination.into(), protocol::ICMPV6)
        };
        if is_whole {
            self.send_icmpv6(run, &request, writer.written(), BufferChain::default());
        }
    }
}
