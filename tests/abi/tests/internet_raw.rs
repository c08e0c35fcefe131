//! Raw sockets and ping sockets over loopback: what they send and hear, and ICMP echoes (raw(7), icmp(7)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{messages::*, *},
    ipc::Setting,
    *,
};
use libc::{EACCES, EADDRINUSE, EAGAIN, EINVAL, EMSGSIZE, IPPROTO_ICMP, IPPROTO_RAW};
use std::net::SocketAddr;

/// IPPROTO_ICMPV6.
const ICMP6: i32 = 58;
/// A protocol without a meaning (RFC 3692).
const EXPERIMENT: i32 = 253;
const ECHO: u8 = 8;
const ECHO6: u8 = 128;
/// Length of the header of IPv4 without options.
const HEADER: usize = 20;

/// Returns the checksum of the Internet (RFC 1071), 0 over bytes that hold a good one.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or_default()));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns an echo request with its checksum.
fn echo(kind: u8, id: u16, number: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend(id.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend(data);
    let sum = checksum(&bytes).to_be_bytes();
    bytes[2..4].copy_from_slice(&sum);
    bytes
}

fn raw(protocol: i32) -> i32 {
    try_socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK, protocol).unwrap()
}

/// Waits for a packet and receives it.
fn next(fd: i32) -> (Vec<u8>, SocketAddr) {
    await_events(fd, POLLIN);
    receive_from(fd, 70_000, 0).unwrap()
}

/// Lets group 0 make ping sockets.
fn allow_ping() -> Setting {
    Setting::set("net/ipv4/ping_group_range", "0 0").expect("root sets it")
}

#[test]
fn ping_sockets_are_for_a_range_of_groups() {
    networked(|| {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ping_group_range").unwrap();
        assert_eq!(range, "1\t0\n", "for none");
        assert_eq!(try_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), Err(EACCES));
        assert_eq!(try_socket(AF_INET6, SOCK_DGRAM, ICMP6), Err(EACCES));
        let setting = allow_ping();
        assert!(try_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP).is_ok());
        assert!(try_socket(AF_INET6, SOCK_DGRAM, ICMP6).is_ok());
        identity::as_user(7, &[], || {
            assert_eq!(try_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), Err(EACCES));
        });
        identity::as_user(7, &[0], || {
            let made = try_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
            assert!(made.is_ok(), "a supplementary group counts");
        });
        assert_eq!(setting.change("x"), Err(EINVAL));
    });
}

#[test]
fn a_ping_socket_hears_the_replies_to_its_own_requests() {
    networked(|| {
        let _setting = allow_ping();
        let (one, other) = [(); 2]
            .map(|()| try_socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_ICMP).unwrap())
            .into();
        // The kernel puts in the identifier and the checksum.
        assert_eq!(send_to(one, &echo(ECHO, 1, 7, b"payload"), LOCAL), Ok(15));
        let id = name(one).unwrap().port();
        assert_ne!(id, 0);
        let (reply, from) = next(one);
        assert_eq!(from, LOCAL);
        assert_eq!((reply[0], reply[1], checksum(&reply)), (0, 0, 0), "an echo reply");
        assert_eq!(reply[4..6], id.to_be_bytes());
        assert_eq!(reply[6..], [&[0, 7][..], b"payload"].concat());
        assert_eq!(send_to(other, &echo(ECHO, 1, 8, b""), LOCAL), Ok(8));
        assert_eq!(next(other).0[6..8], [0, 8]);
        assert_eq!(receive(one, 99, 0), Err(EAGAIN), "none of another's");
    });
}

#[test]
fn a_ping_socket_of_ipv6_hears_its_replies() {
    networked(|| {
        let _setting = allow_ping();
        let fd = try_socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, ICMP6).unwrap();
        assert_eq!(send_to(fd, &echo(ECHO6, 1, 9, b"six"), LOCAL6), Ok(11));
        let (reply, from) = next(fd);
        assert_eq!((from, reply[0], reply[1]), (LOCAL6, 129, 0));
        assert_eq!(reply[4..6], name(fd).unwrap().port().to_be_bytes());
        assert_eq!(reply[6..], [&[0, 9][..], b"six"].concat());
        assert_eq!(send_to(fd, &echo(ECHO, 1, 1, b""), LOCAL6), Err(EINVAL), "one of IPv4");
    });
}

