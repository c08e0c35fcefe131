//! [`SocketWakes`]: the threads that wait for events of a socket, and the observer by which the stack wakes them.
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use interfaces::sockets::{SocketEvents, SocketObserver};
use vfs::poll::{PollTable, WaitQueue};

/// The wait queues of a socket.
pub(super) struct SocketWakes {
    /// Woken when bytes, a datagram or a connection came, or none will come any more, and when the state changed.
    pub(super) arrived: WaitQueue,
    /// Woken when there is room to send, and when the state changed.
    pub(super) room: WaitQueue,
    /// Number of changes of the state, of which each may be the announcement of an urgent byte.
    changes: AtomicU32,
    /// Number of changes after which the stack knew of no urgent byte.
    plain_changes: AtomicU32,
    /// Woken when an urgent byte was announced, for SIGURG alone.
    pub(super) urgent: WaitQueue,
    /// Number of the processor that handled the last packet (SO_INCOMING_CPU); -1 before the first.
    pub(super) processor: AtomicI32,
}

impl SocketWakes {
    /// Makes queues without threads.
    pub(super) fn new() -> Arc<SocketWakes> {
        Arc::new(SocketWakes {
            arrived: WaitQueue::new(),
            room: WaitQueue::new(),
            changes: AtomicU32::new(0),
            plain_changes: AtomicU32::new(0),
            urgent: WaitQueue::new(),
            processor: AtomicI32::new(-1),
        })
    }
    /// Adds both queues to a table.
    pub(super) fn watch(&self, table: &PollTable) {
        table.add(&self.arrived);
        table.add(&self.room);
    }
    /// Wakes all.
    pub(super) fn wake_all(&self) {
        self.arrived.wake();
        self.room.wake();
    }
    /// Notes the processor of the stack's thread.
    #[inline]
    fn note_processor(&self) {
        let now = rt::thread::processors().1 as i32;
        if self.processor.load(Ordering::Relaxed) != now {
            self.processor.store(now, Ordering::Relaxed);
        }
    }
    /// Returns the place of the urgent byte, which `ask` returns if the stack knows of one. It is asked only if the state has changed
    /// since it knew of none.
    #[inline]
    pub(super) fn urgent_mark(&self, ask: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let changes = self.changes.load(Ordering::Acquire);
        if changes == self.plain_changes.load(Ordering::Relaxed) {
            return None;
        }
        let mark = ask();
        if mark.is_none() {
            self.plain_changes.store(changes, Ordering::Relaxed);
        }
        mark
    }
}

impl SocketObserver for SocketWakes {
    fn notify(&self, events: SocketEvents) {
        let of_all = SocketEvents::STATE | SocketEvents::ERROR;
        if events.contains(SocketEvents::STATE) {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        if events.intersects(of_all | SocketEvents::READABLE) {
            self.note_processor();
            self.arrived.wake();
        }
        if events.contains(SocketEvents::URGENT) {
            self.urgent.wake();
        }
        if events.intersects(of_all | SocketEvents::WRITABLE) {
            self.room.wake();
        }
    }
}
