//! [`Opening`]: finds the end of the log on a medium.
//!
//! From the end that the head tells on, the ring is searched by halving, a window of blocks at a time: the log goes to the last window
//! with a new block. So some blocks that are damaged do not end the search too early. The end is in that window, or where a batch began
//! that reaches into it.
use crate::machine::blocks_of;
use alloc::vec::Vec;
use audit_log::{
    BLOCK_BYTES, HEADS, LogBlock, LogEnd, LogHead, RING, Sighting, WINDOW, end_of_log, is_new,
    newer_head,
};
use interfaces::audit_log::{BlockRun, LogMemory};

/// A result of opening, or a step on the way to it.
pub(crate) enum OpenStep {
    /// Blocks are to be read into the memory.
    Read(BlockRun),
    /// The medium begins with zeroes, also where file systems have their heads.
    Blank,
    /// The medium holds something else.
    Foreign,
    /// A log.
    Found(LogHead, LogEnd),
}

enum Stage {
    Begin,
    Heads,
    /// Windows from `low` on are searched, and that before `high` is the last with a block; the one in between is being read.
    Search {
        low: u64,
        high: u64,
        middle: u64,
    },
    /// The window before this one, which is the last, is being read.
    Before(u64),
    /// The last window is being read.
    Last(u64),
}

/// The search for the end of a log.
pub(crate) struct Opening {
    medium: u64,
    stage: Stage,
    head: Option<LogHead>,
    seen: Vec<Sighting>,
}

impl Opening {
    pub(crate) fn new(medium: u64) -> Opening {
        Opening { medium, stage: Stage::Begin, head: None, seen: Vec::new() }
    }

    /// Goes on after the last read.
    pub(crate) fn next(&mut self, memory: &LogMemory) -> OpenStep {
        match self.stage {
            Stage::Begin => {
                self.stage = Stage::Heads;
                OpenStep::Read(BlockRun { first: 0, count: WINDOW, place: 0 })
            }
            Stage::Heads => self.look_at_heads(&blocks_of(memory, WINDOW)),
            Stage::Search { low, high, middle } => match self.look(memory, middle).is_empty() {
                true => self.search(low, middle),
                false => self.search(middle + 1, high),
            },
            Stage::Before(last) => {
                self.seen = self.look(memory, last - 1);
                self.read(last, Stage::Last(last))
            }
            Stage::Last(last) => {
                let found = self.look(memory, last);
                self.seen.extend(found);
                self.found()
            }
        }
    }

    fn found(&self) -> OpenStep {
        self.head
            .map_or(OpenStep::Foreign, |head| OpenStep::Found(head, end_of_log(&head, &self.seen)))
    }

    fn look_at_heads(&mut self, blocks: &[[u8; BLOCK_BYTES]]) -> OpenStep {
        let heads = blocks.iter().take(HEADS as usize);
        let mut heads = heads.map(|block| LogHead::decode(block, self.medium));
        self.head = newer_head(heads.next().flatten(), heads.next().flatten());
        match self.head {
            // The last window may have the ring's place of the first one.
            Some(head) => self.search(head.end / WINDOW, (head.first + head.blocks) / WINDOW + 1),
            None if blocks.iter().flatten().all(|byte| *byte == 0) => OpenStep::Blank,
            None => OpenStep::Foreign,
        }
    }

    /// Searches the first window without a block. Then reads the one or two before it.
    fn search(&mut self, low: u64, high: u64) -> OpenStep {
        if low < high {
            let middle = low + (high - low) / 2;
            return self.read(middle, Stage::Search { low, high, middle });
        }
        let first = self.head.map_or(0, |head| head.end) / WINDOW;
        match low.checked_sub(1) {
            Some(last) if last > first => self.read(last - 1, Stage::Before(last)),
            Some(last) if last == first => self.read(last, Stage::Last(last)),
            _ => self.found(),
        }
    }

    fn read(&mut self, window: u64, stage: Stage) -> OpenStep {
        self.stage = stage;
        let blocks = self.head.map_or(WINDOW, |head| head.blocks);
        let first = RING + window * WINDOW % blocks.max(WINDOW);
        OpenStep::Read(BlockRun { first, count: WINDOW, place: 0 })
    }

    /// Returns what is seen of the blocks of a window.
    fn look(&self, memory: &LogMemory, window: u64) -> Vec<Sighting> {
        let Some(head) = self.head else { return Vec::new() };
        let numbers = window * WINDOW..(window + 1) * WINDOW;
        let blocks = blocks_of(memory, WINDOW);
        let found = blocks.iter().filter_map(|block| LogBlock::decode(block, head.id));
        let own = found.filter(|it| is_new(&head, it) && numbers.contains(&it.number));
        own.map(|block| Sighting::of(&block)).collect()
    }
}
