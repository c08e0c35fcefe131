//! From a batch of requests to as few device requests as the limits allow (K4).
use alloc::{sync::Arc, vec::Vec};
use interfaces::block::{
    BlockError, BlockInfo, BlockSink, Operation, Request, SECTOR_BYTES, Segment,
};
use rt::PAGE_BYTES;

/// One client request's share in a device request.
pub(crate) struct Client {
    pub(crate) tag: u64,
    pub(crate) sink: Arc<dyn BlockSink>,
}

/// Requests that go to the device as one.
pub(crate) struct Work {
    client: Client,
    /// Of neighbours that go along.
    others: Vec<Client>,
    pub(crate) operation: Operation,
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
    pub(crate) segments: Vec<Segment>,
}

impl Work {
    /// Tells every client; call without locks.
    pub(crate) fn complete(self, result: Result<(), BlockError>) {
        // The frames are given back first: a client told may look at their reference counts.
        drop(self.segments);
        for client in core::iter::once(self.client).chain(self.others) {
            client.sink.completed(client.tag, result);
        }
    }

    /// The work that `sink` wants done, alone.
    ///
    /// # Errors
    /// The request, and why it makes no sense.
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

    /// The request it was made of, if it has taken in no other.
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

    /// Takes in all of `next`, which has taken in nobody and goes then.
    fn take(&mut self, next: &mut Work) {
        self.sectors += next.sectors;
        self.segments.append(&mut next.segments);
        let Client { tag, ref sink } = next.client;
        self.others.push(Client { tag, sink: sink.clone() });
    }
}

/// Sectors a request covers, if it is well formed.
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
    };
    if segments.len() > info.max_segments || !segments.iter().all(is_good) {
        return Err(BlockError::Invalid);
    }
    Ok(segments.iter().map(|segment| u64::from(segment.length / unit)).sum())
}

/// Orders a batch by position and merges neighbours. Requests that make no sense are completed at
/// once. Within a batch nothing is promised about order, so sorting is allowed.
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
