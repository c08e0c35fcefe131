//! The stack frame of a signal handler, with exactly the layout of Linux x86-64.
//!
//! ```text
//!   high   extended state (XSAVE, 64-byte aligned) + magic2
//!          siginfo            128 bytes, written under SA_SIGINFO only
//!          ucontext           304 bytes: flags link stack(24) mcontext(256) mask(8)
//!   rsp -> return address     8 bytes: sa_restorer            (rsp + 8 is a multiple of 16)
//! ```
//! Everything that [`pop`] reads was under the program's control: masks are cleaned, flags filtered, the
//! extended state is checked by rt ([`extended`]), selectors are ignored (there is only one pair for programs).
//! Source: Linux `arch/x86/kernel/signal_64.c`, `asm/sigcontext.h`, `asm/ucontext.h`.
use super::{
    action::{Action, flags},
    extended,
    info::{Info, UserInfo},
    mask,
    number::{SYNCHRONOUS, SignalSet, bit},
    state::AlternateStack,
};
use crate::task::{Task, attention};
use alloc::sync::Arc;
use core::mem::offset_of;
use memory::AddressSpace;
use rt::user::{Context, Registers};
use vfs::Errno;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

const RED_ZONE_BYTES: u64 = 128;

const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;

const SS_ONSTACK: u32 = 1;
const SS_DISABLE: u32 = 2;
const SS_AUTODISARM: u32 = 1 << 31;

const USER_CS: u16 = 0x33;
const USER_SS: u16 = 0x2b;

/// Flags a handler may change: AC, RF, OF, DF, TF, SF, ZF, AF, PF, CF.
const RESTORED_FLAGS: u64 = 0x5_0dd5;
/// Flags cleared for a handler: TF, DF, RF.
const CLEARED_FLAGS: u64 = 0x1_0500;

