//! POSIX access control lists: who beside owner, group and others may do what (acl(5)).
//!
//! An [`Acl`] is a list that holds together; [`Entry`]s read from outside may not. Both its forms are
//! read and written here:
//!
//! ```text
//! portable (xattr)  0 version 2 | entries: 0 tag | 2 permissions | 4 id, all ones where there is none
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

/// Name of the attribute with the list that says who may use a file.
pub const ACCESS_NAME: &[u8] = b"system.posix_acl_access";
/// Name of the attribute with the list a directory hands to what is made in it.
pub const DEFAULT_NAME: &[u8] = b"system.posix_acl_default";

/// Read, write and execute of one class.
const CLASS: u16 = 7;

/// Whom an entry is about.
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
    /// The most that users, groups and the file's group get.
    Mask,
    /// Everybody else.
    Other,
}

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whom it is about.
    pub tag: Tag,
    /// Read 4, write 2, execute 1; read from outside it may have other bits.
    pub permissions: u16,
}

/// A list that holds together: owner, users, file's group, groups, mask and others, in that order, with a
/// mask where users or groups are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<Entry>);

/// Of whom is asked.
pub trait Subject {
    /// It acts as that user.
    fn is_user(&self, user: u32) -> bool;
    /// It is in that group.
    fn is_in_group(&self, group: u32) -> bool;
}

impl Acl {
    /// The list of these entries; `None` where they do not hold together.
    pub fn new(entries: Vec<Entry>) -> Option<Acl> {
        // The classes that may come next, by the order of their tags.
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
    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }
    /// The mode bits it shows as: those of owner, mask (else the file's group) and others.
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
    /// It says no more than its mode does.
    pub fn is_mode(&self) -> bool {
        self.0.iter().all(|one| matches!(one.tag, Tag::Owner | Tag::OwnerGroup | Tag::Other))
    }
    /// Makes it show as `mode` (chmod).
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
    /// The list of a file that is made with `mode` in a directory that hands this on; it shows as what both
    /// allow.
    pub fn inherited(&self, mode: u16) -> Acl {
        let mut list = self.clone();
        list.set_mode(mode & self.mode());
        list
    }
    /// All of `wanted` (read 4, write 2, execute 1) is allowed on a file of `owner` and `group`: the
    /// first entry that fits decides, of groups any that fits and allows it.
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

/// The place of a tag among the others.
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
