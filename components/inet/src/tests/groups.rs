//! Membership in groups.
use super::{
    link::{CARD, S, Station, exchange, ip},
    sockets::{Socket, end},
};
use crate::*;
use interfaces::sockets::SocketFamilies;
use packet::{
    Sum,
    ethernet::{self, EthernetHeader, ethertype},
    groups::RecordKind,
    igmp::{self, IgmpMessage, IgmpVersion},
    ipv4::{Cutting, FragmentPlace, Ipv4, Ipv4Fields, ROUTER_ALERT},
    ipv6::{Ipv6Header, Walk},
    mld::MldMessage,
    protocol,
};
use std::net::{IpAddr, Ipv4Addr};
use zerocopy::IntoBytes;

const GROUP: &str = "239.1.2.3";

fn join(station: &mut Station, group: &str) {
    station.run(|stack, run| stack.join_group(run, CARD, ip(group))).unwrap();
}

fn leave(station: &mut Station, group: &str) {
    station.run(|stack, run| stack.leave_group(run, CARD, ip(group))).unwrap();
}

/// Returns the receivers of the frames of IGMP, and what they say of the group.
fn reports(station: &mut Station) -> Vec<(Ipv4Addr, String)> {
    let frames = station.sent();
    let parse = |frame: &Vec<u8>| {
        let packet = Ipv4::parse(&frame[14..], frame.len() - 14).unwrap();
        assert_eq!((packet.header.ttl, packet.options), (1, &ROUTER_ALERT[..]));
        let destination = packet.header.destination();
        assert_eq!(frame[..6], ethernet::of_group4(destination));
        let text = match IgmpMessage::parse(&frame[14..][packet.payload()]).unwrap() {
            IgmpMessage::Records(mut records) => {
                let record = records.next().unwrap().unwrap();
                assert_eq!(record.group, [239, 1, 2, 3]);
                format!("{:?}", record.kind)
            }
            IgmpMessage::Report { version, .. } => format!("{version:?}"),
            IgmpMessage::Leave { .. } => String::from("leave"),
            other => panic!("{other:?}"),
        };
        (destination, text)
    };
    frames.iter().map(parse).collect()
}

fn query(station: &mut Station, message: &[u8]) {
    let fields = Ipv4Fields {
        source: [10, 0, 0, 99].into(),
        destination: igmp::ALL_HOSTS,
        protocol: protocol::IGMP,
        traffic_class: 0,
        ttl: 1,
        identification: 0,
        cutting: Cutting::Allowed,
        place: FragmentPlace::default(),
    };
    let header = fields.header(&ROUTER_ALERT, message.len()).unwrap();
    let mac = ethernet::of_group4(igmp::ALL_HOSTS);
    let link = EthernetHeader::new(mac, [2, 0, 0, 0, 0, 99], ethertype::IPV4);
    station.receive(&[link.as_bytes(), header.as_bytes(), &ROUTER_ALERT, message].concat());
}

#[test]
fn a_change_is_reported_twice_and_only_for_the_first_and_last_member() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    join(&mut one, GROUP);
    join(&mut one, GROUP);
    one.wait_until(5 * S);
    let change = |kind: RecordKind| (igmp::REPORTS, format!("{kind:?}"));
    assert_eq!(reports(&mut one), [change(RecordKind::ToExclude), change(RecordKind::ToExclude)]);
    leave(&mut one, GROUP);
    one.wait_until(10 * S);
    assert_eq!(reports(&mut one), []);
    leave(&mut one, GROUP);
    one.wait_until(15 * S);
    assert_eq!(reports(&mut one), [change(RecordKind::ToInclude), change(RecordKind::ToInclude)]);
    let again = one.run(|stack, run| stack.leave_group(run, CARD, ip(GROUP)));
    assert_eq!(again, Err(ChangeError::Missing));
}

#[test]
fn a_query_is_answered_in_its_version_within_its_time() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    join(&mut one, GROUP);
    one.wait_until(5 * S);
    one.sent();
    let mut third = vec![0x11, 50, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0];
    let sum = Sum::of(&third).checksum();
    third[2..4].copy_from_slice(&sum.to_be_bytes());
    query(&mut one, &third);
    one.wait_until(10 * S);
    assert_eq!(reports(&mut one), [(igmp::REPORTS, format!("{:?}", RecordKind::IsExclude))]);
    query(&mut one, &igmp::query_v2(Ipv4Addr::UNSPECIFIED, 100));
    one.wait_until(20 * S);
    let group = Ipv4Addr::new(239, 1, 2, 3);
    assert_eq!(reports(&mut one), [(group, String::from("V2"))]);
    query(&mut one, &igmp::query_v2(group, 100));
    query(&mut one, &igmp::report(IgmpVersion::V2, group));
    one.wait_until(40 * S);
    assert_eq!(reports(&mut one), [], "another member has answered");
    leave(&mut one, GROUP);
    one.wait_until(45 * S);
    assert_eq!(reports(&mut one)[0], (igmp::ALL_ROUTERS, String::from("leave")));
}

