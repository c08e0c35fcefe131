//! The registers in which messages travel.
use crate::NO_HANDLE;
use ipc::{Header, Message};
use program::Registers;

/// Returns the message in the registers of its sender.
#[inline]
pub fn message_in(registers: &Registers, badge: u64) -> Message {
    Message {
        header: Header(registers.rsi).as_sent(false),
        badge,
        words: [registers.rdx, registers.r10, registers.r8, registers.r9],
    }
}

/// Puts a received message into `registers`.
#[inline]
pub fn message_out(registers: &mut Registers, message: &Message) {
    registers.rdi = message.badge;
    registers.rsi = message.header.0;
    [registers.rdx, registers.r10, registers.r8, registers.r9] = message.words;
    registers.r12 = NO_HANDLE;
}
