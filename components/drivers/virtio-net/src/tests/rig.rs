//! A model interface, and a driver on it.
use crate::{NetPort, features::*};
use interfaces::nic::{
    HeaderBytes, LinkState, Nic, NicSink, Packet, PacketSegment, ReceiveBuffer, Received, SendSink,
    Sent,
};
use rt::memory::Frame;
use std::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering::*},
};
use virtio::{
    Candidate,
    model::{Behaviour, Chain, Model},
};

pub(super) const MAC_ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 7];
pub(super) const USUAL: u64 = CHECKSUM
    | GUEST_CHECKSUM
    | CONTROL_OFFLOADS
    | MTU
    | MAC
    | GUEST_TSO4
    | GUEST_TSO6
    | HOST_TSO4
    | HOST_TSO6
    | MERGED_BUFFERS
    | STATUS
    | CONTROL
    | CONTROL_FILTER
    | CONTROL_MAC
    | ANNOUNCE
    | virtio::feature::INDIRECT
    | virtio::feature::EVENT_INDEX;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mood {
    Prompt,
    /// The device keeps what it is sent until the test has it done.
    Lazy,
}

pub(super) struct Wire {
    pub(super) mood: Mood,
    pub(super) kept: Vec<(u16, Chain)>,
    /// The device's header, the packet, and the buffers of each packet sent.
    pub(super) sent: Vec<(Vec<u8>, Vec<u8>, usize)>,
    /// Queue of each notification.
    pub(super) notified: Vec<u16>,
    pub(super) commands: Vec<Vec<u8>>,
    /// Answer to commands; `None`: none comes.
    pub(super) answer: Option<u8>,
    command_queue: u16,
}

impl Wire {
    pub(super) fn set_command_queue(&mut self, queue: u16) {
        self.command_queue = queue;
    }
}

/// An interface in memory.
#[derive(Clone)]
pub(super) struct ModelNic(pub(super) Arc<Mutex<Wire>>);

impl ModelNic {
    pub(super) fn serve(&self, model: &Model, queue: u16, chain: &Chain) {
        let bytes = chain.read();
        let mut wire = self.0.lock().unwrap();
        if queue == wire.command_queue {
            wire.commands.push(bytes);
            let answer = wire.answer.unwrap_or(0);
            drop(wire);
            chain.write(0, &[answer]);
            return model.push(queue, chain, 1);
        }
        let (header, packet) = bytes.split_at(12);
        wire.sent.push((header.to_vec(), packet.to_vec(), chain.buffers()));
        drop(wire);
        model.push(queue, chain, 0);
    }

    pub(super) fn kept(&self) -> usize {
        self.0.lock().unwrap().kept.len()
    }
}

