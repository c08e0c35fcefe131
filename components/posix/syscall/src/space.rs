//! Calls about space and durability of files: truncate, fallocate, fadvise, readahead, sync and related ones.
use super::{bounded, entry::Entry, place::Named};
use alloc::sync::Arc;
use interfaces::file_system::FileType;
use linux_raw_sys::general as raw;
use memory::{advice::read_ahead, transfer::BYTES_MAX};
use process::{
    Task,
    call::Call,
    files::Scope,
    limits::{INFINITY, Resource},
};
use vfs::{
    Errno, OpenFile, Walk,
    file::SyncKind,
    file::{Allocation, RangeSteps},
};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_truncate, "truncate", truncate),
    Entry::whole(raw::__NR_ftruncate, "ftruncate", ftruncate),
    Entry::partial(
        raw::__NR_fallocate,
        "fallocate",
        "ranges are not unshared; tmpfs does not collapse or insert (Linux neither)",
        fallocate,
    ),
    Entry::whole(raw::__NR_fadvise64, "fadvise64", fadvise),
    Entry::whole(raw::__NR_readahead, "readahead", readahead),
    Entry::whole(raw::__NR_sync, "sync", sync),
    Entry::whole(raw::__NR_syncfs, "syncfs", syncfs),
    Entry::whole(raw::__NR_fsync, "fsync", fsync),
    Entry::whole(raw::__NR_fdatasync, "fdatasync", fdatasync),
    Entry::whole(raw::__NR_sync_file_range, "sync_file_range", sync_file_range),
];

fn size(argument: u64) -> Result<u64, Errno> {
    if argument > i64::MAX as u64 { Err(Errno::EINVAL) } else { Ok(argument) }
}

/// Checks that the file does not grow beyond RLIMIT_FSIZE.
fn check_limit(task: &Arc<Task>, present: u64, wanted: u64) -> Result<(), Errno> {
    let limit = task.process.limits.soft(Resource::FileSize);
    if limit == INFINITY || wanted <= limit || wanted <= present {
        return Ok(());
    }
    Err(bounded::too_large(task))
}

fn truncate(call: &mut Call<'_>) -> Result<u64, Errno> {
    let size = size(call.word(1))?;
    let scope = Scope::of(call.task);
    let place = Named::cwd(call, 0)?.walk(&scope, Walk::FOLLOW)?;
    check_limit(call.task, place.vnode().size(), size)?;
    scope.caller().truncate(&place, size)?;
    Ok(0)
}

fn ftruncate(call: &mut Call<'_>) -> Result<u64, Errno> {
    let size = size(call.word(1))?;
    let file = call.working_file(0)?;
    call.note_opened(&file);
    check_limit(call.task, file.file().size(), size)?;
    file.truncate(size, call.caller())?;
    Ok(0)
}

/// Checks the mode: modes that move data, or unshare blocks, cannot be combined with others.
fn check_mode(mode: u32) -> Result<(), Errno> {
    const ALONE: [(u32, u32); 3] = [
        (raw::FALLOC_FL_COLLAPSE_RANGE, 0),
        (raw::FALLOC_FL_INSERT_RANGE, 0),
        (raw::FALLOC_FL_UNSHARE_RANGE, raw::FALLOC_FL_KEEP_SIZE),
    ];
    const KNOWN: u32 = raw::FALLOC_FL_KEEP_SIZE
        | raw::FALLOC_FL_PUNCH_HOLE
        | raw::FALLOC_FL_COLLAPSE_RANGE
        | raw::FALLOC_FL_ZERO_RANGE
        | raw::FALLOC_FL_INSERT_RANGE
        | raw::FALLOC_FL_UNSHARE_RANGE;
    let punches = mode & raw::FALLOC_FL_PUNCH_HOLE != 0;
    let keeps_size = mode & raw::FALLOC_FL_KEEP_SIZE != 0;
    let zeroes = mode & raw::FALLOC_FL_ZERO_RANGE != 0;
    if mode & !KNOWN != 0 || punches && (zeroes || !keeps_size) {
        return Err(Errno::EOPNOTSUPP);
    }
    let is_mixed = ALONE.iter().any(|(one, with)| mode & one != 0 && mode & !(one | with) != 0);
    if is_mixed { Err(Errno::EINVAL) } else { Ok(()) }
}

