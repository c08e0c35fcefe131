//! A block device in another world: [`BlockProxy`] is a [`Block`] whose driver answers [`super::BlockControl`].
//!
//! The proxy keeps requests, with their frames, until the driver says through the ring that they have ended; it copies none of
//! their bytes. Frames that the device will write are cleared first ([`clear`]). Completed frames are taken back from the
//! driver's devices ([`DmaWindow`]). When the driver has died ([`BlockProxy::restarted`]), its successor gets the unfinished
//! requests again in their old order, with flushes as barriers, and clients see a pause. A driver that breaks the protocol is
//! sent nothing more and is reported to the supervisor.
//!
//! Each direction has its lock: the [`Link`]'s is held to send, and that of [`Completing`](super::slots::Completing), which
//! comes after it, to take completions. A thread that finds another one sending hands its requests over ([`Combiner`]). Sinks are
//! called without locks by the thread that rings ([`rt::ring::Bell::set_handler`]). In the kernel world that is the driver's own
//! thread, so a completion wakes the waiting thread without a third thread between them (M2).
use super::{
    Block, BlockError, BlockInfo, BlockSink, Operation, Request, Segment, Sequence,
    combiner::Combiner,
    control::{BlockControl, BlockControlClient},
    entries,
    flights::Flights,
    slots::{self, BATCH, Ended, NextStep, RequestSlots},
};
use crate::{
    AttachError,
    call::Caller,
    link::{Link, Linked},
    overdue::Watch,
};
use alloc::{
    boxed::Box,
    format,
    sync::Arc,
    vec::{IntoIter, Vec},
};
use core::array;
use rt::{
    device::DmaWindow,
    lock_class,
    ring::{Corrupt, Doorbell},
    sync::{Event, Mutex, MutexGuard},
    thread::{self, Policy},
    time::{self, Instant},
};

lock_class! {
    static STATE = "block.proxy";
    static WATCH = "block.proxy.watch";
}

/// Nice value of the completion threads, the same as that of drivers' own: before ordinary programs.
const COMPLETION_NICE: i8 = -10;
/// Pause before frames that could not be lent are tried again.
const RETRY_NS: u64 = 1_000_000;
/// Time for which an error is held back before its driver is asked. If the driver does not answer it is asked again after the
/// same time. A dying driver needs some time, because a panic prints first.
const ASK_NS: u64 = 100_000_000;

/// The driver that runs now.
#[derive(Clone, Debug, Default)]
pub struct RunningDriver {
    /// The memory that its devices reach.
    pub window: DmaWindow,
    /// Number of the running driver among all that ever ran; `None` if none runs.
    pub generation: Option<u64>,
}

/// The role of a thread that submits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It also sends the batches that other threads queue meanwhile.
    Combiner,
    Client,
}

/// A block device whose driver is in another world.
pub struct BlockProxy {
    pub(super) info: BlockInfo,
    pub(super) control: BlockControlClient,
    pub(super) link: Link<Flights>,
    pub(super) slots: Arc<RequestSlots>,
    combiner: Combiner,
    /// Signalled when requests have ended.
    pub(super) room: Event,
    /// Signalled when frames could not be lent or an error is held back.
    troubled: Event,
    /// Returns the driver that runs.
    pub(super) runs: Box<dyn Fn() -> RunningDriver + Send + Sync>,
    pub(super) watch: Mutex<Watch>,
}

