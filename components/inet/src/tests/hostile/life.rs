//! The life of a host that hostile packets come to: it serves a proper peer meanwhile, and leaves nothing behind.
use super::{
    audit,
    card::Buffers,
    forge,
    kinds::{Hostile, at, destination_of, source_of},
    peer::{Habit, tcp_of},
    programs::Programs,
};
use crate::tests::streams::world::*;
use interfaces::sockets::{CloseKind, SocketFamilies, StreamState};
use std::{net::SocketAddr, sync::Arc};
use xorshift::Xorshift;

/// Packets of a life.
pub const PACKETS: u64 = 4000;
/// The port at which the proper peer is served.
const GOOD: u16 = 7777;
/// Bytes that it exchanges in each direction of each of two connections.
const EXCHANGED: usize = 60_000;
/// Frames that the host may send for one packet, one call or one look at its timers: a send buffer in segments of eight bytes of data,
/// the smallest that a peer can bring about, and what little others send.
const ANSWERS_MAX: usize = SEND_ROOM / 8 + 1024;

/// Counts of what a life was made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub packets: u64,
    pub answers: u64,
    pub accepted: u64,
    pub heard: u64,
    pub read: u64,
    pub watched: u64,
    /// The greatest number of buffers that were lent at a time.
    pub lent: u64,
}

impl Tally {
    /// Adds the counts of another life.
    pub fn add(&mut self, other: &Tally) {
        self.packets += other.packets;
        self.answers += other.answers;
        self.accepted += other.accepted;
        self.heard += other.heard;
        self.read += other.read;
        self.watched += other.watched;
        self.lent = self.lent.max(other.lent);
    }
}

/// A host under test, host 1 of a pair, and its proper peer, host 0.
pub struct Life {
    pub pair: Pair,
    pub numbers: Xorshift,
    pub hostile: Hostile,
    pub programs: Programs,
    pub buffers: Buffers,
    pub tally: Tally,
    habit: Habit,
    good: Vec<End>,
    good_server: Vec<Server>,
    data: Vec<u8>,
}

