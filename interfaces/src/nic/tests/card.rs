//! A model card with a driver, a proxy, and a client's sink.
use crate::{
    block::RunningDriver,
    call::Caller,
    nic::{
        ChecksumState, Filter, HeaderBytes, Lead, LinkState, MacAddress, Nic, NicControlServer,
        NicError, NicInfo, NicProxy, NicService, NicSink, NicStatistics, Offloads, PAYLOAD_OFFSET,
        Packet, PacketSegment, ReceiveBuffer, Received, ReceivedPiece, Segmentation, SendSink,
        Sent,
    },
    service,
};
use rt::{
    device::{DmaWindow, Loan},
    host,
    memory::Frame,
    message::Endpoint,
};
use std::{
    boxed::Box,
    collections::VecDeque,
    format,
    string::{String, ToString},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    vec,
    vec::Vec,
};

pub(super) fn info() -> NicInfo {
    NicInfo {
        name: "eth0".to_string(),
        mac: [2, 0, 0, 0, 0, 7],
        mtu: 1500,
        link: LinkState::Up,
        speed: Some(10_000),
        offloads: Offloads::all(),
        pairs: 1,
        pairs_max: 4,
        max_segments: 21,
        headroom: PAYLOAD_OFFSET,
        depth: 256,
        buffers: 256,
    }
}

/// State that outlives drivers.
pub(super) struct Cable {
    /// Each packet that was sent, and its bytes.
    pub(super) sent: Mutex<Vec<(Packet, Vec<u8>)>>,
    /// Settings and loans, in order.
    pub(super) log: Mutex<Vec<String>>,
    pub(super) window: DmaWindow,
    running: Mutex<(u64, bool)>,
}

impl Default for Cable {
    fn default() -> Cable {
        Cable {
            sent: Mutex::default(),
            log: Mutex::default(),
            window: host::recording_window(),
            running: Mutex::default(),
        }
    }
}

impl Cable {
    pub(super) fn running(&self) -> RunningDriver {
        let (drivers, is_running) = *self.running.lock().unwrap();
        RunningDriver { window: self.window.clone(), generation: is_running.then_some(drivers) }
    }
    fn set_running(&self, is_running: bool) {
        let mut running = self.running.lock().unwrap();
        *running = (running.0 + u64::from(is_running), is_running);
    }
    pub(super) fn log(&self) -> Vec<String> {
        core::mem::take(&mut *self.log.lock().unwrap())
    }
    /// Returns the first bytes of the headers of all packets sent, and forgets these.
    pub(super) fn firsts(&self) -> Vec<u8> {
        let sent = core::mem::take(&mut *self.sent.lock().unwrap());
        sent.iter().map(|(packet, _)| packet.header.as_slice()[0]).collect()
    }
}

/// One driver's card.
pub(super) struct Card {
    cable: Arc<Cable>,
    /// Packets that it holds; with room for none it ends them at once.
    pub(super) room: Mutex<Option<usize>>,
    kept: Mutex<VecDeque<(Packet, Arc<dyn SendSink>)>>,
    pub(super) buffers: Mutex<VecDeque<ReceiveBuffer>>,
    sink: Mutex<Option<Arc<dyn NicSink>>>,
    pub(super) answer: Mutex<Result<(), NicError>>,
    link: Mutex<LinkState>,
    /// Received packets that made no sense.
    pub(super) errors: Mutex<u64>,
    /// While it is locked, no setting is answered.
    pub(super) gate: Mutex<()>,
}

impl Card {
    pub(super) fn new(cable: &Arc<Cable>) -> Card {
        Card {
            cable: cable.clone(),
            room: Mutex::new(None),
            kept: Mutex::default(),
            buffers: Mutex::default(),
            sink: Mutex::new(None),
            answer: Mutex::new(Ok(())),
            link: Mutex::new(LinkState::Up),
            errors: Mutex::new(3),
            gate: Mutex::default(),
        }
    }

    /// Ends the packets that it holds as a driver does that stops.
    pub(super) fn stop(&self) {
        for (packet, sink) in self.kept.lock().unwrap().drain(..) {
            let (tag, segments, result) = (packet.tag, packet.segments, Err(NicError::Restarted));
            sink.sent(&mut vec![Sent { tag, result, segments }]);
        }
    }

    fn transmit(&self, packet: Packet, sink: &Arc<dyn SendSink>) {
        let mut bytes = packet.header.as_slice().to_vec();
        for PacketSegment { frame, offset, length } in &packet.segments {
            let loan = Loan { frame: frame.id(), is_written: false };
            assert!(host::is_lent(&self.cable.window, loan), "{loan:?}");
            let mut part = vec![0; *length as usize];
            frame.read(*offset as usize, &mut part);
            bytes.extend(part);
        }
        let Packet { tag, segments, .. } = packet.clone();
        self.cable.sent.lock().unwrap().push((Packet { segments: Vec::new(), ..packet }, bytes));
        sink.sent(&mut vec![Sent { tag, result: Ok(()), segments }]);
    }

