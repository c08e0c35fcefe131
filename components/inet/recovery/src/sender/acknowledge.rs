//! The way of an acknowledgement through the scoreboard.
use core::ops::Range;

use super::{Sender, TailProbe};
use crate::{
    api::{Ack, CongestionState, Progress, TIMESTAMP_TICK_NS, Verdict},
    rack::Rack,
    rate::Rate,
    scoreboard::{Mark, Stretch},
};

/// The number of SACK blocks of a segment that count. More do not fit into a header.
const BLOCKS_MAX: usize = 4;

/// The news of one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// The bytes below the acknowledgement number.
    pub(super) acked: u64,
    /// The bytes that SACK blocks newly report.
    pub(super) sacked: u64,
    /// The bytes that arrived, in order or not.
    pub(super) delivered: u64,
    /// Data that was sent once arrived, from the flight of the last reduction.
    pub(super) is_original: bool,
    /// The number stays, nothing is reported, and the segment is plain (RFC 5681, section 2).
    pub(super) is_duplicate: bool,
    /// The first block reports a duplicate (RFC 2883).
    pub(super) has_duplicate: bool,
    /// A reduction was undone.
    pub(super) is_undone: bool,
    pub(super) rtt_ns: Option<u64>,
    /// The number acknowledges data that was sent again.
    has_resent: bool,
    /// The age of the first acknowledged and of the first reported data that was sent once.
    acked_age_ns: Option<u64>,
    sacked_age_ns: Option<u64>,
    /// The lowest offset of data that was sent once and arrived below higher data.
    late_from: Option<u64>,
}

impl News {
    pub(super) fn has_advanced(&self) -> bool {
        self.acked > 0
    }

    /// Measures the round-trip time (RFC 6298, section 3, Karn's rule; RFC 7323, section 4).
    fn measure(&mut self, ack: &Ack<'_>, now_ns: u64) {
        let echoed_ns = ack.echo_ns.filter(|_| self.acked > 0);
        let echo_age_ns = echoed_ns.and_then(|echo_ns| now_ns.checked_sub(echo_ns));
        self.rtt_ns = self.acked_age_ns.or(self.sacked_age_ns).or(echo_age_ns);
    }
}

impl Sender {
    /// Takes an acknowledgement.
    #[inline]
    pub fn acknowledged(&mut self, ack: &Ack<'_>, now_ns: u64) -> Progress {
        if ack.number > self.board.nxt() {
            return Progress { verdict: Verdict::Unsent, ..Progress::default() };
        }
        let una = self.board.una();
        if ack.number > una && self.is_plain_sailing(ack) {
            return self.advance(ack, now_ns);
        }
        self.take_news(ack, una, now_ns)
    }

    /// Takes one that brings more news than its number, or finds the flight marked.
    fn take_news(&mut self, ack: &Ack<'_>, una: u64, now_ns: u64) -> Progress {
        let highest = self.rack.highest();
        let before = self.state;
        let mut news = News::default();
        if ack.number > una {
            self.take_number(ack, highest, &mut news, now_ns);
        }
        if self.has_sack && !ack.sacks.is_empty() {
            self.take_blocks(ack, highest, &mut news, now_ns);
        }
        news.is_duplicate = ack.number == una
            && ack.is_plain
            && news.sacked == 0
            && !news.has_duplicate
            && self.board.in_flight() > 0;
        self.count_duplicates(&mut news);
        self.rack.raise(ack.number);
        news.measure(ack, now_ns);
        self.measure(news.rtt_ns, now_ns);
        let lost = self.react(ack, &mut news, now_ns);
        self.steer_window(before, &news, lost, now_ns);
        if news.has_advanced() || news.sacked > 0 || lost > 0 || self.scan_ns.is_some() {
            self.arm(now_ns);
        }
        Progress {
            verdict: verdict(ack.number, una),
            acked: news.acked,
            sacked: news.sacked,
            lost,
            rtt_ns: news.rtt_ns,
            is_undone: news.is_undone,
        }
    }

    /// Tells whether the flight has no marks and the acknowledgement has only a number.
    #[inline]
    fn is_plain_sailing(&self, ack: &Ack<'_>) -> bool {
        self.state == CongestionState::Open
            && self.probe == TailProbe::Idle
            && ack.sacks.is_empty()
            && !ack.has_ece
            && self.board.is_plain()
    }

