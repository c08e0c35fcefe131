//! Positions and sizes that are too large, of all calls that take them, with the signal of RLIMIT_FSIZE; the ends of files
//! without bytes of their own; getdents(2) with buffers of any size; O_DIRECT.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{fs, ptr::null_mut};

const LAST: i64 = i64::MAX;
const ALL: usize = usize::MAX;

fn pread(fd: i32, count: usize, at: i64) -> Result<i64, i32> {
    let mut buffer = [0u8; 64];
    check(unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), count, at) } as i64)
}

fn pwrite(fd: i32, count: usize, at: i64) -> Result<i64, i32> {
    let buffer = [b'x'; 64];
    check(unsafe { libc::pwrite(fd, buffer.as_ptr().cast(), count, at) } as i64)
}

fn preadv(fd: i32, count: usize, at: i64) -> Result<i64, i32> {
    let mut buffer = [0u8; 64];
    let part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: count };
    check(unsafe { libc::preadv(fd, &part, 1, at) } as i64)
}

fn pwritev(fd: i32, count: usize, at: i64) -> Result<i64, i32> {
    let mut buffer = [b'x'; 64];
    let part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: count };
    check(unsafe { libc::pwritev(fd, &part, 1, at) } as i64)
}

fn seek(fd: i32, by: i64, whence: i32) -> Result<i64, i32> {
    check(unsafe { libc::lseek(fd, by, whence) })
}

fn created(scratch: &Scratch, name: &str) -> i32 {
    open(scratch.file(name, b"hello"), libc::O_RDWR, 0).unwrap()
}

/// Returns the largest size of a file of ext4, whose block numbers have 32 bits.
fn largest(fd: i32) -> i64 {
    let mut answer: libc::statfs = unsafe { zeroed() };
    must(unsafe { libc::fstatfs(fd, &mut answer) });
    i64::from(u32::MAX) * answer.f_bsize as i64
}

#[test]
fn a_range_that_passes_the_last_position_is_refused() {
    isolated(|| {
        for scratch in [Scratch::in_memory(), Scratch::on_disk()] {
            let file = created(&scratch, "file");
            for read in [pread, preadv] {
                assert_eq!(read(file, 1, LAST - 1), Ok(0));
                assert_eq!(read(file, 0, LAST), Ok(0));
                assert_eq!(read(file, 1, LAST), Err(libc::EINVAL));
                assert_eq!(read(file, 2, LAST - 1), Err(libc::EINVAL));
                assert_eq!(read(file, 1, -1), Err(libc::EINVAL));
                assert_eq!(read(file, 1, i64::MIN), Err(libc::EINVAL));
            }
            for write in [pwrite, pwritev] {
                assert_eq!(write(file, 0, LAST), Ok(0));
                assert_eq!(write(file, 1, LAST), Err(libc::EINVAL));
                assert_eq!(write(file, 2, LAST - 1), Err(libc::EINVAL));
                assert_eq!(write(file, 1, -1), Err(libc::EINVAL));
            }
            assert_eq!(stat(scratch.path("file")).unwrap().st_size, 5);
        }
    });
}

