//! Locks of single names: several names of one directory are asked for, made and taken away at once.
//!
//! A lookup that asks the file system for a name holds the directory's `contents` lock to read and shares the
//! name; one that makes it or takes it away holds the directory to read as well and has the name alone
//! ([`lock`]). A change of names at two places, or the removal of a directory, holds `contents` of the
//! directories to write, and with it all their names.
//!
//! Names share a fixed number of locks by their hash, over all directories of a file system. So a
//! thread holds one at most, and takes no directory's lock under it.
use crate::tree::{dentry::Dentry, name_cache::Key};
use alloc::sync::Arc;
use rt::sync::{ReadGuard, WriteGuard};

/// A name nobody else looks up in the file system, makes or takes away.
pub(crate) struct LockedName<'a> {
    _name: WriteGuard<'a, ()>,
    _directory: ReadGuard<'a, ()>,
}

/// Has a name of the stored directory `parent` alone.
pub(crate) fn lock<'a>(parent: &'a Arc<Dentry>, key: &Key<'_>) -> LockedName<'a> {
    let directory = parent.vnode();
    let shared = directory.contents().read();
    let name = directory.instance().names().locks().of(key).write();
    LockedName { _name: name, _directory: shared }
}

/// A name others may look up as well, but not make or take away.
pub(crate) struct SharedName<'a> {
    _name: ReadGuard<'a, ()>,
    _directory: ReadGuard<'a, ()>,
}

/// Shares a name of the stored directory `parent`.
pub(crate) fn share<'a>(parent: &'a Arc<Dentry>, key: &Key<'_>) -> SharedName<'a> {
    let directory = parent.vnode();
    let shared = directory.contents().read();
    let name = directory.instance().names().locks().of(key).read();
    SharedName { _name: name, _directory: shared }
}
