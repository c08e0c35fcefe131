//! Large pages for private anonymous memory (Linux's transparent huge pages).
//!
//! A large page is mapped and cleared as a whole if consecutive faults have reached its start: the rest is probably about to
//! be used too, and a program that uses single pages here and there does not pay for more than these. If a program asked for
//! large pages (`MADV_HUGEPAGE`), its first access maps one. A later change of a part of one splits it into small pages; small
//! pages are never joined to large ones. Source: Linux, `Documentation/admin-guide/mm/transhuge.rst`, madvise(2), prctl(2).
use super::{
    region::{Flags, PAGE, Region, range},
    space::AddressSpace,
};
use core::sync::atomic::{AtomicU8, Ordering};
use rt::user::{LARGE_BYTES, PageRange};
use vfs::Errno;

/// Bytes of a large page, in the type of addresses.
pub(super) const LARGE: u64 = LARGE_BYTES as u64;
/// Number of pages that the last fault in sequence must have made present before the next may map a large page.
const PAGES_IN_A_ROW: u64 = super::fault::AHEAD_MAX;

/// The system's policy for large pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Large pages are used wherever consecutive faults, or the program, ask for them.
    Always,
    /// Large pages are used if the program asks for them.
    Advised,
    /// Large pages are not used.
    Never,
}

const POLICIES: [(Policy, &str); 3] =
    [(Policy::Always, "always"), (Policy::Advised, "madvise"), (Policy::Never, "never")];

static POLICY: AtomicU8 = AtomicU8::new(Policy::Always as u8);

fn policy() -> Policy {
    let index = usize::from(POLICY.load(Ordering::Relaxed));
    POLICIES.get(index).map_or(Policy::Never, |(policy, _)| *policy)
}

/// Returns all policy names, the current one in brackets: `/sys/kernel/mm/transparent_hugepage/enabled`.
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
    /// Returns whether large pages are enabled for its programs (`PR_SET_THP_DISABLE`).
    pub fn has_large_pages(&self) -> bool {
        !self.lacks_large_pages.load(Ordering::Relaxed)
    }
    /// Enables or disables large pages for its programs.
    pub fn set_large_pages(&self, has: bool) {
        self.lacks_large_pages.store(!has, Ordering::Relaxed);
    }
    /// Returns whether `region` may get large pages: there is room for one, and neither the policy nor the program forbids it.
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
    /// Returns the large page to map for a fault at `page`. `expected` is the address of the next fault in sequence, and
    /// `last` the number of pages that the previous one made present.
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
    /// Returns the first large page that consecutive faults may map: they map small pages ahead of `page` only up to it.
    pub(super) fn small_until(&self, region: &Region, page: u64) -> u64 {
        let next = (page + PAGE).next_multiple_of(LARGE);
        let is_there = next.saturating_add(LARGE) <= region.end && self.takes_large(region);
        if is_there { next } else { region.end }
    }
}