impl Life {
    pub fn new(seed: u64) -> Life {
        let mut numbers = Xorshift::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut pair = Pair::new(numbers.next(), Weather::default());
        let inet = Arc::clone(&pair.hosts[1].inet);
        inet.run(|stack, run| stack.start_ipv6(run, CARD));
        let ends = [at("10.0.0.2", GOOD), at("fd00::2", GOOD)];
        let families = [SocketFamilies::V4, SocketFamilies::V6];
        let servers: Vec<_> = families
            .iter()
            .zip(ends)
            .map(|(one, end)| Server::of(Program::with(&inet, *one), &end.to_string(), 5))
            .collect();
        let mut good = Vec::new();
        for ((families, end), server) in families.into_iter().zip(ends).zip(&servers) {
            let client = Program::with(&pair.hosts[0].inet, families);
            client.socket.connect(end).unwrap();
            let is_open = |_: &mut Pair| server.waiting() > 0 && client.is(StreamState::CONNECTED);
            assert!(pair.until(30, is_open));
            good.extend([End::new(client), End::new(server.accept().unwrap())]);
        }
        let programs = Programs::start(&inet);
        let habits = [Habit::Any, Habit::Any, Habit::Any, Habit::Creep, Habit::Drip, Habit::Comb];
        let habit = habits[numbers.below(habits.len())];
        let (hostile, buffers, tally) = Default::default();
        let data = (0..EXCHANGED).map(byte).collect();
        Life {
            pair,
            numbers,
            hostile,
            programs,
            buffers,
            tally,
            habit,
            good,
            good_server: servers,
            data,
        }
    }
    /// Returns whether a frame would be one of the proper peer's.
    fn is_forged(frame: &[u8]) -> bool {
        source_of(frame).is_some_and(|source| {
            source == at("10.0.0.1", 0).ip() || source == at("fd00::1", 0).ip()
        })
    }
    /// Brings a packet to the host, and lets programs and time go on.
    pub fn step(&mut self) {
        let mut frame = self.hostile.next(&mut self.numbers, self.habit);
        if self.numbers.chance(2, 5) {
            forge::mutate(&mut self.numbers, &mut frame);
        }
        if !Life::is_forged(&frame) {
            self.give(&frame);
        }
        if self.numbers.chance(1, 12) {
            let inet = Arc::clone(&self.pair.hosts[1].inet);
            self.programs.act(&inet, &mut self.numbers);
        }
        let pause = match self.numbers.below(400) {
            0 => 2 * S,
            1 => 100 * MS,
            2..40 => MS,
            _ => 20_000,
        };
        // The proper peer works now and then, so that most of its life is under attack.
        if pause > 20_000 {
            let data = std::mem::take(&mut self.data);
            self.good.iter_mut().for_each(|end| end.work(&data));
            self.data = data;
        }
        self.pass(pause);
        if self.tally.packets.is_multiple_of(64) {
            self.audit();
        }
    }
    /// Gives a frame to the host, by its card or by the tunnel.
    fn give(&mut self, frame: &[u8]) {
        self.tally.packets += 1;
        if self.numbers.chance(1, 16) {
            return self.programs.write_to_tunnel(frame);
        }
        let received = self.buffers.fill(&mut self.numbers, frame);
        self.pair.hosts[1].inet.received(CARD, &mut vec![received]);
        self.look();
    }
    /// Lets time pass for both hosts.
    fn pass(&mut self, ns: u64) {
        let end = self.pair.hosts[0].time.0.load(std::sync::atomic::Ordering::Relaxed) + ns;
        loop {
            self.look();
            let now = self.pair.hosts[0].time.0.load(std::sync::atomic::Ordering::Relaxed);
            if now >= end {
                return;
            }
            self.pair.step(end - now);
        }
    }
    /// Looks at what the host has sent: the fuzzer sees all of it, the proper peer what is its own.
    fn look(&mut self) {
        let frames = std::mem::take(&mut *self.pair.cables[1].frames.lock().unwrap());
        assert!(frames.len() <= ANSWERS_MAX, "{} frames at once", frames.len());
        self.tally.answers += frames.len() as u64;
        for mut frame in frames {
            let ends = tcp_of(&frame).map(|(ends, ..)| ends);
            if is_good(ends) {
                // This test does not judge the address that the stack takes for the neighbour's.
                frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
                self.pair.cables[1].frames.lock().unwrap().push_back(frame);
                continue;
            }
            let is_for_peer = frame[12..14] == [8, 6]
                || frame.get(20) == Some(&58)
                    && frame.get(54).is_some_and(|kind| matches!(kind, 135 | 136));
            if let Some(answer) = self.hostile.see(&mut self.numbers, &frame) {
                let received = self.buffers.fill(&mut self.numbers, &answer);
                self.pair.hosts[1].inet.received(CARD, &mut vec![received]);
            }
            if is_for_peer && destination_of(&frame).is_none_or(|to| to != at("fd00::2", 0).ip()) {
                self.pair.cables[1].frames.lock().unwrap().push_back(frame);
            }
        }
    }
    fn audit(&mut self) {
        let lent = self.buffers.take_back();
        self.tally.lent = self.tally.lent.max(lent as u64);
        audit::bounds(self, lent);
    }
    /// Ends all, and looks for what is left.
    pub fn end(mut self) -> Tally {
        self.audit();
        let (accepted, heard, read) =
            (self.programs.accepted, self.programs.heard, self.programs.read);
        let watched = self.programs.watcher.bytes.load(std::sync::atomic::Ordering::Relaxed);
        self.tally = Tally { accepted, heard, read, watched, ..self.tally };
        for _ in 0..4000 {
            self.good.iter_mut().for_each(|end| end.work(&self.data));
            if self.good.iter().all(End::is_done) {
                break;
            }
            self.pass(100 * MS);
        }
        for end in &self.good {
            let error = end.program.stream.take_error();
            let info = end.program.socket.info();
            assert!(end.is_done() && end.got == self.data, "{} {error:?} {info:?}", end.got.len());
        }
        let Life { mut pair, programs, mut buffers, good, good_server, tally, hostile, .. } = self;
        programs.end();
        good.iter().for_each(|end| end.program.socket.close(CloseKind::Orderly));
        drop((good, good_server, hostile));
        for _ in 0..12 {
            pair.wait(100 * S);
            pair.cables[1].frames.lock().unwrap().clear();
        }
        audit::nothing_left(&pair.hosts[1].inet, pair.hosts[1].counts());
        let inet = Arc::downgrade(&pair.hosts[1].inet);
        drop(pair);
        assert!(inet.upgrade().is_none(), "somebody keeps the stack");
        assert_eq!(buffers.take_back(), 0, "buffers of the card are kept");
        tally
    }
}

/// Returns whether a segment of the host is one for its proper peer.
fn is_good(ends: Option<(SocketAddr, SocketAddr)>) -> bool {
    ends.is_some_and(|(from, to)| {
        from.port() == GOOD
            && (to.ip() == at("10.0.0.1", 0).ip() || to.ip() == at("fd00::1", 0).ip())
    })
}
