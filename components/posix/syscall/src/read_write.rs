//! The calls read, write and related ones: pread, readv, preadv2 ...
use super::{bounded, entry::Entry};
use alloc::sync::Arc;
use interfaces::file_system::Backing;
use linux_raw_sys::general as raw;
use memory::{Room, UserSink, UserSource};
use process::{HOST, Task, call::Call};
use vfs::{
    Errno, OpenFile,
    file::{IoFlags, SyncKind},
    io::{Sink, Source},
};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_read, "read", read),
    Entry::whole(raw::__NR_write, "write", write),
    Entry::whole(raw::__NR_pread64, "pread64", pread),
    Entry::whole(raw::__NR_pwrite64, "pwrite64", pwrite),
    Entry::whole(raw::__NR_readv, "readv", readv),
    Entry::whole(raw::__NR_writev, "writev", writev),
    Entry::whole(raw::__NR_preadv, "preadv", preadv),
    Entry::whole(raw::__NR_pwritev, "pwritev", pwritev),
    Entry::partial(
        raw::__NR_preadv2,
        "preadv2",
        "RWF_NOWAIT of regular files, which are waited for",
        preadv2,
    ),
    Entry::whole(raw::__NR_pwritev2, "pwritev2", pwritev2),
];

/// Flags of preadv2 and pwritev2 that are supported.
const KNOWN_FLAGS: u32 =
    raw::RWF_HIPRI | raw::RWF_DSYNC | raw::RWF_SYNC | raw::RWF_NOWAIT | raw::RWF_APPEND;

fn read(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_readable(&file)?;
    let mut sink = user_sink(call)?;
    noted(call, file.read(&mut sink))
}

fn write(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_writable(&file)?;
    let mut source = user_source(call)?;
    write_to(call.task, &file, None, &mut source, 0)
}

fn pread(call: &mut Call<'_>) -> Result<u64, Errno> {
    let offset = offset(call.word(3))?;
    let file = call.file(0)?;
    check_positioned(&file)?;
    check_readable(&file)?;
    let mut sink = user_sink(call)?;
    noted(call, file.read_at(offset, &mut sink, file.io_flags()))
}

fn pwrite(call: &mut Call<'_>) -> Result<u64, Errno> {
    let offset = offset(call.word(3))?;
    let file = call.file(0)?;
    check_positioned(&file)?;
    check_writable(&file)?;
    let mut source = user_source(call)?;
    write_to(call.task, &file, Some(offset), &mut source, 0)
}

fn readv(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    let mut room = Room::default();
    let Some(mut sink) = vectored_sink(call, &file, &mut room)? else { return Ok(0) };
    noted(call, file.read(&mut sink))
}

fn writev(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    let mut room = Room::default();
    let Some(mut source) = vectored_source(call, &file, &mut room)? else { return Ok(0) };
    write_to(call.task, &file, None, &mut source, 0)
}

fn preadv(call: &mut Call<'_>) -> Result<u64, Errno> {
    let offset = offset(call.word(3))?;
    read_vectored(call, offset, 0)
}

fn pwritev(call: &mut Call<'_>) -> Result<u64, Errno> {
    let offset = offset(call.word(3))?;
    write_vectored(call, offset, 0)
}

fn preadv2(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(5);
    match call.word(3) as i64 {
        -1 if flags == 0 => readv(call),
        -1 => {
            let file = call.working_file(0)?;
            let mut room = Room::default();
            let Some(mut sink) = vectored_sink(call, &file, &mut room)? else { return Ok(0) };
            check_flags(&file, flags)?;
            noted(call, file.read_with(&mut sink, io_flags(&file, flags)))
        }
        at => read_vectored(call, offset(at as u64)?, flags),
    }
}

fn pwritev2(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(5);
    match call.word(3) as i64 {
        -1 if flags == 0 => writev(call),
        -1 => {
            let file = call.working_file(0)?;
            let mut room = Room::default();
            let Some(mut source) = vectored_source(call, &file, &mut room)? else { return Ok(0) };
            check_flags(&file, flags)?;
            write_to(call.task, &file, None, &mut source, flags)
        }
        at => write_vectored(call, offset(at as u64)?, flags),
    }
}

fn read_vectored(call: &Call<'_>, offset: u64, flags: u32) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_positioned(&file)?;
    let mut room = Room::default();
    let Some(mut sink) = vectored_sink(call, &file, &mut room)? else { return Ok(0) };
    check_flags(&file, flags)?;
    noted(call, file.read_at(offset, &mut sink, io_flags(&file, flags)))
}

fn write_vectored(call: &Call<'_>, offset: u64, flags: u32) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_positioned(&file)?;
    let mut room = Room::default();
    let Some(mut source) = vectored_source(call, &file, &mut room)? else { return Ok(0) };
    check_flags(&file, flags)?;
    write_to(call.task, &file, Some(offset), &mut source, flags)
}

/// Counts a read and returns its outcome.
fn noted(call: &Call<'_>, outcome: Result<usize, Errno>) -> Result<u64, Errno> {
    let outcome = outcome.map(|count| count as u64);
    call.task.io.note_read(outcome.unwrap_or(0));
    outcome
}

