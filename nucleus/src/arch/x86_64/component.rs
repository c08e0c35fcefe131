//! The loop around the user mode of an isolated component's thread, and the switch between two such threads that touches
//! no kernel frame (L1, L2).
//!
//! All state that such a thread keeps is in its context, which begins with its [`Registers`]. The loop calls `ready`,
//! enters user mode, and calls `trapped` with the trap. A thread that blocks in a call from there may be *parked*: its
//! kernel stack is as if it had not left user mode. So [`hand_over`] leaves the caller parked, takes the other thread's
//! stack and enters user mode with that thread's registers. A parked thread that the scheduler switches to continues in
//! [`unpark`](self), as if it had left user mode by [`PARKED`].
use super::{
    registers::{pop_callee_saved, push_callee_saved},
    user,
};
use crate::{domain, thread};
use core::{
    arch::{asm, global_asm},
    mem::offset_of,
};
use program::Registers;

/// Argument of `trapped` for a thread that was parked and continues.
pub const PARKED: u64 = 0x102;

/// Argument of `trapped` for a thread whose call was done, with the answer in its registers.
pub const DONE: u64 = 0x103;

/// Argument of `trapped` for a thread whose call was done and changed none of its registers but rax.
pub const DONE_KEPT: u64 = 0x104;

/// Result of `domain::plain` for a call that was done and has no answer, if user mode may be entered at once.
pub const RESUME: u64 = 0x105;

/// The function that is called before user mode is entered, with the context. If it returns 0 the loop ends. Interrupts
/// are off when it returns.
pub type Ready = extern "sysv64" fn(*mut Registers) -> u64;
/// The function that is called after user mode was left, with the context, the kind of trap and the error code.
/// Interrupts are off.
pub type Trapped = extern "sysv64" fn(*mut Registers, u64, u64);

global_asm!(
    ".macro skerry_push_callee_saved",
    push_callee_saved!(),
    ".endm
    .macro skerry_pop_callee_saved",
    pop_callee_saved!(),
    ".endm",
    r#"
    .pushsection .text.user, "ax", @progbits
    # rdi: context, rsi: ready, rdx: trapped, rcx: where the stack pointer goes that entry from user mode finds
    .balign 64
    .global skerry_component
skerry_component:
    skerry_push_callee_saved
    push rdx
    push rsi
    push rdi
    lea rax, [rsp - 8]
    mov [rcx], rax
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
    skerry_pop_callee_saved
    ret

    # rdi: registers to enter user mode with, rsi: lock to let go, rdx: the caller's kernel stack; the per-processor
    # data are the other's.
    .balign 64
    .global skerry_hand_over
skerry_hand_over:
    lea rax, [rip + skerry_component_left]
    mov [rdx], rax
    mov rsp, rdi
    mov byte ptr [rsi], 0
    # A parked thread left user mode by syscall, so rcx and r11 are right, and its rip is no higher than the end of
    # the last page that a space maps. A trap flag it had is obeyed one instruction early.
    jmp skerry_enter_checked

    # From skerry_syscall, with `PLAIN` in rax and the user's stack pointer in gs:[8]: keeps what a message needs, as
    # push_registers does, and calls the function of the call.
    .balign 64
    .global skerry_syscall_plain
skerry_syscall_plain:
    cmp eax, {run}
    je skerry_run
    mov rsp, gs:[16]
    push gs:[8]
    push r11
    push rcx
    push rdi
    push rsi
    push rdx
    mov [rsp - 16], rax
    mov [rsp - 24], r8
    mov [rsp - 32], r9
    mov [rsp - 40], r10
    mov [rsp - 64], rbp
    lea rdi, [rsp - 96]
    mov rsp, gs:[48]
    push rdi
    cmp eax, {plain_reply}
    jne 3f
    # A message that passed does not come back here.
    call {reply}
6:  pop rcx
    cmp eax, {resume}
    je 2f
    cmp eax, {done}
    je 1f
    mov [rcx], r15
    mov [rcx + 8], r14
    mov [rcx + 16], r13
    mov [rcx + 24], r12
    mov [rcx + 40], rbx
1:  mov r11, [rcx + 128]
    mov [rcx + 48], r11
    mov r11, [rcx + 120]
    mov [rcx + 88], r11
    ret
2:  mov r10, [rcx + 56]
    mov r9, [rcx + 64]
    mov r8, [rcx + 72]
    mov rdx, [rcx + 96]
    mov rsi, [rcx + 104]
    mov rdi, [rcx + 112]
    mov r11, [rcx + 128]
    mov rsp, [rcx + 136]
    mov rcx, [rcx + 120]
    xor eax, eax
    swapgs
    sysretq
3:  cmp eax, {plain_call}
    jne 4f
    call {call}
    jmp 6b
4:  cmp eax, {plain_signal}
    jne 5f
    call {signal}
    jmp 6b
5:  mov eax, {syscall}
    jmp 6b

    # rdi: the caller's registers, with the message, rax: those of the thread to enter user mode as, r11: the processor's
    # scheduler, whose lock is to be let go, rcx: badge; the per-processor data are the other's. What it does without
    # holds nothing.
    .balign 64
    .global skerry_pass
skerry_pass:
    mov rsi, [rdi + 104]
    mov rdx, [rdi + 96]
    mov r8, [rdi + 72]
    mov r9, [rdi + 64]
    mov r10, [rdi + 56]
    mov rdi, rcx
    mov rcx, [rax + 120]
    mov rbp, [rax + 32]
    mov rsp, [rax + 136]
    mov byte ptr [r11 + {is_locked}], 0
    mov r11, [rax + 128]
    xor eax, eax
    xor ebx, ebx
    mov r12, {no_handle}
    xor r13d, r13d
    xor r14d, r14d
    xor r15d, r15d
    swapgs
    sysretq

    # rdi: stack pointer to go on with, rsi: the caller for whoever goes on, rdx: the caller's kernel stack
    .global skerry_switch_parked
skerry_switch_parked:
    lea rax, [rip + skerry_component_left]
    mov [rdx], rax
    mov rax, rsi
    mov rsp, rdi
    skerry_pop_callee_saved
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
    done = const DONE,
    run = const calls::RUN as u32,
    resume = const RESUME,
    plain_call = const domain::PLAIN_CALL,
    plain_reply = const domain::PLAIN_REPLY,
    plain_signal = const domain::PLAIN_SIGNAL,
    call = sym domain::plain::<{ domain::PLAIN_CALL }>,
    reply = sym domain::plain::<{ domain::PLAIN_REPLY }>,
    signal = sym domain::plain::<{ domain::PLAIN_SIGNAL }>,
    syscall = const user::SYSCALL,
    is_locked = const thread::IS_LOCKED_OFFSET,
    no_handle = const -1,
);

