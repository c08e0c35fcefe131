//! Extension headers of IPv6 that programs give and are told of (RFC 3542, ipv6(7)): IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR,
//! IPV6_DSTOPTS, and the messages of IPV6_RECV*.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::internet::{messages::*, *};
use libc::{
    EINVAL, EPERM, IPV6_2292DSTOPTS, IPV6_2292HOPLIMIT, IPV6_2292HOPOPTS, IPV6_2292PKTINFO,
    IPV6_2292RTHDR, IPV6_DSTOPTS, IPV6_HOPLIMIT, IPV6_HOPOPTS, IPV6_MTU, IPV6_PKTINFO,
    IPV6_RECVDSTOPTS, IPV6_RECVHOPLIMIT, IPV6_RECVHOPOPTS, IPV6_RECVPKTINFO, IPV6_RECVRTHDR,
    IPV6_RTHDR, IPV6_RTHDRDSTOPTS,
};
use std::net::SocketAddr;

/// The options that are headers of options.
const OPTIONS: [i32; 3] = [IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_DSTOPTS];
/// A protocol that nobody uses (RFC 3692).
const EXPERIMENT: i32 = 253;
const UDP: u8 = 17;

/// Returns a header of eight bytes with an option that hosts pass over.
fn short(mark: u8) -> Vec<u8> {
    vec![0, 0, 0x1e, 4, mark, mark, mark, mark]
}

/// Returns a header of 2,040 bytes.
fn long() -> Vec<u8> {
    let mut header = vec![0, 254];
    for length in [254u8; 7] {
        header.extend([0x1e, length]);
        header.extend(vec![7; length.into()]);
    }
    header.extend([0x1e, 244]);
    header.extend([8; 244]);
    assert_eq!(header.len(), 2040);
    header
}

/// Returns a header of segment routing with two hosts, of which `left` are left; the last one of the route is written by the system.
fn segment_route(left: u8) -> Vec<u8> {
    let mut header = vec![0, 4, 4, left, 1, 0, 0, 0];
    header.extend([0; 16]);
    header.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    header
}

fn put(fd: i32, option: i32, bytes: &[u8]) -> Result<i64, i32> {
    set_bytes(fd, IPPROTO_IPV6, option, bytes)
}

fn told(fd: i32, option: i32) -> Vec<u8> {
    option_bytes(fd, IPPROTO_IPV6, option, 2048).unwrap()
}

fn udp6() -> i32 {
    socket(AF_INET6, SOCK_DGRAM)
}

fn raw6() -> i32 {
    try_socket(AF_INET6, SOCK_RAW, EXPERIMENT).unwrap()
}

/// Returns a bound socket of UDP that is told by some options, and its name.
fn listener(options: &[i32]) -> (i32, SocketAddr) {
    let fd = udp6();
    bind(fd, LOCAL6).unwrap();
    options.iter().for_each(|option| switch_on(fd, IPPROTO_IPV6, *option));
    (fd, name(fd).unwrap())
}

fn next(fd: i32) -> Received {
    await_events(fd, POLLIN);
    receive_message(fd, 4096, 0).unwrap()
}

/// Returns the types of control messages with the first bytes behind the next header.
fn kinds(got: &Received) -> Vec<(i32, u8)> {
    got.control.iter().map(|(_, kind, bytes)| (*kind, bytes[4])).collect()
}

fn control(kind: i32, bytes: &[u8]) -> Control {
    (IPPROTO_IPV6, kind, bytes.to_vec())
}

