//! ioctl: the requests that every file supports, then those of its kind.
use super::{async_owner, entry::Entry, extents, network_ioctl};
use alloc::sync::Arc;
use interfaces::{block::SECTOR_BYTES, file_system::FileType};
use linux_raw_sys::{general as raw, ioctl as request};
use objects::{
    devices::{BlockFile, MemoryDevice, tunnel::TunnelFile},
    inotify::Inotify,
    pipe::End,
    socket::{self, Socket},
    tty::{Stream, TerminalFile, pty::Master},
};
use process::{
    call::Call,
    files::{OnExec, Scope},
    seccomp::listener::Listener,
};
use vfs::{Errno, OpenFile};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[Entry::partial(
    raw::__NR_ioctl,
    "ioctl",
    "requests of terminals, pipes, sockets, tunnels, regular files, block devices and listeners of seccomp only",
    ioctl,
)];

fn ioctl(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    let (command, argument) = (call.uint(1), call.word(2));
    let (files, fd) = (call.files, call.int(0));
    match command {
        request::FIOCLEX => files.set_on_exec(fd, OnExec::Close)?,
        request::FIONCLEX => files.set_on_exec(fd, OnExec::Keep)?,
        request::FIONBIO => {
            let is_on = call.memory.read::<u32>(argument)? != 0;
            let rest = file.flags() & !raw::O_NONBLOCK;
            file.set_flags(if is_on { rest | raw::O_NONBLOCK } else { rest });
        }
        request::FS_IOC_FIEMAP => return extents::map(call, &file, argument),
        request::FIGETBSZ => {
            call.memory.write(argument, &file.vnode().instance().info().block_bytes)?;
        }
        request::FIOQSIZE if has_names(&file) => {
            let bytes = file.vnode().attributes().blocks * SECTOR_BYTES as u64;
            call.memory.write(argument, &bytes)?;
        }
        _ => {
            if let Some(answer) = async_owner::request(call, &file, command, argument)? {
                return Ok(answer);
            }
            return ioctl_kind(call, &file, command, argument);
        }
    }
    Ok(0)
}

/// Flags with the numbers of FS_IOC_GETFLAGS, and with those of FS_IOC_FSGETXATTR: immutable, append, sync, noatime,
/// nodump.
const XFS_FLAGS: [(u32, u32); 5] =
    [(0x10, 0x8), (0x20, 0x10), (0x8, 0x20), (0x80, 0x40), (0x40, 0x80)];

fn has_names(file: &OpenFile) -> bool {
    let file_type = file.vnode().file_type();
    matches!(file_type, FileType::Regular | FileType::Directory | FileType::Symlink)
}

fn ioctl_kind(call: &Call<'_>, file: &OpenFile, command: u32, argument: u64) -> Result<u64, Errno> {
    let kind = file.file().as_any();
    let memory = call.memory;
    if let Some(terminal) = kind.downcast_ref::<TerminalFile>() {
        return terminal.ioctl(call.task, command, argument);
    }
    if let Some(master) = kind.downcast_ref::<Master>() {
        return master.ioctl(call.task, command, argument);
    }
    if let Some(listener) = kind.downcast_ref::<Listener>() {
        return listener.ioctl(call.task, command, argument);
    }
    if let Some(disk) = kind.downcast_ref::<BlockFile>() {
        return disk.ioctl(call.task, memory, command, argument);
    }
    if let Some(device) = kind.downcast_ref::<MemoryDevice>() {
        return device.ioctl(call.task, memory, command, argument);
    }
    if let Some(tunnel) = kind.downcast_ref::<TunnelFile>() {
        return tunnel.ioctl(call.task, memory, command, argument);
    }
    if let Some(socket) = socket::of(file) {
        return ioctl_socket(call, socket, command, argument);
    }
    if matches!(command, request::FIFREEZE | request::FITHAW) {
        let is_administrator = call.task.credentials().has(vfs::Capabilities::SYS_ADMIN);
        return Err(if is_administrator { Errno::EOPNOTSUPP } else { Errno::EPERM });
    }
    if matches!(command, request::FICLONE | request::FICLONERANGE | request::FIDEDUPERANGE) {
        return share_blocks(call, file, command, argument);
    }
    if file.vnode().is_regular() || file.vnode().is_directory() {
        match command {
            request::FS_IOC_GETFLAGS => return get_flags(call, file, argument),
            request::FS_IOC_SETFLAGS => return set_flags(call, file, argument),
            request::FS_IOC_FSGETXATTR => return get_more_flags(call, file, argument),
            // No file system reports its blocks.
            request::FIBMAP if file.vnode().is_regular() => {
                let may_ask = call.task.credentials().has(vfs::Capabilities::SYS_RAWIO);
                return Err(if may_ask { Errno::EINVAL } else { Errno::EPERM });
            }
            _ => {}
        }
    }
    let readable = if let Some(end) = kind.downcast_ref::<End>() {
        end.readable_bytes() as u64
    } else if let Some(inotify) = kind.downcast_ref::<Inotify>() {
        inotify.readable_bytes() as u64
    } else if let Some(stream) = kind.downcast_ref::<Stream>() {
        stream.readable_bytes() as u64
    } else if file.vnode().is_regular() && file.file().is_seekable() {
        file.file().size().saturating_sub(file.offset())
    } else {
        return Err(Errno::ENOTTY);
    };
    match command {
        request::FIONREAD => memory.write(argument, &(readable.min(i32::MAX as u64) as u32))?,
        _ => return Err(Errno::ENOTTY),
    }
    Ok(0)
}

