//! Pages on their way: each page's count of requests, and its sink told when the last is done.
use crate::device::error_of;
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

/// One page of a transfer.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    /// Requests that fill a part of it.
    pub(crate) requests: u32,
    /// How it stands.
    pub(crate) result: Result<(), FsError>,
}

/// The page with the file's end, to be cleared from `offset` once it is read.
pub(crate) struct Tail {
    /// Index in the transfer.
    pub(crate) page: usize,
    /// Its frame.
    pub(crate) frame: Frame,
    /// First byte beyond the file's end.
    pub(crate) offset: usize,
}

/// Who waits for the pages, and how he names them.
#[derive(Clone)]
pub(crate) struct Client {
    /// Told of pages.
    pub(crate) sink: Arc<dyn PageSink>,
    /// His number.
    pub(crate) tag: u64,
    /// His first page.
    pub(crate) first: u64,
}

impl Client {
    /// Tells of pages `range` of the transfer.
    pub(crate) fn tell(&self, range: Range<usize>, result: Result<(), FsError>) {
        if !range.is_empty() {
            let first = self.first.saturating_add(range.start as u64);
            self.sink.pages_done(self.tag, first, range.len(), result);
        }
    }
}

/// A batch of requests that fill pages. Request `n` of the batch has tag `n`.
pub(crate) struct Transfer {
    client: Client,
    tail: Option<Tail>,
    /// Pages each request touches, ascending: holes between contiguous blocks are not among them.
    touched: Vec<Vec<usize>>,
    pages: Mutex<Vec<Page>>,
}

impl Transfer {
    /// A transfer, before its requests are submitted.
    pub(crate) fn new(
        client: Client,
        tail: Option<Tail>,
        touched: Vec<Vec<usize>>,
        pages: Vec<Page>,
    ) -> Transfer {
        Transfer { client, tail, touched, pages: Mutex::new(&TRANSFER, pages) }
    }

    /// Tells of the pages that wait for no request.
    pub(crate) fn tell_idle(&self) {
        let idle: Vec<_> = {
            let pages = self.pages.lock();
            let idle = pages.iter().enumerate().filter(|(_, page)| page.requests == 0);
            idle.map(|(index, page)| (index, page.result)).collect()
        };
        self.finish(&idle);
    }

    /// Clears the tail where it is among `done`, then tells of them in runs of one result.
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
}

impl BlockSink for Transfer {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
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
        self.finish(&done);
    }
}
