//! Tests of frames, the heap, spaces and copies.
use crate::suite::in_threads;
use alloc::{sync::Arc, vec, vec::Vec};
use nucleus::{
    memory::{
        PAGE, charge, frame, frames, heap,
        space::{Protection, Space, USER_END},
    },
    objects::{self, Kind},
};
use program::{CloneMode, Unshared};

const READ: Protection = Protection::READ;
const READ_WRITE: Protection = Protection::READ.union(Protection::WRITE);
const BASE: u64 = 0x40_0000_0000;

fn address(page: usize) -> u64 {
    BASE + (page * PAGE) as u64
}

/// Tests many frames in many threads, each with references.
pub fn frames_come_back() {
    in_threads(4, |_| {
        for _ in 0..10 {
            let taken: Vec<u32> = (0..300).map_while(|_| frame::allocate(false).ok()).collect();
            assert_eq!(taken.len(), 300);
            taken.iter().for_each(|&frame| frames::retain(frame));
            taken.iter().for_each(|&frame| frames::release(frame));
            assert!(taken.iter().all(|&one| frame::exclusive(one).is_some()));
            taken.iter().for_each(|&frame| frames::release(frame));
        }
    });
}

/// Tests that objects of all sizes keep their contents.
pub fn heap_objects_do_not_overlap() {
    in_threads(4, |thread| {
        let mut held: Vec<Vec<u8>> = Vec::new();
        let mut seed = u64::from(thread) + 1;
        for _ in 0..3000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let random = (seed >> 33) as usize;
            if random & 1 == 0 && held.len() < 60 {
                let length = if random & 0x1e == 0 { random % 40_000 } else { random % 3000 };
                held.push(vec![length as u8; length]);
            } else if !held.is_empty() {
                let object = held.swap_remove(random % held.len());
                assert!(object.iter().all(|&byte| byte == object.len() as u8));
            }
        }
    });
}

/// Tests that large pieces can be allocated, keep their contents and can be freed when no two free
/// frames are adjacent.
pub fn heap_needs_single_frames_only() {
    let mut pairs = Vec::with_capacity(frames::totals().0 / 2);
    while let Some(pair) = frames::allocate_contiguous(2, frames::For::Kernel) {
        pairs.push(pair);
    }
    assert!(frames::allocate_contiguous(2, frames::For::Kernel).is_none());
    pairs.iter().for_each(|&pair| frames::free(pair));
    in_threads(4, |thread| {
        let mut held = Vec::new();
        for round in 0..2_000_usize {
            held.push(vec![(round ^ thread as usize) as u8; 5_000 + 37 * (round % 900)]);
            if held.len() > 20 {
                let object = held.swap_remove(round * 7 % held.len());
                assert!(object.iter().all(|&byte| byte == object[0]));
            }
        }
    });
    pairs.iter().for_each(|&pair| frames::free(pair + 1));
    heap::shrink();
}

/// Tests that a charge of all memory is refused.
pub fn charges_are_refused() {
    assert!(charge::charge(1 << 20).is_ok());
    assert!(charge::charge(usize::MAX).is_err());
    assert!(charge::charge(1 << 45).is_err());
    charge::uncharge(1 << 20);
}

/// Tests that zero and copy touch every byte.
pub fn pages_are_cleared_and_copied() {
    let (one, two) =
        (frame::allocate(false).expect("a frame"), frame::allocate(true).expect("a frame"));
    let pattern: Vec<u8> = (0..PAGE).map(|at| (at * 7 + 1) as u8).collect();
    let mut out = vec![1; PAGE];
    frame::read(two, 0, &mut out);
    assert!(out.iter().all(|&byte| byte == 0));
    frame::write(one, 0, &pattern);
    frame::copy(one, two);
    frame::read(two, 0, &mut out);
    assert_eq!(out, pattern);
    frame::zero(two, 5, 4000);
    frame::read(two, 0, &mut out);
    assert!(
        out[..5] == pattern[..5]
            && out[4005..] == pattern[4005..]
            && out[5..4005].iter().all(|&byte| byte == 0)
    );
    frames::release(one);
    frames::release(two);
}

/// Tests mapping, protecting, moving and unmapping over table borders.
pub fn space_ranges() {
    let space = Space::new().expect("a space");
    assert_eq!(space.map_zeroed(address(0), 1000, READ_WRITE), Ok(1000));
    assert_eq!(space.map_zeroed(address(500), 1000, READ_WRITE), Ok(500));
    assert_eq!(space.counts().resident(), 1500);
    for page in [0, 511, 512, 1499] {
        space.write(address(page), &(page as u64).to_le_bytes()).expect("mapped");
    }
    space.protect(address(100), address(200), READ).expect("own tables");
    assert!(space.write(address(150), &[1]).is_err());
    space.protect(address(100), address(200), Protection::empty()).expect("own tables");
    assert_eq!(
        space.query(address(150)).map(|page| (frames::release(page.frame), page.protection.bits())),
        Some(((), 0))
    );
    assert_eq!(space.move_to(address(0), address(1500), address(100_000)), Ok(1500));
    let mut word = [0; 8];
    for page in [0, 511, 512, 1499] {
        space.read(address(100_000 + page), &mut word).expect("moved");
        assert_eq!(u64::from_le_bytes(word), page as u64);
    }
    let dirty = (0..1500).filter(|page| {
        let page = space.query(address(100_000 + page)).expect("moved");
        frames::release(page.frame);
        page.is_dirty
    });
    assert_eq!(dirty.count(), 4);
    assert_eq!(space.unmap(0, USER_END), Ok(1500));
    assert_eq!(space.counts().resident(), 0);
    assert_eq!(space.map_zeroed(address(7), 1, READ), Ok(1));
}

