//! Descriptors of objects without names: pipes, sockets, event files. The processes that they signal by ioctl(2), their
//! owner and mode, their file systems, and calls that are only for files with positions.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{os::unix::fs::PermissionsExt, ptr::null_mut};

const FIOASYNC: u64 = 0x5452;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
const FIOGETOWN: u64 = 0x8903;
const SIOCGPGRP: u64 = 0x8904;
const FIGETBSZ: u64 = 2;
const FIOQSIZE: u64 = 0x5460;
const UNSET: i32 = 12345;

/// Calls ioctl(2) with a number that it may change.
fn ioctl(fd: i32, request: u64, number: &mut i32) -> Result<i64, i32> {
    check(unsafe { libc::ioctl(fd, request as _, number as *mut i32) })
}

fn pair(kind: i32) -> [i32; 2] {
    let mut pair = [0; 2];
    must(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) });
    pair
}

fn socket(kind: i32) -> i32 {
    must(unsafe { libc::socket(libc::AF_UNIX, kind, 0) }) as i32
}

fn event() -> i32 {
    must(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) }) as i32
}

fn status(fd: i32) -> libc::stat {
    let mut answer: libc::stat = unsafe { zeroed() };
    must(unsafe { libc::fstat(fd, &mut answer) });
    answer
}

fn is_async(fd: i32) -> bool {
    must(unsafe { libc::fcntl(fd, libc::F_GETFL) }) as i32 & libc::O_ASYNC != 0
}

/// Returns whether SIGIO, which is blocked, has come.
fn taken() -> bool {
    let mut set: libc::sigset_t = unsafe { zeroed() };
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe {
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGIO);
        libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut());
        libc::sigtimedwait(&set, null_mut(), &none) == libc::SIGIO
    }
}

#[test]
fn ioctl_turns_signals_on_for_what_sends_them() {
    isolated(|| {
        assert!(!taken());
        let scratch = Scratch::new();
        let (reader, writer) = pipe();
        let [one, two] = pair(libc::SOCK_STREAM);
        let notes = must(unsafe { libc::inotify_init() }) as i32;
        for fd in [reader, one, notes] {
            assert_eq!(ioctl(fd, FIOASYNC, &mut 1), Ok(0));
            assert!(is_async(fd));
            assert_eq!(ioctl(fd, FIOASYNC, &mut 2), Ok(0), "again");
            assert_eq!(ioctl(fd, FIOASYNC, &mut 0), Ok(0));
            assert!(!is_async(fd));
        }
        let file = open(scratch.file("file", b""), libc::O_RDWR, 0).unwrap();
        let folder = open(scratch.path(""), libc::O_RDONLY, 0).unwrap();
        let null = open("/dev/null", libc::O_RDWR, 0).unwrap();
        for fd in [file, folder, null, event()] {
            assert_eq!(ioctl(fd, FIOASYNC, &mut 1), Err(libc::ENOTTY));
            assert_eq!(ioctl(fd, FIOASYNC, &mut 0), Ok(0), "it is off");
            assert!(!is_async(fd));
        }
        let bad = check(unsafe { libc::ioctl(file, FIOASYNC as _, 8) });
        assert_eq!(bad, Err(libc::EFAULT));
        for (fd, other) in [(reader, writer), (one, two)] {
            must(unsafe { libc::fcntl(fd, libc::F_SETOWN, libc::getpid()) });
            write(other, b"x").unwrap();
            assert!(!taken());
            assert_eq!(ioctl(fd, FIOASYNC, &mut 1), Ok(0));
            write(other, b"x").unwrap();
            assert!(taken());
            assert_eq!(ioctl(fd, FIOASYNC, &mut 0), Ok(0));
            write(other, b"x").unwrap();
            assert!(!taken());
        }
    });
}

