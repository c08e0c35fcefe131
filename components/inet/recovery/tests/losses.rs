//! The detection and repair of losses.
#![allow(clippy::single_range_in_vec_init, reason = "a list of SACK blocks may have one block")]
mod flow;

use flow::{Flow, MS, MSS, PLAIN, SACK, segments};
use recovery::{CongestionState, Expiry};

#[test]
fn two_duplicates_send_a_new_segment_each() {
    // RFC 3042, with and without SACK.
    for variant in [PLAIN, SACK] {
        let mut flow = Flow::new(variant);
        flow.send(10);
        flow.at(100);
        for duplicate in 1..=2 {
            flow.sack(0, &[1..1 + duplicate]);
            assert_eq!(flow.send(10), [9 + duplicate], "{variant:?}");
            assert_eq!(flow.statistics().state, CongestionState::Disorder);
        }
    }
}

#[test]
fn the_third_duplicate_sends_the_first_segment_again() {
    // RFC 5681, section 3.2.
    for variant in [PLAIN, SACK] {
        let mut flow = Flow::new(variant);
        flow.send(10);
        flow.at(100);
        flow.sack(0, &[1..2]);
        flow.sack(0, &[1..3]);
        assert_eq!(flow.sack(0, &[1..4]).lost, MSS);
        assert_eq!(flow.send(0), [0], "{variant:?}");
        assert_eq!(flow.statistics().state, CongestionState::Recovery);
        assert_eq!(flow.ssthresh(), 5);
        assert!(flow.sender.take_cwr());
        let progress = flow.at(200).ack(10);
        assert_eq!((progress.acked, progress.is_undone), (10 * MSS, false));
        assert_eq!(flow.statistics().state, CongestionState::Open);
        assert_eq!(flow.cwnd(), 5);
    }
}

#[test]
fn a_partial_acknowledgement_sends_the_next_hole() {
    // RFC 6582, section 3.2, step 3. Segments 0, 3 and 6 are lost.
    let mut flow = Flow::new(PLAIN);
    flow.send(10);
    flow.at(100);
    for _ in 0..7 {
        flow.ack(0);
    }
    assert_eq!(flow.send(0), [0]);
    flow.at(200).ack(3);
    assert_eq!(flow.send(0), [3]);
    flow.at(300).ack(6);
    assert_eq!(flow.send(0), [6]);
    assert_eq!(flow.statistics().state, CongestionState::Recovery);
    flow.at(400).ack(10);
    assert_eq!(flow.statistics().state, CongestionState::Open);
    assert_eq!(flow.statistics().total_retransmits, 3);
}

#[test]
fn duplicates_after_a_timeout_start_no_fast_retransmit() {
    // RFC 6582, section 4: they may come from needless retransmissions.
    let mut flow = Flow::new(PLAIN);
    flow.send(10);
    assert_eq!(flow.expire(), (300, Expiry::Timeout));
    flow.send(0);
    flow.at(400).ack(10);
    assert_eq!(flow.statistics().state, CongestionState::Open);
    flow.send(4);
    for _ in 0..3 {
        flow.ack(10);
    }
    assert_eq!(flow.statistics().state, CongestionState::Disorder);
    assert_eq!(flow.statistics().lost, 0);
}

#[test]
fn only_the_holes_are_sent_again() {
    // RFC 6675, section 5.
    let mut flow = Flow::new(SACK);
    flow.send(10);
    let progress = flow.at(100).sack(0, &[8..10, 5..7, 1..4]);
    assert_eq!((progress.sacked, progress.lost), (7 * MSS, 3 * MSS));
    assert_eq!(flow.sender.pipe(), 0);
    assert_eq!(flow.send(0), [0, 4, 7][..flow.cwnd().min(3) as usize]);
    flow.at(200).ack(10);
    assert_eq!(flow.statistics().total_resent, 3 * MSS);
}

