//! [`StreamTimers`]: the times at which connections are looked at.
//!
//! A connection's deadline moves with each segment, mostly to a later time. So a connection is looked at when the earliest deadline
//! that it ever had comes, and is armed again then, if need be: to move a deadline costs nothing. An idle stack has no timer.
use super::socket::TcpSocket;
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static TIMERS = "inet.tcp.timers";
}

type ByTime = BTreeMap<(u64, u64), Arc<TcpSocket>>;

/// The times at which connections are looked at. The lock is taken with that of a connection held.
pub(crate) struct StreamTimers {
    sockets: Mutex<ByTime>,
    earliest_ns: AtomicU64,
}

impl StreamTimers {
    pub(crate) fn new() -> StreamTimers {
        let sockets = Mutex::new(&TIMERS, BTreeMap::new());
        StreamTimers { sockets, earliest_ns: AtomicU64::new(u64::MAX) }
    }
    /// Returns the first time.
    pub(crate) fn earliest_ns(&self) -> u64 {
        self.earliest_ns.load(Ordering::SeqCst)
    }
    /// Moves a connection's time from `old_ns`, which may be `u64::MAX` for none, to `new_ns`, likewise.
    pub(crate) fn arm(&self, socket: &Arc<TcpSocket>, old_ns: u64, new_ns: u64) {
        let mut sockets = self.sockets.lock();
        let old = match old_ns {
            u64::MAX => None,
            old_ns => sockets.remove(&(old_ns, socket.number)),
        };
        if new_ns != u64::MAX {
            sockets.insert((new_ns, socket.number), Arc::clone(socket));
        }
        self.note_earliest(&sockets);
        drop(sockets);
        drop(old);
    }
    fn note_earliest(&self, sockets: &ByTime) {
        let earliest = sockets.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
        self.earliest_ns.store(earliest, Ordering::SeqCst);
    }
    /// Takes the connections whose time has come.
    pub(crate) fn due(&self, now_ns: u64) -> Vec<Arc<TcpSocket>> {
        let mut due = Vec::new();
        if self.earliest_ns() > now_ns {
            return due;
        }
        let mut sockets = self.sockets.lock();
        while let Some(first) = sockets.first_entry()
            && first.key().0 <= now_ns
        {
            due.push(first.remove());
        }
        self.note_earliest(&sockets);
        due
    }
    /// Returns the number of connections that are armed.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.sockets.lock().len()
    }
}
