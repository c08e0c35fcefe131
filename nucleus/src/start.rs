//! Boot after the assembly: brings up the boot processor, memory, devices and the other processors,
//! and starts the first thread, which runs the image's `skerry_start`.
//!
//! The order matters. Traps come before anything can fault; the tables of the boot loader and ACPI are
//! read before the first page tables go; memory comes before anything allocates; the clock's rate is
//! known before any other processor uses its timer.
use crate::{
    arch::{
        acpi, apic, boot,
        bootinfo::{self, BootInfo},
        cpu, gdt, ioapic, iommu, pci, percpu, serial, smp, traps,
        tsc::{self, Measurement},
    },
    memory, thread, time,
};
use core::sync::atomic::{AtomicU64, Ordering::Release};

unsafe extern "Rust" {
    /// The image's main function: makes the components and returns.
    safe fn skerry_start();
}

/// Stack for double faults before there are guarded stacks: 8 KiB.
static FIRST_STACK: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// The first Rust function, called by the entry code with the physical address of the start
/// information.
#[unsafe(no_mangle)]
extern "C" fn boot_rust(start_info: u64) -> ! {
    // SAFETY: the first thing this processor does in Rust.
    unsafe { percpu::install(0) };
    time::init();
    serial::init();
    // SAFETY: boot's first tables are loaded; once.
    let info = unsafe { bootinfo::parse(start_info) };
    crate::log::init();
    init_boot_processor();
    // SAFETY: still boot's first tables; once.
    unsafe { acpi::init(info.rsdp) };
    let measurement = init_memory(&info);
    trace_and_devices(measurement);
    // SAFETY: once, on the boot processor; nobody has the trampoline's page.
    unsafe { smp::start_others(info.trampoline) };
    log_machine(&info);
    thread::init_cpu();
    percpu::this().is_online.store(1, Release);
    thread::start_first(first_thread);
    thread::idle()
}

fn init_boot_processor() {
    // SAFETY: processor 0, interrupts off, a stack of its own.
    unsafe { gdt::init_cpu(0, FIRST_STACK.as_ptr_range().end as u64) };
    // SAFETY: processor 0's number again.
    unsafe { percpu::install(0) };
    cpu::init_cpu();
    traps::init_cpu();
}

/// Starts measuring the clocks, then builds the kernel's own page tables and the allocators.
fn init_memory(info: &BootInfo) -> Option<Measurement> {
    let local_apic = match acpi::tables().local_apic {
        0 => apic::DEFAULT_ADDRESS,
        address => address,
    };
    apic::init(boot::phys_to_virt(local_apic));
    let measurement = tsc::start();
    let under_way = if measurement.is_short() {
        time::set_rates(tsc::finish(measurement));
        None
    } else {
        Some(measurement)
    };
    init_tables(info);
    apic::init(memory::map_device(local_apic, 4096));
    under_way.map(tsc::remapped)
}

fn init_tables(info: &BootInfo) {
    // SAFETY: once, on the boot processor, with boot's first tables.
    unsafe { memory::init(info) };
    memory::init_cpu();
    memory::port_map::init();
    gdt::guard_interrupt_stacks();
}

fn trace_and_devices(measurement: Option<Measurement>) {
    crate::trace::init_cpu(0);
    ioapic::init();
    pci::init();
    iommu::init();
    if let Some(measurement) = measurement {
        time::set_rates(tsc::finish(measurement));
    }
    apic::init_cpu();
}

fn log_machine(info: &BootInfo) {
    let bytes: u64 = info.ram.as_slice().iter().map(bootinfo::PhysRange::bytes).sum();
    log::info!(
        "{} processors, {} MiB of memory, {} PCI functions",
        smp::online(),
        bytes >> 20,
        pci::functions().len()
    );
    log::debug!("parameters: {}", crate::params::command_line());
}

fn first_thread() {
    thread::start_watchdog();
    crate::domain::watch_faults();
    skerry_start();
}
