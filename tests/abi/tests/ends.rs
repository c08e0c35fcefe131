//! Ends of children and tasks: every combination of waitid's events on every state of a child, and creators that wait
//! for the exec or the end of a task (CLONE_VFORK).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    tasks::{self, Stack},
    *,
};
use std::{
    sync::atomic::{AtomicI32, Ordering::SeqCst},
    time::Duration,
};

const NULL: *mut i32 = std::ptr::null_mut();
const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_SYSVSEM
    | libc::CLONE_THREAD;

/// Calls waitid for one child. Returns the id and the code of the reported event; 0 and 0 for none.
fn waitid(child: libc::pid_t, options: i32) -> Result<(i32, i32), i32> {
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    check(unsafe { libc::waitid(libc::P_PID, child as u32, &mut info, options) })?;
    Ok((unsafe { info.si_pid() }, info.si_code))
}

/// Makes a child that has ended and was not waited for.
fn zombie() -> libc::pid_t {
    let child = fork(|| ());
    assert_eq!(waitid(child, libc::WEXITED | libc::WNOWAIT), Ok((child, libc::CLD_EXITED)));
    child
}

fn kill(process: libc::pid_t, signal: i32) {
    must(unsafe { libc::kill(process, signal) });
}

#[test]
fn a_zombie_never_reports_what_is_not_its_end() {
    isolated(|| {
        let child = zombie();
        for events in [libc::WSTOPPED, libc::WCONTINUED, libc::WSTOPPED | libc::WCONTINUED] {
            for how in [0, libc::WNOHANG, libc::WNOWAIT, libc::__WALL] {
                assert_eq!(waitid(child, events | how), Err(libc::ECHILD), "{events} {how:x}");
            }
            let ended = waitid(child, events | libc::WEXITED | libc::WNOWAIT);
            assert_eq!(ended, Ok((child, libc::CLD_EXITED)));
        }
        assert_eq!(waitid(child, libc::WNOHANG), Err(libc::EINVAL), "no event");
        assert_eq!(waitid(child, libc::WEXITED), Ok((child, libc::CLD_EXITED)));
    });
}

#[test]
fn a_child_that_lives_may_yet_report_anything() {
    isolated(|| {
        let child = fork(|| {
            loop {
                unsafe { libc::pause() };
            }
        });
        let dead = zombie();
        for events in 1..8 {
            let events = [libc::WEXITED, libc::WSTOPPED, libc::WCONTINUED]
                .iter()
                .enumerate()
                .filter(|(bit, _)| events >> bit & 1 != 0)
                .fold(0, |sum, (_, event)| sum | event);
            assert_eq!(waitid(child, events | libc::WNOHANG), Ok((0, 0)));
            let mut info: libc::siginfo_t = unsafe { zeroed() };
            let all = unsafe {
                libc::waitid(libc::P_ALL, 0, &mut info, events | libc::WNOHANG | libc::WNOWAIT)
            };
            let reported = if events & libc::WEXITED != 0 { dead } else { 0 };
            assert_eq!((all, unsafe { info.si_pid() }), (0, reported), "{events}");
        }
        assert_eq!(
            waitid(child, libc::WEXITED | libc::WNOHANG | libc::__WCLONE),
            Err(libc::ECHILD)
        );
        kill(child, libc::SIGSTOP);
        assert_eq!(waitid(child, libc::WSTOPPED | libc::WNOWAIT), Ok((child, libc::CLD_STOPPED)));
        assert_eq!(waitid(child, libc::WCONTINUED | libc::WNOHANG), Ok((0, 0)));
        assert_eq!(waitid(child, libc::WSTOPPED), Ok((child, libc::CLD_STOPPED)));
        assert_eq!(waitid(child, libc::WSTOPPED | libc::WNOHANG), Ok((0, 0)));
        kill(child, libc::SIGCONT);
        assert_eq!(waitid(child, libc::WCONTINUED), Ok((child, libc::CLD_CONTINUED)));
        kill(child, libc::SIGKILL);
        assert_eq!(waitid(child, libc::WEXITED), Ok((child, libc::CLD_KILLED)));
        assert_eq!(wait(dead), Ended::Exited(0));
    });
}

#[test]
fn a_wait_for_a_stop_ends_when_the_last_child_that_might_stop_has_ended() {
    isolated(|| {
        let mut children: Vec<_> =
            [10, 30].map(|ms| fork(|| std::thread::sleep(Duration::from_millis(ms)))).into();
        let mut info: libc::siginfo_t = unsafe { zeroed() };
        let waited = unsafe { libc::waitid(libc::P_ALL, 0, &mut info, libc::WSTOPPED) };
        assert_eq!(check(waited), Err(libc::ECHILD));
        while let Some(child) = children.pop() {
            assert_eq!(wait(child), Ended::Exited(0));
        }
    });
}

