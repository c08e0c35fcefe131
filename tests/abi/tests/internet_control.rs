//! Control messages of datagrams: destination, TTL, TOS, times, drops, and the queue of errors (cmsg(3), ip(7), ipv6(7)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{messages::*, *},
    *,
};
use libc::{
    EAGAIN, ECONNREFUSED, EINVAL, EMSGSIZE, EPERM, IP_PKTINFO, IP_RECVERR, IP_RECVTOS, IP_RECVTTL,
    IP_TOS, IP_TTL, IPV6_RECVPKTINFO, MSG_CTRUNC, MSG_ERRQUEUE,
};
use std::net::SocketAddr;

/// Length of sock_extended_err.
const EXTENDED: usize = 16;
/// Number of loopback's interface.
const LO: i32 = 1;
const SO_TIMESTAMP: i32 = 29;
const SO_TIMESTAMPNS: i32 = 35;
const SO_RXQ_OVFL: i32 = 40;

/// Waits for a message and receives it.
fn next(fd: i32) -> Received {
    await_events(fd, POLLIN);
    receive_message(fd, 2000, 0).unwrap()
}

/// Waits for an error and takes it from the queue.
fn next_error(fd: i32) -> Received {
    await_events(fd, POLLERR);
    receive_message(fd, 2000, MSG_ERRQUEUE).unwrap()
}

/// Returns in_pktinfo or in6_pktinfo as bytes: for IPv4 the interface, the source and the destination.
fn packet_info(index: i32, source: [u8; 4]) -> Control {
    let bytes = [index.to_ne_bytes(), source, [0; 4]].concat();
    (IPPROTO_IP, IP_PKTINFO, bytes)
}

#[test]
fn no_control_message_comes_unasked() {
    networked(|| {
        for address in [LOCAL, LOCAL6] {
            let (one, other) = udp_pair_over(address);
            send(one, b"x", 0).unwrap();
            let got = next(other);
            assert_eq!((got.control, got.flags), (vec![], 0));
            assert_eq!(got.from, Some(name(one).unwrap()));
        }
    });
}

#[test]
fn the_destination_of_a_datagram_is_told() {
    networked(|| {
        let (fd, at) = bound(SOCK_DGRAM, ANY);
        assert_eq!(number(fd, IPPROTO_IP, IP_PKTINFO), Ok(0));
        switch_on(fd, IPPROTO_IP, IP_PKTINFO);
        for octets in [[127, 0, 0, 1], [127, 8, 9, 10]] {
            assert_eq!(send_to(udp(), b"x", v4(octets, at.port())), Ok(1));
            let got = next(fd);
            let info = got.control_of(IPPROTO_IP, IP_PKTINFO).unwrap();
            assert_eq!((info.len(), &info[..4]), (12, &LO.to_ne_bytes()[..]));
            assert_eq!(info[8..], octets, "the header's destination");
            assert_eq!(info[4..8], octets, "the local address");
        }
    });
}

#[test]
fn a_message_chooses_its_source() {
    networked(|| {
        let (to, at) = bound(SOCK_DGRAM, LOCAL);
        let (fd, own) = bound(SOCK_DGRAM, ANY);
        let info = packet_info(0, [127, 4, 4, 4]);
        assert_eq!(send_message(fd, &[b"x"], Some(at), &[info], 0), Ok(1));
        assert_eq!(next(to).from, Some(v4([127, 4, 4, 4], own.port())));
        let info = packet_info(LO, [0; 4]);
        assert_eq!(send_message(fd, &[b"x"], Some(at), &[info], 0), Ok(1));
        assert_eq!(next(to).from, Some(at_port(LOCAL, own.port())));
        let foreign = packet_info(0, [192, 0, 2, 1]);
        assert_eq!(send_message(fd, &[b"x"], Some(at), &[foreign], 0), Err(libc::ENETUNREACH));
        let short = (IPPROTO_IP, IP_PKTINFO, vec![0; 8]);
        assert_eq!(send_message(fd, &[b"x"], Some(at), &[short], 0), Err(EINVAL));
        let unknown = number_control(IPPROTO_IP, 999, 1);
        assert_eq!(send_message(fd, &[b"x"], Some(at), &[unknown], 0), Err(EINVAL));
    });
}

