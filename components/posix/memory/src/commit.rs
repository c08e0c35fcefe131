//! Committed memory: the number of pages that all programs may ask for, whether they use them or not.
//!
//! A private mapping counts from the time at which it may first be written to, unless it is `MAP_NORESERVE`; shared
//! memory without a file counts while it exists, pages of memory file systems while they are present. The counts are
//! read and changed without a lock. Source: Linux's `Documentation/mm/overcommit-accounting.rst` and
//! `admin-guide/sysctl/vm.rst`.
use super::{
    map::Map,
    region::{PAGE, Region},
    space::AddressSpace,
};
use core::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use vfs::{Capabilities, Errno};

/// The requests that are refused (`vm.overcommit_memory`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// A single request is refused if it is for more than the machine has.
    Heuristic = 0,
    /// Nothing.
    Always = 1,
    /// A request is refused if it would raise the sum of all commitments above [`limit_pages`].
    Strict = 2,
}

/// The greatest amount of memory that [`Policy::Strict`] allows to be committed (`vm.overcommit_ratio`, `vm.overcommit_kbytes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitLimit {
    /// A percentage of the machine's memory.
    Percent(u64),
    /// A size in KiB.
    Kib(u64),
}

const KIB_A_PAGE: u64 = PAGE / 1024;
/// Flag of [`LIMIT`]: it is in KiB if this is set, else a percentage of memory.
const IS_KIB: u64 = 1 << 63;
/// Default limit as a percentage of memory.
const PERCENT: u64 = 50;
/// Divisor of an address space's size that gives the part which its owner cannot commit.
const OWN_PART: u64 = 32;
/// Divisor of the machine's memory that gives the greatest default of a reserve.
const RESERVE_PART: u64 = 32;

/// Pages of mappings and of shared memory without a file.
static COMMITTED: AtomicU64 = AtomicU64::new(0);
static POLICY: AtomicU8 = AtomicU8::new(Policy::Heuristic as u8);
static LIMIT: AtomicU64 = AtomicU64::new(PERCENT);

/// Memory that some processes cannot commit under [`Policy::Strict`].
#[derive(Debug)]
pub struct Reserve {
    /// The configured size; [`UNSET`] at first.
    kib: AtomicU64,
    /// Greatest default in KiB.
    max_kib: u64,
}

const UNSET: u64 = u64::MAX;

/// `vm.user_reserve_kbytes`: memory that no single address space may commit, so that its owner can still start another
/// program.
pub static USER_RESERVE: Reserve = Reserve { kib: AtomicU64::new(UNSET), max_kib: 128 << 10 };
/// `vm.admin_reserve_kbytes`: memory that only processes with CAP_SYS_ADMIN may commit.
pub static ADMIN_RESERVE: Reserve = Reserve { kib: AtomicU64::new(UNSET), max_kib: 8 << 10 };

impl Reserve {
    /// Returns its size in KiB.
    pub fn kib(&self) -> u64 {
        match self.kib.load(Relaxed) {
            UNSET => (total_pages() * KIB_A_PAGE / RESERVE_PART).min(self.max_kib),
            kib => kib,
        }
    }
    /// Sets its size in KiB.
    pub fn set_kib(&self, kib: u64) {
        self.kib.store(kib.min(UNSET - 1), Relaxed);
    }
    fn pages(&self) -> u64 {
        self.kib() / KIB_A_PAGE
    }
}

/// Returns the number of the machine's pages, which never changes.
fn total_pages() -> u64 {
    static TOTAL: AtomicU64 = AtomicU64::new(0);
    match TOTAL.load(Relaxed) {
        0 => {
            let total = rt::memory::statistics().total_frames;
            TOTAL.store(total, Relaxed);
            total
        }
        total => total,
    }
}

/// Returns the current policy.
pub fn policy() -> Policy {
    match POLICY.load(Relaxed) {
        0 => Policy::Heuristic,
        1 => Policy::Always,
        _ => Policy::Strict,
    }
}

/// Sets the policy for new requests; committed memory stays committed.
pub fn set_policy(policy: Policy) {
    POLICY.store(policy as u8, Relaxed);
}

