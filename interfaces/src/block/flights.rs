//! Requests on their way to the driver: the state of the sending direction of [`super::remote`].
//!
//! `waiting` holds the requests that the present driver has not been sent, in the order in which clients submitted them; all
//! others have [`RequestSlots`]. Requests older than `replay_end` were sent to an earlier driver. Among these, a flush or a
//! sequence is a barrier: it is sent when all requests before it have ended, and those behind it when it has ended. While such
//! requests wait, the thread that takes completions also calls this module ([`RequestSlots::has_unsent`]).
use super::{
    BlockError, BlockSink, Request, RunningDriver, Sequence, SequenceStep,
    entries::{self, CompletionEntry, ENTRIES, ENTRY_SEGMENTS, RequestEntry, SEGMENTS_MAX},
    slots::{self, Ended, Flight, RequestSlots},
};
use crate::{
    AttachError,
    link::{Rings, Traffic},
};
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use rt::{
    device::Loan,
    ring::{Consumer, Corrupt, Doorbell, Part, Producer},
};

/// State of the sending direction, guarded by the link's lock.
pub(crate) struct Flights {
    slots: Arc<RequestSlots>,
    waiting: VecDeque<Flight>,
    /// Entries of all requests taken so far.
    taken_entries: usize,
    next_order: u64,
    replay_end: u64,
    /// Requests sent to the present driver, and the barriers among them.
    sent: usize,
    sent_barriers: usize,
    /// The present driver.
    runs: RunningDriver,
    /// Loans of the request that is being sent.
    loans: Vec<Loan>,
    /// The first waiting request could not be lent, because others lend its frames too often.
    is_refused: bool,
}

impl Traffic for Flights {
    type Sent = RequestEntry;

    /// Queues every request to be sent again, in the old order. A request that the driver ended without saying so is done
    /// twice.
    fn renew(
        &mut self,
        _: &Producer<Part, RequestEntry>,
        rings: &Rings,
    ) -> Result<Producer<Part, RequestEntry>, AttachError> {
        let mut completing = self.slots.completing();
        self.slots.recall(&mut completing, &mut self.waiting);
        let sent = self.waiting.iter().filter(|flight| flight.is_sent);
        slots::take_back(&self.runs.window, sent.flat_map(Flight::loans));
        self.waiting.iter_mut().for_each(|flight| flight.is_sent = false);
        self.waiting.make_contiguous().sort_unstable_by_key(|flight| flight.order);
        (self.sent, self.sent_barriers) = (0, 0);
        self.replay_end = self.next_order;
        rings.clear();
        let (sent, received) = rings.client()?;
        completing.received = received;
        Ok(sent)
    }

    fn send(&mut self, ring: &mut Producer<Part, RequestEntry>) -> Result<Doorbell, Corrupt> {
        let mut doorbell = Doorbell::Silent;
        self.is_refused = false;
        while self.may_send_next()
            && let Some(number) = self.slots.take()
        {
            if self.lend_next().is_err() {
                self.slots.give(number);
                self.is_refused = true;
                break;
            }
            let Some(mut flight) = self.waiting.pop_front() else { break };
            flight.is_sent = true;
            self.sent += 1;
            self.sent_barriers += usize::from(flight.is_barrier());
            let said = self.slots.put(number, flight, |tag, flight| say(ring, tag, flight))?;
            if said == Doorbell::Ring {
                doorbell = Doorbell::Ring;
            }
        }
        self.slots.set_unsent(!self.waiting.is_empty());
        Ok(doorbell)
    }
}

/// Puts a request or a sequence into the ring.
#[inline]
fn say(
    ring: &mut Producer<Part, RequestEntry>,
    tag: u64,
    flight: &Flight,
) -> Result<Doorbell, Corrupt> {
    if flight.more.is_empty() {
        return say_one(ring, (tag, 0), &flight.request);
    }
    let mut doorbell = say_one(ring, (tag, entries::SEQUEL), &flight.request)?;
    for (left, SequenceStep { request, is_after }) in (0..flight.more.len()).rev().zip(&flight.more)
    {
        let after = if *is_after { entries::AFTER } else { 0 };
        let sequel = if left > 0 { entries::SEQUEL } else { 0 };
        if say_one(ring, (tag, after | sequel), request)? == Doorbell::Ring {
            doorbell = Doorbell::Ring;
        }
    }
    Ok(doorbell)
}

