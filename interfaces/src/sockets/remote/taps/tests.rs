//! Taps over a channel: settings, frames, successors.
use super::*;
use crate::{
    call::{Again, Failure},
    marshal::{decode, encode},
    sockets::{
        FrameTap, LinkTap, LinkTaps, SeenFrame, packet_kind,
        remote::{ControlChannel, ControlHandler, Subjects},
    },
};
use alloc::{format, string::String, sync::Arc, vec, vec::Vec};
use labels::SecrecyId;
use proptest::prelude::*;
use rt::ring::Corrupt;
use std::sync::{Mutex, OnceLock, Weak};

type Log = Arc<Mutex<Vec<String>>>;

fn taken(log: &Log) -> Vec<String> {
    core::mem::take(&mut *log.lock().unwrap())
}

/// The taps of a stack with interfaces 1 and 2, of which 2 is switched off.
#[derive(Default)]
struct FakeTaps {
    log: Log,
    opened: Mutex<Vec<Arc<dyn FrameTap>>>,
}

struct FakeTap {
    log: Log,
    sees: Arc<dyn FrameTap>,
}

impl FakeTap {
    fn note(&self, text: String) {
        self.log.lock().unwrap().push(text);
    }
}

impl LinkTaps for FakeTaps {
    fn open(&self, sees: Arc<dyn FrameTap>, _: SecrecyId) -> Arc<dyn LinkTap> {
        self.opened.lock().unwrap().push(sees.clone());
        Arc::new(FakeTap { log: self.log.clone(), sees })
    }
}

fn known(interface: u32) -> Result<(), SocketError> {
    if (1..=2).contains(&interface) { Ok(()) } else { Err(SocketError::NoInterface) }
}

impl LinkTap for FakeTap {
    fn bind(&self, binding: TapBinding) -> Result<(), SocketError> {
        known(binding.interface.unwrap_or(1))?;
        self.note(format!("bind {:?} {:?}", binding.interface, binding.protocol));
        if binding.interface == Some(2) {
            self.sees.failed(SocketError::NetworkDown);
        }
        Ok(())
    }
    fn send(&self, frame: SentFrame) -> Result<(), SocketError> {
        known(frame.interface)?;
        let SentFrame { interface, protocol, destination, bytes } = frame;
        self.note(format!("send {interface} {protocol} {destination:?} {bytes:?}"));
        Ok(())
    }
    fn join(&self, interface: u32, membership: LinkMembership) -> Result<(), SocketError> {
        known(interface)?;
        self.note(format!("join {interface} {membership:?}"));
        Ok(())
    }
    fn leave(&self, interface: u32, membership: LinkMembership) {
        self.note(format!("leave {interface} {membership:?}"));
    }
    fn close(&self) {
        self.note(String::from("close"));
    }
}

/// A client's end, as text.
#[derive(Default)]
struct Watcher(Log);

impl FrameTap for Watcher {
    fn see(&self, frame: &SeenFrame<'_>) {
        let mut bytes = vec![0; frame.bytes.length()];
        assert!(frame.bytes.read(0, &mut bytes));
        let head = (frame.interface, frame.hardware, frame.kind, frame.protocol, frame.source);
        let rest = (frame.link_length, frame.checksum, frame.at_ns);
        self.0.lock().unwrap().push(format!("{head:?} {rest:?} {bytes:?}"));
    }
    fn failed(&self, error: SocketError) {
        self.0.lock().unwrap().push(format!("{error:?}"));
    }
}

/// A channel to a server that can be replaced, or be none.
#[derive(Default)]
struct Replaceable(Mutex<Option<Arc<dyn ControlHandler>>>);

impl ControlChannel for Replaceable {
    fn exchange(&self, request: &[u8], _: Again, answer: &mut Vec<u8>) -> Result<(), Failure> {
        let server = self.0.lock().unwrap().clone();
        let server = server.ok_or(Failure::Lost(rt::message::Error::Gone))?;
        answer.clear();
        server.handle(request, answer);
        Ok(())
    }
    fn report_corrupt(&self) {
        panic!("the server is corrupt");
    }
}

struct Bench {
    channel: Arc<Replaceable>,
    client: Arc<RemoteTaps>,
    server: Arc<FakeTaps>,
}

