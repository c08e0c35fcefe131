//! AF_PACKET over loopback: names, frames that come and go, auxiliary data, counts, and frames that programs send (packet(7)).
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
    AF_PACKET, EAGAIN, EINVAL, EMSGSIZE, ENETDOWN, ENODEV, ENOPROTOOPT, ENXIO, EOPNOTSUPP,
    SOL_PACKET,
};
use std::mem::zeroed;

const ETH_P_IP: u16 = 0x0800;
const ETH_P_ALL: u16 = 3;
/// A protocol that nobody takes.
const ETH_P_TEST: u16 = 0x88b5;
const LOOPBACK: i32 = 1;
/// Bytes of the header of Ethernet.
const LINK: usize = 14;
const OUTGOING: u8 = 4;

fn packet(kind: i32, protocol: u16) -> i32 {
    try_socket(AF_PACKET, kind | SOCK_NONBLOCK, i32::from(protocol.to_be())).unwrap()
}

fn link_address(interface: i32, protocol: u16) -> libc::sockaddr_ll {
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = AF_PACKET as u16;
    address.sll_ifindex = interface;
    address.sll_protocol = protocol.to_be();
    address.sll_halen = 6;
    address
}

fn bind_link(fd: i32, address: &libc::sockaddr_ll, length: usize) -> Result<i64, i32> {
    check(unsafe { libc::bind(fd, (&raw const *address).cast(), length as u32) })
}

fn send_link(fd: i32, data: &[u8], to: &libc::sockaddr_ll) -> Result<i64, i32> {
    let (at, length) = ((&raw const *to).cast(), size_of::<libc::sockaddr_ll>() as u32);
    check(unsafe { libc::sendto(fd, data.as_ptr().cast(), data.len(), 0, at, length) } as i64)
}

/// Waits for a frame, and returns it with its sender and the length of the sender's address.
fn next(fd: i32) -> (Vec<u8>, libc::sockaddr_ll, u32) {
    await_events(fd, POLLIN);
    let mut bytes = vec![0u8; 70_000];
    let mut from: libc::sockaddr_ll = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_ll>() as u32;
    let (into, from_at) = (bytes.as_mut_ptr().cast(), (&raw mut from).cast());
    let count =
        must(unsafe { libc::recvfrom(fd, into, 70_000, 0, from_at, &mut length) } as i64) as usize;
    bytes.truncate(count);
    (bytes, from, length)
}

fn own_name(fd: i32) -> (libc::sockaddr_ll, u32) {
    let mut name: libc::sockaddr_ll = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_ll>() as u32;
    must(unsafe { libc::getsockname(fd, (&raw mut name).cast(), &mut length) });
    (name, length)
}

#[test]
fn a_name_has_an_interface_and_a_protocol() {
    networked(|| {
        let fd = packet(SOCK_RAW, 0);
        let (name, length) = own_name(fd);
        assert_eq!(
            (name.sll_family, name.sll_ifindex, name.sll_protocol),
            (AF_PACKET as u16, 0, 0)
        );
        assert_eq!((length, name.sll_halen, name.sll_hatype), (12, 0, 0));
        let address = link_address(LOOPBACK, ETH_P_IP);
        assert_eq!(bind_link(fd, &address, 19), Err(EINVAL), "too short");
        let mut wrong = address;
        wrong.sll_family = libc::AF_INET as u16;
        assert_eq!(bind_link(fd, &wrong, 20), Err(EINVAL));
        assert_eq!(bind_link(fd, &link_address(4711, ETH_P_IP), 20), Err(ENODEV));
        assert_eq!(bind_link(fd, &address, 20), Ok(0));
        let (name, length) = own_name(fd);
        assert_eq!((name.sll_ifindex, u16::from_be(name.sll_protocol)), (LOOPBACK, ETH_P_IP));
        assert_eq!((length, name.sll_halen, name.sll_hatype), (18, 6, libc::ARPHRD_LOOPBACK));
        assert_eq!(bind_link(fd, &link_address(0, 0), 20), Ok(0), "a binding can change");
        let (name, _) = own_name(fd);
        assert_eq!((name.sll_ifindex, u16::from_be(name.sll_protocol)), (0, ETH_P_IP));
    });
}

