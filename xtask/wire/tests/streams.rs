//! Two peers over a bad wire, by a clock that jumps: every byte of every stream arrives, and a seed determines all that happens.
use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};
use wire::{
    Addresses, Faults, Line, Peer, Settings, Stream,
    lane::Counters,
    peer::{Asking, Handle, Kinds, Served, TalkId},
};

const FIRST: Addresses = Addresses::of(1);
const SECOND: Addresses = Addresses::of(2);
/// Far more time of the jumping clock than a run needs.
const LIMIT: Duration = Duration::from_secs(7200);

fn at(address: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(address.into(), port)
}

fn line(settings: &Settings) -> (Line, [Handle; 2]) {
    let (first, one) = Peer::new(&FIRST, settings.seed).unwrap();
    let (second, other) = Peer::new(&SECOND, settings.seed + 1).unwrap();
    (Line::new(settings, [Box::new(first), Box::new(second)]).unwrap(), [one, other])
}

/// Connections to every service, in both directions and over both protocols of IP; with the bytes that come to the caller.
fn talks([one, other]: &[Handle; 2], length: u64) -> Vec<(usize, TalkId, u64)> {
    let stream = |seed| Stream::Pattern { seed, length };
    let answer = format!("{}\n", stream(2).sum()).len() as u64;
    vec![
        (0, one.connect_to_echo(at(SECOND.v4, 7), stream(1)), length),
        (0, one.connect_to_sink(at(SECOND.v6, 9), stream(2)), answer),
        (0, one.connect_to_source(at(SECOND.v4, 19), 3, length), length),
        (1, other.connect_to_echo(at(FIRST.v6, 7), stream(4)), length),
        (1, other.connect_to_source(at(FIRST.v6, 19), 5, length), length),
        (
            1,
            other.connect(
                at(FIRST.v4, 11),
                Stream::Text(format!("7 {length} 6\n")),
                Stream::Text(format!("right {length}\n")),
            ),
            format!("right {length}\n").len() as u64,
        ),
    ]
}

/// The result of a run.
#[derive(Debug, PartialEq)]
struct Trace {
    time: Duration,
    counters: [Counters; 2],
    served: [Served; 2],
}

/// Runs all connections to their end, and judges them.
fn run(settings: &Settings, length: u64) -> Trace {
    let (mut line, handles) = line(settings);
    let talks = talks(&handles, length);
    let is_over = || talks.iter().all(|(side, talk, _)| handles[*side].outcome(*talk).is_some());
    let time = line.run_until(Duration::ZERO, LIMIT, is_over).unwrap();
    for (side, talk, wanted) in &talks {
        assert_eq!(handles[*side].outcome(*talk), Some(Ok(*wanted)), "connection {talk} of {side}");
    }
    let served = handles.each_ref().map(Handle::served);
    Trace { time, counters: line.counters(), served }
}

fn faults(share: f64) -> Faults {
    Faults {
        loss: share,
        duplication: share,
        corruption: share,
        reordering: share,
        delay_us: 500,
        jitter_us: 200,
        bytes_per_second: 0,
    }
}

fn both(seed: u64, faults: Faults) -> Settings {
    Settings { seed, faults: [faults; 2], ..Settings::default() }
}

#[test]
fn a_good_wire_changes_nothing() {
    let trace = run(&both(1, Faults::default()), 100_000);
    for of in trace.counters {
        assert_eq!((of.taken, of.lost, of.doubled, of.corrupted), (of.delivered, 0, 0, 0));
    }
    let [first, second] = trace.served;
    // The call of the second peer makes the first an echo's caller.
    assert_eq!((first.connections, second.connections), (3, 4));
    assert_eq!((first.echoed, second.echoed), (100_000, 200_000));
    assert_eq!(second.sunk, 100_000);
}

#[test]
fn every_byte_arrives_over_a_wire_that_harms_some_frames() {
    for (seed, share) in [(1, 0.01), (2, 0.03), (3, 0.10), (4, 0.05)] {
        let trace = run(&both(seed, faults(share)), 200_000);
        for of in trace.counters {
            let least = (of.taken as f64 * share / 3.0) as u64;
            for done in [of.lost, of.doubled, of.corrupted, of.reordered] {
                assert!(done > least, "{of:?}");
            }
        }
    }
}

#[test]
fn each_fault_alone_is_survived() {
    let none = Faults { delay_us: 100, ..Faults::default() };
    let all = [
        Faults { loss: 0.1, ..none },
        Faults { duplication: 0.5, ..none },
        Faults { corruption: 0.1, ..none },
        Faults { reordering: 0.3, ..none },
        Faults { jitter_us: 20_000, ..none },
        Faults { bytes_per_second: 100_000, ..none },
    ];
    for (seed, faults) in (1..).zip(all) {
        run(&both(seed, faults), 60_000);
    }
}

#[test]
fn the_directions_have_faults_of_their_own() {
    let lossy = Faults { loss: 0.1, ..Faults::default() };
    let settings = Settings { seed: 3, faults: [lossy, Faults::default()], ..Settings::default() };
    let [forth, back] = run(&settings, 50_000).counters;
    assert!(forth.lost > 0);
    assert_eq!(back.lost, 0);
}

#[test]
fn a_seed_determines_a_run() {
    let one = run(&both(11, faults(0.05)), 50_000);
    assert_eq!(one, run(&both(11, faults(0.05)), 50_000));
    assert_ne!(one, run(&both(12, faults(0.05)), 50_000));
}

