//! A simulated link in virtual time: a sender of bulk data, a bottleneck with a queue, and a receiver with SACK, D-SACK, delayed
//! acknowledgements and timestamps.
#![allow(dead_code, reason = "each test program uses a part")]
use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

use recovery::{
    Ack, Algorithm, Expiry, IdleRestart, Options, Sender, Setup, TIMESTAMP_TICK_NS, Transmit,
};
use xorshift::Xorshift;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
pub const MSS: u64 = 1448;

/// The whole of a probability in millionths.
const MILLION: u64 = 1_000_000;

/// The properties of a link. Probabilities are in millionths.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub bytes: u64,
    pub one_way_ns: u64,
    pub bytes_per_second: u64,
    pub queue_bytes: u64,
    pub loss: u64,
    pub ack_loss: u64,
    pub reorder: u64,
    pub reorder_ns: u64,
    pub duplicate: u64,
    pub window: u64,
    pub has_sack: bool,
    pub has_timestamps: bool,
    pub algorithm: Algorithm,
    pub seed: u64,
    /// The time in which the link drops everything.
    pub outage: (u64, u64),
    /// The time in which the link holds everything until its end.
    pub stall: (u64, u64),
    /// The segment that is dropped at its first transmission, by its number.
    pub drop_once: Option<u64>,
    pub has_ecn: bool,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            bytes: 10_000_000,
            one_way_ns: 10 * MS,
            bytes_per_second: 12_500_000,
            queue_bytes: 250_000,
            loss: 0,
            ack_loss: 0,
            reorder: 0,
            reorder_ns: 0,
            duplicate: 0,
            window: 4 << 20,
            has_sack: true,
            has_timestamps: true,
            algorithm: Algorithm::Cubic,
            seed: 1,
            outage: (0, 0),
            stall: (0, 0),
            drop_once: None,
            has_ecn: false,
        }
    }
}

/// The outcome of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transfer {
    pub time_ns: u64,
    pub timeouts: u64,
    pub probes: u64,
    pub sent_bytes: u64,
    pub resent_bytes: u64,
    pub dropped: u64,
    pub undone: u64,
    pub reductions: u64,
    pub max_cwnd: u64,
    pub reorderings: u32,
    pub delivery_rate: u64,
}

impl Transfer {
    /// The share of the link's rate that the transfer reached, in percent.
    pub fn utilisation(&self, link: &Link) -> u64 {
        (u128::from(link.bytes) * 100 * u128::from(SECOND)
            / (u128::from(self.time_ns) * u128::from(link.bytes_per_second))) as u64
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Segment { start: u64, end: u64, tick_ns: u64, is_marked: bool },
    Ack { number: u64, sacks: Vec<(u64, u64)>, echo_ns: u64, is_echoing: bool },
    DelayedAck,
}

struct Receiver {
    next: u64,
    held: Vec<Range<u64>>,
    recent_ns: u64,
    unacked: u32,
    ack_at_ns: Option<u64>,
    is_echoing: bool,
}

impl Receiver {
    /// Takes a segment. Returns the SACK blocks of an acknowledgement that is due at once.
    fn take(&mut self, start: u64, end: u64, tick_ns: u64) -> Option<Vec<(u64, u64)>> {
        let is_old = end <= self.next;
        let is_held = self.held.iter().any(|held| held.start <= start && end <= held.end);
        if is_old || is_held {
            let mut blocks = vec![(start, end)];
            blocks.extend(self.blocks(if is_held { start } else { u64::MAX }));
            return Some(blocks);
        }
        if start <= self.next {
            self.recent_ns = tick_ns;
        }
        let had_holes = !self.held.is_empty();
        let (mut from, mut to) = (start, end);
        self.held.retain(|held| {
            let touches = held.start <= to && from <= held.end;
            if touches {
                (from, to) = (from.min(held.start), to.max(held.end));
            }
            !touches
        });
        if from <= self.next {
            self.next = to;
            self.unacked += 1;
            return (had_holes || self.unacked >= 2).then(|| self.blocks(u64::MAX));
        }
        self.held.insert(0, from..to);
        Some(self.blocks(start))
    }

