//! The rules that choose the routing table of a packet (ip-rule(8), rtnetlink(7)), with sockets that follow them.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    internet::{administration::*, *},
    *,
};
use libc::{
    EACCES, EEXIST, EINVAL, ENETUNREACH, ENOENT, EPERM, NLM_F_CREATE, NLM_F_EXCL, RTM_DELROUTE,
    RTM_DELRULE, RTM_GETROUTE, RTM_GETRULE, RTM_NEWROUTE, RTM_NEWRULE,
};
use std::net::IpAddr;

const HEAD: usize = 12;
/// FR_ACT_*.
const LOOK_UP: u8 = 1;
const GO_TO: u8 = 2;
const BLACKHOLE: u8 = 6;
const UNREACHABLE: u8 = 7;
const PROHIBIT: u8 = 8;
/// FRA_*.
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const INPUT: u16 = 3;
const TARGET: u16 = 4;
const PRIORITY: u16 = 6;
const MARK: u16 = 10;
const SUPPRESS_PREFIX: u16 = 14;
const TABLE: u16 = 15;
const MASK: u16 = 16;
const OUTPUT: u16 = 17;
const USERS: u16 = 20;
const IP_PROTOCOL: u16 = 22;
const DESTINATION_PORTS: u16 = 24;
const OWN: u32 = 7000;
/// The destination of tests, which no table has a route to.
const FAR: [u8; 4] = [198, 51, 100, 9];

/// A request about a rule: `struct fib_rule_hdr` and its attributes.
struct Rule(Vec<u8>);

impl Rule {
    fn new(priority: u32, action: u8) -> Rule {
        let mut body = vec![AF_INET as u8, 0, 0, 0, 0, 0, 0, action, 0, 0, 0, 0];
        put(&mut body, PRIORITY, &priority.to_ne_bytes());
        Rule(body)
    }
    fn table(number: u32) -> Rule {
        Rule::new(100, LOOK_UP).with(TABLE, &number.to_ne_bytes())
    }
    fn with(mut self, number: u16, value: &[u8]) -> Rule {
        put(&mut self.0, number, value);
        self
    }
    fn word(self, number: u16, value: u32) -> Rule {
        self.with(number, &value.to_ne_bytes())
    }
    fn set(mut self, at: usize, value: u8) -> Rule {
        self.0[at] = value;
        self
    }
    fn to(self, address: [u8; 4], bits: u8) -> Rule {
        self.set(1, bits).with(DESTINATION, &address)
    }
    fn add(&self, with: &Administration) -> Result<(), Refusal> {
        with.act(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &self.0)
    }
    fn delete(&self, with: &Administration) -> Result<(), Refusal> {
        with.act(RTM_DELRULE, 0, &self.0)
    }
    /// Does `body` while the rule is there.
    fn during<T>(&self, with: &Administration, body: impl FnOnce() -> T) -> T {
        self.add(with).unwrap();
        let result = body();
        self.delete(with).unwrap();
        result
    }
}

/// A request about a route to a network by `lo`.
fn route(address: IpAddr, bits: u8, table: u32) -> Vec<u8> {
    let (family, bytes) = octets(address);
    let mut body = vec![family, bits, 0, 0, 0, 3, 253, 1, 0, 0, 0, 0];
    put(&mut body, 1, &bytes);
    put(&mut body, 4, &1u32.to_ne_bytes());
    put(&mut body, 15, &table.to_ne_bytes());
    body
}

/// Does `body` with a route to the destination of tests in the table of tests.
fn routed(body: impl FnOnce(&Administration)) {
    networked(|| {
        let with = Administration::new(&[]);
        let way = route(IpAddr::from([198, 51, 100, 0]), 24, OWN);
        with.act(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &way).unwrap();
        assert_eq!(reach(), Err(ENETUNREACH), "no rule names the table");
        body(&with);
        with.act(RTM_DELROUTE, 0, &way).unwrap();
    });
}

