//! The loop around the user mode of an isolated component's thread, and the switch between two such
//! threads that touches no kernel frame (L1, L2).
//!
//! All that such a thread keeps lies in its context, which begins with its [`Registers`]: the loop calls `ready`,
//! enters user mode, and calls `trapped` with what came. A thread that blocks in a call from there may be *parked*:
//! its kernel stack is as if user mode had not been left, so [`hand_over`] leaves the caller parked, takes
//! the other's stack and enters user mode with the other's registers. A parked thread that the scheduler
//! switches to goes on in [`unpark`](self), as if user mode had been left by [`PARKED`].
use crate::thread;
use core::arch::global_asm;
use program::Registers;

/// What `trapped` is told of a thread that was parked and goes on.
pub const PARKED: u64 = 0x102;

/// Before user mode is entered, with the context; 0 ends the loop. Interrupts are off after it.
pub type Ready = extern "sysv64" fn(*mut Registers) -> u64;
/// After user mode was left, with the context, kind and error code. Interrupts are off.
pub type Trapped = extern "sysv64" fn(*mut Registers, u64, u64);

global_asm!(
    r#"
    .pushsection .text.user, "ax", @progbits
    # rdi: context, rsi: ready, rdx: trapped
    .balign 64
    .global skerry_component
skerry_component:
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    push rdx
    push rsi
    push rdi
1:  mov rdi, [rsp]
    call [rsp + 8]
    test eax, eax
    jz 2f
    mov rdi, [rsp]
    call skerry_enter
skerry_component_left:
    mov rdi, [rsp]
    mov rsi, rax
    call [rsp + 16]
    jmp 1b
2:  add rsp, 24
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret

    # rdi: registers to enter user mode with, rsi: their thread's kernel stack, rdx: lock to let go,
    # rcx: the caller's kernel stack
    .balign 64
    .global skerry_hand_over
skerry_hand_over:
    lea rax, [rip + skerry_component_left]
    mov [rcx], rax
    mov rsp, rsi
    mov byte ptr [rdx], 0
    # A parked thread left user mode by syscall, so rcx and r11 are right, and its rip is no higher than the end of
    # the last page that a space maps. A trap flag it had is obeyed one instruction early.
    mov gs:[48], rsi
    lea rax, [rdi + 144]
    mov gs:[16], rax
    jmp skerry_enter_checked

    # rdi: stack pointer to go on with, rsi: the caller for whoever goes on, rdx: the caller's kernel stack
    .global skerry_switch_parked
skerry_switch_parked:
    lea rax, [rip + skerry_component_left]
    mov [rdx], rax
    mov rax, rsi
    mov rsp, rdi
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret

    .global skerry_unpark
skerry_unpark:
    sub rsp, 8
    mov rdi, rax
    call {finish}
    add rsp, 8
    mov eax, {parked}
    ret
    .popsection
    "#,
    finish = sym finish,
    parked = const PARKED,
);

unsafe extern "sysv64" {
    fn skerry_component(context: *mut Registers, ready: Ready, trapped: Trapped);
    fn skerry_unpark();
    fn skerry_switch_parked(to: u64, previous: *mut u8, from: u64) -> !;
    fn skerry_hand_over(registers: *mut Registers, to: u64, lock: *const u8, from: u64) -> !;
}

/// Writes what `switch` pops of a thread parked on `kernel_stack`; the stack pointer to switch to.
///
/// # Safety
/// The thread is parked there, and whoever switches to it does so now.
pub unsafe fn prepare(kernel_stack: u64) -> u64 {
    let frame = [0, 0, 0, 0, 0, 0, skerry_unpark as *const () as u64];
    let at = kernel_stack - size_of_val(&frame) as u64;
    // SAFETY: below the stack pointer of a thread that keeps nothing there.
    unsafe { (at as *mut [u64; 7]).write(frame) };
    at
}

/// Switches as `switch::switch` does, from a thread that is left parked on its kernel stack `from`: what it has
/// there is given up.
///
/// # Safety
/// As for `switch::switch`, and nothing on the caller's stack above `from` is needed any more.
pub unsafe fn switch_parked(to: u64, previous: *mut u8, from: u64) -> ! {
    // SAFETY: as the caller says.
    unsafe { skerry_switch_parked(to, previous, from) }
}

extern "sysv64" fn finish(previous: *mut u8) {
    // SAFETY: the first thing after the switch.
    unsafe { thread::finish_switch(previous.cast()) };
}

/// Runs a component's thread until `ready` says that it ends.
///
/// # Safety
/// `context` is valid, begins with the registers and is touched by the two functions only meanwhile.
pub unsafe fn run(context: *mut Registers, ready: Ready, trapped: Trapped) {
    // SAFETY: as the caller says.
    unsafe { skerry_component(context, ready, trapped) };
}

/// Leaves the caller, a component's thread in `trapped`, parked on its kernel stack `from`, and enters user mode
/// on the kernel stack `to` of another parked thread with that one's `registers`. The lock at `lock` is let go
/// once the caller's stack is left.
///
/// # Safety
/// The other's space, bases and per-processor data are loaded; interrupts are off; nothing on the caller's
/// stack above `from` is needed any more.
#[inline(always)]
pub unsafe fn hand_over(registers: *mut Registers, to: u64, lock: *const u8, from: u64) -> ! {
    // SAFETY: as the caller says.
    unsafe { skerry_hand_over(registers, to, lock, from) }
}
