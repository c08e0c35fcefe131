//! A port in another world: [`PortProxy`] is a [`Port`] whose driver answers [`super::PortControl`].
//!
//! Output that was accepted is kept here until the driver has taken it from the ring; when the driver has died
//! its successor is sent what was not taken, once ([`PortProxy::restarted`]). Input that had reached the ring is not lost
//! with the driver. `order` keeps senders' bytes together and is taken before `state`, which guards all else; the
//! sink is called without locks, on the proxy's own thread.
use super::{
    Port, PortSink,
    control::{PortControl, PortControlClient, PortDescription},
    entries::{Chunk, Entry, Input, Output, Parts, REGION_BYTES},
    state::{Link, News, State},
};
use crate::{
    block::AttachError,
    call::{Caller, Failure},
};
use alloc::{boxed::Box, format, string::String, sync::Arc};
use rt::{
    lock_class,
    memory::Region,
    ring::{Bell, Consumer, Corrupt, Doorbell, Part, Producer},
    sync::{Event, Mutex},
    thread::{self, Policy},
};

lock_class! {
    static ORDER = "port.order";
    static STATE = "port.proxy";
}

const INPUT_NICE: i8 = -10;

/// See the module's page.
pub struct PortProxy {
    description: PortDescription,
    control: PortControlClient,
    region: Region,
    parts: Parts,
    /// Where senders wait; where the driver waits for output; where the proxy's thread waits for input.
    room_bell: Bell,
    output_bell: Bell,
    input_bell: Bell,
    order: Mutex<()>,
    state: Mutex<State>,
    /// Signalled when the sink has room, or another one came, or the link changed.
    resumed: Event,
    on_corrupt: Box<dyn Fn() + Send + Sync>,
}

type Rings = (Producer<Part, Entry>, Consumer<Part, Entry>);

fn rings(parts: &Parts) -> Option<Rings> {
    Some((Producer::new(parts.output.clone())?, Consumer::new(parts.input.clone())?))
}

impl PortProxy {
    /// The port behind `caller`, whose driver runs; `on_corrupt` is called when one breaks the protocol.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn new(
        caller: Caller,
        on_corrupt: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Arc<PortProxy>, AttachError> {
        let control = PortControlClient::new(caller);
        let description = control.call_describe()?.ok_or(AttachError::Lost)?;
        let region = Region::new(REGION_BYTES).map_err(|_| AttachError::NoMemory)?;
        let parts = Parts::of(&region).ok_or(AttachError::TooSmall)?;
        let (output, input) = rings(&parts).ok_or(AttachError::TooSmall)?;
        let proxy = Arc::new(PortProxy {
            description,
            control,
            region,
            room_bell: parts.output.producer_bell(),
            output_bell: parts.output.consumer_bell(),
            input_bell: parts.input.consumer_bell(),
            parts,
            order: Mutex::new(&ORDER, ()),
            state: Mutex::new(&STATE, State::new(output, input)),
            resumed: Event::new(),
            on_corrupt,
        });
        let ours = proxy.clone();
        let policy = Policy::Fair { nice: INPUT_NICE };
        let name = format!("{}/remote", description.name.as_str());
        thread::spawn(&name, policy, move || ours.take_input())
            .map_err(|_| AttachError::NoMemory)?;
        proxy.restarted().inspect_err(|_| proxy.close())?;
        Ok(proxy)
    }

