//! [`TunnelQueue`]: the packets that wait for one description of the device file.
use alloc::{collections::VecDeque, sync::Arc};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use interfaces::{nic::Packet, sockets::FilterSlot};
use process::{principal::is_unprivileged, user_memory::User};
use rt::{lock_class, sync::Mutex};
use vfs::{Principal, file::Survey, poll::WaitQueue};

lock_class! {
    static WAITING = "tunnel.waiting";
}

/// Memory of a packet beside its bytes, as it is charged, in bytes.
const OVERHEAD: usize = 512;
/// Packets that wait, at most, of an interface whose queue is longer: what one user may hold is limited by its memory.
const PACKETS_MAX: u32 = 65_536;

#[derive(Default)]
struct WaitingPackets {
    packets: VecDeque<Packet>,
    charged: usize,
}

/// The packets that wait for one description, which are charged to the user that opened it.
pub struct TunnelQueue {
    user: Arc<User>,
    is_unprivileged: bool,
    waiting: Mutex<WaitingPackets>,
    limit: AtomicU32,
    /// Nothing will come any more.
    is_shut: AtomicBool,
    /// Woken when a packet comes, and when the interface changes.
    pub changed: WaitQueue,
    /// The filter of packets (`TUNATTACHFILTER`).
    pub filter: FilterSlot,
}

fn charge_of(packet: &Packet) -> usize {
    packet.bytes().saturating_add(OVERHEAD)
}

impl TunnelQueue {
    /// Makes the queue of a description that `opener` opens.
    pub fn new(opener: &dyn Principal) -> Arc<TunnelQueue> {
        Arc::new(TunnelQueue {
            user: User::of_caller(opener),
            is_unprivileged: is_unprivileged(opener),
            waiting: Mutex::new(&WAITING, WaitingPackets::default()),
            limit: AtomicU32::new(0),
            is_shut: AtomicBool::new(false),
            changed: WaitQueue::new(),
            filter: FilterSlot::default(),
        })
    }
    /// Sets the number of packets that wait, at most. Those that are too many stay.
    pub fn set_limit(&self, packets: u32) {
        self.limit.store(packets.min(PACKETS_MAX), Ordering::Relaxed);
    }
    /// Appends a packet. Returns whether there was room for it.
    pub fn put(&self, packet: Packet) -> bool {
        let charge = charge_of(&packet);
        let mut waiting = self.waiting.lock();
        let limit = self.limit.load(Ordering::Relaxed) as usize;
        let has_room = waiting.packets.len() < limit
            && waiting.packets.try_reserve(1).is_ok()
            && self.user.add_message(charge, || self.is_unprivileged).is_ok();
        if has_room {
            waiting.charged = waiting.charged.saturating_add(charge);
            waiting.packets.push_back(packet);
        }
        has_room
    }
    /// Takes the first packet.
    pub fn take(&self) -> Option<Packet> {
        let mut waiting = self.waiting.lock();
        let packet = waiting.packets.pop_front()?;
        let charge = charge_of(&packet);
        waiting.charged = waiting.charged.saturating_sub(charge);
        self.user.remove_message(charge);
        Some(packet)
    }
    /// Returns whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().packets.is_empty()
    }
    /// Drops all packets.
    pub fn clear(&self) {
        let all = core::mem::take(&mut *self.waiting.lock());
        self.user.remove_message(all.charged);
        drop(all);
    }
    /// Ends the queue, or makes it one again. Readers that wait hear of it.
    pub fn set_shut(&self, is_shut: bool) {
        self.is_shut.store(is_shut, Ordering::SeqCst);
        self.changed.wake();
    }
    /// Returns whether nothing will come any more.
    pub fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::SeqCst)
    }
    /// Returns the memory of packets that wait, in bytes; see [`vfs::file::File::held_bytes`].
    pub fn held_bytes(&self, _: &Survey) -> usize {
        self.waiting.try_lock().map_or(0, |waiting| waiting.charged)
    }
}

impl Drop for TunnelQueue {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interfaces::nic::HeaderBytes;
    use vfs::NOBODY;

    fn packet(tag: u64) -> Packet {
        let header = HeaderBytes::new(&[0x45; 40]).unwrap();
        Packet { tag, header, segments: Vec::new(), checksum: None, segmentation: None, flow: 0 }
    }

    #[test]
    fn packets_come_in_order_and_the_last_ones_are_dropped() {
        let queue = TunnelQueue::new(NOBODY);
        assert!(!queue.put(packet(0)), "no interface, no room");
        queue.set_limit(2);
        assert_eq!([1, 2, 3].map(|tag| queue.put(packet(tag))), [true, true, false]);
        assert_eq!(queue.held_bytes(&Survey::default()), 2 * (40 + OVERHEAD));
        assert_eq!([(); 3].map(|()| queue.take().map(|one| one.tag)), [Some(1), Some(2), None]);
        queue.put(packet(4));
        queue.clear();
        assert!(queue.is_empty() && queue.held_bytes(&Survey::default()) == 0);
    }
}