#[test]
fn a_late_segment_in_a_short_flight_is_lost_after_a_quarter_of_the_round_trip() {
    // RFC 8985, section 6.2: one report is no proof, a quarter of the smallest round trip later it is.
    let mut flow = Flow::new(SACK);
    flow.send(2);
    assert_eq!(flow.at(100).sack(0, &[1..2]).lost, 0);
    assert_eq!(flow.expire(), (125, Expiry::Ask));
    assert_eq!(flow.statistics().state, CongestionState::Recovery);
    assert_eq!(flow.send(0), [0]);
    assert_eq!(flow.sender.timeouts(), 0);
}

#[test]
fn a_path_that_reorders_is_given_time() {
    // RFC 8985, section 6.2, step 4: after a reordering, three reports are no proof.
    let mut flow = Flow::new(SACK);
    flow.send(10);
    flow.at(100).sack(0, &[1..2]);
    flow.at(101).sack(2, &[]);
    assert_eq!(flow.statistics().reorderings, 1);
    flow.at(102).ack(10);
    flow.send(10);
    assert_eq!(flow.at(200).sack(10, &[11..16]).lost, 0);
    assert_eq!(flow.statistics().state, CongestionState::Disorder);
    assert_eq!(flow.at(210).sack(16, &[]).lost, 0);
    assert_eq!(flow.statistics().total_resent, 0);
}

#[test]
fn a_report_of_a_needless_retransmission_doubles_the_tolerance() {
    // RFC 8985, section 6.2, step 4: a second quarter of the smallest round trip.
    let mut flow = Flow::new(SACK);
    flow.send(10);
    flow.at(100).sack(0, &[1..4]);
    assert_eq!(flow.send(0), [0]);
    flow.at(110).ack(10);
    flow.at(200).sack(10, &[0..1]);
    flow.send(2);
    flow.at(300).sack(10, &[11..12]);
    assert_eq!(flow.expire(), (350, Expiry::Ask));
    assert_eq!(flow.send(0), [10]);
}

#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    // RFC 8985: the retransmission of segment 0 is lost, and later data arrives.
    let mut flow = Flow::new(SACK);
    flow.send(10);
    flow.at(100).sack(0, &[1..10]);
    assert_eq!(flow.send(20)[0], 0);
    flow.at(101);
    let new = flow.send(20);
    let sent = flow.sender.nxt();
    assert!(sent > segments(0..10).end, "{new:?}");
    flow.at(205).sack(0, &[1..(sent - 1) / MSS]);
    flow.at(240);
    let lost_again = if flow.deadline() < Some(300) { flow.expire().1 } else { Expiry::Ask };
    assert_eq!(lost_again, Expiry::Ask);
    assert_eq!(flow.send(0), [0]);
    assert_eq!((flow.sender.timeouts(), flow.statistics().total_retransmits), (0, 2));
}

#[test]
fn a_loss_above_a_retransmission_is_found() {
    // Segments 0 and 5 are lost. The second loss shows while the first one is in flight again.
    let mut flow = Flow::new(SACK);
    flow.send(10);
    flow.at(100).sack(0, &[1..5]);
    assert_eq!(flow.send(0), [0]);
    assert_eq!(flow.at(101).sack(0, &[1..5, 6..10]).lost, MSS);
    assert_eq!(flow.send(0), [5]);
    flow.at(200).ack(10);
    assert_eq!(flow.statistics().total_retransmits, 2);
}

#[test]
fn a_tail_is_probed_after_two_round_trips() {
    // RFC 8985, section 7: the last of three segments is lost, and the probe repairs it.
    let mut flow = Flow::new(SACK);
    flow.send(3);
    flow.at(100).ack(2);
    // One segment is in flight: two round trips and the delay of an acknowledgement, but before the timeout.
    let (at_ms, expiry) = flow.expire();
    assert_eq!((at_ms, expiry), (400, Expiry::Probe(segments(2..3))));
    flow.sender.sent(segments(2..3), flow.now_ns);
    flow.at(500).ack(3);
    flow.send(1);
    flow.at(600).ack(4);
    // The probe repaired a loss, so the window is reduced (section 7.4).
    assert_eq!(flow.ssthresh(), 5);
    assert!(flow.sender.take_cwr());
    assert_eq!(flow.sender.timeouts(), 0);
}

