//! The instructions that touch user memory, and what happens when they fault.
//!
//! Each routine returns how many bytes it left over. A page fault between two labels of
//! [`fixup`]'s table continues at the third label instead of being a kernel bug: in the fast loops
//! that is the byte loop, which finds the exact byte; in the byte loop it is the return.
//! `rep movs` was rejected: without hardware virtualisation each of its steps is dear.
use crate::spin::NoPreempt;
use core::{
    arch::{asm, global_asm},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

global_asm!(
    r#"
    .pushsection .text.usercopy, "ax", @progbits
    # rdi to, rsi from, rdx length -> rax left over
    .balign 64
    .global skerry_copy_wide
skerry_copy_wide:
    sub rsp, 72
    movups [rsp], xmm0
    movups [rsp + 16], xmm1
    movups [rsp + 32], xmm2
    movups [rsp + 48], xmm3
    sub rdx, 128
    jb 21f
20:
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + 32]
    movups xmm3, [rsi + 48]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + 32], xmm2
    movups [rdi + 48], xmm3
    movups xmm0, [rsi + 64]
    movups xmm1, [rsi + 80]
    movups xmm2, [rsi + 96]
    movups xmm3, [rsi + 112]
    movups [rdi + 64], xmm0
    movups [rdi + 80], xmm1
    movups [rdi + 96], xmm2
    movups [rdi + 112], xmm3
    sub rsi, -128
    sub rdi, -128
    sub rdx, 128
    jae 20b
21:
    add rdx, 128
    movups xmm0, [rsp]
    movups xmm1, [rsp + 16]
    movups xmm2, [rsp + 32]
    movups xmm3, [rsp + 48]
    add rsp, 72
    jmp skerry_copy
    .set copy128_start, 20b
    .set copy128_end, 21b

    .balign 64
    .global skerry_copy
skerry_copy:
    sub rdx, 64
    jb 2f
1:
    mov rax, [rsi]
    mov rcx, [rsi + 8]
    mov r8, [rsi + 16]
    mov r9, [rsi + 24]
    mov [rdi], rax
    mov [rdi + 8], rcx
    mov [rdi + 16], r8
    mov [rdi + 24], r9
    mov rax, [rsi + 32]
    mov rcx, [rsi + 40]
    mov r8, [rsi + 48]
    mov r9, [rsi + 56]
    mov [rdi + 32], rax
    mov [rdi + 40], rcx
    mov [rdi + 48], r8
    mov [rdi + 56], r9
    add rsi, 64
    add rdi, 64
    sub rdx, 64
    jae 1b
2:
    add rdx, 56
    js 4f
3:
    mov rax, [rsi]
    mov [rdi], rax
    add rsi, 8
    add rdi, 8
    sub rdx, 8
    jns 3b
4:
    add rdx, 8
    jz 6f
skerry_copy_bytes:
5:
    mov al, [rsi]
    mov [rdi], al
    inc rsi
    inc rdi
    dec rdx
    jnz 5b
6:
    mov rax, rdx
    ret
skerry_copy_fault64:
    add rdx, 64
    jmp skerry_copy_bytes
skerry_copy_fault8:
    add rdx, 8
    jmp skerry_copy_bytes
    .set copy64_start, 1b
    .set copy64_end, 2b
    .set copy8_start, 3b
    .set copy8_end, 4b
    .set copy1_start, 5b
    .set copy1_end, 6b

    # rdi to, rdx length -> rax left over
    .balign 64
    .global skerry_zero
skerry_zero:
    xor eax, eax
    sub rdx, 8
    js 8f
7:
    mov [rdi], rax
    add rdi, 8
    sub rdx, 8
    jns 7b
8:
    add rdx, 8
    jz 10f
skerry_zero_bytes:
9:
    mov [rdi], al
    inc rdi
    dec rdx
    jnz 9b
10:
    mov rax, rdx
    ret
skerry_zero_fault8:
    add rdx, 8
    jmp skerry_zero_bytes
    .set zero8_start, 7b
    .set zero8_end, 8b
    .set zero1_start, 9b
    .set zero1_end, 10b

    # rdi word, esi old, edx new -> rax the value found, all ones in rax where it faulted
    .global skerry_exchange
skerry_exchange:
    mov eax, esi
11: lock cmpxchg [rdi], edx
12: mov eax, eax
    ret
    # rdi word -> rax as above
    .global skerry_load
skerry_load:
13: mov eax, [rdi]
14: ret
skerry_word_fault:
    mov rax, -1
    ret
    .set word1_start, 11b
    .set word1_end, 12b
    .set word2_start, 13b
    .set word2_end, 14b
    .popsection

    .pushsection .rodata, "a", @progbits
    .balign 8
    .global skerry_fixups