impl Bench {
    fn new() -> Bench {
        let channel = Arc::new(Replaceable::default());
        let client = Arc::new(RemoteTaps::new(channel.clone()));
        let mut bench = Bench { channel, client, server: Arc::default() };
        bench.replace();
        bench
    }
    /// Starts a successor.
    fn replace(&mut self) {
        self.server = Arc::default();
        let client = Arc::downgrade(&self.client);
        let post = move |bytes: &[u8]| {
            Weak::upgrade(&client).unwrap().heard(bytes).unwrap();
        };
        let service = Arc::new(TapService::new(self.server.clone(), Arc::new(post)));
        let other: Arc<dyn ControlHandler> = Arc::new(Subjects(Vec::new()));
        let server = Arc::new(Subjects(vec![other, service]));
        *self.channel.0.lock().unwrap() = Some(server);
    }
    fn done(&self) -> Vec<String> {
        taken(&self.server.log)
    }
}

const EVERYTHING: TapBinding = TapBinding { interface: None, protocol: Some(TapBinding::ALL) };

#[test]
fn settings_reach_the_server() {
    let bench = Bench::new();
    let watcher = Arc::new(Watcher::default());
    let tap = bench.client.open(watcher.clone(), SecrecyId::NONE);
    assert!(bench.done().is_empty());
    tap.bind(EVERYTHING).unwrap();
    assert_eq!(bench.done(), ["bind None Some(3)"]);
    tap.join(1, LinkMembership::Promiscuous).unwrap();
    tap.join(1, LinkMembership::Promiscuous).unwrap();
    tap.join(2, LinkMembership::Address([1; 6])).unwrap();
    let joined = ["join 1 Promiscuous", "join 1 Promiscuous", "join 2 Address([1, 1, 1, 1, 1, 1])"];
    assert_eq!(bench.done(), joined);
    tap.leave(1, LinkMembership::AllGroups);
    tap.leave(1, LinkMembership::Promiscuous);
    assert_eq!(bench.done(), ["leave 1 Promiscuous"]);
    let sent = SentFrame { interface: 1, protocol: 5, destination: Some([7; 6]), bytes: vec![8] };
    tap.send(sent).unwrap();
    assert_eq!(bench.done(), ["send 1 5 Some([7, 7, 7, 7, 7, 7]) [8]"]);
    // The same binding again is another call.
    tap.bind(EVERYTHING).unwrap();
    assert_eq!(bench.done(), ["bind None Some(3)"]);
    tap.close();
    assert_eq!(bench.done(), ["close"]);
    assert_eq!(tap.bind(EVERYTHING), Err(SocketError::NetworkDown));
    drop(tap);
    assert!(bench.done().is_empty());
    drop(bench.client.open(watcher, SecrecyId::NONE));
    assert!(bench.done().is_empty(), "a tap that was never set is not at the server");
}

#[test]
fn errors_change_nothing() {
    let mut bench = Bench::new();
    let watcher = Arc::new(Watcher::default());
    let tap = bench.client.open(watcher.clone(), SecrecyId::NONE);
    let to = |interface| TapBinding { interface: Some(interface), protocol: Some(0x800) };
    tap.bind(to(1)).unwrap();
    assert_eq!(tap.bind(to(9)), Err(SocketError::NoInterface));
    assert_eq!(tap.join(9, LinkMembership::AllGroups), Err(SocketError::NoInterface));
    let sent = SentFrame { interface: 9, protocol: 5, destination: None, bytes: vec![8] };
    assert_eq!(tap.send(sent), Err(SocketError::NoInterface));
    assert_eq!(bench.done(), ["bind Some(1) Some(2048)"]);
    bench.replace();
    bench.client.restarted();
    assert_eq!(bench.done(), ["bind Some(1) Some(2048)"]);
    // The tap hears of an interface that is switched off before the call ends.
    tap.bind(to(2)).unwrap();
    assert_eq!(taken(&watcher.0), ["NetworkDown"]);
    // A stack that is gone.
    *bench.channel.0.lock().unwrap() = None;
    assert_eq!(tap.bind(to(1)), Err(SocketError::NetworkDown));
    let sent = SentFrame { interface: 1, protocol: 5, destination: None, bytes: vec![8] };
    assert_eq!(tap.send(sent), Err(SocketError::NoMemory));
}

