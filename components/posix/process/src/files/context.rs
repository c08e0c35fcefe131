//! [`FsContext`]: root, working directory and file creation mask, shared by `CLONE_FS`.
//!
//! A context counts the tasks that use it ([`super::FsHold`]). execve compares the number with that of its own threads:
//! a program gets no rights of its file while another process could move its directories ([`super::FsExec`]).
use super::sharing::Users;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU16, Ordering};
use rt::{lock_class, sync::RwLock};
use vfs::{Namespace, Path};

lock_class! {
    static CONTEXT = "files.context";
}

/// Root directory, working directory and file creation mask of the tasks that share the context.
pub struct FsContext {
    namespace: Arc<Namespace>,
    places: RwLock<Arc<Places>>,
    umask: AtomicU16,
    users: Users,
}

/// The two directories of a context at one moment.
#[derive(Clone)]
pub struct Places {
    /// The directory of `/`, which `..` does not leave.
    pub root: Path,
    /// The working directory.
    pub working: Path,
}

impl FsContext {
    /// Makes a context whose root and working directory are the namespace's root.
    pub fn new(namespace: Arc<Namespace>) -> FsContext {
        let root = namespace.root();
        let places = Arc::new(Places { working: root.clone(), root });
        FsContext {
            namespace,
            places: RwLock::new(&CONTEXT, places),
            umask: AtomicU16::new(0o022),
            users: Users::default(),
        }
    }
    /// Returns the namespace: the mounts that the tasks see.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }
    /// Returns the count of tasks that use it.
    pub(super) fn users(&self) -> &Users {
        &self.users
    }
    /// Makes a copy, for fork.
    pub fn duplicate(&self) -> FsContext {
        FsContext {
            namespace: self.namespace.clone(),
            places: RwLock::new(&CONTEXT, self.places()),
            umask: AtomicU16::new(self.umask()),
            users: Users::default(),
        }
    }
    /// Returns root and working directory.
    pub fn places(&self) -> Arc<Places> {
        self.places.read().clone()
    }
    /// Returns the root.
    pub fn root(&self) -> Path {
        self.places.read().root.clone()
    }
    /// The working directory.
    pub fn working(&self) -> Path {
        self.places.read().working.clone()
    }
    /// Changes the working directory.
    pub fn set_working(&self, directory: Path) {
        self.change(|places| Places { root: places.root.clone(), working: directory });
    }
    /// Changes the root.
    pub fn set_root(&self, directory: Path) {
        self.change(|places| Places { root: directory, working: places.working.clone() });
    }
    /// Changes root and working directory to `new` if they are `old` (pivot_root).
    pub fn follow_root(&self, old: &Path, new: &Path) {
        let follow = |at: &Path| if at.is_same(old) { new.clone() } else { at.clone() };
        self.change(|places| Places {
            root: follow(&places.root),
            working: follow(&places.working),
        });
    }
    fn change(&self, change: impl FnOnce(&Places) -> Places) {
        let mut places = self.places.write();
        let after = Arc::new(change(&places));
        let before = core::mem::replace(&mut *places, after);
        drop(places);
        drop(before);
    }
    /// Returns the permissions that new files do not get.
    pub fn umask(&self) -> u16 {
        self.umask.load(Ordering::Relaxed)
    }
    /// Sets the mask (nine bits); returns the previous one.
    pub fn set_umask(&self, mask: u16) -> u16 {
        self.umask.swap(mask & 0o777, Ordering::Relaxed)
    }
}
