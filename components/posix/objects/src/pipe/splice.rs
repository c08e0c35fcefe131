//! Moving frames into, out of and between pipes: splice(2), tee(2).
//!
//! While a file is read or written the pipe's lock is not held. Slots are reserved for incoming
//! frames ([`Reservation`]); outgoing bytes are removed from the pipe, and the ones that the file
//! did not accept are put back at the front, while readers wait ([`Borrowed`]). Two pipes are
//! locked in the order of their addresses. Source: splice(2), Linux `fs/splice.c`.
use super::{End, Pipe, PipeState, broken_pipe, parcel::Parcel};
use alloc::sync::Arc;
use core::mem;
use rt::{PAGE_BYTES, sync::MutexGuard, thread::Woken};
use vfs::{
    Errno, NOBODY, Principal,
    file::IoFlags,
    io::{Sink, Source},
};

/// Reserved slots of a pipe, which are to be filled.
pub struct Reservation<'a> {
    pipe: &'a Pipe,
    slots: usize,
}

impl Reservation<'_> {
    /// Returns the number of reserved slots.
    pub fn slots(&self) -> usize {
        self.slots
    }
    /// Puts `parcel`, which is in at most [`Reservation::slots`] frames, into the pipe.
    pub fn deliver(mut self, mut parcel: Parcel) {
        let is_empty = parcel.segments.is_empty();
        let slots = mem::take(&mut self.slots);
        let mut state = self.pipe.state.lock();
        while let Some(segment) = parcel.segments.pop_front() {
            state.buffer.push(segment);
        }
        state.buffer.unreserve(slots);
        drop(state);
        if !is_empty {
            self.pipe.readable.wake();
        }
        self.pipe.writable.wake();
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.slots == 0 {
            return;
        }
        self.pipe.state.lock().buffer.unreserve(self.slots);
        self.pipe.writable.wake();
    }
}

/// Bytes removed from a pipe; the remaining ones are put back when it is dropped.
pub struct Borrowed<'a> {
    pipe: &'a Pipe,
    slots: usize,
    /// The removed bytes.
    pub parcel: Parcel,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.pipe.state.lock();
            while let Some(segment) = self.parcel.segments.pop_back() {
                state.buffer.put_back(segment);
            }
            state.buffer.unreserve(self.slots);
            state.is_borrowed = false;
        }
        self.pipe.wake_all();
    }
}

/// Whether the bytes in the first of two pipes are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The bytes are removed from the pipe (splice).
    Move,
    /// The bytes stay in the pipe (tee).
    Copy,
}

/// The reason why no byte could be transferred now.
enum Obstacle {
    NoData,
    NoRoom,
}

