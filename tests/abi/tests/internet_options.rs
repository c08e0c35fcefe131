//! Options of SOL_SOCKET on Internet sockets: defaults, ranges, lengths and capabilities (socket(7)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{messages::*, *},
    *,
};
use libc::{EFAULT, EINVAL, ENOENT, ENOPROTOOPT, ENOTCONN, EPERM, SO_RCVBUF, SO_SNDBUF};

const SO_NO_CHECK: i32 = 11;
const SO_MARK: i32 = 36;
const SO_RXQ_OVFL: i32 = 40;
const SO_LOCK_FILTER: i32 = 44;
const SO_MAX_PACING_RATE: i32 = 47;
const SO_INCOMING_CPU: i32 = 49;
const SO_SELECT_ERR_QUEUE: i32 = 45;
const SO_BUSY_POLL: i32 = 46;
const SO_BPF_EXTENSIONS: i32 = 48;
const SO_MEMINFO: i32 = 55;
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;
const SO_NETNS_COOKIE: i32 = 71;
const SO_RESERVE_MEM: i32 = 73;
const SO_COOKIE: i32 = 57;
const SO_ZEROCOPY: i32 = 60;
const MSG_ZEROCOPY: i32 = 0x400_0000;
/// Options and levels that no kernel has.
const ABSENT: [i32; 2] = [999, -1];

/// Makes one socket of each kind.
fn all_kinds() -> [i32; 4] {
    [tcp(), udp(), socket(AF_INET6, SOCK_STREAM), socket(AF_INET6, SOCK_DGRAM)]
}

/// Reads an option into a buffer of `room` bytes whose length is told as `length`.
fn get_raw(fd: i32, option: i32, length: u32) -> (Result<i64, i32>, [u8; 16], u32) {
    let (mut bytes, mut length) = ([0xaau8; 16], length);
    let at = bytes.as_mut_ptr().cast();
    let answer = check(unsafe { libc::getsockopt(fd, SOL_SOCKET, option, at, &raw mut length) });
    (answer, bytes, length)
}

#[test]
fn switches_are_off_and_any_number_switches_them_on() {
    networked(|| {
        for option in [
            libc::SO_KEEPALIVE,
            libc::SO_OOBINLINE,
            libc::SO_REUSEADDR,
            libc::SO_REUSEPORT,
            libc::SO_BROADCAST,
            libc::SO_DONTROUTE,
            libc::SO_TIMESTAMP,
            SO_NO_CHECK,
            SO_RXQ_OVFL,
        ] {
            for fd in all_kinds() {
                for (value, told) in [(1, 1), (0, 0), (-7, 1), (0, 0), (i32::MIN, 1)] {
                    assert_eq!(set(fd, SOL_SOCKET, option, value), Ok(0), "{option}");
                    assert_eq!(number(fd, SOL_SOCKET, option), Ok(told), "{option} {value}");
                }
                close(fd);
            }
            let fresh = all_kinds();
            for fd in fresh {
                assert_eq!(number(fd, SOL_SOCKET, option), Ok(0), "{option}");
                close(fd);
            }
        }
    });
}

#[test]
fn numbers_are_as_they_come() {
    networked(|| {
        for fd in all_kinds() {
            for (option, told) in [
                (libc::SO_ERROR, 0),
                (libc::SO_PRIORITY, 0),
                (libc::SO_RCVLOWAT, 1),
                (libc::SO_SNDLOWAT, 1),
                (libc::SO_ACCEPTCONN, 0),
                (SO_MARK, 0),
                (SO_ZEROCOPY, 0),
                (SO_LOCK_FILTER, 0),
                (SO_INCOMING_CPU, -1),
                (SO_MAX_PACING_RATE, -1),
            ] {
                assert_eq!(number(fd, SOL_SOCKET, option), Ok(told), "{option}");
            }
        }
    });
}

