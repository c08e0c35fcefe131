//! Requests that were taken from clients and have not ended: the memory of [`super::remote`].
//!
//! A request has a slot; its tag in the rings is the slot's number and, above bit 32, how many requests the slot has had, so
//! that no completion ends another request than its own. `waiting` are those that the present driver has not
//! been sent, in the order in which clients submitted them. Of those that an earlier driver had been sent (older than
//! `replay_end`) a flush is a barrier: it is sent when all before it have ended, and what comes behind it when it has.
use super::{
    BlockError, BlockSink, Operation, Request,
    entries::{self, CompletionEntry, ENTRIES, RequestEntry},
};
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use rt::ring::{Corrupt, Doorbell, Part, Producer};

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
        }
    }

    /// Takes a request, to be sent.
    ///
    /// # Errors
    /// The request back where there is no room now.
    pub(crate) fn admit(
        &mut self,
        request: Request,
        sink: &Arc<dyn BlockSink>,
    ) -> Result<(), Request> {
        let needed = entries::entries_for(&request);
        let Some(left) = self.entries_left.checked_sub(needed) else { return Err(request) };
        let Some(number) = self.free.pop() else { return Err(request) };
        let Some(slot) = self.slots.get_mut(number as usize) else { return Err(request) };
        let order = self.next_order;
        slot.flight = Some(Flight { request, sink: sink.clone(), order, is_sent: false });
        self.entries_left = left;
        self.next_order += 1;
        self.waiting.push_back(number);
        Ok(())
    }

    /// Sends what may be sent; says whether the driver must be woken.
    ///
    /// # Errors
    /// [`Corrupt`]: the driver wrote a count that cannot be.
    pub(crate) fn send(
        &mut self,
        ring: &mut Producer<Part, RequestEntry>,
    ) -> Result<Doorbell, Corrupt> {
        let mut doorbell = Doorbell::Silent;
        while let Some(number) = self.waiting.front() {
            let Some(slot) = self.slots.get_mut(*number as usize) else { break };
            let tag = u64::from(slot.generation) << 32 | u64::from(*number);
            let Some(flight) = &mut slot.flight else { break };
            let is_flush = flight.request.operation == Operation::Flush;
            let is_behind = if is_flush { self.sent > 0 } else { self.sent_flushes > 0 };
            if flight.order < self.replay_end && is_behind {
                break;
            }
            for part in 0..entries::entries_for(&flight.request) {
                // There is room for all that was admitted, unless the driver's count lies.
                let entry = entries::encode(&flight.request, tag, part);
                if ring.push(&entry).map_err(|_| Corrupt)? == Doorbell::Ring {
                    doorbell = Doorbell::Ring;
                }
            }
            flight.is_sent = true;
            self.sent += 1;
            self.sent_flushes += usize::from(is_flush);
            self.waiting.pop_front();
        }
        Ok(doorbell)
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

    /// The driver is no more: everything is to be sent again, in the old order.
    pub(crate) fn recall(&mut self) {
        (self.sent, self.sent_flushes) = (0, 0);
        self.replay_end = self.next_order;
        self.waiting.clear();
        for (number, slot) in (0..).zip(&mut self.slots) {
            if let Some(flight) = &mut slot.flight {
                flight.is_sent = false;
                self.waiting.push_back(number);
            }
        }
        let order = |number: &u32| {
            let slot = self.slots.get(*number as usize);
            slot.and_then(|slot| slot.flight.as_ref()).map(|flight| flight.order)
        };
        self.waiting.make_contiguous().sort_unstable_by_key(order);
    }

    /// Ends one more request with `error`; to be repeated until there is none.
    pub(crate) fn give_up(&mut self, error: BlockError) -> Option<Ended> {
        self.waiting.clear();
        let has_flight = |slot: &Slot| slot.flight.is_some();
        let number = self.slots.iter().position(has_flight)?;
        let flight = self.slots.get_mut(number)?.flight.take()?;
        Some(self.end(number as u32, flight, Err(error)))
    }
}
