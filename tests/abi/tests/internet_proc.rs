//! The tables of sockets, devices, routes and counts under /proc/net (proc(5)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{internet::*, *};
use std::{fs, net::SocketAddr, thread};

fn table(name: &str) -> String {
    fs::read_to_string(format!("/proc/net/{name}")).unwrap()
}

/// Returns an address as the tables of sockets show it: words of the processor in hexadecimal.
fn shown(address: SocketAddr) -> String {
    let (raw, length) = to_raw(&address);
    let bytes = bytes_of(&raw, length);
    let octets = if address.is_ipv4() { &bytes[4..8] } else { &bytes[8..24] };
    let words = octets.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
    let words: String = words.map(|word| format!("{word:08X}")).collect();
    format!("{words}:{:04X}", address.port())
}

fn inode(fd: i32) -> u64 {
    let mut status: libc::stat = unsafe { zeroed() };
    must(unsafe { libc::fstat(fd, &mut status) });
    status.st_ino
}

/// Returns the fields of the line of the socket with this inode, whose columns are those of /proc/net/tcp.
fn line(name: &str, inode: u64) -> Option<Vec<String>> {
    let text = table(name);
    let fields = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut found = fields.filter(|fields| fields[9] == inode.to_string());
    found.next().map(|fields| fields.into_iter().map(str::to_owned).collect())
}

/// Returns a count of /proc/net/snmp or netstat.
fn counted(file: &str, group: &str, name: &str) -> u64 {
    let text = table(file);
    let prefix = format!("{group}: ");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(at, _)| *at == name).unwrap().1.parse().unwrap()
}

#[test]
fn tables_of_sockets_have_their_columns() {
    networked(|| {
        const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
            retrnsmt   uid  timeout inode";
        const TCP6: &str = "  sl  local_address                         remote_address             \
                       st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        let first = |name| table(name).lines().next().unwrap().trim_end().to_owned();
        assert_eq!(first("tcp"), TCP);
        assert_eq!(
            first("tcp6").split_whitespace().collect::<Vec<_>>(),
            TCP6.split_whitespace().collect::<Vec<_>>()
        );
        assert!(first("udp").ends_with("timeout inode ref pointer drops"));
        assert!(first("udp6").ends_with("timeout inode ref pointer drops"));
        assert!(first("raw").ends_with("timeout inode ref pointer drops"));
        // Lines have a fixed width, which programs rely on.
        let _listener = listener(LOCAL);
        let text = table("tcp");
        assert!(text.lines().all(|line| line.len() == 149), "{text}");
    });
}

#[test]
fn a_listener_and_its_connections_are_shown() {
    networked(|| {
        for (name_of, address, any) in [("tcp", LOCAL, ANY), ("tcp6", LOCAL6, ANY6)] {
            let (fd, at) = listener(address);
            let own = line(name_of, inode(fd)).unwrap();
            assert_eq!(own[1..4], [shown(at), shown(any), "0A".to_owned()]);
            assert_eq!((own[4].as_str(), own[7].as_str()), ("00000000:00000000", "0"));
            let (client, server) = connection_to(fd);
            let (near, far) = (shown(name(client).unwrap()), shown(at));
            let client_line = line(name_of, inode(client)).unwrap();
            assert_eq!(client_line[1..4], [near.clone(), far.clone(), "01".to_owned()]);
            let server_line = line(name_of, inode(server)).unwrap();
            assert_eq!(server_line[1..4], [far, near, "01".to_owned()]);
        }
    });
}

#[test]
fn sockets_that_are_not_bound_or_closed_are_not_shown() {
    networked(|| {
        let fd = tcp();
        let number = inode(fd);
        assert_eq!(line("tcp", number), None);
        bind(fd, LOCAL).unwrap();
        assert_eq!(line("tcp", number), None, "bound, but not listening");
        listen(fd, 1).unwrap();
        assert!(line("tcp", number).is_some());
        close(fd);
        assert_eq!(line("tcp", number), None);
        let (fd, _) = bound(SOCK_DGRAM, LOCAL);
        let number = inode(fd);
        assert!(line("udp", number).is_some());
        close(fd);
        assert_eq!(line("udp", number), None);
    });
}

