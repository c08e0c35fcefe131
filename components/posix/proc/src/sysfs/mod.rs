//! `/sys`: the devices of the machine, in the form of Linux's sysfs.
//!
//! The tree is built at each mount, since devices are neither added nor removed later; contents
//! that change (counts) are made at each read. `tree` describes the tree, this file makes nodes of
//! it. Source: sysfs(5), Linux `Documentation/ABI`.
mod tree;

use alloc::{string::String, sync::Arc, vec::Vec};
use interfaces::file_system::{Attributes, DirectoryEntry, FileType, TakeEntry};
use rt::sync::Once;
use vfs::{
    Active, Errno,
    file::Places,
    generated::{Child, GENERATED_END, Node, Viewer, attributes},
};

/// A file's content, made when it is read.
type Content = alloc::boxed::Box<dyn Fn() -> String + Send + Sync>;

/// Function that accepts data written to a file.
type Setter = alloc::boxed::Box<dyn Fn(&[u8]) -> Result<(), Errno> + Send + Sync>;

/// The kind of a node.
enum Kind {
    Directory(Vec<(String, Arc<Entry>)>),
    File(Content, Option<Setter>),
    Link(String),
}

/// A node of the tree.
struct Entry {
    inode: u64,
    kind: Kind,
}

static MOUNTED: Once<Arc<Active>> = Once::new();

/// The mount of sysfs: one however often it is mounted.
///
/// # Errors
/// `ENOMEM`.
pub fn mount(_: &[u8]) -> Result<Arc<Active>, Errno> {
    MOUNTED.get_or_try_init(|| Active::generated("sysfs", tree::build())).cloned()
}

impl Entry {
    fn file_type(&self) -> FileType {
        match self.kind {
            Kind::Directory(_) => FileType::Directory,
            Kind::File(..) => FileType::Regular,
            Kind::Link(_) => FileType::Symlink,
        }
    }
    fn names(&self) -> Result<&[(String, Arc<Entry>)], Errno> {
        match &self.kind {
            Kind::Directory(names) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

impl Node for Entry {
    fn attributes(&self) -> Attributes {
        const FILE_BYTES: u64 = 4096;
        let permissions = match self.kind {
            Kind::Directory(_) => 0o755,
            Kind::File(_, None) => 0o444,
            Kind::File(_, Some(_)) => 0o644,
            Kind::Link(_) => 0o777,
        };
        let mut attributes = attributes(self.inode, self.file_type(), permissions, (0, 0));
        match &self.kind {
            Kind::File(..) => attributes.size = FILE_BYTES,
            Kind::Directory(names) => {
                let is_directory =
                    |(_, entry): &&(String, Arc<Entry>)| matches!(entry.kind, Kind::Directory(_));
                attributes.links = 2 + names.iter().filter(is_directory).count() as u32;
            }
            Kind::Link(_) => {}
        }
        attributes
    }
    fn lookup(&self, name: &[u8], _: &Viewer<'_>) -> Result<Child, Errno> {
        let found = self.names()?.iter().find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, entry)| entry.clone() as Child).ok_or(Errno::ENOENT)
    }
    fn keeps(&self, _: &[u8]) -> bool {
        true
    }
    fn entries(&self, position: u64, take: &mut TakeEntry<'_>) -> Result<(), Errno> {
        let from = usize::try_from(position).unwrap_or(usize::MAX);
        let _ = self.names()?.iter().enumerate().skip(from).try_for_each(|(index, named)| {
            let (name, entry) = named;
            take(&DirectoryEntry {
                inode: entry.inode,
                file_type: Some(entry.file_type()),
                name: name.as_bytes(),
                next: index as u64 + 1,
            })
        });
        Ok(())
    }
    fn read_link(&self, _: &Viewer<'_>) -> Result<Vec<u8>, Errno> {
        match &self.kind {
            Kind::Link(text) => Ok(text.as_bytes().to_vec()),
            _ => Err(Errno::EINVAL),
        }
    }
    fn places(&self) -> Places {
        Places::UpTo(GENERATED_END)
    }
    fn generate(&self) -> Result<Vec<u8>, Errno> {
        match &self.kind {
            Kind::File(content, _) => Ok(content().into_bytes()),
            _ => Err(Errno::EINVAL),
        }
    }
    fn write(&self, data: &[u8]) -> Result<(), Errno> {
        match &self.kind {
            Kind::File(_, Some(set)) => set(data),
            _ => Err(Errno::EIO),
        }
    }
}