#[test]
fn a_number_is_cut_to_the_room_for_it() {
    networked(|| {
        let fd = tcp();
        let option = libc::SO_TYPE;
        for (room, length) in [(0u32, 0u32), (1, 1), (3, 3), (4, 4), (5, 4), (16, 4)] {
            let (answer, bytes, told) = get_raw(fd, option, room);
            assert_eq!((answer, told), (Ok(0), length));
            let at = length as usize;
            assert_eq!(bytes[..at], [1, 0, 0, 0][..at]);
            assert!(bytes[at..].iter().all(|byte| *byte == 0xaa));
        }
        assert_eq!(get_raw(fd, option, u32::MAX).0, Err(EINVAL), "a negative length");
        let (nowhere, mut length) = (std::ptr::null_mut(), 4u32);
        let get =
            |at, length| check(unsafe { libc::getsockopt(fd, SOL_SOCKET, option, at, length) });
        assert_eq!(get(nowhere, &raw mut length), Err(EFAULT));
        assert_eq!(get(nowhere, std::ptr::null_mut()), Err(EFAULT));
    });
}

#[test]
fn a_number_that_is_set_has_four_bytes_or_more() {
    networked(|| {
        let fd = tcp();
        let option = libc::SO_KEEPALIVE;
        for length in [0, 1, 2, 3] {
            assert_eq!(set_bytes(fd, SOL_SOCKET, option, &[1; 4][..length]), Err(EINVAL));
        }
        assert_eq!(set_bytes(fd, SOL_SOCKET, option, &[1, 0, 0, 0, 9, 9, 9, 9]), Ok(0));
        assert_eq!(number(fd, SOL_SOCKET, option), Ok(1));
        let set_raw = |at: *const libc::c_void, length: u32| {
            check(unsafe { libc::setsockopt(fd, SOL_SOCKET, option, at, length) })
        };
        assert_eq!(set_raw(std::ptr::null(), 4), Err(EFAULT));
        assert_eq!(set_raw(std::ptr::null(), u32::MAX), Err(EINVAL));
        assert_eq!(set_raw(std::ptr::null(), 0), Err(EINVAL));
    });
}

#[test]
fn unknown_options_and_levels_are_refused() {
    networked(|| {
        const LEVELS: [i32; 7] =
            [SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, 99, 300];
        for fd in all_kinds() {
            let family = number(fd, SOL_SOCKET, libc::SO_DOMAIN).unwrap();
            let protocol = number(fd, SOL_SOCKET, libc::SO_PROTOCOL).unwrap();
            for level in LEVELS {
                // A socket of IPv4 has another answer for levels that are not its own.
                let is_own =
                    family == AF_INET6 || [SOL_SOCKET, IPPROTO_IP, protocol].contains(&level);
                let error = if is_own { ENOPROTOOPT } else { libc::EOPNOTSUPP };
                for option in ABSENT {
                    assert_eq!(number(fd, level, option), Err(error), "{level} {option}");
                    assert_eq!(set(fd, level, option, 1i32), Err(ENOPROTOOPT), "{level} {option}");
                }
            }
        }
        assert_eq!(number(udp(), IPPROTO_TCP, libc::TCP_NODELAY), Err(libc::EOPNOTSUPP));
        assert_eq!(set(udp(), IPPROTO_TCP, libc::TCP_NODELAY, 1i32), Err(ENOPROTOOPT));
        assert_eq!(number(tcp(), IPPROTO_IPV6, libc::IPV6_V6ONLY), Err(libc::EOPNOTSUPP));
        assert_eq!(set(tcp(), IPPROTO_IPV6, libc::IPV6_V6ONLY, 1i32), Err(ENOPROTOOPT));
        let six = socket(AF_INET6, SOCK_STREAM);
        assert_eq!(number(six, IPPROTO_UDP, 1), Err(ENOPROTOOPT), "UDP_CORK");
        assert_eq!(number(six, IPPROTO_IP, libc::IP_TTL), Ok(64), "it has those of IPv4, too");
    });
}

#[test]
fn buffers_have_twice_what_is_asked_for() {
    networked(|| {
        for fd in all_kinds() {
            for option in [SO_RCVBUF, SO_SNDBUF] {
                for asked in [10_000, 33_333, 100_000] {
                    assert_eq!(set(fd, SOL_SOCKET, option, asked), Ok(0));
                    assert_eq!(number(fd, SOL_SOCKET, option), Ok(2 * asked));
                }
            }
            // One packet of some size must fit: of its memory 256 bytes are Linux's own.
            for (option, least) in [(SO_RCVBUF, 2304), (SO_SNDBUF, 4608)] {
                for asked in [0, 1, 1000] {
                    assert_eq!(set(fd, SOL_SOCKET, option, asked), Ok(0));
                    assert_eq!(number(fd, SOL_SOCKET, option), Ok(least));
                }
            }
        }
    });
}

