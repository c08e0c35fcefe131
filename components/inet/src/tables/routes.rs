//! The routing tables: the longest prefix wins, then the smallest metric.
use super::interface::InterfaceIndex;
use crate::base::address::{Family, Prefix, bits, mask};
use alloc::{collections::BTreeMap, vec::Vec};
use core::net::IpAddr;
use interfaces::{marshal::Marshal, sockets::RouteMetrics};

/// The number of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Marshal)]
pub struct TableId(pub u32);

impl TableId {
    /// Routes that users make.
    pub const MAIN: TableId = TableId(254);
    /// Addresses of the host itself, looked at first.
    pub const LOCAL: TableId = TableId(255);
    /// Routes of last resort, of IPv4 alone.
    pub const DEFAULT: TableId = TableId(253);
}

/// The fate of packets that a route matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum RouteKind {
    /// They go to a gateway or a neighbour.
    Unicast,
    /// They are for this host.
    Local,
    /// They go to all stations of the link, and to this host.
    Broadcast,
    /// They are dropped in silence.
    Blackhole,
    /// Their sender is told that the host is unreachable.
    Unreachable,
    /// Their sender is told that they are forbidden.
    Prohibit,
    /// The table has no route for them; the next one is asked.
    Throw,
}

impl RouteKind {
    /// Returns whether packets go to an interface.
    pub fn has_interface(self) -> bool {
        matches!(self, RouteKind::Unicast | RouteKind::Local | RouteKind::Broadcast)
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct Route {
    /// The destinations.
    pub destination: Prefix,
    /// The fate.
    pub kind: RouteKind,
    /// The interface; of a local address, the one that has it.
    pub interface: InterfaceIndex,
    /// The next hop; none if destinations are neighbours.
    pub gateway: Option<IpAddr>,
    /// The source of packets that have none.
    pub preferred_source: Option<IpAddr>,
    /// Smaller ones win.
    pub metric: u32,
    /// The party that made the route (`RTPROT_*`).
    pub protocol: u8,
    /// Other metrics.
    pub metrics: RouteMetrics,
    /// The time at which the route ends, in nanoseconds.
    pub expires_ns: Option<u64>,
    /// The scope that a user gave it (`RT_SCOPE_*`); else it follows from the rest.
    pub scope: Option<u8>,
    /// A user said that the gateway is a neighbour.
    pub is_on_link: bool,
    /// The ways of a route of several: interface, gateway and the field before are those of the first. Empty for one way.
    pub ways: Vec<RouteWay>,
}

/// One of several ways of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct RouteWay {
    /// The interface.
    pub interface: InterfaceIndex,
    /// The next hop; none if destinations are neighbours.
    pub gateway: Option<IpAddr>,
    /// A user said that the gateway is a neighbour.
    pub is_on_link: bool,
    /// Its share of the destinations, from 1 to 256.
    pub weight: u16,
}

/// Parties that make routes.
pub mod maker {
    /// The stack.
    pub const KERNEL: u8 = 2;
    /// The system's start.
    pub const BOOT: u8 = 3;
    /// A router's advertisement.
    pub const ADVERTISEMENT: u8 = 9;
}

impl Route {
    /// Returns a route to `destination` on the link of `interface`.
    pub fn on_link(destination: Prefix, interface: InterfaceIndex) -> Route {
        Route {
            destination,
            kind: RouteKind::Unicast,
            interface,
            gateway: None,
            preferred_source: None,
            metric: 0,
            protocol: maker::BOOT,
            metrics: RouteMetrics::default(),
            expires_ns: None,
            scope: None,
            is_on_link: false,
            ways: Vec::new(),
        }
    }
    /// Returns a route to `destination` through `gateway`.
    pub fn through(gateway: IpAddr, destination: Prefix, interface: InterfaceIndex) -> Route {
        Route { gateway: Some(gateway), ..Route::on_link(destination, interface) }
    }
    /// Returns the interface and the next hop of a packet whose destination has this hash: of several ways that `is_open` accepts,
    /// each gets its share of the hashes. `None` without such a way.
    pub fn way(
        &self,
        hash: impl FnOnce() -> u64,
        is_open: impl Fn(InterfaceIndex) -> bool,
    ) -> Option<(InterfaceIndex, Option<IpAddr>)> {
        if self.ways.is_empty() {
            return is_open(self.interface).then_some((self.interface, self.gateway));
        }
        let open = || self.ways.iter().filter(|way| is_open(way.interface));
        let total: u64 = open().map(|way| u64::from(way.weight)).sum();
        let mut place = hash().checked_rem(total)?;
        let found = open().find(|way| {
            let is_it = place < u64::from(way.weight);
            place = place.saturating_sub(way.weight.into());
            is_it
        });
        found.map(|way| (way.interface, way.gateway))
    }
    /// Returns whether a way of the route leads through an interface.
    pub fn leads_through(&self, interface: InterfaceIndex) -> bool {
        self.interface == interface || self.ways.iter().any(|way| way.interface == interface)
    }
    /// Returns whether the route belongs to an interface. One of IPv4 that leads nowhere has none; of IPv6, it is loopback's.
    pub fn is_of(&self, interface: InterfaceIndex) -> bool {
        let has_interface = self.kind.has_interface() || self.destination.address().is_ipv6();
        has_interface && self.interface == interface
    }
}

/// The error of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The table has this route.
    Exists,
    /// The table has no such route.
    Missing,
    /// Gateway and destination are of different families.
    Invalid,
}

