//! The kinds of packets that the fuzzer sends: each is right in itself, before it is mutated.
use super::{
    forge::{self, Header},
    peer::{self, Habit, Played},
};
use packet::ipv4::Ipv4;
use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
};
use xorshift::Xorshift;

/// Addresses of the host, of its groups, and of all.
pub const OWN4: [&str; 5] = ["10.0.0.2", "10.0.0.2", "10.9.0.1", "239.1.2.3", "10.0.0.255"];
pub const OWN6: [&str; 5] = ["fd00::2", "fd00::2", "fe80::ff:fe00:2", "ff02::99", "ff02::1"];
/// Ports that something of the host may have.
pub const PORTS: [u16; 7] = [80, 81, 82, 53, 54, 7, 9];
/// Frames of the host that are remembered, so that errors can quote them.
const SEEN_MAX: usize = 16;

/// The memory of the fuzzer.
#[derive(Default)]
pub struct Hostile {
    pub played: Played,
    pub seen: VecDeque<Vec<u8>>,
}

/// Returns the address of a host that the fuzzer plays.
fn played(numbers: &mut Xorshift, is_version6: bool) -> IpAddr {
    let number =
        if numbers.chance(15, 16) { 64 + numbers.below(8) } else { 3 + numbers.below(250) };
    let text = if is_version6 { format!("fd00::{number:x}") } else { format!("10.0.0.{number}") };
    text.parse().unwrap()
}

/// Returns a sender and an address of the host.
fn ends(numbers: &mut Xorshift) -> (IpAddr, IpAddr) {
    let is_version6 = numbers.chance(1, 2);
    let all = if is_version6 { OWN6 } else { OWN4 };
    let place = if numbers.chance(3, 4) { 0 } else { numbers.below(all.len()) };
    (played(numbers, is_version6), all[place].parse().unwrap())
}

fn bytes(numbers: &mut Xorshift, most: usize) -> Vec<u8> {
    let (length, value) = (numbers.below(most + 1), numbers.next() as u8);
    let mut all = vec![value; length];
    all.iter_mut().take(48).for_each(|byte| *byte = numbers.next() as u8);
    all
}

impl Hostile {
    /// Takes notice of a frame of the host. Returns an answer, if one is due.
    pub fn see(&mut self, numbers: &mut Xorshift, frame: &[u8]) -> Option<Vec<u8>> {
        self.played.see(frame);
        if self.seen.len() >= SEEN_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(frame[..frame.len().min(200)].to_vec());
        let is_answered = numbers.chance(7, 8);
        if frame.get(12..14) == Some(&[8, 6]) && frame.get(20..22) == Some(&[0, 1]) {
            let reply =
                [&frame[14..20], &[0, 2], &forge::PLAYED_MAC, &frame[38..42], &frame[22..32]];
            return is_answered.then(|| forge::frame(0x0806, &reply.concat()));
        }
        if frame.get(20) == Some(&58) && frame.get(54) == Some(&135) && frame.len() >= 78 {
            let address =
                |at: usize| IpAddr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap());
            let body =
                [&[136, 0, 0, 0, 0x60, 0, 0, 0][..], &frame[62..78], &[2, 1], &forge::PLAYED_MAC];
            let answer = forge::packet((address(62), address(22)), 58, &[], &body.concat());
            // The own address is left alone: its owner would give it up.
            return (is_answered && frame[62..70] == [0xfd, 0, 0, 0, 0, 0, 0, 0]).then_some(answer);
        }
        None
    }
    /// Returns a packet that is right in itself.
    pub fn next(&mut self, numbers: &mut Xorshift, habit: Habit) -> Vec<u8> {
        if habit != Habit::Any && numbers.chance(7, 8) {
            return self.of_flow(numbers, habit);
        }
        match numbers.below(32) {
            0..12 => self.of_flow(numbers, Habit::Any),
            12..16 => opening(numbers),
            16..20 => datagram(numbers),
            20..23 => fragment(numbers),
            23..26 => self.error(numbers),
            26..28 => echo(numbers),
            28 => arp(numbers),
            29 => discovery(numbers),
            30 => groups(numbers),
            _ => forge::frame(
                [0x0800, 0x86dd, 0x0806, 0x8100][numbers.below(4)],
                &bytes(numbers, 300),
            ),
        }
    }
    fn of_flow(&mut self, numbers: &mut Xorshift, habit: Habit) -> Vec<u8> {
        match self.played.pick(numbers, habit) {
            Some(flow) => self.played.segment(numbers, flow, habit),
            None => opening(numbers),
        }
    }
    /// Returns an error about a packet that the host did send.
    fn error(&self, numbers: &mut Xorshift) -> Vec<u8> {
        let place = numbers.below(self.seen.len());
        let Some(quoted) = self.seen.get(place).and_then(|frame| frame.get(14..)) else {
            return echo(numbers);
        };
        let word = [0, 68, 552, 1280, 1400, 0xffff][numbers.below(6)] as u32;
        let is_version6 = quoted.first().is_some_and(|first| first >> 4 == 6);
        let (kind, code) = match (is_version6, numbers.below(4)) {
            (false, 0) => (3, 4),
            (false, _) => ([3, 11, 12, 4, 5][numbers.below(5)], numbers.below(14) as u8),
            (true, 0) => (2, 0),
            (true, _) => (1 + numbers.below(4) as u8, numbers.below(7) as u8),
        };
        let body = [&[kind, code, 0, 0][..], &word.to_be_bytes(), quoted].concat();
        let own = if is_version6 { OWN6[0] } else { OWN4[0] };
        let ends = (played(numbers, is_version6), own.parse().unwrap());
        forge::packet(ends, if is_version6 { 58 } else { 1 }, &[], &body)
    }
}

