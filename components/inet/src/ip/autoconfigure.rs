//! Address configuration without a server (RFC 4862), with stable interface identifiers (RFC 7217).
use super::{
    ndp::ROUTES_MAX,
    stack::{Stack, StackRun},
};
use crate::{
    base::{
        address::{Family, Prefix},
        buffer::Buffer,
    },
    tables::{
        autoconfiguration::ConfigurationEvent,
        configuration::{ChangeError, Configuration, resolves},
        interface::{AddressFlags, Interface, InterfaceAddress, InterfaceIndex},
        routes::{Route, TableId, maker},
    },
};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use packet::{
    ipv6::{self, ALL_ROUTERS, solicited_node},
    ndp::{NdpMessage, NdpOption, NdpOptions, PrefixFlags, PrefixInformation},
};

const NS_PER_S: u64 = 1_000_000_000;
/// Delay of the first message of an interface, at most (`MAX_RTR_SOLICITATION_DELAY`).
const DELAY_NS: u64 = NS_PER_S;
/// Lifetime that an advertisement without authority leaves (RFC 4862, section 5.5.3).
const TWO_HOURS_NS: u64 = 7200 * NS_PER_S;
/// Addresses of an interface, at most (`max_addresses`).
const ADDRESSES_MAX: usize = 16;
/// Metric of the routes that routers make (`IP6_RT_PRIO_USER`).
const METRIC: u32 = 1024;
/// Further identifiers that are tried when one is in use (`IDGEN_RETRIES`).
const RETRIES: u8 = 3;
const INTERFACE_BITS: u8 = 64;

/// Returns the end of a lifetime; all ones are none.
fn end_of(now_ns: u64, lifetime_s: u32) -> Option<u64> {
    let ns = u64::from(lifetime_s) * NS_PER_S;
    (lifetime_s != u32::MAX).then(|| now_ns.saturating_add(ns))
}

