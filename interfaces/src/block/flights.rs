//! Requests that were taken from clients and have not ended: the memory of [`super::remote`].
//!
//! A request has a slot; its tag in the rings is the slot's number and, above bit 32, how many requests the slot has had, so
//! that no completion ends another request than its own. `waiting` are those that the present driver has not
//! been sent, in the order in which clients submitted them. A request's frames are lent to the driver's devices from
//! before it is sent until the completion was taken ([`Flights::settle`]). Of those that an earlier driver had been sent (older than
//! `replay_end`) a flush is a barrier: it is sent when all before it have ended, and what comes behind it when it has.
use super::{
    BlockError, BlockSink, Operation, Request,
    entries::{self, CompletionEntry, ENTRIES, ENTRY_SEGMENTS, RequestEntry, SEGMENTS_MAX},
};
use crate::link::Traffic;
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use rt::{
    device::{DmaWindow, Loan},
    ring::{Consumer, Corrupt, Doorbell, Part, Producer},
};

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    flight: Option<Flight>,
}

struct Flight {
    request: Request,
    sink: Arc<dyn BlockSink>,
    /// When it was submitted, among all.
    order: u64,
    is_sent: bool,
}

impl core::fmt::Debug for Flight {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Flight").field("request", &self.request).finish_non_exhaustive()
    }
}

/// A request that ended; its frames are the client's again.
pub(crate) struct Ended {
    tag: u64,
    sink: Arc<dyn BlockSink>,
    result: Result<(), BlockError>,
}

impl Ended {
    /// Tells the client; call without locks.
    pub(crate) fn tell(self) {
        self.sink.completed(self.tag, self.result);
    }
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Flights {
    slots: Vec<Slot>,
    free: Vec<u32>,
    waiting: VecDeque<u32>,
    /// Of the ring, for requests that are not taken yet.
    entries_left: usize,
    next_order: u64,
    replay_end: u64,
    /// At the driver; of them flushes.
    sent: usize,
    sent_flushes: usize,
    /// Of the present driver.
    window: DmaWindow,
    /// Of the request that is being sent.
    loans: Vec<Loan>,
    /// Of requests that are at no driver any more, to be taken back.
    returned: Vec<Loan>,
    /// The first that waits was not lent, because others have its frames so often.
    is_refused: bool,
}

/// What `request` lends.
fn loans(request: &Request) -> impl Iterator<Item = Loan> {
    let is_written = request.operation == Operation::Read;
    request.segments.iter().map(move |segment| Loan { frame: segment.frame.id(), is_written })
}

impl Traffic for Flights {
    type Sent = RequestEntry;
    type Received = CompletionEntry;

    /// Everything is to be sent again, in the old order; what the driver ended and did not say is done twice.
    fn recall(
        &mut self,
        _: &Producer<Part, RequestEntry>,
        _: &mut Consumer<Part, CompletionEntry>,
    ) {
        (self.sent, self.sent_flushes) = (0, 0);
        self.replay_end = self.next_order;
        self.waiting.clear();
        for (number, slot) in (0..).zip(&mut self.slots) {
            if let Some(flight) = &mut slot.flight {
                if core::mem::take(&mut flight.is_sent) {
                    self.returned.extend(loans(&flight.request));
                }
                self.waiting.push_back(number);
            }
        }
        self.settle();
        let order = |number: &u32| {
            let slot = self.slots.get(*number as usize);
            slot.and_then(|slot| slot.flight.as_ref()).map(|flight| flight.order)
        };
        self.waiting.make_contiguous().sort_unstable_by_key(order);
    }

    fn send(&mut self, ring: &mut Producer<Part, RequestEntry>) -> Result<Doorbell, Corrupt> {
        let mut doorbell = Doorbell::Silent;
        self.is_refused = false;
        while let Some(&number) = self.waiting.front() {
            let Some(slot) = self.slots.get_mut(number as usize) else { break };
            let tag = u64::from(slot.generation) << 32 | u64::from(number);
            let Some(flight) = &mut slot.flight else { break };
            let is_flush = flight.request.operation == Operation::Flush;
            let is_behind = if is_flush { self.sent > 0 } else { self.sent_flushes > 0 };
            if flight.order < self.replay_end && is_behind {
                break;
            }
            self.loans.clear();
            self.loans.extend(loans(&flight.request));
            self.is_refused = self.window.lend(&self.loans).is_err();
            if self.is_refused {
                break;
            }
            // Half sent is sent: its frames are lent.
            flight.is_sent = true;
            self.sent += 1;
            self.sent_flushes += usize::from(is_flush);
            self.waiting.pop_front();
            for part in 0..entries::entries_for(&flight.request) {
                // There is room for all that was admitted, unless the driver's count lies.
                let entry = entries::encode(&flight.request, tag, part);
                if ring.push(&entry).map_err(|_| Corrupt)? == Doorbell::Ring {
                    doorbell = Doorbell::Ring;
                }
            }
        }
        Ok(doorbell)
    }
}

impl Flights {
    /// None; all memory it will ever need is allocated here.
    pub(crate) fn new() -> Flights {
        Flights {
            slots: (0..ENTRIES).map(|_| Slot::default()).collect(),
            free: (0..ENTRIES as u32).rev().collect(),
            waiting: VecDeque::with_capacity(ENTRIES),
            entries_left: ENTRIES,
            next_order: 0,
            replay_end: 0,
            sent: 0,
            sent_flushes: 0,
            window: DmaWindow::default(),
            loans: Vec::with_capacity(SEGMENTS_MAX),
            returned: Vec::with_capacity(ENTRIES * ENTRY_SEGMENTS),
            is_refused: false,
        }
    }

