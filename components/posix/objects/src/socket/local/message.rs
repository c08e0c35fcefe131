//! The unit of transfer: [`SocketMessage`], the [`Budget`] of its sender, and the sender's [`Identity`].
use super::{Address, rights::Rights};
use crate::socket::{
    common::SEND_DEFAULT,
    interface::{Identity, SocketAddress},
};
use alloc::{sync::Arc, vec, vec::Vec};
use bpf::PacketBytes;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use process::{principal::is_unprivileged, user_memory::User};
use rt::{
    PAGE_BYTES,
    memory::{Charge, Frame},
    sync::Once,
};
use vfs::{
    Errno, Principal,
    file::{SendRoom, Survey},
    io::{Sink, Source},
    poll::WaitQueue,
    security::Label,
};

/// Bytes of a message that are kept on the heap; longer ones are kept in frames.
const HEAP_MAX: usize = 2048;
/// The cost of a message besides its bytes, as Linux counts it against SO_SNDBUF.
const OVERHEAD: usize = 256 + 320;

/// Send buffer account of a socket: the bytes that it has under way, and their limit.
pub struct Budget {
    user: Arc<User>,
    /// The label of the socket, with which its messages come.
    label: &'static Label,
    /// The socket is closed.
    is_orphan: AtomicBool,
    /// A sender found no room, and the socket's owner has not been told of room since.
    is_wanted: AtomicBool,
    /// The name of the socket, which is reported as the sender of its messages even after it has ended.
    name: Once<Address>,
    used: AtomicUsize,
    limit: AtomicUsize,
    /// Senders and pollers that wait for the budget to be writable again.
    pub freed: WaitQueue,
}

impl SendRoom for Budget {
    fn take_room(&self) -> bool {
        self.is_writable() && self.is_wanted.swap(false, Ordering::SeqCst)
    }
}

impl Budget {
    /// Makes the budget of a socket with a label that `maker` makes.
    pub(super) fn new(maker: &dyn Principal, label: &'static Label) -> Arc<Budget> {
        let (used, limit) = (AtomicUsize::new(0), AtomicUsize::new(SEND_DEFAULT.size()));
        let (user, is_orphan) = (User::of_caller(maker), AtomicBool::new(false));
        let (is_wanted, freed) = (AtomicBool::new(false), WaitQueue::new());
        Arc::new(Budget {
            user,
            label,
            is_orphan,
            is_wanted,
            name: Once::new(),
            used,
            limit,
            freed,
        })
    }
    /// Returns the label of the socket.
    pub fn label(&self) -> &'static Label {
        self.label
    }
    /// Returns whether another message may be made. The last one may exceed the limit, as on Linux.
    pub fn has_room(&self) -> bool {
        self.used.load(Ordering::SeqCst) < self.limit()
    }
    /// Returns whether enough is free for poll(2) to report it.
    pub fn is_writable(&self) -> bool {
        self.used.load(Ordering::SeqCst).saturating_mul(4) <= self.limit()
    }
    /// Sets the socket's name, which never changes afterwards.
    pub(super) fn set_name(&self, name: Address) {
        let _ = self.name.set(name);
    }
    /// Records that the owner is to be told once there is room again.
    pub(super) fn want_room(&self) {
        self.is_wanted.store(true, Ordering::SeqCst);
    }
    /// Returns the number of bytes under way.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
    /// Called when the socket is closed: the receiver of its messages is charged for them.
    pub(super) fn abandon(&self) {
        self.is_orphan.store(true, Ordering::Relaxed);
    }
    fn charge(&self, bytes: usize, source: &dyn Source) -> Result<(), Errno> {
        self.user.add_message(bytes, || is_unprivileged(source.caller()))?;
        self.used.fetch_add(bytes, Ordering::SeqCst);
        Ok(())
    }
    fn uncharge(&self, bytes: usize) {
        self.user.remove_message(bytes);
        self.used.fetch_sub(bytes, Ordering::SeqCst);
    }
    /// Returns the id of the user who made the socket.
    pub fn user_id(&self) -> u32 {
        self.user.id()
    }
    /// Returns the limit (SO_SNDBUF).
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }
    /// Sets the limit.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.freed.wake();
    }
}

/// The places of the bytes of a message.
enum Payload {
    Heap(Vec<u8>),
    Frames(Vec<Frame>, usize),
}

impl Payload {
    fn read(source: &mut dyn Source, length: usize) -> Result<Payload, Errno> {
        if length <= HEAP_MAX {
            let mut bytes = vec![0; length];
            let count = if length > 0 { source.take(&mut bytes)? } else { 0 };
            bytes.truncate(count);
            return Ok(Payload::Heap(bytes));
        }
        let mut frames = Vec::new();
        Frame::allocate_unfilled(length.div_ceil(PAGE_BYTES), &mut frames)?;
        let count = source.take_into_frames(&frames, 0, length)?;
        Ok(Payload::Frames(frames, count))
    }
    fn length(&self) -> usize {
        match self {
            Payload::Heap(bytes) => bytes.len(),
            Payload::Frames(_, length) => *length,
        }
    }
    /// Copies bytes from `at` on to `sink`. Returns their number.
    fn write(&self, at: usize, sink: &mut dyn Sink) -> Result<usize, Errno> {
        let wanted = self.length().saturating_sub(at).min(sink.remaining());
        match self {
            _ if wanted == 0 => Ok(0),
            Payload::Heap(bytes) => sink.put(bytes.get(at..at + wanted).unwrap_or_default()),
            Payload::Frames(frames, _) => {
                let frames = frames.get(at / PAGE_BYTES..).unwrap_or_default();
                sink.put_frames(frames, at % PAGE_BYTES, wanted)
            }
        }
    }
}

