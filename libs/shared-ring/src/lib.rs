//! A ring between two parties that share memory and need not trust each other.
//!
//! ```text
//! word 0 entries written (producer's)    word 8 entries taken (consumer's)
//!      1 the producer waits                   9 the consumer waits
//! word 16 and on: entries, each rounded up to whole words
//! ```
//! The words on one cache line are written by the party named. Entries are plain data, copied out once and then checked
//! by their user. Counts that the other party wrote are checked here ([`Corrupt`]), and each party uses only its own copy
//! of its own count. Counts have 64 bits and do not wrap. A party that finds the ring full (or empty) announces that it
//! waits, looks again, and only then blocks by the means of its world; [`Doorbell`] tells the other party when it must
//! wake it.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, fence};
use core::{marker::PhantomData, sync::atomic::Ordering::*};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, fence};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const WRITTEN: usize = 0;
/// The word that is [`WAITS`] while the producer waits.
pub const PRODUCER_WAITS: usize = 1;
const TAKEN: usize = 8;
/// The word that is [`WAITS`] while the consumer waits.
pub const CONSUMER_WAITS: usize = 9;
/// The value of the word of a party that waits. The other party stores 0 when it wakes that party.
pub const WAITS: u64 = 1;
const ENTRIES: usize = 16;
const WORD_BYTES: usize = 8;
/// Longest entry, in words: that of a message.
const ENTRY_WORDS_MAX: usize = 64;

/// Whether the other party waits and must be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Doorbell {
    /// The other party waits and must be woken.
    Ring,
    /// The other party does not wait.
    Silent,
}

/// The error for an impossible count from the other party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// The reason why an entry was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The ring is full.
    Full,
    /// The other party wrote an impossible count.
    Corrupt,
}

/// Memory that two parties share, or a part of it. The words stay the same as long as it lives.
pub trait Memory {
    /// Returns all words.
    fn words(&self) -> &[AtomicU64];
}

impl Memory for &[AtomicU64] {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// The contents of an entry: plain data of at most 64 words.
pub trait Entry: FromBytes + IntoBytes + Immutable + Copy {}
impl<T: FromBytes + IntoBytes + Immutable + Copy> Entry for T {}

/// The state of both halves: the memory, and the number of entries.
#[derive(Debug)]
struct Shared<M, T> {
    memory: M,
    capacity: u64,
    entries: PhantomData<fn(T) -> T>,
}

/// The sending half. There is one, on one thread at a time.
#[derive(Debug)]
pub struct Producer<M, T> {
    shared: Shared<M, T>,
    written: u64,
}

/// The receiving half. There is one, on one thread at a time.
#[derive(Debug)]
pub struct Consumer<M, T> {
    shared: Shared<M, T>,
    taken: u64,
}

/// Returns the words of memory that a ring of `capacity` entries of `T` takes.
pub const fn words_for<T>(capacity: usize) -> usize {
    ENTRIES + capacity * size_of::<T>().div_ceil(WORD_BYTES)
}

impl<M: Memory, T: Entry> Shared<M, T> {
    const ENTRY_WORDS: usize = {
        let words = size_of::<T>().div_ceil(WORD_BYTES);
        assert!(words > 0 && words <= ENTRY_WORDS_MAX, "an entry has 1 to 64 words");
        words
    };

    fn new(memory: M) -> Option<Shared<M, T>> {
        let capacity = memory.words().len().checked_sub(ENTRIES)? / Self::ENTRY_WORDS;
        let capacity = capacity as u64;
        (capacity > 0).then_some(Shared { memory, capacity, entries: PhantomData })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.memory.words()[index]
    }

    /// Returns the words of entry number `count`.
    fn entry(&self, count: u64) -> &[AtomicU64] {
        let start = ENTRIES + (count % self.capacity) as usize * Self::ENTRY_WORDS;
        &self.memory.words()[start..start + Self::ENTRY_WORDS]
    }

    /// Returns the number of entries between the two counts, checked.
    fn between(&self, taken: u64, written: u64) -> Result<u64, Corrupt> {
        written.checked_sub(taken).filter(|count| *count <= self.capacity).ok_or(Corrupt)
    }

    /// Stores `count` as this party's count, in word `ours`. Returns whether the other party announced in the word
    /// `waits` that it waits.
    fn advance(&self, ours: usize, count: u64, waits: usize) -> Doorbell {
        let words = self.memory.words();
        words[ours].store(count, Release);
        // This fence pairs with the one in `announce`: at least one of the two parties sees the other's earlier store.
        fence(SeqCst);
        if words[waits].load(Relaxed) != WAITS {
            return Doorbell::Silent;
        }
        words[waits].store(0, Relaxed);
        Doorbell::Ring
    }

