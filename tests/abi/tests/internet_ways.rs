//! Routes of several ways (RTA_MULTIPATH, rtnetlink(7); `ip route add ... nexthop ... nexthop ...`), and notices of the settings of
//! interfaces (`ip monitor netconf`).
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
    EEXIST, EINVAL, ENETUNREACH, ENODEV, ESRCH, NLM_F_CREATE, NLM_F_EXCL, RTM_DELROUTE,
    RTM_GETNETCONF, RTM_GETROUTE, RTM_NEWNETCONF, RTM_NEWROUTE,
};
use std::{collections::BTreeSet, fs};

/// Bytes of the head of a message about a route.
const HEAD: usize = 12;
/// RTA_*.
const DESTINATION: u16 = 1;
const OUTPUT: u16 = 4;
const GATEWAY: u16 = 5;
const MULTIPATH: u16 = 9;
/// RTNH_F_*.
const DEAD: u8 = 1;
const ON_LINK: u8 = 4;
/// RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE.
const ROUTES4: u32 = 7;
const ROUTES6: u32 = 11;
/// RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF, RTM_DELNETCONF.
const SETTINGS4: u32 = 24;
const SETTINGS6: u32 = 25;
const RTM_DELNETCONF: u16 = 81;
const CREATE: i32 = NLM_F_CREATE | NLM_F_EXCL;
const SIOCSIFADDR: u64 = 0x8916;
const TUNSETIFF: u64 = 0x4004_54ca;
/// IFF_TUN | IFF_NO_PI.
const TUN: i16 = 0x1001;
const TO4: &str = "198.51.100.0";
const TO6: &str = "2001:db8:7::";

/// An interface that is up, as long as its file is open.
struct Device {
    fd: i32,
    name: String,
    index: u32,
}

impl Device {
    fn new() -> Device {
        let fd = open("/dev/net/tun", libc::O_RDWR, 0).expect("/dev/net/tun");
        let mut request = interface("way%d");
        request.ifr_ifru.ifru_flags = TUN;
        ask(fd, TUNSETIFF, &mut request).unwrap();
        let bytes = request.ifr_name.iter().map(|letter| *letter as u8);
        let name = String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()).unwrap();
        let index = ask_number_of(&name);
        let device = Device { fd, name, index };
        device.switch(libc::IFF_UP);
        device
    }
    /// Gives the interface an address of IPv4, which its packets come from.
    fn name_it(&self, last: u8) {
        let mut request = interface(&self.name);
        let (raw, _) = to_raw(&v4([192, 0, 2, last], 0));
        request.ifr_ifru.ifru_addr = unsafe { (&raw const raw).cast::<libc::sockaddr>().read() };
        ask(udp(), SIOCSIFADDR, &mut request).unwrap();
    }
    fn switch(&self, flags: i32) {
        let mut request = interface(&self.name);
        request.ifr_ifru.ifru_flags = flags as i16;
        ask(udp(), libc::SIOCSIFFLAGS, &mut request).unwrap();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        close(self.fd);
    }
}

fn ask_number_of(name: &str) -> u32 {
    let mut request = interface(name);
    ask(udp(), libc::SIOCGIFINDEX, &mut request).unwrap();
    unsafe { request.ifr_ifru.ifru_ifindex as u32 }
}

/// Returns a request about a route of the main table.
fn route(to: &str, more: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let (family, bytes) = octets(to.parse().unwrap());
    let bits = if family == AF_INET as u8 { 24 } else { 48 };
    let mut body = vec![family, bits, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    put(&mut body, DESTINATION, &bytes);
    for (number, value) in more {
        put(&mut body, *number, value);
    }
    body
}

fn gateway(text: &str) -> (u16, Vec<u8>) {
    (GATEWAY, octets(text.parse().unwrap()).1)
}

/// A way: number of the interface, weight, gateway, which counts as a neighbour.
type Way<'w> = (u32, u8, Option<&'w str>);

