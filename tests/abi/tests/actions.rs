//! The fields of an action that rt_sigaction keeps: flags and mask after a handler was removed, and unknown flags.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    jobs::{count, counted},
    *,
};
use std::ptr::{null, null_mut};

const KNOWN: u64 =
    0x1 | 0x2 | 0x4 | 0x800 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x4000_0000 | 0x8000_0000;
const RESET: u64 = libc::SA_RESETHAND as u32 as u64;
const NO_DEFER: u64 = libc::SA_NODEFER as u64;
const RESTART: u64 = libc::SA_RESTART as u64;
const RESTORER: u64 = 0x0400_0000;

/// The kernel's `struct sigaction`: handler, flags, restorer, mask.
type Action = [u64; 4];

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn action(signal: i32, new: Option<&Action>) -> Result<Action, i32> {
    let mut old = [0; 4];
    let new = new.map_or(null(), std::ptr::from_ref);
    check(unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, &mut old, 8) })?;
    Ok(old)
}

/// Returns an action whose handler counts, with the C library's restorer.
fn counting(signal: i32, flags: u64, mask: u64) -> Action {
    handle(signal, count, 0);
    let [handler, _, restorer, _] = action(signal, None).unwrap();
    [handler, flags | RESTORER, restorer, mask]
}

#[test]
fn a_handler_taken_back_leaves_flags_and_mask() {
    isolated(|| {
        for extra in [0, RESTART, NO_DEFER | 0x800] {
            let mask = bit(libc::SIGUSR2) | bit(libc::SIGTERM);
            let wanted = counting(libc::SIGWINCH, RESET | extra, mask);
            action(libc::SIGWINCH, Some(&wanted)).unwrap();
            assert_eq!(action(libc::SIGWINCH, None), Ok(wanted));
            let before = counted(libc::SIGWINCH);
            must(unsafe { libc::raise(libc::SIGWINCH) });
            must(unsafe { libc::raise(libc::SIGWINCH) });
            assert_eq!(counted(libc::SIGWINCH), before + 1, "ignored by default then");
            let [_, flags, restorer, mask] = wanted;
            assert_eq!(action(libc::SIGWINCH, None), Ok([0, flags, restorer, mask]));
        }
    });
}

#[test]
fn flags_that_nobody_knows_are_dropped() {
    isolated(|| {
        let wanted = counting(libc::SIGUSR1, !0, !0);
        action(libc::SIGUSR1, Some(&wanted)).unwrap();
        let [handler, _, restorer, _] = wanted;
        let mask = !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));
        assert_eq!(action(libc::SIGUSR1, None), Ok([handler, KNOWN, restorer, mask]));
        // They are also kept for the default action and for ignoring.
        for handler in [libc::SIG_DFL as u64, libc::SIG_IGN as u64] {
            action(libc::SIGUSR1, Some(&[handler, RESTART | 0x400, 7, bit(libc::SIGHUP)])).unwrap();
            let kept = [handler, RESTART, 7, bit(libc::SIGHUP)];
            assert_eq!(action(libc::SIGUSR1, None), Ok(kept));
        }
        assert_eq!(action(libc::SIGKILL, None), Ok([0; 4]), "it may be asked for");
        assert_eq!(action(libc::SIGKILL, Some(&[0; 4])), Err(libc::EINVAL));
        assert_eq!(action(0, None), Err(libc::EINVAL));
        assert_eq!(action(65, None), Err(libc::EINVAL));
    });
}

fn new_timer(signal: i32) -> libc::timer_t {
    let mut event: libc::sigevent = unsafe { zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = signal;
    let mut timer: libc::timer_t = null_mut();
    must(unsafe { libc::timer_create(libc::CLOCK_REALTIME, &mut event, &mut timer) });
    timer
}

/// Starts a timer that expires at once, then every `interval_ns` (0 for once).
fn start_timer(timer: libc::timer_t, interval_ns: i64) {
    let setting = libc::itimerspec {
        // The first expiry was in 1970.
        it_value: libc::timespec { tv_sec: 0, tv_nsec: 1 },
        it_interval: libc::timespec { tv_sec: 0, tv_nsec: interval_ns },
    };
    must(unsafe { libc::timer_settime(timer, libc::TIMER_ABSTIME, &setting, null_mut()) });
}

fn block(signal: i32) -> libc::sigset_t {
    let mut set: libc::sigset_t = unsafe { zeroed() };
    unsafe { libc::sigaddset(&mut set, signal) };
    must(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut()) });
    set
}

/// Waits for a signal of `set`. Returns its code, and the timer's id and overrun if it comes from one.
fn timer_signal(set: &libc::sigset_t) -> (i32, i32, i32) {
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    must(unsafe { libc::sigtimedwait(set, &mut info, null()) });
    let words = std::ptr::from_ref(&info).cast::<i32>();
    (info.si_code, unsafe { words.add(4).read() }, unsafe { words.add(5).read() })
}

fn overrun(timer: libc::timer_t) -> i32 {
    must(unsafe { libc::timer_getoverrun(timer) }) as i32
}

#[test]
fn a_timer_counts_as_many_overruns_as_fit() {
    isolated(|| {
        let set = block(libc::SIGUSR1);
        let timer = new_timer(libc::SIGUSR1);
        start_timer(timer, 10_000_000);
        assert_eq!(timer_signal(&set).2, i32::MAX);
        assert_eq!(overrun(timer), i32::MAX);
        let mut pending = unsafe { zeroed() };
        while unsafe { libc::sigismember(&pending, libc::SIGUSR1) } == 0 {
            must(unsafe { libc::sigpending(&mut pending) });
        }
        assert_eq!(overrun(timer), i32::MAX, "of the signal that was taken last");
        let last = timer_signal(&set).2;
        assert_eq!(overrun(timer), last);
        assert!((0..1_000_000).contains(&last), "{last}: those since the last signal");
        must(unsafe { libc::timer_delete(timer) });
    });
}

#[test]
fn a_program_that_pretends_to_be_a_timer_changes_none() {
    isolated(|| {
        let set = block(libc::SIGRTMIN());
        let timer = new_timer(libc::SIGRTMIN());
        let mut info = [0i32; 32];
        info[2] = libc::SI_TIMER;
        info[4] = timer as i32;
        info[5] = 7;
        let own = unsafe { libc::getpid() };
        let call = libc::SYS_rt_sigqueueinfo;
        must(unsafe { libc::syscall(call, own, libc::SIGRTMIN(), info.as_ptr()) });
        start_timer(timer, 0);
        let pretended = (libc::SI_TIMER, timer as i32, 7);
        assert_eq!(timer_signal(&set), pretended);
        assert_eq!(overrun(timer), 0);
        assert_eq!(timer_signal(&set), (libc::SI_TIMER, timer as i32, 0), "the timer's own");
    });
}

#[test]
fn a_timer_gets_another_id_than_the_one_deleted_before_it() {
    isolated(|| {
        let first = new_timer(libc::SIGUSR1);
        must(unsafe { libc::timer_delete(first) });
        let second = new_timer(libc::SIGUSR1);
        assert_ne!(first, second);
        let deleted = unsafe { libc::syscall(libc::SYS_timer_delete, first) };
        assert_eq!(check(deleted), Err(libc::EINVAL));
    });
}
