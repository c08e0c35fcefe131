//! The way of a component's thread into a program and back ([`domain::Entered`], L3).
//!
//! ```text
//! component:  syscall, RUN --> skerry_run: root of the program --> program
//! program:    syscall      --> registers to the context --> skerry_program_left: the component's root --> component
//! ```
//! The context is memory of the component, which other threads of it may change at any time. So each register is loaded once,
//! and rip and the flags are checked where they were loaded to. Everything that is not as usual goes through `trapped`.
use super::user;
use crate::domain;
use core::{arch::global_asm, mem::offset_of};
use program::Registers;

/// Flag of the kind of a trap: a component's program was left.
pub const PROGRAM: u64 = 1 << 16;

global_asm!(
    r#"
    .pushsection .text.user, "ax", @progbits
    # From skerry_syscall_plain. rdi: address of the context, rsi: handle of the space, rcx: rip, gs:[8]: stack pointer.
    .balign 64
    .global skerry_run
skerry_run:
    # A program may call any number. Its kernel stack holds no component's context there.
    mov rsp, gs:[48]
    cmp qword ptr [rsp], offset skerry_component_left
    jne skerry_syscall_any
    cmp qword ptr gs:[56], 0
    je 9f
    mov rax, [rsp + 8]
    cmp rdi, [rax + {context}]
    jne 9f
    cmp rsi, [rax + {space}]
    jne 9f
    mov r8, [rax + {registers}]
    test r8, r8
    jz 8f
    mov [rax + {rip}], rcx
    mov rcx, gs:[8]
    mov [rax + {rsp}], rcx
    mov rdi, r8
    lea rcx, [rdi + 144]
    mov gs:[16], rcx
    lea rcx, [rip + skerry_program_left]
    push rcx
    mov gs:[48], rsp
    mov rcx, [rax + {program_root}]
    mov cr3, rcx
    # sysret loses rcx and r11, so they must be what it makes of them, as after a system call.
    mov rcx, [rdi + 120]
    cmp rcx, [rdi + 88]
    jne skerry_enter_any
    mov r11, [rdi + 128]
    cmp r11, [rdi + 48]
    jne skerry_enter_any
    lea eax, [r11 - {forced_flags}]
    test eax, {slow_flags}
    jnz skerry_enter_any
    mov rax, rcx
    shr rax, 47
    jnz skerry_enter_any
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
    mov rsp, [rdi + 136]
    mov rdi, [rdi + 112]
    swapgs
    sysretq
8:  xor r8d, r8d
9:  mov eax, {run}
    jmp skerry_syscall_any

    # The program was left. rax: kind of the trap, rdx: error code. The stack pointer is as entry from the component finds it.
    .balign 64
    .global skerry_program_left
skerry_program_left:
    mov gs:[48], rsp
    mov rcx, [rsp + 8]
    cmp eax, {syscall}
    jne 1f
    lea rsp, [rcx + 144]
    mov gs:[16], rsp
    mov rsp, [rcx + {root}]
    mov cr3, rsp
    mov rsp, [rcx + {rsp}]
    mov rcx, [rcx + {rip}]
    mov r11d, {forced_flags}
    swapgs
    sysretq
1:  lea rdi, [rcx + 144]
    mov gs:[16], rdi
    mov rdi, [rcx + {root}]
    mov cr3, rdi
    or eax, {program}
    ret
    .popsection
    "#,
    context = const domain::ENTERED,
    space = const domain::ENTERED + 8,
    registers = const domain::ENTERED + 16,
    program_root = const domain::ENTERED + 24,
    root = const domain::ENTERED + 32,
    rip = const offset_of!(Registers, rip),
    rsp = const offset_of!(Registers, rsp),
    forced_flags = const user::FORCED_FLAGS,
    slow_flags = const user::SLOW_FLAGS,
    syscall = const user::SYSCALL,
    run = const calls::RUN as u32,
    program = const PROGRAM,
);

const _: () = assert!(user::SYSCALL == calls::space::RUN_SYSCALL);
