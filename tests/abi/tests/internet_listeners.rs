//! Listeners of TCP: listen, accept and accept4, the queue of connections, and what a child has from its listener.
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
use libc::{EAGAIN, ECONNRESET, EFAULT, EINPROGRESS, EINVAL, ENOTCONN, EOPNOTSUPP, EPIPE};
use std::{net::SocketAddr, thread};

fn nonblocking_listener(backlog: i32) -> (i32, SocketAddr) {
    let (fd, at) = bound(SOCK_STREAM | SOCK_NONBLOCK, LOCAL);
    assert_eq!(listen(fd, backlog), Ok(0));
    (fd, at)
}

/// Starts a connection without waiting for it.
fn begin(to: SocketAddr) -> i32 {
    let fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
    assert_eq!(connect(fd, to), Err(EINPROGRESS));
    fd
}

/// Returns the lengths of a listener's queue and the most it takes, as TCP_INFO tells them.
fn queue(fd: i32) -> (u32, u32) {
    let bytes = option_bytes(fd, IPPROTO_TCP, libc::TCP_INFO, 104).unwrap();
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(bytes[0], 10, "TCP_LISTEN");
    (word(24), word(28))
}

#[test]
fn listen_without_a_name_chooses_a_port_of_all_addresses() {
    networked(|| {
        let fd = tcp();
        assert_eq!(listen(fd, 1), Ok(0));
        let at = name(fd).unwrap();
        assert_eq!(at.ip(), ANY.ip());
        assert_ne!(at.port(), 0);
        assert_eq!(number(fd, SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(1));
        assert_eq!(number(tcp(), SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
        assert_eq!(connect(tcp(), at_port(LOCAL, at.port())), Ok(0));
        let six = socket(AF_INET6, SOCK_STREAM);
        assert_eq!(listen(six, 1), Ok(0));
        assert_eq!(connect(tcp(), at_port(LOCAL, name(six).unwrap().port())), Ok(0));
    });
}

#[test]
fn only_an_unconnected_stream_listens() {
    networked(|| {
        assert_eq!(listen(udp(), 1), Err(EOPNOTSUPP));
        let raw = try_socket(AF_INET, SOCK_RAW, 200).unwrap();
        assert_eq!(listen(raw, 1), Err(EOPNOTSUPP));
        let (client, server) = tcp_pair();
        assert_eq!(listen(client, 1), Err(EINVAL));
        assert_eq!(listen(server, 1), Err(EINVAL));
    });
}

#[test]
fn only_a_listener_accepts() {
    networked(|| {
        assert_eq!(accept(udp()), Err(EOPNOTSUPP));
        assert_eq!(accept(tcp()), Err(EINVAL));
        let (client, _server) = tcp_pair();
        assert_eq!(accept(client), Err(EINVAL));
        let (fd, _) = nonblocking_listener(1);
        for flags in [1, libc::O_APPEND, SOCK_STREAM, -1] {
            assert_eq!(accept_from(fd, flags).err(), Some(EINVAL), "{flags}");
        }
        assert_eq!(accept(fd), Err(EAGAIN));
    });
}

#[test]
fn connections_are_accepted_in_their_order_with_their_names() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        let clients = [(); 8].map(|()| {
            let client = tcp();
            assert_eq!(connect(client, at), Ok(0));
            client
        });
        for client in clients {
            let (child, from) = accept_from(fd, 0).unwrap();
            assert_eq!(from, name(client).unwrap());
            assert_eq!((name(child), peer(child)), (Ok(at), Ok(from)));
            assert_eq!(peer(client), Ok(at));
        }
        assert_eq!(name(fd), Ok(at), "the listener keeps its name");
    });
}

#[test]
fn a_child_does_not_inherit_the_descriptors_flags() {
    networked(|| {
        let (fd, at) = nonblocking_listener(4);
        must(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) });
        for (flags, descriptor, status) in [
            (0, 0, 0),
            (SOCK_NONBLOCK, 0, libc::O_NONBLOCK),
            (libc::SOCK_CLOEXEC, libc::FD_CLOEXEC, 0),
        ] {
            assert_eq!(connect(tcp(), at), Ok(0));
            await_events(fd, POLLIN);
            let (child, _) = accept_from(fd, flags).unwrap();
            assert_eq!(must(unsafe { libc::fcntl(child, libc::F_GETFD) }), descriptor.into());
            let told = must(unsafe { libc::fcntl(child, libc::F_GETFL) }) as i32;
            assert_eq!(told, libc::O_RDWR | status);
        }
    });
}

