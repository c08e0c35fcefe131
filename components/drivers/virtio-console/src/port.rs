//! One port of a console: a byte stream each way.
//!
//! Input that no sink has taken stays in the queue's buffers, so a slow reader holds the host
//! back. `input` guards the receiving half, `output` the sending half, `state` what the host told.
use crate::{
    ledger::{Left, PortLedger},
    slots::{Filled, Slots},
};
use alloc::{collections::VecDeque, string::String, sync::Arc};
use core::sync::atomic::{AtomicBool, Ordering::*};
use interfaces::terminal::{Port, PortSink, Position, Resumable};
use rt::{
    lock_class,
    sync::{Event, Mutex},
};
use virtio::{Error, Vector};

lock_class! {
    static INPUT = "virtio-console.input";
    static OUTPUT = "virtio-console.output";
    static STATE = "virtio-console.state";
}

/// Bytes of one buffer.
pub(crate) const BUFFER_BYTES: usize = 4096;

struct Input {
    slots: Slots,
    sink: Option<Arc<dyn PortSink>>,
    /// A buffer that is not handed over whole, and how much of it is.
    current: Option<(Filled, usize)>,
    /// Filled for drivers before and not handed over.
    left: VecDeque<Left>,
    /// `current` is the first of these.
    is_left: bool,
    /// Of the first byte of `current`, or the next.
    position: u64,
    /// Clients so far.
    clients: u64,
    ledger: Option<PortLedger>,
    /// The state that the sink was told last.
    told_open: Option<bool>,
    told_window: Option<(u16, u16)>,
}

#[derive(Clone, Default)]
struct State {
    name: Option<String>,
    console: Option<usize>,
    is_open: bool,
    /// Was open at some time.
    was_open: bool,
    window: Option<(u16, u16)>,
}

/// A port.
pub struct ConsolePort {
    number: u32,
    input: Mutex<Input>,
    output: Mutex<Slots>,
    /// Signalled when sent buffers came back, or the other end closed.
    room: Event,
    state: Mutex<State>,
    is_dead: AtomicBool,
    ledger: Option<PortLedger>,
    /// The host had it open when a driver before last knew.
    was_open: bool,
    /// Wakes the device's thread.
    vector: Arc<Vector>,
}

impl ConsolePort {
    pub(crate) fn new(
        number: u32,
        mut input: Slots,
        output: Slots,
        vector: Arc<Vector>,
        ledger: Option<PortLedger>,
    ) -> ConsolePort {
        if let Some(ledger) = &ledger {
            ledger.set_announced();
        }
        let left = ledger.as_ref().map(PortLedger::left).unwrap_or_default();
        left.iter().for_each(|left| input.withhold(left.slot));
        input.offer_all();
        let end = ledger.as_ref().map_or(0, PortLedger::input_end);
        let was_open = ledger.as_ref().is_some_and(PortLedger::was_open);
        let input = Input {
            slots: input,
            sink: None,
            current: None,
            position: left.first().map_or(end, |left| left.position),
            left: left.into(),
            is_left: false,
            clients: 0,
            ledger: ledger.clone(),
            told_open: None,
            told_window: None,
        };
        ConsolePort {
            number,
            input: Mutex::new(&INPUT, input),
            output: Mutex::new(&OUTPUT, output),
            room: Event::new(),
            state: Mutex::new(&STATE, State::default()),
            is_dead: AtomicBool::new(false),
            ledger,
            was_open,
            vector,
        }
    }

