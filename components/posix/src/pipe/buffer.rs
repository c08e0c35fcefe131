//! [`Buffer`]: the bytes in a pipe, in a queue of frames.
//!
//! Each segment is a part of one frame, so a byte is copied once on the way in and once on the way
//! out. A short write is added to the last segment where it fits whole, so that many short writes
//! do not use a frame each; a packet (`O_DIRECT`) keeps its segment. The pipe's lock guards it.
use alloc::{collections::VecDeque, vec::Vec};
use rt::{PAGE_BYTES, memory::Frame};
use vfs::{
    Errno,
    io::{Sink, Source},
};

/// Frames kept for the next write.
const SPARE_FRAMES: usize = 2;

/// How a write's bytes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As a stream.
    Stream,
    /// Each write (of at most a frame) is read by itself.
    Packet,
}

struct Segment {
    frame: Frame,
    start: usize,
    length: usize,
    mode: Mode,
}

/// The bytes of a pipe.
pub struct Buffer {
    segments: VecDeque<Segment>,
    spare: Vec<Frame>,
    slots: usize,
    bytes: usize,
}

impl Buffer {
    /// Empty, for `slots` frames.
    pub const fn new(slots: usize) -> Buffer {
        Buffer { segments: VecDeque::new(), spare: Vec::new(), slots, bytes: 0 }
    }
    /// Bytes in it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Nothing can be read.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    /// No frame is free.
    pub fn is_full(&self) -> bool {
        self.segments.len() >= self.slots
    }
    /// Frames it may hold.
    pub fn slots(&self) -> usize {
        self.slots
    }
    /// Changes how many frames it may hold.
    ///
    /// # Errors
    /// `EBUSY` where it holds more now.
    pub fn resize(&mut self, slots: usize) -> Result<(), Errno> {
        if slots < self.segments.len() {
            return Err(Errno::EBUSY);
        }
        self.slots = slots;
        Ok(())
    }
    /// Throws everything away.
    pub fn clear(&mut self) {
        self.segments.clear();
        self.spare.clear();
        self.bytes = 0;
    }
    /// Adds the first bytes of a write to the last segment, so that whole frames remain, if they
    /// fit there. Returns how many.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn merge(&mut self, source: &mut dyn Source) -> Result<usize, Errno> {
        let odd = source.remaining() % PAGE_BYTES;
        let Some(last) = self.segments.back_mut().filter(|last| last.mode == Mode::Stream) else {
            return Ok(0);
        };
        let end = last.start + last.length;
        if odd == 0 || end + odd > PAGE_BYTES {
            return Ok(0);
        }
        let count = source.take_into_frame(&last.frame, end, odd)?;
        last.length += count;
        self.bytes += count;
        Ok(count)
    }
    /// Fills one free frame from `source`; returns the bytes taken. The buffer must not be full.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`.
    pub fn fill_one(&mut self, source: &mut dyn Source, mode: Mode) -> Result<usize, Errno> {
        let frame = match self.spare.pop() {
            Some(frame) => frame,
            None => Frame::allocate(false)?,
        };
        let wanted = source.remaining().min(PAGE_BYTES);
        match source.take_into_frame(&frame, 0, wanted) {
            Ok(0) => {
                self.keep(frame);
                Ok(0)
            }
            Ok(length) => {
                self.segments.push_back(Segment { frame, start: 0, length, mode });
                self.bytes += length;
                Ok(length)
            }
            Err(error) => {
                self.keep(frame);
                Err(error)
            }
        }
    }
    /// Moves bytes of the first segment to `sink`. Returns how many, and whether the read is over
    /// because a packet ended.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn drain_one(&mut self, sink: &mut dyn Sink) -> Result<(usize, bool), Errno> {
        let Some(first) = self.segments.front_mut() else { return Ok((0, true)) };
        let wanted = first.length.min(sink.remaining());
        let count = sink.put_frame(&first.frame, first.start, wanted)?;
        first.start += count;
        first.length -= count;
        self.bytes -= count;
        let is_packet = first.mode == Mode::Packet;
        if first.length == 0 || is_packet {
            self.bytes -= first.length;
            if let Some(done) = self.segments.pop_front() {
                self.keep(done.frame);
            }
        }
        Ok((count, is_packet))
    }
    fn keep(&mut self, frame: Frame) {
        if self.spare.len() < SPARE_FRAMES {
            self.spare.push(frame);
        }
    }
}
