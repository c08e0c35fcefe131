//! Changes of directories: entries put in, taken out and pointed elsewhere; new directories.
//!
//! A directory of one block that is full gets a hash tree ([`crate::names::htree_edit`]) where the volume
//! has them, else grows block by block. The callers hold the directory's lock and have looked the
//! name up.
use crate::{
    layout::{
        extent::Extent,
        extent_edit,
        features::Incompat,
        groups::{Account, blocks},
        inode::Inode,
        inode_store::Before,
        leaf::{self, entries_end},
        map,
        raw::{
            directory::*,
            inode::{FLAG_EXTENTS, FLAG_INDEX, FLAG_INLINE_DATA},
        },
        volume::Volume,
    },
    names::{
        directory::{self, Entries, Span, Spans},
        htree, htree_edit, inline_edit,
    },
    store::{
        bytes::{put, put16, put32, word16},
        class::Class,
        log::{Content, Operation},
    },
};
use interfaces::file_system::{FileType, FsError};

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Block of the directory, and on the volume.
    pub(crate) logical: u64,
    /// Offset in the block.
    pub(crate) offset: usize,
    /// Inode it names.
    pub(crate) inode: u32,
}

/// An entry to be put in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    /// Its name.
    pub(crate) name: &'a [u8],
    /// Inode it names.
    pub(crate) inode: u32,
    /// Its type.
    pub(crate) file_type: FileType,
}

/// The type as entries have it.
pub(crate) fn encode_type(volume: &Volume, file_type: FileType) -> u8 {
    if !volume.geometry.incompat.contains(Incompat::FILETYPE) {
        return 0;
    }
    match file_type {
        FileType::Regular => 1,
        FileType::Directory => 2,
        FileType::Character => 3,
        FileType::Block => 4,
        FileType::Fifo => 5,
        FileType::Socket => 6,
        FileType::Symlink => 7,
    }
}

/// Bytes an entry with that name needs.
pub(crate) fn needed(name: &[u8]) -> usize {
    (ENTRY_BYTES + name.len()).next_multiple_of(4)
}

/// Blocks of a directory.
pub(crate) fn blocks(volume: &Volume, directory: &Inode) -> u64 {
    directory.attributes.size / volume.geometry.block_bytes as u64
}

/// Writes an entry of `length` bytes.
pub(crate) fn write_entry(
    bytes: &mut [u8],
    offset: usize,
    length: usize,
    (inode, file_type, name): (u32, u8, &[u8]),
) {
    put32(bytes, offset, inode);
    put16(bytes, offset + 4, length as u16);
    put(bytes, offset + 6, &[name.len() as u8, file_type]);
    put(bytes, offset + ENTRY_BYTES, name);
}

/// A block of a directory that was loaded, and so verified: what is wrong must not get a right checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// Block of the directory, and on the volume.
    pub(crate) logical: u64,
    pub(crate) block: u64,
}

/// Room for an entry in a leaf, until the directory is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    leaf: Leaf,
    /// The entry there, and its bytes that stay in use.
    offset: usize,
    used: usize,
}

/// Changes the entries of a leaf, which is summed when the transaction ends, or those of a root.
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
        htree_edit::seal(volume, directory.seed, bytes, ROOT_COUNT_OFFSET);
    })
}

/// Block `logical` of a directory on the volume.
pub(crate) fn physical(volume: &Volume, directory: &Inode, logical: u64) -> Result<u64, FsError> {
    map::map(volume, directory, logical, 1)?.start.ok_or(FsError::Corrupt)
}

