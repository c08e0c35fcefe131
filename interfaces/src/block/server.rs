//! The driver's side: [`BlockService`] gives any [`Block`] the requests that come through rings.
//!
//! A [`BlockSession`] is one client's rings: a thread takes requests and submits them, batch by batch as they come, and the
//! device's completions go into the other ring on whatever thread brings them; that thread begins the next step of a
//! sequence ([`Course`]). A malformed request ends the session; the client then restarts or closes the device.
use super::{
    Block, BlockError, BlockSink, Request,
    assembler::{Assembler, Gathered},
    control::{BlockControl, BlockDescription, Whereabouts},
    course::{Course, SequenceOwner},
    entries::{self, CompletionEntry, ENTRIES, RequestEntry},
};
use crate::{AttachError, link::Rings};
use alloc::{format, sync::Arc, vec, vec::Vec};
use rt::{
    lock_class,
    memory::Region,
    ring::{Bell, Consumer, Corrupt, Part, Producer},
    sync::{Event, Mutex},
    thread::{self, Policy},
};

lock_class! {
    static SESSION = "block.session";
    static SENDING = "block.completions";
}

const SERVER_NICE: i8 = -10;
/// The greatest number of requests submitted at once.
const BATCH: usize = 64;

/// Serves a block device to one client at a time.
pub struct BlockService {
    block: Arc<dyn Block>,
    session: Mutex<Option<Arc<BlockSession>>>,
}

impl BlockService {
    /// Makes a service for `block`. It takes requests once rings are attached.
    pub fn new(block: Arc<dyn Block>) -> BlockService {
        BlockService { block, session: Mutex::new(&SESSION, None) }
    }
}

impl BlockControl for BlockService {
    fn describe(&self) -> Option<BlockDescription> {
        Some(BlockDescription::of(&self.block.info()))
    }

    fn detach(&self) -> Option<()> {
        if let Some(before) = self.session.lock().take() {
            before.close();
        }
        Some(())
    }

    fn attach(&self, rings: Region) -> Result<(), AttachError> {
        let mut session = self.session.lock();
        let rings = Rings::of(rings, entries::RINGS)?;
        if let Some(before) = session.take() {
            before.close();
            rings.take_over();
        }
        let (completions, requests) = rings.driver()?;
        let fresh = Arc::new(BlockSession::new(&rings, completions));
        let (ours, block) = (fresh.clone(), self.block.clone());
        let policy = Policy::Fair { nice: SERVER_NICE };
        let name = format!("{}/rings", block.info().name);
        thread::spawn(&name, policy, move || ours.serve(&block, requests))?;
        *session = Some(fresh);
        Ok(())
    }

    fn find(&self, tag: u64) -> Option<Whereabouts> {
        let session = self.session.lock().clone();
        let found = session.map_or(Whereabouts::NoRings, |session| session.find(tag));
        self.block.look_again();
        Some(found)
    }
}

impl core::fmt::Debug for BlockService {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BlockService").finish_non_exhaustive()
    }
}

struct Sending {
    completions: Producer<Part, CompletionEntry>,
    /// Requests at the device.
    pending: usize,
    /// The last tag at each slot number ([`place_of`]). It stays when the request has ended: a client that asks for such a
    /// request has not been told of its end.
    held: Vec<u64>,
    /// Steps of sequences that the device had no room for. The session's thread submits them.
    later: Vec<(Vec<Request>, Arc<dyn BlockSink>)>,
    is_closed: bool,
    /// The session's thread has ended.
    is_over: bool,
}

/// Tag value for no request. No slot of the client has this number.
const NOT_HELD: u64 = u64::MAX;

/// Returns the number of the client's slot, the lower half of the tag. No two requests have the same slot at a time.
fn place_of(tag: u64) -> usize {
    tag as u32 as usize
}

impl Sending {
    /// Notes the gathered requests as held, before the device gets them.
    fn hold(&mut self, gathered: &Gathered) {
        self.pending += gathered.batch.len() + gathered.sequences.len();
        for tag in tags(gathered) {
            if let Some(place) = self.held.get_mut(place_of(tag)) {
                *place = tag;
            }
        }
    }
}

fn tags(gathered: &Gathered) -> impl Iterator<Item = u64> {
    let of_sequences = gathered.sequences.iter().map(|sequence| sequence.first.tag);
    gathered.batch.iter().map(|request| request.tag).chain(of_sequences)
}

/// The session of one client: its rings.
struct BlockSession {
    sending: Mutex<Sending>,
    /// Signalled when a closed session may have ended.
    ended: Event,
    request_bell: Bell,
    completion_bell: Bell,
}

impl BlockSession {
    fn new(rings: &Rings, completions: Producer<Part, CompletionEntry>) -> BlockSession {
        let held = vec![NOT_HELD; ENTRIES];
        let later = Vec::new();
        let (is_closed, is_over) = (false, false);
        let sending = Sending { completions, pending: 0, held, later, is_closed, is_over };
        BlockSession {
            sending: Mutex::new(&SENDING, sending),
            ended: Event::new(),
            request_bell: rings.forth.consumer_bell(),
            completion_bell: rings.back.consumer_bell(),
        }
    }

