//! The initial attributes of an inode that lives in the personality's caches ([`Backing::Cache`]).
//!
//! [`Backing::Cache`]: super::Backing::Cache
use super::{Attributes, FileType, InodeNumber, NewAcls, NewInode};

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
        }
    }
}