/// Routes of one family, by the length of their prefixes, then by their first bits, by metric.
type Lengths = BTreeMap<u8, BTreeMap<u128, Vec<Route>>>;

/// The routing tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    tables: BTreeMap<(TableId, Family), Lengths>,
}

impl Routes {
    /// Adds a route behind others of its metric.
    ///
    /// # Errors
    /// [`RouteError::Exists`] if one with this destination, metric, interface and gateway is there; [`RouteError::Invalid`].
    pub fn add(&mut self, table: TableId, route: Route) -> Result<(), RouteError> {
        let family = Family::of(route.destination.address());
        if route.gateway.is_some_and(|gateway| Family::of(gateway) != family) {
            return Err(RouteError::Invalid);
        }
        let lengths = self.tables.entry((table, family)).or_default();
        let heads = lengths.entry(route.destination.length()).or_default();
        let list = heads.entry(bits(route.destination.address())).or_default();
        if list.iter().any(|other| is_same(other, &route)) {
            return Err(RouteError::Exists);
        }
        let place = list.partition_point(|other| other.metric <= route.metric);
        list.insert(place, route);
        Ok(())
    }
    /// Removes the route with the destination, metric, interface and gateway of `route`.
    ///
    /// # Errors
    /// [`RouteError::Missing`].
    pub fn remove(&mut self, table: TableId, route: &Route) -> Result<(), RouteError> {
        let family = Family::of(route.destination.address());
        let heads = self
            .tables
            .get_mut(&(table, family))
            .and_then(|lengths| lengths.get_mut(&route.destination.length()))
            .ok_or(RouteError::Missing)?;
        let list = heads.get_mut(&bits(route.destination.address())).ok_or(RouteError::Missing)?;
        let before = list.len();
        list.retain(|other| !is_same(other, route));
        if list.len() < before { Ok(()) } else { Err(RouteError::Missing) }
    }
    /// Adds a route before others of its metric.
    ///
    /// # Errors
    /// As [`Routes::add`].
    pub fn add_first(&mut self, table: TableId, route: Route) -> Result<(), RouteError> {
        let (destination, metric) = (route.destination, route.metric);
        self.add(table, route)?;
        let lengths = self.tables.get_mut(&(table, Family::of(destination.address())));
        let heads = lengths.and_then(|lengths| lengths.get_mut(&destination.length()));
        let list = heads.and_then(|heads| heads.get_mut(&bits(destination.address())));
        if let Some(list) = list {
            let first = list.partition_point(|other| other.metric < metric);
            let last = list.partition_point(|other| other.metric <= metric);
            if let Some(equals) = list.get_mut(first..last) {
                equals.rotate_right(1);
            }
        }
        Ok(())
    }
    /// Returns the routes of a table to exactly `destination`, by metric.
    pub fn to(&self, table: TableId, destination: Prefix) -> &[Route] {
        let lengths = self.tables.get(&(table, Family::of(destination.address())));
        let heads = lengths.and_then(|lengths| lengths.get(&destination.length()));
        let list = heads.and_then(|heads| heads.get(&bits(destination.address())));
        list.map_or(&[], Vec::as_slice)
    }
    /// Keeps only the routes that `keep` accepts.
    pub fn retain(&mut self, mut keep: impl FnMut(TableId, &Route) -> bool) {
        for ((table, _), lengths) in &mut self.tables {
            for heads in lengths.values_mut() {
                heads.values_mut().for_each(|list| list.retain(|route| keep(*table, route)));
                heads.retain(|_, list| !list.is_empty());
            }
            lengths.retain(|_, heads| !heads.is_empty());
        }
    }
    /// Returns the best route to `destination` that `accept` accepts, and its table: the local one, the main one, or that of defaults.
    pub fn find(
        &self,
        destination: IpAddr,
        accept: impl Fn(&Route) -> bool,
    ) -> Option<(TableId, &Route)> {
        [TableId::LOCAL, TableId::MAIN, TableId::DEFAULT].into_iter().find_map(|table| {
            let route = self.find_in(table, destination, &accept)?;
            (route.kind != RouteKind::Throw).then_some((table, route))
        })
    }
    /// Returns the tables that have or had routes, and their families.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, Family)> {
        self.tables.keys().copied()
    }
    /// Makes a table, unless it is there.
    pub fn make_table(&mut self, table: TableId, family: Family) {
        self.tables.entry((table, family)).or_default();
    }
    /// Returns the first of the tables 1 to 255 that has and had no routes of IPv4.
    pub fn free_table(&self) -> Option<TableId> {
        let is_free = |table: &TableId| !self.tables.contains_key(&(*table, Family::V4));
        (1..=u8::MAX).map(|number| TableId(number.into())).find(is_free)
    }
    /// Returns the best route of one table.
    pub fn find_in(
        &self,
        table: TableId,
        destination: IpAddr,
        accept: impl Fn(&Route) -> bool,
    ) -> Option<&Route> {
        let lengths = self.tables.get(&(table, Family::of(destination)))?;
        let all = bits(destination);
        lengths.iter().rev().find_map(|(length, heads)| {
            heads.get(&(all & mask(*length)))?.iter().find(|route| accept(route))
        })
    }
    /// Returns all routes with their tables.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, &Route)> {
        self.tables.iter().flat_map(|((table, _), lengths)| {
            let lists = lengths.values().flat_map(BTreeMap::values);
            lists.flatten().map(|route| (*table, route))
        })
    }
}