#[test]
fn a_needless_probe_keeps_the_window() {
    // RFC 8985, section 7.4: the peer reports the probe as a duplicate.
    let mut flow = Flow::new(SACK);
    flow.send(3);
    let (at_ms, expiry) = flow.expire();
    assert_eq!((at_ms, expiry), (208, Expiry::Probe(segments(2..3))));
    flow.sender.sent(segments(2..3), flow.now_ns);
    flow.at(250).ack(3);
    flow.at(310).sack(3, &[2..3]);
    flow.send(1);
    flow.at(410).ack(4);
    assert!(flow.ssthresh() > 1000);
    assert_eq!(flow.statistics().state, CongestionState::Open);
    assert_eq!(flow.statistics().duplicates, MSS);
}

#[test]
fn a_lost_tail_behind_a_probe_is_recovered_without_a_timeout() {
    // Segments 5 to 9 are lost. The probe, segment 9 again, makes the peer report it.
    let mut flow = Flow::new(SACK);
    flow.send(10);
    flow.at(100).ack(5);
    let (at_ms, expiry) = flow.expire();
    assert_eq!((at_ms, expiry), (308, Expiry::Probe(segments(9..10))));
    flow.sender.sent(segments(9..10), flow.now_ns);
    let mut held = vec![9];
    let mut sent = Vec::new();
    for _ in 0..10 {
        flow.now_ns += 100 * MS;
        let next = (5..10).find(|segment| !held.contains(segment)).unwrap_or(10);
        flow.sack(next, &[9..10]);
        held.extend(flow.send(0));
        sent.push(held.len());
        if flow.sender.una() == flow.sender.nxt() {
            break;
        }
        if sent.last() == Some(&1) {
            assert_eq!(flow.expire().1, Expiry::Ask);
        }
    }
    assert_eq!(held, [9, 5, 6, 7, 8], "{sent:?}");
    assert_eq!(flow.sender.timeouts(), 0);
}

#[test]
fn a_reduction_sends_in_proportion_to_what_arrives() {
    // RFC 6937: of 40 segments in flight one is lost. The window halves over the round trip, without a pause or a burst.
    let mut flow = Flow::new(SACK);
    let base = flow.warm_up(40);
    assert_eq!(flow.send(200).len(), 40);
    flow.now_ns += 100 * MS;
    let mut sent = Vec::new();
    for count in 2..=40 {
        flow.sack(base, &[base + 1..base + count]);
        sent.push(flow.send(200).len());
    }
    assert_eq!(flow.statistics().state, CongestionState::Recovery);
    assert_eq!(flow.ssthresh(), 20);
    assert!(sent.iter().all(|&count| count <= 1), "{sent:?}");
    let total: usize = sent.iter().sum();
    assert!((19..=22).contains(&total), "{sent:?}");
    assert!(flow.sender.pipe() <= 20 * MSS);
    flow.now_ns += 100 * MS;
    flow.ack((flow.sender.nxt() - 1) / MSS);
    assert_eq!(flow.cwnd(), 20);
}

#[test]
fn a_peer_that_drops_what_it_reported_gets_it_again() {
    // RFC 2018, section 8.
    let mut flow = Flow::new(SACK);
    flow.send(4);
    flow.at(100).sack(0, &[0..3]);
    while flow.expire().1 != Expiry::Timeout {}
    assert_eq!(flow.statistics().sacked, 0);
    let mut sent = flow.send(0);
    for count in 1..4 {
        flow.now_ns += 100 * MS;
        flow.ack(count);
        sent.extend(flow.send(0));
    }
    assert_eq!(sent, [0, 1, 2, 3]);
}