    /// The driver has died and cannot touch the rings any more: gives its successor the rings and the output
    /// that was not taken. Blocks until it has them; to be repeated where it dies over that.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn restarted(&self) -> Result<(), AttachError> {
        let epoch = {
            let mut state = self.state.lock();
            if state.link == Link::Closed {
                return Err(AttachError::Lost);
            }
            state.recall();
            self.parts.output.clear();
            self.parts.input.clear();
            let (output, input) = rings(&self.parts).ok_or(AttachError::TooSmall)?;
            (state.output, state.input) = (output, input);
            state.epoch += 1;
            state.epoch
        };
        self.input_bell.ring();
        self.room_bell.ring();
        self.control.attach(self.region.clone())?;
        let doorbell = {
            let mut state = self.state.lock();
            if state.epoch != epoch || state.link == Link::Closed {
                return Ok(());
            }
            state.link = Link::Up;
            state.send()
        };
        self.answer(doorbell);
        self.room_bell.ring();
        self.resumed.signal();
        Ok(())
    }

    /// There will be no other driver: the other end is gone.
    pub fn close(&self) {
        self.state.lock().link = Link::Closed;
        self.input_bell.ring();
        self.room_bell.ring();
        self.resumed.signal();
    }

    fn answer(&self, doorbell: Result<Doorbell, Corrupt>) {
        match doorbell {
            Ok(doorbell) => self.output_bell.answer(doorbell),
            Err(Corrupt) => self.break_off(),
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
        let name = self.description.name.as_str();
        log::error!("{name}: the driver breaks the protocol of its rings");
        (self.on_corrupt)();
    }

    /// Does `step`, which accepts output, until it says that it is done or there is nobody at the other end;
    /// blocks until the driver has taken something in between.
    fn push(&self, mut step: impl FnMut(&mut State) -> bool) {
        loop {
            let (doorbell, is_done) = {
                let mut state = self.state.lock();
                let is_gone = state.link == Link::Closed || state.is_open == Some(false);
                let settled = state.settle();
                // Announced before the second look, so that what the driver takes after it rings. Where its
                // count makes no sense the bell is rung for its successor.
                let is_done =
                    step(&mut state) || is_gone || (state.begin_wait().is_ok() && step(&mut state));
                (settled.and_then(|()| state.send()), is_done)
            };
            self.answer(doorbell);
            if is_done {
                return;
            }
            self.room_bell.wait(None);
        }
    }

    /// The proxy's thread.
    fn take_input(&self) {
        let mut held: Option<(Chunk, usize)> = None;
        loop {
            let ticket = self.resumed.ticket();
            let (sink, news, next) = {
                let mut state = self.state.lock();
                if state.link == Link::Closed {
                    return;
                }
                let sink = state.sink.clone();
                let next = match (&sink, held) {
                    (Some(_), None) => state.next_input(),
                    _ => Ok(None),
                };
                (sink, state.take_news(), next)
            };
            let Some(sink) = sink else {
                self.resumed.wait(ticket, None, false);
                continue;
            };
            tell(&sink, news);
            let doorbell = match next {
                Err(Corrupt) => {
                    self.break_off();
                    self.resumed.wait(ticket, None, false);
                    continue;
                }
                Ok(None) if held.is_none() => {
                    self.wait_for_input();
                    continue;
                }
                Ok(None) => Doorbell::Silent,
                Ok(Some((input, doorbell))) => {
                    held = self.note(&sink, input).map(|chunk| (chunk, 0));
                    doorbell
                }
            };
            if doorbell == Doorbell::Ring {
                // Where that is lost the driver is, and its successor offers its input anew.
                let _: Result<_, Failure> = self.control.call_resume();
            }
            if let Some((chunk, from)) = held {
                let rest = chunk.as_slice().get(from..).unwrap_or_default();
                let taken = sink.received(rest).min(rest.len());
                held = (taken < rest.len()).then_some((chunk, from + taken));
                if held.is_some() {
                    self.resumed.wait(ticket, None, false);
                }
            }
        }
    }

    /// Blocks until there may be input.
    fn wait_for_input(&self) {
        let must_wait = {
            let mut state = self.state.lock();
            let is_quiet = state.link != Link::Closed && state.left_over.is_empty();
            is_quiet && !state.is_sink_new && state.input.wait_begins().unwrap_or(false)
        };
        if must_wait {
            self.input_bell.wait(None);
        }
    }

    /// Tells the sink what is no bytes; gives the bytes.
    fn note(&self, sink: &Arc<dyn PortSink>, input: Input) -> Option<Chunk> {
        match input {
            Input::Bytes(chunk) => return Some(chunk),
            Input::Connected { is_open } => {
                let before = self.state.lock().is_open.replace(is_open);
                // Senders look whether anybody is there.
                self.room_bell.ring();
                if before != Some(is_open) {
                    sink.connected(is_open);
                }
            }
            Input::Window { rows, columns } => {
                let before = self.state.lock().window.replace((rows, columns));
                if before != Some((rows, columns)) {
                    sink.resized(rows, columns);
                }
            }
        }
        None
    }
}

fn tell(sink: &Arc<dyn PortSink>, (is_open, window): News) {
    if let Some((rows, columns)) = window {
        sink.resized(rows, columns);
    }
    if let Some(is_open) = is_open {
        sink.connected(is_open);
    }
}

impl Port for PortProxy {
    fn name(&self) -> String {
        String::from(self.description.name.as_str())
    }

    fn is_console(&self) -> bool {
        self.description.is_console
    }

    fn send(&self, bytes: &[u8]) -> usize {
        let _order = self.order.lock();
        let mut sent = 0;
        self.push(|state| {
            let is_gone = state.link == Link::Closed || state.is_open == Some(false);
            while !is_gone && let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
                let chunk = Chunk::first_of(rest);
                if state.accept(Output::Bytes(chunk)).is_none() {
                    return false;
                }
                sent += chunk.as_slice().len();
            }
            sent == bytes.len()
        });
        sent
    }

    fn drain(&self) {
        let _order = self.order.lock();
        let mut number = None;
        self.push(|state| {
            if number.is_none() {
                number = state.accept(Output::Drain);
            }
            number.is_some_and(|number| state.done >= number)
        });
    }

    fn set_sink(&self, sink: Arc<dyn PortSink>) {
        {
            let mut state = self.state.lock();
            state.sink = Some(sink);
            state.is_sink_new = true;
        }
        self.input_bell.ring();
        self.resumed.signal();
    }

    fn resume(&self) {
        self.resumed.signal();
    }
}

impl core::fmt::Debug for PortProxy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PortProxy").field("description", &self.description).finish_non_exhaustive()
    }
}
