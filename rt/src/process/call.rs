//! Kernel calls: the registers going in and coming out (`libs/calls` has the whole list and its meaning).
//!
//! [`ask`] is for calls that change no memory on which safe code relies, and refuses all others, for which
//! [`ask_with_memory`] is. [`exchange`] is a step of a message.
use calls::{Call, FOREVER, PLAIN, Status};
use core::arch::asm;

/// The values of a call, or the error for which there are none.
pub(super) type CallResult = Result<[u64; 3], Status>;

/// The result of a step of a message.
pub(super) type StepResult = Result<(), Status>;

/// Returns whether a call takes memory away, fills it or runs code in it.
const fn changes_memory(call: Call) -> bool {
    use Call::{
        Call as Ask, Close, CommandLine, Copy, CopyList, Entropy, Exit, PortList, Receive, Reply,
        ReplyAndReceive, Revoke, Send, Spawn, Unmap,
    };
    matches!(call, Ask | ReplyAndReceive | Receive | Reply | Send)
        || matches!(call, Copy | CopyList)
        || matches!(call, Close | CommandLine | Entropy | Exit | PortList | Revoke | Spawn | Unmap)
}

/// Does `call`, which changes no memory of the component.
///
/// # Panics
/// Panics if `call` may change such memory; this is known when compiling.
#[inline(always)]
pub(super) fn ask(call: Call, arguments: &[u64]) -> CallResult {
    assert!(!changes_memory(call));
    // SAFETY: the nucleus only reads memory of ours, or maps what was not mapped.
    unsafe { ask_with_memory(call, arguments) }
}

/// Does `call` with at most six arguments.
///
/// # Safety
/// The caller must be entitled to have the memory taken away, filled or run that the call takes away, fills
/// or runs.
#[inline(always)]
pub(super) unsafe fn ask_with_memory(call: Call, arguments: &[u64]) -> CallResult {
    // SAFETY: as the caller says.
    unsafe { ask_number(call as u64, arguments) }
}

/// Does the call of `number`, with its flags.
///
/// # Safety
/// The same as for [`ask_with_memory`].
#[inline(always)]
pub(super) unsafe fn ask_number(number: u64, arguments: &[u64]) -> CallResult {
    let argument = |index| arguments.get(index).copied().unwrap_or(0);
    let status: u64;
    let (first, second, third): (u64, u64, u64);
    // SAFETY: as the caller says; `syscall` changes rcx and r11 and does not touch the stack.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => status,
            inlateout("rdi") argument(0) => first,
            inlateout("rsi") argument(1) => second,
            inlateout("rdx") argument(2) => third,
            inlateout("r10") argument(3) => _,
            inlateout("r8") argument(4) => _,
            inlateout("r9") argument(5) => _,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    match Status::of(status) {
        Status::Ok => Ok([first, second, third]),
        other => Err(other),
    }
}

/// The part of a message that travels in registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    /// The endpoint's handle on entry, the badge on return.
    pub(super) name: u64,
    pub(super) header: u64,
    pub(super) words: [u64; 4],
    /// Handle of the capability that goes along; [`calls::NO_HANDLE`] for none.
    pub(super) capability: u64,
}

/// Does a step of a message and replaces `registers` by those of the message that came.
///
/// # Safety
/// No reference into the calling thread's message area is used meanwhile.
#[inline(always)]
pub(super) unsafe fn exchange(call: Call, registers: &mut Registers, deadline: u64) -> StepResult {
    let status: u64;
    let [first, second, third, fourth] = &mut registers.words;
    // SAFETY: as the caller says. rbx, which the compiler keeps for itself, is as it was afterwards.
    unsafe {
        asm!(
            "xchg rbx, {deadline}",
            "syscall",
            "mov rbx, {deadline}",
            deadline = inout(reg) deadline => _,
            inlateout("rax") call as u64 => status,
            inlateout("rdi") registers.name,
            inlateout("rsi") registers.header,
            inlateout("rdx") *first,
            inlateout("r10") *second,
            inlateout("r8") *third,
            inlateout("r9") *fourth,
            inlateout("r12") registers.capability,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    step(status)
}

/// Does [`exchange`] of a call or a reply without deadline and capability, whose words travel in registers.
///
/// # Safety
/// The same as for [`exchange`].
#[inline(always)]
pub(super) unsafe fn exchange_plain(call: Call, registers: &mut Registers) -> StepResult {
    let status: u64;
    let [first, second, third, fourth] = &mut registers.words;
    // SAFETY: as the caller says. rbx, which the compiler keeps for itself, is as it was afterwards.
    unsafe {
        asm!(
            "push rbx",
            "syscall",
            "pop rbx",
            inlateout("rax") call as u64 | PLAIN => status,
            inlateout("rdi") registers.name,
            inlateout("rsi") registers.header,
            inlateout("rdx") *first,
            inlateout("r10") *second,
            inlateout("r8") *third,
            inlateout("r9") *fourth,
            lateout("r12") registers.capability,
            out("rcx") _,
            out("r11") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
        );
    }
    step(status)
}

/// Decodes whether a step was done. If it was, the other bits of `status` are not looked at.
#[inline(always)]
fn step(status: u64) -> StepResult {
    if status == Status::Ok as u64 { Ok(()) } else { Err(Status::of(status)) }
}

/// Encodes a deadline for the nucleus.
pub(super) fn until(deadline_ns: Option<u64>) -> u64 {
    deadline_ns.unwrap_or(FOREVER)
}

/// A capability in the component's table, which is given back when dropped.
#[derive(Debug)]
pub(crate) struct Handle(pub(super) u64);

impl Default for Handle {
    /// Returns a handle that names nothing.
    fn default() -> Handle {
        Handle(calls::NO_HANDLE)
    }
}

impl Handle {
    /// Returns whether the capability may be moved to others or given back.
    pub(super) fn can_leave(&self) -> bool {
        !matches!(self.0, calls::SERVICE | calls::NO_HANDLE)
    }

    /// Returns the handle and leaves one that names nothing.
    pub(super) fn leave(&mut self) -> Handle {
        Handle(core::mem::replace(&mut self.0, calls::NO_HANDLE))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.can_leave() {
            // SAFETY: whoever had memory mapped by it held the handle for as long as it was used. One
            // that names nothing any more has nothing to give back.
            let _ = unsafe { ask_with_memory(Call::Close, &[self.0]) };
        }
    }
}