#[test]
fn packets_of_a_group_reach_its_members_alone() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    let server = Socket::udp(&two, SocketFamilies::V4);
    server.bind(&mut two, end("0.0.0.0", 5000)).unwrap();
    let client = Socket::udp(&one, SocketFamilies::V4);
    client.bind(&mut one, end("0.0.0.0", 5000)).unwrap();
    join(&mut one, GROUP);
    client.send(&mut one, Some(end(GROUP, 5000)), b"all").unwrap();
    exchange(&mut one, &mut two);
    assert!(server.take().is_none());
    let own = client.take().unwrap();
    let from = (own.source.ip(), own.interface);
    assert_eq!(from, (ip("10.0.0.1"), CARD.0), "it is a member itself");
    join(&mut two, GROUP);
    client.send(&mut one, Some(end(GROUP, 5000)), b"all").unwrap();
    exchange(&mut one, &mut two);
    let got = server.take().unwrap();
    assert_eq!((got.destination.ip(), got.hop_limit), (ip(GROUP), 1));
}

/// Returns the number of members of a group on the card.
fn members(station: &Station, group: &str) -> u32 {
    let view = station.stack.view();
    let card = view.configuration.interface(CARD).unwrap();
    card.groups.get(&ip(group)).copied().unwrap_or(0)
}

#[test]
fn sockets_join_and_leave_groups_as_in_linux() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let sockets = [0, 1].map(|_| Socket::udp(&one, SocketFamilies::V4));
    let [first, second] = &sockets;
    assert_eq!(first.join(&mut one, "10.0.0.2", 2), Err(SocketError::Invalid));
    assert_eq!(first.join(&mut one, GROUP, 77), Err(SocketError::NoInterface));
    first.join(&mut one, GROUP, 0).unwrap();
    assert_eq!(first.join(&mut one, GROUP, CARD.0), Err(SocketError::InUse));
    second.join(&mut one, GROUP, CARD.0).unwrap();
    assert_eq!(members(&one, GROUP), 2);
    assert_eq!(first.leave(&mut one, GROUP, 1), Err(SocketError::NoAddress));
    first.leave(&mut one, GROUP, 0).unwrap();
    assert_eq!(first.leave(&mut one, GROUP, 0), Err(SocketError::NoAddress));
    assert_eq!(members(&one, GROUP), 1);
    for number in 0..20 {
        first.join(&mut one, &format!("239.2.0.{number}"), CARD.0).unwrap();
    }
    assert_eq!(first.join(&mut one, GROUP, CARD.0), Err(SocketError::NoMemory));
    sockets.iter().for_each(|socket| socket.close(&mut one));
    let view = one.stack.view();
    assert!(view.configuration.interface(CARD).unwrap().groups.is_empty(), "a close leaves all");
}

#[test]
fn a_socket_may_take_its_own_groups_alone() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let sockets = [0, 1, 2].map(|_| {
        let socket = Socket::udp(&one, SocketFamilies::V4);
        socket.configure(&one, |options| options.reuses_address = true);
        socket.bind(&mut one, end("0.0.0.0", 5000)).unwrap();
        socket
    });
    sockets[0].join(&mut one, GROUP, CARD.0).unwrap();
    sockets[2].configure(&one, |options| options.takes_all_groups = false);
    let client = Socket::udp(&one, SocketFamilies::V4);
    client.send(&mut one, Some(end(GROUP, 5000)), b"x").unwrap();
    let got = sockets.each_ref().map(|socket| socket.receive().is_some());
    assert_eq!(got, [true, true, false]);
    client.configure(&one, |options| options.loops_groups = false);
    client.send(&mut one, Some(end(GROUP, 5000)), b"x").unwrap();
    assert!(sockets.iter().all(|socket| socket.receive().is_none()));
    assert_eq!(one.sent().len(), 2);
}

#[test]
fn groups_of_addresses_are_reported_by_mld() {
    let mut one = Station::new(1, &[]);
    let address = InterfaceAddress::new(ip("fd00::1:2"), 64).unwrap();
    one.run(|stack, run| stack.add_address(run, CARD, address)).unwrap();
    one.wait_until(5 * S);
    let mut groups = Vec::new();
    for frame in one.sent() {
        let header = Ipv6Header::parse(&frame[14..], frame.len() - 14).unwrap();
        let walk = Walk::of(&frame[14..]).unwrap();
        let payload = &frame[14 + walk.payload..];
        if let Ok(Some(MldMessage::Records(mut records))) = MldMessage::parse(payload) {
            assert!(walk.has_router_alert);
            assert_eq!((header.hop_limit, header.destination()), (1, packet::mld::REPORTS));
            groups.push(IpAddr::from(records.next().unwrap().unwrap().group));
        }
    }
    assert_eq!(groups, [ip("ff02::1:ff01:2"); 2]);
}