#[test]
fn the_largest_position_of_a_file_system_bounds_offsets_and_writes() {
    isolated(|| {
        let memory = Scratch::in_memory();
        let file = created(&memory, "file");
        assert_eq!(seek(file, LAST, libc::SEEK_SET), Ok(LAST));
        assert_eq!(read(file, 1), Err(libc::EINVAL));
        assert_eq!(read(file, 0), Ok(vec![]));
        assert_eq!(write(file, b"x"), Err(libc::EINVAL));
        assert_eq!(write(file, b""), Ok(0));
        assert_eq!(seek(file, 1, libc::SEEK_CUR), Err(libc::EINVAL));
        assert_eq!(pwrite(file, 1, LAST - 1), Ok(1));
        assert_eq!(stat(memory.path("file")).unwrap().st_size, LAST);
        assert_eq!(seek(file, 0, libc::SEEK_END), Ok(LAST));
        assert_eq!(seek(file, 1, libc::SEEK_END), Err(libc::EINVAL));
        let disk = Scratch::on_disk();
        let file = created(&disk, "file");
        assert_eq!(seek(file, LAST, libc::SEEK_SET), Err(libc::EINVAL));
        assert_eq!(seek(file, 0, libc::SEEK_CUR), Ok(0));
        assert_eq!(pwrite(file, 1, LAST - 1), Err(libc::EFBIG));
        assert_eq!(pwrite(file, 1, 1 << 50), Err(libc::EFBIG));
        let most = largest(file);
        assert_eq!(seek(file, most, libc::SEEK_SET), Ok(most));
        assert_eq!(seek(file, most + 1, libc::SEEK_SET), Err(libc::EINVAL));
        assert_eq!(pwrite(file, 1, most), Err(libc::EFBIG));
        assert_eq!(pwrite(file, 2, most - 1), Ok(1));
        assert_eq!(check(unsafe { libc::ftruncate(file, most + 1) }), Err(libc::EFBIG));
        assert_eq!(check(unsafe { libc::ftruncate(file, most) }), Ok(0));
        assert_eq!(check(unsafe { libc::ftruncate(file, 0) }), Ok(0));
    });
}

#[test]
fn a_length_that_no_memory_has_is_a_bad_address() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = created(&scratch, "file");
        let (reader, writer) = pipe();
        write(writer, b"hello").unwrap();
        for count in [ALL, 1 << 63, LAST as usize] {
            let mut byte = 0u8;
            let to = (&raw mut byte).cast();
            for fd in [file, reader] {
                assert_eq!(check(unsafe { libc::read(fd, to, count) } as i64), Err(libc::EFAULT));
            }
            for fd in [file, writer] {
                let written = check(unsafe { libc::write(fd, to, count) } as i64);
                assert_eq!(written, Err(libc::EFAULT), "{count:#x}");
            }
            assert_eq!(pread(file, count, 0), Err(libc::EFAULT));
            assert_eq!(pread(file, count, 1), Err(libc::EFAULT));
            assert_eq!(pwrite(file, count, 1), Err(libc::EFAULT));
        }
        // A negative length of a vector is refused as such.
        assert_eq!(preadv(file, ALL, 0), Err(libc::EINVAL));
        assert_eq!(pwritev(file, ALL, 0), Err(libc::EINVAL));
        assert_eq!(read(reader, 10).unwrap(), b"hello");
    });
}

fn sendfile(to: i32, from: i32, at: Option<&mut i64>, count: usize) -> Result<i64, i32> {
    let at = at.map_or(null_mut(), |at| at as *mut i64);
    check(unsafe { libc::sendfile(to, from, at, count) } as i64)
}

fn splice(from: (i32, Option<i64>), to: (i32, Option<i64>), count: usize) -> Result<i64, i32> {
    let (mut from, mut to) = (from, to);
    let place =
        |place: &mut Option<i64>| place.as_mut().map_or(null_mut(), |place| place as *mut i64);
    let (from_at, to_at) = (place(&mut from.1), place(&mut to.1));
    check(unsafe { libc::splice(from.0, from_at, to.0, to_at, count, 0) } as i64)
}

#[test]
fn sendfile_refuses_ranges_beyond_the_last_position() {
    isolated(|| {
        for scratch in [Scratch::in_memory(), Scratch::on_disk()] {
            let (from, to) = (created(&scratch, "from"), created(&scratch, "to"));
            let (reader, writer) = pipe();
            for out in [to, writer] {
                assert_eq!(sendfile(out, from, None, ALL), Err(libc::EINVAL));
                assert_eq!(sendfile(out, from, Some(&mut 0), 1 << 63), Err(libc::EINVAL));
                assert_eq!(sendfile(out, from, Some(&mut -1), 1), Err(libc::EINVAL));
                assert_eq!(sendfile(out, from, Some(&mut { LAST }), 1), Err(libc::EINVAL));
                assert_eq!(sendfile(out, from, Some(&mut 100), 1), Ok(0));
            }
            let mut at = 1;
            assert_eq!(sendfile(writer, from, Some(&mut at), LAST as usize - 1), Ok(4));
            assert_eq!((read(reader, 10).unwrap().as_slice(), at), (&b"ello"[..], 5));
            assert_eq!(sendfile(to, from, None, LAST as usize), Ok(5));
            assert_eq!(sendfile(reader, from, None, ALL), Err(libc::EINVAL));
            assert_eq!(sendfile(reader, from, None, 1), Err(libc::EBADF));
            assert_eq!(sendfile(to, writer, None, ALL), Err(libc::EBADF));
        }
    });
}

