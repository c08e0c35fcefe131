//! Tests against a network of two interfaces that remembers its changes.
mod fuzz;
mod ioctls;
mod messages;
mod rules;
mod texts;

use crate::{
    diag::{LocalRecord, PacketFlags, PacketMembership, PacketRecord},
    session::{Answers, Asker, NetlinkProtocol, NetlinkWorld, Quote, answer},
};
use interfaces::sockets::*;
use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

#[derive(Default)]
pub(super) struct FakeNetwork {
    pub(super) changes: Mutex<Vec<NetworkChange>>,
    pub(super) refusal: Option<AdministrationError>,
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn group(users: u32, is_fixed: bool) -> LinkGroupRecord {
    LinkGroupRecord { address: [1, 0, 0x5e, 0, 0, users as u8], users, is_fixed }
}

pub(crate) fn link(index: u32, name: &str, kind: LinkKind, flags: u32, mac: [u8; 6]) -> LinkRecord {
    let is_card = kind == LinkKind::Ethernet;
    LinkRecord {
        index,
        name: name.into(),
        kind,
        hardware: match kind {
            LinkKind::Loopback => hardware::LOOPBACK,
            LinkKind::Ethernet => hardware::ETHERNET,
            LinkKind::Headerless => hardware::NONE,
        },
        flags,
        mtu: if is_card { 1500 } else { 65_536 },
        mtu_min: 68,
        mtu_max: 65_535,
        mac,
        mac_origin: 0,
        broadcast: if is_card { [0xff; 6] } else { [0; 6] },
        permanent_mac: is_card.then_some(mac),
        transmit_queue: 1000,
        operational: if is_card { 6 } else { 0 },
        has_carrier: true,
        carrier_changes: u32::from(is_card),
        queues: 1,
        speed_mbit: None,
        alias: String::new(),
        driver: if is_card { "virtio_net" } else { "" }.into(),
        groups: if is_card { vec![group(1, false), group(2, true)] } else { Vec::new() },
        tunnel: None,
        counts: LinkCounts { rx_bytes: 1234, rx_packets: 12, ..LinkCounts::default() },
    }
}

pub(super) fn entry(interface: u32, address: &str, prefix_length: u8) -> AddressRecord {
    AddressRecord {
        interface,
        address: ip(address),
        peer: None,
        prefix_length,
        scope: if interface == 1 { 254 } else { 0 },
        flags: 0x80,
        broadcast: (address == "10.0.2.15").then(|| "10.0.2.255".parse().unwrap()),
        label: if address.contains(':') {
            String::new()
        } else {
            ["", "lo", "eth0"][interface as usize].into()
        },
        metric: 0,
        preferred_s: None,
        valid_s: None,
        created_cs: 10,
        updated_cs: 20,
    }
}

pub(super) fn route(destination: &str, prefix_length: u8) -> RouteRecord {
    RouteRecord {
        table: 254,
        destination: ip(destination),
        prefix_length,
        kind: 1,
        scope: 253,
        protocol: 2,
        interface: Some(2),
        gateway: None,
        preferred_source: Some(ip("10.0.2.15")).filter(|_| !destination.contains(':')),
        metric: 0,
        metrics: RouteMetrics::default(),
        is_on_link: false,
        ways: Vec::new(),
        expires_s: None,
    }
}

fn socket(local: &str, peer: Option<&str>, state: ConnectionState) -> SocketRecord {
    let local: SocketAddr = local.parse().unwrap();
    SocketRecord {
        is_version6: local.is_ipv6(),
        is_version6_only: false,
        local,
        peer: peer.map(|peer| peer.parse().unwrap()),
        state,
        receive_queue: 1,
        send_queue: 2,
        timer: SocketTimer::Retransmit,
        timer_ms: 210,
        retransmits: 3,
        probes: 0,
        user: 1000,
        inode: 77,
        interface: 0,
        cookie: 9,
        drops: 0,
        not_taken: 0,
        congestion: CongestionControl::Cubic,
        info: peer.map(|_| StreamInfo {
            state,
            rto: 200_000,
            snd_cwnd: 10,
            snd_ssthresh: 0x7fff_ffff,
            ..StreamInfo::default()
        }),
        label: Default::default(),
    }
}

impl NetworkAdministration for FakeNetwork {
    fn links(&self) -> Vec<LinkRecord> {
        vec![
            link(1, "lo", LinkKind::Loopback, 0x1_0049, [0; 6]),
            link(2, "eth0", LinkKind::Ethernet, 0x1_1043, [0x52, 0x54, 0, 0x12, 0x34, 0x56]),
        ]
    }
    fn addresses(&self) -> Vec<AddressRecord> {
        vec![
            entry(1, "127.0.0.1", 8),
            entry(1, "::1", 128),
            entry(2, "10.0.2.15", 24),
            AddressRecord { scope: 253, ..entry(2, "fe80::1", 64) },
        ]
    }
    fn routes(&self) -> Vec<RouteRecord> {
        let gateway = Some(ip("10.0.2.2"));
        vec![
            RouteRecord { gateway, scope: 0, protocol: 3, ..route("0.0.0.0", 0) },
            route("10.0.2.0", 24),
            RouteRecord { table: 255, kind: 2, scope: 254, ..route("10.0.2.15", 32) },
            RouteRecord { metric: 256, scope: 0, ..route("fe80::", 64) },
        ]
    }
    fn tables(&self) -> Vec<TableRecord> {
        vec![TableRecord { is_version6: false, number: 254 }]
    }
    fn rules(&self) -> Vec<RuleRecord> {
        let rule = |priority, table| RuleRecord::of_table(priority, table);
        vec![rule(0, 255), rule(32_766, 254), rule(32_767, 253)]
    }
    fn neighbours(&self) -> Vec<NeighbourRecord> {
        vec![NeighbourRecord {
            interface: 2,
            address: ip("10.0.2.2"),
            mac: Some([0x52, 0x55, 10, 0, 2, 2]),
            state: 2,
            is_router: false,
            used_ms: 1000,
            confirmed_ms: 500,
            updated_ms: 20,
            probes: 1,
        }]
    }
    fn memberships(&self) -> Vec<MembershipRecord> {
        let one =
            |interface, group: &str| MembershipRecord { interface, group: ip(group), users: 1 };
        vec![one(1, "224.0.0.1"), one(2, "224.0.0.1"), one(2, "ff02::1")]
    }
    fn change(&self, change: &NetworkChange) -> Result<(), AdministrationError> {
        if let Some(error) = self.refusal {
            return Err(error);
        }
        self.changes.lock().unwrap().push(change.clone());
        Ok(())
    }
    fn route_to(&self, query: &RouteQuery) -> Result<RouteRecord, AdministrationError> {
        match query.destination {
            IpAddr::V4(_) => Ok(self.routes()[0].clone()),
            IpAddr::V6(_) => Err(AdministrationError::NetworkUnreachable),
        }
    }
    fn sockets(&self, protocol: SocketProtocol) -> Vec<SocketRecord> {
        match protocol {
            SocketProtocol::Tcp => vec![
                socket("0.0.0.0:22", None, ConnectionState::Listen),
                socket("10.0.2.15:22", Some("10.0.2.2:4000"), ConnectionState::Established),
                socket("[::]:80", None, ConnectionState::Listen),
            ],
            SocketProtocol::Udp => vec![socket("0.0.0.0:68", None, ConnectionState::Closed)],
            SocketProtocol::UdpLite | SocketProtocol::Raw | SocketProtocol::Ping => Vec::new(),
        }
    }
    fn counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        let counters = [("IpInReceives", 7), ("TcpExtTCPTimeouts", 3), ("Ip6InReceives", 5)];
        counters.map(|(name, count)| (name.into(), count)).to_vec()
    }
    fn drops(&self) -> Vec<StackDrops> {
        vec![("malformed".into(), 2), ("checksum".into(), 0)]
    }
    fn parameter(&self, parameter: NetworkParameter) -> Option<Vec<i64>> {
        match parameter {
            NetworkParameter::DefaultTtl => Some(vec![64]),
            _ => None,
        }
    }
    fn set_parameter(&self, _: NetworkParameter, _: &[i64]) -> Result<(), AdministrationError> {
        Err(AdministrationError::Unsupported)
    }
    fn observe(&self, _: Arc<dyn AdministrationObserver>) {}
}