    /// Takes an acknowledgement in order: the common case, without news for the states.
    #[inline]
    fn advance(&mut self, ack: &Ack<'_>, now_ns: u64) -> Progress {
        let acked = ack.number - self.board.una();
        let (mut first, mut has_resent) = (None, false);
        let Self { board, rate, rack, .. } = self;
        board.acknowledge(ack.number, |part| {
            rate.deliver(&part.stamp, part.len(), now_ns);
            has_resent |= part.was_resent;
            first = first.or(Some(part.stamp.sent_ns));
            if !part.was_resent {
                rack.deliver(part, now_ns);
            }
        });
        rack.raise(ack.number);
        let sent_ns = if has_resent { ack.echo_ns } else { first };
        let rtt_ns = sent_ns.and_then(|sent_ns| now_ns.checked_sub(sent_ns));
        self.note_progress(now_ns);
        self.measure(rtt_ns, now_ns);
        if self.usage.may_grow(&self.window) {
            self.grow(acked, rtt_ns, now_ns);
        }
        self.arm(now_ns);
        Progress { verdict: Verdict::Advance, acked, rtt_ns, ..Progress::default() }
    }

    /// Notes that the oldest unacknowledged offset has moved.
    fn note_progress(&mut self, now_ns: u64) {
        self.progress_ns = now_ns;
        self.rto_from_ns = now_ns;
        self.timeouts = 0;
        self.duplicates = 0;
    }

    /// Takes the acknowledgement number, which is in the flight.
    fn take_number(&mut self, ack: &Ack<'_>, highest: u64, news: &mut News, now_ns: u64) {
        news.acked = ack.number - self.board.una();
        let Self { board, rate, rack, rtt, recovery_end, has_sack, .. } = self;
        let (min_rtt_ns, recovery_end) = (rtt.min_ns().unwrap_or(0), *recovery_end);
        let echo_ns = ack.echo_ns;
        let mut taker = Taker { rate, rack, recovery_end, highest, min_rtt_ns, echo_ns, now_ns };
        board.acknowledge(ack.number, |part| {
            news.has_resent |= part.was_resent;
            if part.mark == Mark::Sacked {
                return;
            }
            news.delivered += part.len();
            if let Some(age_ns) = taker.take(part, news) {
                news.acked_age_ns.get_or_insert(age_ns);
            }
        });
        // Without SACK, data that the peer held before the retransmission looks like new progress.
        news.is_original &= *has_sack || !news.has_resent;
        if news.has_resent {
            news.acked_age_ns = None;
        }
        self.note_progress(now_ns);
    }

    /// Takes the SACK blocks. A block above the flight, or without a byte, is ignored.
    fn take_blocks(&mut self, ack: &Ack<'_>, highest: u64, news: &mut News, now_ns: u64) {
        let nxt = self.board.nxt();
        let mut blocks = ack.sacks.iter().take(BLOCKS_MAX);
        let second = ack.sacks.get(1);
        if let Some(first) = ack.sacks.first().filter(|first| is_duplicate(first, second, ack)) {
            blocks.next();
            self.take_duplicate(first, news);
        }
        let Self { board, rate, rack, rtt, recovery_end, .. } = self;
        let (min_rtt_ns, recovery_end) = (rtt.min_ns().unwrap_or(0), *recovery_end);
        let echo_ns = ack.echo_ns;
        let mut taker = Taker { rate, rack, recovery_end, highest, min_rtt_ns, echo_ns, now_ns };
        for block in blocks.filter(|block| block.start < block.end && block.end <= nxt) {
            board.sack(block.clone(), |part| {
                news.sacked += part.len();
                if let Some(age_ns) = taker.take(part, news) {
                    news.sacked_age_ns.get_or_insert(age_ns);
                }
            });
            taker.rack.raise(block.end);
        }
        news.delivered += news.sacked;
    }

    /// Takes the report of a duplicate.
    fn take_duplicate(&mut self, block: &Range<u64>, news: &mut News) {
        let bytes = block.end - block.start;
        if bytes > self.board.nxt() || block.end > self.board.nxt() {
            return;
        }
        news.has_duplicate = true;
        self.duplicate_bytes = self.duplicate_bytes.saturating_add(bytes);
        self.rack.duplicated(self.board.una(), self.board.nxt());
        if let Some(undo) = &mut self.undo {
            undo.duplicated(bytes, block.end);
        }
    }

