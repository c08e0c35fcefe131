//! Calls with several wrong arguments: the error that comes first, and the effects; `./x campaign arguments` found these.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::ptr::null_mut;

/// An address outside the range of programs.
const KERNEL: usize = 0xffff_8000_0000_0000;

fn epoll() -> i32 {
    must(unsafe { libc::epoll_create1(0) }) as i32
}

fn control(epoll: i32, operation: i32, fd: i32) -> Result<i64, i32> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    check(unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) })
}

#[test]
fn files_that_stand_for_nothing_take_lseek() {
    let timer = must(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) }) as i32;
    let event = must(unsafe { libc::eventfd(0, 0) }) as i32;
    let notes = must(unsafe { libc::inotify_init() }) as i32;
    let signals = {
        let mut set: libc::sigset_t = unsafe { zeroed() };
        unsafe { libc::sigemptyset(&mut set) };
        must(unsafe { libc::signalfd(-1, &set, 0) }) as i32
    };
    for fd in [epoll(), timer, event, notes, signals] {
        for whence in [libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END, libc::SEEK_HOLE] {
            assert_eq!(check(unsafe { libc::lseek(fd, -5, whence) }), Ok(0), "{fd} {whence}");
        }
        assert_eq!(check(unsafe { libc::lseek(fd, 0, 9) }), Err(libc::EINVAL));
        close(fd);
    }
}

#[test]
fn epoll_ctl_looks_at_its_files_before_its_operation() {
    let scratch = Scratch::new();
    let path = scratch.file("file", b"x");
    let file = open(&path, libc::O_RDONLY, 0).expect("it was just made");
    let place = open(&path, libc::O_PATH, 0).expect("it was just made");
    let (reader, writer) = pipe();
    let epoll = epoll();
    for operation in [0, 4, -1, libc::EPOLL_CTL_ADD] {
        assert_eq!(control(epoll, operation, file), Err(libc::EPERM), "{operation}");
        assert_eq!(control(place, operation, reader), Err(libc::EBADF), "{operation}");
        assert_eq!(control(reader, operation, file), Err(libc::EPERM), "{operation}");
    }
    assert_eq!(control(epoll, -1, reader), Err(libc::EINVAL));
    for operation in [libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL] {
        assert_eq!(control(epoll, operation, epoll), Err(libc::EINVAL), "{operation}");
    }
    [reader, writer, epoll, file, place].into_iter().for_each(close);
}

#[test]
fn fstatat_takes_the_flags_of_statx_that_synchronise() {
    let scratch = Scratch::new();
    let path = c(scratch.file("file", b"four"));
    for flags in [libc::AT_STATX_FORCE_SYNC, libc::AT_STATX_DONT_SYNC, libc::AT_STATX_SYNC_TYPE] {
        let mut about: libc::stat = unsafe { zeroed() };
        let answer = unsafe {
            let at = i64::from(libc::AT_FDCWD);
            libc::syscall(libc::SYS_newfstatat, at, path.as_ptr(), &mut about, flags)
        };
        assert_eq!((check(answer), about.st_size), (Ok(0), 4), "{flags:#x}");
    }
}

#[test]
fn mount_reads_its_texts_before_it_looks_for_the_place() {
    let call = |source: usize, kind: usize, options: usize| {
        let at = c("/no/such/place");
        check(unsafe { libc::syscall(libc::SYS_mount, source, at.as_ptr(), kind, 0, options) })
    };
    let text = c("tmpfs");
    let good = text.as_ptr() as usize;
    assert_eq!(call(KERNEL, good, 0), Err(libc::EFAULT));
    assert_eq!(call(good, KERNEL, 0), Err(libc::EFAULT));
    assert_eq!(call(good, good, KERNEL), Err(libc::EFAULT));
    assert_eq!(call(good, good, 0), Err(libc::ENOENT));
}

/// Receives up to 8 bytes.
fn receive(socket: i32, flags: i32) -> Result<i64, i32> {
    let mut bytes = [0u8; 8];
    let flags = flags | libc::MSG_DONTWAIT;
    check(unsafe { libc::recv(socket, bytes.as_mut_ptr().cast(), 8, flags) } as i64)
}

