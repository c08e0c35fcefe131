//! A ring between two parties that share memory and need not trust each other.
//!
//! ```text
//! word 0 entries written (producer's)    word 8 entries taken (consumer's)
//!      1 the producer waits                   9 the consumer waits
//! word 16 and on: entries, each rounded up to whole words
//! ```
//! The words on one cache line are written by the party named. Entries are plain data, copied out
//! once and then checked by their user; counts that the other party wrote are checked here
//! ([`Corrupt`]), and each party believes only its own copy of its own count. Counts have 64 bits
//! and do not wrap. A party that finds the ring full (or empty) announces that it waits, looks
//! again, and only then blocks by whatever means its world has; the other party is told by
//! [`Doorbell`] when that is to be rung.
use crate::atomic::{AtomicU64, Ordering::*, fence};
use core::marker::PhantomData;
use zerocopy::{FromBytes, Immutable, IntoBytes};

const WRITTEN: usize = 0;
const PRODUCER_WAITS: usize = 1;
const TAKEN: usize = 8;
const CONSUMER_WAITS: usize = 9;
const ENTRIES: usize = 16;
const WORD_BYTES: usize = 8;
/// Longest entry, in words: that of a message.
const ENTRY_WORDS_MAX: usize = 64;

/// Whether the other party waits and must be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Doorbell {
    /// It waits: ring.
    Ring,
    /// It does not.
    Silent,
}

/// The other party wrote a count that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Why an entry was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// Every place is taken.
    Full,
    /// See [`Corrupt`].
    Corrupt,
}

/// What may travel: plain data of at most 64 words.
pub trait Entry: FromBytes + IntoBytes + Immutable + Copy {}
impl<T: FromBytes + IntoBytes + Immutable + Copy> Entry for T {}

/// What both halves know: the memory, and how many entries there are.
#[derive(Debug)]
struct Shared<'m, T> {
    words: &'m [AtomicU64],
    capacity: u64,
    entries: PhantomData<fn(T) -> T>,
}

/// The sending half. There is one, on one thread at a time.
#[derive(Debug)]
pub struct Producer<'m, T> {
    shared: Shared<'m, T>,
    written: u64,
}

/// The receiving half. There is one, on one thread at a time.
#[derive(Debug)]
pub struct Consumer<'m, T> {
    shared: Shared<'m, T>,
    taken: u64,
}

/// Words of memory a ring of `capacity` entries of `T` takes.
pub const fn words_for<T>(capacity: usize) -> usize {
    ENTRIES + capacity * size_of::<T>().div_ceil(WORD_BYTES)
}

impl<'m, T: Entry> Shared<'m, T> {
    const ENTRY_WORDS: usize = {
        let words = size_of::<T>().div_ceil(WORD_BYTES);
        assert!(words > 0 && words <= ENTRY_WORDS_MAX, "an entry has 1 to 64 words");
        words
    };

    fn new(words: &'m [AtomicU64]) -> Option<Shared<'m, T>> {
        let capacity = words.len().checked_sub(ENTRIES)? / Self::ENTRY_WORDS;
        (capacity > 0).then_some(Shared { words, capacity: capacity as u64, entries: PhantomData })
    }

    /// The words of entry number `count`.
    fn entry(&self, count: u64) -> &'m [AtomicU64] {
        let start = ENTRIES + (count % self.capacity) as usize * Self::ENTRY_WORDS;
        &self.words[start..start + Self::ENTRY_WORDS]
    }

    /// Entries between the two counts, checked.
    fn between(&self, taken: u64, written: u64) -> Result<u64, Corrupt> {
        written.checked_sub(taken).filter(|count| *count <= self.capacity).ok_or(Corrupt)
    }

    /// After our own count moved: whether the other party announced that it waits.
    fn doorbell(&self, waits: usize) -> Doorbell {
        // With the fence in `announce`: of the two, one sees what the other wrote before it.
        fence(SeqCst);
        if self.words[waits].load(Relaxed) == 0 {
            return Doorbell::Silent;
        }
        self.words[waits].store(0, Relaxed);
        Doorbell::Ring
    }

    fn announce(&self, waits: usize) {
        self.words[waits].store(1, Relaxed);
        fence(SeqCst);
    }
}

impl<'m, T: Entry> Producer<'m, T> {
    /// The sending half of a ring in zeroed `words`; `None` where not one entry fits.
    pub fn new(words: &'m [AtomicU64]) -> Option<Producer<'m, T>> {
        Some(Producer { shared: Shared::new(words)?, written: 0 })
    }

    /// Sends one entry.
    ///
    /// # Errors
    /// [`PushError`].
    pub fn push(&mut self, entry: &T) -> Result<Doorbell, PushError> {
        let shared = &self.shared;
        let taken = shared.words[TAKEN].load(Acquire);
        let count = shared.between(taken, self.written).map_err(|_| PushError::Corrupt)?;
        if count == shared.capacity {
            return Err(PushError::Full);
        }
        for (word, bytes) in
            shared.entry(self.written).iter().zip(entry.as_bytes().chunks(WORD_BYTES))
        {
            let mut value = [0; WORD_BYTES];
            value[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(value), Relaxed);
        }
        self.written += 1;
        shared.words[WRITTEN].store(self.written, Release);
        Ok(shared.doorbell(CONSUMER_WAITS))
    }

    /// Announces that we wait for room; `true` if there is still none, so that we may block.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn wait_begins(&mut self) -> Result<bool, Corrupt> {
        self.shared.announce(PRODUCER_WAITS);
        let taken = self.shared.words[TAKEN].load(Acquire);
        Ok(self.shared.between(taken, self.written)? == self.shared.capacity)
    }
}

impl<'m, T: Entry> Consumer<'m, T> {
    /// The receiving half of a ring in zeroed `words`; `None` where not one entry fits.
    pub fn new(words: &'m [AtomicU64]) -> Option<Consumer<'m, T>> {
        Some(Consumer { shared: Shared::new(words)?, taken: 0 })
    }

    /// The next entry, copied out, and whether the producer must be woken.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn pop(&mut self) -> Result<Option<(T, Doorbell)>, Corrupt> {
        let shared = &self.shared;
        let written = shared.words[WRITTEN].load(Acquire);
        if shared.between(self.taken, written)? == 0 {
            return Ok(None);
        }
        let mut entry = T::new_zeroed();
        for (word, bytes) in
            shared.entry(self.taken).iter().zip(bytes_of(&mut entry).chunks_mut(WORD_BYTES))
        {
            let value = word.load(Relaxed).to_le_bytes();
            bytes.copy_from_slice(&value[..bytes.len()]);
        }
        self.taken += 1;
        shared.words[TAKEN].store(self.taken, Release);
        Ok(Some((entry, shared.doorbell(PRODUCER_WAITS))))
    }

    /// Announces that we wait for entries; `true` if there is still none, so that we may block.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn wait_begins(&mut self) -> Result<bool, Corrupt> {
        self.shared.announce(CONSUMER_WAITS);
        let written = self.shared.words[WRITTEN].load(Acquire);
        Ok(self.shared.between(self.taken, written)? == 0)
    }
}

fn bytes_of<T: Entry>(entry: &mut T) -> &mut [u8] {
    entry.as_mut_bytes()
}