#[test]
fn states_and_queues_are_shown() {
    networked(|| {
        let (fd, at) = listener(LOCAL);
        let (client, server) = connection_to(fd);
        let state = |fd| line("tcp", inode(fd)).unwrap()[3].clone();
        let queues = |fd| line("tcp", inode(fd)).unwrap()[4].clone();
        send(client, &[1; 0x123], 0).unwrap();
        await_events(server, POLLIN);
        assert_eq!(queues(server), "00000000:00000123", "bytes to be read");
        switch_on(client, IPPROTO_TCP, libc::TCP_CORK);
        while ask_number(client, SIOCOUTQ) != Ok(0) {
            thread::yield_now();
        }
        send(client, &[1; 7], 0).unwrap();
        assert_eq!(queues(client), "00000007:00000000", "bytes to be sent");
        shut_down(client, SHUT_WR).unwrap();
        await_events(server, POLLRDHUP);
        assert_eq!(state(server), "08", "CLOSE_WAIT");
        while state(client) == "04" {
            thread::yield_now();
        }
        assert_eq!(state(client), "05", "FIN_WAIT2");
        let waits = tcp();
        connect(waits, at).unwrap();
        assert_eq!(queues(fd), "00000000:00000001", "a listener shows its queue");
        // The side that ended first stays in TIME_WAIT, without a file.
        let ends = [name(client).unwrap(), at].map(shown);
        assert_eq!(receive_all(server, 9999).len(), 0x123 + 7);
        close(server);
        await_events(client, POLLHUP);
        close(client);
        let text = table("tcp");
        let of = |from: &str, to: &str| text.contains(&format!(": {from} {to} 06 "));
        assert!(of(&ends[0], &ends[1]), "{text}");
    });
}

#[test]
fn a_connection_that_waits_is_shown_without_a_file() {
    networked(|| {
        let (fd, at) = bound(SOCK_STREAM, LOCAL);
        listen(fd, 0).unwrap();
        let first = tcp();
        connect(first, at).unwrap();
        let second = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
        assert_eq!(connect(second, at), Err(libc::EINPROGRESS));
        assert_eq!(line("tcp", inode(second)).unwrap()[3], "02", "SYN_SENT");
        let text = table("tcp");
        let waits = format!(": {} {} 01 ", shown(at), shown(name(first).unwrap()));
        let of_child = text.lines().find(|line| line.contains(&waits)).expect("the child");
        assert_eq!(of_child.split_whitespace().nth(9), Some("0"), "no inode");
    });
}

#[test]
fn the_user_of_a_socket_is_shown() {
    networked(|| {
        identity::as_user(1234, &[], || {
            let ((stream, _), (datagram, _)) = (listener(LOCAL), bound(SOCK_DGRAM, LOCAL));
            assert_eq!(line("tcp", inode(stream)).unwrap()[7], "1234");
            assert_eq!(line("udp", inode(datagram)).unwrap()[7], "1234");
        });
    });
}

#[test]
fn datagram_sockets_are_shown_with_their_drops() {
    networked(|| {
        for (name_of, address, any) in [("udp", LOCAL, ANY), ("udp6", LOCAL6, ANY6)] {
            let (fd, at) = bound(SOCK_DGRAM, address);
            let own = line(name_of, inode(fd)).unwrap();
            assert_eq!(own[1..4], [shown(at), shown(any), "07".to_owned()]);
            assert_eq!(own.last().map(String::as_str), Some("0"), "none");
            let (one, other) = udp_pair_over(address);
            let connected = line(name_of, inode(one)).unwrap();
            let ends = [shown(name(one).unwrap()), shown(name(other).unwrap()), "01".to_owned()];
            assert_eq!(connected[1..4], ends);
            set(other, SOL_SOCKET, libc::SO_RCVBUF, 0i32).unwrap();
            (0..100).for_each(|_| assert_eq!(send(one, &[1; 100], 0), Ok(100)));
            let held = std::iter::from_fn(|| receive(other, 9, MSG_DONTWAIT).ok()).count();
            let drops = line(name_of, inode(other)).unwrap().last().unwrap().clone();
            assert_eq!(drops, (100 - held).to_string());
        }
    });
}

