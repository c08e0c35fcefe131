//! UDP-Lite (udplite(7), RFC 3828): coverage of the checksum, ports of its own, tables and counters.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::internet::*;
use libc::{EAGAIN, ECONNREFUSED, EINVAL, EIO, ENOPROTOOPT, IPPROTO_UDP, IPPROTO_UDPLITE};
use std::net::SocketAddr;

/// UDPLITE_SEND_CSCOV and UDPLITE_RECV_CSCOV.
const SENT: i32 = 10;
const LEAST: i32 = 11;
const HEADER: usize = 8;

fn lite(family: i32) -> i32 {
    try_socket(family, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDPLITE).unwrap()
}

/// Returns a receiver, and a socket that is connected to it.
fn pair(local: SocketAddr) -> (i32, i32) {
    let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    let (one, other) = (lite(family), lite(family));
    bind(one, local).unwrap();
    connect(other, name(one).unwrap()).unwrap();
    (one, other)
}

/// Returns the count of /proc/net/snmp with this name.
fn count(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("UdpLite:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(known, _)| *known == name).unwrap().1.parse().unwrap()
}

#[test]
fn a_coverage_is_zero_or_at_least_the_header() {
    networked(|| {
        for fd in [lite(AF_INET), lite(AF_INET6)] {
            for level in [IPPROTO_UDPLITE, IPPROTO_UDP] {
                for option in [SENT, LEAST] {
                    let told = |value: i32| {
                        set(fd, level, option, value).unwrap();
                        number(fd, level, option).unwrap()
                    };
                    let values = [0, 1, 7, 8, 9, 65_535, 65_536, -1].map(told);
                    assert_eq!(values, [0, 8, 8, 8, 9, 65_535, 65_535, 8]);
                    assert_eq!(set_bytes(fd, level, option, &[1, 0, 0]), Err(EINVAL));
                }
            }
        }
        // UDP knows the level, and covers all.
        for fd in [udp(), socket(AF_INET6, SOCK_DGRAM)] {
            for option in [SENT, LEAST] {
                assert_eq!(number(fd, IPPROTO_UDPLITE, option), Ok(0));
                assert_eq!(set(fd, IPPROTO_UDPLITE, option, 8i32), Err(ENOPROTOOPT));
            }
        }
        let fd = lite(AF_INET);
        assert_eq!(number(fd, SOL_SOCKET, libc::SO_PROTOCOL), Ok(IPPROTO_UDPLITE));
        assert_eq!(number(fd, SOL_SOCKET, libc::SO_TYPE), Ok(SOCK_DGRAM));
    });
}

#[test]
fn a_receiver_refuses_too_short_a_coverage() {
    networked(|| {
        for local in [LOCAL, LOCAL6] {
            let (to, from) = pair(local);
            let data = [7; 30];
            let came = |sent: i32| {
                set(from, IPPROTO_UDPLITE, SENT, sent).unwrap();
                assert_eq!(send(from, &data, 0), Ok(data.len()));
                receive(to, 100, 0)
            };
            // Without a wish of the receiver any coverage will do.
            let steps: [(Option<i32>, &[i32], &[i32]); 3] = [
                (None, &[0, 8, 20, 100], &[]),
                (Some(20), &[20, 38, 0], &[19]),
                (Some(0), &[38, 0], &[37, 8]),
            ];
            for (least, taken, refused) in steps {
                if let Some(least) = least {
                    set(to, IPPROTO_UDPLITE, LEAST, least).unwrap();
                }
                for sent in taken {
                    assert_eq!(came(*sent), Ok(data.to_vec()), "{least:?} {sent}");
                }
                for sent in refused {
                    assert_eq!(came(*sent), Err(EAGAIN), "{least:?} {sent}");
                }
            }
        }
    });
}

#[test]
fn the_length_field_is_the_coverage() {
    networked(|| {
        let (_to, from) = pair(LOCAL);
        let raw = try_socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK, IPPROTO_UDPLITE).unwrap();
        for (coverage, field) in
            [(None, 12), (Some(0), 0), (Some(9), 9), (Some(12), 12), (Some(13), 12)]
        {
            if let Some(coverage) = coverage {
                set(from, IPPROTO_UDPLITE, SENT, coverage).unwrap();
            }
            send(from, b"data", 0).unwrap();
            let packet = receive(raw, 100, 0).unwrap();
            let lite = &packet[20..];
            assert_eq!(u16::from_be_bytes([lite[4], lite[5]]), field, "{coverage:?}");
            assert_eq!(lite[HEADER..], *b"data");
            // The checksum covers the pseudo header and as much of the datagram.
            let covered = if field == 0 { lite.len() } else { field as usize };
            let words =
                [&packet[12..20], &[0, 136, 0, lite.len() as u8], &lite[..covered]].concat();
            let sum: u32 = words
                .chunks(2)
                .map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0)))
                .sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "{coverage:?}");
        }
    });
}

