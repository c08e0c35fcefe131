//! Options of the header of IPv4 (RFC 791, RFC 2113): IP_OPTIONS, IP_RECVOPTS and IP_RETOPTS (ip(7)).
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
use libc::{EINVAL, IP_OPTIONS, IP_RECVOPTS, IP_RETOPTS};

/// A record of the route with room for two hosts.
const RECORD: [u8; 11] = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0];
const ALERT: [u8; 4] = [148, 4, 0, 0];
const HEADER: usize = 20;

fn put(fd: i32, bytes: &[u8]) -> Result<i64, i32> {
    set_bytes(fd, IPPROTO_IP, IP_OPTIONS, bytes)
}

fn told(fd: i32) -> Vec<u8> {
    option_bytes(fd, IPPROTO_IP, IP_OPTIONS, 40).unwrap()
}

/// Returns a bound socket of UDP that is told of options, and its name.
fn listener() -> (i32, std::net::SocketAddr) {
    let fd = udp();
    bind(fd, LOCAL).unwrap();
    for option in [IP_RECVOPTS, IP_RETOPTS] {
        set(fd, IPPROTO_IP, option, 1i32).unwrap();
    }
    (fd, name(fd).unwrap())
}

#[test]
fn options_are_told_as_they_were_set_in_whole_words() {
    networked(|| {
        for fd in [tcp(), udp()] {
            assert_eq!(told(fd), []);
            assert_eq!(put(fd, &RECORD), Ok(0));
            assert_eq!(told(fd), [&RECORD[..], &[0]].concat());
            // What the way is to write there is zero.
            assert_eq!(put(fd, &[7, 7, 4, 9, 9, 9, 9]), Ok(0));
            assert_eq!(told(fd), [7, 7, 4, 0, 0, 0, 0, 0]);
            assert_eq!(put(fd, &[68, 12, 5, 1, 9, 9, 9, 9, 9, 9, 9, 9]), Ok(0));
            assert_eq!(told(fd), [68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(put(fd, &[131, 11, 4, 127, 0, 0, 1, 127, 0, 0, 2]), Ok(0));
            assert_eq!(told(fd), [131, 11, 4, 127, 0, 0, 1, 127, 0, 0, 2, 0]);
            assert_eq!(put(fd, &[1, 0, 7, 7]), Ok(0));
            assert_eq!(told(fd), [1, 0, 0, 0], "nothing follows the end");
            assert_eq!(option_bytes(fd, IPPROTO_IP, IP_OPTIONS, 2), Ok(vec![1, 0]));
            assert_eq!(put(fd, &[]), Ok(0));
            assert_eq!(told(fd), []);
        }
    });
}

#[test]
fn malformed_options_are_refused_and_change_nothing() {
    networked(|| {
        let fd = udp();
        assert_eq!(put(fd, &ALERT), Ok(0));
        for bytes in [
            &[7][..],
            &[7, 1, 4],
            &[7, 9, 4],
            &[7, 3, 3],
            &[7, 6, 4, 0, 0, 0],
            &[7, 3, 4, 7, 3, 4],
            &[148, 2],
            &[68, 4, 4, 0],
            &[68, 8, 5, 1, 0, 0, 0, 0],
            &[68, 4, 5, 0xf0],
            &[131, 7, 5, 127, 0, 0, 1],
            &[131, 6, 4, 127, 0, 0],
            &[131, 7, 4, 127, 0, 0, 1, 137, 7, 4, 127, 0, 0, 1],
            &[0; 41],
        ] {
            assert_eq!(put(fd, bytes), Err(EINVAL), "{bytes:?}");
            assert_eq!(told(fd), ALERT);
        }
        assert_eq!(put(fd, &[0; 40]), Ok(0));
        // Unknown options need a privilege.
        for bytes in [&[130, 4, 0, 0][..], &[136, 4, 0, 0], &[68, 8, 5, 7, 0, 0, 0, 0]] {
            assert_eq!(put(fd, bytes), Ok(0));
            without(CAP_NET_RAW, || assert_eq!(put(udp(), bytes), Err(EINVAL)));
        }
        without(CAP_NET_RAW, || assert_eq!(put(udp(), &RECORD), Ok(0)));
    });
}

#[test]
fn a_datagram_brings_its_options_and_those_of_an_answer() {
    networked(|| {
        let (server, to) = listener();
        let client = udp();
        bind(client, v4([127, 0, 0, 9], 0)).unwrap();
        put(client, &RECORD).unwrap();
        send_to(client, b"one", to).unwrap();
        let got = receive_message(server, 100, 0).unwrap();
        assert_eq!(got.data, b"one");
        let came = [7, 11, 12, 127, 0, 0, 9, 127, 0, 0, 1, 0];
        assert_eq!(got.control_of(IPPROTO_IP, IP_RECVOPTS), Some(&came[..]));
        assert_eq!(
            got.control_of(IPPROTO_IP, IP_RETOPTS),
            Some(&came[..]),
            "there is no room left"
        );
        // With more room the answer goes on where the way ended.
        let mut long = vec![7, 19, 4];
        long.extend([0; 16]);
        put(client, &long).unwrap();
        send_to(client, b"two", to).unwrap();
        let got = receive_message(server, 100, 0).unwrap();
        let mut came = vec![7, 19, 12, 127, 0, 0, 9, 127, 0, 0, 1];
        came.extend([0; 9]);
        assert_eq!(got.control_of(IPPROTO_IP, IP_RECVOPTS), Some(&came[..]));
        assert_eq!(got.control_of(IPPROTO_IP, IP_RETOPTS), Some(&came[..]));
        // The answer has the options for which it asks in a control message, instead of the socket's.
        let answer = (IPPROTO_IP, IP_RETOPTS, came);
        put(server, &ALERT).unwrap();
        set(client, IPPROTO_IP, IP_RECVOPTS, 1i32).unwrap();
        send_message(server, &[b"back"], got.from, &[answer], 0).unwrap();
        let got = receive_message(client, 100, 0).unwrap();
        let whole = [7, 19, 20, 127, 0, 0, 9, 127, 0, 0, 1, 127, 0, 0, 1, 127, 0, 0, 9, 0];
        assert_eq!(got.control_of(IPPROTO_IP, IP_RECVOPTS), Some(&whole[..]));
        assert_eq!(got.control_of(IPPROTO_IP, IP_RETOPTS), None);
        send_to(server, b"own", got.from.map(|_| name(client).unwrap()).unwrap()).unwrap();
        let got = receive_message(client, 100, 0).unwrap();
        assert_eq!(got.control_of(IPPROTO_IP, IP_RECVOPTS), Some(&ALERT[..]));
        // Without options nothing is told.
        put(server, &[]).unwrap();
        send_to(server, b"none", name(client).unwrap()).unwrap();
        assert_eq!(receive_message(client, 100, 0).unwrap().control, []);
        let bad = (IPPROTO_IP, IP_RETOPTS, vec![7, 1, 4]);
        assert_eq!(send_message(server, &[b"x"], Some(to), &[bad], 0), Err(EINVAL));
    });
}

#[test]
fn timestamps_are_written_by_both_ends() {
    networked(|| {
        let (server, to) = listener();
        let client = udp();
        let mut times = vec![68, 20, 5, 1];
        times.extend([0; 16]);
        put(client, &times).unwrap();
        send_to(client, b"x", to).unwrap();
        let got = receive_message(server, 100, 0).unwrap();
        let came = got.control_of(IPPROTO_IP, IP_RECVOPTS).unwrap();
        assert_eq!(came[..8], [68, 20, 21, 1, 127, 0, 0, 1]);
        assert_eq!(came[12..16], [127, 0, 0, 1]);
        let time = |at: usize| u32::from_be_bytes(came[at..at + 4].try_into().unwrap());
        assert!(time(8) <= time(16) && time(16) < 24 * 60 * 60 * 1000, "{came:?}");
        // A host without room counts itself.
        put(client, &[68, 8, 5, 0, 0, 0, 0, 0]).unwrap();
        send_to(client, b"x", to).unwrap();
        let got = receive_message(server, 100, 0).unwrap();
        let came = got.control_of(IPPROTO_IP, IP_RECVOPTS).unwrap();
        assert_eq!(came[..4], [68, 8, 9, 0x10]);
    });
}

#[test]
fn source_routes_are_refused_by_default() {
    networked(|| {
        let (server, to) = listener();
        let client = udp();
        put(client, &[131, 7, 4, 127, 0, 0, 1]).unwrap();
        assert_eq!(send_to(client, b"lost", to), Ok(4));
        put(client, &[]).unwrap();
        send_to(client, b"plain", to).unwrap();
        assert_eq!(receive(server, 100, 0).unwrap(), b"plain");
    });
}

#[test]
fn an_echo_answers_the_options() {
    networked(|| {
        let _allowed = Setting::set("net/ipv4/ping_group_range", "0 0").expect("root sets it");
        let fd = try_socket(AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMP).unwrap();
        let mut long = vec![7, 35, 4];
        long.extend([0; 32]);
        put(fd, &long).unwrap();
        set(fd, IPPROTO_IP, IP_RECVOPTS, 1i32).unwrap();
        send_to(fd, &[8, 0, 0, 0, 0, 0, 0, 1, b'x'], LOCAL).unwrap();
        let got = receive_message(fd, 100, 0).unwrap();
        let mut whole = vec![7, 35, 20];
        (0..4).for_each(|_| whole.extend([127, 0, 0, 1]));
        whole.resize(36, 0);
        assert_eq!(got.control_of(IPPROTO_IP, IP_RECVOPTS), Some(&whole[..]));
        assert_eq!((got.data[0], got.data[8]), (0, b'x'));
    });
}

#[test]
fn a_raw_socket_sends_and_sees_options_in_the_header() {
    networked(|| {
        let fd = try_socket(AF_INET, SOCK_RAW, 253).unwrap();
        put(fd, &[ALERT, [1, 1, 1, 0]].concat()).unwrap();
        send_to(fd, b"raw", LOCAL).unwrap();
        let got = receive(fd, 100, 0).unwrap();
        assert_eq!((got[0], got.len()), (0x47, HEADER + 8 + 3));
        assert_eq!(got[HEADER..], [&ALERT[..], &[1, 1, 1, 0], b"raw"].concat());
        // A header of the program's own has its own options.
        set(fd, IPPROTO_IP, libc::IP_HDRINCL, 1i32).unwrap();
        assert_eq!(send_to(fd, &got, LOCAL), Err(EINVAL));
        put(fd, &[]).unwrap();
        assert_eq!(send_to(fd, &got, LOCAL), Err(EINVAL), "an empty list is one");
        let fresh = try_socket(AF_INET, SOCK_RAW, 253).unwrap();
        set(fresh, IPPROTO_IP, libc::IP_HDRINCL, 1i32).unwrap();
        assert_eq!(send_to(fresh, &got, LOCAL), Ok(got.len()));
        assert_eq!(receive(fd, 100, 0).unwrap()[HEADER..HEADER + 4], ALERT);
    });
}

#[test]
fn fragments_behind_the_first_have_the_options_that_are_copied() {
    networked(|| {
        let (server, to) = listener();
        let client = udp();
        let options = [&[7, 7, 4, 0, 0, 0, 0][..], &ALERT, &[0]].concat();
        put(client, &options).unwrap();
        set(client, IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT).unwrap();
        let data = vec![7; 65_000];
        assert_eq!(send_to(client, &data, to), Ok(data.len()));
        let got = receive_message(server, 70_000, 0).unwrap();
        assert_eq!(got.data, data);
        let came = got.control_of(IPPROTO_IP, IP_RECVOPTS).unwrap();
        assert_eq!(came, [&[7, 7, 8, 127, 0, 0, 1][..], &ALERT, &[0]].concat());
        // The options count against the greatest datagram.
        let most = 65_535 - HEADER - options.len() - 8;
        assert_eq!(send_to(client, &vec![1; most], to), Ok(most));
        assert_eq!(send_to(client, &vec![1; most + 1], to), Err(libc::EMSGSIZE));
    });
}

#[test]
fn a_connection_has_the_options_that_answer_those_of_its_syn() {
    networked(|| {
        let server = tcp();
        bind(server, LOCAL).unwrap();
        // Those of the listener are its own.
        put(server, &ALERT).unwrap();
        listen(server, 5).unwrap();
        let client = tcp();
        let mut long = vec![7, 19, 4];
        long.extend([0; 16]);
        put(client, &long).unwrap();
        connect(client, name(server).unwrap()).unwrap();
        let child = accept(server).unwrap();
        let mut answer = vec![7, 19, 12, 127, 0, 0, 1, 127, 0, 0, 1];
        answer.resize(20, 0);
        assert_eq!(told(child), answer);
        long.resize(20, 0);
        assert_eq!(told(client), long);
        let data = vec![3; 300_000];
        let writer = start_child(|| {
            assert_eq!(receive_all(child, data.len()), data);
            send(child, b"done", 0).unwrap();
        });
        let mut rest = &data[..];
        while !rest.is_empty() {
            rest = &rest[send(client, rest, 0).unwrap()..];
        }
        assert_eq!(receive_all(client, 4), b"done");
        assert_eq!(wait(writer), Ended::Exited(0));
        // Options can be set and removed while it is connected.
        put(client, &[]).unwrap();
        put(child, &ALERT).unwrap();
        assert_eq!((told(client), told(child)), (vec![], ALERT.to_vec()));
        send(child, b"more", 0).unwrap();
        assert_eq!(receive_all(client, 4), b"more");
        let plain = tcp();
        connect(plain, name(server).unwrap()).unwrap();
        assert_eq!(told(accept(server).unwrap()), []);
    });
}

#[test]
fn options_make_the_segments_of_a_connection_shorter() {
    networked(|| {
        let server = tcp();
        bind(server, LOCAL).unwrap();
        listen(server, 5).unwrap();
        let size = |options: &[u8]| {
            let client = tcp();
            put(client, options).unwrap();
            set(client, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 1000i32).unwrap();
            connect(client, name(server).unwrap()).unwrap();
            number(client, libc::IPPROTO_TCP, libc::TCP_MAXSEG).unwrap()
        };
        assert_eq!(size(&[]) - size(&[1; 40]), 40);
    });
}
