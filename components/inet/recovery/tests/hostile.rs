//! Peers that lie: no acknowledgement panics, breaks a bound, or makes the sender forget a byte.
use std::ops::Range;

use proptest::prelude::*;
use recovery::{
    Ack, Algorithm, CongestionState, Expiry, IdleRestart, Options, Sender, Setup, Transmit,
};

const MS: u64 = 1_000_000;

/// A step of a hostile peer, or of the caller. Positions are relative to the oldest byte or to the next new one.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Send(u64),
    Ack {
        number: i64,
        blocks: Vec<(i64, i64)>,
        echo_ns: Option<u64>,
        is_plain: bool,
        has_ece: bool,
    },
    Expire,
    SetMss(u32),
    SetPathMss(u32),
    SetAlgorithm(bool),
}

fn position() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => -3000..30_000_i64,
        2 => (0..20_i64).prop_map(|segment| segment * 1000),
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let blocks = proptest::collection::vec((position(), position()), 0..6);
    let echo = proptest::option::of(prop_oneof![0..20_000 * MS, Just(u64::MAX), Just(0)]);
    let number = prop_oneof![
        3 => Just(0_i64),
        3 => 0..4000_i64,
        1 => position(),
    ];
    prop_oneof![
        4 => (0..400 * MS).prop_map(Step::Pass),
        6 => (0..30_000_u64).prop_map(Step::Send),
        10 => (number, blocks, echo, any::<bool>(), proptest::bool::weighted(0.1)).prop_map(
            |(number, blocks, echo_ns, is_plain, has_ece)| Step::Ack {
                number,
                blocks,
                echo_ns,
                is_plain,
                has_ece,
            },
        ),
        4 => Just(Step::Expire),
        1 => (1..3000_u32).prop_map(Step::SetMss),
        1 => (1..3000_u32).prop_map(Step::SetPathMss),
        1 => any::<bool>().prop_map(Step::SetAlgorithm),
    ]
}

/// A caller with a clock. It knows what was sent since the peer became honest.
struct Caller {
    sender: Sender,
    now_ns: u64,
    sent: Vec<Range<u64>>,
}

impl Caller {
    fn new(has_sack: bool, algorithm: Algorithm) -> Self {
        let setup = Setup { start: 0, mss: 1000, algorithm, idle: IdleRestart::Decay };
        let mut sender = Sender::new(setup);
        sender.sent(0..1, 0);
        let ack = Ack { number: 1, sacks: &[], echo_ns: None, is_plain: false, has_ece: false };
        sender.acknowledged(&ack, 20 * MS);
        sender.established(Options { mss: 1000, has_sack });
        Self { sender, now_ns: 20 * MS, sent: Vec::new() }
    }

