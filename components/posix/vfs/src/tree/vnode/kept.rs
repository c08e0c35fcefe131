//! Inodes that exist in the caches only ([`Backing::Cache`]): the vnode is the inode, its dentries keep it, and its file
//! system only counts it against its limits.
//!
//! A name exists while its directory's [`Names`] hold its dentry. A thread that makes, moves or removes a name holds the
//! locks that it would hold for a call to a file system on storage.
//!
//! [`Backing::Cache`]: interfaces::file_system::Backing::Cache
//!
//! [`Backing::Cache`]: interfaces::file_system::Backing::Cache
use super::{Vnode, VnodeState, attributes::overlay};
use crate::{
    base::errno::Errno,
    pages::cache::PageCache,
    tree::{dentry::Dentry, instance::Instance, names::Names},
};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use interfaces::file_system::{
    AclChange, AttributeChange, Attributes, FileSystem, FileTime, FileType, FsError, NewInode,
    TakeEntry, XattrMode,
};
use rt::{memory::Charge, sync::Mutex};

/// The size that `stat` shows for each name, as on Linux, which counts `.` and `..` too.
const NAME_BYTES: u64 = 20;
/// Inode flags that are supported, as by Linux's tmpfs: immutable, append only, no dump, no access time.
const FLAGS: u32 = 0xf0;
/// Heap bytes of an inode, with the allocator's overhead.
const VNODE_BYTES: usize = size_of::<Vnode>() + 32;
const PAGES_BYTES: usize = size_of::<PageCache>() + 32;

/// A change of the number of names of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    More,
    Fewer,
}