fn reach() -> Result<i64, i32> {
    connect(udp(), v4(FAR, 9))
}

/// Returns priorities and tables of the rules of a family.
fn list(with: &Administration, family: i32) -> Vec<(u32, u32)> {
    let all = with.dump(RTM_GETRULE, &[family as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let number = |body: &[u8], at| word(body, HEAD, at).unwrap_or(0);
    all.iter().map(|(.., body)| (number(body, PRIORITY), number(body, TABLE))).collect()
}

#[test]
fn a_new_system_has_three_rules() {
    networked(|| {
        let with = Administration::new(&[]);
        assert_eq!(list(&with, AF_INET), [(0, 255), (32_766, 254), (32_767, 253)]);
        assert_eq!(list(&with, AF_INET6), [(0, 255), (32_766, 254)]);
        assert!(list(&with, libc::AF_UNSPEC).len() >= 5, "both families");
    });
}

#[test]
fn a_rule_chooses_the_table_of_destinations() {
    routed(|with| {
        for (bits, result) in [(32, Ok(0)), (24, Ok(0)), (8, Ok(0))] {
            let rule = Rule::table(OWN).to(FAR, bits);
            assert_eq!(rule.during(with, reach), result, "{bits}");
        }
        let other = Rule::table(OWN).to([198, 51, 101, 0], 24);
        assert_eq!(other.during(with, reach), Err(ENETUNREACH));
        assert_eq!(Rule::table(OWN).during(with, reach), Ok(0), "all packets");
        assert_eq!(reach(), Err(ENETUNREACH));
    });
}

#[test]
fn the_source_of_a_socket_chooses_the_table() {
    routed(|with| {
        let rule = Rule::table(OWN).set(2, 32).with(SOURCE, &[127, 0, 0, 1]);
        rule.during(with, || {
            assert_eq!(reach(), Err(ENETUNREACH), "no source yet");
            let (fd, _) = bound(SOCK_DGRAM, LOCAL);
            assert_eq!(connect(fd, v4(FAR, 9)), Ok(0));
        });
    });
}

#[test]
fn actions_end_the_search() {
    networked(|| {
        let with = Administration::new(&[]);
        for (action, error) in [(BLACKHOLE, EINVAL), (UNREACHABLE, ENETUNREACH), (PROHIBIT, EACCES)]
        {
            let rule = Rule::new(100, action).to(FAR, 32);
            assert_eq!(rule.during(&with, reach), Err(error), "{action}");
            let rule = Rule::new(100, action).to([127, 0, 0, 1], 32);
            let result = rule.during(&with, || connect(udp(), v4([127, 0, 0, 1], 9)));
            assert_eq!(result, Ok(0), "the table of local addresses comes first");
        }
    });
}

#[test]
fn marks_protocols_and_ports_choose_the_table() {
    routed(|with| {
        let marked = |mark: u32| {
            let fd = udp();
            set(fd, SOL_SOCKET, libc::SO_MARK, mark).unwrap();
            connect(fd, v4(FAR, 9))
        };
        Rule::table(OWN).word(MARK, 0x15).during(with, || {
            assert_eq!((marked(0x15), marked(0x115)), (Ok(0), Err(ENETUNREACH)));
        });
        Rule::table(OWN).word(MARK, 0x15).word(MASK, 0xff).during(with, || {
            assert_eq!((marked(0x115), marked(0x16)), (Ok(0), Err(ENETUNREACH)));
        });
        let to_port = |port| connect(udp(), v4(FAR, port));
        Rule::table(OWN).with(IP_PROTOCOL, &[17]).during(with, || assert_eq!(to_port(7), Ok(0)));
        Rule::table(OWN).with(IP_PROTOCOL, &[6]).during(with, || {
            assert_eq!(to_port(7), Err(ENETUNREACH));
        });
        let ports: Vec<u8> = [53u16, 60].iter().flat_map(|port| port.to_ne_bytes()).collect();
        Rule::table(OWN).with(DESTINATION_PORTS, &ports).during(with, || {
            assert_eq!((to_port(53), to_port(60)), (Ok(0), Ok(0)));
            assert_eq!((to_port(52), to_port(61)), (Err(ENETUNREACH), Err(ENETUNREACH)));
            // A connected socket whose datagram goes to another port asks again.
            let fd = udp();
            connect(fd, v4(FAR, 53)).unwrap();
            assert_eq!(send_to(fd, b"x", v4(FAR, 53)), Ok(1));
            assert_eq!(send_to(fd, b"x", v4(FAR, 61)), Err(ENETUNREACH));
        });
    });
}

#[test]
fn users_and_interfaces_choose_the_table() {
    routed(|with| {
        let users: Vec<u8> = [1000u32, 1999].iter().flat_map(|user| user.to_ne_bytes()).collect();
        Rule::table(OWN).with(USERS, &users).during(with, || {
            assert_eq!(reach(), Err(ENETUNREACH));
            let child = start_child(|| {
                must(unsafe { libc::setuid(1500) });
                assert_eq!(reach(), Ok(0));
            });
            assert_eq!(wait(child), Ended::Exited(0));
        });
        Rule::table(OWN).with(INPUT, b"lo\0").during(with, || assert_eq!(reach(), Ok(0)));
        Rule::table(OWN)
            .with(INPUT, b"no\0")
            .during(with, || assert_eq!(reach(), Err(ENETUNREACH)));
        Rule::table(OWN).with(OUTPUT, b"lo\0").during(with, || {
            assert_eq!(reach(), Err(ENETUNREACH), "no interface was asked for");
            let fd = udp();
            set_bytes(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, b"lo").unwrap();
            assert_eq!(connect(fd, v4(FAR, 9)), Ok(0));
        });
        let inverted = Rule::table(OWN).to(FAR, 32).set(8, 2);
        assert_eq!(inverted.during(with, reach), Err(ENETUNREACH));
        let inverted = Rule::table(OWN).to([10, 0, 0, 0], 8).set(8, 2);
        assert_eq!(inverted.during(with, reach), Ok(0));
    });
}

#[test]
fn the_type_of_service_chooses_the_table() {
    routed(|with| {
        let served = |service: i32| {
            let fd = udp();
            set(fd, IPPROTO_IP, libc::IP_TOS, service).unwrap();
            connect(fd, v4(FAR, 9))
        };
        Rule::table(OWN).set(3, 0x10).during(with, || {
            assert_eq!((served(0x10), served(0x08)), (Ok(0), Err(ENETUNREACH)));
        });
        let refused = Rule::table(OWN).set(3, 0x11).add(with);
        assert_eq!(refused.map_err(|(number, _)| number), Err(EINVAL), "bits of ECN");
    });
}

#[test]
fn routes_of_short_prefixes_are_suppressed() {
    routed(|with| {
        let rule = Rule::table(OWN).word(SUPPRESS_PREFIX, 24);
        assert_eq!(rule.during(with, reach), Err(ENETUNREACH));
        let rule = Rule::table(OWN).word(SUPPRESS_PREFIX, 23);
        assert_eq!(rule.during(with, reach), Ok(0));
    });
}

#[test]
fn a_rule_goes_on_with_another() {
    routed(|with| {
        let jump = Rule::new(100, GO_TO).word(TARGET, 300);
        let wall = Rule::new(200, PROHIBIT).to(FAR, 32);
        wall.during(with, || {
            assert_eq!(reach(), Err(EACCES));
            jump.during(with, || {
                assert_eq!(reach(), Err(EACCES), "there is no rule of that priority");
                let target = Rule::new(300, LOOK_UP).word(TABLE, OWN);
                assert_eq!(target.during(with, reach), Ok(0));
            });
        });
        let text = |rule: Rule| rule.add(with).unwrap_err();
        let back = text(Rule::new(100, GO_TO).word(TARGET, 100));
        assert_eq!(back, (EINVAL, "Backward goto not supported".to_owned()));
        let none = text(Rule::new(100, GO_TO));
        assert_eq!(none, (EINVAL, "Missing goto target for action goto".to_owned()));
        let odd = text(Rule::table(OWN).word(TARGET, 300));
        assert_eq!(odd, (EINVAL, "Unexpected goto".to_owned()));
    });
}

#[test]
fn wrong_rules_are_refused_with_a_text() {
    networked(|| {
        let with = Administration::new(&[]);
        let refused = |rule: Rule| rule.add(&with).unwrap_err();
        let (number, text) = refused(Rule::table(OWN).set(2, 33).with(SOURCE, &[1, 2, 3, 4]));
        assert_eq!((number, text.as_str()), (EINVAL, "Invalid source address"));
        let (number, _) = refused(Rule::table(OWN).set(1, 24));
        assert_eq!(number, EINVAL, "no address");
        let users: Vec<u8> = [5u32, 4].iter().flat_map(|user| user.to_ne_bytes()).collect();
        let (number, text) = refused(Rule::table(OWN).with(USERS, &users));
        assert_eq!((number, text.as_str()), (EINVAL, "Invalid uid range"));
        let (number, text) = refused(Rule::table(OWN).with(DESTINATION_PORTS, &[9, 0, 8, 0]));
        assert_eq!((number, text.as_str()), (EINVAL, "Invalid dport range"));
        let rule = Rule::table(OWN);
        rule.during(&with, || assert_eq!(rule.add(&with).unwrap_err().0, EEXIST));
        assert_eq!(rule.delete(&with).unwrap_err().0, ENOENT);
        without(CAP_NET_ADMIN, || {
            let with = Administration::new(&[]);
            assert_eq!(Rule::table(OWN).add(&with).unwrap_err().0, EPERM);
            assert_eq!(list(&with, AF_INET).len(), 3, "asking is for all");
        });
    });
}

#[test]
fn a_rule_without_a_priority_comes_before_the_second() {
    networked(|| {
        let with = Administration::new(&[]);
        let mut body = vec![AF_INET as u8, 0, 0, 0, 0, 0, 0, LOOK_UP, 0, 0, 0, 0];
        put(&mut body, TABLE, &OWN.to_ne_bytes());
        let add = || with.act(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &body).unwrap();
        add();
        add();
        let all = list(&with, AF_INET);
        let expected = [(0, 255), (32_764, OWN), (32_765, OWN), (32_766, 254), (32_767, 253)];
        assert_eq!(all, expected);
        // Without a priority the first one that matches goes.
        with.act(RTM_DELRULE, 0, &body).unwrap();
        assert_eq!(list(&with, AF_INET)[1], (32_765, OWN));
        with.act(RTM_DELRULE, 0, &body).unwrap();
        assert_eq!(with.act(RTM_DELRULE, 0, &body).unwrap_err().0, ENOENT);
    });
}

#[test]
fn a_rule_is_told_as_it_was_made() {
    networked(|| {
        /// RTNLGRP_IPV4_RULE.
        const GROUP: u32 = 8;
        let with = Administration::new(&[]);
        let monitor = Administration::new(&[GROUP]);
        let ports = [53u8, 0, 60, 0];
        let rule = Rule::table(OWN)
            .to([10, 1, 0, 0], 16)
            .set(2, 8)
            .with(SOURCE, &[11, 0, 0, 0])
            .set(3, 0x10)
            .word(MARK, 5)
            .word(MASK, 15)
            .with(INPUT, b"lo\0")
            .with(OUTPUT, b"no\0")
            .with(IP_PROTOCOL, &[17])
            .with(DESTINATION_PORTS, &ports)
            .word(SUPPRESS_PREFIX, 9);
        let told = rule.during(&with, || {
            let all = with.dump(RTM_GETRULE, &[AF_INET as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            all.unwrap().swap_remove(1).2
        });
        assert_eq!(told[..8], [AF_INET as u8, 16, 8, 0x10, 252, 0, 0, LOOK_UP]);
        assert_eq!(told[8..12], 0x10u32.to_ne_bytes(), "FIB_RULE_OIF_DETACHED");
        for (number, value_of) in [
            (DESTINATION, vec![10, 1, 0, 0]),
            (SOURCE, vec![11, 0, 0, 0]),
            (INPUT, b"lo\0".to_vec()),
            (OUTPUT, b"no\0".to_vec()),
            (PRIORITY, 100u32.to_ne_bytes().to_vec()),
            (MARK, 5u32.to_ne_bytes().to_vec()),
            (MASK, 15u32.to_ne_bytes().to_vec()),
            (TABLE, OWN.to_ne_bytes().to_vec()),
            (SUPPRESS_PREFIX, 9u32.to_ne_bytes().to_vec()),
            (IP_PROTOCOL, vec![17]),
            (DESTINATION_PORTS, ports.to_vec()),
        ] {
            assert_eq!(value(&told, HEAD, number), Some(value_of), "{number}");
        }
        let heard: Vec<u16> = (0..2).flat_map(|_| monitor.receive()).map(|one| one.0).collect();
        assert_eq!(heard, [RTM_NEWRULE, RTM_DELRULE]);
        assert!(!monitor.has_news());
    });
}

#[test]
fn rules_of_ipv6_choose_tables() {
    networked(|| {
        let with = Administration::new(&[]);
        let far: IpAddr = "2001:db8:7::9".parse().unwrap();
        let go = || connect(socket(AF_INET6, SOCK_DGRAM), std::net::SocketAddr::new(far, 9));
        let way = route("2001:db8:7::".parse().unwrap(), 48, OWN);
        with.act(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &way).unwrap();
        assert_eq!(go(), Err(ENETUNREACH));
        let (_, bytes) = octets(far);
        let rule = |action: u8| {
            let rule = Rule::new(100, action).set(0, AF_INET6 as u8).set(1, 128);
            let rule = rule.with(DESTINATION, &bytes);
            if action == LOOK_UP { rule.word(TABLE, OWN) } else { rule }
        };
        assert_eq!(rule(LOOK_UP).during(&with, go), Ok(0));
        for (action, error) in [(BLACKHOLE, EINVAL), (UNREACHABLE, ENETUNREACH), (PROHIBIT, EACCES)]
        {
            assert_eq!(rule(action).during(&with, go), Err(error), "{action}");
        }
        with.act(RTM_DELROUTE, 0, &way).unwrap();
    });
}

#[test]
fn a_table_without_routes_stays_known() {
    networked(|| {
        const TABLE_HERE: u32 = 7001;
        let with = Administration::new(&[]);
        /// NETLINK_GET_STRICT_CHK: a dump is of the table that the request names.
        const STRICT: i32 = 12;
        let ask = |number: u32| {
            let mut body = vec![AF_INET as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            put(&mut body, 15, &number.to_ne_bytes());
            with.dump(RTM_GETROUTE, &body).map(|all| all.len())
        };
        with.set_option(STRICT, 1);
        let missing = (ENOENT, "ipv4: FIB table does not exist".to_owned());
        assert_eq!(ask(TABLE_HERE), Err(missing));
        let way = route(IpAddr::from([203, 0, 113, 0]), 24, TABLE_HERE);
        with.act(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &way).unwrap();
        assert_eq!(ask(TABLE_HERE), Ok(1));
        with.act(RTM_DELROUTE, 0, &way).unwrap();
        assert_eq!(ask(TABLE_HERE), Ok(0));
    });
}
