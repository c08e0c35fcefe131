//! socket(2) of the Internet families and AF_PACKET: families, types, protocols, flags, and the capabilities that they need.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{internet::*, *};
use libc::{EAFNOSUPPORT, EINVAL, EPERM, EPROTONOSUPPORT, ESOCKTNOSUPPORT, IPPROTO_ICMP};

/// One more than the largest number of a protocol: IPPROTO_MPTCP is 262.
const PROTOCOLS: i32 = 263;
const FAMILIES: [i32; 2] = [AF_INET, AF_INET6];
/// IPPROTO_ICMPV6.
const ICMP6: i32 = 58;

/// Returns family, type and protocol of a socket.
fn described(fd: i32) -> [Result<i32, i32>; 3] {
    [libc::SO_DOMAIN, libc::SO_TYPE, libc::SO_PROTOCOL].map(|name| number(fd, SOL_SOCKET, name))
}

#[test]
fn a_socket_tells_family_type_and_protocol() {
    networked(|| {
        for family in FAMILIES {
            for (kind, given, told) in [
                (SOCK_STREAM, 0, IPPROTO_TCP),
                (SOCK_STREAM, IPPROTO_TCP, IPPROTO_TCP),
                (SOCK_DGRAM, 0, IPPROTO_UDP),
                (SOCK_DGRAM, IPPROTO_UDP, IPPROTO_UDP),
                (SOCK_RAW, IPPROTO_UDP, IPPROTO_UDP),
                (SOCK_RAW, 200, 200),
                (SOCK_RAW, libc::IPPROTO_RAW, libc::IPPROTO_RAW),
            ] {
                let fd = try_socket(family, kind, given).unwrap();
                assert_eq!(described(fd), [Ok(family), Ok(kind), Ok(told)]);
                close(fd);
            }
        }
    });
}

#[test]
fn family_type_and_protocol_cannot_be_set() {
    networked(|| {
        for option in [libc::SO_DOMAIN, libc::SO_TYPE, libc::SO_PROTOCOL, libc::SO_ERROR] {
            assert_eq!(set(tcp(), SOL_SOCKET, option, 1i32), Err(libc::ENOPROTOOPT));
        }
        assert_eq!(set(tcp(), SOL_SOCKET, libc::SO_ACCEPTCONN, 1i32), Err(libc::ENOPROTOOPT));
    });
}

#[test]
fn a_protocol_of_another_type_is_not_supported() {
    networked(|| {
        for family in FAMILIES {
            for (kind, protocol) in [
                (SOCK_STREAM, IPPROTO_UDP),
                (SOCK_STREAM, IPPROTO_ICMP),
                (SOCK_STREAM, 200),
                (SOCK_DGRAM, IPPROTO_TCP),
                (SOCK_DGRAM, 200),
                (SOCK_RAW, 0),
            ] {
                let made = try_socket(family, kind, protocol);
                assert_eq!(made, Err(EPROTONOSUPPORT), "{family} {kind} {protocol}");
            }
        }
        assert_eq!(try_socket(AF_INET, SOCK_DGRAM, ICMP6), Err(EPROTONOSUPPORT));
        assert_eq!(try_socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMP), Err(EPROTONOSUPPORT));
    });
}

#[test]
fn a_protocol_out_of_range_is_invalid() {
    networked(|| {
        for family in FAMILIES {
            for kind in [SOCK_STREAM, SOCK_DGRAM, SOCK_RAW] {
                for protocol in [-1, i32::MIN, PROTOCOLS, 1 << 20, i32::MAX] {
                    assert_eq!(try_socket(family, kind, protocol), Err(EINVAL), "{protocol}");
                }
            }
        }
    });
}

#[test]
fn the_other_types_are_not_supported() {
    networked(|| {
        for family in FAMILIES {
            // Type 0 is no type; 6 is SOCK_DCCP and 7 to 9 are free.
            for kind in [0, libc::SOCK_RDM, libc::SOCK_SEQPACKET, 7, 8, 9] {
                assert_eq!(try_socket(family, kind, 0), Err(ESOCKTNOSUPPORT), "{kind}");
            }
            for kind in [11, 12, 15, 16, 0x100, 0x7fff_0000, -1] {
                assert_eq!(try_socket(family, kind, 0), Err(EINVAL), "{kind}");
            }
        }
    });
}

