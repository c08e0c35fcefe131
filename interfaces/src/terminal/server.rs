//! The driver's side: [`PortService`] gives any [`Port`] the bytes that come through rings, and puts the port's
//! input into the rings.
//!
//! A [`TerminalSession`] is one client's rings. Its thread sends the output in the ring and takes each entry when the
//! device has it. Input that the ring has no room for stays with the port until the client says that there is
//! room; news that found no room is kept in `owed`.
use super::{
    PortSink, Position, Resumable,
    control::{PortControl, PortDescription},
    entries::{self, Chunk, EncodedEntry, InputEntry, Output},
};
use crate::{AttachError, link::Rings, wire::Name};
use alloc::{collections::VecDeque, format, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::*};
use rt::{
    lock_class,
    memory::Region,
    ring::{Bell, Consumer, Corrupt, Doorbell, Part, Producer},
    sync::{Event, Mutex},
    thread::{self, Policy},
};

lock_class! {
    static SESSION = "port.session";
    static INPUT = "port.input";
}

const SERVER_NICE: i8 = -10;
/// The greatest number of bytes sent at once.
const BATCH_BYTES: usize = 16 << 10;

/// Serves a port to one client at a time.
pub struct PortService {
    port: Arc<dyn Resumable>,
    session: Mutex<Option<Arc<TerminalSession>>>,
}

impl PortService {
    /// Makes a service for `port`. It sends output once rings are attached.
    pub fn new(port: Arc<dyn Resumable>) -> PortService {
        PortService { port, session: Mutex::new(&SESSION, None) }
    }
}

impl PortControl for PortService {
    fn describe(&self) -> Option<PortDescription> {
        let name = Name::cut(&self.port.name());
        Some(PortDescription { name, is_console: self.port.is_console() })
    }

    fn detach(&self) -> Option<()> {
        if let Some(before) = self.session.lock().take() {
            before.close();
        }
        Some(())
    }

    fn attach(&self, rings: Region, position: Position) -> Result<u64, AttachError> {
        let mut session = self.session.lock();
        let rings = Rings::of(rings, entries::RINGS)?;
        if let Some(before) = session.take() {
            before.close();
            rings.take_over();
        }
        let (input, output) = rings.driver()?;
        let sent = self.port.pick_up(position);
        let fresh = Arc::new(TerminalSession::new(&rings, input));
        let (ours, port) = (fresh.clone(), self.port.clone());
        let policy = Policy::Fair { nice: SERVER_NICE };
        thread::spawn(&format!("{}/rings", port.name()), policy, move || {
            ours.serve(&port, output)
        })?;
        self.port.set_sink(fresh.clone());
        *session = Some(fresh);
        Ok(sent)
    }

    fn is_sending(&self) -> Option<bool> {
        let session = self.session.lock().clone();
        Some(session.is_some_and(|session| session.is_sending()))
    }

    fn resume(&self) -> Option<()> {
        let session = self.session.lock().clone();
        if session.is_some_and(|session| session.pay()) {
            self.port.resume();
        }
        Some(())
    }

    fn position(&self) -> Option<Position> {
        let session = self.session.lock();
        session.is_none().then(|| self.port.position())
    }
}

impl core::fmt::Debug for PortService {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PortService").finish_non_exhaustive()
    }
}

struct InputSide {
    ring: Producer<Part, EncodedEntry>,
    owed: VecDeque<InputEntry>,
    /// The client broke the protocol, or was given other rings.
    is_closed: bool,
}

/// The session of one client: its rings.
struct TerminalSession {
    input: Mutex<InputSide>,
    is_closed: AtomicBool,
    is_over: AtomicBool,
    /// The port was given output that it has not taken yet.
    is_sending: AtomicBool,
    /// Signalled when the session's thread has ended.
    ended: Event,
    output_bell: Bell,
    room_bell: Bell,
    input_bell: Bell,
}

impl TerminalSession {
    fn new(rings: &Rings, ring: Producer<Part, EncodedEntry>) -> TerminalSession {
        let input = InputSide { ring, owed: VecDeque::new(), is_closed: false };
        TerminalSession {
            input: Mutex::new(&INPUT, input),
            is_closed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_sending: AtomicBool::new(false),
            ended: Event::new(),
            output_bell: rings.forth.consumer_bell(),
            room_bell: rings.forth.producer_bell(),
            input_bell: rings.back.consumer_bell(),
        }
    }

    /// Stops using the rings. Blocks until the port has taken the output that it was being given.
    fn close(&self) {
        self.input.lock().is_closed = true;
        self.is_closed.store(true, SeqCst);
        self.output_bell.ring();
        loop {
            let ticket = self.ended.ticket();
            if self.is_over.load(SeqCst) {
                return;
            }
            self.ended.wait(ticket, None);
        }
    }

    /// Body of the session's thread.
    fn serve(&self, port: &Arc<dyn Resumable>, mut output: Consumer<Part, EncodedEntry>) {
        let _over = Over(self);
        let mut batch = Vec::with_capacity(BATCH_BYTES);
        while !self.is_closed.load(SeqCst) {
            if self.step(port, &mut output, &mut batch) == Err(Corrupt) {
                log::error!("{}: its client breaks the protocol of the rings", port.name());
                break;
            }
        }
    }

