//! Changes of extent trees.
//!
//! A change is planned first, from the leaves up, and applied then: blocks are allocated while it
//! can still fail, and everything written and freed after that. A node that keeps its first entry
//! and has room is changed in place. Any other (one that splits, or whose first entry changes) gets
//! fresh blocks, and its parent points to them instead: so each change becomes visible with one block
//! written in place, the lowest node that holds all of it, and a crash shows either tree.
//!
//! ```text
//! root [ A B ]            root [ A B1 B2 ]      B1, B2 fresh, B freed
//!      B: full, + entry        written in place
//! ```
use crate::{
    layout::{
        extent::{self, Extent, ExtentNode},
        groups::{Account, blocks},
        inode::Inode,
        raw::{extent::*, inode::BODY_BYTES},
        volume::Volume,
    },
    store::{
        bytes::{put, put16, put32, word32},
        checksum::crc32c,
        class::Class,
        log::{Content, Operation},
    },
};
use alloc::{vec, vec::Vec};
use core::ops::Range;
use interfaces::file_system::FsError;

/// The greatest number of blocks of an extent never written.
const UNWRITTEN_MAX: u32 = WRITTEN_MAX as u32 - 1;
/// The greatest number of entries in the inode.
const ROOT_ENTRIES: usize = (BODY_BYTES - ENTRY_BYTES) / ENTRY_BYTES;

type ExtentBytes = [u8; ENTRY_BYTES];

/// The greatest number of nodes that one change may visit; larger changes are made in steps.
const NODES_MAX: u32 = 1024;

/// The contents of mapped blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// The blocks hold data.
    Written,
    /// The blocks hold nothing yet and read as zeroes.
    Unwritten,
}

/// A change of the extents of one leaf.
pub(crate) type ExtentChange<'c> = dyn FnMut(&mut Vec<Extent>) + 'c;

/// A planned change.
struct Plan<'a> {
    volume: &'a Volume,
    operation: &'a Operation<'a>,
    inode: &'a Inode,
    range: Range<u64>,
    /// The account from which new nodes are claimed.
    account: Account,
    /// Nodes to be written in place.
    writes: Vec<(u64, u16, Vec<ExtentBytes>)>,
    /// Allocated blocks, with the depth and the entries that each will hold.
    fresh: Vec<(u64, u16, Vec<ExtentBytes>)>,
    freed: Vec<u64>,
    /// Number of nodes that may still be visited.
    budget: u32,
}

/// Applies `change` to the extents of every leaf that may hold blocks of `range`; new nodes are claimed
/// from `account`.
///
/// # Errors
/// [`FsError::NoSpace`], [`FsError::FileTooBig`] for a tree too deep, [`FsError::Corrupt`]: nothing was
/// changed then; errors of I/O.
pub(crate) fn edit(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    (range, account): (Range<u64>, Account),
    change: &mut ExtentChange<'_>,
) -> Result<(), FsError> {
    let (writes, fresh, freed) = (Vec::new(), Vec::new(), Vec::new());
    let budget = NODES_MAX;
    let mut plan = Plan { volume, operation, inode, range, account, writes, fresh, freed, budget };
    let root = match plan.root(change) {
        Ok(root) => root,
        Err(error) => {
            for (block, ..) in &plan.fresh {
                blocks::free(volume, operation, (*block, 1), Content::Metadata)?;
            }
            return Err(error);
        }
    };
    let Plan { writes, fresh, freed, .. } = plan;
    let seed = inode.seed;
    for (block, depth, entries) in &fresh {
        blocks::fill(volume, operation, *block, |bytes| write_node(bytes, seed, *depth, entries))?;
    }
    for (block, depth, entries) in &writes {
        let write = |bytes: &mut [u8]| write_node(bytes, seed, *depth, entries);
        volume.store.modify(operation, *block, Class::Other, write)?;
    }
    for block in &freed {
        blocks::free(volume, operation, (*block, 1), Content::Metadata)?;
    }
    inode.add_blocks(&volume.geometry, fresh.len() as i64 - freed.len() as i64);
    if let Some((depth, entries)) = root {
        write_entries(&mut inode.body, depth, ROOT_ENTRIES, &entries);
    }
    Ok(())
}

/// Returns the body of a file without blocks.
pub(crate) fn empty_root() -> [u8; BODY_BYTES] {
    let mut body = [0; BODY_BYTES];
    write_entries(&mut body, 0, ROOT_ENTRIES, &[]);
    body
}

fn write_entries(bytes: &mut [u8], depth: u16, max: usize, entries: &[ExtentBytes]) {
    bytes.fill(0);
    put16(bytes, 0, MAGIC);
    put16(bytes, 2, entries.len() as u16);
    put16(bytes, 4, max as u16);
    put16(bytes, 6, depth);
    put(bytes, ENTRY_BYTES, entries.as_flattened());
}

