//! Names of Internet sockets: bind, getsockname and getpeername over IPv4 and IPv6, and the ports that they give.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{internet::*, ipc::Setting, *};
use libc::{EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EFAULT, EINVAL, ENOTCONN};
use std::net::{Ipv6Addr, SocketAddr};

const KINDS: [i32; 2] = [SOCK_STREAM, SOCK_DGRAM];

/// Binds with these bytes and this length.
fn bind_raw(fd: i32, bytes: &[u8], length: u32) -> Result<i64, i32> {
    check(unsafe { libc::bind(fd, bytes.as_ptr().cast(), length) })
}

fn mapped(address: SocketAddr) -> SocketAddr {
    let SocketAddr::V4(four) = address else { panic!("{address}") };
    SocketAddr::new(four.ip().to_ipv6_mapped().into(), four.port())
}

#[test]
fn a_new_socket_has_no_name_and_no_peer() {
    networked(|| {
        for kind in KINDS {
            assert_eq!(name(socket(AF_INET, kind)), Ok(ANY));
            assert_eq!(name(socket(AF_INET6, kind)), Ok(ANY6));
            assert_eq!(peer(socket(AF_INET, kind)), Err(ENOTCONN));
            assert_eq!(peer(socket(AF_INET6, kind)), Err(ENOTCONN));
        }
        let (listener, _) = listener(LOCAL);
        assert_eq!(peer(listener), Err(ENOTCONN));
    });
}

#[test]
fn port_0_chooses_a_port_of_the_ephemeral_range() {
    networked(|| {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let range: Vec<u16> = range.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let mut ports = Vec::new();
        for kind in KINDS {
            for address in [LOCAL, LOCAL6, ANY, ANY6] {
                let (_, name) = bound(kind, address);
                assert_eq!(name.ip(), address.ip());
                assert!((range[0]..=range[1]).contains(&name.port()), "{name} in {range:?}");
                ports.push(name.port());
            }
        }
        ports.dedup();
        assert!(ports.len() > 1, "not always the same: {ports:?}");
    });
}

#[test]
fn the_ephemeral_range_can_be_set_and_used_up() {
    networked(|| {
        let Some(range) = Setting::set("net/ipv4/ip_local_port_range", "40000 40003") else {
            return assert_ne!(unsafe { libc::geteuid() }, 0);
        };
        for kind in KINDS {
            let mut ports: Vec<u16> = (0..4).map(|_| bound(kind, LOCAL).1.port()).collect();
            ports.sort_unstable();
            assert_eq!(ports, [40000, 40001, 40002, 40003]);
            assert_eq!(bind(socket(AF_INET, kind), LOCAL), Err(EADDRINUSE));
        }
        // The fourth choice of a UDP socket happens at connect or at the first message.
        assert_eq!(send_to(udp(), b"x", at_port(LOCAL, 9)), Err(libc::EAGAIN));
        assert_eq!(connect(udp(), at_port(LOCAL, 9)), Err(libc::EAGAIN));
        assert_eq!(range.change("5 4"), Err(EINVAL), "the first is not beyond the last");
        assert_eq!(range.text(), "40000\t40003\n");
    });
}

#[test]
fn a_second_bind_is_invalid() {
    networked(|| {
        for kind in KINDS {
            let (fd, first) = bound(kind, LOCAL);
            assert_eq!(bind(fd, LOCAL), Err(EINVAL));
            assert_eq!(bind(fd, at_port(ANY, first.port())), Err(EINVAL));
            assert_eq!(name(fd), Ok(first));
            let fd = socket(AF_INET, kind);
            assert_eq!(bind(fd, FOREIGN), Err(EADDRNOTAVAIL));
            assert_eq!(bind(fd, LOCAL), Ok(0), "a failed one does not count");
        }
    });
}

#[test]
fn a_connected_socket_cannot_be_bound() {
    networked(|| {
        let (client, server) = tcp_pair();
        for fd in [client, server] {
            assert_eq!(bind(fd, LOCAL), Err(EINVAL));
        }
        let (_, to) = bound(SOCK_DGRAM, LOCAL);
        let fd = udp();
        assert_eq!(connect(fd, to), Ok(0));
        assert_eq!(bind(fd, LOCAL), Err(EINVAL));
    });
}

