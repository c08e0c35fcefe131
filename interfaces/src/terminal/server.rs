//! The driver's side: [`PortService`] gives any [`Port`] the bytes that come through rings, and puts there what it
//! brings.
//!
//! A [`Session`] is one client's rings: a thread takes output, an entry at a time, and takes it from the ring when
//! the port has taken it. Input the ring has no room for stays with the port until the client says that there
//! is; news that found no room stands in `owed`.
use super::{
    Port, PortSink,
    control::{PortControl, PortDescription},
    entries::{Chunk, Entry, Input, Output, Parts},
};
use crate::{block::AttachError, wire::Name};
use alloc::{collections::VecDeque, format, sync::Arc};
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

/// See the module's page.
pub struct PortService {
    port: Arc<dyn Port>,
    session: Mutex<Option<Arc<Session>>>,
}

impl PortService {
    /// Serves `port`, once rings are attached.
    pub fn new(port: Arc<dyn Port>) -> PortService {
        PortService { port, session: Mutex::new(&SESSION, None) }
    }
}

impl PortControl for PortService {
    fn describe(&self) -> Option<PortDescription> {
        let name = Name::cut(&self.port.name());
        Some(PortDescription { name, is_console: self.port.is_console() })
    }

    fn attach(&self, rings: Region) -> Result<(), AttachError> {
        let mut session = self.session.lock();
        let parts = Parts::of(&rings).ok_or(AttachError::TooSmall)?;
        if let Some(before) = session.take() {
            before.close();
            // What that left here; who waited in vain looks again.
            parts.output.clear();
            parts.input.clear();
            parts.input.consumer_bell().ring();
            parts.output.producer_bell().ring();
        }
        let fresh = Arc::new(Session::new(&parts).ok_or(AttachError::TooSmall)?);
        let output = Consumer::new(parts.output.clone()).ok_or(AttachError::TooSmall)?;
        let (ours, port) = (fresh.clone(), self.port.clone());
        let policy = Policy::Fair { nice: SERVER_NICE };
        thread::spawn(&format!("{}/rings", port.name()), policy, move || ours.serve(&port, output))
            .map_err(|_| AttachError::NoMemory)?;
        self.port.set_sink(fresh.clone());
        *session = Some(fresh);
        Ok(())
    }

    fn resume(&self) -> Option<()> {
        let session = self.session.lock().clone();
        if session.is_some_and(|session| session.pay()) {
            self.port.resume();
        }
        Some(())
    }
}

impl core::fmt::Debug for PortService {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PortService").finish_non_exhaustive()
    }
}

struct InputSide {
    ring: Producer<Part, Entry>,
    owed: VecDeque<Input>,
    /// The client broke the protocol, or has other rings.
    is_closed: bool,
}

/// One client's rings.
struct Session {
    input: Mutex<InputSide>,
    is_closed: AtomicBool,
    is_over: AtomicBool,
    /// Signalled when the thread has ended.
    ended: Event,
    output_bell: Bell,
    room_bell: Bell,
    input_bell: Bell,
}

impl Session {
    fn new(parts: &Parts) -> Option<Session> {
        let ring = Producer::new(parts.input.clone())?;
        let input = InputSide { ring, owed: VecDeque::new(), is_closed: false };
        Some(Session {
            input: Mutex::new(&INPUT, input),
            is_closed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            ended: Event::new(),
            output_bell: parts.output.consumer_bell(),
            room_bell: parts.output.producer_bell(),
            input_bell: parts.input.consumer_bell(),
        })
    }

    /// Uses the rings no more; blocks until the port has taken what it was being given.
    fn close(&self) {
        self.input.lock().is_closed = true;
        self.is_closed.store(true, SeqCst);
        self.output_bell.ring();
        loop {
            let ticket = self.ended.ticket();
            if self.is_over.load(SeqCst) {
                return;
            }
            self.ended.wait(ticket, None, false);
        }
    }

    /// The session's thread.
    fn serve(&self, port: &Arc<dyn Port>, mut output: Consumer<Part, Entry>) {
        while !self.is_closed.load(SeqCst) {
            if self.step(port, &mut output) == Err(Corrupt) {
                log::error!("{}: its client breaks the protocol of the rings", port.name());
                break;
            }
        }
        self.is_over.store(true, SeqCst);
        self.ended.signal();
    }

    /// Sends the next entry, or waits for one.
    fn step(
        &self,
        port: &Arc<dyn Port>,
        output: &mut Consumer<Part, Entry>,
    ) -> Result<(), Corrupt> {
        let Some(entry) = output.peek()? else {
            if output.wait_begins()? && !self.is_closed.load(SeqCst) {
                self.output_bell.wait(None);
            }
            return Ok(());
        };
        match Output::decode(&entry)? {
            Output::Bytes(chunk) => {
                // What is not taken has nobody to take it: the other end is gone.
                port.send(chunk.as_slice());
            }
            Output::Drain => port.drain(),
        }
        let doorbell = output.advance();
        self.room_bell.answer(doorbell);
        Ok(())
    }

    /// Says what is owed; `true` where there is room for more.
    fn pay(&self) -> bool {
        let (has_room, doorbell) = {
            let mut input = self.input.lock();
            let mut doorbell = Doorbell::Silent;
            (input.pay(&mut doorbell), doorbell)
        };
        self.input_bell.answer(doorbell);
        has_room
    }

    fn tell(&self, news: Input) {
        let doorbell = {
            let mut input = self.input.lock();
            if matches!(news, Input::Window { .. }) {
                input.owed.retain(|owed| !matches!(owed, Input::Window { .. }));
            }
            input.owed.push_back(news);
            let mut doorbell = Doorbell::Silent;
            input.pay(&mut doorbell);
            doorbell
        };
        self.input_bell.answer(doorbell);
    }
}

impl InputSide {
    /// Puts `input` into the ring; `false` where there is no room and the client will say when there is.
    fn push(&mut self, input: &Input, doorbell: &mut Doorbell) -> bool {
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

impl PortSink for Session {
    fn received(&self, bytes: &[u8]) -> usize {
        let mut doorbell = Doorbell::Silent;
        let taken = {
            let mut input = self.input.lock();
            let mut taken = 0;
            let may_send = input.pay(&mut doorbell);
            while may_send && let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
                let chunk = Chunk::first_of(rest);
                if !input.push(&Input::Bytes(chunk), &mut doorbell) {
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
        self.tell(Input::Connected { is_open });
    }

    fn resized(&self, rows: u16, columns: u16) {
        self.tell(Input::Window { rows, columns });
    }
}

#[cfg(test)]
impl PortService {
    /// What death does, between two entries: from now on the session does nothing.
    pub(super) fn die(&self) {
        if let Some(session) = self.session.lock().take() {
            session.close();
        }
    }
}
