//! connect(2) of streams and datagram sockets: waiting or not, refusals, connections to itself, and the end of a connection
//! by AF_UNSPEC.
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
use libc::{
    EAFNOSUPPORT, EAGAIN, EALREADY, ECONNABORTED, ECONNREFUSED, ECONNRESET, EINPROGRESS, EINVAL,
    EISCONN, ENETUNREACH, ENOTCONN, EPIPE,
};
use std::net::SocketAddr;

fn nonblocking() -> i32 {
    socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK)
}

/// Returns an address that refuses: a stream that is bound there does not listen.
fn refusing() -> SocketAddr {
    bound(SOCK_STREAM, LOCAL).1
}

/// Returns a listener whose queue is full, so that it lets connections wait.
fn full_listener() -> (i32, SocketAddr) {
    let (fd, at) = bound(SOCK_STREAM, LOCAL);
    assert_eq!(listen(fd, 0), Ok(0));
    assert_eq!(connect(tcp(), at), Ok(0));
    await_events(fd, POLLIN);
    (fd, at)
}

fn connect_raw(fd: i32, bytes: &[u8], length: u32) -> Result<i64, i32> {
    check(unsafe { libc::connect(fd, bytes.as_ptr().cast(), length) })
}

#[test]
fn a_connection_has_the_same_names_at_both_ends() {
    networked(|| {
        for address in [LOCAL, LOCAL6] {
            let (client, server) = tcp_pair_over(address);
            assert_eq!(name(client), peer(server));
            assert_eq!(peer(client), name(server));
            assert_eq!(name(client).unwrap().ip(), address.ip());
            assert_eq!(connect(client, peer(client).unwrap()), Err(EISCONN));
            assert_eq!(connect(server, at_port(address, 9)), Err(EISCONN));
        }
    });
}

#[test]
fn the_length_and_the_family_of_the_peer_are_checked() {
    networked(|| {
        let (_, at) = listener(LOCAL);
        let four = padded(at);
        for length in [0, 1] {
            assert_eq!(connect_raw(tcp(), &four, length), Err(EINVAL));
        }
        for length in [2, 8, 15, 129, u32::MAX] {
            assert_eq!(connect_raw(tcp(), &four, length), Err(EINVAL), "{length}");
            assert_eq!(connect_raw(udp(), &four, length), Err(EINVAL), "{length}");
        }
        assert_eq!(connect_raw(tcp(), &four, 128), Ok(0));
        for kind in [SOCK_STREAM, SOCK_DGRAM] {
            assert_eq!(connect(socket(AF_INET, kind), LOCAL6), Err(EAFNOSUPPORT));
            let six = socket(AF_INET6, kind);
            assert_eq!(connect_raw(six, &padded(LOCAL6), 16), Err(EINVAL));
        }
        assert_eq!(connect_raw(socket(AF_INET6, SOCK_STREAM), &four, 28), Err(EAFNOSUPPORT));
        let nowhere = check(unsafe { libc::connect(tcp(), std::ptr::null(), 16) });
        assert_eq!(nowhere, Err(libc::EFAULT));
    });
}

#[test]
fn a_datagram_socket_of_ipv6_may_be_told_an_address_of_ipv4() {
    networked(|| {
        let (to, at) = bound(SOCK_DGRAM, LOCAL);
        let six = socket(AF_INET6, SOCK_DGRAM);
        assert_eq!(connect_raw(six, &padded(at), 16), Ok(0));
        assert_eq!(send(six, b"x", 0), Ok(1));
        assert_eq!(receive(to, 9, 0), Ok(b"x".to_vec()));
        let SocketAddr::V6(told) = peer(six).unwrap() else { panic!("family") };
        assert_eq!(
            told.ip().to_ipv4_mapped().map(|ip| (ip.into(), told.port())),
            Some((at.ip(), at.port()))
        );
    });
}

