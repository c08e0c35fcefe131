//! Parsing and checking the headers of an ELF file: [`Headers`] contains valid values only.
use super::file::Executable;
use alloc::{vec, vec::Vec};
use memory::region::{PAGE, page_of};
use object::{
    LittleEndian, elf,
    elf::{FileHeader64, ProgramHeader64},
    from_bytes, slice_from_bytes,
};
use rt::user::{Protection, USER_END};
use vfs::Errno;

const LE: LittleEndian = LittleEndian;
const HEADER_BYTES: usize = size_of::<FileHeader64<LittleEndian>>();
/// Bytes of a program header, as reported by `AT_PHENT`.
pub const ENTRY_BYTES: usize = size_of::<ProgramHeader64<LittleEndian>>();
/// The greatest number of bytes of program headers, as on Linux.
const TABLE_BYTES_MAX: usize = 65536;
/// Longest name of an interpreter, NUL included.
const INTERPRETER_BYTES_MAX: u64 = 4096;

/// A loadable segment; its end does not overflow, and `file_bytes <= memory_bytes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfSegment {
    /// The address, before the load bias is added.
    pub address: u64,
    /// Length in memory in bytes.
    pub memory_bytes: u64,
    /// Offset in the file, congruent to the address by pages.
    pub offset: u64,
    /// Length in the file in bytes.
    pub file_bytes: u64,
    /// The accesses that the program is allowed.
    pub protection: Protection,
}

impl ElfSegment {
    /// Returns the first address after the part that comes from the file.
    pub fn file_end(&self) -> u64 {
        self.address + self.file_bytes
    }
    /// Returns the first address after the segment.
    pub fn end(&self) -> u64 {
        self.address + self.memory_bytes
    }
}

/// The meaning of the addresses of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfKind {
    /// The segments are loaded at their addresses.
    Fixed,
    /// The segments may be loaded anywhere, moved together.
    Movable,
}

/// The checked headers of a program.
#[derive(Clone, Debug)]
pub struct Headers {
    /// Fixed or movable.
    pub kind: ElfKind,
    /// Address of the first instruction, before the bias is added.
    pub entry: u64,
    /// Segments in the order of the file; at least one.
    pub segments: Vec<ElfSegment>,
    /// Lowest address, page-aligned, and first address after the highest.
    pub extent: (u64, u64),
    /// Alignment of the whole: a power of two, at least a page.
    pub alignment: u64,
    /// Address of the program headers in memory, before the bias.
    pub table: u64,
    /// Number of program headers.
    pub table_entries: u64,
    /// Name of the interpreter.
    pub interpreter: Option<Vec<u8>>,
    /// The stack is to be executable.
    pub has_executable_stack: bool,
}

/// Reads the headers of a program.
///
/// # Errors
/// `ENOEXEC` if it is not an ELF program for this machine or its headers are malformed; `EINVAL`
/// for segments that cannot be placed; `EIO`, `ENOMEM`.
pub fn read(program: &Executable) -> Result<Headers, Errno> {
    // The first bytes were read before, to find the file's format.
    let mut bytes = [0; HEADER_BYTES];
    if program.read(0, &mut bytes)? < HEADER_BYTES {
        return Err(Errno::ENOEXEC);
    }
    let (header, _) =
        from_bytes::<FileHeader64<LittleEndian>>(&bytes).map_err(|()| Errno::ENOEXEC)?;
    let kind = check_header(header)?;
    let table = read_table(program, header)?;
    let (entries, _) = slice_from_bytes::<ProgramHeader64<LittleEndian>>(
        &table,
        usize::from(header.e_phnum.get(LE)),
    )
    .map_err(|()| Errno::ENOEXEC)?;
    let mut headers = Headers {
        kind,
        entry: header.e_entry.get(LE),
        segments: Vec::new(),
        extent: (u64::MAX, 0),
        alignment: PAGE,
        table: 0,
        table_entries: entries.len() as u64,
        interpreter: None,
        has_executable_stack: false,
    };
    for entry in entries {
        headers.add(program, entry)?;
    }
    headers.check()?;
    headers.table = headers.address_of(header.e_phoff.get(LE)).unwrap_or(0);
    Ok(headers)
}

