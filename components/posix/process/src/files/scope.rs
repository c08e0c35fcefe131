//! [`Scope`]: on whose behalf names are looked up, held for the length of a call.
use super::context::{FsContext, Places};
use crate::task::Task;
use alloc::sync::Arc;
use vfs::{Caller, Credentials};

/// The objects that a [`Caller`] borrows.
pub struct Scope<'t> {
    task: &'t Task,
    fs: Arc<FsContext>,
    places: Arc<Places>,
    credentials: Arc<Credentials>,
    process: u32,
    thread: u32,
}

impl<'t> Scope<'t> {
    /// Makes the scope of the task's present state.
    #[inline]
    pub fn of(task: &'t Task) -> Scope<'t> {
        let fs = task.fs();
        Scope {
            task,
            places: fs.places(),
            fs,
            credentials: task.credentials(),
            process: task.process.id(),
            thread: task.id(),
        }
    }
    /// Changes the scope to the real ids, which access(2) uses.
    pub fn with_real_ids(mut self) -> Self {
        self.credentials = Arc::new(self.credentials.with_real_ids());
        self
    }
    /// Returns the credentials of the task.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }
    /// Returns root and working directory, mask and mounts.
    pub fn fs(&self) -> &FsContext {
        &self.fs
    }
    /// Returns the caller for walks and operations.
    pub fn caller(&self) -> Caller<'_> {
        Caller {
            task: self.task,
            namespace: self.fs.namespace(),
            credentials: &self.credentials,
            root: &self.places.root,
            cwd: &self.places.working,
            umask: self.fs.umask(),
            process: self.process,
            thread: self.thread,
        }
    }
}
