//! An administration over a channel that loses things.
use super::*;
use crate::{
    call::{Again, Failure},
    sockets::{
        AddressRecord, AdministrationObserver, EntryMode, LinkChange, NeighbourRecord,
        NetworkAdministration, RouteRecord, TableRecord,
        remote::{ControlChannel, ControlHandler, Post, subject},
        *,
    },
};
use alloc::{borrow::Cow, format, string::String, sync::Arc, vec};
use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;
use rt::message::Error;
use std::sync::{Mutex, OnceLock};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An administration of many tables, whose changes make notices.
#[derive(Default)]
struct FakeAdministration {
    observers: Mutex<Vec<Arc<dyn AdministrationObserver>>>,
    changes: Mutex<Vec<NetworkChange>>,
}

impl NetworkAdministration for FakeAdministration {
    fn links(&self) -> Vec<LinkRecord> {
        Vec::new()
    }
    fn addresses(&self) -> Vec<AddressRecord> {
        vec![AddressRecord::new(1, HERE, 8)]
    }
    fn routes(&self) -> Vec<RouteRecord> {
        Vec::new()
    }
    fn tables(&self) -> Vec<TableRecord> {
        (0..10_000).map(|number| TableRecord { is_version6: false, number }).collect()
    }
    fn rules(&self) -> Vec<RuleRecord> {
        vec![RuleRecord::of_table(5, 6)]
    }
    fn neighbours(&self) -> Vec<NeighbourRecord> {
        vec![NeighbourRecord::new(1, HERE, number::NEIGHBOUR_STALE)]
    }
    fn memberships(&self) -> Vec<MembershipRecord> {
        vec![MembershipRecord { interface: 1, group: HERE, users: 3 }]
    }
    fn change(&self, change: &NetworkChange) -> Result<(), AdministrationError> {
        self.changes.lock().unwrap().push(change.clone());
        let NetworkChange::Address(address, _) = change else {
            return Err(AdministrationError::NoDevice);
        };
        let observers = self.observers.lock().unwrap().clone();
        observers.iter().for_each(|one| one.changed(&NetworkNotice::Address(address.clone())));
        Ok(())
    }
    fn route_to(&self, _: &RouteQuery) -> Result<RouteRecord, AdministrationError> {
        Err(AdministrationError::HostUnreachable)
    }
    fn sockets(&self, _: SocketProtocol) -> Vec<SocketRecord> {
        Vec::new()
    }
    fn counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        vec![("IpInReceives".into(), 7)]
    }
    fn drops(&self) -> Vec<StackDrops> {
        vec![("malformed".into(), 8)]
    }
    fn parameter(&self, parameter: NetworkParameter) -> Option<Vec<i64>> {
        (parameter == NetworkParameter::TcpRmem).then(|| vec![1, -2, 3])
    }
    fn set_parameter(
        &self,
        _: NetworkParameter,
        values: &[i64],
    ) -> Result<(), AdministrationError> {
        if values == [9] { Ok(()) } else { Err(AdministrationError::Invalid) }
    }
    fn observe(&self, observer: Arc<dyn AdministrationObserver>) {
        self.observers.lock().unwrap().push(observer);
    }
}

/// A channel that loses the next answers, as if the server died over the request.
struct Losing {
    server: Arc<dyn ControlHandler>,
    loses: Mutex<Vec<Failure>>,
    reports: Mutex<usize>,
    answers: Mutex<Option<Vec<u8>>>,
}

impl ControlChannel for Losing {
    fn exchange(&self, request: &[u8], again: Again, answer: &mut Vec<u8>) -> Result<(), Failure> {
        assert_eq!(request.first(), Some(&subject::ADMINISTRATION));
        loop {
            answer.clear();
            self.server.handle(&request[1..], answer);
            match self.loses.lock().unwrap().pop() {
                Some(Failure::Lost(Error::Restarted)) if again == Again::OnRestart => {}
                Some(failure) => return Err(failure),
                None => break,
            }
        }
        if let Some(forged) = self.answers.lock().unwrap().take() {
            *answer = forged;
        }
        Ok(())
    }
    fn report_corrupt(&self) {
        *self.reports.lock().unwrap() += 1;
    }
}

