//! Data between files without a program's memory: splice, tee, vmsplice, sendfile, copy_file_range;
//! packets and sizes of pipes; vectored calls with flags.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{jobs::nothing, *};
use std::{os::fd::IntoRawFd, ptr::null_mut};

const PAGE: usize = 4096;

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8).collect()
}

fn splice(
    from: (i32, Option<&mut i64>),
    to: (i32, Option<&mut i64>),
    length: usize,
    flags: u32,
) -> Result<i64, i32> {
    let place = |place: Option<&mut i64>| place.map_or(null_mut(), |place| place as *mut i64);
    check(unsafe { libc::splice(from.0, place(from.1), to.0, place(to.1), length, flags) } as i64)
}

fn tee(from: i32, to: i32, length: usize, flags: u32) -> Result<i64, i32> {
    check(unsafe { libc::tee(from, to, length, flags) } as i64)
}

fn opened(scratch: &Scratch, name: &str, contents: &[u8]) -> i32 {
    open(scratch.file(name, contents), libc::O_RDWR, 0).unwrap()
}

fn drain(fd: i32, length: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < length {
        let piece = read(fd, length - all.len()).unwrap();
        assert!(!piece.is_empty());
        all.extend(piece);
    }
    all
}

#[test]
fn a_file_goes_through_a_pipe_into_another() {
    isolated(|| {
        let scratch = Scratch::new();
        let data = text(5 * PAGE + 123);
        let (from, to) = (opened(&scratch, "from", &data), opened(&scratch, "to", b""));
        let (reader, writer) = pipe();
        let mut done = 0;
        while done < data.len() as i64 {
            let count = splice((from, None), (writer, None), 1 << 20, libc::SPLICE_F_MOVE).unwrap();
            let mut left = count;
            while left > 0 {
                left -= splice((reader, None), (to, None), left as usize, 0).unwrap();
            }
            done += count;
        }
        assert_eq!(splice((from, None), (writer, None), 100, 0), Ok(0));
        assert_eq!(std::fs::read(scratch.path("to")).unwrap(), data);
    });
}

#[test]
fn positions_of_a_splice_move_on_and_leave_the_offset() {
    isolated(|| {
        let scratch = Scratch::new();
        let data = text(3 * PAGE);
        let file = opened(&scratch, "file", &data);
        let (reader, writer) = pipe();
        let mut from = 1000;
        assert_eq!(splice((file, Some(&mut from)), (writer, None), 5000, 0), Ok(5000));
        assert_eq!(from, 6000);
        assert_eq!(must(unsafe { libc::lseek(file, 0, libc::SEEK_CUR) }), 0);
        assert_eq!(drain(reader, 5000), &data[1000..6000]);
        write(writer, b"hello").unwrap();
        let mut to = 20_000;
        assert_eq!(splice((reader, None), (file, Some(&mut to)), 100, 0), Ok(5));
        assert_eq!(to, 20_005);
        assert_eq!(stat(scratch.path("file")).unwrap().st_size, 20_005);
        assert_eq!(splice((reader, Some(&mut to)), (file, None), 1, 0), Err(libc::ESPIPE));
        assert_eq!(splice((file, None), (file, None), 1, 0), Err(libc::EINVAL));
    });
}

#[test]
fn bytes_a_full_pipe_cannot_take_stay_in_the_file() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = opened(&scratch, "file", &text(40 * PAGE));
        let (reader, writer) = pipe();
        assert_eq!(splice((file, None), (writer, None), 40 * PAGE, 0), Ok(16 * PAGE as i64));
        let full = splice((file, None), (writer, None), PAGE, libc::SPLICE_F_NONBLOCK);
        assert_eq!(full, Err(libc::EAGAIN));
        read(reader, PAGE).unwrap();
        assert_eq!(splice((file, None), (writer, None), 40 * PAGE, 0), Ok(PAGE as i64));
        assert_eq!(must(unsafe { libc::lseek(file, 0, libc::SEEK_CUR) }), 17 * PAGE as i64);
    });
}

#[test]
fn pipes_pass_bytes_to_pipes() {
    isolated(|| {
        let ((one, into), (two, other)) = (pipe(), pipe());
        write(into, b"hello world").unwrap();
        assert_eq!(splice((one, None), (other, None), 5, 0), Ok(5));
        assert_eq!(read(two, 100).unwrap(), b"hello");
        assert_eq!(splice((one, None), (other, None), 100, 0), Ok(6));
        assert_eq!(read(two, 100).unwrap(), b" world");
        let empty = splice((one, None), (other, None), 1, libc::SPLICE_F_NONBLOCK);
        assert_eq!(empty, Err(libc::EAGAIN));
        assert_eq!(splice((one, None), (into, None), 1, 0), Err(libc::EINVAL));
        close(into);
        assert_eq!(splice((one, None), (other, None), 1, 0), Ok(0));
    });
}