impl BlockProxy {
    /// Connects to the device behind `caller`, whose driver must be running. `on_corrupt` is called when a driver breaks the
    /// protocol; `runs` returns the driver that runs.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn new(
        caller: Caller,
        on_corrupt: Box<dyn Fn() + Send + Sync>,
        runs: Box<dyn Fn() -> RunningDriver + Send + Sync>,
    ) -> Result<Arc<BlockProxy>, AttachError> {
        let control = BlockControlClient::new(caller);
        let info = control.call_describe()?.ok_or(AttachError::Lost)?;
        let info = info.info().ok_or(AttachError::Senseless)?;
        let link = Link::new(info.name.clone(), &STATE, entries::RINGS, Flights::new, on_corrupt)?;
        let slots = link.lock().traffic.slots();
        let (combiner, room, troubled) = (Combiner::new(), Event::new(), Event::new());
        let watch = Mutex::new(&WATCH, Watch::default());
        let proxy = Arc::new(BlockProxy {
            info,
            control,
            link,
            slots,
            combiner,
            room,
            troubled,
            runs,
            watch,
        });
        proxy.restarted()?;
        let policy = Policy::Fair { nice: COMPLETION_NICE };
        let name = format!("{}/remote", proxy.info.name);
        let (attends, tends) = (proxy.clone(), proxy.clone());
        proxy.link.bell.set_handler(&name, policy, move || attends.complete_all())?;
        thread::spawn(&name, policy, move || tends.tend())?;
        Ok(proxy)
    }

    /// Gives the rings and all requests in flight to the successor of a driver that died and cannot touch the rings any more.
    /// Opens a closed device. Blocks until the successor has taken the rings; the caller repeats it if the successor dies
    /// meanwhile.
    ///
    /// # Errors
    /// [`AttachError`]; requests wait on.
    pub fn restarted(&self) -> Result<(), AttachError> {
        // A driver that lives but did not confirm the rings may have requests at its device.
        self.control.detach().ok_or(AttachError::Lost)?;
        // The running driver is looked up when the driver has the rings. If another one took the rings than runs now, the
        // running one has none, and this function is called again for it.
        self.link.restart(
            |rings| self.control.attach(rings).map(|()| (self.runs)()),
            Flights::set_driver,
        )?;
        if self.slots.has_doubts() {
            self.troubled.signal();
        }
        Ok(())
    }

    /// Ends every request, those in flight included, with [`BlockError::Restarted`] until there is another driver
    /// ([`BlockProxy::restarted`]).
    pub fn close(&self) {
        self.link.close();
        while let Some(mut ended) = self.give_up_one() {
            ended.tell();
        }
        self.room.signal();
    }

    fn give_up_one(&self) -> Option<Ended> {
        self.link.lock().traffic.give_up(BlockError::Restarted)
    }

    /// Takes completions and tells clients, until there are none. Called when the driver or another thread has rung.
    fn complete_all(&self) {
        loop {
            let mut places = array::from_fn::<_, BATCH, _>(|_| None);
            let mut count = 0;
            let (next, window) = {
                let mut completing = self.slots.completing();
                let next = self.slots.take_completions(&mut completing, &mut places, &mut count);
                (next, completing.window.clone())
            };
            if self.slots.has_unsent() {
                self.send_more();
            }
            if let Some(ended) = places.get_mut(..count).filter(|ended| !ended.is_empty()) {
                self.room.signal();
                slots::give_back(&window, ended);
                ended.iter_mut().flatten().for_each(Ended::tell);
            }
            if self.slots.has_doubts() {
                self.troubled.signal();
            }
            match next {
                Ok(NextStep::More) => {}
                Ok(NextStep::Wait) => return,
                Err(Corrupt) => return self.link.break_off(),
            }
        }
    }

    /// Sends requests that waited for others to end.
    #[cold]
    fn send_more(&self) {
        let doorbell = self.send(self.link.lock());
        self.link.answer(doorbell);
    }

    /// Sends as much of a batch as there is room for. Returns [`Closed`] if no more can be sent.
    #[inline]
    fn send_some(
        &self,
        batch: &mut IntoIter<Request>,
        sink: &Arc<dyn BlockSink>,
    ) -> Result<Result<Doorbell, Corrupt>, Closed> {
        let mut linked = self.link.lock();
        if linked.is_closed() {
            return Err(Closed);
        }
        linked.traffic.admit_some(batch, sink);
        Ok(self.send(linked))
    }

    /// Sends the admitted requests.
    #[inline]
    fn send(&self, mut linked: MutexGuard<'_, Linked<Flights>>) -> Result<Doorbell, Corrupt> {
        let (doorbell, is_refused) = (linked.send(), linked.traffic.is_refused());
        drop(linked);
        if is_refused {
            self.troubled.signal();
        }
        doorbell
    }

    /// Sends a batch, or ends it if the device is closed. Blocks while there is no room. If this thread is the combiner, it ends
    /// that role before it wakes others, because these would keep it from ending it.
    fn send_all(&self, batch: Vec<Request>, sink: &Arc<dyn BlockSink>, mut role: Role) {
        let mut batch = batch.into_iter();
        loop {
            let ticket = self.room.ticket();
            let sent = self.send_some(&mut batch, sink);
            let is_over = sent.is_err() || batch.as_slice().is_empty();
            let mut doorbell = sent.unwrap_or(Ok(Doorbell::Silent));
            if core::mem::replace(&mut role, Role::Client) == Role::Combiner && self.combiner.end()
            {
                doorbell = self.send_handed(doorbell);
            }
            self.link.answer(doorbell);
            if is_over {
                break;
            }
            self.room.wait(ticket, None);
        }
        for request in batch {
            let tag = request.tag;
            drop(request);
            sink.completed(tag, Err(BlockError::Restarted));
        }
    }

    /// Sends the batches that were queued, as the combiner, and ends that role. Returns whether the driver must
    /// be woken, also for the earlier `doorbell`. The driver is woken before this thread waits for room, because nobody else
    /// would make room.
    #[cold]
    fn send_handed(&self, mut doorbell: Result<Doorbell, Corrupt>) -> Result<Doorbell, Corrupt> {
        loop {
            while let Some((batch, sink)) = self.combiner.next() {
                let mut batch = batch.into_iter();
                let sent = self.send_some(&mut batch, &sink);
                doorbell = join(doorbell, sent.unwrap_or(Ok(Doorbell::Silent)));
                if !batch.as_slice().is_empty() {
                    // The ring is full: the requests in it must be done first.
                    self.link.answer(core::mem::replace(&mut doorbell, Ok(Doorbell::Silent)));
                    self.send_all(batch.collect(), &sink, Role::Client);
                }
            }
            if !self.combiner.end() {
                return doorbell;
            }
        }
    }

    /// Body of the proxy's thread, which never ends: it lends frames again that were refused, and settles errors that are held
    /// back.
    fn tend(&self) -> ! {
        let mut ask_at = None;
        loop {
            let ticket = self.troubled.ticket();
            let doubted = self.slots.has_doubts().then(|| self.ask_at(&mut ask_at));
            let is_refused = self.link.lock().traffic.is_refused();
            let retry = is_refused.then(|| time::now().after_ns(RETRY_NS));
            let deadline = retry.into_iter().chain(doubted).min();
            self.troubled.wait(ticket, deadline);
            self.complete_all();
        }
    }

    /// Settles errors that are held back, if it is time. Returns when to do so again. `next` is the time at which the driver is
    /// asked, and the number of errors that will have been held back for long enough by then.
    fn ask_at(&self, next: &mut Option<(Instant, u64)>) -> Instant {
        let now = time::now();
        let begin = || (now.after_ns(ASK_NS), self.slots.errors());
        let (at, errors) = *next.get_or_insert_with(begin);
        if now < at {
            return at;
        }
        self.settle_doubts(errors);
        let begun = begin();
        *next = self.slots.has_doubts().then_some(begun);
        begun.0
    }
}

