//! Serial ports of the 16550 kind, as terminals.
//!
//! [`probe`] takes the PC's four places, as far as they are granted (the nucleus keeps the one its
//! log goes to). A port has one thread, which waits for the interrupt and hands input to the sink.
//! `output` orders senders; `input` guards what the sink has not taken. Receiving is switched off
//! in the chip while the sink is full. Source: National Semiconductor PC16550D data sheet.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod chip;

#[cfg(test)]
mod tests;

use alloc::{format, string::String, sync::Arc, vec::Vec};
use chip::{Cause, Chip};
use core::sync::atomic::{AtomicBool, Ordering::*};
use interfaces::terminal::{Port, PortSink};
use rt::{
    device::Interrupt,
    lock_class,
    sync::{Event, Mutex},
    thread::{self, Policy},
    time,
};

lock_class! {
    static INPUT = "uart.input";
    static OUTPUT = "uart.output";
}

/// The PC's places: first port, interrupt line.
const PLACES: [(u16, u32); 4] = [(0x3f8, 4), (0x2f8, 3), (0x3e8, 4), (0x2e8, 3)];
/// Most bytes kept for a sink that is full or not there yet.
const PENDING_MAX: usize = 4096;
/// A lost transmit interrupt costs no more than this.
const TRANSMIT_NS: u64 = 20_000_000;
const DRIVER_NICE: i8 = -10;

struct Input {
    sink: Option<Arc<dyn PortSink>>,
    pending: Vec<u8>,
    is_told: bool,
}

/// One serial port.
pub struct Uart {
    name: String,
    chip: Chip,
    interrupt: Interrupt,
    input: Mutex<Input>,
    output: Mutex<()>,
    /// Signalled when the transmitter is empty.
    room: Event,
    is_stopping: AtomicBool,
}

/// Opens every serial port that is there and granted: `ttyS0`, `ttyS1` ... in the order found.
pub fn probe() -> Vec<Arc<Uart>> {
    let mut ports = Vec::new();
    for (first, line) in PLACES {
        let Some(chip) = Chip::open(first) else { continue };
        let Ok(interrupt) = Interrupt::open(line) else {
            log::warn!("uart: {first:#x}: interrupt {line} is not to be had");
            continue;
        };
        let name = format!("ttyS{}", ports.len());
        if let Some(port) = Uart::start(name, chip, interrupt) {
            log::info!("uart: {} at {first:#x}", port.name);
            ports.push(port);
        }
    }
    ports
}

impl Uart {
    fn start(name: String, chip: Chip, interrupt: Interrupt) -> Option<Arc<Uart>> {
        let input = Input { sink: None, pending: Vec::new(), is_told: false };
        let port = Arc::new(Uart {
            name,
            chip,
            interrupt,
            input: Mutex::new(&INPUT, input),
            output: Mutex::new(&OUTPUT, ()),
            room: Event::new(),
            is_stopping: AtomicBool::new(false),
        });
        let served = port.clone();
        let policy = Policy::Fair { nice: DRIVER_NICE };
        thread::spawn(&port.name, policy, move || served.serve()).ok()?;
        Some(port)
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.is_stopping.store(true, Release);
        self.interrupt.wake();
    }

    fn serve(&self) {
        self.chip.start();
        while !self.is_stopping.load(Acquire) {
            self.service();
            self.interrupt.wait(None);
            self.interrupt.acknowledge();
        }
        self.chip.stop();
    }

    /// Everything the chip and the sink have to say now.
    fn service(&self) {
        self.offer();
        // The line is edge-triggered on the PC: only a chip without causes lets it rise again.
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
        while input.pending.len() < PENDING_MAX {
            let Some(byte) = self.chip.receive() else { return };
            input.pending.push(byte);
        }
        self.chip.receive_interrupt(false);
    }

    /// Gives the sink what is pending; called on the port's thread only.
    fn offer(&self) {
        let (sink, bytes, is_news) = {
            let mut input = self.input.lock();
            let Some(sink) = input.sink.clone() else { return };
            let is_news = !core::mem::replace(&mut input.is_told, true);
            (sink, core::mem::take(&mut input.pending), is_news)
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
        // Only this thread adds to `pending`, so it is empty now.
        input.pending.extend(bytes.get(taken..).unwrap_or_default());
        if input.pending.len() < PENDING_MAX {
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
        let _order = self.output.lock();
        let mut rest = bytes;
        while !rest.is_empty() {
            let ticket = self.room.ticket();
            let sent = self.chip.transmit(rest);
            rest = rest.get(sent..).unwrap_or_default();
            if sent == 0 {
                self.chip.transmit_interrupt(true);
                let deadline = time::now().after_ns(TRANSMIT_NS);
                self.room.wait(ticket, Some(deadline), false);
            }
        }
        bytes.len()
    }

    fn drain(&self) {
        let _order = self.output.lock();
        while !self.chip.is_drained() {
            // The last bits leave without an interrupt: look again after a byte's time.
            time::sleep_until(time::now().after_ns(100_000));
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

impl core::fmt::Debug for Uart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Uart").field("name", &self.name).finish_non_exhaustive()
    }
}
