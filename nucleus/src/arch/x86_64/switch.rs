//! The context switch, and the registers that a thread keeps on its stack while it does not run.
use super::registers::{pop_callee_saved, push_callee_saved};
use core::arch::naked_asm;

/// Saves this thread's callee-saved registers on its stack and its stack pointer at `save`, and
/// continues the thread whose stack pointer was saved as `to`. Returns, in that thread, `previous`.
///
/// # Safety
/// Interrupts off; `to` was saved by this function or made by [`prepare`], and no other processor
/// runs that thread.
#[unsafe(naked)]
pub unsafe extern "sysv64" fn switch(save: *mut u64, to: u64, previous: *mut u8) -> *mut u8 {
    naked_asm!(
        push_callee_saved!(),
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "mov rax, rdx",
        pop_callee_saved!(),
        "ret",
    )
}

/// Returns the instruction at which a thread that was switched from continues, and its frame pointer.
///
/// # Safety
/// `saved` was saved by [`switch`] or made by [`prepare`], and its stack is still mapped.
pub unsafe fn saved_place(saved: u64) -> (u64, u64) {
    // SAFETY: r15, r14, r13, r12, rbx, rbp and the return address stand there.
    let [.., rbp, rip] = unsafe { (saved as *const [u64; 7]).read_volatile() };
    (rip, rbp)
}

/// The first steps of a new thread: `previous` of the switch becomes the argument.
#[unsafe(naked)]
unsafe extern "sysv64" fn start() {
    naked_asm!("xor ebp, ebp", "mov rdi, rax", "call rbx", "ud2")
}

/// Prepares the stack that ends at `top` for a first switch to it, which calls `entry` with the
/// previous thread, interrupts off. Returns the stack pointer to switch to.
///
/// # Safety
/// The stack is mapped and unused, and `top` is aligned to 16.
pub unsafe fn prepare(top: u64, entry: extern "sysv64" fn(*mut u8) -> !) -> u64 {
    // The registers r15, r14, r13, r12, rbx, rbp and the return address; above them the stack is
    // aligned for a call.
    let frame = [0, 0, 0, 0, entry as usize as u64, 0, start as *const () as u64, 0];
    let at = top - size_of_val(&frame) as u64 - 8;
    let at = (at & !15) | 8;
    // SAFETY: within the stack.
    unsafe { (at as *mut [u64; 8]).write(frame) };
    at
}
