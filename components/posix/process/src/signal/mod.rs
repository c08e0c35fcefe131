//! Signals: what is pending, what is blocked, what is to be done, and who is told.
//!
//! [`queue::Queue`] holds pending signals; [`action::Dispositions`] what to do with each;
//! [`send`] makes one pending and wakes a thread for it; [`deliver`] is the slow way back to user
//! mode, where signals are acted on; [`frame`] builds and undoes the stack frame of a handler, [`extended`]
//! the part of it for extended state; [`stop`] is job control. `process.signals` guards the shared queue, the list of tasks and the
//! stop and exit state, `task.signals` the task's queue and mask.
//! Source: signal(7), POSIX.1-2017 2.4, Linux `kernel/signal.c` for order and restart rules.
pub mod action;
pub mod deliver;
pub mod extended;
pub mod frame;
pub mod info;
pub mod mask;
pub mod queue;
pub mod send;
pub mod state;
pub mod stop;

pub use action::Dispositions;
pub use deliver::{pending, take_wanted};
pub use info::{Info, Shape};
pub use mask::{is_ignored_or_blocked, set_temporary_mask};
pub use send::{
    force, send_to_group, send_to_own_process, send_to_process, send_to_process_of, send_to_task,
};
pub use state::{ProcessSignals, TaskSignals};

/// A set of signals: bit `n - 1` for signal `n`, as in the kernel's `sigset_t`.
pub type SignalSet = u64;

/// Highest signal number.
pub const LAST: u8 = 64;
/// First real-time signal.
pub const FIRST_REAL_TIME: u8 = 32;

macro_rules! signals {
    ($($name:ident = $number:literal)+) => {
        $(#[doc = stringify!($name)] pub const $name: u8 = $number;)+
    };
}
signals! {
    SIGHUP = 1 SIGINT = 2 SIGQUIT = 3 SIGILL = 4 SIGTRAP = 5 SIGABRT = 6 SIGBUS = 7 SIGFPE = 8 SIGKILL = 9
    SIGUSR1 = 10 SIGSEGV = 11 SIGUSR2 = 12 SIGPIPE = 13 SIGALRM = 14 SIGTERM = 15 SIGCHLD = 17
    SIGCONT = 18 SIGSTOP = 19 SIGTSTP = 20 SIGTTIN = 21 SIGTTOU = 22 SIGURG = 23 SIGXCPU = 24 SIGXFSZ = 25
    SIGVTALRM = 26 SIGPROF = 27 SIGWINCH = 28 SIGIO = 29 SIGSYS = 31
}

/// The set of one signal; empty for 0 and numbers above 64.
pub const fn bit(signal: u8) -> SignalSet {
    if signal >= 1 && signal <= LAST { 1 << (signal - 1) } else { 0 }
}

/// Signals nobody can block, catch or ignore.
pub const UNBLOCKABLE: SignalSet = bit(SIGKILL) | bit(SIGSTOP);
/// Signals whose default is to stop the process.
pub const STOPPING: SignalSet = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
/// Signals whose default is to do nothing.
pub const IGNORED_BY_DEFAULT: SignalSet = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGURG) | bit(SIGWINCH);
/// Signals whose default is to dump core.
pub const DUMPING: SignalSet = bit(SIGQUIT)
    | bit(SIGILL)
    | bit(SIGTRAP)
    | bit(SIGABRT)
    | bit(SIGBUS)
    | bit(SIGFPE)
    | bit(SIGSEGV)
    | bit(SIGXCPU)
    | bit(SIGXFSZ)
    | bit(SIGSYS);
/// Signals that the running instruction caused: taken before all others.
pub const SYNCHRONOUS: SignalSet =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGFPE) | bit(SIGSYS);
