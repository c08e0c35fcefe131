//! The turn to send: it is one thread's at a time, to whom others hand over their requests instead of waiting for it.
//!
//! A thread that ends its turn looks for requests handed over meanwhile, and one that hands some over looks whether the
//! turn has ended meanwhile: of the two, one sees the other.
use super::{BlockSink, Request};
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::*};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static HANDED = "block.proxy.handed";
}

/// Most batches that are handed over at once; who has more waits for the link's lock.
const HANDED_MAX: usize = 16;

/// Requests, and who is told of them.
pub(crate) type Batch = (Vec<Request>, Arc<dyn BlockSink>);

/// See the module's page.
pub(crate) struct Turn {
    is_taken: AtomicBool,
    has_handed: AtomicBool,
    handed: Mutex<VecDeque<Batch>>,
}

impl Turn {
    /// Nobody's.
    pub(crate) fn new() -> Turn {
        Turn {
            is_taken: AtomicBool::new(false),
            has_handed: AtomicBool::new(false),
            handed: Mutex::new(&HANDED, VecDeque::with_capacity(HANDED_MAX)),
        }
    }

    /// Takes the turn, unless another has it.
    #[inline]
    #[must_use]
    pub(crate) fn take(&self) -> bool {
        !self.is_taken.swap(true, SeqCst)
    }

    /// Ends the turn; whether it was taken again, for what was handed over.
    #[inline]
    #[must_use]
    pub(crate) fn end(&self) -> bool {
        self.is_taken.store(false, SeqCst);
        self.has_handed.load(SeqCst) && self.take()
    }

    /// Hands a batch over to who has the turn; whether the turn was taken, as nobody has it any more.
    ///
    /// # Errors
    /// The batch, where too many were.
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

    /// The next batch that was handed over.
    #[cold]
    pub(crate) fn next(&self) -> Option<Batch> {
        let mut handed = self.handed.lock();
        let next = handed.pop_front();
        self.has_handed.store(!handed.is_empty(), SeqCst);
        next
    }
}
