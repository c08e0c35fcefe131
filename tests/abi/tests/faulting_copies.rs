//! Calls that consume or make something, with results at addresses that are not the program's: each ends with EFAULT, and the
//! thing is gone or there exactly as on Linux. Descriptors never stay open behind such a call.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    ipc::{OWN, msg_remove, msgget, msgsnd},
    *,
};
use libc::{
    CLONE_PARENT_SETTID, CLONE_PIDFD, EAGAIN, ECHILD, EFAULT, ENOMSG, O_NONBLOCK, SYS_accept4,
    SYS_clone, SYS_mq_open, SYS_mq_timedreceive, SYS_mq_timedsend, SYS_mq_unlink, SYS_msgrcv,
    SYS_pipe2, SYS_read, SYS_recvfrom, SYS_recvmsg, SYS_rt_sigtimedwait, SYS_signalfd4,
    SYS_socketpair, SYS_timer_create, SYS_timer_delete, SYS_wait4, SYS_waitid, SYS_write, c_long,
};
use std::ptr::null_mut;

const PAGE: usize = 4096;
const SIGNAL: i32 = 40;
const SET: u64 = 1 << (SIGNAL - 1);

/// Makes a system call.
fn call<const N: usize>(number: c_long, args: [u64; N]) -> Result<i64, i32> {
    let at = |index: usize| args.get(index).copied().unwrap_or(0);
    check(unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) })
}

/// Returns the address of a page that cannot be accessed, after one that can.
fn bad() -> u64 {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let at = unsafe { libc::mmap(null_mut(), 2 * PAGE, protection, flags, -1, 0) } as u64 + 4096;
    assert_eq!(check(unsafe { libc::mprotect(at as *mut _, PAGE, libc::PROT_NONE) }), Ok(0));
    at
}

/// Returns the address of a page that can be written.
fn good() -> u64 {
    bad() - 4096
}

fn at<T>(value: &T) -> u64 {
    std::ptr::from_ref(value) as u64
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn wait4_reaps_a_child_whose_status_has_no_place() {
    isolated(|| {
        for (status, usage) in [(bad(), 0), (0, bad())] {
            let child = fork(|| ()) as u64;
            assert_eq!(call(SYS_wait4, [child, status, 0, usage]), Err(EFAULT));
            assert_eq!(call(SYS_wait4, [child, 0, 0, 0]), Err(ECHILD));
        }
    });
}

#[test]
fn waitid_reaps_a_child_whose_information_has_no_place() {
    isolated(|| {
        let exited = libc::WEXITED as u64;
        for (info, usage) in [(bad(), 0), (0, bad())] {
            let child = fork(|| ()) as u64;
            let which = u64::from(libc::P_PID);
            assert_eq!(call(SYS_waitid, [which, child, info, exited, usage]), Err(EFAULT));
            assert_eq!(call(SYS_waitid, [which, child, 0, exited, 0]), Err(ECHILD));
        }
    });
}

/// Blocks the signal and sends it to the thread.
fn send_signal() {
    must(unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &SET, 0, 8) });
    must(unsafe { libc::kill(libc::getpid(), SIGNAL) });
}

#[test]
fn sigtimedwait_takes_a_signal_whose_information_has_no_place() {
    isolated(|| {
        send_signal();
        let now = [0u64; 2];
        assert_eq!(call(SYS_rt_sigtimedwait, [at(&SET), bad(), at(&now), 8]), Err(EFAULT));
        assert_eq!(call(SYS_rt_sigtimedwait, [at(&SET), 0, at(&now), 8]), Err(EAGAIN));
    });
}

#[test]
fn a_read_takes_a_signal_whose_record_has_no_place() {
    isolated(|| {
        send_signal();
        let flags = O_NONBLOCK as u64;
        let fd = call(SYS_signalfd4, [u64::MAX, at(&SET), 8, flags]).unwrap() as u64;
        assert_eq!(call(SYS_read, [fd, bad(), 128]), Err(EFAULT));
        assert_eq!(call(SYS_read, [fd, good(), 128]), Err(EAGAIN));
    });
}

