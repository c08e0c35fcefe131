//! Entries of a directory, as a file system lists them.
use super::{FileSystem, FileType, FsError, InodeNumber};
use alloc::vec::Vec;
use core::ops::ControlFlow;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<Name = Vec<u8>> {
    /// Inode.
    pub inode: InodeNumber,
    /// Type if the directory knows it.
    pub file_type: Option<FileType>,
    /// Name, without NUL or slash.
    pub name: Name,
    /// Position after this entry, to continue from; 0 is the start.
    pub next: u64,
}

/// Takes one entry after the other, without a copy of the name. An entry at which it breaks is not
/// taken and is the last. Locks of the directory are held during the call.
pub type TakeEntry<'t> = dyn FnMut(&DirectoryEntry<&[u8]>) -> ControlFlow<()> + 't;

impl DirectoryEntry {
    /// Returns the entry with its name borrowed.
    pub fn lent(&self) -> DirectoryEntry<&[u8]> {
        let DirectoryEntry { inode, file_type, ref name, next } = *self;
        DirectoryEntry { inode, file_type, name, next }
    }
}

impl DirectoryEntry<&[u8]> {
    /// Returns the entry with its own copy of the name.
    pub fn kept(&self) -> DirectoryEntry {
        let DirectoryEntry { inode, file_type, name, next } = *self;
        DirectoryEntry { inode, file_type, name: name.to_vec(), next }
    }
}

/// Returns at most `max` entries of a directory from `position` on.
///
/// # Errors
/// Those of [`FileSystem::read_directory`].
pub fn list_directory(
    fs: &dyn FileSystem,
    directory: InodeNumber,
    position: u64,
    max: usize,
) -> Result<Vec<DirectoryEntry>, FsError> {
    let mut entries = Vec::new();
    fs.read_directory(directory, position, &mut |entry| {
        if entries.len() == max {
            return ControlFlow::Break(());
        }
        entries.push(entry.kept());
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}
