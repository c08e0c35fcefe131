//! The device below: waiting reads of metadata, and batches on their way for data.
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use interfaces::{
    block::{
        BlockError, BlockHandle, BlockInfo, BlockSink, Operation, Request, SECTOR_BYTES, Segment,
    },
    file_system::FsError,
};
use rt::{PAGE_BYTES, memory::Frame, sync::Event};

/// Sectors of a chunk: the unit of metadata reads, one frame.
pub(crate) const CHUNK_SECTORS: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;

/// One chunk's bytes.
pub(crate) type ChunkBytes = Box<[u8; PAGE_BYTES]>;

/// A block device.
pub(crate) struct Device {
    block: BlockHandle,
    info: BlockInfo,
}

impl Device {
    /// Takes a device.
    pub(crate) fn new(block: BlockHandle) -> Device {
        let info = block.info();
        Device { block, info }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.info.name
    }

    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.info.sectors.saturating_mul(SECTOR_BYTES as u64)
    }

    /// Chunks that begin on the device.
    pub(crate) fn chunks(&self) -> u64 {
        self.info.sectors.div_ceil(CHUNK_SECTORS)
    }

    /// Most segments in a request.
    pub(crate) fn max_segments(&self) -> usize {
        self.info.max_segments.max(1)
    }

    /// Starts a batch; `sink` is told of each request.
    pub(crate) fn submit(&self, batch: Vec<Request>, sink: &Arc<dyn BlockSink>) {
        self.block.submit(batch, sink);
    }

    /// Reads `count` chunks and waits. What lies beyond the device's end is zero.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] where the first is beyond the end, `Io`, `NoMemory`, `Restarted`.
    pub(crate) fn read(&self, first: u64, count: u64) -> Result<Vec<ChunkBytes>, FsError> {
        let limit = self.chunks().min(first.saturating_add(count));
        if first >= limit {
            return Err(FsError::Corrupt);
        }
        let mut frames = Vec::new();
        Frame::allocate_many((limit - first) as usize, true, &mut frames)
            .map_err(|_| FsError::NoMemory)?;
        let batch = self.requests(first, &frames);
        let waiter = Arc::new(Waiter::new(batch.len()));
        let sink: Arc<dyn BlockSink> = Arc::clone(&waiter) as Arc<dyn BlockSink>;
        self.block.submit(batch, &sink);
        waiter.wait()?;
        Ok(frames.iter().map(copy_out).collect())
    }

    fn requests(&self, first: u64, frames: &[Frame]) -> Vec<Request> {
        let mut sector = first * CHUNK_SECTORS;
        let mut batch = Vec::new();
        for (tag, part) in frames.chunks(self.max_segments()).enumerate() {
            let start = sector;
            let segment = |frame: &Frame| {
                let sectors = CHUNK_SECTORS.min(self.info.sectors.saturating_sub(sector));
                sector += sectors;
                let length = sectors as u32 * SECTOR_BYTES as u32;
                Segment { frame: frame.clone(), offset: 0, length }
            };
            let segments = part.iter().map(segment).collect();
            let operation = Operation::Read;
            batch.push(Request { tag: tag as u64, operation, sector: start, segments });
        }
        batch
    }
}

/// Metadata is parsed in place, which a frame a driver may still hold does not allow.
fn copy_out(frame: &Frame) -> ChunkBytes {
    let mut bytes = Box::new([0; PAGE_BYTES]);
    frame.read(0, bytes.as_mut_slice());
    bytes
}

/// What a failed request means to the file system.
pub(crate) fn error_of(error: BlockError) -> FsError {
    match error {
        BlockError::Restarted => FsError::Restarted,
        BlockError::NoMemory => FsError::NoMemory,
        BlockError::ReadOnly => FsError::ReadOnly,
        BlockError::Invalid | BlockError::Device | BlockError::Unsupported => FsError::Io,
    }
}

/// Waits for the last of several requests.
struct Waiter {
    left: AtomicUsize,
    /// Zero while all went well, else 1 plus the error's place in [`ERRORS`].
    failed: AtomicUsize,
    event: Event,
}

const ERRORS: [FsError; 4] =
    [FsError::Io, FsError::Restarted, FsError::NoMemory, FsError::ReadOnly];

impl Waiter {
    fn new(requests: usize) -> Waiter {
        Waiter {
            left: AtomicUsize::new(requests),
            failed: AtomicUsize::new(0),
            event: Event::new(),
        }
    }

    fn wait(&self) -> Result<(), FsError> {
        loop {
            let ticket = self.event.ticket();
            if self.left.load(Acquire) == 0 {
                break;
            }
            self.event.wait(ticket, None, false);
        }
        match self.failed.load(Relaxed) {
            0 => Ok(()),
            place => Err(ERRORS.get(place - 1).copied().unwrap_or(FsError::Io)),
        }
    }
}

impl BlockSink for Waiter {
    fn completed(&self, _tag: u64, result: Result<(), BlockError>) {
        if let Err(error) = result {
            let error = error_of(error);
            let place = ERRORS.iter().position(|known| *known == error).unwrap_or(0);
            self.failed.store(place + 1, Relaxed);
        }
        self.left.fetch_sub(1, AcqRel);
        self.event.signal();
    }
}
