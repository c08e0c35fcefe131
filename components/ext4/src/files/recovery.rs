//! The list of orphans that a crash left: taken over, then worked off.
use crate::{
    files::file_size,
    layout::{groups::inodes, inode::Inode, orphans::Orphans, volume::Volume},
    transactions::mount::Mount,
};
use interfaces::file_system::FsError;
use rt::memory::Charge;

/// Memory that is charged for one inode of the list.
const LISTED_BYTES: usize = 32;

/// Takes over the list of the volume: later commits write the part of it that is left. At an inode that makes no
/// sense the list ends, and the volume is marked as having errors.
///
/// # Errors
/// The error of the read if an inode cannot be read; [`FsError::NoMemory`] if memory for the list is refused. Nothing is taken
/// over then.
pub(crate) fn load(volume: &Volume, first: u32) -> Result<(), FsError> {
    let orphans = &volume.groups()?.orphans;
    let mut charge = Charge::none();
    let (mut number, mut last) = (first, 0);
    while number != 0 {
        let room = charge.grow(LISTED_BYTES).map_err(|_| FsError::NoMemory);
        let next = match room.and_then(|()| check(volume, orphans, number)) {
            Ok(next) => next,
            Err(FsError::Corrupt) => {
                log::error!("ext4: {}: bad orphan inode {number}", volume.store.device.name());
                volume.store.report(FsError::Corrupt);
                break;
            }
            Err(error) => {
                orphans.clear();
                return Err(error);
            }
        };
        orphans.append(last, number);
        (last, number) = (number, next);
    }
    Ok(())
}

/// Returns the inode that inode `number` of the volume's list names, if `number` can be on the list.
fn check(volume: &Volume, orphans: &Orphans, number: u32) -> Result<u32, FsError> {
    let is_possible = (volume.geometry.first_inode..=volume.geometry.inodes).contains(&number);
    if !is_possible || orphans.next_of(number).is_some() || !inodes::is_used(volume, number)? {
        return Err(FsError::Corrupt);
    }
    Ok(Inode::load_orphan(volume, number)?.deleted)
}

/// Frees the inodes on the list from `first` on, as [`load`] read it, or cuts them to their sizes. Returns their number.
/// Inodes that other threads add meanwhile are in front of `first` and stay. A crash at any moment leaves the inodes
/// that are not done on the volume's list.
///
/// # Errors
/// The error of the first inode that cannot be read, freed or cut; the inodes behind it stay on the list.
pub(crate) fn clean(mount: &Mount, first: u32) -> Result<u32, FsError> {
    let volume = &mount.volume;
    let (mut number, mut count) = (first, 0);
    while number != 0 {
        let next = volume.groups()?.orphans.next_of(number).ok_or(FsError::Corrupt)?;
        let inode = Inode::load_orphan(volume, number)?;
        let is_unnamed = inode.attributes.links == 0;
        let node = mount.inodes.insert(volume, inode)?;
        let result = match is_unnamed {
            true => file_size::delete(mount, &node),
            false => file_size::cut(mount, &node),
        };
        mount.inodes.forget(u64::from(number), u64::MAX);
        result?;
        (number, count) = (next, count + 1);
    }
    Ok(count)
}
