//! Entering user mode and coming back on the same stack (K5).
//!
//! [`run`] calls `enter`, which pushes its callee-saved registers and the address of the program's
//! [`Registers`], points both ways into the kernel (`syscall` and the task state segment) at that
//! place, and leaves by `sysret` or `iret`. Whatever comes next stores the program's registers there,
//! pops what was pushed and returns. Kicks and reschedules are looked for with interrupts off, so
//! one that comes later finds the processor in user mode and its interrupt brings it back here.
//! Source: Intel SDM volume 2 (SYSCALL, SYSRET), volume 3, 6.14.
use super::{cpu, gdt, paging, percpu, traps};
use crate::{
    memory::{
        access::Access,
        space::{Space, USER_END},
    },
    thread::{self, Thread},
};
use core::{
    arch::{asm, global_asm},
    mem::offset_of,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// A program's general registers; laid out as `rt::user::Registers`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the processor's names")]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rip: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

const _: () = {
    assert!(offset_of!(Registers, rdi) == 112);
    assert!(offset_of!(Registers, rip) == 120);
    assert!(offset_of!(Registers, rsp) == 136);
    assert!(percpu::USER_RSP_OFFSET == 8);
    assert!(percpu::KERNEL_RSP_OFFSET == 16);
    assert!(offset_of!(percpu::PerCpu, task_state_rsp) == 48);
};

/// Why user mode was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// `syscall`.
    Syscall,
    /// A page fault.
    PageFault {
        /// Address wanted.
        address: u64,
        /// What was wanted.
        access: Access,
        /// A page was present.
        is_present: bool,
    },
    /// Another exception.
    Exception {
        /// Vector.
        vector: u8,
        /// Error code.
        error_code: u64,
    },
    /// A kick.
    Kicked,
}

const SYSCALL: u64 = 0x100;
/// Flags a program may have: CF PF AF ZF SF TF DF OF RF AC ID.
const USER_FLAGS: u64 = 0x0025_0dd5;
const FORCED_FLAGS: u64 = 0x202;
const TF_AND_RF: u64 = 0x1_0100;
/// Flags cleared by `syscall`: TF, IF, DF, IOPL, NT, AC.
const SYSCALL_CLEARS: u64 = 0x4_7700;

