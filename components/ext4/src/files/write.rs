//! Writing pages of files to the device.
//!
//! Blocks are allocated when the pages come (delayed allocation): one allocation for each run of pages without blocks,
//! after the file's last ones. The blocks are mapped in the running transaction, which becomes durable only after the data
//! is on the device. Blocks whose data the device refuses are first marked as unwritten. So no crash exposes the old
//! contents of a block.
//!
//! ```text
//! pages --> runs: mapped | never written: converted | hole: allocated, mapped
//!       --> one request a run over the caller's frames, one batch
//! ```
use crate::{
    files::{file_size, inline_edit},
    layout::{
        extent::{self, Extent},
        extent_edit::{self, Contents},
        groups::{Account, blocks},
        inode::Inode,
        inode_store::Before,
        inode_table::LiveInode,
        raw::inode::FLAG_INLINE_DATA,
        volume::Volume,
    },
    store::{
        along::{self, Along},
        batch::Batch,
        log::{Content, Operation},
        transfer::{Client, PageTransfer, Writing},
    },
    transactions::{mount::Mount, operate::METADATA_BLOCKS},
};
use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;
use interfaces::{
    block::{BlockSink, Operation as BlockOperation},
    file_system::FsError,
};
use rt::{PAGE_BYTES, memory::Frame};

const PAGE: u64 = PAGE_BYTES as u64;
/// The greatest number of commits that a write waits for while others take the blocks that these free.
const RESERVE_TRIES: usize = 3;

/// The storage of a file at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// A hole.
    Hole,
    /// Blocks that were never written, from this one on.
    Unwritten(u64),
    /// Blocks with data, from this one on.
    Written(u64),
}

/// Returns the storage of a file at block `logical`, and the number of blocks with that storage.
///
/// # Errors
/// Those of [`extent::find`].
pub(crate) fn mapping(
    volume: &Volume,
    inode: &Inode,
    logical: u64,
    max: u64,
) -> Result<(Mapping, u64), FsError> {
    let at = u32::try_from(logical).map_err(|_| FsError::FileTooBig)?;
    let (found, next) = extent::find(volume, inode, at)?;
    let Some(found) = found.filter(|found| found.end() > logical) else {
        return Ok((Mapping::Hole, next.saturating_sub(logical).clamp(1, max)));
    };
    let start = found.start + (logical - u64::from(found.first));
    let blocks = (found.end() - logical).min(max);
    if !volume.geometry.holds(start, blocks) {
        return Err(FsError::Corrupt);
    }
    let mapping =
        if found.is_written { Mapping::Written(start) } else { Mapping::Unwritten(start) };
    Ok((mapping, blocks))
}

/// Starts writing pages from `client.first` on.
pub(crate) fn write_pages(
    mount: &Mount,
    node: &LiveInode,
    frames: Vec<Frame>,
    size_bytes: u64,
    client: Client,
) {
    let mut done = 0;
    while let Some(rest) = frames.get(done..).filter(|rest| !rest.is_empty()) {
        let first = client.first.saturating_add(done as u64);
        let client = Client { first, ..client.clone() };
        done += write_some(mount, node, rest, size_bytes, client, Start::AtOnce).0;
    }
}

/// Keeps the writes of pages for the commit that follows, or starts them. Returns whether they are kept.
pub(crate) fn write_along(
    mount: &Mount,
    node: &LiveInode,
    frames: Vec<Frame>,
    size_bytes: u64,
    client: Client,
) -> bool {
    let volume = &mount.volume;
    let is_short = frames.len() <= along::PAGES_MAX && volume.store.log.has_journal();
    let start = match is_short {
        true => Start::Along,
        false => Start::AtOnce,
    };
    let (done, is_kept) = write_some(mount, node, &frames, size_bytes, client.clone(), start);
    if let Some(rest) = frames.get(done..).filter(|rest| !rest.is_empty()) {
        let first = client.first.saturating_add(done as u64);
        write_pages(mount, node, rest.to_vec(), size_bytes, Client { first, ..client });
    }
    is_kept
}

/// The time at which writes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    AtOnce,
    /// With the commit that follows, if there are few requests, and some for each page.
    Along,
}

