//! File systems: names, attributes, and moving whole frames between storage and the page cache (K4, B7).
//!
//! The page cache, the name cache, open files, locks between programs and permission checks are
//! the personality's. A file system answers lookups and fills or empties frames. The personality
//! holds an inode (`lookup`, `create` ... count it up by one) until it calls `forget`.
mod attributes;
mod directory;
mod requests;
mod stored;

use alloc::{sync::Arc, vec::Vec};
use interfaces_macro::interface;
use rt::{PAGE_BYTES, memory::Frame};

pub use attributes::{LABEL_NAME, LEVEL_SLOTS, NewAcls, NewInode};
pub use directory::{DirectoryEntry, TakeEntry, list_directory};
pub use requests::{Allocation, MountAccess, Seek, SyncKind, XattrMode};
pub use stored::Stored;

/// Number of an inode within its file system.
pub type InodeNumber = u64;

/// The type of an inode; the values are those of `S_IFMT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FileType {
    /// A FIFO.
    Fifo = 0o010000,
    /// A character device.
    Character = 0o020000,
    /// A directory.
    Directory = 0o040000,
    /// A block device.
    Block = 0o060000,
    /// A regular file.
    Regular = 0o100000,
    /// A symbolic link.
    Symlink = 0o120000,
    /// A socket.
    Socket = 0o140000,
}

/// A time of a file: seconds since 1970 and nanoseconds below a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The answer to `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Number within the file system.
    pub inode: InodeNumber,
    /// Type.
    pub file_type: FileType,
    /// Permission bits with setuid, setgid and sticky (12 bits).
    pub permissions: u16,
    /// Number of names (links).
    pub links: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Device number (major, minor) of a device node.
    pub device: (u32, u32),
    /// Length in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub accessed: FileTime,
    /// Last change of contents.
    pub modified: FileTime,
    /// Last change of attributes.
    pub changed: FileTime,
    /// Creation.
    pub created: FileTime,
    /// Inode flags as of `FS_IOC_GETFLAGS` (immutable, append only ...).
    pub flags: u32,
    /// Generation number.
    pub generation: u32,
    /// The inode may have access control lists; the personality then asks for them when it checks rights.
    pub may_have_acls: bool,
    /// The inode may have the attribute `security.capability`.
    pub may_have_capabilities: bool,
}

/// The attributes to change; those that are `None` stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// Permission bits.
    pub permissions: Option<u16>,
    /// Owner.
    pub user: Option<u32>,
    /// Group.
    pub group: Option<u32>,
    /// Length: truncates or extends with a hole.
    pub size: Option<u64>,
    /// Last access.
    pub accessed: Option<FileTime>,
    /// Last change of contents.
    pub modified: Option<FileTime>,
    /// Last change of attributes.
    pub changed: Option<FileTime>,
    /// Inode flags as of `FS_IOC_SETFLAGS`; [`FsError::Unsupported`] if a flag cannot be stored.
    pub flags: Option<u32>,
}

/// A change of one access control list and of the attributes that change with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclChange<'a> {
    /// Name of the list's extended attribute.
    pub name: &'a [u8],
    /// The list in the form of [`FileSystem::get_xattr`]; an empty one removes it.
    pub value: &'a [u8],
    /// Permission bits.
    pub permissions: Option<u16>,
    /// Last change of attributes.
    pub now: FileTime,
}

/// The user and the group that a volume's reserved blocks serve, beside privileged callers; group 0
/// stands for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedFor {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// The answer to `statfs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystemUsage {
    /// Magic number of the file system's type (`f_type`).
    pub magic: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks free.
    pub free: u64,
    /// Blocks free to unprivileged users.
    pub available: u64,
    /// Inodes in all.
    pub files: u64,
    /// Inodes free.
    pub files_free: u64,
    /// File system id.
    pub id: u64,
    /// Longest name.
    pub name_max: u32,
}

/// The reason why an operation failed. The personality converts it to errno in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name says it")]
pub enum FsError {
    NotFound,
    Exists,
    NotDirectory,
    IsDirectory,
    NotEmpty,
    NoSpace,
    ReadOnly,
    NameTooLong,
    TooManyLinks,
    FileTooBig,
    Invalid,
    NoAttribute,
    Unsupported,
    /// The medium failed.
    Io,
    /// A structure on the medium is inconsistent; nothing was done (EUCLEAN).
    Corrupt,
    NoMemory,
    /// The component died.
    Restarted,
}

/// The place where a file system keeps its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// On storage. The personality may drop clean cached contents and read them again.
    Storage,
    /// Only in the personality's caches (tmpfs). Names, attributes, targets of symbolic links and pages are never dropped and
    /// never read from the file system; absent pages are zeroes. The file system counts inodes, links and pages against its
    /// limits and keeps extended attributes.
    Cache,
}

