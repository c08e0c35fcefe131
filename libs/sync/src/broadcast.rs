//! Requests from one processor to others, which the sender waits for, as a TLB shootdown is.
//!
//! Each processor has one request, which it fills as a sender, and a word of pending senders, which it serves as a target: by
//! interrupt, or while it waits itself. So two senders never wait for each other. No lock; a send takes one atomic step for each
//! target, an answer one for each sender.
use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Words of a request.
pub const WORDS: usize = 3;

#[derive(Debug)]
struct Request {
    words: [AtomicU64; WORDS],
    /// Number of targets that have not answered.
    remaining: AtomicU32,
}

/// The requests among at most `PROCESSORS` processors, which is at most 64.
#[derive(Debug)]
pub struct Broadcast<const PROCESSORS: usize> {
    requests: [Request; PROCESSORS],
    /// The set of senders whose request each processor has not taken.
    pending: [AtomicU64; PROCESSORS],
}

#[cfg(not(loom))]
impl<const PROCESSORS: usize> Broadcast<PROCESSORS> {
    /// Makes the requests, none of which is under way.
    #[allow(clippy::new_without_default, reason = "it is made as a static")]
    pub const fn new() -> Broadcast<PROCESSORS> {
        Broadcast {
            requests: [const {
                Request {
                    words: [const { AtomicU64::new(0) }; WORDS],
                    remaining: AtomicU32::new(0),
                }
            }; PROCESSORS],
            pending: [const { AtomicU64::new(0) }; PROCESSORS],
        }
    }
}

#[cfg(loom)]
impl<const PROCESSORS: usize> Broadcast<PROCESSORS> {
    /// Makes the requests, none of which is under way.
    pub fn new() -> Broadcast<PROCESSORS> {
        let words = || core::array::from_fn(|_| AtomicU64::new(0));
        let request = |_| Request { words: words(), remaining: AtomicU32::new(0) };
        Broadcast {
            requests: core::array::from_fn(request),
            pending: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl<const PROCESSORS: usize> Broadcast<PROCESSORS> {
    /// Sends `words` from processor `me` to the set `targets`, without `me`, and waits for all answers. Calls `interrupt` with each
    /// target that may not be about to look by itself, and `idle` whenever it finds answers missing: that calls
    /// [`Broadcast::answer`] for `me`. Nothing else runs on `me` that sends.
    ///
    /// # Panics
    /// Panics if a processor is none of `PROCESSORS`.
    pub fn ask(
        &self,
        me: usize,
        targets: u64,
        words: [u64; WORDS],
        interrupt: impl Fn(usize),
        mut idle: impl FnMut(),
    ) {
        let request = &self.requests[me];
        request.words.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
        request.remaining.store(targets.count_ones(), Release);
        for target in each(targets) {
            if self.pending[target].fetch_or(1 << me, AcqRel) == 0 {
                interrupt(target);
            }
        }
        while request.remaining.load(Acquire) != 0 {
            idle();
        }
    }

    /// Calls `act` with the words of each request that waits for processor `me`, and answers it afterwards.
    ///
    /// # Panics
    /// Panics if `me` is none of `PROCESSORS`.
    pub fn answer(&self, me: usize, mut act: impl FnMut([u64; WORDS])) {
        for sender in each(self.pending[me].swap(0, AcqRel)) {
            let request = &self.requests[sender];
            act(core::array::from_fn(|word| request.words[word].load(Relaxed)));
            request.remaining.fetch_sub(1, Release);
        }
    }
}

/// Iterates over the bits of a set.
fn each(mut set: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (first < 64).then_some(first)
    })
}