#[test]
fn a_message_without_a_place_is_lost() {
    isolated(|| {
        let queue = msgget(libc::IPC_PRIVATE, OWN).unwrap();
        for place in [bad(), bad() - 8] {
            assert_eq!(msgsnd(queue, 1, b"bytes", 0), Ok(0));
            let (id, flags) = (queue as u64, libc::IPC_NOWAIT as u64);
            assert_eq!(call(SYS_msgrcv, [id, place, 100, 0, flags]), Err(EFAULT));
            assert_eq!(call(SYS_msgrcv, [id, place, 100, 0, flags]), Err(ENOMSG));
        }
        assert_eq!(msg_remove(queue), Ok(0));
    });
}

#[test]
fn a_message_of_a_posix_queue_without_a_place_is_lost() {
    isolated(|| {
        let name = c(format!("faulting-{}", unsafe { libc::getpid() }));
        let shape = [0u64, 4, 64, 0, 0, 0, 0, 0];
        let flags = (libc::O_CREAT | libc::O_RDWR | O_NONBLOCK) as u64;
        let queue = call(SYS_mq_open, [name.as_ptr() as u64, flags, 0o600, at(&shape)]).unwrap();
        let room = good();
        for (bytes, priority) in [(bad(), 0), (bad() - 2, 0), (room, bad())] {
            let queue = queue as u64;
            assert_eq!(call(SYS_mq_timedsend, [queue, b"bytes".as_ptr() as u64, 5, 1, 0]), Ok(0));
            let receive = [queue, bytes, 64, priority, 0];
            assert_eq!(call(SYS_mq_timedreceive, receive), Err(EFAULT));
            assert_eq!(call(SYS_mq_timedreceive, [queue, room, 64, 0, 0]), Err(EAGAIN));
        }
        assert_eq!(call(SYS_mq_unlink, [name.as_ptr() as u64]), Ok(0));
    });
}

/// Makes a pair of local sockets.
fn socket_pair(kind: i32) -> [u64; 2] {
    let mut pair = [0; 2];
    let kind = kind | libc::SOCK_NONBLOCK;
    must(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) });
    pair.map(|fd| fd as u64)
}

#[test]
fn a_stream_keeps_bytes_without_a_place_and_a_datagram_is_lost() {
    isolated(|| {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
            for place in [bad(), bad() - 2] {
                let [reader, writer] = socket_pair(kind);
                assert_eq!(write(writer as i32, b"bytes"), Ok(5));
                let first = call(SYS_recvfrom, [reader, place, 100, 0, 0, 0]);
                let rest = read(reader as i32, 100);
                match kind {
                    libc::SOCK_STREAM => {
                        let left = 5 - first.unwrap_or(0) as usize;
                        assert!(matches!(first, Err(EFAULT) | Ok(2)), "{first:?}");
                        assert_eq!(rest, Ok(b"bytes"[5 - left..].to_vec()));
                    }
                    _ => assert_eq!((first, rest), (Err(EFAULT), Err(EAGAIN)), "{kind}"),
                }
            }
        }
    });
}

/// Returns the address of a mapping of `pages` pages, of which only the first `present` can be accessed.
fn cut(pages: usize, present: usize) -> u64 {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let start = unsafe { libc::mmap(null_mut(), pages * PAGE, protection, flags, -1, 0) } as u64;
    let end = (start + (present * PAGE) as u64) as *mut _;
    assert_eq!(check(unsafe { libc::munmap(end, (pages - present) * PAGE) }), Ok(0));
    start
}

/// Writes and returns the bytes that a test sends: each differs from its neighbours, and the pages from each other.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ at >> 8 ^ at >> 12) as u8).collect()
}

/// The bytes of a stream that Linux keeps in one buffer: the head of one page, and 32 KiB.
const PIECE: u64 = 3776 + 32_768;

/// Lengths around those of the blocks in which a kernel copies, and around those of pages.
const LENGTHS: [usize; 15] =
    [1, 31, 255, 256, 257, 511, 512, 513, 767, 1025, 2049, 4095, 4097, 12_345, 65_536];

