//! Tests of reassembly.
use super::*;
use crate::base::buffer::SharedBytes;
use labels::SecrecyId;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn key(identification: u32) -> FragmentKey {
    FragmentKey {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        identification,
        protocol: 17,
        interface: InterfaceIndex(2),
        label: SecrecyId::NONE,
    }
}

fn fragment(bytes: &[u8], start: usize, end: usize) -> Fragment<SharedBytes> {
    Fragment {
        offset: start,
        has_more: end < bytes.len(),
        headers: vec![start as u8],
        payload: BufferChain::copy_of(&bytes[start..end]).unwrap(),
    }
}

fn add(table: &mut Reassembly<SharedBytes>, one: Fragment<SharedBytes>) -> Option<Vec<u8>> {
    match table.add(key(1), one, 0) {
        Reassembled::Whole(headers, payload) => {
            assert_eq!(headers, [0]);
            Some(payload.to_vec())
        }
        _ => None,
    }
}

#[test]
fn fragments_that_overlap_poison_their_packet() {
    let bytes: Vec<u8> = (0..32).collect();
    let mut table = Reassembly::default();
    add(&mut table, fragment(&bytes, 0, 16));
    assert!(matches!(table.add(key(1), fragment(&bytes, 8, 24), 0), Reassembled::Refused));
    for (start, end) in [(0, 16), (16, 32), (24, 32)] {
        assert!(matches!(table.add(key(1), fragment(&bytes, start, end), 0), Reassembled::Refused));
    }
    let (count, expired) = table.poll(30 * S);
    assert_eq!((count, expired.len(), table.memory()), (1, 0, 0));
    add(&mut table, fragment(&bytes, 0, 16));
    assert_eq!(add(&mut table, fragment(&bytes, 16, 32)), Some(bytes));
}

#[test]
fn duplicates_are_ignored() {
    let bytes: Vec<u8> = (0..32).collect();
    let mut table = Reassembly::default();
    for _ in 0..3 {
        assert_eq!(add(&mut table, fragment(&bytes, 0, 16)), None);
        assert_eq!(add(&mut table, fragment(&bytes, 0, 8)), None, "a part of one that came");
    }
    assert_eq!(add(&mut table, fragment(&bytes, 16, 32)), Some(bytes));
    assert_eq!((table.memory(), table.earliest_ns()), (0, u64::MAX));
}

#[test]
fn a_second_end_poisons() {
    let bytes: Vec<u8> = (0..32).collect();
    let mut table = Reassembly::default();
    add(&mut table, fragment(&bytes, 24, 32));
    assert!(matches!(table.add(key(1), fragment(&bytes[..24], 16, 24), 0), Reassembled::Refused));
    assert_eq!(add(&mut table, fragment(&bytes, 0, 24)), None);
    let mut table = Reassembly::default();
    add(&mut table, fragment(&bytes, 8, 16));
    assert!(matches!(table.add(key(1), fragment(&bytes[..8], 0, 8), 0), Reassembled::Refused));
}

#[test]
fn malformed_fragments_are_refused_alone() {
    let bytes = [0; 33];
    let mut table = Reassembly::default();
    let refused = |table: &mut Reassembly<SharedBytes>, one| {
        assert!(matches!(table.add(key(1), one, 0), Reassembled::Refused));
    };
    refused(&mut table, fragment(&bytes, 0, 7));
    refused(&mut table, fragment(&bytes, 8, 8));
    refused(&mut table, Fragment { offset: 65_528, ..fragment(&bytes, 0, 8) });
    assert_eq!(table.memory(), 0);
    assert_eq!(add(&mut table, fragment(&bytes, 0, 32)), None);
    assert_eq!(add(&mut table, fragment(&bytes, 32, 33)), Some(bytes.to_vec()));
}

#[test]
fn time_ends_a_packet_and_gives_its_first_fragment() {
    let bytes: Vec<u8> = (0..32).collect();
    let mut table = Reassembly::default();
    table.add(key(1), fragment(&bytes, 0, 16), 0);
    table.add(key(2), fragment(&bytes, 16, 32), S);
    assert_eq!(table.earliest_ns(), 30 * S);
    assert_eq!(table.poll(30 * S - 1).0, 0);
    let (count, expired) = table.poll(31 * S);
    assert_eq!((count, expired.len()), (2, 1));
    assert_eq!((expired[0].0, expired[0].2.to_vec()), (key(1), bytes[..16].to_vec()));
}

#[test]
fn memory_is_bounded() {
    let bytes = [0; 2968];
    let mut table = Reassembly::default();
    for number in 0..10_000 {
        table.add(key(number), fragment(&bytes, 0, 1480), 0);
        assert!(table.memory() <= MEMORY_MAX);
    }
    assert!(matches!(table.add(key(1), fragment(&bytes, 1480, 2960), 0), Reassembled::Refused));
    table.poll(30 * S);
    assert_eq!(table.memory(), 0);
    assert!(matches!(table.add(key(1), fragment(&bytes, 0, 1480), 0), Reassembled::Waiting));
}

proptest! {
    #[test]
    fn fragments_in_any_order_make_the_packet(
        length in 1usize..400,
        cuts in proptest::collection::btree_set(1usize..50, 0..8),
        order in any::<proptest::sample::Index>(),
        rotation in any::<proptest::sample::Index>(),
    ) {
        let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut * 8).filter(|at| *at < length).collect();
        places.insert(0, 0);
        places.push(length);
        let mut all: Vec<(usize, usize)> = places.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let count = all.len();
        all.rotate_left(rotation.index(count));
        all.swap(0, order.index(count));
        let mut table = Reassembly::default();
        for (turn, (start, end)) in all.into_iter().enumerate() {
            let result = add(&mut table, fragment(&bytes, start, end));
            prop_assert_eq!(result, (turn + 1 == count).then(|| bytes.clone()));
        }
        prop_assert_eq!(table.memory(), 0);
    }
}
