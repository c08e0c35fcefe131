//! copy_file_range(2). Errors are checked in Linux's order (`vfs_copy_file_range`, `generic_copy_file_checks`): descriptors,
//! positions, flags, kinds, modes, file systems, then the range.
use super::{
    bounded,
    entry::Entry,
    splice::{FilePlace, copy, note_copied},
};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use memory::transfer::BYTES_MAX;
use process::call::Call;
use vfs::{Errno, FLAG_IMMUTABLE, OpenFile};

/// The system call that this file implements.
pub const CALLS: &[Entry] =
    &[Entry::whole(raw::__NR_copy_file_range, "copy_file_range", copy_file_range)];

/// An end of a copy: a file, a position in it as the program gave it, and whether that is the file's own.
struct Side {
    file: Arc<OpenFile>,
    /// The position's address in the program's memory; 0 for the file's own.
    at: u64,
    position: u64,
}

impl Side {
    fn new(call: &Call<'_>, file: Arc<OpenFile>, at: u64) -> Result<Side, Errno> {
        let position = if at == 0 { file.offset() } else { call.memory.read(at)? };
        Ok(Side { file, at, position })
    }
    fn place(&self) -> FilePlace {
        (self.at != 0).then_some(self.position)
    }
    fn write_back(&self, call: &Call<'_>, place: FilePlace) -> Result<(), Errno> {
        place.map_or(Ok(()), |position| call.memory.commit(self.at, &position))
    }
    /// Checks that `length` bytes from its position are positions of a file.
    fn check(&self, length: u64) -> Result<(), Errno> {
        let end = self.position.checked_add(length);
        match end.is_some_and(|end| self.position.max(end) <= i64::MAX as u64) {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }
}

fn copy_file_range(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (input, output) = (call.working_file(0)?, call.working_file(2)?);
    let (from, to) =
        (Side::new(call, input, call.word(1))?, Side::new(call, output, call.word(3))?);
    if call.uint(5) != 0 {
        return Err(Errno::EINVAL);
    }
    check_files(&from.file, &to.file)?;
    let length = room(call, &from, &to)?;
    from.check(length)?;
    to.check(length)?;
    if length == 0 {
        return Ok(0);
    }
    let (mut source, mut target) = (from.place(), to.place());
    let length = length.min(BYTES_MAX);
    let count = copy(call.task, (&from.file, &mut source), (&to.file, &mut target), length)?;
    if count > 0 {
        note_copied(call, count);
        from.write_back(call, source)?;
        to.write_back(call, target)?;
    }
    Ok(count)
}

fn check_files(input: &OpenFile, output: &OpenFile) -> Result<(), Errno> {
    if input.vnode().is_directory() || output.vnode().is_directory() {
        return Err(Errno::EISDIR);
    }
    if !input.vnode().is_regular() || !output.vnode().is_regular() {
        return Err(Errno::EINVAL);
    }
    if !input.is_readable() || !output.is_writable() || output.io_flags().is_append {
        return Err(Errno::EBADF);
    }
    if !Arc::ptr_eq(input.vnode().instance(), output.vnode().instance()) {
        return Err(Errno::EXDEV);
    }
    if output.vnode().flags() & FLAG_IMMUTABLE != 0 { Err(Errno::EPERM) } else { Ok(()) }
}

/// Returns the number of bytes to copy: the length asked for, but not beyond the end of the input or the limit of the output.
fn room(call: &Call<'_>, from: &Side, to: &Side) -> Result<u64, Errno> {
    let wanted = call.word(4);
    let is_odd = [from, to].iter().any(|side| side.position.checked_add(wanted).is_none());
    if is_odd {
        return Err(Errno::EOVERFLOW);
    }
    let size = from.file.file().size();
    let is_behind = from.position as i64 >= size as i64;
    let left = if is_behind { 0 } else { size.wrapping_sub(from.position).min(wanted) };
    let room = bounded::room(call.task, &to.file, to.position)?.min(left);
    let overlaps = Arc::ptr_eq(from.file.vnode(), to.file.vnode())
        && to.position.saturating_add(room) > from.position
        && to.position < from.position.saturating_add(room);
    if overlaps { Err(Errno::EINVAL) } else { Ok(room) }
}
