//! A block device in another world: [`BlockProxy`] is a [`Block`] whose driver answers [`super::BlockControl`].
//!
//! Requests are kept here, with their frames, until the driver says through the ring that they have ended; no
//! byte of theirs is copied, and the driver's devices reach them no longer ([`DmaWindow`]). When the driver has died ([`BlockProxy::restarted`]) its successor gets them again in
//! their old order, with flushes as barriers, and clients see a pause. A driver whose words make no sense
//! is sent nothing more and named to the supervisor. `state` guards everything; sinks are called without it, on the
//! proxy's own thread.
use super::{
    Block, BlockError, BlockInfo, BlockSink, Request,
    control::{AttachError, BlockControl, BlockControlClient},
    entries::{self, CompletionEntry, Parts, REGION_BYTES, RequestEntry},
    flights::{Ended, Flights},
};
use crate::call::Caller;
use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use rt::{
    device::DmaWindow,
    lock_class,
    memory::Region,
    ring::{Bell, Consumer, Corrupt, Doorbell, Part, Producer},
    sync::{Event, Mutex},
    thread::{self, Policy},
    time,
};

lock_class! {
    static STATE = "block.proxy";
}

/// As drivers' own completion threads: before ordinary programs.
const COMPLETION_NICE: i8 = -10;
/// Until frames that could not be lent are tried again.
const RETRY_NS: u64 = 1_000_000;
/// Completions taken under the lock at once.
const BATCH: usize = 32;

/// Whether the driver is sent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// It is, and has the rings.
    Up,
    /// There is none, or it broke the protocol; requests wait for a successor.
    Down,
    /// There is none, and requests do not wait for one.
    Closed,
}

struct State {
    link: Link,
    /// Drivers so far.
    epoch: u64,
    flights: Flights,
    requests: Producer<Part, RequestEntry>,
    completions: Consumer<Part, CompletionEntry>,
}

/// See the module's page.
pub struct BlockProxy {
    info: BlockInfo,
    control: BlockControlClient,
    region: Region,
    parts: Parts,
    request_bell: Bell,
    completion_bell: Bell,
    state: Mutex<State>,
    /// Signalled when requests have ended.
    room: Event,
    /// Signalled when the link changed.
    linked: Event,
    /// Told that the driver broke the protocol and should be ended.
    on_corrupt: Box<dyn Fn() + Send + Sync>,
    /// What the devices of the present driver reach.
    window: Box<dyn Fn() -> DmaWindow + Send + Sync>,
}

impl BlockProxy {
    /// The device behind `caller`, whose driver runs; `on_corrupt` is called when one breaks the protocol; `window`
    /// says what the devices of the one that runs reach.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn new(
        caller: Caller,
        on_corrupt: Box<dyn Fn() + Send + Sync>,
        window: Box<dyn Fn() -> DmaWindow + Send + Sync>,
    ) -> Result<Arc<BlockProxy>, AttachError> {
        let control = BlockControlClient::new(caller);
        let info = control.call_describe()?.ok_or(AttachError::Lost)?.info();
        let region = Region::new(REGION_BYTES).map_err(|_| AttachError::NoMemory)?;
        let parts = Parts::of(&region).ok_or(AttachError::TooSmall)?;
        let (requests, completions) = rings(&parts).ok_or(AttachError::TooSmall)?;
        let state =
            State { link: Link::Down, epoch: 0, flights: Flights::new(), requests, completions };
        let proxy = Arc::new(BlockProxy {
            info,
            control,
            region,
            request_bell: parts.requests.consumer_bell(),
            completion_bell: parts.completions.consumer_bell(),
            parts,
            state: Mutex::new(&STATE, state),
            room: Event::new(),
            linked: Event::new(),
            on_corrupt,
            window,
        });
        proxy.restarted()?;
        let ours = proxy.clone();
        let policy = Policy::Fair { nice: COMPLETION_NICE };
        thread::spawn(&format!("{}/remote", proxy.info.name), policy, move || ours.complete_all())
            .map_err(|_| AttachError::NoMemory)?;
        Ok(proxy)
    }

    /// The driver has died and cannot touch the rings any more: gives its successor the rings, and the requests
    /// in flight again; opens a closed device. Blocks until it has taken them; to be repeated where it dies over that.
    ///
    /// # Errors
    /// [`AttachError`]; requests wait on.
    pub fn restarted(&self) -> Result<(), AttachError> {
        let epoch = {
            let mut state = self.state.lock();
            self.parts.requests.clear();
            self.parts.completions.clear();
            let (requests, completions) = rings(&self.parts).ok_or(AttachError::TooSmall)?;
            (state.requests, state.completions) = (requests, completions);
            state.link = Link::Down;
            state.flights.recall();
            state.epoch += 1;
            state.epoch
        };
        self.completion_bell.ring();
        self.control.attach(self.region.clone())?;
        // Asked for when it has the rings: where that was another driver than the one that runs now, the one that
        // runs has none, and comes here again.
        let window = (self.window)();
        let (doorbell, is_refused) = {
            let mut state = self.state.lock();
            if state.epoch != epoch || state.link == Link::Closed {
                return Ok(());
            }
            state.link = Link::Up;
            state.flights.set_window(window);
            (state.send(), state.flights.is_refused())
        };
        self.linked.signal();
        self.answer(doorbell);
        self.retry_if(is_refused);
        Ok(())
    }

    /// There will be no other driver for now: until there is ([`BlockProxy::restarted`]) every request ends with
    /// [`BlockError::Restarted`], those in flight too.
    pub fn close(&self) {
        self.state.lock().link = Link::Closed;
        self.linked.signal();
        self.completion_bell.ring();
        while let Some(ended) = self.give_up_one() {
            ended.tell();
        }
        self.room.signal();
    }

    fn give_up_one(&self) -> Option<Ended> {
        self.state.lock().flights.give_up(BlockError::Restarted)
    }

    /// Rings the driver's bell where that is due, or ends the driver.
    fn answer(&self, doorbell: Result<Doorbell, Corrupt>) {
        match doorbell {
            Ok(doorbell) => self.request_bell.answer(doorbell),
            Err(Corrupt) => self.break_off(),
        }
    }

    /// Has the proxy's thread send what was refused.
    fn retry_if(&self, is_refused: bool) {
        if is_refused {
            self.completion_bell.ring();
        }
    }

    fn break_off(&self) {
        {
            let mut state = self.state.lock();
            if state.link != Link::Up {
                return;
            }
            state.link = Link::Down;
        }
        log::error!("{}: the driver breaks the protocol of its rings", self.info.name);
        (self.on_corrupt)();
    }

    /// The proxy's thread, which stays as long as the system: another driver may come at any time.
    fn complete_all(&self) -> ! {
        let mut ended = Vec::with_capacity(BATCH);
        loop {
            let ticket = self.linked.ticket();
            let (taken, doorbell, link, is_refused) = {
                let mut state = self.state.lock();
                let taken = state.take(&mut ended);
                state.flights.settle();
                (taken, state.send(), state.link, state.flights.is_refused())
            };
            self.answer(doorbell);
            if !ended.is_empty() {
                self.room.signal();
            }
            ended.drain(..).for_each(Ended::tell);
            if link == Link::Closed {
                self.linked.wait(ticket, None, false);
                continue;
            }
            match taken {
                Ok(Next::More) => {}
                Ok(Next::Wait) => {
                    let retry = is_refused.then(|| time::now().after_ns(RETRY_NS));
                    self.completion_bell.wait(retry);
                }
                Err(Corrupt) => {
                    self.break_off();
                    self.linked.wait(ticket, None, false);
                }
            }
        }
    }
}