fn is_same(one: &Route, other: &Route) -> bool {
    let key = |route: &Route| (route.metric, route.interface, route.gateway, route.kind);
    one.destination == other.destination && key(one) == key(other) && one.ways == other.ways
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str, length: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), length).unwrap()
    }

    #[test]
    fn the_longest_prefix_wins_then_the_smallest_metric() {
        let (one, two) = (InterfaceIndex(2), InterfaceIndex(3));
        let mut routes = Routes::default();
        let through = |text: &str, interface| {
            Route::through(text.parse().unwrap(), Prefix::all(Family::V4), interface)
        };
        let slow = Route { metric: 100, ..through("10.0.0.1", one) };
        routes.add(TableId::MAIN, slow.clone()).unwrap();
        let fast = Route { metric: 10, ..through("10.1.0.1", two) };
        routes.add(TableId::MAIN, fast.clone()).unwrap();
        routes.add(TableId::MAIN, Route::on_link(prefix("10.0.0.0", 8), one)).unwrap();
        routes.add(TableId::MAIN, Route::on_link(prefix("10.1.0.0", 16), two)).unwrap();
        let find = |routes: &Routes, text: &str| {
            routes.find(text.parse().unwrap(), |_| true).map(|(_, route)| route.clone()).unwrap()
        };
        assert_eq!(find(&routes, "10.1.2.3").interface, two);
        assert_eq!(find(&routes, "10.2.2.3").interface, one);
        assert_eq!(find(&routes, "8.8.8.8"), fast);
        assert_eq!(routes.add(TableId::MAIN, fast.clone()), Err(RouteError::Exists));
        routes.remove(TableId::MAIN, &fast).unwrap();
        assert_eq!(routes.remove(TableId::MAIN, &fast), Err(RouteError::Missing));
        assert_eq!(find(&routes, "8.8.8.8"), slow);
        assert!(routes.find("::1".parse().unwrap(), |_| true).is_none());
        let on_two = |route: &Route| route.interface == two;
        assert!(routes.find("8.8.8.8".parse().unwrap(), on_two).is_none());
        routes.retain(|_, route| route.interface == two);
        assert_eq!(routes.iter().count(), 1);
    }

    #[test]
    fn ways_have_their_shares_of_the_destinations() {
        let (one, two) = (InterfaceIndex(2), InterfaceIndex(3));
        let way =
            |interface, weight| RouteWay { interface, gateway: None, is_on_link: false, weight };
        let ways = vec![way(one, 1), way(two, 3)];
        let route = Route { ways, ..Route::on_link(prefix("10.0.0.0", 8), one) };
        let chosen = |hash, open: &[InterfaceIndex]| {
            route.way(|| hash, |interface| open.contains(&interface)).map(|(found, _)| found)
        };
        let all = (0..8).map(|hash| chosen(hash, &[one, two]).unwrap());
        let expected = [one, two, two, two, one, two, two, two];
        assert!(all.eq(expected));
        assert_eq!(chosen(5, &[one]), Some(one));
        assert_eq!(chosen(5, &[]), None);
    }

    #[test]
    fn the_local_table_comes_first() {
        let mut routes = Routes::default();
        let address: IpAddr = "10.0.0.2".parse().unwrap();
        routes
            .add(TableId::MAIN, Route::on_link(Prefix::host(address), InterfaceIndex(2)))
            .unwrap();
        let local = Route {
            kind: RouteKind::Local,
            ..Route::on_link(prefix("10.0.0.0", 8), InterfaceIndex(2))
        };
        routes.add(TableId::LOCAL, local).unwrap();
        let (table, route) = routes.find(address, |_| true).unwrap();
        assert_eq!((table, route.kind), (TableId::LOCAL, RouteKind::Local));
    }
}
