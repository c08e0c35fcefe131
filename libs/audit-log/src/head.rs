//! [`LogHead`]: the head of a log.
use crate::{
    BLOCK_BYTES, HEADS,
    bytes::{is_sealed, long, put, seal},
    ring_blocks,
};

const MAGIC: &[u8; 8] = b"SKAUDIT1";

/// The head of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// Number of the log; its blocks have it, those of a log that was there before another one.
    pub id: u64,
    /// Number of the head.
    pub generation: u64,
    /// Length of the ring.
    pub blocks: u64,
    /// Number of the first block that is kept.
    pub first: u64,
    /// Number of the next block, when the head was written. Those from it on have the generation of the head.
    pub end: u64,
    /// Number of the next record then.
    pub record: u64,
}

impl LogHead {
    /// Returns the place of the head on the medium, in blocks.
    pub fn place(&self) -> u64 {
        self.generation % HEADS
    }
    /// Returns the block of the head.
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        put(&mut block, 0, MAGIC);
        let words = [self.id, self.generation, self.blocks, self.first, self.end, self.record];
        for (index, word) in words.iter().enumerate() {
            put(&mut block, 8 + 8 * index, &word.to_le_bytes());
        }
        seal(&mut block);
        block
    }
    /// Reads a head; `None` if the block is none of a medium with so many blocks.
    pub fn decode(block: &[u8; BLOCK_BYTES], medium: u64) -> Option<LogHead> {
        if !block.starts_with(MAGIC) || !is_sealed(block) {
            return None;
        }
        let word = |index: usize| long(block, 8 + 8 * index);
        let head = LogHead {
            id: word(0)?,
            generation: word(1)?,
            blocks: word(2)?,
            first: word(3)?,
            end: word(4)?,
            record: word(5)?,
        };
        // So few that no count overflows.
        let is_small = [head.generation, head.end, head.record].iter().all(|it| *it < 1 << 62);
        let used = head.end.checked_sub(head.first)?;
        (is_small && used <= head.blocks && ring_blocks(medium) == Some(head.blocks))
            .then_some(head)
    }
}

/// Returns the head that holds.
pub fn newer_head(one: Option<LogHead>, other: Option<LogHead>) -> Option<LogHead> {
    one.into_iter().chain(other).max_by_key(|head| head.generation)
}
