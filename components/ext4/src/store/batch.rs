//! The requests for the pages of a transfer: pages that are contiguous on the volume become one
//! request over the page cache's own frames.
use crate::store::{device::end_of, transfer::Page};
use alloc::{vec, vec::Vec};
use interfaces::{
    block::{Operation, Request, SECTOR_BYTES, Segment},
    file_system::FsError,
};
use rt::{PAGE_BYTES, memory::Frame};

const PAGE: u64 = PAGE_BYTES as u64;
/// Number of segments for which room is made at once, if there are as many pages.
const EXPECTED_SEGMENTS: usize = 16;

/// Requests that are being collected for a transfer.
pub(crate) struct Batch<'a> {
    operation: Operation,
    /// The frames of the pages.
    pub(crate) frames: &'a [Frame],
    max_segments: usize,
    /// The state of each page.
    pub(crate) pages: Vec<Page>,
    /// The requests, one for each run.
    pub(crate) requests: Vec<Request>,
    /// For each request, the pages that it touches.
    pub(crate) touched: Vec<Vec<usize>>,
}

impl Batch<'_> {
    /// Makes a batch without requests.
    pub(crate) fn new(operation: Operation, frames: &[Frame], max_segments: usize) -> Batch<'_> {
        Batch {
            operation,
            frames,
            max_segments,
            pages: vec![Page { requests: 0, result: Ok(()) }; frames.len()],
            requests: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Clears `bytes` bytes from `at` of the transfer.
    pub(crate) fn clear(&self, at: u64, bytes: u64) {
        for (page, offset, length) in parts(at, bytes) {
            if let Some(frame) = self.frames.get(page) {
                frame.zero(offset, length);
            }
        }
    }

    /// Fails the pages that `bytes` bytes from `at` touch.
    pub(crate) fn fail(&mut self, at: u64, bytes: u64, error: FsError) {
        for (page, ..) in parts(at, bytes) {
            if let Some(page) = self.pages.get_mut(page) {
                page.result = Err(error);
            }
        }
    }

    /// Adds `bytes` bytes from `at` of the transfer, which are on the device from `sector` on.
    pub(crate) fn add(&mut self, at: u64, bytes: u64, mut sector: u64) {
        for (page, offset, length) in parts(at, bytes) {
            let Some(frame) = self.frames.get(page) else { return };
            let part =
                Segment { frame: frame.clone(), offset: offset as u32, length: length as u32 };
            self.add_part(page, part, sector);
            sector += (length / SECTOR_BYTES) as u64;
        }
    }

    /// Adds a segment: to the last segment, to the last request, or as a new request.
    fn add_part(&mut self, page: usize, part: Segment, sector: u64) {
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
        // The next request is usually the continuation of the last one.
        let expected = self.frames.len().saturating_sub(page).min(EXPECTED_SEGMENTS);
        let mut segments = Vec::with_capacity(expected);
        segments.push(part);
        let mut touched = Vec::with_capacity(expected);
        touched.push(page);
        let (tag, operation) = (self.requests.len() as u64, self.operation);
        self.requests.push(Request { tag, operation, sector, segments });
        self.touched.push(touched);
        self.count(page);
    }

    fn count(&mut self, page: usize) {
        if let Some(page) = self.pages.get_mut(page) {
            page.requests += 1;
        }
    }
}

/// Splits bytes `at .. at + bytes` by page: page, offset, length.
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