/// A datagram, or a piece of a stream.
pub struct SocketMessage {
    payload: Payload,
    /// Number of bytes of a stream's piece that were read.
    taken: usize,
    cost: usize,
    budget: Arc<Budget>,
    _charge: Charge,
    /// The sender, if it is to be reported.
    pub identity: Identity,
    /// The descriptors sent with the message.
    pub rights: Option<Rights>,
}

/// The parts of a message besides its bytes.
#[derive(Default)]
pub struct Along {
    /// The credentials that the sender states.
    pub identity: Option<Identity>,
    /// The descriptors to pass.
    pub rights: Option<Rights>,
}

impl SocketMessage {
    /// Makes a message of `length` bytes of `source`.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`, `ENOBUFS` if the sender's user has too many bytes under way.
    pub fn read(
        source: &mut dyn Source,
        length: usize,
        budget: &Arc<Budget>,
        (identity, rights): (Identity, Option<Rights>),
    ) -> Result<SocketMessage, Errno> {
        let kept = if length <= HEAP_MAX { length } else { length.next_multiple_of(PAGE_BYTES) };
        let cost = kept.next_power_of_two().min(kept + HEAP_MAX) + OVERHEAD;
        let charge = Charge::take(cost)?;
        let payload = Payload::read(source, length)?;
        if payload.length() < length {
            return Err(Errno::EFAULT);
        }
        budget.charge(cost, source)?;
        let budget = budget.clone();
        Ok(SocketMessage { payload, taken: 0, cost, budget, _charge: charge, identity, rights })
    }
    /// Returns the label of the socket from which it comes.
    pub fn label(&self) -> &'static Label {
        self.budget.label
    }
    /// Writes the name that its sender has now, or had last, to `to`; a sender without a name leaves it as it is.
    pub(super) fn tell_sender(&self, to: Option<&mut SocketAddress>) {
        if let (Some(to), Some(name)) = (to, self.budget.name.get())
            && *name != Address::None
        {
            *to = name.encode();
        }
    }
    /// Returns the bytes of memory that are charged to the receiver: those of the message if its sender has ended,
    /// and those of the files in it.
    pub(super) fn held_bytes(&self, survey: &mut Survey) -> usize {
        let is_orphan = self.budget.is_orphan.load(Ordering::Relaxed);
        let files = self.rights.iter().flat_map(Rights::files);
        let in_files: usize = files.map(|file| survey.share_of(file)).sum();
        in_files + if is_orphan { self.cost } else { 0 }
    }
    /// Returns the number of bytes that were not read yet.
    pub fn left(&self) -> usize {
        self.payload.length() - self.taken
    }
    /// Copies bytes from `skip` after those read to `sink`. Returns their number.
    ///
    /// # Errors
    /// `EFAULT` if not all for which there was room could be copied.
    pub fn write(&self, skip: usize, sink: &mut dyn Sink) -> Result<usize, Errno> {
        let wanted = self.left().saturating_sub(skip).min(sink.remaining());
        let count = self.payload.write(self.taken.saturating_add(skip), sink)?;
        if count < wanted { Err(Errno::EFAULT) } else { Ok(count) }
    }
    /// Removes all bytes but the first `length`.
    pub fn cut(&mut self, length: usize) {
        match &mut self.payload {
            Payload::Heap(bytes) => bytes.truncate(length),
            Payload::Frames(_, all) => *all = (*all).min(length),
        }
    }
    /// Counts `count` more bytes as read.
    pub fn consume(&mut self, count: usize) {
        self.taken = self.taken.saturating_add(count).min(self.payload.length());
    }
}

/// The bytes, for a filter.
impl PacketBytes for SocketMessage {
    fn length(&self) -> usize {
        self.payload.length()
    }
    fn read(&self, offset: i64, out: &mut [u8]) -> bool {
        match &self.payload {
            Payload::Heap(bytes) => bytes.as_slice().read(offset, out),
            Payload::Frames(frames, length) => {
                let Ok(start) = usize::try_from(offset) else { return false };
                if start.checked_add(out.len()).is_none_or(|end| end > *length) {
                    return false;
                }
                let frames = frames.get(start / PAGE_BYTES..).unwrap_or_default();
                let (mut at, mut done) = (start % PAGE_BYTES, 0);
                for frame in frames {
                    done += frame.read(at, out.get_mut(done..).unwrap_or_default());
                    at = 0;
                }
                done == out.len()
            }
        }
    }
}

impl Drop for SocketMessage {
    /// Wakes senders once poll(2) would report room, not before, as on Linux (`unix_write_space`): a sender that was woken for
    /// each message would take turns with the receiver.
    fn drop(&mut self) {
        if let Payload::Frames(frames, _) = &mut self.payload {
            Frame::release_all(frames.drain(..));
        }
        self.budget.uncharge(self.cost);
        if self.budget.is_writable() {
            self.budget.freed.wake();
        }
    }
}
