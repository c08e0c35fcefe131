//! Calls that must return. Each case makes one system call, with one combination of flags, in a state in which Linux returns
//! within a second. A case runs in a process of its own. If the call does not come back, a watchdog ends the process and
//! names the case.
//!
//! Linux is the oracle: a case that does not return there is wrong. Families of cases are in the files beside this one.
mod descriptors;
mod files;
mod ipc;
mod memory;
pub(crate) mod setting;
mod sweep;
mod tasks;
mod waits;

use crate::{fork, must};
use setting::{map_shared, raw};
use std::{
    cell::Cell,
    sync::atomic::{AtomicI64, AtomicU32, Ordering::SeqCst},
    time::{Duration, Instant},
};

/// A call in a state.
pub struct Case {
    /// The call and its arguments, as they are reported.
    pub name: String,
    body: Box<dyn Fn() -> i64>,
}

/// The end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call returned this.
    Returned(i64),
    /// The call did not return within the bound.
    Hung,
    /// The preparation of the call did not return within the bound.
    HungBefore,
    /// The process ended before the call returned; the wait status.
    Died(i32),
}

/// A list of cases under construction.
#[derive(Default)]
pub struct Cases(Vec<Case>);

impl Cases {
    /// Adds a case: `body` makes its state and the call, by [`setting::made`].
    fn add(&mut self, name: String, body: impl Fn() -> i64 + 'static) {
        self.0.push(Case { name, body: Box::new(body) });
    }
}

/// Makes the cases of one family.
type Family = fn(&mut Cases);

/// The families, by name.
const FAMILIES: [(&str, Family); 14] = [
    ("wait", waits::wait),
    ("clone", tasks::clone),
    ("futex", tasks::futex),
    ("sleep", waits::sleep),
    ("poll", waits::poll),
    ("epoll", waits::epoll),
    ("transfer", descriptors::transfer),
    ("open", files::open),
    ("locks", files::locks),
    ("sync", files::sync),
    ("splice", descriptors::splice),
    ("socket", ipc::sockets),
    ("memory", memory::memory),
    ("sweep", sweep::sweep),
];

/// Returns the cases of the family called `name`, or of all families.
pub fn cases(name: Option<&str>) -> Vec<Case> {
    let mut cases = Cases::default();
    for (family, make) in FAMILIES {
        if name.is_none_or(|name| name == family) {
            make(&mut cases);
        }
    }
    cases.0
}

/// Makes a case. `body` makes its state and the call, by [`setting::made`].
pub(crate) fn case(name: String, body: impl Fn() -> i64 + 'static) -> Case {
    Case { name, body: Box::new(body) }
}

/// Cases that fail, to show that the watchdog notices: a call that waits for ever, a state that does, and an end.
pub fn broken_cases() -> [Case; 3] {
    let mut cases = Cases::default();
    cases.add("pause()".into(), || setting::made(libc::SYS_pause, [0; 6]));
    cases.add("pause() before".into(), || raw(libc::SYS_pause, [0; 6]));
    cases.add("exit(1)".into(), || setting::made(libc::SYS_exit, [1, 0, 0, 0, 0, 0]));
    let [hangs, hangs_before, dies] =
        cases.0.try_into().unwrap_or_else(|_| unreachable!("three were added"));
    [hangs, hangs_before, dies]
}

/// Makes a folder to work in, and gives up root's rights, because a case may name any object.
///
/// # Panics
/// Panics if the folder cannot be made.
pub fn confine() {
    const NOBODY: u32 = 65_534;
    let folder = crate::Scratch::new();
    let path = crate::c(folder.path("."));
    // SAFETY: a NUL-terminated path.
    crate::must(unsafe { libc::chmod(path.as_ptr(), 0o777) });
    std::env::set_current_dir(folder.path(".")).expect("the folder was just made");
    std::mem::forget(folder);
    // SAFETY: plain numbers. A user that is not root keeps what it is.
    if unsafe { libc::geteuid() } == 0 {
        // SAFETY: no groups.
        crate::must(unsafe { libc::setgroups(0, std::ptr::null()) });
        // SAFETY: plain numbers.
        crate::must(unsafe { libc::setgid(NOBODY) });
        // SAFETY: plain numbers.
        crate::must(unsafe { libc::setuid(NOBODY) });
    }
}

/// The progress of a case's process, for the watchdog.
struct Progress {
    phase: AtomicU32,
    result: AtomicI64,
}

const BEFORE: u32 = 0;
const CALLING: u32 = 1;
const RETURNED: u32 = 2;

thread_local! {
    /// The page by which a case's process reports its progress; set in that process alone.
    static PROGRESS: Cell<Option<&'static Progress>> = const { Cell::new(None) };
}

/// Notes how far the case is, if this is a case's process.
fn note(phase: u32, result: i64) {
    if let Some(progress) = PROGRESS.get() {
        progress.result.store(result, SeqCst);
        progress.phase.store(phase, SeqCst);
    }
}

/// Makes standard input and output read and write nothing, because cases use small numbers as descriptors.
fn forget_streams() {
    // SAFETY: a NUL-terminated path.
    let null = must(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) }) as i32;
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: plain numbers.
        must(unsafe { libc::dup2(null, stream) });
    }
    crate::close(null);
}

/// Runs cases one after the other, each with a time limit.
pub struct Watchdog {
    progress: &'static Progress,
    bound: Duration,
}

impl Watchdog {
    /// Makes a watchdog that gives each case `bound`.
    pub fn new(bound: Duration) -> Watchdog {
        // SAFETY: new shared memory of a page, all zeroes, which stays for ever.
        let progress = unsafe { &*map_shared(4096).cast::<Progress>() };
        Watchdog { progress, bound }
    }
    /// Runs `case` to its end, or ends it.
    pub fn run(&self, case: &Case) -> Outcome {
        self.progress.phase.store(BEFORE, SeqCst);
        let child = fork(|| {
            // SAFETY: a plain call; all that the case makes is of its group.
            must(unsafe { libc::setsid() });
            forget_streams();
            PROGRESS.set(Some(self.progress));
            let result = (case.body)();
            note(RETURNED, result);
        });
        let ended = self.wait(child);
        // This ends the processes that the case has left behind, if any.
        raw(libc::SYS_kill, [-i64::from(child), libc::SIGKILL.into(), 0, 0, 0, 0]);
        match (self.progress.phase.load(SeqCst), ended) {
            (RETURNED, _) => Outcome::Returned(self.progress.result.load(SeqCst)),
            (_, Some(status)) => Outcome::Died(status),
            (BEFORE, None) => Outcome::HungBefore,
            (_, None) => Outcome::Hung,
        }
    }
    /// Waits for `child`, at most as long as the bound. Returns its wait status.
    fn wait(&self, child: libc::pid_t) -> Option<i32> {
        const YIELDS: u32 = 100;
        let (start, mut looks) = (Instant::now(), 0);
        let mut status = 0;
        loop {
            // SAFETY: `status` outlives the call.
            if must(unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) }) != 0 {
                return Some(status);
            }
            if start.elapsed() > self.bound {
                raw(libc::SYS_kill, [child.into(), libc::SIGKILL.into(), 0, 0, 0, 0]);
                // SAFETY: as above; a killed process ends.
                must(unsafe { libc::waitpid(child, &mut status, 0) });
                return None;
            }
            looks += 1;
            match looks < YIELDS {
                true => std::thread::yield_now(),
                false => std::thread::sleep(Duration::from_micros(300)),
            }
        }
    }
}
