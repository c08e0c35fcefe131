//! The information of the boot loader, which is read from the loader's memory. None of that memory is
//! needed afterwards.
use super::boot::{self, FIRST_MAP_END, phys_to_virt};
pub use firmware::boot::{BootInfo, PhysRange};

/// Returns bytes of physical memory; `None` beyond boot's first map.
///
/// # Safety
/// Boot's first tables are loaded, and nothing writes there while the bytes are used.
pub unsafe fn low_memory<'a>(physical: u64, length: usize) -> Option<&'a [u8]> {
    if physical == 0 || physical.checked_add(length as u64)? > FIRST_MAP_END {
        return None;
    }
    // SAFETY: mapped (checked) and constant, as the caller says.
    Some(unsafe { core::slice::from_raw_parts(phys_to_virt(physical) as *const u8, length) })
}

/// Parses the loader's information; also keeps the command line in `params`.
///
/// # Panics
/// If it is not PVH start information of version 1, or has no memory map: the kernel cannot run then.
///
/// # Safety
/// Once, on the boot processor, with boot's first tables.
pub unsafe fn parse(start_info: u64) -> BootInfo {
    // SAFETY: as the caller says.
    let memory = |at, length| unsafe { low_memory(at, length) };
    let info = BootInfo::parse(&memory, start_info, boot::kernel_range(), FIRST_MAP_END);
    let info = info.unwrap_or_else(|why| panic!("{why}"));
    if let Some(line) = memory(info.command_line, crate::params::MAX_BYTES) {
        // SAFETY: boot runs this once on one processor.
        unsafe { crate::params::set(line) };
    }
    info
}
