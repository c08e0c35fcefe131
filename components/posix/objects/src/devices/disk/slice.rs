//! [`Slice`]: a partition as a block device of its own.
use super::table::Partition;
use alloc::{format, sync::Arc, vec::Vec};
use interfaces::block::{
    Block, BlockError, BlockInfo, BlockSink, Operation, Request, SECTOR_BYTES, Sequence,
};

/// A run of sectors of another device.
pub struct Slice {
    disk: Arc<dyn Block>,
    part: Partition,
}

impl Slice {
    /// Makes a block device of the partition `part` of `disk`, which lies within the disk.
    pub fn new(disk: &Arc<dyn Block>, part: Partition) -> Slice {
        Slice { disk: disk.clone(), part }
    }
    /// Returns whether a request lies within the partition.
    fn has(&self, request: &Request) -> bool {
        let end = request.sector.checked_add(Slice::sectors(request));
        end.is_some_and(|end| end <= self.part.sectors)
    }
    /// Returns the number of sectors of a request.
    fn sectors(request: &Request) -> u64 {
        match request.operation {
            Operation::Flush => 0,
            Operation::Discard { sectors } | Operation::WriteZeroes { sectors } => sectors,
            Operation::Read | Operation::Write => {
                let bytes = request.segments.iter().map(|segment| u64::from(segment.length));
                bytes.sum::<u64>() / SECTOR_BYTES as u64
            }
        }
    }
}

impl Block for Slice {
    fn info(&self) -> BlockInfo {
        let whole = self.disk.info();
        let name = format!("{}{}", whole.name, self.part.number);
        BlockInfo { name, sectors: self.part.sectors, ..whole }
    }
    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        batch.retain_mut(|request| {
            let is_inside = self.has(request);
            if is_inside {
                request.sector += self.part.start;
            } else {
                sink.completed(request.tag, Err(BlockError::Invalid));
            }
            is_inside
        });
        self.disk.submit(batch, sink);
    }
    fn offer(&self, mut request: Request, sink: &Arc<dyn BlockSink>) -> Result<(), Request> {
        if !self.has(&request) {
            return Err(request);
        }
        request.sector += self.part.start;
        self.disk.offer(request, sink).map_err(|mut request| {
            request.sector -= self.part.start;
            request
        })
    }
    fn start(&self, mut sequence: Sequence, sink: &Arc<dyn BlockSink>) -> Result<(), Sequence> {
        if !sequence.requests().all(|request| self.has(request)) {
            return Err(sequence);
        }
        sequence.requests_mut().for_each(|request| request.sector += self.part.start);
        self.disk.start(sequence, sink).map_err(|mut sequence| {
            sequence.requests_mut().for_each(|request| request.sector -= self.part.start);
            sequence
        })
    }
}
