//! Descriptors: numbers, duplication, flags, pipes, poll and select.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::time::{Duration, Instant};

#[test]
fn the_lowest_free_number_is_taken() {
    isolated(|| {
        let first = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        let second = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        assert_eq!(second, first + 1);
        close(first);
        assert_eq!(open("/dev/null", libc::O_RDONLY, 0), Ok(first));
    });
}

#[test]
fn a_closed_descriptor_is_ebadf() {
    isolated(|| {
        let fd = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        close(fd);
        // SAFETY: the descriptor is closed.
        assert_eq!(check(unsafe { libc::close(fd) }), Err(libc::EBADF));
        assert_eq!(read(fd, 1), Err(libc::EBADF));
        assert_eq!(read(-1, 1), Err(libc::EBADF));
        assert_eq!(read(i32::MAX, 1), Err(libc::EBADF));
    });
}

#[test]
fn duplicates_share_their_position() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", b"abcdef"), libc::O_RDONLY, 0).unwrap();
        // SAFETY: plain numbers.
        let other = must(unsafe { libc::dup(fd) }) as i32;
        assert_eq!(read(fd, 2).unwrap(), b"ab");
        assert_eq!(read(other, 2).unwrap(), b"cd");
    });
}

#[test]
fn dup2_replaces_and_dup3_refuses_itself() {
    isolated(|| {
        let fd = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        // SAFETY: plain numbers.
        unsafe {
            assert_eq!(check(libc::dup2(fd, 100)), Ok(100));
            assert_eq!(check(libc::dup2(fd, fd)), Ok(fd.into()));
            assert_eq!(check(libc::dup3(fd, fd, 0)), Err(libc::EINVAL));
            assert_eq!(check(libc::dup2(99, 98)), Err(libc::EBADF));
            assert_eq!(check(libc::dup2(fd, -1)), Err(libc::EBADF));
        }
    });
}

#[test]
fn fcntl_duplicates_from_a_minimum() {
    isolated(|| {
        let fd = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        // SAFETY: plain numbers.
        unsafe {
            assert_eq!(check(libc::fcntl(fd, libc::F_DUPFD, 50)), Ok(50));
            assert_eq!(check(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 50)), Ok(51));
            assert_eq!(check(libc::fcntl(51, libc::F_GETFD)), Ok(libc::FD_CLOEXEC.into()));
            assert_eq!(check(libc::fcntl(50, libc::F_GETFD)), Ok(0));
        }
    });
}

#[test]
fn status_flags_can_be_read_and_some_changed() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", b""), libc::O_RDWR | libc::O_APPEND, 0).unwrap();
        // SAFETY: plain numbers.
        unsafe {
            let flags = must(libc::fcntl(fd, libc::F_GETFL)) as i32;
            assert_eq!(flags & (libc::O_ACCMODE | libc::O_APPEND), libc::O_RDWR | libc::O_APPEND);
            must(libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK));
            let flags = must(libc::fcntl(fd, libc::F_GETFL)) as i32;
            assert_eq!(
                flags & (libc::O_ACCMODE | libc::O_APPEND | libc::O_NONBLOCK),
                libc::O_RDWR | libc::O_NONBLOCK
            );
        }
    });
}

#[test]
fn the_limit_on_descriptors_holds() {
    isolated(|| {
        let limit = libc::rlimit { rlim_cur: 20, rlim_max: 20 };
        // SAFETY: a whole rlimit.
        must(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) });
        let mut last = Ok(0);
        for _ in 0..30 {
            last = open("/dev/null", libc::O_RDONLY, 0);
        }
        assert_eq!(last, Err(libc::EMFILE));
        // SAFETY: plain numbers.
        assert_eq!(check(unsafe { libc::dup2(0, 20) }), Err(libc::EBADF));
    });
}

