//! Data between two files without a program's memory: sendfile, splice, tee, vmsplice, and the copy of
//! [`super::copy_range`].
//!
//! All data is moved as a [`Parcel`] of frames. A pipe gets the file's cached frames themselves; data
//! for a file is copied once, from frame to frame. vmsplice copies, too.
use super::{
    bounded,
    entry::Entry,
    read_write::{check_readable, check_writable, sync_written},
};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use memory::{AddressSpace, Room, UserSink, UserSource, transfer::BYTES_MAX};
use objects::pipe::{End, Parcel, Transfer};
use process::{Task, call::Call};
use rt::PAGE_BYTES;
use vfs::{
    Errno, OpenFile,
    file::{IoFlags, Places},
};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_sendfile, "sendfile", sendfile),
    Entry::whole(raw::__NR_splice, "splice", splice),
    Entry::whole(raw::__NR_tee, "tee", tee),
    Entry::whole(raw::__NR_vmsplice, "vmsplice", vmsplice),
];

/// Number of frames in one step between two files.
const STEP_FRAMES: usize = 16;
const KNOWN_FLAGS: u32 =
    raw::SPLICE_F_MOVE | raw::SPLICE_F_NONBLOCK | raw::SPLICE_F_MORE | raw::SPLICE_F_GIFT;

/// A place in a file: a position of the call's own, or the description's offset.
pub(super) type FilePlace = Option<u64>;

fn sendfile(call: &mut Call<'_>) -> Result<u64, Errno> {
    let mut from = read_place(call.memory, call.word(2))?;
    let input = call.file(1)?;
    check_readable(&input)?;
    let is_seekable = input.file().is_seekable();
    if from.is_some() && !is_seekable {
        return Err(Errno::ESPIPE);
    }
    let position = from.unwrap_or_else(|| if is_seekable { input.offset() } else { 0 });
    input.check_range(position, call.word(3))?;
    let output = call.file(0)?;
    check_writable(&output)?;
    let length = within_files(&input, &output, position, call.word(3).min(BYTES_MAX))?;
    let count = match end_of(&output) {
        Some(pipe) => {
            pipe.check_readers(call.caller())?;
            check_gives(&input)?;
            if !is_seekable {
                return Err(Errno::EINVAL);
            }
            match length {
                0 => 0,
                _ => file_to_pipe(call.task, (&input, &mut from), pipe, length, output.io_flags())?,
            }
        }
        None => {
            check_position(&output, None, length)?;
            if !is_seekable && input.file().places() != Places::Start {
                return Err(Errno::EINVAL);
            }
            // If there is nothing to copy, neither file is used.
            match length {
                0 => 0,
                _ => {
                    check_gives(&input)?;
                    // Linux reads before it checks the output, so that an empty read has no error.
                    match check_takes(&output) {
                        Err(_) if is_at_end(&input, position) => 0,
                        Err(error) => return Err(error),
                        Ok(()) => {
                            copy(call.task, (&input, &mut from), (&output, &mut None), length)?
                        }
                    }
                }
            }
        }
    };
    note_copied(call, count);
    write_place(call.memory, call.word(2), from)?;
    Ok(count)
}

/// Returns the number of bytes, at most `length` from `position` on, that both files can have.
///
/// # Errors
/// `EOVERFLOW` if there are none.
fn within_files(
    input: &OpenFile,
    output: &OpenFile,
    position: u64,
    length: u64,
) -> Result<u64, Errno> {
    let last = input.vnode().size_max().min(output.vnode().size_max());
    if position.saturating_add(length) <= last {
        return Ok(length);
    }
    match last.saturating_sub(position) {
        0 => Err(Errno::EOVERFLOW),
        room => Ok(room),
    }
}

/// Checks a file, not a pipe, to which `length` bytes are to be written at `place`.
fn check_target(output: &OpenFile, place: FilePlace, length: u64) -> Result<(), Errno> {
    check_position(output, place, length)?;
    check_takes(output)
}