impl Flights {
    /// Takes as many requests of a batch as there is room for.
    fn admit_some(&mut self, batch: &mut IntoIter<Request>, sink: &Arc<dyn BlockSink>) {
        while batch.as_slice().first().is_some_and(|request| self.has_room(request)) {
            if let Some(request) = batch.next() {
                self.admit(request, sink);
            }
        }
    }
}

/// There is no driver, and none is expected.
struct Closed;

/// Combines two results.
fn join(
    one: Result<Doorbell, Corrupt>,
    other: Result<Doorbell, Corrupt>,
) -> Result<Doorbell, Corrupt> {
    Ok(if one? == Doorbell::Ring { other.and(Ok(Doorbell::Ring))? } else { other? })
}

/// Clears the frames that the device will write for `request`. Otherwise a driver that reports a read as done although its
/// device wrote nothing would disclose old contents of the frames.
#[inline]
fn clear(request: &Request) {
    if request.operation == Operation::Read {
        for Segment { frame, offset, length } in &request.segments {
            frame.zero(*offset as usize, *length as usize);
        }
    }
}

/// Removes from `batch` the requests that entries cannot encode, and tells their sink.
#[cold]
fn refuse_unsayable(batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
    for request in batch.extract_if(.., |request| !entries::is_encodable(request)) {
        sink.completed(request.tag, Err(BlockError::Invalid));
    }
}

