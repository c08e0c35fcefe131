//! Options of IPv4 and IPv6: defaults, ranges and lengths (ip(7), ipv6(7)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::internet::*;
use libc::{EINVAL, ENOPROTOOPT, ENOTCONN, EPERM, IP_TOS, IP_TTL};

fn ip(fd: i32, option: i32) -> Result<i32, i32> {
    number(fd, IPPROTO_IP, option)
}

fn put(fd: i32, option: i32, value: i32) -> Result<i64, i32> {
    set(fd, IPPROTO_IP, option, value)
}

fn ip6(fd: i32, option: i32) -> Result<i32, i32> {
    number(fd, IPPROTO_IPV6, option)
}

fn put6(fd: i32, option: i32, value: i32) -> Result<i64, i32> {
    set(fd, IPPROTO_IPV6, option, value)
}

#[test]
fn a_new_socket_of_ipv4_has_the_defaults() {
    networked(|| {
        for fd in [tcp(), udp()] {
            for (option, told) in [
                (IP_TTL, 64),
                (IP_TOS, 0),
                (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT),
                (libc::IP_RECVERR, 0),
                (libc::IP_PKTINFO, 0),
                (libc::IP_RECVTTL, 0),
                (libc::IP_RECVTOS, 0),
                (libc::IP_RECVOPTS, 0),
                (libc::IP_RETOPTS, 0),
                (libc::IP_RECVORIGDSTADDR, 0),
                (libc::IP_FREEBIND, 0),
                (libc::IP_TRANSPARENT, 0),
                (libc::IP_MINTTL, 0),
                (libc::IP_MULTICAST_TTL, 1),
                (libc::IP_MULTICAST_LOOP, 1),
                (libc::IP_MULTICAST_ALL, 1),
                (libc::IP_BIND_ADDRESS_NO_PORT, 0),
                (libc::IP_UNICAST_IF, 0),
            ] {
                assert_eq!(ip(fd, option), Ok(told), "{option}");
            }
            let options = option_bytes(fd, IPPROTO_IP, libc::IP_OPTIONS, 40);
            assert_eq!(options, Ok(vec![]));
        }
    });
}

#[test]
fn a_time_to_live_is_a_byte_but_not_zero() {
    networked(|| {
        for fd in [tcp(), udp()] {
            for (value, told) in [(1, 1), (255, 255), (-1, 64)] {
                assert_eq!(put(fd, IP_TTL, value), Ok(0));
                assert_eq!(ip(fd, IP_TTL), Ok(told));
            }
            for value in [0, 256, -2, i32::MAX] {
                assert_eq!(put(fd, IP_TTL, value), Err(EINVAL), "{value}");
            }
            for value in [0, 255] {
                assert_eq!(put(fd, libc::IP_MINTTL, value), Ok(0));
                assert_eq!(ip(fd, libc::IP_MINTTL), Ok(value));
            }
            for value in [-1, 256] {
                assert_eq!(put(fd, libc::IP_MINTTL, value), Err(EINVAL));
            }
        }
    });
}

#[test]
fn a_type_of_service_of_a_stream_leaves_two_bits_alone() {
    networked(|| {
        for (value, told) in [(0x10, 0x10), (0x13, 0x13), (0xff, 0xff), (0, 0)] {
            let (stream, datagram) = (tcp(), udp());
            assert_eq!((put(stream, IP_TOS, value), put(datagram, IP_TOS, value)), (Ok(0), Ok(0)));
            assert_eq!(ip(datagram, IP_TOS), Ok(told));
            assert_eq!(ip(stream, IP_TOS), Ok(told & !3), "these are for ECN");
        }
        let fd = udp();
        // The priority follows from it.
        for (tos, priority) in [(0x10, 6), (0x08, 2), (0x00, 0)] {
            assert_eq!(put(fd, IP_TOS, tos), Ok(0));
            assert_eq!(number(fd, SOL_SOCKET, libc::SO_PRIORITY), Ok(priority), "{tos:#x}");
        }
    });
}

