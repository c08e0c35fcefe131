//! tmpfs: a file system in memory ([`Backing::Cache`]). Names, attributes, targets and bytes live in the personality's
//! caches; this crate has the limits of a mount and the extended attributes.
//!
//! Key types: [`Tmpfs`] (the mount), [`space::Space`] (its limits), [`extras::Extras`] (state that few inodes have).
//!
//! Locks: `tmpfs.extras`, a leaf, held for one operation on an inode's extended attributes.
//!
//! Source: Linux Documentation/filesystems/tmpfs.rst; tmpfs(5).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
extern crate alloc;

mod extras;
mod options;
mod space;
#[cfg(test)]
mod tests;

use alloc::{sync::Arc, vec, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use extras::Extras;
use interfaces::{
    block::Block,
    file_system::{
        Attributes, Backing, FileSystem, FileSystemUsage, FileTime, FileType, FsError, InodeNumber,
        LEVEL_SLOTS, MountInfo, NewAcls, NewInode, XattrMode,
    },
    offer::Offer,
};
use rt::PAGE_BYTES;
use space::{INODE_BYTES, Space};

/// Number of the root directory.
const ROOT: InodeNumber = 1;
/// `f_type` of a tmpfs.
const MAGIC: u32 = 0x0102_1994;
/// Longest name.
const NAME_MAX: usize = 255;
/// Greatest length of a target that is not charged in addition to its inode (`SHORT_SYMLINK_LEN` of Linux).
const TARGET_WITHIN: usize = 128;
/// Size of the largest file, as `s_maxbytes` of Linux.
const MAX_BYTES: u64 = i64::MAX as u64;

/// The options of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The greatest number of bytes of file contents; `None` for half of memory, 0 for no limit.
    pub size_bytes: Option<u64>,
    /// The greatest number of inodes; `None` for one for every two frames of memory, 0 for no limit.
    pub inodes: Option<u64>,
    /// Permission bits of the root.
    pub permissions: u16,
    /// Owner of the root.
    pub user: u32,
    /// Group of the root.
    pub group: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options { size_bytes: None, inodes: None, permissions: 0o1777, user: 0, group: 0 }
    }
}

/// The slot's place in an inode's number.
const SLOT_SHIFT: u32 = 40;

/// Returns the slot of the level whose process made an inode.
fn slot_of(inode: InodeNumber) -> usize {
    (inode >> SLOT_SHIFT) as usize
}

/// A mounted tmpfs.
pub struct Tmpfs {
    options: Options,
    made: FileTime,
    /// The numbers of inodes given so far, by the slot of their makers' level.
    given: [AtomicU64; LEVEL_SLOTS],
    space: Space,
    extras: Extras,
}

/// Starts the component: it offers the file system type `tmpfs`.
pub fn start() -> Vec<Offer> {
    vec![Offer::FileSystem("tmpfs", make)]
}

fn make(_disk: Option<Arc<dyn Block>>, options: &[u8]) -> Result<Arc<dyn FileSystem>, FsError> {
    Ok(new(Options::parse(options)?)?)
}

/// Makes an empty tmpfs.
///
/// # Errors
/// [`FsError::NoSpace`] if no inode is allowed.
pub fn new(options: Options) -> Result<Arc<Tmpfs>, FsError> {
    let space = Space::new(options.size_bytes, options.inodes);
    space.part(ROOT).take_inode_bytes(INODE_BYTES)?;
    let (given, extras) = ([const { AtomicU64::new(0) }; LEVEL_SLOTS], Extras::new());
    Ok(Arc::new(Tmpfs { options, made: wall_time(), given, space, extras }))
}

fn wall_time() -> FileTime {
    let ns = rt::time::wall_ns();
    FileTime { seconds: (ns / 1_000_000_000) as i64, nanoseconds: (ns % 1_000_000_000) as u32 }
}

impl Tmpfs {
    /// Reserves the memory that an inode takes in addition to its own: for a long target, and access control lists.
    #[cold]
    fn add_extras(&self, inode: InodeNumber, new: &NewInode<'_>) -> Result<(), FsError> {
        let target = if new.target.len() > TARGET_WITHIN { new.target.len() } else { 0 };
        self.extras.reserve(self.space.part(inode), inode, target as u64)?;
        for (name, value) in
            [(acl::ACCESS_NAME, new.acls.access), (acl::DEFAULT_NAME, new.acls.default)]
        {
            if !value.is_empty() {
                self.extras.set(self.space.part(inode), inode, (name, value), XattrMode::Set)?;
            }
        }
        Ok(())
    }
}

impl FileSystem for Tmpfs {
    fn mount_info(&self) -> MountInfo {
        MountInfo {
            type_name: "tmpfs",
            root: ROOT,
            is_read_only: false,
            backing: Backing::Cache,
            has_stable_names: true,
            block_bytes: PAGE_BYTES as u32,
            has_acls: true,
            size_max: MAX_BYTES,
            writes_replacements: false,
        }
    }

    fn usage(&self) -> Result<FileSystemUsage, FsError> {
        Ok(self.space.usage())
    }

    fn attributes(&self, inode: InodeNumber) -> Result<Attributes, FsError> {
        if inode != ROOT {
            return Err(FsError::NotFound);
        }
        let Options { permissions, user, group, .. } = self.options;
        Ok(Attributes::new(
            ROOT,
            &NewInode {
                file_type: FileType::Directory,
                permissions,
                user,
                group,
                device: (0, 0),
                target: &[],
                now: self.made,
                label: &[],
                level: None,
                acls: NewAcls::default(),
            },
        ))
    }

    fn new_inode(&self, new: &NewInode<'_>) -> Result<InodeNumber, FsError> {
        let slot = new.level.unwrap_or(0).min(LEVEL_SLOTS - 1);
        let start = (slot as u64) << SLOT_SHIFT;
        self.space.part(start).take_inode_bytes(INODE_BYTES)?;
        let given = self.given.get(slot).map_or(0, |given| given.fetch_add(1, Relaxed));
        let inode = start | (ROOT + 1 + given);
        if (new.target.len() > TARGET_WITHIN || new.acls != NewAcls::default())
            && let Err(error) = self.add_extras(inode, new)
        {
            self.forget(inode, 1);
            return Err(error);
        }
        Ok(inode)
    }

    fn reserve_link(&self, inode: InodeNumber) -> Result<(), FsError> {
        self.space.part(inode).take_inode_bytes(INODE_BYTES)
    }

    fn release_link(&self, inode: InodeNumber) {
        self.space.part(inode).give_inode_bytes(INODE_BYTES);
    }

    fn get_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.extras.get(inode, name)
    }

    fn list_xattr(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, FsError> {
        Ok(self.extras.list(inode))
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        _now: FileTime,
    ) -> Result<(), FsError> {
        self.extras.set(self.space.part(inode), inode, (name, value), mode)
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8], _now: FileTime) -> Result<(), FsError> {
        self.extras.take_out(self.space.part(inode), inode, name)
    }

    fn reserve(&self, inode: InodeNumber, pages: u64) -> Result<(), FsError> {
        self.space.part(inode).take_pages(pages)
    }

    fn release(&self, inode: InodeNumber, pages: u64) {
        self.space.part(inode).give_pages(pages);
    }

    fn forget(&self, inode: InodeNumber, _count: u64) {
        self.space.part(inode).give_inode_bytes(INODE_BYTES + self.extras.remove(inode));
    }

    fn sync(&self) -> Result<(), FsError> {
        Ok(())
    }
}
