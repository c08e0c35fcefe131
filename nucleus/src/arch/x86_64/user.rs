//! Entering user mode and coming back on the same stack (K5).
//!
//! [`run`] calls `skerry_enter`, which notes the stack pointer and the program's [`Registers`], and enters user
//! mode by `sysret` or `iret`. The next trap stores the program's registers right in them, loads the noted stack
//! pointer again and returns. At an interrupt the processor pushes its frame to a small place in the per-processor
//! data, so the task state segment never changes.
//!
//! The usual way in has one check, [`PerCpu::ready_space`](percpu::PerCpu). A kick, a wish to reschedule, a
//! switch, and taking the space or the extended state away clear it, and so does each interrupt. It is checked
//! with interrupts off, so a later event finds the processor in user mode, and its interrupt brings the processor
//! back here.
//!
//! Source: Intel SDM volume 2 (SYSCALL, SYSRET), volume 3, 6.14.
use super::{
    apic, bases, cpu, gdt, paging, percpu,
    registers::{pop_registers, push_registers},
    traps,
};
use crate::{
    memory::space::Space,
    thread::{self, Thread},
};
use alloc::sync::Arc;
use core::{
    arch::{asm, global_asm},
    mem::offset_of,
    sync::atomic::Ordering::Relaxed,
};
use program::{Access, Registers, Trap};

const _: () = {
    assert!(offset_of!(Registers, r11) == 48);
    assert!(offset_of!(Registers, rcx) == 88);
    assert!(offset_of!(Registers, rip) == 120);
    assert!(offset_of!(Registers, rsp) == 136);
    assert!(size_of::<Registers>() == 144);
};

/// Kind of [`Left`]: user mode was left by `syscall`.
pub const SYSCALL: u64 = 0x100;
/// Kind of [`Left`]: the instruction pointer is not a program's.
const REFUSED: u64 = 0x101;
/// Flags a program may have: CF PF AF ZF SF TF DF OF RF AC ID.
const USER_FLAGS: u64 = 0x0025_0dd5;
/// Flags that a program always has.
pub const FORCED_FLAGS: u64 = 0x202;
/// Flags cleared by `syscall`: TF, IF, DF, IOPL, NT, AC.
const SYSCALL_CLEARS: u64 = 0x4_7700;

/// The flags with which `sysret` may not be used: those that a program may not have, and TF and RF, which would
/// take effect too early. Bits 1 and 9 are checked after the forced ones were subtracted.
pub(super) const SLOW_FLAGS: u32 = !(USER_FLAGS as u32 & !0x1_0100);

global_asm!(
    ".macro skerry_push_registers",
    push_registers!(),
    ".endm
    .macro skerry_pop_registers",
    pop_registers!(),
    ".endm",
    r#"

    .pushsection .text.user, "ax", @progbits
    # rdi: Registers -> rax: vector, SYSCALL or REFUSED, rdx: error code; changes all other
    # registers; interrupts are off throughout.
    .balign 64
    .global skerry_enter
skerry_enter:
    lea rax, [rdi + 144]
    mov gs:[16], rax
    mov gs:[48], rsp
    # sysret loses rcx and r11, so they must be what it makes of them, as after a system call.
    mov rcx, [rdi + 120]
    cmp rcx, [rdi + 88]
    jne 2f
    mov r11, [rdi + 128]
    cmp r11, [rdi + 48]
    jne 2f
    lea eax, [r11 - {forced_flags}]
    test eax, {slow_flags}
    jnz 2f
    shr rcx, 47
    jnz 3f
    .global skerry_enter_checked
skerry_enter_checked:
    mov rsp, rdi
    skerry_pop_registers
    pop rcx
    pop r11
    pop rsp
    swapgs
    sysretq
    .global skerry_enter_any
skerry_enter_any:
2:  mov rcx, [rdi + 120]
    mov rax, rcx
    shr rax, 47
    jnz 3f
4:  mov r11, [rdi + 128]
    and r11d, {user_flags}
    or r11d, {forced_flags}
    mov rax, [rdi + 136]
    # The frame is where the processor pushes one at an interrupt from user mode.
    mov gs:[88], rcx
    mov qword ptr gs:[96], {user_code}
    mov gs:[104], r11
    mov gs:[112], rax
    mov qword ptr gs:[120], {user_data}
    mov rsp, rdi
    skerry_pop_registers
    mov rsp, gs:[0]
    lea rsp, [rsp + 88]
    swapgs
    iretq
    # A component that runs programs is in the upper half. Other components' and programs' instructions are not.
3:  lea rcx, [rip + skerry_component_left]
    cmp rcx, [rsp]
    jne 5f
    mov rcx, [rdi + 120]
    mov rax, rcx
    sar rax, 47
    inc eax
    jz 4b
5:  mov eax, {refused}
    ret

    .balign 64
    .global skerry_syscall
skerry_syscall:
    swapgs
    mov gs:[8], rsp
    # A component's call with `PLAIN`.
    test eax, eax
    js skerry_syscall_plain
    .global skerry_syscall_any
skerry_syscall_any:
    mov rsp, gs:[16]
    push gs:[8]
    push r11
    push rcx
    skerry_push_registers
    mov rsp, gs:[48]
    mov eax, {syscall}
    ret

    # From trap_common: vector, error code and what the processor pushed stand in the entry stack.
    .balign 64
    .global skerry_trap_user
skerry_trap_user:
    swapgs
    mov rsp, gs:[16]
    push gs:[112]
    push gs:[104]
    push gs:[88]
    skerry_push_registers
    mov rdx, gs:[80]
    mov rax, gs:[72]
    mov rsp, gs:[48]
    push 2
    popfq
    ret
    .popsection
    "#,
    user_flags = const USER_FLAGS,
    forced_flags = const FORCED_FLAGS,
    slow_flags = const SLOW_FLAGS,
    user_data = const gdt::USER_DATA,
    user_code = const gdt::USER_CODE,
    syscall = const SYSCALL,
    refused = const REFUSED,
);

