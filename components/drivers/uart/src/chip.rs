//! The registers of a serial chip.
//!
//! Senders and the port's thread both write the interrupt-enable register; its bits are kept in `enabled`, whose lock
//! is innermost.
use core::sync::atomic::{AtomicBool, Ordering::*};
use rt::{
    device::{Ports, Receipt},
    lock_class,
    sync::Mutex,
};

lock_class! {
    static ENABLED = "uart.enabled";
}

mod register {
    pub(super) const DATA: u16 = 0;
    pub(super) const INTERRUPT_ENABLE: u16 = 1;
    pub(super) const INTERRUPT_CAUSE: u16 = 2;
    pub(super) const FIFO_CONTROL: u16 = 2;
    pub(super) const LINE_CONTROL: u16 = 3;
    pub(super) const MODEM_CONTROL: u16 = 4;
    pub(super) const LINE_STATUS: u16 = 5;
    pub(super) const SCRATCH: u16 = 7;
    pub(super) const COUNT: u16 = 8;
}

const ENABLE_RECEIVE: u8 = 1;
const ENABLE_TRANSMIT: u8 = 2;
const CAUSE_NONE: u8 = 1;
const CAUSE_MASK: u8 = 0x0e;
const CAUSE_TRANSMIT: u8 = 0x02;
/// FIFOs enabled and cleared, with an interrupt at one byte.
const FIFOS: u8 = 0x07;
const DIVISOR_LATCH: u8 = 0x80;
const EIGHT_BITS: u8 = 0x03;
/// Data terminal ready, request to send, interrupt gate open.
const MODEM_READY: u8 = 0x0b;
const STATUS_RECEIVED: u8 = 1;
const STATUS_BREAK: u8 = 1 << 4;
const STATUS_ROOM: u8 = 1 << 5;
const STATUS_EMPTY: u8 = 1 << 6;
/// Value that a register reads as if there is no chip.
const ABSENT: u8 = 0xff;
const FIFO_BYTES: usize = 16;

/// The reason of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Input is available, or a line error, which reading input clears.
    Receive,
    /// The transmitter is empty.
    Transmit,
}

/// A serial chip.
pub(crate) struct Chip {
    ports: Ports,
    enabled: Mutex<u8>,
    /// The line status reported a break that was not taken.
    has_broken: AtomicBool,
}

impl Chip {
    /// Opens the chip at `first`, if there is one.
    pub(crate) fn open(first: u16) -> Option<Chip> {
        let ports = Ports::open(first, register::COUNT).ok()?;
        let keeps = |value| {
            ports.write8(register::SCRATCH, value);
            ports.read8(register::SCRATCH) == value
        };
        let is_there = keeps(0x5a) && keeps(0xa5);
        is_there.then(|| Chip {
            ports,
            enabled: Mutex::new(&ENABLED, 0),
            has_broken: AtomicBool::new(false),
        })
    }

    /// Sets the chip to 115,200 bits a second, 8 data bits, no parity, FIFOs enabled and empty.
    pub(crate) fn set_up(&self) {
        let ports = &self.ports;
        ports.write8(register::LINE_CONTROL, EIGHT_BITS);
        ports.write8(register::INTERRUPT_ENABLE, 0);
        ports.write8(register::LINE_CONTROL, DIVISOR_LATCH);
        ports.write8(register::DATA, 1);
        ports.write8(register::INTERRUPT_ENABLE, 0);
        ports.write8(register::LINE_CONTROL, EIGHT_BITS);
        ports.write8(register::FIFO_CONTROL, FIFOS);
    }

    /// Enables interrupts. The contents of the FIFOs stay.
    pub(crate) fn start(&self) {
        self.ports.write8(register::INTERRUPT_ENABLE, 0);
        self.ports.write8(register::MODEM_CONTROL, MODEM_READY);
    }

    /// Disables interrupts.
    pub(crate) fn stop(&self) {
        self.receive_interrupt(false);
        self.transmit_interrupt(false);
    }

    /// Sets the bits of `wanted` among the enabled interrupts `of`.
    fn enable(&self, of: u8, wanted: u8) {
        let mut enabled = self.enabled.lock();
        let next = *enabled & !of | wanted & of;
        if next != *enabled {
            self.ports.write8(register::INTERRUPT_ENABLE, next);
            *enabled = next;
        }
    }

    pub(crate) fn receive_interrupt(&self, is_on: bool) {
        self.enable(ENABLE_RECEIVE, if is_on { ENABLE_RECEIVE } else { 0 });
    }

    pub(crate) fn transmit_interrupt(&self, is_on: bool) {
        self.enable(ENABLE_TRANSMIT, if is_on { ENABLE_TRANSMIT } else { 0 });
    }

    /// Returns the most urgent reason of an interrupt now.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let cause = self.ports.read8(register::INTERRUPT_CAUSE);
        if cause & CAUSE_NONE != 0 {
            return None;
        }
        let is_transmit = cause & CAUSE_MASK == CAUSE_TRANSMIT;
        Some(if is_transmit { Cause::Transmit } else { Cause::Receive })
    }

    /// Reads the line status. That clears a report of a break in the chip, so it is kept here, whatever the status is read for.
    fn status(&self) -> u8 {
        let status = self.ports.read8(register::LINE_STATUS);
        if status & STATUS_BREAK != 0 && status != ABSENT {
            self.has_broken.store(true, Release);
        }
        status
    }

    /// Returns whether a break was reported that was not taken.
    pub(crate) fn has_broken(&self) -> bool {
        self.has_broken.load(Acquire)
    }

    /// Takes the report of a break.
    pub(crate) fn take_break(&self) -> bool {
        self.has_broken() && self.has_broken.swap(false, AcqRel)
    }

    /// Takes the next received byte, with a receipt if that is wanted.
    pub(crate) fn receive(&self, receipt: Option<Receipt<'_>>) -> Option<u8> {
        let status = self.status();
        if status & STATUS_RECEIVED == 0 || status == ABSENT {
            return None;
        }
        match receipt {
            Some(receipt) => self.ports.read8_noted(register::DATA, receipt),
            None => Some(self.ports.read8(register::DATA)),
        }
    }

    /// Puts as many of `bytes` into the transmitter as it takes, each with the receipt that `receipt` returns for its
    /// index. Returns how many.
    pub(crate) fn transmit<'r>(
        &self,
        bytes: &[u8],
        receipt: impl Fn(usize) -> Option<Receipt<'r>>,
    ) -> usize {
        if self.status() & STATUS_ROOM == 0 {
            return 0;
        }
        let count = bytes.len().min(FIFO_BYTES);
        for (place, byte) in bytes.iter().take(count).enumerate() {
            match receipt(place) {
                Some(receipt) => self.ports.write8_noted(register::DATA, *byte, receipt),
                None => self.ports.write8(register::DATA, *byte),
            }
        }
        count
    }

    /// Returns whether the last bit was sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.status() & STATUS_EMPTY != 0
    }
}
