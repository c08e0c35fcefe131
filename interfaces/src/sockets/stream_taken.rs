//! [`TakenPieces`]: the first bytes of a stream, which its reader has taken from the queue.
use super::stream_pieces::{Queue, StreamPiece};
use crate::nic::PacketSegment;
use alloc::vec::Vec;
use rt::{PAGE_BYTES, memory::Frame, sync::Mutex};

/// Bytes in frames that follow each other without a gap: those from `start`, in the first frame, to `end`, both counted from the
/// begin of the first frame.
struct TakenRun {
    start: usize,
    end: usize,
    /// The bytes of memory that were held in the queue for the last frame. For each other it was a page.
    last_held: usize,
}

impl TakenRun {
    fn bytes(&self) -> usize {
        self.end - self.start
    }
    fn frames(&self) -> usize {
        self.end.div_ceil(PAGE_BYTES)
    }
}

/// The first bytes to read, which are not in the queue any more: no other thread needs them. They remain when they were only peeked
/// at, or could not be copied.
#[derive(Default)]
pub(super) struct TakenPieces {
    /// The frames of all runs.
    frames: Vec<Frame>,
    runs: Vec<TakenRun>,
    bytes: usize,
}

impl TakenPieces {
    /// Moves pieces from `queue` until there are `wanted` bytes here, as far as there are pieces.
    pub(super) fn fill(&mut self, wanted: usize, queue: &Mutex<Queue>) {
        if self.bytes >= wanted {
            return;
        }
        let pieces = &mut queue.lock().pieces;
        while self.bytes < wanted
            && let Some(StreamPiece { segment, .. }) = pieces.pop_front()
        {
            let next = pieces.front().map(|next| next.segment.frame.id());
            let is_last = next != Some(segment.frame.id());
            self.add_part(&segment, if is_last { PAGE_BYTES } else { 0 });
            self.frames.push(segment.frame);
        }
    }
    #[inline]
    fn add_part(&mut self, segment: &PacketSegment, held: usize) {
        let (start, length) = (segment.offset as usize, segment.length as usize);
        self.bytes += length;
        match self.runs.last_mut() {
            Some(run)
                if start == 0
                    && run.end.is_multiple_of(PAGE_BYTES)
                    && run.last_held == PAGE_BYTES =>
            {
                run.end += length;
                run.last_held = held;
            }
            _ => self.runs.push(TakenRun { start, end: start + length, last_held: held }),
        }
    }
    /// Calls `copy(frames, offset, length)` for at most `most` bytes from `skip` on, with as many frames at once as follow each
    /// other without a gap. Returns the number of bytes copied.
    pub(super) fn copy<E>(
        &self,
        (mut skip, most): (usize, usize),
        mut copy: impl FnMut(&[Frame], usize, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let (mut first, mut done) = (0, 0);
        for run in &self.runs {
            if done >= most {
                break;
            }
            let (bytes, behind) = (run.bytes(), first + run.frames());
            if skip >= bytes {
                skip -= bytes;
                first = behind;
                continue;
            }
            let wanted = (bytes - skip).min(most - done);
            let at = run.start + skip;
            let frames = self.frames.get(first + at / PAGE_BYTES..behind).unwrap_or_default();
            let moved = match copy(frames, at % PAGE_BYTES, wanted) {
                Err(error) if done == 0 => return Err(error),
                moved => moved.unwrap_or(0).min(wanted),
            };
            done += moved;
            if moved < wanted {
                break;
            }
            (skip, first) = (0, behind);
        }
        Ok(done)
    }
    /// Drops the first `count` bytes. Returns the bytes of memory that were held for them.
    pub(super) fn pass(&mut self, count: usize) -> usize {
        let (mut left, mut runs, mut frames, mut held) = (count, 0, 0, 0);
        for run in &mut self.runs {
            if left < run.bytes() {
                let at = run.start + left;
                let whole = at / PAGE_BYTES;
                (run.start, run.end) = (at % PAGE_BYTES, run.end - whole * PAGE_BYTES);
                frames += whole;
                held += whole * PAGE_BYTES;
                left = 0;
                break;
            }
            left -= run.bytes();
            runs += 1;
            frames += run.frames();
            held += (run.frames() - 1) * PAGE_BYTES + run.last_held;
        }
        self.bytes -= count - left;
        if runs == self.runs.len() {
            self.runs.clear();
        } else {
            self.runs.drain(..runs);
        }
        match (frames, self.frames.len()) {
            (0, _) => {}
            (1, 1) => self.frames.clear(),
            (all, _) => Frame::release_all(self.frames.drain(..all)),
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
