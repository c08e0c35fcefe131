//! A port in another world: [`PortProxy`] is a [`Port`] whose driver answers [`super::PortControl`].
//!
//! The proxy keeps accepted output until the device has it. When the driver has died, its successor reports how much output
//! the device has, and is sent the rest, once ([`PortProxy::restarted`]). The successor is told how much input the client
//! has, and sends the input behind that. `order` keeps the bytes of one sender together and is taken before the [`Link`]'s
//! lock, which guards all other state. The sink is called without locks, on the proxy's own thread.
use super::{
    Port, PortSink,
    control::{POSITION_MAX, PortControl, PortControlClient, PortDescription},
    entries::{self, Chunk, InputEntry, Output},
    state::{News, TerminalState},
};
use crate::{
    AttachError,
    call::{Caller, Failure},
    link::{Link, Linked},
    overdue::{Answer, Check, UnderWay, Watch},
};
use alloc::{boxed::Box, format, string::String, sync::Arc};
use rt::{
    lock_class,
    message::Error,
    ring::{Corrupt, Doorbell},
    sync::Mutex,
    thread::{self, Policy},
};

lock_class! {
    static ORDER = "port.order";
    static STATE = "port.proxy";
    static WATCH = "port.proxy.watch";
}

const INPUT_NICE: i8 = -10;

/// A port whose driver is in another world.
pub struct PortProxy {
    description: PortDescription,
    control: PortControlClient,
    order: Mutex<()>,
    watch: Mutex<Watch>,
    /// The rings. `changed` is also signalled when the sink has room and when a new sink was set.
    link: Link<TerminalState>,
}

impl PortProxy {
    /// Connects to the port behind `caller`, whose driver must be running. `on_corrupt` is called when a driver breaks the
    /// protocol.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn new(
        caller: Caller,
        on_corrupt: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Arc<PortProxy>, AttachError> {
        let control = PortControlClient::new(caller);
        let description = control.call_describe()?.ok_or(AttachError::Lost)?;
        let name = String::from(description.name.as_str());
        let link = Link::new(name, &STATE, entries::RINGS, TerminalState::new, on_corrupt)?;
        let (order, watch) = (Mutex::new(&ORDER, ()), Mutex::new(&WATCH, Watch::default()));
        let proxy = Arc::new(PortProxy { description, control, order, watch, link });
        proxy.begin()?;
        proxy.restarted()?;
        let ours = proxy.clone();
        let policy = Policy::Fair { nice: INPUT_NICE };
        let name = format!("{}/remote", description.name.as_str());
        thread::spawn(&name, policy, move || ours.take_input())?;
        Ok(proxy)
    }

    /// Takes the position behind that of an earlier client, which has ended.
    fn begin(&self) -> Result<(), AttachError> {
        self.control.detach().ok_or(AttachError::Lost)?;
        let position = self.control.call_position()?.ok_or(AttachError::Lost)?;
        if position.received.max(position.sent) > POSITION_MAX {
            return Err(AttachError::Senseless);
        }
        self.link.lock().traffic.begin(position);
        Ok(())
    }

