//! [`Queue`]: the parts of frames that hold bytes of a stream in one direction.
use crate::nic::PacketSegment;
use alloc::{collections::VecDeque, vec::Vec};
use rt::{
    PAGE_BYTES,
    memory::{Frame, FrameId},
};

/// A part of a frame, and its place in the stream.
pub(super) struct StreamPiece {
    pub(super) start: u64,
    pub(super) segment: PacketSegment,
}

impl StreamPiece {
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.segment.length)
    }
    /// Returns the `length` bytes from `skip` on.
    pub(super) fn part(&self, skip: u32, length: u32) -> PacketSegment {
        let PacketSegment { frame, offset, .. } = &self.segment;
        PacketSegment { frame: frame.clone(), offset: offset + skip, length }
    }
}

/// Pieces in order, of which each begins where the one before it ends.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) pieces: VecDeque<StreamPiece>,
}

impl Queue {
    /// Makes the last piece longer, if these bytes continue it in the same frame. Returns whether it did.
    fn extend(&mut self, frame: FrameId, offset: u32, length: u32) -> bool {
        match self.pieces.back_mut().map(|last| &mut last.segment) {
            Some(last) if last.frame.id() == frame && last.offset + last.length == offset => {
                last.length += length;
                true
            }
            _ => false,
        }
    }
    /// Adds a piece, or makes the last one longer. Returns the bytes of memory that are held for it: none if it is in the frame
    /// of the last one.
    pub(super) fn push(&mut self, start: u64, segment: PacketSegment) -> usize {
        if self.extend(segment.frame.id(), segment.offset, segment.length) {
            return 0;
        }
        let last = self.pieces.back().map(|last| last.segment.frame.id());
        let cost = if last == Some(segment.frame.id()) { 0 } else { PAGE_BYTES };
        self.pieces.push_back(StreamPiece { start, segment });
        cost
    }
    /// Adds a part at `place`, which is behind it then. One without bytes is left out.
    #[inline]
    pub(super) fn push_behind(&mut self, place: &mut u64, segment: PacketSegment) {
        if segment.length > 0 {
            let (start, length) = (*place, u64::from(segment.length));
            if segment.offset == 0 {
                // The first byte of a frame continues no piece.
                self.pieces.push_back(StreamPiece { start, segment });
            } else {
                self.push(start, segment);
            }
            *place += length;
        }
    }
    /// Adds whole frames, which no piece before has. Returns the place behind them.
    pub(super) fn push_frames(
        &mut self,
        mut start: u64,
        frames: impl Iterator<Item = Frame>,
    ) -> u64 {
        self.pieces.extend(frames.map(|frame| {
            let piece = StreamPiece {
                start,
                segment: PacketSegment { frame, offset: 0, length: PAGE_BYTES as u32 },
            };
            start += PAGE_BYTES as u64;
            piece
        }));
        start
    }
    /// Adds the first pieces of `other`, those that end at `to` or before. Their places go on here. Returns the bytes of memory that
    /// are held for them here, and the place behind them.
    fn take_before(&mut self, other: &mut Queue, to: u64) -> (usize, Option<u64>) {
        let mut before = self.pieces.back().map(|last| last.segment.frame.id());
        let (mut count, mut frames, mut end) = (0, 0, None);
        for piece in other.pieces.iter().take_while(|piece| piece.end() <= to) {
            let frame = Some(piece.segment.frame.id());
            frames += usize::from(frame != before);
            (before, end) = (frame, Some(piece.end()));
            count += 1;
        }
        if count == other.pieces.len() {
            self.pieces.append(&mut other.pieces);
        } else {
            self.pieces.extend(other.pieces.drain(..count));
        }
        (frames * PAGE_BYTES, end)
    }
    /// Drops the pieces that end at `to` or before.
    pub(super) fn drop_before(&mut self, to: u64) {
        match self.pieces.iter().take_while(|piece| piece.end() <= to).count() {
            0 => {}
            1 => _ = self.pieces.pop_front(),
            count => {
                Frame::release_all(self.pieces.drain(..count).map(|piece| piece.segment.frame));
            }
        }
    }
    /// Adds a part of a frame that the caller keeps, and counts a reference only if there must be another piece.
    pub(super) fn push_part(&mut self, start: u64, frame: &Frame, offset: u32, length: u32) {
        if !self.extend(frame.id(), offset, length) {
            self.push(start, PacketSegment { frame: frame.clone(), offset, length });
        }
    }
}

