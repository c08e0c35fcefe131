//! tmpfs: a file system in memory. Names, attributes, links and extended attributes live here;
//! the bytes of regular files live in the page cache only (`Backing::Cache`).
//!
//! Key types: [`Tmpfs`] (the mount), [`node::Node`] (an inode), [`directory::Directory`] (its names).
//!
//! Locks, in order: `tmpfs.tree` (directories change their parent) before `tmpfs.node` (one an
//! inode; ancestors first, then unrelated directories by number, then everything else by number)
//! before `tmpfs.table` (number to inode). What guards what: the tree lock every `parent` link
//! across directories, a node's lock its attributes and names, the table's shard lock the map.
//!
//! Source: Linux Documentation/filesystems/tmpfs.rst and directory-locking.rst; POSIX rename(2).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
extern crate alloc;

mod directory;
mod file_system;
mod names;
mod node;
mod options;
mod rename;
mod space;
mod table;
#[cfg(test)]
mod tests;
mod xattr;

use alloc::{sync::Arc, vec, vec::Vec};
use interfaces::{
    block::Block,
    file_system::{FileSystem, FileTime, FileType, FsError, InodeNumber, NewAcls, NewInode},
    offer::Offer,
};
use node::{Node, State};
use rt::{
    lock_class,
    sync::{Mutex, MutexGuard},
};
use space::{INODE_BYTES, Space};
use table::Table;

lock_class! {
    static TREE = "tmpfs.tree";
}

/// Number of the root directory.
const ROOT: InodeNumber = 1;
/// `f_type` of a tmpfs.
const MAGIC: u32 = 0x0102_1994;
/// Longest name.
const NAME_MAX: usize = 255;
/// Longest target of a symbolic link.
const TARGET_MAX: usize = 4095;

/// The options of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most bytes of file contents; `None`: half of memory, 0: no limit.
    pub size_bytes: Option<u64>,
    /// Most inodes; `None`: one for every two frames of memory, 0: no limit.
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

/// A mounted tmpfs.
pub struct Tmpfs {
    tree: Mutex<()>,
    table: Table,
    space: Space,
    root: Arc<Node>,
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
/// [`FsError::NoMemory`] where the root's charge is refused, [`FsError::NoSpace`] where no inode is
/// allowed.
pub fn new(options: Options) -> Result<Arc<Tmpfs>, FsError> {
    let space = Space::new(options.size_bytes, options.inodes);
    space.take_inode_bytes(INODE_BYTES)?;
    let root = Node::new(
        ROOT,
        ROOT,
        &NewInode {
            file_type: FileType::Directory,
            permissions: options.permissions,
            user: options.user,
            group: options.group,
            device: (0, 0),
            target: &[],
            now: wall_time(),
            acls: NewAcls::default(),
        },
    )?;
    // The mount's own count and the root's name "/" keep it for as long as the mount.
    root.state.lock().holds = 1;
    let table = Table::new(ROOT + 1);
    table.insert(&root);
    Ok(Arc::new(Tmpfs { tree: Mutex::new(&TREE, ()), table, space, root }))
}

impl Tmpfs {
    /// The inode of that number.
    fn node(&self, inode: InodeNumber) -> Result<Arc<Node>, FsError> {
        if inode == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        self.table.find(inode).ok_or(FsError::NotFound)
    }

    /// The directory of that number.
    fn directory(&self, inode: InodeNumber) -> Result<Arc<Node>, FsError> {
        let node = self.node(inode)?;
        if node.file_type == FileType::Directory { Ok(node) } else { Err(FsError::NotDirectory) }
    }

    /// Gives back what the link that was just taken from `node` cost; the first one costs nothing beside the inode.
    fn give_link(&self, node: &Node, state: &mut State) {
        if state.links > 0 && !node.is_directory() {
            state.inode_bytes -= INODE_BYTES;
            self.space.give_inode_bytes(INODE_BYTES);
        }
    }

    /// Frees the inode if it has neither names nor holders; `state` is this node's.
    fn free_if_unused(&self, node: &Node, state: MutexGuard<'_, State>) {
        if state.links == 0 && state.holds == 0 && self.table.remove(node.inode) {
            self.space.give_pages(state.pages);
            self.space.give_inode_bytes(state.inode_bytes);
        }
    }
}

fn wall_time() -> FileTime {
    let ns = rt::time::wall_ns();
    FileTime { seconds: (ns / 1_000_000_000) as i64, nanoseconds: (ns % 1_000_000_000) as u32 }
}

/// Refuses a name the interface does not allow.
fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    if name.is_empty()
        || name == b"."
        || name == b".."
        || name.iter().any(|b| matches!(b, 0 | b'/'))
    {
        return Err(FsError::Invalid);
    }
    Ok(())
}
