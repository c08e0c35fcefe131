//! [`ProcessFile`]: a process as a file (pidfd_open(2)). It is readable, to poll(2), once the process has ended, and names
//! it for ever: its number may go to another, the file does not.
use crate::{
    files::{OnExec, anonymous::PIDFD, install},
    object::Process,
    task::Task,
    tree,
};
use alloc::{format, string::String, sync::Arc};
use linux_raw_sys::general::{O_CLOEXEC, O_RDWR};
use vfs::{
    Errno, OpenFile, Principal,
    file::{File, Ready},
    poll::PollTable,
};

/// The file of a process.
pub struct ProcessFile(Arc<Process>);

impl ProcessFile {
    /// Makes the file of `process`, which may have ended already.
    pub fn new(process: Arc<Process>) -> ProcessFile {
        ProcessFile(process)
    }
    /// Returns the process.
    ///
    /// # Errors
    /// `ESRCH` if it was waited for.
    pub fn process(&self) -> Result<&Arc<Process>, Errno> {
        if tree::is_there(&self.0) { Ok(&self.0) } else { Err(Errno::ESRCH) }
    }
}

/// Puts a file of `process` at the lowest free descriptor, closed on exec.
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
pub fn install(task: &Task, process: &Arc<Process>, flags: u32) -> Result<u64, Errno> {
    install::install(task, open(task, process, flags)?, OnExec::Close)
}

/// Opens a file of `process` for `task`.
///
/// # Errors
/// `ENOMEM`.
pub fn open(task: &Task, process: &Arc<Process>, flags: u32) -> Result<Arc<OpenFile>, Errno> {
    let place = PIDFD.place(task.label_of_event_files())?;
    let file = Arc::new(ProcessFile::new(process.clone()));
    Ok(OpenFile::new(file, place, O_RDWR | O_CLOEXEC | flags))
}

impl File for ProcessFile {
    fn lacks_read(&self) -> bool {
        true
    }
    fn lacks_write(&self) -> bool {
        true
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.0.end);
        }
        let mut ready = Ready::empty();
        ready.set(Ready::IN | Ready::READ_NORMAL, self.0.ended().is_some());
        ready
    }
    fn details(&self) -> String {
        let id = self.process().map_or(-1, |process| i64::from(process.id()));
        format!("Pid:\t{id}\nNSpid:\t{id}\n")
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
