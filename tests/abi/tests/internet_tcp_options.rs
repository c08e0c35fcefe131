//! Options of TCP: defaults, ranges, and what TCP_INFO and others tell (tcp(7)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{messages::*, *},
    ipc::Setting,
};
use libc::{
    EINVAL, ENOENT, ENOPROTOOPT, EPERM, TCP_CONGESTION, TCP_CORK, TCP_DEFER_ACCEPT, TCP_FASTOPEN,
    TCP_INFO, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_LINGER2, TCP_MAXSEG, TCP_NODELAY,
    TCP_QUICKACK, TCP_SYNCNT, TCP_USER_TIMEOUT, TCP_WINDOW_CLAMP,
};
use std::thread;

const TCP_REPAIR: i32 = 19;
const TCP_NOTSENT_LOWAT: i32 = 25;
const TCP_SAVE_SYN: i32 = 27;
const TCP_SAVED_SYN: i32 = 28;
const TCP_INQ: i32 = 36;
const ESTABLISHED: u8 = 1;

fn get(fd: i32, option: i32) -> Result<i32, i32> {
    number(fd, IPPROTO_TCP, option)
}

fn put(fd: i32, option: i32, value: i32) -> Result<i64, i32> {
    set(fd, IPPROTO_TCP, option, value)
}

/// The answer of TCP_INFO, whose fields are told by their offset.
struct Info(Vec<u8>);

impl Info {
    fn of(fd: i32) -> Info {
        let bytes = option_bytes(fd, IPPROTO_TCP, TCP_INFO, 232).unwrap();
        assert_eq!(bytes.len(), 232, "as long as Linux 6.1's");
        Info(bytes)
    }
    fn state(&self) -> u8 {
        self.0[0]
    }
    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
    }
    fn long(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().unwrap())
    }
}

#[test]
fn a_new_socket_has_the_defaults() {
    networked(|| {
        for fd in [tcp(), socket(AF_INET6, SOCK_STREAM)] {
            for (option, told) in [
                (TCP_NODELAY, 0),
                (TCP_CORK, 0),
                (TCP_KEEPIDLE, 7200),
                (TCP_KEEPINTVL, 75),
                (TCP_KEEPCNT, 9),
                (TCP_SYNCNT, 6),
                (TCP_LINGER2, 60),
                (TCP_DEFER_ACCEPT, 0),
                (TCP_WINDOW_CLAMP, 0),
                (TCP_QUICKACK, 1),
                (TCP_USER_TIMEOUT, 0),
                (TCP_MAXSEG, 536),
                (TCP_FASTOPEN, 0),
                (TCP_NOTSENT_LOWAT, 0),
                (TCP_SAVE_SYN, 0),
            ] {
                assert_eq!(get(fd, option), Ok(told), "{option}");
            }
        }
    });
}

#[test]
fn ranges_are_kept() {
    networked(|| {
        for (option, good, bad) in [
            (TCP_KEEPIDLE, &[1, 7199, 32_767][..], &[0, -1, 32_768][..]),
            (TCP_KEEPINTVL, &[1, 32_767], &[0, -1, 32_768]),
            (TCP_KEEPCNT, &[1, 127], &[0, -1, 128]),
            (TCP_SYNCNT, &[1, 127], &[0, -1, 128]),
            (TCP_MAXSEG, &[88, 1000, 32_767], &[1, 87, -1, 32_768]),
            (TCP_USER_TIMEOUT, &[0, 1, i32::MAX], &[-1, i32::MIN]),
            (TCP_SAVE_SYN, &[0, 1, 2], &[3, -1]),
            (TCP_INQ, &[0, 1], &[2, -1]),
        ] {
            let fd = tcp();
            for value in good {
                assert_eq!(put(fd, option, *value), Ok(0), "{option} {value}");
                assert_eq!(get(fd, option), Ok(*value), "{option}");
            }
            for value in bad {
                assert_eq!(put(fd, option, *value), Err(EINVAL), "{option} {value}");
                assert_eq!(get(fd, option).as_ref(), good.last().ok_or(&0), "{option}");
            }
        }
    });
}

