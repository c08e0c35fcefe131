//! Calls about descriptors: close, dup and related ones, pipes, lseek.
use super::entry::Entry;
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use objects::pipe::Pipe;
use process::{
    call::Call,
    files::{
        OnExec, anonymous,
        install::{descriptor_limit, install, reserve},
    },
};
use vfs::{Errno, OpenFile, Whence};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_close, "close", close),
    Entry::whole(raw::__NR_close_range, "close_range", close_range),
    Entry::whole(raw::__NR_dup, "dup", dup),
    Entry::whole(raw::__NR_dup2, "dup2", dup2),
    Entry::whole(raw::__NR_dup3, "dup3", dup3),
    Entry::whole(raw::__NR_lseek, "lseek", lseek),
    Entry::whole(raw::__NR_pipe, "pipe", pipe),
    Entry::whole(raw::__NR_pipe2, "pipe2", pipe2),
];

/// Flag: the caller gets a table of its own first.
const CLOSE_RANGE_UNSHARE: u32 = 2;
/// Flag: the descriptors are closed at exec only.
const CLOSE_RANGE_CLOEXEC: u32 = 4;

fn close(call: &mut Call<'_>) -> Result<u64, Errno> {
    call.files.close(call.int(0), call.caller())?;
    Ok(0)
}

fn close_range(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (first, last, flags) = (call.uint(0) as usize, call.uint(1) as usize, call.uint(2));
    if flags & !(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE) != 0 || last < first {
        return Err(Errno::EINVAL);
    }
    let mut files = call.files.clone();
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        files = Arc::new(files.duplicate()?);
        call.task.set_files(files.clone());
    }
    if flags & CLOSE_RANGE_CLOEXEC != 0 {
        files.close_range_on_exec(first, last);
        return Ok(0);
    }
    files.close_range(first, last, call.caller());
    Ok(0)
}

fn dup(call: &mut Call<'_>) -> Result<u64, Errno> {
    install(call.task, call.file(0)?, OnExec::Keep)
}

fn dup2(call: &mut Call<'_>) -> Result<u64, Errno> {
    if call.int(0) == call.int(1) {
        call.file(0)?;
        return Ok(u64::from(call.uint(1)));
    }
    replace(call, OnExec::Keep)
}

fn dup3(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(2);
    if flags & !raw::O_CLOEXEC != 0 || call.int(0) == call.int(1) {
        return Err(Errno::EINVAL);
    }
    replace(call, OnExec::from_flag(flags, raw::O_CLOEXEC))
}

fn replace(call: &Call<'_>, on_exec: OnExec) -> Result<u64, Errno> {
    let limit = descriptor_limit(call.task);
    call.files.replace((call.int(0), call.int(1)), limit, on_exec, call.caller())?;
    Ok(u64::from(call.uint(1)))
}

fn lseek(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    let whence = match call.uint(2) {
        raw::SEEK_SET => Whence::Start,
        raw::SEEK_CUR => Whence::Current,
        raw::SEEK_END => Whence::End,
        raw::SEEK_DATA => Whence::Data,
        raw::SEEK_HOLE => Whence::Hole,
        _ => return Err(Errno::EINVAL),
    };
    file.seek(call.word(1) as i64, whence)
}

fn pipe(call: &mut Call<'_>) -> Result<u64, Errno> {
    make_pipe(call, 0)
}

fn pipe2(call: &mut Call<'_>) -> Result<u64, Errno> {
    make_pipe(call, call.uint(1))
}

fn make_pipe(call: &Call<'_>, flags: u32) -> Result<u64, Errno> {
    /// Flag `O_NOTIFICATION_PIPE` of a Linux with watch queues.
    const NOTIFIES: u32 = raw::O_EXCL;
    if flags & !(raw::O_CLOEXEC | raw::O_NONBLOCK | raw::O_DIRECT | NOTIFIES) != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & NOTIFIES != 0 {
        return Err(Errno::ENOPKG);
    }
    let task = call.task;
    let (reader, writer) = Pipe::pair(flags, call.caller())?;
    let place = anonymous::pipe_place(&task.credentials(), reader.pipe().clone())?;
    let kept = flags & (raw::O_NONBLOCK | raw::O_DIRECT);
    let reader = OpenFile::new(reader, place.clone(), raw::O_RDONLY | kept);
    let writer = OpenFile::new(writer, place, raw::O_WRONLY | kept);
    let on_exec = OnExec::from_flag(flags, raw::O_CLOEXEC);
    let next = || reserve(task, call.files, on_exec);
    let (first, second) = (next()?, next()?);
    call.memory.write(call.word(0), &[first.number(), second.number()])?;
    first.fill(reader);
    second.fill(writer);
    Ok(0)
}
