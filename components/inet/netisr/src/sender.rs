//! [`Sender`]: the sending side of a card, with the packets for which the card has no room.
//!
//! While no packet waits, a thread gives its packets to the card without a lock. When the card has no room, the rest waits in
//! order, later packets behind it; the card's next ends bring them on. One thread at a time gives the card packets that waited.
use alloc::{
    collections::VecDeque,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use interfaces::nic::{Nic, Packet, SendSink, Sent};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static WAITING = "inet.card.waiting";
}

/// Packets that wait for a card, at most (Linux `txqueuelen`).
pub const WAITING_MAX: usize = 1000;
/// Packets that waited and are given to the card at once, at most.
const BATCH: usize = 256;

/// Packets that wait for the card.
#[derive(Default)]
struct WaitingPackets {
    packets: VecDeque<Packet>,
    /// A thread is giving packets to the card.
    is_busy: bool,
}

/// The sending side of a card.
pub struct Sender {
    nic: Arc<dyn Nic>,
    waiting: Mutex<WaitingPackets>,
    /// Packets wait, or a thread is giving packets that waited to the card.
    is_behind: AtomicBool,
    /// Number of times that packets ended.
    ends: AtomicU64,
    dropped: AtomicU64,
    this: Weak<Sender>,
}

impl Sender {
    /// Makes the sending side of a card.
    pub fn new(nic: Arc<dyn Nic>) -> Arc<Sender> {
        Arc::new_cyclic(|this| Sender {
            nic,
            waiting: Mutex::new(&WAITING, WaitingPackets::default()),
            is_behind: AtomicBool::new(false),
            ends: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            this: Weak::clone(this),
        })
    }
    /// Sends packets, behind those that wait. What the queue of these does not take is dropped.
    pub fn send(&self, mut packets: Vec<Packet>) {
        let Some(this) = self.this.upgrade() else { return };
        let sink: Arc<dyn SendSink> = this;
        let ends = self.ends.load(SeqCst);
        let is_tried = !self.is_behind.load(SeqCst);
        if is_tried {
            self.nic.submit(&mut packets, &sink);
            if packets.is_empty() {
                return;
            }
        }
        let was_idle = self.put_aside(packets);
        // No later end brings these on if the card had room again, or none waited, before they were put aside.
        let is_forgotten = if is_tried { self.ends.load(SeqCst) != ends } else { was_idle };
        if is_forgotten {
            self.bring_on(&sink);
        }
    }
    /// Counts packets that were dropped.
    pub fn count_dropped(&self, packets: u64) {
        self.dropped.fetch_add(packets, SeqCst);
    }
    /// Returns the number of packets that were dropped.
    #[cfg(test)]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(SeqCst)
    }
    /// Appends packets to those that wait. Returns whether none waited and no thread was at it.
    fn put_aside(&self, packets: Vec<Packet>) -> bool {
        let mut waiting = self.waiting.lock();
        self.is_behind.store(true, SeqCst);
        let was_idle = waiting.packets.is_empty() && !waiting.is_busy;
        let room = WAITING_MAX.saturating_sub(waiting.packets.len());
        self.count_dropped(packets.len().saturating_sub(room) as u64);
        waiting.packets.extend(packets.into_iter().take(room));
        was_idle
    }
    /// Gives the card packets that wait, until it has no room or there are none. A thread that finds another one at it leaves it
    /// to that one.
    fn bring_on(&self, sink: &Arc<dyn SendSink>) {
        loop {
            let ends = self.ends.load(SeqCst);
            let mut batch: Vec<_> = {
                let mut waiting = self.waiting.lock();
                if waiting.is_busy || waiting.packets.is_empty() {
                    self.is_behind.store(waiting.is_busy, SeqCst);
                    if waiting.packets.is_empty() {
                        // A burst's memory goes back.
                        waiting.packets = VecDeque::new();
                    }
                    return;
                }
                waiting.is_busy = true;
                let count = waiting.packets.len().min(BATCH);
                waiting.packets.drain(..count).collect()
            };
            self.nic.submit(&mut batch, sink);
            let has_room = batch.is_empty();
            {
                let mut waiting = self.waiting.lock();
                waiting.is_busy = false;
                // These come before what was put aside meanwhile.
                for packet in batch.into_iter().rev() {
                    waiting.packets.push_front(packet);
                }
            }
            // Ends that came meanwhile were left to this thread.
            if !has_room && self.ends.load(SeqCst) == ends {
                return;
            }
        }
    }
}

impl SendSink for Sender {
    fn sent(&self, batch: &mut Vec<Sent>) {
        batch.clear();
        self.ends.fetch_add(1, SeqCst);
        if self.is_behind.load(SeqCst)
            && let Some(this) = self.this.upgrade()
        {
            let sink: Arc<dyn SendSink> = this;
            self.bring_on(&sink);
        }
    }
}
