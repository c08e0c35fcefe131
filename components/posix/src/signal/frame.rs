//! The stack frame of a signal handler, exactly as Linux x86-64 lays it out.
//!
//! ```text
//!   high   extended state (XSAVE, 64-byte aligned) + magic2
//!          siginfo            128 bytes
//!          ucontext           304 bytes: flags link stack(24) mcontext(256) mask(8)
//!   rsp -> return address     8 bytes: sa_restorer            (rsp + 8 is a multiple of 16)
//! ```
//! Everything read back by [`pop`] is the program's claim: masks are cleaned, flags filtered, the
//! extended state is checked by rt, selectors are ignored (there is only one pair for programs).
//! Source: Linux `arch/x86/kernel/signal_64.c`, `asm/sigcontext.h`, `asm/ucontext.h`.
use super::{
    Info, SignalSet, UNBLOCKABLE,
    action::{Action, flags},
    bit, mask,
    state::AlternateStack,
};
use crate::process::{Task, task::attention};
use alloc::{sync::Arc, vec, vec::Vec};
use rt::user::{Context, Registers};
use vfs::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const FXSAVE_BYTES: usize = 512;
const XSAVE_HEADER_END: usize = 576;
const SOFTWARE_BYTES_AT: usize = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
const MAGIC_2_BYTES: usize = 4;
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
    /// Lowest address.
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
    info: Info,
}

const _: () = assert!(size_of::<MachineContext>() == 256);
const _: () = assert!(size_of::<UserContext>() == 304);
const _: () = assert!(size_of::<Frame>() == 440);

/// Pushes a frame for `info` and makes `context` enter the handler of `action`.
///
/// # Errors
/// `EFAULT` if the stack cannot take it or the action has no restorer.
pub fn push(
    task: &Arc<Task>,
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
    let extended = extended_image();
    let place = place(&stack, context.registers.rsp, action.flags, extended.len() as u64)
        .ok_or(Errno::EFAULT)?;
    let mut machine = machine_context(&context.registers);
    machine.extended = place.extended;
    machine.old_mask = saved_mask;
    if bit(info.number()) & super::SYNCHRONOUS != 0 {
        (machine.error_code, machine.vector, machine.cr2) =
            (fault.error_code, fault.vector, fault.address);
    }
    let frame = Frame {
        return_address: action.restorer,
        user: UserContext {
            flags: UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
            link: 0,
            stack: stack_words(&stack, context.registers.rsp),
            machine,
            mask: saved_mask,
        },
        info: *info,
    };
    let memory = task.memory();
    memory.write_bytes(place.extended, &extended)?;
    memory.write_bytes(place.frame, frame.as_bytes())?;
    enter_handler(context, place.frame, info.number(), action.handler);
    block_for_handler(task, info.number(), action, &stack);
    Ok(())
}

fn enter_handler(context: &mut Context, frame: u64, signal: u8, handler: u64) {
    let registers = &mut context.registers;
    registers.rsp = frame;
    registers.rip = handler;
    registers.rdi = u64::from(signal);
    registers.rsi = frame + core::mem::offset_of!(Frame, info) as u64;
    registers.rdx = frame + core::mem::offset_of!(Frame, user) as u64;
    registers.rax = 0;
    registers.rflags &= !CLEARED_FLAGS;
}

fn block_for_handler(task: &Arc<Task>, signal: u8, action: &Action, stack: &AlternateStack) {
    let now = {
        let mut signals = task.signals.lock();
        signals.saved_mask = None;
        if stack.is_disarmed_by_use {
            signals.stack = AlternateStack::default();
        }
        let own = if action.flags & flags::NODEFER == 0 { bit(signal) } else { 0 };
        signals.mask | action.mask | own
    };
    task.lower_attention(attention::MASK);
    mask::set_mask(task, now);
}

struct Place {
    frame: u64,
    extended: u64,
}

/// Where the frame goes; `None` if it would overrun the alternate stack in use or the lower half.
fn place(
    stack: &AlternateStack,
    rsp: u64,
    action_flags: u64,
    extended_bytes: u64,
) -> Option<Place> {
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
    (!overruns).then_some(Place { frame, extended })
}

/// `rsp` lies in the alternate stack.
pub fn is_on_stack(stack: &AlternateStack, rsp: u64) -> bool {
    !stack.is_disarmed_by_use
        && stack.bytes != 0
        && rsp > stack.base
        && rsp - stack.base <= stack.bytes
}

