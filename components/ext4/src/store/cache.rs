//! The metadata cache: chunks of 4 KiB of the device, limited in number; the least used are dropped first (CLOCK).
//!
//! A reader shares a chunk without a lock. A writer changes a chunk in place if it has no other holder, and
//! otherwise replaces it by a changed copy, so that a chunk that a reader or a commit holds never changes. Each
//! block in a chunk remembers that its checksum was verified.
//!
//! A chunk that a transaction changed stays ([`ChunkState`]) until its blocks are in place on the device. So the limit
//! is exceeded rather than a change lost, and the log commits before that. A chunk also remembers which of its
//! blocks the running transaction has been told of, so that it is told once, and which of them need a new checksum
//! at the end of the transaction: these count as verified until then. Chunks are spread over shards, so that
//! writers in different places do not meet.
use crate::store::{
    class::Class,
    device::{ChunkBytes, VolumeDevice},
    index::{Index, Searched},
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use hash::Seed;
use hashbrown::HashTable;
use interfaces::file_system::FsError;
use rt::{
    PAGE_BYTES, lock_class,
    memory::Charge,
    sync::{Mutex, Once},
};

lock_class! {
    static CACHE = "ext4.cache";
}

/// Bytes of a unit of verification: the smallest block.
const UNIT_BYTES: usize = 1024;
/// Blocks of the smallest size in a chunk.
const UNITS: usize = PAGE_BYTES / UNIT_BYTES;
/// Bytes charged for a chunk in addition to its contents.
const CHUNK_EXTRA_BYTES: usize = 128;
/// Number of shards, a power of two.
const SHARDS: u64 = 8;

/// A piece of 4 KiB of the device.
pub(crate) struct Chunk {
    bytes: ChunkBytes,
    verified: AtomicU8,
    /// Set of directory blocks in the chunk whose names were all checked since the last change.
    sound: AtomicU8,
    /// Of its blocks, by where they begin in the chunk; made when one of them is searched.
    searched: Once<Box<[Searched; UNITS]>>,
    _charge: Charge,
}

/// The reason why a chunk must stay.
#[derive(Clone, Copy, Debug, Default)]
struct ChunkState {
    /// The running transaction changed the chunk.
    is_dirty: bool,
    /// The changes are committed, but not yet in place on the device.
    is_logged: bool,
}

/// The blocks of a chunk that a transaction was told of.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    transaction: u64,
    /// Class of each block, by its offset in the chunk.
    classes: [Option<Class>; UNITS],
    /// Seeds of the blocks that need a new checksum.
    unsummed: [Option<u32>; UNITS],
}

struct ChunkSlot {
    number: u64,
    chunk: Arc<Chunk>,
    was_used: bool,
    state: ChunkState,
    noted: Noted,
}

/// A change of a block, as the log records it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// The running transaction, which cannot end meanwhile.
    pub(crate) transaction: u64,
    /// The block's offset in its chunk.
    pub(crate) offset: usize,
    /// The class of the change, which decides when it may be written in place.
    pub(crate) class: Class,
    /// Seed of the checksum, if that is to be computed at the end of the transaction because the block was
    /// verified. Otherwise the checksum is right now.
    pub(crate) unsummed: Option<u32>,
}

/// Whether the log has been told of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was told of an earlier change in the same transaction.
    Already,
    /// It must be told.
    NotYet,
}

/// The chunks of a shard.
struct ChunkSlots {
    all: Vec<ChunkSlot>,
    /// Index of each chunk in `all`, by the chunk's number.
    places: HashTable<usize>,
    seed: Seed,
    /// Index of the next slot to be dropped, unless it was used.
    hand: usize,
}

/// The chunks that were read lately.
pub(crate) struct Cache {
    shards: [Mutex<ChunkSlots>; SHARDS as usize],
    /// The greatest number of chunks in a shard.
    limit: usize,
}

impl Cache {
    /// Makes an empty cache of at most `limit` chunks.
    pub(crate) fn new(limit: usize) -> Cache {
        let mut bytes = [0; 16];
        rt::entropy::fill(&mut bytes);
        let seed = Seed::new(bytes);
        Cache {
            shards: core::array::from_fn(|_| Mutex::new(&CACHE, ChunkSlots::new(seed))),
            limit: limit.div_ceil(SHARDS as usize).max(1),
        }
    }

    /// Returns the number of chunks that a full cache holds.
    pub(crate) fn capacity(&self) -> usize {
        self.limit * SHARDS as usize
    }