fn fallocate(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (mode, offset, length) = (call.uint(1), call.word(2) as i64, call.word(3) as i64);
    let file = call.working_file(0)?;
    call.note_opened(&file);
    if offset < 0 || length <= 0 {
        return Err(Errno::EINVAL);
    }
    check_mode(mode)?;
    let keeps_size = mode & raw::FALLOC_FL_KEEP_SIZE != 0;
    let how = match mode & !raw::FALLOC_FL_KEEP_SIZE {
        0 if keeps_size => Allocation::KeepSize,
        0 => Allocation::Extend,
        raw::FALLOC_FL_PUNCH_HOLE if keeps_size => Allocation::PunchHole,
        raw::FALLOC_FL_ZERO_RANGE if keeps_size => Allocation::ZeroKeepSize,
        raw::FALLOC_FL_ZERO_RANGE => Allocation::Zero,
        raw::FALLOC_FL_COLLAPSE_RANGE if !keeps_size => Allocation::Collapse,
        raw::FALLOC_FL_INSERT_RANGE if !keeps_size => Allocation::Insert,
        _ => return Err(Errno::EOPNOTSUPP),
    };
    if !file.is_writable() {
        return Err(Errno::EBADF);
    }
    match file.vnode().file_type() {
        FileType::Regular | FileType::Block => {}
        FileType::Fifo => return Err(Errno::ESPIPE),
        _ => return Err(Errno::ENODEV),
    }
    let end = offset as u64 + length as u64;
    if end > file.vnode().size_max() {
        return Err(Errno::EFBIG);
    }
    if !keeps_size {
        check_limit(call.task, file.file().size(), end)?;
    }
    file.allocate(offset as u64, length as u64, how, call.caller())?;
    Ok(0)
}

/// Does fadvise64(2): drops pages that are not needed. Other advice has no effect: readahead detects sequential
/// use by itself.
fn fadvise(call: &mut Call<'_>) -> Result<u64, Errno> {
    const PAGE: u64 = rt::PAGE_BYTES as u64;
    let file = call.working_file(0)?;
    if file.vnode().file_type() == FileType::Fifo {
        return Err(Errno::ESPIPE);
    }
    let (start, length) = (call.word(1), call.word(2));
    if call.uint(3) > raw::POSIX_FADV_NOREUSE || (length as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    if call.uint(3) == raw::POSIX_FADV_DONTNEED
        && let Some(pages) = file.vnode().pages()
    {
        let end = if length == 0 { u64::MAX } else { start.saturating_add(length) };
        let _ = file.file().write_range(start, end.min(i64::MAX as u64), RangeSteps::WRITE);
        // A page that is only partly in the range stays, except for the last one.
        let end = if end >= pages.size() { u64::MAX } else { end };
        pages.forget(start.div_ceil(PAGE)..(end / PAGE).max(start.div_ceil(PAGE)));
    }
    Ok(0)
}

fn readahead(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    if !file.is_readable() {
        return Err(Errno::EBADF);
    }
    if !is_of_pages(&file) || (call.word(2) as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    // For a file without pages, such as one of /proc, the call has no effect.
    let Ok(object) = file.file().mappable() else { return Ok(0) };
    let first = call.word(1) / rt::PAGE_BYTES as u64;
    let bytes = call.word(2).min(BYTES_MAX).min(file.file().size().saturating_sub(call.word(1)));
    read_ahead(&*object, first, bytes.div_ceil(rt::PAGE_BYTES as u64), call.caller())?;
    Ok(0)
}

/// Returns whether it is a regular file or a disk.
fn is_of_pages(file: &OpenFile) -> bool {
    matches!(file.vnode().file_type(), FileType::Regular | FileType::Block)
}

fn sync(_: &mut Call<'_>) -> Result<u64, Errno> {
    if let Err(errno) = vfs::sync_all() {
        log::error!("sync: something was not written: {errno:?}");
    }
    Ok(0)
}

fn syncfs(call: &mut Call<'_>) -> Result<u64, Errno> {
    call.working_file(0)?.sync_file_system()?;
    Ok(0)
}

fn fsync(call: &mut Call<'_>) -> Result<u64, Errno> {
    call.working_file(0)?.file().sync(SyncKind::All)?;
    Ok(0)
}

fn fdatasync(call: &mut Call<'_>) -> Result<u64, Errno> {
    call.working_file(0)?.file().sync(SyncKind::Data)?;
    Ok(0)
}

fn sync_file_range(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    let steps = RangeSteps::from_bits(call.uint(3)).ok_or(Errno::EINVAL)?;
    let (offset, length) = (call.word(1) as i64, call.word(2) as i64);
    let end = offset.checked_add(length).ok_or(Errno::EINVAL)?;
    if offset < 0 || length < 0 {
        return Err(Errno::EINVAL);
    }
    if !is_of_pages(&file) && !file.vnode().is_directory() {
        return Err(Errno::ESPIPE);
    }
    let end = if length == 0 { i64::MAX } else { end };
    file.file().write_range(offset as u64, end as u64, steps)?;
    Ok(0)
}