#[test]
fn a_connection_that_does_not_wait_is_in_progress_and_then_there() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        let client = nonblocking();
        assert_eq!(connect(client, at), Err(EINPROGRESS));
        await_events(client, POLLOUT);
        assert_eq!(pending_error(client), 0);
        assert_eq!(peer(client), Ok(at));
        assert_eq!(connect(client, at), Ok(0), "the first call tells the success");
        assert_eq!(connect(client, at), Err(EISCONN), "the next one that it is connected");
        accept(fd).unwrap();
    });
}

#[test]
fn a_second_connect_says_that_the_first_is_under_way() {
    networked(|| {
        let (listener, at) = full_listener();
        let client = nonblocking();
        assert_eq!(connect(client, at), Err(EINPROGRESS));
        assert_eq!(connect(client, at), Err(EALREADY));
        assert_eq!(connect(client, LOCAL6), Err(EALREADY), "the address is not looked at");
        assert_eq!(peer(client), Err(ENOTCONN));
        assert_ne!(name(client).unwrap().port(), 0);
        assert_eq!(polled(client, ALL_EVENTS), 0);
        assert_eq!(receive(client, 1, 0), Err(EAGAIN));
        assert_eq!(send(client, b"x", libc::MSG_NOSIGNAL), Err(EAGAIN));
        assert_eq!(shut_down(client, 3), Err(EINVAL));
        accept(listener).unwrap();
        await_events(client, POLLOUT);
        assert_eq!(connect(client, at), Ok(0));
    });
}

#[test]
fn shutdown_ends_a_connection_under_way() {
    networked(|| {
        let (_, at) = full_listener();
        let client = nonblocking();
        assert_eq!(connect(client, at), Err(EINPROGRESS));
        assert_eq!(shut_down(client, SHUT_WR), Ok(0));
        assert_eq!(polled(client, POLLHUP) & POLLHUP, POLLHUP);
        assert_eq!(shut_down(client, SHUT_WR), Err(ENOTCONN));
    });
}

#[test]
fn a_refusal_is_told_once() {
    networked(|| {
        let client = tcp();
        assert_eq!(connect(client, refusing()), Err(ECONNREFUSED));
        assert_eq!(pending_error(client), 0, "the call told it");
        let (_, at) = listener(LOCAL);
        assert_eq!(connect(client, at), Ok(0), "the socket can be used again");
    });
}

#[test]
fn a_refusal_without_waiting_is_an_event() {
    networked(|| {
        let client = nonblocking();
        let at = refusing();
        assert_eq!(connect(client, at), Err(EINPROGRESS));
        let events = await_events(client, POLLHUP);
        let wanted = POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP;
        assert_eq!(events & wanted, wanted);
        assert_eq!(pending_error(client), ECONNREFUSED);
        assert_eq!(pending_error(client), 0, "it is cleared");
        assert_eq!(polled(client, ALL_EVENTS) & (wanted | POLLERR), wanted & !POLLERR);
        assert_eq!(connect(client, at), Err(ECONNABORTED), "the reason was taken");
        assert_eq!(connect(client, at), Err(EINPROGRESS), "and this begins anew");
    });
}

#[test]
fn a_refusal_without_waiting_is_told_by_the_next_connect() {
    networked(|| {
        let client = nonblocking();
        let at = refusing();
        assert_eq!(connect(client, at), Err(EINPROGRESS));
        await_events(client, POLLHUP);
        assert_eq!(connect(client, at), Err(ECONNREFUSED));
        assert_eq!(pending_error(client), 0);
        let (_, good) = listener(LOCAL);
        assert_eq!(connect(client, good), Err(EINPROGRESS));
        await_events(client, POLLOUT);
        assert_eq!(peer(client), Ok(good));
    });
}

#[test]
fn a_refusal_without_waiting_is_told_by_a_read() {
    networked(|| {
        let client = nonblocking();
        assert_eq!(connect(client, refusing()), Err(EINPROGRESS));
        await_events(client, POLLHUP);
        assert_eq!(receive(client, 9, 0), Err(ECONNREFUSED));
        assert_eq!(receive(client, 9, 0), Ok(vec![]));
        assert_eq!(send(client, b"x", libc::MSG_NOSIGNAL), Err(EPIPE));
    });
}

