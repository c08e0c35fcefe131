//! RACK (RFC 8985): a segment is lost if one that was sent later arrived, and a tolerance for reordering has passed.
//!
//! It replaces the rules of RFC 6675: three duplicate acknowledgements make the tolerance zero as long as the path was never seen to
//! reorder. The scan of [`Rack::detect`] stops at the first original transmission that is later than the last delivered one. Its
//! length is the number of stretches below, and at most [`STRETCHES_MAX`](crate::scoreboard::STRETCHES_MAX).
use crate::scoreboard::{Mark, Scoreboard, Stretch};

/// The number of duplicates that prove a loss, and its upper limit when it adapts to reordering (`tcp_reordering`,
/// `tcp_max_reordering`).
pub(crate) const REORDERING: u32 = 3;
const REORDERING_MAX: u64 = 300;

/// The number of recoveries for which a widened tolerance lasts.
const PERSISTENCE: u8 = 16;

/// The delivered segment that was sent last, and the tolerance of reordering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// The sending time and the end of the delivered segment that was sent last, and its round-trip time.
    sent_ns: u64,
    end: u64,
    rtt_ns: u64,
    /// The highest delivered offset.
    highest: u64,
    is_reordering_seen: bool,
    /// The tolerance in quarters of the smallest round-trip time.
    quarters: u8,
    persistence: u8,
    /// The offset that ends the round of the last duplicate report.
    round_end: u64,
    reordering: u32,
    reorderings: u32,
}

/// The inputs of a tolerance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) min_rtt_ns: u64,
    pub(crate) srtt_ns: u64,
    /// Recovery runs, or enough duplicates arrived to start it.
    pub(crate) is_suspect: bool,
}

/// The losses that a scan found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Detected {
    /// The bytes that left the pipe.
    pub(crate) lost: u64,
    /// The time of the next scan, if it may find more.
    pub(crate) again_ns: Option<u64>,
}

impl Rack {
    #[inline]
    pub(crate) fn new(start: u64) -> Self {
        Self {
            sent_ns: 0,
            end: start,
            rtt_ns: 0,
            highest: start,
            is_reordering_seen: false,
            quarters: 1,
            persistence: PERSISTENCE,
            round_end: start,
            reordering: REORDERING,
            reorderings: 0,
        }
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// The tolerated reordering, in segments.
    pub(crate) fn reordering(&self) -> u32 {
        self.reordering
    }

    pub(crate) fn reorderings(&self) -> u32 {
        self.reorderings
    }

    /// Takes a delivered stretch. The caller skips ambiguous deliveries of retransmissions (RFC 8985, section 6.2, step 2).
    pub(crate) fn deliver(&mut self, part: &Stretch, now_ns: u64) {
        if is_later((part.stamp.sent_ns, part.end), (self.sent_ns, self.end)) {
            self.sent_ns = part.stamp.sent_ns;
            self.end = part.end;
            self.rtt_ns = now_ns.saturating_sub(part.stamp.sent_ns);
        }
    }

    /// Takes a segment that was delivered at the time of its transmission.
    pub(crate) fn exchange(&mut self, end: u64, now_ns: u64) {
        (self.sent_ns, self.end, self.rtt_ns) = (now_ns, end, 0);
        self.raise(end);
    }

    /// Notes the highest offset that an acknowledgement or its blocks report.
    pub(crate) fn raise(&mut self, highest: u64) {
        self.highest = self.highest.max(highest);
    }

    /// Notes that an original transmission was delivered `distance` bytes below the highest one (section 6.2, step 3).
    pub(crate) fn reordered(&mut self, distance: u64, mss: u64) {
        self.is_reordering_seen = true;
        self.reorderings = self.reorderings.saturating_add(1);
        let segments = distance.div_ceil(mss).min(REORDERING_MAX) as u32;
        self.reordering = self.reordering.max(segments);
    }

    /// Notes a report of a duplicate, which shows that a retransmission was needless: the tolerance grows, once a round.
    pub(crate) fn duplicated(&mut self, una: u64, nxt: u64) {
        if una < self.round_end {
            return;
        }
        self.round_end = nxt;
        self.quarters = self.quarters.saturating_add(1);
        self.persistence = PERSISTENCE;
    }

    /// Notes the end of a recovery.
    pub(crate) fn recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.quarters = 1;
        }
    }

    /// Notes a timeout that came though many duplicates had arrived: the tolerance was too large.
    pub(crate) fn distrust(&mut self) {
        self.reordering = REORDERING;
    }

    fn tolerance_ns(&self, path: &Path) -> u64 {
        if !self.is_reordering_seen && path.is_suspect {
            return 0;
        }
        (path.min_rtt_ns / 4).saturating_mul(u64::from(self.quarters)).min(path.srtt_ns)
    }

    /// The time at which a stretch counts as lost, if no report of it comes before.
    pub(crate) fn lost_at_ns(&self, stretch: &Stretch, path: &Path) -> u64 {
        stretch.stamp.sent_ns.saturating_add(self.rtt_ns).saturating_add(self.tolerance_ns(path))
    }

    /// Gives up what is lost (section 6.2, step 5).
    pub(crate) fn detect(&self, board: &mut Scoreboard, path: &Path, now_ns: u64) -> Detected {
        let mut detected = Detected::default();
        for index in 0..board.count() {
            let Some(stretch) = board.get(index) else { break };
            if matches!(stretch.mark, Mark::Sacked | Mark::Lost) {
                continue;
            }
            if !is_later((self.sent_ns, self.end), (stretch.stamp.sent_ns, stretch.end)) {
                if stretch.was_resent {
                    continue;
                }
                break;
            }
            let lost_at_ns = self.lost_at_ns(stretch, path);
            if lost_at_ns <= now_ns {
                detected.lost += board.lose(index);
            } else {
                detected.again_ns =
                    Some(detected.again_ns.map_or(lost_at_ns, |at_ns| at_ns.max(lost_at_ns)));
            }
        }
        detected
    }
}

/// Compares transmissions by their time and, in a burst, by their offsets.
fn is_later(left: (u64, u64), right: (u64, u64)) -> bool {
    left > right
}
