//! One port of a console: a byte stream each way.
//!
//! Input that no sink has taken stays in the queue's buffers, so a slow reader holds the host
//! back. `input` guards the receiving half, `output` the sending half, `state` what the host told.
use crate::slots::{Filled, Slots};
use alloc::{string::String, sync::Arc};
use core::sync::atomic::{AtomicBool, Ordering::*};
use interfaces::terminal::{Port, PortSink};
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
    /// What the sink was told last.
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
    /// Wakes the device's thread.
    vector: Arc<Vector>,
}

impl ConsolePort {
    pub(crate) fn new(
        number: u32,
        mut input: Slots,
        output: Slots,
        vector: Arc<Vector>,
    ) -> ConsolePort {
        input.offer_all();
        let input =
            Input { slots: input, sink: None, current: None, told_open: None, told_window: None };
        ConsolePort {
            number,
            input: Mutex::new(&INPUT, input),
            output: Mutex::new(&OUTPUT, output),
            room: Event::new(),
            state: Mutex::new(&STATE, State::default()),
            is_dead: AtomicBool::new(false),
            vector,
        }
    }

    /// Its number on the device.
    pub fn number(&self) -> u32 {
        self.number
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
        loop {
            output.reclaim()?;
            if output.is_idle() || !output.arm() {
                return Ok(output.is_idle());
            }
        }
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
            let bytes = {
                let mut input = self.input.lock();
                let Some((filled, from)) = input.next()? else { return Ok(true) };
                let bytes = (filled.bytes - from).min(scratch.len());
                if let Some(out) = scratch.get_mut(..bytes) {
                    input.slots.read(filled, from, out);
                }
                bytes
            };
            let data = scratch.get(..bytes).unwrap_or_default();
            let taken = sink.received(data).min(bytes);
            self.input.lock().consume(taken);
            if taken < bytes {
                return Ok(false);
            }
        }
    }
}

impl Input {
    /// The buffer being handed over and how far.
    fn next(&mut self) -> Result<Option<(Filled, usize)>, Error> {
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

    fn consume(&mut self, bytes: usize) {
        let Some((filled, from)) = self.current else { return };
        let from = from + bytes;
        if from < filled.bytes {
            self.current = Some((filled, from));
            return;
        }
        self.current = None;
        self.slots.recycle(filled.slot);
        self.slots.offer_all();
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

impl core::fmt::Debug for ConsolePort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ConsolePort").field("number", &self.number).finish_non_exhaustive()
    }
}