#[test]
fn headers_are_told_as_they_were_set() {
    networked(|| {
        for fd in [socket(AF_INET6, SOCK_STREAM), udp6(), raw6()] {
            for option in OPTIONS {
                assert_eq!(told(fd, option), []);
                assert_eq!(put(fd, option, &short(1)), Ok(0));
                assert_eq!(told(fd, option), short(1));
                assert_eq!(option_bytes(fd, IPPROTO_IPV6, option, 3), Ok(vec![0, 0, 0x1e]));
                // Bytes behind the header are dropped.
                assert_eq!(put(fd, option, &[short(2), short(3)].concat()), Ok(0));
                assert_eq!(told(fd, option), short(2));
                assert_eq!(put(fd, option, &long()), Ok(0));
                assert_eq!(told(fd, option), long());
            }
            assert_eq!(put(fd, IPV6_DSTOPTS, &[]), Ok(0));
            assert_eq!(told(fd, IPV6_DSTOPTS), []);
            assert_eq!(told(fd, IPV6_HOPOPTS), long(), "the others stay");
            assert_eq!(told(fd, IPV6_RTHDR), []);
            assert_eq!(put(fd, IPV6_RTHDR, &segment_route(1)), Ok(0));
            assert_eq!(told(fd, IPV6_RTHDR), segment_route(1));
        }
    });
}

#[test]
fn headers_that_are_not_whole_are_refused_and_change_nothing() {
    networked(|| {
        let fd = udp6();
        for option in OPTIONS {
            assert_eq!(put(fd, option, &short(1)), Ok(0));
            for bytes in [&[0][..], &[0; 7], &[0; 12], &[0, 1, 0, 0, 0, 0, 0, 0], &[0; 2048]] {
                assert_eq!(put(fd, option, bytes), Err(EINVAL), "{bytes:?}");
                assert_eq!(told(fd, option), short(1));
            }
        }
        assert_eq!(put(fd, IPV6_RTHDR, &segment_route(0)), Ok(0));
        let mut unknown = segment_route(0);
        unknown[2] = 0;
        let mut longer = segment_route(0);
        longer.extend([0; 8]);
        let mut tail = longer.clone();
        tail[1] = 5;
        tail[41] = 7;
        for route in [unknown, segment_route(2), longer, tail, short(1)] {
            assert_eq!(put(fd, IPV6_RTHDR, &route), Err(EINVAL), "{route:?}");
            assert_eq!(told(fd, IPV6_RTHDR), segment_route(0));
        }
    });
}

#[test]
fn options_need_a_privilege_and_routes_do_not() {
    networked(|| {
        without(CAP_NET_RAW, || {
            let (server, to) = listener(&[]);
            let fd = udp6();
            for option in OPTIONS {
                assert_eq!(put(fd, option, &short(1)), Err(EPERM));
                assert_eq!(put(fd, option, &[]), Err(EPERM));
                assert_eq!(put(fd, option, &[0]), Err(EPERM));
            }
            assert_eq!(put(fd, IPV6_RTHDR, &segment_route(0)), Ok(0));
            assert_eq!(put(fd, IPV6_RTHDR, &[]), Ok(0));
            for kind in [IPV6_HOPOPTS, IPV6_DSTOPTS, IPV6_RTHDRDSTOPTS, IPV6_2292DSTOPTS] {
                let options = [control(kind, &short(1))];
                assert_eq!(send_message(fd, &[b"x"], Some(to), &options, 0), Err(EPERM));
            }
            assert_eq!(send_message(fd, &[b"x"], Some(to), &[], 0), Ok(1));
            assert_eq!(next(server).data, b"x");
        });
    });
}

#[test]
fn a_datagram_brings_the_headers_of_its_socket() {
    networked(|| {
        let asked = [IPV6_RECVHOPOPTS, IPV6_RECVDSTOPTS, IPV6_RECVRTHDR];
        let (server, to) = listener(&asked);
        let client = udp6();
        put(client, IPV6_HOPOPTS, &short(1)).unwrap();
        put(client, IPV6_DSTOPTS, &short(2)).unwrap();
        // Without a route these are not sent.
        put(client, IPV6_RTHDRDSTOPTS, &short(3)).unwrap();
        connect(client, to).unwrap();
        for count in [1, 2] {
            send(client, b"one", 0).unwrap();
            let got = next(server);
            assert_eq!(got.data, b"one");
            assert_eq!(kinds(&got), [(IPV6_HOPOPTS, 1), (IPV6_DSTOPTS, 2)], "{count}");
            let hop = got.control_of(IPPROTO_IPV6, IPV6_HOPOPTS).unwrap();
            assert_eq!(hop[0], 60, "the next header");
            let last = got.control_of(IPPROTO_IPV6, IPV6_DSTOPTS).unwrap();
            assert_eq!(last, [&[UDP][..], &short(2)[1..]].concat());
        }
        put(client, IPV6_HOPOPTS, &[]).unwrap();
        send(client, b"two", 0).unwrap();
        assert_eq!(kinds(&next(server)), [(IPV6_DSTOPTS, 2)]);
        put(client, IPV6_DSTOPTS, &[]).unwrap();
        send(client, b"three", 0).unwrap();
        assert_eq!(kinds(&next(server)), []);
    });
}

