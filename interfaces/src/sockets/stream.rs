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
//! `stream.receive`; `stream.error`. The copies of a program may fault and wait, so the stack never takes the first of each pair.
use super::SocketError;
use crate::nic::PacketSegment;
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use bitflags::bitflags;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use rt::{NoMemory, PAGE_BYTES, lock_class, memory::Frame, sync::Mutex};

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
        /// The state changed: connected, refused, ended.
        const STATE = 4;
        /// An error waits, in the error queue or for the next call.
        const ERROR = 8;
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

/// The client of a socket, which is told of its events. It is called on threads of the stack, and must not block.
pub trait SocketObserver: Send + Sync {
    /// The events have come about.
    fn notify(&self, events: SocketEvents);
}

/// The counters of a stream, in bytes since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// A part of a frame, and its place in the stream.
struct StreamPiece {
    start: u64,
    segment: PacketSegment,
}

impl StreamPiece {
    fn end(&self) -> u64 {
        self.start + u64::from(self.segment.length)
    }
}

/// The last frame of the writer, if it has room, and a list that is kept for its memory.
#[derive(Default)]
struct Tail {
    frame: Option<Frame>,
    used: usize,
    frames: Vec<Frame>,
}

/// Pieces in order, of which each begins where the one before it ends, and the memory that they hold.
#[derive(Default)]
struct Queue {
    pieces: VecDeque<StreamPiece>,
    bytes: usize,
}

impl Queue {
    /// Returns the bytes of memory that `segment` holds after the last piece: none if it is in the same frame.
    fn cost_behind(&self, segment: &PacketSegment) -> usize {
        let last = self.pieces.back().map(|last| last.segment.frame.id());
        if last == Some(segment.frame.id()) { 0 } else { PAGE_BYTES }
    }
    /// Adds a piece. One that continues the last piece in the same frame only makes that longer.
    fn push(&mut self, start: u64, segment: PacketSegment) {
        let cost = self.cost_behind(&segment);
        self.bytes += cost;
        match self.pieces.back_mut() {
            Some(last)
                if cost == 0 && last.segment.offset + last.segment.length == segment.offset =>
            {
                last.segment.length += segment.length;
            }
            _ => self.pieces.push_back(StreamPiece { start, segment }),
        }
    }
    /// Removes the first piece.
    fn pop(&mut self) -> Option<StreamPiece> {
        let first = self.pieces.pop_front()?;
        let next = self.pieces.front().map(|next| next.segment.frame.id());
        if next != Some(first.segment.frame.id()) {
            self.bytes = self.bytes.saturating_sub(PAGE_BYTES);
        }
        Some(first)
    }
    /// Puts a piece, of which a part was removed, back before the others.
    fn put_back(&mut self, piece: StreamPiece) {
        let next = self.pieces.front().map(|next| next.segment.frame.id());
        if next != Some(piece.segment.frame.id()) {
            self.bytes += PAGE_BYTES;
        }
        self.pieces.push_front(piece);
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
    held_to_read: AtomicUsize,
    state: AtomicU8,
    error: Mutex<Option<SocketError>>,
    writing: Mutex<Tail>,
    reading: Mutex<()>,
    send: Mutex<Queue>,
    receive: Mutex<Queue>,
    observer: Arc<dyn SocketObserver>,
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
            held_to_read: AtomicUsize::new(0),
            state: AtomicU8::new(0),
            error: Mutex::new(&ERROR, None),
            writing: Mutex::new(&WRITING, Tail::default()),
            reading: Mutex::new(&READING, ()),
            send: Mutex::new(&SEND, Queue::default()),
            receive: Mutex::new(&RECEIVE, Queue::default()),
            observer,
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
        self.room() >= self.unacknowledged() / 2 && self.room() > 0
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
        let Tail { frame, used, frames } = &mut *tail;
        frames.clear();
        frames.extend(frame.clone());
        let offset = if frames.is_empty() { 0 } else { *used };
        let fresh = (offset + length).div_ceil(PAGE_BYTES).saturating_sub(frames.len());
        Frame::allocate_unfilled(fresh, frames)?;
        let count = copy(frames, offset, length)?.min(length);
        self.publish(frames, offset, count);
        let end = offset + count;
        *used = end % PAGE_BYTES;
        *frame = match (*used, count) {
            (_, 0) => frame.take(),
            (0, _) => None,
            _ => frames.get(end / PAGE_BYTES).cloned(),
        };
        if frame.is_none() {
            *used = 0;
        }
        frames.clear();
        Ok(count)
    }
    /// Appends `count` bytes of `frames` from `offset` on to the queue, and then counts them as written.
    fn publish(&self, frames: &[Frame], offset: usize, count: usize) {
        let mut queue = self.send.lock();
        let mut written = self.written.load(Ordering::Relaxed);
        let (mut at, end) = (offset, offset + count);
        for frame in frames {
            if at >= end {
                break;
            }
            let length = (PAGE_BYTES - at % PAGE_BYTES).min(end - at);
            let (offset, length) = ((at % PAGE_BYTES) as u32, length as u32);
            queue.push(written, PacketSegment { frame: frame.clone(), offset, length });
            at += length as usize;
            written += u64::from(length);
        }
        self.written.store(written, Ordering::Release);
    }
    /// Appends parts of frames that others may read, too, such as those of the page cache (sendfile(2), splice(2)), and empties
    /// `segments`. They may pass the room. The caller tells the stack afterwards.
    pub fn write_segments(&self, segments: &mut Vec<PacketSegment>) {
        let mut tail = self.writing.lock();
        // The next bytes must not continue the frame before these.
        tail.frame = None;
        let mut queue = self.send.lock();
        let mut written = self.written.load(Ordering::Relaxed);
        for segment in segments.drain(..).filter(|segment| segment.length > 0) {
            let length = u64::from(segment.length);
            queue.push(written, segment);
            written += length;
        }
        self.written.store(written, Ordering::Release);
    }