#[test]
fn close_range_closes_a_range() {
    isolated(|| {
        let fd = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        for n in 60..70 {
            // SAFETY: plain numbers.
            must(unsafe { libc::dup2(fd, n) });
        }
        // SAFETY: plain numbers.
        must(unsafe { libc::syscall(libc::SYS_close_range, 62, 68, 0) });
        let open: Vec<i32> =
            (60..70).filter(|&n| unsafe { libc::fcntl(n, libc::F_GETFD) } >= 0).collect();
        assert_eq!(open, [60, 61, 69]);
    });
}

#[test]
fn a_pipe_carries_bytes_in_order() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            close(reader);
            for n in 0..2000u32 {
                assert_eq!(write(writer, &[n as u8; 97]), Ok(97));
            }
        });
        close(writer);
        let mut all = Vec::new();
        while let Ok(part) = read(reader, 5000) {
            if part.is_empty() {
                break;
            }
            all.extend(part);
        }
        assert_eq!(all.len(), 2000 * 97);
        assert!(
            all.chunks(97).enumerate().all(|(n, chunk)| chunk.iter().all(|&byte| byte == n as u8))
        );
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn an_empty_pipe_without_writers_is_at_its_end() {
    isolated(|| {
        let (reader, writer) = pipe();
        write(writer, b"last").unwrap();
        close(writer);
        assert_eq!(read(reader, 10), Ok(b"last".to_vec()));
        assert_eq!(read(reader, 10), Ok(vec![]));
    });
}

#[test]
fn writing_to_nobody_is_sigpipe() {
    isolated(|| {
        let (reader, writer) = pipe();
        close(reader);
        assert_eq!(
            wait(fork(|| {
                // SAFETY: the default action.
                unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
                let _ = write(writer, b"x");
            })),
            Ended::Signalled(libc::SIGPIPE)
        );
        // SAFETY: ignores the signal.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        assert_eq!(write(writer, b"x"), Err(libc::EPIPE));
    });
}

#[test]
fn a_full_pipe_says_eagain_and_holds_64_kib() {
    isolated(|| {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        must(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) });
        assert_eq!(read(ends[0], 1), Err(libc::EAGAIN));
        let mut total = 0;
        while let Ok(count) = write(ends[1], &[0; 4096]) {
            total += count;
        }
        assert_eq!(total, 65536);
        assert_eq!(errno(), libc::EAGAIN);
        // SAFETY: plain numbers.
        assert_eq!(check(unsafe { libc::fcntl(ends[0], libc::F_GETPIPE_SZ) }), Ok(65536));
    });
}

#[test]
fn small_writes_to_a_pipe_are_atomic() {
    isolated(|| {
        let (reader, writer) = pipe();
        let children: Vec<_> = (1..=4u8)
            .map(|n| {
                fork(move || (0..200).for_each(|_| assert_eq!(write(writer, &[n; 1000]), Ok(1000))))
            })
            .collect();
        close(writer);
        let mut all = Vec::new();
        while let Ok(part @ [_, ..]) = read(reader, 65536).as_deref() {
            all.extend_from_slice(part);
        }
        assert_eq!(all.len(), 4 * 200 * 1000);
        assert!(all.chunks(1000).all(|chunk| chunk.iter().all(|&byte| byte == chunk[0])));
        children.into_iter().for_each(|child| assert_eq!(wait(child), Ended::Exited(0)));
    });
}

#[test]
fn the_wrong_end_of_a_pipe_is_ebadf() {
    isolated(|| {
        let (reader, writer) = pipe();
        assert_eq!(write(reader, b"x"), Err(libc::EBADF));
        assert_eq!(read(writer, 1), Err(libc::EBADF));
    });
}