    /// Sends what it holds, the first packet first.
    pub(super) fn flush(&self) {
        loop {
            let kept = self.kept.lock().unwrap().pop_front();
            let Some((packet, sink)) = kept else { return };
            self.transmit(packet, &sink);
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.lock().unwrap().len()
    }

    /// Receives `parts`, each in a buffer, with a lead of 12 bytes in all but the first.
    pub(super) fn receive(
        &self,
        parts: &[&[u8]],
        checksum: ChecksumState,
        segmentation: Option<Segmentation>,
    ) {
        let mut pieces = parts.iter().enumerate().map(|(index, part)| {
            let buffer = self.buffers.lock().unwrap().pop_front().expect("a buffer is lent");
            let loan = Loan { frame: buffer.frame.id(), is_written: true };
            assert!(host::is_lent(&self.cable.window, loan), "{loan:?}");
            let (lead, rest) = part.split_at(if index == 0 { 0 } else { 12.min(part.len()) });
            buffer.frame.write(PAYLOAD_OFFSET.into(), rest);
            let (offset, length) = (PAYLOAD_OFFSET, rest.len() as u16);
            ReceivedPiece { buffer, offset, length, lead: Lead::new(lead).unwrap() }
        });
        let first = pieces.next().unwrap();
        let more = pieces.collect();
        let sink = self.sink.lock().unwrap().clone().unwrap();
        sink.received(&mut vec![Received { first, more, checksum, segmentation }]);
    }

    pub(super) fn set_link(&self, state: LinkState) {
        *self.link.lock().unwrap() = state;
        self.sink.lock().unwrap().clone().unwrap().link(state);
    }

    pub(super) fn announce(&self) {
        self.sink.lock().unwrap().clone().unwrap().announce();
    }

    fn note(&self, what: String) -> Result<(), NicError> {
        self.cable.log.lock().unwrap().push(what);
        drop(self.gate.lock().unwrap());
        *self.answer.lock().unwrap()
    }
}

impl Nic for Card {
    fn info(&self) -> NicInfo {
        NicInfo { link: *self.link.lock().unwrap(), ..info() }
    }
    fn set_sink(&self, sink: Arc<dyn NicSink>) {
        *self.sink.lock().unwrap() = Some(sink);
    }
    fn submit(&self, batch: &mut Vec<Packet>, sink: &Arc<dyn SendSink>) {
        let Some(room) = *self.room.lock().unwrap() else {
            return batch.drain(..).for_each(|packet| self.transmit(packet, sink));
        };
        let mut kept = self.kept.lock().unwrap();
        let taken = batch.len().min(room.saturating_sub(kept.len()));
        kept.extend(batch.drain(..taken).map(|packet| (packet, sink.clone())));
    }
    fn lend(&self, buffers: &mut Vec<ReceiveBuffer>) {
        if buffers.is_empty() {
            return;
        }
        let _ = self.note(format!("lend {}", buffers.len()));
        self.buffers.lock().unwrap().extend(buffers.drain(..));
    }
    fn set_mac(&self, mac: &MacAddress) -> Result<(), NicError> {
        self.note(format!("mac {mac:?}"))
    }
    fn set_filter(&self, filter: &Filter) -> Result<(), NicError> {
        self.note(format!("{filter:?}"))
    }
    fn set_offloads(&self, offloads: Offloads) -> Result<(), NicError> {
        self.note(format!("{offloads:?}"))
    }
    fn set_pairs(&self, pairs: u16) -> Result<(), NicError> {
        self.note(format!("pairs {pairs}"))
    }
    fn statistics(&self) -> NicStatistics {
        let receive_errors = *self.errors.lock().unwrap();
        NicStatistics { receive_errors, sent_packets: 99, ..NicStatistics::default() }
    }
}

/// A driver that runs, until it is killed.
pub(super) struct Driver {
    pub(super) card: Arc<Card>,
    pub(super) service: Arc<NicService>,
    endpoint: Endpoint,
    serving: JoinHandle<()>,
}

impl Driver {
    pub(super) fn start(cable: &Arc<Cable>, endpoint: &Endpoint) -> Driver {
        let card = Arc::new(Card::new(cable));
        let service = Arc::new(NicService::new(card.clone()));
        let (served, at) = (NicControlServer::new("eth0", service.clone()), endpoint.clone());
        let serving = thread::spawn(move || {
            service::run(&at, &[served]).unwrap();
        });
        cable.set_running(true);
        Driver { card, service, endpoint: endpoint.clone(), serving }
    }

