//! [`Committer`]: the state of commits, which one thread at a time has (`ext4.commit`).
use crate::store::{cache::Chunk, journal::Journal};
use alloc::{collections::BTreeMap, sync::Arc};

/// The committer: the journal, and the changes in it that are not in place yet.
#[derive(Default)]
pub(crate) struct Committer {
    /// The journal, if transactions are logged.
    pub(crate) journal: Option<Journal>,
    /// Newest logged version of each block that is not in place; `None` if the block was freed since.
    pub(crate) waiting: BTreeMap<u64, Option<Logged>>,
    /// The superblock on the device is marked as needing recovery.
    pub(crate) is_marked: bool,
}

/// A block that is in the journal.
pub(crate) struct Logged {
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) offset: usize,
    /// It was also written in place, though perhaps not flushed.
    pub(crate) is_in_place: bool,
}