    /// From now on requests are sent to a driver whose devices reach what is lent to `window`.
    pub(crate) fn set_window(&mut self, window: DmaWindow) {
        self.window = window;
    }

    /// Whether [`Flights::send`] is to be tried again though no completion comes.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused && self.has_unsent()
    }

    /// Some wait to be sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes back the frames of what has ended, before any client is told.
    pub(crate) fn settle(&mut self) {
        if !self.returned.is_empty() {
            self.window.take_back(&self.returned);
            self.returned.clear();
        }
    }

    /// Whether `request` can be taken now.
    pub(crate) fn has_room(&self, request: &Request) -> bool {
        entries::entries_for(request) <= self.entries_left && !self.free.is_empty()
    }

    /// Takes a request, for which there is room, to be sent.
    pub(crate) fn admit(&mut self, request: Request, sink: &Arc<dyn BlockSink>) {
        let Some(number) = self.free.pop() else { return };
        let Some(slot) = self.slots.get_mut(number as usize) else { return };
        self.entries_left = self.entries_left.saturating_sub(entries::entries_for(&request));
        let order = self.next_order;
        slot.flight = Some(Flight { request, sink: sink.clone(), order, is_sent: false });
        self.next_order += 1;
        self.waiting.push_back(number);
    }

    /// Ends the request that a completion is about; `None` where the driver gave it up as it stopped:
    /// its successor will be sent it.
    ///
    /// # Errors
    /// [`Corrupt`]: the driver was not sent any such request, or said so before.
    pub(crate) fn complete(&mut self, entry: &CompletionEntry) -> Result<Option<Ended>, Corrupt> {
        let result = entry.result()?;
        let number = entry.tag as u32;
        let slot = self.slots.get_mut(number as usize).ok_or(Corrupt)?;
        let is_ours = u64::from(slot.generation) == entry.tag >> 32;
        let is_sent = |flight: &mut Flight| flight.is_sent && is_ours;
        let mut flight = slot.flight.take_if(is_sent).ok_or(Corrupt)?;
        self.sent -= 1;
        self.sent_flushes -= usize::from(flight.request.operation == Operation::Flush);
        self.returned.extend(loans(&flight.request));
        if result == Err(BlockError::Restarted) {
            flight.is_sent = false;
            slot.flight = Some(flight);
            return Ok(None);
        }
        Ok(Some(self.end(number, flight, result)))
    }

    fn end(&mut self, number: u32, flight: Flight, result: Result<(), BlockError>) -> Ended {
        if let Some(slot) = self.slots.get_mut(number as usize) {
            slot.generation = slot.generation.wrapping_add(1);
        }
        self.free.push(number);
        self.entries_left += entries::entries_for(&flight.request);
        Ended { tag: flight.request.tag, sink: flight.sink, result }
    }

    /// Ends one more request with `error`; to be repeated until there is none.
    pub(crate) fn give_up(&mut self, error: BlockError) -> Option<Ended> {
        self.waiting.clear();
        let has_flight = |slot: &Slot| slot.flight.is_some();
        let number = self.slots.iter().position(has_flight)?;
        let flight = self.slots.get_mut(number)?.flight.take()?;
        if flight.is_sent {
            self.returned.extend(loans(&flight.request));
            self.settle();
        }
        Some(self.end(number as u32, flight, Err(error)))
    }

    /// See [`super::BlockProxy`].
    #[cfg(test)]
    pub(crate) fn has_all_slots(&self) -> bool {
        let free = (self.free.len(), self.entries_left) == (ENTRIES, ENTRIES);
        free && self.waiting.is_empty() && (self.sent, self.sent_flushes) == (0, 0)
    }
}