#[test]
fn buffers_have_a_limit_that_only_the_privileged_pass() {
    networked(|| {
        const SO_RCVBUFFORCE: i32 = 33;
        const SO_SNDBUFFORCE: i32 = 32;
        for (option, force, file) in
            [(SO_RCVBUF, SO_RCVBUFFORCE, "rmem_max"), (SO_SNDBUF, SO_SNDBUFFORCE, "wmem_max")]
        {
            let fd = udp();
            assert_eq!(set(fd, SOL_SOCKET, option, i32::MAX), Ok(0));
            let most = number(fd, SOL_SOCKET, option).unwrap();
            // A network namespace of its own need not have the file.
            if let Ok(text) = std::fs::read_to_string(format!("/proc/sys/net/core/{file}")) {
                assert_eq!(text.trim().parse(), Ok(most / 2));
            }
            assert_eq!(set(fd, SOL_SOCKET, option, most / 2 - 1), Ok(0));
            assert_eq!(number(fd, SOL_SOCKET, option), Ok(most - 2));
            assert_eq!(set(fd, SOL_SOCKET, option, -1i32), Ok(0));
            assert_eq!(number(fd, SOL_SOCKET, option), Ok(most), "a negative one is large");
            assert_eq!(set(fd, SOL_SOCKET, force, most), Ok(0));
            assert_eq!(number(fd, SOL_SOCKET, option), Ok(2 * most));
            assert_eq!(number(fd, SOL_SOCKET, force), Err(ENOPROTOOPT));
            without(CAP_NET_ADMIN, || {
                assert_eq!(set(fd, SOL_SOCKET, force, 10_000i32), Err(EPERM));
            });
        }
    });
}

#[test]
fn the_buffers_of_a_new_stream_are_those_of_the_settings() {
    networked(|| {
        for (option, file) in [(SO_RCVBUF, "tcp_rmem"), (SO_SNDBUF, "tcp_wmem")] {
            let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{file}")).unwrap();
            let sizes: Vec<i32> =
                text.split_whitespace().map(|word| word.parse().unwrap()).collect();
            assert_eq!(sizes.len(), 3, "least, first and most");
            assert!(sizes.is_sorted());
            assert_eq!(number(tcp(), SOL_SOCKET, option), Ok(sizes[1]));
            assert_eq!(number(socket(AF_INET6, SOCK_STREAM), SOL_SOCKET, option), Ok(sizes[1]));
        }
        assert_eq!(number(udp(), SOL_SOCKET, SO_RCVBUF), number(udp(), SOL_SOCKET, SO_SNDBUF));
    });
}

#[test]
fn a_high_priority_and_a_mark_need_a_capability() {
    networked(|| {
        let fd = udp();
        for value in [6, 0, 7, 100] {
            assert_eq!(set(fd, SOL_SOCKET, libc::SO_PRIORITY, value), Ok(0));
            assert_eq!(number(fd, SOL_SOCKET, libc::SO_PRIORITY), Ok(value));
        }
        for value in [1, -1] {
            assert_eq!(set(fd, SOL_SOCKET, SO_MARK, value), Ok(0));
            assert_eq!(number(fd, SOL_SOCKET, SO_MARK), Ok(value));
        }
        without(CAP_NET_ADMIN, || {
            drop_capability(CAP_NET_RAW);
            assert_eq!(set(fd, SOL_SOCKET, libc::SO_PRIORITY, 6i32), Ok(0));
            for value in [7, -1] {
                assert_eq!(set(fd, SOL_SOCKET, libc::SO_PRIORITY, value), Err(EPERM));
            }
            assert_eq!(set(fd, SOL_SOCKET, SO_MARK, 1i32), Err(EPERM));
            assert_eq!(set(fd, SOL_SOCKET, libc::SO_DEBUG, 1i32), Err(libc::EACCES));
        });
        assert_eq!(set(fd, SOL_SOCKET, libc::SO_DEBUG, 1i32), Ok(0));
        assert_eq!(number(fd, SOL_SOCKET, libc::SO_DEBUG), Ok(1));
    });
}

