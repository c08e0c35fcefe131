//! TUN and TAP: interfaces whose packets a program reads and writes (Linux `Documentation/networking/tuntap.rst`).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::as_user,
    internet::{administration::*, *},
    *,
};
use libc::{
    EAGAIN, EBADFD, EBUSY, EEXIST, EFAULT, EINVAL, EIO, EOPNOTSUPP, EPERM, ESPIPE, O_NONBLOCK,
    O_RDWR, POLLERR, RTM_DELLINK, RTM_GETLINK, RTM_NEWLINK,
};
use std::net::SocketAddr;

const TUN: u16 = 1;
const TAP: u16 = 2;
const NO_CARRIER: u16 = 0x40;
const MULTI_QUEUE: u16 = 0x100;
const ATTACH: u16 = 0x200;
const DETACH: u16 = 0x400;
const PERSIST: u16 = 0x800;
const NO_PI: u16 = 0x1000;
const VNET_HDR: u16 = 0x4000;
const EXCLUSIVE: u16 = 0x8000;

const TUNSETIFF: u64 = 0x4004_54ca;
const TUNSETPERSIST: u64 = 0x4004_54cb;
const TUNSETOWNER: u64 = 0x4004_54cc;
const TUNSETLINK: u64 = 0x4004_54cd;
const TUNSETGROUP: u64 = 0x4004_54ce;
const TUNGETFEATURES: u64 = 0x8004_54cf;
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
const TUNSETTXFILTER: u64 = 0x4004_54d1;
const TUNGETIFF: u64 = 0x8004_54d2;
const TUNGETSNDBUF: u64 = 0x8004_54d3;
const TUNSETSNDBUF: u64 = 0x4004_54d4;
const TUNATTACHFILTER: u64 = 0x4010_54d5;
const TUNDETACHFILTER: u64 = 0x4010_54d6;
const TUNGETVNETHDRSZ: u64 = 0x8004_54d7;
const TUNSETVNETHDRSZ: u64 = 0x4004_54d8;
const TUNSETQUEUE: u64 = 0x4004_54d9;
const TUNSETIFINDEX: u64 = 0x4004_54da;
const TUNGETFILTER: u64 = 0x8010_54db;
const TUNSETVNETLE: u64 = 0x4004_54dc;
const TUNGETVNETLE: u64 = 0x8004_54dd;
const TUNSETCARRIER: u64 = 0x4004_54e2;
const SIOCSIFNETMASK: u64 = 0x891c;
const SIOCSIFHWADDR: u64 = 0x8924;
const SIOCGIFHWADDR: u64 = 0x8927;
const SIOCSIFTXQLEN: u64 = 0x8943;

/// Bytes of `struct ifinfomsg`; RTNLGRP_LINK.
const LINK_HEAD: usize = 16;
const LINKS: u32 = 1;
/// The network of the tests, this host in it, and the host at the program's end.
const OWN: [u8; 4] = [10, 77, 0, 1];
const OTHER: [u8; 4] = [10, 77, 0, 2];

/// Opens the device file.
fn file() -> i32 {
    open("/dev/net/tun", O_RDWR | O_NONBLOCK, 0).expect("/dev/net/tun")
}

fn request(name: &str, flags: u16) -> libc::ifreq {
    let mut request = interface(name);
    request.ifr_ifru.ifru_flags = flags as i16;
    request
}

fn name_in(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().map(|letter| *letter as u8);
    String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()).unwrap()
}

/// Makes an interface or goes to its end. Returns its name.
fn set_interface(fd: i32, name: &str, flags: u16) -> Result<String, i32> {
    let mut request = request(name, flags);
    ask(fd, TUNSETIFF, &mut request).map(|_| name_in(&request))
}

/// Makes an interface.
#[track_caller]
fn device(flags: u16) -> (i32, String) {
    let fd = file();
    let name = set_interface(fd, "abt%d", flags).unwrap();
    (fd, name)
}

/// Makes an ioctl call with a number.
fn ask_value(fd: i32, call: u64, value: u64) -> Result<i64, i32> {
    check(unsafe { libc::ioctl(fd, call as _, value) })
}

fn set_number(fd: i32, call: u64, mut value: i32) -> Result<i64, i32> {
    ask(fd, call, &mut value)
}

fn flags_of(name: &str) -> Result<i32, i32> {
    let mut request = interface(name);
    ask(udp(), SIOCGIFFLAGS, &mut request)?;
    Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }))
}

#[track_caller]
fn switch(name: &str, on: bool) {
    let flags = flags_of(name).unwrap() & !libc::IFF_UP | if on { libc::IFF_UP } else { 0 };
    let mut request = request(name, flags as u16);
    ask(udp(), SIOCSIFFLAGS, &mut request).unwrap();
}

/// Returns what netlink says of the carrier: the ioctls hear of a change a while later.
fn has_carrier(name: &str) -> bool {
    const CARRIER: u16 = 33;
    let mut body = vec![0; LINK_HEAD];
    put(&mut body, libc::IFLA_IFNAME, format!("{name}\0").as_bytes());
    let (_, _, link) = Administration::new(&[]).get(RTM_GETLINK, &body).unwrap();
    value(&link, LINK_HEAD, CARRIER) == Some(vec![1])
}

