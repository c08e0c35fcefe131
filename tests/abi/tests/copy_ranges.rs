//! copy_file_range: the order of its errors, and the positions that it writes back.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::ptr::{from_mut, null_mut};

/// The place of a position: in memory at an address, or the file's own.
const OWN: usize = 0;
const BAD: usize = 8;

fn copy(
    (input, from): (i32, usize),
    (output, to): (i32, usize),
    length: usize,
    flags: u32,
) -> Result<i64, i32> {
    let number = libc::SYS_copy_file_range;
    check(unsafe { libc::syscall(number, input, from, output, to, length, flags) })
}

struct Files {
    _scratch: Scratch,
    from: i32,
    to: i32,
    write_only: i32,
    appending: i32,
    folder: i32,
    place: i32,
    pipe: (i32, i32),
}

impl Files {
    fn new() -> Files {
        let scratch = Scratch::on_disk();
        let source = scratch.file("from", b"0123456789");
        let target = scratch.file("to", b"");
        let opened = |path: &std::path::Path, flags: i32| open(path, flags, 0).unwrap();
        Files {
            from: opened(&source, libc::O_RDWR),
            to: opened(&target, libc::O_RDWR),
            write_only: opened(&target, libc::O_WRONLY),
            appending: opened(&target, libc::O_RDWR | libc::O_APPEND),
            folder: opened(&scratch.path(""), libc::O_RDONLY),
            place: opened(&source, libc::O_PATH),
            pipe: pipe(),
            _scratch: scratch,
        }
    }
}

#[test]
fn descriptors_come_first_then_positions_then_flags() {
    isolated(|| {
        let files = Files::new();
        let (from, to) = (files.from, files.to);
        for bad in [-1, 999, files.place] {
            assert_eq!(copy((bad, BAD), (to, BAD), 1, 1), Err(libc::EBADF));
            assert_eq!(copy((from, BAD), (bad, BAD), 1, 1), Err(libc::EBADF));
        }
        // Positions are read before the types of the descriptors are checked.
        for input in [from, files.write_only, files.folder, files.pipe.0] {
            assert_eq!(copy((input, BAD), (to, OWN), 1, 1), Err(libc::EFAULT));
            assert_eq!(copy((input, OWN), (to, BAD), 1, 1), Err(libc::EFAULT));
            assert_eq!(copy((input, BAD), (files.folder, OWN), 0, 0), Err(libc::EFAULT));
            assert_eq!(copy((input, OWN), (to, OWN), 1, 1), Err(libc::EINVAL));
            assert_eq!(copy((input, OWN), (files.folder, OWN), 1, 2), Err(libc::EINVAL));
        }
    });
}

#[test]
fn kinds_come_before_modes_and_modes_before_file_systems() {
    isolated(|| {
        let files = Files::new();
        let (from, to) = (files.from, files.to);
        let own = |input: i32, output: i32| copy((input, OWN), (output, OWN), 1, 0);
        assert_eq!(own(files.folder, to), Err(libc::EISDIR));
        assert_eq!(own(from, files.folder), Err(libc::EISDIR));
        assert_eq!(own(files.pipe.0, files.folder), Err(libc::EISDIR));
        assert_eq!(own(files.pipe.0, to), Err(libc::EINVAL));
        assert_eq!(own(files.pipe.1, to), Err(libc::EINVAL), "its mode does not count yet");
        assert_eq!(own(from, files.pipe.1), Err(libc::EINVAL));
        assert_eq!(own(files.write_only, files.pipe.1), Err(libc::EINVAL));
        assert_eq!(own(files.write_only, to), Err(libc::EBADF));
        assert_eq!(own(from, files.appending), Err(libc::EBADF));
        let memory = Scratch::in_memory();
        let other = memory.file("f", b"");
        let read_only = open(&other, libc::O_RDONLY, 0).unwrap();
        assert_eq!(own(from, read_only), Err(libc::EBADF));
        assert_eq!(own(from, open(&other, libc::O_RDWR, 0).unwrap()), Err(libc::EXDEV));
        let status = open("/proc/self/status", libc::O_RDONLY, 0).unwrap();
        assert_eq!(own(status, to), Err(libc::EXDEV));
    });
}

