//! [`Card`]: a card of the stack. Packets come by [`NicSink`] and go by [`PacketLink`].
use crate::{
    attendance::Calls,
    buffers::BufferPool,
    copies::{COPIED_BELOW, Copies},
    input::{InputQueue, WaitingPacket},
    merge::{ArrivedPacket, Merger},
    outgoing::Limits,
    sender::Sender,
    steering,
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use inet::{
    Departure, Inet, InterfaceIndex, LinkDetails, LinkOffloads, PacketLink, ReceivedFrame,
    TransportChecksum,
};
use interfaces::{
    nic::{
        ChecksumState, LinkState, MacAddress, Nic, NicError, NicInfo, NicSink, Offloads,
        PacketSegment, ReceiveBuffer, Received, ReceivedPiece, SegmentationKind,
    },
    sockets::AdministrationError,
};

/// The offloads of reception that the stack can do with. Merged datagrams of UDP would have to be parted again.
const RECEIVE: Offloads = Offloads::RECEIVE_CHECKSUM
    .union(Offloads::RECEIVE_TCP4)
    .union(Offloads::RECEIVE_TCP6)
    .union(Offloads::RECEIVE_ECN);

/// The name that Linux's driver of the only cards there are has.
const DRIVER: &str = "virtio_net";

/// A driver's thread may bring packets to the stack. Where the stack is in another world than its client, the thread that brings
/// packets also takes the client's answers, for which the stack may wait.
const BRINGS_DIRECTLY: bool = cfg!(not(all(target_os = "none", skerry_process)));

/// The parts that all cards share.
pub struct Shared {
    /// The stack.
    pub inet: Weak<Inet>,
    /// The queues of the netisrs.
    pub inputs: Arc<[InputQueue]>,
    /// Calls for the thread that attends to cards.
    pub calls: Arc<Calls>,
}

/// Returns whether a packet is copied, so that its buffers can be lent again at once.
fn is_short(packet: &Received) -> bool {
    packet.first.bytes() < COPIED_BELOW && packet.bytes() < COPIED_BELOW
}

/// The lists of a netisr, which keep their memory from batch to batch.
pub struct Tools {
    /// Packets of a batch.
    batch: usize,
    frames: Vec<ReceivedFrame>,
    copies: Copies,
    merger: Merger,
    /// Pieces of the packet at hand.
    pieces: Vec<PacketSegment>,
    free: Vec<ReceiveBuffer>,
    held: Vec<ReceiveBuffer>,
}

impl Tools {
    /// Makes the lists for batches of `batch` packets. Packets of several pieces take memory, and give it back.
    pub fn new(batch: usize) -> Tools {
        Tools {
            batch,
            frames: Vec::with_capacity(batch),
            copies: Copies::default(),
            merger: Merger::default(),
            pieces: Vec::new(),
            free: Vec::with_capacity(batch),
            held: Vec::with_capacity(batch),
        }
    }
    fn trim(&mut self) {
        self.free.shrink_to(self.batch);
        self.held.shrink_to(self.batch);
    }
}

/// A card of the stack.
pub struct Card {
    /// Place in the list of cards.
    number: usize,
    index: InterfaceIndex,
    inet: Weak<Inet>,
    nic: Arc<dyn Nic>,
    limits: Limits,
    buffers: BufferPool,
    sender: Arc<Sender>,
    inputs: Arc<[InputQueue]>,
    /// Secret of the hash that chooses the netisr.
    key: u64,
    has_link: AtomicBool,
    must_announce: AtomicBool,
    dropped: AtomicU64,
    /// The address that the card had at first.
    first_mac: MacAddress,
    calls: Arc<Calls>,
    this: Weak<Card>,
}

impl Card {
    /// Makes the card of interface `index`. No packet comes before [`Card::open`].
    pub fn new(
        (number, index): (usize, InterfaceIndex),
        nic: Arc<dyn Nic>,
        Shared { inet, inputs, calls }: &Shared,
    ) -> Arc<Card> {
        let info = nic.info();
        let mut key = [0; 8];
        rt::entropy::fill(&mut key);
        let key = u64::from_ne_bytes(key);
        Arc::new_cyclic(|this| Card {
            number,
            index,
            inet: Weak::clone(inet),
            limits: Limits::of(&info, key),
            buffers: BufferPool::new(info.buffers),
            sender: Sender::new(Arc::clone(&nic)),
            nic,
            inputs: Arc::clone(inputs),
            key,
            has_link: AtomicBool::new(info.link == LinkState::Up),
            must_announce: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            first_mac: info.mac,
            calls: Arc::clone(calls),
            this: Weak::clone(this),
        })
    }
    /// Lets packets come.
    pub fn open(&self) {
        let Some(this) = self.this.upgrade() else { return };
        let NicInfo { name, pairs_max, offloads, mac, mtu, .. } = self.nic.info();
        let wanted = offloads & RECEIVE;
        if !wanted.is_empty()
            && let Err(error) = self.nic.set_offloads(wanted)
        {
            log::warn!("inet: {name} merges and checks no packets: {error:?}");
        }
        let pairs = pairs_max.min(u16::try_from(self.inputs.len()).unwrap_or(u16::MAX));
        if pairs > 1
            && let Err(error) = self.nic.set_pairs(pairs)
        {
            log::warn!("inet: {name} has one queue: {error:?}");
        }
        self.nic.set_sink(this);
        // A link that changed before there was a sink told nobody.
        self.set_link(self.nic.info().link);
        let count = self.buffers.fill(&*self.nic);
        let [a, b, c, d, e, f] = mac;
        log::info!(
            "inet: interface {} is {name}, {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}, MTU {mtu}, {count} buffers",
            self.index.0
        );
    }
    /// Returns the number of its interface.
    pub fn index(&self) -> InterfaceIndex {
        self.index
    }
    /// Returns the card itself.
    pub fn nic(&self) -> &dyn Nic {
        &*self.nic
    }
    /// Returns whether there is a link.
    pub fn has_link(&self) -> bool {
        self.has_link.load(SeqCst)
    }
    /// Returns whether the addresses must be announced, once.
    pub fn take_announcement(&self) -> bool {
        self.must_announce.swap(false, SeqCst)
    }
    /// Notes the state of the link, and calls the thread that tells the interface.
    fn set_link(&self, state: LinkState) {
        self.has_link.store(state == LinkState::Up, SeqCst);
        self.calls.call();
    }
    /// Brings packets to the stack, and takes care of their buffers.
    pub fn bring(&self, inet: &Inet, batch: impl Iterator<Item = Received>, tools: &mut Tools) {
        tools.merger.begin(inet.is_watched());
        for packet in batch {
            self.take(&packet, tools);
            let list = if is_short(&packet) { &mut tools.free } else { &mut tools.held };
            let Received { first, more, .. } = packet;
            list.push(first.buffer);
            list.extend(more.into_iter().map(|piece| piece.buffer));
        }
        tools.merger.finish();
        inet.received(self.index, &mut tools.frames);
        // The stack has dropped what it did not keep.
        tools.frames.clear();
        self.buffers.give_back(&*self.nic, &mut tools.free, &mut tools.held);
        tools.trim();
    }
    /// Makes a frame of a packet, or joins it to another.
    fn take(&self, packet: &Received, tools: &mut Tools) {
        let checksum = match packet.checksum {
            ChecksumState::Unknown => TransportChecksum::Unverified,
            ChecksumState::Valid => TransportChecksum::Verified,
            ChecksumState::Partial(_) => TransportChecksum::Partial,
        };
        let segment = packet.segmentation.as_ref().and_then(|merged| match merged.kind {
            SegmentationKind::Tcp4 | SegmentationKind::Tcp6 => Some(merged.size),
            SegmentationKind::Udp => None,
        });
        let Tools { frames, copies, merger, pieces, .. } = tools;
        pieces.clear();
        let add = |piece: &ReceivedPiece| {
            if piece.length > 0 {
                let (offset, length) = (piece.offset.into(), piece.length.into());
                pieces.push(PacketSegment { frame: piece.buffer.frame.clone(), offset, length });
            }
        };
        packet.pieces().for_each(add);
        let is_short = is_short(packet);
        if !pieces.is_empty()
            && !merger.take(frames, copies, ArrivedPacket { pieces, checksum, segment, is_short })
        {
            self.count_dropped(1);
        }
    }
    fn count_dropped(&self, packets: usize) {
        self.dropped.fetch_add(packets as u64, SeqCst);
    }
    /// Returns the place of the netisr of a packet's flow.
    fn netisr(&self, packet: &Received) -> usize {
        let mut head = [0; steering::HEAD];
        let wanted = usize::from(packet.first.length).min(head.len());
        let head = head.get_mut(..wanted).unwrap_or_default();
        let count = packet.first.buffer.frame.read(packet.first.offset.into(), head);
        let hash = steering::flow(head.get(..count).unwrap_or_default(), self.key);
        hash as usize % self.inputs.len().max(1)
    }
    /// Puts packets into the queues of their flows. Those that find no room are dropped.
    fn distribute(&self, batch: &mut Vec<Received>) {
        let card = self.number;
        let mut lists: Vec<Vec<WaitingPacket>> = Vec::new();
        lists.resize_with(self.inputs.len(), Vec::new);
        for packet in batch.drain(..) {
            let netisr = if self.inputs.len() > 1 { self.netisr(&packet) } else { 0 };
            if let Some(list) = lists.get_mut(netisr) {
                list.push(WaitingPacket { card, packet });
            }
        }
        let mut free = Vec::new();
        for (queue, list) in self.inputs.iter().zip(&mut lists).filter(|(_, list)| !list.is_empty())
        {
            queue.put(list);
            self.count_dropped(list.len());
            free.extend(list.drain(..).flat_map(|waiting| waiting.packet.into_buffers()));
        }
        self.nic.lend(&mut free);
    }
    /// Brings a lone packet to the stack if its netisr is idle.
    fn bring_directly(&self, batch: &mut Vec<Received>) {
        let ([packet], Some(inet)) = (batch.as_slice(), self.inet.upgrade()) else { return };
        let netisr = if self.inputs.len() > 1 { self.netisr(packet) } else { 0 };
        if let Some(queue) = self.inputs.get(netisr)
            && let Some(mut tools) = queue.claim()
        {
            self.bring(&inet, batch.drain(..), &mut tools);
            queue.release(tools);
        }
    }
}

impl NicSink for Card {
    fn received(&self, batch: &mut Vec<Received>) {
        if BRINGS_DIRECTLY {
            self.bring_directly(batch);
        }
        if !batch.is_empty() {
            self.distribute(batch);
        }
    }
    fn link(&self, state: LinkState) {
        self.set_link(state);
    }
    fn announce(&self) {
        self.must_announce.store(true, SeqCst);
        self.calls.call();
    }
}

impl PacketLink for Card {
    fn transmit(&self, batch: &mut Vec<Departure<PacketSegment>>) {
        if !self.has_link() {
            // As on Linux, what is sent without a carrier is lost.
            self.sender.count_dropped(batch.iter().map(|one| u64::from(one.parts())).sum());
            return batch.clear();
        }
        let mut packets = Vec::with_capacity(batch.len());
        let lost = batch.drain(..).map(|one| self.limits.packets(one, &mut packets)).sum();
        self.sender.count_dropped(lost);
        self.sender.send(packets);
    }
    fn offloads(&self) -> LinkOffloads {
        self.limits.link_offloads()
    }
    fn details(&self) -> LinkDetails {
        let NicInfo { speed, pairs, mtu, .. } = self.nic.info();
        let mut statistics = self.nic.statistics();
        let dropped = self.dropped.load(SeqCst);
        statistics.receive_dropped = statistics.receive_dropped.saturating_add(dropped);
        LinkDetails {
            driver: DRIVER,
            speed_mbit: speed,
            pairs: pairs.into(),
            mtu_max: mtu.into(),
            permanent_mac: Some(self.first_mac),
            statistics,
            ..LinkDetails::default()
        }
    }
    fn set_mac(&self, mac: MacAddress) -> Result<(), AdministrationError> {
        self.nic.set_mac(&mac).map_err(|error| match error {
            NicError::Unsupported => AdministrationError::Unsupported,
            NicError::Invalid => AdministrationError::NoAddress,
            NicError::NoMemory => AdministrationError::NoMemory,
            NicError::Refused | NicError::TimedOut | NicError::Device | NicError::Restarted => {
                AdministrationError::Device
            }
        })
    }
}
