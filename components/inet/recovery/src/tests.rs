//! The scoreboard against a model of single bytes, and its bound; the estimator of round-trip times; RACK; the delivery rate.
use core::ops::Range;

use proptest::prelude::*;

use crate::{
    Algorithm, RTO_MAX_NS, RTO_MIN_NS,
    congestion::{CongestionWindow, Control, Delivered},
    offset,
    rate::Rate,
    rtt::Estimator,
    scoreboard::{Mark, STRETCHES_MAX, Scoreboard, Stamp},
};

const MS: u64 = 1_000_000;

fn stamp(sent_ns: u64) -> Stamp {
    Stamp { sent_ns, ..Stamp::default() }
}

/// Checks that the stretches cover the flight and that the counters are their sums.
fn check(board: &Scoreboard) {
    let mut at = board.una();
    let (mut sacked, mut lost, mut resent) = (0, 0, 0);
    for index in 0..board.count() {
        let stretch = board.get(index).unwrap();
        assert_eq!(stretch.start, at);
        assert!(stretch.end > at);
        at = stretch.end;
        match stretch.mark {
            Mark::Sent => {}
            Mark::Sacked => sacked += stretch.len(),
            Mark::Lost => lost += stretch.len(),
            Mark::Resent => resent += stretch.len(),
        }
    }
    assert_eq!(at, board.nxt());
    assert_eq!((sacked, lost, resent), (board.sacked(), board.lost(), board.resent()));
    assert!(board.pipe() <= board.in_flight());
    assert!(board.count() <= STRETCHES_MAX);
    assert_eq!(board.first_lost().is_some(), lost > 0);
}

/// The marks of single bytes, from the first one on.
fn marks(board: &Scoreboard) -> Vec<Mark> {
    let stretches = (0..board.count()).map(|index| *board.get(index).unwrap());
    stretches.flat_map(|stretch| vec![stretch.mark; stretch.len() as usize]).collect()
}

/// A change of the scoreboard. Positions are relative to the oldest byte.
#[derive(Clone, Debug)]
enum Change {
    Append(u64),
    Resend,
    Acknowledge(u64),
    Sack(i64, i64),
    Lose(usize),
    LoseHead(u64),
    LoseAll,
    Forgive,
    Forget,
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (1..20_u64).prop_map(Change::Append),
        3 => Just(Change::Resend),
        3 => (0..20_u64).prop_map(Change::Acknowledge),
        6 => (-5..100_i64, -5..100_i64).prop_map(|(start, end)| Change::Sack(start, end)),
        2 => (0..20_usize).prop_map(Change::Lose),
        1 => (0..20_u64).prop_map(Change::LoseHead),
        1 => Just(Change::LoseAll),
        1 => Just(Change::Forgive),
        1 => Just(Change::Forget),
    ]
}

/// The bytes of the flight.
#[derive(Debug, Default)]
struct Model {
    bytes: Vec<Mark>,
}

impl Model {
    fn replace(&mut self, range: Range<usize>, replace: impl Fn(Mark) -> Mark) {
        for byte in &mut self.bytes[range] {
            *byte = replace(*byte);
        }
    }

    fn acknowledge(&mut self, board: &mut Scoreboard, count: u64) {
        let length = self.bytes.len();
        let count = (count as usize).min(length);
        let mut seen = Vec::new();
        board.acknowledge(board.una() + count as u64, |part| {
            seen.extend(vec![part.mark; part.len() as usize]);
        });
        assert_eq!(seen, self.bytes.drain(..count).collect::<Vec<_>>());
    }

    fn sack(&mut self, board: &mut Scoreboard, start: i64, end: i64) {
        let (una, length) = (board.una(), self.bytes.len());
        let at = |position: i64| una.saturating_add_signed(position);
        let mut newly = 0;
        board.sack(at(start)..at(end), |part| newly += part.len());
        let clamp = |position: i64| position.clamp(0, length as i64) as usize;
        let (start, end) = (clamp(start), clamp(end));
        let before = self.bytes.iter().filter(|mark| **mark == Mark::Sacked).count();
        self.replace(start..end.max(start), |_| Mark::Sacked);
        let after = self.bytes.iter().filter(|mark| **mark == Mark::Sacked).count();
        assert_eq!(newly, (after - before) as u64);
    }

