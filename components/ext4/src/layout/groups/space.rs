//! Free blocks as an account: each allocation claims its blocks before it looks for them.
//!
//! ```text
//! free in the bitmaps = unclaimed | claimed (delayed writes, allocations under way) | pending
//! unclaimed           = for all callers | root's blocks | the pool
//! ```
//! A block that is pending was freed by a transaction that is not durable yet. It backs no claim, so every claim is
//! backed by a block that can be taken now: a delayed write that was accepted finds its blocks. The pool is kept for
//! changes that must not fail for lack of a node of an extent tree.
//!
//! Locks: none. `unclaimed` alone decides a claim, in one atomic step.
//!
//! Source: Linux fs/ext4/balloc.c, `ext4_has_free_clusters`.
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};
use interfaces::file_system::{FsError, ReservedFor};
use rt::sync::Once;

/// The limit of the blocks that an allocation may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Blocks that a delayed write claimed earlier.
    Delayed,
    /// The calling thread's: root's blocks are for privileged callers only, the pool for none.
    Caller,
    /// All unclaimed blocks, for a change that must not fail.
    Pool,
}

/// The free blocks of a volume.
pub(super) struct FreeSpace {
    /// Blocks that are clear in the bitmaps.
    free: AtomicU64,
    /// Number of blocks that are free, not pending and not claimed.
    unclaimed: AtomicI64,
    /// Number of blocks freed by transactions that are not durable yet.
    pending: AtomicU64,
    /// Number of blocks for privileged callers, and for changes that must not fail.
    root: i64,
    pool: i64,
    /// The user and the group that may use root's blocks, in addition to privileged callers.
    owner: ReservedFor,
    is_privileged: Once<fn(ReservedFor) -> bool>,
}

impl FreeSpace {
    /// Makes the account of `free` blocks, of which `root` and `pool` are kept.
    pub(super) fn new(free: u64, (root, pool): (u64, u64), owner: ReservedFor) -> FreeSpace {
        FreeSpace {
            free: AtomicU64::new(free),
            unclaimed: AtomicI64::new(signed(free)),
            pending: AtomicU64::new(0),
            root: signed(root),
            pool: signed(pool),
            owner,
            is_privileged: Once::new(),
        }
    }

    /// Sets the function that tells whether the calling thread may use root's blocks. Only the first call counts.
    pub(super) fn set_judge(&self, is_privileged: fn(ReservedFor) -> bool) {
        self.is_privileged.get_or_init(|| is_privileged);
    }

    /// Blocks that are clear in the bitmaps.
    pub(super) fn free(&self) -> u64 {
        self.free.load(Relaxed)
    }

    /// Returns the number of blocks that are not claimed, pending ones included.
    pub(super) fn usable(&self) -> u64 {
        let pending = signed(self.pending.load(Relaxed));
        let usable = self.unclaimed.load(Acquire).saturating_add(pending);
        u64::try_from(usable).unwrap_or(0)
    }

    /// Returns the number of these blocks that are not kept for privileged callers.
    pub(super) fn available(&self) -> u64 {
        self.usable().saturating_sub((self.root + self.pool) as u64)
    }

    /// Returns the number of blocks freed by transactions that are not durable yet.
    pub(super) fn pending(&self) -> u64 {
        self.pending.load(Relaxed)
    }

    /// Returns whether a claim of `blocks` would be refused now, and a commit would add unclaimed blocks.
    pub(super) fn must_wait_for(&self, blocks: u64, account: Account) -> bool {
        if self.pending() == 0 {
            return false;
        }
        let unclaimed = self.unclaimed.load(Acquire);
        let lacks = |kept: i64| unclaimed.saturating_sub(kept) < signed(blocks);
        match account {
            Account::Delayed | Account::Pool => lacks(0),
            Account::Caller => lacks(self.root + self.pool) && lacks(self.kept_from_caller()),
        }
    }