#[test]
fn tee_copies_and_leaves_the_bytes() {
    isolated(|| {
        let ((one, into), (two, other)) = (pipe(), pipe());
        let data = text(2 * PAGE + 10);
        write(into, &data).unwrap();
        assert_eq!(tee(one, other, 1 << 20, 0), Ok(data.len() as i64));
        assert_eq!(drain(two, data.len()), data);
        assert_eq!(tee(one, other, 6, 0), Ok(6));
        write(other, b"!").unwrap();
        assert_eq!(drain(two, 7), [&data[..6], b"!"].concat());
        assert_eq!(drain(one, data.len()), data);
        assert_eq!(tee(one, into, 1, 0), Err(libc::EINVAL));
        assert_eq!(tee(one, 0, 0, 1 << 9), Err(libc::EINVAL));
    });
}

#[test]
fn splice_waits_for_bytes_and_for_room() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = opened(&scratch, "file", b"");
        let (reader, writer) = pipe();
        let child = fork(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            write(writer, b"late").unwrap();
        });
        assert_eq!(splice((reader, None), (file, None), 100, 0), Ok(4));
        assert_eq!(wait(child), Ended::Exited(0));
        let child = fork(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            drain(reader, 16 * PAGE);
        });
        write(writer, &text(16 * PAGE)).unwrap();
        let source = opened(&scratch, "source", b"abc");
        assert_eq!(splice((source, None), (writer, None), 3, 0), Ok(3));
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(read(reader, 10).unwrap(), b"abc");
    });
}

#[test]
fn splice_says_who_has_gone() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = opened(&scratch, "file", b"abc");
        let (reader, writer) = pipe();
        close(reader);
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        assert_eq!(splice((file, None), (writer, None), 3, 0), Err(libc::EPIPE));
        let (reader, _) = pipe();
        assert_eq!(splice((writer, None), (file, None), 3, 0), Err(libc::EBADF));
        assert_eq!(splice((reader, None), (file, None), 0, 0), Ok(0));
        assert_eq!(splice((reader, None), (file, None), 1, 1 << 7), Err(libc::EINVAL));
        let append = open(scratch.path("file"), libc::O_WRONLY | libc::O_APPEND, 0).unwrap();
        assert_eq!(splice((reader, None), (append, None), 1, 0), Err(libc::EINVAL));
    });
}

#[test]
fn programs_can_put_their_memory_into_pipes() {
    isolated(|| {
        let (reader, writer) = pipe();
        let buffers = [b"hello ".as_slice(), b"world"].map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        });
        assert_eq!(must(unsafe { libc::vmsplice(writer, buffers.as_ptr(), 2, 0) } as i64), 11);
        let mut out = [0u8; 8];
        let into = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: 8 };
        assert_eq!(must(unsafe { libc::vmsplice(reader, &into, 1, 0) } as i64), 8);
        assert_eq!(&out, b"hello wo");
        let scratch = Scratch::new();
        let file = opened(&scratch, "file", b"");
        assert_eq!(check(unsafe { libc::vmsplice(file, &into, 1, 0) } as i64), Err(libc::EBADF));
    });
}

#[test]
fn sendfile_feeds_pipes_and_files() {
    isolated(|| {
        let scratch = Scratch::new();
        let data = text(3 * PAGE + 77);
        let (from, to) = (opened(&scratch, "from", &data), opened(&scratch, "to", b""));
        let (reader, writer) = pipe();
        let send = |out, offset: *mut i64, count| {
            check(unsafe { libc::sendfile(out, from, offset, count) } as i64)
        };
        let mut offset = 50;
        assert_eq!(send(writer, &mut offset, 5000), Ok(5000));
        assert_eq!(offset, 5050);
        assert_eq!(drain(reader, 5000), &data[50..5050]);
        assert_eq!(send(to, null_mut(), 1 << 20), Ok(data.len() as i64));
        assert_eq!(send(to, null_mut(), 10), Ok(0));
        assert_eq!(std::fs::read(scratch.path("to")).unwrap(), data);
        assert_eq!(
            check(unsafe { libc::sendfile(to, reader, null_mut(), 1) } as i64),
            Err(libc::EINVAL)
        );
    });
}