#[test]
fn a_socket_signals_that_it_can_be_read_and_written() {
    isolated(|| {
        assert!(!taken());
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
            let [one, two] = pair(kind);
            must(unsafe { libc::fcntl(one, libc::F_SETOWN, libc::getpid()) });
            must(unsafe { libc::fcntl(one, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK) });
            assert!(!taken());
            write(two, b"x").unwrap();
            assert!(taken(), "bytes came");
            assert_eq!(read(one, 1).unwrap(), b"x");
            assert!(!taken());
            write(one, b"y").unwrap();
            assert_eq!(read(two, 1).unwrap(), b"y");
            assert!(!taken(), "there was room");
            if kind == libc::SOCK_STREAM {
                write(two, b"xyz").unwrap();
                assert!(taken());
                assert_eq!(read(one, 1).unwrap(), b"x");
                assert!(!taken(), "the rest is not new");
                assert_eq!(read(one, 10).unwrap(), b"yz");
            }
            while write(one, &[0; 4096]).is_ok() {}
            assert!(!taken());
            must(unsafe { libc::fcntl(two, libc::F_SETFL, libc::O_NONBLOCK) });
            while read(two, 65536).is_ok() {}
            assert!(taken(), "room came");
            close(two);
            assert_eq!(taken(), kind != libc::SOCK_DGRAM, "the other has gone");
            close(one);
        }
        let name = format!("\0abi-nameless-{}", unsafe { libc::getpid() });
        let mut address: libc::sockaddr_un = unsafe { zeroed() };
        address.sun_family = libc::AF_UNIX as u16;
        for (to, from) in address.sun_path.iter_mut().zip(name.bytes()) {
            *to = from as _;
        }
        let length = 2 + name.len() as u32;
        let listener = socket(libc::SOCK_STREAM);
        let at = (&raw const address).cast();
        must(unsafe { libc::bind(listener, at, length) });
        must(unsafe { libc::listen(listener, 1) });
        must(unsafe { libc::fcntl(listener, libc::F_SETOWN, libc::getpid()) });
        must(unsafe { libc::fcntl(listener, libc::F_SETFL, libc::O_ASYNC) });
        assert!(!taken());
        let caller = socket(libc::SOCK_STREAM);
        must(unsafe { libc::connect(caller, at, length) });
        assert!(taken(), "somebody connected");
    });
}

#[test]
fn sockets_tell_and_set_by_ioctl_whom_they_signal() {
    isolated(|| {
        let me = unsafe { libc::getpid() };
        let group = unsafe { libc::getpgrp() };
        for (set, get) in [(FIOSETOWN, FIOGETOWN), (SIOCSPGRP, SIOCGPGRP)] {
            let fd = socket(libc::SOCK_DGRAM);
            let owner = |get: u64| {
                let mut owner = UNSET;
                ioctl(fd, get, &mut owner).map(|_| owner)
            };
            assert_eq!(owner(get), Ok(0));
            assert_eq!(ioctl(fd, set, &mut { me }), Ok(0));
            assert_eq!((owner(FIOGETOWN), owner(SIOCGPGRP)), (Ok(me), Ok(me)));
            assert_eq!(check(unsafe { libc::fcntl(fd, libc::F_GETOWN) }), Ok(me.into()));
            assert_eq!(ioctl(fd, set, &mut { -group }), Ok(0));
            assert_eq!(owner(get), Ok(-group));
            assert_eq!(ioctl(fd, set, &mut { i32::MAX }), Err(libc::ESRCH));
            assert_eq!(ioctl(fd, set, &mut { i32::MIN }), Err(libc::EINVAL));
            assert_eq!(owner(get), Ok(-group));
            assert_eq!(ioctl(fd, set, &mut 0), Ok(0));
            assert_eq!(owner(get), Ok(0));
            assert_eq!(check(unsafe { libc::ioctl(fd, get as _, 8) }), Err(libc::EFAULT));
            assert_eq!(check(unsafe { libc::ioctl(fd, set as _, 8) }), Err(libc::EFAULT));
            let (reader, _writer) = pipe();
            let scratch = Scratch::new();
            let file = open(scratch.file("file", b""), libc::O_RDWR, 0).unwrap();
            for other in [reader, file, event()] {
                assert_eq!(ioctl(other, set, &mut { me }), Err(libc::ENOTTY));
                assert_eq!(ioctl(other, get, &mut 0), Err(libc::ENOTTY));
            }
        }
    });
}