#[test]
fn headers_are_told_in_the_old_and_in_the_new_form() {
    networked(|| {
        let (server, to) = listener(&[
            IPV6_2292HOPOPTS,
            IPV6_2292DSTOPTS,
            IPV6_2292RTHDR,
            IPV6_2292PKTINFO,
            IPV6_2292HOPLIMIT,
            IPV6_RECVPKTINFO,
            IPV6_RECVHOPLIMIT,
            IPV6_RECVHOPOPTS,
            IPV6_RECVDSTOPTS,
        ]);
        let client = udp6();
        put(client, IPV6_HOPOPTS, &short(1)).unwrap();
        put(client, IPV6_DSTOPTS, &short(2)).unwrap();
        send_to(client, b"one", to).unwrap();
        let got = next(server);
        let order: Vec<i32> = got.control.iter().map(|(_, kind, _)| *kind).collect();
        let wanted = [
            IPV6_PKTINFO,
            IPV6_HOPLIMIT,
            IPV6_HOPOPTS,
            IPV6_DSTOPTS,
            IPV6_2292PKTINFO,
            IPV6_2292HOPLIMIT,
            IPV6_2292HOPOPTS,
            IPV6_2292DSTOPTS,
        ];
        assert_eq!(order, wanted);
        let old = got.control_of(IPPROTO_IPV6, IPV6_2292DSTOPTS);
        assert_eq!(old, got.control_of(IPPROTO_IPV6, IPV6_DSTOPTS));
    });
}

#[test]
fn headers_of_one_datagram_stand_for_those_of_the_socket() {
    networked(|| {
        let (server, to) = listener(&[IPV6_RECVHOPOPTS, IPV6_RECVDSTOPTS]);
        let client = udp6();
        put(client, IPV6_DSTOPTS, &short(1)).unwrap();
        let send = |control: &[Control]| send_message(client, &[b"x"], Some(to), control, 0);
        assert_eq!(send(&[control(IPV6_HOPOPTS, &short(2))]), Ok(1));
        assert_eq!(kinds(&next(server)), [(IPV6_HOPOPTS, 2)]);
        let both = [control(IPV6_2292HOPOPTS, &short(3)), control(IPV6_2292DSTOPTS, &short(4))];
        assert_eq!(send(&both), Ok(1));
        assert_eq!(kinds(&next(server)), [(IPV6_HOPOPTS, 3), (IPV6_DSTOPTS, 4)]);
        assert_eq!(send(&[control(IPV6_RTHDRDSTOPTS, &short(5))]), Ok(1));
        assert_eq!(kinds(&next(server)), [], "without a route");
        assert_eq!(send(&[]), Ok(1));
        assert_eq!(kinds(&next(server)), [(IPV6_DSTOPTS, 1)], "the socket's again");
        // The later one of two counts, but for those that may be there once.
        let two = [control(IPV6_DSTOPTS, &short(6)), control(IPV6_DSTOPTS, &short(7))];
        for twice in [IPV6_HOPOPTS, IPV6_2292HOPOPTS, IPV6_2292DSTOPTS] {
            let two = [control(twice, &short(6)), control(twice, &short(7))];
            assert_eq!(send(&two), Err(EINVAL));
        }
        assert_eq!(send(&two[..1]), Ok(1));
        assert_eq!(kinds(&next(server)), [(IPV6_DSTOPTS, 6)]);
        for kind in [IPV6_HOPOPTS, IPV6_DSTOPTS, IPV6_RTHDRDSTOPTS] {
            assert_eq!(send(&[control(kind, &[0])]), Err(EINVAL));
            assert_eq!(send(&[control(kind, &[0, 1, 0, 0, 0, 0, 0, 0])]), Err(EINVAL));
        }
        assert_eq!(send(&[control(IPV6_RTHDR, &segment_route(0))]), Err(EINVAL));
    });
}

