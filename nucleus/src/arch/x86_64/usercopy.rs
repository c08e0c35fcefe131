//! The instructions that access user memory, and the handling of their faults.
use super::pages;
use crate::spin::NoPreempt;
use core::{
    arch::{asm, global_asm},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use x86::usercopy::FIXUPS;

global_asm!(x86::usercopy_text!());

/// Length from which copies use vector registers, which are saved and restored with preemption off.
const WIDE_BYTES: usize = 256;

unsafe extern "sysv64" {
    fn skerry_copy(to: *mut u8, from: *const u8, length: usize) -> usize;
    fn skerry_copy_wide(to: *mut u8, from: *const u8, length: usize) -> usize;
    fn skerry_copy_wider(to: *mut u8, from: *const u8, length: usize) -> usize;
    fn skerry_zero(to: *mut u8, length_in_rsi: usize, length: usize) -> usize;
    fn skerry_exchange(word: u64, old: u32, new: u32) -> u64;
    fn skerry_load_word(word: u64) -> u64;
    fn skerry_save(area: *mut u8, components: u32) -> u64;
    fn skerry_load(area: *mut u8, components: u32) -> u64;
    fn skerry_take(area: *mut u8, components: u32, initial: *const u8) -> u64;
    static skerry_fixups: [[u64; 3]; FIXUPS];
}

/// Returns the instruction at which to continue after a fault at `rip` on a user address; `None` if `rip` is in no copy loop.
pub fn fixup(rip: u64) -> Option<u64> {
    // SAFETY: the table above, which nobody writes.
    x86::usercopy::fixup(unsafe { &skerry_fixups }, rip)
}

static HAS_SMAP: AtomicBool = AtomicBool::new(false);

/// Declares that supervisor access to user pages must be enabled first (SMAP).
pub fn set_smap() {
    HAS_SMAP.store(true, Relaxed);
}

/// Returns the flag that [`set_smap`] sets.
pub fn has_smap() -> *const AtomicBool {
    &raw const HAS_SMAP
}

/// A piece to copy: to, from, the greatest length.
pub type Piece = (*mut u8, *const u8, usize);

/// Copies many bytes as [`copy`] does, with vector registers. Preemption is off during each [`STEP_BYTES`], and only then.
///
/// # Safety
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_wide<const IS_USER: bool>(length: usize, piece: impl Fn(usize) -> Piece) -> usize {
    const STEP_BYTES: usize = 32 * 1024;
    let wide = if pages::has_avx() { skerry_copy_wider } else { skerry_copy_wide };
    let mut done = 0;
    while done < length {
        let _hold = NoPreempt::new();
        let end = length.min(done + STEP_BYTES);
        let left = with_access::<IS_USER, _>(|| {
            loop {
                let (to, from, room) = piece(done);
                let count = room.min(end - done);
                // SAFETY: as the caller says; faults on the user side are fixed up.
                let left = unsafe { wide(to, from, count) };
                done += count - left;
                if left > 0 || done == end {
                    break left;
                }
            }
        });
        if left > 0 {
            break;
        }
    }
    length - done
}

/// Copies `length` bytes by the routine that suits them: `piece` returns the piece that begins after so many bytes, which is not
/// empty. Copies between user and kernel memory, in either direction, if `IS_USER`, else within kernel memory. Returns the
/// number of bytes not copied.
///
/// # Safety
/// The kernel side of each piece is valid for its length, or up to `length`. The user side lies below `USER_END`, and its space
/// is loaded.
#[inline(always)]
pub unsafe fn copy<const IS_USER: bool>(length: usize, piece: impl Fn(usize) -> Piece) -> usize {
    let (to, from, room) = piece(0);
    if length >= WIDE_BYTES || length > room {
        // SAFETY: as the caller says.
        return unsafe { copy_wide::<IS_USER>(length, piece) };
    }
    // SAFETY: as the caller says; faults on the user side are fixed up.
    with_access::<IS_USER, _>(|| unsafe { skerry_copy(to, from, length) })
}

/// Calls `act`, which calls one of the routines above, with access to user pages enabled if `IS_USER`.
#[inline(always)]
fn with_access<const IS_USER: bool, R>(act: impl FnOnce() -> R) -> R {
    let has_smap = IS_USER && HAS_SMAP.load(Relaxed);
    if has_smap {
        // SAFETY: the processor has SMAP; interrupt entry clears the flag and return restores it.
        unsafe { asm!("stac", options(nostack)) };
    }
    let answer = act();
    if has_smap {
        // SAFETY: as above.
        unsafe { asm!("clac", options(nostack)) };
    }
    answer
}

/// Zeroes user memory. Returns the number of bytes not zeroed.
///
/// # Safety
/// The same as for [`copy`].
#[inline]
pub unsafe fn zero_user(to: *mut u8, length: usize) -> usize {
    // SAFETY: as above.
    with_access::<true, _>(|| unsafe { skerry_zero(to, 0, length) })
}

/// Compares and exchanges a user word. Returns the value found, or `None` after a fault.
///
/// # Safety
/// The same as for [`copy`]; the word is aligned to 4.
#[inline]
pub unsafe fn exchange_user(word: u64, old: u32, new: u32) -> Option<u32> {
    // SAFETY: as above.
    u32::try_from(with_access::<true, _>(|| unsafe { skerry_exchange(word, old, new) })).ok()
}

/// Loads a user word. Returns `None` after a fault.
///
/// # Safety
/// The same as for [`exchange_user`].
#[inline]
pub unsafe fn load_user(word: u64) -> Option<u32> {
    // SAFETY: as above.
    u32::try_from(with_access::<true, _>(|| unsafe { skerry_load_word(word) })).ok()
}

/// A function that saves or loads the registers, such as [`save_extended`] and [`load_extended`].
pub type Transfer = unsafe fn(*mut u8, u32) -> bool;

/// Saves the registers' extended state. Returns `false` if the area is in user memory and cannot be stored to.
///
/// # Safety
/// `area` is aligned to 64 and large enough for `components` (for FXSAVE if that is 0). If it is in user memory, as for
/// [`copy`].
#[inline]
pub unsafe fn save_extended(area: *mut u8, components: u32) -> bool {
    // SAFETY: as above.
    with_access::<true, _>(|| unsafe { skerry_save(area, components) }) == 0
}

/// Loads extended state. Returns `false` if the processor refuses it, or if the area is in user memory that is not present; a
/// part of it may then be loaded.
///
/// # Safety
/// The same as for [`save_extended`].
#[inline]
pub unsafe fn load_extended(area: *mut u8, components: u32) -> bool {
    // SAFETY: as above.
    with_access::<true, _>(|| unsafe { skerry_load(area, components) }) == 0
}

/// Saves the registers' extended state and loads that of `initial`. Returns `false`, and loads nothing, if the area is in
/// user memory and cannot be stored to.
///
/// # Safety
/// The same as for [`save_extended`]; `initial` is aligned to 64, large enough for `components`, and valid for the processor.
#[inline]
pub unsafe fn take_extended(area: *mut u8, components: u32, initial: *const u8) -> bool {
    // SAFETY: as above.
    with_access::<true, _>(|| unsafe { skerry_take(area, components, initial) }) == 0
}

/// Copies kernel memory that other processors may change meanwhile.
///
/// # Safety
/// Both valid for `length` bytes.
#[inline]
pub unsafe fn copy_raw(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: as the caller says.
    unsafe { copy::<false>(length, |at| (to.wrapping_add(at), from.wrapping_add(at), usize::MAX)) };
}

/// Zeroes kernel memory that other processors may read meanwhile.
///
/// # Safety
/// Valid for `length` bytes.
#[inline]
pub unsafe fn zero_raw(to: *mut u8, length: usize) {
    // SAFETY: as the caller says.
    unsafe { skerry_zero(to, 0, length) };
}
