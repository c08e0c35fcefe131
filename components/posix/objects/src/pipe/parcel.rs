//! [`Parcel`]: bytes on their way between files, as parts of frames.
//!
//! A file that is read puts its cached frames into a parcel as they are, shared and not copied; a
//! file that is written copies from them once; a pipe keeps them.
use super::buffer::{Mode, PipeSegment};
use alloc::{collections::VecDeque, vec, vec::Vec};
use rt::{PAGE_BYTES, memory::Frame};
use vfs::{
    Errno, Principal,
    io::{Sink, Source, each_piece},
};

/// Segments in order. The first is stored in place, so that a parcel with only one, as most have, needs no heap.
#[derive(Default)]
pub(super) struct Segments {
    /// The first segment; `None` only if the parcel is empty.
    first: Option<PipeSegment>,
    rest: VecDeque<PipeSegment>,
}

impl Segments {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }
    fn front(&self) -> Option<&PipeSegment> {
        self.first.as_ref()
    }
    fn front_mut(&mut self) -> Option<&mut PipeSegment> {
        self.first.as_mut()
    }
    fn push_back(&mut self, segment: PipeSegment) {
        match self.first {
            None => self.first = Some(segment),
            Some(_) => self.rest.push_back(segment),
        }
    }
    pub(super) fn pop_front(&mut self) -> Option<PipeSegment> {
        let first = self.first.take()?;
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        Some(first)
    }
    pub(super) fn pop_back(&mut self) -> Option<PipeSegment> {
        match self.rest.is_empty() {
            true => self.first.take(),
            false => self.rest.pop_back(),
        }
    }
}

/// A sequence of bytes.
#[derive(Default)]
pub struct Parcel {
    pub(super) segments: Segments,
    bytes: usize,
}

impl Parcel {
    /// Makes an empty parcel.
    pub fn new() -> Parcel {
        Parcel::default()
    }
    /// Makes a sink for up to `bytes` bytes that `caller` reads, in at most `slots` frames.
    pub fn filling<'a>(
        &'a mut self,
        slots: usize,
        bytes: usize,
        caller: &'a dyn Principal,
    ) -> Filling<'a> {
        Filling { parcel: self, slots, bytes, caller }
    }
    /// Makes a source of the bytes, which `caller` writes; those that it does not take stay.
    pub fn emptying<'a>(&'a mut self, caller: &'a dyn Principal) -> Emptying<'a> {
        Emptying { parcel: self, caller }
    }
    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    pub(super) fn push(&mut self, segment: PipeSegment) {
        self.bytes += segment.length;
        self.segments.push_back(segment);
    }
    /// Drops the first `length` bytes, which were used.
    pub fn skip(&mut self, mut length: usize) {
        while let Some(first) = self.segments.front_mut().filter(|_| length > 0) {
            let step = length.min(first.length);
            first.skip(step);
            self.bytes -= step;
            length -= step;
            if first.length == 0 {
                self.segments.pop_front();
            }
        }
    }
}

/// The source of a file to which a parcel is written.
pub struct Emptying<'a> {
    parcel: &'a mut Parcel,
    caller: &'a dyn Principal,
}