    fn blocks(&self, first: u64) -> Vec<(u64, u64)> {
        let mut held = self.held.clone();
        held.sort_by_key(|held| !held.contains(&first));
        held.iter().take(3).map(|held| (held.start, held.end)).collect()
    }
}

struct World {
    link: Link,
    random: Xorshift,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    sender: Sender,
    receiver: Receiver,
    /// The time at which the bottleneck has sent its queue.
    free_at_ns: u64,
    segments: u64,
    result: Transfer,
}

/// Sends all bytes over a link. Panics if the transfer does not end within an hour of virtual time.
pub fn run(link: Link) -> Transfer {
    let mut world = World::new(link);
    world.pump();
    while world.sender.una() < link.bytes + 1 {
        world.step();
        assert!(world.now_ns < 3600 * SECOND, "{:?}", world.sender.statistics());
    }
    let statistics = world.sender.statistics();
    assert_eq!(statistics.in_flight, 0);
    assert_eq!(world.sender.deadline_ns(), None);
    assert_eq!(world.receiver.next, link.bytes + 1);
    world.result.time_ns = world.now_ns - SECOND;
    world.result.resent_bytes = statistics.total_resent;
    world.result.reorderings = statistics.reorderings;
    world.result.delivery_rate = statistics.delivery_rate;
    world.result
}

impl World {
    fn new(link: Link) -> Self {
        let setup = Setup {
            start: 0,
            mss: MSS as u32,
            algorithm: link.algorithm,
            idle: IdleRestart::Decay,
        };
        let mut sender = Sender::new(setup);
        let now_ns = SECOND;
        sender.sent(0..1, now_ns - 2 * link.one_way_ns);
        let ack = Ack { number: 1, sacks: &[], echo_ns: None, is_plain: false, has_ece: false };
        sender.acknowledged(&ack, now_ns);
        sender.established(Options { mss: MSS as u32, has_sack: link.has_sack });
        let receiver = Receiver {
            next: 1,
            held: Vec::new(),
            recent_ns: now_ns,
            unacked: 0,
            ack_at_ns: None,
            is_echoing: false,
        };
        Self {
            link,
            random: Xorshift::new(link.seed),
            now_ns,
            events: BinaryHeap::new(),
            order: 0,
            sender,
            receiver,
            free_at_ns: 0,
            segments: 0,
            result: Transfer::default(),
        }
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at_ns, self.order, event)));
    }

    /// Runs to the next event or deadline.
    fn step(&mut self) {
        let event_ns = self.events.peek().map(|Reverse((at_ns, ..))| *at_ns);
        let deadline_ns = self.sender.deadline_ns();
        if deadline_ns.is_some_and(|at_ns| event_ns.is_none_or(|event_ns| at_ns < event_ns)) {
            self.now_ns = self.now_ns.max(deadline_ns.unwrap());
            self.expire();
        } else {
            let Reverse((at_ns, _, event)) = self.events.pop().expect("the flow is stuck");
            self.now_ns = at_ns;
            self.handle(event);
        }
        self.pump();
    }

    fn expire(&mut self) {
        match self.sender.expired(self.now_ns) {
            Expiry::Ask => {}
            Expiry::Timeout => self.result.timeouts += 1,
            Expiry::Probe(last) => {
                self.result.probes += 1;
                let unsent = self.unsent().min(MSS);
                let nxt = self.sender.nxt();
                self.send(if unsent > 0 { nxt..nxt + unsent } else { last });
            }
        }
    }

    fn unsent(&self) -> u64 {
        let end = (self.link.bytes + 1).min(self.sender.una() + self.link.window);
        end.saturating_sub(self.sender.nxt())
    }

    fn pump(&mut self) {
        loop {
            let nxt = self.sender.nxt();
            match self.sender.transmit(self.unsent(), self.now_ns) {
                Transmit::Again(range) => self.send(range),
                Transmit::New(length) => self.send(nxt..nxt + length),
                Transmit::Wait => break,
            }
        }
        let statistics = self.sender.statistics();
        assert!(self.sender.pipe() <= statistics.in_flight);
        assert!(statistics.cwnd >= MSS);
        assert_eq!(self.sender.deadline_ns().is_some(), statistics.in_flight > 0);
        self.result.max_cwnd = self.result.max_cwnd.max(statistics.cwnd);
        self.result.reductions += u64::from(self.sender.take_cwr());
    }

    fn send(&mut self, range: Range<u64>) {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + MSS);
            self.result.sent_bytes += end - start;
            self.sender.sent(start..end, self.now_ns);
            self.transit(start, end);
            start = end;
        }
    }

    fn is_within(&self, (from, to): (u64, u64)) -> bool {
        (from..to).contains(&(self.now_ns - SECOND))
    }

    /// Takes a segment into the bottleneck.
    fn transit(&mut self, start: u64, end: u64) {
        let size = end - start + 52;
        let cost_ns = size * SECOND / self.link.bytes_per_second;
        let backlog_ns = self.free_at_ns.saturating_sub(self.now_ns);
        let backlog = backlog_ns * self.link.bytes_per_second / SECOND;
        self.segments += 1;
        let is_lost = self.random.chance(self.link.loss, MILLION)
            || self.is_within(self.link.outage)
            || self.link.drop_once == Some(self.segments);
        let is_marked = self.link.has_ecn && backlog > self.link.queue_bytes / 4;
        if backlog + size > self.link.queue_bytes || is_lost {
            self.result.dropped += 1;
            return;
        }
        self.free_at_ns = self.now_ns.max(self.free_at_ns) + cost_ns;
        let mut at_ns = self.free_at_ns + self.link.one_way_ns;
        if self.is_within(self.link.stall) {
            at_ns = at_ns.max(SECOND + self.link.stall.1);
        }
        if self.random.chance(self.link.reorder, MILLION) {
            at_ns += self.random.next() % self.link.reorder_ns;
        }
        let tick_ns = self.now_ns - self.now_ns % TIMESTAMP_TICK_NS;
        let event = Event::Segment { start, end, tick_ns, is_marked };
        if self.random.chance(self.link.duplicate, MILLION) {
            self.at(at_ns + 1, event.clone());
        }
        self.at(at_ns, event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Segment { start, end, tick_ns, is_marked } => {
                self.receiver.is_echoing |= is_marked;
                match self.receiver.take(start, end, tick_ns) {
                    Some(sacks) => self.acknowledge(sacks),
                    None if self.receiver.ack_at_ns.is_none() => {
                        let at_ns = self.now_ns + 40 * MS;
                        self.receiver.ack_at_ns = Some(at_ns);
                        self.at(at_ns, Event::DelayedAck);
                    }
                    None => {}
                }
            }
            Event::DelayedAck => {
                if self.receiver.ack_at_ns == Some(self.now_ns) {
                    let sacks = self.receiver.blocks(u64::MAX);
                    self.acknowledge(sacks);
                }
            }
            Event::Ack { number, sacks, echo_ns, is_echoing } => {
                let sacks: Vec<Range<u64>> = sacks.iter().map(|&(from, to)| from..to).collect();
                let echo_ns = self.link.has_timestamps.then_some(echo_ns);
                let sacks = if self.link.has_sack { &sacks[..] } else { &[] };
                let ack = Ack { number, sacks, echo_ns, is_plain: true, has_ece: is_echoing };
                let progress = self.sender.acknowledged(&ack, self.now_ns);
                self.result.undone += u64::from(progress.is_undone);
            }
        }
    }

    fn acknowledge(&mut self, sacks: Vec<(u64, u64)>) {
        self.receiver.unacked = 0;
        self.receiver.ack_at_ns = None;
        let event = Event::Ack {
            number: self.receiver.next,
            sacks,
            echo_ns: self.receiver.recent_ns,
            is_echoing: std::mem::take(&mut self.receiver.is_echoing),
        };
        if !self.random.chance(self.link.ack_loss, MILLION) && !self.is_within(self.link.outage) {
            let at_ns = self.now_ns + self.link.one_way_ns;
            self.at(at_ns, event);
        }
    }
}
