//! A successor has what its predecessor kept, whenever that died.
use super::{area, image::StackImage};
use crate::{
    tables::neighbours::Lesson,
    tests::streams::world::{CARD, Host, Memory, S, VirtualTime},
    *,
};
use interfaces::{
    marshal::Marshal,
    sockets::{EntryMode, NetworkParameter, RouteMetrics, RuleRecord},
};
use labels::SecrecyId;
use proptest::prelude::*;
use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Makes a successor of the stack that kept its state in `memory`, at a time.
fn successor(memory: &Arc<Memory>, at_ns: u64) -> (Arc<Inet>, bool, Arc<VirtualTime>) {
    memory.0.lock().unwrap().1 = usize::MAX;
    let time = Arc::new(VirtualTime::default());
    time.0.store(at_ns, Relaxed);
    let (inet, has_predecessor) = Inet::resume([77; 32], time.clone(), memory.clone());
    inet.go_on();
    (inet, has_predecessor, time)
}

/// Returns interfaces and rules as text, without what sockets and cards bring, and routes.
fn configuration(inet: &Inet) -> (Vec<String>, Vec<(TableId, Route)>) {
    let view = inet.stack().view();
    let plain = |one: &Interface| Interface {
        groups: Default::default(),
        wanted: Default::default(),
        offloads: LinkOffloads::empty(),
        ..one.clone()
    };
    let interfaces = view.configuration.interfaces();
    let interfaces = interfaces.map(|one| format!("{:?}", plain(one)));
    let rules = format!("{:?}", view.configuration.rules());
    let interfaces = interfaces.chain([rules]).collect();
    let routes = view.configuration.routes.iter();
    (interfaces, routes.map(|(table, route)| (table, route.clone())).collect())
}

/// Sets up a host in many ways.
fn set_up(inet: &Inet) {
    let mut card = Interface::ethernet(CARD, "eth0", [2, 0, 0, 0, 0, 1], 1500);
    card.flags |= InterfaceFlags::UP | InterfaceFlags::RUNNING;
    inet.stack().configure(|all| all.add_interface(card)).unwrap();
    let address = |text: &str, length| InterfaceAddress::new(ip(text), length).unwrap();
    let labelled =
        InterfaceAddress { label: "eth0:one".into(), metric: 7, ..address("10.0.0.1", 24) };
    let mortal = InterfaceAddress {
        valid_until_ns: Some(9000 * S),
        preferred_until_ns: Some(8000 * S),
        changed_ns: (3, 4),
        ..address("fd00::1", 64)
    };
    let peer = InterfaceAddress { peer: Some(ip("10.9.9.9")), ..address("10.1.0.1", 32) };
    for one in [labelled, address("10.0.0.5", 24), peer, mortal] {
        inet.run(|stack, run| stack.add_address(run, CARD, one)).unwrap();
    }
    let mut metrics = RouteMetrics::default();
    metrics.set(RouteMetrics::MTU, 1400);
    let through = Route {
        metric: 100,
        metrics,
        preferred_source: Some(ip("10.0.0.5")),
        ..Route::through(ip("10.0.0.254"), Prefix::all(Family::V4), CARD)
    };
    let refused = Route {
        kind: RouteKind::Prohibit,
        scope: Some(0),
        ..Route::on_link(Prefix::new(ip("fd01::"), 32).unwrap(), CARD)
    };
    let learnt = Route {
        protocol: maker::ADVERTISEMENT,
        expires_ns: Some(7000 * S),
        ..Route::through(ip("fe80::9"), Prefix::all(Family::V6), CARD)
    };
    inet.stack()
        .configure(|all| {
            let rule = RuleRecord { mark: 7, mark_mask: 15, ..RuleRecord::of_table(100, 100) };
            all.add_rule(rule, EntryMode::Create).unwrap();
            all.edit_interface(CARD, |one| one.ipv6.hop_limit = 33).unwrap();
            all.routes.add(TableId::MAIN, through)?;
            all.routes.add(TableId(100), refused)?;
            all.routes.add(TableId::MAIN, learnt)
        })
        .unwrap();
    inet.run(|stack, run| {
        let permanent = (NeighbourState::Permanent, [2, 0, 0, 0, 0, 9]);
        assert!(stack.set_neighbour(run, (CARD, ip("10.0.0.9")), permanent));
        assert!(stack.set_neighbour(
            run,
            (CARD, ip("fd00::9")),
            (NeighbourState::Reachable, [3; 6])
        ));
    });
    let administration = interfaces::sockets::Network::administration(inet);
    administration.set_parameter(NetworkParameter::TcpSynRetries, &[3]).unwrap();
    administration.set_parameter(NetworkParameter::LocalPortRange, &[40_000, 40_010]).unwrap();
}

