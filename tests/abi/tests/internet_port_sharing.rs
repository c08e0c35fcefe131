//! Ports that several sockets want: EADDRINUSE, SO_REUSEADDR and SO_REUSEPORT for TCP and UDP, and TIME_WAIT.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, seteuid},
    internet::*,
    *,
};
use libc::{EADDRINUSE, SO_REUSEADDR, SO_REUSEPORT};
use std::net::SocketAddr;

/// No option, SO_REUSEADDR, SO_REUSEPORT, both.
const CHOICES: [&[i32]; 4] = [&[], &[SO_REUSEADDR], &[SO_REUSEPORT], &[SO_REUSEADDR, SO_REUSEPORT]];

/// Makes a socket with these options of SOL_SOCKET.
fn with(family: i32, kind: i32, options: &[i32]) -> i32 {
    let fd = socket(family, kind);
    options.iter().for_each(|option| switch_on(fd, SOL_SOCKET, *option));
    fd
}

/// Returns for each pair of choices whether the second socket may have the first one's port.
fn table(kind: i32, first: SocketAddr, second: SocketAddr, listens: bool) -> [[bool; 4]; 4] {
    let family = |address: SocketAddr| if address.is_ipv4() { AF_INET } else { AF_INET6 };
    CHOICES.map(|options| {
        CHOICES.map(|others| {
            let one = with(family(first), kind, options);
            assert_eq!(bind(one, first), Ok(0));
            if listens {
                assert_eq!(listen(one, 1), Ok(0));
            }
            let other = with(family(second), kind, others);
            let answer = bind(other, at_port(second, name(one).unwrap().port()));
            close(one);
            close(other);
            assert!(matches!(answer, Ok(0) | Err(EADDRINUSE)), "{answer:?}");
            answer.is_ok()
        })
    })
}

const ALL: [[bool; 4]; 4] = [[true; 4]; 4];
/// Both sockets have an option in common.
const COMMON: [[bool; 4]; 4] = [
    [false, false, false, false],
    [false, true, false, true],
    [false, false, true, true],
    [false, true, true, true],
];
/// Both sockets have SO_REUSEPORT.
const BOTH_PORT: [[bool; 4]; 4] = [
    [false, false, false, false],
    [false, false, false, false],
    [false, false, true, true],
    [false, false, true, true],
];

#[test]
fn streams_that_do_not_listen_share_by_an_option_of_both() {
    networked(|| {
        assert_eq!(table(SOCK_STREAM, LOCAL, LOCAL, false), COMMON);
        assert_eq!(table(SOCK_STREAM, LOCAL6, LOCAL6, false), COMMON);
        assert_eq!(table(SOCK_STREAM, ANY, LOCAL, false), COMMON);
        assert_eq!(table(SOCK_STREAM, LOCAL, ANY, false), COMMON);
    });
}

#[test]
fn a_listener_shares_by_reuseport_alone() {
    networked(|| {
        assert_eq!(table(SOCK_STREAM, LOCAL, LOCAL, true), BOTH_PORT);
        assert_eq!(table(SOCK_STREAM, LOCAL6, LOCAL6, true), BOTH_PORT);
        assert_eq!(table(SOCK_STREAM, ANY, LOCAL, true), BOTH_PORT);
        assert_eq!(table(SOCK_STREAM, LOCAL, ANY, true), BOTH_PORT);
    });
}

#[test]
fn datagram_sockets_share_by_an_option_of_both() {
    networked(|| {
        assert_eq!(table(SOCK_DGRAM, LOCAL, LOCAL, false), COMMON);
        assert_eq!(table(SOCK_DGRAM, LOCAL6, LOCAL6, false), COMMON);
        assert_eq!(table(SOCK_DGRAM, ANY, LOCAL, false), COMMON);
        assert_eq!(table(SOCK_DGRAM, LOCAL, ANY, false), COMMON);
    });
}

#[test]
fn different_addresses_do_not_conflict() {
    networked(|| {
        let other = v4([127, 0, 0, 2], 0);
        assert_eq!(table(SOCK_STREAM, LOCAL, other, true), ALL);
        assert_eq!(table(SOCK_DGRAM, LOCAL, other, false), ALL);
        assert_eq!(table(SOCK_STREAM, LOCAL, LOCAL6, true), ALL);
        assert_eq!(table(SOCK_DGRAM, LOCAL6, LOCAL, false), ALL);
    });
}

#[test]
fn all_of_ipv6_conflicts_with_ipv4_unless_it_is_ipv6_only() {
    networked(|| {
        for (kind, listens, shared) in [(SOCK_STREAM, true, BOTH_PORT), (SOCK_DGRAM, false, COMMON)]
        {
            assert_eq!(table(kind, ANY6, ANY, listens), shared);
            assert_eq!(table(kind, LOCAL, ANY6, listens), shared);
            let six = socket(AF_INET6, kind);
            switch_on(six, IPPROTO_IPV6, libc::IPV6_V6ONLY);
            assert_eq!(bind(six, ANY6), Ok(0));
            let port = name(six).unwrap().port();
            assert_eq!(bind(socket(AF_INET, kind), at_port(ANY, port)), Ok(0));
        }
    });
}

