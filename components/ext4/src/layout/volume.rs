//! [`Volume`]: the blocks of a volume, and what the superblock and the group descriptors say of them.
use crate::{
    layout::{groups::Groups, superblock::Geometry},
    store::{Store, cache::Cache, device::VolumeDevice, health::Health},
};
use interfaces::file_system::{FsError, ReservedFor};
use rt::sync::Once;

/// A volume, as the structures on it are read and changed.
pub(crate) struct Volume {
    /// The checked superblock.
    pub(crate) geometry: Geometry,
    /// The blocks.
    pub(crate) store: Store,
    /// The block groups, which exist once the volume was writable.
    groups: Once<Groups>,
    is_privileged: Once<fn(ReservedFor) -> bool>,
}

impl Volume {
    /// Makes a volume on `device`.
    pub(crate) fn new(
        geometry: Geometry,
        device: VolumeDevice,
        cache: Cache,
        health: Health,
    ) -> Volume {
        let store = Store::new(geometry.area(), device, cache, health);
        Volume { geometry, store, groups: Once::new(), is_privileged: Once::new() }
    }

    /// The block groups, for a caller that changes the volume.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] if the volume never was writable.
    pub(crate) fn groups(&self) -> Result<&Groups, FsError> {
        self.groups.get().ok_or(FsError::ReadOnly)
    }

    /// Sets the block groups, once.
    pub(crate) fn set_groups(&self, groups: Groups) {
        let groups = self.groups.get_or_init(|| groups);
        if let Some(is_privileged) = self.is_privileged.get() {
            groups.set_judge(*is_privileged);
        }
    }

    /// Sets the function that tells whether the calling thread may use root's blocks. Only the first
    /// call counts.
    pub(crate) fn set_judge(&self, is_privileged: fn(ReservedFor) -> bool) {
        self.is_privileged.get_or_init(|| is_privileged);
        if let Ok(groups) = self.groups() {
            groups.set_judge(is_privileged);
        }
    }
}
