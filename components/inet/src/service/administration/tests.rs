//! Changes and what observers hear of them, by way of bytes as between worlds.
use super::*;
use crate::{
    service::inet::{Inet, RealTime},
    tables::interface::{Interface, InterfaceFlags, InterfaceIndex},
};
use interfaces::sockets::{
    AddressSelector, EntryMode, LinkChange, NetworkNotice, RouteMetrics, number,
    remote::{
        DirectChannel, Subjects,
        administration::{AdministrationService, RemoteAdministration},
    },
};
use std::{
    net::IpAddr,
    sync::{Mutex, OnceLock, Weak},
};

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl AdministrationObserver for Heard {
    fn changed(&self, notice: &NetworkNotice) {
        let text = match notice {
            NetworkNotice::Link(link, _) => format!("link {} {:x}", link.name, link.flags),
            NetworkNotice::LinkGone(link) => format!("no link {}", link.name),
            NetworkNotice::Address(one) => format!("address {}", one.address),
            NetworkNotice::AddressGone(one) => format!("no address {}", one.address),
            NetworkNotice::Route(one) | NetworkNotice::RouteReplaced(one) => {
                format!("route {}/{} {}", one.destination, one.prefix_length, one.table)
            }
            NetworkNotice::RouteGone(one) => {
                format!("no route {}/{} {}", one.destination, one.prefix_length, one.table)
            }
            NetworkNotice::Neighbour(one) => format!("neighbour {} {:x}", one.address, one.state),
            NetworkNotice::NeighbourGone(one) => format!("no neighbour {}", one.address),
            NetworkNotice::Rule(one) => format!("rule {:?}", one.priority),
            NetworkNotice::RuleGone(one) => format!("no rule {:?}", one.priority),
        };
        self.0.lock().unwrap().push(text);
    }
    fn missed(&self) {
        self.0.lock().unwrap().push(String::from("missed"));
    }
}

/// Returns an administration whose calls and notices go as bytes to another one and back.
fn remote(administration: Arc<dyn NetworkAdministration>) -> Arc<dyn NetworkAdministration> {
    let client = Arc::new(OnceLock::<Weak<RemoteAdministration>>::new());
    let hears = client.clone();
    let post = move |bytes: &[u8]| {
        if let Some(client) = hears.get().and_then(Weak::upgrade) {
            client.heard(bytes).unwrap();
        }
    };
    let service = AdministrationService::new(administration, Arc::new(post));
    let channel = DirectChannel(Arc::new(Subjects(vec![Arc::new(service)])));
    let remote = Arc::new(RemoteAdministration::new(Arc::new(channel)));
    client.set(Arc::downgrade(&remote)).unwrap();
    remote
}

struct Bench {
    inet: Arc<Inet>,
    all: Arc<dyn NetworkAdministration>,
    heard: Arc<Heard>,
}

