//! The way from the boot loader to Rust: PVH entry in 32-bit mode, the first page tables, long mode.
//!
//! The loader (QEMU's option ROM, or any that knows the Xen PVH note) enters `pvh_entry` in flat
//! 32-bit mode with EBX at `hvm_start_info`. The first tables map the first four gigabytes with
//! 2 MiB pages three times over: at 0 (until the jump high, and for processors starting later), at
//! [`DIRECT_MAP`], and the first two at the image's link address. `memory::init` replaces them
//! by the real ones, W^X and with all of RAM.
//! Source: Xen `docs/misc/pvh.pandoc`, `xen/include/public/arch-x86/hvm/start_info.h`.
use core::arch::global_asm;

/// Start of the map of all physical memory: physical address 0 is mapped here.
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Virtual address minus physical address in the kernel image.
pub const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
/// End of the physical memory that the first tables map at [`DIRECT_MAP`].
pub const FIRST_MAP_END: u64 = 4 << 30;
/// Bytes of the boot processor's first stack, which becomes its idle thread's.
pub const BOOT_STACK_BYTES: usize = 32 * 1024;

/// Returns the kernel's address of a physical address, which must be mapped: see [`FIRST_MAP_END`] and
/// `memory::init`.
pub const fn phys_to_virt(physical: u64) -> u64 {
    DIRECT_MAP + physical
}

global_asm!(
    r#"
    .pushsection .note.Xen, "a", @note
    .balign 4
    .long 4, 4, 18          # name size, descriptor size, XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long pvh_entry - {base}
    .popsection

    .pushsection .bss.guard, "aw", @nobits
    .balign 4096
    .global boot_stack_guard
boot_stack_guard:
    .skip 4096
    .global boot_stack
boot_stack:
    .skip {stack_bytes}
    .global boot_stack_top
boot_stack_top:
    .popsection

    .pushsection .bss, "aw", @nobits
    .balign 4096
    .global boot_pml4
boot_pml4:  .skip 4096
boot_pdpt:  .skip 4096
boot_pdpt_high: .skip 4096
boot_pd:    .skip 4 * 4096
    .popsection

    .pushsection .rodata, "a", @progbits
    .balign 8
boot_gdt:
    .quad 0, 0
    .quad 0x00af9b000000ffff
    .quad 0x00cf93000000ffff
boot_gdt_pointer:
    .word 31
    .long boot_gdt - {base}
    .popsection

    .pushsection .text.boot, "ax", @progbits
    .code32
    .global pvh_entry
pvh_entry:
    cli
    cld
    mov esi, ebx

    # Four page directories of 2 MiB pages: 2048 entries, present, writable, large.
    mov edi, offset boot_pd - {base}
    mov eax, 0x83
    xor edx, edx
    mov ecx, 2048
2:  mov [edi], eax
    mov [edi + 4], edx
    add eax, 0x200000
    add edi, 8
    dec ecx
    jnz 2b

    mov eax, offset boot_pd - {base} + 3
    mov edi, offset boot_pdpt - {base}
    mov [edi], eax
    mov [boot_pdpt_high - {base} + 510 * 8], eax
    add eax, 0x1000
    mov [edi + 8], eax
    mov [boot_pdpt_high - {base} + 511 * 8], eax
    add eax, 0x1000
    mov [edi + 16], eax
    add eax, 0x1000
    mov [edi + 24], eax
    mov edi, offset boot_pml4 - {base}
    mov eax, offset boot_pdpt - {base} + 3
    mov [edi], eax
    mov [edi + 256 * 8], eax
    mov eax, offset boot_pdpt_high - {base} + 3
    mov [edi + 511 * 8], eax

    mov eax, cr4
    or eax, 0x20            # PAE
    mov cr4, eax
    mov cr3, edi
    mov ecx, 0xc0000080     # EFER: LME, NXE
    rdmsr
    or eax, 0x900
    wrmsr
    mov eax, cr0
    or eax, 0x80010023      # PG, WP, NE, MP, PE
    and eax, 0x9ffffffb     # not CD, NW, EM
    mov cr0, eax
    lgdt [boot_gdt_pointer - {base}]
    .byte 0xea              # far jump to 64-bit code
    .long 3f - {base}
    .word 0x10
    .code64
3:  movabs rax, offset boot_high
    jmp rax
boot_high:
    mov ax, 0x18
    mov ss, ax
    mov ds, ax
    mov es, ax
    xor eax, eax
    mov fs, ax
    mov gs, ax
    mov rsp, offset boot_stack_top
    xor ebp, ebp
    mov edi, esi
    push rbp
    push rbp
    call boot_rust
    ud2
    .popsection
    "#,
    base = const KERNEL_BASE,
    stack_bytes = const BOOT_STACK_BYTES,
);

unsafe extern "C" {
    static boot_stack_guard: u8;
    static boot_stack_top: u8;
    static boot_pml4: u8;
    static __kernel_start: u8;
    static __text_start: u8;
    static __text_end: u8;
    static __rodata_start: u8;
    static __rodata_end: u8;
    static __data_start: u8;
    static __data_end: u8;
    static __symbols_start: u8;
}

/// Returns the physical address of the first page tables' root.
pub fn boot_root() -> u64 {
    (&raw const boot_pml4) as u64 - KERNEL_BASE
}

/// Returns the top of the boot processor's stack.
pub fn stack_top() -> u64 {
    (&raw const boot_stack_top) as u64
}

/// The parts of the kernel image, by virtual address, each in whole pages.
#[derive(Clone, Copy, Debug)]
pub struct Sections {
    /// Code, to be read and executed.
    pub text: (u64, u64),
    /// Constants, to be read.
    pub rodata: (u64, u64),
    /// Data and zeroes, to be read and written.
    pub data: (u64, u64),
    /// The symbol table, to be read.
    pub symbols: (u64, u64),
    /// The page within `data` that must not be mapped: the guard of the boot stack.
    pub guard: u64,
}

/// Returns the addresses of the parts of the kernel image.
pub fn sections() -> Sections {
    let symbols = (&raw const __symbols_start) as u64;
    let bytes = crate::backtrace::table_bytes() as u64;
    Sections {
        text: ((&raw const __text_start) as u64, (&raw const __text_end) as u64),
        rodata: ((&raw const __rodata_start) as u64, (&raw const __rodata_end) as u64),
        data: ((&raw const __data_start) as u64, (&raw const __data_end) as u64),
        symbols: (symbols, (symbols + bytes).next_multiple_of(4096)),
        guard: (&raw const boot_stack_guard) as u64,
    }
}

/// Returns the physical addresses of the whole image.
pub fn kernel_range() -> super::bootinfo::PhysRange {
    let start = (&raw const __kernel_start) as u64 - KERNEL_BASE;
    super::bootinfo::PhysRange { start, end: sections().symbols.1 - KERNEL_BASE }
}