#[test]
fn a_socket_can_connect_to_itself() {
    networked(|| {
        for address in [LOCAL, LOCAL6] {
            let (fd, at) = bound(SOCK_STREAM, address);
            assert_eq!(connect(fd, at), Ok(0));
            assert_eq!((name(fd), peer(fd)), (Ok(at), Ok(at)));
            assert_eq!(send(fd, b"to me", 0), Ok(5));
            assert_eq!(receive(fd, 9, 0), Ok(b"to me".to_vec()));
            assert_eq!(shut_down(fd, SHUT_WR), Ok(0));
            assert_eq!(receive(fd, 9, 0), Ok(vec![]));
        }
    });
}

#[test]
fn the_address_of_all_is_loopback_for_a_peer() {
    networked(|| {
        let (_, at) = listener(ANY);
        let client = tcp();
        assert_eq!(connect(client, at_port(ANY, at.port())), Ok(0));
        assert_eq!(peer(client), Ok(at_port(LOCAL, at.port())));
        let (_, at) = listener(ANY6);
        let client = socket(AF_INET6, SOCK_STREAM);
        assert_eq!(connect(client, at_port(ANY6, at.port())), Ok(0));
        assert_eq!(peer(client), Ok(at_port(LOCAL6, at.port())));
        let (to, at) = bound(SOCK_DGRAM, LOCAL);
        assert_eq!(send_to(udp(), b"x", at_port(ANY, at.port())), Ok(1));
        assert_eq!(receive(to, 9, 0), Ok(b"x".to_vec()));
    });
}

#[test]
fn a_network_without_a_route_cannot_be_reached() {
    networked(|| {
        if std::fs::read_to_string("/proc/net/route").unwrap().lines().count() > 1 {
            return assert_ne!(unsafe { libc::geteuid() }, 0, "root has a namespace");
        }
        assert_eq!(connect(tcp(), FOREIGN), Err(ENETUNREACH));
        assert_eq!(connect(udp(), FOREIGN), Err(ENETUNREACH));
        assert_eq!(send_to(udp(), b"x", FOREIGN), Err(ENETUNREACH));
        let foreign6: SocketAddr = "[2001:db8::1]:9".parse().unwrap();
        assert_eq!(connect(socket(AF_INET6, SOCK_STREAM), foreign6), Err(ENETUNREACH));
        assert_eq!(connect(socket(AF_INET6, SOCK_DGRAM), foreign6), Err(ENETUNREACH));
        assert_eq!(connect(tcp(), v4([224, 0, 0, 1], 9)), Err(ENETUNREACH));
        assert_eq!(connect(tcp(), v4([127, 255, 255, 255], 9)), Err(ENETUNREACH), "broadcast");
    });
}

#[test]
fn no_family_dissolves_a_connection() {
    networked(|| {
        let (client, server) = tcp_pair();
        let chosen = name(client).unwrap();
        assert_eq!(disconnect(client), Ok(0));
        assert_eq!(peer(client), Err(ENOTCONN));
        await_events(server, POLLHUP);
        assert_eq!(receive(server, 9, 0), Err(ECONNRESET));
        // Linux still shows the number of the port.
        assert_eq!(name(client).unwrap().ip(), ANY.ip(), "a name that connect chose is gone");
        assert_eq!(bind(tcp(), chosen), Ok(0), "so is its port");
        let (_, at) = listener(LOCAL);
        assert_eq!(connect(client, at), Ok(0));
        let (client, own) = bound_by_number(SOCK_STREAM);
        assert_eq!(connect(client, at), Ok(0));
        assert_eq!(disconnect(client), Ok(0));
        assert_eq!(name(client), Ok(own), "a name that was asked for stays");
        assert_eq!(bind(tcp(), own), Err(libc::EADDRINUSE));
        assert_eq!(disconnect(tcp()), Ok(0), "one that never was");
    });
}

