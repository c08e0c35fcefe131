//! The calls fcntl and flock.
use super::{async_owner, entry::Entry};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use interfaces::{file_system::FileType, monitor::ObjectAccess};
use linux_raw_sys::general as raw;
use objects::pipe::End;
use process::{
    Task,
    call::Call,
    files::{
        OnExec,
        install::{descriptor_limit, install},
        notify,
        owner::is_signal_driven,
    },
    locks::{FileLocks, LockMode, LockOwner, LockWorld, OnConflict, Range},
};
use vfs::{Capabilities, Errno, OpenFile, Seals, file::File, security::flows};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::partial(raw::__NR_fcntl, "fcntl", "leases (none is given)", fcntl),
    Entry::whole(raw::__NR_flock, "flock", flock),
];

/// `struct flock`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RawLock {
    kind: u16,
    whence: u16,
    padding: u32,
    start: i64,
    length: i64,
    process: i32,
    end_padding: u32,
}

const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;
const F_OFD_SETLKW: u32 = 38;
const READ_LOCK: u16 = raw::F_RDLCK as u16;
const WRITE_LOCK: u16 = raw::F_WRLCK as u16;
const UNLOCK: u16 = raw::F_UNLCK as u16;

fn fcntl(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    let (files, fd) = (call.files, call.int(0));
    match call.uint(1) {
        raw::F_DUPFD => duplicate(call, file, OnExec::Keep),
        raw::F_DUPFD_CLOEXEC => duplicate(call, file, OnExec::Close),
        raw::F_GETFD => Ok(u64::from(files.on_exec(fd)? == OnExec::Close)),
        raw::F_SETFD => {
            files.set_on_exec(fd, OnExec::from_flag(call.uint(2), raw::FD_CLOEXEC))?;
            Ok(0)
        }
        raw::F_GETFL => Ok(u64::from(file.flags())),
        _ if file.is_path_only() => Err(Errno::EBADF),
        raw::F_SETFL => set_flags(call, &file),
        raw::F_GETPIPE_SZ => Ok(pipe_end(&file)?.size() as u64),
        raw::F_SETPIPE_SZ => set_pipe_size(call, &file),
        raw::F_ADD_SEALS => add_seals(call, &file),
        raw::F_GET_SEALS => {
            let seals = file.vnode().seals().ok_or(Errno::EINVAL)?;
            Ok(u64::from(seals.bits()))
        }
        raw::F_GETLK => report_lock(call, &file, posix_owner(call.task)),
        raw::F_SETLK => set_lock(call, &file, posix_owner(call.task), OnConflict::Fail),
        raw::F_SETLKW => set_lock(call, &file, posix_owner(call.task), OnConflict::Wait),
        F_OFD_GETLK => report_lock(call, &file, description_owner(call, &file)?),
        F_OFD_SETLK => set_lock(call, &file, description_owner(call, &file)?, OnConflict::Fail),
        F_OFD_SETLKW => set_lock(call, &file, description_owner(call, &file)?, OnConflict::Wait),
        // Leases do not exist.
        raw::F_GETLEASE => Ok(u64::from(raw::F_UNLCK)),
        raw::F_SETLEASE => refuse_lease(call, &file),
        raw::F_GET_RW_HINT => {
            let hint = file.vnode().write_hint().load(Ordering::Relaxed);
            call.memory.write(call.word(2), &u64::from(hint)).map(|()| 0)
        }
        raw::F_SET_RW_HINT => set_write_hint(call, &file),
        raw::F_NOTIFY => notify::set(call.task, &file, fd, call.uint(2)).map(|()| 0),
        command => async_owner::control(call, &file, command),
    }
}

/// Refuses a lease with the error for a file that another process has open.
fn refuse_lease(call: &Call<'_>, file: &OpenFile) -> Result<u64, Errno> {
    let who = call.task.credentials();
    let is_theirs = file.vnode().owner().0 == who.user.fs;
    if !is_theirs && !who.has(Capabilities::LEASE) {
        return Err(Errno::EACCES);
    }
    let is_kind = matches!(call.uint(2), raw::F_RDLCK | raw::F_WRLCK | raw::F_UNLCK);
    Err(if is_kind && file.vnode().is_regular() { Errno::EAGAIN } else { Errno::EINVAL })
}

