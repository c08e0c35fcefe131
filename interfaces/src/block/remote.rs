//! A block device in another world: [`BlockProxy`] is a [`Block`] whose driver answers [`super::BlockControl`].
//!
//! Requests are kept here, with their frames, until the driver says through the ring that they have ended; no
//! byte of theirs is copied, and the driver's devices reach them no longer ([`DmaWindow`]). When the driver has died ([`BlockProxy::restarted`]) its successor gets them again in
//! their old order, with flushes as barriers, and clients see a pause. A driver whose words make no sense
//! is sent nothing more and named to the supervisor. The [`Link`]'s lock guards everything; sinks are called without
//! it, on the proxy's own thread.
use super::{
    Block, BlockError, BlockInfo, BlockSink, Request,
    control::{BlockControl, BlockControlClient},
    entries,
    flights::{Ended, Flights},
};
use crate::{
    AttachError,
    call::Caller,
    link::{Link, Linked},
};
use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use rt::{
    device::DmaWindow,
    lock_class,
    ring::Corrupt,
    sync::Event,
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

/// See the module's page.
pub struct BlockProxy {
    info: BlockInfo,
    control: BlockControlClient,
    link: Link<Flights>,
    /// Signalled when requests have ended.
    room: Event,
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
        let link =
            Link::new(info.name.clone(), &STATE, entries::RINGS, Flights::new(), on_corrupt)?;
        let proxy = Arc::new(BlockProxy { info, control, link, room: Event::new(), window });
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
        // One that lives, and did not say that it took the rings, may have requests at its device.
        self.control.detach().ok_or(AttachError::Lost)?;
        // The window is asked for when the driver has the rings: where that was another one than runs now, the one that
        // runs has none, and comes here again.
        self.link.restart(
            |rings| self.control.attach(rings).map(|()| (self.window)()),
            Flights::set_window,
        )
    }

    /// There will be no other driver for now: until there is ([`BlockProxy::restarted`]) every request ends with
    /// [`BlockError::Restarted`], those in flight too.
    pub fn close(&self) {
        self.link.close();
        while let Some(ended) = self.give_up_one() {
            ended.tell();
        }
        self.room.signal();
    }

    fn give_up_one(&self) -> Option<Ended> {
        self.link.lock().traffic.give_up(BlockError::Restarted)
    }

    /// The proxy's thread, which stays as long as the system: another driver may come at any time.
    fn complete_all(&self) -> ! {
        let mut ended = Vec::with_capacity(BATCH);
        loop {
            let ticket = self.link.changed.ticket();
            let (taken, doorbell, is_closed, is_refused) = {
                let mut linked = self.link.lock();
                let taken = take(&mut linked, &mut ended);
                linked.traffic.settle();
                (taken, linked.send(), linked.is_closed(), linked.traffic.is_refused())
            };
            self.link.answer(doorbell);
            if !ended.is_empty() {
                self.room.signal();
            }
            ended.drain(..).for_each(Ended::tell);
            if is_closed {
                self.link.changed.wait(ticket, None, false);
                continue;
            }
            match taken {
                Ok(Next::More) => {}
                Ok(Next::Wait) => {
                    let retry = is_refused.then(|| time::now().after_ns(RETRY_NS));
                    self.link.bell.wait(retry);
                }
                Err(Corrupt) => {
                    self.link.break_off();
                    self.link.changed.wait(ticket, None, false);
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

/// Takes completions, and announces the wait where there are none.
fn take(linked: &mut Linked<Flights>, ended: &mut Vec<Ended>) -> Result<Next, Corrupt> {
    while ended.len() < BATCH {
        let Some((entry, _)) = linked.received.pop()? else { break };
        ended.extend(linked.traffic.complete(&entry)?);
    }
    let is_idle = ended.is_empty() && linked.received.wait_begins()?;
    Ok(if is_idle { Next::Wait } else { Next::More })
}

impl Flights {
    /// Takes requests of a batch as far as there is room.
    fn admit_some(
        &mut self,
        next: &mut Option<Request>,
        rest: &mut impl Iterator<Item = Request>,
        sink: &Arc<dyn BlockSink>,
    ) {
        while let Some(request) = next.take() {
            match self.admit(request, sink) {
                Ok(()) => *next = rest.next(),
                Err(refused) => {
                    *next = Some(refused);
                    return;
                }
            }
        }
    }
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
                let mut linked = self.link.lock();
                if linked.is_closed() {
                    break;
                }
                linked.traffic.admit_some(&mut next, &mut rest, sink);
                (linked.send(), linked.traffic.is_refused())
            };
            self.link.answer(doorbell);
            if is_refused {
                self.link.bell.ring();
            }
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
        self.link.lock().traffic.has_all_slots()
    }
}

impl core::fmt::Debug for BlockProxy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BlockProxy").field("info", &self.info).finish_non_exhaustive()
    }
}