/// Gives an interface the address [`OWN`] of a network of 256, and switches it on.
#[track_caller]
fn configure(name: &str) {
    for (call, octets) in [(SIOCSIFADDR, OWN), (SIOCSIFNETMASK, [255, 255, 255, 0])] {
        let (raw, _) = to_raw(&v4(octets, 0));
        let mut request = interface(name);
        request.ifr_ifru.ifru_addr = unsafe { (&raw const raw).cast::<libc::sockaddr>().read() };
        ask(udp(), call, &mut request).unwrap();
    }
    switch(name, true);
}

/// Makes an interface that is configured.
#[track_caller]
fn configured(flags: u16) -> (i32, String) {
    let (fd, name) = device(flags);
    configure(&name);
    (fd, name)
}

/// Waits for a packet of IPv4 that is UDP or ICMP, behind `before` other bytes. The system says things of its own meanwhile.
fn next(fd: i32, before: usize) -> Vec<u8> {
    loop {
        await_events(fd, POLLIN);
        let Ok(bytes) = read(fd, 70_000) else { continue };
        if bytes.get(before).is_some_and(|byte| byte >> 4 == 4)
            && matches!(bytes.get(before + 9), Some(1 | 6 | 17))
        {
            return bytes;
        }
    }
}

fn sum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// Returns a packet of IPv4 from [`OTHER`] to [`OWN`].
fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut bytes =
        vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 1, 0, 0, 64, protocol, 0, 0];
    bytes.extend(OTHER);
    bytes.extend(OWN);
    let header = sum(&bytes);
    bytes[10..12].copy_from_slice(&header.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns a datagram of UDP without a checksum.
fn udp_packet(ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut bytes = [ports.0, ports.1, 8 + data.len() as u16, 0].map(u16::to_be_bytes).concat();
    bytes.extend(data);
    ip(17, &bytes)
}

fn echo(number: u8) -> Vec<u8> {
    let mut bytes = vec![8, 0, 0, 0, 0, 7, 0, number, 1, 2, 3, 4];
    let whole = sum(&bytes);
    bytes[2..4].copy_from_slice(&whole.to_be_bytes());
    ip(1, &bytes)
}

fn other(port: u16) -> SocketAddr {
    v4(OTHER, port)
}

/// Returns a column of an interface in /proc/net/dev.
fn column(name: &str, place: usize) -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    let line =
        text.lines().find(|line| line.trim_start().starts_with(&format!("{name}:"))).unwrap();
    line.split_whitespace().nth(place + 1).unwrap().parse().unwrap()
}

#[test]
fn a_description_without_an_interface_can_nothing() {
    networked(|| {
        let fd = file();
        assert_eq!(read(fd, 99), Err(EBADFD));
        assert_eq!(write(fd, &echo(1)), Err(EBADFD));
        assert_eq!(polled(fd, POLLIN | POLLOUT), POLLERR);
        assert_eq!(ask(fd, TUNGETIFF, &mut request("", 0)), Err(EBADFD));
        assert_eq!(ask_value(fd, TUNSETPERSIST, 1), Err(EBADFD));
        assert_eq!(ask_value(fd, 0x5401, 0), Err(EBADFD), "TCGETS");
        assert_eq!(ask(fd, TUNSETQUEUE, &mut request("", ATTACH)), Err(EINVAL));
        assert_eq!(ask_number(fd, TUNGETFEATURES), Ok(0x7173));
        assert_eq!(check(unsafe { libc::lseek(fd, 0, libc::SEEK_SET) }), Err(ESPIPE));
        assert_eq!(ask_value(fd, TUNSETIFF, 0), Err(EFAULT));
    });
}

#[test]
fn names_are_chosen_or_given() {
    networked(|| {
        let [first, second] = [0, 1].map(|_| file());
        assert_eq!(set_interface(first, "", TUN).as_deref(), Ok("tun0"));
        assert_eq!(set_interface(first, "", TUN), Err(EEXIST), "it has one");
        assert_eq!(set_interface(second, "abt%dx", TAP).as_deref(), Ok("abt0x"));
        let fd = file();
        for (name, flags, error) in [
            ("abt%d%d", TUN, EINVAL),
            ("abt%s", TUN, EINVAL),
            ("a/b", TUN, EINVAL),
            ("..", TUN, EINVAL),
            ("abt9", 0, EINVAL),
            ("abt9", NO_PI, EINVAL),
            ("lo", TUN, EINVAL),
            ("tun0", TAP, EINVAL),
            ("tun0", TUN, EBUSY),
            ("tun0", TUN | EXCLUSIVE, EBUSY),
            ("tun0", TUN | MULTI_QUEUE, EINVAL),
        ] {
            assert_eq!(set_interface(fd, name, flags), Err(error), "{name} {flags:#x}");
        }
        let long = set_interface(fd, "abcdefghijklmnop", TUN | TAP | EXCLUSIVE);
        assert_eq!(long.as_deref(), Ok("abcdefghijklmno"), "the last letter does not count");
    });
}

