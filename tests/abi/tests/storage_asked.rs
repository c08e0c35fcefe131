//! Requests to storage and devices: extents, read-only and read-ahead of disks, entropy, block sizes, attributes.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, become_user},
    *,
};
use std::{fs, os::unix::fs::FileTypeExt, ptr::from_mut};

const FIEMAP: u64 = 0xc020_660b;
const FIGETBSZ: u64 = 2;
const GETFLAGS: u64 = 0x8008_6601;
const SETFLAGS: u64 = 0x4008_6602;
const BLKROSET: u64 = 0x125d;
const BLKROGET: u64 = 0x125e;
const BLKRASET: u64 = 0x1262;
const BLKRAGET: u64 = 0x1263;
const BLKFRASET: u64 = 0x1264;
const BLKFRAGET: u64 = 0x1265;
const RNDGETENTCNT: u64 = 0x8004_5200;
const RNDADDTOENTCNT: u64 = 0x4004_5201;
const RNDZAPENTCNT: u64 = 0x5204;
const RNDCLEARPOOL: u64 = 0x5206;
const RNDRESEEDCRNG: u64 = 0x5207;
const TCGETS: u64 = 0x5401;

const LAST: u32 = 1;
const UNWRITTEN: u32 = 0x800;
const SYNC: u32 = 1;
const BLOCK: u64 = 4096;
const KIB: u64 = 1024;

fn ioctl(fd: i32, request: u64, argument: usize) -> Result<i64, i32> {
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) })
}

fn get<T: Default>(fd: i32, request: u64) -> Result<T, i32> {
    let mut value = T::default();
    ioctl(fd, request, from_mut(&mut value) as usize).map(|_| value)
}

/// `struct fiemap` with room for eight extents, and `struct fiemap_extent`.
#[derive(Default, Clone, Copy)]
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; 8],
}

#[derive(Default, Clone, Copy, Debug)]
#[repr(C)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    rest: [u32; 3],
}

fn extents(fd: i32, start: u64, length: u64, flags: u32, room: u32) -> Result<Map, (i32, u32)> {
    let mut map = Map { start, length, flags, room, ..Map::default() };
    match ioctl(fd, FIEMAP, from_mut(&mut map) as usize) {
        Ok(_) => Ok(map),
        Err(error) => Err((error, map.flags)),
    }
}

/// Returns start, length (in KiB) and flags of the mapped extents; adjacent extents of one type are joined.
fn shape(map: &Map) -> Vec<(u64, u64, u32)> {
    let mut shape: Vec<(u64, u64, u32)> = Vec::new();
    for extent in &map.extents[..map.mapped as usize] {
        assert_eq!((extent.logical % KIB, extent.length % KIB), (0, 0));
        assert!(extent.physical > 0 && extent.physical.is_multiple_of(KIB));
        let (start, length) = (extent.logical / KIB, extent.length / KIB);
        match shape.last_mut() {
            Some(last) if last.0 + last.1 == start && (last.2 ^ extent.flags) & !LAST == 0 => {
                *last = (last.0, last.1 + length, extent.flags);
            }
            _ => shape.push((start, length, extent.flags)),
        }
    }
    shape
}

/// Opens the disk of the root, if there is one. Returns its descriptor and its number.
fn root_disk(flags: i32) -> Option<(i32, String)> {
    let lines = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = lines.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let disk = mounts.rfind(|words| words[1] == "/").unwrap()[0].to_owned();
    if !fs::metadata(&disk).is_ok_and(|disk| disk.file_type().is_block_device()) {
        eprintln!("the root is on no disk: nothing was tested");
        return None;
    }
    let number = stat(&disk).unwrap().st_rdev;
    let name = format!("{}:{}", libc::major(number), libc::minor(number));
    match open(&disk, flags, 0) {
        Err(libc::EPERM) => {
            eprintln!("disks may not be opened here: nothing was tested");
            None
        }
        opened => Some((opened.unwrap(), name)),
    }
}