#[test]
fn a_child_inherits_the_options_of_its_listener() {
    networked(|| {
        let settings = [
            (SOL_SOCKET, libc::SO_KEEPALIVE, 1),
            (SOL_SOCKET, libc::SO_REUSEADDR, 1),
            (SOL_SOCKET, libc::SO_OOBINLINE, 1),
            (SOL_SOCKET, libc::SO_RCVLOWAT, 3),
            (IPPROTO_TCP, libc::TCP_NODELAY, 1),
            (IPPROTO_TCP, libc::TCP_KEEPIDLE, 77),
            (IPPROTO_TCP, libc::TCP_KEEPINTVL, 7),
            (IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
            (IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 12345),
            (IPPROTO_TCP, libc::TCP_LINGER2, 9),
            (IPPROTO_IP, libc::IP_TTL, 33),
            (IPPROTO_IP, libc::IP_TOS, 0x10),
        ];
        let (fd, _) = bound(SOCK_STREAM, LOCAL);
        for (level, option, value) in settings {
            assert_eq!(set(fd, level, option, value), Ok(0), "{level} {option}");
        }
        let buffers = [libc::SO_RCVBUF, libc::SO_SNDBUF];
        for option in buffers {
            assert_eq!(set(fd, SOL_SOCKET, option, 30_000i32), Ok(0));
        }
        assert_eq!(set(fd, SOL_SOCKET, libc::SO_PRIORITY, 5i32), Ok(0));
        let linger = libc::linger { l_onoff: 1, l_linger: 4 };
        set(fd, SOL_SOCKET, libc::SO_LINGER, linger).unwrap();
        listen(fd, 4).unwrap();
        let (client, child) = connection_to(fd);
        for (level, option, value) in settings {
            assert_eq!(number(child, level, option), Ok(value), "{level} {option}");
            assert_ne!(number(client, level, option), Ok(value), "{level} {option}");
        }
        for option in buffers {
            assert_eq!(number(child, SOL_SOCKET, option), Ok(60_000));
        }
        assert_eq!(number(child, SOL_SOCKET, libc::SO_PRIORITY), Ok(0), "all but this");
        let told = option_bytes(child, SOL_SOCKET, libc::SO_LINGER, 8);
        assert_eq!(told.map(|bytes| (bytes[0], bytes[4])), Ok((1, 4)));
    });
}

#[test]
fn the_room_for_the_peers_name_may_be_short_or_absent() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        let clients = [(); 3].map(|()| {
            let client = tcp();
            assert_eq!(connect(client, at), Ok(0));
            client
        });
        let mut bytes = [0xaau8; 16];
        let place = bytes.as_mut_ptr().cast();
        let mut length = 4u32;
        must(unsafe { libc::accept(fd, place, &mut length) });
        let (raw, _) = to_raw(&name(clients[0]).unwrap());
        assert_eq!((length, &bytes[..4]), (16, &bytes_of(&raw, 16)[..4]));
        assert_eq!(bytes[4..], [0xaa; 12]);
        let (no_name, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
        must(unsafe { libc::accept(fd, no_name, no_length) });
        // The length is not looked at without a place for the name, and it is with one.
        let refused = check(unsafe { libc::accept(fd, place, no_length) });
        assert_eq!(refused, Err(EFAULT));
        set_nonblocking(fd);
        assert_eq!(accept(fd), Err(EAGAIN), "the connection was taken and is lost");
        await_events(clients[2], POLLIN);
        assert_eq!(receive(clients[2], 9, 0), Ok(vec![]), "it was closed");
    });
}

#[test]
fn the_queue_holds_one_more_than_the_backlog() {
    networked(|| {
        for backlog in [0, 1, 3] {
            let (fd, at) = nonblocking_listener(backlog);
            assert_eq!(queue(fd), (0, backlog as u32));
            for _ in 0..=backlog {
                assert_eq!(connect(tcp(), at), Ok(0));
            }
            assert_eq!(queue(fd), (backlog as u32 + 1, backlog as u32));
            let waits = begin(at);
            assert_eq!(polled(waits, POLLIN | POLLOUT), 0);
            assert_eq!(queue(fd).0, backlog as u32 + 1);
            // There is room again, and the next attempt of TCP gets it.
            accept(fd).unwrap();
            assert_eq!(await_events(waits, POLLOUT) & (POLLERR | POLLHUP), 0);
            assert_eq!(pending_error(waits), 0);
        }
    });
}