/// `stack_t`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StackWords {
    /// Lowest address of the stack.
    pub base: u64,
    /// `SS_` flags.
    pub flags: u32,
    /// Always 0.
    pub padding: u32,
    /// Length in bytes.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct MachineContext {
    r8: u64,
    r9: u64,
    r10: u64,
    r11: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    rsp: u64,
    rip: u64,
    rflags: u64,
    cs: u16,
    gs: u16,
    fs: u16,
    ss: u16,
    error_code: u64,
    vector: u64,
    old_mask: u64,
    cr2: u64,
    extended: u64,
    reserved: [u64; 8],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct UserContext {
    flags: u64,
    link: u64,
    stack: StackWords,
    machine: MachineContext,
    mask: SignalSet,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Frame {
    return_address: u64,
    user: UserContext,
    info: UserInfo,
}

const _: () = assert!(size_of::<MachineContext>() == 256);
const _: () = assert!(size_of::<UserContext>() == 304);
const _: () = assert!(size_of::<Frame>() == 440);

/// Pushes a frame for `info` and makes `context` enter the handler of `action`.
///
/// # Errors
/// `EFAULT` if the stack has no room for it or the action has no restorer.
pub fn push(
    (task, memory): (&Arc<Task>, &AddressSpace),
    context: &mut Context,
    info: &Info,
    action: &Action,
) -> Result<(), Errno> {
    if action.flags & flags::RESTORER == 0 {
        return Err(Errno::EFAULT);
    }
    let (stack, saved_mask, fault) = {
        let signals = task.signals.lock();
        (signals.stack, signals.saved_mask.unwrap_or(signals.mask), signals.fault)
    };
    let place = place(&stack, context.registers.rsp, action.flags, extended::bytes())
        .ok_or(Errno::EFAULT)?;
    // The frame is filled in place: a literal would be copied.
    let mut frame = Frame::new_zeroed();
    frame.return_address = action.restorer;
    frame.user.flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
    frame.user.stack = stack_words(&stack, context.registers.rsp);
    frame.user.mask = saved_mask;
    let machine = &mut frame.user.machine;
    save_registers(machine, &context.registers);
    machine.extended = place.extended;
    machine.old_mask = saved_mask;
    if bit(info.number()) & SYNCHRONOUS != 0 {
        (machine.error_code, machine.vector, machine.cr2) =
            (fault.error_code, fault.vector, fault.address);
    }
    let mut length = offset_of!(Frame, info);
    if action.flags & flags::SIGINFO != 0 {
        frame.info.info = *info;
        length = size_of::<Frame>();
    }
    memory.write_bytes(place.frame, frame.as_bytes().get(..length).unwrap_or_default())?;
    // This comes last: if the frame cannot be pushed, the state must still be in the processor for the handler
    // of SIGSEGV to save.
    extended::take(memory, place.extended)?;
    enter_handler(context, place.frame, info.number(), action.handler);
    block_for_handler(task, info.number(), action, &stack);
    Ok(())
}

fn enter_handler(context: &mut Context, frame: u64, signal: u8, handler: u64) {
    let registers = &mut context.registers;
    registers.rsp = frame;
    registers.rip = handler;
    registers.rdi = u64::from(signal);
    registers.rsi = frame + offset_of!(Frame, info) as u64;
    registers.rdx = frame + offset_of!(Frame, user) as u64;
    registers.rax = 0;
    registers.rflags &= !CLEARED_FLAGS;
}

fn block_for_handler(task: &Arc<Task>, signal: u8, action: &Action, stack: &AlternateStack) {
    task.lower_attention(attention::MASK);
    mask::change_mask(task, |signals| {
        signals.saved_mask = None;
        if stack.is_disarmed_by_use {
            signals.stack = AlternateStack::default();
        }
        let own = if action.flags & flags::NODEFER == 0 { bit(signal) } else { 0 };
        signals.mask | action.mask | own
    });
}

struct FramePlace {
    frame: u64,
    extended: u64,
}

/// Returns the place of the frame; `None` if it would overrun the alternate stack in use or the lower half.
fn place(
    stack: &AlternateStack,
    rsp: u64,
    action_flags: u64,
    extended_bytes: u64,
) -> Option<FramePlace> {
    let is_on = is_on_stack(stack, rsp);
    let enters = action_flags & flags::ONSTACK != 0 && stack.bytes != 0 && !is_on;
    let top = if enters {
        stack.base.checked_add(stack.bytes)?
    } else {
        rsp.checked_sub(RED_ZONE_BYTES)?
    };
    let extended = top.checked_sub(extended_bytes)? & !63;
    let frame = (extended.checked_sub(size_of::<Frame>() as u64)? & !15).checked_sub(8)?;
    let overruns = (enters || is_on) && frame <= stack.base;
    (!overruns).then_some(FramePlace { frame, extended })
}

/// Returns whether `rsp` lies in the alternate stack.
pub fn is_on_stack(stack: &AlternateStack, rsp: u64) -> bool {
    !stack.is_disarmed_by_use
        && stack.bytes != 0
        && rsp > stack.base
        && rsp - stack.base <= stack.bytes
}

/// Returns the description of the alternate stack for sigaltstack(2) and the frame.
pub fn stack_words(stack: &AlternateStack, rsp: u64) -> StackWords {
    let state = match stack {
        AlternateStack { bytes: 0, .. } => SS_DISABLE,
        _ if is_on_stack(stack, rsp) => SS_ONSTACK,
        _ => 0,
    };
    let disarm = if stack.is_disarmed_by_use { SS_AUTODISARM } else { 0 };
    StackWords { base: stack.base, flags: state | disarm, padding: 0, bytes: stack.bytes }
}

/// Checks a `stack_t` of a program.
///
/// # Errors
/// `EINVAL` for unknown flags, `ENOMEM` if it is too small.
pub fn decode_stack(words: &StackWords) -> Result<AlternateStack, Errno> {
    const SMALLEST_BYTES: u64 = 2048;
    match words.flags & !SS_AUTODISARM {
        SS_DISABLE => Ok(AlternateStack::default()),
        0 | SS_ONSTACK if words.bytes < SMALLEST_BYTES => Err(Errno::ENOMEM),
        0 | SS_ONSTACK => Ok(AlternateStack {
            base: words.base,
            bytes: words.bytes,
            is_disarmed_by_use: words.flags & SS_AUTODISARM != 0,
        }),
        _ => Err(Errno::EINVAL),
    }
}

fn save_registers(to: &mut MachineContext, from: &Registers) {
    to.r8 = from.r8;
    to.r9 = from.r9;
    to.r10 = from.r10;
    to.r11 = from.r11;
    to.r12 = from.r12;
    to.r13 = from.r13;
    to.r14 = from.r14;
    to.r15 = from.r15;
    to.rdi = from.rdi;
    to.rsi = from.rsi;
    to.rbp = from.rbp;
    to.rbx = from.rbx;
    to.rdx = from.rdx;
    to.rax = from.rax;
    to.rcx = from.rcx;
    to.rsp = from.rsp;
    to.rip = from.rip;
    to.rflags = from.rflags;
    (to.cs, to.ss) = (USER_CS, USER_SS);
}

/// Does rt_sigreturn(2): restores the state from the frame at rsp - 8. Returns the old value of rax.
///
/// # Errors
/// `EFAULT` if the frame cannot be read or is malformed; the caller then forces SIGSEGV.
pub fn pop(
    (task, memory): (&Arc<Task>, &AddressSpace),
    context: &mut Context,
) -> Result<u64, Errno> {
    let mut user = UserContext::new_zeroed();
    memory.read_bytes(context.registers.rsp, user.as_mut_bytes())?;
    extended::restore(memory, user.machine.extended)?;
    restore_registers(&mut context.registers, &user.machine);
    mask::change_mask(task, |signals| {
        signals.stack = decode_stack(&user.stack).unwrap_or(signals.stack);
        user.mask
    });
    Ok(user.machine.rax)
}

fn restore_registers(to: &mut Registers, from: &MachineContext) {
    *to = Registers {
        r8: from.r8,
        r9: from.r9,
        r10: from.r10,
        r11: from.r11,
        r12: from.r12,
        r13: from.r13,
        r14: from.r14,
        r15: from.r15,
        rdi: from.rdi,
        rsi: from.rsi,
        rbp: from.rbp,
        rbx: from.rbx,
        rdx: from.rdx,
        rax: from.rax,
        rcx: from.rcx,
        rsp: from.rsp,
        rip: from.rip,
        rflags: to.rflags & !RESTORED_FLAGS | from.rflags & RESTORED_FLAGS,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_start_with_an_aligned_stack_below_the_red_zone() {
        let none = AlternateStack::default();
        let place = place(&none, 0x7000_1234, 0, 836).unwrap();
        assert_eq!((place.frame + 8) % 16, 0);
        assert_eq!(place.extended % 64, 0);
        assert!(place.extended + 836 <= 0x7000_1234 - 128);
    }

    #[test]
    fn the_alternate_stack_is_used_once_and_not_overrun() {
        let stack = AlternateStack { base: 0x1000, bytes: 0x2000, is_disarmed_by_use: false };
        let first = place(&stack, 0x7000_0000, flags::ONSTACK, 836).unwrap();
        assert!(is_on_stack(&stack, first.frame));
        let nested = place(&stack, first.frame, flags::ONSTACK, 836);
        assert!(nested.is_some_and(|nested| nested.frame < first.frame));
        assert!(place(&stack, 0x1400, flags::ONSTACK, 836).is_none());
    }

    #[test]
    fn stacks_are_checked() {
        let words = StackWords { base: 0x1000, flags: 0, padding: 0, bytes: 100 };
        assert_eq!(decode_stack(&words), Err(Errno::ENOMEM));
        assert_eq!(
            decode_stack(&StackWords { flags: 7, bytes: 8192, ..words }),
            Err(Errno::EINVAL)
        );
    }
}