impl Vnode {
    /// Makes the root of a file system in memory, which its mount holds.
    ///
    /// # Errors
    /// The error of the file system; `ENOMEM`.
    pub(crate) fn kept_root(
        instance: &Arc<Instance>,
        known: Attributes,
    ) -> Result<Arc<Vnode>, Errno> {
        let known = Attributes { size: 2 * NAME_BYTES, ..known };
        let charge = Charge::take(VNODE_BYTES)?;
        let root = Vnode::make(instance, known, (None, None), (None, charge));
        root.set_uncounted();
        Ok(Arc::new(root))
    }
    /// Makes a new inode in memory that has `names` names.
    ///
    /// # Errors
    /// `ENOSPC`, `ENOMEM`.
    pub(crate) fn kept(
        instance: &Arc<Instance>,
        new: &NewInode<'_>,
        names: u32,
    ) -> Result<Arc<Vnode>, Errno> {
        let is_regular = new.file_type == FileType::Regular;
        let pages_bytes = if is_regular { PAGES_BYTES } else { 0 };
        let charge = Charge::take(VNODE_BYTES + pages_bytes + new.target.len())?;
        let fs = instance.file_system()?;
        let mut known = Attributes::new(fs.new_inode(new)?, new);
        match new.file_type {
            FileType::Directory => known.size = 2 * NAME_BYTES,
            _ => known.links = names,
        }
        let pages = is_regular
            .then(|| PageCache::new(fs, instance.info().backing, instance.throttle(), &known));
        let target = (new.file_type == FileType::Symlink).then(|| Arc::from(new.target));
        instance.count_kept();
        Ok(Arc::new(Vnode::make(instance, known, (None, pages), (target, charge))))
    }
    /// Called when the vnode ends: releases its space.
    pub(super) fn end_kept(&self) {
        if let Some(pages) = &self.pages {
            pages.release();
        }
        if self.counts.load(Ordering::Relaxed) > 0 {
            self.instance.release_kept(self.inode);
        }
    }
    /// Returns the names of a directory in memory.
    pub(crate) fn names(&self) -> &Mutex<Names> {
        &self.names
    }
    /// Adds a name of this directory.
    ///
    /// # Errors
    /// `ENOMEM`, without a change.
    pub(crate) fn keep_name(&self, name: &Arc<Dentry>, now: FileTime) -> Result<(), Errno> {
        self.names.lock().insert(name)?;
        self.note_name(name.vnode(), Count::More, now);
        Ok(())
    }
    /// Drops a name of this directory that the caller holds.
    pub(crate) fn drop_name(&self, name: &Dentry, now: FileTime) {
        self.drop_name_at(name.position(), name, now);
    }
    /// Does the same as [`Vnode::drop_name`] for a file that has another name, too.
    pub(crate) fn drop_name_at(&self, position: u64, name: &Dentry, now: FileTime) {
        self.names.lock().remove(position);
        self.note_name(name.vnode(), Count::Fewer, now);
    }
    /// Puts `new` in the place of `old` in this directory; the caller holds both.
    pub(crate) fn replace_name(
        &self,
        position: u64,
        old: &Dentry,
        new: &Arc<Dentry>,
        now: FileTime,
    ) {
        self.names.lock().replace(position, new);
        self.note_name(old.vnode(), Count::Fewer, now);
        self.note_name(new.vnode(), Count::More, now);
    }
    /// Passes the names of this directory after `position` to `take`.
    pub(crate) fn read_names(&self, position: u64, take: &mut TakeEntry<'_>) {
        self.names.lock().read(position, take);
    }
    /// Records that a name of `what` was added to this directory or removed from it.
    #[inline]
    fn note_name(&self, what: &Vnode, count: Count, now: FileTime) {
        let mut state = self.state.lock();
        let known = &mut state.known;
        let subdirectories = u32::from(what.is_directory());
        match count {
            Count::More => {
                known.size += NAME_BYTES;
                known.links = known.links.saturating_add(subdirectories);
            }
            Count::Fewer => {
                known.size = known.size.saturating_sub(NAME_BYTES);
                known.links = known.links.saturating_sub(subdirectories);
            }
        }
        (known.modified, known.changed) = (now, now);
        self.end_change(state);
    }
    fn end_change(&self, state: rt::sync::MutexGuard<'_, VnodeState>) {
        self.access_due_ns.store(0, Ordering::Relaxed);
        drop(state);
    }
    /// Counts another name of the inode.
    ///
    /// # Errors
    /// `ENOENT` if it has lost its last name, `EMLINK`, `ENOSPC`.
    pub(crate) fn gain_name(&self, now: FileTime) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let known = &mut state.known;
        if known.links == 0 && !self.is_linkable.load(Ordering::Acquire) {
            return Err(Errno::ENOENT);
        }
        let links = known.links.checked_add(1).ok_or(Errno::EMLINK)?;
        if known.links > 0 {
            self.instance.file_system()?.reserve_link(self.inode)?;
        }
        (known.links, known.changed) = (links, now);
        self.end_change(state);
        Ok(())
    }
    /// Counts the loss of a name.
    pub(crate) fn lose_name(&self, now: FileTime) {
        let mut state = self.state.lock();
        let known = &mut state.known;
        known.links = if self.is_directory() { 0 } else { known.links.saturating_sub(1) };
        known.changed = now;
        let has_others = known.links > 0;
        self.end_change(state);
        if has_others && let Ok(fs) = self.instance.file_system() {
            fs.release_link(self.inode);
        }
    }
    /// Records that it was moved.
    pub(crate) fn note_move(&self, now: FileTime) {
        let mut state = self.state.lock();
        state.known.changed = now;
        self.end_change(state);
    }
    /// Changes attributes.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for inode flags that are not supported.
    pub(super) fn change_kept(&self, change: &AttributeChange) -> Result<(), Errno> {
        if change.flags.is_some_and(|flags| flags & !FLAGS != 0) {
            return Err(FsError::Unsupported.into());
        }
        let mut state = self.state.lock();
        overlay(&mut state.known, change);
        self.mirror(&state.known);
        Ok(())
    }
    /// Sets or removes an access control list, and sets permissions accordingly.
    ///
    /// # Errors
    /// The error of the file system.
    pub(super) fn set_kept_acl(
        &self,
        fs: &dyn FileSystem,
        change: &AclChange<'_>,
    ) -> Result<(), Errno> {
        let AclChange { name, value, permissions, now } = *change;
        let outcome = match value {
            [] => fs.remove_xattr(self.inode, name, now),
            value => fs.set_xattr(self.inode, name, value, XattrMode::Set, now),
        };
        match outcome {
            Err(FsError::NoAttribute) => {}
            outcome => outcome?,
        }
        let changed = Some(now);
        self.change_kept(&AttributeChange { permissions, changed, ..Default::default() })
    }
}
