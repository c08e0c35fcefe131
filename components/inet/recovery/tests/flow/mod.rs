//! A sender with a script: time, acknowledgements and what it sends, in segments of 1000 bytes and milliseconds.
#![allow(dead_code, reason = "each test program uses a part")]
use std::ops::Range;

use recovery::{
    Ack, Algorithm, Expiry, IdleRestart, Options, Progress, Sender, Setup, Statistics, Transmit,
};

pub const MS: u64 = 1_000_000;
pub const MSS: u64 = 1000;

/// The time at which the handshake ends, in milliseconds.
pub const START_MS: u64 = 10_000;

/// The segments `range` as an offset range. Segment 0 is the first one.
pub fn segments(range: Range<u64>) -> Range<u64> {
    1 + range.start * MSS..1 + range.end * MSS
}

/// The variants of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub has_sack: bool,
    pub algorithm: Algorithm,
    pub idle: IdleRestart,
}

pub const SACK: Variant =
    Variant { has_sack: true, algorithm: Algorithm::Reno, idle: IdleRestart::Decay };
pub const PLAIN: Variant = Variant { has_sack: false, ..SACK };

pub struct Flow {
    pub sender: Sender,
    pub now_ns: u64,
}

impl Flow {
    /// Makes a flow after a handshake with a round-trip time of 100 ms.
    pub fn new(variant: Variant) -> Self {
        let setup =
            Setup { start: 0, mss: MSS as u32, algorithm: variant.algorithm, idle: variant.idle };
        let mut sender = Sender::new(setup);
        sender.sent(0..1, (START_MS - 100) * MS);
        let now_ns = START_MS * MS;
        let ack = Ack { number: 1, sacks: &[], echo_ns: None, is_plain: false, has_ece: false };
        sender.acknowledged(&ack, now_ns);
        sender.established(Options { mss: MSS as u32, has_sack: variant.has_sack });
        Self { sender, now_ns }
    }

    /// Sets the time, in milliseconds after the handshake.
    pub fn at(&mut self, ms: u64) -> &mut Self {
        self.now_ns = (START_MS + ms) * MS;
        self
    }

    /// Sends what is allowed of `unsent` further segments. Returns the segments that were sent.
    pub fn send(&mut self, unsent: u64) -> Vec<u64> {
        let end = self.sender.nxt() + unsent * MSS;
        let mut sent = Vec::new();
        loop {
            let nxt = self.sender.nxt();
            let range = match self.sender.transmit(end - nxt, self.now_ns) {
                Transmit::Again(range) => range,
                Transmit::New(length) => nxt..nxt + length,
                Transmit::Wait => return sent,
            };
            for start in range.clone().step_by(MSS as usize) {
                assert_eq!((start - 1) % MSS, 0);
                sent.push((start - 1) / MSS);
                self.sender.sent(start..range.end.min(start + MSS), self.now_ns);
            }
        }
    }

    /// Acknowledges all segments below `count`.
    pub fn ack(&mut self, count: u64) -> Progress {
        self.take(count, &[], None)
    }

    /// Acknowledges all segments below `count` and reports blocks of segments.
    pub fn sack(&mut self, count: u64, blocks: &[Range<u64>]) -> Progress {
        self.take(count, blocks, None)
    }

    /// Takes an acknowledgement that echoes a time in milliseconds after the handshake.
    pub fn take(&mut self, count: u64, blocks: &[Range<u64>], echo_ms: Option<u64>) -> Progress {
        let sacks: Vec<_> = blocks.iter().map(|block| segments(block.clone())).collect();
        let ack = Ack {
            number: 1 + count * MSS,
            sacks: &sacks,
            echo_ns: echo_ms.map(|ms| (START_MS + ms) * MS),
            is_plain: true,
            has_ece: false,
        };
        self.sender.acknowledged(&ack, self.now_ns)
    }

    /// Acknowledges all segments below `count` with the flag ECE.
    pub fn echo_congestion(&mut self, count: u64) -> Progress {
        let ack = Ack {
            number: 1 + count * MSS,
            sacks: &[],
            echo_ns: None,
            is_plain: true,
            has_ece: true,
        };
        self.sender.acknowledged(&ack, self.now_ns)
    }

    /// Goes to the deadline and handles it. Returns it, in milliseconds after the handshake.
    pub fn expire(&mut self) -> (u64, Expiry) {
        self.now_ns = self.sender.deadline_ns().expect("a deadline");
        let expiry = self.sender.expired(self.now_ns);
        (self.now_ns / MS - START_MS, expiry)
    }

    /// The deadline, in milliseconds after the handshake.
    pub fn deadline(&self) -> Option<u64> {
        self.sender.deadline_ns().map(|at_ns| at_ns / MS - START_MS)
    }

    /// Grows the window to `count` segments by round trips of 100 ms. Returns the number of segments sent and acknowledged.
    pub fn warm_up(&mut self, count: u64) -> u64 {
        let mut ms = 0;
        while self.cwnd() < count {
            let sent = self.send(count).len() as u64;
            ms += 100;
            let acked = (self.sender.una() - 1) / MSS;
            self.at(ms);
            for segment in acked..acked + sent.min(count - self.cwnd().min(count)).max(1) {
                self.ack(segment + 1);
            }
            let nxt = (self.sender.nxt() - 1) / MSS;
            self.ack(nxt);
        }
        (self.sender.una() - 1) / MSS
    }

    pub fn statistics(&self) -> Statistics {
        self.sender.statistics()
    }

    /// The window in segments.
    pub fn cwnd(&self) -> u64 {
        self.sender.cwnd() / MSS
    }

    /// The threshold in segments.
    pub fn ssthresh(&self) -> u64 {
        self.statistics().ssthresh / MSS
    }
}