#[test]
fn no_family_makes_a_listener_a_socket_again() {
    networked(|| {
        let (fd, at) = bound_by_number(SOCK_STREAM);
        assert_eq!(listen(fd, 1), Ok(0));
        assert_eq!(disconnect(fd), Ok(0));
        assert_eq!(number(fd, SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
        assert_eq!(connect(tcp(), at), Err(ECONNREFUSED));
        let (_, other) = listener(LOCAL);
        assert_eq!(connect(fd, other), Ok(0));
        assert_eq!(name(fd), Ok(at));
    });
}

#[test]
fn a_datagram_socket_hears_only_its_peer() {
    networked(|| {
        let ((fd, at), (friend, friend_name)) =
            (bound(SOCK_DGRAM | SOCK_NONBLOCK, LOCAL), bound(SOCK_DGRAM, LOCAL));
        let (stranger, _) = bound(SOCK_DGRAM, LOCAL);
        assert_eq!(send_to(stranger, b"before", at), Ok(6));
        assert_eq!(connect(fd, friend_name), Ok(0));
        assert_eq!(send_to(friend, b"friend", at), Ok(6));
        assert_eq!(send_to(stranger, b"after", at), Ok(5));
        assert_eq!(receive(fd, 9, 0), Ok(b"before".to_vec()), "it was there already");
        assert_eq!(receive(fd, 9, 0), Ok(b"friend".to_vec()));
        assert_eq!(receive(fd, 9, 0), Err(EAGAIN));
        assert_eq!(connect(fd, name(stranger).unwrap()), Ok(0), "another peer");
        assert_eq!(send_to(stranger, b"now", at), Ok(3));
        assert_eq!(receive(fd, 9, 0), Ok(b"now".to_vec()));
    });
}

#[test]
fn a_connected_datagram_socket_sends_elsewhere_too() {
    networked(|| {
        let ((one, one_name), (other, other_name)) =
            (bound(SOCK_DGRAM, LOCAL), bound(SOCK_DGRAM, LOCAL));
        let fd = udp();
        assert_eq!(send(fd, b"x", 0), Err(libc::EDESTADDRREQ));
        assert_eq!(connect(fd, one_name), Ok(0));
        assert_eq!(send(fd, b"one", 0), Ok(3));
        assert_eq!(send_to(fd, b"other", other_name), Ok(5));
        assert_eq!(receive_from(one, 9, 0), Ok((b"one".to_vec(), name(fd).unwrap())));
        assert_eq!(receive_from(other, 9, 0), Ok((b"other".to_vec(), name(fd).unwrap())));
    });
}

#[test]
fn a_datagram_socket_without_its_peer_loses_the_name_that_it_got() {
    networked(|| {
        let (_, to) = bound(SOCK_DGRAM, LOCAL);
        let fd = udp();
        assert_eq!(connect(fd, to), Ok(0));
        let chosen = name(fd).unwrap();
        assert_eq!(chosen.ip(), LOCAL.ip());
        assert_eq!(disconnect(fd), Ok(0));
        assert_eq!((name(fd), peer(fd)), (Ok(ANY), Err(ENOTCONN)));
        assert_eq!(bind(fd, chosen), Ok(0), "the port is free again");
        let (fd, own) = bound(SOCK_DGRAM, LOCAL);
        assert_eq!((connect(fd, to), disconnect(fd)), (Ok(0), Ok(0)));
        assert_eq!(name(fd), Ok(LOCAL), "the address that was bound stays, not a chosen port");
        assert_eq!(bind(udp(), own), Ok(0));
        let (fd, own) = bound_by_number(SOCK_DGRAM);
        assert_eq!((connect(fd, to), disconnect(fd)), (Ok(0), Ok(0)));
        assert_eq!(name(fd), Ok(own), "a port that was asked for stays");
        let fd = udp();
        assert_eq!(bind(fd, at_port(ANY, closed_port(SOCK_DGRAM).port())), Ok(0));
        let any = name(fd).unwrap();
        assert_eq!(connect(fd, to), Ok(0));
        assert_eq!(name(fd), Ok(at_port(LOCAL, any.port())));
        assert_eq!(disconnect(fd), Ok(0));
        assert_eq!(name(fd), Ok(any));
    });
}

#[test]
fn a_connected_datagram_socket_hears_that_its_peer_is_gone() {
    networked(|| {
        for address in [LOCAL, LOCAL6] {
            let (fd, other) = udp_pair_over(address);
            close(other);
            assert_eq!(send(fd, b"x", 0), Ok(1));
            assert_eq!(await_events(fd, POLLERR) & (POLLERR | POLLHUP), POLLERR);
            assert_eq!(pending_error(fd), ECONNREFUSED);
            assert_eq!(pending_error(fd), 0);
            assert_eq!(polled(fd, POLLERR), 0);
            assert_eq!(send(fd, b"x", 0), Ok(1));
            await_events(fd, POLLERR);
            assert_eq!(send(fd, b"x", 0), Err(ECONNREFUSED), "a send tells it and sends nothing");
            assert_eq!(send(fd, b"x", 0), Ok(1));
            await_events(fd, POLLERR);
            assert_eq!(receive(fd, 9, 0), Err(ECONNREFUSED));
            assert_eq!(receive(fd, 9, MSG_DONTWAIT), Err(EAGAIN));
        }
    });
}

#[test]
fn an_unconnected_datagram_socket_does_not_hear_of_it() {
    networked(|| {
        let (fd, _) = bound(SOCK_DGRAM, LOCAL);
        let gone = closed_port(SOCK_DGRAM);
        for _ in 0..3 {
            assert_eq!(send_to(fd, b"x", gone), Ok(1));
        }
        assert_eq!(pending_error(fd), 0);
        assert_eq!(receive(fd, 9, MSG_DONTWAIT), Err(EAGAIN));
        assert_eq!(send_to(fd, b"x", at_port(LOCAL, 0)), Err(EINVAL), "port 0 is none");
    });
}

#[test]
fn a_stream_without_a_peer_says_so() {
    networked(|| {
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        for fd in [tcp(), bound(SOCK_STREAM, LOCAL).0] {
            assert_eq!(send(fd, b"x", 0), Err(EPIPE));
            assert_eq!(receive(fd, 9, 0), Err(ENOTCONN));
            assert_eq!(shut_down(fd, SHUT_RDWR), Err(ENOTCONN));
            assert_eq!(peer(fd), Err(ENOTCONN));
            assert_eq!(polled(fd, ALL_EVENTS) & (POLLOUT | POLLHUP), POLLOUT | POLLHUP);
        }
    });
}

#[test]
fn an_address_beside_the_bytes_of_a_connected_stream_is_not_looked_at() {
    networked(|| {
        let (client, server) = tcp_pair();
        assert_eq!(send_to(client, b"x", FOREIGN), Ok(1));
        assert_eq!(send_to(client, b"y", LOCAL6), Ok(1));
        assert_eq!(receive_all(server, 2), b"xy");
        let mut length = 16u32;
        let mut bytes = [0u8; 16];
        let mut address = [0xaau8; 16];
        send(client, b"z", 0).unwrap();
        let (into, from) = (bytes.as_mut_ptr().cast(), address.as_mut_ptr().cast());
        must(unsafe { libc::recvfrom(server, into, 9, 0, from, &mut length) } as i64);
        assert_eq!((length, address), (0, [0xaa; 16]), "a stream names no sender");
    });
}

#[test]
fn connect_ends_with_the_send_timeout() {
    networked(|| {
        let (_, at) = full_listener();
        let client = tcp();
        let time = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
        set(client, SOL_SOCKET, libc::SO_SNDTIMEO, time).unwrap();
        assert_eq!(connect(client, at), Err(EINPROGRESS));
        set_nonblocking(client);
        assert_eq!(connect(client, at), Err(EALREADY), "it goes on");
    });
}

#[test]
fn an_interrupted_connect_goes_on() {
    networked(|| {
        let (listener, at) = full_listener();
        handle(libc::SIGUSR1, nothing, 0);
        let client = tcp();
        let sleeper = Sleeper::start(move || connect(client, at));
        sleeper.interrupt(libc::SIGUSR1);
        assert_eq!(sleeper.answer(), Err(libc::EINTR));
        accept(listener).unwrap();
        await_events(client, POLLOUT);
        assert_eq!(pending_error(client), 0);
        assert_eq!(accept_from(listener, 0).unwrap().1, name(client).unwrap());
    });
}