fn check_takes(output: &OpenFile) -> Result<(), Errno> {
    if output.file().takes_spliced() { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Returns whether a regular file ends before `position`.
fn is_at_end(input: &OpenFile, position: u64) -> bool {
    input.vnode().is_regular() && position >= input.vnode().size()
}

fn check_gives(input: &OpenFile) -> Result<(), Errno> {
    let gives = !input.vnode().is_directory() && input.file().gives_spliced();
    if gives { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Checks the position of a write to a file that is not a pipe.
fn check_position(output: &OpenFile, place: FilePlace, length: u64) -> Result<(), Errno> {
    if output.io_flags().is_append {
        return Err(Errno::EINVAL);
    }
    let is_seekable = output.file().is_seekable();
    let position = place.unwrap_or_else(|| if is_seekable { output.offset() } else { 0 });
    output.check_range(position, length)
}

/// Counts as a read and a write.
pub(super) fn note_copied(call: &Call<'_>, bytes: u64) {
    call.task.io.note_read(bytes);
    call.task.io.note_written(bytes);
}

fn splice(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (wanted, flags) = (call.word(4), call.uint(5));
    let length = wanted.min(BYTES_MAX);
    if length == 0 {
        return Ok(0);
    }
    check_flags(flags)?;
    let (input, output) = (call.working_file(0)?, call.working_file(2)?);
    let (source, target) = (end_of(&input), end_of(&output));
    let has_place = |end: Option<&End>, index: usize| end.is_some() && call.word(index) != 0;
    if has_place(source, 1) || has_place(target, 3) {
        return Err(Errno::ESPIPE);
    }
    // Linux reads the positions, the output's first, before it checks the modes.
    let (mut to, mut from) =
        (read_place(call.memory, call.word(3))?, read_place(call.memory, call.word(1))?);
    check_readable(&input)?;
    check_writable(&output)?;
    let flags = splice_flags(flags, [(source, &input), (target, &output)]);
    let count = match (source, target) {
        (Some(source), Some(target)) => {
            source.transfer(target, (length as usize, Transfer::Move), flags, call.caller())? as u64
        }
        (Some(source), None) => {
            check_place(&output, to)?;
            check_target(&output, to, wanted)?;
            pipe_to_file(call.task, source, &output, &mut to, length, flags)?
        }
        (None, Some(target)) => {
            check_place(&input, from)?;
            input.check_range(from.unwrap_or(0), length)?;
            check_gives(&input)?;
            file_to_pipe(call.task, (&input, &mut from), target, length, flags)?
        }
        (None, None) => return Err(Errno::EINVAL),
    };
    write_place(call.memory, call.word(1), from)?;
    write_place(call.memory, call.word(3), to)?;
    Ok(count)
}

fn tee(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (length, flags) = (call.word(2).min(BYTES_MAX), call.uint(3));
    check_flags(flags)?;
    if length == 0 {
        return Ok(0);
    }
    let (input, output) = (call.file(0)?, call.file(1)?);
    check_readable(&input)?;
    check_writable(&output)?;
    let (Some(source), Some(target)) = (end_of(&input), end_of(&output)) else {
        return Err(Errno::EINVAL);
    };
    let flags = splice_flags(flags, [(Some(source), &input), (Some(target), &output)]);
    Ok(source.transfer(target, (length as usize, Transfer::Copy), flags, call.caller())? as u64)
}

fn vmsplice(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(3);
    check_flags(flags)?;
    let file = call.working_file(0)?;
    let count = usize::try_from(call.word(2)).map_err(|_| Errno::EINVAL)?;
    let memory = call.memory;
    let mut room = Room::default();
    let buffers = memory.read_iovecs(call.word(1), count, &mut room)?;
    if buffers.iter().all(|buffer| buffer.length == 0) {
        return Ok(0);
    }
    let end = end_of(&file).ok_or(Errno::EBADF)?;
    let flags = IoFlags { is_nonblocking: flags & raw::SPLICE_F_NONBLOCK != 0, is_append: false };
    if end.writes() {
        let mut source = UserSource::vectored(call.caller(), memory, buffers);
        return Ok(end.write_part(&mut source, flags)? as u64);
    }
    Ok(file.read_with(&mut UserSink::vectored(call.caller(), memory, buffers), flags)? as u64)
}

fn end_of(file: &OpenFile) -> Option<&End> {
    file.file().as_any().downcast_ref::<End>()
}

fn check_flags(flags: u32) -> Result<(), Errno> {
    if flags & !KNOWN_FLAGS == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Returns the flags of the call: it does not wait for the pipe if its flags or the description of
/// either end say so.
fn splice_flags(flags: u32, files: [(Option<&End>, &OpenFile); 2]) -> IoFlags {
    let is_asked = flags & raw::SPLICE_F_NONBLOCK != 0;
    let is_set =
        |(end, file): &(Option<&End>, &OpenFile)| end.is_some() && file.io_flags().is_nonblocking;
    IoFlags { is_nonblocking: is_asked || files.iter().any(is_set), is_append: false }
}

/// Checks that a file has positions, if the call gives one.
fn check_place(file: &OpenFile, place: FilePlace) -> Result<(), Errno> {
    match place {
        Some(_) if !file.file().is_seekable() => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

fn read_place(memory: &AddressSpace, at: u64) -> Result<FilePlace, Errno> {
    match at {
        0 => Ok(None),
        address => memory.read::<u64>(address).map(Some),
    }
}

fn write_place(memory: &AddressSpace, at: u64, place: FilePlace) -> Result<(), Errno> {
    match place {
        Some(position) => memory.commit(at, &position),
        None => Ok(()),
    }
}

/// Reads for `task` into at most `slots` frames; a given position is moved.
fn read_parcel(
    task: &Task,
    (input, from): (&OpenFile, &mut FilePlace),
    slots: usize,
    bytes: usize,
) -> Result<Parcel, Errno> {
    let mut parcel = Parcel::new();
    let mut sink = parcel.filling(slots, bytes, task);
    let flags = input.io_flags();
    match from {
        Some(at) => *at += input.read_at(*at, &mut sink, flags)? as u64,
        None => {
            input.read_with(&mut sink, flags)?;
        }
    }
    Ok(parcel)
}

fn file_to_pipe(
    task: &Task,
    (input, from): (&OpenFile, &mut FilePlace),
    target: &End,
    length: u64,
    flags: IoFlags,
) -> Result<u64, Errno> {
    let reservation = target.reserve(length as usize, flags, task)?;
    let parcel = read_parcel(task, (input, from), reservation.slots(), length as usize)?;
    let count = parcel.bytes() as u64;
    reservation.deliver(parcel);
    Ok(count)
}

fn pipe_to_file(
    task: &Arc<Task>,
    source: &End,
    output: &OpenFile,
    to: &mut FilePlace,
    length: u64,
    flags: IoFlags,
) -> Result<u64, Errno> {
    if output.file().discards() {
        let count = source.discard(length as usize, flags)?;
        output.note_discarded(count);
        return Ok(count as u64);
    }
    let Some(mut borrowed) = source.borrow(length as usize, flags)? else { return Ok(0) };
    write_parcel(task, output, to, &mut borrowed.parcel)
}

/// Writes all of `parcel` if the file accepts it; the rest stays in the parcel.
fn write_parcel(
    task: &Arc<Task>,
    output: &OpenFile,
    to: &mut FilePlace,
    parcel: &mut Parcel,
) -> Result<u64, Errno> {
    let mut done = 0;
    while parcel.bytes() > 0 {
        let before = parcel.bytes();
        let mut source = parcel.emptying(&**task);
        let count = match bounded::write(task, output, *to, &mut source, output.io_flags()) {
            Ok(0) => break,
            Ok(count) => count,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        };
        // A file may accept bytes without reading them (`/dev/null`).
        parcel.skip(count.saturating_sub(before - parcel.bytes()));
        *to = to.map(|at| at + count as u64);
        done += count as u64;
    }
    sync_written(output, 0)?;
    Ok(done)
}

/// Copies up to `length` bytes; given positions are moved, else the offsets of the files. A signal
/// ends it early, with the bytes copied so far.
pub(super) fn copy(
    task: &Arc<Task>,
    (input, from): (&OpenFile, &mut FilePlace),
    (output, to): (&OpenFile, &mut FilePlace),
    length: u64,
) -> Result<u64, Errno> {
    let mut done = 0;
    while done < length {
        let position = from.unwrap_or_else(|| input.offset());
        let bytes = (STEP_FRAMES * PAGE_BYTES).min((length - done) as usize);
        let step = read_parcel(task, (input, &mut Some(position)), STEP_FRAMES, bytes).and_then(
            |mut parcel| {
                let count = parcel.bytes() as u64;
                Ok((count, write_parcel(task, output, to, &mut parcel)?))
            },
        );
        let (count, written) = match step {
            Ok(step) => step,
            Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
        };
        // Only written bytes count as read, so that no data is lost.
        match from {
            Some(from) => *from = position + written,
            None => {
                input.seek((position + written) as i64, vfs::Whence::Start)?;
            }
        }
        done += written;
        if written < count || count == 0 || task.has_signal() {
            break;
        }
    }
    Ok(done)
}
