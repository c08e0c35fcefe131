//! Inline data on its way out: a file that changes gets a block of its own.
//!
//! New files are never made inline.
use crate::{
    files::direct,
    layout::{
        extent::Extent, extent_edit, groups::Account, inode::Inode, inode_store::Before,
        volume::Volume,
    },
    names::{
        inline,
        inline_edit::{strip, take_block},
    },
    store::log::Operation,
};
use interfaces::file_system::FsError;

/// Gives the data of a file a block, claimed from `account`, and stores the inode.
///
/// # Errors
/// [`FsError::NoSpace`], [`FsError::Corrupt`]; what I/O met.
pub(crate) fn move_out(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    account: Account,
) -> Result<(), FsError> {
    let mut data = inline::load_sized(volume, inode)?;
    if data.is_empty() {
        strip(volume, operation, inode)?;
        return inode.store(volume, operation, Before::Itself);
    }
    data.resize(volume.geometry.block_bytes, 0);
    let start = take_block(volume, operation, inode, account)?;
    direct::write(volume, start, &data)?;
    let extent = Extent { first: 0, count: 1, start, is_written: true };
    // The root of a tree has room for it: no node is claimed.
    extent_edit::insert(volume, operation, inode, extent, Account::Pool)?;
    inode.add_blocks(&volume.geometry, 1);
    inode.store(volume, operation, Before::Itself)
}