static STEPS: AtomicI32 = AtomicI32::new(0);

fn sleep_raw(ms: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

extern "C" fn ends_later() -> i32 {
    sleep_raw(20);
    STEPS.store(1, SeqCst);
    0
}

#[test]
fn a_creator_that_waits_for_its_thread_goes_on_when_that_ends() {
    isolated(|| {
        for round in 0..10 {
            STEPS.store(0, SeqCst);
            let made = unsafe {
                tasks::start(THREAD | libc::CLONE_VFORK, Stack::new(), [NULL; 2], ends_later)
            };
            assert!(made > 0, "{made}");
            assert_eq!(STEPS.load(SeqCst), 1, "round {round}: it went on too early");
        }
    });
}

extern "C" fn executes() -> i32 {
    let name = c"/bin/true";
    unsafe { libc::execl(name.as_ptr(), name.as_ptr(), std::ptr::null::<libc::c_char>()) };
    3
}

#[test]
fn a_creator_that_waits_for_its_thread_ends_when_that_executes() {
    isolated(|| {
        let child = fork(|| {
            unsafe { tasks::start(THREAD | libc::CLONE_VFORK, Stack::new(), [NULL; 2], executes) };
            panic!("the program is another one now");
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

extern "C" fn ends_all() -> i32 {
    unsafe { libc::_exit(5) }
}

extern "C" fn sleeps_long() -> i32 {
    sleep_raw(900);
    sleep_raw(900);
    0
}

#[test]
fn a_creator_that_waits_ends_with_its_process() {
    isolated(|| {
        let child = fork(|| {
            unsafe { tasks::start(THREAD | libc::CLONE_VFORK, Stack::new(), [NULL; 2], ends_all) };
        });
        assert_eq!(wait(child), Ended::Exited(5));
        let child = fork(|| {
            unsafe {
                tasks::start(THREAD | libc::CLONE_VFORK, Stack::new(), [NULL; 2], sleeps_long)
            };
        });
        std::thread::sleep(Duration::from_millis(20));
        kill(child, libc::SIGKILL);
        assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL));
    });
}

/// The first thread of a child that borrows memory; it leaves another thread behind.
extern "C" fn leaves_another() -> i32 {
    let made = unsafe { tasks::start(THREAD, Stack::new(), [NULL; 2], sets_later) };
    i32::from(made <= 0)
}

extern "C" fn sets_later() -> i32 {
    while STEPS.load(SeqCst) == 0 {
        sleep_raw(1);
    }
    0
}

#[test]
fn a_vfork_ends_with_the_childs_first_thread() {
    isolated(|| {
        STEPS.store(0, SeqCst);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let child = unsafe { tasks::start(flags, Stack::new(), [NULL; 2], leaves_another) };
        assert!(child > 0, "{child}");
        let child = child as libc::pid_t;
        assert_eq!(waitid(child, libc::WEXITED | libc::WNOHANG), Ok((0, 0)), "a thread lives");
        STEPS.store(1, SeqCst);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_creator_waits_for_a_child_with_memory_of_its_own_too() {
    isolated(|| {
        let start = clock_ns(libc::CLOCK_MONOTONIC);
        let flags = libc::CLONE_VFORK | libc::SIGCHLD;
        let child = unsafe { tasks::start(flags, Stack::new(), [NULL; 2], ends_later) };
        assert!(clock_ns(libc::CLOCK_MONOTONIC) - start >= 20_000_000);
        assert_eq!(wait(child as libc::pid_t), Ended::Exited(0));
    });
}

#[test]
fn the_signal_of_a_parents_death_comes_from_the_parent() {
    isolated(|| {
        let (reader, writer) = pipe();
        let parent = fork(|| {
            let parent = unsafe { libc::getpid() };
            let (ready, told) = pipe();
            fork(|| {
                let mut set: libc::sigset_t = unsafe { zeroed() };
                unsafe {
                    libc::sigemptyset(&mut set);
                    libc::sigaddset(&mut set, libc::SIGUSR1);
                    libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGUSR1);
                }
                write(told, b"!").unwrap();
                let mut info: libc::siginfo_t = unsafe { zeroed() };
                must(unsafe { libc::sigwaitinfo(&set, &mut info) });
                let (from, user) = unsafe { (info.si_pid(), info.si_uid()) };
                let is_so = info.si_code == libc::SI_USER
                    && from == parent
                    && user == unsafe { libc::getuid() };
                write(writer, if is_so { b"y" } else { b"n" }).unwrap();
            });
            read(ready, 1).unwrap();
        });
        wait(parent);
        assert_eq!(read(reader, 1).unwrap(), b"y");
    });
}