    fn apply(&mut self, board: &mut Scoreboard, change: &Change, now_ns: u64) {
        let (una, length) = (board.una(), self.bytes.len());
        let lose = |mark| if mark == Mark::Sacked { mark } else { Mark::Lost };
        match *change {
            Change::Append(count) => {
                board.append(board.nxt() + count, stamp(now_ns));
                self.bytes.resize(length + count as usize, Mark::Sent);
            }
            Change::Resend => {
                let Some(lost) = board.first_lost() else { return };
                let first = self.bytes.iter().position(|mark| *mark == Mark::Lost);
                assert_eq!(first, Some((lost.start - una) as usize));
                let end = lost.end.min(lost.start + 7);
                board.resend(lost.start..end, stamp(now_ns));
                let range = (lost.start - una) as usize..(end - una) as usize;
                self.replace(range, |mark| {
                    assert_eq!(mark, Mark::Lost);
                    Mark::Resent
                });
            }
            Change::Acknowledge(count) => self.acknowledge(board, count),
            Change::Sack(start, end) => self.sack(board, start, end),
            Change::Lose(index) => {
                let Some(stretch) = board.get(index).copied() else { return };
                board.lose(index);
                let range = (stretch.start - una) as usize..(stretch.end - una) as usize;
                self.replace(range, lose);
            }
            Change::LoseHead(count) => {
                board.lose_head(count);
                // The head may be shorter than asked for.
                let head = board.get(0).map_or(0, |stretch| stretch.len() as usize);
                if count > 0 && head <= count as usize {
                    self.replace(0..head, lose);
                } else {
                    self.bytes = marks(board);
                }
            }
            Change::LoseAll => {
                board.lose_all();
                self.replace(0..length, lose);
            }
            Change::Forgive => {
                board.forgive();
                self.replace(0..length, |mark| if mark == Mark::Lost { Mark::Sent } else { mark });
            }
            Change::Forget => {
                board.forget_sacked();
                self.replace(
                    0..length,
                    |mark| {
                        if mark == Mark::Sacked { Mark::Sent } else { mark }
                    },
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn the_scoreboard_marks_as_a_model_of_bytes(
        changes in proptest::collection::vec((changes(), 0..3_u64), 1..200),
    ) {
        let mut board = Scoreboard::new(100);
        let mut model = Model::default();
        let mut now_ns = 0;
        for (change, pause_ns) in changes {
            now_ns += pause_ns;
            model.apply(&mut board, &change, now_ns);
            check(&board);
            prop_assert_eq!(&marks(&board), &model.bytes, "{:?}", change);
        }
    }
}

#[test]
fn alternate_reports_cannot_grow_the_scoreboard_beyond_its_bound() {
    let mut board = Scoreboard::new(0);
    for byte in 0..100_000 {
        board.append(byte + 1, stamp(byte));
        if byte % 2 == 1 {
            board.sack(byte..byte + 1, |_| {});
        }
    }
    check(&board);
    for start in (0..100_000).step_by(4) {
        board.sack(start..start + 1, |_| {});
        board.lose(start as usize % STRETCHES_MAX);
        if let Some(lost) = board.first_lost() {
            board.resend(lost.start..lost.start + 1, stamp(200_000 + start));
        }
    }
    check(&board);
    board.lose_all();
    let mut steps = 0;
    while let Some(lost) = board.first_lost() {
        board.resend(lost, stamp(400_000));
        steps += 1;
        assert!(steps <= STRETCHES_MAX);
    }
    board.acknowledge(100_000, |_| {});
    check(&board);
    assert_eq!(board.count(), 0);
}

#[test]
fn a_burst_is_one_stretch_and_a_long_flight_is_bounded() {
    let mut board = Scoreboard::new(0);
    (1..=40).for_each(|segment| board.append(segment * 1448, stamp(5)));
    assert_eq!(board.count(), 1);
    // 128 MiB in segments of their own times.
    (41..=92_000).for_each(|segment| board.append(segment * 1448, stamp(segment)));
    check(&board);
    assert!(board.count() < STRETCHES_MAX, "{}", board.count());
}

#[test]
fn a_growing_block_stays_one_stretch() {
    let mut board = Scoreboard::new(0);
    (1..=100).for_each(|segment| board.append(segment * 10, stamp(segment)));
    for end in 20..=90 {
        board.sack(10..end, |_| {});
    }
    check(&board);
    // The hole, the block, and the segments above.
    assert_eq!(board.count(), 1 + 1 + 91);
}

#[test]
fn steady_round_trips_give_a_timeout_of_the_mean_and_the_minimum() {
    let mut rtt = Estimator::new();
    for round in 0..100 {
        rtt.sample(50 * MS, round, round + 1, round * 50 * MS);
    }
    assert_eq!(rtt.srtt_ns(), Some(50 * MS));
    assert_eq!(rtt.rto_ns(), 50 * MS + RTO_MIN_NS);
}

#[test]
fn the_first_measurement_sets_the_timeout_to_three_times_it() {
    // RFC 6298, section 2.2.
    let mut rtt = Estimator::new();
    rtt.sample(400 * MS, 0, 1, 0);
    assert_eq!(rtt.rto_ns(), 1200 * MS);
    assert_eq!(rtt.deviation_ns(), 200 * MS);
}

#[test]
fn a_jump_of_the_round_trip_raises_the_timeout_at_once() {
    let mut rtt = Estimator::new();
    for round in 0..50 {
        rtt.sample(100 * MS, round, round + 1, round);
    }
    rtt.sample(900 * MS, 50, 51, 50);
    // The mean rises by an eighth of 800 ms, the deviation by a quarter.
    assert_eq!(rtt.srtt_ns(), Some(200 * MS));
    assert!(rtt.rto_ns() >= 1000 * MS, "{}", rtt.rto_ns());
    for round in 51..200 {
        rtt.sample(100 * MS, round, round + 1, round);
    }
    assert!(rtt.rto_ns() < 310 * MS);
}

#[test]
fn absurd_round_trips_stay_in_bounds() {
    let mut rtt = Estimator::new();
    for rtt_ns in [u64::MAX, 0, u64::MAX, 1] {
        rtt.sample(rtt_ns, 0, u64::MAX, u64::MAX);
        assert!((RTO_MIN_NS..=RTO_MAX_NS).contains(&rtt.rto_ns()));
    }
}

#[test]
fn the_smallest_round_trip_is_forgotten_after_five_minutes() {
    let mut rtt = Estimator::new();
    let second_ns = 1000 * MS;
    rtt.sample(10 * MS, 0, 1, 0);
    for second in 1..=290 {
        rtt.sample(30 * MS, 0, 1, second * second_ns);
    }
    assert_eq!(rtt.min_ns(), Some(10 * MS));
    for second in 291..=310 {
        rtt.sample(30 * MS, 0, 1, second * second_ns);
    }
    assert_eq!(rtt.min_ns(), Some(30 * MS));
}

#[test]
fn the_rate_is_that_of_the_slower_direction() {
    // Ten segments leave within 10 ms and are acknowledged within 100 ms after a round trip of 50 ms.
    let mut rate = Rate::default();
    let stamps: Vec<_> = (0..10).map(|index| rate.stamp(index, index * MS)).collect();
    for (index, stamp) in stamps.iter().enumerate() {
        let now_ns = (50 + 10 * (index as u64 + 1)) * MS;
        rate.deliver(stamp, 1000, now_ns);
        rate.sample(0, now_ns);
    }
    // All were sent before the first delivery: 10 kB in 150 ms.
    assert_eq!(rate.last(), (10_000 * 1000 / 150, false));
    assert_eq!(rate.delivered(), 10_000);
}

#[test]
fn a_rate_that_the_application_limits_counts_only_if_it_is_higher() {
    let mut rate = Rate::default();
    let full = rate.stamp(0, 0);
    rate.deliver(&full, 10_000, 10 * MS);
    rate.sample(0, 10 * MS);
    assert_eq!(rate.last(), (1_000_000, false));
    rate.limit(0);
    let slow = rate.stamp(0, 20 * MS);
    rate.deliver(&slow, 1000, 30 * MS);
    rate.sample(0, 30 * MS);
    assert_eq!(rate.last(), (1_000_000, false));
    rate.limit(0);
    let fast = rate.stamp(0, 40 * MS);
    rate.deliver(&fast, 50_000, 50 * MS);
    rate.sample(0, 50 * MS);
    assert_eq!(rate.last(), (5_000_000, true));
}

#[test]
fn an_undone_reduction_leaves_cubic_as_it_was() {
    // RFC 9438, section 4.9: without the undoing, the second reduction would aim below its window (section 4.7).
    let mut control = Control::new(Algorithm::Cubic);
    let mut window = CongestionWindow { cwnd: 1_000_000, ssthresh: 0, mss: 1000 };
    control.reduce(&window);
    control.restore();
    window.cwnd = 500_000;
    window.ssthresh = control.reduce(&window);
    window.cwnd = window.ssthresh;
    assert_eq!(window.cwnd, 350_000);
    // The curve is flat at the old window after cbrt(150 segments / 0.4) = 7.2 s.
    for round in 0..=72 {
        let bytes = window.cwnd;
        let now_ns = round * 100 * MS;
        let delivered =
            Delivered { bytes, una: 0, nxt: 0, rtt_ns: None, srtt_ns: 100 * MS, now_ns };
        control.grow(&mut window, &delivered);
    }
    assert!(window.cwnd.abs_diff(500_000) < 5000, "{}", window.cwnd);
}

#[test]
fn sequence_numbers_wrap_to_offsets() {
    assert_eq!(offset(5, 3), 3);
    assert_eq!(offset(5, u32::MAX), 0);
    assert_eq!(offset(0xffff_fff0, 0x10), 0x1_0000_0010);
    assert_eq!(offset(0x1_0000_0010, 0xffff_fff0), 0xffff_fff0);
    assert_eq!(offset(u64::MAX, 1), u64::MAX);
}
