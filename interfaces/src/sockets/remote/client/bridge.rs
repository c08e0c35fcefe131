//! [`CardBridge`]: a card that the client uses for the stack.
use super::{
    super::{
        calls::{CardAnswer, CardCommand},
        cells::{Record, put_parts},
        kinds::forth,
    },
    NetworkProxy,
    frames::SharedFrames,
    handed::Delivery,
};
use crate::{
    marshal::Marshal,
    nic::{
        LinkState, Nic, NicError, NicInfo, NicSink, Offloads, Packet, PacketSegment, ReceiveBuffer,
        Received, SendSink, Sent,
    },
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use rt::{NoMemory, lock_class, memory::Frame, sync::Mutex};

lock_class! {
    static WAITING = "network.bridge";
    static STARVED = "network.bridge.starved";
    static HELD = "network.bridge.held";
}

/// Buffers of a card, at most.
const BUFFERS_MAX: usize = 512;
/// Bits of a packet's tag below the number of its stack.
const TAG_BITS: u32 = 40;

/// The use of packets that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reception {
    /// A stack gets them.
    Open,
    /// A stack is expected: it gets them when it has its sockets.
    Held,
    /// None is expected: they are dropped.
    Closed,
}

/// Packets that wait for a stack.
struct HeldPackets {
    reception: Reception,
    packets: Vec<(Received, Delivery)>,
}

/// A card that the client uses for the stack.
pub(super) struct CardBridge {
    number: u32,
    nic: Arc<dyn Nic>,
    proxy: Weak<NetworkProxy>,
    frames: Arc<SharedFrames>,
    /// Numbers of buffers for which there was no frame.
    starved: Mutex<Vec<u32>>,
    /// Packets for which the card has no room.
    waiting: Mutex<Vec<Packet>>,
    /// Packets that came while there is no stack. The card's buffers limit them.
    held: Mutex<HeldPackets>,
    itself: Weak<CardBridge>,
}