    /// Its number on the device.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the host has said what it is, and that it is open if it was for the driver before.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_identified() && (!self.was_open || self.is_connected())
    }

    /// Whether the host has said what it is: a name or a console.
    pub fn is_identified(&self) -> bool {
        let state = self.state.lock();
        state.name.is_some() || state.console.is_some()
    }

    pub(crate) fn set_name(&self, name: String) {
        self.state.lock().name = Some(name);
    }

    pub(crate) fn set_console(&self, index: usize) {
        self.state.lock().console.get_or_insert(index);
    }

    pub(crate) fn set_window(&self, rows: u16, columns: u16) {
        self.state.lock().window = Some((rows, columns));
    }

    pub(crate) fn set_open(&self, is_open: bool) {
        // First where it outlives the driver: whoever was told has to find it again.
        if let Some(ledger) = &self.ledger {
            ledger.set_open(is_open);
        }
        {
            let mut state = self.state.lock();
            state.is_open = is_open;
            state.was_open |= is_open;
        }
        self.room.signal();
    }

    /// The window's rows and columns, where the host told them.
    pub fn window(&self) -> Option<(u16, u16)> {
        self.state.lock().window
    }

    /// Whether anybody is at the other end. Hosts do not tell that of consoles.
    pub(crate) fn is_connected(&self) -> bool {
        let state = self.state.lock();
        (state.is_open || state.console.is_some()) && !self.is_dead.load(Acquire)
    }

    /// The device is gone.
    pub(crate) fn kill(&self) {
        self.is_dead.store(true, Release);
        self.input.lock().slots.kill();
        self.output.lock().kill();
        self.set_open(false);
    }

    /// On the device's thread: hands over input and news, takes back sent buffers. Input goes
    /// through `scratch`, since the device may write its buffers at any time.
    pub(crate) fn service(&self, scratch: &mut [u8]) -> Result<(), Error> {
        self.take_back_sent()?;
        let (sink, is_new) = {
            let input = self.input.lock();
            (input.sink.clone(), input.told_open.is_none())
        };
        let Some(sink) = sink else { return Ok(()) };
        // Read before the input: what was sent before closing is handed over before that is told.
        let is_open = self.is_connected();
        self.tell_window(&sink);
        if is_open || (is_new && self.state.lock().was_open) {
            self.tell_open(&sink, true);
        }
        if self.hand_over(&sink, scratch)? && !is_open && self.input.lock().told_open == Some(true)
        {
            self.tell_open(&sink, false);
        }
        Ok(())
    }

    fn take_back_sent(&self) -> Result<(), Error> {
        let has_room = self.output.lock().reclaim()?;
        if has_room {
            self.room.signal();
        }
        Ok(())
    }

    /// Queues what fits; zero where the ring is full and an interrupt will come for room.
    fn send_some(&self, bytes: &[u8]) -> Result<usize, Error> {
        let mut output = self.output.lock();
        let mut has_room = output.reclaim()?;
        let mut sent = output.send(bytes);
        while sent == 0 && output.arm() {
            has_room |= output.reclaim()?;
            sent = output.send(bytes);
        }
        drop(output);
        if has_room {
            // Another sender may wait for the interrupt that this made needless.
            self.room.signal();
        }
        Ok(sent)
    }

    /// Whether everything sent is taken; if not an interrupt will come.
    fn is_drained(&self) -> Result<bool, Error> {
        let mut output = self.output.lock();
        let mut has_room = false;
        let is_idle = loop {
            has_room |= output.reclaim()?;
            if output.is_idle() || !output.arm() {
                break output.is_idle();
            }
        };
        drop(output);
        if has_room {
            // A sender may wait for the interrupt that this made needless.
            self.room.signal();
        }
        Ok(is_idle)
    }

    fn tell_window(&self, sink: &Arc<dyn PortSink>) {
        let window = self.window();
        let before = core::mem::replace(&mut self.input.lock().told_window, window);
        if let Some((rows, columns)) = window
            && window != before
        {
            sink.resized(rows, columns);
        }
    }

    fn tell_open(&self, sink: &Arc<dyn PortSink>, is_open: bool) {
        let before = self.input.lock().told_open.replace(is_open);
        if before != Some(is_open) {
            sink.connected(is_open);
        }
    }

    /// Gives the sink what has come; `false` where it is full.
    fn hand_over(&self, sink: &Arc<dyn PortSink>, scratch: &mut [u8]) -> Result<bool, Error> {
        loop {
            let (bytes, clients) = {
                let mut input = self.input.lock();
                let Some((filled, from)) = input.next()? else { return Ok(true) };
                let bytes = (filled.bytes - from).min(scratch.len());
                if let Some(out) = scratch.get_mut(..bytes) {
                    input.slots.read(filled, from, out);
                }
                (bytes, input.clients)
            };
            let data = scratch.get(..bytes).unwrap_or_default();
            let taken = sink.received(data).min(bytes);
            self.input.lock().consume_for(clients, taken);
            if taken < bytes {
                return Ok(false);
            }
        }
    }
}

