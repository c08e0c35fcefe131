//! The calls signalfd and signalfd4.
use super::entry::Entry;
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use objects::poll::SignalFile;
use process::{
    call::Call,
    files::{anonymous::SIGNALFD, install::install_anonymous},
    signal::SignalSet,
};
use vfs::Errno;

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_signalfd, "signalfd", signalfd),
    Entry::whole(raw::__NR_signalfd4, "signalfd4", signalfd4),
];

fn signalfd(call: &mut Call<'_>) -> Result<u64, Errno> {
    open(call, 0)
}

fn signalfd4(call: &mut Call<'_>) -> Result<u64, Errno> {
    open(call, call.uint(3))
}

/// Makes a file, or changes the set of the given one.
fn open(call: &Call<'_>, flags: u32) -> Result<u64, Errno> {
    if call.word(2) != size_of::<SignalSet>() as u64 {
        return Err(Errno::EINVAL);
    }
    let wanted = call.memory.read::<SignalSet>(call.word(1))?;
    if flags & !(raw::O_CLOEXEC | raw::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    if call.int(0) == -1 {
        let file = Arc::new(SignalFile::new(wanted));
        return install_anonymous(call.task, file, &SIGNALFD, raw::O_RDWR | flags);
    }
    let file = call.working_file(0)?;
    let signals = file.file().as_any().downcast_ref::<SignalFile>().ok_or(Errno::EINVAL)?;
    signals.set(wanted, call.task);
    Ok(u64::from(call.uint(0)))
}