#[test]
fn the_port_of_a_ping_socket_is_its_identifier() {
    networked(|| {
        let _setting = allow_ping();
        let ping = || try_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP).unwrap();
        let fd = ping();
        assert_eq!(bind(fd, at_port(LOCAL, 1233)), Ok(0));
        assert_eq!(bind(ping(), at_port(LOCAL, 1234)), Ok(0));
        // These sockets have SO_REUSEADDR from the start.
        assert_eq!(bind(ping(), at_port(LOCAL, 1234)), Ok(0));
        let alone = ping();
        assert_eq!(number(alone, SOL_SOCKET, libc::SO_REUSEADDR), Ok(1));
        assert_eq!(set(alone, SOL_SOCKET, libc::SO_REUSEADDR, 0i32), Ok(0));
        assert_eq!(bind(alone, at_port(LOCAL, 1234)), Err(EADDRINUSE));
        assert_eq!(bind(ping(), at_port(FOREIGN, 1235)), Err(libc::EADDRNOTAVAIL));
        assert_eq!(send_to(fd, &echo(ECHO, 0, 1, b""), LOCAL), Ok(8));
        let (reply, _) = next(fd);
        assert_eq!(reply[4..6], 1233u16.to_be_bytes());
        assert_eq!(connect(fd, LOCAL), Ok(0));
        assert_eq!(send(fd, &echo(ECHO, 0, 2, b""), 0), Ok(8));
        assert_eq!(next(fd).0[6..8], [0, 2]);
    });
}

#[test]
fn a_ping_socket_sends_echo_requests_alone() {
    networked(|| {
        let _setting = allow_ping();
        let fd = try_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP).unwrap();
        for kind in [0, 3, 11, 13, 255] {
            assert_eq!(send_to(fd, &echo(kind, 0, 1, b""), LOCAL), Err(EINVAL), "{kind}");
        }
        let mut coded = echo(ECHO, 0, 1, b"");
        coded[1] = 1;
        assert_eq!(send_to(fd, &coded, LOCAL), Err(EINVAL));
        assert_eq!(send_to(fd, &coded[..7], LOCAL), Err(EINVAL), "less than a header");
        assert_eq!(send(fd, &echo(ECHO, 0, 1, b""), 0), Err(libc::EDESTADDRREQ));
        let long = echo(ECHO, 0, 1, &vec![0; 65_536]);
        assert_eq!(send_to(fd, &long, LOCAL), Err(EMSGSIZE));
    });
}

#[test]
fn a_raw_socket_hears_requests_and_replies_with_their_headers() {
    networked(|| {
        let fd = raw(IPPROTO_ICMP);
        let request = echo(ECHO, 77, 1, b"raw");
        assert_eq!(send_to(fd, &request, LOCAL), Ok(request.len()));
        let (first, from) = next(fd);
        assert_eq!((from, first[HEADER..].to_vec()), (LOCAL, request.clone()), "its own request");
        let (second, _) = next(fd);
        assert_eq!((first.len(), second.len()), (31, 31));
        for packet in [&first, &second] {
            assert_eq!((packet[0], packet[9]), (0x45, IPPROTO_ICMP as u8));
            assert_eq!(packet[2..4], 31u16.to_be_bytes(), "the length as on the wire");
            assert_eq!(packet[12..20], [127, 0, 0, 1, 127, 0, 0, 1]);
            assert_eq!(checksum(&packet[..HEADER]), 0);
        }
        assert_eq!(second[HEADER], 0, "the reply");
        assert_eq!(second[HEADER + 4..], request[4..]);
    });
}

#[test]
fn requests_of_every_length_are_answered() {
    networked(|| {
        let four = raw(IPPROTO_ICMP);
        let six = try_socket(AF_INET6, SOCK_RAW | SOCK_NONBLOCK, ICMP6).unwrap();
        for length in [56, 57, 100, 1400, 1473, 20_000] {
            let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
            for (fd, kind, to, header) in [(four, ECHO, LOCAL, HEADER), (six, ECHO6, LOCAL6, 0)] {
                let request = echo(kind, 78, 1, &data);
                assert_eq!(send_to(fd, &request, to), Ok(request.len()));
                for what in ["request", "reply"] {
                    let (packet, _) = next(fd);
                    assert_eq!(packet.len(), header + request.len(), "{what} of {length} bytes");
                    assert!(packet.ends_with(&data), "{what} of {length} bytes");
                }
            }
        }
    });
}

