//! Directories: lookup and listing of names.
//!
//! Names are listed in the order of their hashes where Linux does so ([`hash_order`]), else in the order of the directory file.
//! In the latter order a position is an offset in the file; 0 is the start. If a position is now inside an entry, the reader
//! continues with the next entry.
use crate::{
    layout::{
        inode::{Inode, is_nameable},
        raw::inode::FLAG_INLINE_DATA,
        volume::Volume,
    },
    names::{
        block::{Purpose, find_in_block, load},
        entries::{CheckedEntry, Entries, EntryPlace, Spans, find_in, inline_areas},
        hash_order, htree, inline,
    },
};
use core::{ops::ControlFlow, sync::atomic::Ordering::Relaxed};
use interfaces::file_system::{FsError, TakeEntry};

/// The callback of [`scan`]: it gets the position after the entry, and the entry. Free entries, `.` and `..`
/// are left out.
pub(crate) type Visit<'v> = dyn FnMut(u64, &CheckedEntry<'_>) -> ControlFlow<()> + 'v;

/// Visits every entry from `position` on.
///
/// # Errors
/// [`FsError::Corrupt`] where a block or an entry makes no sense; as [`crate::store::Store::block`].
pub(crate) fn scan(
    volume: &Volume,
    directory: &Inode,
    position: u64,
    visit: &mut Visit<'_>,
) -> Result<(), FsError> {
    directory.check_directory()?;
    if directory.has_flag(FLAG_INLINE_DATA) {
        let bytes = inline::load(volume, directory)?;
        for area in inline_areas(directory, &bytes) {
            let entries = Entries::new(volume, &bytes, area.start, area.end);
            if scan_area(volume, entries, (0, position), visit)?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    let block_bytes = volume.geometry.block_bytes as u64;
    // The inode's check keeps this below the number of blocks of the volume.
    for logical in position / block_bytes..directory.attributes.size / block_bytes {
        let block = load(volume, directory, logical)?;
        let mut entries = Entries::new(volume, block.bytes(), 0, block.bytes().len());
        entries.are_checked = block.is_sound();
        let is_new = !entries.are_checked;
        if scan_area(volume, entries, (logical * block_bytes, position), visit)?.is_break() {
            break;
        }
        if is_new {
            block.set_sound();
        }
    }
    Ok(())
}

/// Visits the entries of one area that begins at `base` of the directory.
fn scan_area(
    volume: &Volume,
    mut entries: Entries<'_>,
    (base, position): (u64, u64),
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>, FsError> {
    while let Some(entry) = entries.next_name(volume) {
        let entry = entry?;
        if base + (entry.offset as u64) < position {
            continue;
        }
        if visit(base + entry.next as u64, &entry).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Hands the names from `position` on to `take`.
///
/// # Errors
/// Those of [`scan`]; [`FsError::NoMemory`].
pub(crate) fn list(
    volume: &Volume,
    directory: &Inode,
    position: u64,
    take: &mut TakeEntry<'_>,
) -> Result<(), FsError> {
    directory.check_directory()?;
    if hash_order::list(volume, directory, position, take)? {
        return Ok(());
    }
    scan(volume, directory, position, &mut |next, entry| take(&entry.shown(next)))
}

/// Returns the inode with the name `name`, found by the hash tree if there is one, else by reading all entries.
///
/// # Errors
/// [`FsError::NotFound`]; else those of [`scan`].
pub(crate) fn find(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<u32, FsError> {
    directory.check_directory()?;
    if name.len() > 255 {
        return Err(FsError::NameTooLong);
    }
    if htree::has_tree(volume, directory) {
        match htree::find(volume, directory, name)? {
            htree::Search::Found(place) => return Ok(place.inode),
            htree::Search::Absent => return Err(FsError::NotFound),
            htree::Search::NoTree => {}
        }
    }
    if directory.has_flag(FLAG_INLINE_DATA) {
        return find_inline(volume, directory, name);
    }
    Ok(find_linearly(volume, directory, name, Purpose::Lookup)?.inode)
}

/// Returns the inode of `name` in a directory whose entries are in its inode.
fn find_inline(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<u32, FsError> {
    let bytes = inline::load(volume, directory)?;
    for area in inline_areas(directory, &bytes) {
        if let Some(found) = find_in(Spans::within(&bytes, area), name)? {
            return named(volume, found.inode);
        }
    }
    Err(FsError::NotFound)
}

/// Returns `inode` if a directory may name it.
fn named(volume: &Volume, inode: u32) -> Result<u32, FsError> {
    if is_nameable(&volume.geometry, inode) { Ok(inode) } else { Err(FsError::Corrupt) }
}

/// Returns the place of `name`, searching one block after the other. Starts at the block where the last name was found, because
/// names are often looked up in the order in which they are listed.
///
/// # Errors
/// [`FsError::NotFound`]; else those of [`scan`].
pub(crate) fn find_linearly(
    volume: &Volume,
    directory: &Inode,
    name: &[u8],
    purpose: Purpose,
) -> Result<EntryPlace, FsError> {
    if matches!(name, b"." | b"..") {
        return Err(FsError::NotFound);
    }
    // The inode's check keeps this below the number of blocks of the volume.
    let blocks = directory.attributes.size / volume.geometry.block_bytes as u64;
    let last = u64::from(directory.last_found.load(Relaxed)).min(blocks);
    for logical in (last..blocks).chain(0..last) {
        let block = load(volume, directory, logical)?;
        if let Some(found) = find_in_block(volume, &block, name, purpose)? {
            directory.last_found.store(logical as u32, Relaxed);
            let inode = named(volume, found.inode)?;
            return Ok(EntryPlace { logical, offset: found.offset, inode });
        }
    }
    Err(FsError::NotFound)
}
