//! Two connections over a virtual link that loses, reorders and duplicates packets, with kills of the stacks. Every byte arrives in
//! order, or the connection ends with an error.
use labels::SecrecyId;
use std::collections::{BTreeMap, BinaryHeap};
use tcp::{clock::*, *};

/// A generator of pseudorandom numbers (xorshift), so that a seed names a run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The byte at a stream offset; each side has its own salt.
fn byte(salt: u64, offset: u64) -> u8 {
    ((offset ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The parameters of a run.
#[derive(Clone, Copy)]
struct Weather {
    loss: u64,
    duplicates: u64,
    jitter_ms: u64,
    kills: u64,
    bytes: u64,
    room: u64,
    /// Share of packets that routers mark, in percent.
    marks: u64,
    /// Programs switch TCP_NODELAY and TCP_CORK, and the path's MTU changes.
    has_moods: bool,
    settings: Settings,
}

/// One end.
struct End {
    connection: Connection,
    salt: u64,
    /// Bytes to write in all.
    total: u64,
    /// Bytes that arrived and were not read, by offset.
    held: BTreeMap<u64, u8>,
    room: u64,
    is_over: bool,
    peer_closed: bool,
    edge: u64,
}

impl End {
    fn new(connection: Connection, salt: u64, weather: &Weather) -> End {
        End {
            connection,
            salt,
            total: weather.bytes,
            held: BTreeMap::new(),
            room: weather.room,
            is_over: false,
            peer_closed: false,
            edge: 0,
        }
    }

    fn free(&self) -> u64 {
        let unread = self.connection.received() - self.connection.read();
        self.room.saturating_sub(unread)
    }

    fn input(&mut self, now: u64, segment: &TcpSegment, payload: &[u8]) {
        let arrival = self.connection.input(now, segment, self.free());
        self.store(&arrival, payload);
        self.note(arrival.events);
    }

    fn store(&mut self, arrival: &Arrival, payload: &[u8]) {
        let Some(place) = arrival.payload else { return };
        let kept = &payload[place.skip as usize..(place.skip + place.length) as usize];
        for (at, value) in kept.iter().enumerate() {
            self.held.insert(place.offset + at as u64, *value);
        }
        if place.is_in_order {
            assert!(self.connection.received() >= place.offset + u64::from(place.length));
        }
    }

    fn note(&mut self, events: TcpEvents) {
        self.peer_closed |= events.contains(TcpEvents::PEER_CLOSED);
        self.is_over |= events.intersects(TcpEvents::CLOSED | TcpEvents::TIME_WAIT);
        assert!(self.connection.window_edge() >= self.edge, "the window shrank");
        self.edge = self.connection.window_edge();
    }

    /// Writes and reads some, closes at the end.
    fn work(&mut self, random: &mut Random) {
        let state = self.connection.state();
        if !state.is_synchronized() {
            return;
        }
        let unacked = self.connection.written() - self.connection.acked();
        let more = random.below(30_000).min(self.total - self.connection.written());
        if unacked < 200_000 {
            self.connection.write_to(self.connection.written() + more);
        }
        let start = self.connection.read();
        let count = random.below(20_000).min(self.connection.received() - start);
        for offset in start..start + count {
            let value = self.held.remove(&offset);
            assert_eq!(value, Some(byte(!self.salt, offset)), "byte {offset}");
        }
        let free = self.free() + count;
        self.connection.read_to(start + count, free);
        if self.connection.written() == self.total && self.connection.read() == self.total {
            self.connection.shutdown_write();
        }
    }

    /// Changes options of the socket, or the path.
    fn change_mood(&mut self, now: u64, random: &mut Random) {
        let mut settings = *self.connection.settings();
        match random.below(20) {
            0 => settings.no_delay = !settings.no_delay,
            1 => settings.cork = !settings.cork,
            2 => settings.keepalive = !settings.keepalive,
            3 => return self.connection.set_quick_ack(QuickAck::Off),
            4 => return self.connection.mark_urgent_byte(),
            5 => return self.connection.set_path_mss(500 + random.below(1000) as u16),
            _ => return,
        }
        self.connection.set_settings(now, settings);
    }

    /// Kills the stack and makes the connection again.
    fn kill(&mut self, now: u64, settings: Settings) -> bool {
        let Some(kept) = self.connection.kept() else { return false };
        self.held.retain(|offset, _| *offset < kept.received);
        self.connection = Connection::rebuild(now, &kept, settings, self.free()).unwrap();
        assert_eq!(self.connection.kept().map(|again| again.sent), Some(kept.sent));
        true
    }
}

/// A packet on the way; the heap gives the earliest first.
#[derive(PartialEq, Eq)]
struct Packet {
    at: u64,
    number: u64,
    to: usize,
    segment: TcpSegment,
    payload: Vec<u8>,
}

impl Ord for Packet {
    fn cmp(&self, other: &Packet) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Packet {
    fn partial_cmp(&self, other: &Packet) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A run between a client, end 0, and a server, end 1.
struct Run {
    random: Random,
    weather: Weather,
    now: u64,
    ends: [Option<End>; 2],
    listener: Listener,
    secret: Secret,
    link: BinaryHeap<Packet>,
    count: u64,
    kills: u64,
}

const SALT: u64 = 0x1234_5678;

fn flow(end: usize) -> Flow {
    let flow = Flow {
        local: [1; 16],
        remote: [2; 16],
        local_port: 1,
        remote_port: 2,
        label: SecrecyId::NONE,
    };
    if end == 0 {
        return flow;
    }
    Flow {
        local: flow.remote,
        remote: flow.local,
        local_port: 2,
        remote_port: 1,
        label: SecrecyId::NONE,
    }
}

impl Run {
    fn new(seed: u64, weather: Weather) -> Run {
        let secret = Secret::new([3; 16]);
        let now = 1000 * SECOND;
        let connection = *Connection::connect(
            now,
            &flow(0),
            &secret,
            weather.settings,
            weather.room,
            FastOpen::Off,
        );
        let child = weather.settings;
        Run {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            weather,
            now,
            ends: [Some(End::new(connection, SALT, &weather)), None],
            listener: Listener::new(ListenerSettings { child, ..Default::default() }),
            secret,
            link: BinaryHeap::new(),
            count: 0,
            kills: 0,
        }
    }

    fn transmit(&mut self, to: usize, mut segment: TcpSegment, payload: Vec<u8>) {
        segment.is_marked = self.random.chance(self.weather.marks);
        let copies = if self.random.chance(self.weather.duplicates) { 2 } else { 1 };
        for _ in 0..copies {
            if !self.random.chance(self.weather.loss) {
                let delay = 10 + self.random.below(self.weather.jitter_ms + 1);
                self.count += 1;
                let at = self.now + delay * MILLISECOND;
                let number = self.count;
                self.link.push(Packet { at, number, to, segment, payload: payload.clone() });
            }
        }
    }

    fn flush(&mut self) {
        for from in 0..2 {
            let limit = 1 + self.random.below(20_000) as u32;
            while let Some(out) =
                self.ends[from].as_mut().and_then(|end| end.connection.output(self.now, limit))
            {
                let salt = self.ends[from].as_ref().unwrap().salt;
                self.segments(1 - from, salt, &out);
            }
        }
    }

    /// Cuts a transmission into segments, as segmentation offload does.
    fn segments(&mut self, to: usize, salt: u64, out: &Outgoing) {
        let length = out.payload.end - out.payload.start;
        assert_eq!(length, u64::from(out.segment.length));
        let mss = u64::from(out.mss.max(1));
        let mut at = 0;
        loop {
            let part = mss.min(length - at);
            let mut segment = out.segment;
            segment.seq = segment.seq.wrapping_add(at as u32);
            segment.length = part as u32;
            if at + part < length {
                segment.flags -= TcpFlags::FIN | TcpFlags::PSH;
            }
            let start = out.payload.start + at;
            let payload = (start..start + part).map(|offset| byte(salt, offset)).collect();
            self.transmit(to, segment, payload);
            at += part;
            if at >= length {
                break;
            }
        }
    }

    fn deliver(&mut self, packet: &Packet) {
        if let Some(end) = &mut self.ends[packet.to] {
            return end.input(self.now, &packet.segment, &packet.payload);
        }
        let context = Context {
            now_ns: self.now,
            flow: flow(1),
            secret: &self.secret,
            room: self.weather.room,
            headers: None,
        };
        match self.listener.input(&context, &packet.segment, None) {
            ListenerReply::Drop => {}
            ListenerReply::Send(segment) => self.transmit(0, segment, Vec::new()),
            ListenerReply::Child(child, arrival) => {
                let mut end = End::new(*child, !SALT, &self.weather);
                end.store(&arrival, &packet.payload);
                end.note(arrival.events);
                self.ends[1] = Some(end);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.ends.iter().flatten().filter(|end| end.is_over).count() == 2
    }

    fn next_time(&self) -> Option<u64> {
        let timers = self.ends.iter().flatten().filter_map(|end| end.connection.deadline());
        let packets = self.link.peek().map(|packet| packet.at);
        timers.chain(packets).chain(self.listener.deadline()).min()
    }

    fn step(&mut self) -> bool {
        // The programs work at least every 20 ms.
        let wake = self.now + 20 * MILLISECOND;
        self.now = self.next_time().unwrap_or(wake).clamp(self.now, wake);
        while self.link.peek().is_some_and(|packet| packet.at <= self.now) {
            let packet = self.link.pop().unwrap();
            self.deliver(&packet);
            self.flush();
        }
        while let Some((_, segment)) = self.listener.output(self.now) {
            self.transmit(0, segment, Vec::new());
        }
        for at in 0..2 {
            let Some(end) = &mut self.ends[at] else { continue };
            let events = end.connection.expired(self.now);
            end.note(events);
            end.work(&mut self.random);
            if self.weather.has_moods {
                end.change_mood(self.now, &mut self.random);
            }
            if self.random.below(1000) < self.weather.kills
                && end.kill(self.now, self.weather.settings)
            {
                self.kills += 1;
            }
        }
        self.flush();
        !self.is_done()
    }

    /// Runs to the end. Returns whether all bytes arrived, as opposed to an error.
    fn run(&mut self) -> bool {
        for _ in 0..2_000_000 {
            if !self.step() {
                break;
            }
        }
        let states: Vec<_> = self
            .ends
            .iter()
            .flatten()
            .map(|end| format!("{:?}", end.connection.kept().ok_or(end.connection.state())))
            .collect();
        let errors: Vec<_> =
            self.ends.iter().flatten().filter_map(|end| end.connection.error()).collect();
        if !errors.is_empty() {
            return false;
        }
        assert!(self.is_done(), "stalled: {states:#?}");
        for end in self.ends.iter().flatten() {
            assert!(end.peer_closed);
            assert_eq!(end.connection.read(), end.total);
        }
        true
    }
}

fn weather() -> Weather {
    Weather {
        loss: 0,
        duplicates: 0,
        jitter_ms: 0,
        kills: 0,
        bytes: 100_000,
        room: 50_000,
        marks: 0,
        has_moods: false,
        settings: Settings::default(),
    }
}

/// Runs seeds; returns the number of runs without an error and the number of kills.
fn runs(seeds: std::ops::Range<u64>, weather: Weather) -> (u64, u64) {
    let (mut good, mut kills) = (0, 0);
    for seed in seeds {
        eprintln!("seed {seed}");
        let mut run = Run::new(seed, weather);
        good += u64::from(run.run());
        kills += run.kills;
    }
    (good, kills)
}

#[test]
fn a_clean_link_carries_all_bytes() {
    assert_eq!(runs(1..6, weather()).0, 5);
}

#[test]
fn a_lossy_link_carries_all_bytes() {
    let bad = Weather { loss: 5, duplicates: 3, jitter_ms: 30, ..weather() };
    assert_eq!(runs(1..21, bad).0, 20);
}

#[test]
fn a_terrible_link_carries_all_bytes_or_tells() {
    let bad = Weather { loss: 25, duplicates: 20, jitter_ms: 200, bytes: 20_000, ..weather() };
    assert!(runs(1..21, bad).0 > 10);
}

#[test]
fn small_windows_do_not_stall() {
    let small = Weather { loss: 3, jitter_ms: 5, room: 700, bytes: 10_000, ..weather() };
    assert_eq!(runs(1..11, small).0, 10);
}

#[test]
fn connections_without_options_carry_all_bytes() {
    let settings =
        Settings { sack: false, timestamps: false, window_scaling: false, ..Settings::default() };
    let bad = Weather { loss: 5, duplicates: 3, jitter_ms: 30, settings, ..weather() };
    assert_eq!(runs(1..16, bad).0, 15);
}

#[test]
fn kills_of_both_stacks_lose_no_byte() {
    let bad = Weather { loss: 3, duplicates: 3, jitter_ms: 30, kills: 20, ..weather() };
    let (good, kills) = runs(1..31, bad);
    assert!(good == 30 && kills > 100, "{good} runs, {kills} kills");
}

#[test]
fn kills_without_options_and_with_small_windows_lose_no_byte() {
    let settings =
        Settings { sack: false, timestamps: false, window_scaling: false, ..Settings::default() };
    let bad = Weather {
        loss: 3,
        jitter_ms: 10,
        kills: 25,
        room: 3000,
        bytes: 30_000,
        settings,
        ..weather()
    };
    let (good, kills) = runs(1..16, bad);
    assert!(good == 15 && kills > 30, "{good} runs, {kills} kills");
}

#[test]
fn programs_that_change_options_and_paths_lose_no_byte() {
    let settings = Settings { ecn: Ecn::Request, ..Settings::default() };
    let bad = Weather {
        loss: 3,
        duplicates: 3,
        jitter_ms: 30,
        marks: 5,
        has_moods: true,
        settings,
        ..weather()
    };
    assert_eq!(runs(1..16, bad).0, 15);
}

#[test]
fn programs_that_change_options_survive_kills() {
    let bad =
        Weather { loss: 2, jitter_ms: 20, kills: 10, has_moods: true, room: 9000, ..weather() };
    let (good, kills) = runs(1..13, bad);
    assert!(good == 12 && kills > 30, "{good} runs, {kills} kills");
}