    /// Stops completions to the client and blocks until the device has done all requests.
    fn close(&self) {
        self.sending.lock().is_closed = true;
        self.request_bell.ring();
        loop {
            let ticket = self.ended.ticket();
            let is_over = {
                let sending = self.sending.lock();
                sending.is_over && sending.pending == 0
            };
            if is_over {
                return;
            }
            self.ended.wait(ticket, None);
        }
    }

    /// Returns the state of the request with that tag.
    fn find(&self, tag: u64) -> Whereabouts {
        let is_held = self.sending.lock().held.get(place_of(tag)) == Some(&tag);
        if is_held {
            return Whereabouts::UnderWay;
        }
        self.request_bell.ring();
        Whereabouts::Unknown
    }

    /// Body of the session's thread.
    fn serve(
        self: Arc<BlockSession>,
        block: &Arc<dyn Block>,
        mut requests: Consumer<Part, RequestEntry>,
    ) {
        let sink: Arc<dyn BlockSink> = self.clone();
        let owner: Arc<dyn SequenceOwner> = self.clone();
        let mut assembler = Assembler::default();
        let mut gathered = Gathered { batch: Vec::with_capacity(BATCH), ..Gathered::default() };
        loop {
            let taken = gather(&mut requests, &mut assembler, &mut gathered);
            let (is_closed, later) = {
                let mut sending = self.sending.lock();
                sending.hold(&gathered);
                (sending.is_closed, core::mem::take(&mut sending.later))
            };
            for (mut batch, sink) in later {
                block.submit(&mut batch, &sink);
            }
            if is_closed {
                tags(&gathered).for_each(|tag| self.completed(tag, Ok(())));
                break;
            }
            if !gathered.batch.is_empty() {
                block.submit(&mut gathered.batch, &sink);
            }
            for sequence in gathered.sequences.drain(..) {
                Course::begin(block, &owner, sequence);
            }
            match taken {
                Ok(GatherResult::Some) => {}
                Ok(GatherResult::All) => {
                    self.request_bell.wait(None);
                }
                Err(Corrupt) => break,
            }
        }
        let mut sending = self.sending.lock();
        if !sending.is_closed {
            log::error!("{}: its client breaks the protocol of the rings", block.info().name);
        }
        sending.is_over = true;
        let later = core::mem::take(&mut sending.later);
        drop(sending);
        for (batch, sink) in later {
            let given_up = Err(BlockError::Restarted);
            batch.iter().for_each(|request| sink.completed(request.tag, given_up));
        }
        self.ended.signal();
    }
}

/// Result of [`gather`].
enum GatherResult {
    /// The ring has more requests.
    Some,
    /// The ring was emptied, and the wait for more is announced.
    All,
}

/// Takes the requests in the ring, up to a batch. At a malformed entry it takes those before it.
fn gather(
    requests: &mut Consumer<Part, RequestEntry>,
    assembler: &mut Assembler,
    gathered: &mut Gathered,
) -> Result<GatherResult, Corrupt> {
    let entries = requests.waiting().map_or(0, |waiting| BATCH.min(waiting as usize));
    for _ in 0..entries {
        let Some((entry, _)) = requests.pop()? else { break };
        assembler.add(&entry, gathered)?;
    }
    let is_all = entries < BATCH && requests.wait_begins()?;
    Ok(if is_all { GatherResult::All } else { GatherResult::Some })
}

impl BlockSession {
    /// Tells the client that the request or sequence of that tag has ended. If it failed, `at` is the index of the failed
    /// request.
    fn say(&self, tag: u64, at: u32, result: Result<(), BlockError>) {
        let doorbell = {
            let mut sending = self.sending.lock();
            sending.pending = sending.pending.saturating_sub(1);
            if sending.is_closed {
                drop(sending);
                return self.ended.signal();
            }
            sending.completions.push(&CompletionEntry::new(tag, at, result))
        };
        match doorbell {
            Ok(doorbell) => self.completion_bell.answer(doorbell),
            Err(_) => log::error!("a client's ring of completions is full or corrupt"),
        }
    }
}

impl BlockSink for BlockSession {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
        self.say(tag, 0, result);
    }
}

impl SequenceOwner for BlockSession {
    fn may_begin(&self) -> bool {
        let sending = self.sending.lock();
        !sending.is_closed && !sending.is_over
    }
    fn submit_later(&self, batch: Vec<Request>, sink: Arc<dyn BlockSink>) {
        let refused = {
            let mut sending = self.sending.lock();
            if sending.is_over {
                Some((batch, sink))
            } else {
                sending.later.push((batch, sink));
                None
            }
        };
        match refused {
            None => self.request_bell.ring(),
            Some((batch, sink)) => {
                let given_up = Err(BlockError::Restarted);
                batch.iter().for_each(|request| sink.completed(request.tag, given_up));
            }
        }
    }
    fn ended(&self, tag: u64, at: u32, result: Result<(), BlockError>) {
        self.say(tag, at, result);
    }
}

#[cfg(test)]
impl BlockService {
    /// Kills the session: from now on its thread does nothing, and nothing reaches the client.
    pub(super) fn die(&self) {
        let Some(session) = self.session.lock().take() else { return };
        session.sending.lock().is_closed = true;
        session.request_bell.ring();
        loop {
            let ticket = session.ended.ticket();
            if session.sending.lock().is_over {
                return;
            }
            session.ended.wait(ticket, None);
        }
    }
}