    /// Counts what duplicate acknowledgements stand for, where no SACK blocks tell.
    fn count_duplicates(&mut self, news: &mut News) {
        let mss = self.window.mss;
        if news.has_advanced() {
            if self.virtual_sacked > 0 {
                // The acknowledgement fills a hole of a segment; the rest was counted before.
                let counted = self.virtual_sacked.min(news.acked.saturating_sub(mss));
                news.delivered = news.delivered.saturating_sub(counted);
                // Only recovery fills one hole after the other.
                let room = match self.state {
                    CongestionState::Recovery => self.board.in_flight().saturating_sub(mss),
                    _ => 0,
                };
                self.virtual_sacked = (self.virtual_sacked - counted).min(room);
            }
        } else if news.sacked > 0 {
            self.duplicates = self.duplicates.saturating_add(1);
        } else if news.is_duplicate && !self.has_sack {
            self.duplicates = self.duplicates.saturating_add(1);
            // After a timeout, the copies of what the peer holds cause duplicates until new data is sent.
            if self.state != CongestionState::Loss || self.board.nxt() > self.recovery_end {
                let room = self.board.in_flight().saturating_sub(mss + self.virtual_sacked);
                let step = mss.min(room);
                self.virtual_sacked += step;
                news.delivered += step;
            }
        }
        if let Some(late_from) = news.late_from {
            let distance = self.rack.highest().saturating_sub(late_from);
            self.rack.reordered(distance, mss);
        }
    }

    /// Takes a measured round-trip time, and the sample of the delivery rate.
    fn measure(&mut self, rtt_ns: Option<u64>, now_ns: u64) {
        if let Some(rtt_ns) = rtt_ns {
            self.rtt.sample(rtt_ns, self.board.una(), self.board.nxt(), now_ns);
            self.backoff = 0;
        }
        self.rate.sample(self.rtt.min_ns().unwrap_or(0), now_ns);
    }
}

impl News {
    /// Notes data that was sent once and arrived below `highest`.
    fn note_late(&mut self, part: &Stretch, highest: u64) {
        if part.start < highest {
            self.late_from = Some(self.late_from.map_or(part.start, |from| from.min(part.start)));
        }
    }
}

/// The parts of the sender that hear of each stretch that newly arrived, and the data of the acknowledgement that they need.
struct Taker<'a> {
    rate: &'a mut Rate,
    rack: &'a mut Rack,
    recovery_end: u64,
    /// The highest offset that arrived before.
    highest: u64,
    min_rtt_ns: u64,
    echo_ns: Option<u64>,
    now_ns: u64,
}

impl Taker<'_> {
    /// Takes a stretch that arrived. Returns its age if it was sent once.
    fn take(&mut self, part: &Stretch, news: &mut News) -> Option<u64> {
        self.rate.deliver(&part.stamp, part.len(), self.now_ns);
        if is_certain(part, self.echo_ns, self.min_rtt_ns, self.now_ns) {
            self.rack.deliver(part, self.now_ns);
        }
        if part.was_resent {
            return None;
        }
        news.is_original |= part.end <= self.recovery_end;
        news.note_late(part, self.highest);
        Some(self.now_ns.saturating_sub(part.stamp.sent_ns))
    }
}

/// Tells whether a delivery belongs to the last transmission of a stretch (RFC 8985, section 6.2, step 2).
fn is_certain(part: &Stretch, echo_ns: Option<u64>, min_rtt_ns: u64, now_ns: u64) -> bool {
    let sent_ns = part.stamp.sent_ns;
    !part.was_resent
        || (now_ns.saturating_sub(sent_ns) >= min_rtt_ns
            && echo_ns.is_none_or(|echo_ns| echo_ns >= sent_ns - sent_ns % TIMESTAMP_TICK_NS))
}

/// Tells whether the first block reports a duplicate: it is below the acknowledgement number or in the second block (RFC 2883).
fn is_duplicate(first: &Range<u64>, second: Option<&Range<u64>>, ack: &Ack<'_>) -> bool {
    let is_below = first.end <= ack.number;
    let is_within =
        second.is_some_and(|second| first.start >= second.start && first.end <= second.end);
    first.start < first.end && (is_below || is_within)
}

fn verdict(number: u64, una: u64) -> Verdict {
    match number.cmp(&una) {
        core::cmp::Ordering::Less => Verdict::Old,
        core::cmp::Ordering::Equal => Verdict::Duplicate,
        core::cmp::Ordering::Greater => Verdict::Advance,
    }
}
