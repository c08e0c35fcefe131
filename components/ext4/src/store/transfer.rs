//! Pages in transfer: each page counts its requests, and the sink is told when the last has ended.
use crate::store::{
    area::VolumeArea,
    device::error_of,
    log::{FailedRun, Log},
};
use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;
use interfaces::{
    block::{BlockError, BlockSink},
    file_system::{FsError, PageSink},
};
use rt::{PAGE_BYTES, lock_class, memory::Frame, sync::Mutex};

lock_class! {
    static TRANSFER = "ext4.transfer";
}

/// A page of a transfer.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    /// Number of requests that fill a part of it.
    pub(crate) requests: u32,
    /// The result so far.
    pub(crate) result: Result<(), FsError>,
}

/// The page with the file's end, which is cleared from `offset` on once it is read.
pub(crate) struct Tail {
    /// Index of the page in the transfer.
    pub(crate) page: usize,
    /// Frame of the page.
    pub(crate) frame: Frame,
    /// First byte beyond the file's end.
    pub(crate) offset: usize,
}

/// The client that waits for the pages, and its tag for the transfer.
#[derive(Clone)]
pub(crate) struct Client {
    /// The sink that is told of pages.
    pub(crate) sink: Arc<dyn PageSink>,
    /// The client's number of the transfer.
    pub(crate) tag: u64,
    /// The client's first page.
    pub(crate) first: u64,
}

impl Client {
    /// Reports pages `range` of the transfer to the client.
    pub(crate) fn tell(&self, range: Range<usize>, result: Result<(), FsError>) {
        if !range.is_empty() {
            let first = self.first.saturating_add(range.start as u64);
            self.sink.pages_done(self.tag, first, range.len(), result);
        }
    }
}

/// The state of a transfer that writes.
pub(crate) struct Writing {
    /// The log that its blocks were mapped by.
    pub(crate) log: Arc<Log>,
    /// The volume's blocks.
    pub(crate) area: VolumeArea,
    /// The transaction that mapped its blocks.
    pub(crate) transaction: u64,
    /// Number of the file's inode.
    pub(crate) inode: u32,
    /// Blocks of the file that held no data before.
    pub(crate) mapped: Vec<Range<u64>>,
}

impl Writing {
    /// Handles the end of a request, of which the log was told if it is `known`. Blocks that the device refused must not be
    /// read as data.
    fn end(&self, pages: Range<u64>, known: Counted, result: Result<(), BlockError>) {
        if result.is_err() {
            let blocks = (PAGE_BYTES / self.area.block_bytes) as u64;
            let (first, last) = (pages.start * blocks, pages.end * blocks);
            for run in &self.mapped {
                let (from, to) = (run.start.max(first), run.end.min(last));
                if from < to {
                    let failed = FailedRun { inode: self.inode, logical: from, blocks: to - from };
                    self.log.running().failed.push(failed);
                }
            }
        }
        if known == Counted::Yes {
            self.log.end_data(self.transaction);
        }
    }
}

/// Whether the log counts a request as data on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Yes,
    /// It does not: the request was written along with a commit.
    No,
}

/// A batch of requests that fill pages, or are filled from them. Request `n` of the batch has tag `n`.
pub(crate) struct PageTransfer {
    client: Client,
    tail: Option<Tail>,
    /// Pages that each request touches, ascending: pages in holes between contiguous blocks are not among them.
    touched: Vec<Vec<usize>>,
    pages: Mutex<Vec<Page>>,
    writing: Option<Writing>,
}

impl PageTransfer {
    /// Makes a transfer before its requests are submitted.
    pub(crate) fn new(
        client: Client,
        tail: Option<Tail>,
        touched: Vec<Vec<usize>>,
        pages: Vec<Page>,
    ) -> PageTransfer {
        let pages = Mutex::new(&TRANSFER, pages);
        PageTransfer { client, tail, touched, pages, writing: None }
    }

    /// Makes the transfer one that writes.
    pub(crate) fn writing(self, writing: Writing) -> PageTransfer {
        PageTransfer { writing: Some(writing), ..self }
    }

    /// Reports the pages that wait for no request.
    pub(crate) fn tell_idle(&self) {
        let idle: Vec<_> = {
            let pages = self.pages.lock();
            let idle = pages.iter().enumerate().filter(|(_, page)| page.requests == 0);
            idle.map(|(index, page)| (index, page.result)).collect()
        };
        self.finish(&idle);
    }

    /// Clears the tail if it is among `done`, then tells the sink of the pages in runs of one result.
    fn finish(&self, done: &[(usize, Result<(), FsError>)]) {
        if let Some(tail) = &self.tail
            && done.iter().any(|(index, _)| *index == tail.page)
        {
            tail.frame.zero(tail.offset, PAGE_BYTES - tail.offset);
        }
        let is_run = |a: &(usize, _), b: &(usize, _)| a.0 + 1 == b.0 && a.1 == b.1;
        for run in done.chunk_by(is_run) {
            if let (Some((first, result)), Some((last, _))) = (run.first(), run.last()) {
                self.client.tell(*first..*last + 1, *result);
            }
        }
    }

    /// Handles the end of all `requests` requests, which a commit took along, with that result.
    pub(crate) fn end_along(&self, requests: usize, result: Result<(), BlockError>) {
        (0..requests as u64).for_each(|tag| self.end(tag, Counted::No, result));
    }

    fn end(&self, tag: u64, known: Counted, result: Result<(), BlockError>) {
        let touched = usize::try_from(tag).ok().and_then(|tag| self.touched.get(tag));
        let Some(touched) = touched else { return };
        let mut done = Vec::with_capacity(touched.len());
        {
            let mut pages = self.pages.lock();
            for index in touched {
                let Some(page) = pages.get_mut(*index) else { continue };
                if let Err(error) = result {
                    page.result = Err(error_of(error));
                }
                page.requests = page.requests.saturating_sub(1);
                if page.requests == 0 {
                    done.push((*index, page.result));
                }
            }
        }
        if let (Some(writing), Some(first), Some(last)) =
            (&self.writing, touched.first(), touched.last())
        {
            let first_page = self.client.first;
            let pages = first_page + *first as u64..first_page + *last as u64 + 1;
            writing.end(pages, known, result);
        }
        self.finish(&done);
    }
}

impl BlockSink for PageTransfer {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
        self.end(tag, Counted::Yes, result);
    }
}