#[test]
fn a_fifo_joins_two_processes() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.path("fifo");
        // SAFETY: a NUL-terminated path.
        must(unsafe { libc::mkfifo(c(&path).as_ptr(), 0o600) });
        let child = fork(|| {
            let fd = open(&path, libc::O_WRONLY, 0).unwrap();
            write(fd, b"through the fifo").unwrap();
        });
        let fd = open(&path, libc::O_RDONLY, 0).unwrap();
        assert_eq!(read(fd, 100), Ok(b"through the fifo".to_vec()));
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(open(&path, libc::O_WRONLY | libc::O_NONBLOCK, 0).map(close), Ok(()));
        close(fd);
        assert_eq!(open(&path, libc::O_WRONLY | libc::O_NONBLOCK, 0), Err(libc::ENXIO));
    });
}

fn poll_one(fd: i32, events: i16, timeout_ms: i32) -> (i64, i16) {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    let count = must(unsafe { libc::poll(&mut entry, 1, timeout_ms) });
    (count, entry.revents)
}

#[test]
fn poll_says_what_a_pipe_is_ready_for() {
    isolated(|| {
        let (reader, writer) = pipe();
        assert_eq!(poll_one(reader, libc::POLLIN, 0), (0, 0));
        assert_eq!(poll_one(writer, libc::POLLOUT, 0), (1, libc::POLLOUT));
        write(writer, b"x").unwrap();
        assert_eq!(poll_one(reader, libc::POLLIN, -1), (1, libc::POLLIN));
        close(writer);
        assert_eq!(poll_one(reader, libc::POLLIN, 0), (1, libc::POLLIN | libc::POLLHUP));
        read(reader, 1).unwrap();
        assert_eq!(poll_one(reader, libc::POLLIN, 0), (1, libc::POLLHUP));
    });
}

#[test]
fn poll_says_when_nobody_reads() {
    isolated(|| {
        let (reader, writer) = pipe();
        close(reader);
        assert_eq!(poll_one(writer, libc::POLLOUT, 0), (1, libc::POLLOUT | libc::POLLERR));
    });
}

#[test]
fn poll_waits_for_its_time_and_no_less() {
    isolated(|| {
        let (reader, _writer) = pipe();
        let start = Instant::now();
        assert_eq!(poll_one(reader, libc::POLLIN, 30).0, 0);
        assert!(start.elapsed() >= Duration::from_millis(30));
    });
}