/// Puts the entries of one request into the ring, with this tag and these flags.
#[inline]
fn say_one(
    ring: &mut Producer<Part, RequestEntry>,
    (tag, flags): (u64, u8),
    request: &Request,
) -> Result<Doorbell, Corrupt> {
    let mut doorbell = Doorbell::Silent;
    let mut rest = request.segments.as_slice();
    loop {
        let (said, behind) = rest.split_at(rest.len().min(ENTRY_SEGMENTS));
        let more = if behind.is_empty() { 0 } else { entries::SEGMENTS };
        let entry = entries::encode(request, (tag, flags | more), said);
        // There is room for every admitted request, unless the driver's count is wrong.
        if ring.push(&entry).map_err(|_| Corrupt)? == Doorbell::Ring {
            doorbell = Doorbell::Ring;
        }
        if behind.is_empty() {
            return Ok(doorbell);
        }
        rest = behind;
    }
}

impl Flights {
    /// Makes an empty set of requests. All memory that it will ever need is allocated here.
    pub(crate) fn new(received: Consumer<Part, CompletionEntry>) -> Flights {
        Flights {
            slots: Arc::new(RequestSlots::new(received)),
            waiting: VecDeque::with_capacity(ENTRIES),
            taken_entries: 0,
            next_order: 0,
            replay_end: 0,
            sent: 0,
            sent_barriers: 0,
            runs: RunningDriver::default(),
            loans: Vec::with_capacity(SEGMENTS_MAX),
            is_refused: false,
        }
    }

    /// Returns the slots of the requests at the driver.
    pub(crate) fn slots(&self) -> Arc<RequestSlots> {
        self.slots.clone()
    }

    /// Sends requests to that driver from now on. Its devices reach the memory that is lent to its window.
    pub(crate) fn set_driver(&mut self, runs: RunningDriver) {
        self.slots.completing().window = runs.window.clone();
        self.runs = runs;
    }

    /// Generation of the driver that requests are sent to.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.runs.generation
    }

    /// Returns whether a request waits and no barrier keeps it from being sent.
    fn may_send_next(&self) -> bool {
        let Some(flight) = self.waiting.front() else { return false };
        if flight.order >= self.replay_end {
            return true;
        }
        let (returned, returned_barriers) = self.slots.returned();
        match flight.is_barrier() {
            true => self.sent == returned,
            false => self.sent_barriers == returned_barriers,
        }
    }

    fn lend_next(&mut self) -> Result<(), rt::NoMemory> {
        self.loans.clear();
        self.loans.extend(self.waiting.front().iter().flat_map(|flight| flight.loans()));
        self.runs.window.lend(&self.loans)
    }

    /// Returns whether [`Flights::send`] must be tried again although no completion comes.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused && !self.waiting.is_empty()
    }

    /// Entries of the ring that are left for requests that are not taken yet.
    fn entries_left(&self) -> usize {
        let taken = self.taken_entries.wrapping_sub(self.slots.freed_entries());
        ENTRIES.saturating_sub(taken)
    }

    /// Returns whether there is room to take `request` now.
    pub(crate) fn has_room(&self, request: &Request) -> bool {
        entries::entries_for(request) <= self.entries_left()
    }

    /// Returns whether there is room to take all of `sequence` now.
    pub(crate) fn has_room_for_all(&self, sequence: &Sequence) -> bool {
        let entries: usize = sequence.requests().map(entries::entries_for).sum();
        entries <= self.entries_left()
    }

    /// Number of the next request in the order of all requests.
    pub(crate) fn next_order(&self) -> u64 {
        self.next_order
    }

    /// Takes a request to be sent. The caller has checked that there is room.
    pub(crate) fn admit(&mut self, request: Request, sink: &Arc<dyn BlockSink>) {
        self.admit_sequence(Sequence { first: request, more: Vec::new() }, sink);
    }

    /// Takes a sequence to be sent. The caller has checked that there is room.
    pub(crate) fn admit_sequence(&mut self, sequence: Sequence, sink: &Arc<dyn BlockSink>) {
        let (sink, order) = (sink.clone(), self.next_order);
        let Sequence { first, more } = sequence;
        let flight = Flight { request: first, more, sink, order, is_sent: false, retries: 0 };
        self.taken_entries = self.taken_entries.wrapping_add(flight.entries());
        self.waiting.push_back(flight);
        self.next_order += 1;
    }

    /// Ends one more request with `error`. The caller repeats this until it returns `None`.
    pub(crate) fn give_up(&mut self, error: BlockError) -> Option<Ended> {
        match self.waiting.pop_front() {
            Some(flight) => Some(self.slots.end_unsent(flight, error)),
            None => self.slots.give_up(error),
        }
    }

    /// Used by tests of [`super::BlockProxy`]: returns whether all slots are free.
    #[cfg(test)]
    pub(crate) fn has_all_slots(&self) -> bool {
        let returned = self.slots.returned();
        self.slots.are_all_free()
            && self.entries_left() == ENTRIES
            && self.waiting.is_empty()
            && (self.sent, self.sent_barriers) == returned
    }
}

impl core::fmt::Debug for Flights {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Flights").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}
