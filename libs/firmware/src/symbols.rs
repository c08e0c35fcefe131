//! The kernel's symbol table, for backtraces.
//!
//! It is put behind the image after linking (`xtask`, from the ELF's own symbols). Layout, little-endian:
//!
//! ```text
//! u32 magic "SKSY"   u32 count   u32 bytes of all   u32 offset of the names
//! count * { u32 address from the image's base, u32 name's offset within the names }   ascending
//! names, each ended by a NUL
//! ```
use crate::Bytes;

/// The first word of the table.
pub const MAGIC: u32 = u32::from_le_bytes(*b"SKSY");
/// Bytes before the first entry.
pub const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 8;

/// Returns the size of the table that begins with `header`, in bytes.
pub fn table_bytes(header: &[u8; HEADER_BYTES]) -> usize {
    let header = Bytes(header);
    if header.u32(0) == MAGIC { (header.u32(8) as usize).max(HEADER_BYTES) } else { HEADER_BYTES }
}

/// Returns the function of `table` that contains `address`, and the offset in it.
pub fn find(table: &[u8], address: u32) -> Option<(&str, u32)> {
    let bytes = Bytes(table);
    let entry = |index: usize| HEADER_BYTES + index * ENTRY_BYTES;
    let count = if bytes.u32(0) == MAGIC { bytes.u32(4) as usize } else { 0 };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if bytes.u32(entry(middle)) <= address {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let entry = entry(low.checked_sub(1)?);
    let name = table.get(bytes.u32(12) as usize + bytes.u32(entry + 4) as usize..)?;
    let name = name.split(|&byte| byte == 0).next()?;
    Some((core::str::from_utf8(name).ok()?, address.checked_sub(bytes.u32(entry))?))
}
