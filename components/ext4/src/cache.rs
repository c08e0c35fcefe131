//! The metadata cache: chunks of 4 KiB of the device, bounded, the least used dropped first (CLOCK).
//!
//! A chunk never changes, so readers share it without a lock; a writer will put a new version in
//! its place. Each block in a chunk remembers that its checksum was found right.
use crate::device::{ChunkBytes, Device};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::{
    ops::Bound,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};
use interfaces::file_system::FsError;
use rt::{PAGE_BYTES, lock_class, memory::Charge, sync::Mutex};

lock_class! {
    static CACHE = "ext4.cache";
}

/// Bytes of a unit of verification: the smallest block.
const UNIT_BYTES: usize = 1024;
/// What a chunk costs beside its bytes.
const CHUNK_EXTRA_BYTES: usize = 128;

/// 4 KiB of the device.
pub(crate) struct Chunk {
    bytes: ChunkBytes,
    verified: AtomicU8,
    _charge: Charge,
}

struct Slot {
    chunk: Arc<Chunk>,
    was_used: bool,
}

#[derive(Default)]
struct Slots {
    by_number: BTreeMap<u64, Slot>,
    hand: u64,
}

/// Chunks read lately.
pub(crate) struct Cache {
    slots: Mutex<Slots>,
    limit: usize,
}

impl Cache {
    /// An empty cache of at most `limit` chunks.
    pub(crate) fn new(limit: usize) -> Cache {
        Cache { slots: Mutex::new(&CACHE, Slots::default()), limit: limit.max(1) }
    }

    /// The chunk `number`; on a miss it is read together with up to `ahead - 1` that follow it.
    pub(crate) fn get(
        &self,
        device: &Device,
        number: u64,
        ahead: u64,
    ) -> Result<Arc<Chunk>, FsError> {
        if let Some(slot) = self.slots.lock().by_number.get_mut(&number) {
            slot.was_used = true;
            return Ok(Arc::clone(&slot.chunk));
        }
        let mut found = None;
        for (at, bytes) in (number..).zip(device.read(number, ahead.max(1))?) {
            match self.charge() {
                Ok(charge) => {
                    let chunk = self.insert(at, bytes, charge);
                    found.get_or_insert(chunk);
                }
                Err(refused) if found.is_none() => return Err(refused),
                Err(_) => break,
            }
        }
        found.ok_or(FsError::Io)
    }

    /// A charge for a chunk, at the cost of another chunk if need be.
    fn charge(&self) -> Result<Charge, FsError> {
        let bytes = PAGE_BYTES + CHUNK_EXTRA_BYTES;
        Charge::take(bytes)
            .or_else(|_| {
                drop(self.slots.lock().evict());
                Charge::take(bytes)
            })
            .map_err(|_| FsError::NoMemory)
    }

    /// Adds a chunk unless another thread did meanwhile.
    fn insert(&self, number: u64, bytes: ChunkBytes, charge: Charge) -> Arc<Chunk> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.by_number.get(&number) {
            return Arc::clone(&slot.chunk);
        }
        let mut evicted = Vec::new();
        while slots.by_number.len() >= self.limit {
            evicted.extend(slots.evict());
        }
        let chunk = Arc::new(Chunk { bytes, verified: AtomicU8::new(0), _charge: charge });
        slots.by_number.insert(number, Slot { chunk: Arc::clone(&chunk), was_used: false });
        drop(slots);
        chunk
    }
}

impl Slots {
    /// Takes out the next chunk after the hand that was not used since the hand last passed it.
    fn evict(&mut self) -> Option<Arc<Chunk>> {
        // The second round finds every mark cleared.
        for _ in 0..=2 * self.by_number.len() {
            let next = (Bound::Excluded(self.hand), Bound::Unbounded);
            let Some((number, slot)) = self.by_number.range_mut(next).next() else {
                if self.hand == 0 && !self.by_number.contains_key(&0) {
                    return None;
                }
                self.hand = 0;
                if let Some(slot) = self.by_number.remove(&0) {
                    return Some(slot.chunk);
                }
                continue;
            };
            self.hand = *number;
            if !core::mem::take(&mut slot.was_used) {
                let number = *number;
                return self.by_number.remove(&number).map(|slot| slot.chunk);
            }
        }
        None
    }
}

/// A block of the volume, or a part of one, in a chunk.
#[derive(Clone)]
pub(crate) struct BlockRef {
    chunk: Arc<Chunk>,
    offset: usize,
    length: usize,
}

impl BlockRef {
    /// `length` bytes at `offset`, cut at the chunk's end.
    pub(crate) fn new(chunk: Arc<Chunk>, offset: usize, length: usize) -> BlockRef {
        BlockRef { chunk, offset, length }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.chunk.bytes.get(self.offset..self.offset + self.length).unwrap_or(&[])
    }

    /// Runs `check` unless it was right before.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] where the check says no.
    pub(crate) fn verify(&self, check: impl FnOnce(&[u8]) -> bool) -> Result<(), FsError> {
        let mark = 1 << (self.offset / UNIT_BYTES);
        if self.chunk.verified.load(Relaxed) & mark != 0 {
            return Ok(());
        }
        if !check(self.bytes()) {
            return Err(FsError::Corrupt);
        }
        self.chunk.verified.fetch_or(mark, Relaxed);
        Ok(())
    }
}
