//! Requests of NETLINK_ROUTE about routes, interfaces and their settings: texts of errors, metrics, aliases, lists (rtnetlink(7)), and
//! files of /proc/net about the same.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::internet::{administration::*, *};
use libc::{
    EHOSTUNREACH, EINVAL, ENETUNREACH, ENOENT, ERANGE, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE,
    RTM_DELROUTE, RTM_GETLINK, RTM_GETNETCONF, RTM_GETROUTE, RTM_NEWLINK, RTM_NEWROUTE,
};
use std::{fs, net::IpAddr};

/// Bytes of the heads of messages about routes, interfaces and settings.
const ROUTE_HEAD: usize = 12;
const LINK_HEAD: usize = 16;
const SETTINGS_HEAD: usize = 4;
/// RTA_*.
const GATEWAY: u16 = 5;
const SOURCE: u16 = 7;
const METRICS: u16 = 8;
/// RTM_GETNEIGHTBL, RTM_GETNEXTHOP, IFLA_IFALIAS.
const GET_NEIGHBOUR_TABLE: u16 = 66;
const GET_NEXT_HOP: u16 = 106;
const ALIAS: u16 = 20;

/// Returns a request about a route of the main table.
fn route(to: &str, bits: u8, more: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let (family, bytes) = octets(to.parse().unwrap());
    let scope = if more.iter().any(|(number, _)| *number == GATEWAY) { 0 } else { 253 };
    let mut body = vec![family, bits, 0, 0, 254, 3, scope, 1, 0, 0, 0, 0];
    put(&mut body, 1, &bytes);
    for (number, value) in more {
        put(&mut body, *number, value);
    }
    body
}

fn by_loopback() -> (u16, Vec<u8>) {
    (4, 1u32.to_ne_bytes().to_vec())
}

fn address(number: u16, text: &str) -> (u16, Vec<u8>) {
    let address: IpAddr = text.parse().unwrap();
    (number, octets(address).1)
}

#[test]
fn refused_routes_have_texts() {
    networked(|| {
        let with = Administration::new(&[]);
        let add = |body: Vec<u8>| {
            let (number, text) =
                with.act(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &body).unwrap_err();
            (number, text)
        };
        let said = |number: i32, text: &str| (number, text.to_owned());
        let far = route("198.51.100.0", 24, &[address(GATEWAY, "203.0.113.1")]);
        assert_eq!(add(far), said(ENETUNREACH, "Nexthop has invalid gateway"));
        let bits = route("198.51.100.1", 24, &[by_loopback()]);
        assert_eq!(add(bits), said(EINVAL, "Invalid prefix for given prefix length"));
        let source = route("198.51.100.0", 24, &[by_loopback(), address(SOURCE, "203.0.113.1")]);
        assert_eq!(add(source), said(EINVAL, "Invalid prefsrc address"));
        let far = route("2001:db8:7::", 48, &[address(GATEWAY, "2001:db8:8::1")]);
        assert_eq!(add(far), said(EHOSTUNREACH, ""));
        let near = route("2001:db8:7::", 48, &[address(GATEWAY, "fe80::1")]);
        assert_eq!(add(near), said(EINVAL, "Egress device not specified"));
        let own = route("2001:db8:7::", 48, &[address(GATEWAY, "::1"), by_loopback()]);
        assert_eq!(add(own), said(EINVAL, "Gateway can not be a local address"));
        let none = route("2001:db8:7::", 48, &[by_loopback()]);
        let (number, text) = with.act(RTM_NEWROUTE, NLM_F_REPLACE, &none).unwrap_err();
        assert_eq!((number, text.as_str()), (ENOENT, "Can not replace route - no match found"));
        // A socket that did not ask for texts gets none.
        with.set_option(11, 0);
        let far = route("198.51.100.0", 24, &[address(GATEWAY, "203.0.113.1")]);
        assert_eq!(add(far), said(ENETUNREACH, ""));
    });
}