#[test]
fn bytes_of_every_length_and_place_pass_sockets_and_pipes_whole() {
    isolated(|| {
        let (pipe_out, pipe_in) = pipe();
        let [pipe_out, pipe_in] = [pipe_out, pipe_in].map(|fd| fd as u64);
        let stream = socket_pair(libc::SOCK_STREAM);
        let datagram = socket_pair(libc::SOCK_DGRAM);
        for length in LENGTHS {
            for (start, to) in [(0, 0), (1, 4095), (4090, 17), (33, 33)] {
                let sent = pattern(start + length);
                let mut got = vec![0; to + length + 1];
                for [from, into] in
                    [[stream[0], stream[1]], [datagram[0], datagram[1]], [pipe_in, pipe_out]]
                {
                    got.fill(0);
                    let count = Ok(length as i64);
                    assert_eq!(call(SYS_write, [from, at(&sent[start]), length as u64]), count);
                    assert_eq!(
                        call(SYS_read, [into, got[to..].as_mut_ptr() as u64, length as u64]),
                        count
                    );
                    assert!(got[to..to + length] == sent[start..], "{length} bytes from {start}");
                    assert!(got[to + length] == 0 && got[..to].iter().all(|byte| *byte == 0));
                }
            }
        }
    });
}

#[test]
fn a_fault_within_many_pages_ends_a_transfer_at_its_byte() {
    isolated(|| {
        let stream = socket_pair(libc::SOCK_STREAM);
        let datagram = socket_pair(libc::SOCK_DGRAM);
        let (pipe_out, pipe_in) = pipe();
        let [pipe_out, pipe_in] = [pipe_out, pipe_in].map(|fd| fd as u64);
        for (present, start) in [(1, 0), (3, 100), (5, 4000), (9, 511), (12, 1)] {
            let source = cut(16, present) + start;
            let room = (present * PAGE) as u64 - start;
            let bytes = unsafe { std::slice::from_raw_parts_mut(source as *mut u8, room as usize) };
            bytes.copy_from_slice(&pattern(room as usize));
            let whole = 16 * PAGE as u64 - start;
            let mut got = vec![0; 16 * PAGE];
            // A piece of a stream, or a datagram, is sent as a whole or not at all.
            let sent = call(SYS_write, [stream[0], source, whole]);
            assert_eq!(sent, if room < PIECE { Err(EFAULT) } else { Ok(PIECE as i64) });
            if sent.is_ok() {
                assert_eq!(
                    call(SYS_read, [stream[1], got.as_mut_ptr() as u64, got.len() as u64]),
                    sent
                );
                assert!(got[..PIECE as usize] == bytes[..PIECE as usize]);
            }
            assert_eq!(call(SYS_write, [datagram[0], source, whole]), Err(EFAULT));
            for end in [stream[1], datagram[1]] {
                let flags = libc::MSG_DONTWAIT as u64;
                let rest = [end, got.as_mut_ptr() as u64, got.len() as u64, flags, 0, 0];
                assert_eq!(call(SYS_recvfrom, rest), Err(EAGAIN));
            }
            // A pipe has the bytes of the pages before.
            let sent = call(SYS_write, [pipe_in, source, whole]);
            let count = sent.unwrap_or(0) as usize;
            assert!(sent.is_err() == (count == 0) && count <= room as usize);
            if count > 0 {
                assert_eq!(
                    call(SYS_read, [pipe_out, got.as_mut_ptr() as u64, got.len() as u64]),
                    sent
                );
                assert!(got[..count] == bytes[..count]);
            }
            // Data without a place stays in the stream, piece by piece.
            let all = pattern(16 * PAGE);
            assert_eq!(call(SYS_write, [stream[0], at(&all[0]), all.len() as u64]), Ok(65_536));
            let first = call(SYS_read, [stream[1], source, whole]);
            assert_eq!(first, if room < PIECE { Err(EFAULT) } else { Ok(PIECE as i64) });
            let taken = first.unwrap_or(0) as usize;
            let rest = call(SYS_read, [stream[1], got.as_mut_ptr() as u64, got.len() as u64]);
            assert_eq!(rest, Ok((all.len() - taken) as i64));
            assert!(got[..all.len() - taken] == all[taken..] && bytes[..taken] == all[..taken]);
        }
    });
}

#[test]
fn a_pipe_keeps_bytes_without_a_place() {
    isolated(|| {
        for flags in [O_NONBLOCK, O_NONBLOCK | libc::O_DIRECT] {
            for place in [bad(), bad() - 2] {
                let mut pair = [0i32; 2];
                must(unsafe { libc::pipe2(pair.as_mut_ptr(), flags) });
                let [reader, writer] = pair;
                assert_eq!(write(writer, b"bytes"), Ok(5));
                assert_eq!(call(SYS_read, [reader as u64, place, 100]), Err(EFAULT));
                assert_eq!(read(reader, 100), Ok(b"bytes".to_vec()));
            }
        }
    });
}