#[test]
fn what_takes_no_plain_bytes_is_spliced_none() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = opened(&scratch, "file", &text(PAGE));
        let counter = must(unsafe { libc::eventfd(0, 0) } as i64) as i32;
        let full = open("/dev/full", libc::O_RDWR, 0).unwrap();
        let (reader, writer) = pipe();
        write(writer, b"12345678").unwrap();
        for target in [counter, full] {
            let sent = check(unsafe { libc::sendfile(target, file, null_mut(), 8) } as i64);
            assert_eq!(sent, Err(libc::EINVAL));
            assert_eq!(splice((reader, None), (target, None), 8, 0), Err(libc::EINVAL));
        }
        assert_eq!(read(reader, 10).unwrap(), b"12345678");
    });
}

/// The greatest number of bytes that one call moves.
const MOST: usize = 0x7fff_f000;

/// Makes a call that would move [`MOST`] bytes while a timer's signals come again and again until it
/// returns.
fn cut_short(call: impl FnOnce() -> i64) {
    handle(libc::SIGALRM, nothing, libc::SA_RESTART);
    let period = libc::timeval { tv_sec: 0, tv_usec: 1_000 };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    must(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, null_mut()) });
    let moved = must(call());
    assert!(moved > 0 && moved < MOST as i64, "{moved} bytes beside signals");
}

#[test]
fn a_signal_ends_a_long_copy_with_what_was_copied() {
    isolated(|| {
        let scratch = Scratch::new();
        let sparse = opened(&scratch, "sparse", b"");
        must(unsafe { libc::ftruncate(sparse, 1 << 33) });
        let null = open("/dev/null", libc::O_WRONLY, 0).unwrap();
        cut_short(|| unsafe { libc::sendfile(null, sparse, null_mut(), MOST) } as i64);
    });
}

#[test]
fn a_signal_ends_a_long_read_of_a_device_with_what_was_read() {
    const BUFFER: usize = 2 << 20;
    for device in ["/dev/zero", "/dev/urandom"] {
        isolated(|| {
            let fd = open(device, libc::O_RDONLY, 0).unwrap();
            let mut buffer = vec![0u8; BUFFER];
            let into = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: BUFFER };
            let all = [into; 1024];
            cut_short(|| unsafe { libc::readv(fd, all.as_ptr(), 1024) } as i64);
        });
    }
}

#[test]
fn a_path_descriptor_is_found_before_the_place_of_a_splice() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = open(scratch.file("file", b"data"), libc::O_PATH, 0).unwrap();
        let (reader, writer) = pipe();
        let absent = std::ptr::dangling_mut();
        for place in [null_mut(), absent] {
            let from_path = unsafe { libc::splice(path, place, writer, absent, 8, 0) };
            assert_eq!(check(from_path as i64), Err(libc::EBADF));
            let to_path = unsafe { libc::splice(reader, absent, path, place, 8, 0) };
            assert_eq!(check(to_path as i64), Err(libc::EBADF));
        }
    });
}

#[test]
fn the_end_of_a_file_is_sent_to_what_takes_nothing() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = opened(&scratch, "file", b"data");
        let event = check(i64::from(unsafe { libc::eventfd(0, 0) })).unwrap() as i32;
        let send =
            |mut offset: i64| check(unsafe { libc::sendfile(event, file, &mut offset, 8) } as i64);
        assert_eq!(send(0), Err(libc::EINVAL));
        assert_eq!(send(4), Ok(0));
        assert_eq!(send(4096), Ok(0));
    });
}

#[test]
fn ranges_are_copied_between_and_within_files() {
    isolated(|| {
        let scratch = Scratch::new();
        let data = text(4 * PAGE);
        let (from, to) = (opened(&scratch, "from", &data), opened(&scratch, "to", b"head"));
        let copy = |from_at: *mut i64, out, to_at: *mut i64, length, flags| {
            check(unsafe { libc::copy_file_range(from, from_at, out, to_at, length, flags) } as i64)
        };
        let (mut one, mut two) = (100, 4);
        assert_eq!(copy(&mut one, to, &mut two, 2 * PAGE, 0), Ok(2 * PAGE as i64));
        assert_eq!((one, two), (100 + 2 * PAGE as i64, 4 + 2 * PAGE as i64));
        let copied = std::fs::read(scratch.path("to")).unwrap();
        assert_eq!(&copied[..4], b"head");
        assert_eq!(&copied[4..], &data[100..100 + 2 * PAGE]);
        let (mut one, mut two) = (0, 2 * PAGE as i64);
        assert_eq!(copy(&mut one, from, &mut two, PAGE, 0), Ok(PAGE as i64));
        let (mut one, mut two) = (0, 10);
        assert_eq!(copy(&mut one, from, &mut two, PAGE, 0), Err(libc::EINVAL));
        assert_eq!(copy(null_mut(), to, null_mut(), 1, 1), Err(libc::EINVAL));
        assert_eq!(copy(null_mut(), pipe().1, null_mut(), 1, 0), Err(libc::EINVAL));
    });
}

