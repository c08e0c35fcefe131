//! Requests at the driver, and their ends: the state that both directions of [`super::remote`] share.
//!
//! A request that is sent has a slot. Its tag in the rings is the slot's number and, above bit 32, the number of requests that
//! the slot has had, so a completion ends no other request. The sender takes a slot and the taker of completions gives it back,
//! each by an atomic step; the slot's own lock hands the request from one to the other. Ended requests are counted under the
//! lock of [`Completing`], so by one writer, and the sender reads the count.
//!
//! A request's frames are lent to the driver's devices before it is sent. They are taken back ([`give_back`]) after its
//! completion was taken, without that lock.
use super::{
    BlockError, BlockSink, Operation, Request, Segment, SequenceStep,
    entries::{self, CompletionEntry, ENTRIES},
};
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use rt::{
    device::{DmaWindow, Loan},
    lock_class,
    memory::FrameId,
    ring::{Consumer, Corrupt, Part},
    sync::{Mutex, MutexGuard},
};

lock_class! {
    static SLOT = "block.slot";
    static COMPLETING = "block.proxy.completions";
}

/// Slots in a word of the bitmap of free slots.
const WORD_SLOTS: usize = u64::BITS as usize;
const _: () = assert!(ENTRIES.is_multiple_of(WORD_SLOTS));
/// The greatest number of completions taken under one hold of the lock.
pub(crate) const BATCH: usize = 4;
/// The greatest number of loans taken back at once.
const LOANS: usize = 64;
/// The greatest number of times that a request is issued again because a driver reported an error for it and died. Without this
/// limit, a request at which every driver dies would never end.
const RETRIES_MAX: u8 = 3;

/// A request or sequence that was taken from a client and has not ended.
pub(crate) struct Flight {
    pub(crate) request: Request,
    /// The further requests of a sequence.
    pub(crate) more: Vec<SequenceStep>,
    pub(crate) sink: Arc<dyn BlockSink>,
    /// The request's number in the order of submission.
    pub(crate) order: u64,
    /// Times that the request was issued again because the driver that reported an error for it died.
    pub(crate) retries: u8,
    /// The driver has the request, and its frames are lent.
    pub(crate) is_sent: bool,
}

impl Flight {
    /// Returns the loans of the request's frames.
    pub(crate) fn loans(&self) -> impl Iterator<Item = Loan> {
        let is_written = self.is_written();
        let more = self.more.iter().flat_map(|step| &step.request.segments);
        self.request
            .segments
            .iter()
            .chain(more)
            .map(move |segment| Loan { frame: segment.frame.id(), is_written })
    }

    /// Returns the number of ring entries that the request takes.
    pub(crate) fn entries(&self) -> usize {
        let more = self.more.iter().map(|step| entries::entries_for(&step.request));
        entries::entries_for(&self.request) + more.sum::<usize>()
    }

    /// Returns whether the request is a barrier when requests are sent to another driver again: those before it end first.
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(self.request.operation, Operation::Flush) || !self.more.is_empty()
    }

    /// Returns whether the next error is passed on to the client, whether or not the driver that reports it dies.
    pub(crate) fn is_retried_enough(&self) -> bool {
        self.retries >= RETRIES_MAX
    }

    /// Returns whether the device writes the frames. A sequence reads nothing.
    fn is_written(&self) -> bool {
        matches!(self.request.operation, Operation::Read)
    }

    /// Returns the index of the last request.
    fn last(&self) -> u32 {
        self.more.len() as u32
    }

    fn end(self, failed: Option<(u32, BlockError)>) -> Ended {
        let is_written = self.is_written();
        let (at, result) = failed.map_or((0, Ok(())), |(at, error)| (at, Err(error)));
        let behind = |at: usize| self.more.get(at).map(|step| step.request.tag);
        let tag = (at as usize).checked_sub(1).and_then(behind).unwrap_or(self.request.tag);
        let Flight { request: Request { mut segments, .. }, more, sink, .. } = self;
        for mut step in more {
            segments.append(&mut step.request.segments);
        }
        Ended { tag, sink, result, segments, is_written }
    }
}

/// A request that ended. Its frames must be taken back ([`give_back`]) before its client is told.
pub(crate) struct Ended {
    tag: u64,
    sink: Arc<dyn BlockSink>,
    result: Result<(), BlockError>,
    segments: Vec<Segment>,
    /// Access for which the frames were lent.
    is_written: bool,
}

