//! Pipes and FIFOs: a [`Pipe`] between its [`End`]s.
//!
//! `pipe.state` guards the bytes and the counts of ends; it is held while user memory is copied
//! (a fault in it takes memory locks, which come after it), never while a thread waits. Readers wait on
//! `readable`, writers on `writable`; both are woken when an end goes away. Sleepers are woken only when
//! the pipe stops being empty or full, watchers (poll) at each change, as edge-triggered ones expect.
//! Semantics as pipe(7), fifo(7) and Linux `fs/pipe.c`: 64 KiB, writes of at most `PIPE_BUF` atomic.
pub mod buffer;
mod fifo;
pub mod limits;
mod parcel;
mod splice;
#[cfg(test)]
mod tests;

pub use fifo::FifoOpener;
pub use parcel::Parcel;
pub use splice::Transfer;

use alloc::sync::Arc;
use buffer::{Buffer, Mode};
use core::sync::atomic::{AtomicU32, Ordering};
use limits::PipeShare;
use linux_raw_sys::general as raw;
use process::{HOST, Task, signal};
use rt::{
    PAGE_BYTES,
    sync::{LockClass, Mutex},
    thread::Woken,
};
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Ready, SignalSource, Survey},
    io::{Sink, Source},
    poll::{PollTable, WaitQueue},
};

/// Lock class of pipes; splice and tee hold two, in the order of their addresses.
static STATE: LockClass = LockClass::nestable("pipe.state");

/// Number of frames of a new pipe (64 KiB).
const SLOTS: usize = 16;

struct PipeState {
    buffer: Buffer,
    readers: usize,
    writers: usize,
    /// Number of read ends opened so far, so that the opener of a FIFO notices one that was closed
    /// again.
    readers_seen: u64,
    writers_seen: u64,
    /// A splice has removed bytes and may put some back: other readers wait.
    is_borrowed: bool,
    /// The pages that are charged to a user while the pipe has ends.
    share: Option<PipeShare>,
}

/// A pipe: the object that both ends share.
pub struct Pipe {
    state: Mutex<PipeState>,
    readable: WaitQueue,
    writable: WaitQueue,
}

/// Tells whether bytes may be added to the last frame of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merge {
    /// They may: a write begins with them.
    Allowed,
    /// The bytes begin a frame. The bytes before them, if any, are of the same write.
    Never,
}

/// The direction of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The end that pipe(2) returns first, which is read.
    Read,
    /// The end is written.
    Write,
    /// Both: a FIFO opened with O_RDWR.
    Both,
}

impl Direction {
    fn reads(self) -> bool {
        self != Direction::Write
    }
    fn writes(self) -> bool {
        self != Direction::Read
    }
}

/// One open end of a pipe.
pub struct End {
    pipe: Arc<Pipe>,
    direction: Direction,
    /// Not 0 if the end's mode is [`Mode::Packet`] (`O_DIRECT`).
    is_packet: AtomicU32,
    /// Number of other ends (a reader's writers, a writer's readers) when it was opened, `u64::MAX` if
    /// there was one: opening waits, and no hang-up is reported, until another was opened.
    others_at_open: u64,
}

impl Default for Pipe {
    fn default() -> Self {
        Pipe::new()
    }
}