#[test]
fn a_spurious_timeout_is_undone_by_the_echo() {
    // RFC 3522: the acknowledgement echoes a time before the retransmission.
    for (echo_ms, is_undone) in [(0, true), (299, true), (300, false), (310, false)] {
        let mut flow = Flow::new(PLAIN);
        flow.at(0).send(10);
        assert_eq!(flow.expire(), (300, Expiry::Timeout));
        assert_eq!(flow.cwnd(), 1);
        assert_eq!(flow.send(0), [0]);
        let progress = flow.at(350).take(1, &[], Some(echo_ms));
        assert_eq!(progress.is_undone, is_undone, "{echo_ms}");
        assert_eq!(flow.cwnd() >= 10, is_undone);
        assert_eq!(flow.ssthresh() > 1000, is_undone);
        assert_eq!(flow.statistics().lost > 0, !is_undone);
    }
}

#[test]
fn a_retransmission_in_the_tick_of_the_original_undoes_nothing() {
    let mut flow = Flow::new(SACK);
    flow.at(0).send(10);
    flow.sack(0, &[1..5]);
    flow.now_ns += MS / 2;
    assert_eq!(flow.send(0), [0]);
    flow.now_ns += MS / 4;
    assert!(!flow.take(10, &[], Some(0)).is_undone);
    assert_eq!(flow.ssthresh(), 5);
}

#[test]
fn a_spurious_timeout_is_undone_by_original_data() {
    // RFC 5682: the first acknowledgement moves, new data is sent, and the second one covers data that was sent once.
    let mut flow = Flow::new(PLAIN);
    flow.send(10);
    assert_eq!(flow.expire().1, Expiry::Timeout);
    assert_eq!(flow.send(10), [0]);
    flow.at(310).ack(1);
    assert_eq!(flow.send(10), [10, 11]);
    let progress = flow.at(320).ack(2);
    assert!(progress.is_undone);
    assert_eq!(flow.statistics().lost, 0);
    assert!(flow.cwnd() >= 10);
}

#[test]
fn a_genuine_timeout_is_not_undone() {
    // RFC 5682, step 3a: the new data causes duplicates.
    let mut flow = Flow::new(PLAIN);
    flow.send(10);
    flow.expire();
    flow.send(10);
    flow.at(400).ack(1);
    assert_eq!(flow.send(10), [10, 11]);
    assert!(!flow.at(500).ack(1).is_undone);
    assert_eq!(flow.send(10).first(), Some(&1));
    assert_eq!(flow.statistics().state, CongestionState::Loss);
    assert_eq!(flow.ssthresh(), 5);
}

#[test]
fn a_timeout_without_new_data_sends_the_rest_again() {
    // RFC 5682, step 2a.
    let mut flow = Flow::new(PLAIN);
    flow.send(10);
    flow.expire();
    flow.send(0);
    flow.at(400).ack(1);
    assert_eq!(flow.send(0), [1, 2]);
}

#[test]
fn duplicate_reports_of_every_retransmission_undo_the_reduction() {
    // RFC 3708: segment 0 was only late.
    let mut flow = Flow::new(SACK);
    flow.send(10);
    flow.at(100).sack(0, &[1..4]);
    assert_eq!(flow.send(0), [0]);
    assert!(!flow.at(110).ack(10).is_undone);
    assert_eq!(flow.cwnd(), 5);
    assert!(flow.at(200).sack(10, &[0..1]).is_undone);
    assert_eq!(flow.cwnd(), 10);
    assert_eq!(flow.statistics().duplicates, MSS);
}

#[test]
fn a_second_timeout_does_not_reduce_the_threshold_again() {
    // RFC 5681, section 3.1, equation 4.
    let mut flow = Flow::new(PLAIN);
    flow.send(10);
    flow.expire();
    flow.send(0);
    assert_eq!(flow.expire(), (900, Expiry::Timeout));
    assert_eq!((flow.ssthresh(), flow.cwnd()), (5, 1));
    assert_eq!(flow.send(0), [0]);
    assert_eq!(flow.sender.timeouts(), 2);
}