#[test]
fn a_successor_gets_the_settings() {
    let mut bench = Bench::new();
    let taps: Vec<_> =
        (0..3).map(|_| bench.client.open(Arc::new(Watcher::default()), SecrecyId::NONE)).collect();
    for tap in &taps {
        tap.bind(EVERYTHING).unwrap();
        tap.join(1, LinkMembership::AllGroups).unwrap();
    }
    taps[1].close();
    taps[2].leave(1, LinkMembership::AllGroups);
    bench.replace();
    bench.client.restarted();
    let all = ["join 1 AllGroups", "bind None Some(3)", "bind None Some(3)"];
    assert_eq!(bench.done(), all);
    // One that is used before that opens the tap, too.
    bench.replace();
    let sent = SentFrame { interface: 1, protocol: 5, destination: None, bytes: vec![8] };
    taps[0].send(sent).unwrap();
    assert_eq!(bench.done(), ["join 1 AllGroups", "bind None Some(3)", "send 1 5 None [8]"]);
    bench.client.restarted();
    assert_eq!(bench.done(), ["bind None Some(3)"], "the other one");
}

/// Returns a frame with these bytes.
fn frame(bytes: &dyn bpf::PacketBytes) -> SeenFrame<'_> {
    SeenFrame {
        interface: 2,
        hardware: 1,
        kind: packet_kind::OTHER_HOST,
        protocol: 0x86dd,
        source: [1, 2, 3, 4, 5, 6],
        link_length: 14,
        checksum: FrameChecksum::Partial,
        at_ns: u64::MAX - 1,
        bytes,
    }
}

#[test]
fn frames_and_failures_reach_the_tap() {
    let bench = Bench::new();
    let watchers = [Arc::new(Watcher::default()), Arc::new(Watcher::default())];
    let taps =
        watchers.each_ref().map(|watcher| bench.client.open(watcher.clone(), SecrecyId::NONE));
    taps.iter().for_each(|tap| tap.bind(EVERYTHING).unwrap());
    let opened = bench.server.opened.lock().unwrap().clone();
    let bytes: Vec<u8> = (0..60).collect();
    opened[1].see(&frame(&&bytes[..]));
    opened[0].failed(SocketError::NetworkDown);
    let text = format!(
        "(2, 1, 3, 34525, [1, 2, 3, 4, 5, 6]) (14, Partial, 18446744073709551614) {bytes:?}"
    );
    assert_eq!(taken(&watchers[1].0), [text]);
    assert_eq!(taken(&watchers[0].0), ["NetworkDown"]);
    // The longest frame is seen, a longer one is not.
    for (length, count) in [(FRAME_MAX, 1), (FRAME_MAX + 1, 0)] {
        opened[0].see(&frame(&&vec![5; length][..]));
        assert_eq!(taken(&watchers[0].0).len(), count);
    }
    taps[0].close();
    opened[0].see(&frame(&&bytes[..]));
    assert!(taken(&watchers[0].0).is_empty());
}

#[test]
fn senseless_news_are_refused() {
    let channel = Arc::new(Replaceable::default());
    let client = RemoteTaps::new(channel);
    let watcher = Arc::new(Watcher::default());
    let _tap = client.open(watcher.clone(), SecrecyId::NONE);
    let frame = FrameHead {
        interface: 1,
        hardware: 1,
        kind: 0,
        protocol: 0x800,
        source: [0; 6],
        link_length: 4,
        checksum: FrameChecksum::Unknown,
        at_ns: 0,
    };
    let mut bytes = encode(&(1_u64, TapNews::Frame(frame)));
    assert!(client.heard(&bytes).is_err(), "its bytes are fewer than the link's header");
    bytes.extend([1, 2, 3, 4]);
    client.heard(&bytes).unwrap();
    assert_eq!(taken(&watcher.0).len(), 1);
    bytes.extend([0; FRAME_MAX]);
    assert!(client.heard(&bytes).is_err(), "more bytes than a frame has");
    let mut failed = encode(&(1_u64, TapNews::Failed(SocketError::NetworkDown)));
    client.heard(&failed).unwrap();
    failed.push(0);
    assert!(client.heard(&failed).is_err());
    assert!(client.heard(&[]).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_no_harm(bytes in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..80)) {
        static BENCH: OnceLock<(Arc<FakeTaps>, TapService, RemoteTaps)> = OnceLock::new();
        let (_, server, client) = BENCH.get_or_init(|| {
            let taps = Arc::new(FakeTaps::default());
            let service = TapService::new(taps.clone(), Arc::new(|_: &[u8]| {}));
            (taps, service, RemoteTaps::new(Arc::new(Replaceable::default())))
        });
        let mut answer = Vec::new();
        server.handle(&bytes, &mut answer);
        prop_assert_eq!(answer.is_empty(), decode::<TapRequest>(&bytes).is_none());
        let _: Result<(), Corrupt> = client.heard(&bytes);
    }
}