#[test]
fn types_of_icmp_are_filtered() {
    networked(|| {
        const ICMP_FILTER: i32 = 1;
        const SOL_RAW: i32 = 255;
        let fd = raw(IPPROTO_ICMP);
        assert_eq!(number(fd, SOL_RAW, ICMP_FILTER), Ok(0));
        assert_eq!(set(fd, SOL_RAW, ICMP_FILTER, 1u32 << ECHO), Ok(0));
        assert_eq!(send_to(fd, &echo(ECHO, 5, 1, b""), LOCAL), Ok(8));
        assert_eq!(next(fd).0[HEADER], 0, "the request is blocked");
        assert_eq!(receive(fd, 99, 0), Err(EAGAIN));
        let other = set(raw(EXPERIMENT), SOL_RAW, ICMP_FILTER, 1u32);
        assert_eq!(other, Err(libc::EOPNOTSUPP));
    });
}

#[test]
fn a_raw_socket_hears_its_protocol_alone() {
    networked(|| {
        let (fd, other, second) = (raw(EXPERIMENT), raw(EXPERIMENT + 1), raw(EXPERIMENT));
        assert_eq!(send_to(fd, b"experiment", LOCAL), Ok(10));
        for fd in [fd, second] {
            let (packet, _) = next(fd);
            assert_eq!((packet[9], &packet[HEADER..]), (EXPERIMENT as u8, &b"experiment"[..]));
        }
        assert_eq!(receive(other, 99, 0), Err(EAGAIN));
        let udp_raw = raw(IPPROTO_UDP);
        let (sender, receiver) = udp_pair();
        send(sender, b"seen", 0).unwrap();
        let (packet, _) = next(udp_raw);
        assert_eq!(packet[HEADER..HEADER + 2], name(sender).unwrap().port().to_be_bytes());
        assert_eq!(&packet[HEADER + 8..], b"seen");
        assert_eq!(receive(receiver, 9, 0), Ok(b"seen".to_vec()), "the owner has it, too");
    });
}

#[test]
fn names_of_a_raw_socket_choose_what_it_hears() {
    networked(|| {
        let (bound_one, connected) = (raw(EXPERIMENT), raw(EXPERIMENT));
        let two = v4([127, 0, 0, 2], 0);
        assert_eq!(bind(bound_one, v4([127, 0, 0, 2], 99)), Ok(0));
        assert_eq!(
            name(bound_one),
            Ok(at_port(two, EXPERIMENT as u16)),
            "the port is the protocol"
        );
        assert_eq!(bind(raw(EXPERIMENT), FOREIGN), Err(libc::EADDRNOTAVAIL));
        assert_eq!(connect(connected, two), Ok(0));
        let sender = raw(EXPERIMENT);
        assert_eq!(send_to(sender, b"to two", two), Ok(6));
        assert_eq!(&next(bound_one).0[HEADER..], b"to two");
        assert_eq!(receive(connected, 99, 0), Err(EAGAIN), "its sender was another");
        assert_eq!(send_to(bound_one, b"from two", LOCAL), Ok(8));
        let (packet, from) = next(connected);
        assert_eq!((from, &packet[HEADER..]), (two, &b"from two"[..]));
        assert_eq!(send(sender, b"x", 0), Err(libc::EDESTADDRREQ));
    });
}

#[test]
fn a_program_makes_the_header_itself() {
    networked(|| {
        let (fd, hears) = (raw(IPPROTO_RAW), raw(EXPERIMENT));
        let mut packet = vec![0x45, 0x20, 0, 0, 0x12, 0x34, 0, 0, 9, EXPERIMENT as u8, 0, 0];
        packet.extend([127, 5, 5, 5]);
        packet.extend([127, 0, 0, 1]);
        packet.extend(b"whole");
        assert_eq!(send_to(fd, &packet, LOCAL), Ok(packet.len()));
        let (got, from) = next(hears);
        assert_eq!(from, v4([127, 5, 5, 5], 0), "as the header says");
        assert_eq!(got[2..4], 25u16.to_be_bytes(), "the kernel puts in the length");
        assert_eq!((got[1], got[8], &got[4..6]), (0x20, 9, &[0x12, 0x34][..]));
        assert_eq!(checksum(&got[..HEADER]), 0, "and the checksum");
        // A source of zero is chosen.
        packet[12..16].fill(0);
        assert_eq!(send_to(fd, &packet, LOCAL), Ok(packet.len()));
        assert_eq!(next(hears).1, LOCAL);
        assert_eq!(send_to(fd, &packet[..10], LOCAL), Err(EINVAL), "less than a header");
        assert_eq!(receive(fd, 99, 0), Err(EAGAIN), "this socket hears nothing");
        assert_eq!(send_to(raw(EXPERIMENT), &vec![0; 65_536], LOCAL), Err(EMSGSIZE));
    });
}

