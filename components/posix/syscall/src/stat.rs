//! The calls stat and related ones, access, statfs.
use super::{
    entry::Entry,
    place::{Named, walk_flags},
};
use interfaces::{
    file_system::{Attributes, FileTime},
    monitor::ObjectAccess,
};
use linux_raw_sys::general as raw;
use process::{
    call::Call,
    files::{
        Scope,
        anonymous::{self, is_event_file},
    },
};
use vfs::{
    Errno, MountFlags, Path, Walk,
    operations::attributes::{AccessIds, FileStatus},
    permission::Want,
    security,
};
use zerocopy::{Immutable, IntoBytes};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_stat, "stat", stat),
    Entry::whole(raw::__NR_lstat, "lstat", lstat),
    Entry::whole(raw::__NR_fstat, "fstat", fstat),
    Entry::whole(raw::__NR_newfstatat, "newfstatat", newfstatat),
    Entry::whole(raw::__NR_statx, "statx", statx),
    Entry::whole(raw::__NR_access, "access", access),
    Entry::whole(raw::__NR_faccessat, "faccessat", faccessat),
    Entry::whole(raw::__NR_faccessat2, "faccessat2", faccessat2),
    Entry::whole(raw::__NR_statfs, "statfs", statfs),
    Entry::whole(raw::__NR_fstatfs, "fstatfs", fstatfs),
];

/// `struct stat` of x86-64.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct RawStat {
    device: u64,
    inode: u64,
    links: u64,
    mode: u32,
    user: u32,
    group: u32,
    padding: u32,
    represented: u64,
    size: u64,
    block_bytes: u64,
    blocks: u64,
    times: [u64; 6],
    unused: [u64; 3],
}

const _: () = assert!(size_of::<RawStat>() == 144);

/// `struct statx`.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct RawStatx {
    mask: u32,
    block_bytes: u32,
    attributes: u64,
    links: u32,
    user: u32,
    group: u32,
    mode: u16,
    spare: u16,
    inode: u64,
    size: u64,
    blocks: u64,
    known_attributes: u64,
    /// Times of access, creation, change, modification.
    times: [RawTime; 4],
    represented: [u32; 2],
    device: [u32; 2],
    mount: u64,
    rest: [u64; 13],
}

const _: () = assert!(size_of::<RawStatx>() == 256);

#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct RawTime {
    seconds: i64,
    nanoseconds: u32,
    padding: u32,
}

impl From<FileTime> for RawTime {
    fn from(time: FileTime) -> RawTime {
        RawTime { seconds: time.seconds, nanoseconds: time.nanoseconds, padding: 0 }
    }
}

/// `struct statfs` of x86-64.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct RawStatfs {
    magic: u64,
    block_bytes: u64,
    blocks: u64,
    free: u64,
    available: u64,
    files: u64,
    files_free: u64,
    id: u64,
    name_max: u64,
    fragment_bytes: u64,
    flags: u64,
    spare: [u64; 4],
}

const _: () = assert!(size_of::<RawStatfs>() == 120);

/// `ST_VALID`: the flags are valid.
const ST_VALID: u32 = 0x20;

/// Encodes a device number as `dev_t`.
pub fn encode_device((major, minor): (u32, u32)) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

/// Decodes the device number in a `dev_t`.
pub fn decode_device(number: u64) -> (u32, u32) {
    let major = number >> 8 & 0xfff | number >> 32 & 0xffff_f000;
    let minor = number & 0xff | number >> 12 & 0xffff_ff00;
    (major as u32, minor as u32)
}

fn stat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let place = Named::cwd(call, 0)?.walk(&Scope::of(call.task), Walk::FOLLOW)?;
    write_stat(call, 1, &place)
}

fn lstat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let place = Named::cwd(call, 0)?.walk(&Scope::of(call.task), Walk::empty())?;
    write_stat(call, 1, &place)
}

fn fstat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    write_stat(call, 1, file.path())
}

fn newfstatat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let known = raw::AT_SYMLINK_NOFOLLOW | raw::AT_EMPTY_PATH | raw::AT_NO_AUTOMOUNT;
    let walk = walk_flags(call.uint(3), known | raw::AT_STATX_SYNC_TYPE)?;
    let named = match walk.contains(Walk::EMPTY) {
        true => Named::at_or_null(call, 0, 1)?,
        false => Named::at(call, 0, 1)?,
    };
    if let Some(file) = named.itself(walk) {
        return write_stat(call, 2, file.path());
    }
    let place = named.walk(&Scope::of(call.task), walk)?;
    write_stat(call, 2, &place)
}

