//! Extent trees: from the inode's body down at most five levels of blocks.
use crate::{
    layout::{inode::Inode, raw::extent::*, run::Run, volume::Volume},
    store::{
        bytes::{word16, word32},
        cache::BlockRef,
        checksum::crc32c,
    },
};
use interfaces::file_system::FsError;
use zerocopy::FromBytes;

/// End of the logical blocks of a file.
const LOGICAL_END: u64 = 1 << 32;

/// A node whose header was checked.
pub(crate) struct ExtentNode<'a> {
    /// Number of levels below.
    pub(crate) depth: u16,
    /// Its entries.
    pub(crate) entries: &'a [[u8; ENTRY_BYTES]],
}

impl<'a> ExtentNode<'a> {
    /// Checks the header; `depth` is the depth that the parent demands.
    pub(crate) fn decode(bytes: &'a [u8], depth: Option<u16>) -> Result<ExtentNode<'a>, FsError> {
        let (raw, rest) = RawHeader::read_from_prefix(bytes).map_err(|_| FsError::Corrupt)?;
        let (slots, _) = rest.as_chunks::<ENTRY_BYTES>();
        let entries = slots.get(..usize::from(raw.entries.get())).ok_or(FsError::Corrupt)?;
        let is_sound = raw.magic.get() == MAGIC
            && raw.entries.get() <= raw.max.get()
            && usize::from(raw.max.get()) <= slots.len()
            && raw.depth.get() <= DEPTH_MAX
            && depth.is_none_or(|depth| raw.depth.get() == depth);
        if is_sound {
            Ok(ExtentNode { depth: raw.depth.get(), entries })
        } else {
            Err(FsError::Corrupt)
        }
    }

    /// Returns the last entry that begins at or before `logical`, and the start of the next one.
    fn find(&self, logical: u32) -> (Option<&[u8; ENTRY_BYTES]>, Option<u32>) {
        let first = |entry: &[u8; ENTRY_BYTES]| word32(entry, 0).unwrap_or(0);
        let after = self.entries.partition_point(|entry| first(entry) <= logical);
        let found = after.checked_sub(1).and_then(|place| self.entries.get(place));
        (found, self.entries.get(after).map(first))
    }
}

/// Returns the extent or hole that contains block `logical`, from that block on.
pub(crate) fn map(volume: &Volume, inode: &Inode, logical: u32) -> Result<Run, FsError> {
    let (found, end) = find(volume, inode, logical)?;
    let Some(extent) = found.filter(|extent| extent.end() > u64::from(logical)) else {
        return Ok(Run::hole(end.saturating_sub(u64::from(logical))));
    };
    let passed = u64::from(logical - extent.first);
    let blocks = u64::from(extent.count) - passed;
    Ok(Run { start: extent.is_written.then_some(extent.start + passed), blocks })
}

/// An extent, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First block of the file.
    pub(crate) first: u32,
    /// Number of blocks, at least one.
    pub(crate) count: u32,
    /// First block on the volume.
    pub(crate) start: u64,
    /// The blocks hold data; otherwise they read as zeroes.
    pub(crate) is_written: bool,
}

impl Extent {
    /// Decodes a leaf entry.
    pub(crate) fn decode(entry: &[u8; ENTRY_BYTES]) -> Result<Extent, FsError> {
        let raw = RawExtent::read_from_bytes(entry).map_err(|_| FsError::Corrupt)?;
        let (count, is_written) = match raw.length.get() {
            0 => return Err(FsError::Corrupt),
            length if length > WRITTEN_MAX => (length - WRITTEN_MAX, false),
            length => (length, true),
        };
        let start = u64::from(raw.start_low.get()) | u64::from(raw.start_high.get()) << 32;
        let (first, count) = (raw.first.get(), u32::from(count));
        Ok(Extent { first, count, start, is_written })
    }

    /// Returns the block of the file after its last one.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.first) + u64::from(self.count)
    }
}

/// Returns the last extent that begins at or before block `logical`, and the start of the next one.
///
/// # Errors
/// Those of [`map`].
pub(crate) fn find(
    volume: &Volume,
    inode: &Inode,
    logical: u32,
) -> Result<(Option<Extent>, u64), FsError> {
    let mut end = LOGICAL_END;
    let mut block: Option<BlockRef> = None;
    let mut depth = None;
    // Each level is one less deep than the one above, and none deeper than DEPTH_MAX.
    loop {
        let bytes = block.as_ref().map_or(&inode.body[..], BlockRef::bytes);
        let node = ExtentNode::decode(bytes, depth)?;
        let (found, next) = node.find(logical);
        end = next.map_or(end, |next| end.min(u64::from(next)));
        let Some(entry) = found else { return Ok((None, end)) };
        if node.depth == 0 {
            return Ok((Some(Extent::decode(entry)?), end));
        }
        depth = Some(node.depth - 1);
        block = Some(load(volume, inode, child_of(entry)?)?);
    }
}

/// Returns the block that an index entry names.
pub(crate) fn child_of(entry: &[u8; ENTRY_BYTES]) -> Result<u64, FsError> {
    let index = RawIndex::read_from_bytes(entry).map_err(|_| FsError::Corrupt)?;
    Ok(u64::from(index.child_low.get()) | u64::from(index.child_high.get()) << 32)
}

/// Returns a block of the tree, its checksum verified.
pub(crate) fn load(volume: &Volume, inode: &Inode, number: u64) -> Result<BlockRef, FsError> {
    let block = volume.store.block(number)?;
    if volume.geometry.has_checksums() {
        block.verify(|bytes| is_sum_right(inode.seed, bytes))?;
    }
    Ok(block)
}

fn is_sum_right(seed: u32, bytes: &[u8]) -> bool {
    let Some(max) = word16(bytes, 4) else { return false };
    let covered = ENTRY_BYTES * (1 + usize::from(max));
    match (bytes.get(..covered), word32(bytes, covered)) {
        (Some(covered), Some(sum)) => crc32c(seed, covered) == sum,
        _ => false,
    }
}
