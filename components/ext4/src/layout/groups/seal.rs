//! The end of a transaction, as far as block groups go.
use super::{blocks, descriptor, group::Unsummed, inodes};
use crate::layout::volume::Volume;
use interfaces::file_system::FsError;

/// Computes the checksums of the bitmaps, and writes the descriptors, of the groups that the running
/// transaction has changed. No operation is under way.
///
/// # Errors
/// As [`crate::store::Store::block`]; the transaction must not be written then.
pub(crate) fn seal(volume: &Volume) -> Result<(), FsError> {
    let Ok(groups) = volume.groups() else { return Ok(()) };
    let changed = core::mem::take(&mut volume.store.log.running().groups);
    let has_checksums = volume.geometry.has_checksums();
    for number in changed {
        let mut group = groups.lock(number)?;
        if group.unsummed.blocks && has_checksums {
            blocks::sum(volume, &mut group)?;
        }
        if group.unsummed.inodes && has_checksums {
            inodes::sum(volume, &mut group)?;
        }
        descriptor::store_counts(&volume.store, &volume.geometry, number, &group)?;
        group.unsummed = Unsummed::default();
    }
    Ok(())
}
