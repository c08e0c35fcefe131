//! Changes of directories: names located, put in; new directories, parents.
//!
//! A directory of one block that is full gets a hash tree ([`crate::names::htree_edit`]) where the volume
//! has them, else grows block by block. The callers hold the directory's lock and have looked the
//! name up.
use crate::{
    layout::{
        groups::Account,
        inode::Inode,
        leaf::{self, entries_end},
        raw::inode::{FLAG_INDEX, FLAG_INLINE_DATA},
        volume::Volume,
    },
    names::{
        block::{Purpose, block_count, load},
        directory,
        entries::{Entries, EntryPlace, NewEntry, encode_type, needed, write_entry},
        htree, htree_edit, inline_edit,
        leaf_edit::{Room, append, insert_at, insert_in, point, room_at},
    },
    store::{bytes::put32, log::Operation},
};
use interfaces::file_system::{FileType, FsError};

/// Returns the place of `name`.
///
/// # Errors
/// [`FsError::NotFound`]; those of [`directory::find`].
pub(crate) fn locate(
    volume: &Volume,
    directory: &Inode,
    name: &[u8],
) -> Result<EntryPlace, FsError> {
    if htree::has_tree(volume, directory) {
        match htree::find(volume, directory, name)? {
            htree::Search::Found(place) => return Ok(place),
            htree::Search::Absent => return Err(FsError::NotFound),
            htree::Search::NoTree => {}
        }
    }
    directory::find_linearly(volume, directory, name, Purpose::Change)
}

/// Finds the entry of `name` in a block. A directory in its inode is moved to a block first.
///
/// # Errors
/// Those of [`locate`] and [`inline_edit::move_out`].
pub(crate) fn locate_or_move(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &mut Inode,
    name: &[u8],
) -> Result<EntryPlace, FsError> {
    if directory.has_flag(FLAG_INLINE_DATA) {
        inline_edit::move_out(volume, operation, directory, Account::Pool)?;
    }
    locate(volume, directory, name)
}

/// Checks that the name does not exist. Returns the place for it, if one was found on the way.
///
/// # Errors
/// [`FsError::Exists`]; those of [`directory::find`].
pub(crate) fn check_absent(
    volume: &Volume,
    directory: &Inode,
    name: &[u8],
) -> Result<Option<Room>, FsError> {
    let (mut room, mut home) = (None, None);
    let wanted = needed(name);
    if htree::has_tree(volume, directory) {
        let found = htree::find_passing(volume, directory, name, |leaf, entry| {
            // Leaves that continue its hash follow the leaf to which it belongs.
            if room.is_none() && *home.get_or_insert(leaf) == leaf {
                room = room_at(leaf, entry, wanted);
            }
        })?;
        match found {
            htree::Search::Found(_) => return Err(FsError::Exists),
            htree::Search::Absent => return Ok(room),
            htree::Search::NoTree => {}
        }
    }
    match directory::find(volume, directory, name) {
        Ok(_) => Err(FsError::Exists),
        Err(FsError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts an entry into a directory, at `room` if the caller knows a place; the caller stores the
/// directory's inode.
///
/// # Errors
/// [`FsError::NoSpace`], [`FsError::Unsupported`] for block maps and unknown trees,
/// [`FsError::Corrupt`]; errors of I/O.
pub(crate) fn add(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &mut Inode,
    entry: &NewEntry<'_>,
    room: Option<Room>,
) -> Result<(), FsError> {
    if let Some(room) = room {
        return insert_at(volume, operation, directory, room, entry);
    }
    if directory.has_flag(FLAG_INLINE_DATA) {
        inline_edit::move_out(volume, operation, directory, Account::Caller)?;
    }
    if htree::has_tree(volume, directory) {
        return htree_edit::add(volume, operation, directory, entry);
    }
    if directory.has_flag(FLAG_INDEX) {
        // A volume without the feature cannot be changed: its tree would not be updated.
        return Err(FsError::Unsupported);
    }
    let count = block_count(volume, directory);
    for logical in 0..count {
        if insert_in(volume, operation, directory, logical, entry)? {
            return Ok(());
        }
    }
    if count == 1 && htree_edit::can_make(volume) {
        htree_edit::make(volume, operation, directory)?;
        return htree_edit::add(volume, operation, directory, entry);
    }
    let seed = directory.seed;
    let file_type = encode_type(volume, entry.file_type);
    append(volume, operation, directory, |bytes| {
        let new = (entry.inode, file_type, entry.name);
        write_entry(bytes, 0, entries_end(&volume.geometry), new);
        leaf::seal(&volume.geometry, seed, bytes);
    })?;
    Ok(())
}

/// Gives a new directory its first block, with `.` and `..`.
///
/// # Errors
/// Those of [`append`].
pub(crate) fn make(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &mut Inode,
    parent: u32,
) -> Result<(), FsError> {
    let (number, seed) = (directory.number, directory.seed);
    let file_type = encode_type(volume, FileType::Directory);
    append(volume, operation, directory, |bytes| {
        write_entry(bytes, 0, 12, (number, file_type, b"."));
        write_entry(bytes, 12, entries_end(&volume.geometry) - 12, (parent, file_type, b".."));
        leaf::seal(&volume.geometry, seed, bytes);
    })?;
    Ok(())
}

/// Returns the place of a directory's entry `..`.
fn parent_place(volume: &Volume, directory: &Inode) -> Result<EntryPlace, FsError> {
    let block = load(volume, directory, 0)?;
    let mut entries = Entries::new(volume, block.bytes(), 0, block.bytes().len());
    let second = entries.nth(1).ok_or(FsError::Corrupt)??;
    if second.name != b".." {
        return Err(FsError::Corrupt);
    }
    Ok(EntryPlace { logical: 0, offset: second.offset, inode: second.inode })
}

/// Makes a directory's `..` name another parent.
///
/// # Errors
/// [`FsError::Corrupt`] if it has none; errors of I/O.
pub(crate) fn set_parent(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &mut Inode,
    parent: u32,
) -> Result<(), FsError> {
    if directory.has_flag(FLAG_INLINE_DATA) {
        put32(&mut directory.body, 0, parent);
        return Ok(());
    }
    let place = parent_place(volume, directory)?;
    point(volume, operation, directory, place, (parent, FileType::Directory))
}

/// Returns whether a directory has no names but `.` and `..`.
///
/// # Errors
/// Those of [`directory::scan`].
pub(crate) fn is_empty(volume: &Volume, directory: &Inode) -> Result<bool, FsError> {
    let mut is_empty = true;
    directory::scan(volume, directory, 0, &mut |_, _| {
        is_empty = false;
        core::ops::ControlFlow::Break(())
    })?;
    Ok(is_empty)
}