    fn note(&mut self, range: Range<u64>) {
        let mss = self.sender.statistics().mss;
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + mss);
            self.sender.sent(start..end, self.now_ns);
            self.sent.push(start..end);
            start = end;
        }
    }

    fn send(&mut self, unsent: u64) {
        let goal = self.sender.nxt() + unsent;
        loop {
            let nxt = self.sender.nxt();
            match self.sender.transmit(goal.saturating_sub(nxt), self.now_ns) {
                Transmit::Again(range) => {
                    assert!(self.sender.una() <= range.start && range.start < range.end);
                    assert!(range.end <= nxt);
                    self.note(range);
                }
                Transmit::New(length) => {
                    assert!((1..=goal - nxt).contains(&length));
                    self.note(nxt..nxt + length);
                }
                Transmit::Wait => break,
            }
        }
    }

    /// Goes to the deadline and handles it. A late caller may find a scan and a timeout due, but never more.
    fn expire(&mut self) {
        let Some(at_ns) = self.sender.deadline_ns() else { return };
        self.now_ns = self.now_ns.max(at_ns);
        let mut calls = 0;
        while self.sender.deadline_ns().is_some_and(|at_ns| at_ns <= self.now_ns) {
            calls += 1;
            assert!(calls <= 2);
            if let Expiry::Probe(last) = self.sender.expired(self.now_ns) {
                assert!(self.sender.una() <= last.start && last.end == self.sender.nxt());
                self.note(last);
            }
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Pass(ns) => self.now_ns += ns,
            Step::Send(unsent) => self.send(*unsent),
            Step::Ack { number, blocks, echo_ns, is_plain, has_ece } => {
                let una = self.sender.una();
                let at = |position: i64| una.saturating_add_signed(position);
                let sacks: Vec<_> = blocks.iter().map(|&(start, end)| at(start)..at(end)).collect();
                let ack = Ack {
                    number: at(*number),
                    sacks: &sacks,
                    echo_ns: *echo_ns,
                    is_plain: *is_plain,
                    has_ece: *has_ece,
                };
                let nxt = self.sender.nxt();
                self.sender.acknowledged(&ack, self.now_ns);
                assert!(self.sender.una() >= una && self.sender.nxt() == nxt);
            }
            Step::Expire => self.expire(),
            Step::SetMss(mss) => self.sender.set_mss(*mss),
            Step::SetPathMss(mss) => self.sender.set_path_mss(*mss, self.now_ns),
            Step::SetAlgorithm(is_reno) => {
                let algorithm = if *is_reno { Algorithm::Reno } else { Algorithm::Cubic };
                self.sender.set_algorithm(algorithm);
            }
        }
    }

    fn check(&self) {
        let statistics = self.sender.statistics();
        assert!(self.sender.pipe() <= statistics.in_flight);
        assert!(statistics.sacked + statistics.lost <= statistics.in_flight);
        assert!(statistics.resent <= statistics.lost);
        assert!(statistics.cwnd >= statistics.mss, "{statistics:?}");
        assert!(statistics.ssthresh >= statistics.mss.min(2), "{statistics:?}");
        assert_eq!(self.sender.deadline_ns().is_some(), statistics.in_flight > 0);
        assert!(statistics.rto_ns <= recovery::RTO_MAX_NS);
    }

    /// The peer lost all it had and becomes honest. Every byte of the flight must reach it.
    fn finish(&mut self) {
        self.sent.clear();
        let mut rounds = 0;
        while self.sender.una() < self.sender.nxt() {
            rounds += 1;
            assert!(rounds < 10_000, "{:?}", self.sender.statistics());
            self.send(0);
            let una = self.sender.una();
            let mut number = una;
            while let Some(next) =
                self.sent.iter().find(|range| range.start <= number && number < range.end)
            {
                number = next.end;
            }
            if number == una {
                self.expire();
                continue;
            }
            self.now_ns += 20 * MS;
            let ack = Ack { number, sacks: &[], echo_ns: None, is_plain: true, has_ece: false };
            self.sender.acknowledged(&ack, self.now_ns);
            self.sent.retain(|range| range.end > number);
            self.check();
        }
        assert_eq!(self.sender.deadline_ns(), None);
        assert_ne!(self.sender.statistics().state, CongestionState::Recovery);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn no_peer_breaks_a_sender(
        has_sack in proptest::bool::weighted(0.8),
        is_reno in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let algorithm = if is_reno { Algorithm::Reno } else { Algorithm::Cubic };
        let mut caller = Caller::new(has_sack, algorithm);
        for step in &steps {
            caller.apply(step);
            caller.check();
        }
        caller.finish();
    }
}

#[test]
fn a_peer_that_reports_every_second_byte_costs_bounded_work() {
    // 60,000 segments of one byte, of which the peer reports every second one, four at a time.
    let mut caller = Caller::new(true, Algorithm::Cubic);
    caller.sender.set_mss(60_000);
    let first = caller.sender.nxt();
    for byte in first..first + 60_000 {
        caller.now_ns += 100;
        caller.sender.sent(byte..byte + 1, caller.now_ns);
    }
    for byte in (first + 1..first + 59_990).step_by(8) {
        let sacks: Vec<_> = (0..4).map(|block| byte + 2 * block..byte + 2 * block + 1).collect();
        caller.now_ns += 100;
        let ack =
            Ack { number: first, sacks: &sacks, echo_ns: None, is_plain: true, has_ece: false };
        caller.sender.acknowledged(&ack, caller.now_ns);
        caller.check();
    }
    caller.finish();
}