skerry_fixups:
    .quad copy128_start, copy128_end, copy128_end
    .quad copy64_start, copy64_end, skerry_copy_fault64
    .quad copy8_start, copy8_end, skerry_copy_fault8
    .quad copy1_start, copy1_end, copy1_end
    .quad zero8_start, zero8_end, skerry_zero_fault8
    .quad zero1_start, zero1_end, zero1_end
    .quad word1_start, word1_end, skerry_word_fault
    .quad word2_start, word2_end, skerry_word_fault
    .popsection
    "#
);

const FIXUPS: usize = 8;
/// From this length on copies go through vector registers, borrowed with preemption off.
const WIDE_BYTES: usize = 256;

unsafe extern "sysv64" {
    fn skerry_copy(to: *mut u8, from: *const u8, length: usize) -> usize;
    fn skerry_copy_wide(to: *mut u8, from: *const u8, length: usize) -> usize;
    fn skerry_zero(to: *mut u8, length_in_rsi: usize, length: usize) -> usize;
    fn skerry_exchange(word: u64, old: u32, new: u32) -> u64;
    fn skerry_load(word: u64) -> u64;
    static skerry_fixups: [[u64; 3]; FIXUPS];
}

/// Where to go on after a fault at `rip` on a user address, if it is one of ours.
pub fn fixup(rip: u64) -> Option<u64> {
    // SAFETY: the table above, which nobody writes.
    let table = unsafe { &skerry_fixups };
    table.iter().find(|[start, end, _]| (*start..*end).contains(&rip)).map(|[_, _, to]| *to)
}

static HAS_SMAP: AtomicBool = AtomicBool::new(false);

/// Says that supervisor access to user pages must be announced.
pub fn set_smap() {
    HAS_SMAP.store(true, Relaxed);
}

/// Whether it must.
pub fn has_smap() -> *const AtomicBool {
    &raw const HAS_SMAP
}

/// Copies, each piece by `step`; bytes left over. Preemption is off during a wide piece, and only then.
#[inline]
fn copy(
    to: *mut u8,
    from: *const u8,
    length: usize,
    step: impl Fn(
        unsafe extern "sysv64" fn(*mut u8, *const u8, usize) -> usize,
        *mut u8,
        *const u8,
        usize,
    ) -> usize,
) -> usize {
    if length < WIDE_BYTES {
        return step(skerry_copy, to, from, length);
    }
    const PIECE: usize = 32 * 1024;
    let mut done = 0;
    while done < length {
        let piece = PIECE.min(length - done);
        let _hold = NoPreempt::new();
        let left = step(skerry_copy_wide, to.wrapping_add(done), from.wrapping_add(done), piece);
        done += piece - left;
        if left > 0 {
            break;
        }
    }
    length - done
}

/// Lets the kernel touch user pages while `act` (one of the routines above) runs.
#[inline]
fn with_access<R>(act: impl FnOnce() -> R) -> R {
    let has_smap = HAS_SMAP.load(Relaxed);
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

/// Copies between user and kernel memory, in either direction; bytes left over.
///
/// # Safety
/// The kernel side is valid for `length` bytes; the user side lies below `USER_END`, and its
/// space is loaded.
#[inline]
pub unsafe fn copy_user(to: *mut u8, from: *const u8, length: usize) -> usize {
    copy(to, from, length, |routine, to, from, length| {
        // SAFETY: faults on the user side are fixed up; the caller answers for the kernel's.
        with_access(|| unsafe { routine(to, from, length) })
    })
}

/// Zeroes user memory; bytes left over.
///
/// # Safety
/// As [`copy_user`].
#[inline]
pub unsafe fn zero_user(to: *mut u8, length: usize) -> usize {
    // SAFETY: as above.
    with_access(|| unsafe { skerry_zero(to, 0, length) })
}

/// Compare-exchange on a user word; `None` where it faulted.
///
/// # Safety
/// As [`copy_user`]; aligned to 4.
#[inline]
pub unsafe fn exchange_user(word: u64, old: u32, new: u32) -> Option<u32> {
    // SAFETY: as above.
    u32::try_from(with_access(|| unsafe { skerry_exchange(word, old, new) })).ok()
}

/// Load of a user word; `None` where it faulted.
///
/// # Safety
/// As [`exchange_user`].
#[inline]
pub unsafe fn load_user(word: u64) -> Option<u32> {
    // SAFETY: as above.
    u32::try_from(with_access(|| unsafe { skerry_load(word) })).ok()
}

/// Copies kernel memory that others may be changing.
///
/// # Safety
/// Both valid for `length` bytes.
#[inline]
pub unsafe fn copy_raw(from: *const u8, to: *mut u8, length: usize) {
    copy(to, from, length, |routine, to, from, length| {
        // SAFETY: as the caller says.
        unsafe { routine(to, from, length) }
    });
}

/// Zeroes kernel memory that others may be reading.
///
/// # Safety
/// Valid for `length` bytes.
#[inline]
pub unsafe fn zero_raw(to: *mut u8, length: usize) {
    // SAFETY: as the caller says.
    unsafe { skerry_zero(to, 0, length) };
}
