//! The turn to send. One thread at a time has it; others hand their requests over to that thread instead of waiting.
//!
//! A thread that ends its turn looks for requests handed over meanwhile, and a thread that hands some over looks
//! whether the turn has ended meanwhile. At least one of the two sees the other.
use super::{BlockSink, Request};
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::*};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static HANDED = "block.proxy.handed";
}

/// Most batches that are handed over at once. A thread that finds no room waits for the link's lock.
const HANDED_MAX: usize = 16;

/// Requests and the sink that is told of their ends.
pub(crate) type Batch = (Vec<Request>, Arc<dyn BlockSink>);

/// The turn to send, and the batches handed over to its holder.
pub(crate) struct Turn {
    is_taken: AtomicBool,
    has_handed: AtomicBool,
    handed: Mutex<VecDeque<Batch>>,
}

impl Turn {
    /// Makes a turn that no thread has.
    pub(crate) fn new() -> Turn {
        Turn {
            is_taken: AtomicBool::new(false),
            has_handed: AtomicBool::new(false),
            handed: Mutex::new(&HANDED, VecDeque::with_capacity(HANDED_MAX)),
        }
    }

    /// Takes the turn. Returns `false` if another thread has it.
    #[inline]
    #[must_use]
    pub(crate) fn take(&self) -> bool {
        !self.is_taken.swap(true, SeqCst)
    }

    /// Ends the turn. Returns whether it was taken again, because batches were handed over.
    #[inline]
    #[must_use]
    pub(crate) fn end(&self) -> bool {
        self.is_taken.store(false, SeqCst);
        self.has_handed.load(SeqCst) && self.take()
    }

    /// Hands a batch over to the thread that has the turn. Returns whether this thread has taken the turn, because no
    /// thread has it any more.
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