fn check_header(header: &FileHeader64<LittleEndian>) -> Result<ElfKind, Errno> {
    let ident = &header.e_ident;
    let is_ours = ident.magic == elf::ELFMAG
        && ident.class == elf::ELFCLASS64
        && ident.data == elf::ELFDATA2LSB
        && header.e_machine.get(LE) == elf::EM_X86_64
        && usize::from(header.e_phentsize.get(LE)) == ENTRY_BYTES;
    match header.e_type.get(LE) {
        elf::ET_EXEC if is_ours => Ok(ElfKind::Fixed),
        elf::ET_DYN if is_ours => Ok(ElfKind::Movable),
        _ => Err(Errno::ENOEXEC),
    }
}

fn read_table(program: &Executable, header: &FileHeader64<LittleEndian>) -> Result<Vec<u8>, Errno> {
    let bytes = usize::from(header.e_phnum.get(LE)) * ENTRY_BYTES;
    if bytes == 0 || bytes > TABLE_BYTES_MAX {
        return Err(Errno::ENOEXEC);
    }
    let mut table = vec![0; bytes];
    match program.read_observed(header.e_phoff.get(LE), &mut table)? {
        all if all == bytes => Ok(table),
        _ => Err(Errno::ENOEXEC),
    }
}

impl Headers {
    fn add(
        &mut self,
        program: &Executable,
        entry: &ProgramHeader64<LittleEndian>,
    ) -> Result<(), Errno> {
        match entry.p_type.get(LE) {
            elf::PT_LOAD => self.add_segment(entry),
            elf::PT_INTERP if self.interpreter.is_none() => {
                self.interpreter = Some(read_interpreter(program, entry)?);
                Ok(())
            }
            elf::PT_GNU_STACK => {
                self.has_executable_stack = entry.p_flags.get(LE) & elf::PF_X != 0;
                Ok(())
            }
            _ => Ok(()),
        }
    }
    fn add_segment(&mut self, entry: &ProgramHeader64<LittleEndian>) -> Result<(), Errno> {
        let segment = ElfSegment {
            address: entry.p_vaddr.get(LE),
            memory_bytes: entry.p_memsz.get(LE),
            offset: entry.p_offset.get(LE),
            file_bytes: entry.p_filesz.get(LE),
            protection: protection_of(entry.p_flags.get(LE)),
        };
        let end = segment.address.checked_add(segment.memory_bytes).filter(|end| *end <= USER_END);
        let file_end = segment.offset.checked_add(segment.file_bytes);
        if segment.file_bytes > segment.memory_bytes
            || segment.address % PAGE != segment.offset % PAGE
            || file_end.is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(Errno::EINVAL);
        }
        let end = end.ok_or(Errno::EINVAL)?;
        if segment.memory_bytes == 0 {
            return Ok(());
        }
        let alignment = entry.p_align.get(LE);
        if alignment.is_power_of_two() && alignment < USER_END {
            self.alignment = self.alignment.max(alignment);
        }
        self.extent.0 = self.extent.0.min(page_of(segment.address));
        self.extent.1 = self.extent.1.max(end);
        self.segments.push(segment);
        Ok(())
    }
    fn check(&self) -> Result<(), Errno> {
        if self.segments.is_empty() || self.entry >= USER_END {
            return Err(Errno::ENOEXEC);
        }
        Ok(())
    }
    /// Address in memory, before the bias, of the byte at `offset` of the file.
    fn address_of(&self, offset: u64) -> Option<u64> {
        let holds = |segment: &&ElfSegment| {
            offset.checked_sub(segment.offset).is_some_and(|into| into < segment.file_bytes)
        };
        let segment = self.segments.iter().find(holds)?;
        Some(segment.address + (offset - segment.offset))
    }
}

fn protection_of(flags: u32) -> Protection {
    let mut protection = Protection::empty();
    protection.set(Protection::READ, flags & elf::PF_R != 0);
    protection.set(Protection::WRITE, flags & elf::PF_W != 0);
    protection.set(Protection::EXECUTE, flags & elf::PF_X != 0);
    protection
}

fn read_interpreter(
    program: &Executable,
    entry: &ProgramHeader64<LittleEndian>,
) -> Result<Vec<u8>, Errno> {
    let bytes = entry.p_filesz.get(LE);
    if !(2..=INTERPRETER_BYTES_MAX).contains(&bytes) {
        return Err(Errno::ENOEXEC);
    }
    let mut name = vec![0; bytes as usize];
    if program.read_observed(entry.p_offset.get(LE), &mut name)? < name.len() {
        return Err(Errno::EIO);
    }
    if name.pop() != Some(0) {
        return Err(Errno::ENOEXEC);
    }
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name.truncate(length);
    Ok(name)
}
