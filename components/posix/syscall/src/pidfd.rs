//! Calls about processes as files: pidfd_open, pidfd_send_signal, pidfd_getfd.
use super::{
    entry::Entry,
    signal::{SignalTarget, check_info, check_permission, decode_signal},
};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use proc::procfs;
use process::{
    Process, Task,
    call::Call,
    files::{OnExec, arrival, install::install},
    pidfd::{self, ProcessFile},
    signal::{
        self,
        info::{self, Info, UserInfo},
    },
    trace::{self, Mode, Target},
    tree,
};
use vfs::{Errno, OpenFile};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_pidfd_open, "pidfd_open", open),
    Entry::whole(raw::__NR_pidfd_send_signal, "pidfd_send_signal", send_signal),
    Entry::whole(raw::__NR_pidfd_getfd, "pidfd_getfd", get_descriptor),
];

/// `PIDFD_NONBLOCK`
const NONBLOCK: u32 = raw::O_NONBLOCK;

/// Returns the process of the pidfd `file`.
///
/// # Errors
/// `EBADF` if it is not a pidfd.
pub fn of(file: &OpenFile) -> Result<&ProcessFile, Errno> {
    file.file().as_any().downcast_ref::<ProcessFile>().ok_or(Errno::EBADF)
}

fn open(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (id, flags) = (call.int(0), call.uint(1));
    if flags & !NONBLOCK != 0 || id <= 0 {
        return Err(Errno::EINVAL);
    }
    match call.task.visible().process(id as u32) {
        Some(process) => pidfd::install(call.task, &process, flags),
        // The id is that of a thread that does not lead a process.
        None if call.task.visible().task(id as u32).is_some() => Err(Errno::EINVAL),
        None => Err(Errno::ESRCH),
    }
}

/// Returns the process of a pidfd or of a directory `/proc/PID`.
fn named(file: &OpenFile) -> Result<Arc<Process>, Errno> {
    match of(file) {
        Ok(file) => file.process().cloned(),
        Err(_) => {
            let node = file.vnode().node().ok_or(Errno::EBADF)?;
            let process = procfs::process_of(node.as_ref()).ok_or(Errno::EBADF)?;
            if tree::is_there(&process) { Ok(process) } else { Err(Errno::ESRCH) }
        }
    }
}

fn send_signal(call: &mut Call<'_>) -> Result<u64, Errno> {
    if call.uint(3) != 0 {
        return Err(Errno::EINVAL);
    }
    let file = call.file(0)?;
    let target = named(&file)?;
    let own = &call.task.process;
    let signal = decode_signal(call.int(1))?;
    let info = match call.word(2) {
        0 => Info::from_process(signal, info::SI_USER, own.id(), call.task.real_user()),
        at => {
            let given = call.memory.read::<UserInfo>(at)?;
            if given.info.signal != call.int(1) {
                return Err(Errno::EINVAL);
            }
            check_info(given, SignalTarget::of(target.id(), own.id()))?
        }
    };
    check_permission(call.task, &target, signal)?;
    if signal != 0 {
        signal::send_to_process(&target, info)?;
    }
    Ok(0)
}

fn get_descriptor(call: &mut Call<'_>) -> Result<u64, Errno> {
    if call.uint(2) != 0 {
        return Err(Errno::EINVAL);
    }
    let file = call.file(0)?;
    let target = of(&file)?.process()?;
    let number = call.int(1);
    let get = |task: &Arc<Task>| task.files().get(number);
    let found = trace::look(call.task, Mode::Real, Target::process(target), get)??;
    let found = arrival::admit(&found, &call.task.credentials())?;
    install(call.task, found, OnExec::Close)
}
