//! Giving memory back: clean pages of storage and names nobody holds (architecture.md, "Memory of programs").
use crate::{errno::Errno, instance};
use rt::NoMemory;

/// Pages asked back when an allocation was refused.
const RECLAIM_PAGES: usize = 64;
/// Rounds of a reclaim: the first only unmarks what was used.
const ROUNDS: usize = 2;

/// Drops up to `pages` clean pages and the names not used lately; returns the pages dropped.
///
/// Locks: takes vnode tables and page indexes one at a time; to be called with none held.
pub fn shrink(pages: usize) -> usize {
    let mut freed = 0;
    for instance in instance::instances() {
        instance.names().shrink();
        for vnode in instance.vnodes() {
            if freed < pages
                && let Some(cache) = vnode.pages()
            {
                freed += cache.shrink(pages - freed);
            }
        }
    }
    freed
}

/// Runs an allocation, and again after giving memory back where it was refused.
pub(crate) fn with_reclaim<T>(
    mut allocate: impl FnMut() -> Result<T, NoMemory>,
) -> Result<T, Errno> {
    for _ in 0..ROUNDS {
        if let Ok(value) = allocate() {
            return Ok(value);
        }
        if shrink(RECLAIM_PAGES) == 0 {
            shrink(RECLAIM_PAGES);
        }
    }
    Ok(allocate()?)
}
