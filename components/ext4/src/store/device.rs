//! The device below: waiting reads and writes of metadata, and batches on their way for data.
//!
//! Metadata is copied between its frames and the cache; frames for writing are set aside when the
//! volume becomes writable, so that a commit needs no memory that only a commit could free.
use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use interfaces::{
    block::{
        BlockError, BlockHandle, BlockInfo, BlockSink, Course, Operation, Request, SECTOR_BYTES,
        Segment, Sequence, SequenceOwner,
    },
    file_system::FsError,
};
use rt::{
    PAGE_BYTES, lock_class,
    memory::Frame,
    sync::{Event, Mutex},
};

lock_class! {
    static FRAMES = "ext4.frames";
    static FAILED = "ext4.failed";
    static LATER = "ext4.later";
}

/// Reserved frames for metadata that is written to the device.
const FRAMES_RESERVED: usize = 32;
/// The greatest number of frames of a batch, if memory is not short.
const FRAMES_MAX: usize = 256;

/// Sectors of a chunk: the unit of metadata reads, one frame.
pub(crate) const CHUNK_SECTORS: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;

/// The bytes of one chunk.
pub(crate) type ChunkBytes = Box<[u8; PAGE_BYTES]>;

/// A block device.
pub(crate) struct VolumeDevice {
    block: BlockHandle,
    info: BlockInfo,
    /// Frames for metadata in transfer; a writer takes them all.
    frames: Mutex<Vec<Frame>>,
}

/// A piece of metadata for the device: its sector, and its bytes, whole sectors and within a page.
pub(crate) type Piece<'a> = (u64, &'a [u8]);

impl VolumeDevice {
    /// Makes a device of a block interface.
    pub(crate) fn new(block: BlockHandle) -> VolumeDevice {
        let info = block.info();
        VolumeDevice { block, info, frames: Mutex::new(&FRAMES, Vec::new()) }
    }

    /// Returns the device's name.
    pub(crate) fn name(&self) -> &str {
        &self.info.name
    }

