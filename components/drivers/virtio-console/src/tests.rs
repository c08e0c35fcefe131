//! Tests of the driver against a model console.
use crate::{Console, ledger::Ledger};
use interfaces::terminal::{Port, PortSink, Position, Resumable};
use rt::{
    device::{DmaBuffer, MmioDevice},
    host::{Life, lives, set_life},
    time,
};
use std::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use virtio::{
    Candidate,
    model::{Behaviour, Chain, Model},
};

/// Time after which an awaited event counts as lost.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

const F_SIZE: u64 = 1;
const F_MULTIPORT: u64 = 2;

#[derive(Default)]
struct HostState {
    /// Ports to be announced: number, and name (`None` for a console).
    ports: Vec<(u32, Option<&'static str>)>,
    /// Output of the guest, with its queue.
    output: Vec<(u16, Vec<u8>)>,
    /// Control messages of the guest.
    told: Vec<(u32, u16, u16)>,
    /// The host keeps output until told otherwise.
    is_slow: bool,
    kept: Vec<(u16, Chain)>,
}

/// The host's side.
#[derive(Clone, Default)]
struct Host(Arc<(Mutex<HostState>, Condvar)>);

fn message(port: u32, event: u16, value: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = port.to_le_bytes().to_vec();
    bytes.extend(event.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes.extend(payload);
    bytes
}

impl Host {
    fn tell(&self, model: &Model, message: &[u8]) {
        let chain = model.pop(2).expect("a buffer for control");
        let written = chain.write(0, message);
        model.push(2, &chain, written as u32);
    }

    fn control(&self, model: &Model, bytes: &[u8]) {
        let word = u64::from_le_bytes(bytes.try_into().unwrap());
        let (port, event, value) = (word as u32, (word >> 32) as u16, (word >> 48) as u16);
        let ports = {
            let mut state = self.0.0.lock().unwrap();
            state.told.push((port, event, value));
            state.ports.clone()
        };
        match event {
            0 => ports.iter().for_each(|(port, _)| self.tell(model, &message(*port, 1, 1, b""))),
            3 => match ports.iter().find(|(number, _)| *number == port) {
                Some((_, Some(name))) => {
                    self.tell(model, &message(port, 7, 1, &[name.as_bytes(), b"\0"].concat()));
                    self.tell(model, &message(port, 6, 1, b""));
                }
                Some((_, None)) => {
                    self.tell(model, &message(port, 4, 1, b""));
                    self.tell(model, &message(port, 5, 0, &[80, 0, 25, 0]));
                }
                None => {}
            },
            _ => {}
        }
    }

    /// Puts bytes into an input queue; panics if the guest has no buffers.
    fn input(&self, model: &Model, queue: u16, bytes: &[u8]) {
        let chain = model.pop(queue).expect("a buffer for input");
        assert_eq!(chain.write(0, bytes), bytes.len());
        model.push(queue, &chain, bytes.len() as u32);
    }

    fn take_kept(&self, model: &Model) -> bool {
        let mut state = self.0.0.lock().unwrap();
        if state.kept.is_empty() {
            return false;
        }
        let (queue, chain) = state.kept.remove(0);
        state.output.push((queue, chain.read()));
        drop(state);
        model.push(queue, &chain, 0);
        true
    }

    fn sent_to(&self, queue: u16) -> Vec<u8> {
        let state = self.0.0.lock().unwrap();
        let parts = state.output.iter().filter(|(from, _)| *from == queue);
        parts.flat_map(|(_, bytes)| bytes.clone()).collect()
    }
}

impl Behaviour for Host {
    fn reset(&self) {
        self.0.0.lock().unwrap().kept.clear();
    }
    fn notified(&self, model: &Model, queue: u16) {
        let is_input = queue.is_multiple_of(2);
        while !is_input && let Some(chain) = model.pop(queue) {
            if queue == 3 {
                let bytes = chain.read();
                model.push(queue, &chain, 0);
                self.control(model, &bytes);
                continue;
            }
            let mut state = self.0.0.lock().unwrap();
            let is_slow = state.is_slow;
            state.kept.push((queue, chain));
            drop(state);
            self.0.1.notify_all();
            if !is_slow {
                self.take_kept(model);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum News {
    Bytes(Vec<u8>),
    Open(bool),
    Window(u16, u16),
}

/// A sink that records what it receives, with a limit on bytes.
struct Sink {
    news: Mutex<(Vec<News>, usize)>,
    changed: Condvar,
}

impl Sink {
    fn new(limit: usize) -> Arc<Sink> {
        Arc::new(Sink { news: Mutex::new((Vec::new(), limit)), changed: Condvar::new() })
    }
    fn push(&self, news: News) {
        let mut state = self.news.lock().unwrap();
        match (state.0.last_mut(), news) {
            (Some(News::Bytes(bytes)), News::Bytes(more)) => bytes.extend(more),
            (_, news) => state.0.push(news),
        }
        self.changed.notify_all();
    }
    fn wait(&self, wanted: &[News]) {
        let state = self.news.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |(news, _)| news != wanted);
        let state = waited.unwrap().0;
        assert_eq!(state.0, wanted);
    }
}

impl PortSink for Sink {
    fn received(&self, bytes: &[u8]) -> usize {
        if !lives() {
            return 0;
        }
        let taken = {
            let mut state = self.news.lock().unwrap();
            let taken = bytes.len().min(state.1);
            state.1 -= taken;
            taken
        };
        if taken > 0 {
            self.push(News::Bytes(bytes[..taken].to_vec()));
        }
        taken
    }
    fn connected(&self, is_open: bool) {
        self.push(News::Open(is_open));
    }
    fn resized(&self, rows: u16, columns: u16) {
        self.push(News::Window(rows, columns));
    }
}

struct Rig {
    host: Host,
    model: Arc<Model>,
    console: Arc<Console>,
    _plugged: rt::host::Plugged,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.console.stop();
    }
}

static NEXT_BASE: AtomicU64 = AtomicU64::new(0x10_0000);

fn rig(features: u64, ports: &[(u32, Option<&'static str>)]) -> Rig {
    let host = Host::default();
    host.0.0.lock().unwrap().ports = ports.to_vec();
    let mut config = vec![100, 0, 40, 0];
    config.extend(4_u32.to_le_bytes());
    let features = features | virtio::feature::EVENT_INDEX;
    let model = Model::new(3, features, config, (10, 64), Box::new(host.clone()));
    let base = NEXT_BASE.fetch_add(0x1000, Relaxed);
    let (device, plugged) = model.plug_mmio(base, base as u32);
    let console = Console::open(Candidate::Mmio(device), None).unwrap();
    console.wait_ports(Some(time::now().after_ns(2_000_000_000)));
    Rig { host, model, console, _plugged: plugged }
}

const SESSION: [(u32, Option<&str>); 3] = [(0, None), (1, Some("in")), (2, Some("out"))];

#[test]
fn ports_are_found_by_name_within_bounded_time() {
    let rig = rig(F_MULTIPORT, &SESSION);
    let ports = rig.console.ports();
    assert_eq!(ports.len(), 3);
    assert!(ports[0].is_console() && ports[0].name().starts_with("hvc"));
    assert_eq!(ports[0].window(), Some((25, 80)));
    assert_eq!((ports[1].name(), ports[2].name()), ("in".into(), "out".into()));
    assert!(!ports[1].is_console());
    let soon = time::now().after_ns(1_000_000);
    assert!(rig.console.wait_port("out", soon).is_some());
    assert!(rig.console.wait_port("none", soon).is_none());
    let told = rig.host.0.0.lock().unwrap().told.clone();
    assert!(told.contains(&(1, 3, 1)) && told.contains(&(1, 6, 1)), "ready and open: {told:?}");
}

#[test]
fn early_input_is_kept_and_the_end_comes_after_it() {
    let rig = rig(F_MULTIPORT, &SESSION);
    let port = rig.console.port("in").unwrap();
    rig.host.input(&rig.model, 4, b"one ");
    rig.host.input(&rig.model, 4, b"two");
    rig.host.tell(&rig.model, &message(1, 6, 0, b""));
    let sink = Sink::new(1000);
    port.set_sink(sink.clone());
    let bytes = News::Bytes(b"one two".to_vec());
    sink.wait(&[News::Open(true), bytes, News::Open(false)]);
    assert_eq!(port.send(b"nobody there"), 0);
}

#[test]
fn a_port_that_nobody_opened_is_not_at_its_end() {
    let rig = rig(F_MULTIPORT, &[(1, Some("in"))]);
    rig.host.0.0.lock().unwrap().ports.push((3, Some("later")));
    rig.host.tell(&rig.model, &message(3, 1, 1, b""));
    let soon = time::now().after_ns(2_000_000_000);
    let port = rig.console.wait_port("later", soon).unwrap();
    let sink = Sink::new(10);
    port.set_sink(sink.clone());
    sink.wait(&[News::Open(true)]);
}

#[test]
fn a_full_sink_holds_input_back_until_it_resumes() {
    let rig = rig(F_MULTIPORT, &SESSION);
    let port = rig.console.port("in").unwrap();
    let sink = Sink::new(5);
    port.set_sink(sink.clone());
    let long: Vec<u8> = (0..3000_u32).map(|index| index as u8).collect();
    rig.host.input(&rig.model, 4, &long);
    sink.wait(&[News::Open(true), News::Bytes(long[..5].to_vec())]);
    sink.news.lock().unwrap().1 = 10_000;
    port.resume();
    sink.wait(&[News::Open(true), News::Bytes(long)]);
}

#[test]
fn output_waits_for_a_slow_host_and_arrives_in_order() {
    let rig = rig(F_MULTIPORT, &SESSION);
    rig.host.0.0.lock().unwrap().is_slow = true;
    let port = rig.console.port("out").unwrap();
    let data: Vec<u8> = (0..300_000_u32).map(|index| (index / 7) as u8).collect();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            assert_eq!(port.send(&data), data.len());
            port.drain();
        });
        while !sender.is_finished() {
            if !rig.host.take_kept(&rig.model) {
                std::thread::yield_now();
            }
        }
    });
    assert!(rig.host.sent_to(7) == data);
}

#[test]
fn many_senders_on_one_port_all_get_through() {
    let rig = rig(F_MULTIPORT, &SESSION);
    rig.host.0.0.lock().unwrap().is_slow = true;
    let port = rig.console.port("out").unwrap();
    std::thread::scope(|scope| {
        let send = || (0..200).for_each(|_| assert_eq!(port.send(&[1; 100]), 100));
        let senders: Vec<_> = (0..4).map(|_| scope.spawn(send)).collect();
        while !senders.iter().all(|sender| sender.is_finished()) {
            rig.host.take_kept(&rig.model);
        }
    });
    while rig.host.take_kept(&rig.model) {}
    assert_eq!(rig.host.sent_to(7).len(), 80_000);
}

#[test]
fn a_sender_goes_on_although_others_wait_for_the_end_of_output() {
    let rig = rig(F_MULTIPORT, &SESSION);
    rig.host.0.0.lock().unwrap().is_slow = true;
    let port = rig.console.port("out").unwrap();
    let (is_over, begun) = (AtomicBool::new(false), std::time::Instant::now());
    std::thread::scope(|scope| {
        let drainers = [(); 3].map(|()| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    port.drain();
                }
            })
        });
        let sender = scope.spawn(|| (0..2_000).for_each(|_| assert_eq!(port.send(b"byte"), 4)));
        while !sender.is_finished() {
            rig.host.take_kept(&rig.model);
            if begun.elapsed() > PATIENCE {
                rig.console.stop();
            }
        }
        is_over.store(true, Relaxed);
        while !drainers.iter().all(|drainer| drainer.is_finished()) {
            rig.host.take_kept(&rig.model);
        }
    });
    assert!(begun.elapsed() < PATIENCE, "the sender was not woken");
}

