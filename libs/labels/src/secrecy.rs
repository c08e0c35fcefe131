//! [`Secrecy`] and ranges of it.
use crate::Categories;
use core::fmt;

/// The greatest level.
pub const LEVEL_MAX: u8 = 15;

/// The way in which one secrecy stands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Both are the same.
    Equal,
    /// The first dominates the second, and is not equal to it.
    Dominates,
    /// The second dominates the first, and is not equal to it.
    Dominated,
    /// Neither dominates the other.
    Incomparable,
}

/// The secrecy of information: a level and the categories of what it is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Secrecy {
    level: u8,
    categories: Categories,
}

impl Secrecy {
    /// The least secrecy: everybody dominates it.
    pub const LOW: Secrecy = Secrecy { level: 0, categories: Categories::NONE };
    /// The greatest secrecy, which dominates every other.
    pub const HIGH: Secrecy = Secrecy { level: LEVEL_MAX, categories: Categories::ALL };

    /// Returns a secrecy; `None` if there is no such level.
    pub fn new(level: u8, categories: Categories) -> Option<Secrecy> {
        (level <= LEVEL_MAX).then_some(Secrecy { level, categories })
    }
    /// Returns the level.
    pub fn level(&self) -> u8 {
        self.level
    }
    /// Returns the categories.
    pub fn categories(&self) -> &Categories {
        &self.categories
    }
    /// Returns whether information of secrecy `other` may flow to here: the level is not less, and no category is missing.
    pub fn dominates(&self, other: &Secrecy) -> bool {
        self.level >= other.level && other.categories.is_subset(&self.categories)
    }
    /// Returns the way in which this stands to `other`.
    pub fn relation(&self, other: &Secrecy) -> Relation {
        match (self.dominates(other), other.dominates(self)) {
            (true, true) => Relation::Equal,
            (true, false) => Relation::Dominates,
            (false, true) => Relation::Dominated,
            (false, false) => Relation::Incomparable,
        }
    }
    /// Returns the least secrecy that dominates both.
    #[must_use]
    pub fn join(&self, other: &Secrecy) -> Secrecy {
        Secrecy {
            level: self.level.max(other.level),
            categories: self.categories.union(&other.categories),
        }
    }
    /// Returns the greatest secrecy that both dominate.
    #[must_use]
    pub fn meet(&self, other: &Secrecy) -> Secrecy {
        Secrecy {
            level: self.level.min(other.level),
            categories: self.categories.intersection(&other.categories),
        }
    }
}

/// Writes `s3:c0.c5`, or `s3` without categories.
impl fmt::Display for Secrecy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.level)?;
        if self.categories != Categories::NONE {
            write!(f, ":{}", self.categories)?;
        }
        Ok(())
    }
}

/// The secrecies from one to another that dominates it. Of a subject the least is its present one, and the greatest its clearance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecrecyRange {
    low: Secrecy,
    high: Secrecy,
}

impl SecrecyRange {
    /// Every secrecy.
    pub const ALL: SecrecyRange = SecrecyRange { low: Secrecy::LOW, high: Secrecy::HIGH };

    /// Returns the range; `None` if `high` does not dominate `low`.
    pub fn new(low: Secrecy, high: Secrecy) -> Option<SecrecyRange> {
        high.dominates(&low).then_some(SecrecyRange { low, high })
    }
    /// Returns the range of one secrecy.
    pub fn single(secrecy: Secrecy) -> SecrecyRange {
        SecrecyRange { low: secrecy, high: secrecy }
    }
    /// Returns whether the range has one secrecy alone.
    pub fn is_single(&self) -> bool {
        self.low == self.high
    }
    /// Returns the least secrecy.
    pub fn low(&self) -> &Secrecy {
        &self.low
    }
    /// Returns the greatest secrecy.
    pub fn high(&self) -> &Secrecy {
        &self.high
    }
    /// Returns whether `secrecy` is in the range.
    pub fn contains(&self, secrecy: &Secrecy) -> bool {
        secrecy.dominates(&self.low) && self.high.dominates(secrecy)
    }
    /// Returns whether every secrecy of `other` is in the range.
    pub fn includes(&self, other: &SecrecyRange) -> bool {
        self.contains(&other.low) && self.contains(&other.high)
    }
}

/// Writes `s0-s3:c0.c5`, or `s0` for a range of one secrecy.
impl fmt::Display for SecrecyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_single() {
            true => write!(f, "{}", self.low),
            false => write!(f, "{}-{}", self.low, self.high),
        }
    }
}
