//! The medium of the audit writer: a log of blocks in a preallocated partition. Pure; nothing on a medium makes it panic.
//!
//! ```text
//! block 0, 1   two heads, written in turn: the valid one with the greater generation holds      [`LogHead`]
//! block 8..    a ring of blocks: block N of the log is at place N modulo the ring's length     [`LogBlock`]
//! ```
//!
//! A block is a sector, so the medium has all of it or nothing. It has a checksum, and *pieces* of records. Records have numbers without
//! gaps. A *batch* of records begins a block of its own, is written at once and then flushed, and each of its blocks has the number of the
//! first block of the batch: all blocks before that one were flushed before. So a block that is missing behind it was never
//! acknowledged: there the log ends ([`end_of_log`]). A block that is missing before it is damage, and only its records are gone.
//!
//! Each opening of the log first writes a head with the next generation and the end that was found. Blocks behind that end are of the log
//! only with this generation: others are left from a batch that was not finished.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod block;
mod bytes;
mod end;
mod head;
mod join;
mod list;
#[cfg(test)]
mod tests;

pub use block::{BatchPlace, LogBlock, pack};
pub use end::{LogEnd, Sighting, end_of_log, is_new};
pub use head::{LogHead, newer_head};
pub use join::PieceJoiner;
pub use list::{PIECE_HEAD, RecordPiece, pieces};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 512;
/// Blocks that are searched at once; no batch has more. The ring's length is a multiple of it.
pub const WINDOW: u64 = 256;
/// Number of heads.
pub const HEADS: u64 = 2;
/// Place of the ring on the medium, in blocks.
pub const RING: u64 = 8;
/// The longest text of a record, in bytes.
pub const TEXT_MAX: usize = 32 << 10;

/// Returns the blocks of the ring on a medium; `None` if it is too small.
pub fn ring_blocks(medium: u64) -> Option<u64> {
    let blocks = medium.checked_sub(RING)? / WINDOW * WINDOW;
    (blocks >= 2 * WINDOW).then_some(blocks)
}
