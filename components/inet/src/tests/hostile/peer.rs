//! The hosts that the fuzzer plays: they know the sequence numbers of their connections, and use them as they like.
use super::forge::{self, Header};
use packet::{
    ipv4::Ipv4,
    ipv6::{Ipv6Header, Walk},
    tcp::{TcpFlags, TcpHeader},
};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};
use xorshift::Xorshift;

/// Connections that are remembered, at most.
const FLOWS_MAX: usize = 48;

/// A connection as its last segments from the host show it.
#[derive(Clone, Copy, Debug)]
pub struct PlayedFlow {
    /// The host's next byte.
    pub next: u32,
    /// The byte that the host waits for; `None` before it has acknowledged anything.
    pub awaited: Option<u32>,
    /// The host's clock of timestamps, if it uses them.
    pub clock: Option<u32>,
}

/// The host's end and the fuzzer's end of a connection.
pub type PlayedEnds = (SocketAddr, SocketAddr);

/// A manner of sending data that a hostile peer keeps up for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Any segment.
    Any,
    /// Ahead of a gap, each a byte further than the one before, so that each brings one new byte.
    Creep,
    /// Single bytes ahead of a gap, from the last to the first.
    Drip,
    /// Single bytes ahead of a gap, each with a gap before the next.
    Comb,
}

/// The connections of the played hosts.
#[derive(Default)]
pub struct Played {
    flows: BTreeMap<PlayedEnds, PlayedFlow>,
    steps: u32,
}

/// Returns the ends of a packet of TCP, its header and the length of its payload.
pub fn tcp_of(frame: &[u8]) -> Option<(PlayedEnds, &TcpHeader, usize)> {
    let packet = frame.get(14..)?;
    let (source, destination, body): (IpAddr, IpAddr, _) = match packet.first()? >> 4 {
        4 => {
            let ip = Ipv4::parse(packet, packet.len()).ok()?;
            if ip.header.protocol != 6 || ip.header.place().is_fragment() {
                return None;
            }
            (ip.header.source().into(), ip.header.destination().into(), &packet[ip.payload()])
        }
        6 => {
            let ip = Ipv6Header::parse(packet, packet.len()).ok()?;
            let walk = Walk::of(packet).ok()?;
            if walk.protocol != 6 || walk.fragment.is_some() {
                return None;
            }
            let body = &packet[packet::ipv6::payload(ip, &walk)];
            (ip.source().into(), ip.destination().into(), body)
        }
        _ => return None,
    };
    let (header, _) = TcpHeader::parse(body, body.len()).ok()?;
    let ends = (
        SocketAddr::new(source, header.source.get()),
        SocketAddr::new(destination, header.destination.get()),
    );
    Some((ends, header, body.len() - header.length()))
}