    // The client's part: reading.

    /// Returns the number of bytes that can be read.
    pub fn readable(&self) -> usize {
        let read = self.read.load(Ordering::Acquire);
        self.received.load(Ordering::Acquire).saturating_sub(read) as usize
    }
    /// Sets the memory that received bytes may hold.
    pub fn set_receive_limit(&self, bytes: usize) {
        self.receive_limit.store(bytes, Ordering::Relaxed);
    }
    /// Reads at most `most` bytes: `copy(frame, offset, length)` takes those of a part of a frame, and returns the number of bytes
    /// that it copied. Returns that number, which is 0 if nothing has come. Blocks while another thread reads. The caller tells the
    /// stack afterwards, which may open the window.
    ///
    /// # Errors
    /// Those of `copy`, if nothing was copied before.
    pub fn read<E>(
        &self,
        most: usize,
        mut copy: impl FnMut(&Frame, usize, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let _reading = self.reading.lock();
        let mut done = 0;
        while done < most {
            let Some(mut piece) = self.receive.lock().pop() else { break };
            let segment = &mut piece.segment;
            let wanted = (segment.length as usize).min(most - done);
            let result = copy(&segment.frame, segment.offset as usize, wanted);
            let count = *result.as_ref().unwrap_or(&0);
            let count = count.min(wanted);
            (segment.offset, segment.length) =
                (segment.offset + count as u32, segment.length - count as u32);
            piece.start += count as u64;
            done += count;
            self.read.fetch_add(count as u64, Ordering::AcqRel);
            self.finish(piece);
            match result {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(_) if count < wanted => break,
                Ok(_) => {}
            }
        }
        Ok(done)
    }
    /// Puts the rest of a piece back, and notes the memory that is held now.
    fn finish(&self, piece: StreamPiece) {
        let mut queue = self.receive.lock();
        if piece.segment.length > 0 {
            queue.put_back(piece);
        }
        self.held_to_read.store(queue.bytes, Ordering::Relaxed);
    }
    /// Does the same as [`Stream::read`] from `skip` bytes on, and leaves the bytes in the stream (MSG_PEEK).
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn peek<E>(
        &self,
        (skip, most): (usize, usize),
        mut copy: impl FnMut(&Frame, usize, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let _reading = self.reading.lock();
        let from = self.read.load(Ordering::Acquire).saturating_add(skip as u64);
        let mut parts = Vec::new();
        collect(&self.receive.lock(), from, most, &mut parts);
        let mut done = 0;
        for part in &parts {
            match copy(&part.frame, part.offset as usize, part.length as usize) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(count) => {
                    done += count.min(part.length as usize);
                    if count < part.length as usize {
                        break;
                    }
                }
            }
        }
        Ok(done)
    }
    /// Returns and clears the error for which the connection ended.
    pub fn take_error(&self) -> Option<SocketError> {
        self.error.lock().take()
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
        let mut freed = Vec::new();
        let was_writable = self.is_writable();
        {
            let mut queue = self.send.lock();
            let to = to.min(self.written.load(Ordering::Relaxed));
            if to <= self.acked.load(Ordering::Relaxed) {
                return false;
            }
            while queue.pieces.front().is_some_and(|piece| piece.end() <= to) {
                freed.extend(queue.pop());
            }
            self.acked.store(to, Ordering::Release);
        }
        drop(freed);
        if !was_writable && self.is_writable() {
            self.observer.notify(SocketEvents::WRITABLE);
        }
        true
    }
    /// Appends received bytes, in order, and empties `segments`. The caller acknowledges them afterwards, not before: a stack that
    /// starts again finds them here.
    pub fn deliver(&self, segments: &mut Vec<PacketSegment>) {
        {
            let mut queue = self.receive.lock();
            let mut received = self.received.load(Ordering::Relaxed);
            for segment in segments.drain(..).filter(|segment| segment.length > 0) {
                let length = u64::from(segment.length);
                queue.push(received, segment);
                received += length;
            }
            self.held_to_read.store(queue.bytes, Ordering::Relaxed);
            self.received.store(received, Ordering::Release);
        }
        self.observer.notify(SocketEvents::READABLE);
    }
    /// Returns the number of bytes of memory that further received bytes may hold.
    pub fn receive_room(&self) -> usize {
        let held = self.held_to_read.load(Ordering::Relaxed);
        self.receive_limit.load(Ordering::Relaxed).saturating_sub(held)
    }
    /// Adds to the state, and tells the client.
    pub fn enter(&self, state: StreamState) {
        self.state.fetch_or(state.bits(), Ordering::AcqRel);
        let mut events = SocketEvents::STATE;
        events.set(SocketEvents::READABLE, state.contains(StreamState::RECEIVE_ENDED));
        self.observer.notify(events);
    }
    /// Ends the stream because of `error`, in both directions. Bytes that came before can still be read.
    pub fn fail(&self, error: SocketError) {
        *self.error.lock() = Some(error);
        self.enter(StreamState::RECEIVE_ENDED | StreamState::SEND_ENDED);
    }
}

/// Appends to `out` the parts of `queue` that hold the `length` bytes from `from` on. Returns the number of bytes that there are.
fn collect(queue: &Queue, from: u64, length: usize, out: &mut Vec<PacketSegment>) -> usize {
    let first = queue.pieces.partition_point(|piece| piece.end() <= from);
    let mut done = 0;
    for piece in queue.pieces.range(first..) {
        let at = from + done as u64;
        if done >= length || piece.start > at {
            break;
        }
        let skip = (at - piece.start) as u32;
        let count = ((piece.segment.length - skip) as usize).min(length - done);
        let segment = &piece.segment;
        out.push(PacketSegment {
            frame: segment.frame.clone(),
            offset: segment.offset + skip,
            length: count as u32,
        });
        done += count;
    }
    done
}
