//! The ends of a read or write in memory: user memory (one copy, B4) or kernel memory.
use crate::base::{
    errno::Errno,
    principal::{NOBODY, Principal},
};
use alloc::vec::Vec;
use core::slice;
use rt::memory::Frame;

/// Takes bytes: a program's buffers (`memory::UserSink`) or a kernel slice ([`SliceSink`]).
pub trait Sink {
    /// Returns the task that reads; [`NOBODY`] if the bytes are for the personality itself.
    fn caller(&self) -> &dyn Principal {
        NOBODY
    }
    /// Returns the room left, in bytes.
    fn remaining(&self) -> usize;
    /// Called once the reader has removed the bytes from where they were: from now on none is refused for lack of memory, only
    /// for a bad address.
    fn commit(&mut self) {}
    /// Accepts at most `data.len()` bytes and returns their number.
    ///
    /// # Errors
    /// `EFAULT` if it could accept none.
    fn put(&mut self, data: &[u8]) -> Result<usize, Errno>;
    /// Accepts all of `data`, a record that the reader has removed and for which there is room: one that is not whole is of no
    /// use.
    ///
    /// # Errors
    /// `EFAULT` if it could not accept all of it.
    fn put_whole(&mut self, data: &[u8]) -> Result<usize, Errno> {
        self.commit();
        let count = self.put(data)?;
        if count == data.len() { Ok(count) } else { Err(Errno::EFAULT) }
    }
    /// Accepts `length` bytes of `frames`, which follow each other, from `offset`, at most to their end. Returns their number.
    ///
    /// # Errors
    /// As [`Sink::put`].
    fn put_frames(
        &mut self,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno>;
    /// Accepts bytes of one frame as [`Sink::put_frames`] does.
    ///
    /// # Errors
    /// As [`Sink::put`].
    fn put_frame(&mut self, frame: &Frame, offset: usize, length: usize) -> Result<usize, Errno> {
        self.put_frames(slice::from_ref(frame), offset, length)
    }
    /// Accepts the same bytes as [`Sink::put_frames`]. May take references out of `frames`, to keep them.
    ///
    /// # Errors
    /// As [`Sink::put`].
    fn keep_frames(
        &mut self,
        frames: &mut Vec<Frame>,
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        self.put_frames(frames, offset, length)
    }
    /// Accepts `length` zeroes.
    ///
    /// # Errors
    /// As [`Sink::put`].
    fn put_zeroes(&mut self, length: usize) -> Result<usize, Errno>;
}

/// A source of bytes.
pub trait Source {
    /// Returns the task that writes; [`NOBODY`] if the bytes are the personality's own.
    fn caller(&self) -> &dyn Principal {
        NOBODY
    }
    /// Returns the number of bytes left.
    fn remaining(&self) -> usize;
    /// Copies at most `out.len()` bytes to `out` and returns their number.
    ///
    /// # Errors
    /// `EFAULT` if none could be copied.
    fn take(&mut self, out: &mut [u8]) -> Result<usize, Errno>;
    /// Fills `out`, for which there are enough bytes.
    ///
    /// # Errors
    /// `EFAULT` if not all could be copied.
    fn take_whole(&mut self, out: &mut [u8]) -> Result<usize, Errno> {
        let count = self.take(out)?;
        if count == out.len() { Ok(count) } else { Err(Errno::EFAULT) }
    }
    /// Copies `length` bytes into `frames`, which follow each other, at `offset`, at most to their end. Returns their number.
    ///
    /// # Errors
    /// Those of [`Source::take`].
    fn take_into_frames(
        &mut self,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno>;
    /// Copies bytes into one frame as [`Source::take_into_frames`] does.
    ///
    /// # Errors
    /// Those of [`Source::take`].
    fn take_into_frame(
        &mut self,
        frame: &Frame,
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        self.take_into_frames(slice::from_ref(frame), offset, length)
    }
    /// Returns whether the bytes are in frames that [`Source::share`] passes on without a copy.
    fn shares_frames(&self) -> bool {
        false
    }
    /// Passes at most `length` bytes on as parts of frames, `take(frame, offset, length)`, of which the taker may keep the frames but
    /// not change them. Returns the number of bytes; 0 if the source shares none.
    fn share(&mut self, length: usize, take: &mut dyn FnMut(Frame, usize, usize)) -> usize {
        let _ = (length, take);
        0
    }
}

/// Calls `part(frame, offset in it, count)` for the pieces of `length` bytes of `frames` from `offset` on, until one moves fewer
/// bytes than its count. Returns the number of bytes moved.
pub fn each_piece(
    frames: &[Frame],
    offset: usize,
    length: usize,
    mut part: impl FnMut(&Frame, usize, usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut done = 0;
    let mut start = offset % rt::PAGE_BYTES;
    for frame in frames.iter().skip(offset / rt::PAGE_BYTES) {
        let count = (length - done).min(rt::PAGE_BYTES - start);
        let moved = match part(frame, start, count) {
            Err(error) if done == 0 => return Err(error),
            moved => moved.unwrap_or(0),
        };
        done += moved;
        if moved < count || done == length {
            break;
        }
        start = 0;
    }
    Ok(done)
}

/// A destination of bytes in a kernel slice.
pub struct SliceSink<'a> {
    caller: &'a dyn Principal,
    rest: &'a mut [u8],
}

impl<'a> SliceSink<'a> {
    /// Makes a sink for as many bytes as `out` is long.
    pub fn new(out: &'a mut [u8]) -> SliceSink<'a> {
        SliceSink::of(NOBODY, out)
    }
    /// Makes the same sink for a read on behalf of `caller`.
    pub fn of(caller: &'a dyn Principal, out: &'a mut [u8]) -> SliceSink<'a> {
        SliceSink { caller, rest: out }
    }
    fn advance(&mut self, length: usize) -> &'a mut [u8] {
        let rest = core::mem::take(&mut self.rest);
        let (piece, rest) = rest.split_at_mut(length.min(rest.len()));
        self.rest = rest;
        piece
    }
}

impl Sink for SliceSink<'_> {
    fn caller(&self) -> &dyn Principal {
        self.caller
    }
    fn remaining(&self) -> usize {
        self.rest.len()
    }
    fn put(&mut self, data: &[u8]) -> Result<usize, Errno> {
        let piece = self.advance(data.len());
        piece.copy_from_slice(data.split_at(piece.len()).0);
        Ok(piece.len())
    }
    fn put_frames(
        &mut self,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        each_piece(frames, offset, length, |frame, start, count| {
            Ok(frame.read(start, self.advance(count)))
        })
    }
    fn put_zeroes(&mut self, length: usize) -> Result<usize, Errno> {
        let piece = self.advance(length);
        piece.fill(0);
        Ok(piece.len())
    }
}

