//! A machine in the network that answers pings and datagrams to its echo port, for tests of network cards: 10.0.0.2 and fd00::2
//! at 02:00:00:00:00:22.
//!
//! [`Echo`] is the client of one interface. It answers on the driver's threads. The payload of an answer is in the frame in
//! which it came, and the frame is lent again when the answer was sent. Packets for which there is no room are in `left`, which
//! its lock guards; no lock is held over a call.
//!
//! `echo-net=promiscuous` on the kernel's command line leaves out the filter. A packet to another machine is reported once.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod answer;
#[cfg(test)]
mod tests;

use alloc::{
    sync::{Arc, Weak},
    vec,
    vec::Vec,
};
use answer::{Addresses, Meaning};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use interfaces::{
    nic::{
        Filter, HEADER_MAX, HeaderBytes, LinkState, MacAddress, NUMBERS, Nic, NicError, NicInfo,
        NicSink, Packet, PacketSegment, ReceiveBuffer, Received, SendSink, Sent,
    },
    offer::Offer,
};
use rt::{lock_class, memory::Frame, sync::Mutex, system};

lock_class! {
    static LEFT = "echo-net.left";
}

/// The address that the interface is given.
const MAC: MacAddress = [2, 0, 0, 0, 0, 0x22];
const V4: [u8; 4] = [10, 0, 0, 2];
const V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
/// Tag of an answer that needs no buffer.
const NO_BUFFER: u64 = u64::MAX;

/// Starts an echo on the first interface.
pub fn start(used: Vec<Offer>) -> Vec<Offer> {
    let nic = used.into_iter().find_map(|offer| match offer {
        Offer::Nic(nic) => Some(nic),
        _ => None,
    });
    match nic {
        Some(nic) => Echo::start(nic),
        None => log::warn!("echo-net: there is no interface"),
    }
    Vec::new()
}

/// The machine behind an interface.
struct Echo {
    nic: Arc<dyn Nic>,
    own: Addresses,
    /// Answers for which there was no room.
    left: Mutex<Vec<Packet>>,
    /// Number of times that answers ended.
    ends: AtomicU64,
    has_stranger: AtomicBool,
    this: Weak<Echo>,
}

impl Echo {
    fn start(nic: Arc<dyn Nic>) {
        let NicInfo { name, pairs_max, buffers, mac, link, .. } = nic.info();
        let own = match nic.set_mac(&MAC) {
            Ok(()) => MAC,
            Err(error) => {
                log::warn!("echo-net: {name} keeps its address: {error:?}");
                mac
            }
        };
        let own = Addresses { mac: own, v4: V4, v6: V6 };
        if system::parameter("echo-net") != Some("promiscuous") {
            let multicast = vec![own.group_mac()];
            note("filter", nic.set_filter(&Filter { multicast, ..Filter::default() }));
        }
        if pairs_max > 1 {
            note("queue pairs", nic.set_pairs(pairs_max));
        }
        let echo = Arc::new_cyclic(|this| Echo {
            nic: nic.clone(),
            own,
            left: Mutex::new(&LEFT, Vec::new()),
            ends: AtomicU64::new(0),
            has_stranger: AtomicBool::new(false),
            this: this.clone(),
        });
        nic.set_sink(echo);
        let numbers = 0..NUMBERS.min(buffers.try_into().unwrap_or(NUMBERS));
        let buffer = |number| Some(ReceiveBuffer { number, frame: Frame::zeroed().ok()? });
        let mut lent: Vec<ReceiveBuffer> = numbers.filter_map(buffer).collect();
        let count = lent.len();
        nic.lend(&mut lent);
        log::info!("echo-net: {name} answers, {pairs_max} queue pairs, {count} buffers, {link:?}");
    }

    /// Makes the answer to `received`. Its buffer is lent again at once, in `free`, or when the answer was sent.
    fn answer(&self, received: Received, free: &mut Vec<ReceiveBuffer>) -> Option<Packet> {
        let (first, length) = (&received.first, received.bytes());
        let mut bytes = vec![0; first.length.into()];
        let is_whole = first.buffer.frame.read(first.offset.into(), &mut bytes) == length;
        let meaning = if is_whole { self.own.answer(&mut bytes) } else { Meaning::Silence };
        if meaning == Meaning::Stranger && !self.has_stranger.swap(true, SeqCst) {
            log::info!("echo-net: a packet to another machine passed");
        }
        let header = bytes.get(..bytes.len().min(HEADER_MAX)).and_then(HeaderBytes::new);
        let Some(header) = header.filter(|_| meaning == Meaning::Answered) else {
            free.extend(received.into_buffers());
            return None;
        };
        let flow = bytes.iter().fold(0, |hash: u32, byte| hash.rotate_left(5) ^ u32::from(*byte));
        let mut packet = Packet {
            tag: NO_BUFFER,
            header,
            segments: Vec::new(),
            checksum: None,
            segmentation: None,
            flow,
        };
        if bytes.len() > HEADER_MAX {
            let ReceiveBuffer { number, frame } = received.first.buffer;
            let offset = u32::from(received.first.offset) + HEADER_MAX as u32;
            let length = (bytes.len() - HEADER_MAX) as u32;
            packet.tag = number.into();
            packet.segments.push(PacketSegment { frame, offset, length });
        } else {
            free.extend(received.into_buffers());
        }
        Some(packet)
    }

    /// Sends the answers that are left, and then `batch`. What finds no room is left.
    fn submit(&self, mut batch: Vec<Packet>) {
        let Some(this) = self.this.upgrade() else { return };
        let sink: Arc<dyn SendSink> = this;
        loop {
            let ends = self.ends.load(SeqCst);
            let mut all = core::mem::take(&mut *self.left.lock());
            all.append(&mut batch);
            if all.is_empty() {
                return;
            }
            self.nic.submit(&mut all, &sink);
            if all.is_empty() {
                return;
            }
            self.left.lock().append(&mut all);
            // If answers ended meanwhile, nobody may have seen that some were left.
            if self.ends.load(SeqCst) == ends {
                return;
            }
        }
    }
}

/// Reports a setting that the interface does not take.
fn note(what: &str, result: Result<(), NicError>) {
    if let Err(error) = result {
        log::warn!("echo-net: no {what}: {error:?}");
    }
}

impl NicSink for Echo {
    fn received(&self, batch: &mut Vec<Received>) {
        let mut free = Vec::new();
        let answers = batch.drain(..).filter_map(|one| self.answer(one, &mut free)).collect();
        self.nic.lend(&mut free);
        self.submit(answers);
    }

    fn link(&self, state: LinkState) {
        log::info!("echo-net: the link is {state:?}");
    }

    fn announce(&self) {}
}

impl SendSink for Echo {
    fn sent(&self, batch: &mut Vec<Sent>) {
        let mut free = Vec::new();
        for Sent { tag, mut segments, .. } in batch.drain(..) {
            let frame = segments.pop().map(|segment| segment.frame);
            if let (Ok(number), Some(frame)) = (u32::try_from(tag), frame) {
                free.push(ReceiveBuffer { number, frame });
            }
        }
        self.nic.lend(&mut free);
        self.ends.fetch_add(1, SeqCst);
        if !self.left.lock().is_empty() {
            self.submit(Vec::new());
        }
    }
}