#[test]
fn numbers_of_ipv4_may_be_one_byte_long() {
    networked(|| {
        let fd = udp();
        assert_eq!(set_bytes(fd, IPPROTO_IP, IP_TTL, &[77]), Ok(0));
        assert_eq!(ip(fd, IP_TTL), Ok(77));
        assert_eq!(set_bytes(fd, IPPROTO_IP, IP_TTL, &[78, 1, 1]), Ok(0), "the first one counts");
        assert_eq!(option_bytes(fd, IPPROTO_IP, IP_TTL, 1), Ok(vec![78]));
        assert_eq!(option_bytes(fd, IPPROTO_IP, IP_TTL, 3), Ok(vec![78]), "and it comes alone");
        assert_eq!(option_bytes(fd, IPPROTO_IP, IP_TTL, 4), Ok(vec![78, 0, 0, 0]));
        assert_eq!(option_bytes(fd, IPPROTO_IP, IP_TTL, 9), Ok(vec![78, 0, 0, 0]));
        assert_eq!(set_bytes(fd, IPPROTO_IP, libc::IP_MULTICAST_TTL, &[]), Err(EINVAL));
    });
}

#[test]
fn discovery_of_the_mtu_has_six_ways() {
    networked(|| {
        let (four, six) = (udp(), socket(AF_INET6, SOCK_DGRAM));
        for way in 0..=5 {
            assert_eq!(put(four, libc::IP_MTU_DISCOVER, way), Ok(0));
            assert_eq!(ip(four, libc::IP_MTU_DISCOVER), Ok(way));
            assert_eq!(put6(six, libc::IPV6_MTU_DISCOVER, way), Ok(0));
            assert_eq!(ip6(six, libc::IPV6_MTU_DISCOVER), Ok(way));
        }
        for way in [-1, 6] {
            assert_eq!(put(four, libc::IP_MTU_DISCOVER, way), Err(EINVAL));
            assert_eq!(put6(six, libc::IPV6_MTU_DISCOVER, way), Err(EINVAL));
        }
    });
}

#[test]
fn a_transparent_socket_needs_a_capability() {
    networked(|| {
        without(CAP_NET_ADMIN, || {
            drop_capability(CAP_NET_RAW);
            assert_eq!(put(tcp(), libc::IP_TRANSPARENT, 1), Err(EPERM));
            assert_eq!(put(tcp(), libc::IP_TRANSPARENT, 0), Ok(0), "off it is already");
            assert_eq!(put(tcp(), libc::IP_FREEBIND, 1), Ok(0));
        });
        let fd = tcp();
        assert_eq!(put(fd, libc::IP_TRANSPARENT, 1), Ok(0));
        assert_eq!(ip(fd, libc::IP_TRANSPARENT), Ok(1));
        assert_eq!(bind(fd, FOREIGN), Ok(0));
    });
}

#[test]
fn options_of_raw_sockets_are_theirs_alone() {
    networked(|| {
        for fd in [tcp(), udp()] {
            assert_eq!(put(fd, libc::IP_HDRINCL, 1), Err(ENOPROTOOPT));
            assert_eq!(put(fd, libc::IP_NODEFRAG, 1), Err(ENOPROTOOPT));
        }
        let raw = try_socket(AF_INET, SOCK_RAW, 200).unwrap();
        assert_eq!(ip(raw, libc::IP_HDRINCL), Ok(0));
        assert_eq!((put(raw, libc::IP_HDRINCL, 1), ip(raw, libc::IP_HDRINCL)), (Ok(0), Ok(1)));
        assert_eq!((put(raw, libc::IP_NODEFRAG, 1), ip(raw, libc::IP_NODEFRAG)), (Ok(0), Ok(1)));
        let whole = try_socket(AF_INET, SOCK_RAW, libc::IPPROTO_RAW).unwrap();
        assert_eq!(ip(whole, libc::IP_HDRINCL), Ok(1), "IPPROTO_RAW always has it");
    });
}

#[test]
fn a_new_socket_of_ipv6_has_the_defaults() {
    networked(|| {
        for kind in [SOCK_STREAM, SOCK_DGRAM] {
            let fd = socket(AF_INET6, kind);
            for (option, told) in [
                (libc::IPV6_V6ONLY, 0),
                (libc::IPV6_UNICAST_HOPS, 64),
                (libc::IPV6_MULTICAST_HOPS, 1),
                (libc::IPV6_MULTICAST_LOOP, 1),
                (libc::IPV6_MULTICAST_IF, 0),
                (libc::IPV6_TCLASS, 0),
                (libc::IPV6_MTU_DISCOVER, 1),
                (libc::IPV6_RECVERR, 0),
                (libc::IPV6_RECVPKTINFO, 0),
                (libc::IPV6_RECVHOPLIMIT, 0),
                (libc::IPV6_RECVTCLASS, 0),
                (libc::IPV6_DONTFRAG, 0),
            ] {
                assert_eq!(ip6(fd, option), Ok(told), "{option}");
            }
        }
    });
}