/// Returns RTA_MULTIPATH.
fn ways(all: &[Way<'_>]) -> (u16, Vec<u8>) {
    let mut value = Vec::new();
    for (index, weight, to) in all {
        let mut attributes = Vec::new();
        if let Some(to) = to {
            put(&mut attributes, GATEWAY, &gateway(to).1);
        }
        value.extend((8 + attributes.len() as u16).to_ne_bytes());
        value.extend([if to.is_some() { ON_LINK } else { 0 }, weight - 1]);
        value.extend(index.to_ne_bytes());
        value.extend(attributes);
    }
    (MULTIPATH, value)
}

/// Returns the route to a network as a list of routes tells it.
fn told(with: &Administration, to: &str) -> Option<Vec<u8>> {
    let (family, network) = octets(to.parse().unwrap());
    let all = with.dump(RTM_GETROUTE, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let is_it = |body: &Vec<u8>| value(body, HEAD, DESTINATION).as_ref() == Some(&network);
    all.into_iter().map(|one| one.2).find(is_it)
}

#[test]
fn a_route_of_several_ways_is_told_with_all_of_them() {
    networked(|| {
        let (one, two) = (Device::new(), Device::new());
        let with = Administration::new(&[]);
        let of4 = ways(&[(one.index, 1, None), (two.index, 3, Some("203.0.113.1"))]);
        let of6 = ways(&[(one.index, 1, Some("fe80::1")), (two.index, 2, Some("fe80::2"))]);
        for (to, ways) in [(TO4, of4), (TO6, of6)] {
            let request = route(to, std::slice::from_ref(&ways));
            let changes = Administration::new(&[ROUTES4, ROUTES6]);
            with.act(RTM_NEWROUTE, CREATE, &request).unwrap();
            let notice = changes.receive().into_iter().next().unwrap();
            let body = told(&with, to).unwrap();
            for (place, body) in [("a notice", &notice.2), ("a list", &body)] {
                assert_eq!(value(body, HEAD, MULTIPATH), Some(ways.1.clone()), "{place}");
                assert_eq!(value(body, HEAD, GATEWAY), None, "{place}");
                assert_eq!(value(body, HEAD, OUTPUT), None, "{place}");
                assert_eq!(body[8..12], [0; 4], "{place} has no flags");
            }
            assert_eq!(with.act(RTM_NEWROUTE, CREATE, &request).unwrap_err().0, EEXIST);
            with.act(RTM_DELROUTE, 0, &request).unwrap();
            assert_eq!(told(&with, to), None);
            assert_eq!(with.act(RTM_DELROUTE, 0, &request).unwrap_err().0, ESRCH);
        }
    });
}

#[test]
fn settings_come_and_go_with_their_interface() {
    networked(|| {
        let with = Administration::new(&[]);
        for (group, family) in [(SETTINGS4, AF_INET as u8), (SETTINGS6, AF_INET6 as u8)] {
            let changes = Administration::new(&[group]);
            let device = Device::new();
            let index = device.index;
            let (kind, flags, body) = changes.receive().remove(0);
            assert_eq!((kind, flags), (RTM_NEWNETCONF, 0));
            let mut request = vec![family, 0, 0, 0];
            put(&mut request, 1, &index.to_ne_bytes());
            assert_eq!(with.get(RTM_GETNETCONF, &request).unwrap().2, body);
            drop(device);
            let (kind, flags, body) = changes.receive().remove(0);
            assert_eq!((kind, flags), (RTM_DELNETCONF, 0));
            assert_eq!(body, request);
        }
    });
}

#[test]
fn a_destination_has_one_of_the_ways() {
    networked(|| {
        let (one, two) = (Device::new(), Device::new());
        one.name_it(1);
        two.name_it(2);
        let with = Administration::new(&[]);
        let both = [(one.index, 1, Some("203.0.113.1")), (two.index, 1, Some("203.0.113.2"))];
        with.act(RTM_NEWROUTE, CREATE, &route(TO4, &[ways(&both)])).unwrap();
        let way_to = |host: u8| {
            let mut body = vec![2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            put(&mut body, DESTINATION, &[198, 51, 100, host]);
            let answer = with.get(RTM_GETROUTE, &body).unwrap();
            let index = word(&answer.2, HEAD, OUTPUT).unwrap();
            (index, value(&answer.2, HEAD, GATEWAY).unwrap())
        };
        let mut seen = BTreeSet::new();
        for host in 1..=100 {
            let way = way_to(host);
            assert_eq!(way_to(host), way, "the same destination goes the same way");
            seen.insert(way);
        }
        let expected = [(one.index, vec![203, 0, 113, 1]), (two.index, vec![203, 0, 113, 2])];
        assert_eq!(seen, expected.clone().into());
        // A way whose interface is down is not taken, and comes back with it.
        one.switch(0);
        assert!((1..=100).all(|host| way_to(host) == expected[1]));
        let list = value(&told(&with, TO4).unwrap(), HEAD, MULTIPATH).unwrap();
        assert_eq!((list[2] & DEAD, list[18] & DEAD), (DEAD, 0));
        one.switch(libc::IFF_UP);
        assert!((1..=100).any(|host| way_to(host) == expected[0]));
        // Without any way the route is gone.
        one.switch(0);
        two.switch(0);
        assert_eq!(told(&with, TO4), None);
    });
}

#[test]
fn a_route_goes_with_the_interface_of_any_way() {
    networked(|| {
        let (one, two) = (Device::new(), Device::new());
        let with = Administration::new(&[]);
        let both = [(one.index, 1, None), (two.index, 1, None)];
        with.act(RTM_NEWROUTE, CREATE, &route(TO4, &[ways(&both)])).unwrap();
        drop(two);
        assert_eq!(told(&with, TO4), None);
        drop(one);
    });
}

#[test]
fn ways_that_are_malformed_are_refused() {
    networked(|| {
        let device = Device::new();
        let with = Administration::new(&[]);
        let add =
            |value: Vec<u8>| with.act(RTM_NEWROUTE, CREATE, &route(TO4, &[(MULTIPATH, value)]));
        let index = device.index;
        let good = ways(&[(index, 1, None), (index, 1, Some("203.0.113.1"))]).1;
        let changed = |at: usize, byte: u8| {
            let mut value = good.clone();
            value[at] = byte;
            value
        };
        assert_eq!(add(changed(0, 200)).unwrap_err().0, EINVAL);
        let text = "Invalid flags for nexthop - can not contain DEAD or LINKDOWN";
        assert_eq!(add(changed(2, DEAD)), Err((EINVAL, text.to_owned())));
        assert_eq!(add(changed(4, 99)).unwrap_err().0, ENODEV);
        // The gateway is no neighbour.
        let refused = add(changed(10, 0));
        assert_eq!(refused, Err((ENETUNREACH, "Nexthop has invalid gateway".to_owned())));
        // One way alone is a route as all others.
        add(ways(&[(index, 1, Some("203.0.113.1"))]).1).unwrap();
        let body = told(&with, TO4).unwrap();
        assert_eq!(value(&body, HEAD, MULTIPATH), None);
        assert_eq!(value(&body, HEAD, GATEWAY), Some(vec![203, 0, 113, 1]));
        assert_eq!(word(&body, HEAD, OUTPUT), Some(index));
    });
}

#[test]
fn a_way_of_ipv6_can_be_removed_alone() {
    networked(|| {
        let device = Device::new();
        let with = Administration::new(&[]);
        let index = device.index;
        let three =
            [(index, 1, Some("fe80::1")), (index, 2, Some("fe80::2")), (index, 3, Some("fe80::3"))];
        with.act(RTM_NEWROUTE, CREATE, &route(TO6, &[ways(&three)])).unwrap();
        let lines =
            |text: &str| text.lines().filter(|line| line.starts_with("20010db80007")).count();
        assert_eq!(lines(&fs::read_to_string("/proc/net/ipv6_route").unwrap()), 3);
        with.act(RTM_DELROUTE, 0, &route(TO6, &[gateway("fe80::2")])).unwrap();
        let body = told(&with, TO6).unwrap();
        assert_eq!(value(&body, HEAD, MULTIPATH), Some(ways(&[three[0], three[2]]).1));
        with.act(RTM_DELROUTE, 0, &route(TO6, &[gateway("fe80::1")])).unwrap();
        let body = told(&with, TO6).unwrap();
        assert_eq!(value(&body, HEAD, MULTIPATH), None);
        assert_eq!(value(&body, HEAD, GATEWAY), Some(gateway("fe80::3").1));
        with.act(RTM_DELROUTE, 0, &route(TO6, &[])).unwrap();
        assert_eq!(told(&with, TO6), None);
    });
}
