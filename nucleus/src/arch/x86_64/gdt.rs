//! Segments: one GDT and one task state segment a processor, and the stacks of the interrupt stack table.
//!
//! The processor finds its task state segment in the image first, then, once there are spaces, in the area of
//! `memory::port_map`, where the ports' permissions lie behind it.
//!
//! Source: Intel SDM volume 3, 8.7.
use super::{boot, percpu, percpu::MAX_CPUS};
use crate::memory::{port_map, stacks::Stack};
use core::{arch::asm, cell::UnsafeCell};
use x86::descriptor::{self, TASK_STATE, TablePointer, TaskState};
pub use x86::descriptor::{KERNEL_CODE, KERNEL_DATA, USER_32_CODE, USER_CODE, USER_DATA};
use x86::trap::{IST_DOUBLE_FAULT, IST_NMI};

#[repr(C, align(256))]
struct Segments {
    gdt: UnsafeCell<[u64; 10]>,
    tss: UnsafeCell<TaskState>,
}

/// The segments of all processors, in whole pages, which are mapped a second time in the area.
#[repr(C, align(4096))]
struct All([Segments; MAX_CPUS]);

const _: () = assert!(size_of::<All>() == port_map::SEGMENT_BYTES);

// SAFETY: element N is touched by processor N only (`init_cpu`, `set_entry_stack`).
unsafe impl Sync for All {}

static SEGMENTS: All = All([const {
    Segments { gdt: UnsafeCell::new(descriptor::TABLE), tss: UnsafeCell::new(TaskState::NEW) }
}; MAX_CPUS]);

/// Returns the first frame of the segments.
pub fn frame() -> u32 {
    (((&raw const SEGMENTS) as u64 - boot::KERNEL_BASE) >> 12) as u32
}

/// Returns the address at which an interrupt enters the stack that ends at `top`. Stores the address of the data of processor
/// `cpu` there, above the interrupt's frame, for `traps` to find.
///
/// # Safety
/// The stack is nobody else's.
unsafe fn entry_of(top: u64, cpu: usize) -> u64 {
    let at = top - 16;
    // SAFETY: within the stack.
    unsafe { (at as *mut u64).write(core::ptr::from_ref(percpu::of(cpu)) as u64) };
    at
}

/// Loads GDT, segment registers and task register of processor `cpu`, with the top of a first stack (0 for none) for double
/// faults and NMIs ([`guard_interrupt_stacks`] gives better ones). GS is not loaded, because that would clear its base.
///
/// # Safety
/// On processor `cpu` itself, with interrupts off; nothing else uses the stack meanwhile.
pub unsafe fn init_cpu(cpu: usize, first_stack_top: u64) {
    let segments = &SEGMENTS.0[cpu];
    // SAFETY: only this processor touches its element.
    let tss = unsafe { &mut *segments.tss.get() };
    if first_stack_top != 0 {
        // SAFETY: as the caller says.
        tss.ist = [unsafe { entry_of(first_stack_top, cpu) }; 7];
    }
    // SAFETY: as above.
    let gdt = unsafe { &mut *segments.gdt.get() };
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
    // SAFETY: they are there; no user mode, for which the map behind them is, is entered before the second time.
    unsafe { load_task(cpu, (&raw const SEGMENTS) as u64) };
}

/// Loads the task state segment of this processor, number `cpu`. The segments of all processors begin at `start`, with the map
/// of ports behind them.
///
/// # Safety
/// The segments are mapped in every space, and the GDT is loaded.
unsafe fn load_task(cpu: usize, start: u64) {
    let segments = &SEGMENTS.0[cpu];
    // SAFETY: only this processor touches its element.
    let tss = unsafe { &mut *segments.tss.get() };
    // SAFETY: as above.
    let gdt = unsafe { &mut *segments.gdt.get() };
    let at = core::ptr::from_ref(tss) as usize - (&raw const SEGMENTS) as usize;
    let map_at = port_map::SEGMENT_BYTES - at;
    tss.io_map_base = map_at as u16;
    // The processor requires a byte behind the map.
    let bytes = map_at + port_map::MAP_BYTES + 1;
    [gdt[8], gdt[9]] = descriptor::task_state(start + at as u64, bytes);
    // SAFETY: the descriptor at TASK_STATE is an available 64-bit task state segment.
    unsafe { asm!("ltr {:x}", in(reg) TASK_STATE, options(nostack, preserves_flags)) };
}

/// Gives this processor its own guarded interrupt stacks, and a task state segment whose port permissions are those of the
/// loaded space. Both stay for ever.
///
/// # Panics
/// If there is no memory for the stacks.
pub fn guard_interrupt_stacks() {
    let cpu = percpu::cpu();
    let tss = SEGMENTS.0[cpu].tss.get();
    // SAFETY: in bounds; no reference is made.
    let ist = unsafe { (&raw mut (*tss).ist) }.cast::<u64>();
    for entry in [IST_DOUBLE_FAULT, IST_NMI] {
        let stack = Stack::new().expect("no memory for a processor's interrupt stacks");
        let slot = ist.wrapping_add(usize::from(entry) - 1);
        // SAFETY: a new stack.
        let top = unsafe { entry_of(stack.top(), cpu) };
        // SAFETY: an entry of this processor's own table; the structure is packed, so unaligned.
        unsafe { slot.write_unaligned(top) };
        core::mem::forget(stack);
    }
    // SAFETY: mapped there in every space, with the map behind.
    unsafe { load_task(cpu, port_map::AREA) };
}

/// Sets the address at which an interrupt from user mode on this processor begins its stack.
pub fn set_entry_stack(top: u64) {
    let tss = SEGMENTS.0[percpu::cpu()].tss.get();
    // SAFETY: in bounds; no reference is made.
    let slot = unsafe { &raw mut (*tss).rsp }.cast::<u64>();
    // SAFETY: this processor's own table; the structure is packed, so unaligned.
    unsafe { slot.write_unaligned(top) };
}