#[test]
fn a_tun_is_an_interface_between_two_ends() {
    networked(|| {
        let (fd, name) = device(TUN | NO_PI);
        let flags = libc::IFF_POINTOPOINT | libc::IFF_NOARP | libc::IFF_MULTICAST;
        assert_eq!(flags_of(&name), Ok(flags));
        let mut request = request("", 0);
        assert_eq!(ask(fd, TUNGETIFF, &mut request), Ok(0));
        let told = unsafe { request.ifr_ifru.ifru_flags } as u16;
        assert_eq!((name_in(&request), told), (name.clone(), TUN | NO_PI));
        assert_eq!(ask(udp(), SIOCGIFHWADDR, &mut interface(&name)), Ok(0));
        configure(&name);
        assert_eq!(flags_of(&name), Ok(flags | libc::IFF_UP | libc::IFF_RUNNING));
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        assert!(info.contains(&format!("iff:\t{name}\n")), "{info}");
    });
}

#[test]
fn what_is_routed_there_is_read_without_a_neighbour() {
    networked(|| {
        let (fd, _) = configured(TUN | NO_PI);
        let (sender, own) = bound(libc::SOCK_DGRAM, v4(OWN, 0));
        assert_eq!(send_to(sender, b"hello", other(9)), Ok(5));
        let packet = next(fd, 0);
        assert_eq!((packet.len(), packet[0], packet[9]), (33, 0x45, 17));
        assert_eq!((&packet[12..16], &packet[16..20]), (&OWN[..], &OTHER[..]));
        assert_eq!(packet[20..22], own.port().to_be_bytes());
        assert_eq!(packet[28..], *b"hello");
        assert_eq!(sum(&packet[..20]), 0);
        let big = vec![7; 3000];
        assert_eq!(send_to(sender, &big, other(9)), Ok(3000));
        let parts = [0, 1, 2].map(|_| next(fd, 0));
        assert_eq!(parts.map(|part| part.len()), [1500, 1500, 68]);
    });
}

#[test]
fn what_is_written_is_received() {
    networked(|| {
        let (fd, name) = configured(TUN | NO_PI);
        let (receiver, own) = bound(libc::SOCK_DGRAM, v4(OWN, 0));
        let packet = udp_packet((5, own.port()), b"inwards");
        assert_eq!(write(fd, &packet), Ok(packet.len()));
        assert_eq!(receive_from(receiver, 99, 0), Ok((b"inwards".to_vec(), other(5))));
        let request = echo(1);
        let parts = request.split_at(9);
        let parts = [parts.0, parts.1].map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        });
        assert_eq!(check(unsafe { libc::writev(fd, parts.as_ptr(), 2) } as i64), Ok(32));
        let answer = next(fd, 0);
        assert_eq!((answer[20], answer[27], &answer[16..20]), (0, 1, &OTHER[..]));
        assert_eq!(sum(&answer[20..]), 0);
        let counts = [0, 1, 9].map(|place| column(&name, place));
        assert_eq!(counts[..2], [packet.len() as u64 + 32, 2]);
        assert!(counts[2] >= 1);
    });
}

#[test]
fn a_connection_goes_both_ways() {
    networked(|| {
        let (fd, _) = configured(TUN | NO_PI);
        let (listener, own) = bound(libc::SOCK_STREAM, v4(OWN, 0));
        assert_eq!(listen(listener, 1), Ok(0));
        let segment = |sequence: u32, acknowledged: u32, flags: u8, data: &[u8]| {
            let mut bytes = [7u16, own.port()].map(u16::to_be_bytes).concat();
            bytes.extend([sequence, acknowledged].map(u32::to_be_bytes).concat());
            bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            bytes.extend(data);
            let length = (bytes.len() as u16).to_be_bytes();
            let pseudo = [&OTHER[..], &OWN, &[0, 6], &length, &bytes].concat();
            let whole = sum(&pseudo);
            bytes[16..18].copy_from_slice(&whole.to_be_bytes());
            ip(6, &bytes)
        };
        write(fd, &segment(100, 0, 2, b"")).unwrap();
        let answer = next(fd, 0);
        assert_eq!(answer[33] & 0x3f, 0x12, "SYN and ACK");
        let theirs = u32::from_be_bytes(answer[24..28].try_into().unwrap()).wrapping_add(1);
        write(fd, &segment(101, theirs, 0x18, b"question")).unwrap();
        let accepted = accept(listener).unwrap();
        assert_eq!(receive_all(accepted, 8), b"question");
        assert_eq!(send(accepted, b"answer", 0), Ok(6));
        let said =
            std::iter::repeat_with(|| next(fd, 0)).find(|packet| packet.ends_with(b"answer"));
        assert!(said.is_some());
        // A connection that stayed would repeat its last segment in the next test's network, where there are no namespaces.
        write(fd, &segment(109, theirs.wrapping_add(6), 4, b"")).unwrap();
        assert_eq!(receive(accepted, 9, 0), Err(libc::ECONNRESET));
    });
}

