//! The windows: slow start, congestion avoidance, idle times, ECN, and the retransmission timeout.
#![allow(clippy::single_range_in_vec_init, reason = "a list of SACK blocks may have one block")]
mod flow;

use flow::{Flow, MS, MSS, PLAIN, SACK, START_MS, Variant, segments};
use recovery::{
    Ack, Algorithm, CongestionState, Expiry, IdleRestart, Options, Sender, Setup, Transmit, Verdict,
};

#[test]
fn ten_segments_are_the_initial_window() {
    // RFC 6928.
    let mut flow = Flow::new(SACK);
    assert_eq!(flow.send(100), (0..10).collect::<Vec<_>>());
}

#[test]
fn slow_start_doubles_the_window_in_a_round_trip() {
    // RFC 5681, section 3.1.
    let mut flow = Flow::new(SACK);
    flow.send(100);
    flow.at(100);
    for count in 1..=10 {
        flow.ack(count);
        assert_eq!(flow.send(100).len(), 2);
    }
    assert_eq!(flow.cwnd(), 20);
}

#[test]
fn congestion_avoidance_adds_a_segment_in_a_round_trip() {
    // RFC 5681, section 3.1: a timeout halves the threshold to five segments. Slow start goes up to it.
    let mut flow = Flow::new(PLAIN);
    flow.send(10);
    assert_eq!(flow.expire().1, Expiry::Timeout);
    assert_eq!((flow.cwnd(), flow.ssthresh()), (1, 5));
    flow.send(0);
    flow.now_ns += 100 * MS;
    flow.ack(10);
    let mut windows = vec![flow.cwnd()];
    for _ in 0..5 {
        let sent = flow.send(100);
        flow.now_ns += 100 * MS;
        for segment in sent {
            flow.ack(segment + 1);
        }
        windows.push(flow.cwnd());
    }
    assert_eq!(windows, [2, 4, 5, 6, 7, 8]);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut flow = Flow::new(SACK);
    for round in 0..20 {
        assert_eq!(flow.send(2).len(), 2);
        flow.now_ns += 100 * MS;
        flow.ack(2 * round + 2);
    }
    assert_eq!(flow.cwnd(), 10);
}

#[test]
fn an_idle_time_halves_the_window_for_each_timeout() {
    // RFC 2861: 80 segments, a timeout of 300 ms, and 700 ms of silence.
    for (idle, expected) in [(IdleRestart::Decay, 20), (IdleRestart::Keep, 80)] {
        let mut flow = Flow::new(Variant { idle, ..SACK });
        flow.warm_up(80);
        assert_eq!(flow.sender.rto_ns() / MS, 300);
        // The last segment left 100 ms before the last acknowledgement.
        flow.now_ns += 600 * MS;
        assert_eq!(flow.send(200).len(), expected);
    }
    let mut flow = Flow::new(SACK);
    flow.warm_up(80);
    flow.now_ns += 3600 * 1000 * MS;
    assert_eq!(flow.send(200).len(), 10);
}

#[test]
fn an_echo_of_congestion_reduces_the_window_once_in_a_round_trip() {
    // RFC 3168, section 6.1.2.
    let mut flow = Flow::new(SACK);
    let base = flow.warm_up(20);
    flow.send(20);
    flow.now_ns += 100 * MS;
    for count in 1..=20 {
        flow.echo_congestion(base + count);
        flow.send(20);
        assert_eq!(flow.statistics().state, CongestionState::Reduced);
        assert_eq!(flow.ssthresh(), 10);
        assert_eq!(flow.sender.take_cwr(), count == 1);
    }
    let nxt = (flow.sender.nxt() - 1) / MSS;
    assert!(nxt - base <= 20 + 11, "{nxt}");
    flow.now_ns += 100 * MS;
    flow.ack(nxt);
    assert_eq!(flow.statistics().state, CongestionState::Open);
    assert_eq!(flow.cwnd(), 10);
}

#[test]
fn the_first_timeout_is_a_second_and_backs_off_to_two_minutes() {
    // RFC 6298, sections 2.1, 5.5 and 5.6.
    let setup =
        Setup { start: 0, mss: 1000, algorithm: Algorithm::Cubic, idle: IdleRestart::Decay };
    let mut sender = Sender::new(setup);
    sender.sent(0..1, 0);
    let mut now_ns = 0;
    for (index, seconds) in [1, 2, 4, 8, 16, 32, 64, 120, 120].into_iter().enumerate() {
        assert_eq!(sender.deadline_ns(), Some(now_ns + seconds * 1000 * MS));
        now_ns += seconds * 1000 * MS;
        assert_eq!(sender.expired(now_ns - 1), Expiry::Ask);
        assert_eq!(sender.expired(now_ns), Expiry::Timeout);
        assert_eq!(sender.timeouts(), index as u32 + 1);
        assert_eq!(sender.transmit(0, now_ns), Transmit::Again(0..1));
        sender.sent(0..1, now_ns);
    }
    assert_eq!(sender.stalled_since_ns(), Some(0));
    let ack = Ack { number: 1, sacks: &[], echo_ns: None, is_plain: false, has_ece: false };
    assert_eq!(sender.acknowledged(&ack, now_ns).rtt_ns, None);
    sender.established(Options { mss: 1000, has_sack: true });
    // RFC 6298, section 5.7; RFC 5681, section 3.1.
    assert_eq!(sender.rto_ns(), 3000 * MS);
    assert_eq!(sender.cwnd(), 1000);
    assert_eq!((sender.timeouts(), sender.stalled_since_ns()), (0, None));
}