/// Returns a SYN.
fn opening(numbers: &mut Xorshift) -> Vec<u8> {
    let ends = ends(numbers);
    let port = PORTS[numbers.below(3)];
    let header = Header {
        ports: (1024 + numbers.below(60_000) as u16, port),
        seq: numbers.next() as u32,
        flags: 2,
        window: 0xffff,
        options: peer::opening_options(numbers),
        ..Header::default()
    };
    let data = if numbers.chance(1, 8) { bytes(numbers, 1000) } else { Vec::new() };
    let options: &[u8] = if ends.0.is_ipv4() && numbers.chance(1, 16) {
        &[148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0]
    } else {
        &[]
    };
    forge::packet(ends, 6, options, &[header.bytes(), data].concat())
}

fn datagram(numbers: &mut Xorshift) -> Vec<u8> {
    let ends = ends(numbers);
    let ports = (1024 + numbers.below(100) as u16, PORTS[numbers.below(PORTS.len())]);
    let most = [8, 300, 1472, 9000, 60_000][numbers.below(5)];
    let mut body = forge::udp(ports, &bytes(numbers, most));
    let protocol = [17, 17, 17, 136, 200][numbers.below(5)];
    if protocol == 136 {
        body[4..6].copy_from_slice(&[0, [0, 8, 9, 20][numbers.below(4)]]);
    }
    if ends.0.is_ipv6() && numbers.chance(1, 3) {
        let next = protocol;
        let headers = [next, 0, 5, 2, 0, 0, 1, 0];
        return forge::packet(ends, if numbers.chance(1, 2) { 0 } else { 60 }, &headers, &body);
    }
    forge::packet(ends, protocol, &[], &body)
}

/// Returns a fragment of one of a few packets.
fn fragment(numbers: &mut Xorshift) -> Vec<u8> {
    let (source, destination) = ends(numbers);
    let identification = numbers.below(24) as u32;
    let has_more = numbers.chance(3, 4);
    let mut offset = 8 * numbers.below(40) as u16;
    if numbers.chance(1, 4) {
        offset = 0;
    }
    let length = if numbers.chance(1, 16) { 60_000 } else { [8, 16, 160, 1400][numbers.below(4)] };
    let mut body = vec![numbers.next() as u8; length];
    if offset == 0 {
        body.splice(..8, forge::udp((1024, 53), &[]));
    }
    let place = if has_more { 1 } else { 0 };
    if source.is_ipv4() {
        let mut frame = forge::packet((source, destination), 17, &[], &body);
        frame[18..20].copy_from_slice(&(identification as u16).to_be_bytes());
        frame[20..22].copy_from_slice(&((offset / 8) | (place << 13)).to_be_bytes());
        forge::seal(&mut frame);
        return frame;
    }
    let mut header = vec![17, 0];
    header.extend((offset | place).to_be_bytes());
    header.extend(identification.to_be_bytes());
    forge::packet((source, destination), 44, &header, &body)
}

fn echo(numbers: &mut Xorshift) -> Vec<u8> {
    let ends = ends(numbers);
    let (protocol, kinds) = if ends.0.is_ipv4() { (1, [8, 0, 13]) } else { (58, [128, 129, 160]) };
    let body = [&[kinds[numbers.below(3)], 0, 0, 0, 0, 7, 0, 1][..], &bytes(numbers, 200)].concat();
    forge::packet(ends, protocol, &[], &body)
}

fn arp(numbers: &mut Xorshift) -> Vec<u8> {
    let sender = played(numbers, false);
    let IpAddr::V4(sender) = sender else { unreachable!() };
    let target = if numbers.chance(1, 2) { [10, 0, 0, 2] } else { sender.octets() };
    let operation = 1 + numbers.below(2) as u8;
    let head = [0, 1, 8, 0, 6, 4, 0, operation];
    let body =
        [&head[..], &forge::PLAYED_MAC, &sender.octets(), &forge::HOST_MAC, &target].concat();
    forge::frame(0x0806, &body)
}

