//! Page tables in memory, the registers of paging, and the kernel's own map.
//!
//! The upper half is the same in every space but for [`PORT_AREA`]: its top-level entries are made once, by [`build`],
//! and copied into each new root. Kernel pages are global. A page is writable or executable, never both. Source: Intel
//! SDM volume 3, chapter 4.
use super::{
    boot::{self, DIRECT_MAP, phys_to_virt},
    bootinfo::{BootInfo, PhysRange},
};
use core::{
    arch::asm,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
pub use x86::paging::{ENTRIES, Entry, Table, index};

/// First top-level entry of the kernel's half.
pub const KERNEL_ENTRY: usize = 256;
/// Start of the area of kernel stacks.
pub const STACK_AREA: u64 = 0xffff_c000_0000_0000;
/// Start of the area for pieces of the kernel heap that have no contiguous frames.
pub const HEAP_AREA: u64 = 0xffff_c800_0000_0000;
/// Start of the area of device registers.
pub const DEVICE_AREA: u64 = 0xffff_d000_0000_0000;
/// Start of the area of `memory::port_map`.
pub const PORT_AREA: u64 = 0xffff_d800_0000_0000;
const LARGE_PAGE: u64 = 2 << 20;

/// Returns the table in `frame`.
///
/// # Safety
/// `frame` is a page table for as long as the reference lives.
#[inline]
pub unsafe fn table<'a>(frame: u32) -> &'a Table {
    // SAFETY: the direct map has every frame; the caller says it is a table; entries are atomic.
    unsafe { &*(phys_to_virt(u64::from(frame) << 12) as *const Table) }
}

static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

/// Returns the physical address of the kernel's own root, which maps no program.
pub fn kernel_root() -> u64 {
    KERNEL_ROOT.load(Relaxed)
}

/// Loads `root` as the root of this processor's page tables.
///
/// # Safety
/// `root` is the physical address of a root with the kernel's upper half, and lives while loaded.
#[inline]
pub unsafe fn load_root(root: u64) {
    // SAFETY: as the caller says; the kernel's part is the same in every root.
    unsafe { asm!("mov cr3, {}", in(reg) root, options(nostack, preserves_flags)) };
}

/// Flushes the page at `address` from this processor's TLB.
#[inline]
pub fn flush_page(address: u64) {
    // SAFETY: it only makes the processor look again.
    unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

/// Flushes the program's pages (the non-global ones) from this processor's TLB.
#[inline]
pub fn flush_user() {
    let root: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr3", out(reg) root, options(nostack, preserves_flags, nomem)) };
    // SAFETY: the root that is loaded already.
    unsafe { load_root(root) };
}

/// Flushes this processor's whole TLB, global pages included. Interrupts are off.
pub fn flush_all() {
    const PGE: u64 = 1 << 7;
    let cr4 = super::cpu::cr4();
    // SAFETY: global pages go off and on again; nothing else changes.
    unsafe { super::cpu::set_cr4(cr4 & !PGE) };
    // SAFETY: as it was.
    unsafe { super::cpu::set_cr4(cr4) };
}

/// Returns the address of the last page fault.
#[inline]
pub fn fault_address() -> u64 {
    let address: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nostack, preserves_flags, nomem)) };
    address
}

/// The source of tables for kernel mappings.
pub trait TableSource {
    /// Returns a zeroed frame; `None` if memory is refused.
    fn table(&mut self) -> Option<u32>;
}

/// Finds the slot of `address` at `level` in the kernel's map and makes missing tables. Returns `None` without memory
/// for a table.
fn slot(
    source: &mut impl TableSource,
    root: u32,
    address: u64,
    level: u32,
) -> Option<(&'static Table, usize)> {
    let mut frame = root;
    for at in (level + 1..4).rev() {
        // SAFETY: the root or a table found below; kernel tables are never freed.
        let table: &'static Table = unsafe { self::table(frame) };
        let entry = table.get(index(address, at));
        frame = if entry.contains(Entry::PRESENT) {
            entry.frame()
        } else {
            let new = source.table()?;
            table.set(index(address, at), Entry::new(new, Entry::PRESENT | Entry::WRITE));
            new
        };
    }
    // SAFETY: as above.
    Some((unsafe { table(frame) }, index(address, level)))
}

/// Maps one kernel page. A page that is present stays. Returns `None` without memory for a table.
pub fn map_kernel_page(
    source: &mut impl TableSource,
    root: u32,
    address: u64,
    frame: u32,
    flags: Entry,
) -> Option<()> {
    let (table, index) = slot(source, root, address, 0)?;
    table.set(index, Entry::new(frame, flags | Entry::PRESENT | Entry::GLOBAL));
    Some(())
}

/// Sets the entry of a kernel page to `entry` and returns the old entry. If that was present, the caller flushes it on
/// all processors. Returns `None` without memory for a table.
pub fn swap_kernel_entry(
    source: &mut impl TableSource,
    root: u32,
    address: u64,
    entry: Entry,
) -> Option<Entry> {
    let (table, index) = slot(source, root, address, 0)?;
    Some(table.swap(index, entry))
}

const TO_BOOT: &str = "not enough memory to boot";
const DATA: Entry = Entry::WRITE.union(Entry::NO_EXECUTE);

/// Makes the kernel's map and loads it on this processor: the image by its sections, all of RAM at
/// the direct map, and the top-level entries of the areas filled later.
///
/// # Safety
/// Once, on the boot processor; `source` gives frames the first map covers.
pub unsafe fn build(info: &BootInfo, source: &mut impl TableSource) {
    let root = source.table().expect(TO_BOOT);
    let sections = boot::sections();
    let parts = [
        (sections.text, Entry::empty()),
        (sections.rodata, Entry::NO_EXECUTE),
        (sections.data, DATA),
        (sections.symbols, Entry::NO_EXECUTE),
    ];
    for ((start, end), flags) in parts {
        for address in (start..end).step_by(4096).filter(|&address| address != sections.guard) {
            let frame = ((address - boot::KERNEL_BASE) >> 12) as u32;
            map_kernel_page(source, root, address, frame, flags).expect(TO_BOOT);
        }
    }
    for range in info.ram.as_slice().iter().chain(info.map_also.as_slice()) {
        map_direct(source, root, *range);
    }
    // SAFETY: the root made above.
    let table = unsafe { table(root) };
    for area in [STACK_AREA, HEAP_AREA, DEVICE_AREA, PORT_AREA] {
        let entry = Entry::new(source.table().expect(TO_BOOT), Entry::PRESENT | Entry::WRITE);
        table.set(index(area, 3), entry);
    }
    KERNEL_ROOT.store(u64::from(root) << 12, Relaxed);
    // SAFETY: it maps all that boot's tables did and the kernel uses.
    unsafe { load_root(kernel_root()) };
}

fn map_direct(source: &mut impl TableSource, root: u32, range: PhysRange) {
    let mut at = range.start;
    while at < range.end {
        if at.is_multiple_of(LARGE_PAGE) && at + LARGE_PAGE <= range.end {
            let (table, index) = slot(source, root, DIRECT_MAP + at, 1).expect(TO_BOOT);
            let flags = DATA | Entry::PRESENT | Entry::GLOBAL | Entry::LARGE;
            table.set(index, Entry::new((at >> 12) as u32, flags));
            at += LARGE_PAGE;
        } else {
            map_kernel_page(source, root, DIRECT_MAP + at, (at >> 12) as u32, DATA).expect(TO_BOOT);
            at += 4096;
        }
    }
}
