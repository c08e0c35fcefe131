//! Handshakes and ends of connections between two ends of this host, without segments and with them.
use super::world::*;
use crate::{ip::events::PacketEvent, service::streams::records};
use interfaces::sockets::{
    CloseKind, FrameTap, Network, NetworkParameter, SeenFrame, SocketError, SocketEvents,
    SocketRecord, StreamInfo, StreamState, TapBinding,
};
use labels::SecrecyId;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A tap that counts frames.
#[derive(Default)]
struct Counted(AtomicUsize);

impl FrameTap for Counted {
    fn see(&self, _frame: &SeenFrame<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn failed(&self, error: SocketError) {
        panic!("{error:?}");
    }
}

/// The way of segments between two ends of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// None is needed.
    Direct,
    /// Each is made, because a tap may watch.
    Segments,
}

/// All that users see of a host's connections: the table, the segments and bytes of packets, and the events of TCP.
fn seen(host: &Host) -> (Vec<SocketRecord>, [u64; 2], Vec<u64>) {
    let of = |event| host.inet.stack().events.get(event);
    let [(segments, octets), _] = records::uncounted(&host.inet);
    let packets =
        [of(PacketEvent::LocalSegments4) + segments, of(PacketEvent::LocalOctets4) + octets];
    let events = [
        PacketEvent::TcpActiveOpen,
        PacketEvent::TcpPassiveOpen,
        PacketEvent::TcpTimeWait,
        PacketEvent::TcpAttemptFail,
        PacketEvent::TcpReset,
        PacketEvent::TcpOutReset,
    ];
    let mut all = records::all(&host.inet);
    all.sort_by_key(|record| (record.local, record.peer));
    // The timers of half-open requests and of FINs are armed late, and end by themselves.
    for record in &mut all {
        record.timer_ms = 0;
    }
    (all, packets, events.map(of).to_vec())
}

/// Lives through a connection, and returns what users saw after each step.
fn life(way: Way, is_server_first: bool) -> Vec<impl PartialEq + std::fmt::Debug> {
    let host = Host::new(1);
    let counted = Arc::new(Counted::default());
    let tap = Network::taps(&*host.inet).open(counted.clone(), SecrecyId::NONE);
    if way == Way::Segments {
        tap.bind(TapBinding { interface: None, protocol: Some(TapBinding::ALL) }).unwrap();
    }
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let client = Program::new(&host.inet);
    client.socket.bind(at("127.0.0.1:5000")).unwrap();
    client.socket.connect(at("127.0.0.1:80")).unwrap();
    let mut all = vec![(seen(&host), client.socket.info(), StreamInfo::default())];
    let child = server.accept().expect("a child");
    let mut ends = [&client, &child];
    if is_server_first {
        ends.reverse();
    }
    let [first, second] = ends;
    let step = || (seen(&host), first.socket.info(), second.socket.info());
    all.push(step());
    host.wait(10 * MS);
    second.told.take();
    first.socket.close(CloseKind::Orderly);
    assert!(second.told.take().contains(SocketEvents::STATE));
    assert!(second.is(StreamState::RECEIVE_ENDED) && !second.is(StreamState::SEND_ENDED));
    all.push(step());
    host.wait(10 * MS);
    second.socket.close(CloseKind::Orderly);
    assert_eq!(host.counts().0, 1, "TIME-WAIT");
    all.push(step());
    host.wait(61 * S);
    all.push(step());
    server.program.socket.close(CloseKind::Orderly);
    assert_eq!(host.counts(), (0, 0, 0));
    let frames = if way == Way::Segments { 2 * 7 } else { 0 };
    assert_eq!(counted.0.load(Ordering::Relaxed), frames, "each is seen as sent and as received");
    tap.close();
    all
}

#[test]
fn users_see_the_same_without_segments() {
    for is_server_first in [false, true] {
        let (direct, sent) =
            (life(Way::Direct, is_server_first), life(Way::Segments, is_server_first));
        for (step, (one, other)) in direct.iter().zip(&sent).enumerate() {
            assert_eq!(one, other, "step {step}");
        }
    }
}

#[test]
fn an_orphan_whose_peer_stays_open_ends_after_a_minute() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let client = host.connect("127.0.0.1:80");
    let child = server.accept().expect("a child");
    client.socket.close(CloseKind::Orderly);
    assert_eq!(host.counts().0, 2);
    host.wait(59 * S);
    assert_eq!(host.counts().0, 2, "FIN-WAIT-2 and CLOSE-WAIT");
    host.wait(2 * S);
    assert_eq!(host.counts().0, 1, "CLOSE-WAIT alone");
    assert!(child.is(StreamState::RECEIVE_ENDED));
    // A FIN that nobody waits for any more is reset.
    child.socket.close(CloseKind::Orderly);
    host.wait(S);
    assert_eq!(host.counts().0, 0);
}

#[test]
fn a_listener_follows_the_parameters() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let options = |host: &Host| {
        let client = host.connect("127.0.0.1:80");
        let child = server.accept().expect("a child");
        (client.socket.info().options, child.socket.info().options)
    };
    assert_eq!(options(&host), (7, 7));
    let administration = host.inet.administration();
    administration.set_parameter(NetworkParameter::TcpSack, &[0]).unwrap();
    assert_eq!(options(&host), (5, 5), "no SACK");
}