global_asm!(
    r#"
    .macro skerry_load_registers
    mov r15, [rdi]
    mov r14, [rdi + 8]
    mov r13, [rdi + 16]
    mov r12, [rdi + 24]
    mov rbp, [rdi + 32]
    mov rbx, [rdi + 40]
    mov r10, [rdi + 56]
    mov r9, [rdi + 64]
    mov r8, [rdi + 72]
    mov rax, [rdi + 80]
    mov rdx, [rdi + 96]
    mov rsi, [rdi + 104]
    .endm
    .macro skerry_store_registers
    mov [rdi], r15
    mov [rdi + 8], r14
    mov [rdi + 16], r13
    mov [rdi + 24], r12
    mov [rdi + 32], rbp
    mov [rdi + 40], rbx
    mov [rdi + 48], r11
    mov [rdi + 56], r10
    mov [rdi + 64], r9
    mov [rdi + 72], r8
    mov [rdi + 80], rax
    mov [rdi + 88], rcx
    mov [rdi + 96], rdx
    mov [rdi + 104], rsi
    .endm

    .pushsection .text.user, "ax", @progbits
    # rdi: Registers -> rax: vector or 0x100, rdx: error code; interrupts off throughout.
    .balign 64
    .global skerry_enter
skerry_enter:
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    push rdi
    mov gs:[16], rsp
    mov rax, gs:[48]
    mov [rax], rsp
    mov rcx, [rdi + 120]
    mov r11, [rdi + 128]
    cmp rcx, [rdi + 88]
    jne 2f
    cmp r11, [rdi + 48]
    jne 2f
    test r11d, {tf_and_rf}
    jnz 2f
    skerry_load_registers
    mov rsp, [rdi + 136]
    mov rdi, [rdi + 112]
    swapgs
    sysretq
2:  push {user_data}
    push [rdi + 136]
    push r11
    push {user_code}
    push rcx
    skerry_load_registers
    mov rcx, [rdi + 88]
    mov r11, [rdi + 48]
    mov rdi, [rdi + 112]
    swapgs
    iretq

    .balign 64
    .global skerry_syscall
skerry_syscall:
    swapgs
    mov gs:[8], rsp
    mov rsp, gs:[16]
    push rdi
    mov rdi, [rsp + 8]
    skerry_store_registers
    mov [rdi + 120], rcx
    mov [rdi + 128], r11
    pop rax
    mov [rdi + 112], rax
    mov rax, gs:[8]
    mov [rdi + 136], rax
    mov eax, {syscall}
    xor edx, edx
skerry_leave:
    add rsp, 8
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret

    # From trap_common: vector, error code and what the processor pushed are on the stack.
    .balign 64
    .global skerry_trap_user
skerry_trap_user:
    swapgs
    push rdi
    mov rdi, [rsp + 64]
    skerry_store_registers
    pop rax
    mov [rdi + 112], rax
    mov rax, [rsp + 16]
    mov [rdi + 120], rax
    mov rax, [rsp + 32]
    mov [rdi + 128], rax
    mov rax, [rsp + 40]
    mov [rdi + 136], rax
    pop rax
    pop rdx
    add rsp, 40
    push 2
    popfq
    jmp skerry_leave
    .popsection
    "#,
    tf_and_rf = const TF_AND_RF,
    user_data = const gdt::USER_DATA,
    user_code = const gdt::USER_CODE,
    syscall = const SYSCALL,
);

#[derive(Clone, Copy)]
#[repr(C)]
struct Left {
    kind: u64,
    error_code: u64,
}

unsafe extern "sysv64" {
    fn skerry_enter(registers: *mut Registers) -> Left;
    fn skerry_syscall();
}

static HAS_FSGSBASE: AtomicBool = AtomicBool::new(false);

const IA32_FS_BASE: u32 = 0xc000_0100;
const IA32_KERNEL_GS_BASE: u32 = 0xc000_0102;

/// Sets up `syscall` and the base instructions on this processor.
pub fn init_cpu() {
    const IA32_EFER: u32 = 0xc000_0080;
    const IA32_STAR: u32 = 0xc000_0081;
    const IA32_LSTAR: u32 = 0xc000_0082;
    const IA32_FMASK: u32 = 0xc000_0084;
    const SCE: u64 = 1;
    const FSGSBASE: u64 = 1 << 16;
    let star = u64::from(gdt::USER_32_CODE) << 48 | u64::from(gdt::KERNEL_CODE) << 32;
    // SAFETY: reads a register every x86-64 processor has.
    let efer = unsafe { cpu::read_msr(IA32_EFER) };
    let values = [
        (IA32_EFER, efer | SCE),
        (IA32_STAR, star),
        (IA32_LSTAR, skerry_syscall as *const () as u64),
        (IA32_FMASK, SYSCALL_CLEARS),
        (IA32_KERNEL_GS_BASE, 0),
    ];
    for (register, value) in values {
        // SAFETY: the entry above, selectors of the GDT, flags that the entry expects off.
        unsafe { cpu::write_msr(register, value) };
    }
    let task_state = gdt::kernel_stack_slot();
    percpu::this().task_state_rsp.store(task_state, Relaxed);
    if cpu::cpuid(0, 0)[0] >= 7 && cpu::cpuid(7, 0)[1] & 1 != 0 {
        // SAFETY: CPUID offers it.
        unsafe { cpu::set_cr4(cpu::cr4() | FSGSBASE) };
        HAS_FSGSBASE.store(true, Relaxed);
    }
}

/// A base the processor takes: one it would refuse becomes an address that faults when used.
fn acceptable_base(base: u64) -> u64 {
    if ((base as i64) << 16 >> 16) as u64 == base { base } else { USER_END }
}

