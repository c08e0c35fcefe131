//! The instructions that access user memory, and the handling of their faults.
//!
//! Each routine returns the number of bytes that it did not copy. A page fault between two labels of [`fixup`]'s table is not
//! a kernel bug: it continues at the third label. In the fast loops that is the byte loop, which finds the exact byte; in the
//! byte loop it is the return.
//!
//! Two choices are for QEMU without hardware virtualisation. `rep movs` was rejected: each of its steps is expensive there. A plain
//! load of a 32-byte register becomes four stores to QEMU's memory and one load of all that they stored, which waits until they are
//! in the cache. A permutation that leaves each half in place (`vpermilpd` by 10) has no such load. Hardware executes both alike.
use super::pages;
use crate::spin::NoPreempt;
use core::{
    arch::{asm, global_asm},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

global_asm!(
    r#"
    # A fault from `start` to before `end` goes on at `to`.
    .macro skerry_fixup start, end, to
    .pushsection .rodata.fixups, "a", @progbits
    .quad \start, \end, \to
    .popsection
    .endm

    .pushsection .rodata.fixups, "a", @progbits
    .balign 8
    .global skerry_fixups
skerry_fixups:
    .popsection

    .pushsection .text.usercopy, "ax", @progbits
    # Copies blocks of four registers, which begin at these multiples of `width`, and passes `count` of them.
    .macro skerry_blocks register, width, load, order, store, count, blocks:vararg
    .irp at, \blocks
    .irp i, 0,1,2,3
    \load \register\i, [rsi + \width * (\at + \i)] \order
    .endr
    .irp i, 0,1,2,3
    \store [rdi + \width * (\at + \i)], \register\i
    .endr
    .endr
    sub rsi, -4 * \width * \count
    sub rdi, -4 * \width * \count
    sub rdx, 4 * \width * \count
    .endm

    # rdi to, rsi from, rdx length -> rax left over
    .macro skerry_copy_by name, register, width, load, order, store
    .balign 64
    .global \name
\name:
    sub rsp, 4 * \width + 8
    .irp i, 0,1,2,3
    \store [rsp + \width * \i], \register\i
    .endr
    sub rdx, 32 * \width
    jb 22f
20: skerry_blocks \register, \width, \load, "\order", \store, 8, 0, 4, 8, 12, 16, 20, 24, 28
    jae 20b
    # The blocks that are left. After a fault above, these find the block in which it was.
22: add rdx, 28 * \width
    js 21f
23: skerry_blocks \register, \width, \load, "\order", \store, 1, 0
    jae 23b
21: .irp i, 0,1,2,3
    \load \register\i, [rsp + \width * \i] \order
    .endr
    add rsp, 4 * \width + 8
    add rdx, 4 * \width
    jz 6f
    jmp skerry_copy
    skerry_fixup 20b, 22b, 22b
    skerry_fixup 23b, 21b, 21b
    .endm
    skerry_copy_by skerry_copy_wide, xmm, 16, movups, "", movups
    skerry_copy_by skerry_copy_wider, ymm, 32, vpermilpd, ", 10", vmovups

    # Copies the words at these offsets.
    .macro skerry_words offsets:vararg
    .irp at, \offsets
    mov rax, [rsi + \at]
    mov [rdi + \at], rax
    .endr
    .endm

    .balign 64
    .global skerry_copy
skerry_copy:
    cmp rdx, 16
    ja 2f
    cmp rdx, 8
    jb 4f
    # The first and the last words, which may overlap; after a fault, all of it goes by bytes.
3:  skerry_words 0, rdx-8
    xor eax, eax
    ret
2:  cmp rdx, 32
    ja 1f
36: skerry_words 0, 8, rdx-16, rdx-8
    xor eax, eax
    ret
1:  sub rdx, 32
22: skerry_words 0, 8, 16, 24
    add rsi, 32
    add rdi, 32
    sub rdx, 32
    jae 22b
    add rdx, 32
    jnz skerry_copy
    mov rax, rdx
    ret
4:  test dl, 4
    jz 37f
    # A word goes in one piece: others may be looking at it.
35: mov eax, [rsi]
    mov [rdi], eax
    sub rdx, 4
    jz 6f
    add rsi, 4
    add rdi, 4
37: test edx, edx
    jz 6f
skerry_copy_bytes:
5:  mov al, [rsi]
    mov [rdi], al
    inc rsi
    inc rdi
    dec rdx
    jnz 5b
6:  mov rax, rdx
    ret
skerry_copy_fault32:
    add rdx, 32
    jmp skerry_copy_bytes
    skerry_fixup 3b, 2b, skerry_copy_bytes
    skerry_fixup 36b, 1b, skerry_copy_bytes
    skerry_fixup 22b, 4b, skerry_copy_fault32
    skerry_fixup 35b, 37b, skerry_copy_bytes
    skerry_fixup 5b, 6b, 6b

    # rdi to, rdx length -> rax left over
    .balign 64
    .global skerry_zero
skerry_zero:
    xor eax, eax
    test dl, 8
    jz 38f
7:  mov [rdi], rax
    add rdi, 8
    sub rdx, 8
38: sub rdx, 16
    jb 8f
39: mov [rdi], rax
    mov [rdi + 8], rax
    add rdi, 16
    sub rdx, 16
    jae 39b
8:  add rdx, 16
    jz 6b
skerry_zero_bytes:
9:  mov [rdi], al
    inc rdi
    dec rdx
    jnz 9b
    jmp 6b
skerry_zero_fault16:
    add rdx, 16
    jmp skerry_zero_bytes
    skerry_fixup 7b, 38b, skerry_zero_bytes
    skerry_fixup 39b, 8b, skerry_zero_fault16
    skerry_fixup 9b, skerry_zero_fault16, 6b

    # rdi word, esi old, edx new -> rax the value found, all ones in rax where it faulted
    .global skerry_exchange
skerry_exchange:
    mov eax, esi
24: lock cmpxchg [rdi], edx
25: mov eax, eax
    ret
    # rdi word -> rax as above
    .global skerry_load_word
skerry_load_word:
26: mov eax, [rdi]
27: ret
skerry_word_fault:
    mov rax, -1
    ret
    # rdi area, esi components (0: what FXSAVE knows) -> rax 0, or all ones where it faulted
    .macro skerry_extended name, all, legacy
    .global \name
\name:
    mov eax, esi
    xor edx, edx
    test esi, esi
    jz 29f
28: \all [rdi]
    jmp 30f
29: \legacy [rdi]
30: xor eax, eax
    ret
    skerry_fixup 28b, 30b, skerry_word_fault
    .endm
    skerry_extended skerry_save, xsave64, fxsave64
    skerry_extended skerry_load, xrstor64, fxrstor64
    # rdi area, esi components, rdx area of the initial state -> rax as above; nothing is loaded where the save faulted
    .global skerry_take
skerry_take:
    mov r8, rdx
    mov eax, esi
    xor edx, edx
    test esi, esi
    jz 32f
31: xsave64 [rdi]
33: xrstor64 [r8]
    xor eax, eax
    ret
32: fxsave64 [rdi]
34: fxrstor64 [r8]
    xor eax, eax
    ret
    skerry_fixup 31b, 33b, skerry_word_fault
    skerry_fixup 32b, 34b, skerry_word_fault
    skerry_fixup 24b, 25b, skerry_word_fault
    skerry_fixup 26b, 27b, skerry_word_fault
    .popsection
    "#
);

const FIXUPS: usize = 18;
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
    let table = unsafe { &skerry_fixups };
    table.iter().find(|[start, end, _]| (*start..*end).contains(&rip)).map(|[_, _, to]| *to)
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