#[test]
fn the_length_of_an_address_is_checked() {
    networked(|| {
        for kind in KINDS {
            let (four, six) = (padded(LOCAL), padded(LOCAL6));
            for length in [0, 1, 2, 8, 15, 129, 200, u32::MAX] {
                assert_eq!(bind_raw(socket(AF_INET, kind), &four, length), Err(EINVAL));
            }
            // 24 bytes are the structure of RFC 2133, without the scope.
            for length in [0, 2, 16, 23, 129, u32::MAX] {
                assert_eq!(bind_raw(socket(AF_INET6, kind), &six, length), Err(EINVAL));
            }
            for length in [16, 17, 128] {
                assert_eq!(bind_raw(socket(AF_INET, kind), &four, length), Ok(0));
            }
            for length in [24, 28, 128] {
                assert_eq!(bind_raw(socket(AF_INET6, kind), &six, length), Ok(0));
            }
            let fd = socket(AF_INET, kind);
            let bad = check(unsafe { libc::bind(fd, std::ptr::null(), 16) });
            assert_eq!(bad, Err(EFAULT));
        }
    });
}

#[test]
fn an_address_of_another_family_is_refused() {
    networked(|| {
        for kind in KINDS {
            assert_eq!(bind(socket(AF_INET, kind), LOCAL6), Err(EAFNOSUPPORT));
            let mut unix = padded(LOCAL);
            unix[0] = libc::AF_UNIX as u8;
            assert_eq!(bind_raw(socket(AF_INET, kind), &unix, 16), Err(EAFNOSUPPORT));
            // Of an IPv6 socket the length of its own family is wanted first.
            assert_eq!(bind_raw(socket(AF_INET6, kind), &padded(LOCAL), 16), Err(EINVAL));
            assert_eq!(bind_raw(socket(AF_INET6, kind), &padded(LOCAL), 28), Err(EAFNOSUPPORT));
        }
    });
}

#[test]
fn no_family_is_ipv4_for_the_address_of_all() {
    networked(|| {
        for kind in KINDS {
            let (mut any, mut one) = (padded(ANY), padded(LOCAL));
            any[0] = 0;
            one[0] = 0;
            let fd = socket(AF_INET, kind);
            assert_eq!(bind_raw(fd, &one, 16), Err(EAFNOSUPPORT));
            assert_eq!(bind_raw(fd, &any, 16), Ok(0));
            assert!(name(fd).unwrap().port() != 0);
        }
    });
}

#[test]
fn only_own_addresses_can_be_bound() {
    networked(|| {
        let foreign6: SocketAddr = "[2001:db8::1]:0".parse().unwrap();
        for kind in KINDS {
            assert_eq!(bind(socket(AF_INET, kind), FOREIGN), Err(EADDRNOTAVAIL));
            assert_eq!(bind(socket(AF_INET6, kind), foreign6), Err(EADDRNOTAVAIL));
            let fd = socket(AF_INET, kind);
            switch_on(fd, IPPROTO_IP, libc::IP_FREEBIND);
            assert_eq!(bind(fd, FOREIGN), Ok(0));
            assert_eq!(name(fd), Ok(FOREIGN));
            let fd = socket(AF_INET6, kind);
            switch_on(fd, IPPROTO_IPV6, libc::IPV6_FREEBIND);
            assert_eq!(bind(fd, foreign6), Ok(0));
        }
    });
}

#[test]
fn all_of_127_is_local() {
    networked(|| {
        for octets in [[127, 0, 0, 2], [127, 1, 2, 3], [127, 255, 255, 254]] {
            let (listener, at) = listener(v4(octets, 0));
            let (client, server) = connection_to(listener);
            assert_eq!((peer(client), name(server)), (Ok(at), Ok(at)));
            // The source of a connection to another address of loopback is that address.
            assert_eq!(name(client).unwrap().ip(), LOCAL.ip());
            assert_eq!(peer(server), name(client));
        }
        let (from, source) = bound(SOCK_DGRAM, v4([127, 9, 9, 9], 0));
        let (to, target) = bound(SOCK_DGRAM, LOCAL);
        assert_eq!(send_to(from, b"x", target), Ok(1));
        assert_eq!(receive_from(to, 9, 0), Ok((b"x".to_vec(), source)));
    });
}

#[test]
fn groups_can_be_bound_and_are_no_source() {
    networked(|| {
        let group = v4([224, 0, 0, 251], 0);
        let (fd, bound_to) = bound(SOCK_DGRAM, group);
        assert_eq!(bound_to.ip(), group.ip());
        let (to, target) = bound(SOCK_DGRAM, LOCAL);
        assert_eq!(send_to(fd, b"x", target), Ok(1));
        let source = at_port(LOCAL, bound_to.port());
        assert_eq!(receive_from(to, 9, 0), Ok((b"x".to_vec(), source)));
        let group6: SocketAddr = "[ff02::1]:0".parse().unwrap();
        assert_eq!(bind(socket(AF_INET6, SOCK_STREAM), group6), Err(EINVAL));
    });
}

