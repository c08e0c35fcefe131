//! The out-of-memory killer: when no memory can be freed otherwise, it kills the process whose end frees most memory, and logs
//! that.
//!
//! The choice is Linux's `oom_badness`: resident pages and page tables (all that the space has), shifted by the process's
//! `oom_score_adj`, in thousandths of memory; -1000 and the first process are never chosen. Memory that only its descriptors
//! hold counts as well ([`vfs::File::held_bytes`]): files without names (memfd_create(2), O_TMPFILE on tmpfs), frames of
//! pipes, messages of sockets, and all these in descriptors that are in messages under way. Linux counts none of it, so that
//! it kills other programs when a program fills pipes. There is one victim at a time: a thread whose allocation fails
//! meanwhile waits for it to end. Lock: `oom.victim` is held while a victim is chosen, above `process.tree` and `files.table`.
use crate::{
    object::Process,
    signal::{info::Info, number::SIGKILL, send},
    task::Task,
    tree,
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::Ordering;
use memory::{self, AddressSpace};
use rt::{
    lock_class,
    sync::{Mutex, Once},
    time::Instant,
};
use vfs::Errno;

lock_class! {
    static VICTIM = "oom.victim";
}

/// `oom_score_adj` from which a process is never chosen.
pub const NEVER: i32 = -1000;
/// Greatest `oom_score_adj`, and the score of a process that uses all of memory.
pub const ALWAYS: i32 = 1000;
/// Time that a thread in need of memory waits for the victim before it tries again.
const WAIT_NS: u64 = 20_000_000;
/// Number of pages to free in each of the tries to fill the kernel's reserve.
const FILL_PAGES: usize = 64;
const FILL_TRIES: usize = 100;
/// The greatest number of times that a refused call is tried again.
const CALL_TRIES: usize = 100;
/// Refusals in a row, with enough memory free, after which the call is not tried again.
const REFUSALS_MAX: usize = 3;

static LAST: Once<Mutex<Weak<Process>>> = Once::new();

fn last() -> &'static Mutex<Weak<Process>> {
    LAST.get_or_init(|| Mutex::new(&VICTIM, Weak::new()))
}

/// Returns the badness of `process`, in pages; `None` if the process is never chosen.
fn badness(process: &Process) -> Option<u64> {
    let adjustment = process.oom_adjustment.load(Ordering::Relaxed);
    if process.id() == tree::INIT || adjustment == NEVER {
        return None;
    }
    let memory = process.try_memory()?;
    let mapped = memory.user().resident_pages() + memory.user().table_pages();
    let pages = mapped as u64 + held_pages(process);
    let total = rt::memory::statistics().total_frames;
    let shift = i64::from(adjustment) * (total / ALWAYS as u64) as i64;
    Some(pages.saturating_add_signed(shift).max(1))
}

/// Returns the number of pages of memory that are freed with the descriptors of `process`. Tasks may have tables of their own.
fn held_pages(process: &Process) -> u64 {
    let mut seen = Vec::new();
    process.tasks().iter().map(|task| task.held_pages(&mut seen)).sum()
}

/// Returns the value of `/proc/PID/oom_score`: from 0, never chosen, to about 1333.
pub fn score(process: &Process) -> u64 {
    let total = rt::memory::statistics().total_frames.max(1);
    badness(process).map_or(0, |pages| (1000 + pages * 1000 / total) * 2 / 3)
}

/// Called when memory was refused and nothing could be freed: ends a process, and waits a little for its memory, unless some
/// is free again. Returns `false` if there is no process to kill. A task that is to end itself must not call this: it might wait
/// for its own end.
pub fn relieve() -> bool {
    let victim = match choose() {
        Choice::NotNeeded => return true,
        Choice::Nobody => return false,
        Choice::Victim(victim) => victim,
    };
    let ticket = victim.released.ticket();
    if is_dying(&victim) {
        let until = Instant(rt::time::now().0.saturating_add(WAIT_NS));
        victim.released.wait(ticket, Some(until));
    }
    true
}

/// As [`relieve`] for `task`, which holds no lock: objects that no program can reach are given back first.
pub fn relieve_unlocked(task: &Task) -> bool {
    task.process.upcalls.collect_unreachable() || !task.is_ending() && relieve()
}

/// Called before a system call begins: fills the kernel's reserve again if it was used, so that no call begins without enough
/// memory to complete. A task that is to end continues.
#[inline]
pub fn fill_reserve(task: &Task) {
    if rt::memory::is_short() {
        fill_reserve_slowly(task);
    }
}

#[cold]
fn fill_reserve_slowly(task: &Task) {
    for _ in 0..FILL_TRIES {
        let freed = vfs::reclaim(FILL_PAGES);
        if !rt::memory::is_short() || task.is_ending() || freed == 0 && !relieve_unlocked(task) {
            return;
        }
    }
}

/// Repeats a call that was refused memory and had no effect, after freeing memory, as long as there is too little for
/// programs. A call that is refused [`REFUSALS_MAX`] times in a row with enough memory before and after it
/// asked for too much. One such refusal proves nothing: other threads may have used and freed the memory meanwhile.
#[cold]
pub fn retried(task: &Task, call: impl FnMut() -> Result<u64, Errno>) -> Result<u64, Errno> {
    retried_while(|| !task.is_ending(), || relieve_unlocked(task), call)
}

