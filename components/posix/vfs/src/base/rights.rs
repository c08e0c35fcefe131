//! Bits that a vnode keeps beside its mirrored permissions, in the same word.
//!
//! A check of a file without access control lists and capabilities costs nothing for them: it is the same load, mask and
//! compare.
use interfaces::file_system::{Attributes, FileType, MountInfo};

/// There may be a list that says who may use it.
pub(crate) const HAS_ACCESS_ACL: u16 = 0x8000;
/// There may be a list that it hands on.
pub(crate) const HAS_DEFAULT_ACL: u16 = 0x4000;
/// The file may give capabilities to a program of it.
pub(crate) const HAS_CAPABILITIES: u16 = 0x2000;
/// Both lists.
pub(crate) const HAS_ACLS: u16 = HAS_ACCESS_ACL | HAS_DEFAULT_ACL;

/// Returns the bits of an inode that is new here, on the file system of `info`.
pub(crate) fn of_new(known: &Attributes, info: &MountInfo) -> u16 {
    if !known.may_have_acls && !known.may_have_capabilities {
        return 0;
    }
    let is_regular = known.file_type == FileType::Regular;
    let capabilities = if known.may_have_capabilities && is_regular { HAS_CAPABILITIES } else { 0 };
    let lists = match known.file_type {
        FileType::Symlink => 0,
        FileType::Directory => HAS_ACLS,
        _ => HAS_ACCESS_ACL,
    };
    capabilities | if known.may_have_acls && info.has_acls { lists } else { 0 }
}