#[test]
fn every_socket_has_a_cookie() {
    networked(|| {
        let fds = [tcp(), tcp(), udp()];
        let cookies = fds.map(|fd| option_bytes(fd, SOL_SOCKET, SO_COOKIE, 8).unwrap());
        assert!(cookies.iter().all(|cookie| cookie.len() == 8 && *cookie != [0; 8]));
        assert!(cookies[0] != cookies[1] && cookies[1] != cookies[2]);
        let again = fds.map(|fd| option_bytes(fd, SOL_SOCKET, SO_COOKIE, 16).unwrap());
        assert_eq!(again, cookies, "it stays");
        assert_eq!(option_bytes(fds[0], SOL_SOCKET, SO_COOKIE, 4), Err(EINVAL));
    });
}

#[test]
fn the_peers_name_is_an_option_as_well() {
    networked(|| {
        let (client, server) = tcp_pair();
        let room = |length| option_bytes(client, SOL_SOCKET, libc::SO_PEERNAME, length);
        assert_eq!(from_raw(&room(16).unwrap()), name(server).ok());
        assert_eq!(room(4).map(|bytes| bytes.len()), Ok(4), "a part of it");
        assert_eq!(room(17), Err(EINVAL), "more room than name");
        assert_eq!(option_bytes(tcp(), SOL_SOCKET, libc::SO_PEERNAME, 16), Err(ENOTCONN));
        let (one, other) = udp_pair_over(LOCAL6);
        let told = option_bytes(one, SOL_SOCKET, libc::SO_PEERNAME, 28).unwrap();
        assert_eq!(from_raw(&told), name(other).ok());
    });
}

#[test]
fn the_processor_of_a_connection_is_told() {
    networked(|| {
        let (client, server) = tcp_pair();
        send(client, b"x", 0).unwrap();
        await_events(server, POLLIN);
        let processors = must(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }) as i32;
        let told = number(server, SOL_SOCKET, SO_INCOMING_CPU).unwrap();
        assert!((0..processors).contains(&told), "{told}");
        assert_eq!(set(server, SOL_SOCKET, SO_INCOMING_CPU, 0i32), Ok(0));
    });
}

#[test]
fn a_rate_of_pacing_has_four_or_eight_bytes() {
    networked(|| {
        let fd = tcp();
        assert_eq!(option_bytes(fd, SOL_SOCKET, SO_MAX_PACING_RATE, 8), Ok(vec![0xff; 8]));
        assert_eq!(set(fd, SOL_SOCKET, SO_MAX_PACING_RATE, 1_000_000u32), Ok(0));
        let rate = option_bytes(fd, SOL_SOCKET, SO_MAX_PACING_RATE, 8);
        assert_eq!(rate, Ok(1_000_000u64.to_ne_bytes().to_vec()));
        assert_eq!(set(fd, SOL_SOCKET, SO_MAX_PACING_RATE, 1u64 << 40), Ok(0));
        assert_eq!(number(fd, SOL_SOCKET, SO_MAX_PACING_RATE), Ok(-1), "it is cut to the most");
    });
}

/// An instruction of a classic packet filter.
fn instruction(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

fn attach(fd: i32, program: &[libc::sock_filter]) -> Result<i64, i32> {
    let filter =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, filter)
}

/// "Return k" of a packet filter.
const RETURN: u16 = 0x06;

#[test]
fn a_filter_drops_and_cuts_datagrams() {
    networked(|| {
        let (one, other) = udp_pair();
        set_nonblocking(other);
        // Byte 8, behind the header of UDP: those that begin with `y` pass.
        let jump = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: b'y'.into() };
        let program =
            [instruction(0x30, 8), jump, instruction(RETURN, u32::MAX), instruction(RETURN, 0)];
        assert_eq!(attach(other, &program), Ok(0));
        for data in [&b"yes"[..], b"no", b"you"] {
            assert_eq!(send(one, data, 0), Ok(data.len()));
        }
        await_events(other, POLLIN);
        assert_eq!(receive(other, 9, 0), Ok(b"yes".to_vec()));
        assert_eq!(receive(other, 9, 0), Ok(b"you".to_vec()));
        assert_eq!(attach(other, &[instruction(RETURN, 10)]), Ok(0), "another one");
        assert_eq!(send(one, b"0123456789", 0), Ok(10));
        await_events(other, POLLIN);
        assert_eq!(receive(other, 99, 0), Ok(b"01".to_vec()), "ten bytes with the header");
        assert_eq!(set(other, SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32), Ok(0));
        assert_eq!(set(other, SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32), Err(ENOENT));
        send(one, b"no", 0).unwrap();
        await_events(other, POLLIN);
        assert_eq!(receive(other, 9, 0), Ok(b"no".to_vec()));
    });
}

