//! A port over rings: against a model device, with drivers that die.
use super::{Port, PortControlServer, PortProxy, PortService, PortSink};
use crate::{call::Caller, service};
use proptest::prelude::*;
use rt::{host, message::Endpoint};
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

/// The wire beyond the device, which outlives drivers.
#[derive(Default)]
struct Line {
    output: Mutex<Vec<u8>>,
    drained: Mutex<Vec<usize>>,
}

/// One driver.
struct Model {
    line: Arc<Line>,
    sink: Mutex<Option<Arc<dyn PortSink>>>,
    resumed: (Mutex<u64>, Condvar),
}

impl Port for Model {
    fn name(&self) -> String {
        "ttyS0".to_string()
    }
    fn is_console(&self) -> bool {
        true
    }
    fn send(&self, bytes: &[u8]) -> usize {
        self.line.output.lock().unwrap().extend(bytes);
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
    }
    fn resume(&self) {
        *self.resumed.0.lock().unwrap() += 1;
        self.resumed.1.notify_all();
    }
}

impl Model {
    /// Brings input, waiting for room where there is none.
    fn bring(&self, mut bytes: &[u8]) {
        let sink = self.sink.lock().unwrap().clone().unwrap();
        while !bytes.is_empty() {
            let before = *self.resumed.0.lock().unwrap();
            let taken = sink.received(bytes);
            bytes = &bytes[taken..];
            let mut now = self.resumed.0.lock().unwrap();
            while !bytes.is_empty() && *now == before {
                now = self.resumed.1.wait(now).unwrap();
            }
        }
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
            resumed: (Mutex::default(), Condvar::new()),
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
    /// More than that is not taken.
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
    let (model, theirs) = (driver.model.clone(), bytes.clone());
    let bringing = thread::spawn(move || model.bring(&theirs));
    let sink = Arc::new(Sink::default());
    proxy.set_sink(sink.clone());
    sink.wait_until(|heard| heard.news == ["open true", "25 by 80"]);
    while sink.0.lock().unwrap().bytes.len() < bytes.len() {
        sink.0.lock().unwrap().room += 777;
        proxy.resume();
        thread::yield_now();
    }
    bringing.join().unwrap();
    assert_eq!(sink.0.lock().unwrap().bytes, bytes);
    // Another sink is told how things stand.
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
        driver.model.bring(&part);
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

/// Writes whatever it likes into the rings.
struct Liar(Vec<(usize, u64)>);

impl super::PortControl for Liar {
    fn describe(&self) -> Option<super::PortDescription> {
        Some(super::PortDescription { name: crate::wire::Name::cut("liar"), is_console: false })
    }
    fn attach(&self, rings: rt::memory::Region) -> Result<(), crate::block::AttachError> {
        for (place, word) in &self.0 {
            rings.words()[*place].store(*word, SeqCst);
        }
        Ok(())
    }
    fn resume(&self) -> Option<()> {
        None
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_driver_may_write_anything_into_the_rings(
        words in proptest::collection::vec(
            (
                prop_oneof![Just(8_usize), Just(784), 800_usize..830, 0_usize..1568],
                prop_oneof![0_u64..4, 0x1000_u64..0x1010, any::<u64>()],
            ),
            0..12,
        ),
    ) {
        let endpoint = Endpoint::new().unwrap();
        let at = endpoint.clone();
        let served = PortControlServer::new("liar", Arc::new(Liar(words)));
        let serving = thread::spawn(move || service::run(&at, &[served]).unwrap());
        let proxy = PortProxy::new(Caller::new(endpoint.clone(), 0, None), Box::new(|| {})).unwrap();
        let sink = Arc::new(Sink::default());
        sink.0.lock().unwrap().room = 100;
        proxy.set_sink(sink);
        let (ours, bytes) = (proxy.clone(), pattern(8_000));
        // Ends by itself only where the driver's count claims that it takes; else when the port is closed.
        let sending = thread::spawn(move || ours.send(&bytes));
        proxy.resume();
        thread::yield_now();
        proxy.close();
        prop_assert!(sending.join().unwrap() <= 8_000);
        endpoint.signal(1);
        serving.join().unwrap();
    }
}