#[test]
fn low_ports_need_a_capability() {
    networked(|| {
        // The limit may be lowered on the host outside of a namespace.
        let limit = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        assert_eq!(limit.unwrap().trim(), "1024");
        without(CAP_NET_BIND_SERVICE, || {
            for kind in KINDS {
                for port in [1, 1023] {
                    assert_eq!(bind(socket(AF_INET, kind), at_port(LOCAL, port)), Err(EACCES));
                    assert_eq!(bind(socket(AF_INET6, kind), at_port(LOCAL6, port)), Err(EACCES));
                }
                assert_eq!(bind(socket(AF_INET, kind), at_port(FOREIGN, 1)), Err(EADDRNOTAVAIL));
                assert_eq!(bind(socket(AF_INET, kind), at_port(LOCAL, 1024)), Ok(0));
            }
        });
        for kind in KINDS {
            assert_eq!(bind(socket(AF_INET, kind), at_port(LOCAL, 1023)), Ok(0));
        }
        if let Some(limit) = Setting::set("net/ipv4/ip_unprivileged_port_start", "80") {
            without(CAP_NET_BIND_SERVICE, || {
                assert_eq!(bind(tcp(), at_port(LOCAL, 80)), Ok(0));
                assert_eq!(bind(tcp(), at_port(LOCAL, 79)), Err(EACCES));
                assert_eq!(bind(socket(AF_INET6, SOCK_STREAM), at_port(LOCAL6, 80)), Ok(0));
            });
            drop(limit);
        }
    });
}

#[test]
fn a_short_room_for_a_name_cuts_it() {
    networked(|| {
        let (fd, bound_to) = bound(SOCK_STREAM, LOCAL);
        let whole = padded(bound_to);
        for (room, left) in [(0u32, 0), (1, 1), (7, 7), (16, 16), (60, 16)] {
            let mut bytes = [0xaau8; 60];
            let mut length = room;
            let at = bytes.as_mut_ptr().cast();
            assert_eq!(check(unsafe { libc::getsockname(fd, at, &mut length) }), Ok(0));
            assert_eq!(length, 16, "the whole length");
            assert_eq!(bytes[..left], whole[..left]);
            assert!(bytes[left..].iter().all(|byte| *byte == 0xaa), "{room}");
        }
        let mut length = u32::MAX;
        let mut bytes = [0u8; 60];
        let at = bytes.as_mut_ptr().cast();
        assert_eq!(check(unsafe { libc::getsockname(fd, at, &mut length) }), Err(EINVAL));
        let mut length = 16;
        let nowhere = std::ptr::null_mut();
        assert_eq!(check(unsafe { libc::getsockname(fd, nowhere, &mut length) }), Err(EFAULT));
        let no_length = std::ptr::null_mut();
        assert_eq!(check(unsafe { libc::getsockname(fd, at, no_length) }), Err(EFAULT));
    });
}

#[test]
fn a_name_of_ipv6_has_28_bytes_and_no_scope_on_loopback() {
    networked(|| {
        let (fd, _) = bound(SOCK_STREAM, LOCAL6);
        let mut bytes = [0xaau8; 40];
        let mut length = 40;
        must(unsafe { libc::getsockname(fd, bytes.as_mut_ptr().cast(), &mut length) });
        assert_eq!(length, 28);
        assert_eq!(bytes[..2], (AF_INET6 as u16).to_ne_bytes());
        assert_eq!(bytes[4..8], [0; 4], "the flow");
        assert_eq!(bytes[8..24], Ipv6Addr::LOCALHOST.octets());
        assert_eq!(bytes[24..28], [0; 4], "the scope");
    });
}

#[test]
fn a_link_local_address_needs_its_link() {
    networked(|| {
        let without_link: SocketAddr = "[fe80::1]:0".parse().unwrap();
        let absent: SocketAddr = "[fe80::1%4000]:0".parse().unwrap();
        let lo: SocketAddr = "[fe80::1%1]:0".parse().unwrap();
        for kind in KINDS {
            let fd = socket(AF_INET6, kind);
            assert_eq!(bind(fd, without_link), Err(EINVAL));
            assert_eq!(bind(fd, absent), Err(libc::ENODEV));
            assert_eq!(bind(fd, lo), Err(EADDRNOTAVAIL));
            // The failed bind has bound the socket to the link.
            assert_eq!(connect(fd, at_port(without_link, 9)), Err(libc::ENETUNREACH));
            let unbound = socket(AF_INET6, kind);
            assert_eq!(connect(unbound, at_port(without_link, 9)), Err(EINVAL));
        }
    });
}

