//! [`Requests`]: the tasks of the thread of a mount, which commits and empties the journal.
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use rt::sync::Event;

/// The tasks that the thread of a mount is asked for. Locks: none; a caller may hold locks that no commit takes.
pub(crate) struct Requests {
    /// The last transaction that is to be committed.
    wanted: AtomicU64,
    must_checkpoint: AtomicBool,
    /// Signalled when something is asked for.
    pub(crate) wake: Event,
    has_thread: AtomicBool,
    is_over: AtomicBool,
}

impl Requests {
    /// Makes an empty list of requests, without a thread.
    pub(crate) fn new() -> Arc<Requests> {
        Arc::new(Requests {
            wanted: AtomicU64::new(0),
            must_checkpoint: AtomicBool::new(false),
            wake: Event::new(),
            has_thread: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// Returns whether the thread runs.
    pub(crate) fn is_there(&self) -> bool {
        self.has_thread.load(Acquire)
    }

    /// Asks for a commit of transaction `id` soon.
    pub(crate) fn want(&self, id: u64) {
        if self.wanted.load(Relaxed) < id {
            self.wanted.fetch_max(id, AcqRel);
            self.wake.signal();
        }
    }

    /// Asks for the journal to be emptied soon. Returns `false` if the caller must do it.
    pub(crate) fn want_checkpoint(&self) -> bool {
        if !self.is_there() {
            return false;
        }
        self.must_checkpoint.store(true, Release);
        self.wake.signal();
        true
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Release);
        self.wake.signal();
    }

    /// Has the caller be the thread; `false` where there is one.
    pub(crate) fn take_thread(&self) -> bool {
        !self.has_thread.swap(true, AcqRel)
    }

    /// There is no thread after all.
    pub(crate) fn lack_thread(&self) {
        self.has_thread.store(false, Release);
    }

    /// The last transaction that is to be committed.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted.load(Acquire)
    }

    /// Whether the journal is to be emptied, which the caller does.
    pub(crate) fn take_checkpoint(&self) -> bool {
        self.must_checkpoint.swap(false, AcqRel)
    }

    /// The thread is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Acquire)
    }
}
