//! The state that the page caches of a file system share with its flusher: [`Throttle`].
//!
//! It counts their dirty pages, keeps the errors of writing, wakes the flusher, and slows writers down: they wait in
//! [`Throttle::balance`] for writes to end while the hard limit of [`tally::limits`] is passed, unless nothing ends any more
//! (a device that hangs). Source: Linux's vm.dirty_* sysctls.
use crate::{
    base::{errors::ErrorSequence, host::Host},
    pages::{
        stores,
        tally::{self, Tally},
    },
};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use rt::{
    sync::{Event, Ticket},
    thread::Woken,
    time::Instant,
};

/// Time that a writer waits for one write to end before it checks again.
const PAUSE_NS: u64 = 1_000_000_000 / 5;
/// Number of pauses without the end of any write after which a writer continues: the device hangs.
const FRUITLESS_PAUSES: u32 = 5;

/// Event of the end of a write, on any file system.
static PROGRESS: Event = Event::new();

/// The dirty pages of one file system.
pub(crate) struct Throttle {
    host: &'static dyn Host,
    tally: Arc<Tally>,
    errors: ErrorSequence,
    /// The flusher waits for it.
    wake: Event,
    is_urgent: AtomicBool,
}

impl Throttle {
    pub(crate) fn new(tally: Arc<Tally>, host: &'static dyn Host) -> Arc<Throttle> {
        Arc::new(Throttle {
            host,
            tally,
            errors: ErrorSequence::new(),
            wake: Event::new(),
            is_urgent: AtomicBool::new(false),
        })
    }
    /// The keeper of the tasks that use the file system.
    #[inline]
    pub(crate) fn host(&self) -> &'static dyn Host {
        self.host
    }
    /// Returns the counts of its pages.
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }
    /// Returns the errors of all its files, for syncfs.
    pub(crate) fn errors(&self) -> &ErrorSequence {
        &self.errors
    }
    /// The event for which the flusher waits.
    pub(crate) fn wake(&self) -> &Event {
        &self.wake
    }
    /// Everything is to be written at once; changed by the flusher.
    pub(crate) fn is_urgent(&self) -> &AtomicBool {
        &self.is_urgent
    }
    /// Tells writers that wait that writes have ended.
    pub(crate) fn note_progress(&self) {
        PROGRESS.signal();
    }
    /// Has the flusher write everything now (memory is short).
    pub(crate) fn hurry(&self) {
        if self.tally.dirty() > 0 {
            self.is_urgent.store(true, Ordering::Release);
            self.wake.signal();
        }
    }
    /// A writer that made pages dirty calls this, with no lock of the page cache held. It wakes the flusher where many pages are
    /// dirty, and waits where there are too many.
    pub(crate) fn balance(&self) {
        let limits = tally::limits();
        if !is_over(limits.background) {
            return;
        }
        self.wake.signal();
        if !is_over(limits.hard) {
            return;
        }
        let mut fruitless = 0;
        while fruitless < FRUITLESS_PAUSES {
            let ticket = PROGRESS.ticket();
            if !is_over(tally::limits().hard) {
                return;
            }
            stores::all().iter().for_each(|store| store.wake_flusher());
            fruitless = match pause(ticket) {
                Woken::TimedOut => fruitless + 1,
                _ => 0,
            };
        }
    }
}

/// Makes every file system write its dirty pages, and waits a little for some to be written. Returns whether there was
/// anything to wait for.
pub(crate) fn write_for_room() -> bool {
    let ticket = PROGRESS.ticket();
    let pages = tally::dirty_pages();
    if pages.dirty + pages.writing == 0 {
        return false;
    }
    hurry_all();
    pause(ticket) != Woken::TimedOut
}

/// Makes every file system write its dirty pages now.
pub(crate) fn hurry_all() {
    if tally::dirty_pages().dirty > 0 {
        stores::all().iter().for_each(|store| store.hurry_flusher());
    }
}

fn pause(ticket: Ticket) -> Woken {
    let until = Instant(rt::time::now().0.saturating_add(PAUSE_NS));
    PROGRESS.wait(ticket, Some(until))
}

/// More pages than `limit` are dirty or being written.
pub(crate) fn is_over(limit: u64) -> bool {
    let pages = tally::dirty_pages();
    pages.dirty + pages.writing > limit
}