#[test]
fn switches_take_any_number() {
    networked(|| {
        let fd = tcp();
        for option in [TCP_NODELAY, TCP_CORK] {
            for (value, told) in [(1, 1), (0, 0), (5, 1), (-1, 1), (0, 0)] {
                assert_eq!(put(fd, option, value), Ok(0));
                assert_eq!(get(fd, option), Ok(told));
            }
        }
        for short in 0..4 {
            assert_eq!(set_bytes(fd, IPPROTO_TCP, TCP_NODELAY, &[1; 4][..short]), Err(EINVAL));
        }
        let short = option_bytes(fd, IPPROTO_TCP, TCP_KEEPIDLE, 2);
        assert_eq!(short, Ok(7200u16.to_ne_bytes().to_vec()));
        assert_eq!(option_bytes(fd, IPPROTO_TCP, TCP_KEEPIDLE, 9).map(|bytes| bytes.len()), Ok(4));
    });
}

#[test]
fn the_time_to_linger_in_fin_wait_2_has_a_limit() {
    networked(|| {
        let fd = tcp();
        for (value, told) in [(30, 30), (120, 120), (121, 120), (-1, -1), (-9, -1), (0, 60)] {
            assert_eq!(put(fd, TCP_LINGER2, value), Ok(0));
            assert_eq!(get(fd, TCP_LINGER2), Ok(told), "{value}");
        }
    });
}

#[test]
fn the_time_of_deferring_is_one_of_retransmissions() {
    networked(|| {
        let fd = tcp();
        for (seconds, told) in [(1, 1), (2, 3), (3, 3), (4, 7), (30, 31), (0, 0), (-1, 0)] {
            assert_eq!(put(fd, TCP_DEFER_ACCEPT, seconds), Ok(0));
            assert_eq!(get(fd, TCP_DEFER_ACCEPT), Ok(told), "{seconds}");
        }
    });
}

#[test]
fn quick_acknowledgements_are_switched() {
    networked(|| {
        let (client, _server) = tcp_pair();
        for (value, told) in [(0, 0), (1, 1), (0, 0)] {
            assert_eq!(put(client, TCP_QUICKACK, value), Ok(0));
            assert_eq!(get(client, TCP_QUICKACK), Ok(told));
        }
    });
}

#[test]
fn the_algorithm_of_congestion_has_a_name() {
    networked(|| {
        let fd = tcp();
        let told = |room| option_bytes(fd, IPPROTO_TCP, TCP_CONGESTION, room);
        let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
        let mut name = default.trim().as_bytes().to_vec();
        name.resize(16, 0);
        assert_eq!(told(16), Ok(name.clone()));
        assert_eq!(told(100), Ok(name), "16 bytes always");
        let choose = |name: &[u8]| set_bytes(fd, IPPROTO_TCP, TCP_CONGESTION, name);
        assert_eq!(choose(b"reno"), Ok(0));
        assert_eq!(told(4), Ok(b"reno".to_vec()));
        assert_eq!(choose(b"cubic\0"), Ok(0));
        assert_eq!(told(6), Ok(b"cubic\0".to_vec()));
        assert_eq!(choose(b"no such name"), Err(ENOENT));
        assert_eq!(choose(b""), Err(EINVAL));
        let (client, server) = tcp_pair();
        assert_eq!(set_bytes(client, IPPROTO_TCP, TCP_CONGESTION, b"reno"), Ok(0), "connected");
        send(client, &[1; 100_000], MSG_DONTWAIT).unwrap();
        assert_eq!(receive_all(server, 50_000), [1; 50_000]);
    });
}

#[test]
fn the_largest_segment_is_the_one_that_was_asked_for() {
    networked(|| {
        let (listener, at) = listener(LOCAL);
        let client = tcp();
        assert_eq!(put(client, TCP_MAXSEG, 1000), Ok(0));
        connect(client, at).unwrap();
        let server = accept(listener).unwrap();
        // The timestamps take 12 bytes of each segment.
        assert_eq!(get(server, TCP_MAXSEG), Ok(988));
        assert_eq!(Info::of(server).word(16), 988, "tcpi_snd_mss");
        let data: Vec<u8> = (0..10_000u32).map(|at| at as u8).collect();
        send(server, &data, 0).unwrap();
        assert_eq!(receive_all(client, 10_000), data);
        assert!(Info::of(server).word(156) >= 11, "tcpi_data_segs_out");
    });
}

