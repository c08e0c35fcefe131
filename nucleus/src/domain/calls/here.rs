//! Kernel calls with [`HERE`], the fast path between threads of one domain.
use super::{CALL, Caller, REPLY, number};
use crate::{
    arch::{component, user},
    thread::{Fast, Step, Thread},
};
use ::calls::{FOREVER, HERE, NO_HANDLE};
use program::Registers;

/// Does a call with [`HERE`]. If it does not pass, returns how user mode was left. Interrupts are
/// off.
#[inline(always)]
pub(in crate::domain) fn here(
    caller: &mut Caller<'_>,
    me: &Thread,
    registers: &mut Registers,
) -> u64 {
    let fast = match registers.rax as u32 {
        CALL_HERE => caller.pass(Step::Call, caller.called.as_ref(), me, registers),
        REPLY_HERE => caller.pass(Step::ReplyAndReceive, caller.served.as_ref(), me, registers),
        _ => Fast::NotDone,
    };
    did_not_pass(caller, registers, fast)
}

#[cold]
#[inline(never)]
fn did_not_pass(caller: &Caller<'_>, registers: &mut Registers, fast: Fast) -> u64 {
    if let Fast::Done(result) = fast {
        registers.rax = number(caller.domain, registers, result);
        return component::DONE;
    }
    without_here(registers);
    user::SYSCALL
}

/// Converts a call with [`HERE`] to one without.
pub(super) fn without_here(registers: &mut Registers) {
    registers.rax &= !HERE;
    (registers.rbx, registers.r12) = (FOREVER, NO_HANDLE);
}

pub(super) const CALL_HERE: u32 = (CALL | HERE) as u32;
pub(super) const REPLY_HERE: u32 = (REPLY | HERE) as u32;