#[test]
fn writes_to_a_packet_pipe_are_read_one_by_one() {
    isolated(|| {
        let mut ends = [0; 2];
        must(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_DIRECT) });
        let [reader, writer] = ends;
        write(writer, b"first").unwrap();
        write(writer, b"second").unwrap();
        assert_eq!(read(reader, 100).unwrap(), b"first");
        assert_eq!(read(reader, 3).unwrap(), b"sec");
        write(writer, b"x").unwrap();
        assert_eq!(read(reader, 100).unwrap(), b"x");
        let (two, other) = pipe();
        write(writer, b"one").unwrap();
        write(writer, b"two").unwrap();
        assert_eq!(splice((reader, None), (other, None), 100, 0), Ok(6));
        assert_eq!(read(two, 100).unwrap(), b"one");
    });
}

#[test]
fn vectored_calls_take_positions_and_flags() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = opened(&scratch, "file", b"0123456789");
        let (mut one, mut two) = ([0u8; 3], [0u8; 4]);
        let into = [
            libc::iovec { iov_base: one.as_mut_ptr().cast(), iov_len: 3 },
            libc::iovec { iov_base: two.as_mut_ptr().cast(), iov_len: 4 },
        ];
        assert_eq!(must(unsafe { libc::preadv2(file, into.as_ptr(), 2, 2, 0) } as i64), 7);
        assert_eq!((&one, &two), (b"234", b"5678"));
        assert_eq!(must(unsafe { libc::lseek(file, 0, libc::SEEK_CUR) }), 0);
        assert_eq!(must(unsafe { libc::preadv2(file, into.as_ptr(), 1, -1, 0) } as i64), 3);
        assert_eq!(must(unsafe { libc::lseek(file, 0, libc::SEEK_CUR) }), 3);
        let write_at = |offset, flags| {
            check(unsafe { libc::pwritev2(file, into.as_ptr(), 1, offset, flags) } as i64)
        };
        assert_eq!(write_at(0, libc::RWF_APPEND), Ok(3));
        assert_eq!(stat(scratch.path("file")).unwrap().st_size, 13);
        assert_eq!(write_at(0, libc::RWF_DSYNC | libc::RWF_SYNC), Ok(3));
        assert_eq!(write_at(0, 1 << 30), Err(libc::EOPNOTSUPP));
        assert_eq!(write_at(-2, 0), Err(libc::EINVAL));
        let (reader, _writer) = pipe();
        assert_eq!(
            check(unsafe { libc::preadv2(reader, into.as_ptr(), 1, -1, libc::RWF_NOWAIT) } as i64),
            Err(libc::EAGAIN)
        );
        assert_eq!(
            check(unsafe { libc::preadv2(reader, into.as_ptr(), 1, 0, 0) } as i64),
            Err(libc::ESPIPE)
        );
        assert_eq!(
            check(unsafe { libc::readv(file, into.as_ptr(), 1025) } as i64),
            Err(libc::EINVAL)
        );
        assert_eq!(check(unsafe { libc::readv(file, into.as_ptr(), 0) } as i64), Ok(0));
    });
}

#[test]
fn writes_of_other_calls_keep_the_file_size_limit() {
    isolated(|| {
        let scratch = Scratch::new();
        let (from, to) = (opened(&scratch, "from", &text(3 * PAGE)), opened(&scratch, "to", b""));
        let limit = libc::rlimit { rlim_cur: 5000, rlim_max: libc::RLIM_INFINITY };
        must(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) });
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let send = || check(unsafe { libc::sendfile(to, from, null_mut(), 3 * PAGE) } as i64);
        assert_eq!(send(), Ok(5000));
        assert_eq!(send(), Err(libc::EFBIG));
        let (reader, writer) = pipe();
        write(writer, b"abc").unwrap();
        assert_eq!(splice((reader, None), (to, None), 3, 0), Err(libc::EFBIG));
        assert_eq!(read(reader, 10).unwrap(), b"abc");
    });
}

#[test]
fn what_was_spliced_is_there_although_the_file_is_closed() {
    isolated(|| {
        let scratch = Scratch::new();
        let (reader, writer) = pipe();
        let file = std::fs::File::open(scratch.file("file", b"still here")).unwrap().into_raw_fd();
        assert_eq!(splice((file, None), (writer, None), 100, 0), Ok(10));
        close(file);
        std::fs::remove_file(scratch.path("file")).unwrap();
        write(writer, b"!").unwrap();
        assert_eq!(drain(reader, 11), b"still here!");
    });
}
