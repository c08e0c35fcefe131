//! The implementation of the interface: each call finds its inode and calls the function of its
//! family's file.
use crate::{
    files::{
        create, file_range, file_size,
        named::{self, RemovedKind},
        read, remove, rename, symlink, write,
    },
    layout::{
        groups::Account,
        inode_store::{Before, storable},
        inode_table::LiveInode,
        raw::inode::{FLAGS_KEPT, FLAGS_SETTABLE, FLAGS_SETTABLE_DIRECTORY, FLAGS_VISIBLE},
        superblock::ROOT_INODE,
    },
    names::{directory, xattr, xattr_edit},
    store::transfer::Client,
    volume::ext4::Ext4,
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::file_system::{
    AclChange, Allocation, AttributeChange, Attributes, Backing, FileSystem, FileSystemUsage,
    FileTime, FileType, FsError, InodeNumber, MountAccess, MountInfo, NewInode, PageSink,
    ReservedFor, Seek, Stored, SyncKind, TakeEntry, XattrMode,
};
use rt::{PAGE_BYTES, memory::Frame};

/// `Attributes::blocks` counts units of 512 bytes.
const SECTORS_A_PAGE: u64 = PAGE_BYTES as u64 / 512;

impl Ext4 {
    fn node(&self, inode: InodeNumber) -> Result<Arc<LiveInode>, FsError> {
        self.mount.inodes.get(&self.mount.volume, inode)
    }

    /// Reports malformed metadata as an error of the volume, even if it was only read.
    fn noticed<T>(&self, read: Result<T, FsError>) -> Result<T, FsError> {
        read.inspect_err(|error| {
            if *error == FsError::Corrupt {
                self.mount.volume.store.report(*error);
            }
        })
    }

    /// Returns the inode that a name stands for, held.
    fn find(&self, directory: InodeNumber, name: &[u8]) -> Result<Arc<LiveInode>, FsError> {
        let parent = self.node(directory)?;
        // The inode is held while its directory cannot change, so that it is not freed in between.
        let parent = parent.read();
        let found = directory::find(&self.mount.volume, &parent, name)?;
        // A directory names the root or itself only by `.` and `..`.
        if found == parent.number || found == ROOT_INODE {
            return Err(FsError::Corrupt);
        }
        self.mount.inodes.hold(&self.mount.volume, found)
    }

    /// Returns the number of inodes held now, including the root.
    pub fn held_inodes(&self) -> usize {
        self.mount.inodes.count()
    }

    /// Changes the attributes of an inode in memory and adds it to the running transaction.
    fn change(
        &self,
        node: &LiveInode,
        of: impl FnOnce(&mut Attributes),
    ) -> Result<Attributes, FsError> {
        self.mount.operate(|operation| {
            let mut inode = node.write();
            of(&mut inode.attributes);
            node.note(operation);
            inode.store(&self.mount.volume, operation, Before::Itself)?;
            Ok(inode.attributes)
        })
    }
}

/// Applies all changes except the length; times are rounded to those that an inode can hold.
fn apply(change: &AttributeChange, attributes: &mut Attributes) {
    let set = |to: &mut FileTime, from: Option<FileTime>| *to = from.map_or(*to, storable);
    attributes.permissions = change.permissions.unwrap_or(attributes.permissions) & 0o7777;
    attributes.user = change.user.unwrap_or(attributes.user);
    attributes.group = change.group.unwrap_or(attributes.group);
    set(&mut attributes.accessed, change.accessed);
    set(&mut attributes.modified, change.modified);
    set(&mut attributes.changed, change.changed);
    let settable = settable_flags(attributes);
    let flags = change.flags.unwrap_or(attributes.flags);
    attributes.flags = attributes.flags & !settable | flags & settable;
}

fn settable_flags(attributes: &Attributes) -> u32 {
    match attributes.file_type {
        FileType::Directory => FLAGS_SETTABLE_DIRECTORY,
        _ => FLAGS_SETTABLE,
    }
}

/// Checks flags to be set. Programs pass the flags that they read, with changes, so flags that
/// cannot be changed must be as they were.
fn check_flags(attributes: &Attributes, flags: u32) -> Result<(), FsError> {
    let changed = (attributes.flags ^ flags) & !settable_flags(attributes);
    if flags & !FLAGS_VISIBLE != 0 || changed & FLAGS_VISIBLE & !FLAGS_KEPT != 0 {
        return Err(FsError::Unsupported);
    }
    Ok(())
}

impl FileSystem for Ext4 {
    fn mount_info(&self) -> MountInfo {
        MountInfo {
            type_name: "ext4",
            root: u64::from(ROOT_INODE),
            is_read_only: self.mount.volume.store.health.check_writable().is_err(),
            backing: Backing::Storage,
            has_stable_names: true,
            block_bytes: self.mount.volume.geometry.block_bytes as u32,
            has_acls: self.has_acls,
            size_max: file_size::size_max(&self.mount.volume),
            writes_replacements: self.writes_replacements,
        }
    }

    fn usage(&self) -> Result<FileSystemUsage, FsError> {
        let mut usage = self.mount.volume.geometry.usage();
        if let Ok(groups) = self.mount.volume.groups() {
            usage.free = groups.usable_blocks();
            usage.available = groups.available_blocks();
            usage.files_free = groups.free_inodes();
        }
        Ok(usage)
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes, FsError> {
        let node = self.noticed(self.find(directory, name))?;
        let attributes = node.read().attributes;
        Ok(attributes)
    }

    fn attributes(&self, inode: InodeNumber) -> Result<Attributes, FsError> {
        let node = self.node(inode)?;
        let known = node.read().attributes;
        // As on Linux, reserved blocks count: a file without blocks would be taken for a hole.
        Ok(Attributes { blocks: known.blocks + node.delayed_pages() * SECTORS_A_PAGE, ..known })
    }

    fn blocks(&self, inode: InodeNumber) -> Result<u64, FsError> {
        let node = self.node(inode)?;
        let stored = node.read().attributes.blocks;
        Ok(stored + node.delayed_pages() * SECTORS_A_PAGE)
    }

    fn set_attributes(
        &self,
        inode: InodeNumber,
        change: &AttributeChange,
    ) -> Result<Attributes, FsError> {
        let node = self.node(inode)?;
        if let Some(flags) = change.flags {
            check_flags(&node.read().attributes, flags)?;
        }
        if let Some(size) = change.size {
            file_size::resize(&self.mount, &node, size, |inode| {
                apply(change, &mut inode.attributes);
            })?;
            return Ok(node.read().attributes);
        }
        self.change(&node, |attributes| apply(change, attributes))
    }

    fn read_directory(
        &self,
        directory: InodeNumber,
        position: u64,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), FsError> {
        let node = self.node(directory)?;
        self.noticed(directory::list(&self.mount.volume, &node.read(), position, take))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, FsError> {
        self.noticed(symlink::target(&self.mount.volume, &self.node(inode)?.read()))
    }

    fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        let client = Client { sink: Arc::clone(sink), tag, first };
        match self.node(inode) {
            Ok(node) => read::read_pages(&self.mount.volume, &node, frames, client),
            Err(error) => client.tell(0..frames.len(), Err(error)),
        }
    }

    fn write_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        size_bytes: u64,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        let client = Client { sink: Arc::clone(sink), tag, first };
        match self.node(inode) {
            Ok(node) => write::write_pages(&self.mount, &node, frames, size_bytes, client),
            Err(error) => client.tell(0..frames.len(), Err(error)),
        }
    }

    fn write_along(
        &self,
        inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        size_bytes: u64,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) -> bool {
        let client = Client { sink: Arc::clone(sink), tag, first };
        match self.node(inode) {
            Ok(node) => write::write_along(&self.mount, &node, frames, size_bytes, client),
            Err(error) => {
                client.tell(0..frames.len(), Err(error));
                false
            }
        }
    }

    fn sync_inode(&self, inode: InodeNumber, kind: SyncKind) -> Result<(), FsError> {
        let node = self.node(inode).inspect_err(|_| self.mount.let_go())?;
        self.sync_node(&node, kind)
    }

    fn allocate(
        &self,
        inode: InodeNumber,
        how: Allocation,
        offset: u64,
        length: u64,
        now: FileTime,
    ) -> Result<Attributes, FsError> {
        file_range::allocate(&self.mount, &*self.node(inode)?, how, (offset, length), now)
    }

    fn seek(&self, inode: InodeNumber, position: u64, what: Seek) -> Result<u64, FsError> {
        file_range::seek(&self.mount.volume, &self.node(inode)?.read(), position, what)
    }

    fn stored(
        &self,
        inode: InodeNumber,
        position: u64,
        max: u64,
    ) -> Result<(Stored, u64), FsError> {
        file_range::stored(&self.mount.volume, &self.node(inode)?.read(), position, max)
    }

    fn create(
        &self,
        directory: InodeNumber,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        create::create(&self.mount, &*self.node(directory)?, name, new)
    }

    fn create_unnamed(
        &self,
        directory: InodeNumber,
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        create::create_unnamed(&self.mount, &*self.node(directory)?, new)
    }

    fn link(
        &self,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<Attributes, FsError> {
        let directory = self.node(directory)?;
        create::link(&self.mount, &*self.node(inode)?, (&directory, name), now)
    }

    fn unlink(&self, directory: InodeNumber, name: &[u8], now: FileTime) -> Result<(), FsError> {
        remove::remove(&self.mount, &*self.node(directory)?, name, RemovedKind::File, now)
    }

    fn remove_directory(
        &self,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<(), FsError> {
        remove::remove(&self.mount, &*self.node(directory)?, name, RemovedKind::Directory, now)
    }

    fn rename(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        now: FileTime,
    ) -> Result<(), FsError> {
        let nodes = [self.node(from.0)?, self.node(to.0)?];
        rename::rename(&self.mount, (&nodes[0], from.1), (&nodes[1], to.1), now)
    }

    fn exchange(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        now: FileTime,
    ) -> Result<(), FsError> {
        let nodes = [self.node(from.0)?, self.node(to.0)?];
        rename::exchange(&self.mount, (&nodes[0], from.1), (&nodes[1], to.1), now)
    }

    fn get_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.noticed(xattr::get(&self.mount.volume, &self.node(inode)?.read(), name))
    }

    fn list_xattr(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, FsError> {
        self.noticed(xattr::list(&self.mount.volume, &self.node(inode)?.read()))
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: FileTime,
    ) -> Result<(), FsError> {
        let node = self.node(inode)?;
        self.mount.operate_with((0, Account::Caller), |operation| {
            let mut inode = node.write();
            inode.attributes.changed = now;
            node.note(operation);
            xattr_edit::set(&self.mount.volume, operation, &mut inode, (name, value), mode)
        })
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8], now: FileTime) -> Result<(), FsError> {
        let node = self.node(inode)?;
        self.mount.operate(|operation| {
            let mut inode = node.write();
            inode.attributes.changed = now;
            node.note(operation);
            xattr_edit::remove(&self.mount.volume, operation, &mut inode, name)
        })
    }

    fn set_acl(&self, inode: InodeNumber, change: &AclChange<'_>) -> Result<Attributes, FsError> {
        let node = self.node(inode)?;
        self.mount.operate_with((0, Account::Caller), |operation| {
            let mut inode = node.write();
            node.note(operation);
            xattr_edit::set_acl(&self.mount.volume, operation, &mut inode, change)?;
            Ok(inode.attributes)
        })
    }

    fn set_judge(&self, is_privileged: fn(ReservedFor) -> bool) {
        self.mount.volume.set_judge(is_privileged);
    }

    fn reserve_range(&self, inode: InodeNumber, first: u64, pages: u64) -> Result<(), FsError> {
        write::reserve(&self.mount, &*self.node(inode)?, first, pages)
    }

    fn release_range(&self, inode: InodeNumber, first: u64, pages: u64) {
        if let (Ok(node), Ok(groups)) = (self.node(inode), self.mount.volume.groups()) {
            let blocks = (PAGE_BYTES / self.mount.volume.geometry.block_bytes) as u64;
            node.undelay(groups, first, pages, blocks);
        }
    }

    fn shrink(&self, pages: usize) -> usize {
        self.mount.volume.store.shrink(pages)
    }

    fn forget(&self, inode: InodeNumber, count: u64) {
        // The root's count belongs to the mount.
        if inode != u64::from(ROOT_INODE) {
            named::let_go(&self.mount, inode, count);
        }
    }

    fn sync(&self) -> Result<(), FsError> {
        self.sync_all()
    }

    fn put_in_place(&self) -> Result<(), FsError> {
        self.mount.put_in_place()
    }

    fn unmount(&self) -> Result<(), FsError> {
        self.leave()
    }

    fn remount(&self, access: MountAccess) -> Result<(), FsError> {
        self.change_access(access)
    }

    fn trim(&self, start: u64, length: u64, minimum: u64) -> Result<u64, FsError> {
        self.discard_free(start, length, minimum)
    }
}