#[test]
fn calls_of_connections_are_refused() {
    networked(|| {
        let fd = packet(SOCK_DGRAM, 0);
        let address = link_address(LOOPBACK, ETH_P_IP);
        let at = (&raw const address).cast();
        assert_eq!(check(unsafe { libc::connect(fd, at, 20) }), Err(EOPNOTSUPP));
        assert_eq!(listen(fd, 1), Err(EOPNOTSUPP));
        assert_eq!(accept(fd), Err(EOPNOTSUPP));
        assert_eq!(shut_down(fd, libc::SHUT_RD), Err(EOPNOTSUPP));
        assert_eq!(peer(fd), Err(EOPNOTSUPP));
        assert_eq!(receive(fd, 9, 0), Err(EAGAIN));
        assert_eq!(receive(fd, 9, libc::MSG_OOB), Err(EINVAL));
        assert_eq!(receive(fd, 9, libc::MSG_ERRQUEUE), Err(EAGAIN));
        assert_eq!(polled(fd, POLLIN | POLLOUT), POLLOUT);
    });
}

#[test]
fn a_datagram_is_seen_when_it_goes_and_when_it_comes() {
    networked(|| {
        let all = packet(SOCK_RAW, ETH_P_ALL);
        let of_ip = packet(SOCK_RAW, ETH_P_IP);
        let (_to, at) = bound(SOCK_DGRAM, LOCAL);
        assert_eq!(send_to(udp(), b"a datagram", at), Ok(10));
        let (gone, from, length) = next(all);
        assert_eq!((from.sll_pkttype, length), (OUTGOING, 20));
        let (come, from, _) = next(all);
        assert_eq!((from.sll_pkttype, from.sll_halen, &come), (0, 6, &gone));
        assert_eq!(come.len(), LINK + 20 + 8 + 10);
        assert_eq!(come[..LINK], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
        assert_eq!(come[LINK + 28..], *b"a datagram");
        assert_eq!(receive(all, 9, 0), Err(EAGAIN));
        assert_eq!(
            next(of_ip).1.sll_pkttype,
            0,
            "a socket of a protocol does not see what is sent"
        );
        assert_eq!(receive(of_ip, 9, 0), Err(EAGAIN));
    });
}

#[test]
fn segments_of_a_connection_are_seen_with_their_headers() {
    networked(|| {
        let fd = packet(SOCK_DGRAM, ETH_P_IP);
        let (client, server) = tcp_pair();
        let port = name(server).unwrap().port();
        assert_eq!(send(client, b"some bytes", 0), Ok(10));
        assert_eq!(receive(server, 99, 0), Ok(b"some bytes".to_vec()));
        let mut flags = Vec::new();
        loop {
            let (bytes, ..) = next(fd);
            assert_eq!((bytes[0], bytes[9]), (0x45, 6), "TCP over IPv4");
            assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
            let (from, to) = ([bytes[20], bytes[21]], [bytes[22], bytes[23]]);
            let ports = [from, to].map(u16::from_be_bytes);
            assert!(ports.contains(&port), "{ports:?}");
            flags.push(bytes[33] & 0x3f);
            if bytes.ends_with(b"some bytes") {
                assert_eq!(ports[1], port);
                break;
            }
        }
        assert_eq!(flags[..3], [2, 0x12, 0x10], "SYN, SYN and ACK, ACK");
    });
}

#[test]
fn a_frame_is_cut_to_the_room() {
    networked(|| {
        let fd = packet(SOCK_DGRAM, ETH_P_IP);
        let (_to, at) = bound(SOCK_DGRAM, LOCAL);
        let sender = udp();
        for _ in 0..2 {
            assert_eq!(send_to(sender, &[7; 100], at), Ok(100));
        }
        await_events(fd, POLLIN);
        let first = receive_message(fd, 30, libc::MSG_PEEK).unwrap();
        assert_eq!((first.count, first.flags & MSG_TRUNC), (30, MSG_TRUNC));
        let mut part = [0u8; 30];
        let whole = unsafe { libc::recv(fd, part.as_mut_ptr().cast(), 30, MSG_TRUNC) };
        assert_eq!(whole, 128, "the length of the frame");
        let mut bytes = 0i32;
        must(unsafe { libc::ioctl(fd, libc::FIONREAD, &mut bytes) });
        assert_eq!(bytes, 128);
    });
}

#[test]
fn auxiliary_data_tell_lengths_and_the_checksum() {
    networked(|| {
        let fd = packet(SOCK_RAW, ETH_P_IP);
        assert_eq!(number(fd, SOL_PACKET, libc::PACKET_AUXDATA), Ok(0));
        switch_on(fd, SOL_PACKET, libc::PACKET_AUXDATA);
        assert_eq!(number(fd, SOL_PACKET, libc::PACKET_AUXDATA), Ok(1));
        let (client, server) = tcp_pair();
        send(client, b"bytes", 0).unwrap();
        receive(server, 9, 0).unwrap();
        await_events(fd, POLLIN);
        let got = receive_message(fd, 30, 0).unwrap();
        let data = got.control_of(SOL_PACKET, libc::PACKET_AUXDATA).unwrap();
        let word = |at: usize| u32::from_ne_bytes(data[at..at + 4].try_into().unwrap());
        let half = |at: usize| u16::from_ne_bytes(data[at..at + 2].try_into().unwrap());
        assert_eq!(data.len(), 20);
        assert_eq!(word(0) & 1, 1, "TP_STATUS_USER");
        assert_eq!(word(0) & 8, 8, "TP_STATUS_CSUMNOTREADY");
        assert!(word(4) >= 54 && word(8) == word(4), "{} {}", word(4), word(8));
        assert_eq!((half(12), half(14)), (0, 14));
    });
}

#[test]
fn counts_are_told_once() {
    networked(|| {
        let fd = packet(SOCK_DGRAM, ETH_P_IP);
        let (_to, at) = bound(SOCK_DGRAM, LOCAL);
        let sender = udp();
        for _ in 0..3 {
            send_to(sender, b"counted", at).unwrap();
        }
        let counts = || {
            let bytes = option_bytes(fd, SOL_PACKET, libc::PACKET_STATISTICS, 12).unwrap();
            assert_eq!(bytes.len(), 8);
            [0, 4].map(|at| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()))
        };
        await_events(fd, POLLIN);
        assert_eq!(counts(), [3, 0]);
        assert_eq!(counts(), [0, 0]);
        assert_eq!(set(fd, SOL_SOCKET, libc::SO_RCVBUF, 0i32), Ok(0));
        for _ in 0..50 {
            send_to(sender, b"counted", at).unwrap();
        }
        let [seen, lost] = counts();
        assert_eq!(seen, 50, "with those that were lost");
        assert!((1..=50).contains(&lost), "{lost}");
    });
}