#[test]
fn metrics_of_a_route_are_kept_and_obeyed() {
    networked(|| {
        let with = Administration::new(&[]);
        let mut metrics = Vec::new();
        for (number, value) in [(2u16, 1300u32), (8, 1000), (10, 7), (11, 5)] {
            put(&mut metrics, number, &value.to_ne_bytes());
        }
        put(&mut metrics, 16, b"reno\0");
        let way = route("198.51.100.0", 24, &[by_loopback(), (METRICS, metrics)]);
        with.act(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &way).unwrap();
        let fd = udp();
        connect(fd, v4([198, 51, 100, 9], 9)).unwrap();
        assert_eq!(number(fd, IPPROTO_IP, libc::IP_MTU), Ok(1300));
        let all = with.dump(RTM_GETROUTE, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let is_it = |body: &Vec<u8>| value(body, ROUTE_HEAD, 1) == Some(vec![198, 51, 100, 0]);
        let body = all.into_iter().map(|one| one.2).find(is_it).unwrap();
        let kept = value(&body, ROUTE_HEAD, METRICS).unwrap();
        for (number, given) in [(2, 1300), (8, 1000), (10, 7), (11, 5)] {
            assert_eq!(word(&kept, 0, number), Some(given), "{number}");
        }
        assert_eq!(value(&kept, 0, 16).unwrap(), b"reno\0");
        with.act(RTM_DELROUTE, 0, &route("198.51.100.0", 24, &[by_loopback()])).unwrap();
        let mut wrong = Vec::new();
        put(&mut wrong, 16, b"none\0");
        let way = route("198.51.100.0", 24, &[by_loopback(), (METRICS, wrong)]);
        let refused = with.act(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &way);
        assert_eq!(refused, Err((EINVAL, "Unknown tcp congestion algorithm".to_owned())));
    });
}

#[test]
fn an_interface_keeps_its_alias() {
    networked(|| {
        let with = Administration::new(&[]);
        let head = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let told = || {
            let (.., body) = with.get(RTM_GETLINK, &head).unwrap();
            value(&body, LINK_HEAD, ALIAS)
        };
        let name = |text: &[u8]| {
            let mut body = head.to_vec();
            put(&mut body, ALIAS, text);
            with.act(RTM_NEWLINK, 0, &body)
        };
        assert_eq!(told(), None);
        name(b"this host\0").unwrap();
        assert_eq!(told(), Some(b"this host\0".to_vec()));
        name(b"").unwrap();
        assert_eq!(told(), None);
        assert_eq!(name(&[b'x'; 256]).unwrap_err().0, ERANGE);
    });
}

#[test]
fn settings_and_tables_are_listed() {
    networked(|| {
        let with = Administration::new(&[]);
        let all = with.dump(RTM_GETNETCONF, &[AF_INET as u8, 0, 0, 0]).unwrap();
        let numbers: Vec<i32> =
            all.iter().map(|one| word(&one.2, SETTINGS_HEAD, 1).unwrap() as i32).collect();
        assert!([1, -1, -2].iter().all(|number| numbers.contains(number)), "{numbers:?}");
        assert!(all.iter().all(|one| word(&one.2, SETTINGS_HEAD, 2).is_some()), "forwarding");
        let of = |number: i32| {
            let mut body = vec![AF_INET6 as u8, 0, 0, 0];
            put(&mut body, 1, &number.to_ne_bytes());
            with.get(RTM_GETNETCONF, &body).map(|one| word(&one.2, SETTINGS_HEAD, 1))
        };
        assert_eq!((of(1), of(-1)), (Ok(Some(1)), Ok(Some(u32::MAX))));
        assert_eq!(of(4000).unwrap_err().0, EINVAL);
        let tables = with.dump(GET_NEIGHBOUR_TABLE, &[0, 0, 0, 0]).unwrap();
        let named = |name: &[u8]| {
            tables.iter().filter(|one| value(&one.2, 4, 1).as_deref() == Some(name)).count()
        };
        assert!(named(b"arp_cache\0") >= 2 && named(b"ndisc_cache\0") >= 2);
        assert_eq!(with.dump(GET_NEXT_HOP, &[0, 0, 0, 0, 0, 0, 0, 0]), Ok(Vec::new()));
    });
}

#[test]
fn files_about_the_stack_have_their_forms() {
    networked(|| {
        let read = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap();
        assert_eq!(read("psched"), "000003e8 00000040 000f4240 3b9aca00\n");
        for line in read("softnet_stat").lines() {
            let columns: Vec<&str> = line.split(' ').collect();
            assert!(columns.len() >= 13, "{line}");
            assert!(columns.iter().all(|one| u32::from_str_radix(one, 16).is_ok()), "{line}");
        }
        let protocols = read("protocols");
        assert!(protocols.starts_with("protocol  size sockets  memory press maxhdr"));
        for name in ["TCP ", "TCPv6 ", "UDP ", "UDPv6 ", "RAW ", "PING "] {
            assert!(protocols.lines().any(|line| line.starts_with(name)), "{name}");
        }
        let trie = read("fib_trie");
        assert!(
            trie.contains("|-- 127.0.0.1\n           /32 host LOCAL\n")
                || trie.contains("|-- 127.0.0.1\n     /32 host LOCAL\n"),
            "{trie}"
        );
        assert!(read("fib_triestat").starts_with("Basic info: size of leaf: "));
        assert!(read("rt_cache").starts_with("Iface\tDestination\tGateway \tFlags\t\tRefCnt"));
        assert!(read("ptype").contains("0800          ip_rcv\n"));
        assert!(read("udplite").ends_with("\n") && read("udplite6").contains("timeout inode"));
        assert!(read("icmp6").contains("ref pointer drops"));
        read("anycast6");
    });
}
