//! The metadata cache: chunks of 4 KiB of the device, bounded, the least used dropped first (CLOCK).
//!
//! A reader shares a chunk without a lock. A writer changes it in place while nobody else holds it
//! and puts a changed copy in its place where somebody does, so that what a reader or a commit
//! holds never changes. Each block in a chunk remembers that its checksum was found right.
//!
//! A chunk that a transaction changed stays ([`State`]) until its blocks lie in place on the device;
//! so the limit is exceeded rather than a change lost, and the log commits before that.
//! Chunks are spread over shards, so that writers in different places do not meet.
use crate::device::{ChunkBytes, Device};
use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
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
/// A power of two.
const SHARDS: u64 = 8;

/// 4 KiB of the device.
pub(crate) struct Chunk {
    bytes: ChunkBytes,
    verified: AtomicU8,
    _charge: Charge,
}

/// Why a chunk must stay.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Changed by the running transaction.
    is_dirty: bool,
    /// Committed, but not yet in place on the device.
    is_logged: bool,
}

struct Slot {
    chunk: Arc<Chunk>,
    was_used: bool,
    state: State,
}

#[derive(Default)]
struct Slots {
    by_number: BTreeMap<u64, Slot>,
    hand: u64,
}

/// Chunks read lately.
pub(crate) struct Cache {
    shards: [Mutex<Slots>; SHARDS as usize],
    /// Chunks a shard.
    limit: usize,
}

impl Cache {
    /// An empty cache of at most `limit` chunks.
    pub(crate) fn new(limit: usize) -> Cache {
        Cache {
            shards: core::array::from_fn(|_| Mutex::new(&CACHE, Slots::default())),
            limit: limit.div_ceil(SHARDS as usize).max(1),
        }
    }

    /// Chunks it holds when full.
    pub(crate) fn capacity(&self) -> usize {
        self.limit * SHARDS as usize
    }