#[test]
fn sendfile_stops_at_the_largest_position_of_either_file_system() {
    isolated(|| {
        let (memory, disk) = (Scratch::in_memory(), Scratch::on_disk());
        let (large, small) = (created(&memory, "large"), created(&disk, "small"));
        let most = largest(small);
        must(unsafe { libc::ftruncate(large, most + 10) });
        assert_eq!(sendfile(small, large, Some(&mut { most }), 1), Err(libc::EOVERFLOW));
        assert_eq!(sendfile(small, large, Some(&mut { most - 3 }), 10), Ok(3));
        let (_reader, writer) = pipe();
        assert_eq!(sendfile(writer, large, Some(&mut { most }), 20), Ok(10));
        // The limit applies to the output's own position when it is written.
        must(unsafe { libc::lseek(small, most, libc::SEEK_SET) });
        assert_eq!(sendfile(small, large, Some(&mut 0), 1), Err(libc::EFBIG));
        must(unsafe { libc::lseek(large, LAST, libc::SEEK_SET) });
        assert_eq!(sendfile(large, small, Some(&mut 0), 1), Err(libc::EINVAL));
    });
}

#[test]
fn splice_refuses_ranges_beyond_the_last_position() {
    isolated(|| {
        for scratch in [Scratch::in_memory(), Scratch::on_disk()] {
            let file = created(&scratch, "file");
            let (reader, writer) = pipe();
            write(writer, b"abc").unwrap();
            assert_eq!(splice((reader, None), (file, None), ALL), Err(libc::EINVAL));
            assert_eq!(splice((reader, None), (file, Some(0)), 1 << 63), Err(libc::EINVAL));
            assert_eq!(splice((reader, None), (file, Some(-1)), 1), Err(libc::EINVAL));
            assert_eq!(splice((reader, None), (file, Some(LAST)), 1), Err(libc::EINVAL));
            assert_eq!(splice((reader, None), (file, Some(1)), LAST as usize - 1), Ok(3));
            assert_eq!(fs::read(scratch.path("file")).unwrap(), b"habco");
            assert_eq!(splice((file, Some(-1)), (writer, None), 1), Err(libc::EINVAL));
            assert_eq!(splice((file, Some(i64::MIN)), (writer, None), 1), Err(libc::EINVAL));
            assert_eq!(splice((file, Some(LAST)), (writer, None), 1), Err(libc::EINVAL));
            assert_eq!(splice((file, Some(LAST - 1)), (writer, None), 1), Ok(0));
            // Before Linux 6.8 the room in the pipe limited the count first.
            let whole = splice((file, Some(0)), (writer, None), ALL);
            assert!(matches!(whole, Ok(5) | Err(libc::EINVAL)), "{whole:?}");
            // A position is ignored between pipes.
            let (_other, into) = pipe();
            write(writer, b"abc").unwrap();
            assert!(splice((reader, None), (into, None), ALL).unwrap() >= 3);
        }
    });
}