#[test]
fn a_family_that_is_not_there_is_found_before_the_type() {
    for family in [-1, 0, 46, 99, i32::MAX] {
        assert_eq!(try_socket(family, SOCK_STREAM, 0), Err(EAFNOSUPPORT), "{family}");
        assert_eq!(try_socket(family, SOCK_DGRAM, -1), Err(EAFNOSUPPORT), "{family}");
    }
    // The bits beside the type are looked at before the family, and the type after it.
    assert_eq!(try_socket(99, SOCK_STREAM | 0x1000, 0), Err(EINVAL));
    assert_eq!(try_socket(99, 15, 0), Err(EAFNOSUPPORT));
}

#[test]
fn flags_of_the_type_make_the_descriptor() {
    networked(|| {
        for (flags, descriptor, status) in [
            (0, 0, 0),
            (libc::SOCK_CLOEXEC, libc::FD_CLOEXEC, 0),
            (SOCK_NONBLOCK, 0, libc::O_NONBLOCK),
            (SOCK_NONBLOCK | libc::SOCK_CLOEXEC, libc::FD_CLOEXEC, libc::O_NONBLOCK),
        ] {
            let fd = socket(AF_INET, SOCK_STREAM | flags);
            assert_eq!(check(unsafe { libc::fcntl(fd, libc::F_GETFD) }), Ok(descriptor.into()));
            let told = must(unsafe { libc::fcntl(fd, libc::F_GETFL) }) as i32;
            assert_eq!(told, libc::O_RDWR | status);
        }
    });
}

#[test]
fn raw_sockets_need_a_capability() {
    networked(|| {
        without(CAP_NET_RAW, || {
            for family in FAMILIES {
                assert_eq!(try_socket(family, SOCK_RAW, IPPROTO_UDP), Err(EPERM));
                assert_eq!(try_socket(family, SOCK_RAW, libc::IPPROTO_RAW), Err(EPERM));
                // The protocol is looked for first.
                assert_eq!(try_socket(family, SOCK_RAW, 0), Err(EPROTONOSUPPORT));
                assert_eq!(try_socket(family, SOCK_RAW, PROTOCOLS), Err(EINVAL));
            }
        });
        for family in FAMILIES {
            assert!(try_socket(family, SOCK_RAW, IPPROTO_UDP).is_ok());
        }
    });
}

#[test]
fn packet_sockets_need_a_capability() {
    networked(|| {
        let types = [SOCK_RAW, SOCK_DGRAM];
        without(CAP_NET_RAW, || {
            for kind in types {
                assert_eq!(try_socket(libc::AF_PACKET, kind, 0), Err(EPERM));
            }
            assert_eq!(try_socket(libc::AF_PACKET, SOCK_STREAM, 0), Err(EPERM), "before the type");
        });
        for kind in types {
            let fd = try_socket(libc::AF_PACKET, kind, 0).unwrap();
            assert_eq!(described(fd)[..2], [Ok(libc::AF_PACKET), Ok(kind)]);
        }
        assert_eq!(try_socket(libc::AF_PACKET, SOCK_STREAM, 0), Err(ESOCKTNOSUPPORT));
    });
}

#[test]
fn the_privilege_is_asked_for_only_at_the_making() {
    networked(|| {
        let raw = try_socket(AF_INET, SOCK_RAW, 200).unwrap();
        let copy = must(unsafe { libc::dup(raw) }) as i32;
        without(CAP_NET_RAW, || {
            assert_eq!(send_to(raw, b"a packet", LOCAL), Ok(8));
        });
        let packet = receive(copy, 100, 0).unwrap();
        assert_eq!(&packet[20..], b"a packet");
    });
}

