//! Panics of the kernel: prints the message, the place, the locks held and the last trace records, then ends
//! with a status that the caller of QEMU sees.
//!
//! The first processor to panic stops the others and breaks the log's lock; a panic within a panic prints its
//! message only.
use crate::arch::{cpu, percpu, power, smp};
use core::{
    panic::PanicInfo,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Trace records printed for each processor.
const TRACE_RECORDS: usize = 12;
const NOBODY: usize = usize::MAX;

static PANICKING: AtomicUsize = AtomicUsize::new(NOBODY);

/// Returns whether some processor is panicking.
pub fn is_panicking() -> bool {
    PANICKING.load(Ordering::Relaxed) != NOBODY
}

/// Makes this processor the panicking one: stops the others and breaks the log's lock. Returns `false` if it
/// is panicking already.
fn enter() -> bool {
    cpu::disable_interrupts();
    let number = percpu::cpu();
    let first =
        PANICKING.compare_exchange(NOBODY, number, Ordering::AcqRel, Ordering::Acquire).err();
    match first {
        None => smp::stop_others(),
        Some(first) if first == number => {}
        Some(_) => cpu::halt_forever(),
    }
    // SAFETY: the others are stopped or stopping; of a panic within the panic the outer one never goes on.
    unsafe { crate::log::break_lock() };
    first.is_none()
}

/// Ends the system because of `reason` at instruction `rip` with frame pointer `rbp` (a fault in the kernel).
pub fn die_at(reason: core::fmt::Arguments<'_>, rip: u64, rbp: u64) -> ! {
    let is_first = enter();
    crate::log::print(format_args!("panic: {reason} (processor {})\n", percpu::cpu()));
    if is_first {
        crate::log::print(format_args!("backtrace:\n"));
        crate::backtrace::print(rip, rbp);
        print_locks();
        crate::log::print(format_args!("last trace records:\n"));
        let records = crate::trace::last(TRACE_RECORDS);
        records.for_each(|record| crate::log::print(format_args!("  {record}\n")));
        crate::log::print(format_args!("end of panic\n"));
    }
    power::die()
}

/// Prints the locks held, which are known only with the lock kit's feature `check`.
#[cfg(feature = "check")]
fn print_locks() {
    crate::log::print(format_args!("locks held:\n"));
    crate::thread::held_locks(&mut |held| print_held(held));
}

/// Prints each lock of `held`.
#[cfg(feature = "check")]
pub fn print_held(held: &sync::check::HeldLocks) {
    for entry in held.entries() {
        let (name, place) = (entry.class.name(), entry.place);
        crate::log::print(format_args!("  holds {name} ({:?}) taken at {place}\n", entry.kind));
    }
}

#[cfg(not(feature = "check"))]
fn print_locks() {
    crate::log::print(format_args!("locks held: not kept (build feature `check`)\n"));
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    die_at(format_args!("{info}"), panic as *const () as u64, cpu::frame_pointer())
}
