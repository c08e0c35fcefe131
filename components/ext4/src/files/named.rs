//! Inodes with names: held by a name, locked together, their links counted, given up.
//!
//! Locks of inodes are taken after the operation has begun, all that it needs at once, in order of their addresses.
use crate::{
    files::{file_size, orphans},
    layout::{
        inode::Inode,
        inode_store::{Before, LINKS_MAX},
        inode_table::LiveInode,
        raw::inode::{FLAG_EXTENTS, FLAG_INLINE_DATA},
        superblock::ROOT_INODE,
        volume::Volume,
    },
    names::{directory, directory_edit, entries::EntryPlace},
    store::log::Operation,
    transactions::mount::Mount,
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::file_system::{FileTime, FileType, FsError, InodeNumber};
use rt::sync::WriteGuard;

/// The greatest number of times that a name is looked up again because it changed meanwhile.
pub(crate) const RETRIES_MAX: usize = 64;

/// Inodes locked for a change.
pub(crate) type Locked<'n> = Vec<(u32, WriteGuard<'n, Inode>)>;

/// Returns one of the locked inodes.
pub(crate) fn of<'l>(locked: &'l mut Locked<'_>, number: u32) -> Result<&'l mut Inode, FsError> {
    let found = locked.iter_mut().find(|(other, _)| *other == number);
    found.map(|(_, inode)| &mut **inode).ok_or(FsError::Corrupt)
}

/// Checks that a directory still has a name.
pub(crate) fn check_parent(directory: &Inode) -> Result<(), FsError> {
    directory.check_directory()?;
    if directory.attributes.links == 0 { Err(FsError::NotFound) } else { Ok(()) }
}

/// Counts one more subdirectory. A directory with more than it can count has a count of one.
pub(crate) fn add_link(volume: &Volume, directory: &mut Inode) -> Result<(), FsError> {
    let links = directory.attributes.links;
    let is_uncounted = directory.attributes.file_type == FileType::Directory && links == 1;
    if is_uncounted {
        return Ok(());
    }
    if links < LINKS_MAX {
        directory.attributes.links += 1;
        return Ok(());
    }
    let can_lose_count = volume.geometry.has_uncounted_links()
        && directory.attributes.file_type == FileType::Directory;
    if !can_lose_count {
        return Err(FsError::TooManyLinks);
    }
    directory.attributes.links = 1;
    Ok(())
}

/// Counts one subdirectory less.
pub(crate) fn drop_link(directory: &mut Inode) {
    if directory.attributes.links > 2 {
        directory.attributes.links -= 1;
    }
}

/// The names in a directory changed.
pub(crate) fn touch(directory: &mut Inode, now: FileTime) {
    (directory.attributes.modified, directory.attributes.changed) = (now, now);
}

/// The result of a lookup in a directory that was locked to be read.
#[derive(Clone, Copy)]
pub(crate) struct Seen<T> {
    turn: u64,
    what: T,
}

impl<T> Seen<T> {
    /// `what` was found in the directory, which the caller has locked.
    pub(crate) fn new(directory: &Inode, what: T) -> Seen<T> {
        Seen { turn: directory.turn, what }
    }

    /// Returns the value, if no other thread had the directory locked for a change since it was found;
    /// the caller has it locked now.
    pub(crate) fn still_in(self, directory: &Inode) -> Option<T> {
        (directory.turn == self.turn + 1).then_some(self.what)
    }
}

/// Is no longer than a name may be, or `NameTooLong`.
pub(crate) fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > 255 { Err(FsError::NameTooLong) } else { Ok(()) }
}

/// Counts the loss of a name of an inode: without names it becomes an orphan.
pub(crate) fn unname(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    now: FileTime,
) -> Result<(), FsError> {
    let is_directory = inode.attributes.file_type == FileType::Directory;
    let links = inode.attributes.links;
    inode.attributes.links = if is_directory { 0 } else { links.saturating_sub(1) };
    inode.attributes.changed = now;
    if inode.attributes.links == 0 {
        orphans::add(volume, inode)?;
    }
    inode.store(volume, operation, Before::Itself)
}

/// Returns the node that a name stands for, held until [`let_go`], and the place of the name.
pub(crate) fn hold(
    mount: &Mount,
    directory: &LiveInode,
    name: &[u8],
) -> Result<(Arc<LiveInode>, Option<Seen<EntryPlace>>), FsError> {
    let volume = &mount.volume;
    check_name(name)?;
    // The directory is locked until the inode is held: while the name exists, the inode is not freed.
    let parent = directory.read();
    check_parent(&parent)?;
    let (number, seen) = match parent.has_flag(FLAG_INLINE_DATA) {
        true => (directory::find(volume, &parent, name)?, None),
        false => {
            let place = directory_edit::locate(volume, &parent, name)?;
            (place.inode, Some(Seen::new(&parent, place)))
        }
    };
    if number == directory.number || number == ROOT_INODE {
        return Err(FsError::Corrupt);
    }
    Ok((mount.inodes.hold(volume, number)?, seen))
}

/// Drops counts of an inode, which is freed if they were the last and it has no name.
pub(crate) fn let_go(mount: &Mount, inode: InodeNumber, count: u64) {
    let volume = &mount.volume;
    let Some(node) = mount.inodes.forget(inode, count) else { return };
    if let Ok(groups) = volume.groups() {
        let blocks = (rt::PAGE_BYTES / volume.geometry.block_bytes) as u64;
        node.undelay(groups, 0, u64::MAX, blocks);
    }
    let is_unnamed = node.read().attributes.links == 0;
    if !is_unnamed || volume.store.health.check_writable().is_err() {
        return;
    }
    // The caller cannot be told that memory was lacking, because it would repeat the request.
    if let Err(error) = rt::memory::with_reserve(|| file_size::delete(mount, &node)) {
        log::error!("ext4: {}: freeing inode {inode}: {error:?}", volume.store.device.name());
    }
}

/// The required type of the inode of a name that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovedKind {
    /// Any type but a directory.
    File,
    /// The name is that of an empty directory.
    Directory,
}

/// The outcome of a change of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// There was nothing to change.
    Nothing,
    /// The name has got another inode.
    Changed,
}

/// Checks that the inode has the required type, that a directory is empty, and that its blocks can be
/// freed.
pub(crate) fn check_removable(
    volume: &Volume,
    inode: &Inode,
    kind: RemovedKind,
) -> Result<(), FsError> {
    let is_directory = inode.attributes.file_type == FileType::Directory;
    let has_block_map = !inode.has_flag(FLAG_EXTENTS)
        && !inode.has_flag(FLAG_INLINE_DATA)
        && (is_directory || inode.attributes.file_type == FileType::Regular);
    match kind {
        _ if has_block_map && inode.attributes.blocks > 0 => Err(FsError::Unsupported),
        RemovedKind::File if is_directory => Err(FsError::IsDirectory),
        RemovedKind::Directory if !is_directory => Err(FsError::NotDirectory),
        RemovedKind::Directory if !directory_edit::is_empty(volume, inode)? => {
            Err(FsError::NotEmpty)
        }
        _ => Ok(()),
    }
}
