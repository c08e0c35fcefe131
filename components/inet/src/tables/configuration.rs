//! Interfaces, addresses and routes: an immutable snapshot, and the place where the newest one is published.
//!
//! A thread keeps a [`View`] and compares versions before each batch of packets. So the path of a packet takes no lock. A change
//! makes a new snapshot under the publisher's lock.
use super::{
    interface::{AddressFlags, Interface, InterfaceAddress, InterfaceFlags, InterfaceIndex},
    labels::LabelSource,
    routes::{Route, RouteKind, Routes, TableId, maker},
    rules::{self, NoRoute, RouteFlow, RuleError, Rules},
};
use crate::base::address::{Family, Prefix};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::atomic::{AtomicU64, Ordering},
};
use interfaces::sockets::{EntryMode, RuleRecord, number};
use labels::SecrecyId;
use rt::{lock_class, sync::RwLock};

lock_class! {
    static CONFIGURATION = "inet.configuration";
    static WATCHERS = "inet.configuration.watchers";
}

/// Groups of an interface, at most.
const GROUPS_MAX: usize = 4096;
/// Hops of a packet by default.
pub const HOPS: u8 = 64;
/// The metric of routes of IPv6 that the stack makes (`IP6_RT_PRIO_ADDRCONF`).
const METRIC6: u32 = 256;

/// Interfaces, addresses and routes.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    interfaces: BTreeMap<InterfaceIndex, Arc<Interface>>,
    /// The routes. Those of addresses come and go with them.
    pub routes: Routes,
    rules: Rules,
    labels: LabelSource,
}

/// The error of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// It is there.
    Exists,
    /// It is not there.
    Missing,
}