/// Moves the `length` bytes of `from` that have the place `at` and those behind it, the first that are needed there, to the end of
/// `to`, where they begin at the place `start`. Returns the bytes of memory that are held for them there.
#[inline]
pub(super) fn move_pieces(
    from: &mut Queue,
    to: &mut Queue,
    (at, start): (u64, u64),
    length: u64,
) -> usize {
    if at == start && from.pieces.len() > 1 {
        return move_several(from, to, at, length);
    }
    move_parts(from, to, (at, start), length)
}

/// Does the same for bytes that keep their place. Whole pieces between the first and the last are moved as they are.
#[inline(never)]
fn move_several(from: &mut Queue, to: &mut Queue, at: u64, length: u64) -> usize {
    let end = at + length;
    // A part of the first piece may be acknowledged, and it may continue the last one there.
    let behind_first = from.pieces.front().map_or(end, |first| first.end().clamp(at, end));
    let first_held = move_parts(from, to, (at, at), behind_first - at);
    let (held, behind) = to.take_before(from, end);
    let rest = behind.unwrap_or(behind_first);
    first_held + held + move_parts(from, to, (rest, rest), end - rest)
}

/// Does the same as [`move_pieces`], piece by piece.
#[inline(always)]
fn move_parts(
    from: &mut Queue,
    to: &mut Queue,
    (mut at, mut start): (u64, u64),
    length: u64,
) -> usize {
    let (mut left, mut held) = (length, 0);
    while left > 0
        && let Some(first) = from.pieces.front_mut()
    {
        // Acknowledged bytes stay in a piece that grew behind them.
        let skip = at.saturating_sub(first.start) as u32;
        let rest = first.segment.length.saturating_sub(skip);
        let count = left.min(rest.into());
        let segment = if count == u64::from(rest) {
            let Some(StreamPiece { mut segment, .. }) = from.pieces.pop_front() else { break };
            segment.offset += skip;
            segment.length = rest;
            segment
        } else {
            // So do bytes behind the wanted ones.
            let part = first.part(skip, count as u32);
            first.start += u64::from(skip) + count;
            first.segment.offset += skip + count as u32;
            first.segment.length -= skip + count as u32;
            part
        };
        held += to.push(start, segment);
        (at, start, left) = (at + count, start + count, left - count);
    }
    held
}

/// Appends to `out` the parts of `queue` that hold the `length` bytes from `from` on. Returns the number of bytes that there are.
pub(super) fn collect(
    queue: &Queue,
    from: u64,
    length: usize,
    out: &mut Vec<PacketSegment>,
) -> usize {
    // Mostly the bytes are the last that were written, and in one piece.
    if let Some(last) = queue.pieces.back()
        && last.start <= from
    {
        let count = length.min(last.end().saturating_sub(from) as usize);
        if count > 0 {
            out.push(last.part((from - last.start) as u32, count as u32));
        }
        return count;
    }
    let first = queue.pieces.partition_point(|piece| piece.end() <= from);
    let mut done = 0;
    for piece in queue.pieces.range(first..) {
        let at = from + done as u64;
        if done >= length || piece.start > at {
            break;
        }
        let skip = (at - piece.start) as u32;
        let count = ((piece.segment.length - skip) as usize).min(length - done);
        out.push(piece.part(skip, count as u32));
        done += count;
    }
    done
}