impl Bench {
    fn new() -> Bench {
        let inet = Inet::new([7; 32], Arc::new(RealTime));
        let mut card = Interface::ethernet(InterfaceIndex(2), "eth0", [2, 0, 0, 0, 0, 1], 1500);
        card.flags |= InterfaceFlags::RUNNING;
        inet.stack().configure(|all| all.add_interface(card)).unwrap();
        let all = remote(interfaces::sockets::Network::administration(&*inet));
        let heard = Arc::new(Heard::default());
        all.observe(heard.clone());
        Bench { inet, all, heard }
    }
    fn up(&self, value: u32) {
        let flags = Some((value, 1));
        let change = LinkChange { index: 2, flags, ..LinkChange::default() };
        self.all.change(&NetworkChange::Link(change)).unwrap();
    }
    fn heard(&self) -> Vec<String> {
        core::mem::take(&mut *self.heard.0.lock().unwrap())
    }
    fn add(&self, address: &str, prefix_length: u8) -> Result<(), AdministrationError> {
        self.all.change(&NetworkChange::Address(entry(address, prefix_length), EntryMode::Create))
    }
    fn route(&self, record: RouteRecord, mode: EntryMode) -> Result<(), AdministrationError> {
        self.all.change(&NetworkChange::Route(record, mode))
    }
    fn main_routes(&self) -> Vec<String> {
        let all = self.all.routes().into_iter();
        let all = all.filter(|one| one.table == 254 && one.destination.is_ipv4());
        all.map(|one| format!("{}/{} {:?}", one.destination, one.prefix_length, one.gateway))
            .collect()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn entry(address: &str, prefix_length: u8) -> AddressRecord {
    AddressRecord {
        interface: 2,
        address: ip(address),
        peer: None,
        prefix_length,
        scope: 0,
        flags: 0,
        broadcast: None,
        label: String::new(),
        metric: 0,
        preferred_s: None,
        valid_s: None,
        created_cs: 0,
        updated_cs: 0,
    }
}

fn through(gateway: &str) -> RouteRecord {
    RouteRecord {
        table: 254,
        destination: ip("0.0.0.0"),
        prefix_length: 0,
        kind: number::KIND_UNICAST,
        scope: 0,
        protocol: number::PROTOCOL_BOOT,
        interface: None,
        gateway: Some(ip(gateway)),
        preferred_source: None,
        metric: 0,
        metrics: RouteMetrics::default(),
        is_on_link: false,
        ways: Vec::new(),
        expires_s: None,
    }
}

#[test]
fn an_interface_that_is_down_has_addresses_but_no_routes() {
    let bench = Bench::new();
    bench.add("10.0.2.15", 24).unwrap();
    assert!(bench.main_routes().is_empty());
    let gateway = bench.route(through("10.0.2.2"), EntryMode::Create);
    assert_eq!(gateway, Err(AdministrationError::GatewayUnreachable));
    bench.heard();
    bench.up(1);
    let heard = bench.heard();
    assert!(heard.contains(&"link eth0 11043".to_owned()), "{heard:?}");
    assert!(heard.contains(&"route 10.0.2.0/24 254".to_owned()), "{heard:?}");
    assert!(heard.iter().any(|text| text.starts_with("address fe80::")), "{heard:?}");
    bench.route(through("10.0.2.2"), EntryMode::Create).unwrap();
    bench.up(0);
    assert!(bench.main_routes().is_empty());
    let all = bench.all.addresses();
    assert!(!all.iter().any(|one| one.interface == 2 && one.address.is_ipv6()));
    assert!(bench.all.addresses().iter().any(|one| one.address == ip("10.0.2.15")));
}

#[test]
fn an_address_and_its_routes_are_told_in_the_order_of_linux() {
    let bench = Bench::new();
    bench.up(1);
    bench.heard();
    let add = |record| bench.all.change(&NetworkChange::Address(record, EntryMode::Create));
    let broadcast = Some("10.0.2.255".parse().unwrap());
    add(AddressRecord { broadcast, ..entry("10.0.2.15", 24) }).unwrap();
    let [own, network, broadcast] = ["10.0.2.15/32 255", "10.0.2.0/24 254", "10.0.2.255/32 255"]
        .map(|it| format!("route {it}"));
    let told = ["address 10.0.2.15", &own, &network, &broadcast];
    assert_eq!(bench.heard(), told);
    bench.route(through("10.0.2.2"), EntryMode::Create).unwrap();
    bench.heard();
    let remove = |address: &str| {
        NetworkChange::RemoveAddress(AddressSelector {
            interface: 2,
            address: Some(ip(address)),
            label: None,
            prefix_length: None,
        })
    };
    bench.all.change(&remove("10.0.2.15")).unwrap();
    let heard = bench.heard();
    let [own, network, broadcast] = [own, network, broadcast].map(|it| format!("no {it}"));
    assert_eq!(heard[..3], ["no address 10.0.2.15".to_owned(), network, broadcast]);
    assert!(heard.contains(&own), "{heard:?}");
    // IFA_F_NODAD.
    add(AddressRecord { flags: 2, ..entry("fd00::5", 64) }).unwrap();
    let told = ["route fd00::/64 254", "address fd00::5", "route fd00::5/128 255"];
    assert_eq!(bench.heard(), told);
    bench.all.change(&remove("fd00::5")).unwrap();
    let told = ["no address fd00::5", "no route fd00::5/128 255", "no route fd00::/64 254"];
    assert_eq!(bench.heard(), told);
}

#[test]
fn a_group_of_a_link_is_fixed_until_it_is_removed() {
    let bench = Bench::new();
    let address = [1, 0, 0x5e, 0, 0, 9];
    let groups = || bench.all.links().into_iter().find(|one| one.index == 2).unwrap().groups;
    let add = |interface| bench.all.change(&NetworkChange::LinkGroup { interface, address });
    let remove =
        |interface| bench.all.change(&NetworkChange::RemoveLinkGroup { interface, address });
    assert_eq!(
        (add(7), remove(7)),
        (Err(AdministrationError::NoDevice), Err(AdministrationError::NoDevice))
    );
    assert_eq!(remove(2), Err(AdministrationError::NoEntry));
    assert_eq!((add(2), add(2)), (Ok(()), Ok(())));
    let [one] = groups()[..] else { panic!("{:?}", groups()) };
    assert_eq!((one.address, one.users, one.is_fixed), (address, 1, true));
    assert_eq!(remove(2), Ok(()));
    assert!(groups().is_empty());
}

#[test]
fn routes_obey_the_modes_of_linux() {
    let bench = Bench::new();
    bench.up(1);
    bench.add("10.0.2.15", 24).unwrap();
    bench.route(through("10.0.2.2"), EntryMode::Create).unwrap();
    let again = bench.route(through("10.0.2.3"), EntryMode::Create);
    assert_eq!(again, Err(AdministrationError::Exists));
    bench.route(through("10.0.2.3"), EntryMode::Replace).unwrap();
    assert_eq!(bench.main_routes()[0], "0.0.0.0/0 Some(10.0.2.3)");
    bench.route(through("10.0.2.4"), EntryMode::Prepend).unwrap();
    bench.route(through("10.0.2.5"), EntryMode::Append).unwrap();
    let order = ["10.0.2.4", "10.0.2.3", "10.0.2.5"].map(|it| format!("0.0.0.0/0 Some({it})"));
    assert_eq!(bench.main_routes()[..3], order);
    let change = bench.route(RouteRecord { metric: 9, ..through("10.0.2.4") }, EntryMode::Change);
    assert_eq!(change, Err(AdministrationError::NoEntry));
    let own = bench.route(RouteRecord { metric: 9, ..through("10.0.2.15") }, EntryMode::Create);
    assert_eq!(own, Err(AdministrationError::GatewayInvalid));
    let any =
        RouteRecord { scope: number::SCOPE_NOWHERE, kind: 0, protocol: 0, ..through("10.0.2.3") };
    bench.all.change(&NetworkChange::RemoveRoute(any.clone())).unwrap();
    let gone = bench.all.change(&NetworkChange::RemoveRoute(any));
    assert_eq!(gone, Err(AdministrationError::NoRoute));
    let query = RouteQuery::new(ip("8.8.8.8"));
    let found = bench.all.route_to(&query).unwrap();
    assert_eq!((found.gateway, found.interface), (Some(ip("10.0.2.4")), Some(2)));
    assert_eq!(found.preferred_source, Some(ip("10.0.2.15")));
    let local = RouteQuery { destination: ip("10.0.2.15"), ..query };
    let found = bench.all.route_to(&local).unwrap();
    assert_eq!((found.table, found.kind, found.interface), (254, 2, Some(1)));
    let foreign = RouteQuery { source: Some(ip("1.2.3.4")), ..query };
    assert_eq!(bench.all.route_to(&foreign), Err(AdministrationError::Invalid));
}

#[test]
fn secondaries_go_with_their_primary() {
    let bench = Bench::new();
    bench.up(1);
    for address in ["10.0.2.15", "10.0.2.16", "10.9.0.1"] {
        bench.add(address, 24).unwrap();
    }
    assert_eq!(bench.add("10.0.2.15", 24), Err(AdministrationError::Exists));
    bench.heard();
    let selector = AddressSelector {
        interface: 2,
        address: Some(ip("10.0.2.15")),
        label: None,
        prefix_length: Some(24),
    };
    let remove = NetworkChange::RemoveAddress(selector);
    bench.all.change(&remove).unwrap();
    assert_eq!(bench.all.change(&remove), Err(AdministrationError::NoAddress));
    let heard = bench.heard();
    let gone: Vec<&String> = heard.iter().filter(|text| text.starts_with("no address")).collect();
    assert_eq!(gone, ["no address 10.0.2.16", "no address 10.0.2.15"]);
    assert_eq!(bench.main_routes(), ["10.9.0.0/24 None"]);
}

#[test]
fn properties_of_links_change_with_the_errors_of_linux() {
    let bench = Bench::new();
    let change = |change: LinkChange| bench.all.change(&NetworkChange::Link(change));
    let base = LinkChange { index: 2, ..LinkChange::default() };
    change(LinkChange { name: Some("wan".into()), mtu: Some(1400), ..base.clone() }).unwrap();
    let links = bench.all.links();
    assert_eq!((links[1].name.as_str(), links[1].mtu), ("wan", 1400));
    let taken = change(LinkChange { name: Some("lo".into()), ..base.clone() });
    assert_eq!(taken, Err(AdministrationError::Exists));
    let small = change(LinkChange { mtu: Some(60), ..base.clone() });
    assert_eq!(small, Err(AdministrationError::MtuSmall));
    change(LinkChange { alias: Some("home".into()), ..base.clone() }).unwrap();
    assert_eq!(bench.all.links()[1].alias, "home");
    let mac = change(LinkChange { mac: Some([1, 0, 0, 0, 0, 0]), ..base.clone() });
    assert_eq!(mac, Err(AdministrationError::NoAddress));
    bench.up(1);
    let busy = change(LinkChange { name: Some("eth1".into()), ..base.clone() });
    assert_eq!(busy, Err(AdministrationError::Busy));
    let missing = change(LinkChange { index: 9, ..base });
    assert_eq!(missing, Err(AdministrationError::NoDevice));
}

#[test]
fn neighbours_are_set_and_forgotten() {
    let bench = Bench::new();
    bench.up(1);
    bench.add("10.0.2.15", 24).unwrap();
    let record = NeighbourRecord {
        interface: 2,
        address: ip("10.0.2.2"),
        mac: Some([2, 0, 0, 0, 0, 9]),
        state: number::NEIGHBOUR_PERMANENT,
        is_router: false,
        used_ms: 0,
        confirmed_ms: 0,
        updated_ms: 0,
        probes: 0,
    };
    bench.heard();
    bench.all.change(&NetworkChange::Neighbour(record, EntryMode::Create)).unwrap();
    let again = bench.all.change(&NetworkChange::Neighbour(record, EntryMode::Create));
    assert_eq!(again, Err(AdministrationError::Exists));
    let stale = NeighbourRecord { state: number::NEIGHBOUR_STALE, ..record };
    bench.all.change(&NetworkChange::Neighbour(stale, EntryMode::Replace)).unwrap();
    assert_eq!(bench.all.neighbours()[0].state, number::NEIGHBOUR_STALE);
    let remove = NetworkChange::RemoveNeighbour { interface: 2, address: ip("10.0.2.2") };
    bench.all.change(&remove).unwrap();
    assert_eq!(bench.all.change(&remove), Err(AdministrationError::NoEntry));
    assert_eq!(
        bench.heard(),
        [
            "neighbour 10.0.2.2 80",
            "neighbour 10.0.2.2 4",
            "neighbour 10.0.2.2 20",
            "no neighbour 10.0.2.2"
        ]
    );
}

#[test]
fn the_loopback_interface_gets_its_addresses_when_it_comes_up() {
    let bench = Bench::new();
    let flags = |value| LinkChange { index: 1, flags: Some((value, 1)), ..LinkChange::default() };
    bench.all.change(&NetworkChange::Link(flags(0))).unwrap();
    let of_loopback = |bench: &Bench| {
        let all = bench.all.addresses().into_iter().filter(|one| one.interface == 1);
        all.map(|one| one.address.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(of_loopback(&bench), ["127.0.0.1"]);
    bench.all.change(&NetworkChange::Link(flags(1))).unwrap();
    assert_eq!(of_loopback(&bench), ["127.0.0.1", "::1"]);
    let query = RouteQuery::new(ip("::1"));
    assert_eq!(bench.all.route_to(&query).unwrap().interface, Some(1));
}

#[test]
fn rules_choose_the_table_of_a_packet() {
    let bench = Bench::new();
    bench.add("10.0.2.15", 24).unwrap();
    bench.up(1);
    let way = RouteRecord { table: 100, ..through("10.0.2.2") };
    bench.route(way.clone(), EntryMode::Create).unwrap();
    let query = RouteQuery { mark: 7, ..RouteQuery::new(ip("8.8.8.8")) };
    let unreachable = Err(AdministrationError::NetworkUnreachable);
    assert_eq!(bench.all.route_to(&query), unreachable);
    bench.heard();
    let rule =
        RuleRecord { mark: 7, mark_mask: 0xff, protocol: 3, ..RuleRecord::of_table(50, 100) };
    let add = NetworkChange::Rule(rule.clone(), EntryMode::Create);
    bench.all.change(&add).unwrap();
    assert_eq!(bench.heard(), ["rule Some(50)"]);
    assert_eq!(bench.all.change(&add), Err(AdministrationError::Exists));
    let found = bench.all.route_to(&query).unwrap();
    assert_eq!((found.table, found.gateway), (100, Some(ip("10.0.2.2"))));
    let other = RouteQuery { mark: 8, ..query };
    assert_eq!(bench.all.route_to(&other), unreachable);
    let local = bench.all.route_to(&RouteQuery::new(ip("10.0.2.15"))).unwrap();
    assert_eq!(local.table, 255, "the tables are parted now");
    bench.all.change(&NetworkChange::RemoveRoute(way)).unwrap();
    assert!(bench.all.tables().contains(&TableRecord { is_version6: false, number: 100 }));
    bench.all.change(&NetworkChange::RemoveRule(rule.clone())).unwrap();
    let again = bench.all.change(&NetworkChange::RemoveRule(rule));
    assert_eq!(again, Err(AdministrationError::NoEntry));
    assert_eq!(bench.all.rules().len(), 5);
}

#[test]
fn metrics_of_a_route_shape_its_path() {
    let bench = Bench::new();
    bench.add("10.0.2.15", 24).unwrap();
    bench.up(1);
    let mut metrics = RouteMetrics::default();
    metrics.set(RouteMetrics::MTU, 1300);
    metrics.set(RouteMetrics::HOP_LIMIT, 9);
    metrics.set(RouteMetrics::ADVERTISED_SEGMENT, 1000);
    bench.route(RouteRecord { metrics, ..through("10.0.2.2") }, EntryMode::Create).unwrap();
    let told = bench.all.route_to(&RouteQuery::new(ip("8.8.8.8"))).unwrap();
    assert_eq!(told.metrics, metrics);
    let path = bench.inet.run(|stack, run| {
        stack.path(run, &crate::ip::path::SendRequest::new(ip("8.8.8.8"), 6)).unwrap()
    });
    assert_eq!((path.mtu, path.hop_limit, path.advertised_segment), (1300, 9, 1000));
}
