//! Serial ports of the 16550 kind, as terminals.
//!
//! [`probe`] opens the PC's four serial ports, as far as they are granted. The nucleus's log goes to the first one, too: the
//! nucleus sets that chip up, and a line of the log may come between two bytes of a program. A port has one thread, which waits
//! for the interrupt and hands input to the sink. `output` orders senders; `input` guards bytes that the sink has not taken.
//! Receiving is disabled in the chip while the sink is full. If the driver has memory that outlives it, a [`Ledger`] there
//! records the bytes that the chip took and delivered, so that a successor continues with the next byte. A break is told to the
//! sink behind the bytes that came before it; reading the line status for another purpose does not lose it, but the end of the
//! driver does. Source: National Semiconductor PC16550D data sheet.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod chip;
mod ledger;

#[cfg(test)]
mod tests;

use alloc::{format, string::String, sync::Arc, vec::Vec};
use chip::{Cause, Chip};
use core::sync::atomic::{AtomicBool, Ordering::*};
use interfaces::{
    offer::Offer,
    terminal::{Port, PortSink, Position, Resumable},
};
use ledger::{INPUT_MAX, Ledger};
use rt::{
    device::{DmaBuffer, Interrupt},
    lock_class,
    sync::{Event, Mutex},
    thread::{self, Policy},
    time,
};

lock_class! {
    static INPUT = "uart.input";
    static OUTPUT = "uart.output";
}

/// The serial ports of a PC: first I/O port, interrupt line.
const PLACES: [(u16, u32); 4] = [(0x3f8, 4), (0x2f8, 3), (0x3e8, 4), (0x2e8, 3)];
/// Index of the port of the log, which is set up in the same way as by this driver.
const LOG_PLACE: usize = 0;
/// Longest delay after a lost transmit interrupt.
const TRANSMIT_NS: u64 = 20_000_000;
const DRIVER_NICE: i8 = -10;

struct Input {
    sink: Option<Arc<dyn PortSink>>,
    /// Bytes not taken by the sink: the last of those received, at most [`INPUT_MAX`].
    pending: Vec<u8>,
    /// Number of bytes taken from the chip so far; unknown after an earlier driver until a client says it.
    received: Option<u64>,
    /// Number of bytes that clients took so far; unknown as well.
    taken: Option<u64>,
    /// Number of clients so far.
    clients: u64,
    is_told: bool,
    /// A break came behind the pending bytes, and the sink was not told.
    has_broken: bool,
}

/// A serial port.
pub struct Uart {
    name: String,
    chip: Chip,
    /// The nucleus set the chip up, and writes its log to it.
    is_of_log: bool,
    interrupt: Interrupt,
    ledger: Option<Ledger>,
    input: Mutex<Input>,
    /// Number of bytes given to the chip so far.
    output: Mutex<u64>,
    /// Signalled when the transmitter is empty.
    room: Event,
    is_stopping: AtomicBool,
}

/// Starts the component: port N is instance N.
pub fn start() -> Vec<Offer> {
    probe().into_iter().map(|port| Offer::Port(port)).collect()
}

/// Opens every serial port that exists and is granted, each named after its index: `ttyS0` to `ttyS3`.
pub fn probe() -> Vec<Arc<Uart>> {
    let mut ports = Vec::new();
    let kept = rt::device::kept();
    for (place, (first, line)) in PLACES.into_iter().enumerate() {
        let Some(chip) = Chip::open(first) else { continue };
        let Ok(interrupt) = Interrupt::open(line) else {
            log::warn!("uart: {first:#x}: interrupt {line} is not to be had");
            continue;
        };
        let name = format!("ttyS{place}");
        let memory = |kept: &DmaBuffer| kept.part(place * ledger::BYTES, ledger::BYTES);
        let ledger = kept.as_ref().and_then(memory).map(Ledger::new);
        let is_of_log = place == LOG_PLACE;
        if let Some(port) = Uart::start(name, (chip, is_of_log), interrupt, ledger) {
            log::info!("uart: {} at {first:#x}", port.name);
            ports.push(port);
        }
    }
    ports
}

impl Uart {
    fn start(
        name: String,
        (chip, is_of_log): (Chip, bool),
        interrupt: Interrupt,
        ledger: Option<Ledger>,
    ) -> Option<Arc<Uart>> {
        let received = ledger.is_none().then_some(0);
        let input = Input {
            sink: None,
            pending: Vec::with_capacity(INPUT_MAX),
            received,
            taken: received,
            clients: 0,
            is_told: false,
            has_broken: false,
        };
        let port = Arc::new(Uart {
            name,
            chip,
            is_of_log,
            interrupt,
            ledger,
            input: Mutex::new(&INPUT, input),
            output: Mutex::new(&OUTPUT, 0),
            room: Event::new(),
            is_stopping: AtomicBool::new(false),
        });
        let served = port.clone();
        let policy = Policy::Fair { nice: DRIVER_NICE };
        thread::spawn(&port.name, policy, move || served.serve()).ok()?;
        Some(port)
    }

    /// Ends the port's thread.
    pub fn stop(&self) {
        self.is_stopping.store(true, Release);
        self.interrupt.wake();
    }

