//! [`DatagramQueue`]: datagrams that a socket received and the program has not read, and the errors about those that it sent.
//!
//! The client owns the queue and the stack fills it, so the queue survives a stack that starts again.
//!
//! Two things tell of errors, as in Linux. The *next error* (`sk_err`) ends the next call of any kind, once. The *error queue*
//! (`IP_RECVERR`) keeps reports until `MSG_ERRQUEUE` takes them. A report of ICMP also becomes the next error, now and when the
//! report before it is taken. A report of this host does not: the call that failed has told of it already.
//!
//! Datagrams and reports are charged to the socket by the memory that they keep. A datagram finds room as long as the charge is not
//! above the limit, so the charge ends at most one datagram above it (`__udp_enqueue_schedule_skb`).
//!
//! Locks: `datagrams.queue`; nothing is held over a call of the observer.
use super::{
    FarEnd, FilterSlot, QueueChange, ReceivedExtensions, ReceivedOptions, SocketError,
    SocketEvents, SocketObserver,
};
use crate::{marshal::Marshal, nic::PacketSegment};
use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};
use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
};
use rt::{PAGE_BYTES, lock_class, sync::Mutex};

lock_class! {
    static QUEUE = "datagrams.queue";
}

/// Memory of a queued datagram or report beside its payload, as it is charged to the socket, in bytes.
const OVERHEAD: usize = 256;
/// Places that an empty queue keeps for the next datagrams.
const PLACES_KEPT: usize = 32;

/// The payload of a datagram.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A short payload, which was copied so that it does not keep a frame.
    Bytes(Box<[u8]>),
    /// Parts of frames.
    Segments(Vec<PacketSegment>),
}

impl Default for Payload {
    /// Returns an empty payload.
    fn default() -> Payload {
        Payload::Bytes(Box::default())
    }
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
    /// Copies bytes from `offset` on to `out`. Returns their number.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> usize {
        match self {
            Payload::Bytes(bytes) => copy(bytes.get(offset..).unwrap_or_default(), out),
            Payload::Segments(parts) => {
                let (mut skip, mut done) = (offset, 0);
                for part in parts {
                    let length = part.length as usize;
                    if skip < length {
                        let room = out.get_mut(done..).unwrap_or_default();
                        let count = room.len().min(length - skip);
                        let from = part.offset as usize + skip;
                        let room = room.get_mut(..count).unwrap_or_default();
                        done += part.frame.read(from, room);
                    }
                    skip = skip.saturating_sub(length);
                }
                done
            }
        }
    }
    /// Returns the memory that it keeps, in bytes. Neighbouring parts of one frame keep it once.
    fn memory(&self) -> usize {
        match self {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Segments(parts) => {
                let same = |pair: &&[PacketSegment]| match pair {
                    [one, next] => one.frame.id() == next.frame.id(),
                    _ => false,
                };
                let shared = parts.windows(2).filter(same).count();
                (parts.len() - shared).saturating_mul(PAGE_BYTES)
            }
        }
    }
}

/// Copies as many bytes as both have. Returns their number.
fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let count = from.len().min(to.len());
    let (from, to) = (from.get(..count), to.get_mut(..count));
    to.unwrap_or_default().copy_from_slice(from.unwrap_or_default());
    count
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
    /// Time of arrival by the monotonic clock (`rt::time::now`), in nanoseconds.
    pub received_ns: u64,
    /// Datagrams of this socket that had found no room when this one came (`SO_RXQ_OVFL`). The queue sets it.
    pub dropped: u32,
    /// Bytes of each datagram but the last, if the payload is several (`UDP_GRO`).
    pub segment: Option<u16>,
    /// The options of its header of IPv4, if it had any.
    pub header_options: Option<Box<ReceivedOptions>>,
    /// Its extension headers of IPv6, if it had any.
    pub extensions: Option<Box<ReceivedExtensions>>,
    /// The bytes.
    pub payload: Payload,
}

impl ReceivedDatagram {
    fn charge(&self) -> usize {
        self.payload.memory().saturating_add(OVERHEAD)
    }
}

/// The packet of the ICMP message that told of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct ErrorCarrier {
    /// Its sender.
    pub offender: IpAddr,
    /// Its receiver: an address of this host.
    pub receiver: IpAddr,
    /// Number of the interface by which it came.
    pub interface: u32,
    /// Hops that were left.
    pub hop_limit: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// Time of arrival by the monotonic clock (`rt::time::now`), in nanoseconds.
    pub received_ns: u64,
}

/// An entry of a socket's error queue (`IP_RECVERR`; `struct sock_extended_err`).
#[derive(Clone, Debug)]
pub struct ErrorReport {
    /// The error.
    pub error: SocketError,
    /// The packet that told of it; `None` for an error of this host.
    pub carrier: Option<ErrorCarrier>,
    /// Type and code of the ICMP message.
    pub message: (u8, u8),
    /// The MTU that it tells, or zero.
    pub mtu: u32,
    /// The destination of the packet that it is about.
    pub destination: SocketAddr,
    /// The payload of that packet, as far as it was quoted.
    pub payload: Payload,
}

impl ErrorReport {
    fn charge(&self) -> usize {
        self.payload.memory().saturating_add(OVERHEAD)
    }
    /// Returns the error if another host told of it.
    fn remote(&self) -> Option<SocketError> {
        self.carrier.map(|_| self.error)
    }
}

#[derive(Default)]
struct QueueState {
    datagrams: VecDeque<ReceivedDatagram>,
    reports: VecDeque<ErrorReport>,
    /// Memory of both, in bytes.
    charged: usize,
    limit: usize,
    error: Option<SocketError>,
    dropped: u64,
}