#[test]
fn positions_that_do_not_fit() {
    isolated(|| {
        let files = Files::new();
        let at = |from: i64, to: i64, length: usize| {
            let (mut from, mut to) = (from, to);
            let places = (from_mut(&mut from) as usize, from_mut(&mut to) as usize);
            let result = copy((files.from, places.0), (files.to, places.1), length, 0);
            result.map(|count| (count, from, to))
        };
        const MAX: i64 = i64::MAX;
        for negative in [-1, i64::MIN] {
            assert_eq!(at(negative, 0, 0), Err(libc::EINVAL));
            assert_eq!(at(0, negative, 0), Err(libc::EINVAL));
        }
        assert_eq!(at(-1, 0, 10), Err(libc::EOVERFLOW));
        assert_eq!(at(0, -1, 10), Err(libc::EOVERFLOW));
        assert_eq!(at(-1, 0, 1), Err(libc::EOVERFLOW));
        assert_eq!(at(i64::MIN, 0, 1), Err(libc::EINVAL));
        assert_eq!(at(0, i64::MIN, 1), Err(libc::EINVAL));
        assert_eq!(at(1, 0, usize::MAX), Err(libc::EOVERFLOW));
        assert_eq!(at(0, 1, usize::MAX), Err(libc::EOVERFLOW));
        assert_eq!(at(0, 0, usize::MAX), Ok((10, 10, 10)), "it ends with the file");
        assert_eq!(at(MAX, 0, 1), Ok((0, MAX, 0)), "there is nothing");
        assert_eq!(at(10, 0, 1), Ok((0, 10, 0)));
        assert_eq!(at(0, MAX, 1), Err(libc::EFBIG));
        assert_eq!(at(10, MAX, 1), Err(libc::EFBIG), "although there is nothing");
        assert_eq!(at(9, 3, 5), Ok((1, 10, 4)));
    });
}

#[test]
fn ranges_overlap_by_what_is_there() {
    isolated(|| {
        let files = Files::new();
        let at = |from: i64, to: i64, length: usize| {
            let (mut from, mut to) = (from, to);
            let places = (from_mut(&mut from) as usize, from_mut(&mut to) as usize);
            copy((files.from, places.0), (files.from, places.1), length, 0)
        };
        assert_eq!(at(0, 9, 10), Err(libc::EINVAL));
        assert_eq!(at(4, 0, 5), Err(libc::EINVAL));
        assert_eq!(at(0, 0, 1), Err(libc::EINVAL));
        assert_eq!(at(0, 0, 0), Ok(0));
        assert_eq!(at(3, 3, 0), Ok(0));
        // Cut at the end of the file first.
        assert_eq!(at(8, 0, 100), Ok(2));
        assert_eq!(at(10, 10, 5), Ok(0));
        assert_eq!(at(8, 10, 100), Ok(2));
        assert_eq!(at(0, 12, 100), Ok(12));
    });
}

#[test]
fn nothing_is_written_back_where_nothing_was_copied() {
    isolated(|| {
        let files = Files::new();
        let page = unsafe {
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(null_mut(), 4096, libc::PROT_READ, private, -1, 0)
        };
        assert_ne!(page, libc::MAP_FAILED);
        let zero = page as usize;
        assert_eq!(copy((files.from, zero), (files.to, OWN), 0, 0), Ok(0));
        assert_eq!(copy((files.from, OWN), (files.to, zero), 0, 0), Ok(0));
        assert_eq!(copy((files.from, OWN), (files.to, OWN), 4, 0), Ok(4));
        let position = |fd: i32| must(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) });
        assert_eq!((position(files.from), position(files.to)), (4, 4));
        assert_eq!(copy((files.from, zero), (files.to, OWN), 2, 0), Err(libc::EFAULT));
        assert_eq!(position(files.from), 4);
        // The limit of a file's size cuts the copy, and is an error if nothing is left.
        let limit = libc::rlimit { rlim_cur: 8, rlim_max: 8 };
        must(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) });
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let mut to = 6i64;
        let at = from_mut(&mut to) as usize;
        assert_eq!(copy((files.from, OWN), (files.to, at), 6, 0), Ok(2));
        assert_eq!(copy((files.from, OWN), (files.to, at), 4, 0), Err(libc::EFBIG));
        assert_eq!(copy((files.from, OWN), (files.to, at), 0, 0), Err(libc::EFBIG));
    });
}
