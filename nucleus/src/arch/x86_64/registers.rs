//! The order in which the general registers are on a stack, as assembler text. It is that of
//! [`program::Registers`] and of the frames of [`super::traps`]; the last pushed register has the
//! lowest address.
//!
//! It is text because each `global_asm!` may be a unit of its own and assembler macros end with the
//! unit.
macro_rules! push_registers {
    () => {
        "push rdi; push rsi; push rdx; push rcx; push rax; push r8; push r9; push r10; push r11
        push rbx; push rbp; push r12; push r13; push r14; push r15"
    };
}
macro_rules! pop_registers {
    () => {
        "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx
        pop r11; pop r10; pop r9; pop r8; pop rax; pop rcx; pop rdx; pop rsi; pop rdi"
    };
}
/// The callee-saved registers, which every switch of stacks pushes and pops.
macro_rules! push_callee_saved {
    () => {
        "push rbp; push rbx; push r12; push r13; push r14; push r15"
    };
}
macro_rules! pop_callee_saved {
    () => {
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp"
    };
}
pub(super) use {pop_callee_saved, pop_registers, push_callee_saved, push_registers};