#[test]
fn a_count_without_a_place_is_lost() {
    isolated(|| {
        let event = must(unsafe { libc::eventfd(5, libc::EFD_NONBLOCK) }) as u64;
        let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) };
        let soon = [0u64, 0, 0, 1];
        must(unsafe { libc::timerfd_settime(timer, 0, (&raw const soon).cast(), null_mut()) });
        let mut ready = libc::pollfd { fd: timer, events: libc::POLLIN, revents: 0 };
        assert_eq!(check(unsafe { libc::poll(&raw mut ready, 1, -1) }), Ok(1));
        must(unsafe { libc::fcntl(timer, libc::F_SETFL, O_NONBLOCK) });
        for fd in [event, timer as u64] {
            assert_eq!(call(SYS_read, [fd, bad(), 8]), Err(EFAULT));
            assert_eq!(read(fd as i32, 8), Err(EAGAIN));
        }
    });
}

#[test]
fn a_note_without_a_place_is_lost() {
    isolated(|| {
        let scratch = Scratch::new();
        let notes = must(unsafe { libc::inotify_init1(libc::IN_NONBLOCK) }) as i32;
        let folder = c(scratch.path(""));
        must(unsafe { libc::inotify_add_watch(notes, folder.as_ptr(), libc::IN_CREATE) });
        scratch.file("one", b"");
        assert_eq!(call(SYS_read, [notes as u64, bad(), 100]), Err(EFAULT));
        assert_eq!(read(notes, 100), Err(EAGAIN));
    });
}

#[test]
fn an_event_without_a_place_is_reported_again() {
    isolated(|| {
        for mode in [libc::EPOLLET, libc::EPOLLONESHOT, 0] {
            let epoll = must(unsafe { libc::epoll_create1(0) }) as i32;
            for data in 0..2 {
                let event = must(unsafe { libc::eventfd(1, 0) }) as i32;
                let mut wanted =
                    libc::epoll_event { events: (libc::EPOLLIN | mode) as u32, u64: data };
                must(unsafe {
                    libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, event, &raw mut wanted)
                });
            }
            let wait = |at: u64| call(libc::SYS_epoll_pwait, [epoll as u64, at, 4, 0, 0, 8]);
            assert_eq!(wait(bad()), Err(EFAULT));
            assert_eq!(wait(bad() - 12), Ok(1), "{mode:#x}");
            let left = if mode == 0 { 2 } else { 1 };
            assert_eq!(wait(good()), Ok(left), "{mode:#x}");
        }
    });
}

#[test]
fn a_connection_whose_name_has_no_place_is_closed() {
    isolated(|| {
        let address = [1u8, 0, 0, b'f', b'c'];
        let name = (&raw const address).cast::<libc::sockaddr>();
        let stream = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        let listener = must(unsafe { libc::socket(libc::AF_UNIX, stream, 0) }) as i32;
        must(unsafe { libc::bind(listener, name, 5) });
        must(unsafe { libc::listen(listener, 5) });
        let length = 100u32;
        for (name_at, length_at) in [(bad(), at(&length)), (good(), bad())] {
            let client = must(unsafe { libc::socket(libc::AF_UNIX, stream, 0) }) as i32;
            must(unsafe { libc::bind(client, name, 2) });
            must(unsafe { libc::connect(client, name, 5) });
            let before = descriptors();
            let accept = [listener as u64, name_at, length_at, 0];
            assert_eq!(call(SYS_accept4, accept), Err(EFAULT));
            assert_eq!(descriptors(), before);
            assert_eq!(read(client, 1), Ok(vec![]), "the connection has ended");
            assert_eq!(call(SYS_accept4, [listener as u64, 0, 0, 0]), Err(EAGAIN));
            close(client);
        }
    });
}