impl Input {
    /// The buffer being handed over and how far.
    fn next(&mut self) -> Result<Option<(Filled, usize)>, Error> {
        if self.current.is_none()
            && let Some(left) = self.left.front()
        {
            self.current = Some((Filled { slot: left.slot, bytes: left.bytes }, 0));
            self.is_left = true;
        }
        while self.current.is_none() {
            match self.slots.take()? {
                None => return Ok(None),
                Some(filled) if filled.bytes == 0 => {
                    self.slots.recycle(filled.slot);
                    self.slots.offer_all();
                }
                Some(filled) => self.current = Some((filled, 0)),
            }
        }
        Ok(self.current)
    }

    /// [`Input::consume`], unless another client began meanwhile, who said what it has.
    fn consume_for(&mut self, clients: u64, bytes: usize) {
        if self.clients == clients {
            self.consume(bytes);
        }
    }

    /// The client has so many bytes more.
    fn consume(&mut self, bytes: usize) {
        let Some((filled, from)) = self.current else { return };
        let from = from + bytes;
        if from < filled.bytes {
            self.current = Some((filled, from));
            return;
        }
        self.current = None;
        self.position += filled.bytes as u64;
        if core::mem::take(&mut self.is_left) {
            self.left.pop_front();
            self.mark(|ledger, _, _| ledger.forget(filled.slot));
        } else {
            self.mark(PortLedger::handed_over);
        }
        self.slots.recycle(filled.slot);
        self.slots.offer_all();
    }
}

impl Input {
    fn mark(&self, how: impl Fn(&PortLedger, u64, u16)) {
        if let Some(ledger) = &self.ledger {
            how(ledger, self.position, self.slots.taken());
        }
    }

    /// A client has all before `received`: the next to hand over is what lies behind.
    fn pick_up(&mut self, received: u64) -> Result<(), Error> {
        self.clients += 1;
        let Some(ledger) = self.ledger.clone() else { return Ok(()) };
        if ledger.take_fresh() && received > 0 {
            // Input that came here is behind the client's, whatever became of the drivers before.
            self.position = received;
            self.left.clear();
            ledger.handed_over(received, self.slots.taken());
            return Ok(());
        }
        while let Some((filled, from)) = self.next()? {
            let Some(more) = received.checked_sub(self.position + from as u64) else {
                let from = received.saturating_sub(self.position) as usize;
                self.current = Some((filled, from.min(filled.bytes)));
                break;
            };
            if more == 0 {
                break;
            }
            let rest = filled.bytes - from;
            self.consume(usize::try_from(more).map_or(rest, |more| more.min(rest)));
        }
        Ok(())
    }
}

impl Port for ConsolePort {
    fn name(&self) -> String {
        let state = self.state.lock();
        match (state.console, &state.name) {
            (Some(index), _) => alloc::format!("hvc{index}"),
            (None, Some(name)) => name.clone(),
            (None, None) => alloc::format!("vport{}", self.number),
        }
    }

    fn is_console(&self) -> bool {
        self.state.lock().console.is_some()
    }

    fn send(&self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            let ticket = self.room.ticket();
            if !self.is_connected() {
                self.output.lock().skip(rest.len());
                break;
            }
            match self.send_some(rest) {
                Ok(0) => {
                    self.room.wait(ticket, None, false);
                }
                Ok(now) => sent += now,
                Err(_) => {
                    // The device's thread meets the same error and ends the device.
                    self.vector.wake();
                    break;
                }
            }
        }
        sent
    }

    fn drain(&self) {
        loop {
            let ticket = self.room.ticket();
            match self.is_drained() {
                Ok(false) if self.is_connected() => {
                    self.room.wait(ticket, None, false);
                }
                Ok(_) => return,
                Err(_) => return self.vector.wake(),
            }
        }
    }

    fn set_sink(&self, sink: Arc<dyn PortSink>) {
        let mut input = self.input.lock();
        input.sink = Some(sink);
        input.told_open = None;
        input.told_window = None;
        drop(input);
        self.vector.wake();
    }

    fn resume(&self) {
        self.vector.wake();
    }
}

impl Resumable for ConsolePort {
    fn pick_up(&self, position: Position) -> u64 {
        if self.input.lock().pick_up(position.received).is_err() {
            self.vector.wake();
        }
        self.output.lock().pick_up(position.sent)
    }

    fn settle(&self) {
        self.drain();
    }
}

impl core::fmt::Debug for ConsolePort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ConsolePort").field("number", &self.number).finish_non_exhaustive()
    }
}
