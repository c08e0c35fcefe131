//! Signal numbers and sets of them (signal(7)).

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

/// Returns the set of one signal; empty for 0 and numbers above 64.
pub const fn bit(signal: u8) -> SignalSet {
    if signal >= 1 && signal <= LAST { 1 << (signal - 1) } else { 0 }
}

/// Signals that cannot be blocked, caught or ignored.
pub const UNBLOCKABLE: SignalSet = bit(SIGKILL) | bit(SIGSTOP);
/// Signals whose default action stops the process.
pub const STOPPING: SignalSet = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
/// Signals whose default action has no effect.
pub const IGNORED_BY_DEFAULT: SignalSet = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGURG) | bit(SIGWINCH);
/// Signals whose default action dumps core.
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
