//! The description of a new inode, and the initial attributes of one that lives in the personality's caches
//! ([`Backing::Cache`]).
//!
//! [`Backing::Cache`]: super::Backing::Cache
#[cfg(doc)]
use super::FileSystem;
use super::{Attributes, FileTime, FileType, InodeNumber};

/// Name of the extended attribute that is an inode's security label.
pub const LABEL_NAME: &[u8] = b"security.selinux";

/// The number of slots of levels ([`NewInode::level`]); the first is that of the kernel's level.
pub const LEVEL_SLOTS: usize = 64;

/// The attributes of a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode<'a> {
    /// Type.
    pub file_type: FileType,
    /// Permission bits.
    pub permissions: u16,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Device number of a device node.
    pub device: (u32, u32),
    /// Target of a symbolic link.
    pub target: &'a [u8],
    /// Its times: creation, access, modification and change.
    pub now: FileTime,
    /// Its security label, the value of the extended attribute [`LABEL_NAME`]; an empty one stands for none. It is stored in
    /// the operation that makes the inode, so no inode with a name lacks it, a crash included.
    pub label: &'a [u8],
    /// The slot of its maker's level, below [`LEVEL_SLOTS`]: a file system numbers inodes for each slot alone, so that no level sees
    /// how many inodes another one makes. `None` in a system without levels.
    pub level: Option<usize>,
    /// Its access control lists.
    pub acls: NewAcls<'a>,
}

/// The access control lists of a new inode, in the form of [`FileSystem::get_xattr`]; an empty list stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewAcls<'a> {
    /// Its access list.
    pub access: &'a [u8],
    /// Its default list, which new inodes in it inherit, if it is a directory.
    pub default: &'a [u8],
}

impl Attributes {
    /// Returns the attributes of a new inode that has no name yet. A directory's link count includes its own
    /// `.`.
    pub fn new(inode: InodeNumber, new: &NewInode<'_>) -> Attributes {
        let is_device = matches!(new.file_type, FileType::Character | FileType::Block);
        Attributes {
            inode,
            file_type: new.file_type,
            permissions: new.permissions & 0o7777,
            links: if new.file_type == FileType::Directory { 2 } else { 0 },
            user: new.user,
            group: new.group,
            device: if is_device { new.device } else { (0, 0) },
            size: new.target.len() as u64,
            blocks: 0,
            accessed: new.now,
            modified: new.now,
            changed: new.now,
            created: new.now,
            flags: 0,
            generation: 0,
            may_have_acls: new.acls != NewAcls::default(),
            may_have_capabilities: false,
        }
    }
}
