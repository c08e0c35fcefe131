//! Checks that without statistics and checks a lock consists only of its words and its
//! data.
use crate::{
    Outcome, Platform, Sleep, atomic::AtomicU32, class::Wait, event::RawEvent, mutex::Mutex,
    rwlock::RwLock, spin::RawSpin,
};

/// A platform that only serves to name types.
struct Nowhere;

impl Platform for Nowhere {
    fn wait(_: &AtomicU32, _: u32, _: Option<u64>, _: Sleep) -> Outcome {
        Outcome::Signalled
    }
    fn wake(_: &AtomicU32, _: u32) -> u32 {
        0
    }
    fn current() -> u64 {
        0
    }
    fn now_ns() -> u64 {
        0
    }
}

const WORD: usize = size_of::<u32>();
const _: () = assert!(size_of::<Mutex<u32, Nowhere>>() == WORD + WORD);
const _: () = assert!(size_of::<RwLock<u32, Nowhere>>() == 2 * WORD + WORD);
const _: () = assert!(size_of::<RawSpin<Nowhere>>() == WORD);
const _: () = assert!(size_of::<RawEvent<Nowhere>>() == WORD);
const _: () = assert!(size_of::<Wait<Nowhere>>() == 0);
