//! UDP: sizes and boundaries, truncation, many messages in a call, full queues, broadcast and groups.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{messages::*, sleepers::Sleeper, *},
    jobs::nothing,
    *,
};
use libc::{
    EACCES, EADDRNOTAVAIL, EAGAIN, EDESTADDRREQ, EFAULT, EINVAL, EMSGSIZE, ENODEV, MSG_ERRQUEUE,
    MSG_TRUNC, SO_BROADCAST,
};
use std::{net::SocketAddr, thread};

/// The most bytes of a datagram: 65535 less the headers of IPv4 and UDP.
const MOST: usize = 65_507;
const UDP_CORK: i32 = 1;
const UDP_SEGMENT: i32 = 103;
const UDP_GRO: i32 = 104;

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at * 7 + (at >> 8)) as u8).collect()
}

/// Makes two connected sockets whose receive calls do not wait.
fn quick_pair() -> (i32, i32) {
    let (one, other) = udp_pair();
    set_nonblocking(one);
    set_nonblocking(other);
    (one, other)
}

/// Waits for a datagram and receives it.
fn next(fd: i32) -> Vec<u8> {
    await_events(fd, POLLIN);
    receive(fd, 70_000, 0).unwrap()
}

#[test]
fn datagrams_of_all_sizes_arrive_whole() {
    networked(|| {
        let (one, other) = udp_pair();
        for size in [0, 1, 2, 1000, 1471, 1472, 1473, 9000, 40_000, MOST] {
            let data = pattern(size);
            assert_eq!(send(one, &data, 0), Ok(size));
            assert!(next(other) == data, "{size}");
        }
        for size in [MOST + 1, 70_000, 1 << 20] {
            assert_eq!(send(one, &pattern(size), 0), Err(EMSGSIZE), "{size}");
        }
        let (one, other) = udp_pair_over(LOCAL6);
        // The header of IPv6 does not count in its 65535 bytes.
        for size in [0, 1, 1452, 1453, 65_487, 65_527] {
            let data = pattern(size);
            assert_eq!(send(one, &data, 0), Ok(size));
            assert!(next(other) == data, "{size}");
        }
        assert_eq!(send(one, &pattern(65_528), 0), Err(EMSGSIZE));
    });
}

#[test]
fn datagrams_keep_their_ends_and_their_order() {
    networked(|| {
        let (one, other) = quick_pair();
        for data in [&b"first"[..], b"", b"third"] {
            send(one, data, 0).unwrap();
        }
        assert_eq!(next(other), b"first");
        assert_eq!(next(other), b"", "an empty one is one");
        assert_eq!(next(other), b"third");
        assert_eq!(receive(other, 9, 0), Err(EAGAIN));
        assert_eq!(write(one, b"w"), Ok(1));
        assert_eq!(read(other, 9), Ok(b"w".to_vec()));
        assert_eq!(write(one, b""), Ok(0));
        assert_eq!(read(other, 9), Ok(vec![]));
        assert_eq!(receive(other, 9, 0), Err(EAGAIN), "an empty write sends one");
    });
}

#[test]
fn a_datagram_that_is_too_long_is_cut() {
    networked(|| {
        let (one, other) = quick_pair();
        for _ in 0..4 {
            send(one, b"long message", 0).unwrap();
        }
        assert_eq!(receive(other, 4, 0), Ok(b"long".to_vec()), "the rest is lost");
        let cut = receive_parts(other, &[4], 0, 0).unwrap().0;
        assert_eq!((&cut.data[..], cut.count, cut.flags), (&b"long"[..], 4, MSG_TRUNC));
        let told = receive_parts(other, &[4], 0, MSG_TRUNC).unwrap().0;
        assert_eq!((&told.data[..], told.count, told.flags), (&b"long"[..], 12, MSG_TRUNC));
        let whole = receive_parts(other, &[12], 0, MSG_TRUNC).unwrap().0;
        assert_eq!((whole.count, whole.flags), (12, 0));
        assert_eq!(receive(other, 9, 0), Err(EAGAIN));
    });
}

