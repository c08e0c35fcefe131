//! Kernel calls with [`PLAIN`]: the fast path of messages that pass in registers.
use super::{CALL, Caller, REPLY, SIGNAL, number};
use crate::{
    arch::{component, percpu, user},
    thread::{Fast, Step, Thread},
};
use ::calls::{FOREVER, NO_HANDLE, PLAIN, RUN, Status};
use core::sync::atomic::Ordering::Relaxed;
use ipc::Header;
use program::Registers;

/// [`Call::Call`](::calls::Call) with [`PLAIN`], as its caller passes it.
pub(crate) const PLAIN_CALL: u32 = (CALL | PLAIN) as u32;
/// [`Call::ReplyAndReceive`](::calls::Call) with [`PLAIN`].
pub(crate) const PLAIN_REPLY: u32 = (REPLY | PLAIN) as u32;
/// [`Call::Signal`](::calls::Call) with [`PLAIN`].
pub(crate) const PLAIN_SIGNAL: u32 = (SIGNAL | PLAIN) as u32;
const PLAIN_RUN: u32 = RUN as u32;

/// Does `step`. Returns how user mode was left. A stale handle is accepted among threads of one component. Interrupts are off.
#[inline(always)]
pub(in crate::domain) fn pass(
    step: Step,
    caller: &Caller<'_>,
    me: &Thread,
    registers: &mut Registers,
) -> u64 {
    caller.domain.count_calls(1);
    let fast = match caller.known(step) {
        Some(known) if known.handle == registers.rdi => {
            let header = Header(registers.rsi);
            let may_cross =
                || known.version == caller.domain.version.load(Relaxed) && header.is_plain();
            known.to.endpoint.pass(step, me, registers, &known.to.badge, may_cross)
        }
        _ => Fast::NotDone,
    };
    did_not_pass(step, caller, registers, fast)
}

/// Tries the other fast path, unless the step is done or must take the general path.
#[cold]
#[inline(never)]
fn did_not_pass(step: Step, caller: &Caller<'_>, registers: &mut Registers, fast: Fast) -> u64 {
    (registers.rbx, registers.r12) = (FOREVER, NO_HANDLE);
    let fast = if fast == Fast::NotDone { caller.fast(step, registers) } else { fast };
    let Fast::Done(result) = fast else {
        // `dispatch` counts it.
        caller.domain.count_calls(-1);
        return user::SYSCALL;
    };
    registers.rax = number(caller.domain, registers, result);
    component::DONE
}

/// Signals bits. Returns how user mode was left, or [`component::RESUME`]. Interrupts are off.
#[inline(always)]
pub(in crate::domain) fn signal(caller: &Caller<'_>, registers: &mut Registers) -> u64 {
    let known = caller.signalled.as_ref();
    let known = known.filter(|known| caller.is_good(Some(known), registers.rdi));
    let Some(known) = known else { return user::SYSCALL };
    caller.domain.count_calls(1);
    known.to.endpoint.fast_signal(registers.rsi);
    if !percpu::ready_space().is_null() {
        return component::RESUME;
    }
    registers.rax = Status::Ok as u64;
    component::DONE_KEPT
}

/// Converts a call with [`PLAIN`] to one without.
pub(super) fn complete(registers: &mut Registers) {
    match registers.rax as u32 {
        PLAIN_CALL | PLAIN_REPLY => (registers.rbx, registers.r12) = (FOREVER, NO_HANDLE),
        PLAIN_SIGNAL | PLAIN_RUN => {}
        _ => return,
    }
    registers.rax &= !PLAIN;
}
