//! Mountable things: file systems by name, and the disks they can be on; told once at start.
//!
//! A disk is in use once at a time: mounting it again shows the same file system in another place,
//! also where the first was detached and lives on. Lock: `mounted.disks` is held while a file
//! system is made from a disk, so that two mounts do not make two.
use super::mount_options;
use crate::{devices::Device, ipc::queue, procfs, sysfs, time::wall, tty::pty::devpts};
use alloc::{
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::offer::MakeFileSystem;
use rt::{
    lock_class,
    sync::{Mutex, Once},
};
use vfs::{Active, Errno};

lock_class! {
    static DISKS = "mounted.disks";
}

/// The type of files in memory alone.
const TMPFS: &str = "tmpfs";
/// The type of `/sys`.
const SYSFS: &str = "sysfs";
/// The type of `/dev`.
const DEVTMPFS: &str = "devtmpfs";

/// A device number.
type Number = (u32, u32);

/// The file systems and disks that were told.
struct Known {
    devices: Vec<Arc<Device>>,
    makers: Vec<(&'static str, MakeFileSystem)>,
    mounted: Mutex<Vec<(Number, Weak<Active>)>>,
}

static KNOWN: Once<Known> = Once::new();
/// `/sys`, once, however often it is mounted.
static SYSTEM: Once<Arc<Active>> = Once::new();
/// `/dev`, once, however often it is mounted.
static DEVICES: Once<Arc<Active>> = Once::new();

/// Says what there is; only the first word counts.
pub fn announce(devices: &[Arc<Device>], makers: &[(&'static str, MakeFileSystem)]) {
    KNOWN.get_or_init(|| Known {
        devices: devices.to_vec(),
        makers: makers.to_vec(),
        mounted: Mutex::new(&DISKS, Vec::new()),
    });
}

/// Every disk and partition.
pub fn devices() -> &'static [Arc<Device>] {
    KNOWN.get().map(|known| known.devices.as_slice()).unwrap_or_default()
}

/// Whether a mount is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Nothing is.
    Never,
    /// Writing, if the medium allows it.
    Possible,
}

/// Names of the types, those that need no disk marked (`/proc/filesystems`).
pub fn types() -> Vec<(&'static str, bool)> {
    let makers = KNOWN.get().map(|known| known.makers.as_slice()).unwrap_or_default();
    let of_disks = makers.iter().filter(|(name, _)| *name != TMPFS).map(|(name, _)| (*name, false));
    // In Linux's order.
    let own = [SYSFS, TMPFS, "proc", DEVTMPFS, devpts::TYPE_NAME, queue::directory::TYPE_NAME];
    own.into_iter().map(|name| (name, true)).chain(of_disks).collect()
}

/// For types that need no disk.
pub fn no_disk() -> Result<Number, Errno> {
    Err(Errno::ENOTBLK)
}

/// Mounts a file system of type `type_name`: one of disks on that with the number `disk` finds. A disk in
/// use already is shared.
///
/// # Errors
/// `ENODEV` for an unknown type, what `disk` says, `ENXIO`, `EACCES` where it is to be
/// written and the disk refuses that, `EBUSY` while the disk's last file system is being written and where a disk in
/// use would be written no more, or again, and what the file system says of the disk.
pub fn activate(
    type_name: &str,
    disk: impl FnOnce() -> Result<Number, Errno>,
    writes: Writes,
    options: &[u8],
) -> Result<Arc<Active>, Errno> {
    if type_name == SYSFS {
        return SYSTEM.get_or_try_init(|| Active::generated(SYSFS, sysfs::root())).cloned();
    }
    if type_name == "proc" {
        return Active::generated("proc", procfs::root());
    }
    if type_name == devpts::TYPE_NAME {
        let root = devpts::Instance::new(options)?;
        let shown = root.options_text();
        let active = Active::generated(devpts::TYPE_NAME, root)?;
        active.instance().set_options(shown);
        return Ok(active);
    }
    if type_name == queue::directory::TYPE_NAME {
        return queue::activate(options);
    }
    if type_name == DEVTMPFS {
        return devices_tree();
    }
    let known = KNOWN.get().ok_or(Errno::ENODEV)?;
    let maker = known.makers.iter().find(|(name, _)| *name == type_name);
    let (_, make) = maker.ok_or(Errno::ENODEV)?;
    if type_name == TMPFS {
        let active = Active::stored(make(None, options)?, None)?;
        active.instance().set_options(mount_options::of_tmpfs(options));
        return Ok(active);
    }
    let number = disk()?;
    let device = known.devices.iter().find(|device| device.number == number);
    check_medium(number, writes)?;
    known.mount_disk(device.ok_or(Errno::ENXIO)?, type_name, *make, writes, options)
}

/// The tree of `/dev`: empty at first.
fn devices_tree() -> Result<Arc<Active>, Errno> {
    const OPTIONS: &[u8] = b"mode=755";
    let make = || {
        let known = KNOWN.get().ok_or(Errno::ENODEV)?;
        let maker = known.makers.iter().find(|(name, _)| *name == TMPFS);
        let (_, make) = maker.ok_or(Errno::ENODEV)?;
        let active = Active::stored_as(DEVTMPFS, make(None, OPTIONS)?)?;
        active.instance().set_options(mount_options::of_tmpfs(OPTIONS));
        Ok::<_, Errno>(active)
    };
    DEVICES.get_or_try_init(make).cloned()
}

/// Whether the disk with this number, if it is one, takes what a mount does with it.
///
/// # Errors
/// `EACCES` where it is to be written and refuses that.
pub fn check_medium(number: Number, writes: Writes) -> Result<(), Errno> {
    let device = devices().iter().find(|device| device.number == number);
    match device.is_some_and(|device| device.is_read_only()) && writes != Writes::Never {
        true => Err(Errno::EACCES),
        false => Ok(()),
    }
}

/// Mounts the root: the first type that takes the disk called `wanted`, or the first disk.
///
/// # Errors
/// In words.
pub fn activate_root(
    wanted: Option<&str>,
    writes: Writes,
) -> Result<(String, Arc<Active>), String> {
    let nothing = || format!("there is no disk {}", wanted.unwrap_or("at all"));
    let known = KNOWN.get().ok_or_else(nothing)?;
    let mut devices = known.devices.iter();
    let device = devices.find(|device| wanted.is_none_or(|name| device.name == name));
    let device = device.ok_or_else(nothing)?;
    let mut refusals = String::new();
    for (type_name, make) in known.makers.iter().filter(|(type_name, _)| *type_name != TMPFS) {
        match known.mount_disk(device, type_name, *make, writes, b"") {
            Ok(active) => return Ok((format!("/dev/{}", device.name), active)),
            Err(error) => refusals.push_str(&format!(" {type_name}: {error:?}")),
        }
    }
    Err(format!("no file system for the root on {}:{refusals}", device.name))
}

impl Known {
    fn mount_disk(
        &self,
        device: &Arc<Device>,
        type_name: &str,
        make: MakeFileSystem,
        writes: Writes,
        options: &[u8],
    ) -> Result<Arc<Active>, Errno> {
        let mut mounted = self.mounted.lock();
        let known = mounted.iter().find(|(number, _)| *number == device.number);
        if let Some(active) = known.and_then(|(_, active)| active.upgrade()) {
            let is_same = active.instance().info().type_name == type_name;
            let is_same_way = active.instance().refuses_changes() == (writes == Writes::Never);
            return if is_same && is_same_way { Ok(active) } else { Err(Errno::EBUSY) };
        }
        if vfs::is_being_written(device.number) {
            return Err(Errno::EBUSY);
        }
        device.write_cache()?;
        let whole: Vec<u8> = match writes {
            Writes::Never => [b"ro,".as_slice(), options].concat(),
            Writes::Possible => options.to_vec(),
        };
        let fs = make(Some(device.block.clone()), &whole)?;
        wall::was_raised();
        let active = Active::stored(fs, Some(device.number))?;
        mounted.retain(|(number, _)| *number != device.number);
        mounted.push((device.number, Arc::downgrade(&active)));
        Ok(active)
    }
}
