//! Assembles requests and sequences from the entries of a ring, on the driver's side.
//!
//! The client lends the frames by their numbers, so there is no assembler in the kernel world, whose components pass each
//! other frames.
use super::{
    Operation, Request, SEQUENCE_MAX, Segment, Sequence, SequenceStep,
    entries::{AFTER, ENTRY_SEGMENTS, RequestEntry, SEGMENTS, SEGMENTS_MAX, SEQUEL, SegmentEntry},
};
use alloc::vec::Vec;
use rt::{
    memory::{Frame, FrameId},
    ring::Corrupt,
};

/// The requests and sequences that came out of the ring.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) batch: Vec<Request>,
    pub(crate) sequences: Vec<Sequence>,
}

/// Requests and sequences of which some entries came.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    partial: Option<Request>,
    sequence: Option<Sequence>,
}

impl Assembler {
    /// Takes one entry. A request or sequence that it completes is added to `gathered`; its frames are lent by number.
    ///
    /// # Errors
    /// [`Corrupt`]: the entry is no part of a request.
    #[inline]
    pub(crate) fn add(
        &mut self,
        entry: &RequestEntry,
        gathered: &mut Gathered,
    ) -> Result<(), Corrupt> {
        let operation = decode_operation(entry).ok_or(Corrupt)?;
        if self.partial.is_some() || self.sequence.is_some() || entry.flags != 0 {
            return self.add_part(entry, operation, gathered);
        }
        let room = Vec::with_capacity(ENTRY_SEGMENTS.min(entry.segment_count.into()));
        let segments = decode_segments(entry, room)?;
        gathered.batch.push(Request { tag: entry.tag, operation, sector: entry.sector, segments });
        Ok(())
    }

    /// Handles an entry in [`Assembler::add`] that is part of a sequence or of a request of several entries.
    fn add_part(
        &mut self,
        entry: &RequestEntry,
        operation: Operation,
        gathered: &mut Gathered,
    ) -> Result<(), Corrupt> {
        let RequestEntry { tag, sector, .. } = *entry;
        let request = match self.partial.take() {
            Some(partial) if partial.tag != tag || partial.operation != operation => {
                return Err(Corrupt);
            }
            Some(partial) => partial,
            None => Request { tag, operation, sector, segments: Vec::new() },
        };
        let segments = decode_segments(entry, request.segments)?;
        let request = Request { segments, ..request };
        if entry.flags & !(SEGMENTS | SEQUEL | AFTER) != 0 {
            return Err(Corrupt);
        }
        if entry.flags & SEGMENTS != 0 {
            if request.segments.len() >= SEGMENTS_MAX {
                return Err(Corrupt);
            }
            self.partial = Some(request);
            return Ok(());
        }
        let (is_after, is_last) = (entry.flags & AFTER != 0, entry.flags & SEQUEL == 0);
        let sequence = match self.sequence.take() {
            None if is_after => return Err(Corrupt),
            None if is_last => {
                gathered.batch.push(request);
                return Ok(());
            }
            None => Sequence { first: request, more: Vec::new() },
            Some(sequence) if sequence.first.tag != tag => return Err(Corrupt),
            Some(mut sequence) => {
                sequence.more.push(SequenceStep { request, is_after });
                sequence
            }
        };
        match (is_last, sequence.more.len() < SEQUENCE_MAX) {
            (_, false) => return Err(Corrupt),
            (true, _) => gathered.sequences.push(sequence),
            (false, _) => self.sequence = Some(sequence),
        }
        Ok(())
    }
}

/// Decodes the segments of `entry`. The request's earlier entries gave the segments `before`.
fn decode_segments(
    entry: &RequestEntry,
    mut before: Vec<Segment>,
) -> Result<Vec<Segment>, Corrupt> {
    let said = entry.segments.get(..usize::from(entry.segment_count)).ok_or(Corrupt)?;
    for SegmentEntry { frame, offset, length } in said {
        let frame = Frame::lent(FrameId(*frame)).ok_or(Corrupt)?;
        let (offset, length) = (u32::from(*offset), u32::from(*length));
        before.push(Segment { frame, offset, length });
    }
    Ok(before)
}

fn decode_operation(entry: &RequestEntry) -> Option<Operation> {
    let sectors = entry.sectors;
    Some(match entry.operation {
        0 => Operation::Read,
        1 => Operation::Write,
        2 => Operation::Flush,
        3 => Operation::Discard { sectors },
        4 => Operation::WriteZeroes { sectors },
        _ => return None,
    })
}
