//! Starting the other processors, and stopping them when one panics.
//!
//! Each starts in real mode in a page below 640 KiB (`trampoline`), enters long mode with boot's first tables,
//! changes to the kernel's tables and its idle stack, and reports. They are started one after the other; the
//! trampoline page holds the values that each needs. Source: Intel SDM volume 3, 9.4; the pauses of the old protocol
//! are left out as no x86-64 processor needs them, and a second start-up interrupt is sent only where the first had
//! no answer.
use super::{acpi, apic, boot, cpu, gdt, paging, percpu};
use crate::{memory::heap, thread, time};
use core::{
    arch::global_asm,
    sync::atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{Acquire, Release},
    },
};

/// Number of processors running.
static ONLINE: AtomicUsize = AtomicUsize::new(1);

/// Time for a processor to answer a start-up interrupt before the next is sent.
const ANSWER_NS: u64 = 50_000_000;
const TRIES: usize = 4;

/// The words that a starting processor finds at the end of its trampoline (offsets used by the assembly).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Handover {
    boot_root: u64,
    kernel_root: u64,
    stack_top: u64,
    cpu: u64,
}

// This is in AT&T syntax, because the other syntax accepts no difference of two symbols as an address.
global_asm!(
    r#"
    .pushsection .rodata, "a", @progbits
    .balign 16
    .global trampoline_start
trampoline_start:
    .code16
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    movl %cr4, %eax
    orl $0xa0, %eax                 # PAE, PGE
    movl %eax, %cr4
    movl (trampoline_handover - trampoline_start), %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx          # EFER: LME, NXE
    rdmsr
    orl $0x900, %eax
    wrmsr
    lgdtl (trampoline_gdt_pointer - trampoline_start)
    movl $0x80010033, %eax          # PG, WP, NE, ET, MP, PE
    movl %eax, %cr0
    .byte 0x66, 0xea                # far jump to 64-bit code
    .global trampoline_jump
trampoline_jump:
    .long trampoline_long - trampoline_start
    .word 0x08
    .balign 8
trampoline_gdt:
    .quad 0
    .quad 0x00af9b000000ffff
    .quad 0x00cf93000000ffff
trampoline_gdt_pointer:
    .word 23
    .global trampoline_gdt_base
trampoline_gdt_base:
    .long trampoline_gdt - trampoline_start
    .code64
trampoline_long:
    movw $0x10, %ax
    movw %ax, %ss
    movw %ax, %ds
    movw %ax, %es
    xorl %eax, %eax
    movw %ax, %fs
    movw %ax, %gs
    movq trampoline_handover + 8(%rip), %rcx
    movq trampoline_handover + 16(%rip), %rdx
    movq trampoline_handover + 24(%rip), %rdi
    movabsq $processor_entry, %rax
    jmpq *%rax
    .balign 8
    .global trampoline_handover
trampoline_handover:
    .skip 32
    .global trampoline_end
trampoline_end:
    .popsection

    .pushsection .text, "ax", @progbits
processor_entry:
    movq %rcx, %cr3
    movq %rdx, %rsp
    xorl %ebp, %ebp
    pushq %rbp
    pushq %rbp
    callq processor_rust
    ud2
    .popsection
    "#,
    options(att_syntax)
);

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_end: u8;
    static trampoline_jump: u8;
    static trampoline_gdt_base: u8;
    static trampoline_handover: u8;
}

/// Returns the number of processors running.
pub fn online() -> usize {
    ONLINE.load(Acquire)
}

fn offset_of(symbol: *const u8) -> usize {
    symbol as usize - (&raw const trampoline_start) as usize
}

/// Copies the trampoline to `page` and fixes its two absolute addresses.
///
/// # Safety
/// `page` is a free frame below 1 MiB, in the direct map.
unsafe fn place_trampoline(page: u64) {
    let at = boot::phys_to_virt(page) as *mut u8;
    let bytes = offset_of(&raw const trampoline_end);
    // SAFETY: source is the image's, less than a page; the destination is the caller's.
    unsafe { at.copy_from_nonoverlapping(&raw const trampoline_start, bytes) };
    for field in [&raw const trampoline_jump, &raw const trampoline_gdt_base] {
        let word = at.wrapping_add(offset_of(field)).cast::<u32>();
        // SAFETY: within the copy.
        let relative = unsafe { word.read_unaligned() };
        // SAFETY: within the copy.
        unsafe { word.write_unaligned(relative + page as u32) };
    }
}

/// Starts every processor that the MADT lists, up to the parameter `skerry.cpus`.
///
/// # Safety
/// Call it once, on the boot processor; `page` is a free page below 640 KiB, or 0 if there is none.
pub unsafe fn start_others(page: u64) {
    let most = crate::params::number("skerry.cpus").map_or(percpu::MAX_CPUS, |most| most as usize);
    let own = apic::id();
    let others = acpi::tables().processors.as_slice().iter().filter(|&&id| id != own);
    if page == 0 || others.clone().next().is_none() {
        return;
    }
    // SAFETY: as the caller says.
    unsafe { place_trampoline(page) };
    for &id in others {
        if online() >= most.min(percpu::MAX_CPUS) {
            return;
        }
        // SAFETY: the trampoline is there; one processor starts at a time.
        if !unsafe { start(id, page) } {
            log::error!("processor with local APIC {id} did not start");
        }
    }
}

/// Starts the processor with local APIC `id`. Returns whether it answered.
///
/// # Safety
/// The same as for [`start_others`]; the trampoline is placed and no other processor is starting.
unsafe fn start(id: u32, page: u64) -> bool {
    let number = online();
    heap::prepare_cpu(number);
    let handover = Handover {
        boot_root: boot::boot_root(),
        kernel_root: paging::kernel_root(),
        stack_top: thread::idle_stack(number),
        cpu: number as u64,
    };
    let at = boot::phys_to_virt(page) as usize + offset_of(&raw const trampoline_handover);
    // SAFETY: within the trampoline page, which no processor executes now.
    unsafe { (at as *mut Handover).write_volatile(handover) };
    percpu::of(number).apic_id.store(id, Release);
    apic::send_init(id);
    for _ in 0..TRIES {
        apic::send_startup(id, (page >> 12) as u8);
        let give_up_ns = time::now_ns() + ANSWER_NS;
        while time::now_ns() < give_up_ns {
            if online() > number {
                return true;
            }
            cpu::relax();
        }
    }
    false
}

/// The first Rust function of a started processor, on its idle thread's stack.
#[unsafe(no_mangle)]
extern "C" fn processor_rust(number: usize) -> ! {
    // SAFETY: first use of GS here; `number` is this processor's alone.
    unsafe { percpu::install(number) };
    // SAFETY: on this processor, interrupts off. No trap with a stack of its own comes before there are such stacks.
    unsafe { gdt::init_cpu(number, 0) };
    // SAFETY: this processor's number again.
    unsafe { percpu::install(number) };
    gdt::guard_interrupt_stacks();
    cpu::init_cpu();
    crate::arch::traps::init_cpu();
    apic::init_cpu();
    crate::trace::init_cpu(number);
    thread::init_cpu();
    percpu::of(number).is_online.store(1, Release);
    ONLINE.store(number + 1, Release);
    thread::idle()
}

/// Whether processors are being stopped.
pub static IS_STOPPING: AtomicBool = AtomicBool::new(false);

/// Stops every other processor (for a panic or a halt).
pub fn stop_others() {
    IS_STOPPING.store(true, Release);
    if apic::is_ready() && online() > 1 {
        apic::send_ipi_to_others(apic::STOP_VECTOR);
    }
}