impl Configuration {
    /// Returns a configuration of these interfaces, routes and rules, as another one had them.
    pub(crate) fn of(
        interfaces: Vec<Interface>,
        routes: Vec<(TableId, Route)>,
        rules: Rules,
    ) -> Configuration {
        let interfaces = interfaces.into_iter().map(|one| (one.index, Arc::new(one))).collect();
        let (routes_of, labels) = (Routes::default(), LabelSource::default());
        let mut all = Configuration { interfaces, routes: routes_of, rules, labels };
        for (table, route) in routes {
            // Only a route that is there twice is refused.
            let _ = all.routes.add(table, route);
        }
        all
    }
    /// Returns the interface of number `index`.
    pub fn interface(&self, index: InterfaceIndex) -> Option<&Interface> {
        self.interfaces.get(&index).map(Arc::as_ref)
    }
    /// Returns the answers about labels.
    pub fn labels(&self) -> &LabelSource {
        &self.labels
    }
    /// Returns whether one secrecy dominates another.
    #[inline]
    pub fn dominates(&self, one: SecrecyId, other: SecrecyId) -> bool {
        self.labels.dominates(one, other)
    }
    /// Sets the answers about labels, and labels the interfaces by them.
    pub fn set_labels(&mut self, labels: LabelSource) {
        self.labels = labels;
        let all: Vec<_> = self.interfaces.keys().copied().collect();
        for index in all {
            // It is there.
            let _ = self.label(index);
        }
    }
    /// Gives an interface the label that its name has.
    ///
    /// # Errors
    /// [`ChangeError::Missing`].
    pub fn label(&mut self, index: InterfaceIndex) -> Result<(), ChangeError> {
        let interface = self.interfaces.get_mut(&index).ok_or(ChangeError::Missing)?;
        if !interface.has_maker_label {
            let label = self.labels.link(&interface.name);
            Arc::make_mut(interface).label = label;
        }
        Ok(())
    }
    /// Returns all interfaces, by number.
    pub fn interfaces(&self) -> impl Iterator<Item = &Interface> {
        self.interfaces.values().map(Arc::as_ref)
    }
    /// Adds an interface, with the routes of its addresses.
    ///
    /// # Errors
    /// [`ChangeError::Exists`] for a number in use.
    pub fn add_interface(&mut self, mut interface: Interface) -> Result<(), ChangeError> {
        if self.interfaces.contains_key(&interface.index) {
            return Err(ChangeError::Exists);
        }
        let (index, addresses) = (interface.index, core::mem::take(&mut interface.addresses));
        self.interfaces.insert(index, Arc::new(interface));
        self.label(index)?;
        for address in addresses {
            self.add_address(index, address)?;
        }
        Ok(())
    }
    /// Removes an interface, its addresses and the routes through it.
    ///
    /// # Errors
    /// [`ChangeError::Missing`].
    pub fn remove_interface(&mut self, index: InterfaceIndex) -> Result<(), ChangeError> {
        self.interfaces.remove(&index).ok_or(ChangeError::Missing)?;
        self.routes.retain(|_, route| !route.leads_through(index));
        Ok(())
    }
    /// Changes an interface by `change`, which leaves number and addresses alone.
    ///
    /// # Errors
    /// [`ChangeError::Missing`].
    pub fn edit_interface(
        &mut self,
        index: InterfaceIndex,
        change: impl FnOnce(&mut Interface),
    ) -> Result<(), ChangeError> {
        let interface = self.interfaces.get_mut(&index).ok_or(ChangeError::Missing)?;
        change(Arc::make_mut(interface));
        Ok(())
    }
    /// Adds an address with its routes.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn add_address(
        &mut self,
        index: InterfaceIndex,
        mut address: InterfaceAddress,
    ) -> Result<(), ChangeError> {
        let interface = self.interfaces.get_mut(&index).ok_or(ChangeError::Missing)?;
        if interface.address(address.address).is_some() {
            return Err(ChangeError::Exists);
        }
        let network = address.network();
        let has_primary = interface.addresses.iter().any(|other| other.network() == network);
        if has_primary && address.address.is_ipv4() {
            address.flags |= AddressFlags::SECONDARY;
        }
        let own = address.address;
        Arc::make_mut(interface).addresses.push(address);
        self.bring(index, |one| one.address == own);
        Ok(())
    }
    /// Removes an address, its own routes, the routes of its network if it was the last there, and all routes of IPv4 through the
    /// interface if it was the last of IPv4 (`fib_disable_ip`).
    ///
    /// # Errors
    /// [`ChangeError::Missing`].
    pub fn remove_address(
        &mut self,
        index: InterfaceIndex,
        address: IpAddr,
    ) -> Result<InterfaceAddress, ChangeError> {
        let interface = self.interfaces.get_mut(&index).ok_or(ChangeError::Missing)?;
        let place = interface.addresses.iter().position(|one| one.address == address);
        let removed = Arc::make_mut(interface).addresses.remove(place.ok_or(ChangeError::Missing)?);
        let has_version4 = interface.addresses.iter().any(|one| one.address.is_ipv4());
        self.renew_routes(index, &removed);
        if address.is_ipv4() && !has_version4 {
            let is_kept =
                |route: &Route| route.destination.address().is_ipv6() || !route.is_of(index);
            self.routes.retain(|_, route| is_kept(route));
        }
        Ok(removed)
    }
    /// Removes the routes that an entry brought, then adds those of all entries of the interface.
    fn renew_routes(&mut self, index: InterfaceIndex, old: &InterfaceAddress) {
        let Some(interface) = self.interfaces.get(&index) else { return };
        for (table, route) in routes_of(interface, old) {
            let _ = self.routes.remove(table, &route);
        }
        self.bring_routes(index);
    }
    /// Adds the routes of an interface's addresses that are not there. An interface that is down gets only those of the addresses
    /// themselves, as far as they stay ([`stays`]).
    pub fn bring_routes(&mut self, index: InterfaceIndex) {
        self.bring(index, |_| true);
    }
    /// Does [`Configuration::bring_routes`] for the addresses that `chosen` accepts.
    fn bring(&mut self, index: InterfaceIndex, chosen: impl Fn(&InterfaceAddress) -> bool) {
        let Some(interface) = self.interfaces.get(&index) else { return };
        let chosen = interface.addresses.iter().filter(|one| chosen(one));
        let all = chosen.flat_map(|one| routes_of(interface, one));
        let is_there = |route: &Route| route.destination.is_host() && stays(route);
        for (table, route) in all.filter(|(_, route)| interface.is_up() || is_there(route)) {
            // Two addresses of a network share its route.
            let _ = self.routes.add(table, route);
        }
    }
    /// Removes the routes through an interface that is to be switched off, but those of [`stays`].
    pub fn drop_routes(&mut self, index: InterfaceIndex) {
        let interfaces = &self.interfaces;
        let is_up = |other: InterfaceIndex| {
            other != index && interfaces.get(&other).is_some_and(|one| one.is_up())
        };
        // Of several ways the others stay.
        self.routes.retain(|_, route| {
            let has_way = route.ways.iter().any(|way| is_up(way.interface));
            !route.is_of(index) && route.ways.is_empty() || has_way || stays(route)
        });
    }
    /// Changes the entry of an address by `change`.
    ///
    /// # Errors
    /// [`ChangeError::Missing`].
    pub fn edit_address(
        &mut self,
        index: InterfaceIndex,
        address: IpAddr,
        change: impl FnOnce(&mut InterfaceAddress),
    ) -> Result<(), ChangeError> {
        let interface = self.interfaces.get_mut(&index).ok_or(ChangeError::Missing)?;
        let mut entries = Arc::make_mut(interface).addresses.iter_mut();
        let entry = entries.find(|one| one.address == address).ok_or(ChangeError::Missing)?;
        let old = entry.clone();
        change(entry);
        if (old.flags, old.metric) != (entry.flags, entry.metric) {
            self.renew_routes(index, &old);
        }
        Ok(())
    }
    /// Adds a member of a group. Returns whether it is the first.
    ///
    /// # Errors
    /// [`ChangeError::Missing`] if there is no such interface, the address is no group, or there are too many groups.
    pub fn join_group(
        &mut self,
        index: InterfaceIndex,
        group: IpAddr,
    ) -> Result<bool, ChangeError> {
        let interface = self.interfaces.get_mut(&index).ok_or(ChangeError::Missing)?;
        let has_room = interface.groups.len() < GROUPS_MAX || interface.groups.contains_key(&group);
        if !group.is_multicast() || !has_room {
            return Err(ChangeError::Missing);
        }
        let members = Arc::make_mut(interface).groups.entry(group).or_default();
        *members = members.saturating_add(1);
        Ok(*members == 1)
    }
    /// Removes a member of a group. Returns whether it was the last.
    ///
    /// # Errors
    /// [`ChangeError::Missing`].
    pub fn leave_group(
        &mut self,
        index: InterfaceIndex,
        group: IpAddr,
    ) -> Result<bool, ChangeError> {
        let interface = self.interfaces.get_mut(&index).ok_or(ChangeError::Missing)?;
        let groups = &mut Arc::make_mut(interface).groups;
        let members = groups.get_mut(&group).ok_or(ChangeError::Missing)?;
        *members = members.saturating_sub(1);
        let is_last = *members == 0;
        if is_last {
            groups.remove(&group);
        }
        Ok(is_last)
    }
    /// Returns the interface that has `address`, and its entry.
    pub fn owner(&self, address: IpAddr) -> Option<(&Interface, &InterfaceAddress)> {
        self.interfaces().find_map(|one| Some((one, one.address(address)?)))
    }
    /// Returns the best route to `destination` through an interface that is up, and through `bound` if given. A route that has ended
    /// by `now_ns` is passed over.
    pub fn route(
        &self,
        destination: IpAddr,
        bound: Option<InterfaceIndex>,
        now_ns: u64,
    ) -> Option<&Route> {
        let found = self.find_route(&RouteFlow::new(destination, bound), now_ns);
        found.ok().map(|(_, route)| route)
    }
    /// Returns the best route for a packet, and its table: through an interface that is up, and through that of the flow if it has one.
    /// Rules choose the tables. A route that has ended by `now_ns` is passed over.
    ///
    /// # Errors
    /// [`NoRoute`].
    pub fn find_route(&self, flow: &RouteFlow, now_ns: u64) -> Result<(TableId, &Route), NoRoute> {
        let accept = |route: &Route| {
            let is_local = matches!(route.kind, RouteKind::Local);
            (is_local || self.way(route, flow.interface, || 0).is_some())
                && route.expires_ns.is_none_or(|end| end > now_ns)
        };
        match self.rules.changed(Family::of(flow.destination)) {
            None => self.routes.find(flow.destination, accept).ok_or(NoRoute::Missing),
            Some(list) => self.find_by_rules(list, flow, accept),
        }
    }
    /// Returns the interface and the next hop of a packet of a route, through an interface that is up, and through `bound` if given.
    /// The hash of the destination chooses among several ways.
    pub fn way(
        &self,
        route: &Route,
        bound: Option<InterfaceIndex>,
        hash: impl FnOnce() -> u64,
    ) -> Option<(InterfaceIndex, Option<IpAddr>)> {
        route.way(hash, |index| {
            bound.is_none_or(|bound| bound == index)
                && self.interface(index).is_some_and(Interface::is_up)
        })
    }
    #[cold]
    fn find_by_rules(
        &self,
        list: &[RuleRecord],
        flow: &RouteFlow,
        accept: impl Fn(&Route) -> bool,
    ) -> Result<(TableId, &Route), NoRoute> {
        let named = |name: &str| self.interfaces().find(|one| one.name == name).map(|it| it.index);
        rules::choose(list, flow, named, |rule| {
            let table = TableId(rule.table);
            let route = self.routes.find_in(table, flow.destination, &accept)?;
            let length = u32::from(route.destination.length());
            // All interfaces are of group 0.
            let is_suppressed = rule.suppress_prefix.is_some_and(|most| length <= most)
                || rule.suppress_group == Some(0) && route.kind.has_interface();
            (route.kind != RouteKind::Throw && !is_suppressed).then_some((table, route))
        })
    }
    /// Returns the rules that choose tables.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
    /// Returns the rules of a family as users see them.
    pub fn list_rules(&self, family: Family) -> Vec<RuleRecord> {
        self.rules.list(family, self.interfaces())
    }
    /// Adds a rule.
    ///
    /// # Errors
    /// Those of [`Rules::add`].
    pub fn add_rule(&mut self, rule: RuleRecord, mode: EntryMode) -> Result<(), RuleError> {
        let table = TableId(rule.table);
        let makes_table = rule.is_version6 && rule.action == number::RULE_LOOK_UP;
        self.rules.add(rule, mode, || self.routes.free_table())?;
        if makes_table {
            self.routes.make_table(table, Family::V6);
        }
        Ok(())
    }
    /// Removes the first rule that matches.
    ///
    /// # Errors
    /// Those of [`Rules::remove`].
    pub fn remove_rule(&mut self, wanted: &RuleRecord) -> Result<(), RuleError> {
        self.rules.remove(wanted)
    }
    /// Returns the time at which the next address becomes deprecated or ends, or a route ends, in nanoseconds.
    fn earliest_ns(&self) -> u64 {
        let addresses = self.interfaces().flat_map(|one| &one.addresses).flat_map(|one| {
            let is_preferred = !one.flags.contains(AddressFlags::DEPRECATED);
            [one.valid_until_ns, one.preferred_until_ns.filter(|_| is_preferred)]
        });
        let routes = self.routes.iter().map(|(_, route)| route.expires_ns);
        addresses.chain(routes).flatten().min().unwrap_or(u64::MAX)
    }
    /// Returns the fate of a packet to `destination` by the local table: for this host, to all stations, or `None`.
    pub fn local_kind(&self, destination: IpAddr) -> Option<RouteKind> {
        self.local(destination).map(|route| route.kind)
    }
    /// Returns the route to `destination` in the local table.
    pub fn local(&self, destination: IpAddr) -> Option<&Route> {
        self.routes.find_in(TableId::LOCAL, destination, |_| true)
    }
}

