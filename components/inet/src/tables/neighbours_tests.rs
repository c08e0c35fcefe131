//! Tests of the table of neighbours.
use super::*;
use crate::base::buffer::{BufferChain, SharedBytes};

const S: u64 = 1_000_000_000;
const TIMES: NeighbourTimes = NeighbourTimes { reachable_ns: 30 * S, retransmit_ns: S };
const MAC: MacAddress = [2, 0, 0, 0, 0, 9];
const OTHER: MacAddress = [2, 0, 0, 0, 0, 8];
const ANSWER: Lesson = Lesson::Told { is_solicited: true, replaces: true, is_router: None };

fn key(number: u32) -> NeighbourKey {
    (InterfaceIndex(2), IpAddr::V4((0x0a00_0000 + number).into()))
}

fn packet(byte: u8) -> Departure<SharedBytes> {
    Departure::new(&[byte], BufferChain::default()).unwrap()
}

fn resolve(table: &mut Neighbours<SharedBytes>, number: u32, now_ns: u64) -> &'static str {
    match table.resolve(key(number), packet(0), TIMES, now_ns) {
        Resolution::Known(..) => "known",
        Resolution::Solicit => "solicit",
        Resolution::Waiting => "waiting",
        Resolution::Full => "full",
    }
}

#[test]
fn packets_wait_until_the_neighbour_answers() {
    let mut table = Neighbours::default();
    assert!(matches!(table.resolve(key(1), packet(0), TIMES, 0), Resolution::Solicit));
    for byte in 1..6 {
        assert!(matches!(table.resolve(key(1), packet(byte), TIMES, 0), Resolution::Waiting));
    }
    let learned = table.learn(key(1), Some(MAC), ANSWER, TIMES, S);
    let bytes: Vec<u8> = learned.packets.iter().map(|one| one.headers.as_slice()[0]).collect();
    assert_eq!(bytes, [2, 3, 4, 5], "the oldest packets are dropped");
    assert_eq!(table.state(key(1)), Some(NeighbourState::Reachable));
    assert_eq!(resolve(&mut table, 1, 2 * S), "known");
}

#[test]
fn a_neighbour_that_does_not_answer_is_given_up_after_three_questions() {
    let mut table = Neighbours::default();
    resolve(&mut table, 1, 0);
    assert!(table.poll(S - 1).is_empty());
    for second in [1, 2] {
        assert_eq!(table.earliest_ns(), second * S);
        let events = table.poll(second * S);
        assert!(matches!(events[..], [NeighbourEvent::Solicit(_, None)]), "{events:?}");
    }
    let events = table.poll(3 * S);
    let [NeighbourEvent::Failed(_, packets)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((packets.len(), table.iter().count()), (1, 0));
    assert_eq!(table.earliest_ns(), u64::MAX);
}

#[test]
fn an_old_entry_is_used_then_probed() {
    let mut table = Neighbours::default();
    resolve(&mut table, 1, 0);
    table.learn(key(1), Some(MAC), ANSWER, TIMES, 0);
    assert_eq!(resolve(&mut table, 1, 31 * S), "known");
    assert_eq!(table.state(key(1)), Some(NeighbourState::Delay));
    let events = table.poll(36 * S);
    assert!(matches!(events[..], [NeighbourEvent::Solicit(_, Some(MAC))]));
    table.learn(key(1), Some(MAC), ANSWER, TIMES, 36 * S);
    assert_eq!(table.state(key(1)), Some(NeighbourState::Reachable));
    assert!(table.poll(66 * S).is_empty());
    assert_eq!(table.state(key(1)), Some(NeighbourState::Stale));
    resolve(&mut table, 1, 70 * S);
    table.confirm(key(1), 71 * S);
    assert_eq!(table.state(key(1)), Some(NeighbourState::Reachable));
    assert!(table.poll(75 * S).is_empty(), "a sign of life makes the probe needless");
}

#[test]
fn an_advertisement_that_does_not_replace_only_makes_doubtful() {
    let mut table = Neighbours::default();
    resolve(&mut table, 1, 0);
    table.learn(key(1), Some(MAC), ANSWER, TIMES, 0);
    let meek = Lesson::Told { is_solicited: true, replaces: false, is_router: None };
    table.learn(key(1), Some(OTHER), meek, TIMES, 1);
    let entry = |table: &Neighbours<SharedBytes>| table.iter().next().map(|(_, a, b)| (a, b));
    assert_eq!(entry(&table), Some((NeighbourState::Stale, MAC)));
    let unasked = Lesson::Told { is_solicited: false, replaces: true, is_router: None };
    table.learn(key(1), Some(OTHER), unasked, TIMES, 2);
    assert_eq!(entry(&table), Some((NeighbourState::Stale, OTHER)));
}

#[test]
fn an_advertisement_of_a_stranger_makes_no_entry() {
    let mut table = Neighbours::<SharedBytes>::default();
    table.learn(key(1), Some(MAC), ANSWER, TIMES, 0);
    assert_eq!(table.iter().count(), 0);
    table.learn(key(1), Some(MAC), Lesson::Asked, TIMES, 0);
    assert_eq!(table.state(key(1)), Some(NeighbourState::Stale));
}

#[test]
fn a_router_that_becomes_a_host_is_reported() {
    let mut table = Neighbours::default();
    resolve(&mut table, 1, 0);
    let told = |is_router| Lesson::Told { is_solicited: true, replaces: true, is_router };
    assert!(!table.learn(key(1), Some(MAC), told(Some(true)), TIMES, 0).has_ceased_routing);
    assert!(!table.learn(key(1), Some(MAC), told(None), TIMES, 0).has_ceased_routing);
    assert!(table.learn(key(1), Some(MAC), told(Some(false)), TIMES, 0).has_ceased_routing);
}

#[test]
fn a_hostile_link_neither_fills_memory_nor_displaces_what_is_used() {
    let mut table = Neighbours::default();
    resolve(&mut table, 1, 0);
    table.learn(key(1), Some(MAC), ANSWER, TIMES, 0);
    for number in 2..10_000 {
        table.learn(key(number), Some(OTHER), Lesson::Asked, TIMES, u64::from(number) * 1000);
    }
    assert!(table.iter().count() <= ENTRIES_MAX);
    assert_eq!(table.state(key(1)), Some(NeighbourState::Reachable));
    assert_eq!(resolve(&mut table, 20_000, S), "solicit", "an idle entry gives way");
    for number in 30_000..40_000 {
        resolve(&mut table, number, S);
    }
    assert_eq!(resolve(&mut table, 50_000, S), "full");
    assert!(table.iter().count() <= ENTRIES_MAX);
    assert_eq!(table.state(key(1)), Some(NeighbourState::Reachable));
    assert_eq!(resolve(&mut table, 50_000, 2 * S), "solicit");
}
