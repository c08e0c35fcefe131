//! [`Faults`]: the harm that a direction of the wire does, and [`Fates`]: the fates of its frames, in order.
//!
//! The fate of the n-th frame depends on the seed and on n alone: every frame takes the same number of draws.
use anyhow::{Result, bail};
use harness::random::Random;
use std::time::Duration;

/// The harm that one direction does. Each part is a probability from 0 to 1 unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// A frame is dropped.
    pub loss: f64,
    /// A frame comes twice.
    pub duplication: f64,
    /// A bit of a frame's IP packet is flipped. Other frames are left whole: nothing in ARP would tell its reader.
    pub corruption: f64,
    /// Some later frames overtake a frame.
    pub reordering: f64,
    /// Time that each frame takes, in microseconds.
    pub delay_us: u64,
    /// Greatest further time, drawn for each frame; it reorders frames too.
    pub jitter_us: u64,
    /// Bytes that leave in a second; 0 is no limit.
    pub bytes_per_second: u64,
}

impl Faults {
    /// Refuses probabilities that are none.
    ///
    /// # Errors
    /// Names the first of them.
    pub fn check(&self) -> Result<()> {
        let all = [
            ("loss", self.loss),
            ("duplication", self.duplication),
            ("corruption", self.corruption),
            ("reordering", self.reordering),
        ];
        for (name, chance) in all {
            if !(0.0..=1.0).contains(&chance) {
                bail!("{name} = {chance} is no probability");
            }
        }
        Ok(())
    }
}

/// The fate of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// It is dropped.
    pub is_lost: bool,
    /// It comes twice.
    pub is_doubled: bool,
    /// Draw that chooses the flipped bit.
    pub flip: Option<usize>,
    /// Number of later frames that overtake it.
    pub overtaken_by: usize,
    /// Its own part of the delay.
    pub jitter: Duration,
}

/// Greatest number of frames that overtake one.
const OVERTAKING: usize = 4;

/// The fates of the frames of a direction.
pub struct Fates {
    faults: Faults,
    random: Random,
}

impl Fates {
    /// Makes the fates that follow from `seed`.
    pub fn new(faults: Faults, seed: u64) -> Fates {
        Fates { faults, random: Random::new(seed) }
    }

    /// Returns whether an event of this probability happens.
    fn happens(&mut self, chance: f64) -> bool {
        const PARTS: usize = 1_000_000;
        (self.random.below(PARTS) as f64) < chance * PARTS as f64
    }
}

impl Iterator for Fates {
    type Item = Fate;

    fn next(&mut self) -> Option<Fate> {
        let Faults { loss, duplication, corruption, reordering, jitter_us, .. } = self.faults;
        let is_lost = self.happens(loss);
        let is_doubled = self.happens(duplication);
        let is_corrupted = self.happens(corruption);
        let bit = self.random.below(usize::MAX);
        let is_overtaken = self.happens(reordering);
        let overtaking = 1 + self.random.below(OVERTAKING);
        let jitter = self.random.below(usize::try_from(jitter_us).unwrap_or(usize::MAX));
        Some(Fate {
            is_lost,
            is_doubled,
            flip: is_corrupted.then_some(bit),
            overtaken_by: if is_overtaken { overtaking } else { 0 },
            jitter: Duration::from_micros(jitter as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Faults = Faults {
        loss: 0.1,
        duplication: 0.05,
        corruption: 0.02,
        reordering: 0.2,
        delay_us: 100,
        jitter_us: 50,
        bytes_per_second: 0,
    };

    fn fates(faults: Faults, seed: u64) -> Vec<Fate> {
        Fates::new(faults, seed).take(20_000).collect()
    }

    #[test]
    fn fates_follow_from_the_seed() {
        assert_eq!(fates(BAD, 5), fates(BAD, 5));
        assert_ne!(fates(BAD, 5), fates(BAD, 6));
    }

    #[test]
    fn one_probability_does_not_move_the_others() {
        let milder = Faults { loss: 0.0, ..BAD };
        let rest = |fate: Fate| Fate { is_lost: false, ..fate };
        assert!(fates(milder, 9).into_iter().eq(fates(BAD, 9).into_iter().map(rest)));
    }

    #[test]
    fn fates_are_as_frequent_as_was_asked_for() {
        let all = fates(BAD, 1);
        let share = |is: fn(&Fate) -> bool| {
            all.iter().filter(|fate| is(fate)).count() as f64 / all.len() as f64
        };
        let is_near = |share: f64, wanted: f64| (share - wanted).abs() < 0.01;
        assert!(is_near(share(|fate| fate.is_lost), 0.1));
        assert!(is_near(share(|fate| fate.is_doubled), 0.05));
        assert!(is_near(share(|fate| fate.flip.is_some()), 0.02));
        assert!(is_near(share(|fate| fate.overtaken_by > 0), 0.2));
        assert!(all.iter().all(|fate| fate.jitter < Duration::from_micros(50)));
        assert!(fates(Faults { loss: 1.0, ..BAD }, 1).iter().all(|fate| fate.is_lost));
        let none = Fate {
            is_lost: false,
            is_doubled: false,
            flip: None,
            overtaken_by: 0,
            jitter: Duration::ZERO,
        };
        assert!(fates(Faults::default(), 1).into_iter().all(|fate| fate == none));
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        assert!(BAD.check().is_ok());
        for chance in [-0.1, 1.1, f64::NAN] {
            assert!(Faults { reordering: chance, ..BAD }.check().is_err());
        }
    }
}
