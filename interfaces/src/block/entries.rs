//! The rings between a block device's client and its driver, in one region.
//!
//! ```text
//! word     0  ring of requests:    512 entries of 8 words   (client to driver)
//!       4112  ring of completions: 512 entries of 2 words   (driver to client)
//!       5152  end
//!
//! request     0 tag | 1 first sector | 2 sectors of a range | 3 operation, segments here, flags (a byte each)
//!             4 to 7 segments: frame (32 bits), offset (16), length (16)
//! completion  0 tag | 1 result (32 bits), which request of a sequence failed (32)
//! ```
//! A request of more than four segments takes several entries in a row; all but the last have the flag `SEGMENTS`. The
//! entries of a sequence's requests are in a row under one tag. Those of all but the last request have the flag `SEQUEL`.
//! Those of a request that begins when all before it have ended well have the flag `AFTER`. A sequence ends with one
//! completion. There are never more entries on their way than a ring holds, so neither side waits for room.
use super::{BlockError, Operation, Request, SEQUENCE_MAX, Segment, Sequence, SequenceStep};
use alloc::vec::Vec;
use rt::{
    memory::{Frame, FrameId},
    ring::{Corrupt, words_for},
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Number of entries of each ring.
pub(crate) const ENTRIES: usize = 512;
/// Segments that one entry holds.
pub(crate) const ENTRY_SEGMENTS: usize = 4;
/// Most segments of a request.
pub(crate) const SEGMENTS_MAX: usize = 256;
const REQUEST_WORDS: usize = words_for::<RequestEntry>(ENTRIES);
const COMPLETION_WORDS: usize = words_for::<CompletionEntry>(ENTRIES);
/// Flag: more segments of the request follow in the next entry.
pub(crate) const SEGMENTS: u8 = 1;
/// Flag: another request of the sequence follows.
pub(crate) const SEQUEL: u8 = 2;
/// Flag: the request begins when all before it in the sequence have ended well.
pub(crate) const AFTER: u8 = 4;
/// Sizes of the two rings, in words.
pub(crate) const RINGS: [usize; 2] = [REQUEST_WORDS, COMPLETION_WORDS];
const _: () = assert!(REQUEST_WORDS == 4112 && COMPLETION_WORDS == 5152 - 4112);

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct SegmentEntry {
    frame: u32,
    offset: u16,
    length: u16,
}

/// The entry of the request ring: a request, or a part of one.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RequestEntry {
    tag: u64,
    sector: u64,
    sectors: u64,
    operation: u8,
    segment_count: u8,
    flags: u8,
    unused: [u8; 5],
    segments: [SegmentEntry; ENTRY_SEGMENTS],
}
const _: () = assert!(size_of::<RequestEntry>() == 64);

/// The entry of the completion ring that reports the end of a request or a sequence.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct CompletionEntry {
    /// Tag of the request.
    pub tag: u64,
    result: u32,
    /// Index of the failed request in its sequence.
    pub at: u32,
}

/// Returns the number of entries that `request` takes.
pub(crate) fn entries_for(request: &Request) -> usize {
    request.segments.len().div_ceil(ENTRY_SEGMENTS).max(1)
}

/// Returns whether `request` can be encoded in entries.
pub(crate) fn is_encodable(request: &Request) -> bool {
    let fits = |segment: &Segment| {
        u16::try_from(segment.offset).is_ok() && u16::try_from(segment.length).is_ok()
    };
    request.segments.len() <= SEGMENTS_MAX && request.segments.iter().all(fits)
}

/// Encodes the entry of `request` for the segments `said`, under `tag` and with `flags`. An entry holds at most
/// [`ENTRY_SEGMENTS`] segments.
pub(crate) fn encode(request: &Request, (tag, flags): (u64, u8), said: &[Segment]) -> RequestEntry {
    let (operation, sectors) = match request.operation {
        Operation::Read => (0, 0),
        Operation::Write => (1, 0),
        Operation::Flush => (2, 0),
        Operation::Discard { sectors } => (3, sectors),
        Operation::WriteZeroes { sectors } => (4, sectors),
    };
    let mut segments = [SegmentEntry::default(); ENTRY_SEGMENTS];
    for (entry, segment) in segments.iter_mut().zip(said) {
        let (offset, length) = (segment.offset as u16, segment.length as u16);
        *entry = SegmentEntry { frame: segment.frame.id().0, offset, length };
    }
    RequestEntry {
        tag,
        sector: request.sector,
        sectors,
        operation,
        segment_count: said.len() as u8,
        flags,
        unused: [0; 5],
        segments,
    }
}

/// The requests and sequences that came out of the ring.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) batch: Vec<Request>,
    pub(crate) sequences: Vec<Sequence>,
}

/// Assembles requests and sequences from their entries, on the driver's side.
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

impl CompletionEntry {
    /// Makes the entry for the request or sequence of tag `tag`. If it failed, `at` is the index of the failed request in its
    /// sequence.
    pub fn new(tag: u64, at: u32, result: Result<(), BlockError>) -> CompletionEntry {
        let result = match result {
            Ok(()) => 0,
            Err(BlockError::Invalid) => 1,
            Err(BlockError::ReadOnly) => 2,
            Err(BlockError::Device) => 3,
            Err(BlockError::Unsupported) => 4,
            Err(BlockError::Restarted) => 5,
            Err(BlockError::NoMemory) => 6,
        };
        CompletionEntry { tag, result, at }
    }
    /// Returns the result of the request.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn result(&self) -> Result<Result<(), BlockError>, Corrupt> {
        Ok(Err(match self.result {
            0 => return Ok(Ok(())),
            1 => BlockError::Invalid,
            2 => BlockError::ReadOnly,
            3 => BlockError::Device,
            4 => BlockError::Unsupported,
            5 => BlockError::Restarted,
            6 => BlockError::NoMemory,
            _ => return Err(Corrupt),
        }))
    }
}