/// Records the expected lifetime of written data, which is only reported again.
fn set_write_hint(call: &Call<'_>, file: &OpenFile) -> Result<u64, Errno> {
    let hint: u64 = call.memory.read(call.word(2))?;
    let is_known = hint <= u64::from(raw::RWH_WRITE_LIFE_EXTREME);
    let hint = u8::try_from(hint).ok().filter(|_| is_known).ok_or(Errno::EINVAL)?;
    if !vfs::permission::is_owner(file.vnode(), &call.task.credentials()) {
        return Err(Errno::EPERM);
    }
    file.vnode().write_hint().store(hint, Ordering::Relaxed);
    Ok(0)
}

fn duplicate(call: &Call<'_>, file: Arc<OpenFile>, on_exec: OnExec) -> Result<u64, Errno> {
    let limit = descriptor_limit(call.task);
    let lowest = usize::try_from(call.int(2)).map_err(|_| Errno::EINVAL)?;
    if lowest >= limit {
        return Err(Errno::EINVAL);
    }
    if lowest == 0 {
        return install(call.task, file, on_exec);
    }
    call.files.insert_from(file, lowest, limit, on_exec)
}

fn set_flags(call: &Call<'_>, file: &OpenFile) -> Result<u64, Errno> {
    let flags = call.uint(2);
    let gains_silence = flags & raw::O_NOATIME != 0 && file.flags() & raw::O_NOATIME == 0;
    if gains_silence && !vfs::permission::is_owner(file.vnode(), &call.task.credentials()) {
        return Err(Errno::EPERM);
    }
    let is_packet = file.vnode().file_type() == FileType::Fifo;
    if flags & raw::O_DIRECT != 0 && !is_packet && !file.file().can_be_direct() {
        return Err(Errno::EINVAL);
    }
    let before = file.flags();
    // A file that sends no signals keeps the flag that open gave it.
    let kept = if is_signal_driven(file) { 0 } else { raw::FASYNC };
    file.set_flags(flags & !kept | before & kept);
    async_owner::flag_changed(file, call.int(0), before)?;
    if let Some(end) = file.file().as_any().downcast_ref::<End>() {
        end.flags_changed(file.flags());
    }
    Ok(0)
}

fn add_seals(call: &Call<'_>, file: &OpenFile) -> Result<u64, Errno> {
    if !file.is_writable() {
        return Err(Errno::EPERM);
    }
    let bits = u8::try_from(call.uint(2)).map_err(|_| Errno::EINVAL)?;
    file.vnode().add_seals(Seals::from_bits(bits).ok_or(Errno::EINVAL)?)?;
    Ok(0)
}

fn pipe_end(file: &OpenFile) -> Result<&End, Errno> {
    let file: &dyn File = file.file().as_ref();
    file.as_any().downcast_ref::<End>().ok_or(Errno::EBADF)
}

fn set_pipe_size(call: &Call<'_>, file: &OpenFile) -> Result<u64, Errno> {
    let end = pipe_end(file)?;
    let bytes = usize::try_from(call.int(2)).map_err(|_| Errno::EINVAL)?;
    Ok(end.set_size(bytes, call.caller())? as u64)
}

fn posix_owner(task: &Task) -> LockOwner {
    LockOwner::Table { table: task.files().id(), process: task.process.id() }
}

fn description_owner(call: &Call<'_>, file: &Arc<OpenFile>) -> Result<LockOwner, Errno> {
    let lock: RawLock = call.memory.read(call.word(2))?;
    if lock.process != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(of_description(call.task, file))
}

fn of_description(task: &Task, file: &Arc<OpenFile>) -> LockOwner {
    LockOwner::Description { file: Arc::downgrade(file), process: task.process.id() }
}