    /// Claims at least `least` and at most `most` blocks. Returns their number.
    ///
    /// # Errors
    /// [`FsError::NoSpace`]: nothing was claimed then.
    pub(super) fn claim(&self, least: u64, most: u64, account: Account) -> Result<u64, FsError> {
        let kept = match account {
            Account::Delayed => return Ok(most),
            Account::Pool => 0,
            Account::Caller => self.root + self.pool,
        };
        let claimed = self.claim_above(kept, (least, most));
        match (claimed, account) {
            (Err(_), Account::Caller) if self.kept_from_caller() < kept => {
                self.claim_above(self.pool, (least, most))
            }
            (claimed, _) => claimed,
        }
    }

    /// Claims blocks as long as `kept` blocks stay unclaimed.
    fn claim_above(&self, kept: i64, (least, most): (u64, u64)) -> Result<u64, FsError> {
        let granted = |unclaimed: i64| {
            let room = u64::try_from(unclaimed.saturating_sub(kept)).unwrap_or(0);
            Some(room.min(most)).filter(|granted| *granted >= least)
        };
        let less = |unclaimed: i64| granted(unclaimed).map(|count| unclaimed - signed(count));
        let before = self.unclaimed.fetch_update(AcqRel, Acquire, less);
        before.ok().and_then(granted).ok_or(FsError::NoSpace)
    }

    /// Returns the number of blocks that the calling thread may not claim. The thread's privileges are checked only
    /// here, when the unclaimed blocks run low.
    fn kept_from_caller(&self) -> i64 {
        let is_privileged = self.is_privileged.get().is_some_and(|asked| asked(self.owner));
        if is_privileged { self.pool } else { self.root + self.pool }
    }

    /// Changes the number of unclaimed blocks: adds claims given back, and subtracts blocks taken without a claim.
    pub(super) fn settle(&self, given_back: u64, taken: u64) {
        let more = signed(given_back).saturating_sub(signed(taken));
        if more != 0 {
            self.unclaimed.fetch_add(more, AcqRel);
        }
    }

    /// Notes that claimed blocks were taken.
    pub(super) fn note_taken(&self, blocks: u64) {
        self.free.fetch_sub(blocks, Relaxed);
    }

    /// Called when blocks were freed; they can be claimed when that is durable.
    pub(super) fn note_freed(&self, blocks: u64) {
        self.free.fetch_add(blocks, Relaxed);
        self.pending.fetch_add(blocks, Relaxed);
    }

    /// Called when blocks that were pending can be claimed.
    pub(super) fn release(&self, blocks: u64) {
        self.unclaimed.fetch_add(signed(blocks), AcqRel);
        self.pending.fetch_sub(blocks, Relaxed);
    }
}

fn signed(blocks: u64) -> i64 {
    i64::try_from(blocks).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: ReservedFor = ReservedFor { user: 0, group: 0 };

    #[test]
    fn callers_leave_what_is_kept_and_changes_that_must_not_fail_use_the_pool() {
        let space = FreeSpace::new(100, (20, 10), OWNER);
        assert_eq!(space.claim(1, 1000, Account::Caller), Ok(70));
        assert_eq!(space.claim(1, 1, Account::Caller), Err(FsError::NoSpace));
        space.set_judge(|_| true);
        assert_eq!(space.claim(1, 1000, Account::Caller), Ok(20), "root's blocks");
        assert_eq!(space.claim(1, 1, Account::Caller), Err(FsError::NoSpace));
        assert_eq!(space.claim(1, 1000, Account::Pool), Ok(10));
        assert_eq!(space.claim(1, 1, Account::Pool), Err(FsError::NoSpace));
        assert_eq!((space.usable(), space.free()), (0, 100), "nothing was taken yet");
    }

    #[test]
    fn a_pending_block_backs_no_claim_until_it_is_released() {
        let space = FreeSpace::new(10, (0, 0), OWNER);
        assert_eq!(space.claim(10, 10, Account::Caller), Ok(10));
        space.note_taken(10);
        space.note_freed(4);
        assert_eq!((space.free(), space.usable()), (4, 4));
        assert!(space.must_wait_for(1, Account::Caller));
        assert_eq!(space.claim(1, 1, Account::Pool), Err(FsError::NoSpace));
        space.release(4);
        assert!(!space.must_wait_for(5, Account::Caller), "a commit would not help");
        assert_eq!(space.claim(4, 8, Account::Caller), Ok(4));
    }
}
