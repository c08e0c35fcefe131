//! Bytes of TCP connections: the flags of send and recv, messages with several parts, urgent data and what waits in queues.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{messages::*, sleepers::Sleeper, *},
    jobs::{count, counted, ignore, nothing},
    *,
};
use libc::{EAGAIN, ECONNRESET, EFAULT, EINTR, EINVAL, EOPNOTSUPP, EPIPE, MSG_OOB, MSG_WAITALL};
use std::thread;

/// Waits until `bytes` can be read.
fn await_bytes(fd: i32, bytes: i32) {
    while ask_number(fd, FIONREAD) != Ok(bytes) {
        thread::yield_now();
    }
}

#[test]
fn bytes_are_joined_and_cut() {
    networked(|| {
        for address in [LOCAL, LOCAL6] {
            let (client, server) = tcp_pair_over(address);
            assert_eq!(write(client, b"first "), Ok(6));
            assert_eq!(send(client, b"second", 0), Ok(6));
            await_bytes(server, 12);
            assert_eq!(read(server, 8), Ok(b"first se".to_vec()));
            assert_eq!(receive(server, 100, 0), Ok(b"cond".to_vec()));
            assert_eq!(receive(server, 9, MSG_DONTWAIT), Err(EAGAIN));
            assert_eq!(send(client, b"", 0), Ok(0));
            assert_eq!(receive(server, 9, MSG_DONTWAIT), Err(EAGAIN), "nothing is no message");
            assert_eq!(send(server, b"back", 0), Ok(4));
            assert_eq!(receive(client, 9, 0), Ok(b"back".to_vec()));
            // A receive of nothing waits for a byte, and a read of nothing does not.
            assert_eq!(receive(client, 0, MSG_DONTWAIT), Err(EAGAIN));
            assert_eq!(read(client, 0), Ok(vec![]));
            send(server, b"x", 0).unwrap();
            await_bytes(client, 1);
            assert_eq!(receive(client, 0, 0), Ok(vec![]));
        }
    });
}

#[test]
fn peek_leaves_the_bytes() {
    networked(|| {
        let (client, server) = tcp_pair();
        send(client, b"abc", 0).unwrap();
        send(client, b"def", 0).unwrap();
        await_bytes(server, 6);
        assert_eq!(receive(server, 2, MSG_PEEK), Ok(b"ab".to_vec()));
        assert_eq!(receive(server, 9, MSG_PEEK), Ok(b"abcdef".to_vec()), "across segments");
        assert_eq!(ask_number(server, FIONREAD), Ok(6));
        assert_eq!(receive(server, 9, 0), Ok(b"abcdef".to_vec()));
        assert_eq!(receive(server, 9, MSG_PEEK | MSG_DONTWAIT), Err(EAGAIN));
    });
}

#[test]
fn peek_has_an_offset_for_datagrams() {
    networked(|| {
        let (udp, other) = udp_pair();
        assert_eq!(number(udp, SOL_SOCKET, libc::SO_PEEK_OFF), Ok(-1));
        assert_eq!(set(udp, SOL_SOCKET, libc::SO_PEEK_OFF, 1i32), Ok(0));
        send(other, b"abcdef", 0).unwrap();
        assert_eq!(receive(udp, 2, MSG_PEEK), Ok(b"bc".to_vec()));
        assert_eq!(receive(udp, 9, MSG_PEEK), Ok(b"def".to_vec()), "the offset grows");
        assert_eq!(receive(udp, 9, 0), Ok(b"abcdef".to_vec()));
    });
}

#[test]
fn trunc_discards_bytes_of_a_stream() {
    networked(|| {
        let (client, server) = tcp_pair();
        send(client, b"abcdefghij", 0).unwrap();
        await_bytes(server, 10);
        let mut untouched = [0xaau8; 4];
        let at = untouched.as_mut_ptr().cast();
        assert_eq!(must(unsafe { libc::recv(server, at, 4, MSG_TRUNC) } as i64), 4);
        assert_eq!(untouched, [0xaa; 4], "nothing is copied");
        let nowhere = std::ptr::null_mut();
        assert_eq!(must(unsafe { libc::recv(server, nowhere, 3, MSG_TRUNC) } as i64), 3);
        assert_eq!(receive(server, 9, 0), Ok(b"hij".to_vec()));
    });
}

