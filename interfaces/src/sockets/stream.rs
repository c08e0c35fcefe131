//! [`Stream`]: the bytes of a stream socket that are under way, in both directions.
//!
//! ```text
//! sending     0 ......... acked ................ sent (the stack's) ........ written
//!                         |<----------------- frames are held ----------------->|
//! receiving   0 ......... read .................................... received
//!                         |<----------------- frames are held ----->|
//! ```
//! A counter only grows. The client moves `written` and `read`, the stack `acked` and `received`.
//!
//! Small writes fill up one frame: the stack sees of it only the bytes before `written`, so bytes can be added behind them while
//! the frame is being sent, or waits in the queue of a receiver on the same machine.
//!
//! Locks: `stream.writing` (a writer, over its copy) > `stream.send`; `stream.reading` (a reader, over its copy) >
//! `stream.receive`; `stream.send` > `stream.receive` of the other end on the same host; `stream.error`. The copies of a program may
//! fault and wait, so the stack never takes the first of each pair.
mod far;

use super::{
    FilterSlot, FrameSource, KeptWords, SocketError, SocketOwner, StreamChange, copy_to_source,
    stream_pieces::{Queue, collect, move_pieces},
    stream_taken::{TakenPieces, by_frame},
};
use crate::{marshal::Marshal, marshal_flags, nic::PacketSegment};
use alloc::{sync::Arc, vec::Vec};
use bitflags::bitflags;
use core::any::Any;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use labels::SecrecyId;
use rt::{
    NoMemory, PAGE_BYTES, lock_class,
    memory::Frame,
    sync::{Mutex, Once},
};

lock_class! {
    static WRITING = "stream.writing";
    static READING = "stream.reading";
    static SEND = "stream.send";
    static RECEIVE = "stream.receive";
    static ERROR = "stream.error";
}

bitflags! {
    /// The events of a socket that its client waits for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SocketEvents: u8 {
        /// Bytes can be read, or no more will come.
        const READABLE = 1;
        /// A third of the room is free again.
        const WRITABLE = 2;
        /// The state changed: connected, refused, ended, an urgent byte was announced ([`SocketEvents::URGENT`] comes with it).
        const STATE = 4;
        /// An error waits, in the error queue or for the next call.
        const ERROR = 8;
        /// The peer announced an urgent byte.
        const URGENT = 16;
    }

    /// The state of a stream, apart from its bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StreamState: u8 {
        /// The connection was established.
        const CONNECTED = 1;
        /// The peer sends no more.
        const RECEIVE_ENDED = 2;
        /// No more can be sent.
        const SEND_ENDED = 4;
    }
}

marshal_flags!(SocketEvents, StreamState);

/// The client of a socket, which is told of its events. It is called on threads of the stack, and must not block.
pub trait SocketObserver: Any + Send + Sync {
    /// The events have come about.
    fn notify(&self, events: SocketEvents);
}

/// The counters of a stream, in bytes since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
pub struct Counters {
    /// Bytes that the client has written.
    pub written: u64,
    /// Bytes that the peer has acknowledged.
    pub acked: u64,
    /// Bytes that came in order.
    pub received: u64,
    /// Bytes that the client has read.
    pub read: u64,
}

/// The last frame of the writer, if it has room, in a list that is kept for its memory.
#[derive(Default)]
struct Tail {
    /// One frame at most between two writes.
    frames: Vec<Frame>,
    /// Bytes of that frame that were written; 0 if there is none.
    used: usize,
}

impl Tail {
    /// Lets the next bytes begin a frame of their own: they do not continue the last ones.
    fn forget(&mut self) {
        self.used = 0;
        self.frames.clear();
    }
}

/// The bytes of a stream socket that are under way.
pub struct Stream {
    written: AtomicU64,
    acked: AtomicU64,
    received: AtomicU64,
    read: AtomicU64,
    send_limit: AtomicUsize,
    receive_limit: AtomicUsize,
    /// The limit may grow so far.
    receive_limit_max: AtomicUsize,
    held_to_read: AtomicUsize,
    awaited_room: AtomicUsize,
    state: AtomicU8,
    user: AtomicU32,
    inode: AtomicU64,
    error: Mutex<Option<SocketError>>,
    writing: Mutex<Tail>,
    reading: Mutex<TakenPieces>,
    send: Mutex<Queue>,
    receive: Mutex<Queue>,
    kept: KeptWords,
    observer: Arc<dyn SocketObserver>,
    filter: FilterSlot,
    /// The frames for bytes to be sent, if the stack is in another world.
    source: Once<Arc<dyn FrameSource>>,
    /// The way to the client, if this is the stack's end.
    far: far::Way,
}

