//! The stack's end of a stream or a queue whose client is in another world.
//!
//! The client's end has the bytes; the stack's end has the counters, and names the frames of the bytes to be sent. The client's
//! frames come from a [`FrameSource`], so that the stack can read them. The stack passes what it does to a [`FarClient`], in order.
#[cfg(any(not(target_os = "none"), skerry_process))]
use super::SocketObserver;
use super::{ErrorReport, KEPT_WORDS, ReceivedDatagram, SocketError, SocketEvents, StreamState};
use crate::{marshal::Marshal, nic::PacketSegment};
use alloc::{sync::Arc, vec::Vec};
use rt::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, FrameId},
};

/// A stream or a queue, as both worlds number it. The client numbers those that it makes, the stack the streams of its listeners'
/// connections ([`EndNumber::is_of_stack`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndNumber(pub u32);

impl EndNumber {
    /// The bit of the numbers that the stack gives.
    pub const OF_STACK: u32 = 1 << 31;

    /// Returns whether the stack gave the number.
    pub fn is_of_stack(self) -> bool {
        self.0 & EndNumber::OF_STACK != 0
    }
}

/// A change of a stream by the stack, beside the bytes that it delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamChange {
    /// The peer has all bytes before this one ([`super::Stream::acknowledge`]).
    Acknowledged(u64),
    /// The state has grown ([`super::Stream::enter`]).
    Entered(StreamState),
    /// The stream has ended ([`super::Stream::fail`]).
    Failed(SocketError),
    /// The peer announced an urgent byte.
    Urgent,
    /// The client is to look at the stream.
    Notified(SocketEvents),
    /// The words for a successor ([`super::Stream::keep`]).
    Kept([u64; KEPT_WORDS]),
    /// The stack is to be told of reads ([`super::Stream::await_room`]).
    Awaits(usize),
    /// Received bytes may hold so much memory ([`super::Stream::grow_receive_limit`]).
    Grows(usize),
}

/// A change of a queue by the stack.
#[derive(Debug)]
pub enum QueueChange {
    /// A datagram came ([`super::DatagramQueue::push`]).
    Pushed(ReceivedDatagram),
    /// The next call has an error ([`super::DatagramQueue::fail`]).
    Failed(SocketError),
    /// An error was reported ([`super::DatagramQueue::report`]).
    Reported(ErrorReport),
}

/// The way to the client of far ends. It is called on threads of the stack, under locks of connections, and must not block.
pub trait FarClient: Send + Sync {
    /// Bytes of a stream came, in order. Empties `segments`.
    fn delivered(&self, stream: EndNumber, segments: &mut Vec<PacketSegment>);
    /// A stream has changed.
    fn changed(&self, stream: EndNumber, change: StreamChange);
    /// A queue has changed.
    fn queue_changed(&self, queue: EndNumber, change: QueueChange);
    /// The stack has dropped its end: nothing more comes of it.
    fn dropped(&self, end: EndNumber);
}

/// A far end's number, and the way to its client. Its drop tells the client.
pub struct FarEnd {
    number: EndNumber,
    client: Arc<dyn FarClient>,
}

impl FarEnd {
    /// Makes the end with that number.
    pub fn new(number: EndNumber, client: Arc<dyn FarClient>) -> FarEnd {
        FarEnd { number, client }
    }
    /// Returns the number.
    pub fn number(&self) -> EndNumber {
        self.number
    }
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn delivered(&self, segments: &mut Vec<PacketSegment>) {
        self.client.delivered(self.number, segments);
    }
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn changed(&self, change: StreamChange) {
        self.client.changed(self.number, change);
    }
    pub(super) fn queue_changed(&self, change: QueueChange) {
        self.client.queue_changed(self.number, change);
    }
    /// Returns an observer that passes events to the client.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(super) fn observer(&self) -> Arc<dyn SocketObserver> {
        Arc::new(FarObserver { number: self.number, client: Arc::clone(&self.client) })
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.client.dropped(self.number);
    }
}

#[cfg(any(not(target_os = "none"), skerry_process))]
struct FarObserver {
    number: EndNumber,
    client: Arc<dyn FarClient>,
}

#[cfg(any(not(target_os = "none"), skerry_process))]
impl SocketObserver for FarObserver {
    fn notify(&self, events: SocketEvents) {
        self.client.changed(self.number, StreamChange::Notified(events));
    }
}

/// The client's view of a stream's reception, of which the stack hears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
pub struct ReadReport {
    /// Bytes that the client has read.
    pub read: u64,
    /// Bytes that had come to the client by then.
    pub received: u64,
    /// Memory that they hold, in bytes.
    pub held: usize,
    /// Memory that they may hold, in bytes.
    pub limit: usize,
    /// Memory that the limit may grow to, in bytes.
    pub limit_max: usize,
}

/// Frames that another world can read.
pub trait FrameSource: Send + Sync {
    /// Appends `count` frames to `out`. Their contents are arbitrary.
    ///
    /// # Errors
    /// [`NoMemory`]; `out` is as before.
    fn allocate(&self, count: usize, out: &mut Vec<Frame>) -> Result<(), NoMemory>;
    /// Returns the frame that other components know by that number, if it is one of these.
    fn find(&self, id: FrameId) -> Option<Frame>;
}

/// Replaces the segments of frames that `source` does not have by copies in frames of it.
///
/// # Errors
/// [`NoMemory`]; some are replaced.
pub fn copy_to_source(
    source: &dyn FrameSource,
    segments: &mut [PacketSegment],
) -> Result<(), NoMemory> {
    let mut bytes = alloc::vec![];
    for segment in segments {
        if source.find(segment.frame.partner_id()).is_some() {
            continue;
        }
        let mut made = Vec::with_capacity(1);
        source.allocate(1, &mut made)?;
        let frame = made.pop().ok_or(NoMemory)?;
        bytes.resize(segment.length as usize, 0);
        let length = segment.frame.read(segment.offset as usize, &mut bytes);
        frame.write(0, bytes.get(..length).unwrap_or_default());
        frame.zero(length, PAGE_BYTES - length);
        *segment = PacketSegment { frame, offset: 0, length: length as u32 };
    }
    Ok(())
}