fn ioctl_socket(
    call: &Call<'_>,
    socket: &dyn Socket,
    command: u32,
    argument: u64,
) -> Result<u64, Errno> {
    let count = match command {
        request::FIONREAD => socket.readable_bytes()?,
        request::TIOCOUTQ => socket.unsent_bytes()?,
        command => match network_ioctl::request(call, socket, command, argument)? {
            Some(answer) => return Ok(answer),
            None => socket.request(command)? as usize,
        },
    };
    call.memory.write(argument, &(count.min(i32::MAX as usize) as u32)).map(|()| 0)
}

/// Answers FICLONE, FICLONERANGE (ioctl_ficlone(2)) and FIDEDUPERANGE: no file system here shares blocks, which is
/// reported after other errors.
fn share_blocks(
    call: &Call<'_>,
    file: &OpenFile,
    command: u32,
    argument: u64,
) -> Result<u64, Errno> {
    let source = match command {
        request::FICLONE => argument as i32,
        request::FICLONERANGE => call.memory.read::<i64>(argument)? as i32,
        _ => {
            call.memory.read::<[u64; 3]>(argument)?;
            check_shareable(file)?;
            return Err(Errno::EOPNOTSUPP);
        }
    };
    let source = call.files.get(source)?;
    if !Arc::ptr_eq(source.vnode().instance(), file.vnode().instance()) {
        return Err(Errno::EXDEV);
    }
    check_shareable(&source)?;
    check_shareable(file)?;
    if !source.is_readable() || !file.is_writable() || file.flags() & raw::O_APPEND != 0 {
        return Err(Errno::EBADF);
    }
    Err(Errno::EOPNOTSUPP)
}

fn check_shareable(file: &OpenFile) -> Result<(), Errno> {
    if file.vnode().is_directory() {
        return Err(Errno::EISDIR);
    }
    if file.vnode().is_regular() { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Inode flags that are shown to programs.
const FLAGS_VISIBLE: u32 = 0x705b_dfff;

fn get_flags(call: &Call<'_>, file: &OpenFile, argument: u64) -> Result<u64, Errno> {
    if file.vnode().node().is_some() {
        return Err(Errno::ENOTTY);
    }
    call.memory.write(argument, &(file.vnode().attributes().flags & FLAGS_VISIBLE))?;
    Ok(0)
}

/// Answers FS_IOC_FSGETXATTR: the same flags with the numbers of XFS. `struct fsxattr`: flags, hints, extents, project.
fn get_more_flags(call: &Call<'_>, file: &OpenFile, argument: u64) -> Result<u64, Errno> {
    if file.vnode().node().is_some() {
        return Err(Errno::ENOTTY);
    }
    let flags = file.vnode().attributes().flags;
    let of_flag = |(theirs, ours): (u32, u32)| if flags & theirs != 0 { ours } else { 0 };
    let flags = XFS_FLAGS.into_iter().map(of_flag).sum::<u32>();
    call.memory.write(argument, &[flags, 0, 0, 0, 0, 0, 0])?;
    Ok(0)
}

fn set_flags(call: &Call<'_>, file: &OpenFile, argument: u64) -> Result<u64, Errno> {
    if file.vnode().node().is_some() {
        return Err(Errno::ENOTTY);
    }
    let flags = call.memory.read::<u32>(argument)?;
    Scope::of(call.task).caller().set_flags(file.path(), flags)?;
    Ok(0)
}