/// Tests that after a clone each side sees its own pages.
pub fn clone_copies_on_write() {
    let (one, two) = (Space::new().expect("a space"), Space::new().expect("a space"));
    assert_eq!(one.map_zeroed(address(0), 600, READ_WRITE), Ok(600));
    assert_eq!(one.clone_to(&two, 0, USER_END, CloneMode::Pages), Ok(600));
    assert!(one.write(address(3), &[1]).is_err());
    assert_eq!(one.make_writable(address(3), READ_WRITE), Ok(Unshared::Copied));
    one.write(address(3), &[1]).expect("writable");
    assert_eq!(two.make_writable(address(3), READ_WRITE), Ok(Unshared::Reused));
    let mut byte = [9];
    two.read(address(3), &mut byte).expect("mapped");
    assert_eq!(byte, [0]);
    assert_eq!(two.make_writable(address(601), READ_WRITE), Ok(Unshared::Absent));
    drop(one);
    assert_eq!(two.make_writable(address(4), READ_WRITE), Ok(Unshared::Reused));
}

/// Tests that tables are shared whole until a side changes something, whichever side ends first.
pub fn clone_shares_tables() {
    let tables = || objects::of(Kind::TableFrame);
    let (parent, child) = (Space::new().expect("a space"), Space::new().expect("a space"));
    assert_eq!(parent.map_zeroed(address(0), 1024, READ_WRITE), Ok(1024));
    let before = tables();
    let pages = (address(0), address(1024));
    assert_eq!(parent.clone_to(&child, pages.0, pages.1, CloneMode::Tables), Ok(1024));
    assert_eq!((tables(), child.counts().resident()), (before + 2, 1024));
    assert!(parent.write(address(3), &[1]).is_err() && child.write(address(3), &[1]).is_err());
    assert_eq!(child.make_writable(address(3), READ_WRITE), Ok(Unshared::Copied));
    child.write(address(3), &[1]).expect("writable");
    assert!(child.write(address(700), &[1]).is_err());
    let mut byte = [9];
    parent.read(address(3), &mut byte).expect("mapped");
    assert_eq!((byte, tables()), ([0], before + 3));
    assert_eq!(child.unmap(address(5), address(520)), Ok(515));
    assert_eq!(child.protect(address(600), address(610), READ), Ok(()));
    assert_eq!(parent.counts().resident(), 1024);
    drop(parent);
    assert_eq!(child.make_writable(address(1000), READ_WRITE), Ok(Unshared::Reused));
    child.write(address(1000), &[1]).expect("writable");
}

/// Tests spaces that share tables and are made, written and dropped by all processors at once.
pub fn shared_tables_are_let_go_by_the_last() {
    let parent = Arc::new(Space::new().expect("a space"));
    assert_eq!(parent.map_zeroed(address(0), 1024, READ_WRITE), Ok(1024));
    in_threads(4, move |thread| {
        for round in 0..50 {
            let child = Space::new().expect("a space");
            let (start, end) = (address(0), address(1024));
            assert_eq!(parent.clone_to(&child, start, end, CloneMode::Tables), Ok(1024));
            let grandchild = Space::new().expect("a space");
            assert_eq!(child.clone_to(&grandchild, start, end, CloneMode::Tables), Ok(1024));
            let at = address((thread as usize * 311 + round * 17) % 1024);
            for space in [&parent, &child, &grandchild] {
                assert_ne!(space.make_writable(at, READ_WRITE), Ok(Unshared::Absent));
            }
            child.write(at, &[1]).expect("writable");
            let mut byte = [9];
            grandchild.read(at, &mut byte).expect("mapped");
            assert_eq!(byte, [0]);
            drop(child);
            grandchild.make_writable(address(round), READ_WRITE).expect("memory");
        }
    });
}

/// Tests that a copy that meets an unmapped page returns the bytes copied before it.
pub fn copies_stop_at_the_byte() {
    let space = Space::new().expect("a space");
    assert_eq!(space.map_zeroed(address(0), 1, READ_WRITE), Ok(1));
    let data = [7; 300];
    for length in [1, 7, 8, 63, 64, 65, 130, 300] {
        let at = address(1) - length as u64 + 1;
        let fault = space.write(at, &data[..length]).expect_err("beyond the page");
        assert_eq!((fault.done, fault.address), (length - 1, address(1)));
    }
    let mut text = [0; 20];
    assert_eq!(space.copy_in_string(address(1) - 3, &mut text).map_err(|fault| fault.done), Err(3));
    assert_eq!(space.zero(address(0), PAGE), Ok(()));
    assert_eq!(space.copy_in_string(address(1) - 3, &mut text), Ok(0));
    assert_eq!(space.compare_exchange(address(0), 0, 5), Ok(0));
    assert_eq!(space.atomic_load(address(0)), Ok(5));
    for bad in [address(0) + 1, address(1), USER_END, u64::MAX - 3, 0x8000_0000_0000_0000] {
        assert!(space.atomic_load(bad).is_err() && space.compare_exchange(bad, 0, 0).is_err());
        assert!(space.zero(bad, 5).is_err() || bad == address(0) + 1);
    }
}
