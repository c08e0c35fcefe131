//! Hostile packets for a whole host, in virtual time (docs/network.md, "Hostile packets").
//!
//! `SKERRY_FUZZ_COUNT` is the number of packets (30,000 by default), `SKERRY_FUZZ_SEED` the first seed, by which one life can be
//! repeated: `SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED=N`. `./x campaign packets` sends ten million.
mod audit;
mod card;
mod forge;
mod kinds;
mod life;
mod peer;
mod programs;

use life::{Life, PACKETS, Tally};
use std::{
    panic::catch_unwind,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use xorshift::variable;

const COUNT: u64 = 30_000;
/// Longest time of one life, in seconds of the host's clock: it is many times what one takes.
const LIMIT: Duration = Duration::from_secs(120);

/// The lives of a run, and what came of those that are over.
struct Run {
    next: AtomicU64,
    end: u64,
    packets: AtomicU64,
    has_failed: AtomicBool,
    total: Mutex<Tally>,
}

/// Lives the life of a seed. Returns `None` if it failed.
fn live(seed: u64) -> Option<Tally> {
    let outcome = catch_unwind(|| {
        let mut life = Life::new(seed);
        while life.tally.packets < PACKETS {
            life.step();
        }
        life.end()
    });
    if outcome.is_err() {
        eprintln!("seed {seed} fails: SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED={seed} repeats it");
    }
    outcome.ok()
}

/// Ends the process, naming the seed, when a life takes too long.
fn watch(run: &Run, current: &[AtomicU64]) {
    let mut seen: Vec<_> = current.iter().map(|_| (u64::MAX, Instant::now())).collect();
    let mut told = Instant::now();
    while current.iter().any(|one| one.load(Relaxed) != u64::MAX) {
        thread::sleep(Duration::from_millis(50));
        for (seen, now) in seen.iter_mut().zip(current) {
            let now = now.load(Relaxed);
            if seen.0 != now {
                *seen = (now, Instant::now());
            } else if now != u64::MAX && seen.1.elapsed() > LIMIT {
                eprintln!("seed {now} hangs");
                std::process::exit(101);
            }
        }
        if told.elapsed() > Duration::from_secs(2) {
            told = Instant::now();
            eprint!("\r{} packets ", run.packets.load(Relaxed));
        }
    }
}

/// Lives one life after another, until all are over or one has failed.
fn work(run: &Run, current: &AtomicU64) {
    while !run.has_failed.load(Relaxed) {
        let seed = run.next.fetch_add(1, Relaxed);
        if seed >= run.end {
            break;
        }
        current.store(seed, Relaxed);
        let Some(tally) = live(seed) else {
            run.has_failed.store(true, Relaxed);
            break;
        };
        run.packets.fetch_add(tally.packets, Relaxed);
        run.total.lock().unwrap().add(&tally);
    }
    current.store(u64::MAX, Relaxed);
}

#[test]
fn a_host_outlives_hostile_packets() {
    let first = variable("SKERRY_FUZZ_SEED", 1);
    let count = variable("SKERRY_FUZZ_COUNT", COUNT).div_ceil(PACKETS);
    let run = Run {
        next: AtomicU64::new(first),
        end: first + count,
        packets: AtomicU64::new(0),
        has_failed: AtomicBool::new(false),
        total: Mutex::default(),
    };
    let current = [0, 1].map(|_| AtomicU64::new(0));
    thread::scope(|scope| {
        current.iter().for_each(|one| _ = scope.spawn(|| work(&run, one)));
        watch(&run, &current);
    });
    let total = run.total.into_inner().unwrap();
    println!("{total:?}");
    assert!(!run.has_failed.into_inner(), "a life failed");
    // If little got through, the packets would test no more than the first checks.
    let packets = total.packets;
    assert!(packets == count * PACKETS && total.answers > packets / 20, "{total:?}");
    assert!(total.accepted > count && total.heard > packets / 100, "{total:?}");
    assert!(total.read > packets && total.watched > packets, "{total:?}");
}
