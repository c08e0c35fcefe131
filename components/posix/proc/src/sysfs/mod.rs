//! `/sys`: the devices of the machine, in the form of Linux's sysfs.
//!
//! The tree is built once; contents that change (counts) are made at each read. Only interfaces of the network come and go: a
//! directory of them is a [`Family`], which makes its members when it is asked. `tree` describes the tree, this file makes nodes
//! of it. Source: sysfs(5), Linux `Documentation/ABI`.
mod network;
mod tree;

use crate::listing;
use alloc::{string::String, sync::Arc, vec::Vec};
use interfaces::{
    file_system::{Attributes, FileType, TakeEntry},
    monitor::Initial,
};
use rt::sync::Once;
use vfs::{
    Active, Errno, Principal,
    file::Places,
    generated::{Child, GENERATED_END, Node, Viewer, attributes},
    security::{Label, initial},
};

/// A file's content, made when it is read.
type Content = alloc::boxed::Box<dyn Fn() -> String + Send + Sync>;

/// Function that accepts data written to a file.
type Setter = alloc::boxed::Box<dyn Fn(&[u8]) -> Result<(), Errno> + Send + Sync>;

/// The members of a directory that come and go.
trait Family: Send + Sync {
    /// Returns the names of the members, and numbers of theirs that stay the same.
    fn members(&self) -> Vec<(String, u64)>;
    /// Returns the type of all members.
    fn file_type(&self) -> FileType;
    /// Makes the node of a member.
    fn node(&self, name: &str) -> Option<Arc<SysfsNode>>;
}

/// The kind of a node.
enum NodeKind {
    Directory(Vec<(String, Arc<SysfsNode>)>),
    /// A directory without names, over which another file system is mounted.
    MountPoint,
    Family(alloc::boxed::Box<dyn Family>),
    File(Content, Option<Setter>),
    /// A file with counts of all levels together.
    OfAll(Content),
    Link(String),
}

/// A node of the tree.
struct SysfsNode {
    inode: u64,
    kind: NodeKind,
}

static MOUNTED: Once<Arc<Active>> = Once::new();

/// The mount of sysfs: one however often it is mounted.
///
/// # Errors
/// `ENOMEM`.
pub fn mount(_: &[u8]) -> Result<Arc<Active>, Errno> {
    MOUNTED.get_or_try_init(|| Active::generated("sysfs", tree::build())).cloned()
}

impl SysfsNode {
    fn file_type(&self) -> FileType {
        match self.kind {
            NodeKind::Directory(_) | NodeKind::MountPoint | NodeKind::Family(_) => {
                FileType::Directory
            }
            NodeKind::File(..) | NodeKind::OfAll(_) => FileType::Regular,
            NodeKind::Link(_) => FileType::Symlink,
        }
    }
    fn names(&self) -> Result<&[(String, Arc<SysfsNode>)], Errno> {
        match &self.kind {
            NodeKind::Directory(names) => Ok(names),
            NodeKind::MountPoint => Ok(&[]),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

/// Passes the members of a family from a position on to `take`.
fn list_members(family: &dyn Family, position: u64, take: &mut TakeEntry<'_>) {
    let (file_type, members) = (family.file_type(), family.members());
    let named = members.iter().map(|(name, inode)| (*inode, file_type, name.as_bytes()));
    let _ = listing::list(named, position, take);
}

impl Node for SysfsNode {
    fn attributes(&self) -> Attributes {
        const FILE_BYTES: u64 = 4096;
        let permissions = match self.kind {
            NodeKind::Directory(_) | NodeKind::MountPoint | NodeKind::Family(_) => 0o755,
            NodeKind::File(_, None) | NodeKind::OfAll(_) => 0o444,
            NodeKind::File(_, Some(_)) => 0o644,
            NodeKind::Link(_) => 0o777,
        };
        let mut attributes = attributes(self.inode, self.file_type(), permissions, (0, 0));
        match &self.kind {
            NodeKind::File(..) | NodeKind::OfAll(_) => attributes.size = FILE_BYTES,
            NodeKind::Directory(names) => {
                let is_directory = |(_, entry): &&(String, Arc<SysfsNode>)| {
                    matches!(entry.kind, NodeKind::Directory(_) | NodeKind::MountPoint)
                };
                attributes.links = 2 + names.iter().filter(is_directory).count() as u32;
            }
            NodeKind::Family(family) if family.file_type() == FileType::Directory => {
                attributes.links = 2 + family.members().len() as u32;
            }
            NodeKind::Family(_) => attributes.links = 2,
            NodeKind::MountPoint | NodeKind::Link(_) => {}
        }
        attributes
    }
    fn lookup(&self, name: &[u8], _: &Viewer<'_>) -> Result<Child, Errno> {
        if let NodeKind::Family(family) = &self.kind {
            let found = core::str::from_utf8(name).ok().and_then(|name| family.node(name));
            return found.map(|node| node as Child).ok_or(Errno::ENOENT);
        }
        let found = self.names()?.iter().find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, entry)| entry.clone() as Child).ok_or(Errno::ENOENT)
    }
    fn label(&self) -> Option<&'static Label> {
        match self.kind {
            NodeKind::OfAll(_) => initial(Initial::Unlabeled).ok(),
            _ => None,
        }
    }
    fn is_mount_point(&self) -> bool {
        matches!(self.kind, NodeKind::MountPoint)
    }
    fn keeps(&self, _: &[u8]) -> bool {
        !matches!(self.kind, NodeKind::Family(_))
    }
    fn entries(
        &self,
        position: u64,
        _: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        if let NodeKind::Family(family) = &self.kind {
            list_members(&**family, position, take);
            return Ok(());
        }
        let names = self.names()?.iter();
        let named = names.map(|(name, entry)| (entry.inode, entry.file_type(), name.as_bytes()));
        let _ = listing::list(named, position, take);
        Ok(())
    }
    fn read_link(&self, _: &Viewer<'_>) -> Result<Vec<u8>, Errno> {
        match &self.kind {
            NodeKind::Link(text) => Ok(text.as_bytes().to_vec()),
            _ => Err(Errno::EINVAL),
        }
    }
    fn places(&self) -> Places {
        Places::UpTo(GENERATED_END)
    }
    fn generate(&self, _: &dyn Principal) -> Result<Vec<u8>, Errno> {
        match &self.kind {
            NodeKind::File(content, _) | NodeKind::OfAll(content) => Ok(content().into_bytes()),
            _ => Err(Errno::EINVAL),
        }
    }
    fn write(&self, data: &[u8], _: &dyn Principal) -> Result<(), Errno> {
        match &self.kind {
            NodeKind::File(_, Some(set)) => set(data),
            _ => Err(Errno::EIO),
        }
    }
}
