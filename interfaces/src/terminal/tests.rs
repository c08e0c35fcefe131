//! Tests of a port over rings: a model device, and drivers that die.
use super::{
    Port, PortControl, PortControlClient, PortControlServer, PortProxy, PortService, PortSink,
    Position, Resumable,
};
use crate::{AttachError, call::Caller, overdue::Check, service};
use proptest::prelude::*;
use rt::{host, message::Endpoint, time::Instant};
use std::{
    boxed::Box,
    string::{String, ToString},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    vec::Vec,
};

/// The device and the wire beyond it. Both outlive drivers.
#[derive(Default)]
struct Line {
    output: Mutex<Vec<u8>>,
    drained: Mutex<Vec<usize>>,
    /// All input that ever came in.
    input: Mutex<Vec<u8>>,
    /// Bytes that the driver may still take or bring before it dies; `None` for any number.
    fuse: Mutex<Option<usize>>,
    has_died: Condvar,
}

impl Line {
    /// Does one step of the driver, unless it is dead. Returns whether it did.
    fn burn(&self) -> bool {
        let mut fuse = self.fuse.lock().unwrap();
        match &mut *fuse {
            Some(0) => {
                self.has_died.notify_all();
                false
            }
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }
    /// Waits until the driver is to die, or `is_over` returns `true`.
    fn wait_for_death(&self, is_over: impl Fn() -> bool) -> bool {
        let moment = std::time::Duration::from_millis(1);
        let mut fuse = self.fuse.lock().unwrap();
        while *fuse != Some(0) && !is_over() {
            fuse = self.has_died.wait_timeout(fuse, moment).unwrap().0;
        }
        *fuse == Some(0)
    }
}

/// One driver.
struct Model {
    line: Arc<Line>,
    sink: Mutex<Option<Arc<dyn PortSink>>>,
    /// Input offered so far.
    offered: Mutex<usize>,
}

impl Port for Model {
    fn name(&self) -> String {
        "ttyS0".to_string()
    }
    fn is_console(&self) -> bool {
        true
    }
    fn send(&self, bytes: &[u8]) -> usize {
        for byte in bytes {
            if !self.line.burn() {
                std::panic::resume_unwind(Box::new("the driver dies"));
            }
            self.line.output.lock().unwrap().push(*byte);
        }
        bytes.len()
    }
    fn drain(&self) {
        let length = self.line.output.lock().unwrap().len();
        self.line.drained.lock().unwrap().push(length);
    }
    fn set_sink(&self, sink: Arc<dyn PortSink>) {
        *self.sink.lock().unwrap() = Some(sink.clone());
        sink.connected(true);
        sink.resized(25, 80);
        self.bring();
    }
    fn resume(&self) {
        self.bring();
    }
}

impl Resumable for Model {
    fn pick_up(&self, position: Position) -> u64 {
        *self.offered.lock().unwrap() = position.received as usize;
        self.line.output.lock().unwrap().len() as u64
    }
    fn position(&self) -> Position {
        let sent = self.line.output.lock().unwrap().len() as u64;
        Position { received: *self.offered.lock().unwrap() as u64, sent }
    }
    fn settle(&self) {}
}

impl Model {
    /// Offers the input that has come in, a few bytes at a time, while the sink has room.
    fn bring(&self) {
        let Some(sink) = self.sink.lock().unwrap().clone() else { return };
        let mut offered = self.offered.lock().unwrap();
        loop {
            let next: Vec<u8> =
                self.line.input.lock().unwrap()[*offered..].iter().take(700).copied().collect();
            if next.is_empty() || !self.line.burn() {
                return;
            }
            let taken = sink.received(&next);
            *offered += taken;
            if taken < next.len() {
                return;
            }
        }
    }
    fn type_in(&self, bytes: &[u8]) {
        self.line.input.lock().unwrap().extend(bytes);
        self.bring();
    }
}

struct Driver {
    model: Arc<Model>,
    service: Arc<PortService>,
    endpoint: Endpoint,
    serving: JoinHandle<()>,
}

impl Driver {
    fn start(line: &Arc<Line>, endpoint: &Endpoint) -> Driver {
        let model = Arc::new(Model {
            line: line.clone(),
            sink: Mutex::default(),
            offered: Mutex::default(),
        });
        let service = Arc::new(PortService::new(model.clone()));
        let (served, at) = (PortControlServer::new("ttyS0", service.clone()), endpoint.clone());
        let serving = thread::spawn(move || {
            service::run(&at, &[served]).unwrap();
        });
        Driver { model, service, endpoint: endpoint.clone(), serving }
    }
    fn kill(self) {
        self.service.die();
        self.endpoint.signal(1);
        self.serving.join().unwrap();
        host::end_server(&self.endpoint);
    }
}

fn connect(endpoint: &Endpoint) -> Arc<PortProxy> {
    let caller = Caller::new(endpoint.clone(), 0, None);
    PortProxy::new(caller, Box::new(|| panic!("the driver lies"))).unwrap()
}

#[derive(Default)]
struct Heard {
    bytes: Vec<u8>,
    news: Vec<String>,
    /// Bytes that the sink takes at most.
    room: usize,
}

#[derive(Default)]
struct Sink(Mutex<Heard>, Condvar);

impl PortSink for Sink {
    fn received(&self, bytes: &[u8]) -> usize {
        let mut heard = self.0.lock().unwrap();
        let taken = bytes.len().min(heard.room);
        heard.room -= taken;
        heard.bytes.extend(&bytes[..taken]);
        self.1.notify_all();
        taken
    }
    fn connected(&self, is_open: bool) {
        self.0.lock().unwrap().news.push(std::format!("open {is_open}"));
        self.1.notify_all();
    }
    fn resized(&self, rows: u16, columns: u16) {
        self.0.lock().unwrap().news.push(std::format!("{rows} by {columns}"));
        self.1.notify_all();
    }
    fn broke(&self) {
        let mut heard = self.0.lock().unwrap();
        let count = heard.bytes.len();
        heard.news.push(std::format!("break behind {count}"));
        self.1.notify_all();
    }
}

impl Sink {
    fn wait_until(&self, holds: impl Fn(&Heard) -> bool) {
        let mut heard = self.0.lock().unwrap();
        while !holds(&heard) {
            heard = self.1.wait(heard).unwrap();
        }
    }
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 7 % 251) as u8).collect()
}

