//! Vnodes: a [`Vnode`] is one inode of a mounted file system, in memory while it is referenced or cached.
//!
//! A [`Vnode`] holds what is true of the inode whatever its name: attributes, the page cache of a
//! regular file, the target of a symbolic link, the pipe of a FIFO. Size and times are
//! authoritative here; the [`crate::pages::flush`]er pushes them to the file system with the pages.
//!
//! Locks: `contents` orders changes (size and writes of a regular file; the names of a directory with
//! [`crate::tree::name_lock`]), `state` guards the attributes and is innermost. Owner, permissions and the next due
//! access-time update are mirrored in atomics so that a path walk takes no lock here. `acls` guards the access control
//! lists and is above `state`.
mod acls;
mod attributes;
pub(crate) mod capabilities;
mod kept;
mod mapping;
mod seals;
mod security;
mod write_back;
pub(crate) mod writers;

use crate::{
    base::{
        acls::Acls,
        errno::Errno,
        observers::Observers,
        rights,
        seals::Seals,
        security::{Label, flows},
    },
    pages::cache::PageCache,
    tree::{instance::Instance, names::Names, node::Node},
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{
    any::Any,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};
use interfaces::file_system::{
    AttributeChange, Attributes, Backing, FileType, InodeNumber, Stored,
};
use rt::{
    lock_class,
    memory::Charge,
    sync::{LockClass, Mutex, RwLock, StaticRef},
};

lock_class! {
    static STATE = "vfs.vnode.state";
    static ACLS = "vfs.vnode.acls";
    static TARGET = "vfs.vnode.target";
    static SLOT = "vfs.vnode.slot";
    static NAMES = "vfs.vnode.names";
    static CONTENTS = "vfs.file";
}

/// Lock class of directories. Rename and removal hold several: a parent before its child, else in the order of inode
/// numbers.
static DIRECTORY: LockClass = LockClass::nestable("vfs.directory");

/// Permission bits with setuid, setgid and sticky.
const PERMISSION_BITS: u16 = 0o7777;

/// `FS_IMMUTABLE_FL`: the inode cannot be changed.
pub const FLAG_IMMUTABLE: u32 = 0x10;
/// `FS_APPEND_FL`: the file can only grow at its end.
pub const FLAG_APPEND: u32 = 0x20;
/// Inode flag: dump(8) skips the file.
pub const FLAG_NO_DUMP: u32 = 0x40;
/// `FS_NOATIME_FL`
pub(crate) const FLAG_NO_ACCESS_TIME: u32 = 0x80;

/// A place in which another part of the personality keeps an object that belongs to a vnode.
pub type VnodeSlot = Mutex<Option<Arc<dyn Any + Send + Sync>>>;

/// The current attributes, and the changes of them that the file system was not told yet.
struct VnodeState {
    known: Attributes,
    pending: AttributeChange,
}

/// An inode in use.
pub struct Vnode {
    instance: Arc<Instance>,
    inode: InodeNumber,
    file_type: FileType,
    device: (u32, u32),
    node: Option<Arc<dyn Node>>,
    /// The attributes are those in `state` although there is a node.
    keeps_attributes: bool,
    pages: Option<Arc<PageCache>>,
    owner: AtomicU64,
    /// Permission bits, and those of [`rights`]; changed under `state`.
    rights: AtomicU16,
    /// The access control lists, read when they are first needed; few files have any.
    acls: Mutex<Option<Box<Acls>>>,
    /// The label of mandatory access control ([`Label::of_new_object`] until it is looked for).
    label: StaticRef<Label>,
    flags: AtomicU32,
    access_due_ns: AtomicU64,
    /// The file system changed attributes by itself; `state` does not have them yet.
    is_outdated: AtomicBool,
    state: Mutex<VnodeState>,
    contents: RwLock<()>,
    /// The names of a directory that exists in the name cache only.
    names: Mutex<Names>,
    target: Mutex<Option<Arc<[u8]>>>,
    is_dead: AtomicBool,
    /// The inode has no name yet and may be given one.
    is_linkable: AtomicBool,
    seals: AtomicU8,
    /// Expected lifetime of written data, as set by fcntl(2) (`F_SET_RW_HINT`); nothing depends on it.
    write_hint: AtomicU8,
    counts: AtomicU64,
    writers: AtomicI32,
    /// Number of descriptions that leave traces.
    uses: AtomicU32,
    /// Time at which it was put on the list of vnodes to be written; 0 while it is not listed.
    listed_ns: AtomicU64,
    pipe: VnodeSlot,
    locks: VnodeSlot,
    observers: Observers,
    /// The memory charge of an inode that exists in the caches only.
    _charge: Charge,
}

impl Vnode {
    /// Makes a vnode for an inode of a file system; it takes over one use count of the inode.
    pub(crate) fn stored(instance: &Arc<Instance>, known: Attributes) -> Vnode {
        let pages = match (known.file_type, instance.file_system()) {
            (FileType::Regular, Ok(fs)) => {
                Some(PageCache::new(fs, instance.info().backing, instance.throttle(), &known))
            }
            _ => None,
        };
        Vnode::make(instance, known, (None, pages), (None, Charge::none()))
    }
    /// Makes a vnode whose content `node` generates.
    pub fn generated(instance: &Arc<Instance>, node: Arc<dyn Node>) -> Arc<Vnode> {
        let known = node.attributes();
        Arc::new(Vnode::make(instance, known, (Some(node), None), (None, Charge::none())))
    }
    /// Makes a vnode whose content `node` generates, but not its attributes: the vnode keeps them, and they may be changed. So many
    /// vnodes may have the same node.
    pub fn with_attributes(
        instance: &Arc<Instance>,
        known: Attributes,
        node: Arc<dyn Node>,
    ) -> Arc<Vnode> {
        let mut made = Vnode::make(instance, known, (Some(node), None), (None, Charge::none()));
        made.keeps_attributes = true;
        Arc::new(made)
    }
    fn make(
        instance: &Arc<Instance>,
        known: Attributes,
        (node, pages): (Option<Arc<dyn Node>>, Option<Arc<PageCache>>),
        (target, charge): (Option<Arc<[u8]>>, Charge),
    ) -> Vnode {
        let class = if known.file_type == FileType::Directory { &DIRECTORY } else { &CONTENTS };
        Vnode {
            instance: instance.clone(),
            inode: known.inode,
            file_type: known.file_type,
            device: known.device,
            node,
            keeps_attributes: false,
            pages,
            owner: AtomicU64::new(pack_owner(&known)),
            rights: AtomicU16::new(known.permissions | rights::of_new(&known, instance.info())),
            acls: Mutex::new(&ACLS, None),
            label: StaticRef::new(Label::of_new_object()),
            flags: AtomicU32::new(known.flags),
            access_due_ns: AtomicU64::new(0),
            is_outdated: AtomicBool::new(false),
            state: Mutex::new(&STATE, VnodeState { known, pending: AttributeChange::default() }),
            contents: RwLock::new(class, ()),
            names: Mutex::new(&NAMES, Names::new()),
            target: Mutex::new(&TARGET, target),
            is_dead: AtomicBool::new(false),
            is_linkable: AtomicBool::new(false),
            seals: AtomicU8::new(Seals::SEAL.bits()),
            write_hint: AtomicU8::new(0),
            counts: AtomicU64::new(1),
            writers: AtomicI32::new(0),
            uses: AtomicU32::new(0),
            listed_ns: AtomicU64::new(0),
            pipe: Mutex::new(&SLOT, None),
            locks: Mutex::new(&SLOT, None),
            observers: Observers::new(),
            _charge: charge,
        }
    }

    /// Returns the mounted file system it belongs to.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }
    /// Returns its inode number.
    pub fn inode(&self) -> InodeNumber {
        self.inode
    }
    /// Returns its file type.
    pub fn file_type(&self) -> FileType {
        self.file_type
    }
    /// Returns whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }
    /// Returns whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.file_type == FileType::Regular
    }
    /// Returns the device number (major, minor) of a device node.
    pub fn device(&self) -> (u32, u32) {
        self.device
    }
    /// Returns the node that generates it, if there is one.
    pub fn node(&self) -> Option<&Arc<dyn Node>> {
        self.node.as_ref()
    }
    /// Returns the node that makes the attributes, if there is one.
    #[inline]
    fn attribute_source(&self) -> Option<&Arc<dyn Node>> {
        if self.keeps_attributes { None } else { self.node.as_ref() }
    }
    /// Returns how byte `position` is stored, and for how many bytes that holds
    /// ([`interfaces::file_system::FileSystem::stored`]).
    ///
    /// # Errors
    /// `EOPNOTSUPP` if it is not on storage; errors of the file system.
    pub fn on_storage(&self, position: u64, max: u64) -> Result<(Stored, u64), Errno> {
        if self.node.is_some() || self.instance.info().backing != Backing::Storage {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(self.instance.file_system()?.stored(self.inode, position, max)?)
    }
    /// Returns the pages of a regular file of a file system.
    pub fn pages(&self) -> Option<&Arc<PageCache>> {
        self.pages.as_ref()
    }
    /// Returns the number of pages that are freed with the last user of the vnode: those of a file in memory without a
    /// name.
    pub fn orphaned_pages(&self) -> u64 {
        let pages = self.pages.as_ref().filter(|pages| pages.backing() == Backing::Cache);
        match pages {
            Some(pages) if self.attributes().links == 0 => pages.resident_pages(),
            _ => 0,
        }
    }
    /// Returns the slot in which the personality keeps the pipe of a FIFO, or the object of another special file.
    pub fn pipe(&self) -> &VnodeSlot {
        &self.pipe
    }
    /// Returns the slot in which the personality keeps its file locks.
    pub fn locks(&self) -> &VnodeSlot {
        &self.locks
    }
    /// Returns the observers of its events.
    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }
    /// Orders changes: size and writes of a regular file, names of a directory ([`crate::tree::name_lock`]).
    pub(crate) fn contents(&self) -> &RwLock<()> {
        &self.contents
    }
    /// Returns whether it is a directory that was removed; no name can be made in it.
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }
    /// Returns whether it has a name, or may get its first one (O_TMPFILE without O_EXCL).
    pub(crate) fn can_be_linked(&self) -> bool {
        self.is_linkable.load(Ordering::Acquire) || self.attributes().links > 0
    }
    pub(crate) fn set_linkable(&self) {
        self.is_linkable.store(true, Ordering::Release);
    }
    pub(crate) fn set_dead(&self) {
        self.is_dead.store(true, Ordering::Release);
    }
    /// The hint of `F_SET_RW_HINT`.
    pub fn write_hint(&self) -> &AtomicU8 {
        &self.write_hint
    }
    /// [`Seals`], changed under `contents`.
    pub(crate) fn seal_bits(&self) -> &AtomicU8 {
        &self.seals
    }
    /// Marks the root of a file system, which is held by its mount and not by a use count.
    pub(crate) fn set_uncounted(&self) {
        self.counts.store(0, Ordering::Relaxed);
    }
    /// Records that the file system has increased the inode's use count once more for this vnode.
    pub(crate) fn count_up(&self) {
        self.counts.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns owner and group.
    pub fn owner(&self) -> (u32, u32) {
        let packed = match self.attribute_source() {
            Some(node) => pack_owner(&node.attributes()),
            None => self.owner.load(Ordering::Acquire),
        };
        ((packed >> 32) as u32, packed as u32)
    }
    /// Returns the permission bits with setuid, setgid and sticky.
    pub fn permissions(&self) -> u16 {
        self.rights() & PERMISSION_BITS
    }
    /// As [`Vnode::permissions`], with the bits of [`rights`].
    #[inline]
    pub(crate) fn rights(&self) -> u16 {
        match self.attribute_source() {
            Some(node) => node.permissions(),
            None => self.rights.load(Ordering::Acquire),
        }
    }
    /// Returns the inode flags ([`FLAG_IMMUTABLE`] ...).
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Acquire)
    }
    /// Returns the greatest length of a file of its file system.
    pub fn size_max(&self) -> u64 {
        self.instance().info().size_max
    }
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        match &self.pages {
            Some(pages) => pages.size(),
            None => self.attributes().size,
        }
    }

    /// Returns the target of a stored symbolic link (kept after the first call).
    ///
    /// # Errors
    /// Errors of the file system; `EINVAL` if it is not a link.
    pub(crate) fn link_target(&self) -> Result<Arc<[u8]>, Errno> {
        flows::reads(|| self.known_label());
        if self.file_type != FileType::Symlink {
            return Err(Errno::EINVAL);
        }
        if let Some(target) = self.target.lock().as_ref() {
            return Ok(target.clone());
        }
        let text: Vec<u8> = self.instance.file_system()?.read_link(self.inode)?;
        let text: Arc<[u8]> = Arc::from(text);
        *self.target.lock() = Some(text.clone());
        Ok(text)
    }
}

fn pack_owner(known: &Attributes) -> u64 {
    u64::from(known.user) << 32 | u64::from(known.group)
}