#[test]
fn packets_have_their_protocol_before_them() {
    networked(|| {
        let (fd, name) = configured(TUN);
        assert_eq!(send_to(udp(), b"x", other(9)), Ok(1));
        let packet = next(fd, 4);
        assert_eq!((&packet[..4], packet.len()), (&[0, 0, 8, 0][..], 33));
        let (receiver, own) = bound(libc::SOCK_DGRAM, v4(OWN, 0));
        let datagram = udp_packet((5, own.port()), b"y");
        let with = |head: &[u8]| [head, &datagram].concat();
        assert_eq!(write(fd, &with(&[0, 0, 8, 0])), Ok(datagram.len() + 4));
        assert_eq!(receive(receiver, 9, 0), Ok(b"y".to_vec()));
        set_nonblocking(receiver);
        assert_eq!(write(fd, &with(&[0, 0, 0x86, 0xdd])), Ok(datagram.len() + 4), "none of IPv6");
        assert_eq!(write(fd, &with(&[0, 0, 8, 6])), Ok(datagram.len() + 4), "nobody takes it");
        assert_eq!(receive(receiver, 9, 0), Err(EAGAIN));
        assert_eq!(write(fd, &[0, 0, 8]), Err(EINVAL));
        assert_eq!(write(fd, &[0, 0, 8, 0]), Ok(4), "a packet of nothing");
        assert_eq!(send_to(udp(), b"cut", other(9)), Ok(3));
        await_events(fd, POLLIN);
        let mut part = [0u8; 24];
        let count = loop {
            let count = must(unsafe { libc::read(fd, part.as_mut_ptr().cast(), 24) } as i64);
            if part[4] == 0x45 && part[13] == 17 {
                break count;
            }
            await_events(fd, POLLIN);
        };
        assert_eq!((count, part[0]), (24, 1), "TUN_PKT_STRIP");
        assert_eq!(send_to(udp(), b"lost", other(9)), Ok(4));
        await_events(fd, POLLIN);
        assert_eq!(read(fd, 3), Err(EINVAL), "no room for its protocol");
        assert_eq!(read(fd, 0), Ok(Vec::new()));
        assert!(column(&name, 0) > 0);
    });
}

#[test]
fn bad_packets_are_refused() {
    networked(|| {
        let (fd, name) = device(TUN | NO_PI);
        assert_eq!(write(fd, &[]), Err(EINVAL));
        assert_eq!(write(fd, &[0x15; 40]), Err(EINVAL), "no version of IP");
        assert_eq!(write(fd, &echo(1)), Err(EIO), "it is off");
        let count = unsafe { libc::write(fd, std::ptr::without_provenance(8), 40) };
        assert_eq!(check(count as i64), Err(EFAULT));
        assert_eq!(column(&name, 3), 4);
        configure(&name);
        for length in [1, 19, 20, 21, 60, 1500, 9000, 65_535, 70_000] {
            for first in [0x40, 0x45, 0x4f, 0x60] {
                let mut bytes = vec![0xff; length];
                bytes[0] = first;
                assert_eq!(write(fd, &bytes), Ok(length), "{length} {first:#x}");
            }
        }
        let (tap, name) = configured(TAP | NO_PI);
        assert_eq!(write(tap, &[0; 13]), Err(EINVAL));
        assert_eq!(write(tap, &[0; 14]), Ok(14));
        assert_eq!(column(&name, 1), 1);
    });
}