impl Pipe {
    /// Makes a pipe without ends.
    pub fn new() -> Pipe {
        let state = PipeState {
            buffer: Buffer::new(SLOTS),
            readers: 0,
            writers: 0,
            readers_seen: 0,
            writers_seen: 0,
            is_borrowed: false,
            share: None,
        };
        Pipe {
            state: Mutex::new(&STATE, state),
            readable: WaitQueue::new(),
            writable: WaitQueue::new(),
        }
    }
    /// Makes a pipe for `maker` and returns both ends: the first to read, the second to write.
    ///
    /// # Errors
    /// Those of [`Pipe::end`].
    pub fn pair(flags: u32, maker: &dyn Principal) -> Result<(Arc<End>, Arc<End>), Errno> {
        let pipe = Arc::new(Pipe::new());
        let reader = pipe.end(Direction::Read, flags, maker)?;
        let writer = pipe.end(Direction::Write, flags, maker)?;
        Ok((reader, writer))
    }
    /// Makes another end. The first one charges the pipe to the user of `maker`.
    ///
    /// # Errors
    /// `ENFILE` if the user's pipes have reached the limit of pages.
    fn end(
        self: &Arc<Self>,
        direction: Direction,
        flags: u32,
        maker: &dyn Principal,
    ) -> Result<Arc<End>, Errno> {
        let mut state = self.state.lock();
        if state.share.is_none() {
            let share = PipeShare::take(maker)?;
            state.buffer.resize(share.pages())?;
            state.share = Some(share);
        }
        let others_at_open = match direction {
            Direction::Read if state.writers == 0 => state.writers_seen,
            Direction::Write if state.readers == 0 => state.readers_seen,
            _ => u64::MAX,
        };
        if direction.reads() {
            state.readers += 1;
            state.readers_seen += 1;
        }
        if direction.writes() {
            state.writers += 1;
            state.writers_seen += 1;
        }
        drop(state);
        self.wake_all();
        let is_packet = AtomicU32::new(flags & raw::O_DIRECT);
        Ok(Arc::new(End { pipe: self.clone(), direction, is_packet, others_at_open }))
    }
    fn close(&self, direction: Direction) {
        let mut state = self.state.lock();
        if direction.reads() {
            state.readers -= 1;
        }
        if direction.writes() {
            state.writers -= 1;
        }
        let is_over = state.readers == 0 && state.writers == 0;
        let share = if is_over { state.share.take() } else { None };
        if is_over {
            state.buffer.clear();
        }
        drop(state);
        drop(share);
        self.wake_all();
    }
    fn wake_all(&self) {
        self.readable.wake();
        self.writable.wake();
    }