/// Returns whether an interface has a route while it is down: its addresses of IPv4 stay this host's.
fn stays(route: &Route) -> bool {
    route.kind == RouteKind::Local && route.destination.address().is_ipv4()
}

/// Returns the routes that an address of an interface brings (`fib_add_ifaddr` of Linux).
fn routes_of(
    interface: &Interface,
    address: &InterfaceAddress,
) -> impl Iterator<Item = (TableId, Route)> {
    let network = address.network();
    let is_primary = |one: &&InterfaceAddress| {
        !one.flags.contains(AddressFlags::SECONDARY) && one.network() == network
    };
    // The primary address of a network speaks for all of its addresses.
    let is_secondary = address.flags.contains(AddressFlags::SECONDARY);
    let primary = interface.addresses.iter().filter(|_| is_secondary).find(is_primary);
    let source = primary.unwrap_or(address).address;
    let index = interface.index;
    let with = move |kind, destination| Route {
        kind,
        protocol: maker::KERNEL,
        preferred_source: source.is_ipv4().then_some(source),
        ..Route::on_link(destination, index)
    };
    let own = Prefix::host(address.address);
    let local = address.is_usable().then(|| (TableId::LOCAL, with(RouteKind::Local, own)));
    // The last address of a network is for all, whatever else is.
    let of_network = network.broadcast();
    let [first, second] = [of_network, address.broadcast.filter(|all| of_network != Some(*all))]
        .map(|all| all.filter(|_| address.address.is_ipv4()))
        .map(|all| all.map(|all| with(RouteKind::Broadcast, Prefix::host(all.into()))));
    let [first, second] = [first, second].map(|route| route.map(|route| (TableId::LOCAL, route)));
    let has_network = !address.flags.contains(AddressFlags::NOPREFIXROUTE) && network != own;
    // All IPv4 addresses of a network on loopback are this host's, not only those that it was given.
    let (table, kind) = match address.address {
        IpAddr::V4(_) if interface.is_loopback() => (TableId::LOCAL, RouteKind::Local),
        _ => (TableId::MAIN, RouteKind::Unicast),
    };
    let default = if address.address.is_ipv6() { METRIC6 } else { 0 };
    let metric = if address.metric == 0 { default } else { address.metric };
    let near = has_network.then(|| (table, Route { metric, ..with(kind, network) }));
    [local, near, first, second].into_iter().flatten()
}