#[derive(Default)]
pub(super) struct FakeWorld(pub(super) FakeNetwork);

impl NetlinkWorld for FakeWorld {
    fn network(&self) -> Option<&dyn NetworkAdministration> {
        Some(&self.0)
    }
    fn local_sockets(&self) -> Vec<LocalRecord> {
        let name = b"/run/socket".to_vec();
        vec![LocalRecord { kind: 1, state: 10, inode: 5, name, ..LocalRecord::default() }]
    }
    fn packet_sockets(&self) -> Vec<PacketRecord> {
        let address = [1, 0, 0x5e, 0, 0, 1];
        let membership = PacketMembership { interface: 1, count: 2, kind: 0, length: 6, address };
        vec![PacketRecord {
            kind: 3,
            protocol: 0x0800,
            interface: 1,
            flags: PacketFlags::RUNNING | PacketFlags::AUXDATA,
            inode: 77,
            user: 1000,
            memberships: vec![membership],
            rings: [Some([4096, 2, 2048, 4, 0, 0, 0]), None],
            fanout: Some(9),
            charged: 640,
            limits: (1000, 2000),
            filter: vec![6],
            ..PacketRecord::default()
        }]
    }
}

pub(super) const ROOT: Asker = Asker {
    port: 4242,
    may_administer: true,
    is_strict: false,
    quote: Quote::Whole,
    wants_texts: false,
    user: 0,
};