#[test]
fn tcp_and_udp_have_ports_of_their_own() {
    networked(|| {
        let (_, at) = listener(ANY);
        assert_eq!(bind(udp(), at), Ok(0));
    });
}

#[test]
fn of_those_that_share_only_one_listens_without_reuseport() {
    networked(|| {
        let one = with(AF_INET, SOCK_STREAM, &[SO_REUSEADDR]);
        assert_eq!(bind(one, LOCAL), Ok(0));
        let at = name(one).unwrap();
        let other = with(AF_INET, SOCK_STREAM, &[SO_REUSEADDR]);
        assert_eq!(bind(other, at), Ok(0));
        assert_eq!(listen(one, 1), Ok(0));
        assert_eq!(listen(other, 1), Err(EADDRINUSE));
        close(one);
        assert_eq!(listen(other, 1), Ok(0));
    });
}

#[test]
fn reuseport_is_for_sockets_of_one_user() {
    networked(|| {
        for kind in [SOCK_STREAM, SOCK_DGRAM] {
            let one = with(AF_INET, kind, &[SO_REUSEPORT]);
            assert_eq!(bind(one, LOCAL), Ok(0));
            let at = name(one).unwrap();
            seteuid(NOBODY).unwrap();
            let other = with(AF_INET, kind, &[SO_REUSEPORT]);
            seteuid(0).unwrap();
            assert_eq!(bind(other, at), Err(EADDRINUSE), "it belongs to the one that made it");
            let third = with(AF_INET, kind, &[SO_REUSEPORT]);
            assert_eq!(bind(third, at), Ok(0));
        }
    });
}

#[test]
fn listeners_of_one_port_get_each_connection_once() {
    networked(|| {
        const CLIENTS: usize = 40;
        let mut at = LOCAL;
        let listeners = [(); 4].map(|()| {
            let fd = with(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, &[SO_REUSEPORT]);
            assert_eq!((bind(fd, at), listen(fd, CLIENTS as i32)), (Ok(0), Ok(0)));
            at = name(fd).unwrap();
            fd
        });
        let mut clients: Vec<SocketAddr> = Vec::new();
        for _ in 0..CLIENTS {
            let fd = tcp();
            assert_eq!(connect(fd, at), Ok(0));
            clients.push(name(fd).unwrap());
        }
        let mut accepted = Vec::new();
        let mut served = 0;
        while accepted.len() < CLIENTS {
            let mut entries = listeners.map(|fd| libc::pollfd { fd, events: POLLIN, revents: 0 });
            must(unsafe { libc::poll(entries.as_mut_ptr(), 4, -1) });
            for entry in entries.iter().filter(|entry| entry.revents != 0) {
                let before = accepted.len();
                while let Ok((child, from)) = accept_from(entry.fd, 0) {
                    accepted.push(from);
                    close(child);
                }
                served += usize::from(accepted.len() > before);
            }
        }
        assert!(served > 1, "more than one listener served");
        clients.sort_unstable();
        accepted.sort_unstable();
        assert_eq!(accepted, clients);
    });
}

#[test]
fn datagrams_of_one_sender_go_to_one_socket_of_the_port() {
    networked(|| {
        let mut at = LOCAL;
        let sockets = [(); 4].map(|()| {
            let fd = with(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, &[SO_REUSEPORT]);
            assert_eq!(bind(fd, at), Ok(0));
            at = name(fd).unwrap();
            fd
        });
        let mut receivers = Vec::new();
        for _ in 0..30 {
            let sender = udp();
            for _ in 0..3 {
                assert_eq!(send_to(sender, b"x", at), Ok(1));
            }
            let got = sockets.map(|fd| std::iter::from_fn(|| receive(fd, 9, 0).ok()).count());
            let receiver = got.iter().position(|count| *count == 3);
            assert_eq!(got.iter().sum::<usize>(), 3, "{got:?}");
            receivers.push(receiver.expect("one of them got all"));
        }
        receivers.sort_unstable();
        receivers.dedup();
        assert!(receivers.len() > 1, "different senders, different sockets");
    });
}

#[test]
fn of_datagram_sockets_with_reuseaddr_the_last_one_gets_all() {
    networked(|| {
        let one = with(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, &[SO_REUSEADDR]);
        assert_eq!(bind(one, LOCAL), Ok(0));
        let at = name(one).unwrap();
        let other = with(AF_INET, SOCK_DGRAM, &[SO_REUSEADDR]);
        assert_eq!(bind(other, at), Ok(0));
        assert_eq!(send_to(udp(), b"x", at), Ok(1));
        assert_eq!(receive(other, 9, 0), Ok(b"x".to_vec()));
        assert_eq!(receive(one, 9, 0), Err(libc::EAGAIN));
        close(other);
        assert_eq!(send_to(udp(), b"y", at), Ok(1));
        assert_eq!(receive(one, 9, 0), Ok(b"y".to_vec()));
    });
}

