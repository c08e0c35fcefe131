//! A ring of samples, each a number of words, from one producer to one consumer that trust each other (B9). A sample that
//! finds no room is lost, and counted.
//!
//! ```text
//! word 0 written, by the producer | 1 taken, by the consumer | 2 lost, by the producer | 3 the ring
//! ```
//! The ring is all in the memory, zeroed at first, so both parties may have a [`Samples`] of their own over memory that they
//! share. A sample is stored as its length and its words; it wraps around at the end of the ring. Counts are in words and do
//! not wrap.
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Words of the memory in front of the ring.
pub const HEADER: usize = 3;

/// One party's hold of a ring of samples in some memory.
#[derive(Debug)]
pub struct Samples<M>(M);

impl<M> Samples<M> {
    /// Returns the ring in `memory`, which is empty if the memory is zero.
    pub const fn new(memory: M) -> Samples<M> {
        Samples(memory)
    }
    /// Returns the memory.
    pub const fn memory(&self) -> &M {
        &self.0
    }
}

impl<M: AsRef<[AtomicU64]>> Samples<M> {
    /// Returns the counts of words written and taken and of samples lost, and the ring. Memory without room for them has none.
    fn parts(&self) -> Option<(&[AtomicU64; HEADER], &[AtomicU64])> {
        self.0.as_ref().split_first_chunk()
    }

    fn word(&self, at: u64) -> Option<&AtomicU64> {
        let (_, ring) = self.parts()?;
        ring.get(usize::try_from(at.checked_rem(ring.len() as u64)?).ok()?)
    }

    fn store(&self, at: u64, value: u64) {
        if let Some(word) = self.word(at) {
            word.store(value, Relaxed);
        }
    }

    /// Adds a sample, or counts it as lost. Cost: one store for each word, no lock.
    pub fn push(&self, sample: impl IntoIterator<Item = u64>) {
        let Some(([count, taken, lost], ring)) = self.parts() else { return };
        let written = count.load(Relaxed);
        let end = taken.load(Acquire) + ring.len() as u64;
        let lose = || lost.store(lost.load(Relaxed) + 1, Relaxed);
        let mut at = written + 1;
        for value in sample {
            if at >= end {
                return lose();
            }
            self.store(at, value);
            at += 1;
        }
        if at > end {
            return lose();
        }
        self.store(written, at - written - 1);
        count.store(at, Release);
    }

    /// Takes the oldest sample and passes its words to `read`. Returns `None` if there is none.
    pub fn take<R>(&self, read: impl FnOnce(&mut dyn Iterator<Item = u64>) -> R) -> Option<R> {
        self.first()?;
        let ([_, count, _], _) = self.parts()?;
        let taken = count.load(Relaxed);
        let length = self.word(taken)?.load(Relaxed);
        let end = taken + 1 + length;
        let words = |at| self.word(at).map_or(0, |word| word.load(Relaxed));
        let answer = read(&mut (taken + 1..end).map(words));
        count.store(end, Release);
        Some(answer)
    }

    /// Returns the first word of the oldest sample, if there is a sample; 0 for one without words.
    pub fn first(&self) -> Option<u64> {
        let ([written, taken, _], _) = self.parts()?;
        let taken = taken.load(Relaxed);
        if written.load(Acquire) == taken {
            return None;
        }
        match self.word(taken)?.load(Relaxed) {
            0 => Some(0),
            _ => Some(self.word(taken + 1)?.load(Relaxed)),
        }
    }

    /// Returns the number of samples that found no room so far.
    pub fn lost(&self) -> u64 {
        self.parts().map_or(0, |([.., lost], _)| lost.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    type Ring = Samples<Vec<AtomicU64>>;

    fn ring(words: usize) -> Ring {
        Samples::new((0..HEADER + words).map(|_| AtomicU64::new(0)).collect())
    }

    fn taken(ring: &Ring) -> Option<Vec<u64>> {
        ring.take(|words| words.collect())
    }

    #[test]
    fn samples_come_out_as_they_went_in_across_the_end() {
        let ring = ring(7);
        for round in 0..20 {
            ring.push([round, 1]);
            ring.push([round]);
            assert_eq!(ring.first(), Some(round));
            assert_eq!(taken(&ring), Some(alloc::vec![round, 1]));
            assert_eq!(taken(&ring), Some(alloc::vec![round]));
            assert_eq!((ring.first(), taken(&ring)), (None, None));
        }
        assert_eq!(ring.lost(), 0);
    }

    #[test]
    fn what_finds_no_room_is_lost_whole_and_counted() {
        let ring = ring(6);
        ring.push([1, 2]);
        ring.push([3, 4, 5]);
        ring.push([6, 7]);
        ring.push([8]);
        assert_eq!(ring.lost(), 2);
        assert_eq!(taken(&ring), Some(alloc::vec![1, 2]));
        assert_eq!(taken(&ring), Some(alloc::vec![6, 7]));
        ring.push([]);
        assert_eq!((ring.first(), taken(&ring)), (Some(0), Some(Vec::new())));
        ring.push([9, 10, 11, 12, 13]);
        assert_eq!((taken(&ring), taken(&ring)), (Some(alloc::vec![9, 10, 11, 12, 13]), None));
    }

    #[test]
    fn a_ring_without_memory_loses_all() {
        let ring = ring(0);
        ring.push([1]);
        assert_eq!((taken(&ring), ring.lost()), (None, 1));
        let none = Samples::new([const { AtomicU64::new(0) }; HEADER - 1]);
        none.push([1]);
        assert_eq!((none.first(), none.lost()), (None, 0));
    }

    #[test]
    fn a_consumer_beside_the_producer_sees_whole_samples() {
        let ring = ring(64);
        std::thread::scope(|scope| {
            let producer = scope.spawn(|| {
                for number in 0..20_000u64 {
                    ring.push((0..number % 9 + 1).map(|_| number));
                }
            });
            let (mut seen, mut last) = (0, None);
            while !producer.is_finished() || ring.first().is_some() {
                let Some(sample) = taken(&ring) else { continue };
                let number = sample[0];
                assert!(sample.iter().all(|&word| word == number), "{sample:?}");
                assert_eq!(sample.len() as u64, number % 9 + 1);
                assert!(last < Some(number), "in order");
                (seen, last) = (seen + 1, Some(number));
            }
            assert_eq!(seen + ring.lost(), 20_000);
        });
    }
}