#[test]
fn bytes_go_out_in_order_and_a_drain_waits_for_those_before() {
    let (endpoint, line) = (Endpoint::new().unwrap(), Arc::default());
    let driver = Driver::start(&line, &endpoint);
    let proxy = connect(&endpoint);
    assert_eq!((proxy.name().as_str(), proxy.is_console()), ("ttyS0", true));
    let bytes = pattern(20_001);
    assert_eq!(proxy.send(&bytes), bytes.len());
    proxy.drain();
    assert_eq!(*line.drained.lock().unwrap(), [bytes.len()]);
    assert_eq!(*line.output.lock().unwrap(), bytes);
    assert_eq!(proxy.send(&[]), 0);
    proxy.close();
    assert_eq!(proxy.send(b"late"), 0);
    driver.kill();
}

#[test]
fn input_and_news_reach_a_sink_that_takes_little_at_a_time() {
    let (endpoint, line) = (Endpoint::new().unwrap(), Arc::default());
    let driver = Driver::start(&line, &endpoint);
    let proxy = connect(&endpoint);
    let bytes = pattern(30_000);
    driver.model.type_in(&bytes);
    let sink = Arc::new(Sink::default());
    proxy.set_sink(sink.clone());
    sink.wait_until(|heard| heard.news == ["open true", "25 by 80"]);
    while sink.0.lock().unwrap().bytes.len() < bytes.len() {
        sink.0.lock().unwrap().room += 777;
        proxy.resume();
        thread::yield_now();
    }
    assert_eq!(sink.0.lock().unwrap().bytes, bytes);
    // A new sink is told the present state.
    let another = Arc::new(Sink::default());
    proxy.set_sink(another.clone());
    another.wait_until(|heard| heard.news == ["25 by 80", "open true"]);
    driver.model.sink.lock().unwrap().as_ref().unwrap().connected(false);
    another.wait_until(|heard| heard.news.len() == 3);
    assert_eq!(proxy.send(b"nobody"), 0);
    proxy.close();
    driver.kill();
}

