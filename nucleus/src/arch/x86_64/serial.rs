//! The output of the log: the 16550 UART COM1, write only, polled.
//!
//! The nucleus owns it. Callers hold the log's lock, or are the panicking processor. If no UART
//! answers (its scratch register does not hold a value) nothing is written.
use super::cpu;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use x86::uart::{COM1, FIFO_BYTES, LINE_STATUS, SCRATCH, SET_UP, TRANSMITTER_EMPTY};

/// Number of times that the status is read before text is given up.
const MAX_POLLS: usize = 100_000;

static IS_THERE: AtomicBool = AtomicBool::new(false);

fn write_register(register: u16, value: u8) {
    // SAFETY: a register of the UART, which cannot reach memory.
    unsafe { cpu::out8(COM1 + register, value) };
}

fn read_register(register: u16) -> u8 {
    // SAFETY: a register of the UART, which cannot reach memory.
    unsafe { cpu::in8(COM1 + register) }
}

/// Finds the UART and sets it up.
pub fn init() {
    write_register(SCRATCH, 0x5a);
    if read_register(SCRATCH) == 0x5a {
        SET_UP.into_iter().for_each(|(register, value)| write_register(register, value));
        IS_THERE.store(true, Relaxed);
    }
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
