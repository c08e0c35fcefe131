//! Children that make calls until enough were made: a child may die of them, or hang, and the next one follows.
use abi::{Ended, check, fork, wait, zeroed};
use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

/// Calls that one child makes. After these little works any more: its descriptors, limits and memory have all
/// been changed.
pub const CALLS_A_CHILD: u64 = 5_000;

const PAGE_BYTES: usize = 4096;

/// xorshift64*, so that a seed repeats a run.
pub struct Random(pub u64);

impl Random {
    /// Returns the next word.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Time between two checks of a child.
const LOOK: Duration = Duration::from_millis(5);
/// Time after which a killed child that has not ended counts as hung in the kernel.
const DEATH_MAX: Duration = Duration::from_secs(10);

/// The last call of each child, in memory that the parent sees.
pub struct Said {
    /// Number of calls made.
    pub made: AtomicU64,
    /// The number of the last call.
    pub last: AtomicU64,
    /// A number that a child leaves for its parent.
    pub note: AtomicU64,
    /// A number that children count.
    pub seen: AtomicU64,
}

/// Returns whether `child` has ended; it must still be waited for.
fn has_ended(child: libc::pid_t) -> bool {
    // SAFETY: no answer is stored; WNOWAIT leaves the child for `wait`.
    let (mut info, options): (libc::siginfo_t, _) =
        (unsafe { zeroed() }, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT);
    // SAFETY: room for the answer.
    let looked = check(unsafe { libc::waitid(libc::P_PID, child as u32, &mut info, options) });
    // SAFETY: the field is zero until a child is reported.
    looked.is_err() || unsafe { info.si_pid() } == child
}

/// Kills `child` and waits for its end.
///
/// # Panics
/// Panics if the child has not ended after [`DEATH_MAX`]; the kernel's log then shows the state of every thread.
fn kill(child: libc::pid_t, said: &Said) -> Ended {
    let start = Instant::now();
    // SAFETY: our own child.
    unsafe { libc::kill(child, libc::SIGKILL) };
    while !has_ended(child) {
        if start.elapsed() > DEATH_MAX {
            let _ = std::fs::write("/proc/sysrq-trigger", "t");
            panic!("a child was killed in call {} and lives on", said.last.load(SeqCst));
        }
        std::thread::sleep(LOOK);
    }
    wait(child)
}

/// Waits for `child` as long as it makes calls; a child that makes none is killed.
fn watch(child: libc::pid_t, said: &Said) -> Ended {
    let mut last = (said.made.load(SeqCst), Instant::now());
    loop {
        if has_ended(child) {
            return wait(child);
        }
        let now = said.made.load(SeqCst);
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > Duration::from_millis(300) {
            return kill(child, said);
        }
        std::thread::sleep(LOOK);
    }
}

/// The end of a run.
pub struct Run {
    /// Calls made.
    pub calls: u64,
    /// Children that did not end by themselves.
    pub deaths: u64,
    /// Notes that children left.
    #[allow(dead_code, reason = "random calls leave none")]
    pub notes: Vec<u64>,
    /// The number that they counted.
    #[allow(dead_code, reason = "random calls count nothing")]
    pub seen: u64,
}

/// Starts children, which run `child` with a seed, the counters and `count`, until `count` calls were made.
///
/// # Panics
/// Panics if there is no memory, or a child hangs in the kernel.
pub fn run(count: u64, seed: &mut u64, child: impl Fn(u64, &Said, u64)) -> Run {
    // Closed pages on both sides: a call that fills memory from the buffer on must not reach it.
    let map = |address, pages, protection, flags| {
        // SAFETY: a place of the system's choice, or one of ours.
        unsafe { libc::mmap(address, pages * PAGE_BYTES, protection, flags, -1, 0) }
    };
    let apart = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let closed = map(std::ptr::null_mut(), 3, libc::PROT_NONE, apart);
    assert_ne!(closed, libc::MAP_FAILED, "no room for the counter");
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let middle = closed.wrapping_byte_add(PAGE_BYTES);
    let page = map(middle, 1, libc::PROT_READ | libc::PROT_WRITE, shared);
    assert_ne!(page, libc::MAP_FAILED, "no page for the counter");
    // SAFETY: the page is zeroed, is never unmapped, and holds these counters alone.
    let said = unsafe { &*page.cast::<Said>() };
    let (mut deaths, mut notes) = (0u64, Vec::new());
    while said.made.load(SeqCst) < count {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pid = fork(|| {
            // SAFETY: no arguments. A group of its own, so that what it signals stays there.
            unsafe { libc::setsid() };
            child(*seed, said, count);
        });
        if watch(pid, said) != Ended::Exited(0) {
            deaths += 1;
        }
        notes.extend(Some(said.note.swap(0, SeqCst)).filter(|note| *note != 0));
        // SAFETY: whatever the child left behind in its group.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
    }
    let (calls, seen) = (said.made.load(SeqCst).min(count), said.seen.load(SeqCst));
    Run { calls, deaths, notes, seen }
}