#[test]
fn the_size_limit_sends_a_signal_of_the_process_itself() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = created(&scratch, "file");
        let limit = libc::rlimit { rlim_cur: 8, rlim_max: libc::RLIM_INFINITY };
        must(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) });
        let mut set: libc::sigset_t = unsafe { zeroed() };
        unsafe {
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGXFSZ);
            libc::sigaddset(&mut set, libc::SIGPIPE);
            libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut());
        }
        let taken = |signal: i32| {
            let mut info: libc::siginfo_t = unsafe { zeroed() };
            let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let got = check(unsafe { libc::sigtimedwait(&set, &mut info, &none) });
            assert_eq!(got, Ok(i64::from(signal)));
            let sender = unsafe { (info.si_pid(), info.si_uid()) };
            assert_eq!(sender, unsafe { (libc::getpid(), libc::getuid()) });
            assert_eq!(info.si_code, libc::SI_USER);
        };
        assert_eq!(pwrite(file, 10, 4), Ok(4));
        assert_eq!(pwrite(file, 1, 8), Err(libc::EFBIG));
        taken(libc::SIGXFSZ);
        assert_eq!(check(unsafe { libc::ftruncate(file, 9) }), Err(libc::EFBIG));
        taken(libc::SIGXFSZ);
        assert_eq!(check(unsafe { libc::posix_fallocate(file, 8, 1) }), Ok(libc::EFBIG as i64));
        taken(libc::SIGXFSZ);
        let (reader, writer) = pipe();
        write(writer, b"abc").unwrap();
        assert_eq!(splice((reader, None), (file, Some(8)), 3), Err(libc::EFBIG));
        taken(libc::SIGXFSZ);
        let source = open("/proc/self/exe", libc::O_RDONLY, 0).unwrap();
        assert_eq!(seek(file, 8, libc::SEEK_SET), Ok(8));
        assert_eq!(sendfile(file, source, None, 1), Err(libc::EFBIG));
        taken(libc::SIGXFSZ);
        assert_eq!(splice((reader, None), (file, Some(6)), 3), Ok(2));
        assert_eq!(read(reader, 10).unwrap(), b"c");
        // The signal information of a pipe without readers is made in the same way.
        close(reader);
        assert_eq!(write(writer, b"x"), Err(libc::EPIPE));
        taken(libc::SIGPIPE);
        let mut pair = [0; 2];
        must(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) });
        close(pair[1]);
        assert_eq!(write(pair[0], b"x"), Err(libc::EPIPE));
        taken(libc::SIGPIPE);
    });
}

/// Returns the bytes that getdents64(2) stores for `count`, which may be larger than the buffer.
fn entries(fd: i32, buffer: &mut [u8], count: u64) -> Result<usize, i32> {
    let to = buffer.as_mut_ptr();
    check(unsafe { libc::syscall(libc::SYS_getdents64, fd, to, count) })
        .map(|filled| filled as usize)
}

#[test]
fn entries_fill_buffers_of_any_size() {
    isolated(|| {
        for scratch in [Scratch::in_memory(), Scratch::on_disk()] {
            for number in 0..3000 {
                scratch.file(&format!("a-name-that-takes-some-room-{number}"), b"");
            }
            let whole = open(scratch.path(""), libc::O_RDONLY, 0).unwrap();
            let mut buffer = vec![0u8; 1 << 20];
            for count in [0, 1, 23] {
                assert_eq!(entries(whole, &mut buffer, count), Err(libc::EINVAL));
            }
            assert_eq!(entries(whole, &mut buffer, 24), Ok(24));
            assert_eq!(entries(whole, &mut buffer, 24 + 1), Ok(24));
            assert_eq!(entries(whole, &mut buffer, 30), Err(libc::EINVAL), "a long name");
            // Linux takes the size as an int, so a value that does not fit is negative.
            for count in [1 << 31, u32::MAX as u64] {
                assert_eq!(entries(whole, &mut buffer, count), Err(libc::EINVAL));
            }
            // Only 32 bits of the argument count.
            assert_eq!(entries(whole, &mut buffer, 1 << 32), Err(libc::EINVAL));
            let mut total = 0;
            loop {
                let filled = entries(whole, &mut buffer, 1 << 20).unwrap();
                if filled == 0 {
                    break;
                }
                assert!(total > 0 || filled > 100_000, "{filled} bytes of a megabyte");
                total += filled;
            }
            assert_eq!(total, 3000 * 56);
            for count in [0, 1, u32::MAX as u64] {
                assert_eq!(entries(whole, &mut buffer, count), Ok(0), "at the end");
            }
        }
    });
}

