//! The local APIC of each processor: end of interrupt, interrupts between processors, one-shot timer.
//!
//! Registers are reached in memory (xAPIC: QEMU's TCG has no x2APIC). Each processor touches its own
//! only, so there is no lock; sending an interrupt takes two writes and is done with interrupts off.
//! Source: Intel SDM volume 3, chapter 11.
use super::{cpu, percpu};
use crate::spin::NoInterrupts;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use x86::apic::{
    ALL_OTHERS, ASSERT, COMMAND_HIGH, COMMAND_LOW, CURRENT_COUNT, DELIVER_INIT, DELIVER_NMI,
    DELIVER_STARTUP, DELIVERY_PENDING, DIVIDE, DIVIDE_BY_1, END_OF_INTERRUPT, ERROR, ID,
    IN_SERVICE, INITIAL_COUNT, LINT0, LINT1, MASKED, SPURIOUS, TIMER, TIMER_DEADLINE, timer_counts,
    timer_rate,
};
pub use x86::vectors::{
    RESCHEDULE_VECTOR, SAMPLE_VECTOR, SHOOTDOWN_VECTOR, SPURIOUS_VECTOR, STOP_VECTOR, TIMER_VECTOR,
};

/// Physical address of the local APIC; each processor sees its own there.
pub const DEFAULT_ADDRESS: u64 = 0xfee0_0000;

const IA32_APIC_BASE: u32 = 0x1b;
const IA32_TSC_DEADLINE: u32 = 0x6e0;

/// Virtual address of the registers; 0 before `init`.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Timer counts per nanosecond, as a fraction of 2^32; 0 if the timer takes time-stamps.
static COUNTS_PER_NS: AtomicU64 = AtomicU64::new(0);

fn read(register: usize) -> u32 {
    let at = BASE.load(Relaxed) as usize + register;
    // SAFETY: `BASE` is the mapped register page (`init` came first) and the register lies within.
    unsafe { (at as *const u32).read_volatile() }
}

fn write(register: usize, value: u32) {
    let at = BASE.load(Relaxed) as usize + register;
    // SAFETY: as `read`; local APIC registers do not touch memory.
    unsafe { (at as *mut u32).write_volatile(value) };
}

/// Sets the address at which the registers are mapped.
pub fn init(virtual_address: u64) {
    BASE.store(virtual_address, Relaxed);
}

/// Enables this processor's local APIC with its timer stopped.
pub fn init_cpu() {
    const ENABLE: u64 = 1 << 11;
    // SAFETY: every x86-64 processor has this register.
    let base = unsafe { cpu::read_msr(IA32_APIC_BASE) };
    if base & ENABLE == 0 {
        // SAFETY: turns the local APIC on where it was; handlers are there.
        unsafe { cpu::write_msr(IA32_APIC_BASE, base | ENABLE) };
    }
    write(SPURIOUS, 1 << 8 | u32::from(SPURIOUS_VECTOR));
    write(LINT0, MASKED);
    write(LINT1, DELIVER_NMI);
    write(ERROR, MASKED);
    write(DIVIDE, DIVIDE_BY_1);
    let mode = if COUNTS_PER_NS.load(Relaxed) == 0 && cpu::features().has_tsc_deadline {
        TIMER_DEADLINE
    } else {
        0
    };
    write(TIMER, mode | u32::from(TIMER_VECTOR));
    percpu::this().apic_id.store(id(), Relaxed);
}

/// Returns this processor's local APIC id.
pub fn id() -> u32 {
    read(ID) >> 24
}

/// Returns whether [`init`] was called. Before it no interrupt can be sent.
pub fn is_ready() -> bool {
    BASE.load(Relaxed) != 0
}

/// Ends the interrupt being handled.
#[inline]
pub fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

/// Returns whether `vector`, which no handler has, came as an interrupt: a message of a device that was not granted
/// it. If so, the interrupt is ended.
#[cold]
pub fn end_stray(vector: u8) -> bool {
    let register = IN_SERVICE + usize::from(vector / 32) * 16;
    let is_stray = is_ready() && read(register) >> (vector % 32) & 1 != 0;
    if is_stray {
        crate::trace::point("stray-interrupt", vector.into(), 0);
        end_of_interrupt();
    }
    is_stray
}

/// Starts the timer from its greatest count with its interrupt masked, so that its rate can be measured.
pub fn start_measuring() {
    write(TIMER, MASKED | u32::from(TIMER_VECTOR));
    write(INITIAL_COUNT, u32::MAX);
}

/// Returns the counts since [`start_measuring`].
pub fn measured() -> u32 {
    u32::MAX - read(CURRENT_COUNT)
}

/// Sets the timer's rate from a measurement and makes this processor's timer usable.
pub fn set_rate(counts: u32, ns: u64) {
    write(INITIAL_COUNT, 0);
    if !cpu::features().has_tsc_deadline {
        COUNTS_PER_NS.store(timer_rate(counts, ns), Relaxed);
    }
    init_cpu();
}

/// Fires this processor's timer in `ns` nanoseconds from now, when the time-stamp counter will be `deadline_tsc`.
/// Long times are cut; the handler then finds that it is early.
#[inline]
pub fn set_timer(ns: u64, deadline_tsc: u64) {
    match COUNTS_PER_NS.load(Relaxed) {
        // SAFETY: the timer is in deadline mode only where this register exists.
        0 => unsafe { cpu::write_msr(IA32_TSC_DEADLINE, deadline_tsc.max(1)) },
        rate => write(INITIAL_COUNT, timer_counts(ns, rate)),
    }
}

/// Sets the vector of this processor's timer to `vector`.
pub fn set_timer_vector(vector: u8) {
    write(TIMER, read(TIMER) & !0xff | u32::from(vector));
}

fn command(destination: u32, low: u32) {
    let _off = NoInterrupts::new();
    while read(COMMAND_LOW) & DELIVERY_PENDING != 0 {
        cpu::relax();
    }
    write(COMMAND_HIGH, destination << 24);
    write(COMMAND_LOW, low);
}

/// Interrupts processor `cpu`.
pub fn send_ipi(cpu: usize, vector: u8) {
    command(percpu::of(cpu).apic_id.load(Relaxed), ASSERT | u32::from(vector));
}

/// Interrupts every processor but this one.
pub fn send_ipi_to_others(vector: u8) {
    command(0, ALL_OTHERS | ASSERT | u32::from(vector));
}

/// Sends the non-maskable interrupt to every processor but this one.
pub fn send_nmi_to_others() {
    command(0, ALL_OTHERS | ASSERT | DELIVER_NMI);
}

/// Resets the processor with local APIC `id`, which then waits for [`send_startup`].
pub fn send_init(id: u32) {
    command(id, ASSERT | DELIVER_INIT);
}

/// Starts the processor with local APIC `id` in real mode at `page << 12`.
pub fn send_startup(id: u32, page: u8) {
    command(id, ASSERT | DELIVER_STARTUP | u32::from(page));
}