#[test]
fn the_backlog_is_cut_and_can_be_changed() {
    networked(|| {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let most: u32 = most.trim().parse().unwrap();
        let fd = tcp();
        for (asked, made) in
            [(5, 5), (0, 0), (i32::MAX, most), (-1, most), (i32::MIN, most), (2, 2)]
        {
            assert_eq!(listen(fd, asked), Ok(0));
            assert_eq!(queue(fd), (0, made), "{asked}");
        }
    });
}

#[test]
fn a_listener_can_be_read_when_a_connection_waits() {
    networked(|| {
        let (fd, at) = nonblocking_listener(4);
        assert_eq!(polled(fd, ALL_EVENTS), 0);
        let client = tcp();
        assert_eq!(connect(client, at), Ok(0));
        assert_eq!(await_events(fd, POLLIN), POLLIN | libc::POLLRDNORM);
        accept(fd).unwrap();
        assert_eq!(polled(fd, ALL_EVENTS), 0);
    });
}

#[test]
fn a_listener_has_no_bytes() {
    networked(|| {
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        let (fd, at) = listener(LOCAL);
        assert_eq!(receive(fd, 9, MSG_DONTWAIT), Err(ENOTCONN));
        assert_eq!(read(fd, 9), Err(ENOTCONN));
        assert_eq!(send(fd, b"x", 0), Err(EPIPE));
        for request in [FIONREAD, SIOCOUTQ] {
            assert_eq!(ask_number(fd, request), Err(EINVAL));
        }
        assert_eq!(connect(fd, at), Err(libc::EISCONN));
    });
}

#[test]
fn data_sent_before_the_accept_waits_in_the_child() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        let client = tcp();
        assert_eq!(connect(client, at), Ok(0));
        assert_eq!(send(client, b"early", 0), Ok(5));
        shut_down(client, SHUT_WR).unwrap();
        let child = accept(fd).unwrap();
        assert_eq!(receive_all(child, 9), b"early");
        assert_eq!(send(child, b"late", 0), Ok(4));
        assert_eq!(receive(client, 9, 0), Ok(b"late".to_vec()));
    });
}

#[test]
fn a_connection_that_was_reset_is_still_accepted() {
    networked(|| {
        let (fd, at) = nonblocking_listener(4);
        let client = tcp();
        assert_eq!(connect(client, at), Ok(0));
        await_events(fd, POLLIN);
        set(client, SOL_SOCKET, libc::SO_LINGER, libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
        close(client);
        let child = accept(fd).unwrap();
        await_events(child, POLLHUP);
        assert_eq!(receive(child, 9, 0), Err(ECONNRESET));
        assert_eq!(receive(child, 9, 0), Ok(vec![]));
        assert_eq!(peer(child), Err(ENOTCONN));
    });
}

#[test]
fn closing_a_listener_resets_the_connections_that_wait() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        let clients = [(); 3].map(|()| {
            let client = tcp();
            assert_eq!(connect(client, at), Ok(0));
            client
        });
        await_events(fd, POLLIN);
        close(fd);
        for client in clients {
            let events = await_events(client, POLLHUP);
            assert_eq!(events & (POLLERR | POLLHUP | POLLIN), POLLERR | POLLHUP | POLLIN);
            assert_eq!(receive(client, 9, 0), Err(ECONNRESET));
        }
        assert_eq!(connect(tcp(), at), Err(libc::ECONNREFUSED));
    });
}

#[test]
fn a_child_outlives_its_listener() {
    networked(|| {
        let (fd, _) = listener(LOCAL);
        let (client, child) = connection_to(fd);
        close(fd);
        assert_eq!(send(client, b"still", 0), Ok(5));
        assert_eq!(receive(child, 9, 0), Ok(b"still".to_vec()));
    });
}

