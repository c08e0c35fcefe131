//! The ACPI tables, read once at boot through the first tables and kept for ever.
use super::bootinfo::low_memory;
pub use firmware::acpi::{Register, Tables};
use sync::boot::BootCell;

static KEPT: BootCell<Tables> = BootCell::new();

/// Reads the tables. `rsdp` is 0 if the loader did not give it.
///
/// # Safety
/// Call it once, on the boot processor, with boot's first tables.
pub unsafe fn init(rsdp: u64) {
    // SAFETY: as the caller says.
    let memory = |at, length| unsafe { low_memory(at, length) };
    // SAFETY: as the caller says.
    unsafe { KEPT.set(Tables::read(&memory, rsdp)) };
}

/// Returns the contents of the tables.
///
/// # Panics
/// Panics before [`init`].
pub fn tables() -> &'static Tables {
    KEPT.get().expect("ACPI tables before acpi::init")
}
