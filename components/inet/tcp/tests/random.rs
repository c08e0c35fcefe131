//! Random segments and calls against a connection and a listener: no panic, counters stay in order, timers make progress.
use labels::SecrecyId;
use proptest::prelude::*;
use tcp::{clock::*, *};

const START: u64 = 1000 * SECOND;
const ROOM: u64 = 20_000;

/// One step against a connection.
#[derive(Clone, Debug)]
enum Step {
    TcpSegment {
        seq: i32,
        ack: i32,
        flags: u8,
        window: u16,
        urgent: u16,
        length: u32,
        clock: Option<(i32, i32)>,
        sack: Vec<(i32, i32)>,
    },
    Wild(u32, u32, u8, u16, u32),
    Write(u16),
    Urgent,
    Read(u16),
    Wait(u32),
    Timer,
    Close,
    Shutdown,
    Abort,
    Kill,
    Icmp(u8, i32),
    Option(u8),
}

fn near() -> impl Strategy<Value = i32> {
    prop_oneof![4 => Just(0), 3 => -3000..3000_i32, 1 => any::<i32>()]
}

fn step() -> impl Strategy<Value = Step> {
    let clock = proptest::option::weighted(0.8, (-5..50_i32, -100..10_i32));
    let flags = prop_oneof![8 => Just(16_u8), 2 => Just(24), 2 => Just(17), 1 => any::<u8>()];
    let length = prop_oneof![Just(0), 1..3000_u32, Just(1460)];
    let segment =
        (
            near(),
            near(),
            flags,
            any::<u16>(),
            any::<u16>(),
            length,
            clock,
            prop::collection::vec((near(), near()), 0..4),
        )
            .prop_map(|(seq, ack, flags, window, urgent, length, clock, sack)| {
                Step::TcpSegment { seq, ack, flags, window, urgent, length, clock, sack }
            });
    prop_oneof![
        12 => segment,
        1 => (any::<u32>(), any::<u32>(), any::<u8>(), any::<u16>(), 0..65536_u32).prop_map(|(a, b, c, d, e)| Step::Wild(a, b, c, d, e)),
        4 => any::<u16>().prop_map(Step::Write),
        1 => Just(Step::Urgent),
        4 => any::<u16>().prop_map(Step::Read),
        3 => (0..3_000_000_u32).prop_map(Step::Wait),
        4 => Just(Step::Timer),
        1 => Just(Step::Close),
        1 => Just(Step::Shutdown),
        1 => prop_oneof![9 => Just(Step::Timer), 1 => Just(Step::Abort)],
        1 => Just(Step::Kill),
        1 => (0..5_u8, near()).prop_map(|(kind, seq)| Step::Icmp(kind, seq)),
        1 => any::<u8>().prop_map(Step::Option),
    ]
}

/// A connection under test, with the values that it showed last.
struct Bench {
    connection: Connection,
    now: u64,
    /// The last sequence and acknowledgement number that the connection sent.
    seq: u32,
    ack: u32,
    clock: u32,
    counters: [u64; 6],
}

impl Bench {
    fn room(&self) -> u64 {
        ROOM.saturating_sub(self.connection.received() - self.connection.read())
    }

    fn flush(&mut self) {
        for count in 0.. {
            assert!(count < 3000, "output does not end");
            let Some(out) = self.connection.output(self.now, 5000) else { break };
            assert!(out.payload.start <= out.payload.end);
            assert_eq!(out.payload.end - out.payload.start, u64::from(out.segment.length));
            let is_syn = out.segment.has(TcpFlags::SYN);
            assert!(
                is_syn || out.payload.is_empty() || out.payload.end <= self.connection.written()
            );
            if !out.segment.has(TcpFlags::RST) {
                (self.seq, self.ack) = (out.segment.end(), out.segment.ack);
            }
            if let Some(clock) = out.segment.options.timestamps {
                self.clock = clock.value;
            }
        }
    }

    fn counters(&self) -> [u64; 6] {
        let one = &self.connection;
        [one.acked(), one.sent(), one.written(), one.read(), one.received(), one.window_edge()]
    }

    fn check(&mut self) {
        let counters = self.counters();
        let [acked, sent, written, read, received, edge] = counters;
        assert!(acked <= sent && sent <= written, "{counters:?}");
        assert!(read <= received, "{counters:?}");
        assert!(received <= edge || edge == 0, "{counters:?}");
        let is_growing = counters.iter().zip(&self.counters).all(|(new, old)| new >= old);
        assert!(is_growing, "{:?} then {counters:?}", self.counters);
        self.counters = counters;
        let _ = self.connection.info(self.now);
    }

