//! The decision on a call that is not allowed with any arguments.
use super::filter::Logging;
use super::{
    audit,
    filter::{ChainAnswer, Confinement, Filter, action},
    listener::Reply,
};
use crate::{
    call::{self, Restart},
    exit,
    signal::{
        deliver::Interrupted,
        info::Info,
        number::{SIGKILL, SIGSYS},
        send,
    },
    status::ExitStatus,
    task::Task,
};
use alloc::sync::Arc;
use bpf::{ARCHITECTURE, Call};
use rt::user::Context;
use vfs::ErrorNumber;

/// Checks whether `task` may make the call in `context`.
///
/// # Errors
/// `None` for a refused call: `context` holds its result, or the task has got a signal, or the task is to end. `Some` for
/// a call whose wait for a listener was interrupted.
#[inline]
pub fn check(
    guard: &Confinement,
    task: &Arc<Task>,
    context: &mut Context,
) -> Result<(), Option<Interrupted>> {
    // As on Linux, the low half of the register is the number.
    let number = context.registers.rax as u32;
    if guard.allows(number) { Ok(()) } else { judge(guard, task, context, number) }
}

#[inline(never)]
fn judge(
    guard: &Confinement,
    task: &Arc<Task>,
    context: &mut Context,
    number: u32,
) -> Result<(), Option<Interrupted>> {
    let registers = &mut context.registers;
    let mut refused = audit::AuditedCall { number, pointer: registers.rip, signal: 0, action: 0 };
    let Confinement::Filtered(filter) = guard else {
        audit::tell(task, &audit::AuditedCall { signal: SIGKILL, ..refused });
        exit::end_task(task, ExitStatus::Signalled(SIGKILL));
        return Err(None);
    };
    let arguments =
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    let call = Call::new(number, registers.rip, arguments);
    let ChainAnswer { value, by } = filter.answer(&call);
    refused.action = action::of(value);
    let data = value as u16;
    match refused.action {
        action::ALLOW => return Ok(()),
        action::LOG => {
            audit::tell(task, &refused);
            return Ok(());
        }
        action::ERRNO => registers.rax = u64::from(data.min(ERRNO_MAX)).wrapping_neg(),
        // There are no tracers.
        action::TRACE => registers.rax = call::failure(ErrorNumber::ENOSYS),
        action::USER_NOTIF => match task.in_call(|| ask(by, task, &call)) {
            Ok(Reply::GoesOn) => return Ok(()),
            Ok(Reply::Result(result)) => registers.rax = result,
            Err(restart) => {
                return Err(Some(Interrupted { number: registers.rax, restart }));
            }
        },
        action::TRAP => {
            let info = Info::refused_call(data, registers.rip, number, ARCHITECTURE);
            send::force(task, info);
        }
        _ => {
            audit::tell(task, &audit::AuditedCall { signal: SIGSYS, ..refused });
            kill(task, refused.action);
            return Err(None);
        }
    }
    if by.is_some_and(|filter| filter.logging == Logging::On) {
        audit::tell(task, &refused);
    }
    Err(None)
}

/// Returns the answer of the listener of `filter`.
fn ask(filter: Option<&Filter>, task: &Arc<Task>, call: &Call) -> Result<Reply, Restart> {
    match filter.and_then(|filter| filter.notices.as_ref()) {
        Some(notices) => notices.ask(task, call),
        None => Ok(Reply::failed(ErrorNumber::ENOSYS)),
    }
}

/// Greatest error number that a filter can make a call return.
const ERRNO_MAX: u16 = 4095;

/// Ends the thread, if there are others and the action asks for no more, or the process.
fn kill(task: &Arc<Task>, action: u32) {
    let has_others = task.process.signals.lock().tasks.len() > 1;
    let status = ExitStatus::Signalled(SIGSYS);
    match action {
        action::KILL_THREAD if has_others => exit::end_task(task, status),
        _ => exit::end_group(task, status),
    }
}
