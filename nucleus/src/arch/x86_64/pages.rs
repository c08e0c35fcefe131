//! Clearing and copying whole pages with the widest plain moves there are.
//!
//! The kernel is built without vector code, and the vector registers hold the running program's
//! state; so these borrow one register and give it back, with preemption off meanwhile. Sixteen
//! bytes a move: a 32-byte move would clear what lies above in 512-bit registers. String
//! instructions are rejected: without hardware virtualisation each of their steps is dear.
use crate::spin::NoPreempt;
use core::arch::asm;

/// Zeroes a page.
///
/// # Safety
/// `page` is a page-aligned page of ours.
#[inline]
pub unsafe fn zero(page: *mut u8) {
    let _hold = NoPreempt::new();
    // SAFETY: writes the page only; xmm0 is as before at the end, and no other thread runs in between.
    unsafe {
        asm!(
            "sub rsp, 16",
            "movups [rsp], xmm0",
            "xorps xmm0, xmm0",
            "2:",
            ".irp at, 0,16,32,48,64,80,96,112,128,144,160,176,192,208,224,240",
            "movaps [{page} + \\at], xmm0",
            ".endr",
            "add {page}, 256",
            "dec {left:e}",
            "jnz 2b",
            "movups xmm0, [rsp]",
            "add rsp, 16",
            page = inout(reg) page => _,
            left = inout(reg) 16 => _,
        );
    }
}

/// Copies a page.
///
/// # Safety
/// Both are page-aligned pages, `to` is ours, and they differ. `from` may be changing meanwhile.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8) {
    let _hold = NoPreempt::new();
    // SAFETY: reads and writes these pages only; the registers are as before at the end, and no other thread
    // runs in between.
    unsafe {
        asm!(
            "sub rsp, 32",
            "movups [rsp], xmm0",
            "movups [rsp + 16], xmm1",
            "2:",
            ".irp at, 0,32,64,96,128,160,192,224",
            "movaps xmm0, [{from} + \\at]",
            "movaps xmm1, [{from} + \\at + 16]",
            "movaps [{to} + \\at], xmm0",
            "movaps [{to} + \\at + 16], xmm1",
            ".endr",
            "add {from}, 256",
            "add {to}, 256",
            "dec {left:e}",
            "jnz 2b",
            "movups xmm0, [rsp]",
            "movups xmm1, [rsp + 16]",
            "add rsp, 32",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            left = inout(reg) 16 => _,
        );
    }
}