impl<B: Buffer> Stack<B> {
    /// Adds an address. One of IPv6 is used once no other host turns out to have it, unless it has the flag `NODAD`.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn add_address(
        &self,
        run: &mut StackRun<'_, B>,
        index: InterfaceIndex,
        mut address: InterfaceAddress,
    ) -> Result<(), ChangeError> {
        let is_loopback = index == InterfaceIndex::LOOPBACK;
        // Without questions for neighbours there is none for a duplicate (`addrconf_dad_begin`).
        let can_ask = run.configuration.interface(index).is_none_or(resolves);
        let probed = match address.address {
            IpAddr::V6(one) if !address.flags.contains(AddressFlags::NODAD) && can_ask => {
                address.flags |= AddressFlags::TENTATIVE;
                Some(one)
            }
            _ => None,
        };
        let own = address.address;
        self.configure(|all| all.add_address(index, address))?;
        if let IpAddr::V6(one) = own
            && !is_loopback
        {
            // Membership in the group of an address is told to routers and switches before the first probe.
            let _ = self.join_group(run, index, solicited_node(one).into());
            if !can_ask {
                self.ask_routers(run, index, one);
            }
        }
        if let Some(one) = probed {
            let at_ns = run.now_ns.saturating_add(self.random.below(DELAY_NS));
            self.autoconfiguration.lock().probe(index, one, at_ns);
        }
        Ok(())
    }
    /// Removes an address.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn remove_address(
        &self,
        run: &mut StackRun<'_, B>,
        index: InterfaceIndex,
        address: IpAddr,
    ) -> Result<(), ChangeError> {
        self.configure(|all| all.remove_address(index, address))?;
        if let IpAddr::V6(one) = address {
            self.autoconfiguration.lock().end_probe(index, one);
            let _ = self.leave_group(run, index, solicited_node(one).into());
        }
        Ok(())
    }
    /// Begins IPv6 on an interface that came up: the link-local address, then routers.
    pub fn start_ipv6(&self, run: &mut StackRun<'_, B>, index: InterfaceIndex) {
        let link_local = Prefix::new(IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 64);
        if let (Some(interface), Some(prefix)) = (self.up(run, index), link_local) {
            self.add_stable(run, interface, prefix, (None, None), 0);
        }
    }
    /// Begins again what belongs to the addresses of an interface whose stack had a predecessor: their groups, probes of those that
    /// are not in use yet, and the question for routers if none has answered.
    pub(crate) fn resume_ipv6(&self, run: &mut StackRun<'_, B>, interface: &Interface) {
        let index = interface.index;
        if interface.is_loopback() {
            return;
        }
        let delay_ns = self.random.below(DELAY_NS);
        let at_ns = run.now_ns.saturating_add(delay_ns);
        for entry in &interface.addresses {
            let IpAddr::V6(address) = entry.address else { continue };
            // An address can do without its group.
            let _ = self.join_group(run, index, solicited_node(address).into());
            if entry.flags.contains(AddressFlags::TENTATIVE) {
                self.autoconfiguration.lock().probe(index, address, at_ns);
            }
        }
        let mut routes = run.configuration.routes.iter().map(|(_, route)| route);
        let is_answered =
            |route: &Route| route.interface == index && route.protocol == maker::ADVERTISEMENT;
        let asks = interface.ipv6.is_autoconfigured && interface.link_local().is_some();
        if asks && interface.is_up() && !routes.any(is_answered) {
            self.autoconfiguration.lock().solicit(index, at_ns);
        }
    }
    /// Ends IPv6 on an interface that went down.
    pub fn stop_ipv6(&self, index: InterfaceIndex) {
        self.autoconfiguration.lock().forget(index);
    }
    /// Makes an address of `prefix`, and adds it with the ends of its lifetimes.
    fn add_stable(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        prefix: Prefix,
        (preferred, valid): (Option<u64>, Option<u64>),
        counter: u8,
    ) {
        let address = self.stable_address(interface, prefix, counter);
        let Some(mut entry) = InterfaceAddress::new(address.into(), INTERFACE_BITS) else { return };
        entry.flags = AddressFlags::STABLE_PRIVACY;
        if valid.is_none() {
            entry.flags |= AddressFlags::PERMANENT;
        }
        if !address.is_unicast_link_local() {
            // The route of the prefix is the router's to give.
            entry.flags |= AddressFlags::NOPREFIXROUTE;
        }
        (entry.preferred_until_ns, entry.valid_until_ns) = (preferred, valid);
        // One that exists has been configured by hand.
        let _ = self.add_address(run, interface.index, entry);
    }
    /// Returns the address of RFC 7217: the prefix and a keyed hash of it, the interface and the count of collisions.
    fn stable_address(&self, interface: &Interface, prefix: Prefix, counter: u8) -> Ipv6Addr {
        let bits = crate::base::address::bits(prefix.address());
        let mut bytes = Vec::from(*b"rfc7217");
        bytes.extend(bits.to_be_bytes());
        bytes.extend(interface.mac);
        if interface.is_headerless() {
            bytes.extend(interface.index.0.to_be_bytes());
        }
        bytes.push(counter);
        Ipv6Addr::from_bits(bits | u128::from(self.random.hash(&bytes)))
    }
    /// Hears that another host has an address of ours.
    pub(crate) fn duplicate_found(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        address: Ipv6Addr,
    ) {
        let (index, own) = (interface.index, IpAddr::V6(address));
        if !self.autoconfiguration.lock().end_probe(index, address) {
            return;
        }
        let Some(entry) = interface.address(own) else { return };
        if !entry.flags.contains(AddressFlags::STABLE_PRIVACY) {
            let _ = self.configure(|all| {
                all.edit_address(index, own, |entry| entry.flags |= AddressFlags::DADFAILED)
            });
            return;
        }
        let ends = (entry.preferred_until_ns, entry.valid_until_ns);
        let prefix = entry.network();
        let counter = (0..RETRIES)
            .find(|counter| self.stable_address(interface, prefix, *counter) == address);
        let _ = self.remove_address(run, index, own);
        if let Some(counter) = counter {
            self.add_stable(run, interface, prefix, ends, counter + 1);
        }
    }
    /// Takes the settings that a router advertises (RFC 4861 section 6.3.4, RFC 4862 section 5.5.3).
    pub(crate) fn input_router(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        router: Ipv6Addr,
        (message, options): (NdpMessage, NdpOptions<'_>),
    ) {
        if !interface.ipv6.is_autoconfigured {
            return;
        }
        self.autoconfiguration.lock().end_solicitation(interface.index);
        let now_ns = run.now_ns;
        let mut fresh = Vec::new();
        let _ = self.configure(|all| {
            take_settings(all, interface, message, options.clone());
            take_router(all, interface, router, message, now_ns);
            for option in options.flatten() {
                if let NdpOption::Prefix(prefix) = option {
                    fresh.extend(take_prefix(all, interface, prefix, now_ns));
                }
            }
            Ok::<(), ()>(())
        });
        for (prefix, ends) in fresh {
            self.add_stable(run, interface, prefix, ends, 0);
        }
    }
    /// Does what time demands for addresses.
    pub(crate) fn poll_addresses(&self, run: &mut StackRun<'_, B>) {
        let events = {
            let mut timers = self.autoconfiguration.lock();
            if run.now_ns < timers.earliest_ns() {
                Vec::new()
            } else {
                timers.poll(run.now_ns, NS_PER_S)
            }
        };
        for event in events {
            match event {
                ConfigurationEvent::Probe(index, target) => {
                    let Some(interface) = self.up(run, index) else { continue };
                    let ends = (Ipv6Addr::UNSPECIFIED, solicited_node(target));
                    let message = NdpMessage::NeighbourSolicitation { target };
                    self.send_ndp(run, interface, ends, &message, &[]);
                }
                ConfigurationEvent::Unique(index, address) => self.adopt(run, index, address),
                ConfigurationEvent::Solicit(index) => {
                    let Some(interface) = self.up(run, index) else { continue };
                    let source = interface.link_local().unwrap_or(Ipv6Addr::UNSPECIFIED);
                    let option = [NdpOption::SourceLink(interface.mac)];
                    let has_none = source.is_unspecified() || interface.is_headerless();
                    let options = if has_none { &[][..] } else { &option };
                    let message = NdpMessage::RouterSolicitation;
                    self.send_ndp(run, interface, (source, ALL_ROUTERS), &message, options);
                }
            }
        }
        self.end_lifetimes(run);
    }
    /// Puts an address into use that no other host has.
    fn adopt(&self, run: &mut StackRun<'_, B>, index: InterfaceIndex, address: Ipv6Addr) {
        let _ = self.configure(|all| {
            all.edit_address(index, address.into(), |one| one.flags -= AddressFlags::TENTATIVE)
        });
        self.ask_routers(run, index, address);
    }
    /// Asks for routers once an address of the link is in use.
    fn ask_routers(&self, run: &StackRun<'_, B>, index: InterfaceIndex, address: Ipv6Addr) {
        let interface = self.up(run, index);
        let asks = interface.is_some_and(|one| one.ipv6.is_autoconfigured);
        if address.is_unicast_link_local() && asks {
            let at_ns = run.now_ns.saturating_add(self.random.below(DELAY_NS));
            self.autoconfiguration.lock().solicit(index, at_ns);
        }
    }
    /// Deprecates and removes addresses, and removes routes, whose time has come.
    fn end_lifetimes(&self, run: &mut StackRun<'_, B>) {
        let now_ns = run.now_ns;
        if now_ns < self.publisher.earliest_ns() {
            return;
        }
        let is_over = |end: Option<u64>| end.is_some_and(|end| end <= now_ns);
        for interface in run.configuration.interfaces() {
            for one in &interface.addresses {
                if is_over(one.valid_until_ns) {
                    let _ = self.remove_address(run, interface.index, one.address);
                } else if is_over(one.preferred_until_ns) {
                    let old = AddressFlags::DEPRECATED;
                    let _ = self.configure(|all| {
                        all.edit_address(interface.index, one.address, |one| one.flags |= old)
                    });
                }
            }
        }
        if run.configuration.routes.iter().any(|(_, route)| is_over(route.expires_ns)) {
            let _ = self.configure(|all| {
                all.routes.retain(|_, route| !is_over(route.expires_ns));
                Ok::<(), ()>(())
            });
        }
    }
}

