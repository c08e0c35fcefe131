//! Segments: one GDT and one task state segment a processor, and the stacks of the interrupt stack table.
//!
//! Selectors are Linux's, so that a program that looks at CS or SS sees what it expects, and so
//! that `sysret` (base [`USER_32_CODE`]) finds data and code behind each other.
use super::percpu::MAX_CPUS;
use crate::memory::stacks::Stack;
use core::{arch::asm, cell::UnsafeCell};
use x86::descriptor::{self, TablePointer};

/// Kernel code.
pub const KERNEL_CODE: u16 = 0x10;
/// Kernel data.
pub const KERNEL_DATA: u16 = 0x18;
/// User 32-bit code; not for running, the base `sysret` counts from.
pub const USER_32_CODE: u16 = 0x20 | 3;
/// User data.
pub const USER_DATA: u16 = 0x28 | 3;
/// User 64-bit code.
pub const USER_CODE: u16 = 0x30 | 3;
const TASK_STATE: u16 = 0x40;

/// Interrupt stack table entry (1 to 7) of double faults and machine checks.
pub const IST_DOUBLE_FAULT: u8 = 1;
/// Interrupt stack table entry of non-maskable interrupts.
pub const IST_NMI: u8 = 2;

/// The task state segment; only stack pointers matter in long mode (SDM volume 3, 8.7).
#[repr(C, packed(4))]
struct TaskState {
    reserved: u32,
    rsp: [u64; 3],
    reserved2: u64,
    ist: [u64; 7],
    reserved3: u64,
    reserved4: u16,
    io_map_base: u16,
}

const _: () = assert!(size_of::<TaskState>() == 104);

#[repr(C, align(64))]
struct Segments {
    gdt: UnsafeCell<[u64; 10]>,
    tss: UnsafeCell<TaskState>,
}

// SAFETY: element N is touched by processor N only (`init_cpu`, `set_entry_stack`).
unsafe impl Sync for Segments {}

impl Segments {
    const fn new() -> Segments {
        Segments {
            gdt: UnsafeCell::new([0; 10]),
            tss: UnsafeCell::new(TaskState {
                reserved: 0,
                rsp: [0; 3],
                reserved2: 0,
                ist: [0; 7],
                reserved3: 0,
                reserved4: 0,
                io_map_base: size_of::<TaskState>() as u16,
            }),
        }
    }
}

static SEGMENTS: [Segments; MAX_CPUS] = [const { Segments::new() }; MAX_CPUS];

/// Loads GDT, segment registers and task register of processor `cpu`, with the top of a first stack
/// for double faults and NMIs ([`guard_interrupt_stacks`] gives better ones). GS's base must be installed again after (loading GS clears it), so GS is not touched.
///
/// # Safety
/// On processor `cpu` itself, interrupts off; the stack is nobody else's meanwhile.
pub unsafe fn init_cpu(cpu: usize, first_stack_top: u64) {
    let segments = &SEGMENTS[cpu];
    // SAFETY: only this processor touches its element.
    let tss = unsafe { &mut *segments.tss.get() };
    tss.ist = [first_stack_top; 7];
    let base = core::ptr::from_ref(tss) as u64;
    // SAFETY: as above.
    let gdt = unsafe { &mut *segments.gdt.get() };
    let [low, high] = descriptor::task_state(base, size_of::<TaskState>());
    let [code, data, user_32_code, user_data, user_code] = descriptor::SEGMENTS;
    *gdt = [0, 0, code, data, user_32_code, user_data, user_code, 0, low, high];
    let pointer = TablePointer::new(gdt.as_ptr() as u64, size_of_val(gdt));
    // SAFETY: `pointer` describes a static table of valid descriptors.
    unsafe { asm!("lgdt [{}]", in(reg) &pointer, options(readonly, nostack, preserves_flags)) };
    // SAFETY: a far return to the next instruction with the kernel's code selector; data selectors are of that table.
    unsafe {
        asm!(
            "push {code}", "lea {scratch}, [rip + 2f]", "push {scratch}", "retfq", "2:",
            "mov ss, {data:x}", "mov ds, {data:x}", "mov es, {data:x}", "mov fs, {zero:x}",
            code = in(reg) u64::from(KERNEL_CODE), data = in(reg) u64::from(KERNEL_DATA), zero = in(reg) 0u64,
            scratch = out(reg) _, options(preserves_flags),
        );
    }
    // SAFETY: the descriptor at TASK_STATE is an available 64-bit task state segment.
    unsafe { asm!("ltr {:x}", in(reg) TASK_STATE, options(nostack, preserves_flags)) };
}

/// Gives this processor guarded interrupt stacks of its own, for ever.
///
/// # Panics
/// Where there is no memory for them.
pub fn guard_interrupt_stacks() {
    let [double_fault, nmi] = [(); 2].map(|()| {
        let stack = Stack::new().expect("no memory for a processor's interrupt stacks");
        let top = stack.top();
        core::mem::forget(stack);
        top
    });
    let tss = SEGMENTS[super::percpu::cpu()].tss.get();
    // SAFETY: in bounds; no reference is made.
    let ist = unsafe { (&raw mut (*tss).ist) }.cast::<u64>();
    for (entry, top) in [(IST_DOUBLE_FAULT, double_fault), (IST_NMI, nmi)] {
        let slot = ist.wrapping_add(usize::from(entry) - 1);
        // SAFETY: an entry of this processor's own table; the structure is packed, so unaligned.
        unsafe { slot.write_unaligned(top) };
    }
}

/// Sets where an interrupt from user mode on this processor starts its stack.
pub fn set_entry_stack(top: u64) {
    let tss = SEGMENTS[super::percpu::cpu()].tss.get();
    // SAFETY: in bounds; no reference is made.
    let slot = unsafe { &raw mut (*tss).rsp }.cast::<u64>();
    // SAFETY: this processor's own table; the structure is packed, so unaligned.
    unsafe { slot.write_unaligned(top) };
}