/// A source of the bytes of a kernel slice.
pub struct SliceSource<'a> {
    caller: &'a dyn Principal,
    rest: &'a [u8],
}

impl<'a> SliceSource<'a> {
    /// Makes a source of the bytes of `data`.
    pub fn new(data: &'a [u8]) -> SliceSource<'a> {
        SliceSource::of(NOBODY, data)
    }
    /// Makes the same source for a write on behalf of `caller`.
    pub fn of(caller: &'a dyn Principal, data: &'a [u8]) -> SliceSource<'a> {
        SliceSource { caller, rest: data }
    }
    fn advance(&mut self, length: usize) -> &'a [u8] {
        let (piece, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        piece
    }
}

impl Source for SliceSource<'_> {
    fn caller(&self) -> &dyn Principal {
        self.caller
    }
    fn remaining(&self) -> usize {
        self.rest.len()
    }
    fn take(&mut self, out: &mut [u8]) -> Result<usize, Errno> {
        let piece = self.advance(out.len());
        out.split_at_mut(piece.len()).0.copy_from_slice(piece);
        Ok(piece.len())
    }
    fn take_into_frames(
        &mut self,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        each_piece(frames, offset, length, |frame, start, count| {
            Ok(frame.write(start, self.advance(count)))
        })
    }
}

/// The first bytes of another source, up to a limit.
pub struct Limited<'a> {
    source: &'a mut dyn Source,
    room: usize,
}

impl<'a> Limited<'a> {
    /// Makes a source of at most `room` bytes of `source`.
    pub fn new(source: &'a mut dyn Source, room: u64) -> Limited<'a> {
        Limited { source, room: usize::try_from(room).unwrap_or(usize::MAX) }
    }
}

impl Source for Limited<'_> {
    fn caller(&self) -> &dyn Principal {
        self.source.caller()
    }
    fn remaining(&self) -> usize {
        self.source.remaining().min(self.room)
    }
    fn take(&mut self, out: &mut [u8]) -> Result<usize, Errno> {
        let wanted = out.len().min(self.room);
        let count = self.source.take(out.split_at_mut(wanted).0)?;
        self.room -= count;
        Ok(count)
    }
    fn take_into_frames(
        &mut self,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        let count = self.source.take_into_frames(frames, offset, length.min(self.room))?;
        self.room -= count;
        Ok(count)
    }
    fn shares_frames(&self) -> bool {
        self.source.shares_frames()
    }
    fn share(&mut self, length: usize, take: &mut dyn FnMut(Frame, usize, usize)) -> usize {
        let count = self.source.share(length.min(self.room), take);
        self.room -= count.min(self.room);
        count
    }
}