#[test]
fn long_headers_arrive() {
    networked(|| {
        let (server, to) = listener(&[]);
        switch_on(server, IPPROTO_IPV6, IPV6_RECVDSTOPTS);
        let client = udp6();
        // The options of a header are at most eight, and each host may refuse more.
        put(client, IPV6_HOPOPTS, &long()).unwrap();
        put(client, IPV6_DSTOPTS, &short(2)).unwrap();
        for payload in [vec![1; 3], vec![2; 3000]] {
            send_to(client, &payload, to).unwrap();
            let got = next(server);
            assert_eq!(got.data, payload);
            assert_eq!(kinds(&got), [(IPV6_DSTOPTS, 2)]);
        }
    });
}

#[test]
fn each_fragment_repeats_the_headers_before_it() {
    networked(|| {
        let (server, to) = listener(&[IPV6_RECVHOPOPTS, IPV6_RECVDSTOPTS]);
        let client = udp6();
        set(client, IPPROTO_IPV6, IPV6_MTU, 1280).unwrap();
        put(client, IPV6_HOPOPTS, &short(1)).unwrap();
        put(client, IPV6_DSTOPTS, &short(2)).unwrap();
        let payload: Vec<u8> = (0..3000u32).map(|number| number as u8).collect();
        send_to(client, &payload, to).unwrap();
        let got = next(server);
        assert_eq!(got.data, payload);
        assert_eq!(kinds(&got), [(IPV6_HOPOPTS, 1), (IPV6_DSTOPTS, 2)]);
    });
}

#[test]
fn a_raw_socket_sends_and_is_told_of_headers() {
    networked(|| {
        let server = raw6();
        bind(server, LOCAL6).unwrap();
        switch_on(server, IPPROTO_IPV6, IPV6_RECVHOPOPTS);
        let client = raw6();
        put(client, IPV6_HOPOPTS, &short(1)).unwrap();
        send_to(client, b"raw", LOCAL6).unwrap();
        let got = next(server);
        assert_eq!((&got.data[..], kinds(&got)), (&b"raw"[..], vec![(IPV6_HOPOPTS, 1)]));
        let hop = got.control_of(IPPROTO_IPV6, IPV6_HOPOPTS).unwrap();
        assert_eq!(i32::from(hop[0]), EXPERIMENT);
    });
}

#[test]
fn a_packet_with_a_route_goes_to_its_first_host() {
    networked(|| {
        let protocol = 0x86dd_u16.to_be();
        let tap = try_socket(libc::AF_PACKET, SOCK_DGRAM, protocol.into()).unwrap();
        let client = udp6();
        put(client, IPV6_RTHDRDSTOPTS, &short(3)).unwrap();
        put(client, IPV6_RTHDR, &segment_route(1)).unwrap();
        // The last host is another than the first, which is this one.
        let last: SocketAddr = "[2001:db8::5]:9".parse().unwrap();
        send_to(client, b"way", last).unwrap();
        await_events(tap, POLLIN);
        let packet = receive(tap, 200, 0).unwrap();
        let end: SocketAddr = LOCAL6;
        let (SocketAddr::V6(end), SocketAddr::V6(last)) = (end, last) else { unreachable!() };
        assert_eq!(packet[6], 60, "options for the hosts of the route");
        assert_eq!(packet[24..40], end.ip().octets(), "the first host");
        assert_eq!(packet[40..48], [&[43][..], &short(3)[1..]].concat());
        let mut route = segment_route(1);
        route[0] = UDP;
        route[8..24].copy_from_slice(&last.ip().octets());
        assert_eq!(packet[48..88], route);
        assert_eq!(&packet[96..99], b"way");
    });
}