#[test]
fn waitall_waits_for_all_or_the_end() {
    networked(|| {
        let (client, server) = tcp_pair();
        send(client, b"abc", 0).unwrap();
        let sleeper = Sleeper::start(move || {
            let first = receive(server, 6, MSG_WAITALL);
            let second = receive(server, 6, MSG_WAITALL);
            (first, second, receive(server, 6, MSG_WAITALL))
        });
        assert!(!sleeper.has_ended());
        send(client, b"defgh", 0).unwrap();
        shut_down(client, SHUT_WR).unwrap();
        let (first, second, third) = sleeper.answer();
        assert_eq!((first, second), (Ok(b"abcdef".to_vec()), Ok(b"gh".to_vec())));
        assert_eq!(third, Ok(vec![]));
    });
}

#[test]
fn waitall_without_waiting_takes_what_is_there() {
    networked(|| {
        let (client, server) = tcp_pair();
        send(client, b"abc", 0).unwrap();
        await_bytes(server, 3);
        assert_eq!(receive(server, 6, MSG_WAITALL | MSG_DONTWAIT), Ok(b"abc".to_vec()));
        assert_eq!(receive(server, 6, MSG_WAITALL | MSG_DONTWAIT), Err(EAGAIN));
    });
}

#[test]
fn waitall_ends_with_a_signal_after_some_bytes() {
    networked(|| {
        let (client, server) = tcp_pair();
        handle(libc::SIGUSR1, nothing, libc::SA_RESTART);
        send(client, b"abc", 0).unwrap();
        await_bytes(server, 3);
        let sleeper = Sleeper::start(move || receive(server, 6, MSG_WAITALL));
        while ask_number(server, FIONREAD) != Ok(0) || !sleeper.is_asleep() {
            thread::yield_now();
        }
        sleeper.interrupt(libc::SIGUSR1);
        assert_eq!(sleeper.answer(), Ok(b"abc".to_vec()));
    });
}

#[test]
fn a_receive_is_interrupted_or_restarted() {
    networked(|| {
        let (client, server) = tcp_pair();
        for (flags, wanted) in [(0, Err(EINTR)), (libc::SA_RESTART, Ok(b"x".to_vec()))] {
            handle(libc::SIGUSR1, nothing, flags);
            let sleeper = Sleeper::start(move || receive(server, 6, 0));
            sleeper.interrupt(libc::SIGUSR1);
            if flags != 0 {
                send(client, b"x", 0).unwrap();
            }
            assert_eq!(sleeper.answer(), wanted);
        }
    });
}

#[test]
fn the_low_water_mark_holds_a_reader_back() {
    networked(|| {
        let (client, server) = tcp_pair();
        assert_eq!(number(server, SOL_SOCKET, libc::SO_RCVLOWAT), Ok(1));
        assert_eq!(set(server, SOL_SOCKET, libc::SO_RCVLOWAT, 4i32), Ok(0));
        send(client, b"abc", 0).unwrap();
        await_bytes(server, 3);
        assert_eq!(polled(server, POLLIN), 0);
        assert_eq!(receive(server, 9, MSG_DONTWAIT), Ok(b"abc".to_vec()), "without waiting");
        send(client, b"abcd", 0).unwrap();
        await_events(server, POLLIN);
        assert_eq!(receive(server, 2, 0), Ok(b"ab".to_vec()), "the room counts as well");
        assert_eq!(polled(server, POLLIN), 0);
        shut_down(client, SHUT_WR).unwrap();
        await_events(server, POLLIN);
        assert_eq!(receive(server, 9, 0), Ok(b"cd".to_vec()), "at the end less will do");
        // 0 counts as 1, and a negative one as the largest.
        assert_eq!(set(server, SOL_SOCKET, libc::SO_RCVLOWAT, 0i32), Ok(0));
        assert_eq!(number(server, SOL_SOCKET, libc::SO_RCVLOWAT), Ok(1));
        let sends = set(server, SOL_SOCKET, libc::SO_SNDLOWAT, 4i32);
        assert_eq!(sends, Err(libc::ENOPROTOOPT));
        assert_eq!(number(server, SOL_SOCKET, libc::SO_SNDLOWAT), Ok(1));
    });
}

