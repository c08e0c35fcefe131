//! The locks missed most often (M4) while several tasks ran, from `/proc/skerry/locks` at the end.
use serde::{Deserialize, Serialize};

/// Number of locks that are listed.
const NAMED: usize = 5;
/// The greatest share of attempts that may miss.
pub const MISSED_MAX: f64 = 0.01;

/// A class of locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Name of the class.
    pub class: String,
    /// Attempts to take a lock of the class.
    pub attempts: u64,
    /// Attempts that found the lock taken.
    pub misses: u64,
}

impl Lock {
    /// Returns the share of the attempts that missed.
    pub fn missed(&self) -> f64 {
        self.misses as f64 / self.attempts.max(1) as f64
    }
}

/// Returns the locks with the most misses, from the lines of the table: class, attempts, misses and more.
pub fn most_missed<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Lock> {
    let mut all: Vec<Lock> = lines.filter_map(parse).collect();
    all.sort_by_key(|lock| std::cmp::Reverse(lock.misses));
    all.truncate(NAMED);
    all
}

fn parse(line: &str) -> Option<Lock> {
    let mut numbers = line.split_whitespace().rev();
    // Fields are counted from the end, because a name may contain blanks.
    let misses = numbers.nth(4)?.parse().ok()?;
    let attempts = numbers.next()?.parse().ok()?;
    let mut words: Vec<&str> = numbers.collect();
    words.reverse();
    Some(Lock { class: words.join(" "), attempts, misses })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_missed_come_first() {
        let text = "class attempts misses reschedules shortest_ns longest_ns total_ns\n\
                    a b 1000 5 0 1 2 3\nc 100 50 0 1 2 3\nd 9 0 0 0 0 0";
        let found = most_missed(text.lines());
        assert_eq!(found[0], Lock { class: "c".to_owned(), attempts: 100, misses: 50 });
        assert_eq!((found[1].class.as_str(), found.len()), ("a b", 3));
    }
}