#[test]
fn a_listener_that_is_shut_down_listens_no_longer() {
    networked(|| {
        let (fd, at) = bound_by_number(SOCK_STREAM);
        set_nonblocking(fd);
        assert_eq!(listen(fd, 4), Ok(0));
        let client = tcp();
        assert_eq!(connect(client, at), Ok(0));
        assert_eq!(shut_down(fd, SHUT_WR), Ok(0));
        assert_eq!(number(fd, SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(1), "that changes nothing");
        assert_eq!(shut_down(fd, SHUT_RD), Ok(0));
        assert_eq!(accept(fd), Err(EINVAL));
        assert_eq!(number(fd, SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
        assert_eq!(connect(tcp(), at), Err(libc::ECONNREFUSED));
        await_events(client, POLLHUP);
        assert_eq!(receive(client, 9, 0), Err(ECONNRESET));
        assert_eq!(listen(fd, 4), Ok(0), "it may listen again");
        assert_eq!(name(fd), Ok(at));
        assert_eq!(connect(tcp(), at), Ok(0));
        await_events(fd, POLLIN);
        accept(fd).unwrap();
    });
}

#[test]
fn a_port_that_bind_chose_is_lost_with_the_listening() {
    networked(|| {
        let (fd, at) = nonblocking_listener(4);
        assert_eq!(shut_down(fd, SHUT_RD), Ok(0));
        assert_eq!(bind(tcp(), at), Ok(0), "another one may have it");
        assert_eq!(listen(fd, 4), Ok(0));
        let next = name(fd).unwrap();
        assert_eq!(next.ip(), at.ip(), "the address stays");
        assert_ne!(next.port(), at.port());
        assert_eq!(connect(tcp(), next), Ok(0));
    });
}

#[test]
fn shutdown_wakes_an_accept() {
    networked(|| {
        let (fd, _) = listener(LOCAL);
        let sleeper = Sleeper::start(move || accept(fd));
        assert_eq!(shut_down(fd, SHUT_RDWR), Ok(0));
        assert_eq!(sleeper.answer(), Err(EINVAL));
    });
}

#[test]
fn a_connection_wakes_one_accept() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        let one = Sleeper::start(move || accept(fd));
        let other = Sleeper::start(move || accept(fd));
        let first = tcp();
        assert_eq!(connect(first, at), Ok(0));
        while !one.has_ended() && !other.has_ended() {
            thread::yield_now();
        }
        assert!(!(one.has_ended() && other.has_ended()), "one connection, one child");
        assert_eq!(connect(tcp(), at), Ok(0));
        let (one, other) = (one.answer().unwrap(), other.answer().unwrap());
        assert_ne!(peer(one), peer(other));
    });
}

#[test]
fn accept_is_interrupted_unless_it_is_restarted() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        handle(libc::SIGUSR1, nothing, 0);
        let sleeper = Sleeper::start(move || accept(fd));
        sleeper.interrupt(libc::SIGUSR1);
        assert_eq!(sleeper.answer(), Err(libc::EINTR));
        handle(libc::SIGUSR1, nothing, libc::SA_RESTART);
        let sleeper = Sleeper::start(move || accept(fd));
        sleeper.interrupt(libc::SIGUSR1);
        assert_eq!(connect(tcp(), at), Ok(0));
        assert!(sleeper.answer().is_ok());
        // With a timeout it is not restarted.
        let time = libc::timeval { tv_sec: 100, tv_usec: 0 };
        set(fd, SOL_SOCKET, libc::SO_RCVTIMEO, time).unwrap();
        let sleeper = Sleeper::start(move || accept(fd));
        sleeper.interrupt(libc::SIGUSR1);
        assert_eq!(sleeper.answer(), Err(libc::EINTR));
    });
}

#[test]
fn accept_ends_with_the_receive_timeout() {
    networked(|| {
        let (fd, _) = listener(LOCAL);
        let time = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
        set(fd, SOL_SOCKET, libc::SO_RCVTIMEO, time).unwrap();
        let before = clock_ns(libc::CLOCK_MONOTONIC);
        assert_eq!(accept(fd), Err(EAGAIN));
        assert!(clock_ns(libc::CLOCK_MONOTONIC) - before >= 10_000_000);
    });
}

#[test]
fn a_deferred_connection_is_accepted_with_its_data() {
    networked(|| {
        let (fd, at) = nonblocking_listener(4);
        assert_eq!(set(fd, IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 30i32), Ok(0));
        let client = tcp();
        assert_eq!(connect(client, at), Ok(0), "the client is connected");
        assert_eq!(accept(fd), Err(EAGAIN));
        assert_eq!(polled(fd, POLLIN), 0);
        assert_eq!(send(client, b"data", 0), Ok(4));
        await_events(fd, POLLIN);
        let child = accept(fd).unwrap();
        assert_eq!(receive(child, 9, MSG_DONTWAIT), Ok(b"data".to_vec()));
    });
}
