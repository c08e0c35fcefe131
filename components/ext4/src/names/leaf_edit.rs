//! Changes of a directory's leaves: entries put in, taken out and pointed elsewhere; leaves appended.
use crate::{
    layout::{
        extent::Extent,
        extent_edit,
        groups::{Account, blocks},
        inode::Inode,
        inode_store::Before,
        leaf::entries_end,
        raw::{
            directory::ROOT_COUNT_OFFSET,
            inode::{FLAG_EXTENTS, FLAG_INDEX},
        },
        volume::Volume,
    },
    names::{
        block::{Leaf, block_count, load_placed, physical, seal_node},
        entries::{EntryPlace, NewEntry, Span, Spans, encode_type, needed, write_entry},
    },
    store::{
        bytes::{put, put16, put32, word16},
        class::Class,
        log::{Content, Operation},
    },
};
use interfaces::file_system::{FileType, FsError};

/// Room for an entry in a leaf, which exists until the directory is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    leaf: Leaf,
    /// The entry there, and its bytes that stay in use.
    offset: usize,
    used: usize,
}

/// Changes the entries of a leaf, whose checksum is computed at the end of the transaction, or those of
/// a root.
fn modify(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &Inode,
    leaf: Leaf,
    change: impl FnOnce(&mut [u8]),
) -> Result<(), FsError> {
    let is_root = leaf.logical == 0 && directory.has_flag(FLAG_INDEX);
    if !is_root {
        return volume.store.modify_leaf(operation, leaf.block, directory.seed, change);
    }
    volume.store.modify(operation, leaf.block, Class::Directory, |bytes| {
        change(bytes);
        seal_node(volume, directory.seed, bytes, ROOT_COUNT_OFFSET);
    })
}

/// Returns the room for an entry of `wanted` bytes behind another entry.
#[inline]
pub(crate) fn room_at(leaf: Leaf, entry: &Span<'_>, wanted: usize) -> Option<Room> {
    let used = if entry.inode == 0 { 0 } else { needed(entry.name) };
    (entry.length() >= used + wanted).then_some(Room { leaf, offset: entry.offset, used })
}

/// Puts an entry into a leaf that has room. Returns `false` if it has none.
pub(crate) fn insert_in(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &Inode,
    logical: u64,
    entry: &NewEntry<'_>,
) -> Result<bool, FsError> {
    let (block, found) = load_placed(volume, directory, logical)?;
    let leaf = Leaf { logical, block };
    let mut room = None;
    for other in Spans::new(found.bytes(), entries_end(&volume.geometry)) {
        room = room_at(leaf, &other?, needed(entry.name));
        if room.is_some() {
            break;
        }
    }
    drop(found);
    let Some(room) = room else { return Ok(false) };
    insert_at(volume, operation, directory, room, entry)?;
    Ok(true)
}

/// Puts an entry where there is room for it.
///
/// # Errors
/// Errors of I/O.
pub(crate) fn insert_at(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &Inode,
    Room { leaf, offset, used }: Room,
    entry: &NewEntry<'_>,
) -> Result<(), FsError> {
    let file_type = encode_type(volume, entry.file_type);
    modify(volume, operation, directory, leaf, |bytes| {
        let length = usize::from(word16(bytes, offset + 4).unwrap_or(0));
        if used > 0 {
            put16(bytes, offset + 4, used as u16);
        }
        let new = (entry.inode, file_type, entry.name);
        write_entry(bytes, offset + used, length.saturating_sub(used), new);
    })
}

/// Appends a block to a directory and stores its inode; returns the number of the block.
///
/// # Errors
/// [`FsError::NoSpace`], [`FsError::Unsupported`] for block maps; errors of I/O.
pub(crate) fn append(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &mut Inode,
    fill: impl FnOnce(&mut [u8]),
) -> Result<u64, FsError> {
    if !directory.has_flag(FLAG_EXTENTS) {
        return Err(FsError::Unsupported);
    }
    let logical = block_count(volume, directory);
    let goal = match logical.checked_sub(1) {
        Some(last) => physical(volume, directory, last)? + 1,
        None => directory.home_block(&volume.geometry),
    };
    let (start, _) = blocks::allocate(volume, operation, (goal, 1), Account::Caller)?;
    append_block(volume, operation, directory, start, fill)
}

/// Appends the block `start`, which was just allocated, as [`append`] does.
///
/// # Errors
/// Those of [`append`]; the block is free again then.
pub(crate) fn append_block(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &mut Inode,
    start: u64,
    fill: impl FnOnce(&mut [u8]),
) -> Result<u64, FsError> {
    let logical = block_count(volume, directory);
    let first = u32::try_from(logical).map_err(|_| FsError::FileTooBig)?;
    let extent = Extent { first, count: 1, start, is_written: true };
    if let Err(error) = extent_edit::insert(volume, operation, directory, extent, Account::Caller) {
        blocks::free(volume, operation, (start, 1), Content::Metadata)?;
        return Err(error);
    }
    blocks::fill(volume, operation, start, fill)?;
    directory.add_blocks(&volume.geometry, 1);
    directory.attributes.size += volume.geometry.block_bytes as u64;
    // The caller may fail later; the block exists already.
    directory.store(volume, operation, Before::Itself)?;
    Ok(logical)
}

/// Removes an entry; its room goes to the entry before it.
///
/// # Errors
/// [`FsError::Corrupt`]; what I/O met.
pub(crate) fn remove(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &Inode,
    place: EntryPlace,
) -> Result<(), FsError> {
    let (block, found) = load_placed(volume, directory, place.logical)?;
    let mut before = None;
    for entry in Spans::new(found.bytes(), entries_end(&volume.geometry)) {
        let entry = entry?;
        if entry.offset >= place.offset {
            break;
        }
        before = Some(entry.offset);
    }
    drop(found);
    let leaf = Leaf { logical: place.logical, block };
    modify(volume, operation, directory, leaf, |bytes| {
        let length = word16(bytes, place.offset + 4).unwrap_or(0);
        match before {
            Some(before) => {
                let joined = word16(bytes, before + 4).unwrap_or(0).saturating_add(length);
                put16(bytes, before + 4, joined);
            }
            None => put32(bytes, place.offset, 0),
        }
    })
}

/// Makes an entry refer to another inode.
///
/// # Errors
/// Errors of I/O.
pub(crate) fn point(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &Inode,
    place: EntryPlace,
    (inode, file_type): (u32, FileType),
) -> Result<(), FsError> {
    let file_type = encode_type(volume, file_type);
    let (block, found) = load_placed(volume, directory, place.logical)?;
    drop(found);
    let leaf = Leaf { logical: place.logical, block };
    modify(volume, operation, directory, leaf, |bytes| {
        put32(bytes, place.offset, inode);
        put(bytes, place.offset + 7, &[file_type]);
    })
}
