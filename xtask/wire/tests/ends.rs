//! Ends that do unusual things: one that only counts how often it is asked, and one that spoils the frames of a peer.
use harness::random::Random;
use std::{
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixDatagram,
    },
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};
use wire::{
    Addresses, Faults, Line, Peer, Port, Settings, Stream, Wire,
    end::{End, Receipt},
};

/// An end that sends `left` frames, and counts how often the wire asks for one.
struct Asked {
    bell: UnixDatagram,
    count: Arc<AtomicU64>,
    left: usize,
}

impl Asked {
    fn new(count: &Arc<AtomicU64>, left: usize) -> Box<Asked> {
        Box::new(Asked { bell: UnixDatagram::unbound().unwrap(), count: count.clone(), left })
    }
}

impl End for Asked {
    fn hear(&mut self, _frame: &[u8], _now: Duration) -> Receipt {
        Receipt::Taken
    }
    fn say(&mut self, _now: Duration) -> anyhow::Result<Option<Vec<u8>>> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        Ok(is_left.then(|| vec![0; 60]))
    }
    fn wakes_at(&mut self, _now: Duration) -> Option<Duration> {
        None
    }
    fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// A wire that turns without cause turns far more often than this in a moment; a slow machine only turns less.
const TURNS: u64 = 200;
const MOMENT: Duration = Duration::from_millis(200);

#[test]
fn a_wire_sleeps_while_nothing_happens() {
    // A peer whose handle is gone, a machine that never reads, and frames that come in an hour.
    let port = Port::new().unwrap();
    let deaf = UnixDatagram::bind(port.machine_path()).unwrap();
    let slow = Faults { delay_us: 3_600_000_000, ..Faults::default() };
    let peer = || Box::new(Peer::new(&Addresses::of(1), 1).unwrap().0);
    let cases: [(Box<dyn End>, Faults); 3] =
        [(peer(), Faults::default()), (Box::new(port), Faults::default()), (peer(), slow)];
    for (other, faults) in cases {
        const FRAMES: usize = 500;
        let count = Arc::new(AtomicU64::new(0));
        let settings = Settings { faults: [faults; 2], ..Settings::default() };
        let wire = Wire::start(&settings, [Asked::new(&count, FRAMES), other]).unwrap();
        while wire.counters()[0].taken < FRAMES as u64 {
            thread::sleep(Duration::from_millis(1));
        }
        let before = count.load(Ordering::Relaxed);
        thread::sleep(MOMENT);
        let turns = count.load(Ordering::Relaxed) - before;
        assert!(turns < TURNS, "{turns} turns");
    }
    drop(deaf);
}

/// A peer with a few random bytes in each of its frames, headers too.
struct Vandal {
    peer: Peer,
    random: Random,
}

impl End for Vandal {
    fn hear(&mut self, frame: &[u8], now: Duration) -> Receipt {
        self.peer.hear(frame, now)
    }
    fn say(&mut self, now: Duration) -> anyhow::Result<Option<Vec<u8>>> {
        let frame = self.peer.say(now)?;
        Ok(frame.map(|mut frame| {
            // Some frames stay whole, so that connections come about.
            for _ in 0..self.random.below(4) {
                let at = self.random.below(frame.len());
                frame[at] = self.random.below(256) as u8;
            }
            frame.truncate(frame.len() - self.random.below(2) * self.random.below(frame.len()));
            frame
        }))
    }
    fn wakes_at(&mut self, now: Duration) -> Option<Duration> {
        self.peer.wakes_at(now)
    }
    fn bell(&self) -> BorrowedFd<'_> {
        self.peer.bell()
    }
}

#[test]
fn a_peer_survives_spoilt_frames() {
    let mut heard = 0;
    for seed in 1..=20 {
        let (peer, one) = Peer::new(&Addresses::of(1), seed).unwrap();
        let (other, _handle) = Peer::new(&Addresses::of(2), seed + 1).unwrap();
        let vandal = Vandal { peer, random: Random::new(seed) };
        let ends: [Box<dyn End>; 2] = [Box::new(vandal), Box::new(other)];
        let mut line = Line::new(&Settings::default(), ends).unwrap();
        let stream = Stream::Pattern { seed, length: 50_000 };
        let addresses = Addresses::of(2);
        let talks = [
            one.connect_to_echo((addresses.v4, 7).into(), stream.clone()),
            one.connect_to_sink((addresses.v6, 9).into(), stream),
        ];
        let is_over = || talks.iter().all(|talk| one.outcome(*talk).is_some());
        // The end does not matter: it may never come, or the wrong peer may have been asked.
        let _ = line.run_until(Duration::ZERO, Duration::from_secs(3600), is_over);
        heard += line.counters()[0].delivered;
    }
    assert!(heard > 1000, "{heard} frames");
}