impl Stream {
    /// Makes a stream without bytes, of which at most `send_limit` may be written and not acknowledged, and received ones may hold
    /// `receive_limit` bytes of memory.
    pub fn new(
        observer: Arc<dyn SocketObserver>,
        send_limit: usize,
        receive_limit: usize,
    ) -> Stream {
        Stream {
            written: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            received: AtomicU64::new(0),
            read: AtomicU64::new(0),
            send_limit: AtomicUsize::new(send_limit),
            receive_limit: AtomicUsize::new(receive_limit),
            receive_limit_max: AtomicUsize::new(0),
            held_to_read: AtomicUsize::new(0),
            awaited_room: AtomicUsize::new(0),
            state: AtomicU8::new(0),
            user: AtomicU32::new(0),
            inode: AtomicU64::new(0),
            error: Mutex::new(&ERROR, None),
            writing: Mutex::new(&WRITING, Tail::default()),
            reading: Mutex::new(&READING, TakenPieces::default()),
            send: Mutex::new(&SEND, Queue::default()),
            receive: Mutex::new(&RECEIVE, Queue::default()),
            kept: KeptWords::default(),
            observer,
            filter: FilterSlot::default(),
            source: Once::new(),
            far: far::Way::default(),
        }
    }
    /// Returns the counters, each at some moment of the call.
    pub fn counters(&self) -> Counters {
        Counters {
            written: self.written.load(Ordering::Acquire),
            acked: self.acked.load(Ordering::Acquire),
            received: self.received.load(Ordering::Acquire),
            read: self.read.load(Ordering::Acquire),
        }
    }
    /// Returns the state.
    pub fn state(&self) -> StreamState {
        StreamState::from_bits_truncate(self.state.load(Ordering::Acquire))
    }

    /// Returns the owner, without its label: user and inode 0 until [`Stream::set_owner`].
    pub fn owner(&self) -> SocketOwner {
        SocketOwner {
            user: self.user.load(Ordering::Relaxed),
            inode: self.inode.load(Ordering::Relaxed),
            label: SecrecyId::NONE,
        }
    }
    /// Sets the owner. The client does it when a program accepts a connection that a listener made.
    pub fn set_owner(&self, owner: SocketOwner) {
        self.user.store(owner.user, Ordering::Relaxed);
        self.inode.store(owner.inode, Ordering::Relaxed);
    }
    /// Returns the observer, by which the client of a listener knows the streams that it made.
    pub fn observer(&self) -> &Arc<dyn SocketObserver> {
        &self.observer
    }

    /// Takes the frames for bytes to be sent from `source`, from now on. The client does it before the first byte is written.
    pub fn set_source(&self, source: Arc<dyn FrameSource>) {
        self.source.get_or_init(|| source);
    }

    // The client's part: writing.

