//! The calls mount and umount.
use super::{entry::Entry, place::Named};
use alloc::{borrow::ToOwned, string::String, vec::Vec};
use interfaces::file_system::FileType;
use linux_raw_sys::general as raw;
use objects::file_systems::{self, Writes};
use process::{call::Call, files::Scope, tree};
use vfs::{
    Errno, MountFlags, PATH_MAX, Path, Walk,
    namespace::{Reach, UnmountFlags},
};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::partial(
        raw::__NR_mount,
        "mount",
        "propagation (every mount is private), idmapping, mand and sync options",
        mount,
    ),
    Entry::whole(raw::__NR_pivot_root, "pivot_root", pivot_root),
    Entry::partial(raw::__NR_umount2, "umount2", "MNT_EXPIRE never unmounts", unmount),
];

/// Flags that a mount keeps.
const KEPT: MountFlags = MountFlags::all();
/// Flags of the propagation of mounts.
const PROPAGATION: u32 = raw::MS_SHARED | raw::MS_PRIVATE | raw::MS_SLAVE | raw::MS_UNBINDABLE;
/// `MS_MGC_VAL` in the upper half is ignored.
const MAGIC: u32 = 0xc0ed_0000;
const MAGIC_MASK: u32 = 0xffff_0000;
/// Number of bytes of options that are read.
const OPTIONS_BYTES: usize = 4096;

fn mount(call: &mut Call<'_>) -> Result<u64, Errno> {
    let mut flags = call.uint(3);
    if flags & MAGIC_MASK == MAGIC {
        flags &= !MAGIC_MASK;
    }
    let scope = Scope::of(call.task);
    // Linux copies all texts before it checks the place.
    let [source, type_name] = [text(call, 0)?, text(call, 2)?];
    if call.word(4) != 0 {
        call.memory.read::<u8>(call.word(4))?;
    }
    let at = Named::cwd(call, 1)?.walk(&scope, Walk::FOLLOW)?;
    if !scope.credentials().has(vfs::Capabilities::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    let kept = MountFlags::from_bits_truncate(flags) & KEPT;
    let namespace = scope.fs().namespace();
    let who = scope.credentials();
    if flags & raw::MS_REMOUNT != 0 {
        let reach = if flags & raw::MS_BIND != 0 { Reach::Mount } else { Reach::FileSystem };
        if reach == Reach::FileSystem && at.is_mount_root() {
            file_systems::check_medium(at.mount.instance().device(), writes(kept))?;
        }
        namespace.remount(who, &at, kept, reach)?;
    } else if flags & raw::MS_BIND != 0 {
        let from = Named::cwd(call, 0)?.walk(&scope, Walk::FOLLOW)?;
        match flags & raw::MS_REC {
            0 => namespace.bind(who, &from, &at)?,
            _ => namespace.bind_recursively(who, &from, &at)?,
        };
    } else if flags & PROPAGATION != 0 {
        return check_propagation(flags, &at);
    } else if flags & raw::MS_MOVE != 0 {
        let from = Named::cwd(call, 0)?.walk(&scope, Walk::FOLLOW)?;
        namespace.move_mount(who, &from, &at)?;
    } else {
        mount_new(call, &scope, (source, type_name), &at, kept)?;
    }
    Ok(0)
}

/// Accepts only private propagation: every mount is private already.
fn check_propagation(flags: u32, at: &Path) -> Result<u64, Errno> {
    match flags & PROPAGATION {
        raw::MS_PRIVATE if at.is_mount_root() => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// Reads the text whose address is argument `index`; a null address gives an empty text.
fn text(call: &Call<'_>, index: usize) -> Result<Vec<u8>, Errno> {
    match call.word(index) {
        0 => Ok(Vec::new()),
        address => call.memory.read_string(address, PATH_MAX),
    }
}

/// Mounts a new file system of a source and a type.
fn mount_new(
    call: &Call<'_>,
    scope: &Scope<'_>,
    (source, type_name): (Vec<u8>, Vec<u8>),
    at: &Path,
    flags: MountFlags,
) -> Result<(), Errno> {
    if call.word(2) == 0 {
        return Err(Errno::EINVAL);
    }
    let type_name = String::from_utf8(type_name).map_err(|_| Errno::ENODEV)?;
    let options = match call.word(4) {
        0 => Vec::new(),
        address => call.memory.read_string(address, OPTIONS_BYTES)?,
    };
    let disk = || disk_of(scope, &source);
    let namespace = scope.fs().namespace();
    let shown = String::from_utf8_lossy(&source).into_owned();
    let shown = if shown.is_empty() { "none".to_owned() } else { shown };
    let who = scope.credentials();
    let active = file_systems::activate(&type_name, disk, writes(flags), (&options, who))?;
    // Programs and devices of a medium without labels are nobody's.
    let unsafe_flags = match active.lacks_labels()? {
        true => MountFlags::NO_SETUID | MountFlags::NO_DEVICES | MountFlags::NO_EXECUTE,
        false => MountFlags::empty(),
    };
    namespace.mount(who, &shown, active, at, flags | unsafe_flags)?;
    Ok(())
}

fn writes(flags: MountFlags) -> Writes {
    match flags.contains(MountFlags::READ_ONLY) {
        true => Writes::Never,
        false => Writes::Possible,
    }
}

/// Returns the number of the disk that `source` names.
fn disk_of(scope: &Scope<'_>, source: &[u8]) -> Result<(u32, u32), Errno> {
    if source.is_empty() {
        return Err(Errno::EINVAL);
    }
    let place = scope.caller().walk(vfs::Base::Cwd, source, Walk::FOLLOW)?;
    let vnode = place.vnode();
    if vnode.file_type() == FileType::Block { Ok(vnode.device()) } else { Err(Errno::ENOTBLK) }
}

fn unmount(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = UnmountFlags::from_bits(call.uint(1)).ok_or(Errno::EINVAL)?;
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, !flags.contains(UnmountFlags::NO_FOLLOW));
    let scope = Scope::of(call.task);
    let path = Named::cwd(call, 0)?.walk(&scope, walk)?;
    let who = scope.credentials();
    scope.fs().namespace().unmount(who, path, flags)?;
    Ok(0)
}

fn pivot_root(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    if !scope.credentials().has(vfs::Capabilities::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    let walk = Walk::FOLLOW | Walk::DIRECTORY;
    let new = Named::cwd(call, 0)?.walk(&scope, walk)?;
    let put = Named::cwd(call, 1)?.walk(&scope, walk)?;
    let old = scope.fs().root();
    scope.fs().namespace().pivot(scope.credentials(), (&old, &new), &put)?;
    let processes: Vec<_> = tree::read().processes().cloned().collect();
    for task in processes.iter().flat_map(|process| process.tasks()) {
        task.fs().follow_root(&old, &new);
    }
    Ok(0)
}
