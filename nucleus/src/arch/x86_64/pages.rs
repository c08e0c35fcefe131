//! Clearing and copying whole pages with the widest plain moves available.
//!
//! The kernel is built without vector code, and the vector registers hold the running program's state. So
//! these functions save some of them and restore them, with preemption off meanwhile. A 32-byte move clears
//! the upper part of 512-bit registers; if programs have those, moves are of sixteen bytes. String
//! instructions are rejected: without hardware virtualisation each of their steps is expensive.
use super::usercopy;
use crate::spin::NoPreempt;
use core::{
    arch::asm,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Moves may be of 32 bytes, because the vector registers of programs have this size.
static HAS_AVX: AtomicBool = AtomicBool::new(false);

/// Allows moves of 32 bytes: AVX is enabled, and AVX-512 is not.
pub fn set_avx() {
    HAS_AVX.store(true, Relaxed);
}

/// Returns whether moves may be of 32 bytes.
#[inline]
pub fn has_avx() -> bool {
    HAS_AVX.load(Relaxed)
}

/// The loop that zeroes `$page` by register `$r` of `$width` bytes, with `$plain` and `$aligned` moves.
macro_rules! zero_by {
    ($page:expr, $r:literal, $width:literal, $plain:literal, $aligned:literal, $clear:literal) => {
        asm!(
            concat!("sub rsp, ", $width),
            concat!($plain, " [rsp], ", $r),
            $clear,
            "2:",
            ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            concat!($aligned, " [{page} + \\i * ", $width, "], ", $r),
            ".endr",
            concat!("add {page}, 32 * ", $width),
            "dec {left:e}",
            "jnz 2b",
            concat!($plain, " ", $r, ", [rsp]"),
            concat!("add rsp, ", $width),
            page = inout(reg) $page => _,
            left = inout(reg) 4096 / (32 * $width) => _,
        )
    };
}

/// Zeroes a page.
///
/// # Safety
/// `page` is the address of a page that the caller owns.
#[inline]
pub unsafe fn zero(page: *mut u8) {
    let _hold = NoPreempt::new();
    if has_avx() {
        // SAFETY: as below, by ymm0.
        unsafe { zero_by!(page, "ymm0", 32, "vmovups", "vmovaps", "vxorps ymm0, ymm0, ymm0") };
    } else {
        // SAFETY: writes the page only; xmm0 is as before at the end, and no other thread runs in between.
        unsafe { zero_by!(page, "xmm0", 16, "movups", "movaps", "xorps xmm0, xmm0") };
    }
}

/// Copies a page.
///
/// # Safety
/// Both are pages, the caller owns `to`, and they differ. `from` may be changing meanwhile.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8) {
    // SAFETY: as the caller says.
    unsafe { usercopy::copy_raw(from, to, 4096) };
}