#[test]
fn the_most_exact_name_gets_a_datagram() {
    networked(|| {
        let any = with(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, &[SO_REUSEADDR]);
        assert_eq!(bind(any, ANY), Ok(0));
        let port = name(any).unwrap().port();
        let exact = with(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, &[SO_REUSEADDR]);
        assert_eq!(bind(exact, at_port(LOCAL, port)), Ok(0));
        let connected = with(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, &[SO_REUSEADDR]);
        assert_eq!(bind(connected, at_port(LOCAL, port)), Ok(0));
        let (friend, friend_name) = bound(SOCK_DGRAM, LOCAL);
        assert_eq!(connect(connected, friend_name), Ok(0));
        assert_eq!(send_to(friend, b"friend", at_port(LOCAL, port)), Ok(6));
        assert_eq!(send_to(udp(), b"local", at_port(LOCAL, port)), Ok(5));
        assert_eq!(send_to(udp(), b"other", v4([127, 0, 0, 2], port)), Ok(5));
        assert_eq!(receive(connected, 9, 0), Ok(b"friend".to_vec()));
        assert_eq!(receive(exact, 9, 0), Ok(b"local".to_vec()));
        assert_eq!(receive(any, 9, 0), Ok(b"other".to_vec()));
        for fd in [any, exact, connected] {
            assert_eq!(receive(fd, 9, 0), Err(libc::EAGAIN));
        }
    });
}

#[test]
fn the_most_exact_listener_gets_a_connection() {
    networked(|| {
        let any = with(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, &[SO_REUSEPORT]);
        assert_eq!((bind(any, ANY), listen(any, 5)), (Ok(0), Ok(0)));
        let port = name(any).unwrap().port();
        let exact = with(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, &[SO_REUSEPORT]);
        assert_eq!((bind(exact, at_port(LOCAL, port)), listen(exact, 5)), (Ok(0), Ok(0)));
        let client = tcp();
        assert_eq!(connect(client, at_port(LOCAL, port)), Ok(0));
        await_events(exact, POLLIN);
        assert_eq!(accept_from(exact, 0).unwrap().1, name(client).unwrap());
        let client = tcp();
        assert_eq!(connect(client, v4([127, 0, 0, 2], port)), Ok(0));
        await_events(any, POLLIN);
        assert_eq!(accept_from(any, 0).unwrap().1, name(client).unwrap());
    });
}

#[test]
fn a_connection_holds_its_listeners_port_against_a_bind_without_reuseaddr() {
    networked(|| {
        let listener = with(AF_INET, SOCK_STREAM, &[SO_REUSEADDR]);
        assert_eq!((bind(listener, LOCAL), listen(listener, 1)), (Ok(0), Ok(0)));
        let at = name(listener).unwrap();
        let (_client, _server) = connection_to(listener);
        close(listener);
        assert_eq!(bind(tcp(), at), Err(EADDRINUSE));
        let next = with(AF_INET, SOCK_STREAM, &[SO_REUSEADDR]);
        assert_eq!((bind(next, at), listen(next, 1)), (Ok(0), Ok(0)));
    });
}

#[test]
fn the_side_that_closes_first_keeps_the_port_in_time_wait() {
    networked(|| {
        for (options, next_may) in [(&[][..], false), (&[SO_REUSEADDR][..], true)] {
            let listener = with(AF_INET, SOCK_STREAM, options);
            assert_eq!((bind(listener, LOCAL), listen(listener, 1)), (Ok(0), Ok(0)));
            let at = name(listener).unwrap();
            let (client, server) = connection_to(listener);
            close(listener);
            close(server);
            await_events(client, POLLIN);
            assert_eq!(receive(client, 9, 0), Ok(vec![]));
            close(client);
            assert_eq!(bind(tcp(), at), Err(EADDRINUSE));
            let next = with(AF_INET, SOCK_STREAM, &[SO_REUSEADDR]);
            // The socket that is gone must have had the option as well.
            assert_eq!(bind(next, at).is_ok(), next_may);
            if next_may {
                assert_eq!(listen(next, 1), Ok(0));
                connection_to(next);
            }
        }
    });
}

#[test]
fn the_other_side_keeps_nothing() {
    networked(|| {
        let (listener, at) = listener(LOCAL);
        let (client, server) = connection_to(listener);
        close(listener);
        close(client);
        await_events(server, POLLIN);
        close(server);
        assert_eq!(bind(tcp(), at), Ok(0));
    });
}
