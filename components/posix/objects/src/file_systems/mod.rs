//! Mountable file systems by name, and the disks they can be on; both lists are set once at start.
//!
//! A disk is used by one file system at a time: mounting it again shows the same file system in another place, even
//! if the first mount was detached and still exists. Lock: `mounted.disks` is held while a file system is made from
//! a disk, so that two mounts cannot make two.
mod labels;
mod options;

use crate::devices::DiskDevice;
use alloc::{
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::offer::MakeFileSystem;
use process::{HOST, time::wall};
use rt::{
    lock_class,
    sync::{Mutex, Once},
};
use vfs::{Active, Credentials, Errno};

lock_class! {
    static DISKS = "mounted.disks";
}

/// Type name of the file system in memory.
const TMPFS: &str = "tmpfs";

/// A device number.
type Number = (u32, u32);

/// A type of file systems that need no disk: its name, and a function that makes one by mount options.
pub type Diskless = (&'static str, fn(&[u8]) -> Result<Arc<Active>, Errno>);

/// The known file systems and disks.
struct KnownFileSystems {
    devices: Vec<Arc<DiskDevice>>,
    diskless: &'static [Diskless],
    makers: Vec<(&'static str, MakeFileSystem)>,
    mounted: Mutex<Vec<(Number, Weak<Active>)>>,
}

static KNOWN: Once<KnownFileSystems> = Once::new();
/// The one tree of `/dev`, however often it is mounted.
static DEVICES: Once<Arc<Active>> = Once::new();

/// Says which disks and types there are, those without disks in the order in which `/proc/filesystems` names them; only the
/// first call counts.
pub fn announce(
    devices: &[Arc<DiskDevice>],
    diskless: &'static [Diskless],
    makers: &[(&'static str, MakeFileSystem)],
) {
    KNOWN.get_or_init(|| KnownFileSystems {
        devices: devices.to_vec(),
        diskless,
        makers: makers.to_vec(),
        mounted: Mutex::new(&DISKS, Vec::new()),
    });
}

/// Returns every disk and partition.
pub fn devices() -> &'static [Arc<DiskDevice>] {
    KNOWN.get().map(|known| known.devices.as_slice()).unwrap_or_default()
}

/// Tells whether a mount is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// The mount is never written.
    Never,
    /// The mount may be written, if the medium allows it.
    Possible,
}

/// Returns the names of the types, with a mark on those that need no disk (`/proc/filesystems`).
pub fn types() -> Vec<(&'static str, bool)> {
    let Some(known) = KNOWN.get() else { return Vec::new() };
    let of_disks = known.disk_makers().map(|(name, _)| (*name, false));
    known.diskless.iter().map(|(name, _)| (*name, true)).chain(of_disks).collect()
}

/// Used as `disk` for types that need none.
pub fn no_disk() -> Result<Number, Errno> {
    Err(Errno::ENOTBLK)
}

/// Mounts a file system of type `type_name`; if it is one of disks, on the disk with the number that `disk` returns.
/// A disk in use already is shared. `who` mounts it, with `options`.
///
/// # Errors
/// `ENODEV` for an unknown type, errors of `disk`, `ENXIO`, `EACCES` if the mount is to be written and the disk is
/// read-only, `EBUSY` while the disk's last file system is being written and if the mount would change whether a
/// disk in use is written, and errors of the file system about the disk.
pub fn activate(
    type_name: &str,
    disk: impl FnOnce() -> Result<Number, Errno>,
    writes: Writes,
    (options, who): (&[u8], &Credentials),
) -> Result<Arc<Active>, Errno> {
    let (contexts, options) = labels::split(options, who)?;
    let active = activate_unlabelled(type_name, disk, writes, &options)?;
    contexts.apply(&active)?;
    Ok(active)
}

fn activate_unlabelled(
    type_name: &str,
    disk: impl FnOnce() -> Result<Number, Errno>,
    writes: Writes,
    options: &[u8],
) -> Result<Arc<Active>, Errno> {
    let known = KNOWN.get().ok_or(Errno::ENODEV)?;
    if let Some((_, make)) = known.diskless.iter().find(|(name, _)| *name == type_name) {
        return make(options);
    }
    let (_, make) = known.maker(type_name)?;
    let number = disk()?;
    let device = known.devices.iter().find(|device| device.number == number);
    check_medium(number, writes)?;
    known.mount_disk(device.ok_or(Errno::ENXIO)?, type_name, *make, writes, options)
}

/// A new file system of files in memory alone.
///
/// # Errors
/// As the file system says of its options.
pub fn tmpfs(options: &[u8]) -> Result<Arc<Active>, Errno> {
    in_memory(TMPFS, options)
}

/// The tree of `/dev`: empty at first, and one however often it is mounted.
///
/// # Errors
/// As [`tmpfs`].
pub fn devtmpfs(_: &[u8]) -> Result<Arc<Active>, Errno> {
    DEVICES.get_or_try_init(|| in_memory("devtmpfs", b"mode=755")).cloned()
}

fn in_memory(type_name: &'static str, options: &[u8]) -> Result<Arc<Active>, Errno> {
    let known = KNOWN.get().ok_or(Errno::ENODEV)?;
    let (_, make) = known.maker(TMPFS)?;
    let active = Active::stored_as(HOST, type_name, make(None, options)?)?;
    active.instance().set_options(options::of_tmpfs(options));
    Ok(active)
}

/// Checks that the disk with this number, if it is one, permits the writes of a mount.
///
/// # Errors
/// `EACCES` if it is to be written and is read-only.
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
    for (type_name, make) in known.disk_makers() {
        match known.mount_disk(device, type_name, *make, writes, b"") {
            Ok(active) => return Ok((format!("/dev/{}", device.name), active)),
            Err(error) => refusals.push_str(&format!(" {type_name}: {error:?}")),
        }
    }
    Err(format!("no file system for the root on {}:{refusals}", device.name))
}

impl KnownFileSystems {
    fn maker(&self, type_name: &str) -> Result<&(&'static str, MakeFileSystem), Errno> {
        self.makers.iter().find(|(name, _)| *name == type_name).ok_or(Errno::ENODEV)
    }
    /// The types that need a disk.
    fn disk_makers(&self) -> impl Iterator<Item = &(&'static str, MakeFileSystem)> {
        self.makers.iter().filter(|(name, _)| *name != TMPFS)
    }
    fn mount_disk(
        &self,
        device: &Arc<DiskDevice>,
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
        let active = Active::stored(HOST, fs, Some(device.number))?;
        mounted.retain(|(number, _)| *number != device.number);
        mounted.push((device.number, Arc::downgrade(&active)));
        Ok(active)
    }
}
