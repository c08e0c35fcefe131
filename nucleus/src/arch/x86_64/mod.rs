//! x86-64: boot, traps, paging, per-CPU data, interrupt controllers.
pub mod acpi;
pub mod apic;
pub mod bases;
pub mod boot;
pub mod bootinfo;
pub mod component;
pub mod cpu;
pub mod fpu;
pub mod gdt;
pub mod ioapic;
pub mod iommu;
pub mod pages;
pub mod paging;
pub mod pci;
pub mod percpu;
pub mod power;
mod registers;
pub mod run;
pub mod serial;
pub mod smp;
pub mod switch;
pub mod traps;
pub mod tsc;
pub mod user;
pub mod usercopy;

pub use x86::paging::is_canonical;
