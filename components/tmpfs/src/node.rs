//! One inode: what never changes, and what its lock guards.
use crate::{
    directory::{Directory, is_directory},
    space::INODE_BYTES,
    xattr::Xattrs,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interfaces::file_system::{
    AttributeChange, Attributes, FileTime, FileType, FsError, InodeNumber, NewInode,
};
use rt::{
    PAGE_BYTES,
    memory::Charge,
    sync::{LockClass, Mutex, MutexGuard},
};

/// Ordered by the crate: ancestors first, then by number.
static NODE: LockClass = LockClass::nestable("tmpfs.node");

/// The cost of an inode, map entry and allocation headers included.
const NODE_BYTES: usize = size_of::<Node>() + 64;
/// A target of up to so many bytes costs nothing beside its inode (`SHORT_SYMLINK_LEN` of Linux).
const TARGET_WITHIN: usize = 128;
/// Largest file, as `s_maxbytes` of Linux.
pub(crate) const MAX_BYTES: u64 = i64::MAX as u64;
const SECTORS_A_PAGE: u64 = (PAGE_BYTES / 512) as u64;
/// Inode flags that are kept, as Linux's tmpfs does: immutable, append only, no dump, no access time.
const FLAGS: u32 = 0xf0;

/// An inode.
pub(crate) struct Node {
    /// Its number.
    pub(crate) inode: InodeNumber,
    /// Its type.
    pub(crate) file_type: FileType,
    device: (u32, u32),
    /// The directory it is in (of a directory; changed under the tree lock).
    parent: AtomicU64,
    /// Everything that changes.
    pub(crate) state: Mutex<State>,
}

/// The state that the lock of a node guards.
pub(crate) struct State {
    /// Counts the personality holds.
    pub(crate) holds: u64,
    /// Names, and of a directory `.` and each subdirectory's `..`.
    pub(crate) links: u32,
    /// Pages set aside in the page cache.
    pub(crate) pages: u64,
    /// Memory set aside in the mount's limit of inodes.
    pub(crate) inode_bytes: u64,
    /// Last change of contents.
    pub(crate) modified: FileTime,
    /// Last change of attributes.
    pub(crate) changed: FileTime,
    /// Names, if it is a directory.
    pub(crate) names: Directory,
    /// Extended attributes by full name.
    pub(crate) xattrs: Xattrs,
    accessed: FileTime,
    created: FileTime,
    permissions: u16,
    user: u32,
    group: u32,
    size: u64,
    flags: u32,
    target: Box<[u8]>,
    _charge: Charge,
}

impl Node {
    /// A new inode without names.
    pub(crate) fn new(
        inode: InodeNumber,
        parent: InodeNumber,
        new: &NewInode<'_>,
    ) -> Result<Arc<Node>, FsError> {
        let target = if new.file_type == FileType::Symlink { new.target } else { &[] };
        let is_long = target.len() > TARGET_WITHIN;
        let charge = Charge::take(NODE_BYTES + target.len()).map_err(|_| FsError::NoMemory)?;
        let state = State {
            holds: 0,
            links: if is_directory(new.file_type) { 2 } else { 0 },
            pages: 0,
            inode_bytes: INODE_BYTES + if is_long { target.len() as u64 } else { 0 },
            accessed: new.now,
            modified: new.now,
            changed: new.now,
            created: new.now,
            permissions: new.permissions & 0o7777,
            user: new.user,
            group: new.group,
            size: target.len() as u64,
            flags: 0,
            names: Directory::default(),
            target: target.into(),
            xattrs: Xattrs::new(),
            _charge: charge,
        };
        let is_device = matches!(new.file_type, FileType::Character | FileType::Block);
        Ok(Arc::new(Node {
            inode,
            file_type: new.file_type,
            device: if is_device { new.device } else { (0, 0) },
            parent: AtomicU64::new(parent),
            state: Mutex::new(&NODE, state),
        }))
    }

    /// Whether it holds names.
    pub(crate) fn is_directory(&self) -> bool {
        is_directory(self.file_type)
    }

    /// The directory it is in.
    pub(crate) fn parent(&self) -> InodeNumber {
        self.parent.load(Relaxed)
    }

    /// Moves it (the tree lock is held).
    pub(crate) fn set_parent(&self, parent: InodeNumber) {
        self.parent.store(parent, Relaxed);
    }

    /// Locks a directory that still has a name, to change its names.
    pub(crate) fn lock_alive(&self) -> Result<MutexGuard<'_, State>, FsError> {
        let state = self.state.lock();
        if state.links == 0 { Err(FsError::NotFound) } else { Ok(state) }
    }

    /// The answer to `stat`; `state` is this node's.
    pub(crate) fn attributes(&self, state: &State) -> Attributes {
        Attributes {
            inode: self.inode,
            file_type: self.file_type,
            permissions: state.permissions,
            links: state.links,
            user: state.user,
            group: state.group,
            device: self.device,
            size: if self.is_directory() { state.names.shown_bytes() } else { state.size },
            blocks: state.pages * SECTORS_A_PAGE,
            accessed: state.accessed,
            modified: state.modified,
            changed: state.changed,
            created: state.created,
            flags: state.flags,
            generation: 0,
            may_have_acls: !state.xattrs.is_empty(),
        }
    }

    /// Refuses a change that this type does not take; changes nothing.
    pub(crate) fn check_change(&self, change: &AttributeChange) -> Result<(), FsError> {
        if change.flags.is_some_and(|flags| flags & !FLAGS != 0) {
            return Err(FsError::Unsupported);
        }
        match (change.size, self.file_type) {
            (None, _) => Ok(()),
            (Some(size), FileType::Regular) if size > MAX_BYTES => Err(FsError::FileTooBig),
            (Some(_), FileType::Regular) => Ok(()),
            (Some(_), FileType::Directory) => Err(FsError::IsDirectory),
            (Some(_), _) => Err(FsError::Invalid),
        }
    }
}

impl Drop for Node {
    /// Drops the tree below in a loop: it may be deeper than a stack.
    fn drop(&mut self) {
        if !self.is_directory() {
            return;
        }
        let mut left: Vec<Arc<Node>> = self.state.get_mut().names.take_nodes().collect();
        while let Some(node) = left.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                left.extend(node.state.get_mut().names.take_nodes());
            }
        }
    }
}

impl State {
    /// Changes attributes, after [`Node::check_change`].
    pub(crate) fn apply_change(&mut self, change: &AttributeChange) {
        set(&mut self.permissions, change.permissions.map(|bits| bits & 0o7777));
        set(&mut self.user, change.user);
        set(&mut self.group, change.group);
        set(&mut self.size, change.size);
        set(&mut self.accessed, change.accessed);
        set(&mut self.modified, change.modified);
        set(&mut self.changed, change.changed);
        set(&mut self.flags, change.flags);
    }

    /// The names changed.
    pub(crate) fn touch(&mut self, now: FileTime) {
        self.modified = now;
        self.changed = now;
    }

    /// The target of a symbolic link.
    pub(crate) fn target(&self) -> &[u8] {
        &self.target
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