/// How sigaltstack(2) and the frame tell the alternate stack.
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

fn machine_context(from: &Registers) -> MachineContext {
    MachineContext {
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
        rflags: from.rflags,
        cs: USER_CS,
        ss: USER_SS,
        ..MachineContext::default()
    }
}

/// The extended state as the frame holds it: software bytes in the legacy area, magic at the end.
fn extended_image() -> Vec<u8> {
    let bytes = rt::user::extended_bytes();
    let has_header = bytes >= XSAVE_HEADER_END;
    let mut image = vec![0; if has_header { bytes + MAGIC_2_BYTES } else { bytes }];
    if let Some(state) = image.get_mut(..bytes) {
        let _ = rt::user::save_extended(state);
    }
    if has_header {
        let mask = rt::user::extended_mask();
        put(&mut image, SOFTWARE_BYTES_AT, &MAGIC_1.to_le_bytes());
        put(&mut image, SOFTWARE_BYTES_AT + 4, &((bytes + MAGIC_2_BYTES) as u32).to_le_bytes());
        put(&mut image, SOFTWARE_BYTES_AT + 8, &mask.to_le_bytes());
        put(&mut image, SOFTWARE_BYTES_AT + 16, &(bytes as u32).to_le_bytes());
        put(&mut image, bytes, &MAGIC_2.to_le_bytes());
    }
    image
}

fn put(image: &mut [u8], at: usize, data: &[u8]) {
    if let Some(place) = image.get_mut(at..at + data.len()) {
        place.copy_from_slice(data);
    }
}

fn word(image: &[u8], at: usize) -> u32 {
    image.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// rt_sigreturn(2): undoes the frame at rsp - 8. Returns rax as it was.
///
/// # Errors
/// `EFAULT` where the frame is not there or makes no sense; the caller then forces SIGSEGV.
pub fn pop(task: &Arc<Task>, context: &mut Context) -> Result<u64, Errno> {
    let memory = task.memory();
    let at = context.registers.rsp.wrapping_sub(8);
    let mut frame = [0; size_of::<Frame>()];
    memory.read_bytes(at, &mut frame)?;
    let frame = Frame::read_from_bytes(&frame).map_err(|_| Errno::EFAULT)?;
    let machine = &frame.user.machine;
    restore_extended(task, machine.extended)?;
    restore_registers(&mut context.registers, machine);
    if let Ok(stack) = decode_stack(&frame.user.stack) {
        task.signals.lock().stack = stack;
    }
    mask::set_mask(task, frame.user.mask & !UNBLOCKABLE);
    Ok(machine.rax)
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

fn restore_extended(task: &Arc<Task>, address: u64) -> Result<(), Errno> {
    if address == 0 {
        rt::user::reset_extended();
        return Ok(());
    }
    let memory = task.memory();
    let bytes = rt::user::extended_bytes();
    let mut image = vec![0; bytes];
    let legacy = image.get_mut(..FXSAVE_BYTES).ok_or(Errno::EFAULT)?;
    memory.read_bytes(address, legacy)?;
    if bytes >= XSAVE_HEADER_END {
        if has_whole_state(task, address, legacy, bytes)? {
            memory.read_bytes(address, &mut image)?;
        } else {
            const LEGACY_COMPONENTS: u64 = 3;
            put(&mut image, FXSAVE_BYTES, &LEGACY_COMPONENTS.to_le_bytes());
        }
    }
    if rt::user::load_extended(&image) { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Both magics and the sizes say that a whole XSAVE image of ours is there.
fn has_whole_state(
    task: &Arc<Task>,
    address: u64,
    legacy: &[u8],
    bytes: usize,
) -> Result<bool, Errno> {
    let says_so = word(legacy, SOFTWARE_BYTES_AT) == MAGIC_1
        && word(legacy, SOFTWARE_BYTES_AT + 4) as usize == bytes + MAGIC_2_BYTES
        && word(legacy, SOFTWARE_BYTES_AT + 16) as usize == bytes;
    if !says_so {
        return Ok(false);
    }
    let mut magic = [0; MAGIC_2_BYTES];
    task.memory().read_bytes(address.wrapping_add(bytes as u64), &mut magic)?;
    Ok(u32::from_le_bytes(magic) == MAGIC_2)
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