/// Checks that the caller may still see a generated file: the object that it shows may have got another label since the file was
/// opened.
///
/// # Errors
/// `EACCES`.
fn check_shown(call: &Call<'_>, place: &Path) -> Result<(), Errno> {
    let vnode = place.vnode();
    match vnode.node().is_some() && security::is_enforced() {
        true => vnode.admit(&call.task.credentials(), ObjectAccess::Read),
        false => Ok(()),
    }
}

fn write_stat(call: &Call<'_>, address: usize, place: &Path) -> Result<u64, Errno> {
    check_shown(call, place)?;
    let FileStatus { attributes, device, .. } = place.status();
    let mode = mode_of(place, &attributes);
    let times = [attributes.accessed, attributes.modified, attributes.changed];
    let mut words = [0; 6];
    for (pair, time) in words.chunks_exact_mut(2).zip(times) {
        pair.copy_from_slice(&[time.seconds as u64, u64::from(time.nanoseconds)]);
    }
    let raw = RawStat {
        device: encode_device(device),
        inode: attributes.inode,
        links: u64::from(attributes.links),
        mode,
        user: attributes.user,
        group: attributes.group,
        padding: 0,
        represented: encode_device(attributes.device),
        size: attributes.size,
        block_bytes: u64::from(place.mount.instance().info().block_bytes),
        blocks: attributes.blocks,
        times: words,
        unused: [0; 3],
    };
    call.memory.write(call.word(address), &raw)?;
    Ok(0)
}

/// Returns type and permissions; Linux shows no type for objects that have no name (event files).
fn mode_of(place: &Path, attributes: &Attributes) -> u32 {
    let file_type = if is_event_file(place) { 0 } else { attributes.file_type as u16 };
    u32::from(file_type | attributes.permissions)
}

fn statx(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (flags, mask) = (call.uint(2), call.uint(3));
    let sync = raw::AT_STATX_FORCE_SYNC | raw::AT_STATX_DONT_SYNC;
    let known = raw::AT_SYMLINK_NOFOLLOW | raw::AT_EMPTY_PATH | raw::AT_NO_AUTOMOUNT | sync;
    let walk = walk_flags(flags, known)?;
    if mask & raw::STATX__RESERVED != 0 || flags & sync == sync {
        return Err(Errno::EINVAL);
    }
    let named = match walk.contains(Walk::EMPTY) {
        true => Named::at_or_null(call, 0, 1)?,
        false => Named::at(call, 0, 1)?,
    };
    let place = named.walk(&Scope::of(call.task), walk)?;
    check_shown(call, &place)?;
    call.memory.write(call.word(4), &statx_of(&place))?;
    Ok(0)
}

/// Returns the attributes that Linux's file system of this type supports, even if no file has them; the other
/// attributes are those of every mount.
fn known_attributes(type_name: &str) -> u32 {
    const ALL: u32 = raw::STATX_ATTR_AUTOMOUNT | raw::STATX_ATTR_MOUNT_ROOT | raw::STATX_ATTR_DAX;
    const KEPT: u32 = raw::STATX_ATTR_IMMUTABLE | raw::STATX_ATTR_APPEND | raw::STATX_ATTR_NODUMP;
    const STORED: u32 =
        raw::STATX_ATTR_COMPRESSED | raw::STATX_ATTR_ENCRYPTED | raw::STATX_ATTR_VERITY;
    match type_name {
        "ext4" => ALL | KEPT | STORED,
        "tmpfs" | "devtmpfs" => ALL | KEPT,
        _ => ALL,
    }
}