#[test]
fn without_ports_there_is_one_console_with_the_window_of_the_configuration() {
    let rig = rig(F_SIZE, &[]);
    let ports = rig.console.ports();
    assert_eq!(ports.len(), 1);
    assert!(ports[0].is_console());
    let sink = Sink::new(100);
    ports[0].set_sink(sink.clone());
    rig.host.input(&rig.model, 0, b"typed");
    let window = News::Window(40, 100);
    sink.wait(&[window, News::Open(true), News::Bytes(b"typed".to_vec())]);
    assert_eq!(ports[0].send(b"printed"), 7);
    ports[0].drain();
    assert_eq!(rig.host.sent_to(1), b"printed");
}

#[test]
fn a_resized_console_tells_its_sink() {
    let rig = rig(F_MULTIPORT, &SESSION);
    let port = rig.console.ports()[0].clone();
    let sink = Sink::new(0);
    port.set_sink(sink.clone());
    sink.wait(&[News::Window(25, 80), News::Open(true)]);
    rig.host.tell(&rig.model, &message(0, 5, 0, &[132, 0, 43, 0]));
    sink.wait(&[News::Window(25, 80), News::Open(true), News::Window(43, 132)]);
}

#[test]
fn nonsense_on_the_control_queue_is_passed_over() {
    let rig = rig(F_MULTIPORT, &SESSION);
    for junk in [
        &b""[..],
        b"short",
        &message(0, 99, 0, b""),
        &message(77, 6, 1, b""),
        &message(u32::MAX, 1, 1, b""),
        &message(0, 1, 1, b""),
        &message(0, 5, 0, b"x"),
        &message(2, 7, 0, &[0xff; 100]),
    ] {
        rig.host.tell(&rig.model, junk);
    }
    rig.host.tell(&rig.model, &message(0, 5, 0, &[9, 0, 8, 0]));
    let sink = Sink::new(0);
    let port = rig.console.ports()[0].clone();
    port.set_sink(sink.clone());
    let state = sink.news.lock().unwrap();
    let has_window = |news: &Vec<News>| news.contains(&News::Window(8, 9));
    drop(sink.changed.wait_while(state, |(news, _)| !has_window(news)).unwrap());
    assert_eq!(rig.console.ports().len(), 3);
}

