//! x86-64: boot, traps, paging, per-CPU data, interrupt controllers.
pub mod acpi;
pub mod apic;
pub mod boot;
pub mod bootinfo;
pub mod cpu;
pub mod gdt;
pub mod ioapic;
pub mod pci;
pub mod percpu;
pub mod power;
pub mod serial;
pub mod smp;
pub mod tsc;