/// The properties of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo {
    /// `ext4`, `tmpfs`.
    pub type_name: &'static str,
    /// Root inode.
    pub root: InodeNumber,
    /// The mount is read-only because it was mounted or remounted so. Errors can forbid writing later.
    pub is_read_only: bool,
    /// The place where its contents are kept.
    pub backing: Backing,
    /// Names may be cached, because they change only by calls of this trait. False for a file system whose names change by
    /// themselves, such as procfs.
    pub has_stable_names: bool,
    /// Bytes of a block, as `stat` reports.
    pub block_bytes: u32,
    /// The file system keeps access control lists, of all inodes but symbolic links.
    pub has_acls: bool,
    /// Greatest length of a regular file, which is also the greatest position in it.
    pub size_max: u64,
    /// The page cache starts writing a file's dirty pages before the file takes the name of another, and when it is
    /// closed after its length was set to zero (ext4's `auto_da_alloc`). The file system orders that data before the
    /// name. [`Backing::Storage`] only.
    pub writes_replacements: bool,
}

/// The receiver of completions of asynchronous page transfers.
#[interface(direct)]
pub trait PageSink: Send + Sync {
    /// Pages `first` to `first + count - 1` of the transfer `tag` have arrived or failed.
    fn pages_done(&self, tag: u64, first: u64, count: usize, result: Result<(), FsError>);
}