#[test]
fn raw_sockets_are_shown() {
    networked(|| {
        let fd = try_socket(AF_INET, SOCK_RAW, 253).unwrap();
        let own = line("raw", inode(fd)).unwrap();
        assert_eq!(own[1..4], [shown(at_port(ANY, 253)), shown(ANY), "07".to_owned()]);
        let fd = try_socket(AF_INET6, SOCK_RAW, 253).unwrap();
        let own = line("raw6", inode(fd)).unwrap();
        assert_eq!(own[1], shown(at_port(ANY6, 253)));
    });
}

#[test]
fn sockets_in_use_are_counted() {
    networked(|| {
        let in_use = |file: &str, what: &str| -> i64 {
            let text = table(file);
            let of = text.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_else(|| {
                panic!("no {what} in {text}");
            });
            of.strip_prefix(": inuse ").unwrap().split(' ').next().unwrap().parse().unwrap()
        };
        for (file, what, address) in [
            ("sockstat", "TCP", LOCAL),
            ("sockstat6", "TCP6", LOCAL6),
            ("sockstat", "UDP", LOCAL),
            ("sockstat6", "UDP6", LOCAL6),
        ] {
            let before = in_use(file, what);
            let made = if what.starts_with("TCP") {
                [(); 3].map(|()| listener(address).0)
            } else {
                [(); 3].map(|()| bound(SOCK_DGRAM, address).0)
            };
            assert_eq!(in_use(file, what), before + 3, "{what}");
            made.into_iter().for_each(close);
            assert_eq!(in_use(file, what), before, "{what}");
        }
        let text = table("sockstat");
        assert!(text.starts_with("sockets: used "), "{text}");
        for part in [
            "\nTCP: inuse ",
            " orphan ",
            " tw ",
            " alloc ",
            " mem ",
            "\nUDP: inuse ",
            "\nRAW: inuse ",
            "\nFRAG: inuse ",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    });
}

#[test]
fn devices_count_bytes_and_packets() {
    networked(|| {
        let counts = || -> Vec<u64> {
            let text = table("dev");
            let lo = text.lines().find_map(|line| line.trim_start().strip_prefix("lo:")).unwrap();
            lo.split_whitespace().map(|word| word.parse().unwrap()).collect()
        };
        let before = counts();
        assert_eq!(before.len(), 16);
        let (one, other) = udp_pair();
        for _ in 0..10 {
            send(one, &[1; 1000], 0).unwrap();
            receive(other, 1000, 0).unwrap();
        }
        let after = counts();
        // 1000 bytes and the headers of UDP and IPv4; a link header is not counted.
        assert!(after[0] - before[0] >= 10 * 1028, "{before:?} {after:?}");
        assert!(after[1] - before[1] >= 10);
        assert_eq!((after[0], after[1]), (after[8], after[9]), "what is sent is received");
        let head: Vec<String> = table("dev").lines().take(2).map(str::to_owned).collect();
        assert_eq!(
            head[0],
            "Inter-|   Receive                                                |  Transmit"
        );
        assert!(
            head[1]
                .starts_with(" face |bytes    packets errs drop fifo frame compressed multicast|")
        );
    });
}

#[test]
fn counts_of_protocols_grow() {
    networked(|| {
        let of = |group: &str, name: &str| counted("snmp", group, name);
        let watched = [
            ("Tcp", "ActiveOpens"),
            ("Tcp", "PassiveOpens"),
            ("Tcp", "AttemptFails"),
            ("Tcp", "OutRsts"),
            ("Udp", "InDatagrams"),
            ("Udp", "OutDatagrams"),
            ("Udp", "NoPorts"),
            ("Icmp", "OutDestUnreachs"),
            ("Icmp", "InDestUnreachs"),
        ];
        let before = watched.map(|(group, name)| of(group, name));
        let (_client, _server) = tcp_pair();
        assert_eq!(connect(tcp(), bound(SOCK_STREAM, LOCAL).1), Err(libc::ECONNREFUSED));
        let (one, other) = udp_pair();
        send(one, b"x", 0).unwrap();
        receive(other, 9, 0).unwrap();
        send_to(udp(), b"x", closed_port(SOCK_DGRAM)).unwrap();
        let grown = [2, 1, 1, 1, 1, 2, 1, 1, 1];
        for (((group, name), before), grown) in watched.into_iter().zip(before).zip(grown) {
            // Others may use the network as well, where there is no namespace.
            assert!(of(group, name) >= before + grown, "{group} {name}");
        }
        assert_eq!(of("Ip", "DefaultTTL"), 64);
        assert!(of("Tcp", "CurrEstab") >= 2);
        counted("netstat", "TcpExt", "ListenOverflows");
        counted("netstat", "IpExt", "InOctets");
        let six = table("snmp6");
        assert!(six.lines().any(|line| line.starts_with("Ip6InReceives ")), "{six}");
        assert!(six.lines().any(|line| line.starts_with("Udp6OutDatagrams ")));
    });
}

#[test]
fn routes_and_neighbours_have_their_columns() {
    networked(|| {
        let first = |name| table(name).lines().next().unwrap().trim_end().to_owned();
        assert_eq!(
            first("route"),
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
        );
        assert_eq!(
            first("arp"),
            "IP address       HW type     Flags       HW address            Mask     Device"
        );
        let six = table("if_inet6");
        let lo = six.lines().find(|line| line.ends_with(" lo")).expect("loopback");
        assert_eq!(lo, "00000000000000000000000000000001 01 80 10 80       lo");
        assert!(table("ipv6_route").lines().any(|line| line.ends_with(" lo")));
        assert!(table("igmp").contains("lo"));
        assert_eq!(fs::read_link("/proc/net").unwrap().to_str(), Some("self/net"));
        let own = fs::read_to_string(format!("/proc/{}/net/route", std::process::id()));
        assert_eq!(own.unwrap(), table("route"));
    });
}

#[test]
fn settings_of_the_network_have_their_shapes() {
    networked(|| {
        let words = |name: &str| -> Vec<i64> {
            let text = fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap();
            text.split_whitespace().map(|word| word.parse().unwrap()).collect()
        };
        for (name, values) in [
            ("ipv4/ip_default_ttl", &[64][..]),
            ("ipv4/tcp_syn_retries", &[6]),
            ("ipv4/tcp_keepalive_time", &[7200]),
            ("ipv4/tcp_keepalive_intvl", &[75]),
            ("ipv4/tcp_keepalive_probes", &[9]),
            ("ipv4/tcp_fin_timeout", &[60]),
            ("ipv4/tcp_timestamps", &[1]),
            ("ipv4/tcp_sack", &[1]),
            ("ipv4/tcp_window_scaling", &[1]),
            ("ipv4/ip_local_port_range", &[32_768, 60_999]),
            ("ipv4/ip_unprivileged_port_start", &[1024]),
            ("ipv4/ip_forward", &[0]),
            ("ipv6/bindv6only", &[0]),
            ("ipv6/conf/all/disable_ipv6", &[0]),
        ] {
            assert_eq!(words(name), values, "{name}");
        }
        assert_eq!(words("ipv4/tcp_rmem").len(), 3);
        assert_eq!(words("ipv4/tcp_wmem").len(), 3);
        assert!(words("core/somaxconn")[0] >= 128);
        let known =
            fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
        assert!(known.split_whitespace().any(|name| name == "cubic"), "{known}");
    });
}
