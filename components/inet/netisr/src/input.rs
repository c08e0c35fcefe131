//! Netisr threads: each takes received packets from its [`InputQueue`] to the stack, in batches. The thread of a driver brings a
//! lone packet for an idle netisr itself, which saves two changes of threads.
use crate::card::{Card, Tools};
use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};
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

struct InputState {
    packets: VecDeque<WaitingPacket>,
    /// The lists of the netisr, while no thread brings packets of the queue to the stack. A thread that takes them has the right
    /// to, alone, so the packets of a flow stay in order.
    tools: Option<Box<Tools>>,
}

/// Packets that wait for one netisr.
pub struct InputQueue {
    state: Mutex<InputState>,
    arrived: Event,
}

impl InputQueue {
    /// Makes an empty queue.
    pub fn new() -> InputQueue {
        let packets = VecDeque::with_capacity(KEPT);
        let tools = Some(Box::new(Tools::new(BATCH)));
        InputQueue {
            state: Mutex::new(&INPUT, InputState { packets, tools }),
            arrived: Event::new(),
        }
    }
    /// Appends the packets of `batch`, in order, and wakes the netisr. Those for which there is no room stay in `batch`.
    pub fn put(&self, batch: &mut Vec<WaitingPacket>) {
        let is_idle = {
            let InputState { packets, tools } = &mut *self.state.lock();
            let room = WAITING_MAX.saturating_sub(packets.len()).min(batch.len());
            packets.extend(batch.drain(..room));
            tools.is_some()
        };
        // A thread that is at it looks again when it is done.
        if is_idle {
            self.arrived.signal();
        }
    }
    /// Returns the lists of an idle netisr: the caller brings its packets to the stack itself, and then calls
    /// [`InputQueue::release`].
    pub fn claim(&self) -> Option<Box<Tools>> {
        let InputState { packets, tools } = &mut *self.state.lock();
        if packets.is_empty() { tools.take() } else { None }
    }
    /// Ends a turn at the queue. The netisr takes packets that came meanwhile.
    pub fn release(&self, lists: Box<Tools>) {
        let has_more = {
            let InputState { packets, tools } = &mut *self.state.lock();
            *tools = Some(lists);
            !packets.is_empty()
        };
        if has_more {
            self.arrived.signal();
        }
    }
    /// Swaps the packets that wait for those in `taken`, which is empty. Waits until there is one and no other thread is at the
    /// queue. Returns the lists, for [`InputQueue::release`].
    fn take(&self, taken: &mut VecDeque<WaitingPacket>) -> Box<Tools> {
        loop {
            let ticket = self.arrived.ticket();
            {
                let InputState { packets, tools } = &mut *self.state.lock();
                if !packets.is_empty()
                    && let Some(tools) = tools.take()
                {
                    core::mem::swap(packets, taken);
                    return tools;
                }
            }
            self.arrived.wait(ticket, None);
        }
    }
}

/// Brings packets of `queue` to the stack, for ever.
pub fn serve(inet: &Inet, queue: &InputQueue, cards: &[Arc<Card>]) {
    let mut taken = VecDeque::with_capacity(KEPT);
    loop {
        let mut tools = queue.take(&mut taken);
        while let Some(WaitingPacket { card: number, .. }) = taken.front() {
            let number = *number;
            let of_card = taken.iter().take(BATCH).take_while(|next| next.card == number);
            let count = of_card.count();
            let batch = taken.drain(..count).map(|waiting| waiting.packet);
            if let Some(card) = cards.get(number) {
                card.bring(inet, batch, &mut tools);
            }
        }
        taken.shrink_to(KEPT);
        queue.release(tools);
    }
}