#[test]
fn a_device_that_breaks_the_protocol_ends_its_ports() {
    let rig = rig(F_MULTIPORT, &SESSION);
    let port = rig.console.port("in").unwrap();
    let sink = Sink::new(10);
    port.set_sink(sink.clone());
    sink.wait(&[News::Open(true)]);
    rig.model.tamper(4, 12345, 3);
    sink.wait(&[News::Open(true), News::Open(false)]);
    assert_eq!(port.send(b"x"), 0);
    port.drain();
}

/// Size of a ledger for one port, in bytes.
const KEPT_BYTES: usize = 12 * 4096;

/// A device with one port, which outlives its drivers.
struct Device {
    host: Host,
    model: Arc<Model>,
    device: MmioDevice,
    kept: DmaBuffer,
    sink: Arc<Sink>,
    typed: Vec<u8>,
    printed: Vec<u8>,
    /// Number of typed bytes that the device has delivered.
    given: usize,
}

impl Device {
    fn received(&self) -> Vec<u8> {
        let news = self.sink.news.lock().unwrap();
        let bytes = news.0.iter().filter_map(|news| match news {
            News::Bytes(bytes) => Some(bytes.clone()),
            _ => None,
        });
        bytes.flatten().collect()
    }

    fn sent(&self) -> Vec<u8> {
        self.host.sent_to(1)
    }