#[test]
fn a_frame_of_a_program_comes_back_over_loopback() {
    networked(|| {
        let listener = packet(SOCK_DGRAM, ETH_P_TEST);
        let all = packet(SOCK_RAW, ETH_P_ALL);
        let sender = packet(SOCK_RAW, 0);
        assert_eq!(send(sender, &[0; 60], 0), Err(ENXIO), "no interface");
        let to = link_address(LOOPBACK, ETH_P_TEST);
        let mut frame = vec![0; 12];
        frame.extend(ETH_P_TEST.to_be_bytes());
        frame.extend(b"of a program");
        assert_eq!(send_link(sender, &frame[..13], &to), Err(EINVAL), "no header");
        assert_eq!(send_link(sender, &[0; 70_000], &to), Err(EMSGSIZE));
        assert_eq!(send_link(sender, &frame, &link_address(4711, ETH_P_TEST)), Err(ENXIO));
        assert_eq!(send_link(sender, &frame, &to), Ok(26));
        let (bytes, from, _) = next(listener);
        assert_eq!((&bytes[..], from.sll_pkttype), (&b"of a program"[..], 0));
        assert_eq!(u16::from_be(from.sll_protocol), ETH_P_TEST);
        assert_eq!(next(all).1.sll_pkttype, OUTGOING);
        assert_eq!(next(all).1.sll_pkttype, 0);
        let plain = packet(SOCK_DGRAM, 0);
        assert_eq!(send_link(plain, b"by its name", &to), Ok(11));
        assert_eq!(next(listener).0, b"by its name");
        let (bytes, from, _) = next(all);
        assert_eq!((bytes.len(), from.sll_pkttype), (25, OUTGOING));
    });
}

#[test]
fn a_packet_of_ip_that_a_program_makes_is_no_packet_of_this_host() {
    networked(|| {
        let (to, at) = bound(SOCK_DGRAM, LOCAL);
        let [high, low] = at.port().to_be_bytes();
        let mut bytes = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
        let sum: u32 =
            bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend([0, 9, high, low, 0, 12, 0, 0]);
        bytes.extend(b"made");
        let sender = packet(SOCK_DGRAM, 0);
        assert_eq!(send_link(sender, &bytes, &link_address(LOOPBACK, ETH_P_IP)), Ok(32));
        // It came from outside, so its addresses are forged.
        assert_eq!(send_to(udp(), b"sent", at), Ok(4));
        assert_eq!(receive(to, 99, 0), Ok(b"sent".to_vec()));
        assert_eq!(receive(to, 99, libc::MSG_DONTWAIT), Err(EAGAIN));
    });
}