fn take_settings(
    all: &mut Configuration,
    interface: &Interface,
    message: NdpMessage,
    options: NdpOptions<'_>,
) {
    let NdpMessage::RouterAdvertisement { hop_limit, reachable_ms, retransmit_ms, .. } = message
    else {
        return;
    };
    let _ = all.edit_interface(interface.index, |one| {
        let settings = &mut one.ipv6;
        if hop_limit != 0 {
            settings.hop_limit = hop_limit;
        }
        // The greatest value that RFC 4861 allows is an hour.
        if (1..=3_600_000).contains(&reachable_ms) {
            settings.reachable_ms = reachable_ms;
        }
        if (1..=3_600_000).contains(&retransmit_ms) {
            settings.retransmit_ms = retransmit_ms;
        }
        for option in options.flatten() {
            if let NdpOption::Mtu(mtu) = option
                && (u32::from(ipv6::MTU_MIN)..=one.mtu).contains(&mtu)
            {
                settings.mtu = mtu;
            }
        }
    });
}

/// Sets the route of an advertisement: replaces it, or removes it if its lifetime is zero.
fn set_route(all: &mut Configuration, route: Route, lifetime_s: u32) {
    all.routes.retain(|_, old| {
        old.protocol != maker::ADVERTISEMENT
            || old.destination != route.destination
            || old.interface != route.interface
            || old.gateway != route.gateway
    });
    let made = all.routes.iter().filter(|(_, one)| one.protocol == maker::ADVERTISEMENT).count();
    if lifetime_s > 0 && made < ROUTES_MAX {
        let _ = all.routes.add(TableId::MAIN, route);
    }
}