impl End {
    /// Checks that the pipe has a reader for the data of `writer`.
    ///
    /// # Errors
    /// `EPIPE` (with SIGPIPE) without readers.
    pub fn check_readers(&self, writer: &dyn Principal) -> Result<(), Errno> {
        if self.pipe.state.lock().readers > 0 {
            return Ok(());
        }
        broken_pipe(writer);
        Err(Errno::EPIPE)
    }
    /// Reserves slots for up to `bytes` bytes of `writer`, waiting until one is free.
    ///
    /// # Errors
    /// `EPIPE` (with SIGPIPE) without readers, `EAGAIN`, `Restart`.
    pub fn reserve(
        &self,
        bytes: usize,
        flags: IoFlags,
        writer: &dyn Principal,
    ) -> Result<Reservation<'_>, Errno> {
        let pipe = &*self.pipe;
        loop {
            let ticket = pipe.writable.ticket();
            let mut state = pipe.state.lock();
            if state.readers == 0 {
                drop(state);
                broken_pipe(writer);
                return Err(Errno::EPIPE);
            }
            // A range that begins within a page needs one frame more.
            let slots = state.buffer.reserve(bytes.div_ceil(PAGE_BYTES).saturating_add(1));
            drop(state);
            if slots > 0 {
                return Ok(Reservation { pipe, slots });
            }
            if flags.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if pipe.writable.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
    /// Removes up to `bytes` bytes, waiting for the first; returns `None` at the end of the stream.
    ///
    /// # Errors
    /// `EAGAIN`, `Restart`.
    pub fn borrow(&self, bytes: usize, flags: IoFlags) -> Result<Option<Borrowed<'_>>, Errno> {
        let Some(mut state) = self.wait_for_bytes(flags)? else { return Ok(None) };
        Ok(Some(take_out(&self.pipe, &mut state, bytes)))
    }
    /// Drops up to `bytes` bytes, waiting for the first. Returns their number, 0 at the end of the
    /// stream.
    ///
    /// # Errors
    /// Those of [`End::borrow`].
    pub fn discard(&self, bytes: usize, flags: IoFlags) -> Result<usize, Errno> {
        let Some(mut state) = self.wait_for_bytes(flags)? else { return Ok(0) };
        let done = state.buffer.take_each(bytes, drop);
        drop(state);
        self.pipe.writable.wake();
        Ok(done)
    }
    /// Waits for bytes that are not borrowed, and returns the locked state; `None` at the end of
    /// the stream.
    #[inline]
    fn wait_for_bytes(&self, flags: IoFlags) -> Result<Option<MutexGuard<'_, PipeState>>, Errno> {
        let pipe = &*self.pipe;
        loop {
            let ticket = pipe.readable.ticket();
            let state = pipe.state.lock();
            if !state.is_borrowed && !state.buffer.is_empty() {
                return Ok(Some(state));
            }
            if !state.is_borrowed && state.writers == 0 {
                return Ok(None);
            }
            drop(state);
            if flags.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if pipe.readable.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
    /// Moves or copies up to `bytes` bytes to another pipe by sharing frames, and waits until there
    /// are bytes and room. Returns 0 at the end of the stream.
    ///
    /// # Errors
    /// `EINVAL` if both are the same pipe, `EPIPE`, `EAGAIN`, `Restart`.
    pub fn transfer(
        &self,
        output: &End,
        (bytes, how): (usize, Transfer),
        flags: IoFlags,
        writer: &dyn Principal,
    ) -> Result<usize, Errno> {
        if self.is_same_pipe(output) {
            return Err(Errno::EINVAL);
        }
        loop {
            let ticket_in = self.pipe.readable.ticket();
            let ticket_out = output.pipe.writable.ticket();
            let obstacle = match transfer_now(&self.pipe, &output.pipe, (bytes, how), writer)? {
                Ok(count) => return Ok(count),
                Err(obstacle) => obstacle,
            };
            if flags.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            let woken = match obstacle {
                Obstacle::NoData => self.pipe.readable.wait(ticket_in, None),
                Obstacle::NoRoom => output.pipe.writable.wait(ticket_out, None),
            };
            if woken == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
    /// Waits until there is room for a byte, then writes as many as fit (vmsplice).
    ///
    /// # Errors
    /// Those of [`End::reserve`], and those of `source`.
    pub fn write_part(&self, source: &mut dyn Source, flags: IoFlags) -> Result<usize, Errno> {
        let reservation = self.reserve(source.remaining(), flags, source.caller())?;
        let mut parcel = Parcel::new();
        let room = source.remaining().min(reservation.slots * PAGE_BYTES);
        let mut filling = parcel.filling(reservation.slots, room, NOBODY);
        let mut done = 0;
        while filling.remaining() > 0 {
            match filling.fill_from(source) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        reservation.deliver(parcel);
        Ok(done)
    }
}

fn take_out<'a>(pipe: &'a Pipe, state: &mut PipeState, bytes: usize) -> Borrowed<'a> {
    let mut parcel = Parcel::new();
    state.buffer.take_each(bytes, |segment| parcel.push(segment));
    // The removed segments keep their slots, so that the remaining ones fit when they are put back.
    let slots = state.buffer.reserve(parcel.segments.len());
    state.is_borrowed = true;
    Borrowed { pipe, slots, parcel }
}

/// Locks both states in the order of their addresses.
fn lock_both<'a>(
    first: &'a Arc<Pipe>,
    second: &'a Arc<Pipe>,
) -> (MutexGuard<'a, PipeState>, MutexGuard<'a, PipeState>) {
    if Arc::as_ptr(first) < Arc::as_ptr(second) {
        let one = first.state.lock();
        (one, second.state.lock())
    } else {
        let two = second.state.lock();
        (first.state.lock(), two)
    }
}

fn transfer_now(
    input: &Arc<Pipe>,
    output: &Arc<Pipe>,
    (bytes, how): (usize, Transfer),
    writer: &dyn Principal,
) -> Result<Result<usize, Obstacle>, Errno> {
    let (mut from, mut to) = lock_both(input, output);
    let is_empty = from.is_borrowed || from.buffer.is_empty();
    let is_over = is_empty && !from.is_borrowed && from.writers == 0;
    // The wait for data comes before the check that there is a reader.
    if is_empty && !is_over {
        return Ok(Err(Obstacle::NoData));
    }
    if to.readers == 0 {
        drop((from, to));
        broken_pipe(writer);
        return Err(Errno::EPIPE);
    }
    if is_over {
        return Ok(Ok(0));
    }
    if to.buffer.is_full() {
        return Ok(Err(Obstacle::NoRoom));
    }
    let done = match how {
        Transfer::Move => move_segments(&mut from, &mut to, bytes),
        Transfer::Copy => copy_segments(&from, &mut to, bytes),
    };
    drop((from, to));
    output.readable.wake();
    if how == Transfer::Move {
        input.writable.wake();
    }
    Ok(Ok(done))
}

fn move_segments(from: &mut PipeState, to: &mut PipeState, bytes: usize) -> usize {
    let mut done = 0;
    while done < bytes && !to.buffer.is_full() {
        let Some(segment) = from.buffer.take(bytes - done) else { break };
        done += segment.length;
        to.buffer.push(segment);
    }
    done
}

fn copy_segments(from: &PipeState, to: &mut PipeState, bytes: usize) -> usize {
    let mut done = 0;
    for segment in from.buffer.segments() {
        if done == bytes || to.buffer.is_full() {
            break;
        }
        let head = segment.head(bytes - done);
        done += head.length;
        to.buffer.push(head);
    }
    done
}