    /// Drops up to `most` chunks that may go; returns how many did.
    pub(crate) fn shrink(&self, most: usize) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            while count < most && shard.lock().evict().is_some() {
                count += 1;
            }
            let mut slots = shard.lock();
            if slots.by_number.is_empty() {
                // An emptied map keeps a node.
                slots.by_number = BTreeMap::new();
            }
        }
        count
    }

    fn shard(&self, number: u64) -> Result<&Mutex<Slots>, FsError> {
        self.shards.get((number % SHARDS) as usize).ok_or(FsError::Io)
    }

    /// The chunk `number`; on a miss it is read together with up to `ahead - 1` that follow it.
    pub(crate) fn get(
        &self,
        device: &Device,
        number: u64,
        ahead: u64,
    ) -> Result<Arc<Chunk>, FsError> {
        if let Some(slot) = self.shard(number)?.lock().by_number.get_mut(&number) {
            slot.was_used = true;
            return Ok(Arc::clone(&slot.chunk));
        }
        let mut found = None;
        // What is read ahead must not keep the chunk from being read.
        let read = match device.read(number, ahead.max(1)) {
            Err(FsError::Io) if ahead > 1 => device.read(number, 1),
            read => read,
        };
        for (at, bytes) in (number..).zip(read?) {
            match self.charge(at) {
                Ok(charge) => {
                    let chunk = self.insert(at, bytes, charge)?;
                    found.get_or_insert(chunk);
                }
                Err(refused) if found.is_none() => return Err(refused),
                Err(_) => break,
            }
        }
        found.ok_or(FsError::Io)
    }

    /// A charge for a chunk, at the cost of another chunk if need be.
    fn charge(&self, number: u64) -> Result<Charge, FsError> {
        let bytes = PAGE_BYTES + CHUNK_EXTRA_BYTES;
        Charge::take(bytes).or_else(|_| {
            drop(self.shard(number)?.lock().evict());
            Charge::take(bytes).map_err(|_| FsError::NoMemory)
        })
    }

    /// Adds a chunk unless another thread did meanwhile.
    fn insert(
        &self,
        number: u64,
        bytes: ChunkBytes,
        charge: Charge,
    ) -> Result<Arc<Chunk>, FsError> {
        let mut evicted = Vec::new();
        let mut slots = self.shard(number)?.lock();
        if let Some(slot) = slots.by_number.get(&number) {
            return Ok(Arc::clone(&slot.chunk));
        }
        while slots.by_number.len() >= self.limit {
            match slots.evict() {
                Some(chunk) => evicted.push(chunk),
                None => break,
            }
        }
        let chunk = Arc::new(Chunk { bytes, verified: AtomicU8::new(0), _charge: charge });
        let (slot_chunk, state) = (Arc::clone(&chunk), State::default());
        slots.by_number.insert(number, Slot { chunk: slot_chunk, was_used: false, state });
        Ok(chunk)
    }

    /// Changes a chunk, which is read first unless it is here.
    pub(crate) fn modify<T>(
        &self,
        device: &Device,
        number: u64,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, FsError> {
        loop {
            let mut slots = self.shard(number)?.lock();
            if let Some(slot) = slots.by_number.get_mut(&number) {
                return Ok(change(slot.touch()));
            }
            drop(slots);
            // Another thread may drop it before we look again.
            drop(self.get(device, number, 1)?);
        }
    }

    /// As `modify`, of a chunk whose contents do not matter: it is not read but begins as zeroes.
    pub(crate) fn modify_fresh<T>(
        &self,
        number: u64,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, FsError> {
        let charge = self.charge(number).unwrap_or(Charge::none());
        drop(self.insert(number, Box::new([0; PAGE_BYTES]), charge)?);
        let mut slots = self.shard(number)?.lock();
        let slot = slots.by_number.get_mut(&number).ok_or(FsError::NoMemory)?;
        let bytes = slot.touch();
        bytes.fill(0);
        Ok(change(bytes))
    }

    /// A changed chunk as it is now: its state goes from dirty to logged.
    pub(crate) fn seal(&self, number: u64) -> Option<Arc<Chunk>> {
        let mut slots = self.shard(number).ok()?.lock();
        let slot = slots.by_number.get_mut(&number)?;
        slot.state = State { is_dirty: false, is_logged: true };
        Some(Arc::clone(&slot.chunk))
    }

    /// What was logged of the chunk is in place now.
    pub(crate) fn settle(&self, number: u64) {
        if let Ok(shard) = self.shard(number)
            && let Some(slot) = shard.lock().by_number.get_mut(&number)
        {
            slot.state.is_logged = false;
        }
    }
}

impl Slot {
    /// The bytes to be changed: the chunk's own, or a copy's where somebody reads them.
    fn touch(&mut self) -> &mut [u8] {
        self.was_used = true;
        self.state.is_dirty = true;
        if Arc::get_mut(&mut self.chunk).is_none() {
            // A change on its way must not fail: without a charge the copy lives uncharged.
            let charge = Charge::take(PAGE_BYTES + CHUNK_EXTRA_BYTES).unwrap_or(Charge::none());
            self.chunk = Arc::new(Chunk {
                bytes: self.chunk.bytes.clone(),
                verified: AtomicU8::new(self.chunk.verified.load(Relaxed)),
                _charge: charge,
            });
        }
        match Arc::get_mut(&mut self.chunk) {
            Some(chunk) => chunk.bytes.as_mut_slice(),
            None => &mut [],
        }
    }
}

impl Slots {
    /// Takes out the next chunk after the hand that may go and was not used since the hand last
    /// passed it.
    fn evict(&mut self) -> Option<Arc<Chunk>> {
        // The second round finds every mark cleared.
        for _ in 0..=2 * self.by_number.len() {
            let next = (Bound::Excluded(self.hand), Bound::Unbounded);
            let first = self.by_number.range_mut(next).next();
            let (number, slot) = match first {
                Some(found) => found,
                None => {
                    self.hand = 0;
                    self.by_number.iter_mut().next()?
                }
            };
            self.hand = *number;
            let must_stay = slot.state.is_dirty || slot.state.is_logged;
            if !core::mem::take(&mut slot.was_used) && !must_stay {
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

impl Chunk {
    /// `length` bytes at `offset`.
    pub(crate) fn part(&self, offset: usize, length: usize) -> &[u8] {
        self.bytes.get(offset..offset + length).unwrap_or(&[])
    }
}
