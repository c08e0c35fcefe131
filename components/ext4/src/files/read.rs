//! Reading pages of files: their blocks are mapped, and blocks that are contiguous on the volume
//! become one request over the page cache's own frames. All requests start as one batch.
use crate::{
    layout::{
        inode::Inode, inode_table::LiveInode, map, raw::inode::FLAG_INLINE_DATA, volume::Volume,
    },
    names::inline,
    store::{
        batch::Batch,
        transfer::{Client, PageTransfer, Tail},
    },
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    block::{BlockSink, Operation},
    file_system::{FileType, FsError},
};
use rt::{PAGE_BYTES, memory::Frame};

const PAGE: u64 = PAGE_BYTES as u64;

/// Starts reading pages `client.first ..` of a file into `frames`.
pub(crate) fn read_pages(volume: &Volume, node: &LiveInode, frames: Vec<Frame>, client: Client) {
    let inode = node.read();
    let checked = match inode.attributes.file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid),
    };
    if checked.is_ok() && !inode.has_flag(FLAG_INLINE_DATA) {
        let mut batch = Batch::new(Operation::Read, &frames, volume.store.device.max_segments());
        plan(volume, &inode, client.first, &mut batch);
        let tail = tail(&batch, inode.attributes.size, client.first);
        // A sink that is told may call the file system again.
        drop(inode);
        return start(volume, batch, tail, client);
    }
    let result = checked.and_then(|()| read_inline(volume, &inode, &frames, client.first));
    drop(inode);
    client.tell(0..frames.len(), result);
}

fn read_inline(
    volume: &Volume,
    inode: &Inode,
    frames: &[Frame],
    first: u64,
) -> Result<(), FsError> {
    let bytes = inline::load_sized(volume, inode)?;
    for (page, frame) in (first..).zip(frames) {
        let start = usize::try_from(page).ok().and_then(|page| page.checked_mul(PAGE_BYTES));
        let part = start.and_then(|start| bytes.get(start..)).unwrap_or(&[]);
        let written = frame.write(0, part);
        frame.zero(written, PAGE_BYTES - written);
    }
    Ok(())
}

fn start(volume: &Volume, batch: Batch<'_>, tail: Option<Tail>, client: Client) {
    let Batch { pages, requests, touched, .. } = batch;
    let transfer = Arc::new(PageTransfer::new(client, tail, touched, pages));
    transfer.tell_idle();
    if !requests.is_empty() {
        let sink: Arc<dyn BlockSink> = transfer;
        volume.store.device.submit(requests, &sink);
    }
}

/// Plans the blocks of the pages: reads mapped ones, and clears the others.
fn plan(volume: &Volume, inode: &Inode, first: u64, batch: &mut Batch<'_>) {
    let block_bytes = volume.geometry.block_bytes as u64;
    let blocks_a_page = PAGE / block_bytes;
    let file_end = inode.attributes.size.div_ceil(block_bytes);
    let start = first.saturating_mul(blocks_a_page);
    let end = start.saturating_add(batch.frames.len() as u64 * blocks_a_page);
    let mut logical = start;
    while logical < end {
        // Bytes from the first page's beginning; no file of 2^63 bytes reaches 2^64.
        let at = (logical - start) * block_bytes;
        let left_in_file = file_end.saturating_sub(logical).min(end - logical);
        if left_in_file == 0 {
            batch.clear(at, (end - logical) * block_bytes);
            return;
        }
        match map::map(volume, inode, logical, left_in_file) {
            Ok(run) => {
                let bytes = run.blocks * block_bytes;
                match run.start {
                    Some(block) => batch.add(at, bytes, block * (block_bytes / 512)),
                    None => batch.clear(at, bytes),
                }
                logical += run.blocks;
            }
            Err(error) => {
                batch.fail(at, 1, error);
                logical = start + (at / PAGE + 1) * blocks_a_page;
            }
        }
    }
}

/// Returns the page that contains the file's end, if it is among these and the end is inside it.
fn tail(batch: &Batch<'_>, size: u64, first: u64) -> Option<Tail> {
    let page = usize::try_from((size / PAGE).checked_sub(first)?).ok()?;
    let offset = (size % PAGE) as usize;
    let frame = batch.frames.get(page)?.clone();
    (offset > 0).then_some(Tail { page, frame, offset })
}