impl Behaviour for ModelNic {
    fn notified(&self, model: &Model, queue: u16) {
        let (mood, is_command, answer) = {
            let mut wire = self.0.lock().unwrap();
            wire.notified.push(queue);
            (wire.mood, queue == wire.command_queue, wire.answer)
        };
        if queue.is_multiple_of(2) && !is_command {
            return;
        }
        while let Some(chain) = model.pop(queue) {
            if mood == Mood::Lazy && !is_command || is_command && answer.is_none() {
                self.0.lock().unwrap().kept.push((queue, chain));
            } else {
                self.serve(model, queue, &chain);
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Sink {
    pub(super) ended: Mutex<Vec<Sent>>,
    pub(super) received: Mutex<Vec<Received>>,
    pub(super) links: Mutex<Vec<LinkState>>,
    pub(super) announcements: AtomicUsize,
    pub(super) batches: AtomicUsize,
    pub(super) changed: Condvar,
}

impl SendSink for Sink {
    fn sent(&self, batch: &mut Vec<Sent>) {
        assert!(!batch.is_empty());
        self.ended.lock().unwrap().append(batch);
        self.changed.notify_all();
    }
}

impl NicSink for Sink {
    fn received(&self, batch: &mut Vec<Received>) {
        self.batches.fetch_add(1, SeqCst);
        self.received.lock().unwrap().append(batch);
        self.changed.notify_all();
    }
    fn link(&self, state: LinkState) {
        self.links.lock().unwrap().push(state);
        self.changed.notify_all();
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
        std::thread::yield_now();
    }
}

impl Sink {
    /// Waits for `count` ends and takes them.
    pub(super) fn ended(&self, count: usize) -> Vec<Sent> {
        wait_until(|| self.ended.lock().unwrap().len() >= count);
        std::mem::take(&mut *self.ended.lock().unwrap())
    }
    /// Waits for `count` packets and takes them.
    pub(super) fn received(&self, count: usize) -> Vec<Received> {
        wait_until(|| self.received.lock().unwrap().len() >= count);
        std::mem::take(&mut *self.received.lock().unwrap())
    }
}

pub(super) struct Rig {
    pub(super) nic: ModelNic,
    pub(super) model: Arc<Model>,
    pub(super) port: Arc<NetPort>,
    pub(super) sink: Arc<Sink>,
    _plugged: rt::host::Plugged,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.port.stop();
    }
}

pub(super) fn configuration(pairs: u16) -> Vec<u8> {
    let mut config = MAC_ADDRESS.to_vec();
    config.extend(1_u16.to_le_bytes());
    config.extend(pairs.to_le_bytes());
    config.extend(9000_u16.to_le_bytes());
    config.extend(10_000_u32.to_le_bytes());
    config.push(1);
    config
}

static NEXT_BASE: AtomicU64 = AtomicU64::new(0x10_0000);

pub(super) fn rig_with(features: u64, config: Vec<u8>, queue_size: u16) -> Rig {
    let wire = Wire {
        mood: Mood::Prompt,
        kept: Vec::new(),
        sent: Vec::new(),
        notified: Vec::new(),
        commands: Vec::new(),
        answer: Some(0),
        command_queue: 2,
    };
    let nic = ModelNic(Arc::new(Mutex::new(wire)));
    let model = Model::new(1, features, config, (3, queue_size), Box::new(nic.clone()));
    let base = NEXT_BASE.fetch_add(0x1000, Relaxed);
    let (device, plugged) = model.plug_mmio(base, base as u32);
    let port = NetPort::open(Candidate::Mmio(device), "eth0".into()).unwrap();
    let sink = Arc::new(Sink::default());
    port.set_sink(sink.clone());
    Rig { nic, model, port, sink, _plugged: plugged }
}

pub(super) fn rig(features: u64) -> Rig {
    rig_with(features, configuration(1), 256)
}

/// Returns a packet of 14 header bytes and `segments` parts of 100 bytes, each filled with its number.
pub(super) fn packet(tag: u64, segments: usize) -> Packet {
    let segments = (0..segments).map(|number| {
        let frame = Frame::zeroed().unwrap();
        frame.write(7 + number, &[number as u8 + 1; 100]);
        PacketSegment { frame, offset: 7 + number as u32, length: 100 }
    });
    Packet {
        tag,
        header: HeaderBytes::new(&[0xee; 14]).unwrap(),
        segments: segments.collect(),
        checksum: None,
        segmentation: None,
        flow: 0,
    }
}

/// The fields of a device's header: flags, kind of segmentation, header length, size, start and offset of the checksum.
pub(super) type Fields = (u8, u8, [u16; 4]);
pub(super) const PLAIN: Fields = (0, 0, [0; 4]);

pub(super) fn device_header((flags, kind, words): Fields, buffers: u16) -> Vec<u8> {
    let mut header = vec![flags, kind];
    words.iter().chain([&buffers]).for_each(|word| header.extend(word.to_le_bytes()));
    header
}

impl Rig {
    pub(super) fn submit(&self, batch: &mut Vec<Packet>) {
        let sink: Arc<dyn SendSink> = self.sink.clone();
        self.port.submit(batch, &sink);
    }
    pub(super) fn set_mood(&self, mood: Mood) {
        self.nic.0.lock().unwrap().mood = mood;
    }
    pub(super) fn sent(&self) -> Vec<(Vec<u8>, Vec<u8>, usize)> {
        self.nic.0.lock().unwrap().sent.clone()
    }
    pub(super) fn notified(&self, queue: u16) -> usize {
        self.nic.0.lock().unwrap().notified.iter().filter(|seen| **seen == queue).count()
    }
    pub(super) fn commands(&self) -> Vec<Vec<u8>> {
        self.nic.0.lock().unwrap().commands.clone()
    }
    /// Serves the kept packets, the last one first.
    pub(super) fn serve_kept(&self) {
        loop {
            let kept = self.nic.0.lock().unwrap().kept.pop();
            let Some((queue, chain)) = kept else { return };
            self.nic.serve(&self.model, queue, &chain);
        }
    }
    pub(super) fn lend(&self, numbers: std::ops::Range<u32>) {
        let mut buffers = numbers
            .map(|number| ReceiveBuffer { number, frame: Frame::zeroed().unwrap() })
            .collect();
        self.port.lend(&mut buffers);
        assert!(buffers.is_empty());
    }
    /// Has the device receive a packet, in as many buffers as it takes, unless the driver has reset it. Its header says `said`
    /// buffers, or the truth. Returns the number of buffers.
    pub(super) fn deliver(&self, fields: Fields, packet: &[u8], said: Option<u16>) -> usize {
        let mut chains = Vec::new();
        let mut room = 0;
        while room < 12 + packet.len() {
            let Some(chain) = self.model.pop(0) else {
                assert!(!self.model.is_running(), "a buffer is lent");
                return 0;
            };
            room += chain.writable_bytes();
            chains.push(chain);
        }
        let count = said.unwrap_or(chains.len() as u16);
        let mut bytes = device_header(fields, count);
        bytes.extend(packet);
        let mut rest = bytes.as_slice();
        for chain in &chains {
            let written = chain.write(0, rest);
            rest = &rest[written..];
            self.model.push(0, chain, written as u32);
        }
        chains.len()
    }
}

/// Reads a received packet.
pub(super) fn contents(received: &Received) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in received.pieces() {
        assert!(piece.lead.as_slice().is_empty());
        let mut bytes = vec![0; piece.length.into()];
        assert_eq!(piece.buffer.frame.read(piece.offset.into(), &mut bytes), bytes.len());
        all.extend(bytes);
    }
    all
}
