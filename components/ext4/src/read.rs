//! Pages of files: their blocks are mapped, and what is contiguous on the volume becomes one
//! request over the page cache's own frames; all requests start as one batch.
use crate::{
    inline,
    inode::Inode,
    layout::inode::FLAG_INLINE_DATA,
    map,
    transfer::{Client, Page, Tail, Transfer},
    volume::Volume,
};
use alloc::{sync::Arc, vec, vec::Vec};
use interfaces::{
    block::{BlockSink, Operation, Request, SECTOR_BYTES, Segment},
    file_system::{FileType, FsError},
};
use rt::{PAGE_BYTES, memory::Frame};

const PAGE: u64 = PAGE_BYTES as u64;

/// Starts reading pages `client.first ..` of a file into `frames`.
pub(crate) fn read_pages(volume: &Volume, inode: &Inode, frames: Vec<Frame>, client: Client) {
    let checked = match inode.attributes.file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid),
    };
    let is_inline = inode.has_flag(FLAG_INLINE_DATA);
    match checked {
        Err(error) => client.tell(0..frames.len(), Err(error)),
        Ok(()) if is_inline => {
            let result = read_inline(volume, inode, &frames, client.first);
            client.tell(0..frames.len(), result);
        }
        Ok(()) => start(volume, inode, &frames, client),
    }
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

/// What is to be done for a transfer.
struct Plan<'a> {
    frames: &'a [Frame],
    max_segments: usize,
    pages: Vec<Page>,
    requests: Vec<Request>,
    touched: Vec<Vec<usize>>,
}

fn start(volume: &Volume, inode: &Inode, frames: &[Frame], client: Client) {
    let mut plan = Plan {
        frames,
        max_segments: volume.device.max_segments(),
        pages: vec![Page { requests: 0, result: Ok(()) }; frames.len()],
        requests: Vec::new(),
        touched: Vec::new(),
    };
    plan.build(volume, inode, client.first);
    let tail = plan.tail(inode.attributes.size, client.first);
    let Plan { pages, requests, touched, .. } = plan;
    let transfer = Arc::new(Transfer::new(client, tail, touched, pages));
    transfer.tell_idle();
    if !requests.is_empty() {
        let sink: Arc<dyn BlockSink> = transfer;
        volume.device.submit(requests, &sink);
    }
}

impl Plan<'_> {
    /// Goes over the blocks of the pages: reads what is mapped, clears what is not.
    fn build(&mut self, volume: &Volume, inode: &Inode, first: u64) {
        let block_bytes = volume.geometry.block_bytes as u64;
        let blocks_a_page = PAGE / block_bytes;
        let file_end = inode.attributes.size.div_ceil(block_bytes);
        let start = first.saturating_mul(blocks_a_page);
        let end = start.saturating_add(self.frames.len() as u64 * blocks_a_page);
        let mut logical = start;
        while logical < end {
            // Bytes from the first page's beginning; no file of 2^63 bytes reaches 2^64.
            let at = (logical - start) * block_bytes;
            let page = (at / PAGE) as usize;
            let left_in_file = file_end.saturating_sub(logical).min(end - logical);
            if left_in_file == 0 {
                self.clear(at, (end - logical) * block_bytes);
                return;
            }
            match map::map(volume, inode, logical, left_in_file) {
                Ok(run) => {
                    let bytes = run.blocks * block_bytes;
                    match run.start {
                        Some(block) => self.read(at, bytes, block * (block_bytes / 512)),
                        None => self.clear(at, bytes),
                    }
                    logical += run.blocks;
                }
                Err(error) => {
                    if let Some(page) = self.pages.get_mut(page) {
                        page.result = Err(error);
                    }
                    logical = start + (page as u64 + 1) * blocks_a_page;
                }
            }
        }
    }

    /// Clears `bytes` bytes from `at` of the transfer.
    fn clear(&self, at: u64, bytes: u64) {
        for (page, offset, length) in parts(at, bytes) {
            if let Some(frame) = self.frames.get(page) {
                frame.zero(offset, length);
            }
        }
    }

    /// Reads `bytes` bytes from `at` of the transfer, from `sector` on.
    fn read(&mut self, at: u64, bytes: u64, mut sector: u64) {
        for (page, offset, length) in parts(at, bytes) {
            let Some(frame) = self.frames.get(page) else { return };
            let part =
                Segment { frame: frame.clone(), offset: offset as u32, length: length as u32 };
            self.add(page, part, sector);
            sector += (length / SECTOR_BYTES) as u64;
        }
    }

    /// Adds a segment: to the last segment, to the last request, or as a new request.
    fn add(&mut self, page: usize, part: Segment, sector: u64) {
        if let (Some(request), Some(touched)) = (self.requests.last_mut(), self.touched.last_mut())
            && end_of(request) == sector
        {
            let last = request.segments.last_mut();
            if let Some(last) = last
                && last.frame == part.frame
                && last.offset + last.length == part.offset
            {
                last.length += part.length;
                return;
            }
            if request.segments.len() < self.max_segments {
                request.segments.push(part);
                if touched.last() != Some(&page) {
                    touched.push(page);
                    self.count(page);
                }
                return;
            }
        }
        let tag = self.requests.len() as u64;
        let operation = Operation::Read;
        self.requests.push(Request { tag, operation, sector, segments: vec![part] });
        self.touched.push(vec![page]);
        self.count(page);
    }

    fn count(&mut self, page: usize) {
        if let Some(page) = self.pages.get_mut(page) {
            page.requests += 1;
        }
    }

    /// The page with the file's end, if it is among these and the end is in its midst.
    fn tail(&self, size: u64, first: u64) -> Option<Tail> {
        let page = usize::try_from((size / PAGE).checked_sub(first)?).ok()?;
        let offset = (size % PAGE) as usize;
        let frame = self.frames.get(page)?.clone();
        (offset > 0).then_some(Tail { page, frame, offset })
    }
}

/// First sector after a request.
fn end_of(request: &Request) -> u64 {
    let bytes: u64 = request.segments.iter().map(|part| u64::from(part.length)).sum();
    request.sector + bytes / SECTOR_BYTES as u64
}

/// Bytes `at .. at + bytes` by page: page, offset, length.
fn parts(at: u64, bytes: u64) -> impl Iterator<Item = (usize, usize, usize)> {
    let end = at.saturating_add(bytes);
    let mut at = at;
    core::iter::from_fn(move || {
        let offset = at % PAGE;
        let length = (PAGE - offset).min(end.checked_sub(at)?);
        let page = (at / PAGE) as usize;
        at += length;
        (length > 0).then_some((page, offset as usize, length as usize))
    })
}