fn statx_of(place: &Path) -> RawStatx {
    let status = place.status();
    let attributes = &status.attributes;
    let flags = [
        (vfs::FLAG_IMMUTABLE, raw::STATX_ATTR_IMMUTABLE),
        (vfs::FLAG_APPEND, raw::STATX_ATTR_APPEND),
        (vfs::FLAG_NO_DUMP, raw::STATX_ATTR_NODUMP),
    ];
    let set = flags.iter().filter(|(flag, _)| attributes.flags & flag != 0);
    let own = set.fold(0, |sum, (_, bit)| sum | u64::from(*bit));
    let root = if status.is_mount_root { u64::from(raw::STATX_ATTR_MOUNT_ROOT) } else { 0 };
    let has_birth = attributes.created != FileTime::default();
    let birth = if has_birth { raw::STATX_BTIME } else { 0 };
    let represented = attributes.device;
    let info = place.mount.instance().info();
    RawStatx {
        mask: raw::STATX_BASIC_STATS | raw::STATX_MNT_ID | birth,
        block_bytes: info.block_bytes,
        attributes: own | root,
        links: attributes.links,
        user: attributes.user,
        group: attributes.group,
        mode: mode_of(place, attributes) as u16,
        spare: 0,
        inode: attributes.inode,
        size: attributes.size,
        blocks: attributes.blocks,
        known_attributes: u64::from(known_attributes(info.type_name)),
        times: [attributes.accessed, attributes.created, attributes.changed, attributes.modified]
            .map(RawTime::from),
        represented: [represented.0, represented.1],
        device: [status.device.0, status.device.1],
        mount: status.mount_id,
        rest: [0; 13],
    }
}

fn access(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    check_access(call, &named, call.uint(1), 0)
}

fn faccessat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::at(call, 0, 1)?;
    check_access(call, &named, call.uint(2), 0)
}

fn faccessat2(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::at(call, 0, 1)?;
    check_access(call, &named, call.uint(2), call.uint(3))
}

fn check_access(call: &Call<'_>, named: &Named, want: u32, flags: u32) -> Result<u64, Errno> {
    let known = raw::AT_SYMLINK_NOFOLLOW | raw::AT_EMPTY_PATH | raw::AT_EACCESS;
    let walk = walk_flags(flags, known)?;
    let want = u16::try_from(want).ok().and_then(Want::from_bits).ok_or(Errno::EINVAL)?;
    let is_effective = flags & raw::AT_EACCESS != 0;
    let ids = if is_effective { AccessIds::Effective } else { AccessIds::Real };
    let scope = Scope::of(call.task);
    scope.caller().access(named.base(), &named.path, (want, ids), walk)?;
    Ok(0)
}

fn statfs(call: &mut Call<'_>) -> Result<u64, Errno> {
    let place = Named::cwd(call, 0)?.walk(&Scope::of(call.task), Walk::FOLLOW)?;
    write_statfs(call, &place)
}

fn fstatfs(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    write_statfs(call, file.path())
}

fn write_statfs(call: &Call<'_>, place: &Path) -> Result<u64, Errno> {
    let (usage, flags) = place.mount.usage(&call.task.credentials().subject)?;
    let timed = if anonymous::is_nameless(place) { 0 } else { relatime(flags) };
    let raw = RawStatfs {
        magic: u64::from(usage.magic),
        block_bytes: u64::from(usage.block_bytes),
        blocks: usage.blocks,
        free: usage.free,
        available: usage.available,
        files: usage.files,
        files_free: usage.files_free,
        id: usage.id,
        name_max: u64::from(usage.name_max),
        fragment_bytes: u64::from(usage.block_bytes),
        flags: u64::from(statfs_flags(flags) | timed | ST_VALID),
        spare: [0; 4],
    };
    call.memory.write(call.word(1), &raw)?;
    Ok(0)
}

/// Returns `ST_RDONLY`, `ST_NOSUID` ... with the values of statfs(2).
fn statfs_flags(flags: MountFlags) -> u32 {
    const ST_NOSYMFOLLOW: u32 = 8192;
    let same = MountFlags::READ_ONLY
        | MountFlags::NO_SETUID
        | MountFlags::NO_DEVICES
        | MountFlags::NO_EXECUTE
        | MountFlags::NO_ACCESS_TIME
        | MountFlags::NO_DIRECTORY_ACCESS_TIME;
    let no_links = if flags.contains(MountFlags::NO_LINKS) { ST_NOSYMFOLLOW } else { 0 };
    (flags & same).bits() | no_links
}

/// Returns `ST_RELATIME` if access times are updated in that way.
fn relatime(flags: MountFlags) -> u32 {
    const ST_RELATIME: u32 = 4096;
    let timed = MountFlags::NO_ACCESS_TIME | MountFlags::STRICT_ACCESS_TIME;
    if flags.intersects(timed) { 0 } else { ST_RELATIME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_the_way_to_a_program_and_back() {
        for device in [(0, 0), (8, 1), (259, 70_000), (0xfff_f000, 0xff_ffff)] {
            assert_eq!(decode_device(encode_device(device)), device);
        }
        assert_eq!(encode_device((8, 1)), 0x801);
    }
}