#[test]
fn a_break_keeps_its_place_among_the_bytes() {
    let (endpoint, line) = (Endpoint::new().unwrap(), Arc::default());
    let driver = Driver::start(&line, &endpoint);
    let proxy = connect(&endpoint);
    let sink = Arc::new(Sink::default());
    sink.0.lock().unwrap().room = usize::MAX;
    proxy.set_sink(sink.clone());
    let before = pattern(2_000);
    driver.model.type_in(&before);
    driver.model.sink.lock().unwrap().as_ref().unwrap().broke();
    driver.model.type_in(b"behind");
    sink.wait_until(|heard| heard.bytes.len() == 2_006);
    let heard = sink.0.lock().unwrap().news.clone();
    assert_eq!(heard, ["open true", "25 by 80", "break behind 2000"]);
    proxy.close();
    driver.kill();
}

#[test]
fn a_client_begins_behind_one_that_has_ended() {
    let (endpoint, line) = (Endpoint::new().unwrap(), Arc::default());
    let driver = Driver::start(&line, &endpoint);
    let control = PortControlClient::new(Caller::new(endpoint.clone(), 0, None));
    let first = connect(&endpoint);
    assert_eq!(control.position(), None, "it has the rings of a client");
    let sinks = [(); 2].map(|()| Arc::new(Sink::default()));
    sinks.iter().for_each(|sink| sink.0.lock().unwrap().room = usize::MAX);
    first.set_sink(sinks[0].clone());
    driver.model.type_in(b"hello");
    sinks[0].wait_until(|heard| heard.bytes == b"hello");
    first.send(b"one");
    first.drain();
    control.detach().unwrap();
    driver.model.type_in(b" world");
    assert_eq!(control.position(), Some(Position { received: 5, sent: 3 }));
    let second = connect(&endpoint);
    second.set_sink(sinks[1].clone());
    sinks[1].wait_until(|heard| heard.bytes == b" world");
    second.send(b"two");
    second.drain();
    driver.kill();
    let driver = Driver::start(&line, &endpoint);
    second.restarted().unwrap();
    second.send(b"three");
    second.drain();
    driver.model.type_in(b"!");
    sinks[1].wait_until(|heard| heard.bytes == b" world!");
    assert_eq!(*line.output.lock().unwrap(), b"onetwothree");
    assert_eq!(sinks[0].0.lock().unwrap().bytes, b"hello");
    [first, second].iter().for_each(|proxy| proxy.close());
    driver.kill();
}

