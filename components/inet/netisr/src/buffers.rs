//! [`BufferPool`]: the buffers of a card for reception. Each is lent to the card, waits for a netisr, or is held by sockets.
//!
//! A socket's queue holds a frame and tells nobody when it drops it. So the pool looks at held buffers whenever packets have come,
//! the oldest first, and lends those again that are not in use. When sockets hold more than half of the buffers, the oldest ones
//! are replaced by new frames: a program that does not read must not stop the card.
use alloc::{collections::VecDeque, vec::Vec};
use interfaces::nic::{NUMBERS, Nic, ReceiveBuffer};
use rt::{lock_class, memory::Frame, sync::Mutex};

lock_class! {
    static BUFFERS = "inet.card.buffers";
}

/// Held buffers that are looked at after each batch of packets, at most.
const LOOKED_AT: usize = 64;
/// The buffers take at most one part in this many of the memory.
const MEMORY_SHARE: u64 = 64;
/// The least number of buffers, however small the memory is.
const BUFFERS_MIN: usize = 16;

/// The buffers of a card.
pub struct BufferPool {
    count: usize,
    held: Mutex<VecDeque<ReceiveBuffer>>,
}

impl BufferPool {
    /// Makes a pool for a card that takes `wanted` buffers at once.
    pub fn new(wanted: usize) -> BufferPool {
        let share = rt::memory::statistics().total_frames / MEMORY_SHARE;
        let most = usize::try_from(share).unwrap_or(usize::MAX).max(BUFFERS_MIN);
        let count = wanted.min(most).min(NUMBERS as usize);
        BufferPool { count, held: Mutex::new(&BUFFERS, VecDeque::with_capacity(count)) }
    }
    /// Lends all buffers for the first time. Returns their number, which is smaller if memory is refused.
    pub fn fill(&self, nic: &dyn Nic) -> usize {
        let buffer = |number| Some(ReceiveBuffer { number, frame: Frame::zeroed().ok()? });
        let mut buffers: Vec<_> = (0..self.count as u32).map_while(buffer).collect();
        let count = buffers.len();
        nic.lend(&mut buffers);
        count
    }
    /// Takes buffers back: those that are `free` are lent again at once, those that are `held` when they are not in use. Empties
    /// both.
    pub fn give_back(
        &self,
        nic: &dyn Nic,
        free: &mut Vec<ReceiveBuffer>,
        held: &mut Vec<ReceiveBuffer>,
    ) {
        nic.lend(free);
        let mut waiting = self.held.lock();
        waiting.extend(held.drain(..));
        if waiting.is_empty() {
            return;
        }
        let count = waiting.len().min(LOOKED_AT);
        held.extend(waiting.drain(..count));
        nic.lend_unused(held);
        // Those that are still in use stay the oldest.
        for buffer in held.drain(..).rev() {
            waiting.push_front(buffer);
        }
        while waiting.len() > self.count / 2
            && let Ok(frame) = Frame::zeroed()
            && let Some(ReceiveBuffer { number, .. }) = waiting.pop_front()
        {
            held.push(ReceiveBuffer { number, frame });
        }
        nic.lend(held);
    }
}
