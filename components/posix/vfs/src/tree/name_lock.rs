//! Locks of single names, with which threads look up, make and remove several names of one directory at once.
//!
//! A lookup that asks the file system for a name holds the directory's `contents` lock to read and shares the
//! lock of the name; a thread that makes or removes the name holds the directory to read as well and has the
//! name's lock alone ([`lock`]). A change of names at two places, or the removal of a directory, holds
//! `contents` of the directories to write, and with it all their names.
//!
//! Names share a fixed number of locks by their hash, over all directories of a file system. So a thread
//! holds at most one of them, and takes no directory's lock under it.
use crate::tree::{dentry::Dentry, name_cache::Key};
use alloc::sync::Arc;
use rt::sync::{ReadGuard, WriteGuard};

/// The exclusive lock of a name: no other thread looks the name up in the file system, makes or removes it.
pub(crate) struct LockedName<'a> {
    _name: WriteGuard<'a, ()>,
    _directory: ReadGuard<'a, ()>,
}

/// Locks a name of the stored directory `parent` exclusively.
pub(crate) fn lock<'a>(parent: &'a Arc<Dentry>, key: &Key<'_>) -> LockedName<'a> {
    let directory = parent.vnode();
    let shared = directory.contents().read();
    let name = directory.instance().names().locks().of(key).write();
    LockedName { _name: name, _directory: shared }
}

/// The shared lock of a name: other threads may look the name up as well, but not make or remove it.
pub(crate) struct SharedName<'a> {
    _name: ReadGuard<'a, ()>,
    _directory: ReadGuard<'a, ()>,
}

/// Locks a name of the stored directory `parent` shared.
pub(crate) fn share<'a>(parent: &'a Arc<Dentry>, key: &Key<'_>) -> SharedName<'a> {
    let directory = parent.vnode();
    let shared = directory.contents().read();
    let name = directory.instance().names().locks().of(key).read();
    SharedName { _name: name, _directory: shared }
}