#[test]
fn each_acknowledgement_of_new_data_restarts_the_timer() {
    // RFC 6298, section 5.3.
    let mut flow = Flow::new(PLAIN);
    flow.at(0).send(10);
    assert_eq!(flow.deadline(), Some(300));
    flow.at(100).ack(5);
    assert_eq!(flow.deadline(), Some(400));
    flow.at(150).ack(5);
    assert_eq!(flow.deadline(), Some(400));
    flow.at(160).ack(10);
    assert_eq!(flow.deadline(), None);
}

#[test]
fn a_retransmission_gives_no_measurement_without_timestamps() {
    // RFC 6298, section 3: Karn's algorithm. The backoff stays until the next measurement.
    let mut flow = Flow::new(PLAIN);
    flow.send(1);
    assert_eq!(flow.expire(), (300, Expiry::Timeout));
    assert_eq!(flow.send(0), [0]);
    assert_eq!(flow.at(310).ack(1).rtt_ns, None);
    assert_eq!(flow.statistics().srtt_ns, 100 * MS);
    assert_eq!(flow.sender.rto_ns(), 600 * MS);
    flow.send(1);
    assert_eq!(flow.at(410).ack(2).rtt_ns, Some(100 * MS));
    assert!(flow.sender.rto_ns() <= 300 * MS);
}

#[test]
fn a_retransmission_gives_a_measurement_with_timestamps() {
    // RFC 7323, section 4.
    let mut flow = Flow::new(PLAIN);
    flow.send(1);
    flow.expire();
    flow.send(0);
    assert_eq!(flow.at(420).take(1, &[], Some(300)).rtt_ns, Some(120 * MS));
    assert_eq!(flow.statistics().backoff, 0);
}

#[test]
fn an_acknowledgement_of_unsent_data_changes_nothing() {
    let mut flow = Flow::new(SACK);
    flow.send(5);
    let before = flow.statistics();
    let progress = flow.at(100).sack(6, &[7..8]);
    assert_eq!(progress.verdict, Verdict::Unsent);
    assert_eq!(flow.statistics(), before);
    assert_eq!(flow.sender.una(), 1);
    let progress = flow.sack(0, &[5..6, 2..2, 1000..2000, 3..7]);
    assert_eq!((progress.verdict, progress.sacked), (Verdict::Duplicate, 0));
}

#[test]
fn a_smaller_path_sends_the_flight_again_and_keeps_the_window() {
    // RFC 1191, section 6.5.
    let mut flow = Flow::new(SACK);
    flow.send(10);
    flow.at(10);
    flow.sender.set_path_mss(500, flow.now_ns);
    assert_eq!(flow.sender.cwnd(), 10_000);
    assert_eq!(flow.sender.transmit(0, flow.now_ns), Transmit::Again(1..10_001));
    for start in (1..10_001).step_by(500) {
        flow.sender.sent(start..start + 500, flow.now_ns);
    }
    flow.at(110).ack(10);
    assert_eq!(flow.statistics().state, CongestionState::Open);
    assert!(flow.sender.cwnd() >= 10_000);
}

#[test]
fn a_resumed_flight_is_sent_again() {
    let mut flow = Flow::new(SACK);
    flow.sender.resume(segments(50..80), flow.now_ns);
    assert_eq!(flow.send(0), (50..60).collect::<Vec<_>>());
    flow.at(100).ack(60);
    assert_eq!(flow.send(5).first(), Some(&60));
    assert_eq!(flow.sender.nxt(), segments(0..80).end);
    while flow.sender.una() < flow.sender.nxt() {
        flow.now_ns += 100 * MS;
        let una = (flow.sender.una() - 1) / MSS;
        flow.ack((una + 5).min((flow.sender.nxt() - 1) / MSS));
        flow.send(0);
    }
    assert_eq!(flow.deadline(), None);
}

#[test]
fn a_closed_window_is_probed_at_doubling_intervals() {
    let flow = Flow::new(SACK);
    let intervals: Vec<_> =
        (0..4).map(|probes| flow.sender.probe_interval_ns(probes) / MS).collect();
    assert_eq!(intervals, [300, 600, 1200, 2400]);
    assert_eq!(flow.sender.probe_interval_ns(u32::MAX), recovery::RTO_MAX_NS);
}

#[test]
fn the_delivery_rate_is_measured() {
    let mut flow = Flow::new(SACK);
    let base = flow.warm_up(40);
    flow.send(40);
    for count in 1..=40 {
        flow.now_ns += if count == 1 { 100 * MS } else { MS };
        flow.ack(base + count);
        flow.send(40);
    }
    let statistics = flow.statistics();
    // A segment in each millisecond, after a pause of a round trip.
    assert!((280_000..=1_000_000).contains(&statistics.delivery_rate), "{statistics:?}");
    assert!(!statistics.is_rate_app_limited);
    for _ in 0..3 {
        flow.now_ns += 200 * MS;
        let nxt = (flow.sender.nxt() - 1) / MSS;
        flow.ack(nxt);
        flow.send(0);
        flow.send(50);
    }
    assert_eq!(START_MS % 1000, 0);
}

#[test]
fn names_select_the_algorithm() {
    assert_eq!(Algorithm::from_name(b"cubic"), Some(Algorithm::Cubic));
    assert_eq!(Algorithm::from_name(b"reno"), Some(Algorithm::Reno));
    assert_eq!(Algorithm::from_name(b"vegas"), None);
    let mut flow = Flow::new(SACK);
    flow.sender.set_algorithm(Algorithm::Cubic);
    assert_eq!(flow.sender.algorithm().name(), "cubic");
}