    /// Sends the output in the ring, or waits for more.
    fn step(
        &self,
        port: &Arc<dyn Resumable>,
        output: &mut Consumer<Part, EncodedEntry>,
        batch: &mut Vec<u8>,
    ) -> Result<(), Corrupt> {
        let entries = match gather(output, batch)? {
            NextOutput::Bytes(entries) => {
                self.is_sending.store(true, Release);
                // Output that the port does not take is lost, because the other end is gone.
                port.send(batch);
                port.settle();
                entries
            }
            NextOutput::Drain => {
                self.is_sending.store(true, Release);
                port.drain();
                1
            }
            NextOutput::Nothing => {
                if output.wait_begins()? && !self.is_closed.load(SeqCst) {
                    self.output_bell.wait(None);
                }
                0
            }
        };
        for _ in 0..entries {
            self.room_bell.answer(output.advance());
        }
        self.is_sending.store(false, Release);
        Ok(())
    }

    /// Answers [`PortControl::is_sending`].
    fn is_sending(&self) -> bool {
        let is_sending = self.is_sending.load(Acquire);
        self.output_bell.ring();
        is_sending
    }

    /// Puts owed news into the ring. Returns `true` if there is room for more.
    fn pay(&self) -> bool {
        let (has_room, doorbell) = {
            let mut input = self.input.lock();
            let mut doorbell = Doorbell::Silent;
            (input.pay(&mut doorbell), doorbell)
        };
        self.input_bell.answer(doorbell);
        has_room
    }

    fn tell(&self, news: InputEntry) {
        let doorbell = {
            let mut input = self.input.lock();
            let is_same = |owed: &InputEntry| match news {
                InputEntry::Window { .. } => matches!(owed, InputEntry::Window { .. }),
                InputEntry::Break => matches!(owed, InputEntry::Break),
                _ => false,
            };
            input.owed.retain(|owed| !is_same(owed));
            input.owed.push_back(news);
            let mut doorbell = Doorbell::Silent;
            input.pay(&mut doorbell);
            doorbell
        };
        self.input_bell.answer(doorbell);
    }
}

/// A guard whose drop marks the session's thread as ended.
struct Over<'s>(&'s TerminalSession);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
        self.0.ended.signal();
    }
}

/// The next entries in the ring of output.
enum NextOutput {
    /// This number of entries of bytes.
    Bytes(u64),
    Drain,
    Nothing,
}

/// Copies as many bytes from the ring to `batch` as fit. The entries stay in the ring.
fn gather(
    output: &Consumer<Part, EncodedEntry>,
    batch: &mut Vec<u8>,
) -> Result<NextOutput, Corrupt> {
    batch.clear();
    let mut entries = 0;
    while let Some(entry) = output.peek_at(entries)? {
        match Output::decode(&entry)? {
            Output::Bytes(chunk) if batch.len() + chunk.as_slice().len() <= BATCH_BYTES => {
                batch.extend_from_slice(chunk.as_slice());
            }
            Output::Drain if entries == 0 => return Ok(NextOutput::Drain),
            Output::Bytes(_) | Output::Drain => break,
        }
        entries += 1;
    }
    Ok(if entries == 0 { NextOutput::Nothing } else { NextOutput::Bytes(entries) })
}

impl InputSide {
    /// Puts `input` into the ring. Returns `false` if there is no room; the client then announces when there is.
    fn push(&mut self, input: &InputEntry, doorbell: &mut Doorbell) -> bool {
        while !self.is_closed {
            match self.ring.push(&input.encode()) {
                Ok(Doorbell::Ring) => {
                    *doorbell = Doorbell::Ring;
                    return true;
                }
                Ok(Doorbell::Silent) => return true,
                Err(rt::ring::PushError::Full) if self.ring.wait_begins() == Ok(false) => {}
                Err(_) => return false,
            }
        }
        false
    }

    fn pay(&mut self, doorbell: &mut Doorbell) -> bool {
        while let Some(news) = self.owed.front().copied() {
            if !self.push(&news, doorbell) {
                return false;
            }
            self.owed.pop_front();
        }
        true
    }
}

impl PortSink for TerminalSession {
    fn received(&self, bytes: &[u8]) -> usize {
        let mut doorbell = Doorbell::Silent;
        let taken = {
            let mut input = self.input.lock();
            let mut taken = 0;
            let may_send = input.pay(&mut doorbell);
            while may_send && let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
                let chunk = Chunk::first_of(rest);
                if !input.push(&InputEntry::Bytes(chunk), &mut doorbell) {
                    break;
                }
                taken += chunk.as_slice().len();
            }
            taken
        };
        self.input_bell.answer(doorbell);
        taken
    }

    fn connected(&self, is_open: bool) {
        self.tell(InputEntry::Connected { is_open });
    }

    fn resized(&self, rows: u16, columns: u16) {
        self.tell(InputEntry::Window { rows, columns });
    }

    fn broke(&self) {
        self.tell(InputEntry::Break);
    }
}

#[cfg(test)]
impl PortService {
    /// Kills the session between two entries: from now on it does nothing.
    pub(super) fn die(&self) {
        if let Some(session) = self.session.lock().take() {
            session.close();
        }
    }
}