#[test]
fn a_narrow_wire_takes_its_time() {
    let narrow = Faults { bytes_per_second: 50_000, ..Faults::default() };
    // Four streams of 50,000 bytes and what belongs to them go to the second peer.
    let time = run(&both(1, narrow), 50_000).time;
    assert!(time > Duration::from_secs(4), "{time:?}");
}

#[test]
fn a_wire_that_loses_all_brings_nothing() {
    let (mut line, [one, _other]) = line(&both(1, Faults { loss: 1.0, ..Faults::default() }));
    let talk = one.connect_to_echo(at(SECOND.v4, 7), Stream::Pattern { seed: 1, length: 10 });
    line.run_until(Duration::ZERO, LIMIT, || one.outcome(talk).is_some()).unwrap();
    assert!(one.outcome(talk).unwrap().is_err());
    let [forth, back] = line.counters();
    assert_eq!((forth.taken, forth.delivered, back.taken), (forth.lost, 0, 0));
}

#[test]
fn an_unexpected_byte_is_found() {
    let (mut line, [one, _other]) = line(&Settings::default());
    let (sent, expected) = (Stream::Text("abcdefg".to_owned()), Stream::Text("abcdeFg".to_owned()));
    let wrong = one.connect(at(SECOND.v4, 7), sent.clone(), expected);
    let short = one.connect(at(SECOND.v4, 7), sent.clone(), Stream::Text("abcdefgh".to_owned()));
    let long = one.connect(at(SECOND.v4, 7), sent.clone(), Stream::Text("abcdef".to_owned()));
    let closed = one.connect(at(SECOND.v4, 8), sent, Stream::nothing());
    let all = [wrong, short, long, closed];
    let is_over = || all.iter().all(|talk| one.outcome(*talk).is_some());
    line.run_until(Duration::ZERO, LIMIT, is_over).unwrap();
    let whys = all.map(|talk| one.outcome(talk).unwrap().unwrap_err());
    assert_eq!(
        whys,
        [
            "byte 5 is wrong",
            "7 of 8 bytes came",
            "byte 6 is wrong",
            "it was reset after 0 bytes had come",
        ]
    );
}

#[test]
fn datagrams_come_back() {
    let (mut line, [one, other]) = line(&Settings::default());
    let all = [at(SECOND.v4, 7), at(SECOND.v6, 7)];
    for to in all {
        one.send_datagram(to, b"a datagram").unwrap();
    }
    line.run_until(Duration::ZERO, LIMIT, || one.datagrams().len() == 2).unwrap();
    let mut came = one.datagrams();
    came.sort();
    assert_eq!(came, all.map(|from| (from, b"a datagram".to_vec())));
    assert_eq!(other.served().datagrams, 2);
}

/// The blocks of a capture: their kind and body.
fn blocks(path: &Path) -> Vec<(u32, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let word = |at: &[u8]| u32::from_le_bytes(at[..4].try_into().unwrap());
    let mut all = Vec::new();
    while !rest.is_empty() {
        let length = word(&rest[4..]) as usize;
        assert_eq!(length % 4, 0);
        assert_eq!(word(&rest[length - 4..length]) as usize, length);
        all.push((word(rest), rest[8..length - 4].to_vec()));
        rest = &rest[length..];
    }
    all
}

#[test]
fn a_capture_holds_every_frame_with_its_sender_and_its_fate() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pcapng");
    let settings = Settings { capture: Some(path.clone()), ..both(2, faults(0.05)) };
    let counters = run(&settings, 20_000).counters;
    let blocks = blocks(&path);
    let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).take(4).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 6]);
    assert_eq!(blocks[0].1[..8], [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
    let word = |body: &[u8], at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
    let mut last = 0;
    let (mut taken, mut lost, mut flipped) = ([0; 2], [0; 2], [0; 2]);
    for (_, body) in blocks.iter().filter(|(kind, _)| *kind == 6) {
        let end = word(body, 0) as usize;
        let time = (u64::from(word(body, 4)) << 32) | u64::from(word(body, 8));
        assert!(time >= last);
        last = time;
        let length = word(body, 12) as usize;
        assert_eq!(length, word(body, 16) as usize);
        let sender = [FIRST, SECOND][end].ethernet;
        assert_eq!(body[20 + 6..20 + 12], sender, "as the sender gave it");
        let options = &body[20 + length.next_multiple_of(4)..];
        let marks = String::from_utf8_lossy(options);
        taken[end] += 1;
        lost[end] += u64::from(marks.contains("lost"));
        flipped[end] += u64::from(marks.contains("flipped"));
    }
    // The last frames that are counted may not have been written, but the capture ends with the line.
    assert_eq!(taken, counters.map(|of| of.taken));
    assert_eq!(lost, counters.map(|of| of.lost));
    assert_eq!(flipped, counters.map(|of| of.corrupted));
}

#[test]
fn every_question_is_answered_over_a_bad_wire() {
    let bad = Faults {
        loss: 0.05,
        duplication: 0.05,
        corruption: 0.05,
        reordering: 0.1,
        delay_us: 500,
        jitter_us: 500,
        ..Faults::default()
    };
    let (mut line, [one, _other]) = line(&Settings { faults: [bad; 2], ..Settings::default() });
    let mut now = Duration::ZERO;
    for kinds in [Kinds::All, Kinds::Pings] {
        one.ask(Asking { to: SECOND, count: 3000, at_once: 32, kinds });
        let answers = || one.answers().unwrap();
        let is_over = || answers().answered == 3000 || answers().wrong.is_some();
        now = line.run_until(now, LIMIT, is_over).unwrap();
        let answers = answers();
        assert_eq!((answers.answered, &answers.wrong), (3000, &None));
        assert!(answers.repeated > 100 && answers.doubled > 100, "{answers:?}");
    }
}