    /// Gives the rings, and the output that the device does not have, to the successor of a driver that died and cannot
    /// touch the rings any more. Blocks until the successor has taken them; the caller repeats it if the successor dies
    /// meanwhile.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn restarted(&self) -> Result<(), AttachError> {
        // A driver that lives but did not confirm the rings must not put more into them.
        self.control.detach().ok_or(AttachError::Lost)?;
        self.link.restart(
            |rings| {
                let position = self.link.lock().traffic.position();
                self.control.attach(rings, position)
            },
            TerminalState::settle_at,
        )
    }

    /// Checks whether the driver has not taken output for too long. Returns the reason if it must be ended. Called once a
    /// ping period. A driver that waits for its device may do so for ever, because the reader at the other end may take any
    /// time.
    pub fn overdue(&self, check: &Check) -> Option<String> {
        let seen = self.see()?;
        let age_ns = self.watch.lock().see(check, &seen)?;
        let answer = match self.control.call_is_sending() {
            Ok(Some(true)) => Answer::Patient,
            Err(Failure::Lost(Error::Restarted | Error::Gone)) => return None,
            _ => Answer::Denies,
        };
        let is_same =
            self.see().is_some_and(|now| (now.epoch, now.oldest) == (seen.epoch, seen.oldest));
        if !is_same {
            return None;
        }
        let cause = self.watch.lock().hear(check, age_ns, answer)?;
        Some(format!("{}: {cause}", self.description.name.as_str()))
    }

    /// Returns the output that is under way to the driver; `None` if no driver runs or its count makes no sense.
    fn see(&self) -> Option<UnderWay> {
        let mut linked = self.link.lock();
        let epoch = linked.epoch_up()?;
        // A senseless count is reported by the next sender.
        linked.settle().ok()?;
        let (oldest, next) = linked.traffic.under_way();
        Some(UnderWay { epoch, oldest, next })
    }

    /// Closes the port: until there is another driver ([`PortProxy::restarted`]) the other end is gone.
    pub fn close(&self) {
        self.link.close();
    }

    /// Repeats `step`, which accepts output, until it returns `true` or the other end is gone. Blocks in between until the
    /// driver has taken something.
    fn push(&self, mut step: impl FnMut(&mut Linked<TerminalState>) -> bool) {
        loop {
            let (doorbell, is_done) = {
                let mut linked = self.link.lock();
                let is_gone = linked.is_gone();
                let settled = linked.settle();
                // The wait is announced before the second look, so the driver rings for all that it takes after it. If its
                // count makes no sense the bell is rung for its successor.
                let is_done = step(&mut linked)
                    || is_gone
                    || (linked.begin_wait().is_ok() && step(&mut linked));
                (settled.and_then(|()| linked.send()), is_done)
            };
            self.link.answer(doorbell);
            if is_done {
                return;
            }
            self.link.room_bell.wait(None);
        }
    }

    /// Body of the proxy's thread, which never ends because another driver may come at any time.
    fn take_input(&self) -> ! {
        let mut held: Option<(Chunk, usize)> = None;
        loop {
            let ticket = self.link.changed.ticket();
            let (sink, news, next) = {
                let mut linked = self.link.lock();
                let sink = linked.traffic.sink.clone().filter(|_| !linked.is_closed());
                let next = match (&sink, held) {
                    (Some(_), None) => linked.next_input(),
                    _ => Ok(None),
                };
                (sink, linked.traffic.take_news(), next)
            };
            let Some(sink) = sink else {
                self.link.changed.wait(ticket, None);
                continue;
            };
            tell(&sink, news);
            let doorbell = match next {
                Err(Corrupt) => {
                    self.link.break_off();
                    self.link.changed.wait(ticket, None);
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
                // The call fails only if the driver has died; its successor offers the input anew.
                let _: Result<_, Failure> = self.control.call_resume();
            }
            if let Some((chunk, from)) = held {
                let rest = chunk.as_slice().get(from..).unwrap_or_default();
                let taken = sink.received(rest).min(rest.len());
                held = (taken < rest.len()).then_some((chunk, from + taken));
                if held.is_some() {
                    self.link.changed.wait(ticket, None);
                }
            }
        }
    }

    /// Blocks until there may be input.
    fn wait_for_input(&self) {
        let must_wait = {
            let mut linked = self.link.lock();
            let is_quiet = !linked.is_closed() && !linked.traffic.has_left_over();
            is_quiet
                && !linked.traffic.is_sink_new
                && linked.traffic.received.wait_begins() == Ok(true)
        };
        if must_wait {
            self.link.bell.wait(None);
        }
    }

    /// Tells the sink of input that is not bytes. Returns the bytes of other input.
    fn note(&self, sink: &Arc<dyn PortSink>, input: InputEntry) -> Option<Chunk> {
        match input {
            InputEntry::Bytes(chunk) => return Some(chunk),
            InputEntry::Connected { is_open } => {
                let before = self.link.lock().traffic.is_open.replace(is_open);
                // Senders look whether the other end is open.
                self.link.room_bell.ring();
                if before != Some(is_open) {
                    sink.connected(is_open);
                }
            }
            InputEntry::Window { rows, columns } => {
                let before = self.link.lock().traffic.window.replace((rows, columns));
                if before != Some((rows, columns)) {
                    sink.resized(rows, columns);
                }
            }
            InputEntry::Break => sink.broke(),
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
        self.push(|linked| {
            let is_gone = linked.is_gone();
            while !is_gone && let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
                let chunk = Chunk::first_of(rest);
                if linked.traffic.accept(Output::Bytes(chunk)).is_none() {
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
        self.push(|linked| {
            if number.is_none() {
                number = linked.traffic.accept(Output::Drain);
            }
            number.is_some_and(|number| linked.traffic.done >= number)
        });
    }

    fn set_sink(&self, sink: Arc<dyn PortSink>) {
        {
            let mut linked = self.link.lock();
            linked.traffic.sink = Some(sink);
            linked.traffic.is_sink_new = true;
        }
        self.link.bell.ring();
        self.link.changed.signal();
    }

    fn resume(&self) {
        self.link.changed.signal();
    }
}

impl core::fmt::Debug for PortProxy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PortProxy").field("description", &self.description).finish_non_exhaustive()
    }
}