#[test]
fn a_connection_waits_until_there_is_a_descriptor_for_it() {
    isolated(|| {
        let address = [1u8, 0, 0, b'f', b'd'];
        let name = (&raw const address).cast::<libc::sockaddr>();
        let stream = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        let listener = must(unsafe { libc::socket(libc::AF_UNIX, stream, 0) }) as i32;
        must(unsafe { libc::bind(listener, name, 5) });
        must(unsafe { libc::listen(listener, 5) });
        let client = must(unsafe { libc::socket(libc::AF_UNIX, stream, 0) }) as i32;
        must(unsafe { libc::connect(client, name, 5) });
        let next = must(unsafe { libc::dup(client) });
        let limit = |most: u64| {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: 1024 };
            must(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) });
        };
        limit(next as u64 + 1);
        assert_eq!(call(SYS_accept4, [listener as u64, 0, 0, 0]), Err(libc::EMFILE));
        limit(1024);
        assert_eq!(call(SYS_accept4, [listener as u64, 0, 0, 0]), Ok(next + 1));
    });
}

/// Sends a byte with a descriptor, and receives it with control data at `control`. Returns the flags, or the error.
fn receive_descriptor(control: u64, room: u64) -> Result<i32, i32> {
    let [reader, writer] = socket_pair(libc::SOCK_STREAM);
    let mut byte = [b'x'];
    let buffer = [byte.as_mut_ptr() as u64, 1];
    let passed = [20u64, 1 << 32 | libc::SOL_SOCKET as u64, 1];
    let message = [0, 0, at(&buffer), 1, at(&passed), 24, 0];
    assert_eq!(call(libc::SYS_sendmsg, [writer, at(&message), 0]), Ok(1));
    let message = [0, 0, at(&buffer), 1, control, room, 0];
    let before = descriptors();
    let received = call(SYS_recvmsg, [reader, at(&message), 0]);
    let more = descriptors() - before;
    close(writer as i32);
    assert_eq!(read(reader as i32, 1), Ok(vec![]), "the byte was read");
    close(reader as i32);
    let flags = unsafe { std::ptr::read_volatile(&raw const message[6]) } as i32;
    let expected = usize::from(flags & libc::MSG_CTRUNC == 0 && received.is_ok());
    assert_eq!(more, expected, "descriptors open");
    received.map(|_| flags)
}

#[test]
fn a_descriptor_whose_number_has_no_place_is_closed() {
    isolated(|| {
        assert_eq!(receive_descriptor(good(), 64), Ok(0));
        assert_eq!(receive_descriptor(bad(), 64), Ok(libc::MSG_CTRUNC));
        assert_eq!(receive_descriptor(good(), 8), Ok(libc::MSG_CTRUNC));
    });
}

#[test]
fn descriptors_whose_numbers_have_no_place_are_closed() {
    isolated(|| {
        for place in [bad(), bad() - 4] {
            let before = descriptors();
            assert_eq!(call(SYS_pipe2, [place, 0]), Err(EFAULT));
            let (family, kind) = (libc::AF_UNIX as u64, libc::SOCK_STREAM as u64);
            assert_eq!(call(SYS_socketpair, [family, kind, 0, place]), Err(EFAULT));
            assert_eq!(descriptors(), before);
        }
    });
}

#[test]
fn a_child_whose_pidfd_has_no_place_is_not_made() {
    isolated(|| {
        let before = descriptors();
        let flags = CLONE_PIDFD as u64 | libc::SIGCHLD as u64;
        match call(SYS_clone, [flags, 0, bad(), 0, 0]) {
            Ok(0) => unsafe { libc::_exit(9) },
            other => assert_eq!(other, Err(EFAULT)),
        }
        assert_eq!(call(SYS_wait4, [u64::MAX, 0, 0, 0]), Err(ECHILD));
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn a_child_whose_number_has_no_place_is_made() {
    isolated(|| {
        let flags = CLONE_PARENT_SETTID as u64 | libc::SIGCHLD as u64;
        let child = match call(SYS_clone, [flags, 0, bad(), 0, 0]) {
            Ok(0) => unsafe { libc::_exit(9) },
            other => other.unwrap(),
        };
        assert_eq!(wait(child as i32), Ended::Exited(9));
    });
}

#[test]
fn a_timer_whose_number_has_no_place_is_not_made() {
    isolated(|| {
        assert_eq!(call(SYS_timer_create, [0, 0, bad()]), Err(EFAULT));
        for id in 0..2 {
            assert_eq!(call(SYS_timer_delete, [id]), Err(libc::EINVAL));
        }
    });
}