#[test]
fn filters_are_checked_and_locked() {
    networked(|| {
        let fd = udp();
        assert_eq!(attach(fd, &[]), Err(EINVAL));
        assert_eq!(attach(fd, &[instruction(0x30, 0)]), Err(EINVAL), "no return at the end");
        let away = libc::sock_filter { code: 0x15, jt: 5, jf: 0, k: 0 };
        assert_eq!(attach(fd, &[away, instruction(RETURN, 0)]), Err(EINVAL));
        assert_eq!(attach(fd, &[instruction(0xffff, 0), instruction(RETURN, 0)]), Err(EINVAL));
        assert_eq!(attach(fd, &[instruction(RETURN, 0)]), Ok(0));
        assert_eq!(set(fd, SOL_SOCKET, SO_LOCK_FILTER, 1i32), Ok(0));
        assert_eq!(attach(fd, &[instruction(RETURN, 9)]), Err(EPERM));
        assert_eq!(set(fd, SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32), Err(EPERM));
        assert_eq!(set(fd, SOL_SOCKET, SO_LOCK_FILTER, 0i32), Err(EPERM));
    });
}

#[test]
fn a_send_without_a_copy_is_told_when_its_bytes_are_free() {
    networked(|| {
        let (client, server) = tcp_pair();
        for wrong in [2, -1] {
            assert_eq!(set(client, SOL_SOCKET, SO_ZEROCOPY, wrong), Err(EINVAL));
        }
        assert_eq!(set(client, SOL_SOCKET, SO_ZEROCOPY, 1i32), Ok(0));
        for _ in 0..2 {
            assert_eq!(send(client, &[7; 5000], MSG_ZEROCOPY), Ok(5000));
            assert_eq!(receive_all(server, 5000), [7; 5000]);
        }
        let mut free = Vec::new();
        while free.len() < 2 {
            await_events(client, POLLERR);
            let got = receive_message(client, 9, libc::MSG_ERRQUEUE).unwrap();
            let error = got.control_of(IPPROTO_IP, libc::IP_RECVERR).unwrap();
            let word = |at: usize| u32::from_ne_bytes(error[at..at + 4].try_into().unwrap());
            assert_eq!((word(0), error[4]), (0, 5), "no error, SO_EE_ORIGIN_ZEROCOPY");
            free.extend(word(8)..=word(12));
        }
        assert_eq!(free, [0, 1], "the numbers of the calls");
    });
}

#[test]
fn the_polling_of_cards_is_bounded_by_a_privilege() {
    networked(|| {
        for fd in all_kinds() {
            assert_eq!(number(fd, SOL_SOCKET, SO_BUSY_POLL), Ok(0));
            assert_eq!(number(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL), Ok(0));
            assert_eq!(number(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET), Err(ENOPROTOOPT));
            assert_eq!(set(fd, SOL_SOCKET, SO_BUSY_POLL, -1i32), Err(EINVAL));
            for budget in [-1i32, 65_536] {
                assert_eq!(set(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, budget), Err(EINVAL));
            }
            without(CAP_NET_ADMIN, || {
                // Linux 6.1 refuses to raise this one, too; 6.18 does not.
                assert_eq!(set(fd, SOL_SOCKET, SO_BUSY_POLL, 0i32), Ok(0));
                assert_eq!(set(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, 1i32), Err(EPERM));
                assert_eq!(set(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, 1i32), Err(EPERM));
                assert_eq!(set(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, 0i32), Ok(0));
            });
            assert_eq!(set(fd, SOL_SOCKET, SO_BUSY_POLL, 50i32), Ok(0));
            assert_eq!(number(fd, SOL_SOCKET, SO_BUSY_POLL), Ok(50));
            without(CAP_NET_ADMIN, || {
                assert_eq!(set(fd, SOL_SOCKET, SO_BUSY_POLL, 40i32), Ok(0), "less is allowed");
            });
            // No group of processes is charged.
            assert_eq!(number(fd, SOL_SOCKET, SO_RESERVE_MEM), Ok(0));
            assert_eq!(set(fd, SOL_SOCKET, SO_RESERVE_MEM, -1i32), Err(EINVAL));
            assert_eq!(set(fd, SOL_SOCKET, SO_RESERVE_MEM, 4096i32), Err(libc::EOPNOTSUPP));
        }
    });
}