    /// Returns the number of bytes that may be written now.
    pub fn room(&self) -> usize {
        self.send_limit.load(Ordering::Relaxed).saturating_sub(self.unacknowledged())
    }
    /// Returns the number of bytes that were written and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        let acked = self.acked.load(Ordering::Acquire);
        self.written.load(Ordering::Acquire).saturating_sub(acked) as usize
    }
    /// Returns whether poll(2) reports room: a third is free, as on Linux.
    pub fn is_writable(&self) -> bool {
        self.has_a_third_free(self.unacknowledged())
    }
    /// Returns whether a third of the room would be free with `used` bytes in it.
    fn has_a_third_free(&self, used: usize) -> bool {
        let room = self.send_limit.load(Ordering::Relaxed).saturating_sub(used);
        room >= used / 2 && room > 0
    }
    /// Sets the number of bytes that may be written and not acknowledged.
    pub fn set_send_limit(&self, bytes: usize) {
        self.send_limit.store(bytes, Ordering::Relaxed);
        self.observer.notify(SocketEvents::WRITABLE);
    }
    /// Appends at most `most` bytes, as far as there is room. `copy(frames, offset, length)` puts them into frames that follow each
    /// other, and returns the number of bytes that it copied. Returns that number; 0 if there is no room. Blocks while another
    /// thread writes. The caller tells the stack afterwards.
    ///
    /// # Errors
    /// Those of `copy`, and [`NoMemory`].
    pub fn write<E: From<NoMemory>>(
        &self,
        most: usize,
        copy: impl FnOnce(&[Frame], usize, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut tail = self.writing.lock();
        let length = most.min(self.room());
        if length == 0 {
            return Ok(0);
        }
        let Tail { frames, used } = &mut *tail;
        let (before, offset) = (frames.len(), *used);
        let fresh = (offset + length).div_ceil(PAGE_BYTES).saturating_sub(before);
        if fresh > 0 {
            match self.source.get() {
                Some(source) => source.allocate(fresh, frames)?,
                None => Frame::allocate_unfilled(fresh, frames)?,
            }
        }
        let result = copy(frames, offset, length);
        let count = *result.as_ref().unwrap_or(&0);
        match count.min(length) {
            0 => frames.truncate(before),
            count => *used = self.publish(frames, offset, count),
        }
        result.map(|count| count.min(length))
    }
    /// Moves `count` bytes of `frames` from `offset` on to the queue, and then counts them as written. A last frame that has room
    /// stays in `frames`. Returns the bytes of that one that are used.
    fn publish(&self, frames: &mut Vec<Frame>, offset: usize, count: usize) -> usize {
        let end = offset + count;
        let (full, rest) = (end / PAGE_BYTES, end % PAGE_BYTES);
        frames.truncate(end.div_ceil(PAGE_BYTES));
        let mut queue = self.send.lock();
        let written = self.written.load(Ordering::Relaxed);
        let (mut start, mut at) = (written, offset);
        if full > 0 {
            let mut all = frames.drain(..full);
            if at > 0
                && let Some(frame) = all.next()
            {
                let length = (PAGE_BYTES - at) as u32;
                queue.push(start, PacketSegment { frame, offset: at as u32, length });
                start += u64::from(length);
                at = 0;
            }
            start = queue.push_frames(start, all);
        }
        if let Some(frame) = frames.first() {
            queue.push_part(start, frame, at as u32, (rest - at) as u32);
        }
        self.written.store(written + count as u64, Ordering::Release);
        rest
    }
    /// Appends at most `most` bytes, as far as there is room, in frames that others may read, too, such as those of the page cache
    /// (sendfile(2), splice(2)). `share(room, take)` gives parts of frames, `take(frame, offset, length)`, of at most `room` bytes,
    /// and returns the number of bytes. It must not wait. Returns that number, too. The caller tells the stack afterwards.
    ///
    /// # Errors
    /// [`NoMemory`] if they must be copied, because the stack is in another world. Then nothing is appended.
    pub fn write_shared(
        &self,
        most: usize,
        share: impl FnOnce(usize, &mut dyn FnMut(Frame, usize, usize)) -> usize,
    ) -> Result<usize, NoMemory> {
        if let Some(source) = self.source.get() {
            return self.write_copied(&**source, most, share);
        }
        let mut tail = self.writing.lock();
        let room = most.min(self.room());
        if room == 0 {
            return Ok(0);
        }
        tail.forget();
        let mut queue = self.send.lock();
        let mut written = self.written.load(Ordering::Relaxed);
        let count = share(room, &mut |frame, offset, length| {
            let (offset, length) = (offset as u32, length as u32);
            queue.push_behind(&mut written, PacketSegment { frame, offset, length });
        });
        self.written.store(written, Ordering::Release);
        Ok(count)
    }
    /// Appends the same bytes in frames of `source`.
    fn write_copied(
        &self,
        source: &dyn FrameSource,
        most: usize,
        share: impl FnOnce(usize, &mut dyn FnMut(Frame, usize, usize)) -> usize,
    ) -> Result<usize, NoMemory> {
        let mut segments = Vec::new();
        let count = share(most.min(self.room()), &mut |frame, offset, length| {
            let (offset, length) = (offset as u32, length as u32);
            segments.push(PacketSegment { frame, offset, length });
        });
        copy_to_source(source, &mut segments)?;
        self.writing.lock().forget();
        self.append(segments);
        Ok(count)
    }
    /// Appends bytes to those that are to be sent.
    fn append(&self, segments: impl IntoIterator<Item = PacketSegment>) {
        let mut queue = self.send.lock();
        let mut written = self.written.load(Ordering::Relaxed);
        segments.into_iter().for_each(|segment| queue.push_behind(&mut written, segment));
        self.written.store(written, Ordering::Release);
    }

    // The client's part: reading.

    /// Returns the number of bytes that can be read.
    pub fn readable(&self) -> usize {
        let read = self.read.load(Ordering::Acquire);
        self.received.load(Ordering::Acquire).saturating_sub(read) as usize
    }
    /// Returns the place of the filter, which the stack asks before it takes a segment.
    pub fn filter(&self) -> &FilterSlot {
        &self.filter
    }
    /// Sets the memory that received bytes may hold.
    pub fn set_receive_limit(&self, bytes: usize) {
        self.receive_limit.store(bytes, Ordering::Relaxed);
    }
    /// Returns the memory that received bytes may hold.
    pub fn receive_limit(&self) -> usize {
        self.receive_limit.load(Ordering::Relaxed)
    }
    /// Lets that memory grow to `bytes` at most, as the stack finds that the program reads fast enough; 0 for not at all.
    pub fn set_receive_limit_max(&self, bytes: usize) {
        self.receive_limit_max.store(bytes, Ordering::Relaxed);
    }
    /// Reads at most `most` bytes: `copy(frame, offset, length)` takes those of a part of a frame, and returns the number of bytes
    /// that it copied. Returns that number, which is 0 if nothing has come. Blocks while another thread reads. The caller tells the
    /// stack afterwards if [`Stream::is_read_awaited`].
    ///
    /// # Errors
    /// Those of `copy`, if nothing was copied before.
    pub fn read<E>(
        &self,
        most: usize,
        copy: impl FnMut(&Frame, usize, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.read_frames(most, by_frame(copy))
    }
    /// Does the same as [`Stream::read`] with `copy(frames, offset, length)`, which takes bytes of frames that follow each other:
    /// one copy of many pages costs less than one of each.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn read_frames<E>(
        &self,
        most: usize,
        copy: impl FnMut(&[Frame], usize, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut taken = self.reading.lock();
        taken.fill(most, &self.receive);
        let count = taken.copy((0, most), copy)?;
        self.read.fetch_add(count as u64, Ordering::AcqRel);
        let held = taken.pass(count);
        if held > 0 {
            self.held_to_read.fetch_sub(held, Ordering::Relaxed);
        }
        Ok(count)
    }
    /// Does the same as [`Stream::read`] from `skip` bytes on, and leaves the bytes in the stream (MSG_PEEK).
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn peek<E>(
        &self,
        (skip, most): (usize, usize),
        copy: impl FnMut(&Frame, usize, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut taken = self.reading.lock();
        taken.fill(skip.saturating_add(most), &self.receive);
        taken.copy((skip, most), by_frame(copy))
    }
    /// Returns whether the stack is to be told of reads: the room is as large as it waits for, to open the window.
    #[inline]
    pub fn is_read_awaited(&self) -> bool {
        // Either this sees what the stack waits for, or the stack the room; see `await_room`.
        fence(Ordering::SeqCst);
        self.receive_room() >= self.awaited_room.load(Ordering::Relaxed)
    }
    /// Returns and clears the error for which the connection ended.
    pub fn take_error(&self) -> Option<SocketError> {
        self.error.lock().take()
    }
    /// Returns whether there is an error that [`Stream::take_error`] would return.
    pub fn has_error(&self) -> bool {
        self.error.lock().is_some()
    }

    // The stack's part.

    /// Appends to `out` the parts of frames that hold the `length` bytes from `from` on, as many of them as were written and not
    /// acknowledged. Returns the number of bytes.
    pub fn segments(&self, from: u64, length: usize, out: &mut Vec<PacketSegment>) -> usize {
        collect(&self.send.lock(), from, length, out)
    }
    /// Takes notice that the peer has all bytes before `to`; never more than were written. Their frames are dropped. Returns
    /// whether the counter moved.
    pub fn acknowledge(&self, to: u64) -> bool {
        let (used, left) = {
            let mut queue = self.send.lock();
            let written = self.written.load(Ordering::Relaxed);
            let (to, acked) = (to.min(written), self.acked.load(Ordering::Relaxed));
            if to <= acked {
                return false;
            }
            queue.drop_before(to);
            self.acked.store(to, Ordering::Release);
            ((written - acked) as usize, (written - to) as usize)
        };
        if self.tell(StreamChange::Acknowledged(to)) {
            return true;
        }
        if !self.has_a_third_free(used) && self.has_a_third_free(left) {
            self.observer.notify(SocketEvents::WRITABLE);
        }
        true
    }
    /// Appends received bytes, in order, and empties `segments`. The caller acknowledges them afterwards, not before: a stack that
    /// starts again finds them here.
    pub fn deliver(&self, segments: &mut Vec<PacketSegment>) {
        if self.deliver_far(segments) {
            return;
        }
        {
            let mut queue = self.receive.lock();
            let (mut received, mut held) = (self.received.load(Ordering::Relaxed), 0);
            for segment in segments.drain(..).filter(|segment| segment.length > 0) {
                let length = u64::from(segment.length);
                held += queue.push(received, segment);
                received += length;
            }
            self.held_to_read.fetch_add(held, Ordering::Relaxed);
            self.received.store(received, Ordering::Release);
        }
        self.observer.notify(SocketEvents::READABLE);
    }
    /// Moves the next `length` bytes that were written and not acknowledged to `peer`, where they are received: both counters move. The
    /// caller has found that there are as many, and that `peer` has room.
    pub fn hand_over(&self, peer: &Stream, length: u64) {
        let (used, left) = {
            let mut from = self.send.lock();
            let mut to = peer.receive.lock();
            let acked = self.acked.load(Ordering::Relaxed);
            let received = peer.received.load(Ordering::Relaxed);
            let held = move_pieces(&mut from, &mut to, (acked, received), length);
            if held > 0 {
                peer.held_to_read.fetch_add(held, Ordering::Relaxed);
            }
            peer.received.store(received + length, Ordering::Release);
            self.acked.store(acked + length, Ordering::Release);
            let used = self.written.load(Ordering::Relaxed).saturating_sub(acked);
            (used as usize, used.saturating_sub(length) as usize)
        };
        peer.observer.notify(SocketEvents::READABLE);
        if !self.has_a_third_free(used) && self.has_a_third_free(left) {
            self.observer.notify(SocketEvents::WRITABLE);
        }
    }
    /// Returns the words that the stack keeps here for its successor.
    pub fn kept(&self) -> &KeptWords {
        &self.kept
    }
    /// Keeps `words`, the first or all. The stack does so before packets leave which a successor must know of.
    #[inline]
    pub fn keep<const N: usize>(&self, words: &[u64; N]) {
        if !self.keep_far(words) {
            self.kept.store(words);
        }
    }
    /// Returns the number of bytes of memory that further received bytes may hold.
    pub fn receive_room(&self) -> usize {
        let held = self.held_to_read.load(Ordering::Relaxed);
        self.receive_limit.load(Ordering::Relaxed).saturating_sub(held)
    }
    /// Lets received bytes hold `wanted` bytes of memory, as far as the client allows; never fewer than before.
    pub fn grow_receive_limit(&self, wanted: usize) {
        let wanted = wanted.min(self.receive_limit_max.load(Ordering::Relaxed));
        if wanted > self.receive_limit.fetch_max(wanted, Ordering::Relaxed) {
            self.tell(StreamChange::Grows(wanted));
        }
    }
    /// Waits for reads until there are `bytes` of [`Stream::receive_room`]: then the client tells the stack of them. Returns whether
    /// there are already, so that a read may have gone untold. At first each read is told.
    #[inline]
    pub fn await_room(&self, bytes: usize) -> bool {
        let before = self.awaited_room.load(Ordering::Relaxed);
        if bytes != before {
            self.awaited_room.store(bytes, Ordering::Relaxed);
            if self.tell(StreamChange::Awaits(bytes)) {
                // The client looks whether there is the room, and tells of it.
                return false;
            }
        }
        if bytes >= before {
            return false;
        }
        fence(Ordering::SeqCst);
        self.receive_room() >= bytes
    }
    /// Adds to the state, and tells the client.
    pub fn enter(&self, state: StreamState) {
        self.state.fetch_or(state.bits(), Ordering::AcqRel);
        if self.tell(StreamChange::Entered(state)) {
            return;
        }
        let mut events = SocketEvents::STATE;
        events.set(SocketEvents::READABLE, state.contains(StreamState::RECEIVE_ENDED));
        self.observer.notify(events);
    }
    /// Tells the client that the peer announced an urgent byte.
    pub fn announce_urgent(&self) {
        if self.tell(StreamChange::Urgent) {
            return;
        }
        self.observer.notify(SocketEvents::STATE | SocketEvents::URGENT);
    }
    /// Ends the stream because of `error`, in both directions. Bytes that came before can still be read.
    pub fn fail(&self, error: SocketError) {
        *self.error.lock() = Some(error);
        if self.tell(StreamChange::Failed(error)) {
            let ended = StreamState::RECEIVE_ENDED | StreamState::SEND_ENDED;
            self.state.fetch_or(ended.bits(), Ordering::AcqRel);
            return;
        }
        self.enter(StreamState::RECEIVE_ENDED | StreamState::SEND_ENDED);
    }
}