/// A mounted file system. The default implementations are those of a file system without changes of names and without extended
/// attributes. All names are bytes without NUL or slash, never `.` or `..`, 1 to 255 long.
#[interface(direct)]
pub trait FileSystem: Send + Sync {
    /// Returns the properties of the mount.
    fn mount_info(&self) -> MountInfo;
    /// Returns the space and the inodes of the file system, used and free.
    fn usage(&self) -> Result<FileSystemUsage, FsError>;
    /// Looks up `name` in `directory`. Returns the attributes of its inode.
    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes, FsError> {
        let _ = (directory, name);
        Err(FsError::NotFound)
    }
    /// Returns the attributes of an inode that the caller holds. With [`Backing::Cache`] these are the initial attributes of
    /// the root.
    fn attributes(&self, inode: InodeNumber) -> Result<Attributes, FsError>;
    /// Returns the units of 512 bytes that an inode uses, reserved space included: the value of [`Attributes::blocks`].
    fn blocks(&self, inode: InodeNumber) -> Result<u64, FsError> {
        Ok(self.attributes(inode)?.blocks)
    }
    /// Changes attributes. Returns the attributes after the change.
    fn set_attributes(
        &self,
        inode: InodeNumber,
        change: &AttributeChange,
    ) -> Result<Attributes, FsError> {
        let _ = (inode, change);
        Err(FsError::Unsupported)
    }
    /// Passes the entries from `position` on (0 is the start) to `take`, without `.` and `..`. It may return an error after it
    /// has passed some entries.
    fn read_directory(
        &self,
        directory: InodeNumber,
        position: u64,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), FsError> {
        let _ = (directory, position, take);
        Ok(())
    }
    /// Returns the target of a symbolic link.
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, FsError> {
        let _ = inode;
        Err(FsError::Invalid)
    }
    /// Starts reading pages `first ..` of a file into `frames`, as whole pages. Holes, and bytes beyond the end of the file,
    /// become zeroes. `sink` is told, perhaps in parts and before this returns.
    fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        let _ = inode;
        frames.iter().for_each(|frame| frame.zero(0, PAGE_BYTES));
        sink.pages_done(tag, first, frames.len(), Ok(()));
    }
    /// Starts writing pages `first ..` from `frames`, whole pages that go to the device uncopied;
    /// `sink` is told as by `read_pages`, of each page when it is on the device (in its cache: only
    /// [`FileSystem::sync_inode`] makes it durable). Holes get blocks now, one allocation a run
    /// (delayed allocation), and their reservations end.
    ///
    /// `size_bytes` is the file's length as the page cache has it; a page beyond it is not written.
    /// The length on storage never shrinks by this and grows to at most `size_bytes` and the end of
    /// what was written, after the data is there: a crash shows no stale block. The caller has
    /// cleared the last page behind `size_bytes`, and calls neither [`FileSystem::set_attributes`]
    /// with a length nor [`FileSystem::allocate`] on this inode before the sink was told of all.
    fn write_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        size_bytes: u64,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        let _ = (inode, size_bytes);
        sink.pages_done(tag, first, frames.len(), Err(FsError::ReadOnly));
    }
    /// Writes pages as [`FileSystem::write_pages`] does, but may keep them to write them along with the next
    /// [`FileSystem::sync_inode`] and then returns `true`. In that case `sink` is told from that sync on; the caller
    /// must begin it at once, on this inode, and wait for nothing before. No other write of the inode may be under way.
    fn write_along(
        &self,
        inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        size_bytes: u64,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) -> bool {
        self.write_pages(inode, first, frames, size_bytes, tag, sink);
        false
    }
    /// Makes an inode durable. When this returns, the data of completed `write_pages` and of every [`FileSystem::write_along`]
    /// of the inode, and its attributes, are on stable storage and can be reached by name, if the inode has a name.
    ///
    /// # Errors
    /// Errors of writing, earlier ones included if they were not reported.
    fn sync_inode(&self, inode: InodeNumber, kind: SyncKind) -> Result<(), FsError> {
        let _ = (inode, kind);
        self.sync()
    }
    /// Changes the blocks of bytes `offset .. offset + length` of a regular file. The caller has
    /// written every dirty page that a `Collapse` or `Insert` moves and drops those pages after;
    /// partial blocks of a hole are cleared on storage here, in cached pages by the caller.
    ///
    /// # Errors
    /// [`FsError::Invalid`] if a range of `Collapse` or `Insert` is not made of whole blocks or
    /// passes the end, `NoSpace`, `FileTooBig`, `Unsupported`.
    fn allocate(
        &self,
        inode: InodeNumber,
        how: Allocation,
        offset: u64,
        length: u64,
        now: FileTime,
    ) -> Result<Attributes, FsError> {
        let _ = (inode, how, offset, length, now);
        Err(FsError::Unsupported)
    }
    /// Finds the first byte at or after `position` that matches `what`, as storage has it. The caller has written the file's
    /// dirty pages.
    ///
    /// # Errors
    /// [`FsError::NotFound`] at or beyond the end of the file, and where no data follows (`ENXIO`).
    fn seek(&self, inode: InodeNumber, position: u64, what: Seek) -> Result<u64, FsError> {
        let size = self.attributes(inode)?.size;
        match what {
            _ if position >= size => Err(FsError::NotFound),
            Seek::Data => Ok(position),
            Seek::Hole => Ok(size),
        }
    }
    /// Returns the storage state at byte `position` of a file or a directory, rounded down to a block, and the number of bytes
    /// that have this state, at most about `max`. The caller has written the file's dirty pages.
    ///
    /// # Errors
    /// [`FsError::Unsupported`], `Io`, `Corrupt`.
    fn stored(
        &self,
        inode: InodeNumber,
        position: u64,
        max: u64,
    ) -> Result<(Stored, u64), FsError> {
        let _ = (inode, position, max);
        Err(FsError::Unsupported)
    }
    /// Creates an inode with a first name.
    fn create(
        &self,
        directory: InodeNumber,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        let _ = (directory, name, new);
        Err(FsError::ReadOnly)
    }
    /// Creates an inode without a name (`O_TMPFILE`).
    fn create_unnamed(
        &self,
        directory: InodeNumber,
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        let _ = (directory, new);
        Err(FsError::Unsupported)
    }
    /// Gives an inode another name.
    fn link(
        &self,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<Attributes, FsError> {
        let _ = (inode, directory, name, now);
        Err(FsError::ReadOnly)
    }
    /// Removes a name of an inode that is not a directory. The inode lives until it is forgotten.
    fn unlink(&self, directory: InodeNumber, name: &[u8], now: FileTime) -> Result<(), FsError> {
        let _ = (directory, name, now);
        Err(FsError::ReadOnly)
    }
    /// Removes an empty directory.
    fn remove_directory(
        &self,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<(), FsError> {
        let _ = (directory, name, now);
        Err(FsError::ReadOnly)
    }
    /// Moves a name. An existing target is replaced atomically; the file system also checks that the types of both fit.
    fn rename(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        now: FileTime,
    ) -> Result<(), FsError> {
        let _ = (from, to, now);
        Err(FsError::ReadOnly)
    }
    /// Exchanges two names (`RENAME_EXCHANGE`).
    fn exchange(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        now: FileTime,
    ) -> Result<(), FsError> {
        let _ = (from, to, now);
        Err(FsError::Unsupported)
    }
    /// Returns the value of an extended attribute. `name` is the full name, such as `user.x`.
    fn get_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let _ = (inode, name);
        Err(FsError::NoAttribute)
    }
    /// Returns the names of the extended attributes.
    fn list_xattr(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, FsError> {
        let _ = inode;
        Ok(Vec::new())
    }
    /// Sets an extended attribute.
    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: FileTime,
    ) -> Result<(), FsError> {
        let _ = (inode, name, value, mode, now);
        Err(FsError::Unsupported)
    }
    /// Removes an extended attribute.
    fn remove_xattr(&self, inode: InodeNumber, name: &[u8], now: FileTime) -> Result<(), FsError> {
        let _ = (inode, name, now);
        Err(FsError::Unsupported)
    }
    /// Sets or removes an access control list together with the attributes of `change`, all or nothing. Returns the attributes
    /// after the change.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] where [`MountInfo::has_acls`] is not so, `NoSpace`.
    fn set_acl(&self, inode: InodeNumber, change: &AclChange<'_>) -> Result<Attributes, FsError> {
        let _ = (inode, change);
        Err(FsError::Unsupported)
    }
    /// Allocates a new inode's number and counts it against the limits. The inode lives until it is forgotten, which is done
    /// once ([`Backing::Cache`] only).
    ///
    /// # Errors
    /// [`FsError::NoSpace`], `NoMemory`.
    fn new_inode(&self, new: &NewInode<'_>) -> Result<InodeNumber, FsError> {
        let _ = new;
        Err(FsError::Unsupported)
    }
    /// Counts a further name of an inode against the limits ([`Backing::Cache`] only).
    ///
    /// # Errors
    /// [`FsError::NoSpace`].
    fn reserve_link(&self, inode: InodeNumber) -> Result<(), FsError> {
        let _ = inode;
        Ok(())
    }
    /// Ends the count of a name: an inode lost one of several names.
    fn release_link(&self, inode: InodeNumber) {
        let _ = inode;
    }
    /// Reserves space for `pages` more pages of a file before the page cache makes absent pages: the size limit of a tmpfs
    /// ([`Backing::Cache`] only).
    fn reserve(&self, inode: InodeNumber, pages: u64) -> Result<(), FsError> {
        let _ = (inode, pages);
        Ok(())
    }
    /// Releases `pages` reserved pages that the page cache dropped.
    fn release(&self, inode: InodeNumber, pages: u64) {
        let _ = (inode, pages);
    }
    /// Sets the function that tells whether the calling thread may use blocks reserved for privileged users. Only the first
    /// call has an effect. Before it, no thread may use them.
    fn set_judge(&self, is_privileged: fn(ReservedFor) -> bool) {
        let _ = is_privileged;
    }
    /// Reserves blocks for those of the pages `first ..` that have none, before the page cache makes them dirty. The
    /// reservation lasts until `write_pages`, `release_range`, a truncation or a hole (delayed allocation, [`Backing::Storage`]
    /// only). Reserving the same page again has no effect.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::ReadOnly`]; nothing was set aside then.
    fn reserve_range(&self, inode: InodeNumber, first: u64, pages: u64) -> Result<(), FsError> {
        let _ = (inode, first, pages);
        Ok(())
    }
    /// Releases the reservation of dirty pages that the page cache dropped without writing them.
    fn release_range(&self, inode: InodeNumber, first: u64, pages: u64) {
        let _ = (inode, first, pages);
    }
    /// Decrements the personality's count on the inode by `count`. An inode without names and counts is freed.
    fn forget(&self, inode: InodeNumber, count: u64);
    /// Drops up to `pages` pages of caches because memory is short. Returns the number of pages dropped.
    fn shrink(&self, pages: usize) -> usize {
        let _ = pages;
        0
    }
    /// Makes everything written so far durable before it returns.
    fn sync(&self) -> Result<(), FsError>;
    /// Moves everything that is on stable storage to its final place (for ext4 from the journal), where a program that reads
    /// the medium itself finds it.
    ///
    /// # Errors
    /// Errors of the medium.
    fn put_in_place(&self) -> Result<(), FsError> {
        Ok(())
    }
    /// Ends the last mount: everything is written and the medium is marked as unmounted. After this nothing is written any
    /// more, and every change is refused with [`FsError::ReadOnly`].
    fn unmount(&self) -> Result<(), FsError> {
        self.sync()
    }
    /// Changes the access of the mount (`MS_REMOUNT`). A change to read-only acts like `unmount`, but reads go on.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] if the medium, its features or its errors forbid writing.
    fn remount(&self, access: MountAccess) -> Result<(), FsError> {
        match (access, self.mount_info().is_read_only) {
            (MountAccess::Writable, true) => Err(FsError::ReadOnly),
            _ => Ok(()),
        }
    }
    /// Tells the device of free space in bytes `start .. start + length` of the volume, in pieces of at least `minimum` bytes
    /// (`FITRIM`). Returns the number of bytes that the device was told of.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] if the device takes no discards.
    fn trim(&self, start: u64, length: u64, minimum: u64) -> Result<u64, FsError> {
        let _ = (start, length, minimum);
        Err(FsError::Unsupported)
    }
}
