//! Tests of pools of frames, from both sides.
#![cfg(not(target_os = "none"))]
use rt::{
    NoMemory, PAGE_BYTES, host,
    memory::{self, Frame, FrameId, FramePool, POOL_PAGES, Region},
    thread::{self, Policy},
};
use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, mpsc},
};

/// Makes a pool that the calling test has attached.
fn attached(pages: usize) -> FramePool {
    let pool = FramePool::new(pages).unwrap();
    memory::attach_pool(pool.region().clone(), pool.first()).unwrap();
    pool
}

fn released() -> Vec<(FrameId, u32)> {
    let mut all = Vec::new();
    memory::take_released(&mut |frame, handings| all.push((frame, handings)));
    all
}

#[test]
fn a_pools_region_is_the_memory_of_its_frames() {
    let pool = FramePool::new(3).unwrap();
    let frame = pool.get(FrameId(pool.first().0 + 2)).unwrap();
    frame.write(8, &7_u64.to_le_bytes());
    let words = pool.region().words();
    assert_eq!((words.len(), pool.pages()), (3 * PAGE_BYTES / 8, 3));
    assert_eq!(words[2 * PAGE_BYTES / 8 + 1].load(std::sync::atomic::Ordering::Relaxed), 7);
    assert!(pool.get(FrameId(pool.first().0 + 3)).is_none());
    assert!(pool.get(FrameId(pool.first().0.wrapping_sub(1))).is_none());
}

#[test]
fn other_components_know_a_frame_by_another_number() {
    let pool = attached(2);
    let theirs = pool.get(FrameId(pool.first().0 + 1)).unwrap();
    assert_eq!(theirs.partner_id(), FrameId(pool.first().0 + 1));
    let lent = Frame::lent(theirs.partner_id()).unwrap();
    let handed = Frame::handed(theirs.partner_id()).unwrap();
    assert!(lent == theirs && handed == theirs);
    assert_eq!(handed.partner_id(), theirs.partner_id(), "it goes back by the same number");
    // A number that is the component's own means nothing to others.
    assert!(Frame::lent(theirs.id()).is_none() && Frame::handed(theirs.id()).is_none());
    assert!(pool.get(theirs.id()).is_none());
    assert_eq!(memory::attach_pool(pool.region().clone(), theirs.id()), Err(NoMemory));
}

#[test]
fn each_frame_is_taken_once_until_it_is_dropped() {
    let pool = FramePool::new(5).unwrap();
    let all: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(all.iter().map(Frame::id).collect::<BTreeSet<_>>().len(), 5);
    assert!(
        all.iter().all(|frame| frame.references() == 2 && pool.get(frame.partner_id()).is_some())
    );
    let kept = all[3].clone();
    drop(all);
    let again: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(again.len(), 4);
    assert!(!again.contains(&kept));
    drop(kept);
    assert!(pool.take().is_some());
}

#[test]
fn no_two_threads_take_the_same_frame() {
    let pool = Arc::new(FramePool::new(64).unwrap());
    let (sender, receiver) = mpsc::channel();
    for _ in 0..4 {
        let (pool, sender) = (pool.clone(), sender.clone());
        let take = move || {
            for _ in 0..200 {
                let mine: Vec<Frame> = std::iter::from_fn(|| pool.take()).take(20).collect();
                let is_alone = mine.iter().all(|frame| frame.references() == 2);
                assert!(is_alone && mine.iter().collect::<HashSet<_>>().len() == mine.len());
            }
            sender.send(std::iter::from_fn(|| pool.take()).take(12).collect::<Vec<_>>()).unwrap();
        };
        thread::spawn("taker", Policy::default(), take).unwrap();
    }
    drop(sender);
    let all: Vec<Frame> = receiver.iter().flatten().collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 48);
}

#[test]
fn a_frame_outlives_its_pool() {
    let pool = FramePool::new(4).unwrap();
    let frame = pool.take().unwrap();
    frame.write(0, b"kept");
    drop(pool);
    let mut back = [0; 4];
    assert_eq!((frame.read(0, &mut back), frame.references()), (4, 1));
    assert_eq!(&back, b"kept");
}

#[test]
fn pools_that_cannot_be_are_refused() {
    for pages in [0, POOL_PAGES + 1, usize::MAX] {
        assert_eq!(FramePool::new(pages).err(), Some(NoMemory));
    }
    host::refuse_after(Some(0));
    assert_eq!(FramePool::new(1).err(), Some(NoMemory));
    host::refuse_after(None);
    let pool = FramePool::new(2).unwrap();
    let beside = FrameId(pool.first().0 + 1);
    assert_eq!(memory::attach_pool(pool.region().clone(), beside), Err(NoMemory));
    let region = Region::new(2 * PAGE_BYTES).unwrap();
    assert_eq!(memory::attach_pool(region, pool.first()), Err(NoMemory));
    assert!(Frame::handed(pool.first()).is_none());
}

#[test]
fn a_handed_frame_is_read_in_place_and_never_written() {
    let pool = attached(2);
    let theirs = pool.take().unwrap();
    theirs.write(10, b"contents");
    let mut frame = Frame::handed(theirs.partner_id()).unwrap();
    let mut back = [0; 8];
    assert_eq!((frame.read(10, &mut back), &back), (8, b"contents"));
    assert_eq!((frame.write(10, b"x"), frame.exclusive().is_none()), (0, true));
    frame.zero(0, PAGE_BYTES);
    frame.copy_from(&Frame::zeroed().unwrap());
    assert_eq!((theirs.read(10, &mut back), &back), (8, b"contents"));
    assert_eq!((&frame, frame.references()), (&theirs, 2));
    assert_eq!(theirs.references(), 2, "the client's references are its own");
}

#[test]
fn a_frame_is_released_with_the_last_reference_of_the_component() {
    let pool = attached(3);
    let theirs = pool.take().unwrap();
    let frame = Frame::handed(theirs.partner_id()).unwrap();
    let again = Frame::handed(theirs.partner_id()).unwrap();
    let clone = frame.clone();
    drop((frame, again));
    assert_eq!((released(), clone.references()), (vec![], 2));
    drop(clone);
    assert_eq!(released(), [(theirs.partner_id(), 2)]);
    assert_eq!(released(), []);
}

#[test]
fn threads_of_a_component_share_its_pools_and_others_do_not() {
    let pool = attached(1);
    let theirs = pool.take().unwrap();
    let (own, id) = (theirs.id(), theirs.partner_id());
    let (sender, receiver) = mpsc::channel();
    let read = move || sender.send(Frame::handed(id).is_some_and(|frame| frame.id() == own));
    thread::spawn("reader", Policy::default(), move || read().unwrap()).unwrap();
    assert!(receiver.recv().unwrap());
    let other = std::thread::spawn(move || (Frame::handed(id).is_none(), released()));
    assert_eq!(other.join().unwrap(), (true, vec![]));
    assert_eq!(released(), [(id, 1)]);
}

#[test]
#[should_panic(expected = "its client has dropped it")]
fn a_frame_that_its_client_dropped_too_early_is_noticed() {
    let pool = FramePool::new(1).unwrap();
    memory::attach_pool(pool.region().clone(), pool.first()).unwrap();
    let other = Frame::zeroed().unwrap();
    assert!(Frame::handed(other.partner_id()).is_none());
    let frame = Frame::handed(pool.first()).unwrap();
    // The pool's own reference and that of the attached region are gone with the threads of the component.
    host::detach_pools();
    drop(pool);
    frame.read(0, &mut [0]);
}