    /// Kills the driver: from some instant on nothing of it reaches the client, which in the system the nucleus ensures.
    pub(super) fn kill(self) {
        self.card.cable.set_running(false);
        self.service.die();
        self.endpoint.signal(1);
        self.serving.join().unwrap();
        host::end_server(&self.endpoint);
        // Frames that it names are the client's own in this world.
        self.card.kept.lock().unwrap().clear();
        self.card.buffers.lock().unwrap().clear();
    }
}

#[derive(Default)]
pub(super) struct Sink {
    ended: Mutex<Vec<Sent>>,
    received: Mutex<Vec<Received>>,
    pub(super) links: Mutex<Vec<LinkState>>,
    pub(super) announcements: AtomicUsize,
}

impl SendSink for Sink {
    fn sent(&self, batch: &mut Vec<Sent>) {
        self.ended.lock().unwrap().append(batch);
    }
}

impl NicSink for Sink {
    fn received(&self, batch: &mut Vec<Received>) {
        self.received.lock().unwrap().append(batch);
    }
    fn link(&self, state: LinkState) {
        self.links.lock().unwrap().push(state);
    }
    fn announce(&self) {
        self.announcements.fetch_add(1, SeqCst);
    }
}

/// Waits until `is_so`; fails after a minute.
pub(super) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed().as_secs() < 60, "what the test waits for did not come");
        thread::yield_now();
    }
}

impl Sink {
    /// Waits for `count` ends and takes them.
    pub(super) fn ended(&self, count: usize) -> Vec<Sent> {
        wait_until(|| self.ended.lock().unwrap().len() >= count);
        core::mem::take(&mut *self.ended.lock().unwrap())
    }
    /// Waits for `count` packets and takes them.
    pub(super) fn received(&self, count: usize) -> Vec<Received> {
        wait_until(|| self.received.lock().unwrap().len() >= count);
        core::mem::take(&mut *self.received.lock().unwrap())
    }
}

/// A client of an interface in another world.
pub(super) struct Connection {
    pub(super) cable: Arc<Cable>,
    pub(super) endpoint: Endpoint,
    pub(super) proxy: Arc<NicProxy>,
    pub(super) sink: Arc<Sink>,
}

/// Returns a client and its running driver.
pub(super) fn connected() -> (Connection, Driver) {
    let endpoint = Endpoint::new().unwrap();
    let cable: Arc<Cable> = Arc::default();
    let driver = Driver::start(&cable, &endpoint);
    let caller = Caller::new(endpoint.clone(), 0, None);
    let knows = cable.clone();
    let runs = Box::new(move || knows.running());
    let proxy = NicProxy::new(caller, Box::new(|| panic!("the driver lies")), runs).unwrap();
    let sink = Arc::new(Sink::default());
    proxy.set_sink(sink.clone());
    (Connection { cable, endpoint, proxy, sink }, driver)
}

/// Returns a packet whose header is 14 times `first`, with `segments` parts of 100 bytes.
pub(super) fn packet(first: u8, segments: usize) -> Packet {
    let segments = (0..segments).map(|number| {
        let frame = Frame::zeroed().unwrap();
        frame.write(7 + number, &[number as u8 + 1; 100]);
        PacketSegment { frame, offset: 7 + number as u32, length: 100 }
    });
    Packet {
        tag: u64::from(first) + 1000,
        header: HeaderBytes::new(&[first; 14]).unwrap(),
        segments: segments.collect(),
        checksum: None,
        segmentation: None,
        flow: 0,
    }
}

impl Connection {
    pub(super) fn submit(&self, batch: &mut Vec<Packet>) {
        let sink: Arc<dyn SendSink> = self.sink.clone();
        self.proxy.submit(batch, &sink);
    }
    pub(super) fn lend(&self, numbers: core::ops::Range<u32>) {
        let mut buffers = numbers
            .map(|number| ReceiveBuffer { number, frame: Frame::zeroed().unwrap() })
            .collect();
        self.proxy.lend(&mut buffers);
    }
    pub(super) fn lent(&self) -> usize {
        host::lent_frames(&self.cable.window)
    }
}

/// Reads a received packet.
pub(super) fn contents(received: &Received) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in received.pieces() {
        assert!(piece.lead.as_slice().is_empty());
        let mut bytes = vec![0; piece.length.into()];
        piece.buffer.frame.read(piece.offset.into(), &mut bytes);
        all.extend(bytes);
    }
    all
}