fn write_node(bytes: &mut [u8], seed: u32, depth: u16, entries: &[ExtentBytes]) {
    let max = node_entries(bytes.len());
    write_entries(bytes, depth, max, entries);
    let covered = ENTRY_BYTES * (1 + max);
    let sum = crc32c(seed, bytes.get(..covered).unwrap_or(&[]));
    put32(bytes, covered, sum);
}

fn node_entries(block_bytes: usize) -> usize {
    (block_bytes - ENTRY_BYTES) / ENTRY_BYTES
}

fn first_of(entry: &ExtentBytes) -> u32 {
    word32(entry, 0).unwrap_or(0)
}

fn index(first: u32, child: u64) -> ExtentBytes {
    let mut entry = [0; ENTRY_BYTES];
    put32(&mut entry, 0, first);
    put32(&mut entry, 4, child as u32);
    put16(&mut entry, 8, (child >> 32) as u16);
    entry
}

fn encode(extent: &Extent) -> ExtentBytes {
    let mut entry = [0; ENTRY_BYTES];
    let unwritten = if extent.is_written { 0 } else { WRITTEN_MAX };
    put32(&mut entry, 0, extent.first);
    put16(&mut entry, 4, (extent.count as u16).wrapping_add(unwritten));
    put16(&mut entry, 6, (extent.start >> 32) as u16);
    put32(&mut entry, 8, extent.start as u32);
    entry
}

impl Plan<'_> {
    /// Returns the new root; `None` if it stays.
    fn root(
        &mut self,
        change: &mut ExtentChange<'_>,
    ) -> Result<Option<(u16, Vec<ExtentBytes>)>, FsError> {
        let node = ExtentNode::decode(&self.inode.body, None)?;
        let (depth, old) = (node.depth, node.entries.to_vec());
        let new = self.change_entries(depth, &old, change)?;
        if new == old {
            return Ok(None);
        }
        if new.is_empty() {
            return Ok(Some((0, new)));
        }
        if new.len() <= ROOT_ENTRIES {
            return Ok(Some((depth, new)));
        }
        if depth >= DEPTH_MAX {
            return Err(FsError::FileTooBig);
        }
        let first = new.first().map_or(0, first_of);
        let child = self.allocate(depth, new)?;
        Ok(Some((depth + 1, vec![index(first, child)])))
    }

    fn allocate(&mut self, depth: u16, entries: Vec<ExtentBytes>) -> Result<u64, FsError> {
        let goal = self.inode.home_block(&self.volume.geometry);
        let (block, _) = blocks::allocate(self.volume, self.operation, (goal, 1), self.account)?;
        self.fresh.push((block, depth, entries));
        Ok(block)
    }

    /// Returns the entries of a node after the change.
    fn change_entries(
        &mut self,
        depth: u16,
        old: &[ExtentBytes],
        change: &mut ExtentChange<'_>,
    ) -> Result<Vec<ExtentBytes>, FsError> {
        if depth == 0 {
            let mut extents = old.iter().map(Extent::decode).collect::<Result<Vec<_>, _>>()?;
            if !is_in_order(&extents) {
                return Err(FsError::Corrupt);
            }
            change(&mut extents);
            merge(&mut extents);
            return Ok(extents.iter().map(encode).collect());
        }
        let mut new = Vec::with_capacity(old.len() + 1);
        for (at, entry) in old.iter().enumerate() {
            let next = old.get(at + 1).map_or(u64::MAX, |next| u64::from(first_of(next)));
            let from = if at == 0 { 0 } else { u64::from(first_of(entry)) };
            if next <= self.range.start || from >= self.range.end {
                new.push(*entry);
            } else {
                let child = extent::child_of(entry)?;
                new.extend(self.child(child, depth - 1, *entry, change)?);
            }
        }
        Ok(new)
    }

    /// Returns the index entries that replace `entry`, which names node `block`.
    fn child(
        &mut self,
        block: u64,
        depth: u16,
        entry: ExtentBytes,
        change: &mut ExtentChange<'_>,
    ) -> Result<Vec<ExtentBytes>, FsError> {
        self.budget = self.budget.checked_sub(1).ok_or(FsError::Corrupt)?;
        let bytes = extent::load(self.volume, self.inode, block)?;
        let old = ExtentNode::decode(bytes.bytes(), Some(depth))?.entries.to_vec();
        let new = self.change_entries(depth, &old, change)?;
        if new == old {
            return Ok(vec![entry]);
        }
        let max = node_entries(self.volume.geometry.block_bytes);
        let keeps_first = new.first().map(first_of) == old.first().map(first_of);
        if keeps_first && new.len() <= max {
            self.writes.push((block, depth, new));
            return Ok(vec![entry]);
        }
        self.freed.push(block);
        let is_append = new.last().map(first_of) > old.last().map(first_of);
        let left = match new.len() {
            length if length <= max => length,
            // A file that grows at its end leaves full nodes behind.
            _ if is_append => max,
            length => length / 2,
        };
        let mut entries = Vec::new();
        let (left, right) = new.split_at_checked(left).ok_or(FsError::Corrupt)?;
        for part in [left, right] {
            if let Some(first) = part.first() {
                entries.push(index(first_of(first), self.allocate(depth, part.to_vec())?));
            }
        }
        Ok(entries)
    }
}

