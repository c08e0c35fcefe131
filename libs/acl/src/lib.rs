//! POSIX access control lists: the permissions of further users and groups beside owner, group and others
//! (acl(5)).
//!
//! An [`Acl`] is a consistent list; a list of [`AclEntry`]s read from outside may not be one. Both encoded
//! forms are read and written here:
//!
//! ```text
//! portable (xattr)  0 version 2 | entries: 0 tag | 2 permissions | 4 id, all ones if there is none
//! disk (ext4)       0 version 1 | entries: 0 tag | 2 permissions [| 4 id, of named users and groups]
//! ```
//!
//! Source: POSIX.1e draft 17, acl(5), Linux fs/posix_acl.c and fs/ext4/acl.c.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod forms;

pub use forms::{FormError, from_disk, from_portable, to_disk, to_portable};

use alloc::vec::Vec;

/// Name of the attribute with the access list of a file.
pub const ACCESS_NAME: &[u8] = b"system.posix_acl_access";
/// Name of the attribute with the default list of a directory, which new files in it inherit.
pub const DEFAULT_NAME: &[u8] = b"system.posix_acl_default";

/// Permission bits of one class: read, write and execute.
const CLASS: u16 = 7;

/// The user or group that an entry applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The file's owner.
    Owner,
    /// A user.
    User(u32),
    /// The file's group.
    OwnerGroup,
    /// A group.
    Group(u32),
    /// The greatest permissions of named users, named groups and the file's group.
    Mask,
    /// All other users.
    Other,
}

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// The user or group that the entry applies to.
    pub tag: Tag,
    /// Read 4, write 2, execute 1; an entry read from outside may have other bits.
    pub permissions: u16,
}

/// A consistent list: owner, users, file's group, groups, mask and others, in that order, with a mask if
/// users or groups are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<AclEntry>);

/// The process whose access is checked.
pub trait Subject {
    /// Returns whether it acts as that user.
    fn is_user(&self, user: u32) -> bool;
    /// Returns whether it is in that group.
    fn is_in_group(&self, group: u32) -> bool;
}

impl Acl {
    /// Makes the list of these entries; `None` if they are not consistent.
    pub fn new(entries: Vec<AclEntry>) -> Option<Acl> {
        // These are the tags that may come next, by their rank.
        let (mut least, mut is_named) = (0, false);
        for entry in &entries {
            let rank = rank(entry.tag);
            let is_due = match entry.tag {
                Tag::Owner => least == 0,
                Tag::User(_) => least == 1,
                Tag::OwnerGroup => least == 1,
                Tag::Group(_) | Tag::Mask => least == 3,
                Tag::Other => least == 5 || least == 3 && !is_named,
            };
            if !is_due || entry.permissions & !CLASS != 0 {
                return None;
            }
            is_named |= matches!(entry.tag, Tag::User(_) | Tag::Group(_));
            least = rank;
        }
        (least == rank(Tag::Other)).then_some(Acl(entries))
    }
    /// Returns the entries.
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }
    /// Returns the mode bits that the list stands for: those of owner, mask (or the file's group without a
    /// mask) and others.
    pub fn mode(&self) -> u16 {
        let has_mask = self.has_mask();
        self.0.iter().fold(0, |mode, entry| match entry.tag {
            Tag::Owner => mode | entry.permissions << 6,
            Tag::OwnerGroup if !has_mask => mode | entry.permissions << 3,
            Tag::Mask => mode | entry.permissions << 3,
            Tag::Other => mode | entry.permissions,
            _ => mode,
        })
    }
    /// Returns whether the list grants exactly what its mode does.
    pub fn is_mode(&self) -> bool {
        self.0.iter().all(|one| matches!(one.tag, Tag::Owner | Tag::OwnerGroup | Tag::Other))
    }
    /// Changes the entries so that the list stands for `mode` (chmod).
    pub fn set_mode(&mut self, mode: u16) {
        let has_mask = self.has_mask();
        for entry in &mut self.0 {
            match entry.tag {
                Tag::Owner => entry.permissions = mode >> 6 & CLASS,
                Tag::OwnerGroup if !has_mask => entry.permissions = mode >> 3 & CLASS,
                Tag::Mask => entry.permissions = mode >> 3 & CLASS,
                Tag::Other => entry.permissions = mode & CLASS,
                _ => {}
            }
        }
    }
    /// Returns the list of a new file that is created with `mode` in a directory with this default list. It
    /// grants only what both allow.
    pub fn inherited(&self, mode: u16) -> Acl {
        let mut list = self.clone();
        list.set_mode(mode & self.mode());
        list
    }
    /// Returns whether all of `wanted` (read 4, write 2, execute 1) is allowed on a file of `owner` and
    /// `group`. The first matching entry decides; among groups, any matching one that allows it.
    pub fn allows(&self, who: &impl Subject, (owner, group): (u32, u32), wanted: u16) -> bool {
        let mask = self.0.iter().find(|entry| entry.tag == Tag::Mask);
        let mask = mask.map_or(CLASS, |entry| entry.permissions);
        let mut is_member = false;
        for entry in &self.0 {
            let has = |permissions: u16| permissions & wanted == wanted;
            let its_group = match entry.tag {
                Tag::Owner if who.is_user(owner) => return has(entry.permissions),
                Tag::User(user) if who.is_user(user) => return has(entry.permissions & mask),
                Tag::Other => return !is_member && has(entry.permissions),
                Tag::OwnerGroup => group,
                Tag::Group(group) => group,
                _ => continue,
            };
            if who.is_in_group(its_group) {
                is_member = true;
                if has(entry.permissions) {
                    return has(entry.permissions & mask);
                }
            }
        }
        false
    }
    fn has_mask(&self) -> bool {
        self.0.iter().any(|entry| entry.tag == Tag::Mask)
    }
}

/// Returns the rank of a tag in the order of a list.
fn rank(tag: Tag) -> u8 {
    match tag {
        Tag::Owner | Tag::User(_) => 1,
        Tag::OwnerGroup | Tag::Group(_) => 3,
        Tag::Mask => 5,
        Tag::Other => 6,
    }
}

#[cfg(test)]
mod tests;