fn kind_of(number: u16) -> Result<LockMode, Errno> {
    match number {
        READ_LOCK => Ok(LockMode::Shared),
        WRITE_LOCK => Ok(LockMode::Exclusive),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns the range of bytes in a `struct flock`.
fn range_of(lock: &RawLock, file: &OpenFile) -> Result<Range, Errno> {
    let from = match u32::from(lock.whence) {
        raw::SEEK_SET => 0,
        raw::SEEK_CUR => file.offset(),
        raw::SEEK_END => file.file().size(),
        _ => return Err(Errno::EINVAL),
    };
    let from = i64::try_from(from).map_err(|_| Errno::EOVERFLOW)?;
    let start = from.checked_add(lock.start).ok_or(Errno::EOVERFLOW)?;
    let (first, last) = match lock.length {
        0 => (start, i64::MAX),
        1.. => (start, start.checked_add(lock.length - 1).ok_or(Errno::EOVERFLOW)?),
        _ => (start.checked_add(lock.length).ok_or(Errno::EINVAL)?, start - 1),
    };
    let first = u64::try_from(first).map_err(|_| Errno::EINVAL)?;
    let last = u64::try_from(last).map_err(|_| Errno::EINVAL)?;
    Ok(Range { first, last })
}

/// Checks that the caller may write the file, as its label has it: a lock is seen by all that may lock the file (K1).
fn check_locking(call: &Call<'_>, file: &OpenFile) -> Result<(), Errno> {
    file.vnode().admit(&call.task.credentials(), ObjectAccess::Write)
}

fn set_lock(
    call: &Call<'_>,
    file: &Arc<OpenFile>,
    owner: LockOwner,
    on_conflict: OnConflict,
) -> Result<u64, Errno> {
    let lock: RawLock = call.memory.read(call.word(2))?;
    let range = range_of(&lock, file)?;
    let locks = FileLocks::of(file.vnode())?;
    if lock.kind == UNLOCK {
        locks.unlock(LockWorld::Records, &owner, range);
        return Ok(0);
    }
    let kind = kind_of(lock.kind)?;
    let may = if kind == LockMode::Shared { file.is_readable() } else { file.is_writable() };
    if !may {
        return Err(Errno::EBADF);
    }
    check_locking(call, file)?;
    flows::writes(|| file.vnode().known_label());
    locks.lock(LockWorld::Records, &owner, kind, range, on_conflict)?;
    Ok(0)
}

fn report_lock(call: &Call<'_>, file: &Arc<OpenFile>, owner: LockOwner) -> Result<u64, Errno> {
    let memory = call.memory;
    let mut lock: RawLock = memory.read(call.word(2))?;
    let range = range_of(&lock, file)?;
    let kind = kind_of(lock.kind)?;
    match FileLocks::of(file.vnode())?.conflict(LockWorld::Records, &owner, kind, range) {
        None => lock.kind = UNLOCK,
        Some(held) => {
            let is_shared = held.kind == LockMode::Shared;
            let ends_with_file = held.range.last == Range::ALL.last;
            lock.kind = if is_shared { READ_LOCK } else { WRITE_LOCK };
            lock.whence = raw::SEEK_SET as u16;
            lock.start = held.range.first as i64;
            let length = held.range.last.wrapping_sub(held.range.first).wrapping_add(1);
            lock.length = if ends_with_file { 0 } else { length as i64 };
            lock.process = held.owner.process();
        }
    }
    memory.write(call.word(2), &lock)?;
    Ok(0)
}

/// LOCK_MAND, a flag of locks that Linux had and never enforced: any command with it has no effect.
const MANDATORY: u32 = 32;

fn flock(call: &mut Call<'_>) -> Result<u64, Errno> {
    let command = call.uint(1);
    if command & MANDATORY != 0 {
        return Ok(0);
    }
    // The operation is checked before the descriptor.
    if !matches!(command & !raw::LOCK_NB, raw::LOCK_SH | raw::LOCK_EX | raw::LOCK_UN) {
        return Err(Errno::EINVAL);
    }
    let file = call.working_file(0)?;
    let is_waiting = command & raw::LOCK_NB == 0;
    let on_conflict = if is_waiting { OnConflict::Wait } else { OnConflict::Fail };
    let owner = of_description(call.task, &file);
    let locks = FileLocks::of(file.vnode())?;
    let kind = match command & !raw::LOCK_NB {
        raw::LOCK_SH => LockMode::Shared,
        raw::LOCK_EX => LockMode::Exclusive,
        raw::LOCK_UN => {
            locks.unlock(LockWorld::Whole, &owner, Range::ALL);
            return Ok(0);
        }
        _ => return Err(Errno::EINVAL),
    };
    check_locking(call, &file)?;
    flows::writes(|| file.vnode().known_label());
    locks.lock(LockWorld::Whole, &owner, kind, Range::ALL, on_conflict)?;
    Ok(0)
}
