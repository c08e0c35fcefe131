//! Transfers over a simulated link: they end, and they use it.
mod link;

use link::{Link, MS, MSS, SECOND, Transfer, run};
use recovery::Algorithm;
use xorshift::Xorshift;

/// Runs a link with every algorithm.
fn each(link: Link, check: impl Fn(&Link, &Transfer)) {
    for algorithm in Algorithm::ALL {
        for has_timestamps in [true, false] {
            let link = Link { algorithm, has_timestamps, ..link };
            check(&link, &run(link));
        }
    }
}

#[test]
fn a_clean_link_is_used() {
    each(Link { bytes: 50_000_000, ..Link::default() }, |link, transfer| {
        assert!(transfer.utilisation(link) >= 93, "{transfer:?}");
        assert_eq!((transfer.timeouts, transfer.undone), (0, 0));
        assert_eq!(transfer.resent_bytes, transfer.dropped * MSS, "{transfer:?}");
    });
}

#[test]
fn hystart_overshoots_a_deep_queue_less() {
    // RFC 9406. The queue holds four round trips.
    let link = Link { queue_bytes: 1_000_000, bytes: 5_000_000, ..Link::default() };
    let (with, without) = (run(link), run(Link { algorithm: Algorithm::Reno, ..link }));
    assert!(with.dropped * 2 < without.dropped, "{with:?} {without:?}");
    assert!(with.utilisation(&link) >= 75, "{with:?}");
}

#[test]
fn one_loss_in_a_hundred_needs_no_timeout() {
    for seed in 1..=5 {
        each(Link { loss: 10_000, seed, ..Link::default() }, |link, transfer| {
            assert_eq!(transfer.timeouts, 0, "{link:?} {transfer:?}");
            // 1448 B / 20 ms * sqrt(3/2) / sqrt(0.01) = 890 kB/s is the model of Reno (RFC 5348).
            let rate = link.bytes * SECOND / transfer.time_ns;
            assert!((600_000..2_000_000).contains(&rate), "{rate} {transfer:?}");
            assert!(transfer.resent_bytes < link.bytes / 50, "{transfer:?}");
        });
    }
}

#[test]
fn rare_losses_cost_cubic_less_than_reno() {
    // RFC 9438, section 5.2.
    let total = |algorithm| -> u64 {
        let link = Link { loss: 100, bytes: 50_000_000, algorithm, ..Link::default() };
        (1..=6).map(|seed| run(Link { seed, ..link })).map(|transfer| transfer.time_ns).sum()
    };
    let (cubic, reno) = (total(Algorithm::Cubic), total(Algorithm::Reno));
    assert!(cubic < reno, "{cubic} {reno}");
    // Four seconds would be the whole link.
    assert!(cubic < 6 * 5 * SECOND, "{cubic}");
}

#[test]
fn heavy_losses_do_not_stop_a_transfer() {
    for seed in 1..=10 {
        for has_sack in [true, false] {
            let link = Link {
                loss: 300_000,
                ack_loss: 200_000,
                bytes: 100_000,
                has_sack,
                seed,
                ..Link::default()
            };
            run(link);
        }
    }
}

#[test]
fn reordering_is_tolerated() {
    each(
        Link { reorder: 20_000, reorder_ns: 4 * MS, queue_bytes: 4_000_000, ..Link::default() },
        |link, transfer| {
            assert!(transfer.reorderings > 0);
            assert_eq!(transfer.timeouts, 0, "{transfer:?}");
            assert!(transfer.resent_bytes < link.bytes / 10, "{transfer:?}");
            assert!(transfer.utilisation(link) >= 40, "{transfer:?}");
        },
    );
}

#[test]
fn an_outage_is_survived() {
    each(Link { outage: (300 * MS, 2300 * MS), ..Link::default() }, |link, transfer| {
        assert!((1..=6).contains(&transfer.timeouts), "{transfer:?}");
        assert!(transfer.time_ns < 2300 * MS + 4 * SECOND, "{link:?} {transfer:?}");
    });
}

#[test]
fn a_stalled_link_causes_almost_no_needless_retransmission() {
    let link = Link { stall: (300 * MS, 900 * MS), window: 250_000, ..Link::default() };
    each(link, |_, transfer| {
        assert!(transfer.timeouts >= 1 && transfer.undone >= 1, "{transfer:?}");
        assert!(transfer.resent_bytes <= 16 * MSS, "{transfer:?}");
    });
}

#[test]
fn a_lost_tail_is_repaired_without_a_timeout() {
    // The last of 20 segments is lost: a probe repairs it two round trips later.
    let link = Link { bytes: 20 * MSS, drop_once: Some(20), ..Link::default() };
    let transfer = run(link);
    assert_eq!((transfer.timeouts, transfer.probes), (0, 1));
    assert!(transfer.time_ns < 400 * MS, "{transfer:?}");
}

#[test]
fn marks_keep_the_queue_short_without_loss() {
    each(Link { has_ecn: true, bytes: 50_000_000, ..Link::default() }, |link, transfer| {
        assert_eq!((transfer.dropped, transfer.resent_bytes), (0, 0));
        assert!(transfer.reductions > 1);
        assert!(transfer.utilisation(link) >= 70, "{transfer:?}");
    });
}

#[test]
fn random_links_carry_everything() {
    for seed in 1..=150 {
        let mut random = Xorshift::new(seed);
        let mut pick = |limit: u64| random.next() % limit;
        let link = Link {
            bytes: 1 + pick(400_000),
            one_way_ns: 10_000 + pick(100 * MS),
            bytes_per_second: 20_000 + pick(50_000_000),
            queue_bytes: 3000 + pick(500_000),
            loss: pick(4) * pick(50_000),
            ack_loss: pick(4) * pick(50_000),
            reorder: pick(3) * pick(100_000),
            reorder_ns: 1 + pick(50 * MS),
            duplicate: pick(2) * pick(100_000),
            window: 1 + pick(1 << 20),
            has_sack: pick(4) != 0,
            has_timestamps: pick(2) != 0,
            algorithm: Algorithm::ALL[pick(2) as usize],
            seed,
            has_ecn: pick(3) == 0,
            ..Link::default()
        };
        run(link);
    }
}