#[test]
fn the_memory_and_the_namespace_of_a_socket_are_told() {
    networked(|| {
        for fd in all_kinds() {
            let memory = option_bytes(fd, SOL_SOCKET, SO_MEMINFO, 64).unwrap();
            let words: Vec<i32> =
                memory.chunks(4).map(|word| i32::from_ne_bytes(word.try_into().unwrap())).collect();
            assert_eq!(words.len(), 9);
            let limits = [SO_RCVBUF, SO_SNDBUF].map(|limit| number(fd, SOL_SOCKET, limit).unwrap());
            assert_eq!(words[..4], [0, limits[0], 0, limits[1]]);
            let cookie = option_bytes(fd, SOL_SOCKET, SO_NETNS_COOKIE, 8).unwrap();
            assert_ne!(cookie, [0; 8]);
            for room in [4, 16] {
                assert_eq!(option_bytes(fd, SOL_SOCKET, SO_NETNS_COOKIE, room), Err(EINVAL));
            }
            assert_eq!(number(fd, SOL_SOCKET, SO_BPF_EXTENSIONS), Ok(64));
        }
    });
}

#[test]
fn a_program_may_ask_to_be_told_of_errors_as_urgent() {
    networked(|| {
        let fd = udp();
        set(fd, IPPROTO_IP, libc::IP_RECVERR, 1i32).unwrap();
        let closed = udp();
        bind(closed, LOCAL).unwrap();
        let to = name(closed).unwrap();
        close(closed);
        send_to(fd, b"x", to).unwrap();
        let events = POLLERR | libc::POLLPRI;
        assert_eq!(polled(fd, events), POLLERR);
        assert_eq!(set(fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1i32), Ok(0));
        assert_eq!(number(fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE), Ok(1));
        assert_eq!(polled(fd, events), events);
        receive_message(fd, 9, libc::MSG_ERRQUEUE).unwrap();
        number(fd, SOL_SOCKET, libc::SO_ERROR).unwrap();
        assert_eq!(polled(fd, events), 0);
    });
}

#[test]
fn urgent_datagrams_are_refused_except_of_udp_over_ipv6() {
    networked(|| {
        let six = socket(AF_INET6, SOCK_DGRAM);
        bind(six, ANY6).unwrap();
        let port = name(six).unwrap().port();
        let urgent = |fd: i32, to: std::net::SocketAddr| {
            send_message(fd, &[b"x"], Some(to), &[], libc::MSG_OOB)
        };
        let client = socket(AF_INET6, SOCK_DGRAM);
        assert_eq!(urgent(client, at_port(LOCAL6, port)), Ok(1));
        assert_eq!(receive(six, 9, 0), Ok(b"x".to_vec()));
        let mapped = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        let mapped = std::net::SocketAddr::new(mapped.into(), port);
        assert_eq!(urgent(client, mapped), Err(libc::EOPNOTSUPP));
        connect(client, mapped).unwrap();
        assert_eq!(send(client, b"x", libc::MSG_OOB), Err(libc::EOPNOTSUPP));
        assert_eq!(urgent(udp(), at_port(LOCAL, port)), Err(libc::EOPNOTSUPP));
        for (family, to) in [(AF_INET, LOCAL), (AF_INET6, LOCAL6)] {
            let raw = try_socket(family, SOCK_RAW, 253).unwrap();
            assert_eq!(urgent(raw, to), Err(libc::EOPNOTSUPP));
            let flags = libc::MSG_OOB | libc::MSG_DONTWAIT;
            assert_eq!(receive(raw, 9, flags), Err(libc::EOPNOTSUPP));
        }
    });
}
