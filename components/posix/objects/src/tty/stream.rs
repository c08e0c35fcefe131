//! [`Stream`]: a port as a plain stream of bytes, for the standard files of a session (`./x run --exec`).
//!
//! No line discipline and no job control: bytes come and go as they are. The other end closing is
//! the end of file. `stream.arrivals` is a leaf; the port keeps what does not fit.
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};
use interfaces::terminal::{Port, PortSink};
use rt::{lock_class, sync::Mutex, thread::Woken};
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Ready},
    io::{Sink, Source},
    poll::{PollTable, WaitQueue},
};

lock_class! {
    static ARRIVALS = "stream.arrivals";
    static SENDING = "stream.sending";
}

/// The greatest number of bytes kept for readers.
const ARRIVALS_MAX: usize = 64 << 10;
/// Room that stays allocated when all bytes were read.
const ARRIVALS_KEPT: usize = 1 << 10;
/// Number of bytes passed to the port at once.
const PIECE_BYTES: usize = 16 << 10;

/// A port as a file.
pub struct Stream {
    port: Arc<dyn Port>,
    arrivals: Mutex<VecDeque<u8>>,
    sending: Mutex<()>,
    readable: WaitQueue,
    is_closed: AtomicBool,
    has_refused: AtomicBool,
}

impl Stream {
    /// Makes a stream over `port`, whose input it receives from now on.
    pub fn new(port: Arc<dyn Port>) -> Arc<Stream> {
        let stream = Arc::new(Stream {
            port: port.clone(),
            arrivals: Mutex::new(&ARRIVALS, VecDeque::new()),
            sending: Mutex::new(&SENDING, ()),
            readable: WaitQueue::new(),
            is_closed: AtomicBool::new(false),
            has_refused: AtomicBool::new(false),
        });
        port.set_sink(stream.clone());
        stream
    }
    /// Returns the number of bytes that can be read now.
    pub fn readable_bytes(&self) -> usize {
        self.arrivals.lock().len()
    }
    /// Moves the available bytes to `sink`.
    fn read_some(&self, sink: &mut dyn Sink) -> Result<usize, Errno> {
        let piece: Vec<u8> = {
            let mut arrivals = self.arrivals.lock();
            let count = arrivals.len().min(sink.remaining()).min(PIECE_BYTES);
            let piece = arrivals.drain(..count).collect();
            if arrivals.is_empty() {
                arrivals.shrink_to(ARRIVALS_KEPT);
            }
            piece
        };
        if self.has_refused.swap(false, Ordering::AcqRel) {
            self.port.resume();
        }
        if piece.is_empty() {
            return Ok(0);
        }
        sink.commit();
        sink.put(&piece)
    }
}

impl PortSink for Stream {
    fn received(&self, bytes: &[u8]) -> usize {
        let mut arrivals = self.arrivals.lock();
        let taken = bytes.len().min(ARRIVALS_MAX.saturating_sub(arrivals.len()));
        arrivals.extend(bytes.iter().take(taken));
        if taken < bytes.len() {
            self.has_refused.store(true, Ordering::Release);
        }
        drop(arrivals);
        self.readable.wake();
        taken
    }
    fn connected(&self, is_open: bool) {
        self.is_closed.store(!is_open, Ordering::Release);
        self.readable.wake();
    }
    fn resized(&self, _: u16, _: u16) {}
}

impl File for Stream {
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        if sink.remaining() == 0 {
            return Ok(0);
        }
        loop {
            let ticket = self.readable.ticket();
            let is_closed = self.is_closed.load(Ordering::Acquire);
            let count = self.read_some(sink)?;
            if count > 0 || is_closed {
                return Ok(count);
            }
            if flags.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if self.readable.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
    fn write(&self, _: u64, source: &mut dyn Source, _: IoFlags) -> Result<(usize, u64), Errno> {
        let mut piece = alloc::vec![0; source.remaining().min(PIECE_BYTES)];
        let _order = self.sending.lock();
        let mut done = 0;
        while source.remaining() > 0 {
            let count = match source.take(&mut piece) {
                Ok(count) => count,
                Err(error) => return if done > 0 { Ok((done, 0)) } else { Err(error) },
            };
            let sent = self.port.send(piece.get(..count).unwrap_or_default());
            done += sent;
            if sent < count {
                return if done > 0 { Ok((done, 0)) } else { Err(Errno::EIO) };
            }
        }
        Ok((done, 0))
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.readable);
        }
        let is_closed = self.is_closed.load(Ordering::Acquire);
        let mut ready = Ready::OUT | Ready::WRITE_NORMAL;
        ready.set(Ready::IN | Ready::READ_NORMAL, is_closed || self.readable_bytes() > 0);
        ready.set(Ready::HANGUP, is_closed);
        ready
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

#[cfg(test)]
impl Stream {
    pub(super) fn room(&self) -> usize {
        self.arrivals.lock().capacity()
    }
}