#[test]
fn the_destination_of_a_datagram_of_ipv6_is_told() {
    networked(|| {
        let (fd, at) = bound(SOCK_DGRAM, ANY6);
        switch_on(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO);
        switch_on(fd, IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT);
        switch_on(fd, IPPROTO_IPV6, libc::IPV6_RECVTCLASS);
        let sender = socket(AF_INET6, SOCK_DGRAM);
        set(sender, IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 17i32).unwrap();
        set(sender, IPPROTO_IPV6, libc::IPV6_TCLASS, 0x20i32).unwrap();
        assert_eq!(send_to(sender, b"x", at_port(LOCAL6, at.port())), Ok(1));
        let got = next(fd);
        let info = got.control_of(IPPROTO_IPV6, libc::IPV6_PKTINFO).unwrap();
        assert_eq!((&info[..15], info[15]), (&[0; 15][..], 1), "::1");
        assert_eq!(info[16..], LO.to_ne_bytes());
        assert_eq!(got.number_of(IPPROTO_IPV6, libc::IPV6_HOPLIMIT), Some(17));
        assert_eq!(got.number_of(IPPROTO_IPV6, libc::IPV6_TCLASS), Some(0x20));
    });
}

#[test]
fn ttl_and_tos_of_a_datagram_are_told() {
    networked(|| {
        let (fd, at) = bound(SOCK_DGRAM, LOCAL);
        switch_on(fd, IPPROTO_IP, IP_RECVTTL);
        switch_on(fd, IPPROTO_IP, IP_RECVTOS);
        let sender = udp();
        assert_eq!(send_to(sender, b"x", at), Ok(1));
        let got = next(fd);
        assert_eq!(got.number_of(IPPROTO_IP, IP_TTL), Some(64));
        assert_eq!(got.control_of(IPPROTO_IP, IP_TOS), Some(&[0u8][..]), "one byte");
        set(sender, IPPROTO_IP, IP_TTL, 9i32).unwrap();
        set(sender, IPPROTO_IP, IP_TOS, 0x48i32).unwrap();
        assert_eq!(send_to(sender, b"x", at), Ok(1));
        let got = next(fd);
        assert_eq!(got.number_of(IPPROTO_IP, IP_TTL), Some(9));
        assert_eq!(got.number_of(IPPROTO_IP, IP_TOS), Some(0x48));
    });
}

#[test]
fn a_message_chooses_its_ttl_and_tos() {
    networked(|| {
        let (fd, at) = bound(SOCK_DGRAM, LOCAL);
        switch_on(fd, IPPROTO_IP, IP_RECVTTL);
        switch_on(fd, IPPROTO_IP, IP_RECVTOS);
        let sender = udp();
        let control =
            [number_control(IPPROTO_IP, IP_TTL, 3), number_control(IPPROTO_IP, IP_TOS, 0x10)];
        assert_eq!(send_message(sender, &[b"x"], Some(at), &control, 0), Ok(1));
        let got = next(fd);
        assert_eq!(got.number_of(IPPROTO_IP, IP_TTL), Some(3));
        assert_eq!(got.number_of(IPPROTO_IP, IP_TOS), Some(0x10));
        assert_eq!(send_to(sender, b"x", at), Ok(1));
        assert_eq!(next(fd).number_of(IPPROTO_IP, IP_TTL), Some(64), "for that one alone");
        for wrong in [0, 256, -1] {
            let control = [number_control(IPPROTO_IP, IP_TTL, wrong)];
            assert_eq!(send_message(sender, &[b"x"], Some(at), &control, 0), Err(EINVAL));
        }
    });
}

#[test]
fn the_time_of_arrival_is_told() {
    networked(|| {
        let (one, other) = udp_pair();
        let now = || clock_ns(libc::CLOCK_REALTIME) as i64;
        for (option, unit) in [(SO_TIMESTAMP, 1000), (SO_TIMESTAMPNS, 1)] {
            assert_eq!(number(other, SOL_SOCKET, option), Ok(0));
            switch_on(other, SOL_SOCKET, option);
            let before = now();
            send(one, b"x", 0).unwrap();
            let got = next(other);
            let time = got.control_of(SOL_SOCKET, option).unwrap();
            assert_eq!(time.len(), 16);
            let word = |at: usize| i64::from_ne_bytes(time[at..at + 8].try_into().unwrap());
            let at = word(0) * 1_000_000_000 + word(8) * unit;
            assert!(before - unit < at && at <= now(), "{before} {at}");
        }
        assert_eq!(number(other, SOL_SOCKET, SO_TIMESTAMP), Ok(0), "the other took its place");
    });
}

