//! [`DatagramQueue`]: datagrams that a socket received and the program has not read, and the errors about those that it sent.
//!
//! The client owns the queue and the stack fills it, so the queue survives a stack that starts again.
//!
//! Locks: `datagrams.queue`; nothing is held over a call of the observer.
use super::{SocketError, SocketEvents, SocketObserver};
use crate::nic::PacketSegment;
use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};
use core::net::{IpAddr, SocketAddr};
use rt::{PAGE_BYTES, lock_class, sync::Mutex};

lock_class! {
    static QUEUE = "datagrams.queue";
}

/// Memory of a queued datagram beside its payload, as it is charged to the socket, in bytes.
const OVERHEAD: usize = 256;
/// Errors that wait, at most.
const ERRORS_MAX: usize = 64;

/// The payload of a datagram.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A short payload, which was copied so that it does not keep a frame.
    Bytes(Box<[u8]>),
    /// Parts of frames.
    Segments(Vec<PacketSegment>),
}

impl Payload {
    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        match self {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Segments(parts) => {
                parts.iter().fold(0, |all, part| all.saturating_add(part.length as usize))
            }
        }
    }
    /// Returns the memory that it keeps, in bytes.
    fn memory(&self) -> usize {
        match self {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Segments(parts) => parts.len().saturating_mul(PAGE_BYTES),
        }
    }
}

/// A received datagram.
#[derive(Clone, Debug)]
pub struct ReceivedDatagram {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver, with the port of the socket.
    pub destination: SocketAddr,
    /// Number of the interface by which it came.
    pub interface: u32,
    /// Hops that were left.
    pub hop_limit: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// Wall-clock time of arrival, in nanoseconds.
    pub received_ns: u64,
    /// The bytes.
    pub payload: Payload,
}

impl ReceivedDatagram {
    fn charge(&self) -> usize {
        self.payload.memory().saturating_add(OVERHEAD)
    }
}

/// An entry of a socket's error queue (`IP_RECVERR`; `struct sock_extended_err`).
#[derive(Clone, Debug)]
pub struct ErrorReport {
    /// The error.
    pub error: SocketError,
    /// The sender of the ICMP message; `None` for an error of this host.
    pub offender: Option<IpAddr>,
    /// Type and code of the ICMP message.
    pub message: (u8, u8),
    /// The MTU that it tells, or zero.
    pub mtu: u32,
    /// The destination of the packet that it is about.
    pub destination: SocketAddr,
    /// Number of the interface by which it came.
    pub interface: u32,
    /// The payload of that packet, as far as it was quoted.
    pub payload: Payload,
}

#[derive(Default)]
struct State {
    datagrams: VecDeque<ReceivedDatagram>,
    charged: usize,
    limit: usize,
    error: Option<SocketError>,
    reports: VecDeque<ErrorReport>,
    dropped: u64,
}

/// Datagrams that a socket received, and its errors.
pub struct DatagramQueue {
    state: Mutex<State>,
    observer: Arc<dyn SocketObserver>,
}

impl DatagramQueue {
    /// Makes an empty queue, which may keep `limit` bytes of memory.
    pub fn new(observer: Arc<dyn SocketObserver>, limit: usize) -> DatagramQueue {
        let state = State { limit, ..State::default() };
        DatagramQueue { state: Mutex::new(&QUEUE, state), observer }
    }
    /// Sets the memory that the queue may keep (`SO_RCVBUF`).
    pub fn set_limit(&self, bytes: usize) {
        self.state.lock().limit = bytes;
    }
    /// Takes the oldest datagram; before it, once, the error of an earlier call.
    ///
    /// # Errors
    /// The error that waited.
    pub fn take(&self) -> Result<Option<ReceivedDatagram>, SocketError> {
        let mut state = self.state.lock();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let datagram = state.datagrams.pop_front();
        state.charged -= datagram.as_ref().map_or(0, ReceivedDatagram::charge);
        Ok(datagram)
    }
    /// Returns a copy of the datagram `skip` places behind the oldest (`MSG_PEEK`); its payload is shared.
    ///
    /// # Errors
    /// The error that waited, once.
    pub fn peek(&self, skip: usize) -> Result<Option<ReceivedDatagram>, SocketError> {
        let mut state = self.state.lock();
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(state.datagrams.get(skip).cloned()),
        }
    }
    /// Puts a datagram back before the others, because its copy to the program failed. Its memory is charged again.
    pub fn put_back(&self, datagram: ReceivedDatagram) {
        let mut state = self.state.lock();
        state.charged += datagram.charge();
        state.datagrams.push_front(datagram);
    }
    /// Returns the payload bytes of the oldest datagram (`FIONREAD`), if there is one.
    pub fn first_length(&self) -> Option<usize> {
        self.state.lock().datagrams.front().map(|first| first.payload.length())
    }
    /// Returns what poll(2) reports: datagrams, and errors.
    pub fn events(&self) -> SocketEvents {
        let state = self.state.lock();
        let mut events = SocketEvents::empty();
        events.set(SocketEvents::READABLE, !state.datagrams.is_empty());
        events.set(SocketEvents::ERROR, state.error.is_some() || !state.reports.is_empty());
        events
    }
    /// Returns and clears the error that the next call would report (`SO_ERROR`).
    pub fn take_error(&self) -> Option<SocketError> {
        self.state.lock().error.take()
    }
    /// Takes the oldest entry of the error queue (`MSG_ERRQUEUE`). The next entry's error becomes that of the next call.
    pub fn take_report(&self) -> Option<ErrorReport> {
        let mut state = self.state.lock();
        let report = state.reports.pop_front();
        state.error = state.reports.front().map(|next| next.error);
        report
    }
    /// Returns the memory in use, in bytes, and the number of datagrams that found no room.
    pub fn usage(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.charged, state.dropped)
    }
    /// Drops all datagrams and errors.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        let old = core::mem::take(&mut *state);
        (state.limit, state.dropped) = (old.limit, old.dropped);
        drop(state);
        drop(old);
    }

    // The stack's part.

    /// Queues a datagram. A queue that is empty takes any one. Returns whether there was room.
    pub fn push(&self, datagram: ReceivedDatagram) -> bool {
        {
            let mut state = self.state.lock();
            let charge = datagram.charge();
            if state.charged > 0 && state.charged.saturating_add(charge) > state.limit {
                state.dropped += 1;
                return false;
            }
            state.charged += charge;
            state.datagrams.push_back(datagram);
        }
        self.observer.notify(SocketEvents::READABLE);
        true
    }
    /// Makes `error` that of the next call.
    pub fn fail(&self, error: SocketError) {
        self.state.lock().error = Some(error);
        self.observer.notify(SocketEvents::ERROR);
    }
    /// Adds to the error queue, as far as it has room, and makes the error that of the next call.
    pub fn report(&self, report: ErrorReport) {
        {
            let mut state = self.state.lock();
            state.error = Some(report.error);
            if state.reports.len() < ERRORS_MAX {
                state.reports.push_back(report);
            }
        }
        self.observer.notify(SocketEvents::ERROR);
    }
    /// Tells the program that there is room to send again.
    pub fn notify_room(&self) {
        self.observer.notify(SocketEvents::WRITABLE);
    }
}
