//! A block device in memory that checks its requests and completes them as the test wants.
use interfaces::block::*;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

/// The time and the order in which requests complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Requests end in order, before `submit` returns.
    AtOnce,
    /// Requests end in reverse order, on a separate thread.
    Reversed,
}

/// Requests that reached the device, in order.
#[derive(Clone, Debug)]
pub enum Event {
    /// Bytes were written at a sector.
    Write(u64, Vec<u8>),
    /// Everything before this event is on stable storage.
    Flush,
}

/// A block device in memory.
pub struct MemoryBlock {
    data: Arc<Mutex<Vec<u8>>>,
    is_read_only: bool,
    /// The writes, if they are recorded.
    pub events: Arc<Mutex<Option<Vec<Event>>>>,
    /// Number of sectors discarded.
    pub discarded: Arc<AtomicUsize>,
    /// Requests that may still be written before every further one fails.
    pub writes_left: Arc<AtomicUsize>,
    completion: Completion,
    max_segments: usize,
    /// Number of requests.
    pub requests: AtomicUsize,
    /// Segments of the largest request seen.
    pub most_segments: AtomicUsize,
    /// Batches seen, each as its requests' lengths in sectors.
    pub batches: Mutex<Vec<Vec<u64>>>,
    /// Every request fails.
    pub is_broken: AtomicBool,
    /// Sectors that fail: for which operation, and for how many more requests.
    pub faults: Arc<Mutex<Vec<Fault>>>,
    /// Number of requests offered; every other one is refused, as by a device that is full for a
    /// moment.
    pub offered: AtomicUsize,
}

/// A sector that returns an error.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub operation: Operation,
    pub sector: u64,
    /// Number of requests with it that still fail.
    pub left: usize,
}

impl MemoryBlock {
    /// Makes a device that holds `data`.
    pub fn new(data: Vec<u8>, completion: Completion, max_segments: usize) -> Arc<MemoryBlock> {
        MemoryBlock::make(data, completion, max_segments, true)
    }

    /// Makes a device that can also be written.
    pub fn writable(
        data: Vec<u8>,
        completion: Completion,
        max_segments: usize,
    ) -> Arc<MemoryBlock> {
        MemoryBlock::make(data, completion, max_segments, false)
    }

    /// Returns its present contents.
    pub fn image(&self) -> Vec<u8> {
        self.data.lock().unwrap().clone()
    }

    fn make(
        data: Vec<u8>,
        completion: Completion,
        max_segments: usize,
        is_read_only: bool,
    ) -> Arc<MemoryBlock> {
        Arc::new(MemoryBlock {
            data: Arc::new(Mutex::new(data)),
            is_read_only,
            events: Arc::new(Mutex::new(None)),
            discarded: Arc::new(AtomicUsize::new(0)),
            writes_left: Arc::new(AtomicUsize::new(usize::MAX)),
            completion,
            max_segments,
            requests: AtomicUsize::new(0),
            most_segments: AtomicUsize::new(0),
            batches: Mutex::new(Vec::new()),
            is_broken: AtomicBool::new(false),
            faults: Arc::default(),
            offered: AtomicUsize::new(0),
        })
    }

