//! [`Scope`]: on whose behalf names are looked up, held for the length of a call.
use super::context::{FsContext, Places};
use crate::task::Task;
use alloc::sync::Arc;
use vfs::{Caller, Credentials};

/// The objects that a [`Caller`] borrows.
pub struct Scope {
    fs: Arc<FsContext>,
    places: Arc<Places>,
    credentials: Arc<Credentials>,
    process: u32,
    thread: u32,
}

impl Scope {
    /// The task as it is now.
    #[inline]
    pub fn of(task: &Task) -> Scope {
        let fs = task.fs();
        Scope {
            places: fs.places(),
            fs,
            credentials: task.credentials(),
            process: task.process.id(),
            thread: task.id(),
        }
    }
    /// As access(2) looks at files: with the real ids.
    pub fn with_real_ids(mut self) -> Scope {
        self.credentials = Arc::new(self.credentials.with_real_ids());
        self
    }
    /// The credentials of the task.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }
    /// Root and working directory, mask and the mounts.
    pub fn fs(&self) -> &FsContext {
        &self.fs
    }
    /// For walks and operations.
    pub fn caller(&self) -> Caller<'_> {
        Caller {
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
