//! The unit of transfer: [`Message`], the [`Budget`] of its sender, and the sender's [`Identity`].
use super::{Address, rights::Rights};
use alloc::{sync::Arc, vec, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use memory::setting::Setting;
use process::{current, user_memory::User};
use rt::{
    PAGE_BYTES,
    memory::{Charge, Frame},
    sync::Once,
};
use vfs::{
    Errno,
    file::{SendRoom, Survey},
    io::{Sink, Source},
    poll::WaitQueue,
};

/// Bytes of a message that are kept on the heap; longer ones are kept in frames.
const HEAP_MAX: usize = 2048;
/// The cost of a message beside its bytes, as Linux counts it against SO_SNDBUF.
const OVERHEAD: usize = 256 + 320;
/// Bytes that the sender of a new socket may have on the way (`/proc/sys/net/core/wmem_default`).
pub static BUDGET_DEFAULT: Setting = Setting::new(212_992, SEND_LEAST, i32::MAX as i64);
/// Most that SO_SNDBUF may ask for (`/proc/sys/net/core/wmem_max`).
pub static BUDGET_MAX: Setting = Setting::new(212_992, SEND_LEAST, i32::MAX as i64);
/// The value of SO_RCVBUF where none was set (`/proc/sys/net/core/rmem_default`).
pub static RECEIVE_DEFAULT: Setting = Setting::new(212_992, RECEIVE_LEAST, i32::MAX as i64);
/// Most that SO_RCVBUF may ask for (`/proc/sys/net/core/rmem_max`).
pub static RECEIVE_MAX: Setting = Setting::new(212_992, RECEIVE_LEAST, i32::MAX as i64);
/// Least of these settings, as Linux has them.
const SEND_LEAST: i64 = 4608;
const RECEIVE_LEAST: i64 = 2304;

/// Send buffer account of a socket: the bytes that it has on the way, and their limit.
pub struct Budget {
    user: Arc<User>,
    /// The socket is closed.
    is_orphan: AtomicBool,
    /// A sender found no room, and its owner was not told of any since.
    is_wanted: AtomicBool,
    /// The name of the socket, which its messages are told to come from also when it has gone.
    name: Once<Address>,
    used: AtomicUsize,
    limit: AtomicUsize,
    /// Senders and pollers that wait for bytes to be freed.
    pub freed: WaitQueue,
}

impl SendRoom for Budget {
    fn take_room(&self) -> bool {
        self.is_writable() && self.is_wanted.swap(false, Ordering::SeqCst)
    }
}

impl Budget {
    pub(super) fn new() -> Arc<Budget> {
        let (used, limit) = (AtomicUsize::new(0), AtomicUsize::new(BUDGET_DEFAULT.size()));
        let (user, is_orphan) = (current::account(), AtomicBool::new(false));
        let (is_wanted, freed) = (AtomicBool::new(false), WaitQueue::new());
        Arc::new(Budget { user, is_orphan, is_wanted, name: Once::new(), used, limit, freed })
    }
    /// Another message may be made. The last one may go beyond the limit, as on Linux.
    pub fn has_room(&self) -> bool {
        self.used.load(Ordering::SeqCst) < self.limit()
    }
    /// Enough is free that poll(2) says so.
    pub fn is_writable(&self) -> bool {
        self.used.load(Ordering::SeqCst).saturating_mul(4) <= self.limit()
    }
    /// The socket has got its name, the only one it ever gets.
    pub(super) fn set_name(&self, name: Address) {
        let _ = self.name.set(name);
    }
    /// The owner is to be told once there is room again.
    pub(super) fn want_room(&self) {
        self.is_wanted.store(true, Ordering::SeqCst);
    }
    /// Bytes on the way.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
    /// The socket is closed: whoever is to receive its messages answers for them.
    pub(super) fn abandon(&self) {
        self.is_orphan.store(true, Ordering::Relaxed);
    }
    fn charge(&self, bytes: usize) -> Result<(), Errno> {
        self.user.add_message(bytes, current::is_unprivileged)?;
        self.used.fetch_add(bytes, Ordering::SeqCst);
        Ok(())
    }
    fn uncharge(&self, bytes: usize) {
        self.user.remove_message(bytes);
        self.used.fetch_sub(bytes, Ordering::SeqCst);
    }
    /// SO_SNDBUF.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }
    /// Sets it.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.freed.wake();
    }
}

/// The id that is told where nobody's credentials went with a message (overflowuid, overflowgid).
const OVERFLOW_ID: u32 = 65_534;

/// The identity of a sender, or of the process behind a socket (`struct ucred`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub process: u32,
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

