//! [`Buffer`]: the bytes in a pipe, in a queue of frames.
//!
//! Each segment is a part of one frame, so a byte is copied once on the way in and once on the way out. A
//! short write is added to the last segment if it fits whole, so that many short writes do not use a
//! frame each; a packet (`O_DIRECT`) keeps its segment. The pipe's lock guards it.
use alloc::{collections::VecDeque, vec::Vec};
use rt::{PAGE_BYTES, memory::Frame};
use vfs::{
    Errno,
    io::{Sink, Source},
};

/// Number of frames kept for the next write.
const SPARE_FRAMES: usize = 2;

/// Mode in which the bytes of a write are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The bytes are a stream.
    Stream,
    /// Each write (of at most a frame) is a packet that is read by itself.
    Packet,
}

/// A part of a frame. The frame may be in other pipes or in a file's cache as well: bytes are added only
/// to a frame that has no other user.
pub(super) struct PipeSegment {
    pub(super) frame: Frame,
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) mode: Mode,
}

impl PipeSegment {
    /// Returns the first `length` bytes; the frame is shared.
    pub(super) fn head(&self, length: usize) -> PipeSegment {
        let length = length.min(self.length);
        PipeSegment { frame: self.frame.clone(), start: self.start, length, mode: self.mode }
    }
    /// Drops the first `length` bytes.
    pub(super) fn skip(&mut self, length: usize) {
        let length = length.min(self.length);
        self.start += length;
        self.length -= length;
    }
}

/// The bytes of a pipe.
pub struct Buffer {
    segments: VecDeque<PipeSegment>,
    spare: Vec<Frame>,
    slots: usize,
    /// Number of slots reserved for frames that are being filled elsewhere, or for segments that were
    /// removed for a while.
    reserved: usize,
    bytes: usize,
}

impl Buffer {
    /// Makes an empty buffer for `slots` frames.
    pub const fn new(slots: usize) -> Buffer {
        Buffer { segments: VecDeque::new(), spare: Vec::new(), slots, reserved: 0, bytes: 0 }
    }
    /// Returns the number of bytes in it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    /// Returns whether no frame can be added.
    pub fn is_full(&self) -> bool {
        self.free() == 0
    }
    /// Returns the number of frames that may be added.
    pub fn free(&self) -> usize {
        self.slots.saturating_sub(self.segments.len() + self.reserved)
    }
    /// Returns the number of frames that it may hold.
    pub fn slots(&self) -> usize {
        self.slots
    }
    /// Returns the number of frames that it holds, spare ones included.
    pub fn frames(&self) -> usize {
        self.segments.len() + self.spare.len()
    }
    /// Changes the number of frames that it may hold.
    ///
    /// # Errors
    /// `EBUSY` if it holds more now.
    pub fn resize(&mut self, slots: usize) -> Result<(), Errno> {
        if slots < self.segments.len() + self.reserved {
            return Err(Errno::EBUSY);
        }
        self.slots = slots;
        Ok(())
    }
    /// Drops all bytes.
    pub fn clear(&mut self) {
        self.segments.clear();
        self.spare.clear();
        self.bytes = 0;
    }
    /// Adds the first bytes of a write to the last segment, so that whole frames remain, if they fit
    /// there. Returns their number.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn merge(&mut self, source: &mut dyn Source) -> Result<usize, Errno> {
        let odd = source.remaining() % PAGE_BYTES;
        let Some(last) = self.segments.back_mut() else { return Ok(0) };
        if last.mode != Mode::Stream || last.frame.references() > 1 {
            return Ok(0);
        }
        let end = last.start + last.length;
        if odd == 0 || end + odd > PAGE_BYTES {
            return Ok(0);
        }
        let count = source.take_into_frame(&last.frame, end, odd)?;
        if count < odd {
            return Err(Errno::EFAULT);
        }
        last.length += count;
        self.bytes += count;
        Ok(count)
    }
    /// Fills one free frame from `source`. Returns the number of bytes taken. The buffer must not be
    /// full.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`.
    pub fn fill_one(&mut self, source: &mut dyn Source, mode: Mode) -> Result<usize, Errno> {
        let frame = match self.spare.pop() {
            Some(frame) => frame,
            None => Frame::unfilled()?,
        };
        let wanted = source.remaining().min(PAGE_BYTES);
        match source.take_into_frame(&frame, 0, wanted) {
            Ok(0) => {
                self.keep(frame);
                Ok(0)
            }
            // A frame that was not filled as far as planned is not kept.
            Ok(length) if length < wanted => {
                self.keep(frame);
                Err(Errno::EFAULT)
            }
            Ok(length) => {
                self.segments.push_back(PipeSegment { frame, start: 0, length, mode });
                self.bytes += length;
                Ok(length)
            }
            Err(error) => {
                self.keep(frame);
                Err(error)
            }
        }
    }
    /// Moves bytes of the first segment to `sink`. Returns their number, and whether the read is over
    /// because a packet ended.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn drain_one(&mut self, sink: &mut dyn Sink) -> Result<(usize, bool), Errno> {
        let Some(first) = self.segments.front_mut() else { return Ok((0, true)) };
        let wanted = first.length.min(sink.remaining());
        let count = sink.put_frame(&first.frame, first.start, wanted)?;
        if count < wanted {
            return Err(Errno::EFAULT);
        }
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
        if self.spare.len() < SPARE_FRAMES && frame.references() == 1 {
            self.spare.push(frame);
        }
    }
    /// Reserves up to `most` free slots. Returns their number.
    pub(super) fn reserve(&mut self, most: usize) -> usize {
        let count = most.min(self.free());
        self.reserved += count;
        count
    }
    /// Releases reserved slots.
    pub(super) fn unreserve(&mut self, count: usize) {
        self.reserved = self.reserved.saturating_sub(count);
    }
    /// Adds a segment after the others. The caller has checked that there is room.
    pub(super) fn push(&mut self, segment: PipeSegment) {
        self.bytes += segment.length;
        self.segments.push_back(segment);
    }
    /// Puts a removed segment back before the others.
    pub(super) fn put_back(&mut self, segment: PipeSegment) {
        self.bytes += segment.length;
        self.segments.push_front(segment);
    }
    /// Removes the first segment, cut to `length` bytes; the rest stays.
    pub(super) fn take(&mut self, length: usize) -> Option<PipeSegment> {
        let first = self.segments.front_mut()?;
        let taken = if first.length <= length {
            self.segments.pop_front()?
        } else {
            let head = first.head(length);
            first.skip(length);
            head
        };
        self.bytes -= taken.length;
        Some(taken)
    }
    /// Removes up to `length` bytes and passes their segments to `each`, first to last. Returns the
    /// number of bytes.
    #[inline]
    pub(super) fn take_each(&mut self, length: usize, mut each: impl FnMut(PipeSegment)) -> usize {
        let mut done = 0;
        while done < length
            && let Some(segment) = self.take(length - done)
        {
            done += segment.length;
            each(segment);
        }
        done
    }
    /// Returns the segments, first to last.
    pub(super) fn segments(&self) -> impl Iterator<Item = &PipeSegment> {
        self.segments.iter()
    }
}
