//! Many bytes over TCP: full queues, partial writes, timeouts, faults half way, sendfile and splice.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{sleepers::Sleeper, *},
    jobs::nothing,
    *,
};
use libc::{EAGAIN, EFAULT, EINTR, EINVAL, SO_RCVBUF, SO_RCVTIMEO, SO_SNDBUF, SO_SNDTIMEO};
use std::{ptr::null_mut, thread};

const PAGE: usize = 4096;

/// Returns bytes none of whose parts is like another.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at * 7 + (at >> 12) + (at >> 5)) as u8).collect()
}

/// Makes a connection whose queues are small.
fn small_pair() -> (i32, i32) {
    let (fd, _) = bound(SOCK_STREAM, LOCAL);
    set(fd, SOL_SOCKET, SO_RCVBUF, 16_384i32).unwrap();
    set(fd, SOL_SOCKET, SO_SNDBUF, 16_384i32).unwrap();
    listen(fd, 1).unwrap();
    let (client, server) = connection_to(fd);
    set(client, SOL_SOCKET, SO_SNDBUF, 16_384i32).unwrap();
    close(fd);
    (client, server)
}

/// Sends until nothing more is taken, and the peer's window is closed. Returns the bytes.
fn fill(fd: i32) -> Vec<u8> {
    let data = pattern(1 << 22);
    let (mut sent, mut is_closed) = (0, false);
    loop {
        match send(fd, &data[sent..(sent + 3000).min(data.len())], MSG_DONTWAIT) {
            Ok(count) => (sent, is_closed) = (sent + count, false),
            Err(EAGAIN) if polled(fd, POLLOUT) == 0 && is_closed => break,
            // Bytes under way free room when they are acknowledged.
            Err(EAGAIN) => {
                is_closed = ask_number(fd, SIOCOUTQ) == ask_number(fd, SIOCOUTQNSD);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < data.len(), "the queues have an end");
    data[..sent].to_vec()
}

#[test]
fn many_bytes_arrive_whole_in_both_directions_at_once() {
    networked(|| {
        for address in [LOCAL, LOCAL6] {
            let (client, server) = tcp_pair_over(address);
            let data = pattern(3_000_000);
            let copy = data.clone();
            let sender = |fd: i32, data: Vec<u8>| {
                thread::spawn(move || {
                    let (mut rest, mut size) = (data.as_slice(), 1);
                    while !rest.is_empty() {
                        let count = send(fd, &rest[..size.min(rest.len())], 0).unwrap();
                        rest = &rest[count..];
                        size = size * 3 % 100_003;
                    }
                })
            };
            let senders = [sender(client, data.clone()), sender(server, copy)];
            let other = thread::spawn(move || receive_all(client, 3_000_000));
            assert!(receive_all(server, 3_000_000) == data);
            assert!(other.join().unwrap() == data);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
        }
    });
}

#[test]
fn full_queues_refuse_and_keep_all() {
    networked(|| {
        let (client, server) = small_pair();
        let sent = fill(client);
        assert_eq!(send(client, b"x", MSG_DONTWAIT), Err(EAGAIN));
        assert_eq!(polled(client, POLLOUT), 0);
        assert!(receive_all(server, sent.len()) == sent);
        await_events(client, POLLOUT);
        assert_eq!(send(client, b"x", MSG_DONTWAIT), Ok(1));
        assert_eq!(receive(server, 9, 0), Ok(b"x".to_vec()));
    });
}

#[test]
fn a_write_without_waiting_takes_a_part() {
    networked(|| {
        let (client, server) = small_pair();
        let data = pattern(2_000_000);
        let count = send(client, &data, MSG_DONTWAIT).unwrap();
        assert!(0 < count && count < data.len(), "{count}");
        assert!(receive_all(server, count) == data[..count]);
    });
}

#[test]
fn a_write_that_waits_takes_all() {
    networked(|| {
        let (client, server) = small_pair();
        let data = pattern(500_000);
        let copy = data.clone();
        let thread = thread::spawn(move || send(client, &copy, 0));
        assert!(receive_all(server, data.len()) == data);
        assert_eq!(thread.join().unwrap(), Ok(data.len()));
    });
}

#[test]
fn an_interrupted_write_tells_what_it_took() {
    networked(|| {
        let (client, server) = small_pair();
        handle(libc::SIGUSR1, nothing, libc::SA_RESTART);
        let data = pattern(2_000_000);
        let copy = data.clone();
        let sleeper = Sleeper::start(move || send(client, &copy, 0));
        // It may sleep for a moment only, while its first bytes are under way.
        while polled(client, POLLOUT) != 0 || !sleeper.is_asleep() {
            thread::yield_now();
        }
        sleeper.interrupt(libc::SIGUSR1);
        let count = sleeper.answer().unwrap();
        assert!(0 < count && count < data.len(), "{count}");
        assert!(receive_all(server, count) == data[..count]);
        // One that took nothing says that it was interrupted.
        fill(client);
        handle(libc::SIGUSR1, nothing, 0);
        let sleeper = Sleeper::start(move || send(client, b"x", 0));
        sleeper.interrupt(libc::SIGUSR1);
        assert_eq!(sleeper.answer(), Err(EINTR));
    });
}

#[test]
fn timeouts_end_receives_and_sends() {
    networked(|| {
        let (client, server) = small_pair();
        let time = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
        for (fd, option) in [(server, SO_RCVTIMEO), (client, SO_SNDTIMEO)] {
            let zero = unsafe { option_of::<libc::timeval>(fd, SOL_SOCKET, option) }.unwrap();
            assert_eq!((zero.tv_sec, zero.tv_usec), (0, 0), "none");
            assert_eq!(set(fd, SOL_SOCKET, option, time), Ok(0));
            let told = unsafe { option_of::<libc::timeval>(fd, SOL_SOCKET, option) }.unwrap();
            assert_eq!(told.tv_sec, 0);
            // It is kept in ticks of the clock, rounded up.
            assert!((20_000..=30_000).contains(&told.tv_usec), "{}", told.tv_usec);
        }
        let before = clock_ns(libc::CLOCK_MONOTONIC);
        assert_eq!(receive(server, 9, 0), Err(EAGAIN));
        assert!(clock_ns(libc::CLOCK_MONOTONIC) - before >= 10_000_000);
        fill(client);
        assert_eq!(send(client, b"x", 0), Err(EAGAIN));
        let data = pattern(2_000_000);
        let (client, _server) = small_pair();
        assert_eq!(set(client, SOL_SOCKET, SO_SNDTIMEO, time), Ok(0));
        let count = send(client, &data, 0).unwrap();
        assert!(0 < count && count < data.len(), "a part before the timeout");
    });
}

#[test]
fn a_timeout_after_some_bytes_of_waitall_gives_them() {
    networked(|| {
        let (client, server) = tcp_pair();
        let time = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
        assert_eq!(set(server, SOL_SOCKET, SO_RCVTIMEO, time), Ok(0));
        send(client, b"abc", 0).unwrap();
        assert_eq!(receive(server, 9, libc::MSG_WAITALL), Ok(b"abc".to_vec()));
    });
}

#[test]
fn timeouts_are_checked() {
    networked(|| {
        let fd = tcp();
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            for tv_usec in [-1, 1_000_000] {
                let wrong = libc::timeval { tv_sec: 0, tv_usec };
                assert_eq!(set(fd, SOL_SOCKET, option, wrong), Err(libc::EDOM));
            }
            assert_eq!(set(fd, SOL_SOCKET, option, [0u8; 15]), Err(EINVAL));
            let negative = libc::timeval { tv_sec: -1, tv_usec: 0 };
            assert_eq!(set(fd, SOL_SOCKET, option, negative), Ok(0));
            let told = unsafe { option_of::<libc::timeval>(fd, SOL_SOCKET, option) }.unwrap();
            assert_eq!((told.tv_sec, told.tv_usec), (0, 0), "a negative one is none");
        }
    });
}

#[test]
fn a_fault_half_way_ends_the_call_there() {
    networked(|| {
        let (client, server) = tcp_pair();
        let (both, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let pages = unsafe { libc::mmap(null_mut(), 2 * PAGE, both, flags, -1, 0) };
        let hole = pages.wrapping_byte_add(PAGE);
        must(unsafe { libc::mprotect(hole, PAGE, libc::PROT_NONE) });
        let edge = pages.wrapping_byte_add(PAGE - 4);
        unsafe { edge.cast::<[u8; 4]>().write(*b"edge") };
        // Two parts: the bytes of the first one go, and the second faults.
        let parts = [
            libc::iovec { iov_base: edge, iov_len: 4 },
            libc::iovec { iov_base: hole, iov_len: 4 },
        ];
        let answer = check(unsafe { libc::writev(client, parts.as_ptr(), 2) } as i64);
        assert!(matches!(answer, Ok(4) | Err(EFAULT)), "{answer:?}");
        let sent = if answer == Ok(4) { 4 } else { 0 };
        let whole = check(unsafe { libc::write(client, hole, 4) } as i64);
        assert_eq!(whole, Err(EFAULT));
        assert_eq!(send(client, b"0123456789", 0), Ok(10));
        assert_eq!(receive_all(server, sent), b"edge"[..sent]);
        let answer = check(unsafe { libc::read(server, hole, 4) } as i64);
        assert_eq!(answer, Err(EFAULT));
        assert_eq!(receive(server, 2, 0), Ok(b"01".to_vec()), "no byte is lost");
        let answer = check(unsafe { libc::recv(server, edge, 8, MSG_PEEK) } as i64);
        assert_eq!(answer, Err(EFAULT));
        assert_eq!(receive(server, 9, 0), Ok(b"23456789".to_vec()));
    });
}

#[test]
fn vectors_are_read_and_written() {
    networked(|| {
        let (client, server) = tcp_pair();
        let (one, two) = (*b"ab", *b"cde");
        let parts = [
            libc::iovec { iov_base: one.as_ptr() as *mut _, iov_len: 2 },
            libc::iovec { iov_base: two.as_ptr() as *mut _, iov_len: 3 },
        ];
        assert_eq!(must(unsafe { libc::writev(client, parts.as_ptr(), 2) } as i64), 5);
        while ask_number(server, FIONREAD) != Ok(5) {
            thread::yield_now();
        }
        let (mut first, mut second) = ([0u8; 3], [0u8; 9]);
        let parts = [
            libc::iovec { iov_base: first.as_mut_ptr().cast(), iov_len: 3 },
            libc::iovec { iov_base: second.as_mut_ptr().cast(), iov_len: 9 },
        ];
        assert_eq!(must(unsafe { libc::readv(server, parts.as_ptr(), 2) } as i64), 5);
        assert_eq!((&first, &second[..2]), (b"abc", &b"de"[..]));
        let at = parts.as_ptr();
        assert_eq!(check(unsafe { libc::preadv(server, at, 1, 0) } as i64), Err(libc::ESPIPE));
        assert_eq!(check(unsafe { libc::readv(server, at, 1025) } as i64), Err(EINVAL));
    });
}

#[test]
fn sendfile_sends_a_file() {
    networked(|| {
        let scratch = Scratch::new();
        let data = pattern(300_000);
        let file = open(scratch.file("data", &data), libc::O_RDONLY, 0).unwrap();
        let (client, server) = tcp_pair();
        let reader = thread::spawn(move || receive_all(server, 300_000));
        let mut offset = 100_000;
        while offset < 300_000 {
            let before = offset;
            let rest = 300_000 - offset as usize;
            let count = must(unsafe { libc::sendfile(client, file, &mut offset, rest) } as i64);
            assert_eq!(offset - before, count);
        }
        let mut left = 100_000;
        while left > 0 {
            left -= must(unsafe { libc::sendfile(client, file, null_mut(), left) } as i64) as usize;
        }
        let got = reader.join().unwrap();
        assert!(got[..200_000] == data[100_000..]);
        assert!(got[200_000..] == data[..100_000]);
        assert_eq!(must(unsafe { libc::lseek(file, 0, libc::SEEK_CUR) }), 100_000);
        let back = check(unsafe { libc::sendfile(file, client, null_mut(), 10) } as i64);
        assert!(back.is_err(), "a socket is no source of sendfile");
    });
}

#[test]
fn sendfile_without_waiting_takes_a_part() {
    networked(|| {
        let scratch = Scratch::new();
        let data = pattern(2_000_000);
        let file = open(scratch.file("data", &data), libc::O_RDONLY, 0).unwrap();
        let (client, server) = small_pair();
        set_nonblocking(client);
        let mut sent = 0;
        loop {
            match check(unsafe { libc::sendfile(client, file, null_mut(), 1 << 20) } as i64) {
                Ok(count) => sent += count as usize,
                Err(EAGAIN) if polled(client, POLLOUT) == 0 => break,
                Err(EAGAIN) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(0 < sent && sent < data.len(), "{sent}");
        assert!(receive_all(server, sent) == data[..sent]);
    });
}

#[test]
fn splice_moves_bytes_between_sockets_and_pipes() {
    networked(|| {
        let splice = |from: i32, to: i32, most: usize, flags: u32| {
            check(unsafe { libc::splice(from, null_mut(), to, null_mut(), most, flags) } as i64)
        };
        let (client, server) = tcp_pair();
        let (next, last) = tcp_pair();
        let (out, into) = pipe();
        // SPLICE_F_NONBLOCK is about the pipe alone.
        set_nonblocking(server);
        assert_eq!(splice(server, into, 100, 0), Err(EAGAIN));
        send(client, b"through a pipe", 0).unwrap();
        await_events(server, POLLIN);
        assert_eq!(splice(server, into, 7, 0), Ok(7));
        assert_eq!(splice(out, next, 100, 0), Ok(7));
        assert_eq!(splice(server, into, 100, 0), Ok(7));
        assert_eq!(splice(out, next, 100, 0), Ok(7));
        assert_eq!(receive_all(last, 14), b"through a pipe");
        let mut offset = 0i64;
        let at = check(unsafe { libc::splice(server, &mut offset, into, null_mut(), 9, 0) } as i64);
        assert_eq!(at, Err(EINVAL), "it has no position");
        assert_eq!(splice(server, next, 9, 0), Err(EINVAL), "one must be a pipe");
        shut_down(client, SHUT_WR).unwrap();
        await_events(server, POLLRDHUP);
        assert_eq!(splice(server, into, 9, 0), Ok(0), "the end");
    });
}

#[test]
fn small_writes_arrive_without_a_reply() {
    networked(|| {
        // Nagle's algorithm may hold the second byte back, until the first one is acknowledged, and no longer.
        for no_delay in [0i32, 1] {
            let (client, server) = tcp_pair();
            assert_eq!(set(client, IPPROTO_TCP, libc::TCP_NODELAY, no_delay), Ok(0));
            for byte in pattern(20) {
                assert_eq!(send(client, &[byte], 0), Ok(1));
            }
            assert_eq!(receive_all(server, 20), pattern(20));
        }
    });
}

#[test]
fn what_was_written_arrives_after_the_writers_end() {
    networked(|| {
        let data = pattern(1_000_000);
        let copy = data.clone();
        let (fd, _) = listener(LOCAL);
        let (client, server) = connection_to(fd);
        let child = start_child(|| {
            close(server);
            let mut rest = copy.as_slice();
            while !rest.is_empty() {
                rest = &rest[send(client, rest, 0).unwrap()..];
            }
        });
        close(client);
        assert!(receive_all(server, data.len() + 1) == data);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}
