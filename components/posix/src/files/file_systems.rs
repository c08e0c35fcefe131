//! What can be mounted: file systems by name, and the disks they can be on; told once at start.
use crate::{devices, procfs, start::MakeFileSystem, tty::pty::devpts};
use alloc::{sync::Arc, vec::Vec};
use interfaces::block::Block;
use rt::sync::Once;
use vfs::{Active, Errno, Namespace};

/// What there is.
struct Known {
    disks: Vec<Arc<dyn Block>>,
    makers: Vec<(&'static str, MakeFileSystem)>,
}

static KNOWN: Once<Known> = Once::new();

/// Says what there is; only the first word counts.
pub fn announce(disks: &[Arc<dyn Block>], makers: &[(&'static str, MakeFileSystem)]) {
    KNOWN.get_or_init(|| Known { disks: disks.to_vec(), makers: makers.to_vec() });
}

/// Names of the types, those that need no disk marked (`/proc/filesystems`).
pub fn types() -> Vec<(&'static str, bool)> {
    let makers = KNOWN.get().map(|known| known.makers.as_slice()).unwrap_or_default();
    let made = makers.iter().map(|(name, _)| (*name, *name == "tmpfs"));
    [("proc", true), (devpts::TYPE_NAME, true)].into_iter().chain(made).collect()
}

/// Mounts a file system of type `type_name`: on the disk with number `disk`, or on none. A disk
/// mounted already in `namespace` is shared.
///
/// # Errors
/// `ENODEV` for an unknown type, `ENOTBLK` where it needs a disk, `ENXIO`, and what the file
/// system says of the disk.
pub fn activate(
    namespace: &Namespace,
    type_name: &str,
    disk: Option<(u32, u32)>,
    options: &[u8],
) -> Result<Arc<Active>, Errno> {
    if type_name == "proc" {
        return Active::generated("proc", procfs::root());
    }
    if type_name == devpts::TYPE_NAME {
        return Active::generated(devpts::TYPE_NAME, devpts::Instance::new(options)?);
    }
    let known = KNOWN.get().ok_or(Errno::ENODEV)?;
    let maker = known.makers.iter().find(|(name, _)| *name == type_name);
    let (_, make) = maker.ok_or(Errno::ENODEV)?;
    if type_name == "tmpfs" {
        return Active::stored(make(None, options)?, None);
    }
    let number = disk.ok_or(Errno::ENOTBLK)?;
    let shared = namespace.mounts().into_iter().find(|mount| mount.instance().device() == number);
    if let Some(mount) = shared {
        let is_same = mount.instance().info().type_name == type_name;
        return if is_same { Ok(mount.active().clone()) } else { Err(Errno::EBUSY) };
    }
    let disks = known.disks.iter().enumerate();
    let mut found = disks.filter(|(index, _)| devices::disk_number(*index) == number);
    let (_, disk) = found.next().ok_or(Errno::ENXIO)?;
    Active::stored(make(Some(disk.clone()), options)?, Some(number))
}
