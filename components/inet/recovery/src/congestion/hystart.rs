//! HyStart++ (RFC 9406): leaves the initial slow start when round-trip times rise, before the queue of the bottleneck overflows.
use super::Delivered;

const MIN_RTT_THRESHOLD_NS: u64 = 4_000_000;
const MAX_RTT_THRESHOLD_NS: u64 = 16_000_000;
const RTT_DIVISOR: u64 = 8;
const SAMPLES: u32 = 8;
const CONSERVATIVE_ROUNDS: u32 = 5;

/// The growth of the window for an acknowledgement in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// The bytes delivered.
    Full,
    /// A quarter of them.
    Quarter,
    /// Slow start ends.
    Exit,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Standard,
    Conservative { baseline_ns: u64, rounds: u32 },
    Stopped,
}

/// The state of a slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    stage: Stage,
    /// The offset whose acknowledgement ends the round.
    round_end: u64,
    last_min_ns: u64,
    current_min_ns: u64,
    samples: u32,
}

impl Default for HyStart {
    #[inline]
    fn default() -> Self {
        Self {
            stage: Stage::Standard,
            round_end: 0,
            last_min_ns: u64::MAX,
            current_min_ns: u64::MAX,
            samples: 0,
        }
    }
}

impl HyStart {
    /// Ends the initial slow start. A later one runs without these rules (RFC 9406, section 4.3).
    pub(super) fn stop(&mut self) {
        self.stage = Stage::Stopped;
    }

    /// Takes an acknowledgement in slow start.
    pub(super) fn advance(&mut self, delivered: &Delivered) -> Pace {
        if matches!(self.stage, Stage::Stopped) {
            return Pace::Full;
        }
        if delivered.una >= self.round_end && self.end_round(delivered.nxt) {
            self.stage = Stage::Stopped;
            return Pace::Exit;
        }
        if let Some(rtt_ns) = delivered.rtt_ns {
            self.current_min_ns = self.current_min_ns.min(rtt_ns);
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= SAMPLES {
            self.judge();
        }
        if matches!(self.stage, Stage::Standard) { Pace::Full } else { Pace::Quarter }
    }

    /// Starts a round. Returns whether the conservative rounds are over.
    fn end_round(&mut self, nxt: u64) -> bool {
        self.round_end = nxt;
        self.last_min_ns = self.current_min_ns;
        self.current_min_ns = u64::MAX;
        self.samples = 0;
        let Stage::Conservative { rounds, .. } = &mut self.stage else { return false };
        *rounds += 1;
        *rounds >= CONSERVATIVE_ROUNDS
    }

    fn judge(&mut self) {
        match self.stage {
            Stage::Standard if self.last_min_ns != u64::MAX => {
                let threshold_ns = (self.last_min_ns / RTT_DIVISOR)
                    .clamp(MIN_RTT_THRESHOLD_NS, MAX_RTT_THRESHOLD_NS);
                if self.current_min_ns >= self.last_min_ns.saturating_add(threshold_ns) {
                    self.stage =
                        Stage::Conservative { baseline_ns: self.current_min_ns, rounds: 0 };
                }
            }
            Stage::Conservative { baseline_ns, .. } if self.current_min_ns < baseline_ns => {
                self.stage = Stage::Standard;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a round of ten acknowledgements with one round-trip time. Returns the last pace.
    fn round(hystart: &mut HyStart, number: u64, rtt_ms: u64) -> Pace {
        let mut pace = Pace::Full;
        for ack in 0..10 {
            let delivered = Delivered {
                bytes: 1000,
                una: number * 10 + ack,
                nxt: number * 10 + 10,
                rtt_ns: Some(rtt_ms * 1_000_000),
                srtt_ns: 0,
                now_ns: 0,
            };
            pace = hystart.advance(&delivered);
            if pace == Pace::Exit {
                break;
            }
        }
        pace
    }

    #[test]
    fn a_steady_path_keeps_slow_start() {
        let mut hystart = HyStart::default();
        assert!((1..30).all(|number| round(&mut hystart, number, 40) == Pace::Full));
    }

    #[test]
    fn a_rise_by_an_eighth_slows_and_then_ends_slow_start() {
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 1, 40), Pace::Full);
        assert_eq!(round(&mut hystart, 2, 44), Pace::Full);
        assert_eq!(round(&mut hystart, 3, 50), Pace::Quarter);
        assert!((4..8).all(|number| round(&mut hystart, number, 51) == Pace::Quarter));
        assert_eq!(round(&mut hystart, 8, 51), Pace::Exit);
        assert_eq!(round(&mut hystart, 9, 90), Pace::Full);
    }

    #[test]
    fn a_passing_rise_resumes_slow_start() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 1, 40);
        assert_eq!(round(&mut hystart, 2, 50), Pace::Quarter);
        assert_eq!(round(&mut hystart, 3, 41), Pace::Full);
    }
}
