//! Large pages for private anonymous memory (Linux's transparent huge pages).
//!
//! One is entered whole, and cleared whole, where faults in a row reached its start: the rest is about to be touched too, and
//! who touches a page here and there pays for no more than these. Where a program asked for large pages (`MADV_HUGEPAGE`)
//! its first touch enters one. A later change of a part of one makes pages of it again; nothing joins pages
//! to large ones.
//! Source: Linux, `Documentation/admin-guide/mm/transhuge.rst`, madvise(2), prctl(2).
use super::{
    region::{Flags, PAGE, Region, range},
    space::AddressSpace,
};
use core::sync::atomic::{AtomicU8, Ordering};
use rt::user::{LARGE_BYTES, PageRange};
use vfs::Errno;

/// Bytes of a large page, as addresses count.
pub(super) const LARGE: u64 = LARGE_BYTES as u64;
/// So many pages the last fault in a row entered where the next may enter a large one.
const PAGES_IN_A_ROW: u64 = super::fault::AHEAD_MAX;

/// The system's policy for entering large pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Large pages wherever faults in a row, or the program, ask for them.
    Always,
    /// Large pages where the program asks for them.
    Advised,
    /// No large pages.
    Never,
}

const POLICIES: [(Policy, &str); 3] =
    [(Policy::Always, "always"), (Policy::Advised, "madvise"), (Policy::Never, "never")];

static POLICY: AtomicU8 = AtomicU8::new(Policy::Always as u8);

fn policy() -> Policy {
    let index = usize::from(POLICY.load(Ordering::Relaxed));
    POLICIES.get(index).map_or(Policy::Never, |(policy, _)| *policy)
}

/// All words, that which holds in brackets: `/sys/kernel/mm/transparent_hugepage/enabled`.
pub fn policy_text() -> alloc::string::String {
    let words = POLICIES.map(|(policy, word)| match policy == self::policy() {
        true => alloc::format!("[{word}]"),
        false => word.into(),
    });
    words.join(" ") + "\n"
}

/// Sets the policy by its word.
///
/// # Errors
/// `EINVAL`.
pub fn set_policy(data: &[u8]) -> Result<(), Errno> {
    let word = data.trim_ascii_end();
    let found = POLICIES.iter().find(|(_, known)| known.as_bytes() == word);
    POLICY.store(found.ok_or(Errno::EINVAL)?.0 as u8, Ordering::Relaxed);
    Ok(())
}

impl AddressSpace {
    /// Whether its programs have large pages at all (`PR_SET_THP_DISABLE`).
    pub fn has_large_pages(&self) -> bool {
        !self.lacks_large_pages.load(Ordering::Relaxed)
    }
    /// Sets it.
    pub fn set_large_pages(&self, has: bool) {
        self.lacks_large_pages.store(!has, Ordering::Relaxed);
    }
    /// Whether `region` may get large pages: there is room for one, and nobody is against it.
    pub(super) fn takes_large(&self, region: &Region) -> bool {
        let is_wanted = match policy() {
            Policy::Always => !region.flags.contains(Flags::NO_LARGE),
            Policy::Advised => region.flags.contains(Flags::LARGE),
            Policy::Never => false,
        };
        let first = region.start.next_multiple_of(LARGE);
        is_wanted
            && region.is_anonymous()
            && region.is_private()
            && self.has_large_pages()
            && first.saturating_add(LARGE) <= region.end
    }
    /// The large page to be entered for a fault at `page`. `expected` is where the next fault in a row would be and `last` how
    /// many pages the one before entered.
    pub(super) fn large_at(
        &self,
        region: &Region,
        page: u64,
        (expected, last): (u64, u64),
    ) -> Option<PageRange> {
        let start = page & !(LARGE - 1);
        let is_in_a_row = page == start && expected == page && last >= PAGES_IN_A_ROW;
        let is_whole = region.start <= start && start.saturating_add(LARGE) <= region.end;
        let is_due = is_whole && (is_in_a_row || region.flags.contains(Flags::LARGE));
        if is_due && self.takes_large(region) { range(start, start + LARGE) } else { None }
    }
    /// The first large page that faults in a row may enter: they stop entering small pages ahead of `page` there.
    pub(super) fn small_until(&self, region: &Region, page: u64) -> u64 {
        let next = (page + PAGE).next_multiple_of(LARGE);
        let is_there = next.saturating_add(LARGE) <= region.end && self.takes_large(region);
        if is_there { next } else { region.end }
    }
}
