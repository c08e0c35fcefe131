//! [`Categories`]: a set of numbers below 1,024.
use core::fmt;

/// Number of categories.
pub const CATEGORIES: u16 = 1024;
const WORDS: usize = CATEGORIES as usize / 64;

/// A set of categories.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Categories([u64; WORDS]);

impl Categories {
    /// No category.
    pub const NONE: Categories = Categories([0; WORDS]);
    /// Every category.
    pub const ALL: Categories = Categories([u64::MAX; WORDS]);

    /// Returns whether the set has `category`.
    pub fn contains(&self, category: u16) -> bool {
        let word = self.0.get(usize::from(category / 64));
        word.is_some_and(|word| word >> (category % 64) & 1 != 0)
    }
    /// Adds a category. Returns whether there is one with that number.
    #[must_use]
    pub fn insert(&mut self, category: u16) -> bool {
        let word = self.0.get_mut(usize::from(category / 64));
        word.map(|word| *word |= 1 << (category % 64)).is_some()
    }
    /// Returns whether `other` has every category of this set.
    pub fn is_subset(&self, other: &Categories) -> bool {
        self.0.iter().zip(&other.0).all(|(own, others)| own & !others == 0)
    }
    /// Returns the categories that either set has.
    pub fn union(&self, other: &Categories) -> Categories {
        self.with(other, |own, others| own | others)
    }
    /// Returns the categories that both sets have.
    pub fn intersection(&self, other: &Categories) -> Categories {
        self.with(other, |own, others| own & others)
    }
    fn with(&self, other: &Categories, join: fn(u64, u64) -> u64) -> Categories {
        let mut joined = *self;
        joined.0.iter_mut().zip(&other.0).for_each(|(own, others)| *own = join(*own, *others));
        joined
    }
    /// Returns the runs of categories that follow each other, each as its first and its last.
    pub fn runs(&self) -> impl Iterator<Item = (u16, u16)> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let first = (from..CATEGORIES).find(|one| self.contains(*one))?;
            let end = (first..CATEGORIES).find(|one| !self.contains(*one)).unwrap_or(CATEGORIES);
            from = end;
            Some((first, end - 1))
        })
    }
}

/// Writes `c0.c5,c7`: a run of three or more by its ends.
impl fmt::Display for Categories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.runs().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}c{first}")?,
                1 => write!(f, "{comma}c{first},c{last}")?,
                _ => write!(f, "{comma}c{first}.c{last}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Categories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