impl QueueState {
    /// Removes the charge of an entry that was taken, and gives back the memory of a queue that has become empty.
    fn release(&mut self, charge: usize) {
        self.charged = self.charged.saturating_sub(charge);
        if self.datagrams.is_empty() && self.datagrams.capacity() > PLACES_KEPT {
            self.datagrams = VecDeque::new();
        }
    }
}

/// The observer of an end whose client is in another world.
struct NoObserver;

impl SocketObserver for NoObserver {
    fn notify(&self, _: SocketEvents) {}
}

/// Datagrams that a socket received, and its errors.
pub struct DatagramQueue {
    state: Mutex<QueueState>,
    takes_several: AtomicBool,
    observer: Arc<dyn SocketObserver>,
    filter: FilterSlot,
    /// The way to the client, if this is the stack's end and the client is in another world.
    far: Option<FarEnd>,
}

impl DatagramQueue {
    /// Makes an empty queue, which may keep `limit` bytes of memory.
    pub fn new(observer: Arc<dyn SocketObserver>, limit: usize) -> DatagramQueue {
        let state = QueueState { limit, ..QueueState::default() };
        DatagramQueue {
            state: Mutex::new(&QUEUE, state),
            takes_several: AtomicBool::new(false),
            observer,
            filter: FilterSlot::default(),
            far: None,
        }
    }
    /// Makes the stack's end of a queue whose client is in another world. It passes on what it is told, and keeps one error at most,
    /// which [`DatagramQueue::lend_error`] gives it.
    pub fn at_stack(far: FarEnd) -> DatagramQueue {
        DatagramQueue { far: Some(far), ..DatagramQueue::new(Arc::new(NoObserver), 0) }
    }
    /// Gives the stack's end the error that waits, for the time of a call that may report it.
    pub fn lend_error(&self, error: Option<SocketError>) {
        self.state.lock().error = error;
    }
    /// Returns the place of the filter, which the stack asks before it queues a datagram.
    pub fn filter(&self) -> &FilterSlot {
        &self.filter
    }
    /// Sets the memory that the queue may keep (`SO_RCVBUF`).
    pub fn set_limit(&self, bytes: usize) {
        self.state.lock().limit = bytes;
    }
    /// Sets whether several datagrams that one call sent come as one (`UDP_GRO`).
    pub fn set_takes_several(&self, takes_several: bool) {
        self.takes_several.store(takes_several, Ordering::Relaxed);
    }
    /// Takes the oldest datagram; before it, once, the next error.
    ///
    /// # Errors
    /// The error that waited.
    pub fn take(&self) -> Result<Option<ReceivedDatagram>, SocketError> {
        let mut state = self.state.lock();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let Some(datagram) = state.datagrams.pop_front() else { return Ok(None) };
        state.release(datagram.charge());
        Ok(Some(datagram))
    }
    /// Returns a copy of the datagram `skip` places behind the oldest (`MSG_PEEK`). It shares the frames of a long payload.
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
        state.charged = state.charged.saturating_add(datagram.charge());
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
    /// Takes the oldest entry of the error queue (`MSG_ERRQUEUE`). If ICMP told of the entry behind it, the error of that one becomes
    /// the next error; else the next error is cleared with the last entry of ICMP (`sock_dequeue_err_skb`).
    pub fn take_report(&self) -> Option<ErrorReport> {
        let mut state = self.state.lock();
        let report = state.reports.pop_front()?;
        state.release(report.charge());
        let next = state.reports.front().and_then(ErrorReport::remote);
        if next.is_some() || report.remote().is_some() {
            state.error = next;
        }
        Some(report)
    }
    /// Drops the error queue (`IP_RECVERR` was switched off). The next error stays.
    pub fn clear_reports(&self) {
        let mut state = self.state.lock();
        let old = core::mem::take(&mut state.reports);
        let charge = old.iter().map(ErrorReport::charge).fold(0, usize::saturating_add);
        state.release(charge);
        drop(state);
        drop(old);
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

    /// Returns whether several datagrams that one call sent come as one.
    pub fn takes_several(&self) -> bool {
        self.takes_several.load(Ordering::Relaxed)
    }
    /// Queues a datagram, and sets its count of dropped ones. Returns whether there was room.
    pub fn push(&self, mut datagram: ReceivedDatagram) -> bool {
        if let Some(far) = &self.far {
            far.queue_changed(QueueChange::Pushed(datagram));
            return true;
        }
        {
            let mut state = self.state.lock();
            if state.charged > state.limit {
                state.dropped += 1;
                return false;
            }
            // The count that programs see has 32 bits and wraps.
            datagram.dropped = state.dropped as u32;
            state.charged = state.charged.saturating_add(datagram.charge());
            state.datagrams.push_back(datagram);
        }
        self.observer.notify(SocketEvents::READABLE);
        true
    }
    /// Makes `error` the next error.
    pub fn fail(&self, error: SocketError) {
        if let Some(far) = &self.far {
            return far.queue_changed(QueueChange::Failed(error));
        }
        self.state.lock().error = Some(error);
        self.observer.notify(SocketEvents::ERROR);
    }
    /// Adds to the error queue, if there is room. An error of another host becomes the next error, room or not.
    pub fn report(&self, report: ErrorReport) {
        if let Some(far) = &self.far {
            return far.queue_changed(QueueChange::Reported(report));
        }
        {
            let mut state = self.state.lock();
            if let Some(error) = report.remote() {
                state.error = Some(error);
            }
            let charge = report.charge();
            if state.charged.saturating_add(charge) < state.limit {
                state.charged += charge;
                state.reports.push_back(report);
            }
        }
        self.observer.notify(SocketEvents::ERROR);
    }
}