    /// Drops up to `most` chunks that may be dropped. Returns their number.
    pub(crate) fn shrink(&self, most: usize) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            while count < most && shard.lock().evict().is_some() {
                count += 1;
            }
            let mut slots = shard.lock();
            if slots.all.is_empty() {
                // A new table is made because an emptied one keeps its memory.
                *slots = ChunkSlots::new(slots.seed);
            }
        }
        count
    }

    fn shard(&self, number: u64) -> Result<&Mutex<ChunkSlots>, FsError> {
        self.shards.get((number % SHARDS) as usize).ok_or(FsError::Io)
    }

    /// Returns chunk `number`. On a miss it is read together with up to `ahead - 1` chunks behind it.
    pub(crate) fn get(
        &self,
        device: &VolumeDevice,
        number: u64,
        ahead: u64,
    ) -> Result<Arc<Chunk>, FsError> {
        if let Some(slot) = self.shard(number)?.lock().get_mut(number) {
            slot.was_used = true;
            return Ok(Arc::clone(&slot.chunk));
        }
        let mut found = None;
        // A failure of the read-ahead must not make the read of the chunk fail.
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

    /// Returns a charge for a chunk; drops another chunk for it if needed.
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
        if let Some(slot) = slots.get_mut(number) {
            return Ok(Arc::clone(&slot.chunk));
        }
        while slots.all.len() >= self.limit {
            match slots.evict() {
                Some(chunk) => evicted.push(chunk),
                None => break,
            }
        }
        let chunk = Arc::new(Chunk::new(bytes, 0, charge));
        slots.insert(number, Arc::clone(&chunk));
        Ok(chunk)
    }

    /// Returns whether a chunk is in the cache.
    pub(crate) fn holds(&self, number: u64) -> bool {
        self.shard(number).is_ok_and(|shard| shard.lock().get_mut(number).is_some())
    }

    /// Adds a chunk of zeroes, unless the chunk is in the cache. Its contents on the device are meaningless.
    ///
    /// # Errors
    /// [`FsError::Io`] if the cache has no place for the chunk.
    pub(crate) fn put_zeroes(&self, number: u64) -> Result<(), FsError> {
        if self.shard(number)?.lock().get_mut(number).is_none() {
            let charge = self.charge(number).unwrap_or(Charge::none());
            drop(self.insert(number, Box::new([0; PAGE_BYTES]), charge)?);
        }
        Ok(())
    }

    /// Changes a chunk, which is read first unless it is in the cache. Also returns whether the log has been told
    /// of the change; without a `note` it has not.
    pub(crate) fn modify<T>(
        &self,
        device: &VolumeDevice,
        number: u64,
        note: Option<Note>,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<(T, Known), FsError> {
        loop {
            let mut slots = self.shard(number)?.lock();
            if let Some(slot) = slots.get_mut(number) {
                let known = note.map_or(Known::NotYet, |note| slot.note(note));
                return Ok((change(slot.touch()), known));
            }
            drop(slots);
            // Another thread may drop it before this one looks again.
            drop(self.get(device, number, 1)?);
        }
    }

    /// Changes a chunk as [`Cache::modify`] does, whose contents do not matter: it is not read but begins as
    /// zeroes.
    pub(crate) fn modify_fresh<T>(
        &self,
        number: u64,
        note: Note,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<(T, Known), FsError> {
        let charge = self.charge(number).unwrap_or(Charge::none());
        drop(self.insert(number, Box::new([0; PAGE_BYTES]), charge)?);
        let mut slots = self.shard(number)?.lock();
        let slot = slots.get_mut(number).ok_or(FsError::NoMemory)?;
        let known = slot.note(note);
        let bytes = slot.touch();
        bytes.fill(0);
        Ok((change(bytes), known))
    }

    /// Returns a changed chunk as it is now, and changes its state from dirty to logged. If the checksum of the
    /// block at `offset` is due, `sum` computes it from the seed first.
    pub(crate) fn seal(
        &self,
        number: u64,
        offset: usize,
        sum: impl FnOnce(u32, &mut [u8]),
    ) -> Option<Arc<Chunk>> {
        let mut slots = self.shard(number).ok()?.lock();
        let slot = slots.get_mut(number)?;
        if let Some(seed) = slot.noted.take_unsummed(offset) {
            sum(seed, slot.touch());
        }
        slot.state = ChunkState { is_dirty: false, is_logged: true };
        Some(Arc::clone(&slot.chunk))
    }

    /// Called when the logged changes of the chunk are in place.
    pub(crate) fn settle(&self, number: u64) {
        if let Ok(shard) = self.shard(number)
            && let Some(slot) = shard.lock().get_mut(number)
        {
            slot.state.is_logged = false;
        }
    }

    /// Forgets the block at `offset` of the chunk, which the running transaction has freed. If it changed no other
    /// block of the chunk, the chunk may be dropped.
    pub(crate) fn forget(&self, number: u64, transaction: u64, offset: usize) {
        if let Ok(shard) = self.shard(number)
            && let Some(slot) = shard.lock().get_mut(number)
        {
            slot.state.is_dirty &= slot.noted.remove(transaction, offset);
        }
    }
}

impl Noted {
    /// Notes a change. Returns whether the log was told of an equal change of the block before.
    fn add(&mut self, note: Note) -> Known {
        if self.transaction != note.transaction {
            *self = Noted { transaction: note.transaction, ..Noted::default() };
        }
        if let Some(unsummed) = self.unsummed.get_mut(note.offset / UNIT_BYTES) {
            *unsummed = note.unsummed;
        }
        let Some(class) = self.classes.get_mut(note.offset / UNIT_BYTES) else {
            return Known::NotYet;
        };
        if class.is_some_and(|class| class.with(note.class) == class) {
            return Known::Already;
        }
        *class = Some(note.class);
        Known::NotYet
    }

    /// Takes the seed of a block whose checksum is due.
    fn take_unsummed(&mut self, offset: usize) -> Option<u32> {
        self.unsummed.get_mut(offset / UNIT_BYTES)?.take()
    }

    /// Removes a block. Returns whether the transaction was told of other blocks.
    fn remove(&mut self, transaction: u64, offset: usize) -> bool {
        self.take_unsummed(offset);
        if let Some(class) = self.classes.get_mut(offset / UNIT_BYTES) {
            *class = None;
        }
        self.transaction == transaction && self.classes.iter().any(Option::is_some)
    }
}

impl ChunkSlot {
    /// Prepares for a change of a block.
    fn note(&mut self, note: Note) -> Known {
        if note.unsummed.is_some() {
            // The checksum is not right until the end of the transaction.
            self.chunk.verified.fetch_or(1 << (note.offset / UNIT_BYTES), Relaxed);
        }
        self.noted.add(note)
    }

    /// Returns the bytes to be changed: the chunk's own, or those of a copy if it has readers.
    fn touch(&mut self) -> &mut [u8] {
        self.was_used = true;
        self.state.is_dirty = true;
        if Arc::get_mut(&mut self.chunk).is_none() {
            // A change under way must not fail: without a charge the copy exists uncharged.
            let charge = Charge::take(PAGE_BYTES + CHUNK_EXTRA_BYTES).unwrap_or(Charge::none());
            let verified = self.chunk.verified.load(Relaxed);
            self.chunk = Arc::new(Chunk::new(self.chunk.bytes.clone(), verified, charge));
        }
        match Arc::get_mut(&mut self.chunk) {
            Some(chunk) => {
                *chunk.sound.get_mut() = 0;
                if chunk.searched.get().is_some() {
                    chunk.searched = Once::new();
                }
                chunk.bytes.as_mut_slice()
            }
            None => &mut [],
        }
    }
}

impl ChunkSlots {
    fn new(seed: Seed) -> ChunkSlots {
        ChunkSlots { all: Vec::new(), places: HashTable::new(), seed, hand: 0 }
    }

    fn place(&self, number: u64) -> Option<usize> {
        let is_it = |place: &usize| self.all.get(*place).is_some_and(|slot| slot.number == number);
        self.places.find(self.seed.hash_number(number), is_it).copied()
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut ChunkSlot> {
        let place = self.place(number)?;
        self.all.get_mut(place)
    }

    /// Adds a chunk that is not in the table.
    fn insert(&mut self, number: u64, chunk: Arc<Chunk>) {
        let ChunkSlots { all, places, seed, .. } = self;
        let (state, noted) = (ChunkState::default(), Noted::default());
        let place = all.len();
        all.push(ChunkSlot { number, chunk, was_used: false, state, noted });
        places.insert_unique(seed.hash_number(number), place, |place| {
            all.get(*place).map_or(0, |slot| seed.hash_number(slot.number))
        });
    }

    /// Removes a slot; the last slot takes its place.
    fn remove(&mut self, place: usize) -> Option<Arc<Chunk>> {
        let ChunkSlots { all, places, seed, .. } = self;
        let number = all.get(place)?.number;
        if let Ok(entry) = places.find_entry(seed.hash_number(number), |at| *at == place) {
            entry.remove();
        }
        let last = all.len() - 1;
        let slot = all.swap_remove(place);
        if let Some(moved) = all.get(place)
            && let Some(at) = places.find_mut(seed.hash_number(moved.number), |at| *at == last)
        {
            *at = place;
        }
        Some(slot.chunk)
    }

    /// Removes the next chunk from the hand on that may be dropped and was not used since the hand last passed it.
    fn evict(&mut self) -> Option<Arc<Chunk>> {
        // The second round finds every mark cleared.
        for _ in 0..2 * self.all.len() {
            if self.hand >= self.all.len() {
                self.hand = 0;
            }
            let slot = self.all.get_mut(self.hand)?;
            let must_stay = slot.state.is_dirty || slot.state.is_logged;
            if !core::mem::take(&mut slot.was_used) && !must_stay {
                return self.remove(self.hand);
            }
            self.hand += 1;
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
    /// Makes a reference to `length` bytes at `offset`, cut at the chunk's end.
    pub(crate) fn new(chunk: Arc<Chunk>, offset: usize, length: usize) -> BlockRef {
        BlockRef { chunk, offset, length }
    }

    /// Returns the bytes of the block.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.chunk.bytes.get(self.offset..self.offset + self.length).unwrap_or(&[])
    }

    /// The index of the keys in the block, which `make` makes if it is searched often enough.
    pub(crate) fn index(&self, make: impl FnOnce() -> Option<Index>) -> Option<&Index> {
        let searched = self.chunk.searched.get_or_init(Default::default);
        searched.get(self.offset / UNIT_BYTES)?.index(make)
    }

    /// The index of the keys in the block, if one was made.
    pub(crate) fn made_index(&self) -> Option<&Index> {
        self.chunk.searched.get()?.get(self.offset / UNIT_BYTES)?.made()
    }

    /// Returns the bit of the block in its chunk.
    fn mark(&self) -> u8 {
        1 << (self.offset / UNIT_BYTES)
    }

    /// Returns whether every name in the directory block was checked since it was last changed.
    pub(crate) fn is_sound(&self) -> bool {
        self.chunk.sound.load(Relaxed) & self.mark() != 0
    }

    /// Notes that every name was checked.
    pub(crate) fn set_sound(&self) {
        self.chunk.sound.fetch_or(self.mark(), Relaxed);
    }

    /// Runs `check` unless the block was verified before.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if the check fails.
    #[inline]
    pub(crate) fn verify(&self, check: impl FnOnce(&[u8]) -> bool) -> Result<(), FsError> {
        let mark = self.mark();
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
    fn new(bytes: ChunkBytes, verified: u8, charge: Charge) -> Chunk {
        let searched = Once::new();
        let (verified, sound) = (AtomicU8::new(verified), AtomicU8::new(0));
        Chunk { bytes, verified, sound, searched, _charge: charge }
    }

    /// Returns a reference to `length` bytes at `offset`.
    pub(crate) fn part(&self, offset: usize, length: usize) -> &[u8] {
        self.bytes.get(offset..offset + length).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(transaction: u64, offset: usize, class: Class) -> Note {
        Note { transaction, offset, class, unsummed: None }
    }

    #[test]
    fn the_log_is_told_of_a_block_once_a_transaction_and_class() {
        let mut noted = Noted::default();
        assert_eq!(noted.add(note(1, 0, Class::Directory)), Known::NotYet);
        assert_eq!(noted.add(note(1, 0, Class::Directory)), Known::Already);
        assert_eq!(noted.add(note(1, 1024, Class::Directory)), Known::NotYet, "another block");
        assert_eq!(noted.add(note(1, 0, Class::Index)), Known::NotYet);
        assert_eq!(noted.add(note(1, 0, Class::Directory)), Known::Already, "an index it stays");
        assert_eq!(noted.add(note(1, 0, Class::Fresh)), Known::NotYet);
        assert_eq!(noted.add(note(2, 0, Class::Other)), Known::NotYet, "another transaction");
    }

    #[test]
    fn a_chunk_may_go_when_all_its_changed_blocks_were_freed() {
        let cache = Cache::new(1);
        for offset in [0, 1024] {
            cache.modify_fresh(8, note(1, offset, Class::Fresh), |_| ()).unwrap();
        }
        assert_eq!(cache.shrink(1), 0, "changed");
        cache.forget(8, 1, 0);
        assert_eq!(cache.shrink(1), 0, "another block of it is changed");
        cache.forget(8, 1, 1024);
        assert_eq!(cache.shrink(1), 1);
    }

    #[test]
    fn chunks_are_found_whatever_went_before_them() {
        let mut slots = ChunkSlots::new(Seed::new([7; 16]));
        let chunk = |number: u64| {
            let bytes = Box::new([number as u8; PAGE_BYTES]);
            Arc::new(Chunk::new(bytes, 0, Charge::none()))
        };
        (0..100).for_each(|number| slots.insert(number, chunk(number)));
        for number in (0..100).filter(|number| number % 3 == 0) {
            slots.get_mut(number).unwrap().was_used = true;
        }
        for gone in 1..=66 {
            assert_ne!(slots.evict().unwrap().part(0, 1)[0] % 3, 0, "used ones stay longer");
            let is_found = |number: &u64| {
                let slot = slots.get_mut(*number);
                slot.is_some_and(|slot| slot.chunk.part(0, 1) == [*number as u8])
            };
            assert_eq!((0..100).filter(is_found).count(), 100 - gone);
        }
        assert_eq!(core::iter::from_fn(|| slots.evict()).count(), 34);
        assert!(slots.places.is_empty());
    }
}
