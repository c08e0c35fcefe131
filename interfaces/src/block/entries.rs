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
use super::{BlockError, Operation, Request, Segment};
use rt::ring::{Corrupt, words_for};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Number of entries of each ring.
pub(crate) const ENTRIES: usize = 512;
/// Segments that one entry holds.
pub(crate) const ENTRY_SEGMENTS: usize = 4;
/// The greatest number of segments of a request.
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

/// A segment in an entry.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct SegmentEntry {
    pub(super) frame: u32,
    pub(super) offset: u16,
    pub(super) length: u16,
}

/// The entry of the request ring: a request, or a part of one.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RequestEntry {
    pub(super) tag: u64,
    pub(super) sector: u64,
    pub(super) sectors: u64,
    pub(super) operation: u8,
    pub(super) segment_count: u8,
    pub(super) flags: u8,
    unused: [u8; 5],
    pub(super) segments: [SegmentEntry; ENTRY_SEGMENTS],
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
        *entry = SegmentEntry { frame: segment.frame.partner_id().0, offset, length };
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

impl CompletionEntry {
    /// Makes the entry for the request or sequence of tag `tag`. If it failed, `at` is the index of the failed request in its
    /// sequence.
    #[cfg(any(not(target_os = "none"), skerry_process))]
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