#[test]
fn peek_leaves_the_datagram() {
    networked(|| {
        let (one, other) = quick_pair();
        assert_eq!(receive(other, 9, MSG_PEEK), Err(EAGAIN));
        send(one, b"abc", 0).unwrap();
        send(one, b"de", 0).unwrap();
        assert_eq!(receive(other, 2, MSG_PEEK), Ok(b"ab".to_vec()));
        let (data, from) = receive_from(other, 9, MSG_PEEK).unwrap();
        assert_eq!((&data[..], from), (&b"abc"[..], name(one).unwrap()));
        assert_eq!(receive_parts(other, &[1], 0, MSG_PEEK | MSG_TRUNC).unwrap().0.count, 3);
        assert_eq!(receive(other, 9, 0), Ok(b"abc".to_vec()));
        assert_eq!(receive(other, 9, libc::MSG_WAITALL), Ok(b"de".to_vec()), "not more");
    });
}

#[test]
fn the_next_datagrams_length_can_be_asked_for() {
    networked(|| {
        let (one, other) = quick_pair();
        assert_eq!(ask_number(other, FIONREAD), Ok(0));
        send(one, &pattern(300), 0).unwrap();
        send(one, b"x", 0).unwrap();
        await_events(other, POLLIN);
        assert_eq!(ask_number(other, FIONREAD), Ok(300), "of the first one");
        receive(other, 1, 0).unwrap();
        assert_eq!(ask_number(other, FIONREAD), Ok(1));
        assert_eq!(ask_number(one, SIOCOUTQ), Ok(0), "nothing waits to be sent");
    });
}

#[test]
fn events_of_a_datagram_socket() {
    networked(|| {
        let (one, other) = quick_pair();
        let writable = POLLOUT | libc::POLLWRNORM;
        assert_eq!(polled(other, ALL_EVENTS), writable);
        send(one, b"x", 0).unwrap();
        assert_eq!(await_events(other, POLLIN), writable | POLLIN | libc::POLLRDNORM);
        receive(other, 9, 0).unwrap();
        assert_eq!(polled(other, ALL_EVENTS), writable);
        close(one);
        assert_eq!(polled(other, ALL_EVENTS), writable, "a peer that is gone is no event");
    });
}