/// Returns a message of neighbour discovery.
fn discovery(numbers: &mut Xorshift) -> Vec<u8> {
    let router: IpAddr = format!("fe80::{:x}", 1 + numbers.below(4)).parse().unwrap();
    let own: IpAddr = OWN6[0].parse().unwrap();
    let all: IpAddr = OWN6[4].parse().unwrap();
    let target = played(numbers, true);
    let IpAddr::V6(target6) = target else { unreachable!() };
    let link = [&[1, 1][..], &forge::PLAYED_MAC].concat();
    let (ends, body) = match numbers.below(5) {
        0..2 => {
            let life = [0, 1, 1800, 0xffff][numbers.below(4)] as u16;
            let mut body =
                vec![134, 0, 0, 0, 64, numbers.next() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            body[6..8].copy_from_slice(&life.to_be_bytes());
            body.extend(&link);
            body.extend([5, 1, 0, 0, 0, 0, 5, [0, 0xdc, 0xff][numbers.below(3)]]);
            let prefix = 0x20 + numbers.below(30) as u8;
            body.extend([3, 4, 64, 0xc0, 0, 0, numbers.below(40) as u8, 9, 0, 0, 0, 8, 0, 0, 0, 0]);
            body.extend([&[0xfd, prefix][..], &[0; 14]].concat());
            body.extend([24, 2, 40, 0x08, 0, 0, 1, 0, 0xfd, prefix, 1, 0, 0, 0, 0, 0]);
            ((router, all), body)
        }
        2 => {
            let body = [
                &[135, 0, 0, 0, 0, 0, 0, 0][..],
                &"fd00::2".parse::<std::net::Ipv6Addr>().unwrap().octets(),
                &link,
            ];
            ((target, own), body.concat())
        }
        3 => {
            let flags = numbers.next() as u8;
            let link = [&[2, 1][..], &forge::PLAYED_MAC].concat();
            let body = [&[136, 0, 0, 0, flags, 0, 0, 0][..], &target6.octets(), &link];
            ((target, own), body.concat())
        }
        _ => {
            let IpAddr::V6(router6) = router else { unreachable!() };
            let body =
                [&[137, 0, 0, 0, 0, 0, 0, 0][..], &router6.octets(), &target6.octets(), &link];
            ((router, own), body.concat())
        }
    };
    forge::packet(ends, 58, &[], &body)
}

/// Returns a message of IGMP or MLD.
fn groups(numbers: &mut Xorshift) -> Vec<u8> {
    let kind = numbers.below(4);
    if numbers.chance(1, 2) {
        let ends = (played(numbers, false), ["224.0.0.1", "239.1.2.3"][kind % 2].parse().unwrap());
        let group = if kind < 2 { [0; 4] } else { [239, 1, 2, 3] };
        let code = [0, 1, 100, 0x9f][kind];
        let kind = [0x11, 0x11, 0x16, 0x22][numbers.below(4)];
        let body = [&[kind, code, 0, 0][..], &group, &[2, 125, 0, 1], &[10, 0, 0, 9]].concat();
        return forge::packet(ends, 2, &[148, 4, 0, 0], &body);
    }
    let source: IpAddr = "fe80::1".parse().unwrap();
    let group: std::net::Ipv6Addr = if kind < 2 { "::" } else { "ff02::99" }.parse().unwrap();
    let kind = [130, 130, 131, 143][numbers.below(4)];
    let delay = [0, 1, 0x27, 0x90][numbers.below(4)];
    let body =
        [&[kind, 0, 0, 0, delay, 0x10, 0, 0][..], &group.octets(), &[2, 125, 0, 1], &[1; 16]];
    let headers = [58, 0, 5, 2, 0, 0, 1, 0];
    forge::packet((source, OWN6[4].parse().unwrap()), 0, &headers, &body.concat())
}

/// Returns the source of the packet of IP in a frame.
pub fn source_of(frame: &[u8]) -> Option<IpAddr> {
    let packet = frame.get(14..)?;
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(12..16)?).ok()?)),
        6 => Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(8..24)?).ok()?)),
        _ => None,
    }
}

/// Returns the destination of the packet of IP in a frame.
pub fn destination_of(frame: &[u8]) -> Option<IpAddr> {
    let packet = frame.get(14..)?;
    match packet.first()? >> 4 {
        4 => Ipv4::parse_quoted(packet).ok().map(|ip| ip.header.destination().into()),
        6 => Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?)),
        _ => None,
    }
}

/// Parses an address and a port.
pub fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}