    fn serve(&self) {
        if !self.is_of_log && !self.ledger.as_ref().is_some_and(Ledger::is_ready) {
            self.chip.set_up();
        }
        if let Some(ledger) = &self.ledger {
            ledger.set_ready();
        }
        self.chip.start();
        self.chip.receive_interrupt(true);
        while !self.is_stopping.load(Acquire) {
            self.service();
            self.interrupt.wait(None);
            self.interrupt.acknowledge();
        }
        self.chip.stop();
    }

    /// Handles everything that the chip and the sink have for the driver now.
    fn service(&self) {
        self.offer();
        // On a PC the line is edge-triggered: it can rise again only when the chip has no cause left.
        while let Some(cause) = self.chip.cause() {
            match cause {
                Cause::Transmit => {
                    self.chip.transmit_interrupt(false);
                    self.room.signal();
                }
                Cause::Receive => {
                    self.receive();
                    self.offer();
                }
            }
        }
    }

    fn receive(&self) {
        let mut input = self.input.lock();
        while let Some(received) = input.received
            && input.pending.len() < INPUT_MAX
            && !input.has_broken
        {
            let receipt = self.ledger.as_ref().map(|ledger| ledger.input(received + 1));
            let Some(byte) = self.chip.receive(receipt) else { return };
            input.pending.push(byte);
            input.received = Some(received + 1);
            // The nucleus reads the status of its log's port, too, so there the byte that a break puts into the FIFO counts.
            input.has_broken = self.chip.take_break() || self.is_of_log && byte == 0;
        }
        self.chip.receive_interrupt(false);
    }

    /// Gives the pending input to the sink; called on the port's thread only.
    fn offer(&self) {
        let (sink, bytes, is_news, clients) = {
            let mut input = self.input.lock();
            let Some(sink) = input.sink.clone() else { return };
            let is_news = !core::mem::replace(&mut input.is_told, true);
            // A sender's look at the status may have found it.
            input.has_broken |= self.chip.take_break();
            (sink, core::mem::take(&mut input.pending), is_news, input.clients)
        };
        if is_news {
            sink.connected(true);
        }
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let now = sink.received(rest).min(rest.len());
            taken += now;
            if now == 0 {
                break;
            }
        }
        let mut input = self.input.lock();
        // Only this thread adds to `pending`, so it is empty now, unless another client came meanwhile.
        if input.clients == clients {
            input.taken = input.taken.map(|before| before + taken as u64);
            input.pending.extend(bytes.get(taken..).unwrap_or_default());
        }
        if input.has_broken && input.pending.is_empty() {
            input.has_broken = false;
            drop(input);
            sink.broke();
            input = self.input.lock();
        }
        if input.pending.len() < INPUT_MAX && !input.has_broken {
            self.chip.receive_interrupt(true);
        }
    }
}

impl Port for Uart {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn is_console(&self) -> bool {
        true
    }

    fn send(&self, bytes: &[u8]) -> usize {
        let mut done = self.output.lock();
        let mut rest = bytes;
        while !rest.is_empty() {
            let ticket = self.room.ticket();
            let first = *done + 1;
            let sent = self.chip.transmit(rest, |place| {
                self.ledger.as_ref().map(|ledger| ledger.output(first + place as u64))
            });
            *done += sent as u64;
            rest = rest.get(sent..).unwrap_or_default();
            if self.chip.has_broken() {
                self.interrupt.wake();
            }
            if sent == 0 {
                self.chip.transmit_interrupt(true);
                let deadline = time::now().after_ns(TRANSMIT_NS);
                self.room.wait(ticket, Some(deadline));
            }
        }
        bytes.len()
    }

    fn drain(&self) {
        let _order = self.output.lock();
        while !self.chip.is_drained() {
            // The last bits leave without an interrupt, so this checks again after the time of a byte.
            time::sleep_until(time::now().after_ns(100_000));
        }
        if self.chip.has_broken() {
            self.interrupt.wake();
        }
    }

    fn set_sink(&self, sink: Arc<dyn PortSink>) {
        {
            let mut input = self.input.lock();
            input.sink = Some(sink);
            input.is_told = false;
        }
        self.interrupt.wake();
    }

    fn resume(&self) {
        self.interrupt.wake();
    }
}

impl Resumable for Uart {
    fn pick_up(&self, position: Position) -> u64 {
        let Some(ledger) = &self.ledger else { return position.sent };
        {
            let mut input = self.input.lock();
            input.pending.clear();
            input.pending.extend(ledger.received(position));
            input.received = Some(position.received + input.pending.len() as u64);
            input.taken = Some(position.received);
            input.clients += 1;
        }
        let sent = ledger.sent(position);
        *self.output.lock() = sent;
        sent
    }

    fn position(&self) -> Position {
        let Some(ledger) = &self.ledger else { return Position::default() };
        let received = self.input.lock().taken.unwrap_or_else(|| ledger.input_end());
        Position { received, sent: ledger.output_end() }
    }

    /// Does nothing: the chip has all that was sent.
    fn settle(&self) {}
}

impl core::fmt::Debug for Uart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Uart").field("name", &self.name).finish_non_exhaustive()
    }
}
