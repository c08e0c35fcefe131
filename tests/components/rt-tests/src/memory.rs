//! Frames and charges.
use crate::{Test, on_thread};
use alloc::vec::Vec;
use rt::{
    NoMemory, PAGE_BYTES,
    memory::{Charge, Frame},
};

pub(crate) const TESTS: &[Test] = &[
    ("a frame is exclusive only without other references", exclusive),
    ("a new frame is zero, whatever its predecessor held", zeroed),
    ("frames keep what was written, and no more than fits", contents),
    ("references are counted on all threads", counted),
    ("a charge beyond all memory is refused and changes nothing", refused),
];

fn exclusive() {
    let mut frame = Frame::zeroed().unwrap();
    frame.exclusive().unwrap()[7] = 9;
    let other = frame.clone();
    assert_eq!(frame.references(), 2);
    assert!(frame.exclusive().is_none());
    let mut byte = [0];
    assert_eq!(other.read(7, &mut byte), 1);
    assert_eq!(byte, [9]);
    drop(other);
    assert!(frame.exclusive().is_some());
    assert_eq!(frame.write(PAGE_BYTES - 2, b"abc"), 2);
    assert_eq!(frame.read(PAGE_BYTES, &mut byte), 0);
}

fn is_zero(frame: &Frame) -> bool {
    let mut part = [1; 512];
    (0..PAGE_BYTES).step_by(part.len()).all(|at| {
        assert_eq!(frame.read(at, &mut part), part.len());
        part.iter().all(|byte| *byte == 0)
    })
}

fn zeroed() {
    for round in 0..3 {
        let mut frames = Vec::new();
        Frame::allocate_zeroed(20, &mut frames).unwrap();
        assert!(frames.iter().all(is_zero), "round {round}");
        frames.iter().for_each(|frame| assert_eq!(frame.write(100 * round, &[7; 300]), 300));
    }
}

fn contents() {
    let (from, to) = (Frame::zeroed().unwrap(), Frame::unfilled().unwrap());
    assert_ne!(from.id(), to.id());
    let data: Vec<u8> = (0..=255).cycle().take(PAGE_BYTES).collect();
    assert_eq!(from.write(0, &data), PAGE_BYTES);
    to.copy_from(&from);
    from.zero(3, PAGE_BYTES);
    let mut back = [0; 600];
    assert_eq!(to.read(PAGE_BYTES - 600, &mut back), 600);
    assert_eq!(back, data[PAGE_BYTES - 600..]);
    assert_eq!(from.read(0, &mut back), 600);
    assert_eq!((&back[..3], back[3..].iter().any(|byte| *byte != 0)), (&data[..3], false));
}

fn counted() {
    let frame = Frame::zeroed().unwrap();
    let churn = |frame: Frame| move || (0..1000).for_each(|_| drop(frame.clone()));
    let threads: Vec<_> = (0..4).map(|_| on_thread(churn(frame.clone()))).collect();
    let allocates = on_thread(|| (0..1000).for_each(|_| drop(Frame::unfilled().unwrap())));
    threads.into_iter().for_each(|thread| thread.join());
    allocates.join();
    assert_eq!(frame.references(), 1);
}

fn refused() {
    let mut charge = Charge::take(1000).unwrap();
    assert_eq!(charge.grow(usize::MAX).err(), Some(NoMemory));
    assert_eq!(charge.bytes(), 1000);
    charge.grow(24).unwrap();
    assert_eq!(charge.bytes(), 1024);
}
