//! The kernel's symbol table: copies the functions' names from the linked ELF to the place where the kernel finds them for
//! its backtraces (layout: `nucleus/src/backtrace.rs`).
//!
//! The linker script leaves a last PT_LOAD segment, `.symbols`, with an empty table in it. The new table is appended to the
//! file, and that segment's header is changed to point to it. The file that is loaded has only its segments; the data for
//! debuggers and profilers are in the file [`beside`] it. Source: System V ABI, chapter 4 (ELF-64).
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The base that the symbols of the kernel are above: the top two gigabytes.
pub const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
const MAGIC: &[u8; 4] = b"SKSY";
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 8;
const PROGRAM_HEADER_BYTES: usize = 56;
const SECTION_HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const PAGE: usize = 4096;

/// Returns the path of the file with the linker's whole output for the kernel at `kernel`.
pub fn beside(kernel: &Path) -> PathBuf {
    kernel.with_extension("debug")
}

/// Returns the path of the executable of the personality that the kernel at `kernel` starts in a process, if it does.
pub fn personality(kernel: &Path) -> PathBuf {
    kernel.with_extension("personality")
}

/// Copies the kernel at `from` to `to` with its symbol table embedded and without sections, and its whole ELF file to
/// [`beside`] it.
///
/// # Errors
/// Fails if a file cannot be read or written, and for an ELF without symbols or without a `.symbols` segment.
pub fn embed(from: &Path, to: &Path) -> Result<()> {
    let mut elf = std::fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    let table = table(functions(&elf).context("the kernel has no symbols")?);
    let header = symbols_header(&elf).context("the kernel has no .symbols segment")?;
    let debug = beside(to);
    std::fs::write(&debug, &elf).with_context(|| format!("writing {}", debug.display()))?;
    strip(&mut elf).context("the kernel's segments make no sense")?;
    elf.resize(elf.len().next_multiple_of(PAGE), 0);
    let offset = elf.len() as u64;
    let bytes = table.len() as u64;
    elf.extend(table);
    for (field, value) in [(8, offset), (32, bytes), (40, bytes)] {
        elf[header + field..header + field + 8].copy_from_slice(&value.to_le_bytes());
    }
    std::fs::write(to, elf).with_context(|| format!("writing {}", to.display()))
}