#[test]
fn a_file_tells_its_extents() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let fd = open(scratch.path("f"), libc::O_CREAT | libc::O_RDWR, 0o600).unwrap();
        assert_eq!(extents(fd, 0, u64::MAX, SYNC, 8).unwrap().mapped, 0, "it is empty");
        let put = |block: u64, count: usize| {
            let bytes = vec![7u8; count * BLOCK as usize];
            let at = (block * BLOCK) as i64;
            must(unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), at) } as i64);
        };
        put(0, 2);
        put(5, 1);
        must(unsafe { libc::fallocate(fd, 0, 9 * BLOCK as i64, 3 * BLOCK as i64) });
        let whole = extents(fd, 0, u64::MAX, SYNC, 8).unwrap();
        assert_eq!(shape(&whole), [(0, 8, 0), (20, 4, 0), (36, 12, UNWRITTEN | LAST)]);
        assert_eq!(whole.flags, SYNC);
        // Without room they are only counted; with too little the last one is not there.
        let counted = extents(fd, 0, u64::MAX, SYNC, 0).unwrap();
        assert_eq!(counted.mapped, whole.mapped);
        let few = extents(fd, 0, u64::MAX, SYNC, 1).unwrap();
        assert_eq!((few.mapped, few.extents[0].flags & LAST, few.extents[1].length), (1, 0, 0));
        // A part: from the middle of an extent on, and holes at either end.
        let part = extents(fd, BLOCK, 5 * BLOCK, SYNC, 8).unwrap();
        assert_eq!(shape(&part), [(4, 4, 0), (20, 4, LAST)]);
        assert_eq!(extents(fd, 2 * BLOCK, 3 * BLOCK, SYNC, 8).unwrap().mapped, 0);
        let byte = extents(fd, BLOCK + 7, 1, 0, 8).unwrap();
        assert_eq!((shape(&byte)[0].0, shape(&byte)[0].2), (4, LAST));
        let folder = open(scratch.path(""), libc::O_RDONLY, 0).unwrap();
        assert!(extents(folder, 0, u64::MAX, 0, 8).is_ok(), "a directory has extents too");
    });
}

#[test]
fn extents_that_make_no_sense_are_refused() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let fd = open(scratch.file("f", b"here"), libc::O_RDWR, 0).unwrap();
        assert_eq!(extents(fd, 0, 0, 0, 8).err(), Some((libc::EINVAL, 0)), "no bytes");
        assert_eq!(extents(fd, u64::MAX, 1, 0, 8).err(), Some((libc::EFBIG, 0)));
        assert_eq!(extents(fd, 0, u64::MAX, 0x10, 8).err(), Some((libc::EBADR, 0x10)));
        assert_eq!(extents(fd, 0, u64::MAX, 0x11, 8).err(), Some((libc::EBADR, 0x10)));
        assert_eq!(extents(fd, 0, 1, 0, u32::MAX).err(), Some((libc::EINVAL, 0)));
        assert_eq!(ioctl(fd, FIEMAP, 8), Err(libc::EFAULT));
        let memory = Scratch::in_memory();
        let other = open(memory.file("f", b"here"), libc::O_RDWR, 0).unwrap();
        assert_eq!(ioctl(other, FIEMAP, 8), Err(libc::EOPNOTSUPP), "before the address");
        assert_eq!(extents(pipe().0, 0, 1, 0, 8).err(), Some((libc::EOPNOTSUPP, 0)));
        let status = open("/proc/self/status", libc::O_RDONLY, 0).unwrap();
        assert_eq!(extents(status, 0, 1, 0, 8).err(), Some((libc::EOPNOTSUPP, 0)));
        let null = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        assert_eq!(extents(null, 0, 1, 0, 8).err(), Some((libc::EOPNOTSUPP, 0)));
        let block = stat(scratch.path("f")).unwrap().st_blksize;
        assert_eq!(get::<i32>(fd, FIGETBSZ).map(i64::from), Ok(block));
        assert_eq!(get::<i32>(other, FIGETBSZ), Ok(BLOCK as i32));
        assert_eq!(get::<i32>(status, FIGETBSZ), Ok(1024));
    });
}