#[test]
fn a_raw_socket_of_ipv6_has_no_header_and_a_checksum() {
    networked(|| {
        let fd = try_socket(AF_INET6, SOCK_RAW | SOCK_NONBLOCK, EXPERIMENT).unwrap();
        assert_eq!(send_to(fd, b"experiment", LOCAL6), Ok(10));
        assert_eq!(next(fd), (b"experiment".to_vec(), LOCAL6));
        assert_eq!(set(fd, IPPROTO_IPV6, libc::IPV6_CHECKSUM, 3i32), Err(EINVAL), "odd");
        assert_eq!(set(fd, IPPROTO_IPV6, libc::IPV6_CHECKSUM, 2i32), Ok(0));
        assert_eq!(send_to(fd, &[1, 2, 0, 0, 5, 6], LOCAL6), Ok(6));
        let (packet, _) = next(fd);
        assert_eq!((&packet[..2], &packet[4..]), (&[1, 2][..], &[5, 6][..]));
        // The sum over the pseudo header (RFC 8200, 8.1) as well.
        let mut whole = [0u8; 40].to_vec();
        (whole[15], whole[31], whole[35], whole[39]) = (1, 1, 6, EXPERIMENT as u8);
        whole.extend(&packet);
        assert_eq!(checksum(&whole), 0);
    });
}

#[test]
fn a_raw_socket_tells_of_each_packet() {
    networked(|| {
        let fd = raw(EXPERIMENT);
        switch_on(fd, IPPROTO_IP, libc::IP_RECVTTL);
        switch_on(fd, IPPROTO_IP, libc::IP_PKTINFO);
        assert_eq!(set(fd, IPPROTO_IP, libc::IP_TTL, 42i32), Ok(0));
        assert_eq!(send_to(fd, b"x", LOCAL), Ok(1));
        await_events(fd, POLLIN);
        let got = receive_message(fd, 99, 0).unwrap();
        assert_eq!(got.number_of(IPPROTO_IP, libc::IP_TTL), Some(42));
        assert_eq!(got.number_of(IPPROTO_IP, libc::IP_PKTINFO), Some(1), "lo");
        assert_eq!((got.data[8], got.count), (42, HEADER + 1));
        assert_eq!(send_to(fd, b"long", LOCAL), Ok(4));
        await_events(fd, POLLIN);
        let cut = receive_parts(fd, &[HEADER], 0, MSG_TRUNC).unwrap().0;
        assert_eq!((cut.count, cut.flags & MSG_TRUNC), (HEADER + 4, MSG_TRUNC));
    });
}

/// Flags of segments of TCP.
const SYN: u8 = 2;
const RESET: u8 = 4;
const ACK: u8 = 16;
/// Length of the header of TCP without options.
const TCP_HEADER: usize = 20;

/// The fields of a segment of TCP.
#[derive(Debug)]
struct Segment {
    ports: (u16, u16),
    acknowledged: u32,
    flags: u8,
    data: Vec<u8>,
}

/// Reads a segment.
fn segment(bytes: &[u8]) -> Segment {
    let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let acknowledged = u32::from_be_bytes(bytes[8..12].try_into().unwrap());
    let data = bytes[usize::from(bytes[12] >> 4) * 4..].to_vec();
    Segment { ports: (half(0), half(2)), acknowledged, flags: bytes[13], data }
}

/// Waits for a segment of a raw socket that `is_it` accepts. Each packet is one of 127.0.0.1 with its header of IP.
fn await_segment(fd: i32, is_it: impl Fn(&Segment) -> bool) -> Segment {
    loop {
        let (packet, from) = next(fd);
        assert_eq!(from, LOCAL);
        assert_eq!((packet[0], packet[9]), (0x45, IPPROTO_TCP as u8));
        let length = u16::from_be_bytes([packet[2], packet[3]]);
        assert_eq!((usize::from(length), packet[8]), (packet.len(), 64));
        assert_eq!(packet[12..20], [127, 0, 0, 1, 127, 0, 0, 1]);
        let found = segment(&packet[HEADER..]);
        if is_it(&found) {
            return found;
        }
    }
}