#[test]
fn pipes_and_sockets_have_owners_modes_and_times_that_can_be_set() {
    isolated(|| {
        let (reader, writer) = pipe();
        let [one, two] = pair(libc::SOCK_STREAM);
        for (fd, other, mode) in [(reader, writer, 0o600), (one, two, 0o777)] {
            assert_eq!(status(fd).st_mode & 0o7777, mode);
            assert_eq!(check(unsafe { libc::fchown(fd, 1234, 5678) }), Ok(0));
            assert_eq!((status(fd).st_uid, status(fd).st_gid), (1234, 5678));
            assert_eq!(check(unsafe { libc::fchown(fd, u32::MAX, 9) }), Ok(0));
            assert_eq!((status(fd).st_uid, status(fd).st_gid), (1234, 9));
            assert_eq!(check(unsafe { libc::fchmod(fd, 0o4752) }), Ok(0));
            assert_eq!(status(fd).st_mode & 0o7777, 0o4752);
            assert_eq!(check(unsafe { libc::fchown(fd, 7, 8) }), Ok(0));
            assert_eq!(status(fd).st_mode & 0o7777, 0o752, "setuid goes with the owner");
            let time = |tv_sec| libc::timespec { tv_sec, tv_nsec: 5 };
            assert_eq!(check(unsafe { libc::futimens(fd, [time(3), time(4)].as_ptr()) }), Ok(0));
            assert_eq!((status(fd).st_atime, status(fd).st_mtime), (3, 4));
            // The two ends of a pipe have one inode, those of a socket pair two.
            assert_eq!(status(other).st_uid == 7, fd == reader);
        }
        // A user who does not own it may not do that.
        must(unsafe { libc::fchown(reader, 0, 0) });
        must(unsafe { libc::setresuid(1234, 1234, 1234) });
        assert_eq!(check(unsafe { libc::fchmod(reader, 0o777) }), Err(libc::EPERM));
        assert_eq!(check(unsafe { libc::fchown(reader, 1234, u32::MAX) }), Err(libc::EPERM));
        let (own, _) = pipe();
        assert_eq!(status(own).st_uid, 1234);
        assert_eq!(check(unsafe { libc::fchmod(own, 0o777) }), Ok(0));
    });
}

#[test]
fn the_mode_of_a_socket_is_that_of_the_name_it_is_bound_to() {
    isolated(|| {
        unsafe { libc::umask(0o022) };
        let scratch = Scratch::new();
        let bound = |name: &str, fd: i32| {
            let mut address: libc::sockaddr_un = unsafe { zeroed() };
            address.sun_family = libc::AF_UNIX as u16;
            let path = scratch.path(name);
            let bytes = path.as_os_str().as_encoded_bytes();
            for (to, from) in address.sun_path.iter_mut().zip(bytes) {
                *to = *from as _;
            }
            let length = 3 + bytes.len() as u32;
            must(unsafe { libc::bind(fd, (&raw const address).cast(), length) });
            std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
        };
        let fd = socket(libc::SOCK_STREAM);
        assert_eq!(bound("plain", fd), 0o755);
        assert_eq!(check(unsafe { libc::fchmod(fd, 0o600) }), Ok(0), "of a bound socket");
        assert_eq!(status(fd).st_mode & 0o7777, 0o600);
        let path = scratch.path("plain");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o755, "the name keeps its own");
        let fd = socket(libc::SOCK_DGRAM);
        must(unsafe { libc::fchmod(fd, 0o660) });
        assert_eq!(bound("closed", fd), 0o640);
        let named = status(fd);
        assert_eq!(named.st_mode, libc::S_IFSOCK | 0o660);
        assert_ne!(named.st_ino, stat(scratch.path("closed")).unwrap().st_ino);
    });
}