    /// Returns the device's length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.info.sectors.saturating_mul(SECTOR_BYTES as u64)
    }

    /// Returns the number of chunks that begin on the device.
    pub(crate) fn chunks(&self) -> u64 {
        self.info.sectors.div_ceil(CHUNK_SECTORS)
    }

    /// Returns the most segments of a request.
    pub(crate) fn max_segments(&self) -> usize {
        self.info.max_segments.max(1)
    }

    /// Starts a batch; `sink` is told of the end of each request.
    pub(crate) fn submit(&self, mut batch: Vec<Request>, sink: &Arc<dyn BlockSink>) {
        self.block.submit(&mut batch, sink);
    }

    /// Returns whether writes are refused.
    pub(crate) fn is_read_only(&self) -> bool {
        self.info.is_read_only
    }

    /// Returns whether the device takes discards.
    pub(crate) fn has_discard(&self) -> bool {
        self.info.has_discard
    }

    /// Reserves the frames for writing.
    ///
    /// # Errors
    /// [`FsError::NoMemory`].
    pub(crate) fn reserve_frames(&self) -> Result<(), FsError> {
        let mut frames = self.frames.lock();
        let missing = FRAMES_RESERVED.saturating_sub(frames.len());
        Frame::allocate_zeroed(missing, &mut frames).map_err(|_| FsError::NoMemory)
    }

    /// Writes `pieces` and waits. Pieces that are adjacent on the device share a request, and a frame.
    ///
    /// Locks: `ext4.frames`, during the I/O.
    ///
    /// # Errors
    /// `Io`, `ReadOnly`, `NoMemory` (without reserved frames), `Restarted`.
    pub(crate) fn write(&self, pieces: &[Piece<'_>]) -> Result<(), FsError> {
        let mut frames = self.frames.lock();
        if frames.is_empty() {
            return if pieces.is_empty() { Ok(()) } else { Err(FsError::NoMemory) };
        }
        let set_aside = extend(&mut frames, pages_of(pieces));
        let mut rest = pieces;
        let mut result = Ok(());
        while result.is_ok() && !rest.is_empty() {
            let (batch, left) = self.writes(rest, &frames);
            rest = left;
            result = self.run(batch);
        }
        frames.truncate(set_aside);
        result
    }

    /// Writes `data` and `pieces`, and when they are on stable storage `last`, which is also durable when this returns. It
    /// waits once if there are frames for all pieces, because the device begins each step when it is told of the end of the
    /// one before.
    ///
    /// Locks: `ext4.frames`, during the I/O.
    ///
    /// # Errors
    /// The error of `data`, or else as [`VolumeDevice::write`] and [`VolumeDevice::flush`]; `last` is not written if something
    /// before it failed.
    pub(crate) fn write_in_turn(
        &self,
        mut data: Vec<Request>,
        pieces: &[Piece<'_>],
        last: Piece<'_>,
    ) -> Result<(), Refusal> {
        let mut frames = self.frames.lock();
        let pages = pages_of(pieces);
        let set_aside = extend(&mut frames, pages + 1);
        let Some((of_pieces, of_last)) =
            frames.split_at_checked(pages).filter(|(_, of_last)| !of_last.is_empty())
        else {
            frames.truncate(set_aside);
            drop(frames);
            self.run(data).map_err(|_| Refusal::Data)?;
            self.write(pieces)?;
            self.flush()?;
            self.write(&[last])?;
            return Ok(self.flush()?);
        };
        let of_data = data.len();
        let flush = || self.info.has_flush.then(flush_request);
        let (batch, _) = self.writes(pieces, of_pieces);
        data.extend(batch);
        let last = [last];
        let (last, _) = self.writes(&last, of_last);
        let following = flush().into_iter().chain(last).chain(flush());
        let result = self.run_in_turn((data, of_data), following);
        frames.truncate(set_aside);
        result
    }

    /// Runs `data` and flushes it, waiting once.
    ///
    /// # Errors
    /// The error of `data`, or else those of [`VolumeDevice::flush`].
    pub(crate) fn write_and_flush(&self, data: Vec<Request>) -> Result<(), Refusal> {
        let of_data = data.len();
        self.run_in_turn((data, of_data), self.info.has_flush.then(flush_request))
    }

    /// Returns the requests that write as many of `pieces` as there is room for in `frames`, and the other pieces.
    fn writes<'p, 'b>(
        &self,
        pieces: &'p [Piece<'b>],
        frames: &[Frame],
    ) -> (Vec<Request>, &'p [Piece<'b>]) {
        let mut batch: Vec<Request> = Vec::new();
        let mut packing = Packing::default();
        for (at, piece) in pieces.iter().enumerate() {
            let place = packing.place(piece);
            let Some(frame) = frames.get(place.page) else {
                return (batch, pieces.get(at..).unwrap_or_default());
            };
            frame.write(place.offset, piece.1);
            self.append(&mut batch, piece, frame, &place);
        }
        (batch, &[])
    }

    /// Adds `piece`, which is in `frame`, to the last request of `batch`, or makes another request.
    fn append(
        &self,
        batch: &mut Vec<Request>,
        piece: &Piece<'_>,
        frame: &Frame,
        place: &PiecePlace,
    ) {
        let length = piece.1.len() as u32;
        let last = batch.last_mut().filter(|_| place.follows);
        if place.offset > 0
            && let Some(end) = last.and_then(|last| last.segments.last_mut())
        {
            end.length += length;
            return;
        }
        let segment = Segment { frame: frame.clone(), offset: 0, length };
        let last = batch.last_mut().filter(|_| place.follows);
        match last.filter(|last| last.segments.len() < self.max_segments()) {
            Some(last) => last.segments.push(segment),
            None => batch.push(Request {
                tag: batch.len() as u64,
                operation: Operation::Write,
                sector: piece.0,
                segments: vec![segment],
            }),
        }
    }

    /// Flushes the device: all completed writes are on stable storage when this returns.
    ///
    /// # Errors
    /// `Io`, `Restarted`.
    pub(crate) fn flush(&self) -> Result<(), FsError> {
        if !self.info.has_flush {
            return Ok(());
        }
        self.run(vec![flush_request()])
    }

    /// Tells the device that the contents of `sectors` sectors are no longer needed.
    ///
    /// # Errors
    /// `Io`, `Restarted`.
    pub(crate) fn discard(&self, sector: u64, sectors: u64) -> Result<(), FsError> {
        let operation = Operation::Discard { sectors };
        self.run(vec![Request { tag: 0, operation, sector, segments: Vec::new() }])
    }

    /// Submits a batch and waits for all of it.
    pub(crate) fn run(&self, mut batch: Vec<Request>) -> Result<(), FsError> {
        if batch.is_empty() {
            return Ok(());
        }
        let waiter = RequestWaiter::new(batch.len());
        let sink: Arc<dyn BlockSink> = Arc::clone(&waiter) as Arc<dyn BlockSink>;
        self.block.submit(&mut batch, &sink);
        waiter.wait(&self.block).map_err(|(_, error)| error)
    }

    /// Submits `batch`, whose first `data` requests write data, and then the requests `following`, each of which begins when
    /// all before it ended well. Waits for the last.
    fn run_in_turn(
        &self,
        (batch, data): (Vec<Request>, usize),
        following: impl IntoIterator<Item = Request>,
    ) -> Result<(), Refusal> {
        let Some(mut sequence) = Sequence::of(batch, following) else { return Ok(()) };
        sequence.requests_mut().zip(0..).for_each(|(request, place)| request.tag = place);
        let waiter = RequestWaiter::new(1);
        let sink: Arc<dyn BlockSink> = Arc::clone(&waiter) as Arc<dyn BlockSink>;
        if let Err(sequence) = self.block.start(sequence, &sink) {
            let owner: Arc<dyn SequenceOwner> = Arc::clone(&waiter) as Arc<dyn SequenceOwner>;
            Course::begin(&self.block, &owner, sequence);
        }
        waiter.wait(&self.block).map_err(|(place, error)| match place < data as u64 {
            true => Refusal::Data,
            false => Refusal::Other(error),
        })
    }

    /// Reads `count` chunks, or only the first if memory is short, and waits. Bytes beyond the device's end are zero.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if the first is beyond the end, `Io`, `NoMemory`, `Restarted`.
    pub(crate) fn read(&self, first: u64, count: u64) -> Result<Vec<ChunkBytes>, FsError> {
        let limit = self.chunks().min(first.saturating_add(count));
        if first >= limit {
            return Err(FsError::Corrupt);
        }
        let mut frames = Vec::new();
        if Frame::allocate_zeroed((limit - first) as usize, &mut frames).is_err() {
            // One frame, which is freed at once, may come from the reserve: the thread that waits for it may be one that frees
            // memory.
            rt::memory::with_reserve(|| Frame::allocate_zeroed(1, &mut frames))
                .map_err(|_| FsError::NoMemory)?;
        }
        let batch = self.requests(first, &frames);
        self.run(batch)?;
        Ok(frames.iter().map(copy_out).collect())
    }

    /// A block, past the cache.
    ///
    /// # Errors
    /// As [`VolumeDevice::read`].
    pub(crate) fn read_block(&self, block_bytes: usize, block: u64) -> Result<Vec<u8>, FsError> {
        let start = block.checked_mul(block_bytes as u64).ok_or(FsError::Corrupt)?;
        let page = PAGE_BYTES as u64;
        let chunks = self.read(start / page, 1)?;
        let offset = (start % page) as usize;
        let chunk = chunks.first().ok_or(FsError::Io)?;
        Ok(chunk.get(offset..offset + block_bytes).ok_or(FsError::Io)?.to_vec())
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

/// The failure of a sequence that begins with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Data failed. Nothing behind it was begun, unless an earlier driver of the device died over that.
    Data,
    /// Something else failed; the data is written.
    Other(FsError),
}