#[test]
fn the_number_of_dropped_datagrams_is_told() {
    networked(|| {
        let (one, other) = udp_pair();
        switch_on(other, SOL_SOCKET, SO_RXQ_OVFL);
        set(other, SOL_SOCKET, libc::SO_RCVBUF, 0i32).unwrap();
        send(one, b"x", 0).unwrap();
        assert_eq!(next(other).control_of(SOL_SOCKET, SO_RXQ_OVFL), None, "none yet");
        for _ in 0..100 {
            send(one, &[1; 100], 0).unwrap();
        }
        let kept = std::iter::from_fn(|| receive(other, 9, MSG_DONTWAIT).ok()).count();
        send(one, b"x", 0).unwrap();
        assert_eq!(next(other).number_of(SOL_SOCKET, SO_RXQ_OVFL), Some(100 - kept as i32));
    });
}

#[test]
fn the_original_destination_port_is_told() {
    networked(|| {
        let (fd, at) = bound(SOCK_DGRAM, ANY);
        switch_on(fd, IPPROTO_IP, libc::IP_RECVORIGDSTADDR);
        let to = v4([127, 6, 6, 6], at.port());
        assert_eq!(send_to(udp(), b"x", to), Ok(1));
        let got = next(fd);
        let bytes = got.control_of(IPPROTO_IP, libc::IP_ORIGDSTADDR).unwrap();
        assert_eq!(from_raw(bytes), Some(to));
    });
}

#[test]
fn a_short_room_cuts_control_messages() {
    networked(|| {
        let (one, other) = udp_pair();
        switch_on(other, IPPROTO_IP, IP_PKTINFO);
        switch_on(other, IPPROTO_IP, IP_RECVTTL);
        for _ in 0..3 {
            send(one, b"x", 0).unwrap();
        }
        await_events(other, POLLIN);
        let none = receive_parts(other, &[9], 0, 0).unwrap().0;
        assert_eq!((none.control, none.flags), (vec![], MSG_CTRUNC));
        let first = receive_parts(other, &[9], 32, 0).unwrap().0;
        assert_eq!((first.control.len(), first.flags), (1, MSG_CTRUNC));
        let part = receive_parts(other, &[9], 20, 0).unwrap().0;
        assert_eq!((part.control[0].2.len(), part.flags), (4, MSG_CTRUNC), "a part of one");
    });
}