/// Loads the program's segment bases. Interrupts are off.
#[inline]
fn load_bases(registers: &Registers) {
    let (mut fs, mut gs) = (registers.fs_base, registers.gs_base);
    if (fs | gs) >> 47 != 0 {
        (fs, gs) = (acceptable_base(fs), acceptable_base(gs));
    }
    if HAS_FSGSBASE.load(Relaxed) {
        // SAFETY: canonical; GS is the kernel's again at the end, interrupts are off, NMIs cope.
        unsafe {
            asm!("wrfsbase {}", "swapgs", "wrgsbase {}", "swapgs", in(reg) fs, in(reg) gs,
                options(nostack, preserves_flags));
        }
    } else {
        // SAFETY: canonical; the kernel does not use FS.
        unsafe { cpu::write_msr(IA32_FS_BASE, fs) };
        // SAFETY: canonical; becomes GS at `swapgs` only.
        unsafe { cpu::write_msr(IA32_KERNEL_GS_BASE, gs) };
    }
}

/// Reads the bases back: the program may have set them itself. Interrupts are off.
#[inline]
fn store_bases(registers: &mut Registers) {
    if HAS_FSGSBASE.load(Relaxed) {
        // SAFETY: as in `load_bases`.
        unsafe {
            asm!("rdfsbase {}", "swapgs", "rdgsbase {}", "swapgs", out(reg) registers.fs_base,
                out(reg) registers.gs_base, options(nostack, preserves_flags));
        }
    }
}

/// The trap that entering with such an instruction pointer would end in at once.
#[cold]
fn refuse(rip: u64) -> Trap {
    if acceptable_base(rip) == rip {
        Trap::PageFault { address: rip, access: Access::Execute, is_present: false }
    } else {
        Trap::Exception { vector: 13, error_code: 0 }
    }
}

/// Enters user mode in `space` and returns at the next trap.
#[inline]
pub fn run(registers: &mut Registers, space: &Space) -> Trap {
    let me = thread::current();
    if !thread::is_in_space(me, space) {
        thread::enter_space(me, space);
    }
    if registers.rip >= USER_END {
        return refuse(registers.rip);
    }
    registers.rflags = registers.rflags & USER_FLAGS | FORCED_FLAGS;
    loop {
        cpu::disable_interrupts();
        // Again after a reschedule: a kick may have come while others ran.
        while thread::wants_attention(me) {
            if let Some(trap) = attend(me) {
                return trap;
            }
        }
        if !me.extended.is_live() {
            me.extended.make_live();
        }
        load_bases(registers);
        // SAFETY: interrupts are off, the space is loaded, rip is the program's, flags were forced, and
        // the registers stay where they are until the return.
        let left = unsafe { skerry_enter(registers) };
        store_bases(registers);
        if left.kind == SYSCALL {
            // SAFETY: they were on when `run` was called.
            unsafe { cpu::enable_interrupts() };
            return Trap::Syscall;
        }
        if let Some(trap) = trapped(left) {
            return trap;
        }
    }
}

/// Consumes a kick or gives the processor away. Interrupts are off; on with an answer.
#[cold]
fn attend(me: &Thread) -> Option<Trap> {
    let is_kicked = thread::consume_kick(me);
    if !is_kicked {
        thread::reschedule();
        return None;
    }
    // SAFETY: they were on when `run` was called.
    unsafe { cpu::enable_interrupts() };
    Some(Trap::Kicked)
}

/// An exception or an interrupt; interrupts are off, on with an answer.
fn trapped(left: Left) -> Option<Trap> {
    const PRESENT: u64 = 1;
    const WRITE: u64 = 2;
    const FETCH: u64 = 16;
    if left.kind >= 32 {
        thread::note_user_interrupted(true);
        traps::interrupt(left.kind as u8);
        thread::note_user_interrupted(false);
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