#[test]
fn a_raw_socket_of_tcp_hears_connections_of_this_host() {
    networked(|| {
        let hearer = raw(IPPROTO_TCP);
        let (client, server) = tcp_pair();
        let (own, at) = (name(client).unwrap().port(), name(server).unwrap().port());
        let there = (own, at);
        let syn = await_segment(hearer, |one| one.ports == there);
        assert_eq!((syn.flags & (SYN | ACK), syn.data.len()), (SYN, 0));
        let answer = await_segment(hearer, |one| one.ports == (at, own));
        assert_eq!(answer.flags & (SYN | ACK), SYN | ACK);
        assert_eq!(send(client, b"heard", 0), Ok(5));
        let data = await_segment(hearer, |one| one.ports == there && !one.data.is_empty());
        assert_eq!(data.data, b"heard");
        assert_eq!(receive(server, 9, 0), Ok(b"heard".to_vec()), "the connection gets it, too");
        close(client);
        await_segment(hearer, |one| one.ports == there && one.flags & 1 != 0);
        let deaf = raw(IPPROTO_TCP);
        assert_eq!(bind(deaf, v4([127, 0, 0, 2], 0)), Ok(0));
        let (client, _server) = tcp_pair();
        assert_eq!(send(client, b"x", 0), Ok(1));
        assert_eq!(receive(deaf, 99, 0), Err(EAGAIN), "it is bound to another address");
    });
}

#[test]
fn a_raw_socket_of_tcp_hears_ipv6_without_the_header_of_ip() {
    networked(|| {
        let hearer = try_socket(AF_INET6, SOCK_RAW | SOCK_NONBLOCK, IPPROTO_TCP).unwrap();
        let (fd, at) = listener(LOCAL6);
        let (client, _server) = connection_to(fd);
        let (packet, from) = next(hearer);
        assert_eq!(from.ip(), LOCAL6.ip());
        let syn = segment(&packet);
        assert_eq!(syn.ports, (name(client).unwrap().port(), at.port()));
        assert_eq!(syn.flags & (SYN | ACK), SYN);
    });
}

#[test]
fn a_segment_that_a_program_makes_is_answered() {
    networked(|| {
        let fd = raw(IPPROTO_TCP);
        let closed = closed_port(SOCK_STREAM).port();
        let mut head = Vec::new();
        head.extend(4321u16.to_be_bytes());
        head.extend(closed.to_be_bytes());
        head.extend(1000u32.to_be_bytes());
        head.extend([0, 0, 0, 0, 5 << 4, SYN, 16, 0, 0, 0, 0, 0]);
        let mut summed = vec![127, 0, 0, 1, 127, 0, 0, 1, 0, IPPROTO_TCP as u8, 0, 20];
        summed.extend(&head);
        let sum = checksum(&summed).to_be_bytes();
        head[16..18].copy_from_slice(&sum);
        assert_eq!(send_to(fd, &head, LOCAL), Ok(TCP_HEADER));
        let reset = await_segment(fd, |one| one.ports == (closed, 4321));
        assert_eq!(reset.flags & (SYN | RESET | ACK), RESET | ACK);
        assert_eq!((reset.acknowledged, reset.data.len()), (1001, 0));
    });
}

#[test]
fn a_packet_socket_sees_frames_of_loopback() {
    networked(|| {
        const ETH_P_IP: u16 = 0x0800;
        let protocol = i32::from(ETH_P_IP.to_be());
        let fd = try_socket(libc::AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, protocol).unwrap();
        let (to, at) = bound(SOCK_DGRAM, LOCAL);
        assert_eq!(send_to(udp(), b"a datagram", at), Ok(10));
        assert_eq!(receive(to, 99, 0), Ok(b"a datagram".to_vec()));
        await_events(fd, POLLIN);
        let mut bytes = [0u8; 100];
        let mut from: libc::sockaddr_ll = unsafe { zeroed() };
        let mut length = size_of::<libc::sockaddr_ll>() as u32;
        let (into, from_at) = (bytes.as_mut_ptr().cast(), (&raw mut from).cast());
        let count = must(unsafe { libc::recvfrom(fd, into, 100, 0, from_at, &mut length) } as i64);
        assert_eq!((count, bytes[0]), (38, 0x45));
        assert_eq!(bytes[28..38], *b"a datagram");
        let told = (i32::from(from.sll_family), from.sll_ifindex, from.sll_hatype);
        assert_eq!(told, (libc::AF_PACKET, 1, libc::ARPHRD_LOOPBACK));
        assert_eq!(u16::from_be(from.sll_protocol), ETH_P_IP);
    });
}
