//! A port of a console: a byte stream in each direction.
//!
//! Input that no sink has taken stays in the queue's buffers, so a slow reader holds the host back.
//! `input` guards the receiving half, `output` the sending half, `state` the information that the
//! host gave.
use crate::{
    ledger::{Left, PortLedger},
    slots::{BufferSlots, Filled},
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

/// Size of a buffer in bytes.
pub(crate) const BUFFER_BYTES: usize = 4096;

struct PortInput {
    slots: BufferSlots,
    sink: Option<Arc<dyn PortSink>>,
    /// A buffer that is partly handed over, and how many bytes of it are.
    current: Option<(Filled, usize)>,
    /// Buffers that were filled for earlier drivers and not handed over.
    left: VecDeque<Left>,
    /// `current` is the first of `left`.
    is_left: bool,
    /// Position of the first byte of `current`, or else of the next buffer.
    position: u64,
    /// Number of clients so far.
    clients: u64,
    ledger: Option<PortLedger>,
    /// The last state that the sink was told.
    told_open: Option<bool>,
    told_window: Option<(u16, u16)>,
}

#[derive(Clone, Default)]
struct PortState {
    name: Option<String>,
    console: Option<usize>,
    is_open: bool,
    /// The port was open at some time.
    was_open: bool,
    window: Option<(u16, u16)>,
}

/// A port.
pub struct ConsolePort {
    number: u32,
    input: Mutex<PortInput>,
    output: Mutex<BufferSlots>,
    /// Signalled when sent buffers came back, and when the other end closed.
    room: Event,
    state: Mutex<PortState>,
    is_dead: AtomicBool,
    ledger: Option<PortLedger>,
    /// The host had the port open when an earlier driver last recorded it.
    was_open: bool,
    /// The interrupt by which the device's thread is woken.
    vector: Arc<Vector>,
}

impl ConsolePort {
    pub(crate) fn new(
        number: u32,
        mut input: BufferSlots,
        output: BufferSlots,
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
        let input = PortInput {
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
            state: Mutex::new(&STATE, PortState::default()),
            is_dead: AtomicBool::new(false),
            ledger,
            was_open,
            vector,
        }
    }

    /// Returns the port's number on the device.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether the host has identified the port, and opened it if it was open for the
    /// earlier driver.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_identified() && (!self.was_open || self.is_connected())
    }

    /// Returns whether the host has identified the port as a named port or a console.
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
        // This is recorded first in the memory that outlives the driver: a sink that was told must
        // find the same state again.
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

    /// Returns the window's rows and columns, if the host gave them.
    pub fn window(&self) -> Option<(u16, u16)> {
        self.state.lock().window
    }

    /// Returns whether the other end is open. Hosts do not report that of consoles.
    pub(crate) fn is_connected(&self) -> bool {
        let state = self.state.lock();
        (state.is_open || state.console.is_some()) && !self.is_dead.load(Acquire)
    }

    /// Marks the port as dead: the device is gone.
    pub(crate) fn kill(&self) {
        self.is_dead.store(true, Release);
        self.input.lock().slots.kill();
        self.output.lock().kill();
        self.set_open(false);
    }

    /// Hands over input and news and takes back sent buffers, on the device's thread. Input is
    /// copied through `scratch`, because the device may write its buffers at any time.
    pub(crate) fn service(&self, scratch: &mut [u8]) -> Result<(), Error> {
        self.take_back_sent()?;
        let (sink, is_new) = {
            let input = self.input.lock();
            (input.sink.clone(), input.told_open.is_none())
        };
        let Some(sink) = sink else { return Ok(()) };
        // This is read before the input, so that input sent before the close is handed over before
        // the close is reported.
        let is_open = self.is_connected();
        self.tell_window(&sink);
        if (is_open || (is_new && self.state.lock().was_open)) && self.note_told(true) {
            sink.connected(true);
        }
        if self.hand_over(&sink, scratch)?
            && !is_open
            && self.input.lock().told_open == Some(true)
            && self.note_told(false)
        {
            sink.connected(false);
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

    /// Queues as many bytes as fit. Returns zero if the ring is full, and an interrupt will then
    /// come when there is room.
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
            // Another sender may wait for an interrupt that will not come now.
            self.room.signal();
        }
        Ok(sent)
    }

    /// Returns whether all output is taken. If not, an interrupt will come.
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
            // A sender may wait for an interrupt that will not come now.
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

    /// Notes that the sink is told whether the port is open. Returns whether it was told something else before.
    fn note_told(&self, is_open: bool) -> bool {
        self.input.lock().told_open.replace(is_open) != Some(is_open)
    }

    /// Gives received input to the sink. Returns `false` if the sink is full.
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

impl PortInput {
    /// Returns the buffer being handed over, and how many bytes of it are.
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

    /// Does [`PortInput::consume`], unless another client came meanwhile and gave its own position.
    fn consume_for(&mut self, clients: u64, bytes: usize) {
        if self.clients == clients {
            self.consume(bytes);
        }
    }

    /// Notes that the client has taken `bytes` more.
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

impl PortInput {
    fn mark(&self, how: impl Fn(&PortLedger, u64, u16)) {
        if let Some(ledger) = &self.ledger {
            how(ledger, self.position, self.slots.taken());
        }
    }

    /// Returns the position of the first byte that was not handed over.
    fn first(&self) -> u64 {
        self.position + self.current.map_or(0, |(_, from)| from as u64)
    }

    /// Notes that a client has all input before `received`; the input behind that is handed over
    /// next.
    fn pick_up(&mut self, received: u64) -> Result<(), Error> {
        self.clients += 1;
        let Some(ledger) = self.ledger.clone() else { return Ok(()) };
        if ledger.take_fresh() && received > 0 {
            // Input that this driver received is behind the client's position, whatever earlier
            // drivers did.
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
                    self.room.wait(ticket, None);
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
                    self.room.wait(ticket, None);
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

    fn position(&self) -> Position {
        let received = self.input.lock().first();
        Position { received, sent: self.output.lock().reached() }
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