#[test]
fn file_systems_of_the_nameless_have_their_magic_numbers() {
    isolated(|| {
        let told = |fd: i32| {
            let mut answer: libc::statfs = unsafe { zeroed() };
            must(unsafe { libc::fstatfs(fd, &mut answer) });
            answer
        };
        let flags = |fd: i32| {
            let mut answer = [0u64; 15];
            must(unsafe { libc::syscall(libc::SYS_fstatfs, fd, answer.as_mut_ptr()) });
            answer[10]
        };
        let (reader, _writer) = pipe();
        let opened = |path: &str| open(path, libc::O_RDONLY, 0).unwrap();
        let epoll = must(unsafe { libc::epoll_create1(0) }) as i32;
        let timer = must(unsafe { libc::timerfd_create(0, 0) }) as i32;
        let notes = must(unsafe { libc::inotify_init() }) as i32;
        let memory = must(unsafe { libc::memfd_create(c"x".as_ptr(), 0) }) as i32;
        for (fd, magic) in [
            (reader, 0x5049_5045),
            (socket(libc::SOCK_STREAM), 0x534f_434b),
            (event(), 0x0904_1934),
            (epoll, 0x0904_1934),
            (timer, 0x0904_1934),
            (notes, 0x0904_1934),
            (opened("/proc/self/status"), 0x9fa0),
            (opened("/proc"), 0x9fa0),
            (opened("/sys"), 0x6265_6572),
            (opened("/dev/pts"), 0x1cd1),
            (opened("/dev/null"), 0x0102_1994),
            (memory, 0x0102_1994),
        ] {
            let answer = told(fd);
            assert_eq!(answer.f_type as u64, magic, "{fd}");
            assert_eq!((answer.f_bsize as u64, answer.f_namelen as u64), (4096, 255), "{fd}");
            let mut bytes = UNSET;
            assert_eq!(ioctl(fd, FIGETBSZ, &mut bytes), Ok(0), "{magic:#x}");
            assert!(bytes >= 512, "{bytes}");
        }
        let answer = told(reader);
        assert_eq!((answer.f_blocks, answer.f_files, flags(reader)), (0, 0, 0x20));
    });
}

#[test]
fn room_is_set_aside_in_files_alone() {
    isolated(|| {
        let room = |fd: i32, mode: i32, at: i64, length: i64| {
            check(unsafe { libc::fallocate(fd, mode, at, length) })
        };
        let (reader, writer) = pipe();
        let null = open("/dev/null", libc::O_RDWR, 0).unwrap();
        let terminal = open("/dev/ptmx", libc::O_RDWR, 0).unwrap();
        let nothing = [socket(libc::SOCK_STREAM), event(), null, terminal];
        for fd in nothing {
            assert_eq!(room(fd, 0, 0, 10), Err(libc::ENODEV));
            assert_eq!(room(fd, 0, i64::MAX, 10), Err(libc::ENODEV));
            assert_eq!(room(fd, 0, 0, 0), Err(libc::EINVAL));
            assert_eq!(room(fd, 1 << 20, 0, 10), Err(libc::EOPNOTSUPP));
            assert_eq!(room(fd, libc::FALLOC_FL_PUNCH_HOLE, 0, 10), Err(libc::EOPNOTSUPP));
            let advice = unsafe { libc::posix_fadvise(fd, 0, 10, libc::POSIX_FADV_NORMAL) };
            assert_eq!(advice, 0);
        }
        assert_eq!(room(writer, 0, 0, 10), Err(libc::ESPIPE));
        assert_eq!(room(writer, 0, i64::MAX, 10), Err(libc::ESPIPE));
        assert_eq!(room(reader, 0, 0, 10), Err(libc::EBADF));
        assert_eq!(room(reader, 1 << 20, 0, 10), Err(libc::EOPNOTSUPP));
        assert_eq!(unsafe { libc::posix_fadvise(writer, 0, 10, 0) }, libc::ESPIPE);
        let generated = open("/proc/self/comm", libc::O_RDWR, 0).unwrap();
        assert_eq!(room(generated, 0, 0, 10), Err(libc::EOPNOTSUPP));
        assert_eq!(room(generated, 0, i64::MAX, 10), Err(libc::EFBIG));
        let scratch = Scratch::new();
        let folder = open(scratch.path(""), libc::O_RDONLY, 0).unwrap();
        assert_eq!(room(folder, 0, 0, 10), Err(libc::EBADF));
        let file = open(scratch.file("file", b"hello"), libc::O_RDWR, 0).unwrap();
        assert_eq!(room(file, 0, i64::MAX, 10), Err(libc::EFBIG));
        let own = open(scratch.path("file"), libc::O_RDONLY, 0).unwrap();
        assert_eq!(room(own, 0, i64::MAX, 10), Err(libc::EBADF));
        must(unsafe { libc::fsync(file) });
        let mut bytes = [0i64; 1];
        let size = check(unsafe { libc::ioctl(file, FIOQSIZE as _, bytes.as_mut_ptr()) });
        assert_eq!((size, bytes[0]), (Ok(0), status(file).st_blocks * 512));
        let size = check(unsafe { libc::ioctl(reader, FIOQSIZE as _, bytes.as_mut_ptr()) });
        assert_eq!(size, Err(libc::ENOTTY));
    });
}