#[test]
fn info_tells_the_state() {
    networked(|| {
        assert_eq!(Info::of(tcp()).state(), 7, "TCP_CLOSE");
        assert_eq!(Info::of(listener(LOCAL).0).state(), 10, "TCP_LISTEN");
        let (client, server) = tcp_pair();
        assert_eq!(Info::of(client).state(), ESTABLISHED);
        shut_down(client, SHUT_WR).unwrap();
        await_events(server, POLLRDHUP);
        assert_eq!(Info::of(server).state(), 8, "TCP_CLOSE_WAIT");
        while Info::of(client).state() == 4 {
            thread::yield_now();
        }
        assert_eq!(Info::of(client).state(), 5, "TCP_FIN_WAIT2");
        shut_down(server, SHUT_WR).unwrap();
        await_events(client, POLLHUP);
        await_events(server, POLLHUP);
        assert_eq!(Info::of(client).state(), 7, "TIME_WAIT is no state of the socket");
        assert_eq!(Info::of(server).state(), 7);
    });
}

#[test]
fn info_tells_of_a_transfer() {
    networked(|| {
        const SENT: usize = 50_000;
        let (client, server) = tcp_pair();
        let before = Info::of(client);
        // Timestamps, selective acknowledgements and window scaling.
        assert_eq!(before.0[5] & 7, 7, "tcpi_options");
        send(client, &[7; SENT], 0).unwrap();
        assert_eq!(receive_all(server, SENT).len(), SENT);
        while ask_number(client, SIOCOUTQ) != Ok(0) {
            thread::yield_now();
        }
        let (ours, theirs) = (Info::of(client), Info::of(server));
        assert_eq!(ours.long(120) - before.long(120), SENT as u64, "tcpi_bytes_acked");
        assert_eq!(theirs.long(128), SENT as u64, "tcpi_bytes_received");
        assert_eq!(ours.long(200), SENT as u64, "tcpi_bytes_sent");
        assert_eq!(ours.word(156), theirs.word(152), "data segments out and in");
        assert!(ours.word(156) > 0 && ours.word(136) >= ours.word(156), "of all segments");
        assert_eq!((ours.word(24), ours.word(144)), (0, 0), "tcpi_unacked, tcpi_notsent_bytes");
        assert_eq!((ours.word(36), ours.word(100)), (0, 0), "no retransmissions");
        assert_eq!(ours.word(60), 65_535, "tcpi_pmtu");
        let rtt = ours.word(68);
        assert!(rtt > 0 && ours.word(148) <= rtt * 8, "tcpi_rtt, tcpi_min_rtt");
        assert!(ours.word(80) >= 10, "tcpi_snd_cwnd");
        assert!(ours.word(8) >= 200_000, "tcpi_rto is 200 ms at least");
    });
}

#[test]
fn info_is_cut_to_the_room_for_it() {
    networked(|| {
        let (client, _server) = tcp_pair();
        let told = |room| option_bytes(client, IPPROTO_TCP, TCP_INFO, room).unwrap();
        assert_eq!(told(0), []);
        assert_eq!(told(1), [ESTABLISHED]);
        assert_eq!(told(104).len(), 104, "what older programs know");
        assert!((232..1000).contains(&told(1000).len()));
        assert_eq!(put(client, TCP_INFO, 1), Err(ENOPROTOOPT), "it cannot be set");
    });
}

#[test]
fn unsent_bytes_hold_a_writer_back() {
    networked(|| {
        let (client, server) = tcp_pair();
        assert_eq!(put(client, TCP_NOTSENT_LOWAT, 1000), Ok(0));
        assert_eq!(get(client, TCP_NOTSENT_LOWAT), Ok(1000));
        switch_on(client, IPPROTO_TCP, TCP_CORK);
        send(client, &[1; 999], 0).unwrap();
        send(client, &[1; 999], 0).unwrap();
        assert_eq!(ask_number(client, SIOCOUTQNSD), Ok(1998));
        assert_eq!(polled(client, POLLOUT), 0);
        assert_eq!(put(client, TCP_CORK, 0), Ok(0));
        await_events(client, POLLOUT);
        assert_eq!(receive_all(server, 1998).len(), 1998);
    });
}

