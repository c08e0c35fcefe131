//! Inline data on its way out: a directory that changes gets a block of its own.
//!
//! New files are never made inline.
use crate::{
    layout::{
        extent_edit,
        groups::{Account, blocks},
        inode::Inode,
        inode_store::Before,
        leaf::{self, entries_end},
        raw::inode::{FLAG_EXTENTS, FLAG_INLINE_DATA},
        volume::Volume,
    },
    names::{
        entries::{Entries, encode_type, inline_areas, needed, write_entry},
        inline,
        leaf_edit::append_block,
        xattr_edit,
    },
    store::{bytes::word32, log::Operation},
};
use alloc::vec::Vec;
use interfaces::file_system::{FileType, FsError};

/// Takes the data out of the inode, which has an empty extent tree then.
///
/// # Errors
/// As [`xattr_edit::drop_inline`].
pub(crate) fn strip(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
) -> Result<(), FsError> {
    xattr_edit::drop_inline(volume, operation, inode)?;
    inode.clear_flag(FLAG_INLINE_DATA);
    inode.set_flag(FLAG_EXTENTS);
    inode.body = extent_edit::empty_root();
    Ok(())
}

/// Allocates the block for the data, then removes them from the inode: if there is no space, nothing is
/// changed.
///
/// # Errors
/// [`FsError::NoSpace`]; as [`strip`].
pub(crate) fn take_block(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    account: Account,
) -> Result<u64, FsError> {
    let goal = inode.home_block(&volume.geometry);
    let (start, _) = blocks::allocate(volume, operation, (goal, 1), account)?;
    strip(volume, operation, inode)?;
    Ok(start)
}

/// Gives a directory a block for its entries, claimed from `account`, and stores the inode.
///
/// # Errors
/// [`FsError::NoSpace`], [`FsError::Corrupt`]; what I/O met.
pub(crate) fn move_out(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    account: Account,
) -> Result<(), FsError> {
    let bytes = inline::load(volume, inode)?;
    let parent = word32(&bytes, 0).ok_or(FsError::Corrupt)?;
    let mut entries: Vec<(u32, u8, Vec<u8>)> = Vec::new();
    for area in inline_areas(inode, &bytes) {
        for entry in Entries::new(volume, &bytes, area.start, area.end).names(volume) {
            let entry = entry?;
            let file_type = bytes.get(entry.offset + 7).copied().unwrap_or(0);
            entries.push((entry.inode, file_type, entry.name.to_vec()));
        }
    }
    let names: usize = entries.iter().map(|(_, _, name)| needed(name)).sum();
    if names > entries_end(&volume.geometry) - 2 * needed(b"..") {
        return Err(FsError::NoSpace);
    }
    let start = take_block(volume, operation, inode, account)?;
    inode.attributes.size = 0;
    let (number, seed) = (inode.number, inode.seed);
    let file_type = encode_type(volume, FileType::Directory);
    let dots = [(number, file_type, b".".to_vec()), (parent, file_type, b"..".to_vec())];
    let all: Vec<_> = dots.into_iter().chain(entries).collect();
    append_block(volume, operation, inode, start, |bytes| {
        let mut at = 0;
        for (index, (inode, file_type, name)) in all.iter().enumerate() {
            let is_last = index + 1 == all.len();
            let length = if is_last { entries_end(&volume.geometry) - at } else { needed(name) };
            write_entry(bytes, at, length, (*inode, *file_type, name));
            at += length;
        }
        leaf::seal(&volume.geometry, seed, bytes);
    })?;
    inode.store(volume, operation, Before::Itself)
}