#[test]
fn a_datagram_socket_that_is_shut_down() {
    networked(|| {
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        let (one, other) = udp_pair();
        assert_eq!(shut_down(one, SHUT_WR), Ok(0));
        assert_eq!(send(one, b"x", 0), Err(libc::EPIPE));
        assert_eq!(shut_down(other, SHUT_RD), Ok(0));
        assert_eq!(receive(other, 9, 0), Ok(vec![]), "no waiting");
        assert_eq!(polled(other, ALL_EVENTS) & (POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
        assert_eq!(shut_down(other, SHUT_WR), Ok(0));
        assert_eq!(polled(other, POLLHUP), POLLHUP);
        let (fd, _) = bound(SOCK_DGRAM, LOCAL);
        let waiter = Sleeper::start(move || receive(fd, 9, 0));
        assert_eq!(shut_down(fd, SHUT_RD), Err(libc::ENOTCONN), "but it wakes the reader");
        assert_eq!(waiter.answer(), Ok(vec![]));
    });
}

#[test]
fn a_receive_of_datagrams_is_interrupted() {
    networked(|| {
        let (fd, _) = bound(SOCK_DGRAM, LOCAL);
        handle(libc::SIGUSR1, nothing, 0);
        let waiter = Sleeper::start(move || receive(fd, 9, 0));
        waiter.interrupt(libc::SIGUSR1);
        assert_eq!(waiter.answer(), Err(libc::EINTR));
        let time = libc::timeval { tv_sec: 0, tv_usec: 10_000 };
        set(fd, SOL_SOCKET, libc::SO_RCVTIMEO, time).unwrap();
        assert_eq!(receive(fd, 9, 0), Err(EAGAIN));
    });
}

#[test]
fn a_full_queue_drops_what_comes() {
    networked(|| {
        let (one, other) = quick_pair();
        set(other, SOL_SOCKET, libc::SO_RCVBUF, 0i32).unwrap();
        let most = 200u8;
        for at in 0..most {
            assert_eq!(send(one, &[at; 100], 0), Ok(100), "the sender is not told");
        }
        let got: Vec<u8> =
            std::iter::from_fn(|| receive(other, 100, 0).ok()).map(|data| data[0]).collect();
        assert!(!got.is_empty() && got.len() < most.into(), "{}", got.len());
        assert!(got.iter().copied().eq(0..got.len() as u8), "the first ones are kept");
        send(one, b"room", 0).unwrap();
        assert_eq!(next(other), b"room");
    });
}

#[test]
fn an_address_of_a_message_is_checked() {
    networked(|| {
        let (fd, at) = bound(SOCK_DGRAM, LOCAL);
        let (raw, _) = to_raw(&at);
        let send_raw = |length: u32| {
            let (data, to) = (b"x".as_ptr().cast(), (&raw const raw).cast());
            check(unsafe { libc::sendto(fd, data, 1, 0, to, length) } as i64)
        };
        for length in [0, 1, 2, 15, 129, u32::MAX] {
            assert_eq!(send_raw(length), Err(EINVAL), "{length}");
        }
        assert_eq!(send_raw(128), Ok(1));
        assert_eq!(send(fd, b"x", 0), Err(EDESTADDRREQ));
        assert_eq!(send_to(fd, b"x", at_port(LOCAL6, 9)), Err(libc::EAFNOSUPPORT));
        let (data, to) = (b"x".as_ptr().cast(), 8 as *const _);
        let nowhere = check(unsafe { libc::sendto(fd, data, 1, 0, to, 16) } as i64);
        assert_eq!(nowhere, Err(EFAULT));
        let (no_data, to) = (8 as *const _, (&raw const raw).cast());
        let nothing = check(unsafe { libc::sendto(fd, no_data, 4, 0, to, 16) } as i64);
        assert_eq!(nothing, Err(EFAULT));
        // An address without a family is one of IPv4.
        let mut bytes = bytes_of(&raw, 16).to_vec();
        bytes[0] = 0;
        let (data, to) = (b"y".as_ptr().cast(), bytes.as_ptr().cast());
        assert_eq!(check(unsafe { libc::sendto(fd, data, 1, 0, to, 16) } as i64), Ok(1));
        assert_eq!(receive_all(fd, 2), b"xy");
    });
}

#[test]
fn a_sender_gets_its_name_with_the_first_message() {
    networked(|| {
        let (to, at) = bound(SOCK_DGRAM, LOCAL);
        let fd = udp();
        assert_eq!(send_to(fd, b"x", at), Ok(1));
        let own = name(fd).unwrap();
        assert_eq!(own.ip(), ANY.ip(), "the source is chosen for each message");
        assert_eq!(receive_from(to, 9, 0).unwrap().1, at_port(LOCAL, own.port()));
        assert_eq!(send_to(fd, b"x", v4([127, 0, 0, 5], at.port())), Ok(1), "nothing is there");
        let (any, at) = bound(SOCK_DGRAM, ANY);
        assert_eq!(send_to(fd, b"x", v4([127, 0, 0, 5], at.port())), Ok(1));
        assert_eq!(receive_from(any, 9, 0).unwrap().1, at_port(LOCAL, own.port()));
    });
}

#[test]
fn many_messages_are_sent_and_received_by_one_call() {
    networked(|| {
        let ((one, _), (other, at)) = (bound(SOCK_DGRAM, LOCAL), bound(SOCK_DGRAM, LOCAL));
        let (raw, length) = to_raw(&at);
        let texts: [&[u8]; 3] = [b"a", b"", b"ccc"];
        let mut parts = texts
            .map(|text| libc::iovec { iov_base: text.as_ptr() as *mut _, iov_len: text.len() });
        let mut messages: [libc::mmsghdr; 3] = unsafe { zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_name = (&raw const raw) as *mut _;
            message.msg_hdr.msg_namelen = length;
        }
        let sent = unsafe { libc::sendmmsg(one, messages.as_mut_ptr(), 3, 0) };
        assert_eq!((sent, messages.map(|message| message.msg_len)), (3, [1, 0, 3]));
        let mut rooms = [[0u8; 2]; 4];
        let mut parts = rooms
            .each_mut()
            .map(|room| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: 2 });
        let mut messages: [libc::mmsghdr; 4] = unsafe { zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let none = std::ptr::null_mut();
        let flags = libc::MSG_WAITFORONE as _;
        let got = unsafe { libc::recvmmsg(other, messages.as_mut_ptr(), 4, flags, none) };
        assert_eq!((got, messages.map(|message| message.msg_len)), (3, [1, 0, 2, 0]));
        assert_eq!((rooms[0][0], &rooms[2]), (b'a', b"cc"));
        assert_eq!(messages[2].msg_hdr.msg_flags & MSG_TRUNC, MSG_TRUNC);
        let flags = MSG_DONTWAIT as _;
        let got = unsafe { libc::recvmmsg(other, messages.as_mut_ptr(), 4, flags, none) };
        assert_eq!(check(got), Err(EAGAIN));
    });
}

#[test]
fn many_messages_stop_at_the_first_error() {
    networked(|| {
        let (one, other) = quick_pair();
        let mut parts = [
            libc::iovec { iov_base: b"a".as_ptr() as *mut _, iov_len: 1 },
            libc::iovec { iov_base: 8 as *mut _, iov_len: 1 },
        ];
        let mut messages: [libc::mmsghdr; 2] = unsafe { zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let sent = unsafe { libc::sendmmsg(one, messages.as_mut_ptr(), 2, 0) };
        assert_eq!(check(sent), Ok(1), "the first was sent");
        let sent = unsafe { libc::sendmmsg(one, messages[1..].as_mut_ptr(), 1, 0) };
        assert_eq!(check(sent), Err(EFAULT));
        assert_eq!(next(other), b"a");
        assert_eq!(receive(other, 9, 0), Err(EAGAIN));
    });
}

#[test]
fn broadcast_needs_its_option() {
    networked(|| {
        let (fd, at) = bound(SOCK_DGRAM, ANY);
        let to = v4([127, 255, 255, 255], at.port());
        assert_eq!(number(fd, SOL_SOCKET, SO_BROADCAST), Ok(0));
        assert_eq!(send_to(fd, b"x", to), Err(EACCES));
        assert_eq!(connect(fd, to), Err(EACCES));
        assert_eq!(set(fd, SOL_SOCKET, SO_BROADCAST, 1i32), Ok(0));
        assert_eq!(send_to(fd, b"x", to), Ok(1));
        assert_eq!(receive_from(fd, 9, 0), Ok((b"x".to_vec(), at_port(LOCAL, at.port()))));
        assert_eq!(connect(fd, to), Ok(0));
    });
}

#[test]
fn broadcast_reaches_all_sockets_of_the_port() {
    networked(|| {
        let mut at = ANY;
        let all = [(); 3].map(|()| {
            let fd = udp();
            switch_on(fd, SOL_SOCKET, libc::SO_REUSEADDR);
            assert_eq!(bind(fd, at), Ok(0));
            at = name(fd).unwrap();
            fd
        });
        let sender = udp();
        switch_on(sender, SOL_SOCKET, SO_BROADCAST);
        assert_eq!(send_to(sender, b"to all", v4([127, 255, 255, 255], at.port())), Ok(6));
        for fd in all {
            assert_eq!(next(fd), b"to all");
        }
    });
}

/// Returns the structure that joins a group on the interface with this address or number.
fn group(octets: [u8; 4], index: i32) -> libc::ip_mreqn {
    libc::ip_mreqn {
        imr_multiaddr: libc::in_addr { s_addr: u32::from_ne_bytes(octets) },
        imr_address: libc::in_addr { s_addr: 0 },
        imr_ifindex: index,
    }
}

#[test]
fn a_group_is_joined_and_left_on_an_interface() {
    networked(|| {
        const GROUP: [u8; 4] = [239, 7, 7, 7];
        let (fd, at) = bound(SOCK_DGRAM | SOCK_NONBLOCK, ANY);
        assert_eq!(set(fd, IPPROTO_IP, libc::IP_MULTICAST_ALL, 0i32), Ok(0));
        let join =
            |octets, index| set(fd, IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, group(octets, index));
        let leave = || set(fd, IPPROTO_IP, libc::IP_DROP_MEMBERSHIP, group(GROUP, 1));
        let sender = udp();
        let by_lo = group([0; 4], 1);
        assert_eq!(set(sender, IPPROTO_IP, libc::IP_MULTICAST_IF, by_lo), Ok(0));
        let to = v4(GROUP, at.port());
        assert_eq!(send_to(sender, b"early", to), Ok(5));
        assert_eq!(leave(), Err(EADDRNOTAVAIL));
        assert_eq!(join(GROUP, 1), Ok(0));
        assert_eq!(join(GROUP, 1), Err(libc::EADDRINUSE));
        assert_eq!(join([10, 0, 0, 1], 1), Err(EINVAL), "no group");
        assert_eq!(join(GROUP, 4000), Err(ENODEV));
        assert_eq!(send_to(sender, b"group", to), Ok(5));
        assert_eq!(next(fd), b"group", "what came before the join did not arrive");
        assert_eq!(leave(), Ok(0));
        assert_eq!(send_to(sender, b"late", to), Ok(4));
        assert_eq!(receive(fd, 9, 0), Err(EAGAIN));
    });
}

#[test]
fn a_group_of_ipv6_is_joined_and_left() {
    networked(|| {
        let (fd, at) = bound(SOCK_DGRAM | SOCK_NONBLOCK, ANY6);
        let address: SocketAddr = "[ff02::1234]:0".parse().unwrap();
        let SocketAddr::V6(six) = address else { panic!("family") };
        let octets = libc::in6_addr { s6_addr: six.ip().octets() };
        let request = |index| libc::ipv6_mreq { ipv6mr_multiaddr: octets, ipv6mr_interface: index };
        let join = |index| set(fd, IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, request(index));
        assert_eq!(join(4000), Err(ENODEV));
        assert_eq!(join(1), Ok(0));
        assert_eq!(join(1), Err(libc::EADDRINUSE));
        let sender = socket(AF_INET6, SOCK_DGRAM);
        assert_eq!(set(sender, IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, 1i32), Ok(0));
        // Loopback has no route to the groups of IPv6.
        let sent = send_to(sender, b"six", at_port(address, at.port()));
        assert_eq!(sent, Err(libc::ENETUNREACH));
        let leave = || set(fd, IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP, request(1));
        assert_eq!((leave(), leave()), (Ok(0), Err(EADDRNOTAVAIL)));
    });
}

#[test]
fn the_life_of_a_group_message_is_checked() {
    networked(|| {
        const GROUP: [u8; 4] = [239, 7, 7, 8];
        let (fd, at) = bound(SOCK_DGRAM | SOCK_NONBLOCK, ANY);
        set(fd, IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, group(GROUP, 1)).unwrap();
        let sender = udp();
        set(sender, IPPROTO_IP, libc::IP_MULTICAST_IF, group([0; 4], 1)).unwrap();
        assert_eq!(number(sender, IPPROTO_IP, libc::IP_MULTICAST_LOOP), Ok(1));
        assert_eq!(number(sender, IPPROTO_IP, libc::IP_MULTICAST_TTL), Ok(1));
        for ttl in [0, 255, -1] {
            assert_eq!(set(sender, IPPROTO_IP, libc::IP_MULTICAST_TTL, ttl), Ok(0));
            let told = number(sender, IPPROTO_IP, libc::IP_MULTICAST_TTL);
            assert_eq!(told, Ok(if ttl == -1 { 1 } else { ttl }));
        }
        assert_eq!(set(sender, IPPROTO_IP, libc::IP_MULTICAST_TTL, 256i32), Err(EINVAL));
        assert_eq!(set(tcp(), IPPROTO_IP, libc::IP_MULTICAST_TTL, 1i32), Err(EINVAL));
        assert_eq!(send_to(sender, b"loop", v4(GROUP, at.port())), Ok(4));
        assert_eq!(next(fd), b"loop");
    });
}

#[test]
fn a_cork_makes_one_datagram_of_many_writes() {
    networked(|| {
        let (one, other) = quick_pair();
        switch_on(one, IPPROTO_UDP, UDP_CORK);
        for piece in [&b"a"[..], b"bc", b"def"] {
            assert_eq!(send(one, piece, 0), Ok(piece.len()));
        }
        assert_eq!(receive(other, 9, 0), Err(EAGAIN));
        assert_eq!(set(one, IPPROTO_UDP, UDP_CORK, 0i32), Ok(0));
        assert_eq!(next(other), b"abcdef");
        assert_eq!(send(one, b"with ", libc::MSG_MORE), Ok(5));
        assert_eq!(receive(other, 9, 0), Err(EAGAIN));
        assert_eq!(send(one, b"more", 0), Ok(4));
        assert_eq!(next(other), b"with more");
    });
}

#[test]
fn one_write_becomes_many_datagrams() {
    networked(|| {
        let (one, other) = quick_pair();
        assert_eq!(set(one, IPPROTO_UDP, UDP_SEGMENT, 4i32), Ok(0));
        assert_eq!(number(one, IPPROTO_UDP, UDP_SEGMENT), Ok(4));
        assert_eq!(send(one, b"0123456789", 0), Ok(10));
        assert_eq!(next(other), b"0123");
        assert_eq!(next(other), b"4567");
        assert_eq!(next(other), b"89");
        assert_eq!(set(one, IPPROTO_UDP, UDP_SEGMENT, -1i32), Err(EINVAL));
        assert_eq!(set(one, IPPROTO_UDP, UDP_SEGMENT, 0i32), Ok(0));
        let segment = (IPPROTO_UDP, UDP_SEGMENT, 5u16.to_ne_bytes().to_vec());
        assert_eq!(send_message(one, &[b"0123456789"], None, &[segment], 0), Ok(10));
        assert_eq!((next(other), next(other)), (b"01234".to_vec(), b"56789".to_vec()));
        switch_on(other, IPPROTO_UDP, UDP_GRO);
        assert_eq!(number(other, IPPROTO_UDP, UDP_GRO), Ok(1));
    });
}

#[test]
fn writers_at_once_keep_their_datagrams_whole() {
    networked(|| {
        const EACH: u8 = 20;
        let (to, at) = bound(SOCK_DGRAM, LOCAL);
        let shared = udp();
        let writers: Vec<_> = (0..4u8)
            .map(|writer| {
                thread::spawn(move || {
                    for at_writer in 0..EACH {
                        let data = vec![writer * EACH + at_writer; 300 + usize::from(writer)];
                        assert_eq!(send_to(shared, &data, at), Ok(data.len()));
                    }
                })
            })
            .collect();
        let mut seen = Vec::new();
        for _ in 0..4 * EACH {
            let data = receive(to, 999, 0).unwrap();
            assert_eq!(data.len(), 300 + usize::from(data[0] / EACH));
            assert!(data.iter().all(|byte| *byte == data[0]));
            seen.push(data[0]);
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        for writer in 0..4 {
            let own = seen.iter().filter(|byte| **byte / EACH == writer);
            assert!(own.copied().eq(writer * EACH..(writer + 1) * EACH), "in the writer's order");
        }
    });
}

#[test]
fn a_datagram_of_ipv6_that_no_packet_holds_is_told_with_the_mtu() {
    networked(|| {
        const MTU: u32 = 65_536;
        let (one, other) = udp_pair_over(LOCAL6);
        switch_on(one, IPPROTO_IPV6, libc::IPV6_RECVERR);
        for length in [65_528, 65_536, 128_000] {
            assert_eq!(send(one, &vec![0; length], 0), Err(EMSGSIZE), "{length}");
            let got = receive_message(one, 9, MSG_ERRQUEUE).unwrap();
            assert_eq!((&got.data[..], got.from), (&[][..], name(other).ok()));
            let error = got.control_of(IPPROTO_IPV6, libc::IPV6_RECVERR).unwrap();
            // The error, of this host (SO_EE_ORIGIN_LOCAL), and the MTU.
            assert_eq!(error[..4], EMSGSIZE.to_ne_bytes());
            assert_eq!((&error[4..8], &error[8..12]), (&[1, 0, 0, 0][..], &MTU.to_ne_bytes()[..]));
            assert_eq!(receive_message(one, 9, MSG_ERRQUEUE), Err(EAGAIN));
        }
    });
}

#[test]
fn the_queue_of_errors_hears_of_no_length_that_ipv4_cannot_tell() {
    networked(|| {
        let (one, _other) = udp_pair();
        switch_on(one, IPPROTO_IP, libc::IP_RECVERR);
        assert_eq!(send(one, &vec![0; 65_536], 0), Err(EMSGSIZE));
        assert_eq!(receive_message(one, 9, MSG_ERRQUEUE), Err(EAGAIN));
        assert_eq!(send(one, &vec![0; 65_535], 0), Err(EMSGSIZE));
        assert_eq!(receive_message(one, 9, MSG_ERRQUEUE).map(|got| got.data), Ok(vec![]));
        // The same from a socket of IPv6.
        let both = socket(libc::AF_INET6, SOCK_DGRAM);
        switch_on(both, IPPROTO_IPV6, libc::IPV6_RECVERR);
        switch_on(both, IPPROTO_IP, libc::IP_RECVERR);
        let mapped = "[::ffff:127.0.0.1]:9".parse().unwrap();
        assert_eq!(send_to(both, &vec![0; 65_536], mapped), Err(EMSGSIZE));
        assert_eq!(receive_message(both, 9, MSG_ERRQUEUE), Err(EAGAIN));
    });
}

#[test]
fn a_socket_that_heeds_the_interface_alone_cuts_nothing() {
    networked(|| {
        // The MTU of loopback less the headers of IPv6 and UDP.
        const WHOLE: usize = 65_488;
        let (one, other) = udp_pair_over(LOCAL6);
        let discover = |how: i32| set(one, IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, how);
        for (how, is_cut) in [
            (libc::IPV6_PMTUDISC_DO, false),
            (libc::IPV6_PMTUDISC_PROBE, false),
            (libc::IPV6_PMTUDISC_INTERFACE, false),
            (libc::IPV6_PMTUDISC_OMIT, true),
        ] {
            assert_eq!(discover(how), Ok(0));
            assert_eq!(send(one, &[1; WHOLE], 0), Ok(WHOLE), "{how}");
            assert_eq!(next(other).len(), WHOLE);
            let cut = if is_cut { Ok(WHOLE + 1) } else { Err(EMSGSIZE) };
            assert_eq!(send(one, &[2; WHOLE + 1], 0), cut, "{how}");
        }
        assert_eq!(next(other).len(), WHOLE + 1);
    });
}

#[test]
fn a_part_that_is_too_long_ends_a_corked_datagram() {
    networked(|| {
        let (one, other) = quick_pair();
        switch_on(one, IPPROTO_UDP, UDP_CORK);
        assert_eq!(send(one, &[1; 60_000], 0), Ok(60_000));
        assert_eq!(send(one, &[2; 60_000], 0), Err(EMSGSIZE));
        assert_eq!(send(one, b"new", 0), Ok(3));
        assert_eq!(set(one, IPPROTO_UDP, UDP_CORK, 0i32), Ok(0));
        assert_eq!(next(other), b"new");
        assert_eq!(receive(other, 9, 0), Err(EAGAIN));
    });
}