impl Source for Emptying<'_> {
    fn caller(&self) -> &dyn Principal {
        self.caller
    }
    fn remaining(&self) -> usize {
        self.parcel.bytes
    }
    fn take(&mut self, out: &mut [u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while let (Some(first), Some(rest)) = (self.parcel.segments.front(), out.get_mut(done..)) {
            let wanted = rest.len().min(first.length);
            if wanted == 0 {
                break;
            }
            let (piece, _) = rest.split_at_mut(wanted);
            let count = first.frame.read(first.start, piece);
            self.parcel.skip(count);
            done += count;
        }
        Ok(done)
    }
    fn take_into_frames(
        &mut self,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        let is_whole = |first: &PipeSegment| first.start == 0 && first.length == PAGE_BYTES;
        each_piece(frames, offset, length, |frame, start, wanted| {
            if wanted == PAGE_BYTES
                && let Some(first) = self.parcel.segments.front().filter(|first| is_whole(first))
            {
                frame.copy_from(&first.frame);
                self.parcel.skip(PAGE_BYTES);
                return Ok(PAGE_BYTES);
            }
            let mut bytes = vec![0; wanted];
            let count = self.take(&mut bytes)?;
            Ok(frame.write(start, bytes.get(..count).unwrap_or_default()))
        })
    }
    fn shares_frames(&self) -> bool {
        true
    }
    fn share(&mut self, length: usize, take: &mut dyn FnMut(Frame, usize, usize)) -> usize {
        if self.parcel.bytes <= length {
            let Parcel { segments, bytes } = core::mem::take(&mut *self.parcel);
            for PipeSegment { frame, start, length, .. } in
                segments.first.into_iter().chain(segments.rest)
            {
                take(frame, start, length);
            }
            return bytes;
        }
        let mut done = 0;
        while let Some(first) = self.parcel.segments.front().filter(|_| done < length) {
            let count = first.length.min(length - done);
            if count < first.length {
                take(first.frame.clone(), first.start, count);
                self.parcel.skip(count);
            } else if let Some(first) = self.parcel.segments.pop_front() {
                self.parcel.bytes -= count;
                take(first.frame, first.start, count);
            }
            done += count;
        }
        done
    }
}

/// The sink of a file that is read into a parcel.
pub struct Filling<'a> {
    parcel: &'a mut Parcel,
    slots: usize,
    bytes: usize,
    caller: &'a dyn Principal,
}

impl Filling<'_> {
    fn push(&mut self, frame: Frame, start: usize, length: usize) {
        self.parcel.push(PipeSegment { frame, start, length, mode: Mode::Stream });
        self.slots -= 1;
        self.bytes -= length;
    }
}

impl Filling<'_> {
    /// Takes at most a frame of bytes from `source`.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`.
    pub fn fill_from(&mut self, source: &mut dyn Source) -> Result<usize, Errno> {
        let wanted = self.remaining().min(PAGE_BYTES);
        let frame = Frame::unfilled()?;
        let count = source.take_into_frame(&frame, 0, wanted)?;
        if count > 0 {
            self.push(frame, 0, count);
        }
        Ok(count)
    }
}