#[test]
fn poll_wakes_when_a_byte_comes() {
    isolated(|| {
        let (reader, writer) = pipe();
        let (go_reader, go_writer) = pipe();
        let child = fork(|| {
            read(go_reader, 1).unwrap();
            write(writer, b"x").unwrap();
        });
        write(go_writer, b"g").unwrap();
        assert_eq!(poll_one(reader, libc::POLLIN, 20_000), (1, libc::POLLIN));
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn poll_names_a_closed_descriptor_and_skips_a_negative_one() {
    isolated(|| {
        assert_eq!(poll_one(500, libc::POLLIN, 0), (1, libc::POLLNVAL));
        assert_eq!(poll_one(-1, libc::POLLIN, 0), (0, 0));
    });
}

#[test]
fn poll_tells_of_every_descriptor_whichever_is_bad() {
    isolated(|| {
        // There are more than are looked up at once, and one in three is bad.
        let (reader, writer) = pipe();
        write(writer, b"x").unwrap();
        let fd = |index: i32| [reader, 900, -1][index as usize % 3];
        let entry = |index| libc::pollfd { fd: fd(index), events: libc::POLLIN, revents: 7 };
        let mut entries: Vec<libc::pollfd> = (0..200).map(entry).collect();
        // SAFETY: the entries outlive the call.
        let count = must(unsafe { libc::poll(entries.as_mut_ptr(), 200, -1) });
        assert_eq!(count, 67 + 67);
        for (index, entry) in entries.iter().enumerate() {
            assert_eq!(entry.revents, [libc::POLLIN, libc::POLLNVAL, 0][index % 3], "{index}");
        }
    });
}

#[test]
fn a_place_opened_with_o_path_is_no_file_for_poll_and_always_ready_for_select() {
    isolated(|| {
        let place = open("/", libc::O_PATH, 0).unwrap();
        assert_eq!(poll_one(place, libc::POLLIN, -1), (1, libc::POLLNVAL));
        // SAFETY: descriptor sets are plain bits, the descriptor is small.
        unsafe {
            let mut sets: [libc::fd_set; 3] = zeroed();
            sets.iter_mut().for_each(|set| libc::FD_SET(place, set));
            let [read, write, exceptional] = &mut sets;
            let none = std::ptr::null_mut();
            assert_eq!(must(libc::select(place + 1, read, write, exceptional, none)), 3);
            assert!(sets.iter().all(|set| libc::FD_ISSET(place, set)));
            // Closing a descriptor that is not open is an error.
            close(place);
            let [read, ..] = &mut sets;
            assert_eq!(
                check(libc::select(place + 1, read, none.cast(), none.cast(), none)),
                Err(libc::EBADF)
            );
        }
    });
}

#[test]
fn select_finds_the_ready_one() {
    isolated(|| {
        let ((quiet, _w), (ready, writer)) = (pipe(), pipe());
        write(writer, b"x").unwrap();
        // SAFETY: descriptor sets are plain bits, the descriptors are small.
        unsafe {
            let mut set: libc::fd_set = zeroed();
            libc::FD_SET(quiet, &mut set);
            libc::FD_SET(ready, &mut set);
            let count = must(libc::select(
                ready.max(quiet) + 1,
                &mut set,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            ));
            assert_eq!(
                (count, libc::FD_ISSET(quiet, &set), libc::FD_ISSET(ready, &set)),
                (1, false, true)
            );
        }
    });
}

#[test]
fn select_on_a_closed_descriptor_is_ebadf() {
    isolated(|| {
        // SAFETY: descriptor sets are plain bits.
        unsafe {
            let mut set: libc::fd_set = zeroed();
            libc::FD_SET(50, &mut set);
            assert_eq!(
                check(libc::select(
                    51,
                    &mut set,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    std::ptr::null_mut()
                )),
                Err(libc::EBADF)
            );
        }
    });
}

#[test]
fn fionread_counts_what_waits() {
    isolated(|| {
        let (reader, writer) = pipe();
        write(writer, b"12345").unwrap();
        let mut count = 0;
        // SAFETY: room for the answer.
        must(unsafe { libc::ioctl(reader, libc::FIONREAD, &mut count) });
        assert_eq!(count, 5);
    });
}

#[test]
fn an_ioctl_nobody_knows_is_enotty() {
    isolated(|| {
        let (reader, _writer) = pipe();
        // SAFETY: plain numbers.
        assert_eq!(check(unsafe { libc::ioctl(reader, libc::TCGETS, 0) }), Err(libc::ENOTTY));
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::isatty(reader) }, 0);
    });
}

#[test]
fn sendfile_moves_a_file_into_a_pipe() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", b"0123456789"), libc::O_RDONLY, 0).unwrap();
        let (reader, writer) = pipe();
        let mut offset = 2;
        // SAFETY: room for the offset.
        assert_eq!(check(unsafe { libc::sendfile(writer, fd, &mut offset, 5) } as i64), Ok(5));
        assert_eq!((read(reader, 10).unwrap(), offset), (b"23456".to_vec(), 7));
    });
}

#[test]
fn devices_of_memory_have_no_places() {
    isolated(|| {
        for name in ["null", "zero", "full", "urandom"] {
            let fd = open(format!("/dev/{name}"), libc::O_RDWR, 0).unwrap();
            let seek = |distance, whence| {
                // SAFETY: no memory.
                check(unsafe { libc::lseek(fd, distance, whence) })
            };
            read(fd, 5).unwrap();
            for whence in [libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END, libc::SEEK_DATA] {
                assert_eq!((seek(7, whence), seek(-9, whence)), (Ok(0), Ok(0)), "{name}");
            }
            assert_eq!(seek(0, 9), Err(libc::EINVAL));
        }
    });
}
