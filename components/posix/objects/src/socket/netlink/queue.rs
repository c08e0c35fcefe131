//! [`ParcelQueue`]: messages that a socket received, and the rest of its dumps.
use super::super::interface::Identity;
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};

/// Memory of a message beside its bytes, as it is charged to the socket.
const OVERHEAD: usize = 256;

/// A received datagram.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) bytes: Arc<[u8]>,
    /// Port of the sender; zero for the kernel.
    pub(super) port: u32,
    /// Group that it was sent to; zero for none.
    pub(super) group: u32,
    pub(super) identity: Identity,
}

impl Parcel {
    /// Returns a message of the kernel to a group; zero for none.
    pub(super) fn of_kernel(bytes: Vec<u8>, group: u32) -> Parcel {
        Parcel { bytes: bytes.into(), port: 0, group, identity: super::KERNEL }
    }
    fn charge(&self) -> usize {
        self.bytes.len().saturating_add(OVERHEAD)
    }
}

/// The way in which the loss of a datagram is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The next receive tells it.
    Told,
    /// No call tells it (NETLINK_NO_ENOBUFS).
    Silent,
}

/// The queue of a socket.
#[derive(Default)]
pub(super) struct ParcelQueue {
    waiting: VecDeque<Parcel>,
    charged: usize,
    /// Datagrams of dumps that did not fit yet.
    dumped: VecDeque<Vec<u8>>,
    has_lost: bool,
}

impl ParcelQueue {
    /// Adds a datagram. One for which there is no room is lost, which is noted if `loss` says so.
    pub(super) fn push(&mut self, parcel: Parcel, limit: usize, loss: Loss) {
        if self.charged > 0 && self.charged.saturating_add(parcel.charge()) > limit {
            self.lose(loss);
            return;
        }
        self.add(parcel);
    }
    /// Notes that a message for this socket was lost, if `loss` says so.
    pub(super) fn lose(&mut self, loss: Loss) {
        self.has_lost |= loss == Loss::Told;
    }
    fn add(&mut self, parcel: Parcel) {
        self.charged = self.charged.saturating_add(parcel.charge());
        self.waiting.push_back(parcel);
    }
    /// Adds the datagrams of a dump, which are never lost.
    pub(super) fn dump(&mut self, datagrams: Vec<Vec<u8>>) {
        self.dumped.extend(datagrams);
        self.refill();
    }
    /// Returns the first datagram.
    pub(super) fn first(&self) -> Option<&Parcel> {
        self.waiting.front()
    }
    /// Removes the first datagram. The next one of a dump takes its place.
    pub(super) fn take(&mut self) -> Option<Parcel> {
        let parcel = self.waiting.pop_front()?;
        self.charged = self.charged.saturating_sub(parcel.charge());
        self.refill();
        Some(parcel)
    }
    fn refill(&mut self) {
        if self.waiting.is_empty()
            && let Some(bytes) = self.dumped.pop_front()
        {
            self.add(Parcel::of_kernel(bytes, 0));
        }
    }
    /// Returns whether messages were lost, once.
    pub(super) fn take_loss(&mut self) -> bool {
        core::mem::take(&mut self.has_lost)
    }
    /// Returns whether messages were lost.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }
    /// Returns the memory of the datagrams that wait, in bytes.
    pub(super) fn charged(&self) -> usize {
        self.charged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(length: usize) -> Parcel {
        Parcel::of_kernel(vec![7; length], 1)
    }

    #[test]
    fn a_full_queue_loses_messages_and_tells_once() {
        let mut queue = ParcelQueue::default();
        queue.push(parcel(5000), 1000, Loss::Told);
        assert!(!queue.has_lost(), "an empty queue takes any message");
        queue.push(parcel(1), 1000, Loss::Silent);
        assert!(!queue.take_loss());
        queue.push(parcel(1), 1000, Loss::Told);
        assert!(queue.take_loss() && !queue.take_loss());
        assert_eq!(queue.take().map(|parcel| parcel.bytes.len()), Some(5000));
        assert_eq!((queue.charged(), queue.take().is_none()), (0, true));
    }

    #[test]
    fn dumps_follow_as_the_program_reads() {
        let mut queue = ParcelQueue::default();
        queue.push(parcel(1), 10_000, Loss::Told);
        queue.dump(vec![vec![1; 4], vec![2; 4]]);
        let next = |queue: &mut ParcelQueue| queue.take().map(|parcel| parcel.bytes[0]);
        let all: Vec<_> = core::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(all, [7, 1, 2]);
        assert_eq!(queue.charged(), 0);
    }
}