/// Returns a request with a body.
pub(super) fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(kind.to_le_bytes());
    bytes.extend((flags | 1).to_le_bytes());
    bytes.extend(7u32.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(body);
    bytes
}

pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_le_bytes().to_vec();
    bytes.extend(kind.to_le_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(super) fn ask(protocol: NetlinkProtocol, bytes: &[u8], asker: &Asker) -> Answers {
    answer(protocol, bytes, asker, &FakeWorld::default())
}

/// Returns the messages to the port of [`ROOT`] in datagrams: type, flags, and the body.
pub(super) fn split(datagrams: &[Vec<u8>]) -> Vec<(u16, u16, Vec<u8>)> {
    split_to(ROOT.port, datagrams)
}

/// Returns the messages in datagrams, whose headers name `port`.
pub(super) fn split_to(port: u32, datagrams: &[Vec<u8>]) -> Vec<(u16, u16, Vec<u8>)> {
    let mut all = Vec::new();
    for datagram in datagrams {
        let mut rest = datagram.as_slice();
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
            let word = |at: usize| u16::from_le_bytes(rest[at..at + 2].try_into().unwrap());
            assert_eq!(rest[8..12], 7u32.to_le_bytes());
            assert_eq!(rest[12..16], port.to_le_bytes());
            all.push((word(4), word(6), rest[16..length].to_vec()));
            rest = &rest[length.next_multiple_of(4)..];
        }
    }
    all
}

/// Returns the value of an attribute behind a head.
pub(super) fn find(body: &[u8], head: usize, number: u16) -> Option<Vec<u8>> {
    let mut rest = &body[head..];
    while rest.len() >= 4 {
        let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        if u16::from_le_bytes([rest[2], rest[3]]) == number {
            return Some(rest[4..length].to_vec());
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

/// Returns the error number of an answer, zero for an acknowledgement.
pub(super) fn error_of(answers: &Answers) -> i32 {
    // A dump that fails ends by the error.
    let is_dump = answers.prompt.is_empty();
    let messages = split(if is_dump { &answers.dumped } else { &answers.prompt });
    let (kind, _, body) = messages.last().unwrap();
    assert_eq!(*kind, if is_dump { 3 } else { 2 });
    -i32::from_le_bytes(body[..4].try_into().unwrap())
}