impl CardBridge {
    pub(super) fn new(
        number: u32,
        nic: Arc<dyn Nic>,
        proxy: Weak<NetworkProxy>,
        frames: Arc<SharedFrames>,
    ) -> Arc<CardBridge> {
        Arc::new_cyclic(|itself| CardBridge {
            number,
            nic,
            proxy,
            frames,
            starved: Mutex::new(&STARVED, Vec::new()),
            waiting: Mutex::new(&WAITING, Vec::new()),
            held: Mutex::new(
                &HELD,
                HeldPackets { reception: Reception::Held, packets: Vec::new() },
            ),
            itself: Weak::clone(itself),
        })
    }
    pub(super) fn info(&self) -> NicInfo {
        self.nic.info()
    }
    /// Lets packets come.
    pub(super) fn open(&self) {
        if let Some(this) = self.itself.upgrade() {
            self.nic.set_sink(this);
            self.frames.grow();
            let count = self.nic.info().buffers.min(BUFFERS_MAX) as u32;
            self.lend((0..count).map(|number| (number, None)));
        }
    }
    /// Lends buffers. One without a frame gets a new one, later if none is free.
    pub(super) fn lend(&self, buffers: impl Iterator<Item = (u32, Option<Frame>)>) {
        // The calling thread may be the stack's, and the stack has to take a new pool.
        if self.lend_free(buffers)
            && let Some(proxy) = self.proxy.upgrade()
        {
            proxy.want_frames();
        }
    }
    /// Lends the buffers for which there was no frame. Those for which there is none still are lent with later ones.
    pub(super) fn lend_starved(&self) {
        self.lend_free(core::iter::empty());
    }
    /// Lends the buffers for which there are frames. Returns whether there are others.
    fn lend_free(&self, buffers: impl Iterator<Item = (u32, Option<Frame>)>) -> bool {
        let mut lent = Vec::new();
        let mut starved = self.starved.lock();
        let again = core::mem::take(&mut *starved);
        for (number, frame) in buffers.chain(again.into_iter().map(|number| (number, None))) {
            match frame.map_or_else(|| self.frames.zeroed(), Ok) {
                Ok(frame) => lent.push(ReceiveBuffer { number, frame }),
                Err(NoMemory) => starved.push(number),
            }
        }
        let is_starved = !starved.is_empty();
        drop(starved);
        self.nic.lend(&mut lent);
        is_starved
    }
    /// Sends a packet of the stack whose number `epoch` is.
    pub(super) fn send(&self, epoch: u64, mut packet: Packet) {
        packet.tag |= epoch << TAG_BITS;
        self.waiting.lock().push(packet);
        self.push();
    }
    /// Gives the card the packets that wait. They stay in order, because one thread at a time has the list.
    fn push(&self) {
        let Some(this) = self.itself.upgrade() else { return };
        let sink: Arc<dyn SendSink> = this;
        let mut waiting = self.waiting.lock();
        if !waiting.is_empty() {
            self.nic.submit(&mut waiting, &sink);
        }
    }
    /// Drops the packets of a stack that has died and that the card has not taken.
    pub(super) fn forget(&self) {
        self.waiting.lock().clear();
    }
    /// Holds the packets that come from now on, behind those of `undelivered`.
    pub(super) fn hold(&self, undelivered: impl Iterator<Item = Received>) {
        let mut held = self.held.lock();
        held.reception = Reception::Held;
        held.packets.splice(..0, undelivered.map(|packet| (packet, Delivery::Again)));
    }
    /// Brings the packets that were held, and those that come from now on.
    pub(super) fn bring_held(&self) {
        loop {
            let packets = {
                let mut held = self.held.lock();
                if held.packets.is_empty() {
                    held.reception = Reception::Open;
                    return;
                }
                core::mem::take(&mut held.packets)
            };
            self.bring(packets.into_iter());
        }
    }
    /// Drops the packets that were held, and those that come from now on.
    pub(super) fn drop_held(&self) {
        let packets = {
            let mut held = self.held.lock();
            held.reception = Reception::Closed;
            core::mem::take(&mut held.packets)
        };
        self.lend_buffers(packets.into_iter().map(|(packet, _)| packet));
    }
    fn lend_buffers(&self, packets: impl Iterator<Item = Received>) {
        let buffers = packets.flat_map(Received::into_buffers);
        self.lend(buffers.map(|buffer| (buffer.number, Some(buffer.frame))));
    }
    /// Brings packets to the stack.
    fn bring(&self, packets: impl Iterator<Item = (Received, Delivery)>) {
        let Some(proxy) = self.proxy.upgrade() else { return };
        let mut segments = Vec::new();
        proxy.post(|outbox, body| {
            for (packet, delivery) in packets {
                body.clear();
                packet.checksum.put(body);
                packet.segmentation.put(body);
                segments.clear();
                segments.extend(packet.pieces().map(|piece| PacketSegment {
                    frame: piece.buffer.frame.clone(),
                    offset: piece.offset.into(),
                    length: piece.length.into(),
                }));
                put_parts(body, &segments, |_| true);
                // Handed before the record can be read.
                proxy.handed.hand_packet(self.number, packet, delivery);
                let (kind, number) = (forth::RECEIVED, self.number);
                outbox.put(&Record { kind, number, body, ..Record::default() });
            }
        });
    }
    /// Does a command. May block for seconds.
    pub(super) fn command(&self, command: CardCommand) -> CardAnswer {
        match command {
            CardCommand::Statistics => return Ok(Some(self.nic.statistics())),
            CardCommand::Mac(mac) => self.nic.set_mac(&mac),
            CardCommand::Filter(filter) => self.nic.set_filter(&filter),
            CardCommand::Offloads(bits) => Offloads::from_bits(bits)
                .ok_or(NicError::Invalid)
                .and_then(|offloads| self.nic.set_offloads(offloads)),
            CardCommand::Pairs(pairs) => self.nic.set_pairs(pairs),
        }
        .map(|()| None)
    }
    fn tell(&self, kind: u8, value: u64) {
        if let Some(proxy) = self.proxy.upgrade() {
            proxy.post(|outbox, _| {
                outbox.put(&Record { kind, number: self.number, value, ..Record::default() });
            });
        }
    }
}

impl SendSink for CardBridge {
    fn sent(&self, batch: &mut Vec<Sent>) {
        if let Some(proxy) = self.proxy.upgrade() {
            let epoch = proxy.epoch();
            proxy.post(|outbox, body| {
                for Sent { tag, .. } in batch.iter() {
                    // A packet of an earlier stack is nobody's any more.
                    if tag >> TAG_BITS == epoch & (u64::MAX >> TAG_BITS) {
                        (tag & ((1 << TAG_BITS) - 1)).put(body);
                    }
                }
                if !body.is_empty() {
                    let (kind, number) = (forth::SENT, self.number);
                    outbox.put(&Record { kind, number, body, ..Record::default() });
                }
            });
        }
        batch.clear();
        self.push();
    }
}

impl NicSink for CardBridge {
    fn received(&self, batch: &mut Vec<Received>) {
        let packets = batch.drain(..);
        let mut held = self.held.lock();
        match held.reception {
            Reception::Open => {
                drop(held);
                self.bring(packets.map(|packet| (packet, Delivery::First)));
            }
            Reception::Held => {
                held.packets.extend(packets.map(|packet| (packet, Delivery::First)));
            }
            Reception::Closed => {
                drop(held);
                self.lend_buffers(packets);
            }
        }
    }
    fn link(&self, state: LinkState) {
        self.tell(forth::LINK, (state == LinkState::Up).into());
    }
    fn announce(&self) {
        self.tell(forth::ANNOUNCE, 0);
    }
}