#[test]
fn parts_are_sent_and_received_in_order() {
    networked(|| {
        let (client, server) = tcp_pair();
        assert_eq!(send_message(client, &[b"ab", b"", b"cde"], None, &[], 0), Ok(5));
        await_bytes(server, 5);
        let (message, parts) = receive_parts(server, &[1, 0, 3, 9], 64, 0).unwrap();
        assert_eq!((message.count, message.flags, message.from), (5, 0, None));
        assert_eq!(message.control, []);
        assert_eq!((&parts[0][..], &parts[2][..], parts[3][0]), (&b"a"[..], &b"bcd"[..], b'e'));
        assert_eq!(send_message(client, &[], None, &[], 0), Ok(0));
        let too_many: Vec<&[u8]> = vec![b"x"; 1025];
        assert_eq!(send_message(client, &too_many, None, &[], 0), Err(libc::EMSGSIZE));
        assert_eq!(send_message(client, &too_many[..1024], None, &[], 0), Ok(1024));
    });
}

#[test]
fn an_address_is_not_looked_at_in_a_message_of_a_stream() {
    networked(|| {
        let (client, server) = tcp_pair();
        assert_eq!(send_message(client, &[b"x"], Some(FOREIGN), &[], 0), Ok(1));
        assert_eq!(receive(server, 9, 0), Ok(b"x".to_vec()));
        let unknown = number_control(SOL_SOCKET, 999, 1);
        assert_eq!(send_message(client, &[b"x"], None, &[unknown], 0), Err(EINVAL));
        let of_ip = number_control(IPPROTO_IP, 999, 1);
        assert_eq!(send_message(client, &[b"x"], None, &[of_ip], 0), Ok(1), "of another level");
    });
}

#[test]
fn more_keeps_bytes_until_the_rest_comes() {
    networked(|| {
        let (client, server) = tcp_pair();
        assert_eq!(send(client, b"head", libc::MSG_MORE), Ok(4));
        assert_eq!(ask_number(client, SIOCOUTQNSD), Ok(4), "not sent");
        assert_eq!(ask_number(client, SIOCOUTQ), Ok(4));
        assert_eq!(receive(server, 9, MSG_DONTWAIT), Err(EAGAIN));
        assert_eq!(send(client, b"tail", 0), Ok(4));
        await_bytes(server, 8);
        assert_eq!(ask_number(client, SIOCOUTQNSD), Ok(0));
        assert_eq!(receive(server, 9, 0), Ok(b"headtail".to_vec()));
    });
}

#[test]
fn a_cork_keeps_bytes_until_it_is_drawn() {
    networked(|| {
        let (client, server) = tcp_pair();
        switch_on(client, IPPROTO_TCP, libc::TCP_CORK);
        for byte in [b"a", b"b", b"c"] {
            assert_eq!(send(client, byte, 0), Ok(1));
        }
        assert_eq!(ask_number(client, SIOCOUTQNSD), Ok(3));
        assert_eq!(receive(server, 9, MSG_DONTWAIT), Err(EAGAIN));
        assert_eq!(set(client, IPPROTO_TCP, libc::TCP_CORK, 0i32), Ok(0));
        await_bytes(server, 3);
        assert_eq!(receive(server, 9, 0), Ok(b"abc".to_vec()));
        // The end of the stream draws it as well.
        switch_on(client, IPPROTO_TCP, libc::TCP_CORK);
        send(client, b"last", 0).unwrap();
        shut_down(client, SHUT_WR).unwrap();
        assert_eq!(receive_all(server, 9), b"last");
    });
}