#[test]
fn a_successor_has_addresses_routes_neighbours_settings_and_the_secret() {
    let (memory, clock) = (Arc::new(Memory::new(1 << 16)), Arc::new(VirtualTime::default()));
    clock.0.store(1000 * S, Relaxed);
    let (first, has_predecessor) = Inet::resume([5; 32], clock, memory.clone());
    assert!(!has_predecessor);
    set_up(&first);
    first.retire();
    let (second, has_predecessor, time) = successor(&memory, 1001 * S);
    assert!(has_predecessor);
    assert_eq!(configuration(&second), configuration(&first));
    let flow = tcp::Flow {
        local: [1; 16],
        remote: [2; 16],
        local_port: 3,
        remote_port: 4,
        label: SecrecyId::NONE,
    };
    let numbers =
        [&first, &second].map(|inet| inet.streams().secret.initial_sequence(&flow, 2000 * S));
    assert_eq!(numbers[0], numbers[1], "sequence numbers go on");
    let administration = interfaces::sockets::Network::administration(&*second);
    assert_eq!(administration.parameter(NetworkParameter::TcpSynRetries), Some(vec![3]));
    let range = administration.parameter(NetworkParameter::LocalPortRange);
    assert_eq!(range, Some(vec![40_000, 40_010]));
    let of = |text: &str| second.stack().neighbours.lock().state((CARD, ip(text)));
    assert_eq!(of("10.0.0.9"), Some(NeighbourState::Permanent));
    assert_eq!(of("fd00::9"), Some(NeighbourState::Probe));
    // The address was being probed.
    let flags = |inet: &Inet| {
        let view = inet.stack().view();
        let card = view.configuration.interface(CARD).unwrap();
        (card.address(ip("fd00::1")).unwrap().flags, card.groups.clone())
    };
    assert!(flags(&second).0.contains(AddressFlags::TENTATIVE));
    assert_eq!(flags(&second).1, flags(&first).1, "groups of addresses");
    let host = Host::of(second, time, memory);
    host.wait(3 * S);
    assert!(!flags(&host.inet).0.contains(AddressFlags::TENTATIVE));
    assert!(host.inet.streams().parameters.all().contains(&3));
    host.wait(7000 * S);
    assert!(flags(&host.inet).0.contains(AddressFlags::DEPRECATED));
}

#[test]
fn an_image_is_whole_whenever_the_stack_dies() {
    let memory = Arc::new(Memory::new(1 << 14));
    let clock = Arc::new(VirtualTime::default());
    let (first, _) = Inet::resume([5; 32], clock, memory.clone());
    set_up(&first);
    let before = configuration(&first);
    let saved = memory.0.lock().unwrap().0.clone();
    let mut seen = [0; 2];
    for cut in 0.. {
        memory.0.lock().unwrap().0.clone_from(&saved);
        let (inet, ..) = successor(&memory, 0);
        // A successor writes what it found. The next change is cut off.
        memory.0.lock().unwrap().1 = cut;
        let mtu = 9000;
        inet.stack().configure(|all| all.edit_interface(CARD, |one| one.mtu = mtu)).unwrap();
        let left = memory.0.lock().unwrap().1;
        let after = configuration(&inet);
        let (next, has_predecessor, _) = successor(&memory, 0);
        let found = configuration(&next);
        assert!(has_predecessor && (found == before || found == after), "cut at {cut}");
        seen[usize::from(found == after)] += 1;
        if left > 0 {
            break;
        }
    }
    assert!(seen[0] > 500 && seen[1] > 0, "{seen:?}");
}