#[test]
fn no_byte_is_lost_or_doubled_when_drivers_die() {
    let (endpoint, line) = (Endpoint::new().unwrap(), Arc::default());
    let mut driver = Driver::start(&line, &endpoint);
    let proxy = connect(&endpoint);
    let sink = Arc::new(Sink::default());
    sink.0.lock().unwrap().room = usize::MAX;
    proxy.set_sink(sink.clone());
    let bytes = pattern(400_000);
    let is_over = Arc::new(AtomicBool::new(false));
    let sending = {
        let (proxy, bytes, is_over) = (proxy.clone(), bytes.clone(), is_over.clone());
        thread::spawn(move || {
            for part in bytes.chunks(1_013) {
                assert_eq!(proxy.send(part), part.len());
            }
            proxy.drain();
            is_over.store(true, SeqCst);
        })
    };
    let mut brought = Vec::new();
    let mut kills = 0_usize;
    while !is_over.load(SeqCst) || kills < 50 {
        let part = pattern(kills * 13 % 300);
        driver.model.type_in(&part);
        brought.extend(part);
        (0..kills % 11).for_each(|_| thread::yield_now());
        driver.kill();
        driver = Driver::start(&line, &endpoint);
        proxy.restarted().unwrap();
        kills += 1;
    }
    sending.join().unwrap();
    assert!(*line.output.lock().unwrap() == bytes);
    sink.wait_until(|heard| heard.bytes.len() >= brought.len());
    assert_eq!(sink.0.lock().unwrap().bytes, brought);
    assert_eq!(sink.0.lock().unwrap().news, ["open true", "25 by 80"]);
    proxy.close();
    driver.kill();
}

/// Sends and types while a driver dies after `steps` bytes. Returns `false` if it did not die.
fn dies_after(steps: usize) -> bool {
    let (endpoint, line) = (Endpoint::new().unwrap(), Arc::<Line>::default());
    let driver = Driver::start(&line, &endpoint);
    let proxy = connect(&endpoint);
    let sink = Arc::new(Sink::default());
    sink.0.lock().unwrap().room = usize::MAX;
    proxy.set_sink(sink.clone());
    *line.fuse.lock().unwrap() = Some(steps);
    let bytes = pattern(1_200);
    let sending = {
        let (proxy, bytes) = (proxy.clone(), bytes.clone());
        thread::spawn(move || {
            bytes.chunks(100).for_each(|part| assert_eq!(proxy.send(part), part.len()));
            proxy.drain();
        })
    };
    bytes.chunks(90).for_each(|part| driver.model.type_in(part));
    let has_died = line.wait_for_death(|| sending.is_finished());
    driver.kill();
    *line.fuse.lock().unwrap() = None;
    let successor = Driver::start(&line, &endpoint);
    proxy.restarted().unwrap();
    sending.join().unwrap();
    assert!(*line.output.lock().unwrap() == bytes, "output after {steps} steps");
    sink.wait_until(|heard| heard.bytes.len() >= bytes.len());
    assert!(sink.0.lock().unwrap().bytes == bytes, "input after {steps} steps");
    proxy.close();
    successor.kill();
    has_died
}

#[test]
fn a_driver_may_die_after_any_byte() {
    let mut steps = 0;
    while dies_after(steps) {
        steps += if steps < 40 { 1 } else { 37 };
    }
    assert!(steps > 1_000, "died {steps} times");
}

#[test]
fn a_driver_that_lives_is_attached_again_and_repeats_nothing() {
    let (endpoint, line) = (Endpoint::new().unwrap(), Arc::<Line>::default());
    let driver = Driver::start(&line, &endpoint);
    let proxy = connect(&endpoint);
    let sink = Arc::new(Sink::default());
    proxy.set_sink(sink.clone());
    let bytes = pattern(60_000);
    driver.model.type_in(&bytes);
    for part in bytes.chunks(6_000) {
        assert_eq!(proxy.send(part), part.len());
        proxy.restarted().unwrap();
        sink.0.lock().unwrap().room += 5_500;
        proxy.resume();
    }
    proxy.drain();
    assert!(*line.output.lock().unwrap() == bytes);
    sink.0.lock().unwrap().room = usize::MAX;
    proxy.resume();
    sink.wait_until(|heard| heard.bytes.len() >= bytes.len());
    assert!(sink.0.lock().unwrap().bytes == bytes);
    proxy.close();
    driver.kill();
}

/// A driver that writes these words into the rings, takes nothing, answers `is_sending` with the flag, and says that earlier clients
/// took so much input.
struct Liar(Vec<(usize, u64)>, u64, bool, u64);

