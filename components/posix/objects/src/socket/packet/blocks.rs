//! [`BlockRing`]: the blocks of TPACKET_V3, in which frames of any length follow each other.
//!
//! ```text
//! block   0 version 4, offset of the private part 4 | 8 status 4, frames 4, first frame 4, bytes 4 | 24 number 8
//!        32 time of the first frame 4 + 4, of the last 4 + 4 | 48 private part | the frames
//! frame   0 next 4, seconds 4, nanoseconds 4, kept 4, length 4, status 4 | 24 link offset 2, network offset 2 | 28 hash and tag 12
//! ```
//! A block goes to the program when the next frame does not fit, and when the program asks by poll(2) whether there is anything
//! to read. Linux also does it by a timer.
use super::{
    receive::{FrameInfo, status},
    ring::{Placed, RingPages, RingRequest, RingVersion, SlotPlan},
};
use bpf::PacketBytes;

/// Bytes of the header of a block.
const BLOCK_HEADER: usize = 48;
/// Alignment of frames in a block.
const ALIGNMENT: usize = 8;
/// Offset of the status in the header of a block.
const STATUS_AT: usize = 8;
/// `TP_STATUS_BLK_TMO`: the block is not full.
const NOT_FULL: u32 = 1 << 5;
const NS_A_SECOND: u64 = 1_000_000_000;

/// The block that is being filled.
#[derive(Clone, Copy, Default)]
struct OpenBlock {
    /// Offset behind the last frame.
    end: usize,
    frames: u32,
    /// Offset of the last frame.
    last: usize,
    first_ns: u64,
    last_ns: u64,
    is_losing: bool,
}

/// The blocks of a ring.
pub(super) struct BlockRing {
    block_bytes: usize,
    count: usize,
    private_bytes: u32,
    /// The block that is filled now, or will be.
    current: usize,
    open: Option<OpenBlock>,
    number: u64,
    is_frozen: bool,
}

impl BlockRing {
    /// Returns the offset of the first frame of a block.
    pub(super) fn first_frame(private_bytes: u32) -> usize {
        BLOCK_HEADER.saturating_add((private_bytes as usize).next_multiple_of(ALIGNMENT))
    }
    /// Makes the blocks of a request that was checked.
    pub(super) fn new(request: &RingRequest, pages: &RingPages) -> BlockRing {
        let mut ring = BlockRing {
            block_bytes: request.block_bytes as usize,
            count: request.blocks as usize,
            private_bytes: request.private_bytes,
            current: 0,
            open: None,
            number: 0,
            is_frozen: false,
        };
        ring.open(pages);
        ring
    }
    fn start(&self) -> usize {
        self.current.saturating_mul(self.block_bytes)
    }
    /// Opens the current block. Returns whether the program had given it back.
    fn open(&mut self, pages: &RingPages) -> bool {
        let at = self.start();
        if pages.word(at + STATUS_AT) != 0 {
            return false;
        }
        let first = BlockRing::first_frame(self.private_bytes);
        self.number += 1;
        pages.write(at, &(RingVersion::Three as u32).to_le_bytes());
        pages.write(at + 4, &(BLOCK_HEADER as u32).to_le_bytes());
        pages.write(at + 12, &0u32.to_le_bytes());
        pages.write(at + 16, &(first as u32).to_le_bytes());
        pages.write(at + 20, &(first as u32).to_le_bytes());
        pages.write(at + 24, &self.number.to_le_bytes());
        self.open = Some(OpenBlock { end: first, ..OpenBlock::default() });
        true
    }
    /// Gives the open block to the program, with the bits `more` in its status.
    fn close(&mut self, pages: &RingPages, more: u32) {
        let Some(block) = self.open.take() else { return };
        let at = self.start();
        pages.write(at + block.last, &0u32.to_le_bytes());
        pages.write(at + 12, &block.frames.to_le_bytes());
        pages.write(at + 20, &(block.end as u32).to_le_bytes());
        for (place, ns) in [(32, block.first_ns), (40, block.last_ns)] {
            pages.write(at + place, &((ns / NS_A_SECOND) as u32).to_le_bytes());
            pages.write(at + place + 4, &((ns % NS_A_SECOND) as u32).to_le_bytes());
        }
        let losing = if block.is_losing { status::LOSING } else { 0 };
        pages.publish(at + STATUS_AT, status::USER | losing | more);
        self.current = (self.current + 1) % self.count.max(1);
    }
    /// Gives a block that is not full to the program, unless it still has another to read.
    pub(super) fn hand_over(&mut self, pages: &RingPages) {
        let has_frames = self.open.is_some_and(|block| block.frames > 0);
        if has_frames && !self.is_ready(pages) {
            self.close(pages, NOT_FULL);
        }
    }
    /// Returns whether the program has not given the last block back.
    pub(super) fn is_ready(&self, pages: &RingPages) -> bool {
        let last = self.current.checked_sub(1).unwrap_or(self.count.saturating_sub(1));
        // A ring of one block is ready if that one is.
        let is_own = last == self.current && self.open.is_some();
        !is_own && pages.word(last.saturating_mul(self.block_bytes) + STATUS_AT) != 0
    }
    /// Returns whether the block so many quarters of the ring behind the open one is not the program's.
    pub(super) fn is_free(&self, pages: &RingPages, quarters: usize) -> bool {
        let number = (self.current + self.count / 4 * quarters) % self.count.max(1);
        pages.word(number.saturating_mul(self.block_bytes) + STATUS_AT) == 0
    }
    /// Puts a frame into the open block, or the next one.
    pub(super) fn put(
        &mut self,
        pages: &RingPages,
        bytes: &dyn PacketBytes,
        info: &FrameInfo,
        (skip, kept): (usize, usize),
        plan: SlotPlan,
    ) -> Placed {
        let first = BlockRing::first_frame(self.private_bytes);
        let most = self.block_bytes.saturating_sub(first);
        let room = most.saturating_sub(plan.link);
        let copied = kept.min(room);
        let length = (plan.link.min(most) + copied).next_multiple_of(ALIGNMENT);
        if self.open.is_some_and(|block| block.end + length > self.block_bytes && block.frames > 0)
        {
            self.close(pages, 0);
        }
        if self.open.is_none() && !self.open(pages) {
            let is_first = !core::mem::replace(&mut self.is_frozen, true);
            return Placed::Full { is_first };
        }
        self.is_frozen = false;
        let start = self.start();
        let Some(block) = &mut self.open else { return Placed::Full { is_first: false } };
        let at = start + block.end;
        pages.copy(at + plan.link, bytes, (skip, copied));
        let numbers = [
            length as u32,
            (info.at_ns / NS_A_SECOND) as u32,
            (info.at_ns % NS_A_SECOND) as u32,
            copied as u32,
            info.length as u32,
            info.status & !status::LOSING,
            (plan.link as u32) & 0xffff | (plan.network as u32) << 16,
        ];
        for (place, number) in (0..).step_by(4).zip(numbers) {
            pages.write(at + place, &number.to_le_bytes());
        }
        pages.write(at + 28, &[0; 20]);
        pages.write(at + RingVersion::Three.header(), &info.from.to_bytes());
        if block.frames == 0 {
            block.first_ns = info.at_ns;
        }
        block.is_losing |= info.status & status::LOSING != 0;
        (block.last, block.last_ns) = (block.end, info.at_ns);
        block.frames += 1;
        block.end = (block.end + length).min(self.block_bytes);
        if copied < kept { Placed::Cut } else { Placed::Whole }
    }
}
