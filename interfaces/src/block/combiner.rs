//! Flat combining of senders (Hendler and others, 2010): one thread at a time is the combiner, which sends its own requests and
//! those that other threads queue for it instead of waiting.
//!
//! The combiner drains the queued batches before it stops, and a thread that queues one checks whether the combiner has stopped
//! meanwhile. At least one of the two sees the other.
use super::{BlockSink, Request};
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::*};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static HANDED = "block.proxy.handed";
}

/// The greatest number of batches that are handed over at once. A thread that finds no room waits for the link's lock.
const HANDED_MAX: usize = 16;

/// Requests and the sink that is told of their ends.
pub(crate) type Batch = (Vec<Request>, Arc<dyn BlockSink>);

/// The role of the combiner, and the batches queued for it.
pub(crate) struct Combiner {
    is_taken: AtomicBool,
    has_handed: AtomicBool,
    handed: Mutex<VecDeque<Batch>>,
}

impl Combiner {
    /// Makes one without a combiner.
    pub(crate) fn new() -> Combiner {
        Combiner {
            is_taken: AtomicBool::new(false),
            has_handed: AtomicBool::new(false),
            handed: Mutex::new(&HANDED, VecDeque::with_capacity(HANDED_MAX)),
        }
    }

    /// Makes this thread the combiner. Returns `false` if another thread is it.
    #[inline]
    #[must_use]
    pub(crate) fn take(&self) -> bool {
        !self.is_taken.swap(true, SeqCst)
    }

    /// Ends the role of this thread. Returns whether it took the role again, because batches were queued.
    #[inline]
    #[must_use]
    pub(crate) fn end(&self) -> bool {
        self.is_taken.store(false, SeqCst);
        self.has_handed.load(SeqCst) && self.take()
    }

    /// Queues a batch for the combiner. Returns whether this thread became the combiner, because there was none any more.
    ///
    /// # Errors
    /// The batch, if too many were handed over.
    #[cold]
    pub(crate) fn hand(&self, batch: Batch) -> Result<bool, Batch> {
        {
            let mut handed = self.handed.lock();
            if handed.len() >= HANDED_MAX {
                return Err(batch);
            }
            handed.push_back(batch);
            self.has_handed.store(true, SeqCst);
        }
        Ok(self.take())
    }

    /// Returns the next batch that was handed over.
    #[cold]
    pub(crate) fn next(&self) -> Option<Batch> {
        let mut handed = self.handed.lock();
        let next = handed.pop_front();
        self.has_handed.store(!handed.is_empty(), SeqCst);
        next
    }
}