/// An observer of changes. It is called without a lock, on the thread that made the change.
pub trait ConfigurationWatcher: Send + Sync {
    /// Hears that `new` has taken the place of `old`.
    fn configured(&self, old: &Configuration, new: &Configuration);
}

/// The place of the newest snapshot.
pub struct Publisher {
    watchers: RwLock<Vec<Arc<dyn ConfigurationWatcher>>>,
    newest: RwLock<Arc<Configuration>>,
    version: AtomicU64,
    /// The time at which the first address or route of the newest snapshot ends, in nanoseconds.
    earliest_ns: AtomicU64,
}

/// A thread's snapshot.
#[derive(Clone, Debug)]
pub struct View {
    /// The snapshot.
    pub configuration: Arc<Configuration>,
    version: u64,
}

impl View {
    /// Returns the number of the snapshot. Each change has a greater one.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl Publisher {
    /// Publishes the first snapshot: the loopback interface with its addresses.
    pub fn new() -> Publisher {
        let mut first = Configuration::default();
        let mut loopback = Interface::loopback();
        let addresses = [(Ipv4Addr::LOCALHOST.into(), 8), (Ipv6Addr::LOCALHOST.into(), 128)];
        loopback.addresses = addresses
            .into_iter()
            .filter_map(|(address, length)| InterfaceAddress::new(address, length))
            .collect();
        // The configuration is empty, so nothing exists that could be in the way.
        let _ = first.add_interface(loopback);
        Publisher {
            watchers: RwLock::new(&WATCHERS, Vec::new()),
            earliest_ns: AtomicU64::new(first.earliest_ns()),
            newest: RwLock::new(&CONFIGURATION, Arc::new(first)),
            version: AtomicU64::new(1),
        }
    }
    /// Returns the newest snapshot.
    pub fn view(&self) -> View {
        let newest = self.newest.read();
        View { configuration: Arc::clone(&newest), version: self.version.load(Ordering::Acquire) }
    }
    /// Returns the number of the newest snapshot. Takes no lock.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    /// Returns whether `view` is the newest. Takes no lock.
    pub fn is_newest(&self, view: &View) -> bool {
        self.version.load(Ordering::Acquire) == view.version
    }
    /// Returns the time at which the first address or route ends, in nanoseconds. Takes no lock.
    #[inline]
    pub fn earliest_ns(&self) -> u64 {
        self.earliest_ns.load(Ordering::SeqCst)
    }
    /// Brings `view` up to date.
    pub fn refresh(&self, view: &mut View) {
        if !self.is_newest(view) {
            *view = self.view();
        }
    }
    /// Adds an observer of changes, for good.
    pub fn watch(&self, watcher: Arc<dyn ConfigurationWatcher>) {
        self.watchers.write().push(watcher);
    }
    /// Publishes a snapshot that `change` makes of the newest.
    ///
    /// # Errors
    /// Those of `change`. Nothing is published then.
    pub fn change<T, E>(
        &self,
        change: impl FnOnce(&mut Configuration) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut newest = self.newest.write();
        let mut next = Configuration::clone(&newest);
        let result = change(&mut next)?;
        let next = Arc::new(next);
        self.earliest_ns.store(next.earliest_ns(), Ordering::SeqCst);
        let old = core::mem::replace(&mut *newest, Arc::clone(&next));
        self.version.fetch_add(1, Ordering::Release);
        drop(newest);
        let watchers = self.watchers.read().clone();
        watchers.iter().for_each(|watcher| watcher.configured(&old, &next));
        Ok(result)
    }
}

