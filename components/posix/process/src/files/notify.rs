//! F_NOTIFY of fcntl(2): signals of what happens in a directory. The notes are in [`super::notes`].
use super::{
    notes::{self, IS_ENABLED},
    owner::{SignalOwner, Whom},
};
use crate::task::Task;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as raw;
use vfs::{Errno, OpenFile};

/// Has `task` told by signals of `events` in the directory open as `fd`, beside those asked for before; with none it is told no
/// more.
///
/// # Errors
/// `ENOTDIR`, and `EINVAL` if directory notifications are disabled.
pub fn set(task: &Task, file: &Arc<OpenFile>, fd: i32, events: u32) -> Result<(), Errno> {
    if !IS_ENABLED.load(Relaxed) {
        return Err(Errno::EINVAL);
    }
    let table = task.files().id();
    if events & !raw::DN_MULTISHOT == 0 {
        notes::descriptor_closed(table, file);
        return Ok(());
    }
    if !file.vnode().is_directory() {
        return Err(Errno::ENOTDIR);
    }
    let owner = SignalOwner::of(file)?;
    if owner.whom() == Whom::Nobody {
        owner.set_whom(file, Whom::Process(task.process.id()), task.credentials());
    }
    notes::add(owner, file, (table, fd), events);
    Ok(())
}
