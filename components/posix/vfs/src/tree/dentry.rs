//! Dentries: one name of a vnode in the tree of a file system.
//!
//! A [`Dentry`] is always positive (negative names live in [`crate::tree::name_cache`] alone) and its
//! vnode never changes; its parent and name change by rename. Locks: `link` guards parent and
//! name together and is the innermost lock; changed only with the directories locked to write.
use crate::{
    base::{digits::Text, security::Label},
    tree::{
        name_cache::{self, Key},
        vnode::Vnode,
    },
};
use alloc::sync::Arc;
use core::{
    ptr,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
use labels::SecrecyId;
use rt::{NoMemory, lock_class, memory::Charge, sync::Mutex};

lock_class! {
    static LINK = "vfs.dentry.link";
}

/// Heap bytes of a dentry besides its name, with the allocator's overhead.
const DENTRY_BYTES: usize = 192;

/// The mark of a hidden directory.
const HIDDEN: u32 = 1 << 31;

/// Bytes of a usual numbered name: `socket:[`, twenty digits and `]`.
const NUMBERED_MAX: usize = 29;

/// A name with the memory for a dentry, allocated before a file is made, so that naming it cannot
/// fail.
pub(crate) struct Promised {
    name: DentryName,
    charge: Charge,
}

impl Promised {
    /// # Errors
    /// [`NoMemory`].
    pub(crate) fn take(name: &[u8]) -> Result<Promised, NoMemory> {
        let charge = Charge::take(DENTRY_BYTES + name.len())?;
        Ok(Promised { name: DentryName::Given(Arc::from(name)), charge })
    }
    /// Uses the same memory for another name, in case that is not longer.
    pub(crate) fn renamed(self, name: &[u8]) -> Promised {
        Promised { name: DentryName::Given(Arc::from(name)), ..self }
    }
}

/// The place of a dentry in the tree.
struct DentryPlace {
    parent: Option<Arc<Dentry>>,
    name: DentryName,
}

/// A name.
enum DentryName {
    Given(Arc<[u8]>),
    /// This kind, with the number of the vnode's inode: `KIND:[NUMBER]`. It is made when it is looked at, mostly never.
    Numbered(&'static str),
}

impl DentryName {
    fn shown(&self, vnode: &Vnode) -> Arc<[u8]> {
        match self {
            DentryName::Given(name) => name.clone(),
            DentryName::Numbered(kind) => {
                let mut name = Text::with_room(NUMBERED_MAX);
                name.put(kind).put(":[").number(vnode.inode()).put("]");
                Arc::from(name.finish())
            }
        }
    }
}

/// A directory entry: a name of a vnode.
pub struct Dentry {
    /// Its number in the name cache; 0 as long as that was not asked for.
    id: AtomicU64,
    vnode: Arc<Vnode>,
    link: Mutex<DentryPlace>,
    is_deleted: AtomicBool,
    /// Number of mounts on it, and [`HIDDEN`].
    marks: AtomicU32,
    /// Position in the list of names of its directory, if the directory has such a list; changed
    /// with that list locked.
    position: AtomicU64,
    _charge: Charge,
}

impl Dentry {
    /// Makes the dentry of the root of a tree, or of an object without a place in a tree (a pipe),
    /// which `name` then describes.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn root(name: &[u8], vnode: Arc<Vnode>) -> Result<Arc<Dentry>, NoMemory> {
        Ok(Dentry::make(None, Promised::take(name)?, vnode))
    }
    /// Makes the dentry of an object without a place in a tree, shown as `KIND:[NUMBER]` with its inode's number.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(crate) fn numbered(kind: &'static str, vnode: Arc<Vnode>) -> Result<Arc<Dentry>, NoMemory> {
        let charge = Charge::take(DENTRY_BYTES)?;
        Ok(Dentry::make(None, Promised { name: DentryName::Numbered(kind), charge }, vnode))
    }
    /// Makes the dentry of `name` in `parent`, not yet in the name cache.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(crate) fn child(
        parent: &Arc<Dentry>,
        name: &[u8],
        vnode: Arc<Vnode>,
    ) -> Result<Arc<Dentry>, NoMemory> {
        Ok(Dentry::promised(parent, Promised::take(name)?, vnode))
    }
    /// Does the same as [`Dentry::child`], with memory allocated before.
    pub(crate) fn promised(
        parent: &Arc<Dentry>,
        promised: Promised,
        vnode: Arc<Vnode>,
    ) -> Arc<Dentry> {
        Dentry::make(Some(parent.clone()), promised, vnode)
    }
    fn make(parent: Option<Arc<Dentry>>, promised: Promised, vnode: Arc<Vnode>) -> Arc<Dentry> {
        Arc::new(Dentry {
            id: AtomicU64::new(0),
            vnode,
            link: Mutex::new(&LINK, DentryPlace { parent, name: promised.name }),
            is_deleted: AtomicBool::new(false),
            marks: AtomicU32::new(0),
            position: AtomicU64::new(0),
            _charge: promised.charge,
        })
    }
    /// Returns the number by which the name cache knows it as the parent of names; it is never used again.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        match self.id.load(Ordering::Relaxed) {
            0 => self.number(),
            id => id,
        }
    }
    /// Gives it a number of its secrecy. A directory that is relabelled later keeps its number.
    #[cold]
    fn number(&self) -> u64 {
        let secrecy = self.vnode.known_label().map_or(SecrecyId::NONE, Label::secrecy);
        let id = name_cache::next_parent(secrecy);
        match self.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => id,
            Err(first) => first,
        }
    }
    /// Returns the key of `name` in this directory for the name cache of its file system.
    #[inline]
    pub(crate) fn key<'n>(&self, name: &'n [u8]) -> Key<'n> {
        self.vnode.instance().names().key(self.id(), name)
    }
    /// Returns the vnode that it names.
    pub fn vnode(&self) -> &Arc<Vnode> {
        &self.vnode
    }
    /// Returns its directory; `None` for a root.
    pub fn parent(&self) -> Option<Arc<Dentry>> {
        self.link.lock().parent.clone()
    }
    /// Returns its current name.
    pub fn name(&self) -> Arc<[u8]> {
        self.link.lock().name.shown(&self.vnode)
    }
    /// Returns whether this is its current name.
    pub(crate) fn is_called(&self, name: &[u8]) -> bool {
        match &self.link.lock().name {
            DentryName::Given(own) => **own == *name,
            DentryName::Numbered(_) => false,
        }
    }
    /// Returns parent and name, read at one moment.
    pub(crate) fn place(&self) -> (Option<Arc<Dentry>>, Arc<[u8]>) {
        let link = self.link.lock();
        (link.parent.clone(), link.name.shown(&self.vnode))
    }
    /// Moves it; the caller holds both directories' locks and updates the name cache.
    pub(crate) fn relink(&self, parent: &Arc<Dentry>, name: Arc<[u8]>) {
        let before = {
            let mut link = self.link.lock();
            link.name = DentryName::Given(name);
            link.parent.replace(parent.clone())
        };
        drop(before);
    }
    /// Returns its position in the list of names of its directory.
    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }
    pub(crate) fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }
    /// Returns whether the name was removed.
    pub fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }
    pub(crate) fn set_deleted(&self) {
        self.is_deleted.store(true, Ordering::Release);
    }
    /// Returns whether some mount covers this dentry.
    pub fn is_mount_point(&self) -> bool {
        self.marks.load(Ordering::Acquire) & !HIDDEN != 0
    }
    /// Returns whether it is a hidden directory in a multilevel one ([`crate::walk::multilevel`]).
    pub(crate) fn is_hidden(&self) -> bool {
        self.marks.load(Ordering::Acquire) & HIDDEN != 0
    }
    /// Returns whether it is a mount point or hidden.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.marks.load(Ordering::Acquire) != 0
    }
    pub(crate) fn set_hidden(&self) {
        self.marks.fetch_or(HIDDEN, Ordering::AcqRel);
    }
    pub(crate) fn count_mounts(&self, is_mounted: Mounted) {
        match is_mounted {
            Mounted::More => self.marks.fetch_add(1, Ordering::AcqRel),
            Mounted::Fewer => self.marks.fetch_sub(1, Ordering::AcqRel),
        };
    }
    /// Returns whether `self` is `other` or a directory above it. The caller holds the rename lock.
    pub(crate) fn is_above_or_same(&self, other: &Arc<Dentry>) -> bool {
        let mut at = Some(other.clone());
        while let Some(dentry) = at {
            if ptr::eq(Arc::as_ptr(&dentry), self) {
                return true;
            }
            at = dentry.parent();
        }
        false
    }
}

/// Change in the number of mounts on a dentry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounted {
    More,
    Fewer,
}

/// The things with which a file without a name ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndOf {
    /// Nothing refers to the dentry any more.
    Dentry,
    /// No description that leaves traces uses it.
    SeenUse,
}

impl Drop for Dentry {
    /// Drops the chain of parents in a loop: a tree may be deeper than a stack.
    fn drop(&mut self) {
        self.tell_end(EndOf::Dentry);
        let mut next = self.link.lock().parent.take();
        while let Some(parent) = next {
            next = match Arc::into_inner(parent) {
                Some(last) => last.link.lock().parent.take(),
                None => None,
            };
        }
    }
}