#[test]
fn entries_before_a_bad_address_are_taken_and_no_others() {
    isolated(|| {
        for scratch in [Scratch::in_memory(), Scratch::on_disk()] {
            for number in 0..500 {
                scratch.file(&format!("a-name-that-takes-some-room-{number}"), b"");
            }
            let folder = open(scratch.path(""), libc::O_RDONLY, 0).unwrap();
            let at = unsafe {
                let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
                libc::mmap(null_mut(), 8192, prot, flags | libc::MAP_ANONYMOUS, -1, 0)
            };
            must(unsafe { libc::munmap(at.add(4096), 4096) });
            let room = |bytes: usize| unsafe {
                std::slice::from_raw_parts_mut(at.cast::<u8>().add(4096 - bytes), bytes)
            };
            assert_eq!(entries(folder, room(8), 8192), Err(libc::EFAULT));
            assert_eq!(entries(folder, room(40), 8192), Ok(24), "one entry has room");
            let mut total = 24 + entries(folder, room(100), 8192).unwrap();
            assert!((48..=124).contains(&total));
            assert_eq!(entries(folder, room(30), 8192), Err(libc::EFAULT));
            let mut all = vec![0u8; 1 << 16];
            total += entries(folder, &mut all, 1 << 16).unwrap();
            assert_eq!(total, 24 + 24 + 500 * 56);
        }
    });
}

/// Returns the answers of lseek(2) for offset 0 from the end, to data and to a hole.
fn ends(path: impl AsRef<std::path::Path>) -> [Result<i64, i32>; 3] {
    let file = open(path, libc::O_RDONLY, 0).unwrap();
    [libc::SEEK_END, libc::SEEK_DATA, libc::SEEK_HOLE].map(|whence| seek(file, 0, whence))
}

/// Returns whether lseek(2) may go to a position.
fn leads(path: &str, to: i64) -> bool {
    let file = open(path, libc::O_RDONLY, 0).unwrap();
    seek(file, to, libc::SEEK_SET) == Ok(to)
}

#[test]
fn contents_that_are_made_in_one_sequence_have_no_end() {
    isolated(|| {
        for path in [
            "/proc/meminfo",
            "/proc/stat",
            "/proc/mounts",
            "/proc/cmdline",
            "/proc/self/status",
            "/proc/self/stat",
            "/proc/self/comm",
            "/proc/self/maps",
            "/proc/self/smaps",
            "/proc/self/limits",
            "/proc/self/fdinfo/0",
            "/proc/self/oom_score",
            "/proc/self/mem",
            "/proc/self/pagemap",
            "/dev/pts",
        ] {
            assert_eq!(ends(path), [Err(libc::EINVAL); 3], "{path}");
            assert!(leads(path, LAST), "{path}");
        }
        // Positions in a memory file are addresses.
        let memory = open("/proc/self/mem", libc::O_RDONLY, 0).unwrap();
        assert_eq!(seek(memory, i64::MIN, libc::SEEK_SET), Ok(i64::MIN));
        assert_eq!(pread(memory, 1, i64::MIN), Err(libc::EINVAL));
        assert_eq!(read(memory, 1), Err(libc::EIO));
        assert_eq!(seek(memory, -3, libc::SEEK_SET), Err(3), "taken for an error");
        assert_eq!(read(memory, 3), Err(libc::EOVERFLOW));
        assert_eq!(seek(memory, 0, libc::SEEK_CUR), Err(3));
    });
}