impl Played {
    /// Takes notice of a frame of the host. Returns the connection if it is the first segment of it.
    pub fn see(&mut self, frame: &[u8]) -> Option<PlayedEnds> {
        let (ends, header, length) = tcp_of(frame)?;
        let flags = header.flags();
        if flags.contains(TcpFlags::RST) {
            self.flows.remove(&ends);
            return None;
        }
        let marks =
            u32::from(flags.contains(TcpFlags::SYN)) + u32::from(flags.contains(TcpFlags::FIN));
        let next = header.sequence.get().wrapping_add(length as u32 + marks);
        let awaited = flags.contains(TcpFlags::ACK).then(|| header.acknowledgement.get());
        let at = 14 + if ends.0.is_ipv4() { 20 } else { 40 } + 20;
        let clock = clock_of(frame.get(at..).unwrap_or_default());
        if let Some(flow) = self.flows.get_mut(&ends) {
            let is_later = next.wrapping_sub(flow.next) < 1 << 31;
            flow.next = if is_later { next } else { flow.next };
            flow.awaited = awaited.or(flow.awaited);
            flow.clock = clock.or(flow.clock);
            return None;
        }
        if self.flows.len() >= FLOWS_MAX {
            self.flows.pop_first();
        }
        self.flows.insert(ends, PlayedFlow { next, awaited, clock });
        Some(ends)
    }
    /// Returns a connection: any, or the same as long as it is there for a habit that is kept up.
    pub fn pick(&self, numbers: &mut Xorshift, habit: Habit) -> Option<(PlayedEnds, PlayedFlow)> {
        let place = if habit == Habit::Any { numbers.below(self.flows.len()) } else { 0 };
        self.flows.iter().nth(place).map(|(ends, flow)| (*ends, *flow))
    }
    /// Returns a segment of a connection, which opens it if it is not open.
    pub fn segment(
        &mut self,
        numbers: &mut Xorshift,
        (ends, flow): (PlayedEnds, PlayedFlow),
        habit: Habit,
    ) -> Vec<u8> {
        self.steps = self.steps.wrapping_add(1);
        let (to, from) = ends;
        let mut header = Header {
            ports: (from.port(), to.port()),
            ack: flow.next,
            flags: 0x10,
            window: [0, 1, 500, 8192, 0xffff][numbers.below(5)],
            ..Header::default()
        };
        let mut data = Vec::new();
        match flow.awaited {
            None => {
                header.seq = numbers.next() as u32;
                header.flags = 0x12;
                header.options = opening_options(numbers);
            }
            Some(awaited) => {
                header.seq = awaited;
                data = self.data(numbers, &mut header, habit);
                stray(numbers, &mut header, flow);
            }
        }
        if let Some(clock) = flow.clock
            && numbers.chance(15, 16)
        {
            header.options.extend([1, 1, 8, 10]);
            header.options.extend((self.steps / 4).to_be_bytes());
            header.options.extend(clock.to_be_bytes());
        }
        let body = [header.bytes(), data].concat();
        forge::packet((from.ip(), to.ip()), 6, &[], &body)
    }
    /// Chooses the data of a segment, and its place.
    fn data(&mut self, numbers: &mut Xorshift, header: &mut Header, habit: Habit) -> Vec<u8> {
        let step = self.steps % 20_000;
        match habit {
            Habit::Creep => {
                header.seq = header.seq.wrapping_add(1 + step);
                vec![7; 1024]
            }
            Habit::Drip => {
                header.seq = header.seq.wrapping_add(20_001 - step);
                vec![7]
            }
            Habit::Comb => {
                header.seq = header.seq.wrapping_add(1 + 2 * step);
                vec![7]
            }
            Habit::Any => {
                let length = match numbers.below(12) {
                    0..5 => 0,
                    5 => 1,
                    6 | 7 => numbers.below(200),
                    8 | 9 => 1448,
                    10 => numbers.below(5000),
                    _ => numbers.below(60_000),
                };
                if numbers.chance(1, 3) {
                    header.seq = header.seq.wrapping_add(numbers.below(40_000) as u32);
                }
                vec![numbers.next() as u8; length]
            }
        }
    }
}

/// Returns the value of the option of timestamps which is first behind padding.
fn clock_of(options: &[u8]) -> Option<u32> {
    let start = options.iter().take(6).position(|byte| *byte != 1)?;
    let [8, 10, a, b, c, d, ..] = *options.get(start..)? else { return None };
    Some(u32::from_be_bytes([a, b, c, d]))
}

/// Returns the options of a SYN.
pub fn opening_options(numbers: &mut Xorshift) -> Vec<u8> {
    let mut all = Vec::new();
    if numbers.chance(3, 4) {
        let mss = [0, 1, 88, 536, 1460, 9000, 65_535][numbers.below(7)] as u16;
        all.extend([2, 4]);
        all.extend(mss.to_be_bytes());
    }
    if numbers.chance(1, 2) {
        all.extend([4, 2, 3, 3, numbers.below(16) as u8, 1]);
    }
    if numbers.chance(1, 2) {
        all.extend([8, 10, 0, 0, 0, 1, 0, 0, 0, 0]);
    }
    if numbers.chance(1, 4) {
        let length = [0, 4, 8, 15, 16][numbers.below(5)];
        all.extend([34, 2 + length as u8]);
        all.extend(vec![3; length]);
    }
    all
}

/// Lets a header stray from what a proper peer would send, at times.
fn stray(numbers: &mut Xorshift, header: &mut Header, flow: PlayedFlow) {
    match numbers.below(40) {
        0 => header.flags = numbers.next() as u8,
        1 => header.flags |= 0x01,
        2 => header.flags |= 0x02,
        3 if numbers.chance(1, 4) => header.flags = 0x04,
        4 => {
            header.flags |= 0x20;
            header.urgent = numbers.next() as u16;
        }
        5..8 => header.ack = flow.next.wrapping_sub(numbers.below(90_000) as u32),
        8 => header.ack = flow.next.wrapping_add(numbers.below(3) as u32),
        9 => header.seq = header.seq.wrapping_sub(numbers.below(100_000) as u32),
        10 => header.seq = numbers.next() as u32,
        11..15 => {
            let blocks = 1 + numbers.below(3);
            header.options.extend([1, 1, 5, 2 + 8 * blocks as u8]);
            let base = flow.next.wrapping_sub(numbers.below(90_000) as u32);
            for block in 0..2 * blocks {
                let distance = (block * numbers.below(3000)) as u32;
                header.options.extend(base.wrapping_add(distance).to_be_bytes());
            }
            header.ack = base.wrapping_sub(numbers.below(2000) as u32);
        }
        _ => {}
    }
}