/// Starts writing the first of some pages. Returns their number, and whether they are all and kept. The rest waits for a
/// commit.
fn write_some(
    mount: &Mount,
    node: &LiveInode,
    frames: &[Frame],
    size_bytes: u64,
    client: Client,
    start: Start,
) -> (usize, bool) {
    let volume = &mount.volume;
    let mut batch = Batch::new(BlockOperation::Write, frames, volume.store.device.max_segments());
    let planned = mount.operate_with((0, Account::Delayed), |operation| {
        let mut inode = node.write();
        file_size::check_regular(&inode)?;
        if inode.has_flag(FLAG_INLINE_DATA) {
            move_out(volume, operation, node, &mut inode)?;
        }
        let place = (client.first, size_bytes);
        let (has_changed, mapped) = plan(volume, operation, (node, &mut inode), place, &mut batch);
        if has_changed {
            node.note(operation);
            inode.store(volume, operation, Before::Itself)?;
        }
        let Batch { pages, requests, touched, .. } = &mut batch;
        let count = pages.len();
        let is_kept = start == Start::Along
            && count == frames.len()
            && requests.len() <= along::REQUESTS_MAX
            && pages.iter().all(|page| page.requests > 0);
        let (transaction, inode) = (operation.id(), node.number);
        let writing = Writing {
            log: Arc::clone(&volume.store.log),
            area: volume.store.area,
            transaction,
            inode,
            mapped,
        };
        let (pages, touched) = (core::mem::take(pages), core::mem::take(touched));
        let transfer = PageTransfer::new(client.clone(), None, touched, pages).writing(writing);
        let (transfer, requests) = (Arc::new(transfer), core::mem::take(requests));
        let to_submit = if is_kept {
            volume.store.kept.keep(operation, Along { transaction, requests, transfer });
            node.note_kept(operation);
            None
        } else {
            operation.begin_data(requests.len());
            Some((transfer, requests))
        };
        Ok((count, to_submit))
    });
    let (count, to_submit) = match planned {
        Ok(planned) => planned,
        Err(error) => {
            client.tell(0..frames.len(), Err(error));
            return (frames.len(), false);
        }
    };
    if let Ok(groups) = volume.groups() {
        node.undelay(groups, client.first, count as u64, blocks_a_page(volume));
    }
    let Some((transfer, requests)) = to_submit else { return (count, true) };
    transfer.tell_idle();
    if !requests.is_empty() {
        let sink: Arc<dyn BlockSink> = transfer;
        volume.store.device.submit(requests, &sink);
    }
    (count, false)
}

fn blocks_a_page(volume: &Volume) -> u64 {
    PAGE / volume.geometry.block_bytes as u64
}

/// Moves inline data out of the inode. The block for it is a reserved one, if the first page is delayed.
fn move_out(
    volume: &Volume,
    operation: &Operation<'_>,
    node: &LiveInode,
    inode: &mut Inode,
) -> Result<(), FsError> {
    if !node.delayed_from(0).0 {
        return inline_edit::move_out(volume, operation, inode, Account::Pool);
    }
    let before = inode.attributes.blocks;
    inline_edit::move_out(volume, operation, inode, Account::Delayed)?;
    let taken = u64::from(inode.attributes.blocks > before);
    // The reservation of all blocks of the page ends when it is written.
    volume.groups()?.unreserve(0, taken);
    Ok(())
}

/// Finds or makes a place for each block of the pages from the first, up to the file's length. Returns whether the inode
/// changed, and the blocks that held no data before. Pages behind the first for which nodes of the extent tree may be
/// missing before a commit are cut off the batch.
fn plan(
    volume: &Volume,
    operation: &Operation<'_>,
    (node, inode): (&LiveInode, &mut Inode),
    (first, size_bytes): (u64, u64),
    batch: &mut Batch<'_>,
) -> (bool, Vec<Range<u64>>) {
    let mut mapped = Vec::new();
    let block_bytes = volume.geometry.block_bytes as u64;
    let pages_end = first.saturating_add(batch.frames.len() as u64).saturating_mul(PAGE);
    let end_bytes = size_bytes.min(pages_end).min(file_size::size_max(volume));
    let start = first.saturating_mul(PAGE / block_bytes);
    let end = end_bytes.div_ceil(block_bytes);
    let (mut logical, mut has_changed, mut written_bytes) = (start, false, 0);
    while logical < end {
        let at = (logical - start) * block_bytes;
        if at > 0 && at.is_multiple_of(PAGE) && must_pause(volume) {
            batch.pages.truncate((at / PAGE) as usize);
            break;
        }
        let left = end - logical;
        let placed = mapping(volume, inode, logical, left).and_then(|(mapping, blocks)| {
            let found = (mapping, blocks);
            let (start, blocks, taken) = place(volume, operation, (node, inode), logical, found)?;
            if !matches!(mapping, Mapping::Written(_)) {
                has_changed = true;
                mapped.push(logical..logical + blocks);
            }
            Ok((start, blocks, taken))
        });
        match placed {
            Ok((block, blocks, taken)) => {
                batch.add(at, blocks * block_bytes, block * (block_bytes / 512));
                settle(volume, node, (logical, blocks), taken);
                logical += blocks;
                written_bytes = (logical * block_bytes).min(end_bytes);
            }
            Err(error) => {
                batch.fail(at, 1, error);
                logical = (logical / (PAGE / block_bytes) + 1) * (PAGE / block_bytes);
            }
        }
    }
    if written_bytes > inode.attributes.size {
        has_changed |= file_size::set(volume, inode, written_bytes).is_ok();
    }
    (has_changed, mapped)
}