#[test]
fn queues_tell_their_lengths() {
    networked(|| {
        let (client, server) = tcp_pair();
        for request in [FIONREAD, SIOCOUTQ, SIOCOUTQNSD] {
            assert_eq!(ask_number(client, request), Ok(0));
        }
        send(client, &[7; 1000], 0).unwrap();
        await_bytes(server, 1000);
        assert_eq!(receive(server, 400, 0).map(|bytes| bytes.len()), Ok(400));
        assert_eq!(ask_number(server, FIONREAD), Ok(600));
        receive(server, 1000, 0).unwrap();
        // All bytes are acknowledged in the end.
        while ask_number(client, SIOCOUTQ) != Ok(0) {
            thread::yield_now();
        }
        // The end of the stream is not counted.
        shut_down(client, SHUT_WR).unwrap();
        await_events(server, POLLRDHUP);
        assert_eq!(ask_number(server, FIONREAD), Ok(0));
        assert_eq!(ask_number(server, 0x6666), Err(libc::ENOTTY));
    });
}

#[test]
fn an_urgent_byte_stands_beside_the_stream() {
    networked(|| {
        let (client, server) = tcp_pair();
        assert_eq!(receive(server, 1, MSG_OOB), Err(EINVAL), "there is none");
        send(client, b"ab", 0).unwrap();
        assert_eq!(send(client, b"cX", MSG_OOB), Ok(2), "the last byte is urgent");
        send(client, b"de", 0).unwrap();
        await_events(server, POLLPRI);
        while receive(server, 9, MSG_PEEK) != Ok(b"abc".to_vec()) {
            thread::yield_now();
        }
        assert_eq!(ask_number(server, SIOCATMARK), Ok(0));
        assert_eq!(ask_number(server, FIONREAD), Ok(3), "as far as the mark");
        assert_eq!(receive(server, 9, 0), Ok(b"abc".to_vec()), "a read stops at the mark");
        assert_eq!(ask_number(server, SIOCATMARK), Ok(1));
        let (urgent, _) = receive_parts(server, &[9], 0, MSG_OOB).unwrap();
        assert_eq!((&urgent.data[..], urgent.flags & MSG_OOB), (&b"X"[..], MSG_OOB));
        assert_eq!(receive(server, 1, MSG_OOB), Err(EINVAL), "it was taken");
        assert_eq!(polled(server, POLLPRI), 0);
        await_events(server, POLLIN);
        assert_eq!(receive_all(server, 2), b"de");
        assert_eq!(ask_number(server, SIOCATMARK), Ok(0));
    });
}

#[test]
fn an_urgent_byte_stands_in_the_stream_if_it_is_wanted_there() {
    networked(|| {
        let (client, server) = tcp_pair();
        switch_on(server, SOL_SOCKET, libc::SO_OOBINLINE);
        send(client, b"ab", 0).unwrap();
        send(client, b"X", MSG_OOB).unwrap();
        send(client, b"cd", 0).unwrap();
        await_events(server, POLLPRI);
        await_bytes(server, 5);
        assert_eq!(receive(server, 1, MSG_OOB), Err(EINVAL), "it is not beside the stream");
        assert_eq!(receive(server, 9, 0), Ok(b"ab".to_vec()));
        assert_eq!(ask_number(server, SIOCATMARK), Ok(1));
        assert_eq!(receive_all(server, 3), b"Xcd");
        assert_eq!(polled(server, POLLPRI), 0);
    });
}

