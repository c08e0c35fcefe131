//! Extent trees: from the inode's body down at most five levels of blocks.
use crate::{
    cache::BlockRef,
    checksum::crc32c,
    inode::Inode,
    layout::{extent::*, word32},
    map::Run,
    volume::Volume,
};
use interfaces::file_system::FsError;
use zerocopy::FromBytes;

/// One past the last logical block.
const LOGICAL_END: u64 = 1 << 32;

/// A node, its header checked.
struct Node<'a> {
    depth: u16,
    entries: &'a [[u8; ENTRY_BYTES]],
}

impl<'a> Node<'a> {
    /// Checks the header; `depth` is what the parent demands.
    fn decode(bytes: &'a [u8], depth: Option<u16>) -> Result<Node<'a>, FsError> {
        let (raw, rest) = RawHeader::read_from_prefix(bytes).map_err(|_| FsError::Corrupt)?;
        let (slots, _) = rest.as_chunks::<ENTRY_BYTES>();
        let entries = slots.get(..usize::from(raw.entries.get())).ok_or(FsError::Corrupt)?;
        let is_sound = raw.magic.get() == MAGIC
            && raw.entries.get() <= raw.max.get()
            && usize::from(raw.max.get()) <= slots.len()
            && raw.depth.get() <= DEPTH_MAX
            && depth.is_none_or(|depth| raw.depth.get() == depth);
        if is_sound { Ok(Node { depth: raw.depth.get(), entries }) } else { Err(FsError::Corrupt) }
    }

    /// The last entry that begins at or before `logical`, and where the next begins.
    fn find(&self, logical: u32) -> (Option<&[u8; ENTRY_BYTES]>, Option<u32>) {
        let first = |entry: &[u8; ENTRY_BYTES]| word32(entry, 0).unwrap_or(0);
        let after = self.entries.partition_point(|entry| first(entry) <= logical);
        let found = after.checked_sub(1).and_then(|place| self.entries.get(place));
        (found, self.entries.get(after).map(first))
    }
}

/// The extent or hole that holds block `logical`, from there on.
pub(crate) fn map(volume: &Volume, inode: &Inode, logical: u32) -> Result<Run, FsError> {
    let mut end = LOGICAL_END;
    let mut block: Option<BlockRef> = None;
    let mut depth = None;
    // Each level is one less deep than the one above, and none deeper than DEPTH_MAX.
    loop {
        let bytes = block.as_ref().map_or(&inode.body[..], BlockRef::bytes);
        let node = Node::decode(bytes, depth)?;
        let (found, next) = node.find(logical);
        end = next.map_or(end, |next| end.min(u64::from(next)));
        let hole = Run::hole(end.saturating_sub(u64::from(logical)));
        let Some(entry) = found else { return Ok(hole) };
        if node.depth == 0 {
            return Ok(run_in(entry, logical)?.unwrap_or(hole));
        }
        depth = Some(node.depth - 1);
        let index = RawIndex::read_from_bytes(entry).map_err(|_| FsError::Corrupt)?;
        let child = u64::from(index.child_low.get()) | u64::from(index.child_high.get()) << 32;
        block = Some(load(volume, inode, child)?);
    }
}

/// The part of a leaf entry from `logical` on, if it reaches that far.
fn run_in(entry: &[u8; ENTRY_BYTES], logical: u32) -> Result<Option<Run>, FsError> {
    let raw = RawExtent::read_from_bytes(entry).map_err(|_| FsError::Corrupt)?;
    let (length, is_written) = match raw.length.get() {
        0 => return Err(FsError::Corrupt),
        length if length > WRITTEN_MAX => (length - WRITTEN_MAX, false),
        length => (length, true),
    };
    let passed = u64::from(logical.saturating_sub(raw.first.get()));
    if passed >= u64::from(length) {
        return Ok(None);
    }
    let start = u64::from(raw.start_low.get()) | u64::from(raw.start_high.get()) << 32;
    let blocks = u64::from(length) - passed;
    Ok(Some(Run { start: is_written.then_some(start + passed), blocks }))
}

/// A block of the tree, its checksum verified.
fn load(volume: &Volume, inode: &Inode, number: u64) -> Result<BlockRef, FsError> {
    let block = volume.block(number)?;
    if volume.geometry.has_checksums() {
        block.verify(|bytes| is_sum_right(inode.seed, bytes))?;
    }
    Ok(block)
}

fn is_sum_right(seed: u32, bytes: &[u8]) -> bool {
    let Some(max) = crate::layout::word16(bytes, 4) else { return false };
    let covered = ENTRY_BYTES * (1 + usize::from(max));
    match (bytes.get(..covered), word32(bytes, covered)) {
        (Some(covered), Some(sum)) => crc32c(seed, covered) == sum,
        _ => false,
    }
}