#[test]
fn a_socket_of_both_families_sees_mapped_addresses() {
    networked(|| {
        let fd = socket(AF_INET6, SOCK_STREAM);
        assert_eq!(set(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY, 0i32), Ok(0));
        assert_eq!(bind(fd, ANY6), Ok(0));
        assert_eq!(listen(fd, 5), Ok(0));
        let at = name(fd).unwrap();
        let client = tcp();
        assert_eq!(connect(client, at_port(LOCAL, at.port())), Ok(0));
        let (child, from) = accept_from(fd, 0).unwrap();
        assert_eq!(from, mapped(name(client).unwrap()));
        assert_eq!(peer(child), Ok(from));
        assert_eq!(name(child), Ok(mapped(at_port(LOCAL, at.port()))));
        assert_eq!(number(child, SOL_SOCKET, libc::SO_DOMAIN), Ok(AF_INET6));
        assert_eq!(send(client, b"four", 0), Ok(4));
        assert_eq!(receive(child, 9, 0), Ok(b"four".to_vec()));
        let client = socket(AF_INET6, SOCK_STREAM);
        assert_eq!(connect(client, at_port(LOCAL6, at.port())), Ok(0));
        assert_eq!(accept_from(fd, 0).unwrap().1, name(client).unwrap());
    });
}

#[test]
fn a_datagram_socket_of_ipv6_speaks_to_mapped_addresses() {
    networked(|| {
        let (four, four_name) = bound(SOCK_DGRAM, LOCAL);
        let six = socket(AF_INET6, SOCK_DGRAM);
        assert_eq!(send_to(six, b"x", mapped(four_name)), Ok(1));
        let (data, from) = receive_from(four, 9, 0).unwrap();
        let port = name(six).unwrap().port();
        assert_eq!((data, from), (b"x".to_vec(), at_port(LOCAL, port)));
        assert_eq!(send_to(four, b"back", from), Ok(4));
        assert_eq!(receive_from(six, 9, 0), Ok((b"back".to_vec(), mapped(four_name))));
        assert_eq!(connect(six, mapped(four_name)), Ok(0));
        assert_eq!(name(six), Ok(mapped(at_port(LOCAL, port))));
        assert_eq!(peer(six), Ok(mapped(four_name)));
    });
}

#[test]
fn a_socket_of_ipv6_only_takes_no_mapped_address() {
    networked(|| {
        for kind in KINDS {
            let fd = socket(AF_INET6, kind);
            switch_on(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY);
            assert_eq!(bind(fd, mapped(LOCAL)), Err(EINVAL));
            assert_eq!(connect(fd, mapped(at_port(LOCAL, 9))), Err(libc::ENETUNREACH));
        }
        let fd = socket(AF_INET6, SOCK_STREAM);
        switch_on(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY);
        assert_eq!((bind(fd, ANY6), listen(fd, 1)), (Ok(0), Ok(0)));
        let port = name(fd).unwrap().port();
        assert_eq!(connect(tcp(), at_port(LOCAL, port)), Err(libc::ECONNREFUSED));
        let late = set(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY, 0i32);
        assert_eq!(late, Err(EINVAL), "a bound socket keeps it");
    });
}

#[test]
fn a_mapped_address_binds_ipv4() {
    networked(|| {
        let (fd, name6) = bound(SOCK_STREAM, mapped(LOCAL));
        assert_eq!(name6.ip(), mapped(LOCAL).ip());
        assert_eq!(bind(tcp(), at_port(LOCAL, name6.port())), Err(EADDRINUSE));
        assert_eq!(listen(fd, 1), Ok(0));
        let client = tcp();
        assert_eq!(connect(client, at_port(LOCAL, name6.port())), Ok(0));
        assert_eq!(accept_from(fd, 0).unwrap().1, mapped(name(client).unwrap()));
        assert_eq!(bind(socket(AF_INET6, SOCK_STREAM), mapped(FOREIGN)), Err(EADDRNOTAVAIL));
    });
}

#[test]
fn a_closed_socket_frees_its_port() {
    networked(|| {
        for kind in KINDS {
            for address in [LOCAL, LOCAL6] {
                let (fd, at) = bound(kind, address);
                let copy = must(unsafe { libc::dup(fd) }) as i32;
                close(fd);
                let family = if at.is_ipv4() { AF_INET } else { AF_INET6 };
                let next = socket(family, kind);
                assert_eq!(bind(next, at), Err(EADDRINUSE), "a copy is open");
                close(copy);
                assert_eq!(bind(next, at), Ok(0));
            }
        }
    });
}

#[test]
fn a_source_address_can_wait_for_its_port() {
    networked(|| {
        let (listener, to) = listener(LOCAL);
        let client = tcp();
        switch_on(client, IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
        let source = v4([127, 3, 3, 3], 0);
        assert_eq!(bind(client, source), Ok(0));
        assert_eq!(name(client), Ok(source), "no port yet");
        assert_eq!(connect(client, to), Ok(0));
        assert_eq!(name(client).unwrap().ip(), source.ip());
        assert_ne!(name(client).unwrap().port(), 0);
        assert_eq!(accept_from(listener, 0).unwrap().1, name(client).unwrap());
    });
}