impl Identity {
    /// Nobody's.
    pub const UNKNOWN: Identity = Identity { process: 0, user: OVERFLOW_ID, group: OVERFLOW_ID };
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
        let mut frames = Vec::with_capacity(length.div_ceil(PAGE_BYTES));
        let mut done = 0;
        while done < length {
            let frame = Frame::allocate(false)?;
            let wanted = (length - done).min(PAGE_BYTES);
            let count = match source.take_into_frame(&frame, 0, wanted) {
                Ok(count) => count,
                Err(error) if done == 0 => return Err(error),
                Err(_) => 0,
            };
            frames.push(frame);
            done += count;
            if count < wanted {
                break;
            }
        }
        Ok(Payload::Frames(frames, done))
    }
    fn length(&self) -> usize {
        match self {
            Payload::Heap(bytes) => bytes.len(),
            Payload::Frames(_, length) => *length,
        }
    }
    /// Puts bytes from `at` on into `sink`; how many.
    fn write(&self, at: usize, sink: &mut dyn Sink) -> Result<usize, Errno> {
        let wanted = self.length().saturating_sub(at).min(sink.remaining());
        match self {
            _ if wanted == 0 => Ok(0),
            Payload::Heap(bytes) => sink.put(bytes.get(at..at + wanted).unwrap_or_default()),
            Payload::Frames(frames, _) => {
                let mut done = 0;
                while done < wanted {
                    let position = at + done;
                    let Some(frame) = frames.get(position / PAGE_BYTES) else { break };
                    let within = position % PAGE_BYTES;
                    let piece = (wanted - done).min(PAGE_BYTES - within);
                    let count = match sink.put_frame(frame, within, piece) {
                        Ok(count) => count,
                        Err(error) if done == 0 => return Err(error),
                        Err(_) => 0,
                    };
                    done += count;
                    if count < piece {
                        break;
                    }
                }
                Ok(done)
            }
        }
    }
}

/// A datagram, or a piece of a stream.
pub struct Message {
    payload: Payload,
    /// Bytes of a stream's piece that were read.
    taken: usize,
    cost: usize,
    budget: Arc<Budget>,
    _charge: Charge,
    /// The sender, where anybody is to know.
    pub identity: Identity,
    /// Descriptors sent along.
    pub rights: Option<Rights>,
}

/// The parts of a message beside its bytes.
#[derive(Default)]
pub struct Along {
    /// The credentials that the sender gives.
    pub identity: Option<Identity>,
    /// Descriptors.
    pub rights: Option<Rights>,
}

impl Message {
    /// Takes `length` bytes of `source`.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`, `ENOBUFS` where the sender's user has too much on the way.
    pub fn read(
        source: &mut dyn Source,
        length: usize,
        budget: &Arc<Budget>,
        (identity, rights): (Identity, Option<Rights>),
    ) -> Result<Message, Errno> {
        let kept = if length <= HEAP_MAX { length } else { length.next_multiple_of(PAGE_BYTES) };
        let cost = kept.next_power_of_two().min(kept + HEAP_MAX) + OVERHEAD;
        let charge = Charge::take(cost)?;
        let payload = Payload::read(source, length)?;
        if payload.length() < length {
            return Err(Errno::EFAULT);
        }
        budget.charge(cost)?;
        let budget = budget.clone();
        Ok(Message { payload, taken: 0, cost, budget, _charge: charge, identity, rights })
    }
    /// The name that its sender has now, or had last.
    pub fn sender(&self) -> Address {
        self.budget.name.get().cloned().unwrap_or_default()
    }
    /// Bytes of memory for which the receiver answers: of the message where its sender is gone, of the files in it.
    pub(super) fn held_bytes(&self, survey: &mut Survey) -> usize {
        let is_orphan = self.budget.is_orphan.load(Ordering::Relaxed);
        let files = self.rights.iter().flat_map(Rights::files);
        let in_files: usize = files.map(|file| survey.share_of(file)).sum();
        in_files + if is_orphan { self.cost } else { 0 }
    }
    /// Bytes that were not read yet.
    pub fn left(&self) -> usize {
        self.payload.length() - self.taken
    }
    /// Puts bytes from `skip` after those read into `sink`; how many.
    ///
    /// # Errors
    /// `EFAULT` where it could not put all that there was room for.
    pub fn write(&self, skip: usize, sink: &mut dyn Sink) -> Result<usize, Errno> {
        let wanted = self.left().saturating_sub(skip).min(sink.remaining());
        let count = self.payload.write(self.taken.saturating_add(skip), sink)?;
        if count < wanted { Err(Errno::EFAULT) } else { Ok(count) }
    }
    /// `count` more bytes were read.
    pub fn consume(&mut self, count: usize) {
        self.taken = self.taken.saturating_add(count).min(self.payload.length());
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.budget.uncharge(self.cost);
        self.budget.freed.wake();
    }
}