impl Ended {
    fn loans(&self) -> impl Iterator<Item = Loan> {
        let is_written = self.is_written;
        self.segments.iter().map(move |segment| Loan { frame: segment.frame.id(), is_written })
    }
    /// Tells the client. Call this without locks.
    pub(crate) fn tell(&mut self) {
        // The frames are released first: a client that is told may look at their reference counts.
        drop(core::mem::take(&mut self.segments));
        self.sink.completed(self.tag, self.result);
    }
}

/// Takes back the frames of `ended` that were lent to `window`. This is expensive, because the hardware must flush its cached
/// entries; call it without locks.
pub(crate) fn give_back(window: &DmaWindow, ended: &[Option<Ended>]) {
    if let [Some(Ended { segments, is_written, .. })] = ended
        && let [segment] = segments.as_slice()
    {
        return window.take_back(&[Loan { frame: segment.frame.id(), is_written: *is_written }]);
    }
    take_back(window, ended.iter().flatten().flat_map(Ended::loans));
}

/// Takes back `loans`.
#[cold]
pub(crate) fn take_back(window: &DmaWindow, loans: impl Iterator<Item = Loan>) {
    let mut returned = [Loan { frame: FrameId(0), is_written: false }; LOANS];
    let mut count = 0;
    for loan in loans {
        if count == LOANS {
            window.take_back(&returned);
            count = 0;
        }
        if let Some(place) = returned.get_mut(count) {
            *place = loan;
            count += 1;
        }
    }
    window.take_back(returned.get(..count).unwrap_or_default());
}

/// An error that is held back.
#[derive(Clone, Copy)]
struct Doubt {
    /// Number of the error among all errors.
    which: u64,
    /// Index of the failed request.
    at: u32,
    error: BlockError,
}

#[derive(Default)]
struct RequestSlot {
    generation: u32,
    flight: Option<Flight>,
    /// An error that the driver reported and the client was not told yet ([`super::doubts`]).
    doubt: Option<Doubt>,
}

impl RequestSlot {
    fn take(&mut self) -> Option<Flight> {
        self.generation = self.generation.wrapping_add(1);
        self.flight.take()
    }
}

/// State that the taker of completions locks.
pub(crate) struct Completing {
    pub(crate) received: Consumer<Part, CompletionEntry>,
    /// The window in which the frames of ended requests are lent.
    pub(crate) window: DmaWindow,
}

/// The next step of the taker of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// There are more completions.
    More,
    /// There are none; the bell rings when more come.
    Wait,
}

/// The slots of requests at the driver.
pub(crate) struct RequestSlots {
    slots: Vec<Mutex<RequestSlot>>,
    /// Bitmap of the slots; a set bit is a free slot.
    free: [AtomicU64; ENTRIES / WORD_SLOTS],
    /// Entries of all requests that ended so far.
    freed_entries: AtomicUsize,
    /// Requests that came back from the present driver, and the barriers among them.
    returned: AtomicUsize,
    returned_barriers: AtomicUsize,
    /// Requests wait to be sent until others have ended.
    has_unsent: AtomicBool,
    /// Requests ended with errors that the client was not told yet.
    has_doubts: AtomicBool,
    /// Errors that drivers reported so far.
    errors: AtomicU64,
    completing: Mutex<Completing>,
}

impl RequestSlots {
    /// Makes free slots. All memory that they will ever need is allocated here.
    pub(crate) fn new(received: Consumer<Part, CompletionEntry>) -> RequestSlots {
        let completing = Completing { received, window: DmaWindow::default() };
        RequestSlots {
            slots: (0..ENTRIES).map(|_| Mutex::new(&SLOT, RequestSlot::default())).collect(),
            free: [const { AtomicU64::new(u64::MAX) }; ENTRIES / WORD_SLOTS],
            freed_entries: AtomicUsize::new(0),
            returned: AtomicUsize::new(0),
            returned_barriers: AtomicUsize::new(0),
            has_unsent: AtomicBool::new(false),
            has_doubts: AtomicBool::new(false),
            errors: AtomicU64::new(0),
            completing: Mutex::new(&COMPLETING, completing),
        }
    }