impl Sink for Filling<'_> {
    fn caller(&self) -> &dyn Principal {
        self.caller
    }
    fn remaining(&self) -> usize {
        self.bytes.min(self.slots.saturating_mul(PAGE_BYTES))
    }
    fn put(&mut self, data: &[u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let length = rest.len().min(self.remaining()).min(PAGE_BYTES);
            if length == 0 {
                break;
            }
            let frame = Frame::unfilled()?;
            frame.write(0, rest.split_at(length).0);
            self.push(frame, 0, length);
            done += length;
        }
        Ok(done)
    }
    fn put_frames(
        &mut self,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        each_piece(frames, offset, length, |frame, start, count| {
            let count = count.min(self.remaining());
            if count > 0 {
                self.push(frame.clone(), start, count);
            }
            Ok(count)
        })
    }
    fn keep_frames(
        &mut self,
        frames: &mut Vec<Frame>,
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        if offset >= PAGE_BYTES {
            return self.put_frames(frames, offset, length);
        }
        let present = (frames.len() * PAGE_BYTES).saturating_sub(offset);
        let length = length.min(self.remaining()).min(present);
        let count = if length == 0 { 0 } else { (offset + length).div_ceil(PAGE_BYTES) };
        let (mut start, mut left) = (offset, length);
        let mut parts = frames.drain(..count).map(|frame| {
            let length = left.min(PAGE_BYTES - start);
            let part = PipeSegment { frame, start, length, mode: Mode::Stream };
            (start, left) = (0, left - length);
            part
        });
        let Parcel { segments, bytes } = &mut *self.parcel;
        if segments.first.is_none() {
            segments.first = parts.next();
        }
        segments.rest.extend(parts);
        *bytes += length;
        self.slots -= count;
        self.bytes -= length;
        Ok(length)
    }
    fn put_zeroes(&mut self, length: usize) -> Result<usize, Errno> {
        let length = length.min(self.remaining()).min(PAGE_BYTES);
        if length > 0 {
            self.push(Frame::zeroed()?, 0, length);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use vfs::NOBODY;

    fn bytes_of(parcel: &mut Parcel) -> Vec<u8> {
        let mut out = vec![0; parcel.bytes()];
        assert_eq!(parcel.emptying(NOBODY).take(&mut out), Ok(out.len()));
        out
    }

    #[test]
    fn frames_are_shared_and_slots_limit() {
        let frame = Frame::zeroed().unwrap();
        frame.write(10, b"hello");
        let mut parcel = Parcel::new();
        let mut filling = parcel.filling(2, 100, NOBODY);
        assert_eq!(filling.put_frame(&frame, 10, 5), Ok(5));
        assert_eq!(filling.put(b"!"), Ok(1));
        assert_eq!(filling.remaining(), 0);
        assert_eq!(filling.put(b"?"), Ok(0));
        assert_eq!(frame.references(), 2);
        assert_eq!(bytes_of(&mut parcel), b"hello!");
        assert_eq!(frame.references(), 1);
    }

    #[test]
    fn frames_are_kept_without_another_reference_and_shared_in_order() {
        let pages: Vec<Frame> = (0..3).map(|_| Frame::zeroed().unwrap()).collect();
        pages.iter().zip(1..).for_each(|(page, value)| _ = page.write(0, &[value; PAGE_BYTES]));
        let mut kept = pages.clone();
        let mut parcel = Parcel::new();
        let mut filling = parcel.filling(4, 2 * PAGE_BYTES, NOBODY);
        assert_eq!(filling.keep_frames(&mut kept, 4000, 3 * PAGE_BYTES), Ok(2 * PAGE_BYTES));
        assert_eq!((kept.len(), filling.remaining()), (0, 0));
        assert_eq!(filling.keep_frames(&mut pages.clone(), 0, 1), Ok(0));
        assert!(pages.iter().all(|page| page.references() == 2));
        let mut parts = Vec::new();
        let mut note = |frame: Frame, start, length| parts.push((frame.id(), start, length));
        assert_eq!(parcel.emptying(NOBODY).share(100, &mut note), 96 + 4);
        assert_eq!(parcel.emptying(NOBODY).share(usize::MAX, &mut note), 2 * PAGE_BYTES - 100);
        let ids: Vec<_> = pages.iter().map(Frame::id).collect();
        let expected = [(ids[0], 4000, 96), (ids[1], 0, 4), (ids[1], 4, 4092), (ids[2], 0, 4000)];
        assert_eq!(parts, expected);
        assert_eq!(parcel.bytes(), 0);
        assert!(pages.iter().all(|page| page.references() == 1));
    }

    #[test]
    fn whole_pages_and_parts_are_copied_into_frames() {
        let page = Frame::zeroed().unwrap();
        page.write(0, &[7; PAGE_BYTES]);
        let mut parcel = Parcel::new();
        let mut filling = parcel.filling(4, 3 * PAGE_BYTES, NOBODY);
        filling.put_frame(&page, 0, PAGE_BYTES).unwrap();
        filling.put_frame(&page, 4000, 96).unwrap();
        filling.put_zeroes(50).unwrap();
        let to = Frame::zeroed().unwrap();
        assert_eq!(parcel.emptying(NOBODY).take_into_frame(&to, 0, PAGE_BYTES), Ok(PAGE_BYTES));
        assert_eq!(parcel.emptying(NOBODY).take_into_frame(&to, 100, 200), Ok(146));
        let mut out = [1; 3];
        to.read(195, &mut out);
        assert_eq!(out, [7, 0, 0]);
        assert_eq!(parcel.bytes(), 0);
    }
}