impl Default for Publisher {
    fn default() -> Publisher {
        Publisher::new()
    }
}

/// Returns whether an interface can have neighbours of its own.
pub fn resolves(interface: &Interface) -> bool {
    !interface.flags.intersects(InterfaceFlags::LOOPBACK | InterfaceFlags::NOARP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: InterfaceIndex = InterfaceIndex(2);

    fn with_card() -> Configuration {
        let mut all = Configuration::default();
        let mut card = Interface::ethernet(CARD, "eth0", [2; 6], 1500);
        card.flags |= InterfaceFlags::UP;
        all.add_interface(card).unwrap();
        all
    }

    fn address(text: &str, length: u8) -> InterfaceAddress {
        InterfaceAddress::new(text.parse().unwrap(), length).unwrap()
    }

    #[test]
    fn an_address_brings_its_routes_and_takes_them_away() {
        let mut all = with_card();
        all.add_address(CARD, address("10.0.0.2", 24)).unwrap();
        all.add_address(CARD, address("10.0.0.3", 24)).unwrap();
        let kind = |all: &Configuration, text: &str| {
            all.route(text.parse().unwrap(), None, 0).map(|route| route.kind)
        };
        assert_eq!(kind(&all, "10.0.0.2"), Some(RouteKind::Local));
        assert_eq!(kind(&all, "10.0.0.255"), Some(RouteKind::Broadcast));
        assert_eq!(kind(&all, "10.0.0.9"), Some(RouteKind::Unicast));
        assert_eq!(kind(&all, "10.0.1.9"), None);
        all.remove_address(CARD, "10.0.0.2".parse().unwrap()).unwrap();
        assert_eq!(kind(&all, "10.0.0.2"), Some(RouteKind::Unicast));
        let route = all.route("10.0.0.9".parse().unwrap(), None, 0).unwrap();
        assert_eq!(route.preferred_source, Some("10.0.0.3".parse().unwrap()));
        all.remove_address(CARD, "10.0.0.3".parse().unwrap()).unwrap();
        assert_eq!(all.routes.iter().count(), 0);
    }

    #[test]
    fn an_interface_without_addresses_of_ipv4_has_no_such_routes() {
        let mut all = with_card();
        let route = |to: &str, kind| Route {
            kind,
            ..Route::on_link(Prefix::new(to.parse().unwrap(), 16).unwrap(), CARD)
        };
        all.add_address(CARD, address("10.0.0.2", 24)).unwrap();
        all.add_address(CARD, address("10.1.0.2", 24)).unwrap();
        for (to, kind) in [
            ("10.7.0.0", RouteKind::Unicast),
            ("10.8.0.0", RouteKind::Blackhole),
            ("fd00::", RouteKind::Unicast),
            ("fd01::", RouteKind::Unreachable),
        ] {
            all.routes.add(TableId::MAIN, route(to, kind)).unwrap();
        }
        let left = |all: &Configuration| {
            let own = all.routes.iter().map(|(_, route)| route.destination.address().to_string());
            own.collect::<Vec<_>>()
        };
        all.remove_address(CARD, "10.0.0.2".parse().unwrap()).unwrap();
        assert!(left(&all).contains(&"10.7.0.0".to_owned()));
        all.remove_address(CARD, "10.1.0.2".parse().unwrap()).unwrap();
        assert_eq!(left(&all), ["10.8.0.0", "fd00::", "fd01::"]);
        // A refusal of IPv4 has no interface.
        all.drop_routes(CARD);
        assert_eq!(left(&all), ["10.8.0.0"]);
    }

    #[test]
    fn addresses_of_an_interface_that_is_down_bring_no_routes_but_their_own() {
        let mut all = Configuration::default();
        all.add_interface(Interface::ethernet(CARD, "eth0", [2; 6], 1500)).unwrap();
        for (text, length) in [("10.0.0.2", 24), ("10.0.0.3", 24), ("fd00::2", 64)] {
            all.add_address(CARD, address(text, length)).unwrap();
        }
        let own = |all: &Configuration| {
            let own = all.routes.iter().map(|(_, route)| route.destination.address().to_string());
            own.collect::<Vec<_>>()
        };
        assert_eq!(own(&all), ["10.0.0.2", "10.0.0.3"]);
        let set = |one: &mut InterfaceAddress| one.metric = 7;
        all.edit_address(CARD, "10.0.0.2".parse().unwrap(), set).unwrap();
        assert_eq!(own(&all), ["10.0.0.2", "10.0.0.3"]);
        all.remove_address(CARD, "10.0.0.3".parse().unwrap()).unwrap();
        assert_eq!(own(&all), ["10.0.0.2"]);
        all.edit_interface(CARD, |card| card.flags |= InterfaceFlags::UP).unwrap();
        all.bring_routes(CARD);
        let far = all.route("10.0.0.9".parse().unwrap(), None, 0);
        assert_eq!(far.map(|route| route.metric), Some(7));
        all.drop_routes(CARD);
        assert_eq!(own(&all), ["10.0.0.2"]);
    }

    #[test]
    fn routes_through_an_interface_that_is_down_are_passed_over() {
        let mut all = with_card();
        all.add_address(CARD, address("10.0.0.2", 24)).unwrap();
        all.edit_interface(CARD, |card| card.flags.remove(InterfaceFlags::UP)).unwrap();
        assert!(all.route("10.0.0.9".parse().unwrap(), None, 0).is_none());
        assert!(all.route("10.0.0.2".parse().unwrap(), None, 0).is_some());
    }

    #[test]
    fn a_view_is_brought_up_to_date() {
        let publisher = Publisher::new();
        let mut view = publisher.view();
        assert!(view.configuration.owner("127.0.0.1".parse().unwrap()).is_some());
        assert_eq!(
            view.configuration.local_kind("127.9.9.9".parse().unwrap()),
            Some(RouteKind::Local)
        );
        publisher
            .change(|all| all.add_interface(Interface::ethernet(CARD, "eth0", [2; 6], 1500)))
            .unwrap();
        assert!(!publisher.is_newest(&view));
        assert!(view.configuration.interface(CARD).is_none());
        publisher.refresh(&mut view);
        assert!(view.configuration.interface(CARD).is_some());
        let before = view.version();
        assert!(publisher.change(|_| Err::<(), ()>(())).is_err());
        publisher.refresh(&mut view);
        assert_eq!(view.version(), before);
    }
}
