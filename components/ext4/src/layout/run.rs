//! [`Run`]: the unit that either tree maps.

/// Consecutive blocks of a file that are contiguous on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First block on the volume; `None` if the run reads as zeroes (a hole, or never written).
    pub(crate) start: Option<u64>,
    /// Number of blocks, at least one.
    pub(crate) blocks: u64,
}

impl Run {
    /// Makes a run of `blocks` blocks of zeroes, at least one.
    pub(crate) fn hole(blocks: u64) -> Run {
        Run { start: None, blocks: blocks.max(1) }
    }
}