/// Writes at `offset`, or at the description's offset, with flags of pwritev2; counts the bytes, and makes them durable if the
/// flags ask for it.
fn write_to(
    task: &Arc<Task>,
    file: &OpenFile,
    offset: Option<u64>,
    source: &mut UserSource<'_>,
    flags: u32,
) -> Result<u64, Errno> {
    let outcome = bounded::write(task, file, offset, source, io_flags(file, flags));
    task.io.note_written(outcome.map_or(0, |count| count as u64));
    let count = outcome?;
    sync_written(file, flags)?;
    Ok(count as u64)
}

/// Makes written data durable if the flags ask for it. The error is never `ENOMEM`: it would mean that nothing was written, and
/// the call would be repeated.
pub(super) fn sync_written(file: &OpenFile, flags: u32) -> Result<(), Errno> {
    let is_whole = file.flags() & raw::O_SYNC == raw::O_SYNC || flags & raw::RWF_SYNC != 0;
    let is_data = file.flags() & raw::O_DSYNC != 0 || flags & raw::RWF_DSYNC != 0;
    if !is_whole && !is_data {
        return Ok(());
    }
    let kind = if is_whole { SyncKind::All } else { SyncKind::Data };
    match vfs::retried(HOST, || file.file().sync(kind)) {
        Err(Errno::Refused) => Err(Errno::EIO),
        result => result,
    }
}

fn user_sink<'a>(call: &Call<'a>) -> Result<UserSink<'a>, Errno> {
    UserSink::new(call.caller(), call.memory, call.word(1), call.word(2))
}

fn user_source<'a>(call: &Call<'a>) -> Result<UserSource<'a>, Errno> {
    UserSource::new(call.caller(), call.memory, call.word(1), call.word(2))
}

/// Reads the buffers of a vectored read, before the file's mode is checked; returns `None` if they have no room at all, and the
/// file is not used.
fn vectored_sink<'r>(
    call: &'r Call<'_>,
    file: &OpenFile,
    room: &'r mut Room,
) -> Result<Option<UserSink<'r>>, Errno> {
    let memory = call.memory;
    let buffers = memory.read_iovecs(call.word(1), count(call)?, room)?;
    check_readable(file)?;
    let sink = UserSink::vectored(call.caller(), memory, buffers);
    if file.file().lacks_read() {
        return Err(Errno::EINVAL);
    }
    Ok((sink.remaining() > 0).then_some(sink))
}

/// Does the same as [`vectored_sink`] for a write.
fn vectored_source<'r>(
    call: &'r Call<'_>,
    file: &OpenFile,
    room: &'r mut Room,
) -> Result<Option<UserSource<'r>>, Errno> {
    let memory = call.memory;
    let buffers = memory.read_iovecs(call.word(1), count(call)?, room)?;
    check_writable(file)?;
    let source = UserSource::vectored(call.caller(), memory, buffers);
    if file.file().lacks_write() {
        return Err(Errno::EINVAL);
    }
    Ok((source.remaining() > 0).then_some(source))
}

fn count(call: &Call<'_>) -> Result<usize, Errno> {
    usize::try_from(call.word(2)).map_err(|_| Errno::EINVAL)
}

pub(super) fn offset(value: u64) -> Result<u64, Errno> {
    if value > i64::MAX as u64 { Err(Errno::EINVAL) } else { Ok(value) }
}

/// Checks that the file supports the flags of preadv2 and pwritev2.
fn check_flags(file: &OpenFile, flags: u32) -> Result<(), Errno> {
    let vnode = file.vnode();
    let is_known = flags & !KNOWN_FLAGS == 0;
    let is_plain = flags & !raw::RWF_HIPRI == 0;
    // As on Linux, files in memory do not support reads that must not wait.
    let is_in_memory = vnode.instance().info().backing == Backing::Cache;
    let is_waited_for = flags & raw::RWF_NOWAIT != 0 && vnode.is_regular() && is_in_memory;
    let is_taken = is_known && !is_waited_for && (is_plain || !vnode.is_directory());
    if is_taken { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

fn io_flags(file: &OpenFile, flags: u32) -> IoFlags {
    let own = file.io_flags();
    IoFlags {
        is_nonblocking: own.is_nonblocking || flags & raw::RWF_NOWAIT != 0,
        is_append: own.is_append || flags & raw::RWF_APPEND != 0,
    }
}

pub(super) fn check_readable(file: &OpenFile) -> Result<(), Errno> {
    if file.is_readable() { Ok(()) } else { Err(Errno::EBADF) }
}

pub(super) fn check_writable(file: &OpenFile) -> Result<(), Errno> {
    if file.is_writable() { Ok(()) } else { Err(Errno::EBADF) }
}

fn check_positioned(file: &OpenFile) -> Result<(), Errno> {
    if file.is_path_only() {
        return Err(Errno::EBADF);
    }
    if file.file().is_seekable() { Ok(()) } else { Err(Errno::ESPIPE) }
}