    fn announce(&self, waits: usize) {
        self.word(waits).store(WAITS, Relaxed);
        fence(SeqCst);
    }
}

impl<M: Memory, T: Entry> Producer<M, T> {
    /// Makes the sending half of a ring in zeroed `memory`; `None` if not one entry fits.
    pub fn new(memory: M) -> Option<Producer<M, T>> {
        Some(Producer { shared: Shared::new(memory)?, written: 0 })
    }

    /// Returns the number of entries that fit.
    pub fn capacity(&self) -> u64 {
        self.shared.capacity
    }

    /// Returns the number of entries sent so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of entries that the consumer has taken so far.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn taken(&self) -> Result<u64, Corrupt> {
        let taken = self.shared.word(TAKEN).load(Acquire);
        self.shared.between(taken, self.written).map(|_| taken)
    }

    /// Sends one entry.
    ///
    /// # Errors
    /// [`PushError`].
    #[inline]
    pub fn push(&mut self, entry: &T) -> Result<Doorbell, PushError> {
        let shared = &self.shared;
        let taken = shared.word(TAKEN).load(Acquire);
        let count = shared.between(taken, self.written).map_err(|_| PushError::Corrupt)?;
        if count == shared.capacity {
            return Err(PushError::Full);
        }
        let (whole, rest) = entry.as_bytes().as_chunks::<WORD_BYTES>();
        let words = shared.entry(self.written);
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        if !rest.is_empty() {
            let mut value = [0; WORD_BYTES];
            value[..rest.len()].copy_from_slice(rest);
            words[whole.len()].store(u64::from_le_bytes(value), Relaxed);
        }
        self.written += 1;
        Ok(shared.advance(WRITTEN, self.written, CONSUMER_WAITS))
    }

    /// Announces that the producer waits for room. Returns `true` if there is still none, so that it may block.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn wait_begins(&mut self) -> Result<bool, Corrupt> {
        self.shared.announce(PRODUCER_WAITS);
        let taken = self.shared.word(TAKEN).load(Acquire);
        Ok(self.shared.between(taken, self.written)? == self.shared.capacity)
    }
}

impl<M: Memory, T: Entry> Consumer<M, T> {
    /// Makes the receiving half of a ring in zeroed `memory`; `None` if not one entry fits.
    pub fn new(memory: M) -> Option<Consumer<M, T>> {
        Some(Consumer { shared: Shared::new(memory)?, taken: 0 })
    }

    /// Returns the number of entries in the ring.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn waiting(&self) -> Result<u64, Corrupt> {
        let written = self.shared.word(WRITTEN).load(Acquire);
        self.shared.between(self.taken, written)
    }

    /// Takes the next entry, copied out. Also returns whether the producer must be woken.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn pop(&mut self) -> Result<Option<(T, Doorbell)>, Corrupt> {
        Ok(self.peek()?.map(|entry| (entry, self.advance())))
    }

    /// Returns the next entry, copied out. It stays in the ring until [`Consumer::advance`].
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn peek(&self) -> Result<Option<T>, Corrupt> {
        self.peek_at(0)
    }

    /// Returns the entry `behind` places behind the next, copied out.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn peek_at(&self, behind: u64) -> Result<Option<T>, Corrupt> {
        let shared = &self.shared;
        if self.waiting()? <= behind {
            return Ok(None);
        }
        let mut entry = T::new_zeroed();
        let words = shared.entry(self.taken + behind);
        let (whole, rest) = entry.as_mut_bytes().as_chunks_mut::<WORD_BYTES>();
        for (word, bytes) in words.iter().zip(&mut *whole) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        if !rest.is_empty() {
            let value = words[whole.len()].load(Relaxed).to_le_bytes();
            rest.copy_from_slice(&value[..rest.len()]);
        }
        Ok(Some(entry))
    }

    /// Takes the entry that [`Consumer::peek`] found. Returns whether the producer must be woken.
    #[inline]
    pub fn advance(&mut self) -> Doorbell {
        self.taken += 1;
        self.shared.advance(TAKEN, self.taken, PRODUCER_WAITS)
    }

    /// Announces that the consumer waits for entries. Returns `true` if there is still none, so that it may block.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn wait_begins(&mut self) -> Result<bool, Corrupt> {
        self.shared.announce(CONSUMER_WAITS);
        Ok(self.waiting()? == 0)
    }
}