impl Refusal {
    /// Returns the file system's error.
    pub(crate) fn error(self) -> FsError {
        match self {
            Refusal::Data => FsError::Io,
            Refusal::Other(error) => error,
        }
    }
}

impl From<FsError> for Refusal {
    fn from(error: FsError) -> Refusal {
        Refusal::Other(error)
    }
}

/// Places pieces in frames, one after the other. A piece goes behind the one before if it follows that on the device and there
/// is room, else to the start of the next frame.
#[derive(Default)]
struct Packing {
    pages: usize,
    used: usize,
    /// The sector after the last piece.
    end: u64,
}

/// The place of a piece.
struct PiecePlace {
    /// The frame's number, and the offset in it.
    page: usize,
    offset: usize,
    /// The piece follows the one before on the device.
    follows: bool,
}

impl Packing {
    /// Places the next piece.
    fn place(&mut self, (sector, bytes): &Piece<'_>) -> PiecePlace {
        let follows = self.pages > 0 && self.end == *sector;
        if !follows || self.used + bytes.len() > PAGE_BYTES {
            self.pages += 1;
            self.used = 0;
        }
        let place = PiecePlace { page: self.pages - 1, offset: self.used, follows };
        self.used += bytes.len();
        self.end = sector + (bytes.len() / SECTOR_BYTES) as u64;
        place
    }
}