#[test]
fn malformed_control_messages_are_refused() {
    networked(|| {
        let (one, _other) = udp_pair();
        for (length, room) in [(0usize, 16usize), (15, 16), (40, 16), (usize::MAX, 16)] {
            let mut bytes = [0u64; 8];
            bytes[0] = length as u64;
            let mut part = libc::iovec { iov_base: b"x".as_ptr() as *mut _, iov_len: 1 };
            let mut header: libc::msghdr = unsafe { zeroed() };
            (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
            (header.msg_control, header.msg_controllen) = (bytes.as_mut_ptr().cast(), room as _);
            let sent = check(unsafe { libc::sendmsg(one, &header, 0) } as i64);
            assert_eq!(sent, Err(EINVAL), "{length} of {room}");
        }
    });
}

#[test]
fn the_queue_of_errors_tells_of_a_closed_port() {
    networked(|| {
        let fd = udp();
        switch_on(fd, IPPROTO_IP, IP_RECVERR);
        assert_eq!(receive_message(fd, 9, MSG_ERRQUEUE), Err(EAGAIN));
        let gone = closed_port(SOCK_DGRAM);
        assert_eq!(send_to(fd, b"lost", gone), Ok(4), "it need not be connected");
        let got = next_error(fd);
        assert_eq!((&got.data[..], got.flags), (&b"lost"[..], MSG_ERRQUEUE));
        assert_eq!(got.from, Some(gone), "the address to which it was sent");
        let error = got.control_of(IPPROTO_IP, IP_RECVERR).unwrap();
        assert_eq!(error[..4], ECONNREFUSED.to_ne_bytes());
        // From ICMP, type 3, code 3 (RFC 792).
        assert_eq!(error[4..8], [2, 3, 3, 0]);
        assert_eq!(error[8..EXTENDED], [0; 8]);
        let offender = from_raw(&error[EXTENDED..]).unwrap();
        assert_eq!(offender, at_port(LOCAL, 0));
        assert_eq!(receive_message(fd, 9, MSG_ERRQUEUE), Err(EAGAIN));
        assert_eq!(polled(fd, POLLERR), 0);
    });
}

#[test]
fn the_queue_of_errors_of_ipv6_tells_of_a_closed_port() {
    networked(|| {
        let (fd, other) = udp_pair_over(LOCAL6);
        switch_on(fd, IPPROTO_IPV6, libc::IPV6_RECVERR);
        let gone = name(other).unwrap();
        close(other);
        assert_eq!(send(fd, b"lost", 0), Ok(4));
        let got = next_error(fd);
        assert_eq!((&got.data[..], got.from), (&b"lost"[..], Some(gone)));
        let error = got.control_of(IPPROTO_IPV6, libc::IPV6_RECVERR).unwrap();
        assert_eq!(error[..4], ECONNREFUSED.to_ne_bytes());
        // From ICMPv6, type 1, code 4 (RFC 4443).
        assert_eq!(error[4..8], [3, 1, 4, 0]);
        assert_eq!(from_raw(&error[EXTENDED..]), Some(LOCAL6));
    });
}

/// Returns the kinds of the control messages, in their order.
fn kinds(got: &Received) -> Vec<(i32, i32)> {
    got.control.iter().map(|(level, kind, _)| (*level, *kind)).collect()
}

#[test]
fn the_queue_of_errors_tells_the_header_of_the_message() {
    networked(|| {
        let (fd, other) = udp_pair();
        for option in [IP_PKTINFO, IP_RECVTTL, IP_RECVTOS, libc::IP_RECVORIGDSTADDR, IP_RECVERR] {
            switch_on(fd, IPPROTO_IP, option);
        }
        switch_on(fd, SOL_SOCKET, SO_TIMESTAMP);
        assert_eq!(set(fd, IPPROTO_IP, IP_TTL, 7i32), Ok(0));
        assert_eq!(set(fd, IPPROTO_IP, IP_TOS, 0x10i32), Ok(0));
        close(other);
        assert_eq!(send(fd, b"lost", 0), Ok(4));
        let got = next_error(fd);
        let order = [
            (SOL_SOCKET, SO_TIMESTAMP),
            (IPPROTO_IP, IP_PKTINFO),
            (IPPROTO_IP, IP_TTL),
            (IPPROTO_IP, IP_TOS),
            (IPPROTO_IP, libc::IP_ORIGDSTADDR),
            (IPPROTO_IP, IP_RECVERR),
        ];
        assert_eq!(kinds(&got), order);
        let told = |kind| got.control_of(IPPROTO_IP, kind).unwrap();
        assert_eq!(told(IP_TTL), 64i32.to_ne_bytes(), "of the message, not of what it quotes");
        assert_eq!(told(IP_TOS), [0xd0], "internetwork control and the datagram's own (RFC 1812)");
        // The local address is that of no route: the message was for the kernel.
        let info = [LO.to_ne_bytes(), [0; 4], [127, 0, 0, 1]].concat();
        assert_eq!(told(IP_PKTINFO), info);
        // The port is taken from the quoted payload.
        let port = u16::from_be_bytes(*b"st");
        assert_eq!(from_raw(told(libc::IP_ORIGDSTADDR)), Some(at_port(LOCAL, port)));
        // A payload that is too short for ports has no address.
        assert_eq!(send(fd, b"abc", 0), Ok(3));
        let got = next_error(fd);
        assert_eq!(got.control_of(IPPROTO_IP, libc::IP_ORIGDSTADDR), None);
        assert!(got.control_of(IPPROTO_IP, IP_TTL).is_some());
    });
}

#[test]
fn the_queue_of_errors_of_ipv6_tells_the_header_of_the_message() {
    networked(|| {
        let (fd, other) = udp_pair_over(LOCAL6);
        let options = [
            IPV6_RECVPKTINFO,
            libc::IPV6_RECVHOPLIMIT,
            libc::IPV6_RECVTCLASS,
            libc::IPV6_RECVORIGDSTADDR,
            libc::IPV6_RECVERR,
        ];
        for option in options {
            switch_on(fd, IPPROTO_IPV6, option);
        }
        close(other);
        assert_eq!(send(fd, b"lost", 0), Ok(4));
        let got = next_error(fd);
        let order = [
            libc::IPV6_PKTINFO,
            libc::IPV6_HOPLIMIT,
            libc::IPV6_TCLASS,
            libc::IPV6_ORIGDSTADDR,
            libc::IPV6_RECVERR,
        ];
        assert_eq!(kinds(&got), order.map(|kind| (IPPROTO_IPV6, kind)));
        let told = |kind| got.control_of(IPPROTO_IPV6, kind).unwrap();
        let mut info = std::net::Ipv6Addr::LOCALHOST.octets().to_vec();
        info.extend(LO.to_ne_bytes());
        assert_eq!(told(libc::IPV6_PKTINFO), info);
        assert_eq!(told(libc::IPV6_HOPLIMIT), 64i32.to_ne_bytes());
        assert_eq!(told(libc::IPV6_TCLASS), 0i32.to_ne_bytes());
        let port = u16::from_be_bytes(*b"st");
        assert_eq!(from_raw(told(libc::IPV6_ORIGDSTADDR)), Some(at_port(LOCAL6, port)));
    });
}

#[test]
fn the_queue_of_errors_of_ipv6_has_mapped_addresses_for_ipv4() {
    networked(|| {
        let fd = socket(AF_INET6, SOCK_DGRAM);
        let mapped = |port| {
            let ip = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped();
            SocketAddr::new(ip.into(), port)
        };
        switch_on(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO);
        switch_on(fd, IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT);
        switch_on(fd, IPPROTO_IP, IP_RECVTTL);
        switch_on(fd, IPPROTO_IP, IP_RECVERR);
        let gone = closed_port(SOCK_DGRAM).port();
        assert_eq!(send_to(fd, b"lost", mapped(gone)), Ok(4));
        let got = next_error(fd);
        assert_eq!((&got.data[..], got.from), (&b"lost"[..], Some(mapped(gone))));
        let order = [
            (IPPROTO_IPV6, libc::IPV6_PKTINFO),
            (IPPROTO_IP, IP_TTL),
            (IPPROTO_IPV6, libc::IPV6_RECVERR),
        ];
        assert_eq!(kinds(&got), order);
        let info = got.control_of(IPPROTO_IPV6, libc::IPV6_PKTINFO).unwrap();
        let ip = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
        assert_eq!(info, [&ip[..], &LO.to_ne_bytes()].concat());
        let error = got.control_of(IPPROTO_IPV6, libc::IPV6_RECVERR).unwrap();
        assert_eq!(error[4..8], [2, 3, 3, 0]);
        assert_eq!(from_raw(&error[EXTENDED..]), Some(mapped(0)));
    });
}

#[test]
fn an_error_of_this_host_tells_no_header() {
    networked(|| {
        let (fd, _other) = udp_pair();
        for option in [IP_PKTINFO, IP_RECVTTL, IP_RECVERR] {
            switch_on(fd, IPPROTO_IP, option);
        }
        switch_on(fd, SOL_SOCKET, SO_TIMESTAMPNS);
        assert_eq!(set(fd, IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO), Ok(0));
        assert_eq!(send(fd, &vec![0; 65_507], 0), Ok(65_507));
        assert_eq!(send(fd, &vec![0; 65_508], 0), Err(EMSGSIZE));
        let raw = try_socket(AF_INET, SOCK_RAW, IPPROTO_UDP).unwrap();
        for option in [IP_PKTINFO, IP_RECVTTL, IP_RECVERR] {
            switch_on(raw, IPPROTO_IP, option);
        }
        switch_on(raw, SOL_SOCKET, SO_TIMESTAMPNS);
        assert_eq!(set(raw, IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO), Ok(0));
        assert_eq!(connect(raw, LOCAL), Ok(0));
        assert_eq!(send(raw, &vec![0; 65_530], 0), Err(EMSGSIZE));
        let got = receive_message(raw, 9, MSG_ERRQUEUE).unwrap();
        assert_eq!(kinds(&got), [(SOL_SOCKET, SO_TIMESTAMPNS), (IPPROTO_IP, IP_RECVERR)]);
        let error = got.control_of(IPPROTO_IP, IP_RECVERR).unwrap();
        assert_eq!(error[4..8], [1, 0, 0, 0]);
    });
}

#[test]
fn an_error_of_the_queue_is_a_pending_error_too() {
    networked(|| {
        let (fd, other) = udp_pair();
        switch_on(fd, IPPROTO_IP, IP_RECVERR);
        close(other);
        assert_eq!(send(fd, b"one", 0), Ok(3));
        await_events(fd, POLLERR);
        assert_eq!(receive(fd, 9, MSG_DONTWAIT), Err(ECONNREFUSED));
        assert_eq!(polled(fd, POLLERR), POLLERR, "the queue still holds it");
        assert_eq!(
            receive_message(fd, 2, MSG_ERRQUEUE).map(|got| got.flags),
            Ok(MSG_ERRQUEUE | MSG_TRUNC)
        );
        assert_eq!(polled(fd, POLLERR), 0);
        assert_eq!(send(fd, b"two", 0), Ok(3));
        await_events(fd, POLLERR);
        assert!(receive_message(fd, 9, MSG_ERRQUEUE).is_ok());
        assert_eq!(pending_error(fd), 0, "taken from the queue, it is no longer pending");
        // Without the option the queue is emptied.
        assert_eq!(send(fd, b"three", 0), Ok(5));
        await_events(fd, POLLERR);
        assert_eq!(set(fd, IPPROTO_IP, IP_RECVERR, 0i32), Ok(0));
        assert_eq!(receive_message(fd, 9, MSG_ERRQUEUE), Err(EAGAIN));
    });
}

#[test]
fn a_datagram_that_may_not_be_fragmented_is_too_long() {
    networked(|| {
        let (fd, _other) = udp_pair();
        switch_on(fd, IPPROTO_IP, IP_RECVERR);
        let discover = libc::IP_PMTUDISC_DO;
        assert_eq!(set(fd, IPPROTO_IP, libc::IP_MTU_DISCOVER, discover), Ok(0));
        let mtu = number(fd, IPPROTO_IP, libc::IP_MTU).unwrap();
        assert_eq!(mtu, 65_535, "loopback's is one more, but a length has 16 bits");
        assert_eq!(send(fd, &vec![0; 65_507], 0), Ok(65_507));
        assert_eq!(send(fd, &vec![0; 65_508], 0), Err(EMSGSIZE));
        assert_eq!(number(tcp(), IPPROTO_IP, libc::IP_MTU), Err(libc::ENOTCONN));
        let (client, _server) = tcp_pair();
        assert_eq!(number(client, IPPROTO_IP, libc::IP_MTU), Ok(65_535));
        assert_eq!(set(fd, IPPROTO_IP, libc::IP_MTU, 1500i32), Err(libc::ENOPROTOOPT));
    });
}

#[test]
fn a_socket_bound_to_loopback_hears_it() {
    networked(|| {
        let fd = udp();
        let device = libc::SO_BINDTODEVICE;
        assert_eq!(option_bytes(fd, SOL_SOCKET, device, 16), Ok(vec![]));
        assert_eq!(set_bytes(fd, SOL_SOCKET, device, b"lo"), Ok(0), "without a NUL");
        assert_eq!(option_bytes(fd, SOL_SOCKET, device, 16), Ok(b"lo\0".to_vec()));
        assert_eq!(option_bytes(fd, SOL_SOCKET, device, 15), Err(EINVAL), "room for any name");
        assert_eq!(bind(fd, LOCAL), Ok(0));
        let at = name(fd).unwrap();
        assert_eq!(send_to(udp(), b"x", at), Ok(1));
        assert_eq!(next(fd).data, b"x");
        assert_eq!(set_bytes(fd, SOL_SOCKET, device, b"absent\0"), Err(libc::ENODEV));
        without(CAP_NET_RAW, || {
            let bound = set_bytes(fd, SOL_SOCKET, device, b"\0");
            assert_eq!(bound, Err(EPERM), "a device that is set is kept");
            assert_eq!(set_bytes(udp(), SOL_SOCKET, device, b"lo\0"), Ok(0));
        });
        assert_eq!(set_bytes(fd, SOL_SOCKET, device, b"\0"), Ok(0));
        assert_eq!(option_bytes(fd, SOL_SOCKET, device, 16), Ok(vec![]));
        let unset: SocketAddr = at;
        assert_eq!(send_to(udp(), b"y", unset), Ok(1));
        assert_eq!(next(fd).data, b"y");
    });
}