impl Block for BlockProxy {
    fn info(&self) -> BlockInfo {
        self.info.clone()
    }

    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        if !batch.iter().all(entries::is_encodable) {
            refuse_unsayable(batch, sink);
        }
        batch.iter().for_each(clear);
        let mut batch = core::mem::take(batch);
        let role = if self.combiner.take() { Role::Combiner } else { Role::Client };
        if role == Role::Client {
            match self.combiner.hand((batch, sink.clone())) {
                Ok(false) => return,
                Ok(true) => {
                    let doorbell = self.send_handed(Ok(Doorbell::Silent));
                    return self.link.answer(doorbell);
                }
                Err((all, _)) => batch = all,
            }
        }
        self.send_all(batch, sink, role);
    }

    fn offer(&self, request: Request, sink: &Arc<dyn BlockSink>) -> Result<(), Request> {
        if !entries::is_encodable(&request) {
            return Err(request);
        }
        clear(&request);
        let doorbell = {
            let mut linked = self.link.lock();
            if linked.is_closed() || !linked.traffic.has_room(&request) {
                return Err(request);
            }
            linked.traffic.admit(request, sink);
            self.send(linked)
        };
        self.link.answer(doorbell);
        Ok(())
    }

    fn start(&self, sequence: Sequence, sink: &Arc<dyn BlockSink>) -> Result<(), Sequence> {
        if !sequence.is_sound() || !sequence.requests().all(entries::is_encodable) {
            return Err(sequence);
        }
        let doorbell = {
            let mut linked = self.link.lock();
            if linked.is_closed() || !linked.traffic.has_room_for_all(&sequence) {
                return Err(sequence);
            }
            linked.traffic.admit_sequence(sequence, sink);
            self.send(linked)
        };
        self.link.answer(doorbell);
        Ok(())
    }
}

#[cfg(test)]
impl BlockProxy {
    /// Submits `batch` while another thread hands `handed` over.
    pub(super) fn submit_beside(
        &self,
        handed: Vec<Request>,
        batch: Vec<Request>,
        sink: &Arc<dyn BlockSink>,
    ) {
        assert!(self.combiner.take());
        assert!(matches!(self.combiner.hand((handed, sink.clone())), Ok(false)));
        self.send_all(batch, sink, Role::Combiner);
    }
    /// Blocks until an error is held back.
    pub(super) fn wait_for_doubts(&self) {
        while !self.slots.has_doubts() {
            std::thread::yield_now();
        }
    }
    /// Returns whether nothing is in flight and no slot was lost.
    pub(super) fn has_all_slots(&self) -> bool {
        self.link.lock().traffic.has_all_slots()
    }
}

impl core::fmt::Debug for BlockProxy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BlockProxy").field("info", &self.info).finish_non_exhaustive()
    }
}