fn is_in_order(extents: &[Extent]) -> bool {
    extents.is_sorted_by(|a, b| a.end() <= u64::from(b.first))
}

/// Joins adjacent extents that are contiguous on the volume.
fn merge(extents: &mut Vec<Extent>) {
    extents.dedup_by(|next, last| {
        let max = if last.is_written { u32::from(WRITTEN_MAX) } else { UNWRITTEN_MAX };
        let is_joined = last.is_written == next.is_written
            && last.end() == u64::from(next.first)
            && last.start + u64::from(last.count) == next.start
            && last.count + next.count <= max;
        if is_joined {
            last.count += next.count;
        }
        is_joined
    });
}

/// Maps blocks that are a hole now; new nodes are claimed from `account`.
///
/// # Errors
/// As [`edit`].
pub(crate) fn insert(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    new: Extent,
    account: Account,
) -> Result<(), FsError> {
    let at = u64::from(new.first);
    let max = if new.is_written { u32::from(WRITTEN_MAX) } else { UNWRITTEN_MAX };
    let mut left = new;
    while left.count > 0 {
        let part = Extent { count: left.count.min(max), ..left };
        edit(volume, operation, inode, (at..at + 1, account), &mut |extents| {
            let place = extents.partition_point(|extent| extent.first < part.first);
            extents.insert(place, part);
        })?;
        left.first += part.count;
        left.start += u64::from(part.count);
        left.count -= part.count;
    }
    Ok(())
}

/// Cuts an extent into the parts before, in and behind a range.
fn cut(extent: &Extent, range: &Range<u64>) -> [Option<Extent>; 3] {
    let (first, end) = (u64::from(extent.first), extent.end());
    let (from, to) = (range.start.clamp(first, end), range.end.clamp(first, end));
    [(first, from), (from, to.max(from)), (to.max(from), end)].map(|(start, end)| {
        let count = (end - start) as u32;
        (count > 0).then(|| Extent {
            first: start as u32,
            count,
            start: extent.start + (start - first),
            is_written: extent.is_written,
        })
    })
}

/// Makes a hole of `range`. Returns the extents that were mapped there, which stay allocated.
///
/// # Errors
/// As [`edit`].
pub(crate) fn remove(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    range: Range<u64>,
) -> Result<Vec<Extent>, FsError> {
    let mut removed = Vec::new();
    edit(volume, operation, inode, (range.clone(), Account::Pool), &mut |extents| {
        let old = core::mem::take(extents);
        for extent in &old {
            let [before, inside, behind] = cut(extent, &range);
            extents.extend([before, behind].into_iter().flatten());
            removed.extend(inside);
        }
    })?;
    Ok(removed)
}

/// Marks the extents mapped in `range` as written or unwritten.
///
/// # Errors
/// As [`edit`].
pub(crate) fn convert(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    range: Range<u64>,
    to: Contents,
) -> Result<(), FsError> {
    let is_written = to == Contents::Written;
    edit(volume, operation, inode, (range.clone(), Account::Pool), &mut |extents| {
        let old = core::mem::take(extents);
        for extent in &old {
            let [before, inside, behind] = cut(extent, &range);
            let inside = inside.map(|inside| Extent { is_written, ..inside });
            // A run of the greatest length of a written extent is one block too long for an unwritten
            // one.
            let halves = inside.map(|whole| halve(&whole));
            let inside = halves.into_iter().flatten().flatten();
            extents.extend(before.into_iter().chain(inside).chain(behind));
        }
    })
}

/// Returns an extent in one piece, or in two if it is too long to be marked as unwritten.
fn halve(extent: &Extent) -> [Option<Extent>; 2] {
    if extent.is_written || extent.count <= UNWRITTEN_MAX {
        return [Some(*extent), None];
    }
    let middle = u64::from(extent.first) + u64::from(extent.count / 2);
    let [_, left, right] = cut(extent, &(u64::from(extent.first)..middle));
    [left, right]
}