fn retried_while(
    goes_on: impl Fn() -> bool,
    relieve: impl Fn() -> bool,
    mut call: impl FnMut() -> Result<u64, Errno>,
) -> Result<u64, Errno> {
    let mut refusals = 0;
    for _ in 0..CALL_TRIES {
        let is_full = rt::memory::is_full();
        if !goes_on() || is_full && vfs::reclaim(FILL_PAGES) == 0 && !relieve() {
            break;
        }
        let result = call();
        if result != Err(Errno::Refused) {
            return result;
        }
        refusals = if is_full || rt::memory::is_full() { 0 } else { refusals + 1 };
        if refusals == REFUSALS_MAX {
            break;
        }
    }
    Err(Errno::Refused)
}

/// Called when the process has released its memory: it is no longer the victim for which threads wait.
pub fn memory_released(process: &Process) {
    let mut last = last().lock();
    if core::ptr::eq(last.as_ptr(), process) {
        *last = Weak::new();
    }
}

fn is_dying(process: &Arc<Process>) -> bool {
    core::ptr::eq(last().lock().as_ptr(), Arc::as_ptr(process))
}

enum Choice {
    /// Memory became free before a victim was chosen.
    NotNeeded,
    Nobody,
    Victim(Arc<Process>),
}

/// Returns the victim that is ending already, or kills a new one.
fn choose() -> Choice {
    let mut last = last().lock();
    if let Some(dying) = last.upgrade() {
        return Choice::Victim(dying);
    }
    // The last victim may have ended since memory was refused.
    if !rt::memory::is_full() {
        return Choice::NotNeeded;
    }
    let victim = {
        let tree = tree::read();
        let candidates = tree.processes().filter_map(|process| Some((badness(process)?, process)));
        candidates.max_by_key(|(pages, _)| *pages).map(|(_, process)| process.clone())
    };
    let Some(victim) = victim else { return Choice::Nobody };
    report(&victim);
    *last = Arc::downgrade(&victim);
    let _ = send::send_to_process(&victim, Info::kernel(SIGKILL));
    Choice::Victim(victim)
}

/// Logs that `process` ends because its address space has reached the limit of page tables.
pub fn report_tables(process: &Process, memory: &AddressSpace) {
    log::warn!(
        "Out of page tables: process {} ends with pgtables:{}kB, rss:{}kB",
        process.id(),
        memory.user().table_pages() * 4,
        memory.user().resident_pages() * 4
    );
}

fn report(victim: &Process) {
    let (memory, files) = (rt::memory::statistics(), vfs::dirty_pages());
    log::warn!(
        "Out of memory: free:{} cached:{} dirty:{} writing:{} heap:{} tables:{} stacks:{} of {} pages",
        memory.free_frames,
        vfs::cached_pages(),
        files.dirty,
        files.writing,
        memory.heap_frames,
        memory.table_frames,
        memory.stack_frames,
        memory.total_frames
    );
    let command = victim.tasks().first().map(|task| task.command()).unwrap_or_default();
    let length = command.iter().position(|byte| *byte == 0).unwrap_or(command.len());
    let name = core::str::from_utf8(command.get(..length).unwrap_or_default()).unwrap_or("?");
    let sizes = victim.try_memory().map(|memory| memory.sizes()).unwrap_or_default();
    log::warn!(
        "Out of memory: killed process {} ({name}) total-vm:{}kB, rss:{}kB, pgtables:{}kB, score:{}, oom_score_adj:{}",
        victim.id(),
        sizes.total * 4,
        sizes.resident * 4,
        sizes.tables * 4,
        score(victim),
        victim.oom_adjustment.load(Ordering::Relaxed)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::memory::Frame;

    fn take_frame() -> Result<u64, Errno> {
        Frame::unfilled().map(|_| 1).map_err(Errno::from)
    }

    #[test]
    fn memory_that_came_back_since_the_refusal_is_used() {
        rt::host::refuse_after(Some(0));
        let refused = take_frame();
        rt::host::refuse_after(None);
        assert_eq!(refused, Err(Errno::Refused));
        assert_eq!(retried_while(|| true, relieve, take_frame), Ok(1));
    }

    #[test]
    fn who_asks_for_too_much_is_refused() {
        let mut calls = 0;
        let too_much = || {
            calls += 1;
            Err(Errno::Refused)
        };
        assert_eq!(retried_while(|| true, relieve, too_much), Err(Errno::Refused));
        assert_eq!(calls, REFUSALS_MAX);
    }

    #[test]
    fn who_is_to_end_tries_nothing() {
        let called = || -> Result<u64, Errno> { unreachable!("called") };
        assert_eq!(retried_while(|| false, relieve, called), Err(Errno::Refused));
    }

    #[test]
    fn where_nobody_gives_memory_back_it_is_refused() {
        rt::host::refuse_after(Some(0));
        let refused = retried_while(|| true, relieve, take_frame);
        rt::host::refuse_after(None);
        assert_eq!(refused, Err(Errno::Refused));
    }
}