    /// Does the device's work: takes a buffer of output, fills one of input.
    fn work(&mut self) {
        self.host.take_kept(&self.model);
        if self.given < self.typed.len()
            && self.model.is_running()
            && let Some(chain) = self.model.pop(0)
        {
            let piece = self.typed[self.given..].iter().take(7).copied().collect::<Vec<u8>>();
            self.given += piece.len();
            assert_eq!(chain.write(0, &piece), piece.len());
            self.model.push(0, &chain, piece.len() as u32);
        }
    }

    /// Types and prints with a driver that lives for `life`. Returns whether it died.
    fn use_one(&mut self, life: Option<&Arc<Life>>) -> bool {
        let is_over = || life.is_some_and(|life| life.is_over());
        set_life(life.cloned());
        let console = Console::open(Candidate::Mmio(self.device), Some(self.kept.clone()));
        set_life(None);
        let console = match console {
            Ok(console) => console,
            Err(error) => {
                assert!(is_over(), "{error:?}");
                return true;
            }
        };
        // Output is lost before the host has opened the port.
        while !is_over() && !console.ports().iter().any(|port| port.is_connected()) {
            console.wait_ports(Some(time::now().after_ns(1_000_000)));
        }
        if let Some(port) = console.ports().first().cloned().filter(|_| !is_over()) {
            let position = Position { received: self.received().len() as u64, sent: 0 };
            set_life(life.cloned());
            let sent = port.pick_up(position) as usize;
            port.set_sink(self.sink.clone());
            set_life(None);
            let (sender, life_of_sender) = (port.clone(), life.cloned());
            let mut rest = if is_over() { Vec::new() } else { self.printed[sent..].to_vec() };
            let sending = std::thread::spawn(move || {
                set_life(life_of_sender);
                while !rest.is_empty() {
                    let piece: Vec<u8> = rest.drain(..rest.len().min(11)).collect();
                    sender.send(&piece);
                }
                sender.drain();
            });
            let stuck = std::time::Instant::now() + PATIENCE;
            while !is_over() && (!sending.is_finished() || self.received().len() < self.typed.len())
            {
                assert!(std::time::Instant::now() < stuck, "only {:?} came", self.received());
                self.work();
                std::thread::yield_now();
            }
            console.stop();
            sending.join().unwrap();
        }
        console.stop();
        drop(console);
        // The driver is gone once its interrupt is free.
        while rt::device::Interrupt::open(self.device.interrupt).is_err() {
            std::thread::yield_now();
        }
        is_over()
    }
}