#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl AdministrationObserver for Listener {
    fn changed(&self, notice: &NetworkNotice) {
        let NetworkNotice::Address(one) = notice else { panic!("{notice:?}") };
        self.0.lock().unwrap().push(format!("{}", one.address));
    }
    fn missed(&self) {
        self.0.lock().unwrap().push(String::from("missed"));
    }
}

impl Listener {
    fn heard(&self) -> Vec<String> {
        core::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct Bench {
    fake: Arc<FakeAdministration>,
    channel: Arc<Losing>,
    client: Arc<RemoteAdministration>,
    listener: Arc<Listener>,
    /// Notices that were posted and not heard.
    posted: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// Whether posted notices are heard at once.
#[derive(PartialEq)]
enum Delivery {
    AtOnce,
    Kept,
}

impl Bench {
    fn new(delivery: Delivery) -> Bench {
        let fake = Arc::new(FakeAdministration::default());
        let posted = Arc::new(Mutex::new(Vec::new()));
        let client = Arc::new(OnceLock::<Arc<RemoteAdministration>>::new());
        let (kept, hears) = (posted.clone(), client.clone());
        let post: Post = Arc::new(move |bytes: &[u8]| match delivery {
            Delivery::AtOnce => hears.get().unwrap().heard(bytes).unwrap(),
            Delivery::Kept => kept.lock().unwrap().push(bytes.to_vec()),
        });
        let server = Arc::new(AdministrationService::new(fake.clone(), post));
        let (loses, reports, answers) = Default::default();
        let channel = Arc::new(Losing { server, loses, reports, answers });
        let remote = Arc::new(RemoteAdministration::new(channel.clone()));
        let _ = client.set(remote.clone());
        let listener = Arc::new(Listener::default());
        remote.observe(listener.clone());
        Bench { fake, channel, client: remote, listener, posted }
    }
    fn lose(&self, failure: Failure) {
        self.channel.loses.lock().unwrap().push(failure);
    }
    fn changes(&self) -> usize {
        self.fake.changes.lock().unwrap().len()
    }
}

fn address(mode: EntryMode) -> NetworkChange {
    NetworkChange::Address(AddressRecord::new(1, HERE, 8), mode)
}

const DIED: Failure = Failure::Lost(Error::Restarted);

#[test]
fn results_are_those_of_the_server() {
    let Bench { fake, client, .. } = Bench::new(Delivery::AtOnce);
    assert_eq!(client.links(), []);
    assert_eq!(client.addresses(), fake.addresses());
    assert_eq!(client.routes(), []);
    assert_eq!(client.tables(), fake.tables());
    assert_eq!(client.rules(), fake.rules());
    assert_eq!(client.neighbours(), fake.neighbours());
    assert_eq!(client.memberships(), fake.memberships());
    let query = RouteQuery::new(HERE);
    assert_eq!(client.route_to(&query), Err(AdministrationError::HostUnreachable));
    assert_eq!(client.sockets(SocketProtocol::Tcp), []);
    assert_eq!((client.counters(), client.drops()), (fake.counters(), fake.drops()));
    assert_eq!(client.parameter(NetworkParameter::TcpRmem), Some(vec![1, -2, 3]));
    assert_eq!(client.parameter(NetworkParameter::TcpSack), None);
    assert_eq!(client.set_parameter(NetworkParameter::TcpSack, &[9]), Ok(()));
    let refused = client.set_parameter(NetworkParameter::TcpSack, &[8]);
    assert_eq!(refused, Err(AdministrationError::Invalid));
}

#[test]
fn only_harmless_changes_are_repeated() {
    let bench = Bench::new(Delivery::AtOnce);
    bench.lose(DIED);
    assert_eq!(bench.client.tables().len(), 10_000);
    bench.lose(DIED);
    assert_eq!(bench.client.change(&address(EntryMode::Replace)), Ok(()));
    assert_eq!(bench.changes(), 2);
    bench.lose(DIED);
    let created = bench.client.change(&address(EntryMode::Create));
    assert_eq!((created, bench.changes()), (Err(AdministrationError::Restarted), 3));
    bench.lose(DIED);
    let link = NetworkChange::Link(LinkChange::default());
    assert_eq!(bench.client.change(&link), Err(AdministrationError::NoDevice));
    assert_eq!(bench.changes(), 5);
    bench.lose(Failure::Lost(Error::Gone));
    assert_eq!(bench.client.change(&link), Err(AdministrationError::NetworkDown));
    bench.lose(Failure::Lost(Error::Gone));
    assert_eq!(bench.client.tables(), []);
}

#[test]
fn observers_hear_before_a_change_ends() {
    let bench = Bench::new(Delivery::AtOnce);
    bench.client.change(&address(EntryMode::Create)).unwrap();
    assert_eq!(bench.listener.heard(), ["127.0.0.1"]);

    let bench = Arc::new(Bench::new(Delivery::Kept));
    std::thread::scope(|scope| {
        let change = scope.spawn(|| bench.client.change(&address(EntryMode::Create)));
        let notice = loop {
            if let Some(notice) = bench.posted.lock().unwrap().pop() {
                break notice;
            }
            std::thread::yield_now();
        };
        bench.client.heard(&notice).unwrap();
        assert_eq!(change.join().unwrap(), Ok(()));
    });
    assert_eq!(bench.listener.heard(), ["127.0.0.1"]);
}

#[test]
fn lost_notices_are_missed() {
    let bench = Bench::new(Delivery::Kept);
    let notice = |number| {
        let notice = NetworkNotice::Address(AddressRecord::new(1, HERE, 8));
        crate::marshal::encode(&NumberedNotice { number, notice })
    };
    let hear = |number| {
        bench.client.heard(&notice(number)).unwrap();
        bench.listener.heard()
    };
    assert_eq!(hear(1), ["127.0.0.1"]);
    assert_eq!(hear(2), ["127.0.0.1"]);
    assert_eq!(hear(4), ["missed", "127.0.0.1"]);
    assert_eq!(hear(5), ["127.0.0.1"]);
    bench.client.restarted();
    assert_eq!(bench.listener.heard(), ["missed"]);
    assert_eq!(hear(1), ["127.0.0.1"]);
    // A server whose own notices were lost leaves a number out.
    let observer = bench.fake.observers.lock().unwrap()[0].clone();
    observer.missed();
    observer.changed(&NetworkNotice::Address(AddressRecord::new(1, HERE, 8)));
    let posted = bench.posted.lock().unwrap().pop().unwrap();
    assert_eq!(posted, notice(2));
    assert!(bench.client.heard(&notice(3)[1..]).is_err());
}

#[test]
fn answers_that_are_none_are_reported() {
    let bench = Bench::new(Delivery::AtOnce);
    let forge = |bytes: &[u8]| *bench.channel.answers.lock().unwrap() = Some(bytes.to_vec());
    forge(&[]);
    assert_eq!(bench.client.tables(), []);
    forge(&[0xff; 64]);
    let change = bench.client.change(&address(EntryMode::Replace));
    assert_eq!(change, Err(AdministrationError::Restarted));
    forge(&[2]);
    assert_eq!(bench.client.parameter(NetworkParameter::TcpRmem), None);
    assert_eq!(*bench.channel.reports.lock().unwrap(), 3);
}

proptest! {
    #[test]
    fn arbitrary_requests_are_no_harm(bytes in prop::collection::vec(prop_oneof![0..16_u8, any::<u8>()], 0..120)) {
        let post: Post = Arc::new(|_: &[u8]| {});
        let server = AdministrationService::new(Arc::new(FakeAdministration::default()), post);
        let mut answer = Vec::new();
        server.handle(&bytes, &mut answer);
        let is_request = crate::marshal::decode::<AdministrationRequest>(&bytes).is_some();
        prop_assert_eq!(answer.is_empty(), !is_request);
    }
}
