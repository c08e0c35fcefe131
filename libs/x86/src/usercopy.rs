//! The instructions that access the memory of programs, as assembler text, for the kernel and for a component that runs programs.
//!
//! Each routine returns the number of bytes that it did not copy. A page fault between two labels of the table
//! `skerry_fixups` is not a bug: the handler of the fault continues at the third label. In the fast loops that is the byte
//! loop, which finds the exact byte; in the byte loop it is the return. The table has [`FIXUPS`] entries.
//!
//! Two choices are for QEMU without hardware virtualisation. `rep movs` was rejected: each of its steps is expensive there. A plain
//! load of a 32-byte register becomes four stores to QEMU's memory and one load of all that they stored, which waits until they are
//! in the cache. A permutation that leaves each half in place (`vpermilpd` by 10) has no such load. Hardware executes both alike.

/// Number of entries of `skerry_fixups`: the first instruction that may fault, the first one behind, the one to continue at.
pub const FIXUPS: usize = 18;

/// Returns the address at which `table` says to continue after a fault at `rip`.
pub fn fixup(table: &[[u64; 3]], rip: u64) -> Option<u64> {
    table.iter().find(|[start, end, _]| (*start..*end).contains(&rip)).map(|[_, _, to]| *to)
}

/// The text of the routines: `skerry_copy`, `skerry_copy_wide`, `skerry_copy_wider`, `skerry_zero`, `skerry_exchange`,
/// `skerry_load_word`, `skerry_save`, `skerry_load`, `skerry_take`, and of the table `skerry_fixups`.
#[macro_export]
macro_rules! usercopy_text {
    () => {
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
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_continues_where_its_range_says() {
        let table = [[10, 20, 5], [20, 21, 7]];
        assert_eq!(
            [9, 10, 19, 20, 21].map(|rip| fixup(&table, rip)),
            [None, Some(5), Some(5), Some(7), None]
        );
    }

    #[test]
    fn the_table_has_as_many_entries_as_the_text() {
        let uses = usercopy_text!().matches("skerry_fixup ").count();
        // One is the definition; the wide copies and the extended state are macros that are used twice, with two and one.
        assert_eq!(uses - 1 + 2 + 1, FIXUPS);
    }
}
