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
pub mod serial;
pub mod smp;
pub mod switch;
pub mod traps;
pub mod tsc;
pub mod user;
pub mod usercopy;

/// Returns whether the processor accepts `address`: whether it is canonical.
#[inline]
pub fn is_canonical(address: u64) -> bool {
    ((address as i64) << 16 >> 16) as u64 == address
}
