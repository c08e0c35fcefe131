//! Mapping the segments of a program and its interpreter from the page cache.
use super::{
    Opener,
    elf::{self, ElfKind, ElfSegment, Headers},
    file::Executable,
    place::ImagePlace,
};
use alloc::sync::Arc;
use memory::{
    AddressSpace, MapFlags, MapRequest, MappingPlace as MapPlace, MappingSource, PAGE,
    ProgramLayout,
    region::{page_of, round_up},
};
use rt::user::Protection;
use vfs::{Credentials, Errno};

/// A program in memory.
pub struct Image {
    /// Address of the first instruction to run: the interpreter's, if there is one.
    pub start: u64,
    /// First instruction of the program (`AT_ENTRY`).
    pub entry: u64,
    /// Address of the program headers in memory (`AT_PHDR`).
    pub table: u64,
    /// Number of program headers (`AT_PHNUM`).
    pub table_entries: u64,
    /// Base of the interpreter, 0 without one (`AT_BASE`).
    pub interpreter_base: u64,
}

/// An interpreter with its headers.
pub struct Interpreter {
    program: Executable,
    headers: Headers,
}

impl Interpreter {
    /// Returns its file.
    pub fn file(&self) -> &Executable {
        &self.program
    }
    /// Returns the interpreter as the subject holds it that executes the program.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn received_by(self, who: &Credentials) -> Result<Interpreter, Errno> {
        Ok(Interpreter { program: self.program.received_by(who)?, ..self })
    }
}

/// Opens and checks the interpreter that a program names.
///
/// # Errors
/// `ELIBBAD` if it is not an ELF file; those of opening it.
pub fn open_interpreter(name: &[u8], open: &Opener<'_>) -> Result<Interpreter, Errno> {
    let program = open(name)?;
    program.read_observed(0, &mut [0])?;
    let bad = |error| if error == Errno::ENOEXEC { Errno::ELIBBAD } else { error };
    let headers = elf::read(&program).map_err(bad)?;
    Ok(Interpreter { program, headers })
}

/// Maps a program and its interpreter and lays out the heap.
///
/// # Errors
/// Those of mmap.
pub fn map(
    memory: &Arc<AddressSpace>,
    place: &ImagePlace,
    program: &Executable,
    headers: &Headers,
    interpreter: Option<&Interpreter>,
) -> Result<Image, Errno> {
    let bias = match headers.kind {
        ElfKind::Fixed => 0,
        ElfKind::Movable => movable_bias(place.program, headers)?,
    };
    map_segments(memory, program, headers, bias)?;
    lay_out(memory, place, headers, bias)?;
    let entry = headers.entry.wrapping_add(bias);
    let (mut start, mut interpreter_base) = (entry, 0);
    if let Some(Interpreter { program, headers }) = interpreter {
        interpreter_base = match headers.kind {
            ElfKind::Fixed => 0,
            ElfKind::Movable => room_for(memory, headers)?,
        };
        map_segments(memory, program, headers, interpreter_base)?;
        start = headers.entry.wrapping_add(interpreter_base);
    }
    let table = headers.table.wrapping_add(bias);
    Ok(Image { start, entry, table, table_entries: headers.table_entries, interpreter_base })
}

fn movable_bias(base: u64, headers: &Headers) -> Result<u64, Errno> {
    let aligned = base & !(headers.alignment - 1);
    aligned.checked_sub(headers.extent.0).ok_or(Errno::ENOMEM)
}

/// Finds room for a whole movable file; returns the bias.
fn room_for(memory: &Arc<AddressSpace>, headers: &Headers) -> Result<u64, Errno> {
    let bytes = headers.extent.1 - headers.extent.0;
    let wanted = bytes.checked_add(headers.alignment - PAGE).ok_or(Errno::ENOMEM)?;
    let start = memory.find_room(wanted)?;
    let aligned = start.checked_next_multiple_of(headers.alignment).ok_or(Errno::ENOMEM)?;
    aligned.checked_sub(headers.extent.0).ok_or(Errno::EINVAL)
}

fn map_segments(
    memory: &Arc<AddressSpace>,
    program: &Executable,
    headers: &Headers,
    bias: u64,
) -> Result<(), Errno> {
    for segment in &headers.segments {
        let address = segment.address.checked_add(bias).ok_or(Errno::ENOMEM)?;
        let moved = ElfSegment { address, ..segment.clone() };
        if moved.address.checked_add(moved.memory_bytes).is_none() {
            return Err(Errno::ENOMEM);
        }
        map_segment(memory, program, &moved)?;
    }
    Ok(())
}

/// Maps the part that comes from the file, then zeroes: the rest of the last page, and whole pages.
fn map_segment(
    memory: &Arc<AddressSpace>,
    program: &Executable,
    segment: &ElfSegment,
) -> Result<(), Errno> {
    let start = page_of(segment.address);
    let file_end = round_up(segment.file_end()).ok_or(Errno::ENOMEM)?;
    let end = round_up(segment.end()).ok_or(Errno::ENOMEM)?;
    let zeroes_from = if segment.file_bytes > 0 {
        memory.map(&file_part(program, segment, start, file_end - start))?;
        let tail = file_end.min(segment.end()) - segment.file_end();
        if tail > 0 && segment.protection.contains(Protection::WRITE) {
            memory.zero_bytes(segment.file_end(), (file_end - segment.file_end()) as usize)?;
        }
        file_end
    } else {
        start
    };
    if zeroes_from < end {
        let place = MapPlace::Fixed(zeroes_from);
        memory.map(&MapRequest::anonymous(place, end - zeroes_from, segment.protection))?;
    }
    Ok(())
}

fn file_part(program: &Executable, segment: &ElfSegment, start: u64, bytes: u64) -> MapRequest {
    MapRequest {
        place: MapPlace::Fixed(start),
        bytes,
        protection: segment.protection,
        flags: MapFlags::empty(),
        source: MappingSource::Object {
            object: program.pages().clone(),
            first: segment.offset / PAGE,
            origin: program.origin().clone(),
            allowed: Protection::all(),
            is_shared: false,
        },
    }
}

/// Records the addresses of code and data, and puts the heap after them.
fn lay_out(
    memory: &AddressSpace,
    place: &ImagePlace,
    headers: &Headers,
    bias: u64,
) -> Result<(), Errno> {
    let mut layout = ProgramLayout { code: (u64::MAX, 0), ..ProgramLayout::default() };
    for segment in &headers.segments {
        let (start, end) = (segment.address + bias, segment.file_end() + bias);
        if segment.protection.contains(Protection::EXECUTE) {
            layout.code = (layout.code.0.min(start), layout.code.1.max(end));
        }
        if start >= layout.data.0 {
            layout.data = (start, layout.data.1.max(end));
        }
    }
    let program_end = headers.extent.1.checked_add(bias).ok_or(Errno::ENOMEM)?;
    layout.heap_start = round_up(program_end).ok_or(Errno::ENOMEM)?.saturating_add(place.heap_gap);
    layout.heap_end = layout.heap_start;
    memory.set_layout(layout);
    Ok(())
}
