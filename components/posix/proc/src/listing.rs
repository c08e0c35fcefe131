//! The listing of a generated directory whose names have an order.
use core::ops::ControlFlow;
use interfaces::file_system::{DirectoryEntry, FileType, InodeNumber, TakeEntry};

/// Passes the entries from `position` on to `take`. The position behind an entry is the number of names up to it in `named`, which
/// gives inode numbers, types and names.
pub fn list<'n>(
    named: impl Iterator<Item = (InodeNumber, FileType, &'n [u8])>,
    position: u64,
    take: &mut TakeEntry<'_>,
) -> ControlFlow<()> {
    let from = usize::try_from(position).unwrap_or(usize::MAX);
    named.enumerate().skip(from).try_for_each(|(index, (inode, file_type, name))| {
        take(&DirectoryEntry { inode, file_type: Some(file_type), name, next: index as u64 + 1 })
    })
}