/// The reason why user mode was left, or could not be entered.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// The vector of an exception or interrupt, [`SYSCALL`], or `REFUSED`.
    pub kind: u64,
    /// Error code of an exception.
    pub error_code: u64,
}

unsafe extern "sysv64" {
    fn skerry_syscall();
}

/// Sets up `syscall` and the FSGSBASE instructions on this processor.
pub fn init_cpu() {
    const IA32_EFER: u32 = 0xc000_0080;
    const IA32_STAR: u32 = 0xc000_0081;
    const IA32_LSTAR: u32 = 0xc000_0082;
    const IA32_FMASK: u32 = 0xc000_0084;
    const IA32_TSC_AUX: u32 = 0xc000_0103;
    const SCE: u64 = 1;
    let star = u64::from(gdt::USER_32_CODE) << 48 | u64::from(gdt::KERNEL_CODE) << 32;
    // SAFETY: reads a register every x86-64 processor has.
    let efer = unsafe { cpu::read_msr(IA32_EFER) };
    let values = [
        (IA32_EFER, efer | SCE),
        (IA32_STAR, star),
        (IA32_LSTAR, skerry_syscall as *const () as u64),
        (IA32_FMASK, SYSCALL_CLEARS),
    ];
    for (register, value) in values {
        // SAFETY: the entry above, selectors of the GDT, flags that the entry expects off.
        unsafe { cpu::write_msr(register, value) };
    }
    if cpu::features().has_rdtscp {
        // SAFETY: the register that `rdtscp` returns, which the processor has.
        unsafe { cpu::write_msr(IA32_TSC_AUX, percpu::cpu() as u64) };
    }
    gdt::set_entry_stack(percpu::this().entry_stack.as_ptr_range().end as u64);
    bases::init_cpu();
}

/// Returns the trap that entering user mode at such an instruction pointer would cause at once.
#[cold]
fn refuse(rip: u64) -> Trap {
    if super::is_canonical(rip) {
        Trap::PageFault { address: rip, access: Access::Execute, is_present: false }
    } else {
        Trap::Exception { vector: 13, error_code: 0 }
    }
}