#[test]
fn there_are_no_pairs_of_internet_sockets() {
    isolated(|| {
        let mut ends = [-1; 2];
        let mut pair = |family, kind, protocol| {
            check(unsafe { libc::socketpair(family, kind, protocol, ends.as_mut_ptr()) })
        };
        for family in FAMILIES {
            assert_eq!(pair(family, SOCK_STREAM, 0), Err(libc::EOPNOTSUPP));
            assert_eq!(pair(family, SOCK_DGRAM, 0), Err(libc::EOPNOTSUPP));
            let made = pair(family, SOCK_STREAM, 200);
            assert_eq!(made, Err(EPROTONOSUPPORT), "the sockets are made first");
        }
        // The two numbers are written before the sockets are made.
        for fd in ends {
            assert_eq!(check(unsafe { libc::fcntl(fd, libc::F_GETFD) }), Err(libc::EBADF));
        }
    });
}

#[test]
fn a_descriptor_of_no_socket_is_refused() {
    networked(|| {
        let (file, absent) = (open("/dev/null", libc::O_RDWR, 0).unwrap(), 1000);
        for (fd, error) in [(file, libc::ENOTSOCK), (absent, libc::EBADF)] {
            assert_eq!(bind(fd, LOCAL), Err(error));
            assert_eq!(connect(fd, LOCAL), Err(error));
            assert_eq!(listen(fd, 1), Err(error));
            assert_eq!(accept(fd), Err(error));
            assert_eq!(send(fd, b"x", 0), Err(error));
            assert_eq!(receive(fd, 1, 0), Err(error));
            assert_eq!(name(fd), Err(error));
            assert_eq!(peer(fd), Err(error));
            assert_eq!(shut_down(fd, SHUT_RD), Err(error));
            assert_eq!(number(fd, SOL_SOCKET, libc::SO_TYPE), Err(error));
            assert_eq!(set(fd, SOL_SOCKET, libc::SO_KEEPALIVE, 1i32), Err(error));
        }
    });
}

#[test]
fn a_socket_is_a_file_without_a_position() {
    networked(|| {
        let fd = tcp();
        let mut status: libc::stat = unsafe { zeroed() };
        must(unsafe { libc::fstat(fd, &mut status) });
        assert_eq!(status.st_mode, libc::S_IFSOCK | 0o777);
        let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        assert_eq!(link.to_str(), Some(format!("socket:[{}]", status.st_ino).as_str()));
        assert_eq!(check(unsafe { libc::lseek(fd, 0, libc::SEEK_SET) }), Err(libc::ESPIPE));
        let mut byte = [0u8; 1];
        let at = byte.as_mut_ptr().cast();
        assert_eq!(check(unsafe { libc::pread(fd, at, 1, 0) } as i64), Err(libc::ESPIPE));
        assert_eq!(check(unsafe { libc::pwrite(fd, at, 1, 0) } as i64), Err(libc::ESPIPE));
        assert_eq!(check(unsafe { libc::ftruncate(fd, 0) }), Err(EINVAL));
        assert_eq!(check(unsafe { libc::fsync(fd) }), Err(EINVAL));
        let open_again = open(format!("/proc/self/fd/{fd}"), libc::O_RDWR, 0);
        assert_eq!(open_again, Err(libc::ENXIO));
    });
}

#[test]
fn the_limit_of_descriptors_counts_sockets() {
    networked(|| {
        let (listener, to) = listener(LOCAL);
        let client = tcp();
        connect(client, to).unwrap();
        await_events(listener, POLLIN);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        must(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) });
        let whole = limit.rlim_cur;
        let next = must(unsafe { libc::dup(client) });
        close(next as i32);
        limit.rlim_cur = next as libc::rlim_t;
        must(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) });
        assert_eq!(try_socket(AF_INET, SOCK_STREAM, 0), Err(libc::EMFILE));
        assert_eq!(accept(listener), Err(libc::EMFILE));
        limit.rlim_cur = whole;
        must(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) });
        let child = accept(listener).expect("the connection was not lost");
        assert_eq!(peer(child), name(client));
    });
}