/// Returns the limit of [`Policy::Strict`].
pub fn limit() -> CommitLimit {
    match LIMIT.load(Relaxed) {
        kib if kib & IS_KIB != 0 => CommitLimit::Kib(kib & !IS_KIB),
        percent => CommitLimit::Percent(percent),
    }
}

/// Changes the limit of [`Policy::Strict`].
pub fn set_limit(limit: CommitLimit) {
    let word = match limit {
        CommitLimit::Kib(kib) => kib | IS_KIB,
        CommitLimit::Percent(percent) => percent & !IS_KIB,
    };
    LIMIT.store(word, Relaxed);
}

/// Returns the limit of [`Policy::Strict`] in pages (`CommitLimit`).
pub fn limit_pages() -> u64 {
    match limit() {
        CommitLimit::Kib(kib) => kib / KIB_A_PAGE,
        CommitLimit::Percent(percent) => total_pages().saturating_mul(percent) / 100,
    }
}

/// Returns the number of pages committed by all programs (`Committed_AS`).
pub fn committed_pages() -> u64 {
    COMMITTED.load(SeqCst) + vfs::cached_pages().saturating_sub(vfs::stored_pages())
}

/// Adds a change to the number of committed pages.
pub(super) fn count(change: u64) {
    if change != 0 {
        COMMITTED.fetch_add(change, SeqCst);
    }
}

/// The address space that memory is promised to, as far as [`Policy::Strict`] treats spaces differently.
#[derive(Clone, Copy, Debug)]
pub struct Claimant {
    /// Pages that are kept from it.
    kept_pages: u64,
}

impl Claimant {
    /// The sum of all promises is within the bound for it.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn check(self) -> Result<(), Errno> {
        let has_room = || committed_pages() < limit_pages().saturating_sub(self.kept_pages);
        if policy() != Policy::Strict || has_room() { Ok(()) } else { Err(Errno::ENOMEM) }
    }
}

/// The commitment of shared memory without a file, which ends when this is dropped.
#[derive(Debug)]
pub struct Commitment(u64);

impl Commitment {
    /// Nothing.
    pub const fn none() -> Commitment {
        Commitment(0)
    }
    /// `pages` pages, for `claimant`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn take(pages: u64, claimant: Claimant) -> Result<Commitment, Errno> {
        if policy() == Policy::Heuristic && pages > total_pages() {
            return Err(Errno::ENOMEM);
        }
        count(pages);
        let taken = Commitment(pages);
        claimant.check()?;
        Ok(taken)
    }
}

impl Drop for Commitment {
    fn drop(&mut self) {
        count(self.0.wrapping_neg());
    }
}

impl AddressSpace {
    /// The space as one that memory is promised to. To be asked for with no lock held that is below `memory.map`.
    ///
    /// # Locks
    /// `memory.map`, to read.
    pub fn claimant(&self) -> Claimant {
        self.claimant_with(&self.map.read())
    }
    fn claimant_with(&self, map: &Map) -> Claimant {
        if policy() != Policy::Strict {
            return Claimant { kept_pages: 0 };
        }
        let is_administrator = map.owner().is_some_and(|owner| owner.has(Capabilities::SYS_ADMIN));
        let reserved = if is_administrator { 0 } else { ADMIN_RESERVE.pages() };
        Claimant { kept_pages: reserved + (map.total_pages / OWN_PART).min(USER_RESERVE.pages()) }
    }
    /// Checks that `region` may be added to `map`, or be written to from now on. Under [`Policy::Strict`] it is
    /// counted at once, so that no other request gets the same memory.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn promise(&self, map: &mut Map, region: &Region) -> Result<(), Errno> {
        let pages = region.committed_pages();
        match policy() {
            _ if pages == 0 => Ok(()),
            Policy::Heuristic if pages > total_pages() => Err(Errno::ENOMEM),
            Policy::Heuristic | Policy::Always => Ok(()),
            Policy::Strict => {
                count(pages);
                map.promised_pages += pages;
                self.claimant_with(map).check()
            }
        }
    }
}