/// Returns whether nodes of an extent tree could be missing that a commit would free.
fn must_pause(volume: &Volume) -> bool {
    let groups = volume.groups();
    groups.is_ok_and(|groups| groups.must_wait_for(METADATA_BLOCKS, Account::Pool))
}

/// Ends the reservation of pages that have all of their blocks now; `taken` of the blocks were reserved.
fn settle(volume: &Volume, node: &LiveInode, (logical, blocks): (u64, u64), taken: u64) {
    let each = blocks_a_page(volume);
    let (first, end) = (logical / each, (logical + blocks) / each);
    if let Ok(groups) = volume.groups() {
        node.settle(groups, (first, end - first), each, taken);
    }
}

/// Returns a place for the data of blocks with that mapping: the first block, their number, and the number of reserved
/// blocks that are taken now.
fn place(
    volume: &Volume,
    operation: &Operation<'_>,
    (node, inode): (&LiveInode, &mut Inode),
    logical: u64,
    (mapping, blocks): (Mapping, u64),
) -> Result<(u64, u64, u64), FsError> {
    match mapping {
        Mapping::Written(start) => Ok((start, blocks, 0)),
        Mapping::Unwritten(start) => {
            let range = logical..logical + blocks;
            extent_edit::convert(volume, operation, inode, range, Contents::Written)?;
            Ok((start, blocks, 0))
        }
        Mapping::Hole => {
            let each = blocks_a_page(volume);
            let (is_delayed, pages) = node.delayed_from(logical / each);
            let blocks = blocks.min(pages.saturating_mul(each) - logical % each);
            let account = if is_delayed { Account::Delayed } else { Account::Pool };
            let hole = (logical, blocks);
            let (start, count) =
                fill_hole(volume, operation, inode, (hole, Contents::Written), account)?;
            Ok((start, count, if is_delayed { count } else { 0 }))
        }
    }
}

/// Returns the wanted place of block `logical` of a file: behind the blocks before it.
fn goal(volume: &Volume, inode: &Inode, logical: u32) -> Result<u64, FsError> {
    let (before, _) = extent::find(volume, inode, logical)?;
    Ok(before.map_or_else(
        || inode.home_block(&volume.geometry),
        |before| before.start + u64::from(logical - before.first),
    ))
}

/// Allocates blocks for a hole from `account`, as many as lie together; returns the first, and how
/// many. The nodes that a delayed write needs come from the pool.
///
/// # Errors
/// [`FsError::NoSpace`], [`FsError::FileTooBig`]; those of [`extent_edit::edit`].
pub(crate) fn fill_hole(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    ((logical, blocks), contents): ((u64, u64), Contents),
    account: Account,
) -> Result<(u64, u64), FsError> {
    let first = u32::try_from(logical).map_err(|_| FsError::FileTooBig)?;
    let goal = goal(volume, inode, first)?;
    let (start, count) = blocks::allocate(volume, operation, (goal, blocks), account)?;
    let is_written = contents == Contents::Written;
    let nodes = if account == Account::Delayed { Account::Pool } else { account };
    let extent = Extent { first, count: count as u32, start, is_written };
    if let Err(error) = extent_edit::insert(volume, operation, inode, extent, nodes) {
        blocks::free(volume, operation, (start, count), Content::Data)?;
        return Err(error);
    }
    inode.add_blocks(&volume.geometry, count as i64);
    Ok((start, count))
}

/// Reserves blocks for pages that have none. If blocks are needed that were just freed, these are made durable first.
///
/// # Errors
/// [`FsError::NoSpace`]; those of [`extent::find`].
pub(crate) fn reserve(
    mount: &Mount,
    node: &LiveInode,
    first: u64,
    pages: u64,
) -> Result<(), FsError> {
    let volume = &mount.volume;
    volume.store.health.check_writable()?;
    for _ in 0..RESERVE_TRIES {
        let result = reserve_now(volume, node, first, pages);
        if result != Err(FsError::NoSpace) || !volume.groups()?.has_pending() {
            return result;
        }
        mount.commit(volume.store.log.running_id())?;
    }
    reserve_now(volume, node, first, pages)
}

fn reserve_now(volume: &Volume, node: &LiveInode, first: u64, pages: u64) -> Result<(), FsError> {
    let groups = volume.groups()?;
    let blocks_a_page = blocks_a_page(volume);
    let inode = node.read();
    let mut missing = Vec::new();
    let end = first.saturating_add(pages);
    let mut page = first;
    while page < end {
        let logical = page.saturating_mul(blocks_a_page);
        let max = (end - page).saturating_mul(blocks_a_page);
        let (found, blocks) = match inode.has_flag(FLAG_INLINE_DATA) {
            true => (Mapping::Hole, max),
            false => mapping(volume, &inode, logical, max)?,
        };
        // A page with a hole in it counts as one without blocks.
        let whole = (blocks / blocks_a_page).max(1);
        if found == Mapping::Hole || blocks < blocks_a_page {
            missing.push((page, whole));
        }
        page += whole;
    }
    node.delay(groups, &missing, blocks_a_page)
}