#[test]
fn a_virtio_header_leaves_checksums_to_the_other_side() {
    networked(|| {
        let (fd, _) = configured(TUN | NO_PI | VNET_HDR);
        assert_eq!(ask_number(fd, TUNGETVNETHDRSZ), Ok(10));
        assert_eq!(set_number(fd, TUNSETVNETHDRSZ, 9), Err(EINVAL));
        let (receiver, own) = bound(libc::SOCK_DGRAM, v4(OWN, 0));
        let mut datagram = udp_packet((5, own.port()), b"partial");
        datagram[26..28].copy_from_slice(&[1, 2]);
        let with = |header: [u8; 10]| [&header[..], &datagram].concat();
        let length = datagram.len() + 10;
        assert_eq!(write(fd, &with([0; 10])), Ok(length), "its checksum is wrong");
        set_nonblocking(receiver);
        assert_eq!(receive(receiver, 99, 0), Err(EAGAIN));
        assert_eq!(write(fd, &with([1, 0, 0, 0, 0, 0, 20, 0, 6, 0])), Ok(length));
        assert_eq!(receive(receiver, 99, 0), Ok(b"partial".to_vec()));
        for (header, why) in [
            ([1, 0, 0, 0, 0, 0, 34, 0, 6, 0], "the checksum is behind the end"),
            ([0, 0, 99, 0, 0, 0, 0, 0, 0, 0], "so are the headers"),
            ([0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "segments of nothing"),
            ([0, 9, 0, 0, 9, 0, 0, 0, 0, 0], "no kind of segments"),
            ([0, 4, 0, 0, 9, 0, 0, 0, 0, 0], "no room for headers of IPv6"),
        ] {
            assert_eq!(write(fd, &with(header)), Err(EINVAL), "{why}");
        }
        assert_eq!(write(fd, &[0; 9]), Err(EINVAL));
        assert_eq!(ask_value(fd, TUNSETOFFLOAD, 2), Err(EINVAL), "no segments without checksums");
        assert_eq!(ask_value(fd, TUNSETOFFLOAD, 1), Ok(0));
        let client = tcp();
        set_nonblocking(client);
        assert_eq!(connect(client, other(9)), Err(libc::EINPROGRESS));
        let syn = next(fd, 10);
        assert_eq!((syn[0], &syn[6..10]), (1, &[20, 0, 16, 0][..]));
        assert_eq!(set_number(fd, TUNSETVNETHDRSZ, 12), Ok(0));
        assert_eq!(ask_value(fd, TUNSETOFFLOAD, 0), Ok(0));
        assert_eq!(send_to(udp(), b"x", other(9)), Ok(1));
        let packet = std::iter::repeat_with(|| next(fd, 12)).find(|packet| packet[21] == 17);
        assert_eq!(packet.unwrap()[..12], [0; 12]);
        assert_eq!((ask_number(fd, TUNGETVNETLE), set_number(fd, TUNSETVNETLE, 1)), (Ok(0), Ok(0)));
        assert_eq!(ask_number(fd, TUNGETVNETLE), Ok(1));
    });
}

#[test]
fn a_full_queue_drops_the_last_packets() {
    networked(|| {
        let (fd, name) = configured(TUN | NO_PI);
        switch(&name, false);
        while read(fd, 2000).is_ok() {}
        let mut length = interface(&name);
        length.ifr_ifru.ifru_metric = 3;
        assert_eq!(ask(udp(), SIOCSIFTXQLEN, &mut length), Ok(0));
        switch(&name, true);
        let [before, read_before] = [11, 9].map(|place| column(&name, place));
        for number in 0..20u8 {
            assert_eq!(send_to(udp(), &[number], other(9)), Ok(1));
        }
        assert!(column(&name, 11) >= before + 17);
        let count = std::iter::repeat_with(|| read(fd, 2000)).take_while(Result::is_ok).count();
        assert_eq!((count, read(fd, 2000)), (3, Err(EAGAIN)));
        assert_eq!(column(&name, 9), read_before + 3, "those that were read are counted");
    });
}

#[test]
fn readiness_is_told() {
    networked(|| {
        let (fd, name) = device(TUN | NO_PI);
        assert_eq!(polled(fd, POLLIN | POLLOUT), 0, "it is off");
        configure(&name);
        assert_eq!(polled(fd, POLLOUT), POLLOUT);
        let queue = must(unsafe { libc::epoll_create1(0) }) as i32;
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
        must(unsafe { libc::epoll_ctl(queue, libc::EPOLL_CTL_ADD, fd, &mut event) });
        while read(fd, 2000).is_ok() {}
        let child = start_child(|| {
            assert_eq!(send_to(udp(), b"x", other(9)), Ok(1));
        });
        let mut found = [event];
        assert_eq!(must(unsafe { libc::epoll_wait(queue, found.as_mut_ptr(), 1, -1) }), 1);
        assert_eq!({ found[0].u64 }, 7);
        next(fd, 0);
        assert_eq!(wait(child), Ended::Exited(0));
        set_nonblocking(fd);
        let mut off = 0i32;
        assert_eq!(ask(fd, 0x5421, &mut off), Ok(0), "FIONBIO");
        let child = start_child(|| {
            assert_eq!(send_to(udp(), b"blocking", other(9)), Ok(8));
        });
        while !read(fd, 2000).unwrap().ends_with(b"blocking") {}
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn an_interface_ends_with_its_last_description() {
    networked(|| {
        let notices = Administration::new(&[LINKS]);
        let (fd, name) = configured(TUN | NO_PI);
        let copy = must(unsafe { libc::dup(fd) }) as i32;
        close(fd);
        assert!(flags_of(&name).is_ok());
        let routes = || std::fs::read_to_string("/proc/self/net/route").unwrap();
        assert!(routes().contains(&name));
        close(copy);
        assert_eq!(flags_of(&name), Err(libc::ENODEV));
        assert!(!routes().contains(&name));
        assert_eq!(send_to(udp(), b"x", other(9)), Err(libc::ENETUNREACH));
        let gone = |(kind, _, body): &Message| {
            *kind == RTM_DELLINK
                && value(body, LINK_HEAD, libc::IFLA_IFNAME)
                    .is_some_and(|it| it.starts_with(name.as_bytes()))
        };
        while !notices.receive().iter().any(gone) {}
    });
}

#[test]
fn a_persistent_interface_waits_for_a_program() {
    networked(|| {
        let (fd, name) = configured(TUN | NO_PI);
        assert_eq!(ask_value(fd, TUNSETPERSIST, 1), Ok(0));
        let mut told = request("", 0);
        assert_eq!(ask(fd, TUNGETIFF, &mut told), Ok(0));
        assert_eq!(unsafe { told.ifr_ifru.ifru_flags } as u16, TUN | NO_PI | PERSIST);
        assert_eq!(set_interface(file(), &name, TUN | NO_PI), Err(EBUSY));
        close(fd);
        assert!(!has_carrier(&name), "nobody is there");
        let fd = file();
        assert_eq!(set_interface(fd, &name, TUN), Ok(name.clone()));
        assert!(has_carrier(&name));
        assert_eq!(send_to(udp(), b"again", other(9)), Ok(5));
        assert_eq!(next(fd, 4)[..4], [0, 0, 8, 0], "the flags are those of the last program");
        assert_eq!(ask_value(fd, TUNSETPERSIST, 0), Ok(0));
        close(fd);
        assert_eq!(flags_of(&name), Err(libc::ENODEV));
    });
}

#[test]
fn an_owner_may_be_at_the_end() {
    networked(|| {
        let fd = file();
        without(CAP_NET_ADMIN, || {
            assert_eq!(set_interface(file(), "abt%d", TUN), Err(EPERM));
        });
        let name = set_interface(fd, "abt%d", TUN).unwrap();
        assert_eq!(ask_value(fd, TUNSETPERSIST, 1), Ok(0));
        close(fd);
        let files = [0, 1, 2, 3].map(|_| file());
        as_user(1234, &[], || {
            assert_eq!(set_interface(files[0], &name, TUN).as_deref(), Ok(&*name), "anybody");
            assert_eq!(ask_value(files[0], TUNSETOWNER, u64::from(u32::MAX)), Err(EINVAL));
            assert_eq!(ask_value(files[0], TUNSETOWNER, 1234), Ok(0));
        });
        close(files[0]);
        as_user(1235, &[], || assert_eq!(set_interface(files[1], &name, TUN), Err(EPERM)));
        as_user(1234, &[], || {
            assert_eq!(set_interface(files[1], &name, TUN).as_deref(), Ok(&*name));
            assert_eq!(ask_value(files[1], TUNSETGROUP, 77), Ok(0));
        });
        close(files[1]);
        as_user(1234, &[76], || assert_eq!(set_interface(files[2], &name, TUN), Err(EPERM)));
        as_user(1234, &[77], || {
            assert_eq!(set_interface(files[2], &name, TUN).as_deref(), Ok(&*name));
        });
        close(files[2]);
        assert_eq!(set_interface(files[3], &name, TUN).as_deref(), Ok(&*name));
        assert_eq!(ask_value(files[3], TUNSETPERSIST, 0), Ok(0));
    });
}

#[test]
fn a_removed_interface_leaves_its_descriptions() {
    networked(|| {
        let (fd, name) = configured(TUN | NO_PI);
        let administration = Administration::new(&[]);
        let mut body = vec![0; LINK_HEAD];
        put(&mut body, libc::IFLA_IFNAME, format!("{name}\0").as_bytes());
        assert_eq!(administration.act(RTM_DELLINK, 0, &body), Ok(()));
        assert_eq!(read(fd, 99), Err(EBADFD));
        assert_eq!(write(fd, &echo(1)), Err(EBADFD));
        assert_eq!(polled(fd, POLLIN), POLLERR);
        assert_eq!(set_interface(fd, &name, TAP).as_deref(), Ok(&*name), "it can have another");
        let lo = administration.act(RTM_DELLINK, 0, &{
            let mut body = vec![0; LINK_HEAD];
            put(&mut body, libc::IFLA_IFNAME, b"lo\0");
            body
        });
        assert_eq!(lo.map_err(|(number, _)| number), Err(EOPNOTSUPP));
    });
}

#[test]
fn queues_are_added_and_taken_out_of_use() {
    networked(|| {
        let (first, name) = configured(TUN | NO_PI | MULTI_QUEUE);
        let second = file();
        assert_eq!(set_interface(second, &name, TUN | NO_PI), Err(EINVAL));
        assert_eq!(set_interface(second, &name, TUN | NO_PI | MULTI_QUEUE), Ok(name.clone()));
        for (fd, number) in [(first, 1), (second, 2), (first, 3)] {
            assert_eq!(write(fd, &echo(number)), Ok(32));
            while read(first, 2000).is_ok() || read(second, 2000).is_ok() {}
            assert_eq!(write(fd, &echo(number)), Ok(32));
            assert_eq!(next(fd, 0)[27], number, "a flow comes where it was last written");
        }
        let set = |fd, flags| ask(fd, TUNSETQUEUE, &mut request("", flags));
        assert_eq!(set(second, ATTACH), Err(EINVAL), "it is in use");
        assert_eq!(set(second, 0), Err(EINVAL));
        assert_eq!(set(second, DETACH), Ok(0));
        assert_eq!(set(second, DETACH), Err(EINVAL));
        let mut told = request("", 0);
        assert_eq!(ask(second, TUNGETIFF, &mut told), Ok(0));
        let expected = TUN | NO_PI | MULTI_QUEUE | DETACH;
        assert_eq!(unsafe { told.ifr_ifru.ifru_flags } as u16, expected);
        for port in 1..30 {
            assert_eq!(send_to(udp(), b"x", other(port)), Ok(1));
        }
        assert_eq!(read(second, 2000), Err(EAGAIN));
        assert_eq!(set(second, ATTACH), Ok(0));
        let single = device(TUN).0;
        assert_eq!(set(single, DETACH), Err(EINVAL), "it has one queue");
    });
}

#[test]
fn a_tap_carries_frames() {
    networked(|| {
        let (fd, name) = configured(TAP | NO_PI);
        let mut told = interface(&name);
        assert_eq!(ask(udp(), SIOCGIFHWADDR, &mut told), Ok(0));
        let mac_of = |told: &libc::ifreq| unsafe {
            told.ifr_ifru.ifru_hwaddr.sa_data[..6]
                .iter()
                .map(|byte| *byte as u8)
                .collect::<Vec<_>>()
        };
        let mac = mac_of(&told);
        assert_eq!(mac[0] & 3, 2, "made by chance");
        let mut same = request("", 0);
        assert_eq!(ask(fd, SIOCGIFHWADDR, &mut same), Ok(0));
        assert_eq!(mac_of(&same), mac);
        let flags = libc::IFF_BROADCAST | libc::IFF_MULTICAST;
        assert_eq!(flags_of(&name), Ok(flags | libc::IFF_UP | libc::IFF_RUNNING));
        assert_eq!(send_to(udp(), b"x", other(9)), Ok(1));
        let question = std::iter::repeat_with(|| {
            await_events(fd, POLLIN);
            read(fd, 2000).unwrap()
        });
        let question = question.into_iter().find(|frame| frame[12..14] == [8, 6]).unwrap();
        assert_eq!((&question[..6], &question[6..12]), (&[255; 6][..], &mac[..]));
        assert_eq!(question[38..42], OTHER);
        let theirs = [2, 0, 0, 0, 0, 5];
        let head = [&mac[..], &theirs, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
        let reply = [&head[..], &theirs, &OTHER, &mac, &OWN].concat();
        assert_eq!(write(fd, &reply), Ok(42));
        let frame = next(fd, 14);
        assert_eq!((&frame[..6], &frame[42..]), (&theirs[..], &b"x"[..]));
        let mut fresh = request("", 0);
        fresh.ifr_ifru.ifru_hwaddr.sa_family = 1;
        for (place, byte) in [2, 0, 0, 0, 0, 9].into_iter().enumerate() {
            unsafe { fresh.ifr_ifru.ifru_hwaddr.sa_data[place] = byte };
        }
        assert_eq!(ask(fd, SIOCSIFHWADDR, &mut fresh), Ok(0));
        assert_eq!(ask(udp(), SIOCGIFHWADDR, &mut told), Ok(0));
        assert_eq!(mac_of(&told), [2, 0, 0, 0, 0, 9]);
        let (tun, _) = device(TUN);
        assert_eq!(ask(tun, SIOCSIFHWADDR, &mut fresh), Err(EOPNOTSUPP));
    });
}

#[test]
fn netlink_tells_the_kind_of_a_tunnel() {
    networked(|| {
        let (fd, name) = device(TUN | NO_PI | MULTI_QUEUE);
        assert_eq!(ask_value(fd, TUNSETOWNER, 42), Ok(0));
        let administration = Administration::new(&[]);
        let mut body = vec![0; LINK_HEAD];
        put(&mut body, libc::IFLA_IFNAME, format!("{name}\0").as_bytes());
        let (_, _, link) = administration.get(RTM_GETLINK, &body).unwrap();
        assert_eq!(link[2..4], 65_534u16.to_ne_bytes(), "ARPHRD_NONE");
        assert_eq!(value(&link, LINK_HEAD, libc::IFLA_ADDRESS), None);
        assert_eq!(word(&link, LINK_HEAD, libc::IFLA_TXQLEN), Some(500));
        assert_eq!(
            (word(&link, LINK_HEAD, 50), word(&link, LINK_HEAD, 51)),
            (Some(68), Some(65_535))
        );
        let info = value(&link, LINK_HEAD, libc::IFLA_LINKINFO).unwrap();
        assert_eq!(value(&info, 0, 1).as_deref(), Some(&b"tun\0"[..]));
        let data = value(&info, 0, 2).unwrap();
        let expected: [(u16, &[u8]); 8] = [
            (3, &[1]),
            (1, &[42, 0, 0, 0]),
            (4, &[0]),
            (5, &[0]),
            (6, &[0]),
            (7, &[1]),
            (8, &[1, 0, 0, 0]),
            (9, &[0, 0, 0, 0]),
        ];
        let expected = expected.map(|(kind, bytes)| (kind, bytes.to_vec()));
        assert_eq!(attributes(&data, 0), expected);
        let mut body = vec![0; LINK_HEAD];
        put(&mut body, libc::IFLA_IFNAME, b"abt99\0");
        let mut info = Vec::new();
        put(&mut info, 1, b"tun\0");
        put(&mut body, libc::IFLA_LINKINFO, &info);
        let refused = administration.act(RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &body);
        let text = "tun/tap creation via rtnetlink is not supported.".to_owned();
        assert_eq!(refused, Err((EOPNOTSUPP, text)));
    });
}

#[test]
fn sysfs_shows_a_tunnel() {
    networked(|| {
        let folder = Scratch::new();
        let at = c(folder.path(""));
        must(unsafe {
            libc::mount(c"sysfs".as_ptr(), at.as_ptr(), c"sysfs".as_ptr(), 0, std::ptr::null())
        });
        let (fd, name) = device(TAP | NO_PI | VNET_HDR);
        assert_eq!(ask_value(fd, TUNSETGROUP, 43), Ok(0));
        let shown = |file: &str| {
            std::fs::read_to_string(folder.path(&format!("class/net/{name}/{file}"))).unwrap()
        };
        let files = ["tun_flags", "owner", "group", "type", "addr_assign_type", "tx_queue_len"];
        assert_eq!(files.map(shown), ["0x5002\n", "-1\n", "43\n", "1\n", "1\n", "1000\n"]);
        let listed = |name: &str| {
            let all = std::fs::read_dir(folder.path("class/net")).unwrap();
            all.into_iter().any(|one| one.unwrap().file_name() == name)
        };
        assert!(listed(&name) && listed("lo"));
        close(fd);
        assert!(!listed(&name) && !folder.path(&format!("class/net/{name}")).exists());
        must(unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) });
    });
}

#[test]
fn the_carrier_is_the_programs() {
    networked(|| {
        let (fd, name) = configured(TUN | NO_PI | NO_CARRIER);
        let is_running = || has_carrier(&name);
        assert!(!is_running());
        assert_eq!(send_to(udp(), b"lost", other(9)), Ok(4));
        assert_eq!(set_number(fd, TUNSETCARRIER, 1), Ok(0));
        assert!(is_running());
        assert_eq!(set_number(fd, TUNSETCARRIER, 0), Ok(0));
        assert!(!is_running());
        assert_eq!(ask_value(fd, TUNSETCARRIER, 0), Err(EFAULT));
    });
}

#[test]
fn settings_of_a_tunnel_are_kept() {
    networked(|| {
        let (fd, name) = device(TUN | NO_PI);
        assert_eq!(ask_number(fd, TUNGETSNDBUF), Ok(i32::MAX));
        assert_eq!(set_number(fd, TUNSETSNDBUF, 0), Err(EINVAL));
        assert_eq!(set_number(fd, TUNSETSNDBUF, 5000), Ok(0));
        assert_eq!(ask_number(fd, TUNGETSNDBUF), Ok(5000));
        assert_eq!(ask_value(fd, TUNSETLINK, 772), Ok(0));
        let mut told = interface(&name);
        assert_eq!(ask(udp(), SIOCGIFHWADDR, &mut told), Ok(0));
        assert_eq!(unsafe { told.ifr_ifru.ifru_hwaddr.sa_family }, 772);
        assert_eq!(ask_value(fd, TUNSETLINK, 65_534), Ok(0));
        switch(&name, true);
        assert_eq!(ask_value(fd, TUNSETLINK, 1), Err(EBUSY));
        assert_eq!(ask_value(fd, 0x5401, 0), Err(EINVAL), "TCGETS");
        assert_eq!(set_number(fd, TUNSETIFINDEX, 77), Err(EPERM));
        let numbered = file();
        assert_eq!(set_number(numbered, TUNSETIFINDEX, 7777), Ok(0));
        let name = set_interface(numbered, "abt%d", TUN).unwrap();
        assert_eq!(unsafe { libc::if_nametoindex(c(&name).as_ptr()) }, 7777);
        assert_eq!(set_number(fd, TUNSETVNETHDRSZ, 20), Ok(0));
        assert_eq!(ask_number(fd, TUNGETVNETHDRSZ), Ok(20));
    });
}

#[test]
fn a_tap_has_filters() {
    networked(|| {
        let (fd, _) = configured(TAP | NO_PI);
        let (tun, _) = device(TUN);
        let nothing = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0 }];
        let mut program = libc::sock_fprog { len: 1, filter: nothing.as_ptr().cast_mut() };
        for call in [TUNATTACHFILTER, TUNDETACHFILTER, TUNGETFILTER] {
            assert_eq!(ask(tun, call, &mut program), Err(EINVAL), "only frames have them");
        }
        assert_eq!(ask(fd, TUNATTACHFILTER, &mut program), Ok(0));
        let mut told = libc::sock_fprog { len: 0, filter: std::ptr::null_mut() };
        assert_eq!(ask(fd, TUNGETFILTER, &mut told), Ok(0));
        assert_eq!((told.len, told.filter), (1, program.filter));
        while read(fd, 2000).is_ok() {}
        assert_eq!(send_to(udp(), b"x", other(9)), Ok(1));
        assert_eq!(read(fd, 2000), Err(EAGAIN));
        assert_eq!(ask(fd, TUNDETACHFILTER, &mut program), Ok(0));
        assert_eq!(send_to(udp(), b"x", v4([10, 77, 0, 3], 9)), Ok(1));
        await_events(fd, POLLIN);
        let mut wanted = [0u8; 10];
        wanted[2] = 1;
        wanted[4..].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        assert_eq!(ask(tun, TUNSETTXFILTER, &mut wanted), Err(EINVAL));
        assert_eq!(ask(fd, TUNSETTXFILTER, &mut wanted), Ok(1), "one is compared whole");
        while read(fd, 2000).is_ok() {}
        assert_eq!(send_to(udp(), b"x", v4([10, 77, 0, 4], 9)), Ok(1));
        assert_eq!(read(fd, 2000), Err(EAGAIN), "the question is for all hosts");
        assert_eq!(ask(fd, TUNSETTXFILTER, &mut [0u8; 4]), Ok(0));
    });
}

#[test]
fn sockets_of_links_see_packets_without_a_header() {
    networked(|| {
        let (fd, name) = configured(TUN | NO_PI);
        let tap = try_socket(libc::AF_PACKET, libc::SOCK_RAW, 0).unwrap();
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = unsafe { libc::if_nametoindex(c(&name).as_ptr()) } as i32;
        address.sll_protocol = 0x0800u16.to_be();
        must(unsafe { libc::bind(tap, (&raw const address).cast(), 20) });
        let packet = echo(1);
        assert_eq!(write(fd, &packet), Ok(32));
        let mut bytes = [0u8; 100];
        let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = 20u32;
        let into = bytes.as_mut_ptr().cast();
        let count =
            must(unsafe { libc::recvfrom(tap, into, 100, 0, (&raw mut from).cast(), &mut length) }
                as i64);
        assert_eq!(bytes[..count as usize], packet);
        assert_eq!((from.sll_hatype, from.sll_halen, from.sll_pkttype), (65_534, 0, 0));
        let sent = udp_packet((5, 6), b"by hand");
        let to = (&raw const address).cast();
        must(unsafe { libc::sendto(tap, sent.as_ptr().cast(), sent.len(), 0, to, 20) } as i64);
        let got = std::iter::repeat_with(|| next(fd, 0)).find(|packet| packet[9] == 17);
        assert_eq!(got, Some(sent));
    });
}
