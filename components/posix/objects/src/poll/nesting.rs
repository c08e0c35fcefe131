//! Checks of epolls that watch epolls: no cycle, and no chain longer than Linux's (`EP_MAX_NESTS`).
//!
//! [`check`] is called before an epoll is added to another one and returns a guard of `epoll.nesting`, which is held
//! until it was added: if two are added to each other at once, only one may succeed. Each epoll keeps the result of
//! the last check, so that one that is reached in many ways is visited once.
use super::Epoll;
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU64, Ordering};
use rt::{
    lock_class,
    sync::{Mutex, MutexGuard},
};
use vfs::Errno;

lock_class! {
    static NESTING = "epoll.nesting";
    static ABOVE = "epoll.above";
}

/// Number of the last check. This lock is above `epoll.entries` and `epoll.above`.
static CHECKS: Mutex<u64> = Mutex::new(&NESTING, 0);

/// Greatest length of a chain of epolls, less one.
const DEPTH_MAX: u64 = 4;
/// Depth of an epoll that leads back to the one it is to be added to.
const ENDLESS: u64 = DEPTH_MAX + 1;

/// An epoll's part in the nesting.
pub(super) struct Nesting {
    /// The epolls that watch it, or did.
    above: Mutex<Vec<Weak<Epoll>>>,
    /// The check that visited it last, with the depth found. Changed under [`CHECKS`].
    checked: AtomicU64,
    depth: AtomicU64,
}

impl Nesting {
    /// Makes the state of an epoll that is not watched.
    pub(super) fn new() -> Nesting {
        let above = Mutex::new(&ABOVE, Vec::new());
        Nesting { above, checked: AtomicU64::new(0), depth: AtomicU64::new(0) }
    }
    /// Records that `epoll` watches it now.
    pub(super) fn add_above(&self, epoll: &Weak<Epoll>) {
        let mut above = self.above.lock();
        above.retain(|known| known.strong_count() > 0 && !known.ptr_eq(epoll));
        above.push(epoll.clone());
    }
    /// Returns the depth found in this check; calls `look` if it is not known yet.
    fn depth_of(&self, check: u64, look: impl FnOnce() -> u64) -> u64 {
        if self.checked.load(Ordering::Relaxed) != check {
            self.checked.store(check, Ordering::Relaxed);
            self.depth.store(0, Ordering::Relaxed);
            self.depth.store(look(), Ordering::Relaxed);
        }
        self.depth.load(Ordering::Relaxed)
    }
}

/// Checks that `outer` may watch `inner`.
///
/// # Errors
/// `EINVAL` if both are the same; `ELOOP` if `inner` leads to `outer`, or the chain becomes too long.
pub(super) fn check(outer: &Epoll, inner: &Epoll) -> Result<MutexGuard<'static, u64>, Errno> {
    if core::ptr::eq(inner, outer) {
        return Err(Errno::EINVAL);
    }
    let mut checks = CHECKS.lock();
    *checks += 2;
    let below = depth_below(inner, outer, *checks, 0);
    if below > DEPTH_MAX {
        return Err(Errno::ELOOP);
    }
    let above = depth_above(outer, *checks + 1, 0);
    if below + 1 + above > DEPTH_MAX { Err(Errno::ELOOP) } else { Ok(checks) }
}

/// Returns the number of epolls on the longest chain below `epoll`; too many if it leads to `target`.
fn depth_below(epoll: &Epoll, target: &Epoll, check: u64, nested: u64) -> u64 {
    epoll.nesting().depth_of(check, || {
        let mut deepest = 0;
        for file in epoll.inner() {
            let Some(other) = file.file().as_any().downcast_ref::<Epoll>() else { continue };
            deepest = match core::ptr::eq(other, target) || nested > DEPTH_MAX {
                true => ENDLESS,
                false => deepest.max(depth_below(other, target, check, nested + 1) + 1),
            };
            if deepest > DEPTH_MAX {
                break;
            }
        }
        deepest
    })
}

/// Returns the number of epolls on the longest chain above `epoll`.
fn depth_above(epoll: &Epoll, check: u64, nested: u64) -> u64 {
    epoll.nesting().depth_of(check, || {
        let above: Vec<Arc<Epoll>> =
            epoll.nesting().above.lock().iter().filter_map(Weak::upgrade).collect();
        let depth = |other: &Arc<Epoll>| match other.watches(epoll) && nested <= DEPTH_MAX {
            true => depth_above(other, check, nested + 1) + 1,
            false => 0,
        };
        above.iter().map(depth).max().unwrap_or(0)
    })
}
