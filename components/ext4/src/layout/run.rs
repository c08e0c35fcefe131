//! [`Run`]: the unit that either tree maps.

/// Consecutive blocks of a file that lie in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First block on the volume; `None` reads as zeroes (a hole, or never written).
    pub(crate) start: Option<u64>,
    /// Number of blocks, at least one.
    pub(crate) blocks: u64,
}

impl Run {
    /// Zeroes for `blocks` blocks, at least one.
    pub(crate) fn hole(blocks: u64) -> Run {
        Run { start: None, blocks: blocks.max(1) }
    }
}
