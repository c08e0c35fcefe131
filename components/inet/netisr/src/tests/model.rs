//! A model card: what it was given, and packets that it receives.
use interfaces::nic::{
    ChecksumState, Filter, Lead, LinkState, MacAddress, Nic, NicError, NicInfo, NicSink,
    NicStatistics, Offloads, PAYLOAD_OFFSET, Packet, ReceiveBuffer, Received, ReceivedPiece,
    SendSink, Sent,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

pub const MAC: MacAddress = [2, 0, 0, 0, 0, 2];
pub const PEER: MacAddress = [2, 0, 0, 0, 0, 1];

/// The model card.
pub struct Model {
    pub info: Mutex<NicInfo>,
    sink: Mutex<Option<Arc<dyn NicSink>>>,
    /// Packets for which there is room.
    pub room: Mutex<usize>,
    /// Packets that it was given, and those of them that have not ended.
    pub sent: Mutex<Vec<Vec<u8>>>,
    under_way: Mutex<VecDeque<(Packet, Arc<dyn SendSink>)>>,
    pub lent: Mutex<VecDeque<ReceiveBuffer>>,
    pub filters: Mutex<Vec<Filter>>,
    pub offloads: Mutex<Option<Offloads>>,
    pub pairs: Mutex<Option<u16>>,
}

impl Model {
    pub fn new() -> Arc<Model> {
        let info = NicInfo {
            name: "eth0".into(),
            mac: MAC,
            mtu: 1500,
            link: LinkState::Up,
            speed: None,
            offloads: Offloads::empty(),
            pairs: 1,
            pairs_max: 1,
            max_segments: 17,
            headroom: PAYLOAD_OFFSET,
            depth: 256,
            buffers: 64,
        };
        Arc::new(Model {
            info: Mutex::new(info),
            sink: Mutex::new(None),
            room: Mutex::new(usize::MAX),
            sent: Mutex::default(),
            under_way: Mutex::default(),
            lent: Mutex::default(),
            filters: Mutex::default(),
            offloads: Mutex::default(),
            pairs: Mutex::default(),
        })
    }
    pub fn sink(&self) -> Arc<dyn NicSink> {
        self.sink.lock().unwrap().clone().expect("there is a sink")
    }
    /// Returns a packet of `bytes` in the next lent buffers, `most` bytes in each.
    pub fn packet(&self, bytes: &[u8], most: usize) -> Received {
        let mut pieces = bytes.chunks(most).map(|part| {
            let buffer = self.lent.lock().unwrap().pop_front().expect("a buffer is lent");
            assert_eq!(buffer.frame.references(), 1, "a frame in use was lent");
            buffer.frame.write(PAYLOAD_OFFSET.into(), part);
            let (offset, length) = (PAYLOAD_OFFSET, part.len() as u16);
            ReceivedPiece { buffer, offset, length, lead: Lead::default() }
        });
        let first = pieces.next().unwrap();
        let more = pieces.collect();
        Received { first, more, checksum: ChecksumState::Unknown, segmentation: None }
    }
    /// Receives `bytes`.
    pub fn receive(&self, bytes: &[u8]) {
        let packet = self.packet(bytes, 2048);
        self.sink().received(&mut vec![packet]);
    }
    /// Receives several packets at once.
    pub fn receive_all(&self, packets: &[Vec<u8>]) {
        self.sink().received(&mut packets.iter().map(|bytes| self.packet(bytes, 2048)).collect());
    }
    /// Ends the oldest `count` packets that are under way.
    pub fn end(&self, count: usize) {
        for _ in 0..count {
            let Some((packet, sink)) = self.under_way.lock().unwrap().pop_front() else { return };
            let mut room = self.room.lock().unwrap();
            *room = room.saturating_add(1);
            drop(room);
            let (tag, segments) = (packet.tag, packet.segments);
            sink.sent(&mut vec![Sent { tag, result: Ok(()), segments }]);
        }
    }
    /// Takes the packets that were sent.
    pub fn take_sent(&self) -> Vec<Vec<u8>> {
        core::mem::take(&mut *self.sent.lock().unwrap())
    }
    pub fn lent(&self) -> usize {
        self.lent.lock().unwrap().len()
    }
}

/// Returns the bytes of a packet.
pub fn bytes_of(packet: &Packet) -> Vec<u8> {
    let mut bytes = packet.header.as_slice().to_vec();
    for segment in &packet.segments {
        let mut part = vec![0; segment.length as usize];
        segment.frame.read(segment.offset as usize, &mut part);
        bytes.extend(part);
    }
    bytes
}

impl Nic for Model {
    fn info(&self) -> NicInfo {
        self.info.lock().unwrap().clone()
    }
    fn set_sink(&self, sink: Arc<dyn NicSink>) {
        *self.sink.lock().unwrap() = Some(sink);
    }
    fn submit(&self, batch: &mut Vec<Packet>, sink: &Arc<dyn SendSink>) {
        let mut room = self.room.lock().unwrap();
        let taken = batch.len().min(*room);
        if *room != usize::MAX {
            *room -= taken;
        }
        for packet in batch.drain(..taken) {
            self.sent.lock().unwrap().push(bytes_of(&packet));
            self.under_way.lock().unwrap().push_back((packet, sink.clone()));
        }
    }
    fn lend(&self, buffers: &mut Vec<ReceiveBuffer>) {
        self.lent.lock().unwrap().extend(buffers.drain(..));
    }
    fn set_mac(&self, _: &MacAddress) -> Result<(), NicError> {
        Err(NicError::Unsupported)
    }
    fn set_filter(&self, filter: &Filter) -> Result<(), NicError> {
        self.filters.lock().unwrap().push(filter.clone());
        Ok(())
    }
    fn set_offloads(&self, offloads: Offloads) -> Result<(), NicError> {
        *self.offloads.lock().unwrap() = Some(offloads);
        Ok(())
    }
    fn set_pairs(&self, pairs: u16) -> Result<(), NicError> {
        *self.pairs.lock().unwrap() = Some(pairs);
        Ok(())
    }
    fn statistics(&self) -> NicStatistics {
        NicStatistics::default()
    }
}

/// Waits until `is_so`; fails after a minute.
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "what the test waits for did not come");
        std::thread::yield_now();
    }
}