/// The place of `name`.
///
/// # Errors
/// [`FsError::NotFound`]; as [`directory::find`].
pub(crate) fn locate(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<Place, FsError> {
    if directory::has_tree(volume, directory) {
        match htree::find(volume, directory, name)? {
            htree::Search::Found(place) => return Ok(place),
            htree::Search::Absent => return Err(FsError::NotFound),
            htree::Search::NoTree => {}
        }
    }
    for logical in 0..blocks(volume, directory) {
        let block = directory::load(volume, directory, logical)?;
        let bytes = block.bytes();
        for entry in Entries::new(volume, bytes, 0, bytes.len()).names(volume) {
            let entry = entry?;
            if entry.name == name {
                return Ok(Place { logical, offset: entry.offset, inode: entry.inode });
            }
        }
    }
    Err(FsError::NotFound)
}

/// Finds the entry of `name` in a block. A directory in its inode is moved to a block first.
///
/// # Errors
/// As [`locate`] and [`inline_edit::move_out`].
pub(crate) fn locate_or_move(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &mut Inode,
    name: &[u8],
) -> Result<Place, FsError> {
    if directory.has_flag(FLAG_INLINE_DATA) {
        inline_edit::move_out(volume, operation, directory, Account::Pool)?;
    }
    locate(volume, directory, name)
}

/// Room behind an entry for one of `wanted` bytes.
#[inline]
fn room_at(leaf: Leaf, entry: &Span<'_>, wanted: usize) -> Option<Room> {
    let used = if entry.inode == 0 { 0 } else { needed(entry.name) };
    (entry.length() >= used + wanted).then_some(Room { leaf, offset: entry.offset, used })
}

/// Sees that there is no such name; returns where it finds room, if that was found on the way.
///
/// # Errors
/// [`FsError::Exists`]; as [`directory::find`].
pub(crate) fn check_absent(
    volume: &Volume,
    directory: &Inode,
    name: &[u8],
) -> Result<Option<Room>, FsError> {
    let (mut room, mut home) = (None, None);
    let wanted = needed(name);
    if directory::has_tree(volume, directory) {
        let found = htree::find_passing(volume, directory, name, |leaf, entry| {
            // Leaves that go on with its hash follow the one it belongs to.
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

/// Puts an entry into a leaf where there is room; `false` where there is none.
pub(crate) fn insert_in(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &Inode,
    logical: u64,
    entry: &NewEntry<'_>,
) -> Result<bool, FsError> {
    let (block, found) = directory::load_placed(volume, directory, logical)?;
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

fn insert_at(
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

/// Puts an entry into a directory, where there is `room` if the caller knows; the caller stores the
/// directory's inode.
///
/// # Errors
/// [`FsError::NoSpace`], [`FsError::Unsupported`] for block maps and trees not known,
/// [`FsError::Corrupt`]; what I/O met.
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
    if directory::has_tree(volume, directory) {
        return htree_edit::add(volume, operation, directory, entry);
    }
    if directory.has_flag(FLAG_INDEX) {
        // A volume without the feature: its tree would not be kept in step.
        return Err(FsError::Unsupported);
    }
    let count = blocks(volume, directory);
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

/// Appends a block to a directory and stores its inode; returns which block it is.
///
/// # Errors
/// [`FsError::NoSpace`], [`FsError::Unsupported`] for block maps; what I/O met.
pub(crate) fn append(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &mut Inode,
    fill: impl FnOnce(&mut [u8]),
) -> Result<u64, FsError> {
    if !directory.has_flag(FLAG_EXTENTS) {
        return Err(FsError::Unsupported);
    }
    let logical = blocks(volume, directory);
    let goal = match logical.checked_sub(1) {
        Some(last) => physical(volume, directory, last)? + 1,
        None => directory.home_block(&volume.geometry),
    };
    let (start, _) = blocks::allocate(volume, operation, (goal, 1), Account::Caller)?;
    append_block(volume, operation, directory, start, fill)
}

/// As [`append`], of the block `start`, which was just allocated.
///
/// # Errors
/// As [`append`]; the block is free again then.
pub(crate) fn append_block(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &mut Inode,
    start: u64,
    fill: impl FnOnce(&mut [u8]),
) -> Result<u64, FsError> {
    let logical = blocks(volume, directory);
    let first = u32::try_from(logical).map_err(|_| FsError::FileTooBig)?;
    let extent = Extent { first, count: 1, start, is_written: true };
    if let Err(error) = extent_edit::insert(volume, operation, directory, extent, Account::Caller) {
        blocks::free(volume, operation, (start, 1), Content::Metadata)?;
        return Err(error);
    }
    blocks::fill(volume, operation, start, fill)?;
    directory.add_blocks(&volume.geometry, 1);
    directory.attributes.size += volume.geometry.block_bytes as u64;
    // The caller may fail later; the block is there.
    directory.store(volume, operation, Before::Itself)?;
    Ok(logical)
}

/// Takes an entry out; its room goes to the one before it.
///
/// # Errors
/// [`FsError::Corrupt`]; what I/O met.
pub(crate) fn remove(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &Inode,
    place: Place,
) -> Result<(), FsError> {
    let (block, found) = directory::load_placed(volume, directory, place.logical)?;
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

/// Makes an entry name another inode.
///
/// # Errors
/// Errors of I/O.
pub(crate) fn point(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &Inode,
    place: Place,
    (inode, file_type): (u32, FileType),
) -> Result<(), FsError> {
    let file_type = encode_type(volume, file_type);
    let (block, found) = directory::load_placed(volume, directory, place.logical)?;
    drop(found);
    let leaf = Leaf { logical: place.logical, block };
    modify(volume, operation, directory, leaf, |bytes| {
        put32(bytes, place.offset, inode);
        put(bytes, place.offset + 7, &[file_type]);
    })
}

/// Gives a new directory its first block, with `.` and `..`.
///
/// # Errors
/// As [`append`].
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

/// The place of a directory's entry `..`.
fn parent_place(volume: &Volume, directory: &Inode) -> Result<Place, FsError> {
    let block = directory::load(volume, directory, 0)?;
    let mut entries = Entries::new(volume, block.bytes(), 0, block.bytes().len());
    let second = entries.nth(1).ok_or(FsError::Corrupt)??;
    if second.name != b".." {
        return Err(FsError::Corrupt);
    }
    Ok(Place { logical: 0, offset: second.offset, inode: second.inode })
}

/// Makes a directory's `..` name another parent.
///
/// # Errors
/// [`FsError::Corrupt`] where it has none; what I/O met.
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

/// Has no names but `.` and `..`.
///
/// # Errors
/// As [`directory::scan`].
pub(crate) fn is_empty(volume: &Volume, directory: &Inode) -> Result<bool, FsError> {
    let mut is_empty = true;
    directory::scan(volume, directory, 0, &mut |_, _| {
        is_empty = false;
        core::ops::ControlFlow::Break(())
    })?;
    Ok(is_empty)
}