#[test]
fn memory_without_an_image_is_no_predecessor() {
    for length in [0, 1, 23, 48, 96, 300] {
        let memory = Memory::new(length);
        assert_eq!(area::newest(&memory), None, "{length} bytes");
        assert!(area::write(&memory, 1, &[0; 60]).is_err());
    }
    let memory = Memory::new(1000);
    area::write(&memory, 1, b"one").unwrap();
    area::write(&memory, 2, b"two").unwrap();
    assert_eq!(area::newest(&memory), Some((2, b"two".to_vec())));
    memory.0.lock().unwrap().0[24] ^= 1;
    assert_eq!(area::newest(&memory), Some((1, b"one".to_vec())));
}

/// Returns the image of a stack that was set up.
fn image() -> Vec<u8> {
    let clock = Arc::new(VirtualTime::default());
    let (inet, _) = Inet::resume([5; 32], clock, Arc::new(Memory::new(1 << 16)));
    set_up(&inet);
    let mut bytes = Vec::new();
    StackImage::of(&inet, [5; 32]).put(&mut bytes);
    bytes
}

#[test]
fn an_image_has_no_other_length() {
    let mut bytes = image();
    assert!(StackImage::of_bytes(&bytes).is_some());
    for length in 0..bytes.len() {
        assert!(StackImage::of_bytes(&bytes[..length]).is_none(), "{length}");
    }
    bytes.push(0);
    assert!(StackImage::of_bytes(&bytes).is_none());
}

proptest! {
    /// A stack that went mad before it died leaves no image of which its successor dies.
    #[test]
    fn a_damaged_image_does_no_harm(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)
    ) {
        let mut bytes = image();
        for (place, value) in damage {
            *place.get_mut(&mut bytes[..]) = value;
        }
        let memory = Arc::new(Memory::new(1 << 16));
        area::write(&*memory, 1, &bytes).unwrap();
        let (inet, _, time) = successor(&memory, 1000 * S);
        Host::of(inet, time, memory).wait(10 * S);
    }
}

#[test]
fn a_successor_has_the_neighbours_that_were_learnt() {
    let (memory, clock) = (Arc::new(Memory::new(1 << 16)), Arc::new(VirtualTime::default()));
    clock.0.store(1000 * S, Relaxed);
    let (first, _) = Inet::resume([5; 32], clock.clone(), memory.clone());
    set_up(&first);
    let learn = |last: u8| {
        first.run(|stack, run| {
            let view = stack.view();
            let card = view.configuration.interface(CARD).unwrap();
            let neighbour = (IpAddr::from([10, 0, 0, last]), Some([2, 0, 0, 0, 0, last]));
            stack.learn(run, card, neighbour, Lesson::Asked);
        });
    };
    learn(1);
    assert!(first.poll() > clock.0.load(Relaxed), "it is kept");
    learn(2);
    let due = first.poll();
    assert!((1..=S).contains(&(due - clock.0.load(Relaxed))), "a moment later");
    clock.0.store(due, Relaxed);
    assert!(first.poll() > due);
    learn(3);
    first.retire();
    let (second, ..) = successor(&memory, 1001 * S);
    let known = [1, 2, 3].map(|last| {
        let key = (CARD, IpAddr::from([10, 0, 0, last]));
        second.stack().neighbours.lock().state(key)
    });
    assert_eq!(known, [Some(NeighbourState::Probe), Some(NeighbourState::Probe), None]);
}