#[test]
fn an_urgent_byte_sends_a_signal_to_the_owner() {
    networked(|| {
        handle(libc::SIGURG, count, 0);
        let (client, server) = tcp_pair();
        send(client, b"X", MSG_OOB).unwrap();
        await_events(server, POLLPRI);
        assert_eq!(counted(libc::SIGURG), 0, "there is no owner");
        receive(server, 1, MSG_OOB).unwrap();
        must(unsafe { libc::fcntl(server, libc::F_SETOWN, libc::getpid()) });
        send(client, b"Y", MSG_OOB).unwrap();
        await_events(server, POLLPRI);
        while counted(libc::SIGURG) == 0 {
            thread::yield_now();
        }
        assert_eq!(must(unsafe { libc::fcntl(server, libc::F_GETOWN) }) as u32, std::process::id());
    });
}

#[test]
fn a_socket_that_signals_tells_of_data() {
    networked(|| {
        handle(libc::SIGIO, count, 0);
        let (client, server) = tcp_pair();
        must(unsafe { libc::fcntl(server, libc::F_SETOWN, libc::getpid()) });
        let flags = must(unsafe { libc::fcntl(server, libc::F_GETFL) }) as i32;
        must(unsafe { libc::fcntl(server, libc::F_SETFL, flags | libc::O_ASYNC) });
        send(client, b"x", 0).unwrap();
        while counted(libc::SIGIO) == 0 {
            thread::yield_now();
        }
        assert_eq!(receive(server, 9, 0), Ok(b"x".to_vec()));
    });
}

#[test]
fn a_write_without_a_reader_signals_unless_it_is_told_not_to() {
    networked(|| {
        handle(libc::SIGPIPE, count, 0);
        let (client, _server) = tcp_pair();
        shut_down(client, SHUT_WR).unwrap();
        assert_eq!(send(client, b"x", libc::MSG_NOSIGNAL), Err(EPIPE));
        assert_eq!(counted(libc::SIGPIPE), 0);
        assert_eq!(send(client, b"x", 0), Err(EPIPE));
        assert_eq!(counted(libc::SIGPIPE), 1);
        assert_eq!(write(client, b"x"), Err(EPIPE));
        assert_eq!(counted(libc::SIGPIPE), 2);
        assert_eq!(send(client, b"", libc::MSG_NOSIGNAL), Err(EPIPE), "even nothing");
    });
}

#[test]
fn a_write_to_a_closed_peer_gets_a_reset_and_then_a_broken_pipe() {
    networked(|| {
        ignore(libc::SIGPIPE);
        let (client, server) = tcp_pair();
        close(server);
        await_events(client, POLLRDHUP);
        assert_eq!(send(client, b"x", 0), Ok(1), "the peer may still read");
        await_events(client, POLLHUP);
        assert_eq!(pending_error(client), EPIPE, "a reset after the peer's end");
        assert_eq!(send(client, b"x", 0), Err(EPIPE));
        assert_eq!(receive(client, 9, 0), Ok(vec![]));
        let (client, server) = tcp_pair();
        send(client, b"unread", 0).unwrap();
        await_events(server, POLLIN);
        close(server);
        await_events(client, POLLHUP);
        assert_eq!(send(client, b"x", 0), Err(ECONNRESET), "a reset without an end");
        assert_eq!(send(client, b"x", 0), Err(EPIPE));
    });
}

#[test]
fn flags_that_no_stream_knows_are_passed_over() {
    networked(|| {
        let (client, server) = tcp_pair();
        assert_eq!(send(client, b"x", libc::MSG_DONTROUTE | libc::MSG_CONFIRM), Ok(1));
        assert_eq!(send(client, b"y", 0x0100_0000 | libc::MSG_EOR), Ok(1));
        assert_eq!(receive_all(server, 2), b"xy");
        assert_eq!(receive(server, 9, libc::MSG_ERRQUEUE), Err(EAGAIN));
        assert_eq!(send(udp_pair().0, b"x", MSG_OOB), Err(EOPNOTSUPP));
        let bad = check(unsafe { libc::send(client, 8 as *const _, 4, 0) } as i64);
        assert_eq!(bad, Err(EFAULT));
    });
}