#[test]
fn a_disk_is_set_by_administrators() {
    isolated(|| {
        let Some((disk, number)) = root_disk(libc::O_RDONLY) else { return };
        let before = get::<u64>(disk, BLKRAGET).unwrap();
        assert_eq!(get::<u64>(disk, BLKFRAGET), Ok(before));
        for (request, sectors) in [(BLKRASET, 512), (BLKFRASET, 64), (BLKRASET, 0), (BLKRASET, 13)]
        {
            assert_eq!(ioctl(disk, request, sectors), Ok(0));
            let kept = sectors as u64 / 8 * 8;
            assert_eq!(get::<u64>(disk, BLKRAGET), Ok(kept), "in pages");
            let text = fs::read_to_string(format!("/sys/dev/block/{number}/queue/read_ahead_kb"));
            assert_eq!(text.unwrap(), format!("{}\n", kept / 2));
            let text = fs::read_to_string(format!("/sys/class/bdi/{number}/read_ahead_kb"));
            assert_eq!(text.unwrap(), format!("{}\n", kept / 2));
        }
        assert_eq!(ioctl(disk, BLKRASET, before as usize), Ok(0));
        let mut off = 0i32;
        let at = from_mut(&mut off) as usize;
        assert_eq!(get::<i32>(disk, BLKROGET), Ok(0));
        assert_eq!(ioctl(disk, BLKROSET, at), Ok(0));
        assert_eq!(ioctl(disk, BLKROSET, 8), Err(libc::EFAULT));
        assert_eq!(get::<i32>(disk, BLKROGET), Ok(0));
        become_user(NOBODY);
        for request in [BLKROSET, BLKRASET, BLKFRASET] {
            assert_eq!(ioctl(disk, request, 8), Err(libc::EACCES));
        }
        assert_eq!(get::<u64>(disk, BLKRAGET), Ok(before), "anyone may ask");
    });
}

#[test]
fn entropy_is_always_enough() {
    isolated(|| {
        let fds =
            ["/dev/random", "/dev/urandom"].map(|path| open(path, libc::O_RDONLY, 0).unwrap());
        let (mut none, mut negative) = (0i32, -1i32);
        let (none, negative) = (from_mut(&mut none) as usize, from_mut(&mut negative) as usize);
        for fd in fds {
            assert_eq!(get::<i32>(fd, RNDGETENTCNT), Ok(256));
            assert_eq!(ioctl(fd, RNDGETENTCNT, 8), Err(libc::EFAULT));
            assert_eq!(ioctl(fd, RNDADDTOENTCNT, none), Ok(0));
            assert_eq!(ioctl(fd, RNDADDTOENTCNT, negative), Err(libc::EINVAL));
            assert_eq!(ioctl(fd, RNDADDTOENTCNT, 8), Err(libc::EFAULT));
            for request in [RNDZAPENTCNT, RNDCLEARPOOL, RNDRESEEDCRNG] {
                assert_eq!(ioctl(fd, request, 0), Ok(0));
            }
            assert_eq!(ioctl(fd, TCGETS, 8), Err(libc::EINVAL), "not ENOTTY");
        }
        let null = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        assert_eq!(ioctl(null, RNDGETENTCNT, none), Err(libc::ENOTTY));
        become_user(NOBODY);
        for fd in fds {
            assert_eq!(get::<i32>(fd, RNDGETENTCNT), Ok(256));
            for request in [RNDADDTOENTCNT, RNDZAPENTCNT, RNDCLEARPOOL, RNDRESEEDCRNG] {
                assert_eq!(ioctl(fd, request, none), Err(libc::EPERM), "{request:x}");
            }
        }
    });
}

#[test]
fn ranges_of_devices_are_read_ahead_and_written() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = open(scratch.file("f", b"here"), libc::O_RDWR, 0).unwrap();
        let memory = Scratch::in_memory();
        let other = open(memory.file("f", b"here"), libc::O_RDWR, 0).unwrap();
        let zero = open("/dev/zero", libc::O_RDWR, 0).unwrap();
        let folder = open(scratch.path(""), libc::O_RDONLY, 0).unwrap();
        let disk = root_disk(libc::O_RDONLY).map(|(disk, _)| disk);
        let (end, _other_end) = pipe();
        let event = must(unsafe { libc::eventfd(0, 0) }) as i32;
        let ahead = |fd: i32, offset: i64, count: usize| {
            check(unsafe { libc::readahead(fd, offset, count) } as i64)
        };
        let range = |fd: i32| check(unsafe { libc::sync_file_range(fd, 0, 0, 0) });
        let advise = |fd: i32, advice: i32| unsafe { libc::posix_fadvise(fd, 0, 0, advice) };
        for fd in [file, other].into_iter().chain(disk) {
            assert_eq!(ahead(fd, 0, 4096), Ok(0));
            assert_eq!(ahead(fd, 1 << 50, 4096), Ok(0));
            assert_eq!(ahead(fd, 0, usize::MAX), Err(libc::EINVAL));
            assert_eq!(range(fd), Ok(0));
            assert_eq!((advise(fd, 0), advise(fd, 6)), (0, libc::EINVAL));
        }
        for fd in [zero, folder, end, event] {
            assert_eq!(ahead(fd, 0, 4096), Err(libc::EINVAL), "{fd}");
        }
        assert_eq!(ahead(open("/dev/null", libc::O_WRONLY, 0).unwrap(), 0, 1), Err(libc::EBADF));
        assert_eq!(range(folder), Ok(0));
        for fd in [zero, end, event] {
            assert_eq!(range(fd), Err(libc::ESPIPE), "{fd}");
        }
        for fd in [zero, event, folder] {
            assert_eq!((advise(fd, 0), advise(fd, 6)), (0, libc::EINVAL), "{fd}");
        }
        assert_eq!(advise(end, 0), libc::ESPIPE);
    });
}