#[test]
fn drivers_may_die_at_any_step_and_no_byte_is_lost_or_doubled() {
    let mut steps = 1;
    let mut has_died = true;
    while has_died {
        let host = Host::default();
        {
            let mut state = host.0.0.lock().unwrap();
            state.ports = vec![(0, Some("io"))];
            state.is_slow = true;
        }
        let features = F_MULTIPORT | virtio::feature::EVENT_INDEX;
        let config = vec![0, 0, 0, 0, 1, 0, 0, 0];
        let model = Model::new(3, features, config, (4, 64), Box::new(host.clone()));
        let base = NEXT_BASE.fetch_add(0x1000, Relaxed);
        let (place, _plugged) = model.plug_mmio(base, base as u32);
        let mut device = Device {
            host,
            model,
            device: place,
            kept: DmaBuffer::allocate(KEPT_BYTES).unwrap(),
            sink: Sink::new(usize::MAX),
            typed: (0..120).collect(),
            printed: (100..250).collect(),
            given: 0,
        };
        // The successors live as long, then a little longer; the last one for ever.
        has_died = device.use_one(Some(&Life::of(steps)));
        device.use_one(Some(&Life::of(steps)));
        device.use_one(Some(&Life::of(steps + 20)));
        device.use_one(None);
        assert_eq!(device.received(), device.typed, "input after {steps} steps");
        assert_eq!(device.sent(), device.printed, "output after {steps} steps");
        steps += 1;
    }
    assert!(steps > 300, "{steps} steps");
}

#[test]
fn a_client_that_said_where_it_stands_stays_known_while_the_host_opens_and_closes() {
    let kept = DmaBuffer::allocate(KEPT_BYTES).unwrap();
    let port = || Ledger::open(&kept, 1).unwrap().port(0).unwrap();
    let (of_device, is_over) = (port(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                of_device.set_open(true);
                of_device.set_open(false);
            }
        });
        for _ in 0..20_000 {
            // This makes it look as if there had been no earlier driver.
            kept.store64(0, 0);
            let port = port();
            let told = [port.take_fresh(), port.take_fresh(), port.take_fresh()];
            if told != [true, false, false] {
                is_over.store(true, Relaxed);
                panic!("{told:?}");
            }
        }
        is_over.store(true, Relaxed);
    });
}