    fn read(&self, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        if sink.remaining() == 0 {
            return Ok(0);
        }
        loop {
            let ticket = self.readable.ticket();
            let mut state = self.state.lock();
            if !state.is_borrowed && !state.buffer.is_empty() {
                let was_full = state.buffer.is_full();
                let result = drain(&mut state.buffer, sink);
                let has_room = !state.buffer.is_full();
                drop(state);
                if has_room && (was_full || self.writable.is_watched()) {
                    self.writable.wake();
                }
                return result;
            }
            if !state.is_borrowed && state.writers == 0 {
                return Ok(0);
            }
            drop(state);
            if flags.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if self.readable.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
    fn write(&self, source: &mut dyn Source, flags: IoFlags, mode: Mode) -> Result<usize, Errno> {
        if source.remaining() == 0 {
            return Ok(0);
        }
        let mut done = 0;
        loop {
            let ticket = self.writable.ticket();
            let step = vfs::retried(HOST, || {
                self.write_some(source, mode, if done == 0 { Merge::Allowed } else { Merge::Never })
            });
            let (count, is_full) = match step {
                Ok(step) => step,
                Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
            };
            done += count;
            if source.remaining() == 0 || count == 0 && !is_full {
                return Ok(done);
            }
            if !is_full {
                // A bad address or a refusal of memory ended the step; the next step fails with it.
                continue;
            }
            let stopped = match flags.is_nonblocking {
                true => Errno::EAGAIN,
                false if self.writable.wait(ticket, None) == Woken::Kicked => Errno::Restart,
                false => continue,
            };
            return if done > 0 { Ok(done) } else { Err(stopped) };
        }
    }
    /// Takes as many bytes as fit now. Returns their number, and whether the pipe is full. Fails with `EPIPE` without readers.
    fn write_some(
        &self,
        source: &mut dyn Source,
        mode: Mode,
        merging: Merge,
    ) -> Result<(usize, bool), Errno> {
        let mut state = self.state.lock();
        if state.readers == 0 {
            drop(state);
            broken_pipe(source.caller());
            return Err(Errno::EPIPE);
        }
        let was_empty = state.buffer.is_empty();
        let result = fill(&mut state.buffer, source, mode, merging);
        let (has_data, is_full) = (!state.buffer.is_empty(), state.buffer.is_full());
        drop(state);
        if has_data && (was_empty || self.readable.is_watched()) {
            self.readable.wake();
        }
        result.map(|count| (count, is_full))
    }
}

fn drain(buffer: &mut Buffer, sink: &mut dyn Sink) -> Result<usize, Errno> {
    let mut done = 0;
    while sink.remaining() > 0 && !buffer.is_empty() {
        match buffer.drain_one(sink) {
            Ok((0, _)) => break,
            Ok((count, is_packet_over)) => {
                done += count;
                if is_packet_over {
                    break;
                }
            }
            Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
        }
    }
    Ok(done)
}

fn fill(
    buffer: &mut Buffer,
    source: &mut dyn Source,
    mode: Mode,
    merging: Merge,
) -> Result<usize, Errno> {
    let mut done =
        if merging == Merge::Allowed && mode == Mode::Stream { buffer.merge(source)? } else { 0 };
    while source.remaining() > 0 && !buffer.is_full() {
        match buffer.fill_one(source, mode) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
        }
    }
    Ok(done)
}

/// Sends the task that writes the signal that its data has no reader (SIGPIPE).
pub fn broken_pipe(writer: &dyn Principal) {
    if let Some(task) = Task::of(writer) {
        signal::send_own(task, signal::SIGPIPE);
    }
}

impl End {
    /// Returns whether it is a read end.
    pub fn reads(&self) -> bool {
        self.direction.reads()
    }
    /// Returns whether it is a write end.
    pub fn writes(&self) -> bool {
        self.direction.writes()
    }
    /// Returns the pipe.
    pub fn pipe(&self) -> &Arc<Pipe> {
        &self.pipe
    }
    /// Returns the number of bytes to be read (`FIONREAD`).
    pub fn readable_bytes(&self) -> usize {
        self.pipe.state.lock().buffer.bytes()
    }
    /// Returns the size (`F_GETPIPE_SZ`).
    pub fn size(&self) -> usize {
        self.pipe.state.lock().buffer.slots() * PAGE_BYTES
    }
    /// Sets the size, rounded up to a power of two of pages (`F_SETPIPE_SZ` of `caller`). Returns the new size.
    ///
    /// # Errors
    /// `EBUSY` if the pipe has more bytes, `EINVAL` beyond 2 GiB, `EPERM` if the user's limit does not
    /// allow it.
    pub fn set_size(&self, bytes: usize, caller: &dyn Principal) -> Result<usize, Errno> {
        let size = limits::rounded(bytes)?;
        let pages = size / PAGE_BYTES;
        let mut state = self.pipe.state.lock();
        let before = state.buffer.slots();
        if let Some(share) = &mut state.share {
            share.change(pages, caller)?;
        }
        if let Err(error) = state.buffer.resize(pages) {
            state.share.iter_mut().for_each(|share| share.put_back(before));
            return Err(error);
        }
        drop(state);
        self.pipe.writable.wake();
        Ok(size)
    }
    /// Called when the description's flags were set: `O_DIRECT` makes packets.
    pub fn flags_changed(&self, flags: u32) {
        self.is_packet.store(flags & raw::O_DIRECT, Ordering::Relaxed);
    }
    /// Returns whether both are ends of one pipe.
    pub fn is_same_pipe(&self, other: &End) -> bool {
        Arc::ptr_eq(&self.pipe, &other.pipe)
    }
}

impl File for End {
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        Some(SignalSource::Readiness)
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        self.pipe.read(sink, flags)
    }
    fn write(
        &self,
        _: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        let is_packet = self.is_packet.load(Ordering::Relaxed) != 0;
        let mode = if is_packet { Mode::Packet } else { Mode::Stream };
        self.pipe.write(source, flags, mode).map(|count| (count, 0))
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            if self.direction.reads() {
                table.add(&self.pipe.readable);
            }
            if self.direction.writes() {
                table.add(&self.pipe.writable);
            }
        }
        let state = self.pipe.state.lock();
        let mut ready = Ready::empty();
        if self.direction.reads() {
            ready.set(Ready::IN | Ready::READ_NORMAL, !state.buffer.is_empty());
            let had_writer = state.writers_seen != self.others_at_open;
            ready.set(Ready::HANGUP, state.writers == 0 && had_writer);
        }
        if self.direction.writes() {
            ready.set(Ready::OUT | Ready::WRITE_NORMAL, !state.buffer.is_full());
            ready.set(Ready::ERROR, state.readers == 0);
        }
        ready
    }
    /// Returns the end's share of the frames. A pipe that is locked counts as one of the default size.
    fn held_bytes(&self, _: &mut Survey) -> usize {
        let frames = match self.pipe.state.try_lock() {
            Some(state) => state.buffer.frames(),
            None => SLOTS,
        };
        frames * PAGE_BYTES / Arc::strong_count(&self.pipe)
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        self.pipe.close(self.direction);
    }
}