#[test]
fn local_sockets_receive_no_urgent_bytes_and_know_no_errors() {
    for (kind, urgent) in [
        (libc::SOCK_STREAM, libc::EINVAL),
        (libc::SOCK_DGRAM, libc::EOPNOTSUPP),
        (libc::SOCK_SEQPACKET, libc::EOPNOTSUPP),
    ] {
        let mut pair = [0; 2];
        must(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) });
        assert_eq!(receive(pair[0], libc::MSG_ERRQUEUE), Err(libc::EAGAIN));
        assert_eq!(write(pair[1], b"abc"), Ok(3));
        assert_eq!(receive(pair[0], libc::MSG_OOB), Err(urgent), "{kind}");
        assert_eq!(receive(pair[0], libc::MSG_ERRQUEUE), Ok(3), "{kind}");
        pair.into_iter().for_each(close);
    }
}

#[test]
fn waitid_stores_that_there_is_no_child_where_it_fails() {
    isolated(|| {
        let call = |kind: u32, options: i32, info: *mut libc::siginfo_t| {
            let usage = null_mut::<u8>();
            check(unsafe { libc::syscall(libc::SYS_waitid, kind, 1, info, options, usage) })
        };
        for (kind, options, error) in [
            (libc::P_ALL, libc::WEXITED, libc::ECHILD),
            (libc::P_ALL, 0, libc::EINVAL),
            (99, libc::WEXITED, libc::EINVAL),
        ] {
            let mut words = [0x1111_1111u32; 32];
            assert_eq!(call(kind, options, words.as_mut_ptr().cast()), Err(error));
            assert_eq!(words[..7], [0, 0, 0, 0x1111_1111, 0, 0, 0], "{kind} {options}");
            assert_eq!(call(kind, options, KERNEL as *mut _), Err(libc::EFAULT));
        }
    });
}

#[test]
fn a_write_of_nothing_leaves_the_offset_of_an_appending_description() {
    let scratch = Scratch::new();
    let path = scratch.file("file", b"some bytes");
    let fd = open(&path, libc::O_WRONLY | libc::O_APPEND, 0).expect("it was just made");
    assert_eq!(write(fd, b""), Ok(0));
    assert_eq!(check(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }), Ok(0));
    assert_eq!(write(fd, b"!"), Ok(1));
    assert_eq!(check(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }), Ok(11));
    close(fd);
}

#[test]
fn socketpair_tells_its_descriptors_before_it_looks_at_the_family() {
    isolated(|| {
        let call = |family: i32, kind: i32, protocol: i32, place: *mut i32| {
            check(unsafe { libc::syscall(libc::SYS_socketpair, family, kind, protocol, place) })
        };
        for (family, kind, protocol, error) in [
            (0, libc::SOCK_STREAM, 0, libc::EAFNOSUPPORT),
            (46, libc::SOCK_STREAM, 0, libc::EAFNOSUPPORT),
            (-1, libc::SOCK_STREAM, 0, libc::EAFNOSUPPORT),
            (libc::AF_UNIX, 0, 0, libc::ESOCKTNOSUPPORT),
            (libc::AF_UNIX, 11, 0, libc::EINVAL),
            (0, 11, 0, libc::EINVAL),
            (libc::AF_UNIX, libc::SOCK_STREAM, 6, libc::EPROTONOSUPPORT),
        ] {
            let free = must(unsafe { libc::dup(0) }) as i32;
            close(free);
            let mut told = [-1; 2];
            assert_eq!(call(family, kind, protocol, told.as_mut_ptr()), Err(error));
            assert_eq!(told, [free, free + 1], "{family} {kind} {protocol}");
            assert_eq!(call(family, kind, protocol, null_mut()), Err(libc::EFAULT));
        }
        let mut told = [-1; 2];
        assert_eq!(call(0, 0x101, 0, told.as_mut_ptr()), Err(libc::EINVAL));
        assert_eq!(told, [-1; 2]);
    });
}
