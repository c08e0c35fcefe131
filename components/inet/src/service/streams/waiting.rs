//! TIME-WAIT: the small state that is left of a connection, with a bound on their number.
use super::{by_time::ByTime, claims::PortClaim};
use crate::service::kept::flows::KeptSlot;
use alloc::{boxed::Box, sync::Arc};
use interfaces::sockets::{SocketFamilies, StreamOptions};
use rt::{lock_class, sync::Mutex};
use tcp::{Flow, TimeWait};

lock_class! {
    pub(super) static TABLE = "inet.tcp.waiting";
    pub(super) static WAITING = "inet.tcp.time_wait";
    pub(super) static WAITING_KEPT = "inet.tcp.time_wait.kept";
}

/// A connection in TIME-WAIT.
pub(crate) struct Waiting {
    pub(crate) flow: Flow,
    pub(super) hash: u64,
    pub(super) claim: PortClaim,
    /// The options of the socket, unless they are those that a socket begins with.
    pub(super) options: Option<Box<StreamOptions>>,
    /// `None` after its end.
    pub(super) state: Mutex<Option<TimeWait>>,
    /// The slot for a successor, until the end.
    pub(super) kept: Mutex<Option<KeptSlot>>,
}

/// The connections in TIME-WAIT, by the time at which they are looked at, also those that ended before it.
pub(crate) type WaitingTable = ByTime<Arc<Waiting>>;

impl Waiting {
    /// Returns the families of the socket that it was.
    pub(super) fn families(&self) -> SocketFamilies {
        self.claim.families
    }
    /// Returns the time of its end, in nanoseconds; `None` after that.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.state.lock().as_ref().map(TimeWait::deadline)
    }
}
