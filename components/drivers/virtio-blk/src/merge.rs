//! Merges a batch of requests into as few device requests as the limits allow (K4).
use alloc::{sync::Arc, vec::Vec};
use interfaces::block::{
    BlockError, BlockInfo, BlockSink, Operation, Request, SECTOR_BYTES, Segment,
};
use rt::PAGE_BYTES;

/// A client's request that is part of a device request.
pub(crate) struct Client {
    pub(crate) tag: u64,
    pub(crate) sink: Arc<dyn BlockSink>,
}

/// Client requests that go to the device as one.
pub(crate) struct Work {
    client: Client,
    /// Clients of the neighbours that were merged in.
    others: Vec<Client>,
    pub(crate) operation: Operation,
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
    pub(crate) segments: Vec<Segment>,
}

impl Work {
    /// Tells every client. Call it without locks.
    pub(crate) fn complete(self, result: Result<(), BlockError>) {
        // The frames are released first: a client that is told may look at their reference counts.
        drop(self.segments);
        for client in core::iter::once(self.client).chain(self.others) {
            client.sink.completed(client.tag, result);
        }
    }

    /// Makes work of one request of `sink`.
    ///
    /// # Errors
    /// Returns the request, and the reason why it is invalid.
    pub(crate) fn of(
        request: Request,
        sink: &Arc<dyn BlockSink>,
        info: &BlockInfo,
    ) -> Result<Work, (Request, BlockError)> {
        let sectors = match check(&request, info) {
            Ok(sectors) => sectors,
            Err(error) => return Err((request, error)),
        };
        let Request { tag, operation, sector, segments } = request;
        let client = Client { tag, sink: sink.clone() };
        Ok(Work { client, others: Vec::new(), operation, sector, sectors, segments })
    }

    /// Returns the request it was made of, if no other was merged in.
    pub(crate) fn into_request(self) -> Request {
        let Work { client: Client { tag, .. }, operation, sector, segments, .. } = self;
        Request { tag, operation, sector, segments }
    }

    fn can_take(&self, next: &Work, max_segments: usize) -> bool {
        let is_transfer = matches!(self.operation, Operation::Read | Operation::Write);
        is_transfer
            && self.operation == next.operation
            && self.sector + self.sectors == next.sector
            && self.segments.len() + next.segments.len() <= max_segments
    }

    /// Merges all of `next`, into which nothing was merged; `next` is dropped afterwards.
    fn take(&mut self, next: &mut Work) {
        self.sectors += next.sectors;
        self.segments.append(&mut next.segments);
        let Client { tag, ref sink } = next.client;
        self.others.push(Client { tag, sink: sink.clone() });
    }
}

/// Checks a request. Returns the number of sectors that it covers.
fn check(request: &Request, info: &BlockInfo) -> Result<u64, BlockError> {
    let sectors = match request.operation {
        Operation::Flush => return Ok(0),
        Operation::Discard { sectors } => {
            if !info.has_discard {
                return Err(BlockError::Unsupported);
            }
            sectors
        }
        Operation::WriteZeroes { sectors } => {
            if !info.has_write_zeroes {
                return Err(BlockError::Unsupported);
            }
            sectors
        }
        Operation::Read | Operation::Write => transfer_sectors(&request.segments, info)?,
    };
    if info.is_read_only && request.operation != Operation::Read {
        return Err(BlockError::ReadOnly);
    }
    let is_inside = request.sector.checked_add(sectors).is_some_and(|end| end <= info.sectors);
    if is_inside && sectors > 0 { Ok(sectors) } else { Err(BlockError::Invalid) }
}

fn transfer_sectors(segments: &[Segment], info: &BlockInfo) -> Result<u64, BlockError> {
    let unit = SECTOR_BYTES as u32;
    let is_good = |segment: &Segment| {
        let end = u64::from(segment.offset) + u64::from(segment.length);
        segment.length > 0
            && segment.offset.is_multiple_of(unit)
            && segment.length.is_multiple_of(unit)
            && end <= PAGE_BYTES as u64
            && rt::device::frame_address(&segment.frame).is_some()
    };
    if segments.len() > info.max_segments || !segments.iter().all(is_good) {
        return Err(BlockError::Invalid);
    }
    Ok(segments.iter().map(|segment| u64::from(segment.length / unit)).sum())
}

/// Sorts a batch by position and merges neighbours. Invalid requests are completed at once. The
/// order within a batch is not promised, so sorting is allowed.
pub(crate) fn plan(
    batch: &mut Vec<Request>,
    sink: &Arc<dyn BlockSink>,
    info: &BlockInfo,
) -> Vec<Work> {
    let mut works: Vec<Work> = Vec::with_capacity(batch.len());
    for request in batch.drain(..) {
        match Work::of(request, sink, info) {
            Ok(work) => works.push(work),
            Err((request, error)) => sink.completed(request.tag, Err(error)),
        }
    }
    works.sort_by_key(|work| work.sector);
    works.dedup_by(|next, last| {
        let is_taken = last.can_take(next, info.max_segments);
        if is_taken {
            last.take(next);
        }
        is_taken
    });
    works
}