/// What the proxy's thread does after it has taken completions.
enum Next {
    More,
    Wait,
}

impl State {
    /// Takes completions, and announces the wait where there are none.
    fn take(&mut self, ended: &mut Vec<Ended>) -> Result<Next, Corrupt> {
        while ended.len() < BATCH {
            let Some((entry, _)) = self.completions.pop()? else { break };
            ended.extend(self.flights.complete(&entry)?);
        }
        let is_idle = ended.is_empty() && self.completions.wait_begins()?;
        Ok(if is_idle { Next::Wait } else { Next::More })
    }

    fn send(&mut self) -> Result<Doorbell, Corrupt> {
        if self.link != Link::Up {
            return Ok(Doorbell::Silent);
        }
        self.flights.send(&mut self.requests)
    }

    /// Takes requests of a batch as far as there is room.
    fn admit(
        &mut self,
        next: &mut Option<Request>,
        rest: &mut impl Iterator<Item = Request>,
        sink: &Arc<dyn BlockSink>,
    ) {
        while let Some(request) = next.take() {
            match self.flights.admit(request, sink) {
                Ok(()) => *next = rest.next(),
                Err(refused) => {
                    *next = Some(refused);
                    return;
                }
            }
        }
    }
}

type Rings = (Producer<Part, RequestEntry>, Consumer<Part, CompletionEntry>);

fn rings(parts: &Parts) -> Option<Rings> {
    Some((Producer::new(parts.requests.clone())?, Consumer::new(parts.completions.clone())?))
}

impl Block for BlockProxy {
    fn info(&self) -> BlockInfo {
        self.info.clone()
    }

    fn submit(&self, batch: Vec<Request>, sink: &Arc<dyn BlockSink>) {
        let mut rest = batch.into_iter().filter(|request| {
            let is_sayable = entries::is_sayable(request);
            if !is_sayable {
                sink.completed(request.tag, Err(BlockError::Invalid));
            }
            is_sayable
        });
        let mut next = rest.next();
        while next.is_some() {
            let ticket = self.room.ticket();
            let (doorbell, is_refused) = {
                let mut state = self.state.lock();
                if state.link == Link::Closed {
                    break;
                }
                state.admit(&mut next, &mut rest, sink);
                (state.send(), state.flights.is_refused())
            };
            self.answer(doorbell);
            self.retry_if(is_refused);
            if next.is_some() {
                self.room.wait(ticket, None, false);
            }
        }
        for request in next.into_iter().chain(rest) {
            let tag = request.tag;
            drop(request);
            sink.completed(tag, Err(BlockError::Restarted));
        }
    }
}

#[cfg(test)]
impl BlockProxy {
    /// Nothing is in flight, and none of the room for it was lost.
    pub(super) fn has_all_slots(&self) -> bool {
        self.state.lock().flights.has_all_slots()
    }
}

impl core::fmt::Debug for BlockProxy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BlockProxy").field("info", &self.info).finish_non_exhaustive()
    }
}
