//! Handshakes and FINs without segments leave both ends as segments would.
use labels::SecrecyId;
use proptest::prelude::*;
use tcp::{clock::*, *};

const START: u64 = 1000 * SECOND;
const ROOM: u64 = 60_000;

/// The flow as the client sees it.
const FLOW: Flow = Flow {
    local: [1; 16],
    remote: [2; 16],
    local_port: 1000,
    remote_port: 80,
    label: SecrecyId::NONE,
};
const ANSWERED: Flow = Flow {
    local: [2; 16],
    remote: [1; 16],
    local_port: 80,
    remote_port: 1000,
    label: SecrecyId::NONE,
};

/// A client and a listener, and what connects them.
struct World {
    secret: Secret,
    client: Box<Connection>,
    listener: Listener,
}

fn context(secret: &Secret) -> Context<'_> {
    Context { now_ns: START, flow: ANSWERED, secret, room: ROOM, headers: None }
}

impl World {
    fn new((of_client, of_child): (Settings, Settings)) -> World {
        let secret = Secret::new([7; 16]);
        let client = Connection::connect(START, &FLOW, &secret, of_client, ROOM, FastOpen::Off);
        let child = ListenerSettings { child: of_child, ..ListenerSettings::default() };
        World { secret, client, listener: Listener::new(child) }
    }
    fn by_segments(&mut self) -> Box<Connection> {
        let secret = self.secret;
        let context = context(&secret);
        loop {
            let out = self.client.output(START, 1460).expect("a segment");
            match self.listener.input(&context, &out.segment, None) {
                ListenerReply::Drop => panic!("{out:?}"),
                ListenerReply::Send(segment) => {
                    let arrival = self.client.input(START, &segment, ROOM);
                    assert!(arrival.events.contains(TcpEvents::CONNECTED));
                }
                ListenerReply::Child(child, arrival) => {
                    assert!(arrival.events.contains(TcpEvents::CONNECTED));
                    assert!(self.client.output(START, 1460).is_none());
                    return child;
                }
            }
        }
    }
    fn directly(&mut self) -> Option<Box<Connection>> {
        let secret = self.secret;
        let context = context(&secret);
        let iss = secret.initial_sequence(&ANSWERED, START);
        let clock_offset = secret.timestamps_offset(&ANSWERED);
        let numbers = OwnNumbers { iss, clock_offset };
        let (child, _) = self.listener.open(&context, numbers, &mut self.client)?;
        assert!(self.client.output(START, 1460).is_none());
        Some(child)
    }
}

/// All of the state of an end.
fn shown(end: &Connection) -> String {
    format!("{end:#?}")
}

/// Brings a FIN and what it causes, one segment at a time.
fn exchange(ends: [&mut Connection; 2], now: u64) {
    let [one, other] = ends;
    loop {
        if let Some(out) = one.output(now, 1460) {
            other.input(now, &out.segment, ROOM);
        } else if let Some(out) = other.output(now, 1460) {
            one.input(now, &out.segment, ROOM);
        } else {
            return;
        }
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    let ecn = prop_oneof![Just(Ecn::Off), Just(Ecn::Request), Just(Ecn::Accept)];
    let switches = any::<(bool, bool, bool, bool)>();
    (switches, ecn, any::<u32>(), 100_u16..9000).prop_map(|(switches, ecn, limit, mss)| {
        let (window_scaling, timestamps, sack, keepalive) = switches;
        let all = Settings { window_scaling, timestamps, sack, keepalive, ..Settings::default() };
        Settings { ecn, buffer_limit: limit.into(), mss, path_mss: mss, ..all }
    })
}

proptest! {
    #[test]
    fn a_handshake_without_segments_is_one_with_them(all in (settings(), settings())) {
        let (mut direct, mut sent) = (World::new(all), World::new(all));
        let (child, expected) = (direct.directly().expect("a child"), sent.by_segments());
        prop_assert_eq!(shown(&child), shown(&expected));
        prop_assert_eq!(shown(&direct.client), shown(&sent.client));
        prop_assert_eq!(format!("{:?}", direct.listener), format!("{:?}", sent.listener));
    }

    #[test]
    fn the_ends_of_a_connection_without_segments_are_those_with_them(
        all in (settings(), settings()),
        wait in 0..100 * MILLISECOND,
    ) {
        let (mut direct, mut sent) = (World::new(all), World::new(all));
        let (mut child, mut expected) = (direct.directly().expect("a child"), sent.by_segments());
        for (turn, now) in [START + wait, START + 2 * wait].into_iter().enumerate() {
            let mut ends = [&mut *direct.client, &mut *child];
            let mut same = [&mut *sent.client, &mut *expected];
            ends.rotate_left(turn);
            same.rotate_left(turn);
            let [one, other] = ends;
            let events = one.close_to(other, now).expect("a FIN");
            prop_assert!(events.contains(TcpEvents::PEER_CLOSED));
            same[0].close(now);
            exchange(same, now);
            for (end, expected) in [(&direct.client, &sent.client), (&child, &expected)] {
                prop_assert_eq!(end.state(), expected.state());
                prop_assert_eq!(end.deadline(), expected.deadline());
                prop_assert_eq!((end.received(), end.acked()), (expected.received(), expected.acked()));
                let (info, expected_info) = (end.info(now), expected.info(now));
                prop_assert_eq!(
                    (info.segments_in, info.segments_out, info.since_ack_received_ns),
                    (expected_info.segments_in, expected_info.segments_out, expected_info.since_ack_received_ns)
                );
                prop_assert_eq!(
                    (info.receive_window, info.send_window),
                    (expected_info.receive_window, expected_info.send_window)
                );
                prop_assert_eq!(
                    format!("{:?}", end.time_wait()),
                    format!("{:?}", expected.time_wait())
                );
            }
        }
        prop_assert_eq!(child.state(), TcpState::Closed);
        prop_assert_eq!(direct.client.state(), TcpState::TimeWait);
    }
}

#[test]
fn a_full_listener_opens_nothing() {
    let mut world = World::new((Settings::default(), Settings::default()));
    world.listener.settings_mut().backlog = 0;
    world.listener.adopt(FLOW);
    assert!(world.directly().is_none());
    world.listener.accept();
    world.listener.settings_mut().defer_timeouts = 1;
    assert!(world.directly().is_none());
    world.listener.settings_mut().defer_timeouts = 0;
    world.listener.settings_mut().cookies = Cookies::Always;
    assert!(world.directly().is_none());
    world.listener.settings_mut().cookies = Cookies::WhenFull;
    assert!(world.directly().is_some());
}

#[test]
fn bytes_that_wait_are_in_the_way_of_a_fin() {
    let mut world = World::new((Settings::default(), Settings::default()));
    let mut child = world.directly().expect("a child");
    let client = &mut world.client;
    client.write_to(1);
    assert!(client.close_to(&mut child, START).is_none(), "bytes to send");
    assert_eq!(client.state(), TcpState::Established);
    let out = client.output(START, 1460).expect("the byte");
    child.input(START, &out.segment, ROOM);
    assert!(child.close_to(client, START).is_none(), "a byte to read");
    assert!(client.close_to(&mut child, START).is_none(), "a byte in flight");
    let now = START + SECOND;
    child.expired(now);
    child.read_to(1, ROOM);
    exchange([&mut world.client, &mut child], now);
    assert!(child.close_to(&mut world.client, now).is_some());
}
