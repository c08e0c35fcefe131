//! The output of the log: the 16550 UART COM1, write only, polled.
//!
//! The nucleus owns it. Callers hold the log's lock, or are the panicking processor. If no UART
//! answers (its scratch register does not hold a value) nothing is written.
use super::cpu;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// First port of COM1.
pub const COM1: u16 = 0x3f8;
const INTERRUPT_ENABLE: u16 = COM1 + 1;
const FIFO_CONTROL: u16 = COM1 + 2;
const LINE_CONTROL: u16 = COM1 + 3;
const LINE_STATUS: u16 = COM1 + 5;
const SCRATCH: u16 = COM1 + 7;
const FIFO_BYTES: usize = 16;
const TRANSMITTER_EMPTY: u8 = 0x20;
/// Polls of a UART that takes no byte before a write is given up.
const MAX_POLLS: usize = 100_000;

static IS_THERE: AtomicBool = AtomicBool::new(false);

fn write_register(port: u16, value: u8) {
    // SAFETY: a register of the UART, which cannot reach memory.
    unsafe { cpu::out8(port, value) };
}

fn read_register(port: u16) -> u8 {
    // SAFETY: a register of the UART, which cannot reach memory.
    unsafe { cpu::in8(port) }
}

/// Finds the UART and sets it to 115200 baud, 8 bits, FIFO on, no interrupts.
pub fn init() {
    write_register(SCRATCH, 0x5a);
    if read_register(SCRATCH) != 0x5a {
        return;
    }
    write_register(INTERRUPT_ENABLE, 0);
    write_register(LINE_CONTROL, 0x80);
    write_register(COM1, 1);
    write_register(INTERRUPT_ENABLE, 0);
    write_register(LINE_CONTROL, 0x03);
    write_register(FIFO_CONTROL, 0x07);
    IS_THERE.store(true, Relaxed);
}

/// Writes bytes, at most a FIFO's size at a time.
pub fn write(bytes: &[u8]) {
    if !IS_THERE.load(Relaxed) {
        return;
    }
    for chunk in bytes.chunks(FIFO_BYTES) {
        let is_ready = (0..MAX_POLLS).any(|_| read_register(LINE_STATUS) & TRANSMITTER_EMPTY != 0);
        if !is_ready {
            return;
        }
        // SAFETY: the UART's data register, which cannot reach memory.
        unsafe { cpu::out_bytes(COM1, chunk) };
    }
}