/// Removes all that no program header names: sections with their headers, symbols, lines.
fn strip(elf: &mut Vec<u8>) -> Option<()> {
    const SECTION_HEADERS: usize = 40;
    const SECTION_COUNTS: usize = 60;
    let first = number(elf, 32, 8)? as usize;
    let count = number(elf, 56, 2)? as usize;
    let mut end = first + count * PROGRAM_HEADER_BYTES;
    for at in (0..count).map(|index| first + index * PROGRAM_HEADER_BYTES) {
        end = end.max(number(elf, at + 8, 8)?.checked_add(number(elf, at + 32, 8)?)? as usize);
    }
    elf.get(..end)?;
    elf.truncate(end);
    elf.get_mut(SECTION_HEADERS..SECTION_HEADERS + 8)?.fill(0);
    elf.get_mut(SECTION_COUNTS..SECTION_COUNTS + 4)?.fill(0);
    Some(())
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// Returns the offset in the file of the program header of the last PT_LOAD segment, if that holds an empty table.
fn symbols_header(elf: &[u8]) -> Option<usize> {
    const PT_LOAD: u64 = 1;
    let first = number(elf, 32, 8)? as usize;
    let count = number(elf, 56, 2)? as usize;
    (0..count).map(|index| first + index * PROGRAM_HEADER_BYTES).find(|&at| {
        let offset = number(elf, at + 8, 8).unwrap_or(u64::MAX) as usize;
        number(elf, at, 4) == Some(PT_LOAD)
            && number(elf, at + 32, 8) == Some(HEADER_BYTES as u64)
            && elf.get(offset..offset.saturating_add(4)) == Some(MAGIC.as_slice())
    })
}

/// Returns address (less [`KERNEL_BASE`]) and name of every function in ascending order, one for each address.
pub fn functions(elf: &[u8]) -> Option<Vec<(u32, Vec<u8>)>> {
    functions_from(elf, KERNEL_BASE)
}

/// Does as [`functions`], with addresses less `base`.
pub fn functions_from(elf: &[u8], base: u64) -> Option<Vec<(u32, Vec<u8>)>> {
    const SYMBOL_TABLE: u64 = 2;
    const FUNCTION: u8 = 2;
    const NO_TYPE: u8 = 0;
    let first = number(elf, 40, 8)? as usize;
    let count = number(elf, 60, 2)? as usize;
    let section = |index: usize| first + index * SECTION_HEADER_BYTES;
    let symbols =
        (0..count).map(section).find(|&at| number(elf, at + 4, 4) == Some(SYMBOL_TABLE))?;
    let (start, bytes) =
        (number(elf, symbols + 24, 8)? as usize, number(elf, symbols + 32, 8)? as usize);
    let strings = number(elf, section(number(elf, symbols + 40, 4)? as usize) + 24, 8)? as usize;
    let mut found = Vec::new();
    for at in (start..start + bytes).step_by(SYMBOL_BYTES) {
        let kind = number(elf, at + 4, 1)? as u8 & 0xf;
        let section = number(elf, at + 6, 2)?;
        let address = number(elf, at + 8, 8)?;
        let name =
            elf.get(strings + number(elf, at, 4)? as usize..)?.split(|&byte| byte == 0).next()?;
        let is_code = section == 1 && (kind == FUNCTION || kind == NO_TYPE);
        if let (true, false, Some(offset)) = (is_code, name.is_empty(), address.checked_sub(base)) {
            found.push((u32::try_from(offset).ok()?, name.to_vec()));
        }
    }
    found.sort();
    found.dedup_by_key(|(offset, _)| *offset);
    Some(found)
}

/// Returns the address and the bytes of the first section, which holds the code.
pub fn code(elf: &[u8]) -> Option<(u64, &[u8])> {
    let first = number(elf, 40, 8)? as usize + SECTION_HEADER_BYTES;
    let [address, start, bytes] = [16, 24, 32].map(|field| number(elf, first + field, 8));
    let start = start? as usize;
    Some((address?, elf.get(start..start.checked_add(bytes? as usize)?)?))
}

fn table(functions: Vec<(u32, Vec<u8>)>) -> Vec<u8> {
    let names_at = HEADER_BYTES + functions.len() * ENTRY_BYTES;
    let mut entries = Vec::new();
    let mut names = Vec::new();
    for (offset, name) in &functions {
        entries.extend(offset.to_le_bytes());
        entries.extend((names.len() as u32).to_le_bytes());
        names.extend(name);
        names.push(0);
    }
    let all = names_at + names.len();
    let mut table = MAGIC.to_vec();
    for word in [functions.len(), all, names_at] {
        table.extend((word as u32).to_le_bytes());
    }
    table.extend(entries);
    table.extend(names);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_function_at_its_offset() {
        let bytes = table(vec![(0x10, b"one".to_vec()), (0x20, b"two".to_vec())]);
        assert_eq!(&bytes[..4], MAGIC);
        assert_eq!(number(&bytes, 4, 4), Some(2));
        assert_eq!(number(&bytes, 8, 4), Some(bytes.len() as u64));
        let names = number(&bytes, 12, 4).unwrap() as usize;
        let second = names + number(&bytes, HEADER_BYTES + ENTRY_BYTES + 4, 4).unwrap() as usize;
        assert_eq!(number(&bytes, HEADER_BYTES + ENTRY_BYTES, 4), Some(0x20));
        assert_eq!(&bytes[second..], b"two\0");
    }

    #[test]
    fn what_is_loaded_ends_with_the_last_segment() {
        let mut elf = vec![0xff; 1000];
        elf[32..40].copy_from_slice(&64u64.to_le_bytes());
        elf[56..58].copy_from_slice(&2u16.to_le_bytes());
        for (at, (offset, bytes)) in [(64, (300u64, 100u64)), (120, (200, 50))] {
            elf[at + 8..at + 16].copy_from_slice(&offset.to_le_bytes());
            elf[at + 32..at + 40].copy_from_slice(&bytes.to_le_bytes());
        }
        strip(&mut elf).unwrap();
        assert_eq!(elf.len(), 400);
        assert_eq!((number(&elf, 40, 8), number(&elf, 60, 4)), (Some(0), Some(0)));
        let mut short = elf.clone();
        short.truncate(399);
        assert!(strip(&mut short).is_none());
    }

    #[test]
    fn a_file_that_is_no_elf_has_no_functions() {
        assert!(functions(&[0; 64]).is_none());
        assert!(symbols_header(b"").is_none());
    }
}
