//! Limits of pipes, and the memory that a user is charged for pipes (pipe(7), "/proc files"; Linux
//! `fs/pipe.c`).
use super::SLOTS;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use process::{
    Task,
    principal::is_unprivileged,
    user_memory::{self, User},
};
use rt::{PAGE_BYTES, sync::Once};
use vfs::{Capabilities, Errno, Principal};

/// Frames of a new pipe of a user above the soft limit.
const SLOTS_LEAST: usize = 2;
/// The soft limit at start: Linux's, or an eighth of a small memory.
const PAGES_SOFT: usize = 16_384;
const SOFT_SHARE: usize = 8;
/// Greatest size of any pipe.
const SIZE_END: usize = 1 << 31;

/// `/proc/sys/fs/pipe-max-size`, in bytes.
static SIZE_MAX: AtomicUsize = AtomicUsize::new(1 << 20);
/// `/proc/sys/fs/pipe-user-pages-hard`; 0 is no limit.
static HARD: AtomicUsize = AtomicUsize::new(0);

/// Returns `/proc/sys/fs/pipe-user-pages-soft`; 0 means that there is no limit.
fn soft() -> &'static AtomicUsize {
    static SOFT: Once<AtomicUsize> = Once::new();
    SOFT.get_or_init(|| AtomicUsize::new(PAGES_SOFT.min(user_memory::frames() / SOFT_SHARE)))
}

/// A limit of pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeLimit {
    /// The greatest number of bytes of a pipe of an unprivileged user.
    Size,
    /// Number of pages of a user's pipes above which new ones are small.
    Soft,
    /// Number of pages of a user's pipes above which no new pipe can be made.
    Hard,
}

impl PipeLimit {
    fn value(self) -> &'static AtomicUsize {
        match self {
            PipeLimit::Size => &SIZE_MAX,
            PipeLimit::Soft => soft(),
            PipeLimit::Hard => &HARD,
        }
    }
    /// The limit now.
    pub fn get(self) -> usize {
        self.value().load(Relaxed)
    }
    /// Sets the limit. A size is rounded up to a power of two of pages.
    ///
    /// # Errors
    /// `EINVAL` for a size that no pipe may have.
    pub fn set(self, value: usize) -> Result<(), Errno> {
        let value = if self == PipeLimit::Size { rounded(value)? } else { value };
        self.value().store(value, Relaxed);
        Ok(())
    }
    fn is_passed_by(self, pages: usize) -> bool {
        let limit = self.get();
        limit != 0 && pages > limit
    }
}

/// Returns the size that a pipe gets for a request of `bytes`.
///
/// # Errors
/// `EINVAL` beyond 2 GiB.
pub fn rounded(bytes: usize) -> Result<usize, Errno> {
    if bytes > SIZE_END {
        return Err(Errno::EINVAL);
    }
    Ok(bytes.max(PAGE_BYTES).next_power_of_two())
}

fn may_pass_size(caller: &dyn Principal) -> bool {
    Task::of(caller).is_none_or(|task| task.has(Capabilities::SYS_RESOURCE))
}

/// Pages charged for a pipe, until this is dropped.
#[derive(Debug)]
pub struct PipeShare {
    user: Arc<User>,
    pages: usize,
}

impl PipeShare {
    /// Charges a new pipe to the user of `maker`.
    ///
    /// # Errors
    /// `ENFILE` above the hard limit.
    pub fn take(maker: &dyn Principal) -> Result<PipeShare, Errno> {
        let most = PipeLimit::Size.get() / PAGE_BYTES;
        let wanted = if SLOTS > most && !may_pass_size(maker) { most } else { SLOTS };
        let user = User::of_caller(maker);
        let mut pages = wanted;
        let mut now = user.add_pipe_pages(pages as isize);
        if PipeLimit::Soft.is_passed_by(now) && is_unprivileged(maker) {
            pages = wanted.min(SLOTS_LEAST);
            now = user.add_pipe_pages(pages as isize - wanted as isize);
        }
        let share = PipeShare { user, pages };
        if PipeLimit::Hard.is_passed_by(now) && is_unprivileged(maker) {
            return Err(Errno::ENFILE);
        }
        Ok(share)
    }
    /// Returns the number of charged pages.
    pub fn pages(&self) -> usize {
        self.pages
    }
    /// Changes the charge to `pages`, for `caller`.
    ///
    /// # Errors
    /// `EPERM` if it grows beyond [`PipeLimit::Size`], or its user would be above a limit, without
    /// privilege.
    pub fn change(&mut self, pages: usize, caller: &dyn Principal) -> Result<(), Errno> {
        let before = self.pages;
        let grows = pages > before;
        if grows && pages * PAGE_BYTES > PipeLimit::Size.get() && !may_pass_size(caller) {
            return Err(Errno::EPERM);
        }
        let by = pages as isize - before as isize;
        let now = self.user.add_pipe_pages(by);
        let is_over = PipeLimit::Soft.is_passed_by(now) || PipeLimit::Hard.is_passed_by(now);
        if grows && is_over && is_unprivileged(caller) {
            self.user.add_pipe_pages(-by);
            return Err(Errno::EPERM);
        }
        self.pages = pages;
        Ok(())
    }
    /// Charges `pages` again, the number before a change that failed.
    pub fn put_back(&mut self, pages: usize) {
        self.user.add_pipe_pages(pages as isize - self.pages as isize);
        self.pages = pages;
    }
}

impl Drop for PipeShare {
    fn drop(&mut self) {
        self.user.add_pipe_pages(-(self.pages as isize));
    }
}
