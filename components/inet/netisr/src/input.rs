//! Netisr threads: each takes received packets from its [`InputQueue`] to the stack, in batches.
use crate::card::{Card, Tools};
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use inet::Inet;
use interfaces::nic::Received;
use rt::{
    lock_class,
    sync::{Event, Mutex},
};

lock_class! {
    static INPUT = "inet.netisr.input";
}

/// Packets that wait for one netisr, at most (Linux `netdev_max_backlog`).
const WAITING_MAX: usize = 1000;
/// Packets of one call into the stack, at most: afterwards their buffers are lent again.
const BATCH: usize = 64;
/// Packets that an empty list has room for. A burst of more takes memory, and gives it back.
const KEPT: usize = 2 * BATCH;

/// A packet that waits for a netisr, and the number of its card.
pub struct WaitingPacket {
    /// Place of the card in the list of cards.
    pub card: usize,
    /// The packet.
    pub packet: Received,
}

/// Packets that wait for one netisr.
pub struct InputQueue {
    packets: Mutex<VecDeque<WaitingPacket>>,
    arrived: Event,
}

impl InputQueue {
    /// Makes an empty queue.
    pub fn new() -> InputQueue {
        InputQueue {
            packets: Mutex::new(&INPUT, VecDeque::with_capacity(KEPT)),
            arrived: Event::new(),
        }
    }
    /// Appends the packets of `batch`, in order, and wakes the netisr. Those for which there is no room stay in `batch`.
    pub fn put(&self, batch: &mut Vec<WaitingPacket>) {
        {
            let mut packets = self.packets.lock();
            let room = WAITING_MAX.saturating_sub(packets.len()).min(batch.len());
            packets.extend(batch.drain(..room));
        }
        self.arrived.signal();
    }
    /// Swaps the packets that wait for those in `taken`, which is empty. Waits until there is one.
    fn take(&self, taken: &mut VecDeque<WaitingPacket>) {
        loop {
            let ticket = self.arrived.ticket();
            core::mem::swap(&mut *self.packets.lock(), taken);
            if !taken.is_empty() {
                return;
            }
            self.arrived.wait(ticket, None);
        }
    }
}

/// Brings packets of `queue` to the stack, for ever.
pub fn serve(inet: &Inet, queue: &InputQueue, cards: &[Arc<Card>]) {
    let (mut taken, mut batch, mut tools) =
        (VecDeque::with_capacity(KEPT), Vec::with_capacity(BATCH), Tools::new(BATCH));
    loop {
        queue.take(&mut taken);
        while let Some(first) = taken.pop_front() {
            let number = first.card;
            batch.push(first.packet);
            while batch.len() < BATCH
                && let Some(next) = taken.pop_front_if(|next| next.card == number)
            {
                batch.push(next.packet);
            }
            match cards.get(number) {
                Some(card) => card.bring(inet, &mut batch, &mut tools),
                None => batch.clear(),
            }
        }
        taken.shrink_to(KEPT);
    }
}