    fn serve(shared: &Shared, request: &Request) -> Result<(), BlockError> {
        let mut data = shared.data.lock().unwrap();
        match request.operation {
            Operation::Flush => {
                assert!(request.segments.is_empty() && !shared.is_read_only);
                if let Some(events) = &mut *shared.events.lock().unwrap() {
                    events.push(Event::Flush);
                }
                return Ok(());
            }
            Operation::Discard { sectors } => {
                let start = request.sector as usize * SECTOR_BYTES;
                let end = start + sectors as usize * SECTOR_BYTES;
                data.get_mut(start..end).ok_or(BlockError::Invalid)?.fill(0xdd);
                shared.discarded.fetch_add(sectors as usize, SeqCst);
                return Ok(());
            }
            Operation::WriteZeroes { .. } => return Err(BlockError::Unsupported),
            Operation::Read | Operation::Write => {}
        }
        assert!(!request.segments.is_empty(), "a request has segments");
        let bytes: u64 = request.segments.iter().map(|part| u64::from(part.length)).sum();
        let sectors = request.sector..request.sector + bytes / SECTOR_BYTES as u64;
        for fault in shared.faults.lock().unwrap().iter_mut() {
            let is_met = fault.operation == request.operation && sectors.contains(&fault.sector);
            if is_met && fault.left > 0 {
                fault.left -= 1;
                return Err(BlockError::Device);
            }
        }
        if request.segments.len() > shared.max_segments {
            return Err(BlockError::Invalid);
        }
        if request.operation == Operation::Write {
            assert!(!shared.is_read_only, "a read-only device is not written");
            let left = shared.writes_left.load(SeqCst);
            if left == 0 {
                return Err(BlockError::Device);
            }
            shared.writes_left.store(left - usize::from(left != usize::MAX), SeqCst);
        }
        let first = request.sector as usize * SECTOR_BYTES;
        let mut at = first;
        for segment in &request.segments {
            let (offset, length) = (segment.offset as usize, segment.length as usize);
            assert!(
                length > 0 && offset % 512 == 0 && length % 512 == 0 && offset + length <= 4096
            );
            let part = data.get_mut(at..at + length).ok_or(BlockError::Invalid)?;
            match request.operation {
                Operation::Read => drop(segment.frame.write(offset, part)),
                _ => drop(segment.frame.read(offset, part)),
            }
            at += length;
        }
        if request.operation == Operation::Write
            && let Some(events) = &mut *shared.events.lock().unwrap()
        {
            events.push(Event::Write(request.sector, data[first..at].to_vec()));
        }
        Ok(())
    }
}

/// The state that serving a request needs.
struct Shared {
    data: Arc<Mutex<Vec<u8>>>,
    events: Arc<Mutex<Option<Vec<Event>>>>,
    discarded: Arc<AtomicUsize>,
    writes_left: Arc<AtomicUsize>,
    faults: Arc<Mutex<Vec<Fault>>>,
    max_segments: usize,
    is_read_only: bool,
}

impl Block for MemoryBlock {
    fn info(&self) -> BlockInfo {
        BlockInfo {
            name: "mem".into(),
            sectors: (self.data.lock().unwrap().len() / SECTOR_BYTES) as u64,
            block_bytes: 512,
            is_read_only: self.is_read_only,
            has_flush: !self.is_read_only,
            has_discard: !self.is_read_only,
            has_write_zeroes: false,
            max_segments: self.max_segments,
            depth: 64,
        }
    }

    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        self.requests.fetch_add(batch.len(), SeqCst);
        let sectors = |request: &Request| {
            self.most_segments.fetch_max(request.segments.len(), SeqCst);
            request.segments.iter().map(|part| u64::from(part.length) / 512).sum()
        };
        self.batches.lock().unwrap().push(batch.iter().map(sectors).collect());
        let shared = Shared {
            data: Arc::clone(&self.data),
            events: Arc::clone(&self.events),
            discarded: Arc::clone(&self.discarded),
            writes_left: Arc::clone(&self.writes_left),
            faults: Arc::clone(&self.faults),
            max_segments: self.max_segments,
            is_read_only: self.is_read_only,
        };
        let (sink, is_broken) = (Arc::clone(sink), self.is_broken.load(SeqCst));
        let serve = move |request: Request| {
            let result = match is_broken {
                true => Err(BlockError::Device),
                false => MemoryBlock::serve(&shared, &request),
            };
            sink.completed(request.tag, result);
        };
        let batch = std::mem::take(batch);
        match self.completion {
            Completion::AtOnce => batch.into_iter().for_each(serve),
            Completion::Reversed => {
                std::thread::spawn(move || batch.into_iter().rev().for_each(serve));
            }
        }
    }

    fn offer(&self, request: Request, sink: &Arc<dyn BlockSink>) -> Result<(), Request> {
        if self.offered.fetch_add(1, SeqCst) % 2 == 1 {
            return Err(request);
        }
        self.submit(&mut vec![request], sink);
        Ok(())
    }
}