    fn input(&mut self, segment: &TcpSegment) {
        let before = self.connection.received();
        let arrival = self.connection.input(self.now, segment, self.room());
        if let Some(place) = arrival.payload {
            assert!(place.length > 0 && place.skip + place.length <= segment.length);
            assert!(place.offset >= before);
            assert!(place.offset + u64::from(place.length) <= self.connection.window_edge());
            assert_eq!(place.is_in_order, place.offset == before);
        }
    }

    /// The segment of a step whose numbers are near those of the connection. `None` for another step.
    fn near_segment(&self, step: &Step) -> Option<TcpSegment> {
        let Step::TcpSegment { seq, ack, flags, window, urgent, length, clock, sack } = step else {
            return None;
        };
        let now = 1000_u32.wrapping_add((self.now / MILLISECOND) as u32);
        let timestamps = clock.map(|(value, echo)| Timestamps {
            value: now.wrapping_add(value as u32),
            echo: self.clock.wrapping_add(echo as u32),
        });
        let mut options = SegmentOptions { timestamps, ..SegmentOptions::default() };
        for (start, end) in sack {
            let number = |near: &i32| self.seq.wrapping_add(*near as u32);
            options.sack.push(number(start), number(end));
        }
        Some(TcpSegment {
            seq: self.ack.wrapping_add(*seq as u32),
            ack: self.seq.wrapping_add(*ack as u32),
            flags: TcpFlags::from_bits_truncate(*flags),
            is_marked: *urgent % 3 == 0,
            window: *window,
            urgent: *urgent,
            length: *length,
            merged_of: None,
            options,
        })
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::TcpSegment { .. } => {
                if let Some(segment) = self.near_segment(step) {
                    self.input(&segment);
                }
            }
            Step::Wild(seq, ack, flags, window, length) => self.input(&TcpSegment {
                seq: *seq,
                ack: *ack,
                flags: TcpFlags::from_bits_truncate(*flags),
                window: *window,
                length: *length,
                ..TcpSegment::default()
            }),
            Step::Write(count) => {
                self.connection.write_to(self.connection.written() + u64::from(*count))
            }
            Step::Urgent => self.connection.mark_urgent_byte(),
            Step::Read(count) => {
                let unread = self.connection.received() - self.connection.read();
                let read = self.connection.read() + u64::from(*count).min(unread);
                self.connection
                    .read_to(read, ROOM.saturating_sub(self.connection.received() - read));
            }
            Step::Wait(micros) => self.now += u64::from(*micros) * 1000,
            Step::Timer => self.now = self.now.max(self.connection.deadline().unwrap_or(0)),
            Step::Close => {
                self.connection.close(self.now);
            }
            Step::Shutdown => {
                self.connection.shutdown_write();
            }
            Step::Abort => self.connection.abort(),
            Step::Kill => self.kill(),
            Step::Icmp(kind, seq) => {
                let seq = self.seq.wrapping_add(*seq as u32);
                let errors = [
                    IcmpError::Port,
                    IcmpError::Host,
                    IcmpError::Protocol,
                    IcmpError::Network,
                    IcmpError::TooBig(700),
                ];
                self.connection.icmp(self.now, errors[usize::from(*kind)], seq);
            }
            Step::Option(bits) => {
                let mut settings = *self.connection.settings();
                settings.no_delay = bits & 1 != 0;
                settings.cork = bits & 2 != 0;
                settings.keepalive = bits & 4 != 0;
                settings.user_timeout_ns = if bits & 8 != 0 { 20 * SECOND } else { 0 };
                self.connection.set_settings(self.now, settings);
            }
        }
    }

    fn kill(&mut self) {
        if let Some(kept) = self.connection.kept() {
            let settings = *self.connection.settings();
            self.connection = Connection::rebuild(self.now, &kept, settings, self.room()).unwrap();
            let again = self.connection.kept().unwrap();
            assert_eq!(
                (again.received, again.edge, again.acked, again.sent),
                (kept.received, kept.edge, kept.acked, kept.sent)
            );
        }
    }

    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.apply(step);
            self.flush();
            let due = self.connection.deadline().is_some_and(|deadline| deadline <= self.now);
            self.connection.expired(self.now);
            self.flush();
            if due {
                let next = self.connection.deadline();
                assert!(
                    next.is_none_or(|next| next > self.now),
                    "a timer makes no progress: {:?}",
                    self.connection
                );
            }
            self.check();
        }
    }
}

