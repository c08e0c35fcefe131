//! Removing names: unlink and rmdir.
use crate::{
    base::{errno::Errno, observers::Events, time},
    tree::{
        dentry::{Dentry, EndOf},
        mount::Path,
        name_cache::Key,
        name_lock, notify,
        vnode::Vnode,
    },
    walk::{
        caller::{Base, Caller, lookup_locked},
        permission,
        uses::{self, ChangeKind, NameChange},
        walker::{Last, Parent},
    },
};
use alloc::sync::Arc;
use interfaces::file_system::FileTime;

impl Caller<'_> {
    /// Removes the name of a file that is not a directory (unlink(2)).
    ///
    /// # Errors
    /// Those of unlink(2): `EISDIR` for a directory, `EBUSY` for a mount point ...
    pub fn unlink(&self, base: Base<'_>, path: &[u8]) -> Result<(), Errno> {
        let parent = self.walk_parent(base, path)?;
        let Last::Name(name) = &parent.last else { return Err(Errno::EISDIR) };
        let directory = parent.path.vnode();
        if directory.node().is_some_and(|node| node.can_change()) {
            return self.unlink_generated(&parent, name);
        }
        self.check_stored(&parent.path, name, Victim::Other)?;
        let key = parent.path.dentry.key(name);
        let locked = name_lock::lock(&parent.path.dentry, &key);
        let victim = lookup_locked(&parent.path.dentry, &key)?.ok_or(Errno::ENOENT)?;
        let is_directory = victim.vnode().is_directory();
        if parent.has_slash {
            return Err(if is_directory { Errno::EISDIR } else { Errno::ENOTDIR });
        }
        if victim.is_marked() && self.misses(&victim) {
            return Err(Errno::ENOENT);
        }
        tell_removal(self, (directory, name), victim.vnode());
        permission::check_remove(directory, victim.vnode(), self.credentials)?;
        if is_directory {
            return Err(Errno::EISDIR);
        }
        if victim.is_mount_point() {
            return Err(Errno::EBUSY);
        }
        let (instance, now) = (directory.instance(), time::now());
        if instance.is_kept() {
            drop_name(directory, &key, &victim, now);
        } else {
            instance.file_system()?.unlink(directory.inode(), name, now)?;
            forget_name(directory, &key, name.clone(), &victim);
        }
        drop(locked);
        notify::about_vnode(victim.vnode(), Events::ATTRIBUTES);
        self.tell_removed(directory, name, victim);
        Ok(())
    }
    /// Removes an empty directory (rmdir(2)).
    ///
    /// # Errors
    /// Those of rmdir(2).
    pub fn remove_directory(&self, base: Base<'_>, path: &[u8]) -> Result<(), Errno> {
        let parent = self.walk_parent(base, path)?;
        let name = match &parent.last {
            Last::Name(name) => name,
            Last::Dot => return Err(Errno::EINVAL),
            Last::DotDot => return Err(Errno::ENOTEMPTY),
            Last::Root => return Err(Errno::EBUSY),
        };
        let directory = parent.path.vnode();
        self.check_stored(&parent.path, name, Victim::Directory)?;
        let key = parent.path.dentry.key(name);
        let names = directory.contents().write();
        let victim = lookup_locked(&parent.path.dentry, &key)?.ok_or(Errno::ENOENT)?;
        if victim.is_marked() && self.misses(&victim) {
            return Err(Errno::ENOENT);
        }
        tell_removal(self, (directory, name), victim.vnode());
        permission::check_remove(directory, victim.vnode(), self.credentials)?;
        if !victim.vnode().is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if victim.is_mount_point() {
            return Err(Errno::EBUSY);
        }
        let inside = victim.vnode().contents().write();
        let (instance, now) = (directory.instance(), time::now());
        if instance.is_kept() {
            if !victim.vnode().names().lock().is_empty() {
                return Err(Errno::ENOTEMPTY);
            }
            drop_name(directory, &key, &victim, now);
        } else {
            instance.file_system()?.remove_directory(directory.inode(), name, now)?;
            forget_name(directory, &key, name.clone(), &victim);
        }
        victim.vnode().set_dead();
        drop(inside);
        drop(names);
        self.tell_removed(directory, name, victim);
        Ok(())
    }
    /// Does the same as [`Caller::unlink`] in a generated directory in which programs make and
    /// remove names.
    fn unlink_generated(&self, parent: &Parent, name: &[u8]) -> Result<(), Errno> {
        parent.path.mount.check_writable()?;
        let directory = parent.path.vnode();
        let victim = self.lookup(&parent.path.dentry, name)?.ok_or(Errno::ENOENT)?;
        if parent.has_slash {
            return Err(Errno::ENOTDIR);
        }
        tell_removal(self, (directory, name), victim.vnode());
        permission::check_remove(directory, victim.vnode(), self.credentials)?;
        directory.node().ok_or(Errno::ENOENT)?.remove(name, self.task)?;
        notify::about_name(directory, name, victim.vnode(), Events::DELETE);
        Ok(())
    }
    /// Reports to observers that a name was removed; if its file ends with it, that is reported first.
    fn tell_removed(&self, directory: &Vnode, name: &[u8], victim: Arc<Dentry>) {
        let vnode = victim.vnode().clone();
        victim.tell_end(EndOf::SeenUse);
        drop(victim);
        notify::about_name(directory, name, &vnode, Events::DELETE);
        vnode.release_for(self.task);
    }
    /// Checks that the directory can be written; no name of a generated directory can be removed.
    fn check_stored(&self, directory: &Path, name: &[u8], wanted: Victim) -> Result<(), Errno> {
        directory.mount.check_writable()?;
        let Some(node) = directory.vnode().node() else { return Ok(()) };
        let found = self.lookup(&directory.dentry, name)?.ok_or(Errno::ENOENT)?;
        // Directories of processes are immutable on Linux, which is checked first.
        let is_fixed = node.subject().is_some();
        Err(match (wanted, found.vnode().is_directory()) {
            _ if is_fixed => Errno::EPERM,
            (Victim::Other, true) => Errno::EISDIR,
            (Victim::Directory, false) => Errno::ENOTDIR,
            _ => Errno::EPERM,
        })
    }
}

/// Tells audit of a name that is to be removed.
#[inline]
pub(super) fn tell_removal(caller: &Caller<'_>, (directory, name): (&Vnode, &[u8]), vnode: &Vnode) {
    uses::tell_change(
        caller.task,
        NameChange { kind: ChangeKind::Removed, directory, name, vnode },
    );
}

/// The kind of file that a call removes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Directory,
    Other,
}

/// Updates caches after the name of `victim` was removed; the name is still locked.
fn forget_name(directory: &Vnode, key: &Key<'_>, name: Arc<[u8]>, victim: &Dentry) {
    directory.instance().names().insert(key, name, None);
    drop_victim(victim);
    directory.outdate();
}

/// Marks a dentry as removed, and updates the attributes of its inode.
pub(super) fn drop_victim(victim: &Dentry) {
    victim.set_deleted();
    let vnode = victim.vnode();
    if vnode.refresh() == 0 {
        vnode.instance().flusher().loosen(vnode);
    }
}

/// Removes the name of `victim`, which is in the caches only.
fn drop_name(directory: &Vnode, key: &Key<'_>, victim: &Dentry, now: FileTime) {
    directory.instance().names().remove(key);
    match victim.is_hidden() {
        false => directory.drop_name(victim, now),
        true => directory.names().lock().remove(victim.position()),
    }
    victim.set_deleted();
    victim.vnode().lose_name(now);
}
