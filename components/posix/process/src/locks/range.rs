//! Ranges of bytes held by owners: conflicts, splitting and joining. The functions have no side
//! effects.
use super::LockOwner;
use alloc::vec::Vec;

/// Shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// A shared lock: F_RDLCK, LOCK_SH.
    Shared,
    /// An exclusive lock: F_WRLCK, LOCK_EX.
    Exclusive,
}

/// The bytes `first ..= last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub first: u64,
    /// Last byte; `i64::MAX` means the end of the file, even if it grows.
    pub last: u64,
}

impl Range {
    /// The range of the whole file.
    pub const ALL: Range = Range { first: 0, last: i64::MAX as u64 };

    fn overlaps(self, other: Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }
    fn touches(self, other: Range) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }
}

/// A lock.
#[derive(Clone)]
pub struct FileLock {
    /// Its owner.
    pub owner: LockOwner,
    /// Whether the lock is shared or exclusive.
    pub kind: LockMode,
    /// The locked range.
    pub range: Range,
}

/// Returns the lowest lock of another owner that excludes `kind` on `range`.
pub(super) fn first_conflict<'a>(
    list: &'a [FileLock],
    owner: &LockOwner,
    kind: LockMode,
    range: Range,
) -> Option<&'a FileLock> {
    let excludes = |held: &&FileLock| {
        held.range.overlaps(range)
            && !held.owner.is_same(owner)
            && (kind == LockMode::Exclusive || held.kind == LockMode::Exclusive)
    };
    list.iter().filter(excludes).min_by_key(|held| held.range.first)
}

/// Removes `range` from the locks of `owner`, splitting them if necessary.
pub(super) fn remove(list: &mut Vec<FileLock>, owner: &LockOwner, range: Range) {
    let mut rest = Vec::new();
    list.retain(|held| {
        if !held.owner.is_same(owner) || !held.range.overlaps(range) {
            return true;
        }
        if held.range.first < range.first {
            let before = Range { first: held.range.first, last: range.first - 1 };
            rest.push(FileLock { range: before, ..held.clone() });
        }
        if held.range.last > range.last {
            let after = Range { first: range.last + 1, last: held.range.last };
            rest.push(FileLock { range: after, ..held.clone() });
        }
        false
    });
    list.extend(rest);
}

/// Adds a lock, joined with adjacent ones of the same owner and kind.
pub(super) fn add(list: &mut Vec<FileLock>, mut new: FileLock) {
    list.retain(|held| {
        let is_joined = held.owner.is_same(&new.owner)
            && held.kind == new.kind
            && held.range.touches(new.range);
        if is_joined {
            new.range.first = new.range.first.min(held.range.first);
            new.range.last = new.range.last.max(held.range.last);
        }
        !is_joined
    });
    list.push(new);
}
