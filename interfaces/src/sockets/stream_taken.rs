//! [`TakenPieces`]: the first bytes of a stream, which its reader has taken from the queue.
use super::stream_pieces::{Queue, StreamPiece};
use crate::nic::PacketSegment;
use alloc::vec::Vec;
use rt::{PAGE_BYTES, memory::Frame, sync::Mutex};

/// A part of a frame that the reader has taken from the queue, and the bytes of memory that were held for it there.
struct TakenPart {
    start: usize,
    end: usize,
    held: usize,
}

/// The first bytes to read, which are not in the queue any more: no other thread needs them. They remain when they were only peeked
/// at, or could not be copied.
#[derive(Default)]
pub(super) struct TakenPieces {
    frames: Vec<Frame>,
    /// The part of each frame.
    parts: Vec<TakenPart>,
    bytes: usize,
}

impl TakenPieces {
    /// Moves pieces from `queue` until there are `wanted` bytes here, as far as there are pieces.
    pub(super) fn fill(&mut self, wanted: usize, queue: &Mutex<Queue>) {
        if self.bytes >= wanted {
            return;
        }
        let mut queue = queue.lock();
        if queue.pieces.len() <= 1 {
            // The usual case of short messages.
            if let Some(StreamPiece { segment, .. }) = queue.pieces.pop_front() {
                self.add_part(&segment, PAGE_BYTES);
                self.frames.push(segment.frame);
            }
            return;
        }
        let mut count = 0;
        let mut pieces = queue.pieces.iter();
        let mut next = pieces.next();
        while self.bytes < wanted
            && let Some(StreamPiece { segment, .. }) = next
        {
            next = pieces.next();
            let is_last = next.is_none_or(|next| next.segment.frame.id() != segment.frame.id());
            self.add_part(segment, if is_last { PAGE_BYTES } else { 0 });
            count += 1;
        }
        self.frames.extend(queue.pieces.drain(..count).map(|piece| piece.segment.frame));
    }
    #[inline]
    fn add_part(&mut self, segment: &PacketSegment, held: usize) {
        let (start, length) = (segment.offset as usize, segment.length as usize);
        self.parts.push(TakenPart { start, end: start + length, held });
        self.bytes += length;
    }
    /// Calls `copy(frames, offset, length)` for at most `most` bytes from `skip` on, with as many frames at once as follow each
    /// other without a gap. Returns the number of bytes copied.
    pub(super) fn copy<E>(
        &self,
        (mut skip, most): (usize, usize),
        mut copy: impl FnMut(&[Frame], usize, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let (mut first, mut done) = (0, 0);
        while let Some(part) = self.parts.get(first)
            && done < most
        {
            if skip >= part.end - part.start {
                skip -= part.end - part.start;
                first += 1;
                continue;
            }
            let (count, bytes) = self.run(first);
            let wanted = (bytes - skip).min(most - done);
            let frames = self.frames.get(first..first + count).unwrap_or_default();
            let moved = match copy(frames, part.start + skip, wanted) {
                Err(error) if done == 0 => return Err(error),
                moved => moved.unwrap_or(0).min(wanted),
            };
            done += moved;
            if moved < wanted {
                break;
            }
            (skip, first) = (0, first + count);
        }
        Ok(done)
    }
    /// Returns the number of parts from `first` on that follow each other without a gap, and the number of their bytes.
    fn run(&self, first: usize) -> (usize, usize) {
        let (mut count, mut bytes, mut end) = (0, 0, None);
        for part in self.parts.iter().skip(first) {
            if end.is_some_and(|end| end != PAGE_BYTES || part.start != 0) {
                break;
            }
            (count, bytes, end) = (count + 1, bytes + part.end - part.start, Some(part.end));
        }
        (count, bytes)
    }
    /// Drops the first `count` bytes. Returns the bytes of memory that were held for them.
    pub(super) fn pass(&mut self, count: usize) -> usize {
        let (mut left, mut used_up, mut held) = (count, 0, 0);
        for part in &mut self.parts {
            let passed = left.min(part.end - part.start);
            part.start += passed;
            left -= passed;
            if part.start < part.end {
                break;
            }
            held += part.held;
            used_up += 1;
        }
        self.bytes -= count - left;
        match (used_up, self.parts.len()) {
            (0, _) => {}
            (1, 1) => {
                self.parts.clear();
                self.frames.clear();
            }
            (all, count) if all == count => {
                self.parts.clear();
                Frame::release_all(self.frames.drain(..));
            }
            _ => {
                self.parts.drain(..used_up);
                Frame::release_all(self.frames.drain(..used_up));
            }
        }
        held
    }
}

/// Returns a function that calls `copy` for each frame of a run, until that copies fewer bytes than there are.
pub(super) fn by_frame<E>(
    mut copy: impl FnMut(&Frame, usize, usize) -> Result<usize, E>,
) -> impl FnMut(&[Frame], usize, usize) -> Result<usize, E> {
    move |frames, mut offset, length| {
        let mut done = 0;
        for frame in frames {
            let wanted = (PAGE_BYTES - offset).min(length - done);
            let moved = match copy(frame, offset, wanted) {
                Err(error) if done == 0 => return Err(error),
                moved => moved.unwrap_or(0).min(wanted),
            };
            done += moved;
            if moved < wanted || done == length {
                break;
            }
            offset = 0;
        }
        Ok(done)
    }
}