#[test]
fn block_sizes_are_those_of_the_file_system() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let memory = Scratch::in_memory();
        let file = scratch.file("f", b"");
        let size = |path: &str| stat(path).unwrap().st_blksize;
        let mut of_disk: libc::statvfs = unsafe { zeroed() };
        must(unsafe { libc::statvfs(c(&file).as_ptr(), &mut of_disk) });
        assert_eq!(stat(&file).unwrap().st_blksize as u64, of_disk.f_bsize);
        assert_eq!(stat(memory.file("f", b"")).unwrap().st_blksize, 4096);
        for path in ["/proc", "/proc/self/status", "/proc/sys/kernel", "/dev/pts"] {
            assert_eq!(size(path), 1024, "{path}");
        }
        for path in ["/sys", "/dev/null", "/dev/zero"] {
            assert_eq!(size(path), 4096, "{path}");
        }
        let (end, _other) = pipe();
        let socket = must(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) });
        for fd in [end, socket as i32] {
            assert_eq!(size(&format!("/proc/self/fd/{fd}")), 4096);
        }
    });
}

#[test]
fn attributes_tell_which_there_are() {
    isolated(|| {
        const IMMUTABLE: u64 = 0x10;
        const APPEND: u64 = 0x20;
        const NO_DUMP: u64 = 0x40;
        const AUTOMOUNT: u64 = 0x1000;
        const MOUNT_ROOT: u64 = 0x2000;
        const DAX: u64 = 0x20_0000;
        const ALWAYS: u64 = AUTOMOUNT | MOUNT_ROOT | DAX;
        const OF_EXT4: u64 = 4 | IMMUTABLE | APPEND | NO_DUMP | 0x800 | 0x10_0000;
        let statx = |path: &str| {
            let mut found: libc::statx = unsafe { zeroed() };
            let path = c(path);
            must(unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, 0x7ff, &mut found) });
            (found.stx_attributes, found.stx_attributes_mask)
        };
        let lines = fs::read_to_string("/proc/self/mounts").unwrap();
        let root = lines.lines().rfind(|line| line.contains(" / ")).unwrap();
        if root.contains(" / ext4 ") {
            assert_eq!(statx("/"), (MOUNT_ROOT, ALWAYS | OF_EXT4));
            let scratch = Scratch::on_disk();
            let file = scratch.file("f", b"");
            let path = file.to_str().unwrap().to_owned();
            assert_eq!(statx(&path), (0, ALWAYS | OF_EXT4));
            let fd = open(&file, libc::O_RDONLY, 0).unwrap();
            let mut flags = get::<u32>(fd, GETFLAGS).unwrap() | 0x40;
            let at = from_mut(&mut flags) as usize;
            assert_eq!(ioctl(fd, SETFLAGS, at), Ok(0));
            assert_eq!(statx(&path), (NO_DUMP, ALWAYS | OF_EXT4));
        }
        assert_eq!(statx("/proc/self/status"), (0, ALWAYS));
        assert_eq!(statx("/proc"), (MOUNT_ROOT, ALWAYS));
        let memory = Scratch::in_memory();
        let file = memory.file("f", b"");
        let of_tmpfs = IMMUTABLE | APPEND | NO_DUMP;
        assert_eq!(statx(file.to_str().unwrap()), (0, ALWAYS | of_tmpfs));
    });
}