const _: () = {
    assert!(calls::NO_HANDLE == u64::MAX);
    assert!(offset_of!(Registers, rbp) == 32);
    assert!(offset_of!(Registers, r10) == 56);
    assert!(offset_of!(Registers, rdx) == 96);
    assert!(offset_of!(Registers, rsp) == 136);
};

unsafe extern "sysv64" {
    fn skerry_component(
        context: *mut Registers,
        ready: Ready,
        trapped: Trapped,
        kernel_stack: *mut u64,
    );
    fn skerry_unpark();
    fn skerry_switch_parked(to: u64, previous: *mut u8, from: u64) -> !;
    fn skerry_hand_over(registers: *mut Registers, lock: *mut u8, from: u64) -> !;
}

/// Writes the values that `switch` pops for a thread parked on `kernel_stack`. Returns the stack pointer to switch to.
///
/// # Safety
/// The thread is parked there, and the caller switches to it now.
pub unsafe fn prepare(kernel_stack: u64) -> u64 {
    let frame = [0, 0, 0, 0, 0, 0, skerry_unpark as *const () as u64];
    let at = kernel_stack - size_of_val(&frame) as u64;
    // SAFETY: below the stack pointer of a thread that keeps nothing there.
    unsafe { (at as *mut [u64; 7]).write(frame) };
    at
}

/// Switches as `switch::switch` does, from a thread that is left parked on its kernel stack `from`. The contents of that
/// stack are given up.
///
/// # Safety
/// The same as for `switch::switch`, and nothing on the caller's stack above `from` is needed any more.
pub unsafe fn switch_parked(to: u64, previous: *mut u8, from: u64) -> ! {
    // SAFETY: as the caller says.
    unsafe { skerry_switch_parked(to, previous, from) }
}

extern "sysv64" fn finish(previous: *mut u8) {
    // SAFETY: the first thing after the switch.
    unsafe { thread::finish_switch(previous.cast()) };
}

/// Runs a component's thread until `ready` returns 0. Stores at `kernel_stack` the stack pointer that every entry from
/// user mode finds.
///
/// # Safety
/// `context` is valid, begins with the registers, and only the two functions access it meanwhile; `kernel_stack` may be
/// written.
pub unsafe fn run(context: *mut Registers, ready: Ready, trapped: Trapped, kernel_stack: *mut u64) {
    // SAFETY: as the caller says.
    unsafe { skerry_component(context, ready, trapped, kernel_stack) };
}

/// Leaves the caller, a component's thread in `trapped`, parked on its kernel stack `from`, and enters user mode with
/// the `registers` of another parked thread. Releases the lock at `lock` when the caller's stack is left.
///
/// # Safety
/// The other thread's space, bases and per-processor data are loaded; interrupts are off; nothing on the caller's stack
/// above `from` is needed any more.
#[inline(always)]
pub unsafe fn hand_over(registers: *mut Registers, lock: *mut u8, from: u64) -> ! {
    // SAFETY: as the caller says.
    unsafe { skerry_hand_over(registers, lock, from) }
}

/// Leaves the caller, a component's thread in a call with `PLAIN`, parked. Enters user mode as the thread to which the
/// registers `target` belong, with the message from the caller's `own` registers and the badge. Releases the lock of the
/// processor's `scheduler` when the caller's stack and registers are left.
///
/// # Safety
/// The other thread's space, bases and per-processor data are loaded; interrupts are off; nothing on the caller's stack is
/// needed any more.
#[inline(always)]
pub unsafe fn pass(
    own: *const Registers,
    target: *mut Registers,
    scheduler: *mut u8,
    badge: u64,
) -> ! {
    // SAFETY: as the caller says.
    unsafe {
        asm!(
            "jmp skerry_pass",
            in("rdi") own, in("rax") target, in("r11") scheduler, in("rcx") badge,
            options(noreturn),
        )
    }
}

/// Enters user mode again as the calling thread, a component's thread in `trapped` on its kernel stack `from`, which
/// left user mode by `syscall`.
///
/// # Safety
/// User mode is ready to be entered; interrupts are off; nothing on the caller's stack above `from` is needed any more.
#[inline(always)]
pub unsafe fn resume(registers: *mut Registers, from: u64) -> ! {
    let mut nothing = 0;
    // SAFETY: as the caller says; a byte of its stack serves as the lock.
    unsafe { skerry_hand_over(registers, &raw mut nothing, from) }
}
