//! Requests that were taken from clients and have not ended: the memory of [`super::remote`].
//!
//! A request has a slot; its tag in the rings is the slot's number and, above bit 32, how many requests the slot has had, so
//! that no completion ends another request than its own. `waiting` are those that the present driver has not
//! been sent, in the order in which clients submitted them. A request's frames are lent to the driver's devices from
//! before it is sent until the completion was taken and, without the lock that guards all this, they were taken back
//! ([`give_back`]). Of those that an earlier driver had been sent (older than
//! `replay_end`) a flush is a barrier: it is sent when all before it have ended, and what comes behind it when it has.
use super::{
    BlockError, BlockSink, Operation, Request, Segment,
    entries::{self, CompletionEntry, ENTRIES, ENTRY_SEGMENTS, RequestEntry, SEGMENTS_MAX},
};
use crate::link::Traffic;
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use rt::{
    device::{DmaWindow, Loan},
    memory::FrameId,
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

/// A request that ended, whose frames are to be taken back ([`give_back`]) before its client is told.
pub(crate) struct Ended {
    tag: u64,
    sink: Arc<dyn BlockSink>,
    result: Result<(), BlockError>,
    segments: Vec<Segment>,
    /// As they were lent.
    is_written: bool,
}

impl Ended {
    fn loans(&self) -> impl Iterator<Item = Loan> {
        self.segments.iter().map(|segment| loan(segment, self.is_written))
    }
    /// Tells the client; call without locks.
    pub(crate) fn tell(&mut self) {
        // The frames are given back first: a client told may look at their reference counts.
        drop(core::mem::take(&mut self.segments));
        self.sink.completed(self.tag, self.result);
    }
}

/// Loans taken back at once.
const LOANS: usize = 64;

/// Takes back what was lent of `ended` to `window`. That is dear, as hardware has to forget it: call without locks.
pub(crate) fn give_back(window: &DmaWindow, ended: &[Option<Ended>]) {
    if let [Some(Ended { segments, is_written, .. })] = ended
        && let [segment] = segments.as_slice()
    {
        return window.take_back(&[loan(segment, *is_written)]);
    }
    take_back(window, ended.iter().flatten().flat_map(Ended::loans));
}

/// Takes `loans` back.
#[cold]
fn take_back(window: &DmaWindow, loans: impl Iterator<Item = Loan>) {
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
    /// The first that waits was not lent, because others have its frames so often.
    is_refused: bool,
}

fn loan(segment: &Segment, is_written: bool) -> Loan {
    Loan { frame: segment.frame.id(), is_written }
}

/// Whether the device writes the frames of `request`.
fn is_written(request: &Request) -> bool {
    matches!(request.operation, Operation::Read)
}

/// What `request` lends.
fn loans(request: &Request) -> impl Iterator<Item = Loan> {
    request.segments.iter().map(|segment| loan(segment, is_written(request)))
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
        let flights = self.slots.iter().filter_map(|slot| slot.flight.as_ref());
        let sent = flights.filter(|flight| flight.is_sent);
        take_back(&self.window, sent.flat_map(|flight| loans(&flight.request)));
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

    fn send(&mut self, ring: &mut Producer<Part, RequestEntry>) -> Result<Doorbell, Corrupt> {
        let mut doorbell = Doorbell::Silent;
        self.is_refused = false;
        while let Some(&number) = self.waiting.front() {
            let Some(slot) = self.slots.get_mut(number as usize) else { break };
            let tag = u64::from(slot.generation) << 32 | u64::from(number);
            let Some(flight) = &mut slot.flight else { break };
            let is_flush = matches!(flight.request.operation, Operation::Flush);
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
            let mut rest = flight.request.segments.as_slice();
            loop {
                let (said, behind) = rest.split_at(rest.len().min(ENTRY_SEGMENTS));
                let entry = entries::encode(&flight.request, tag, said, !behind.is_empty());
                // There is room for all that was admitted, unless the driver's count lies.
                if ring.push(&entry).map_err(|_| Corrupt)? == Doorbell::Ring {
                    doorbell = Doorbell::Ring;
                }
                if behind.is_empty() {
                    break;
                }
                rest = behind;
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

    /// Where the frames of what is sent, and of what has just ended, are lent.
    pub(crate) fn window(&self) -> DmaWindow {
        self.window.clone()
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

    /// Puts the request that a completion is about, whose frames are to be taken back, into `ended`; nothing where the driver
    /// gave it up as it stopped: its successor will be sent it.
    ///
    /// # Errors
    /// [`Corrupt`]: the driver was not sent any such request, or said so before.
    #[inline]
    pub(crate) fn complete(
        &mut self,
        entry: &CompletionEntry,
        ended: &mut Option<Ended>,
    ) -> Result<(), Corrupt> {
        let result = entry.result()?;
        let number = entry.tag as u32;
        let slot = self.slots.get_mut(number as usize).ok_or(Corrupt)?;
        let is_ours = u64::from(slot.generation) == entry.tag >> 32;
        let is_sent = |flight: &&mut Flight| flight.is_sent && is_ours;
        let flight = slot.flight.as_mut().filter(is_sent).ok_or(Corrupt)?;
        self.sent -= 1;
        self.sent_flushes -= usize::from(matches!(flight.request.operation, Operation::Flush));
        if matches!(result, Err(BlockError::Restarted)) {
            flight.is_sent = false;
            take_back(&self.window, loans(&flight.request));
        } else {
            *ended = self.end(number, result);
        }
        Ok(())
    }

    #[inline]
    fn end(&mut self, number: u32, result: Result<(), BlockError>) -> Option<Ended> {
        let slot = self.slots.get_mut(number as usize)?;
        let Flight { request, sink, .. } = slot.flight.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(number);
        self.entries_left += entries::entries_for(&request);
        let is_written = is_written(&request);
        let Request { tag, segments, .. } = request;
        Some(Ended { tag, sink, result, segments, is_written })
    }

    /// Ends one more request with `error`; to be repeated until there is none.
    pub(crate) fn give_up(&mut self, error: BlockError) -> Option<Ended> {
        self.waiting.clear();
        let has_flight = |slot: &Slot| slot.flight.is_some();
        let number = self.slots.iter().position(has_flight)?;
        let flight = self.slots.get(number)?.flight.as_ref()?;
        if flight.is_sent {
            take_back(&self.window, loans(&flight.request));
        }
        self.end(number as u32, Err(error))
    }

    /// See [`super::BlockProxy`].
    #[cfg(test)]
    pub(crate) fn has_all_slots(&self) -> bool {
        let free = (self.free.len(), self.entries_left) == (ENTRIES, ENTRIES);
        free && self.waiting.is_empty() && (self.sent, self.sent_flushes) == (0, 0)
    }
}