#[test]
fn a_damaged_part_that_is_not_covered_arrives() {
    networked(|| {
        let to = lite(AF_INET);
        bind(to, LOCAL).unwrap();
        let port = name(to).unwrap().port().to_be_bytes();
        let raw = try_socket(AF_INET, SOCK_RAW, IPPROTO_UDPLITE).unwrap();
        // A checksum over pseudo header and header alone.
        let datagram = |coverage: u16, sum: u16, data: &[u8]| {
            let fields = [[0x12, 0x34], port, coverage.to_be_bytes(), sum.to_be_bytes()];
            [&fields.concat(), data].concat()
        };
        let sum_of = |coverage: u16, data: &[u8]| {
            let bytes = datagram(coverage, 0, data);
            let words = [&[127, 0, 0, 1, 127, 0, 0, 1, 0, 136, 0, bytes.len() as u8], &bytes[..8]];
            let sum: u32 = words
                .concat()
                .chunks(2)
                .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
                .sum();
            !(((sum & 0xffff) + (sum >> 16)) as u16)
        };
        let send = |coverage: u16, sum: u16, data: &[u8]| {
            send_to(raw, &datagram(coverage, sum, data), LOCAL).unwrap();
            receive(to, 100, 0)
        };
        let good = sum_of(8, b"whatever");
        assert_eq!(send(8, good, b"whatever"), Ok(b"whatever".to_vec()));
        assert_eq!(send(8, good, b"damaged!"), Ok(b"damaged!".to_vec()));
        let before = count("InErrors");
        assert_eq!(send(8, good ^ 1, b"whatever"), Err(EAGAIN), "a wrong checksum");
        assert_eq!(send(8, 0, b"whatever"), Err(EAGAIN), "none");
        assert_eq!(
            send(7, sum_of(7, b"whatever"), b"whatever"),
            Err(EAGAIN),
            "less than the header"
        );
        assert_eq!(
            send(17, sum_of(17, b"whatever"), b"whatever"),
            Err(EAGAIN),
            "more than there is"
        );
        assert_eq!(count("InErrors"), before + 4);
    });
}

#[test]
fn ports_of_udp_lite_are_its_own() {
    networked(|| {
        let (to, from) = pair(LOCAL);
        let plain = udp();
        assert_eq!(bind(plain, name(to).unwrap()), Ok(0));
        assert_eq!(bind(lite(AF_INET), name(to).unwrap()), Err(libc::EADDRINUSE));
        let (sent, came) = (count("OutDatagrams"), count("InDatagrams"));
        send(from, b"x", 0).unwrap();
        assert_eq!(receive(to, 9, 0), Ok(b"x".to_vec()));
        assert_eq!((count("OutDatagrams"), count("InDatagrams")), (sent + 1, came + 1));
        let text = std::fs::read_to_string("/proc/net/udplite").unwrap();
        let line = format!(" 0100007F:{:04X} 00000000:0000 07 ", name(to).unwrap().port());
        assert!(text.contains(&line), "{text}");
        abi::close(to);
        let before = count("NoPorts");
        send(from, b"x", 0).unwrap();
        assert_eq!(receive(from, 9, 0), Err(ECONNREFUSED));
        assert_eq!(count("NoPorts"), before + 1);
        // An AF_INET6 socket takes both families.
        let six = lite(AF_INET6);
        bind(six, ANY6).unwrap();
        let four = lite(AF_INET);
        send_to(four, b"4", at_port(LOCAL, name(six).unwrap().port())).unwrap();
        assert_eq!(receive(six, 9, 0), Ok(b"4".to_vec()));
        assert!(std::fs::read_to_string("/proc/net/udplite6").unwrap().lines().count() == 2);
    });
}

#[test]
fn segments_are_not_cut() {
    networked(|| {
        let (_to, from) = pair(LOCAL);
        assert_eq!(set(from, IPPROTO_UDP, 103, 10i32), Ok(0));
        assert_eq!(send(from, &[1; 30], 0), Err(EIO));
        assert_eq!(set(from, IPPROTO_UDP, 103, 0i32), Ok(0));
        // Parts are put together.
        let (to, from) = pair(LOCAL);
        send(from, b"one ", libc::MSG_MORE).unwrap();
        send(from, b"two", 0).unwrap();
        assert_eq!(receive(to, 100, 0), Ok(b"one two".to_vec()));
        let most = 65_535 - 20 - HEADER;
        assert_eq!(send(from, &vec![1; most + 1], 0), Err(libc::EMSGSIZE));
        assert_eq!(send(from, &vec![1; most], 0), Ok(most));
        assert_eq!(receive(to, 70_000, 0).map(|data| data.len()), Ok(most));
    });
}
