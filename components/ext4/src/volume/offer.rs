//! The component's offer: the file system type `ext4`, by disk and mount options.
use crate::{
    layout::mount_error::MountError,
    volume::mount::{MountOptions, mount},
};
use alloc::{sync::Arc, vec, vec::Vec};
use interfaces::{
    block::Block,
    file_system::{FileSystem, FsError},
    offer::Offer,
};

/// Starts the component: it offers the file system type.
pub fn start() -> Vec<Offer> {
    vec![Offer::FileSystem("ext4", make)]
}

/// Mounts the volume on `disk`. If it cannot be mounted the reason is logged.
fn make(disk: Option<Arc<dyn Block>>, options: &[u8]) -> Result<Arc<dyn FileSystem>, FsError> {
    let disk = disk.ok_or(FsError::Invalid)?;
    let name = disk.info().name;
    let mounted = mount(disk, MountOptions::parse(options)?).map_err(|error| {
        log::error!("ext4: {name}: {error}");
        match error {
            MountError::NotExt4 | MountError::TooShort => FsError::Invalid,
            MountError::Unsupported(_)
            | MountError::UnknownFeature(_)
            | MountError::BlockSize(_) => FsError::Unsupported,
            MountError::Checksum | MountError::Corrupt(_) => FsError::Corrupt,
            MountError::NeedsRecovery => FsError::ReadOnly,
            MountError::Failed(error) => error,
        }
    })?;
    Ok(mounted)
}
