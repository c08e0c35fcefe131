//! Tests of the process world alone: a component's grant, its pools, lent frames, windows.
use crate::Test;
use alloc::{boxed::Box, vec, vec::Vec};
use rt::{
    NoMemory, PAGE_BYTES,
    device::frame_address,
    memory::{self, Charge, Frame, FrameId, Region},
    message::Capability,
    thread::{self, Affinity},
    time,
    window::{Access, CopyError, Window},
};

pub(crate) const TESTS: &[Test] = &[
    ("a lent frame has an address for devices and no contents", lent),
    ("an own frame has contents and no address for devices", own),
    ("frames are refused before the grant is used up, and go back", frames_end),
    ("charges are refused before the grant is used up", charges_end),
    ("short memory is noticed, and over when it is given back", pressure),
    ("small pieces that were freed go back when memory shrinks", heap_shrinks),
    ("a thread knows the processor that it is bound to", tells_processor),
    ("a window shows what its owner allows", windows),
];

/// A small piece of heap memory. (`dlmalloc` keeps a mapping at whose end a piece leaves less than 32 bytes, as one of 64 does.)
type Piece = [u64; 12];

/// Takes heap memory in small pieces until less than `rest_frames` of the grant are left.
#[expect(clippy::vec_box, reason = "each piece is to be an allocation of its own")]
fn take_heap(rest_frames: u64) -> Vec<Box<Piece>> {
    let mut pieces = Vec::with_capacity(
        memory::statistics().total_frames as usize * PAGE_BYTES / size_of::<Piece>(),
    );
    while memory::statistics().free_frames > rest_frames {
        pieces.push(Box::new([0; 12]));
    }
    pieces
}

/// Takes heap memory beyond what must stay free and frees it, so that the heap keeps it for pieces of that size. The next ping
/// finds memory full and gives it back; the supervisor would end the component otherwise.
pub(crate) fn leave_free_memory() {
    drop(take_heap(memory::statistics().total_frames / 32));
    assert!(memory::is_full());
}

fn heap_shrinks() {
    memory::shrink();
    let before = memory::statistics();
    drop(take_heap(before.free_frames / 2));
    assert!(memory::statistics().heap_frames > before.heap_frames + before.free_frames / 4);
    memory::shrink();
    assert!(
        memory::statistics().heap_frames <= before.heap_frames + 32,
        "{before:?} {:?}",
        memory::statistics()
    );
}

/// Logs each time to which the wall clock is set.
pub(crate) fn report_wall() {
    const SECOND_NS: u64 = 1_000_000_000;
    let offset_ns = || time::wall_ns().wrapping_sub(time::now().0);
    let mut before_ns = offset_ns();
    loop {
        time::sleep_until(time::now().after_ns(SECOND_NS / 50));
        let now_ns = offset_ns();
        if now_ns.abs_diff(before_ns) > SECOND_NS {
            log::info!(
                "the wall clock was set: it is {} ks now",
                time::wall_ns() / SECOND_NS / 1000
            );
            before_ns = now_ns;
        }
    }
}

fn tells_processor() {
    let me = thread::current();
    for number in 0..thread::processors().0 {
        assert!(thread::set_affinity(me, Affinity(1 << number)));
        thread::yield_now();
        assert_eq!(thread::processors().1, number);
    }
    assert!(thread::set_affinity(me, Affinity::ANY));
}

fn lent() {
    let mut frame = Frame::lent(FrameId(5)).unwrap();
    let mut byte = [7];
    assert_eq!((frame.read(0, &mut byte), byte), (0, [7]));
    assert_eq!(frame.write(0, &byte), 0);
    assert!(frame.exclusive().is_none() && frame.clone().references() > 1);
    assert_eq!(frame_address(&frame), Some(5 * PAGE_BYTES as u64));
}

fn own() {
    let frame = Frame::zeroed().unwrap();
    assert_eq!(frame_address(&frame), None);
    assert!(Frame::lent(frame.id()).is_none(), "a client cannot name it");
}

/// Takes all frames that there are.
fn take_all() -> Vec<Frame> {
    let most = memory::statistics().total_frames as usize;
    let mut all = Vec::with_capacity(most);
    while let Ok(frame) = Frame::unfilled() {
        frame.write(0, &frame.id().0.to_le_bytes());
        all.push(frame);
    }
    all
}

fn frames_end() {
    memory::shrink();
    let before = memory::statistics();
    let all = take_all();
    let parts = (before.total_frames as usize / 2, before.total_frames as usize * 7 / 8);
    assert!(parts.0 < all.len() && all.len() < parts.1, "{} of {before:?}", all.len());
    for frame in &all {
        let mut number = [0; 4];
        frame.read(0, &mut number);
        assert_eq!(u32::from_le_bytes(number), frame.id().0, "no two are the same");
    }
    // Those between them go first, so that each pool is emptied piece by piece.
    let (odd, even): (Vec<_>, Vec<_>) = all.into_iter().partition(|frame| frame.id().0 % 2 == 1);
    drop(odd);
    let again = take_all();
    drop((even, again));
    memory::shrink();
    assert_eq!(memory::statistics().free_frames, before.free_frames, "{before:?}");
}

fn charges_end() {
    let granted = memory::statistics().total_frames as usize * PAGE_BYTES;
    let mut charge = Charge::none();
    while charge.grow(PAGE_BYTES).is_ok() {}
    let most = charge.bytes();
    assert!(granted / 2 < most && most < granted * 7 / 8, "{most} of {granted}");
    assert_eq!(Charge::take(PAGE_BYTES).err(), Some(NoMemory));
    memory::with_reserve(|| charge.grow(PAGE_BYTES)).unwrap();
    assert_eq!(charge.grow(PAGE_BYTES), Err(NoMemory), "the reserve was left");
    drop(charge);
    drop(Charge::take(PAGE_BYTES).unwrap());
}

fn pressure() {
    assert!(!memory::is_full() && !memory::is_short());
    let all = take_all();
    assert!(memory::is_full());
    let more = memory::with_reserve(take_all);
    assert!(memory::is_short());
    drop((all, more));
    memory::shrink();
    assert!(!memory::is_full() && !memory::is_short());
}

fn windows() {
    let region = Region::new(PAGE_BYTES).unwrap();
    let access = Access { can_read: true, can_write: false };
    let window = Window::open(&region, 8, 16, access).unwrap();
    let Capability::View(view) = window.capability() else { panic!("no view") };
    region.words()[2]
        .store(u64::from_le_bytes(*b"contents"), core::sync::atomic::Ordering::Relaxed);
    let mut out = vec![0; 8];
    view.read(8, &mut out).unwrap();
    assert_eq!(out, b"contents");
    assert_eq!(view.write(0, b"x"), Err(CopyError::Fault));
    assert_eq!(view.read(9, &mut out), Err(CopyError::Fault));
    drop(window);
    assert_eq!(view.read(0, &mut out), Err(CopyError::Gone));
}
