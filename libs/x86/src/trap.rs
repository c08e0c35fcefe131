//! Traps: their gates, and the registers of interrupted code.
//!
//! Source: Intel SDM volume 3, 6.3.1 and 6.14.2.
use super::descriptor::{self, GateLevel, KERNEL_CODE};

/// Interrupt stack table entry (1 to 7) of double faults and machine checks.
pub const IST_DOUBLE_FAULT: u8 = 1;
/// Interrupt stack table entry of non-maskable interrupts.
pub const IST_NMI: u8 = 2;

/// Registers of interrupted kernel code, in the order in which they are on its stack.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Frame {
    /// r15, r14, r13 and r12.
    pub r15_to_r12: [u64; 4],
    /// Frame pointer.
    pub rbp: u64,
    /// rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi and rdi.
    pub rbx_to_rdi: [u64; 10],
    /// Number of the trap.
    pub vector: u64,
    /// Error code; 0 for a trap without one.
    pub error_code: u64,
    /// Instruction pointer.
    pub rip: u64,
    /// Code segment.
    pub cs: u64,
    /// Flags.
    pub rflags: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Stack segment.
    pub ss: u64,
}

/// Returns the gate of `vector`, which is handled at `code`. User mode may use those of breakpoint and overflow.
pub const fn gate(vector: usize, code: u64) -> [u64; 2] {
    let stack = match vector {
        2 => IST_NMI,
        8 | 18 => IST_DOUBLE_FAULT,
        _ => 0,
    };
    let level = if matches!(vector, 3 | 4) { GateLevel::User } else { GateLevel::Kernel };
    descriptor::gate(code, KERNEL_CODE, stack, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_come_at_any_instruction_has_a_stack_of_its_own() {
        let stack = |vector| gate(vector, 0)[0] >> 32 & 7;
        let own: Vec<usize> = (0..256).filter(|&vector| stack(vector) != 0).collect();
        assert_eq!(own, [2, 8, 18]);
        assert_ne!(stack(2), stack(8), "an NMI may come during a double fault");
    }

    #[test]
    fn programs_may_only_break_and_overflow() {
        let is_open = |&vector: &usize| gate(vector, 0)[0] >> 45 & 3 == 3;
        assert_eq!((0..256).filter(is_open).collect::<Vec<_>>(), [3, 4]);
    }
}
