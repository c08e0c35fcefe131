//! A block device in memory that checks what it is asked and completes as the test wants.
use interfaces::block::*;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

/// When and in which order requests complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// In order, before `submit` returns.
    AtOnce,
    /// In reverse, on a thread of its own.
    Reversed,
}

/// The device.
pub struct MemoryBlock {
    data: Arc<Vec<u8>>,
    completion: Completion,
    max_segments: usize,
    /// Requests seen.
    pub requests: AtomicUsize,
    /// Segments of the largest request seen.
    pub most_segments: AtomicUsize,
    /// Batches seen, each as its requests' lengths in sectors.
    pub batches: Mutex<Vec<Vec<u64>>>,
    /// Every request fails.
    pub is_broken: AtomicBool,
}

impl MemoryBlock {
    /// A device that holds `data`.
    pub fn new(data: Vec<u8>, completion: Completion, max_segments: usize) -> Arc<MemoryBlock> {
        Arc::new(MemoryBlock {
            data: Arc::new(data),
            completion,
            max_segments,
            requests: AtomicUsize::new(0),
            most_segments: AtomicUsize::new(0),
            batches: Mutex::new(Vec::new()),
            is_broken: AtomicBool::new(false),
        })
    }

    fn serve(data: &[u8], request: &Request, max_segments: usize) -> Result<(), BlockError> {
        assert_eq!(request.operation, Operation::Read, "only reads are asked for");
        assert!(!request.segments.is_empty(), "a request has segments");
        if request.segments.len() > max_segments {
            return Err(BlockError::Invalid);
        }
        let mut at = request.sector as usize * SECTOR_BYTES;
        for segment in &request.segments {
            let (offset, length) = (segment.offset as usize, segment.length as usize);
            assert!(
                length > 0 && offset % 512 == 0 && length % 512 == 0 && offset + length <= 4096
            );
            let part = data.get(at..at + length).ok_or(BlockError::Invalid)?;
            segment.frame.write(offset, part);
            at += length;
        }
        Ok(())
    }
}

impl Block for MemoryBlock {
    fn info(&self) -> BlockInfo {
        BlockInfo {
            name: "mem".into(),
            sectors: (self.data.len() / SECTOR_BYTES) as u64,
            block_bytes: 512,
            is_read_only: true,
            has_flush: false,
            has_discard: false,
            has_write_zeroes: false,
            max_segments: self.max_segments,
            depth: 64,
        }
    }

    fn submit(&self, batch: Vec<Request>, sink: &Arc<dyn BlockSink>) {
        self.requests.fetch_add(batch.len(), SeqCst);
        let sectors = |request: &Request| {
            self.most_segments.fetch_max(request.segments.len(), SeqCst);
            request.segments.iter().map(|part| u64::from(part.length) / 512).sum()
        };
        self.batches.lock().unwrap().push(batch.iter().map(sectors).collect());
        let (data, max_segments) = (Arc::clone(&self.data), self.max_segments);
        let (sink, is_broken) = (Arc::clone(sink), self.is_broken.load(SeqCst));
        let serve = move |request: Request| {
            let result = match is_broken {
                true => Err(BlockError::Device),
                false => MemoryBlock::serve(&data, &request, max_segments),
            };
            sink.completed(request.tag, result);
        };
        match self.completion {
            Completion::AtOnce => batch.into_iter().for_each(serve),
            Completion::Reversed => {
                std::thread::spawn(move || batch.into_iter().rev().for_each(serve));
            }
        }
    }
}
