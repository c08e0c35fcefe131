//! [`end_of_log`]: where a log ends, by what is seen of its last blocks.
use crate::{LogBlock, LogHead, block::BatchPlace};

/// A block that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Number of the block.
    pub number: u64,
    /// The batch that it is of.
    pub batch: BatchPlace,
    /// The last record that ends in it.
    pub ends: Option<u64>,
}

impl Sighting {
    /// Returns what is seen of a block.
    pub fn of(block: &LogBlock<'_>) -> Sighting {
        Sighting { number: block.number, batch: block.batch, ends: block.last_end() }
    }
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Number of the next block.
    pub block: u64,
    /// Number of the next record.
    pub record: u64,
}

/// Returns whether a block is of the log and was written after its head. Others behind the end that the head tells are left from a
/// batch that was not finished.
pub fn is_new(head: &LogHead, block: &LogBlock<'_>) -> bool {
    block.number >= head.end && block.batch.generation == head.generation
}

/// Returns the end of a log. `seen` are the new blocks ([`is_new`]) of its last two windows, by their numbers.
pub fn end_of_log(head: &LogHead, seen: &[Sighting]) -> LogEnd {
    let Some(last) = seen.last() else {
        return LogEnd { block: head.end, record: head.record };
    };
    let mut end = LogEnd { block: last.batch.block.max(head.end), record: last.batch.record };
    for it in seen.iter().skip_while(|it| it.number < last.batch.block) {
        if it.number != end.block {
            break;
        }
        end.block = it.number + 1;
        end.record = it.ends.map_or(end.record, |number| number + 1);
    }
    end
}