fn flow() -> Flow {
    Flow {
        local: [1; 16],
        remote: [2; 16],
        local_port: 80,
        remote_port: 1000,
        label: SecrecyId::NONE,
    }
}

fn settings(bits: u8) -> Settings {
    Settings {
        sack: bits & 1 != 0,
        timestamps: bits & 2 != 0,
        window_scaling: bits & 4 != 0,
        ecn: if bits & 8 != 0 { Ecn::Request } else { Ecn::Accept },
        ..Settings::default()
    }
}

fn bench(bits: u8) -> Bench {
    let secret = Secret::new([5; 16]);
    let connection =
        Connection::connect(START, &flow(), &secret, settings(bits), ROOM, FastOpen::Off);
    Bench { connection: *connection, now: START, seq: 0, ack: 0, clock: 0, counters: [0; 6] }
}

fn syn_ack(bench: &Bench, bits: u8) -> TcpSegment {
    let mut options = SegmentOptions { mss: Some(1000), ..SegmentOptions::default() };
    options.sack_permitted = bits & 1 != 0;
    options.timestamps =
        (bits & 2 != 0).then_some(Timestamps { value: 1_001_000, echo: bench.clock });
    options.wscale = (bits & 4 != 0).then_some(3);
    let ece = if bits & 8 != 0 { TcpFlags::ECE } else { TcpFlags::empty() };
    let flags = TcpFlags::SYN | TcpFlags::ACK | ece;
    TcpSegment {
        seq: u32::from(bits) * 0x1111_1111,
        ack: bench.seq,
        flags,
        window: 30_000,
        options,
        ..TcpSegment::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn an_established_connection_survives_anything(bits in 0_u8..16, steps in prop::collection::vec(step(), 1..80)) {
        let mut bench = bench(bits);
        bench.flush();
        let reply = syn_ack(&bench, bits);
        bench.input(&reply);
        bench.flush();
        prop_assert_eq!(bench.connection.state(), TcpState::Established);
        bench.run(&steps);
    }

    #[test]
    fn a_connecting_one_survives_anything(bits in 0_u8..16, steps in prop::collection::vec(step(), 1..40)) {
        let mut bench = bench(bits);
        bench.flush();
        bench.run(&steps);
    }

    #[test]
    fn a_listener_survives_anything(
        all in prop::collection::vec((0_u16..4, any::<u8>(), 0_u32..3, near(), 0..2000_u32, 0_u64..3_000_000_000, any::<bool>()), 1..60),
        cookies in 0_u8..3,
    ) {
        let cookies = [Cookies::Off, Cookies::WhenFull, Cookies::Always][usize::from(cookies)];
        let mut listener = Listener::new(ListenerSettings { backlog: 2, cookies, fast_open_limit: 2, ..Default::default() });
        let secret = Secret::new([5; 16]);
        let (mut now, mut last) = (START, 0_u32);
        for (peer, flags, seq, ack, length, wait, has_clock) in all {
            let flow = Flow { remote_port: peer, ..flow() };
            let context = Context { now_ns: now, flow, secret: &secret, room: ROOM, headers: None };
            let timestamps = has_clock.then_some(Timestamps { value: 7, echo: 9 });
            let segment = TcpSegment {
                seq,
                ack: last.wrapping_add(1).wrapping_add(ack as u32),
                flags: TcpFlags::from_bits_truncate(flags & 0x17),
                window: 1000,
                length,
                options: SegmentOptions { timestamps, fast_open: Some(secret.fast_open_cookie(&flow)), ..Default::default() },
                ..TcpSegment::default()
            };
            match listener.input(&context, &segment, None) {
                ListenerReply::Send(reply) if reply.has(TcpFlags::SYN) => last = reply.seq,
                ListenerReply::Child(mut child, _) => {
                    for _ in 0..100 {
                        if child.output(now, 1000).is_none() {
                            break;
                        }
                    }
                    prop_assert!(listener.ready() <= 3);
                }
                _ => {}
            }
            prop_assert!(listener.half_open() <= 2);
            now += wait;
            while listener.output(now).is_some() {}
            prop_assert!(listener.deadline().is_none_or(|deadline| deadline > now));
            if wait % 3 == 0 {
                listener.accept();
            }
        }
    }
}