/// Returns the number of frames that `pieces` take.
fn pages_of(pieces: &[Piece<'_>]) -> usize {
    let mut packing = Packing::default();
    pieces.iter().for_each(|piece| {
        packing.place(piece);
    });
    packing.pages
}

/// Adds frames for `pages` pages to the reserved ones, unless memory is short. Returns the number of reserved frames.
fn extend(frames: &mut Vec<Frame>, pages: usize) -> usize {
    let set_aside = frames.len();
    let missing = pages.min(FRAMES_MAX).saturating_sub(set_aside);
    if missing > 0 && !rt::memory::is_short() {
        // If they cannot be allocated, there are more batches.
        let _ = Frame::allocate_unfilled(missing, frames);
    }
    set_aside
}

fn flush_request() -> Request {
    Request { tag: 0, operation: Operation::Flush, sector: 0, segments: Vec::new() }
}

/// Returns the first sector after a request.
pub(crate) fn end_of(request: &Request) -> u64 {
    let bytes: u64 = request.segments.iter().map(|part| u64::from(part.length)).sum();
    request.sector + bytes / SECTOR_BYTES as u64
}

/// Copies a frame, because metadata is parsed in place, which is not safe in a frame that a driver may still have.
fn copy_out(frame: &Frame) -> ChunkBytes {
    let mut bytes = Box::new([0; PAGE_BYTES]);
    frame.read(0, bytes.as_mut_slice());
    bytes
}

/// Converts the error of a request to the file system's error.
pub(crate) fn error_of(error: BlockError) -> FsError {
    match error {
        BlockError::Restarted => FsError::Restarted,
        BlockError::NoMemory => FsError::NoMemory,
        BlockError::ReadOnly => FsError::ReadOnly,
        BlockError::Invalid | BlockError::Device | BlockError::Unsupported => FsError::Io,
    }
}

/// Requests, and the sink that is told of their ends.
type RequestBatch = (Vec<Request>, Arc<dyn BlockSink>);

/// Waits for the last of several requests, or for a sequence.
struct RequestWaiter {
    /// Number of requests begun that have not ended.
    left: AtomicUsize,
    /// The tag of a request that failed, and its error.
    failed: Mutex<Option<(u64, BlockError)>>,
    /// Steps of a sequence for which the device had no room; the waiting thread submits them.
    later: Mutex<Vec<RequestBatch>>,
    /// Signalled when there are such steps, and when no request is left.
    event: Event,
}

impl RequestWaiter {
    /// Makes a waiter for `count` requests.
    fn new(requests: usize) -> Arc<RequestWaiter> {
        Arc::new(RequestWaiter {
            left: AtomicUsize::new(requests),
            failed: Mutex::new(&FAILED, None),
            later: Mutex::new(&LATER, Vec::new()),
            event: Event::new(),
        })
    }

    /// Waits for all requests. Returns the tag of a request that failed, and its error.
    fn wait(&self, block: &BlockHandle) -> Result<(), (u64, FsError)> {
        loop {
            let ticket = self.event.ticket();
            if self.left.load(Acquire) == 0 {
                break;
            }
            let later = core::mem::take(&mut *self.later.lock());
            if later.is_empty() {
                self.event.wait(ticket, None);
            }
            for (mut batch, sink) in later {
                block.submit(&mut batch, &sink);
            }
        }
        let failed = *self.failed.lock();
        failed.map_or(Ok(()), |(tag, error)| Err((tag, error_of(error))))
    }
}

impl BlockSink for RequestWaiter {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
        if let Err(error) = result {
            *self.failed.lock() = Some((tag, error));
        }
        if self.left.fetch_sub(1, AcqRel) == 1 {
            self.event.signal();
        }
    }
}

impl SequenceOwner for RequestWaiter {
    fn may_begin(&self) -> bool {
        true
    }

    fn submit_later(&self, batch: Vec<Request>, sink: Arc<dyn BlockSink>) {
        self.later.lock().push((batch, sink));
        self.event.signal();
    }

    fn ended(&self, _: u64, at: u32, result: Result<(), BlockError>) {
        self.completed(at.into(), result);
    }
}