    /// Locks the taking of completions.
    pub(crate) fn completing(&self) -> MutexGuard<'_, Completing> {
        self.completing.lock()
    }

    /// Returns the entries of all requests that ended so far.
    pub(crate) fn freed_entries(&self) -> usize {
        self.freed_entries.load(Acquire)
    }

    /// Returns the requests that came back from the present driver, and the barriers among them.
    pub(crate) fn returned(&self) -> (usize, usize) {
        (self.returned.load(Acquire), self.returned_barriers.load(Acquire))
    }

    /// Returns whether requests wait to be sent until others have ended.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.has_unsent.load(Acquire)
    }

    /// Sets whether requests wait to be sent. The sender calls this after it has sent all it could.
    pub(crate) fn set_unsent(&self, has_unsent: bool) {
        if self.has_unsent.load(Relaxed) != has_unsent {
            self.has_unsent.store(has_unsent, Release);
        }
    }

    /// Takes a free slot. Only one thread at a time may take; any thread may give back.
    #[inline]
    pub(crate) fn take(&self) -> Option<u32> {
        for (at, word) in self.free.iter().enumerate() {
            let free = word.load(Acquire);
            if free != 0 {
                word.fetch_and(!(free & free.wrapping_neg()), Relaxed);
                return Some((at * WORD_SLOTS) as u32 + free.trailing_zeros());
            }
        }
        None
    }

    /// Gives a slot back.
    #[inline]
    pub(crate) fn give(&self, number: u32) {
        if let Some(word) = self.free.get(number as usize / WORD_SLOTS) {
            word.fetch_or(1 << (number as usize % WORD_SLOTS), Release);
        }
    }

    /// Puts a request into a slot that was taken, and has `send` put it into the ring under its tag.
    #[inline]
    pub(crate) fn put<T>(
        &self,
        number: u32,
        flight: Flight,
        send: impl FnOnce(u64, &Flight) -> Result<T, Corrupt>,
    ) -> Result<T, Corrupt> {
        let mut slot = self.slots.get(number as usize).ok_or(Corrupt)?.lock();
        let tag = u64::from(slot.generation) << 32 | u64::from(number);
        // A request that is sent in part counts as sent: its frames are lent.
        send(tag, slot.flight.insert(flight))
    }

    /// Takes completions into `ended`. If there are no more, or one is malformed, it announces the wait.
    ///
    /// # Errors
    /// Those of [`RequestSlots::complete`].
    #[inline]
    pub(crate) fn take_completions(
        &self,
        completing: &mut Completing,
        places: &mut [Option<Ended>; BATCH],
        count: &mut usize,
    ) -> Result<NextStep, Corrupt> {
        let mut take = || {
            let waiting = completing.received.waiting()? as usize;
            for place in places.iter_mut().take(waiting) {
                let Some((entry, _)) = completing.received.pop()? else { break };
                self.complete(&completing.window, &entry, place)?;
                *count += 1;
            }
            Ok(waiting < BATCH)
        };
        let taken = take();
        if taken == Ok(false) {
            return Ok(NextStep::More);
        }
        let is_idle = completing.received.wait_begins()?;
        taken.map(|_| if is_idle { NextStep::Wait } else { NextStep::More })
    }

    /// Moves the request that a completion is about into `ended`; its frames must then be taken back. Leaves it in its slot if
    /// the driver gave it up when it stopped, because its successor will be sent it, or if the driver reports an error, which
    /// is held back ([`super::doubts`]).
    ///
    /// # Errors
    /// [`Corrupt`]: the driver was not sent any such request, or said so before.
    #[inline]
    fn complete(
        &self,
        window: &DmaWindow,
        entry: &CompletionEntry,
        ended: &mut Option<Ended>,
    ) -> Result<(), Corrupt> {
        let result = entry.result()?;
        let number = entry.tag as u32;
        let mut slot = self.slots.get(number as usize).ok_or(Corrupt)?.lock();
        let is_ours = u64::from(slot.generation) == entry.tag >> 32;
        let is_sent = |flight: &&mut Flight| flight.is_sent && is_ours;
        let flight = slot.flight.as_mut().filter(is_sent).ok_or(Corrupt)?;
        if entry.at > flight.last() {
            return Err(Corrupt);
        }
        add(&self.returned, 1);
        if flight.is_barrier() {
            add(&self.returned_barriers, 1);
        }
        if let Err(error) = result {
            flight.is_sent = false;
            take_back(window, flight.loans());
            slot.doubt = self.hold_back(entry.at, error);
            return Ok(());
        }
        let flight = slot.take();
        drop(slot);
        *ended = flight.map(|flight| self.end(Some(number), flight, None));
        Ok(())
    }

    /// Holds back the error of a request that the driver ended without success. The request keeps its slot until the error is
    /// settled. Returns the error, unless the request is to be sent again anyway.
    #[cold]
    fn hold_back(&self, at: u32, error: BlockError) -> Option<Doubt> {
        if error == BlockError::Restarted {
            return None;
        }
        self.has_doubts.store(true, Release);
        Some(Doubt { which: self.errors.fetch_add(1, AcqRel), at, error })
    }

    /// Returns the number of errors that drivers reported so far.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Acquire)
    }

    /// Returns whether errors are held back.
    #[inline]
    pub(crate) fn has_doubts(&self) -> bool {
        self.has_doubts.load(Acquire)
    }

    /// Ends one more request whose error was held back and for which `may_end`, called with the error's number, returns `true`.
    pub(crate) fn end_doubtful(&self, may_end: impl Fn(&Flight, u64) -> bool) -> Option<Ended> {
        let _completing = self.completing();
        let mut has_others = false;
        for (number, slot) in (0..).zip(&self.slots) {
            let mut slot = slot.lock();
            let Some(flight) = &slot.flight else { continue };
            let Some(Doubt { which, at, error }) = slot.doubt else { continue };
            if may_end(flight, which) {
                slot.doubt = None;
                let flight = slot.take()?;
                return Some(self.end(Some(number), flight, Some((at, error))));
            }
            has_others = true;
        }
        self.has_doubts.store(has_others, Release);
        None
    }

    /// Returns the order and the tag of the oldest request at the driver.
    pub(crate) fn oldest(&self) -> Option<(u64, u64)> {
        let order_and_tag = |number: usize| {
            let slot = self.slots.get(number)?.lock();
            let flight = slot.flight.as_ref().filter(|flight| flight.is_sent)?;
            Some((flight.order, u64::from(slot.generation) << 32 | number as u64))
        };
        self.taken().filter_map(order_and_tag).min()
    }

    /// Returns the numbers of the slots that are taken.
    fn taken(&self) -> impl Iterator<Item = usize> {
        let of_word = |(at, word): (usize, &AtomicU64)| {
            let taken = !word.load(Acquire);
            (0..WORD_SLOTS)
                .filter(move |bit| taken >> bit & 1 != 0)
                .map(move |bit| at * WORD_SLOTS + bit)
        };
        self.free.iter().enumerate().flat_map(of_word)
    }

    /// Ends a request: frees its slot, if it has one, and its entries of the ring.
    #[inline]
    fn end(&self, number: Option<u32>, flight: Flight, failed: Option<(u32, BlockError)>) -> Ended {
        if let Some(number) = number {
            self.give(number);
        }
        // The slot is given back before the entries are counted, so a sender that finds room also finds a slot.
        add(&self.freed_entries, flight.entries());
        flight.end(failed)
    }

    /// Ends a request that waited to be sent.
    pub(crate) fn end_unsent(&self, flight: Flight, error: BlockError) -> Ended {
        let _completing = self.completing();
        self.end(None, flight, Some((0, error)))
    }

    /// Ends one more of the requests in slots with `error`.
    pub(crate) fn give_up(&self, error: BlockError) -> Option<Ended> {
        let completing = self.completing();
        let take = |slot: &Mutex<RequestSlot>| {
            let mut slot = slot.lock();
            slot.doubt = None;
            if slot.flight.is_some() { slot.take() } else { None }
        };
        let (number, flight) =
            (0..).zip(&self.slots).find_map(|(number, slot)| Some((number, take(slot)?)))?;
        if flight.is_sent {
            take_back(&completing.window, flight.loans());
        }
        Some(self.end(Some(number), flight, Some((0, error))))
    }

    /// Empties every slot so that the requests can be sent to another driver. Requests that ended with an error and were issued
    /// again often enough stay. The caller keeps others from taking completions.
    pub(crate) fn recall(&self, _completing: &mut Completing, waiting: &mut VecDeque<Flight>) {
        let mut has_doubts = false;
        for (number, slot) in (0..).zip(&self.slots) {
            let mut slot = slot.lock();
            let RequestSlot { flight: Some(flight), doubt, .. } = &mut *slot else { continue };
            if doubt.is_some() && flight.is_retried_enough() {
                has_doubts = true;
                continue;
            }
            flight.retries += u8::from(doubt.take().is_some());
            waiting.extend(slot.take());
            self.give(number);
        }
        self.has_doubts.store(has_doubts, Release);
        self.returned.store(0, Release);
        self.returned_barriers.store(0, Release);
        self.has_unsent.store(true, Release);
    }

    /// Returns whether all slots are free.
    #[cfg(test)]
    pub(crate) fn are_all_free(&self) -> bool {
        self.free.iter().all(|word| word.load(Acquire) == u64::MAX)
    }
}

/// Adds to a count that has no other writer at the moment.
fn add(count: &AtomicUsize, more: usize) {
    count.store(count.load(Relaxed).wrapping_add(more), Release);
}