#[test]
fn hops_and_classes_have_ranges() {
    networked(|| {
        let fd = socket(AF_INET6, SOCK_DGRAM);
        for (option, default) in
            [(libc::IPV6_UNICAST_HOPS, 64), (libc::IPV6_MULTICAST_HOPS, 1), (libc::IPV6_TCLASS, 0)]
        {
            for (value, told) in [(0, 0), (255, 255), (7, 7), (-1, default)] {
                assert_eq!(put6(fd, option, value), Ok(0), "{option} {value}");
                assert_eq!(ip6(fd, option), Ok(told), "{option} {value}");
            }
            for value in [-2, 256] {
                assert_eq!(put6(fd, option, value), Err(EINVAL), "{option} {value}");
            }
        }
        let stream = socket(AF_INET6, SOCK_STREAM);
        let hops = put6(stream, libc::IPV6_MULTICAST_HOPS, 3);
        assert_eq!(hops, Err(ENOPROTOOPT), "a stream has no groups");
        assert_eq!(put6(fd, libc::IPV6_MULTICAST_LOOP, 2), Err(EINVAL));
    });
}

#[test]
fn numbers_of_ipv6_have_four_bytes() {
    networked(|| {
        let fd = socket(AF_INET6, SOCK_DGRAM);
        for length in [0, 1, 3] {
            let short = set_bytes(fd, IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, &[9; 4][..length]);
            assert_eq!(short, Err(EINVAL));
        }
        let cut = option_bytes(fd, IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 1);
        assert_eq!(cut, Ok(vec![64]));
        assert_eq!(ip6(fd, libc::IPV6_MTU), Err(ENOTCONN));
        let (one, _other) = udp_pair_over(LOCAL6);
        assert_eq!(ip6(one, libc::IPV6_MTU), Ok(65_536));
        for (value, answer) in [(0, Ok(0)), (1280, Ok(0)), (1279, Err(EINVAL))] {
            assert_eq!(put6(one, libc::IPV6_MTU, value), answer, "{value}");
        }
    });
}

#[test]
fn the_interface_of_groups_is_chosen() {
    networked(|| {
        let fd = udp();
        let told = || option_bytes(fd, IPPROTO_IP, libc::IP_MULTICAST_IF, 4).unwrap();
        assert_eq!(told(), [0; 4]);
        assert_eq!(set(fd, IPPROTO_IP, libc::IP_MULTICAST_IF, [127u8, 0, 0, 1]), Ok(0));
        assert_eq!(told(), [127, 0, 0, 1]);
        let foreign = set(fd, IPPROTO_IP, libc::IP_MULTICAST_IF, [192u8, 0, 2, 1]);
        assert_eq!(foreign, Err(libc::EADDRNOTAVAIL));
        assert_eq!(set(fd, IPPROTO_IP, libc::IP_MULTICAST_IF, [0u8; 4]), Ok(0));
        assert_eq!(told(), [0; 4]);
        let six = socket(AF_INET6, SOCK_DGRAM);
        assert_eq!(put6(six, libc::IPV6_MULTICAST_IF, 1), Ok(0));
        assert_eq!(ip6(six, libc::IPV6_MULTICAST_IF), Ok(1));
        assert_eq!(put6(six, libc::IPV6_MULTICAST_IF, 4000), Err(libc::ENODEV));
        assert_eq!(put6(six, libc::IPV6_MULTICAST_IF, -1), Err(libc::ENODEV));
    });
}

#[test]
fn a_short_life_reaches_loopback_and_a_least_one_refuses_it() {
    networked(|| {
        // A connection whose segments live too short is dropped silently, so only the good one arrives.
        let (fd, at) = listener(LOCAL);
        assert_eq!(put(fd, libc::IP_MINTTL, 100), Ok(0));
        let short = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
        assert_eq!(put(short, IP_TTL, 99), Ok(0));
        assert_eq!(connect(short, at), Err(libc::EINPROGRESS));
        let long = tcp();
        assert_eq!(put(long, IP_TTL, 100), Ok(0));
        assert_eq!(connect(long, at), Ok(0));
        assert_eq!(accept_from(fd, 0).unwrap().1, name(long).unwrap());
        assert_eq!(polled(short, POLLOUT), 0);
        let (to, at) = bound(SOCK_DGRAM, LOCAL);
        let fd = udp();
        assert_eq!(put(fd, IP_TTL, 1), Ok(0));
        assert_eq!(send_to(fd, b"x", at), Ok(1));
        assert_eq!(receive(to, 9, 0), Ok(b"x".to_vec()));
    });
}