impl super::PortControl for Liar {
    fn describe(&self) -> Option<super::PortDescription> {
        Some(super::PortDescription { name: crate::wire::Name::cut("liar"), is_console: false })
    }
    fn detach(&self) -> Option<()> {
        Some(())
    }
    fn attach(&self, rings: rt::memory::Region, _: Position) -> Result<u64, AttachError> {
        for (place, word) in &self.0 {
            rings.words()[*place].store(*word, SeqCst);
        }
        Ok(self.1)
    }
    fn is_sending(&self) -> Option<bool> {
        Some(self.2)
    }
    fn resume(&self) -> Option<()> {
        None
    }
    fn position(&self) -> Option<Position> {
        Some(Position { received: self.3, sent: 0 })
    }
}

#[test]
fn a_driver_that_says_an_impossible_position_is_not_used() {
    let endpoint = Endpoint::new().unwrap();
    let at = endpoint.clone();
    let served = PortControlServer::new("liar", Arc::new(Liar(Vec::new(), 0, false, u64::MAX)));
    let serving = thread::spawn(move || service::run(&at, &[served]).unwrap());
    let connected = PortProxy::new(Caller::new(endpoint.clone(), 0, None), Box::new(|| {}));
    assert_eq!(connected.err(), Some(AttachError::Senseless));
    endpoint.signal(1);
    serving.join().unwrap();
}

#[test]
fn a_driver_that_takes_no_output_is_ended_unless_it_waits_for_its_device() {
    for is_sending in [true, false] {
        let endpoint = Endpoint::new().unwrap();
        let at = endpoint.clone();
        let served = PortControlServer::new("liar", Arc::new(Liar(Vec::new(), 0, is_sending, 0)));
        let serving = thread::spawn(move || service::run(&at, &[served]).unwrap());
        let proxy =
            PortProxy::new(Caller::new(endpoint.clone(), 0, None), Box::new(|| {})).unwrap();
        let check = |now_s: u64| Check {
            now: Instant(now_s * 1_000_000_000),
            limit_ns: 10_000_000_000,
            step_max_ns: 2_000_000_000,
        };
        assert!((0..100).all(|now| proxy.overdue(&check(now)).is_none()), "nothing was given");
        assert_eq!(proxy.send(b"output"), 6);
        let cause = (100..200).find_map(|now| proxy.overdue(&check(now)));
        let expected = (!is_sending).then(|| {
            "liar: it does not know of a request that it was given 11000 ms ago".to_string()
        });
        assert_eq!(cause, expected);
        proxy.close();
        endpoint.signal(1);
        serving.join().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_driver_may_write_anything_into_the_rings(
        words in proptest::collection::vec(
            (
                prop_oneof![Just(8_usize), Just(3088), 3104_usize..3130, 0_usize..6176],
                prop_oneof![0_u64..4, 0x1000_u64..0x1010, any::<u64>()],
            ),
            0..12,
        ),
        sent in prop_oneof![Just(0_u64), 0_u64..10, any::<u64>()],
    ) {
        let endpoint = Endpoint::new().unwrap();
        let at = endpoint.clone();
        let served = PortControlServer::new("liar", Arc::new(Liar(words, sent, false, 0)));
        let serving = thread::spawn(move || service::run(&at, &[served]).unwrap());
        let proxy = PortProxy::new(Caller::new(endpoint.clone(), 0, None), Box::new(|| {})).unwrap();
        let sink = Arc::new(Sink::default());
        sink.0.lock().unwrap().room = 100;
        proxy.set_sink(sink);
        let (ours, bytes) = (proxy.clone(), pattern(8_000));
        // This ends by itself only if the driver's count claims that it took output; otherwise when the
        // port is closed.
        let sending = thread::spawn(move || ours.send(&bytes));
        proxy.resume();
        thread::yield_now();
        proxy.close();
        prop_assert!(sending.join().unwrap() <= 8_000);
        endpoint.signal(1);
        serving.join().unwrap();
    }
}
