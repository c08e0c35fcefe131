//! Descriptors of new files: [`install`].
use super::{
    anonymous::EventKind,
    slots::OnExec,
    table::{DescriptorTable, ReservedDescriptor},
};
use crate::task::Task;
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use vfs::{Errno, OpenFile, file::File};

/// Returns the most descriptors that the task may have (`RLIMIT_NOFILE`).
pub fn descriptor_limit(task: &Task) -> usize {
    task.process.limits.open_files()
}

/// Reserves the lowest free descriptor.
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
#[inline]
pub fn reserve<'a>(
    task: &Task,
    files: &'a DescriptorTable,
    on_exec: OnExec,
) -> Result<ReservedDescriptor<'a>, Errno> {
    files.reserve(descriptor_limit(task), on_exec)
}

/// Puts `file` at the lowest free descriptor.
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
#[inline]
pub fn install(task: &Task, file: Arc<OpenFile>, on_exec: OnExec) -> Result<u64, Errno> {
    task.files().insert_from(file, 0, descriptor_limit(task), on_exec)
}

/// Opens an event file; `flags` are open(2)'s.
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
pub fn install_anonymous(
    task: &Task,
    file: Arc<dyn File>,
    kind: &EventKind,
    flags: u32,
) -> Result<u64, Errno> {
    let place = kind.place(task.label_of_event_files())?;
    let on_exec = OnExec::from_flag(flags, raw::O_CLOEXEC);
    install(task, OpenFile::new(file, place, flags), on_exec)
}