fn take_router(
    all: &mut Configuration,
    interface: &Interface,
    router: Ipv6Addr,
    message: NdpMessage,
    now_ns: u64,
) {
    let NdpMessage::RouterAdvertisement { lifetime_s, .. } = message else { return };
    let route = Route {
        metric: METRIC,
        protocol: maker::ADVERTISEMENT,
        expires_ns: end_of(now_ns, lifetime_s.into()),
        ..Route::through(router.into(), Prefix::all(Family::V6), interface.index)
    };
    set_route(all, route, lifetime_s.into());
}

/// A prefix to make an address of, and the ends of the address's lifetimes.
type FreshPrefix = (Prefix, (Option<u64>, Option<u64>));

/// Takes a prefix. Returns it if an address is to be made of it.
fn take_prefix(
    all: &mut Configuration,
    interface: &Interface,
    option: &PrefixInformation,
    now_ns: u64,
) -> Option<FreshPrefix> {
    let address = option.prefix();
    let prefix = Prefix::new(address.into(), option.length())?;
    if address.is_unicast_link_local() || address.is_multicast() {
        return None;
    }
    if option.flags().contains(PrefixFlags::ON_LINK) {
        let route = Route {
            metric: METRIC,
            protocol: maker::ADVERTISEMENT,
            expires_ns: end_of(now_ns, option.valid_s()),
            ..Route::on_link(prefix, interface.index)
        };
        set_route(all, route, option.valid_s());
    }
    let is_sound = option.flags().contains(PrefixFlags::AUTONOMOUS)
        && option.preferred_s() <= option.valid_s()
        && option.length() == INTERFACE_BITS;
    if !is_sound {
        return None;
    }
    let ends = (end_of(now_ns, option.preferred_s()), end_of(now_ns, option.valid_s()));
    let addresses = &all.interface(interface.index)?.addresses;
    let is_own = |one: &&InterfaceAddress| {
        one.flags.contains(AddressFlags::STABLE_PRIVACY) && one.network() == prefix
    };
    let known = addresses.iter().find(is_own).map(|one| (one.address, one.valid_until_ns));
    let Some((address, valid)) = known else {
        let has_room = addresses.len() < ADDRESSES_MAX;
        return (option.valid_s() > 0 && has_room).then_some((prefix, ends));
    };
    let valid = renewed(valid, ends.1, now_ns);
    let _ = all.edit_address(interface.index, address, |one| {
        (one.preferred_until_ns, one.valid_until_ns) = (ends.0, valid);
        let is_old = ends.0.is_some_and(|end| end <= now_ns);
        one.flags.set(AddressFlags::DEPRECATED, is_old);
    });
    None
}

/// Returns the end of an address after an advertisement, which may not shorten what is left below two hours (RFC 4862, 5.5.3 e).
fn renewed(old: Option<u64>, new: Option<u64>, now_ns: u64) -> Option<u64> {
    let left = |end: Option<u64>| end.map_or(u64::MAX, |end| end.saturating_sub(now_ns));
    if left(new) > TWO_HOURS_NS || left(new) > left(old) {
        new
    } else if left(old) <= TWO_HOURS_NS {
        old
    } else {
        Some(now_ns.saturating_add(TWO_HOURS_NS))
    }
}