#[test]
fn the_bytes_that_are_left_come_with_a_message() {
    networked(|| {
        let (client, server) = tcp_pair();
        switch_on(server, IPPROTO_TCP, TCP_INQ);
        send(client, &[7; 100], 0).unwrap();
        while ask_number(server, FIONREAD) != Ok(100) {
            thread::yield_now();
        }
        let got = receive_message(server, 30, 0).unwrap();
        assert_eq!((got.count, got.number_of(IPPROTO_TCP, TCP_INQ)), (30, Some(70)));
        let got = receive_message(server, 99, 0).unwrap();
        assert_eq!((got.count, got.number_of(IPPROTO_TCP, TCP_INQ)), (70, Some(0)));
        shut_down(client, SHUT_WR).unwrap();
        await_events(server, POLLRDHUP);
        let got = receive_message(server, 99, 0).unwrap();
        assert_eq!((got.count, got.number_of(IPPROTO_TCP, TCP_INQ)), (0, Some(1)), "the end");
    });
}

#[test]
fn the_first_segment_of_a_child_can_be_kept() {
    networked(|| {
        let (listener, at) = listener(LOCAL);
        assert_eq!(put(listener, TCP_SAVE_SYN, 1), Ok(0));
        let client = tcp();
        connect(client, at).unwrap();
        let child = accept(listener).unwrap();
        let saved = |room| option_bytes(child, IPPROTO_TCP, TCP_SAVED_SYN, room);
        assert_eq!(saved(10), Err(EINVAL));
        let syn = saved(200).unwrap();
        assert_eq!((syn[0], syn[9], syn.len()), (0x45, 6, 60), "headers of IPv4 and TCP");
        assert_eq!(syn[12..20], [127, 0, 0, 1, 127, 0, 0, 1]);
        assert_eq!(syn[20..22], name(client).unwrap().port().to_be_bytes());
        assert_eq!(syn[22..24], at.port().to_be_bytes());
        assert_eq!(syn[33] & 0x3f, 2, "SYN");
        assert_eq!(saved(200), Ok(vec![]), "it is told once");
        assert_eq!(option_bytes(client, IPPROTO_TCP, TCP_SAVED_SYN, 200), Ok(vec![]));
    });
}

#[test]
fn repair_needs_a_capability() {
    networked(|| {
        without(CAP_NET_ADMIN, || {
            let (client, _server) = tcp_pair();
            assert_eq!(put(client, TCP_REPAIR, 1), Err(EPERM));
        });
    });
}

#[test]
fn data_may_go_with_the_connect() {
    networked(|| {
        let setting = Setting::set("net/ipv4/tcp_fastopen", "3");
        let (listener, at) = listener(LOCAL);
        assert_eq!(put(listener, TCP_FASTOPEN, 5), Ok(0));
        assert_eq!(get(listener, TCP_FASTOPEN), Ok(5));
        let (raw, length) = to_raw(&at);
        let to = (&raw const raw).cast();
        // The first connection asks for the cookie, and the second one uses it.
        for _ in 0..2 {
            let client = tcp();
            let (data, flags) = (b"first bytes".as_ptr().cast(), libc::MSG_FASTOPEN);
            let sent = unsafe { libc::sendto(client, data, 11, flags, to, length) };
            assert_eq!(sent, 11);
            let child = accept(listener).unwrap();
            assert_eq!(receive_all(child, 11), b"first bytes");
            assert_eq!(peer(client), Ok(at));
            assert_eq!(send(child, b"answer", 0), Ok(6));
            assert_eq!(receive(client, 9, 0), Ok(b"answer".to_vec()));
        }
        let (client, _server) = tcp_pair();
        assert_eq!(put(client, TCP_FASTOPEN, 5), Err(EINVAL), "a listener's option");
        drop(setting);
    });
}