/// Enters user mode. Returns why it was left.
///
/// # Safety
/// Interrupts are off, the space and the thread's extended state are loaded, and the registers stay in place until
/// the return.
#[inline(always)]
unsafe fn enter(registers: &mut Registers) -> Left {
    let (kind, error_code);
    // SAFETY: comes back with this stack and these two registers; the rest is said to change.
    unsafe {
        asm!(
            "push rbp", "push rbx", "call skerry_enter", "pop rbx", "pop rbp",
            inout("rdi") core::ptr::from_mut(registers) => _,
            lateout("rax") kind, lateout("rdx") error_code,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    Left { kind, error_code }
}

/// Enters user mode in `space` and returns at the next trap.
#[inline(always)]
pub fn run(registers: &mut Registers, space: &Space) -> Trap {
    loop {
        if let Some(trap) = get_ready(space) {
            return trap;
        }
        // SAFETY: this is what ready means.
        let left = unsafe { enter(registers) };
        if left.kind == SYSCALL {
            // SAFETY: they were on when `run` was called.
            unsafe { cpu::enable_interrupts() };
            return Trap::Syscall;
        }
        if let Some(trap) = trapped(left, registers.rip) {
            return trap;
        }
    }
}

/// Prepares user mode in `space` for entry; interrupts are off then. Returns a trap if it is not to be entered.
#[inline(always)]
pub fn get_ready(space: &Space) -> Option<Trap> {
    cpu::disable_interrupts();
    if is_ready_for(space) { None } else { make_ready(space, percpu::RESCHEDULE_LATER) }
}

/// Returns whether user mode in `space` may be entered at once. Interrupts are off.
#[inline(always)]
pub fn is_ready_for(space: &Space) -> bool {
    percpu::ready_space().cast_const() == Arc::as_ptr(space.inner()).cast()
}

/// Enters the space, gives the processor to others first, answers a kick, and loads extended state, as needed. Others have to
/// wait if their request is less than `least` ([`percpu::RESCHEDULE_NOW`]); then the next entry checks again.
/// Interrupts are off, or on if it returns a trap.
#[cold]
pub fn make_ready(space: &Space, least: u32) -> Option<Trap> {
    let me = thread::current();
    if !thread::is_in_space(me, space) {
        // SAFETY: they were on when `run` was called.
        unsafe { cpu::enable_interrupts() };
        thread::enter_space(me, space);
        cpu::disable_interrupts();
    }
    // Checked again after a reschedule, because a kick may have come while other threads ran.
    while thread::wants_attention(me, least) {
        if let Some(trap) = consume_attention(me) {
            return Some(trap);
        }
    }
    if thread::was_moved(me) {
        // SAFETY: they were on when `run` was called.
        unsafe { cpu::enable_interrupts() };
        return Some(Trap::Kicked);
    }
    if !me.extended.is_live() {
        me.extended.make_live();
    }
    if !thread::wants_attention(me, percpu::RESCHEDULE_LATER) {
        percpu::this().ready_space.store(thread::current_space().cast_mut().cast(), Relaxed);
    }
    None
}

/// Consumes a kick or gives the processor away. Interrupts are off, or on if it returns a trap.
fn consume_attention(me: &Thread) -> Option<Trap> {
    let is_kicked = thread::consume_kick(me);
    if !is_kicked {
        thread::reschedule();
        return None;
    }
    // SAFETY: they were on when `run` was called.
    unsafe { cpu::enable_interrupts() };
    Some(Trap::Kicked)
}

/// Handles an exception, an interrupt or a refusal. Interrupts are off, or on if it returns a trap.
pub fn trapped(left: Left, rip: u64) -> Option<Trap> {
    const PRESENT: u64 = 1;
    const WRITE: u64 = 2;
    const FETCH: u64 = 16;
    if left.kind == REFUSED {
        // SAFETY: they were on when `run` was called.
        unsafe { cpu::enable_interrupts() };
        return Some(refuse(rip));
    }
    if left.kind >= 32 {
        thread::note_user_interrupted(true);
        traps::interrupt(left.kind as u8);
        thread::note_user_interrupted(false);
        thread::note_preempted();
        return None;
    }
    if left.kind != 14 && apic::end_stray(left.kind as u8) {
        return None;
    }
    let address = paging::fault_address();
    // SAFETY: they were on when `run` was called.
    unsafe { cpu::enable_interrupts() };
    if left.kind != 14 {
        return Some(Trap::Exception { vector: left.kind as u8, error_code: left.error_code });
    }
    let access = match left.error_code {
        code if code & FETCH != 0 => Access::Execute,
        code if code & WRITE != 0 => Access::Write,
        _ => Access::Read,
    };
    Some(Trap::PageFault { address, access, is_present: left.error_code & PRESENT != 0 })
}
