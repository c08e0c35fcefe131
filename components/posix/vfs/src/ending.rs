//! Long transfers of a program that is to end: nobody waits for their end. Looked at once in so many
//! bytes, as Linux does once in a page (`fatal_signal_pending`).
use rt::sync::Once;

/// Bytes from one look to the next.
const LOOK_BYTES: usize = 1 << 20;

static ASKED: Once<fn() -> bool> = Once::new();

/// Says who knows whether the calling thread's program is to end. Only the first word counts.
pub fn set_ending(is_ending: fn() -> bool) {
    ASKED.get_or_init(|| is_ending);
}

/// The place at which a transfer looks next.
pub(crate) struct Look {
    next: usize,
}

impl Look {
    pub(crate) fn new() -> Look {
        Look { next: LOOK_BYTES }
    }
    /// Whether to stop, with so many bytes done.
    #[inline]
    pub(crate) fn is_over(&mut self, done: usize) -> bool {
        done >= self.next && self.look(done)
    }
    #[cold]
    fn look(&mut self, done: usize) -> bool {
        self.next = done.saturating_add(LOOK_BYTES);
        ASKED.get().is_some_and(|is_ending| is_ending())
    }
}