#[test]
fn generated_files_of_one_piece_and_directories_have_an_end() {
    isolated(|| {
        let empty = [Ok(0), Err(libc::ENXIO), Err(libc::ENXIO)];
        for path in [
            "/proc/self/cmdline",
            "/proc/self/auxv",
            "/proc/self/environ",
            "/proc",
            "/proc/sys",
            "/proc/sys/kernel",
            "/proc/self",
            "/proc/self/task",
            "/proc/self/fd",
            "/sys",
            "/sys/block",
        ] {
            assert_eq!(ends(path), empty, "{path}");
            assert!(leads(path, i32::MAX as i64) && !leads(path, 1 << 31), "{path}");
        }
        for path in ["/proc/self/oom_score_adj", "/proc/sys/kernel/hostname"] {
            assert_eq!(ends(path), empty, "{path}");
            assert!(leads(path, LAST), "{path}");
        }
        let online = "/sys/devices/system/cpu/online";
        assert_eq!(ends(online), [Ok(4096), Ok(0), Ok(4096)]);
        assert!(leads(online, i32::MAX as i64) && !leads(online, 1 << 31));
        let file = open("/proc/self/cmdline", libc::O_RDONLY, 0).unwrap();
        assert_eq!(seek(file, 5, libc::SEEK_END), Ok(5));
        assert_eq!(seek(file, -1, libc::SEEK_END), Err(libc::EINVAL));
    });
}

#[test]
fn the_end_of_a_directory_on_disk_is_the_last_position() {
    isolated(|| {
        let (memory, disk) = (Scratch::in_memory(), Scratch::on_disk());
        assert_eq!(ends(memory.path("")), [Err(libc::EINVAL); 3]);
        assert_eq!(ends(disk.path("")), [Ok(LAST), Ok(0), Ok(LAST)]);
        disk.file("file", b"");
        let folder = open(disk.path(""), libc::O_RDONLY, 0).unwrap();
        let mut buffer = [0; 1024];
        assert_eq!(entries(folder, &mut buffer, 1024), Ok(72));
        assert_eq!(seek(folder, 0, libc::SEEK_END), Ok(LAST));
        assert_eq!(entries(folder, &mut buffer, 1024), Ok(0));
        assert_eq!(seek(folder, 0, libc::SEEK_SET), Ok(0));
        assert_eq!(entries(folder, &mut buffer, 1024), Ok(72));
    });
}

#[test]
fn what_has_no_direct_access_refuses_it() {
    isolated(|| {
        let set = |fd: i32| check(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_DIRECT) });
        let (disk, memory) = (Scratch::on_disk(), Scratch::in_memory());
        for path in ["/proc", "/proc/self/status", "/sys", "/dev/null", "/dev", "/dev/ptmx"] {
            assert_eq!(open(path, libc::O_DIRECT, 0), Err(libc::EINVAL), "{path}");
            assert!(open(path, libc::O_DIRECT | libc::O_PATH, 0).is_ok(), "{path}");
            let file = open(path, libc::O_NOCTTY, 0).unwrap();
            assert_eq!(set(file), Err(libc::EINVAL), "{path}");
        }
        for scratch in [&disk, &memory] {
            assert_eq!(open(scratch.path(""), libc::O_DIRECT, 0), Err(libc::EINVAL));
            assert_eq!(open(scratch.path(""), libc::O_DIRECT | libc::O_RDWR, 0), Err(libc::EISDIR));
            must(unsafe { libc::mkfifo(c(scratch.path("fifo")).as_ptr(), 0o600) });
            let both = libc::O_RDWR;
            assert_eq!(open(scratch.path("fifo"), both | libc::O_DIRECT, 0), Err(libc::EINVAL));
            assert_eq!(set(open(scratch.path("fifo"), both, 0).unwrap()), Ok(0));
        }
        let file = created(&disk, "file");
        assert_eq!(set(file), Ok(0));
        assert!(open(disk.path("file"), libc::O_DIRECT, 0).is_ok());
        let (reader, _writer) = pipe();
        assert_eq!(set(reader), Ok(0), "packets");
        assert_eq!(set(unsafe { libc::eventfd(0, 0) }), Err(libc::EINVAL));
        let mut pair = [0; 2];
        must(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) });
        assert_eq!(set(pair[0]), Err(libc::EINVAL));
        // The file that was to be cut is whole.
        assert_eq!(
            open("/dev/null", libc::O_DIRECT | libc::O_TRUNC | libc::O_WRONLY, 0),
            Err(libc::EINVAL)
        );
    });
}