#[test]
fn an_interface_that_goes_down_is_told() {
    networked(|| {
        let fd = packet(SOCK_DGRAM, 0);
        assert_eq!(bind_link(fd, &link_address(LOOPBACK, ETH_P_ALL), 20), Ok(0));
        let mut request: libc::ifreq = unsafe { zeroed() };
        request.ifr_name[..2].copy_from_slice(&[b'l' as _, b'o' as _]);
        let control = udp();
        must(unsafe { libc::ioctl(control, libc::SIOCGIFFLAGS as _, &raw mut request) });
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags & !(libc::IFF_UP as i16);
        must(unsafe { libc::ioctl(control, libc::SIOCSIFFLAGS as _, &raw mut request) });
        assert_eq!(polled(fd, POLLIN), POLLERR);
        assert_eq!(receive(fd, 9, 0), Err(ENETDOWN));
        assert_eq!(receive(fd, 9, 0), Err(EAGAIN), "once");
        assert_eq!(send_link(fd, b"x", &link_address(LOOPBACK, ETH_P_IP)), Err(ENETDOWN));
        let other = packet(SOCK_DGRAM, 0);
        assert_eq!(bind_link(other, &link_address(LOOPBACK, ETH_P_ALL), 20), Ok(0));
        assert_eq!(pending_error(other), ENETDOWN);
        request.ifr_ifru.ifru_flags = flags;
        must(unsafe { libc::ioctl(control, libc::SIOCSIFFLAGS as _, &raw mut request) });
        let (_to, at) = bound(SOCK_DGRAM, LOCAL);
        send_to(udp(), b"again", at).unwrap();
        assert!(next(fd).0.ends_with(b"again"));
    });
}

#[test]
fn memberships_are_checked_and_counted() {
    networked(|| {
        let fd = packet(SOCK_RAW, 0);
        let membership = |interface: i32, kind: i32, length: u16| libc::packet_mreq {
            mr_ifindex: interface,
            mr_type: kind as u16,
            mr_alen: length,
            mr_address: [1, 0, 0x5e, 0, 0, 9, 0, 0],
        };
        let add = |one| set(fd, SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, one);
        let drop = |one| set(fd, SOL_PACKET, libc::PACKET_DROP_MEMBERSHIP, one);
        let promiscuous = membership(LOOPBACK, libc::PACKET_MR_PROMISC, 0);
        assert_eq!(add(membership(4711, libc::PACKET_MR_PROMISC, 0)), Err(ENODEV));
        assert_eq!(drop(promiscuous), Ok(0), "one that was not added is ignored");
        for _ in 0..2 {
            assert_eq!(add(promiscuous), Ok(0));
        }
        for _ in 0..2 {
            assert_eq!(drop(promiscuous), Ok(0));
        }
        assert_eq!(drop(promiscuous), Ok(0), "one that was not added is ignored");
        assert_eq!(add(membership(LOOPBACK, libc::PACKET_MR_ALLMULTI, 0)), Ok(0));
        assert_eq!(add(membership(LOOPBACK, libc::PACKET_MR_MULTICAST, 6)), Ok(0));
        assert_eq!(add(membership(LOOPBACK, libc::PACKET_MR_MULTICAST, 5)), Err(EINVAL));
        let short = set_bytes(fd, SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &[0; 15]);
        assert_eq!(short, Err(EINVAL));
    });
}

#[test]
fn what_is_sent_can_be_left_out() {
    networked(|| {
        const IGNORE_OUTGOING: i32 = 23;
        let fd = packet(SOCK_DGRAM, ETH_P_ALL);
        assert_eq!(set(fd, SOL_PACKET, IGNORE_OUTGOING, 2i32), Err(EINVAL));
        assert_eq!(set(fd, SOL_PACKET, IGNORE_OUTGOING, 1i32), Ok(0));
        let (_to, at) = bound(SOCK_DGRAM, LOCAL);
        send_to(udp(), b"once", at).unwrap();
        assert_eq!(next(fd).1.sll_pkttype, 0);
        assert_eq!(receive(fd, 9, 0), Err(EAGAIN));
        assert_eq!(number(fd, SOL_PACKET, 99), Err(ENOPROTOOPT));
        assert_eq!(set(fd, SOL_PACKET, 99, 1i32), Err(ENOPROTOOPT));
        assert_eq!(number(fd, libc::IPPROTO_IP, libc::IP_TTL), Err(ENOPROTOOPT));
    });
}

#[test]
fn requests_about_addresses_are_those_of_ipv4() {
    networked(|| {
        let fd = packet(SOCK_DGRAM, 0);
        let mut request: libc::ifreq = unsafe { zeroed() };
        request.ifr_name[..2].copy_from_slice(&[b'l' as _, b'o' as _]);
        must(unsafe { libc::ioctl(fd, libc::SIOCGIFADDR as _, &raw mut request) });
        let address = unsafe { request.ifr_ifru.ifru_addr };
        assert_eq!(i32::from(address.sa_family), AF_INET);
        assert_eq!(address.sa_data[2..6], [127, 0, 0, 1]);
    });
}
