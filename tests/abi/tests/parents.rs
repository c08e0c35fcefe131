//! The thread that is the parent of a process: waits for its own children alone (`__WNOTHREAD`), and its end.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{ptr::null_mut, sync::mpsc, thread};

const WNOTHREAD: i32 = 0x2000_0000;

fn wait4(child: i32, options: i32) -> Result<i64, i32> {
    check(unsafe { libc::wait4(child, null_mut(), options, null_mut()) })
}

fn waitid(child: i32, options: i32) -> Result<i32, i32> {
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    let id = child as libc::id_t;
    check(unsafe { libc::waitid(libc::P_PID, id, &mut info, options | libc::WEXITED) })?;
    Ok(unsafe { info.si_pid() })
}

/// Makes a child that lives until the pipe's writer is closed; it has no writer itself.
fn waiting(reader: i32, writer: i32) -> libc::pid_t {
    fork(|| {
        close(writer);
        let _ = read(reader, 1);
    })
}

#[test]
fn a_wait_for_own_children_passes_over_those_of_other_threads() {
    isolated(|| {
        let (reader, writer) = pipe();
        let (told, child) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let child = waiting(reader, writer);
            assert_eq!(wait4(child, WNOTHREAD | libc::WNOHANG), Ok(0), "its own");
            assert_eq!(wait4(-1, WNOTHREAD | libc::WNOHANG), Ok(0));
            told.send(child).unwrap();
            gone.recv().unwrap();
            assert_eq!(wait4(child, WNOTHREAD), Ok(child.into()));
        });
        let child = child.recv().unwrap();
        for which in [child, -1, 0] {
            assert_eq!(wait4(which, WNOTHREAD | libc::WNOHANG), Err(libc::ECHILD));
            assert_eq!(wait4(which, libc::WNOHANG), Ok(0), "all threads' children");
        }
        assert_eq!(waitid(child, WNOTHREAD | libc::WNOHANG), Err(libc::ECHILD));
        let own = fork(|| ());
        assert_eq!(wait4(-1, WNOTHREAD), Ok(own.into()), "the other one is not waited for");
        close(writer);
        assert_eq!(waitid(child, libc::WNOWAIT), Ok(child));
        assert_eq!(wait4(-1, WNOTHREAD), Err(libc::ECHILD));
        go.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(wait4(-1, libc::WNOHANG), Err(libc::ECHILD));
    });
}

#[test]
fn children_of_a_thread_that_has_ended_are_the_oldest_threads() {
    isolated(|| {
        let (reader, writer) = pipe();
        let (go, gone) = mpsc::channel::<()>();
        let other = thread::spawn(move || {
            gone.recv().unwrap();
            assert_eq!(wait4(-1, WNOTHREAD | libc::WNOHANG), Err(libc::ECHILD));
        });
        let child = thread::spawn(move || waiting(reader, writer)).join().unwrap();
        // A thread is joined before the kernel has freed it.
        while wait4(child, WNOTHREAD | libc::WNOHANG) == Err(libc::ECHILD) {
            thread::yield_now();
        }
        go.send(()).unwrap();
        other.join().unwrap();
        assert_eq!(wait4(child, WNOTHREAD | libc::WNOHANG), Ok(0));
        close(writer);
        assert_eq!(wait4(child, WNOTHREAD), Ok(child.into()));
    });
}

#[test]
fn a_sibling_is_of_the_thread_that_made_its_maker() {
    isolated(|| {
        let (reader, writer) = pipe();
        let (told, siblings) = pipe();
        let (go, gone) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let child = fork(|| {
                let flags = libc::CLONE_PARENT | libc::SIGCHLD;
                let made = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) });
                match made.unwrap() {
                    0 => {
                        close(writer);
                        let _ = read(reader, 1);
                    }
                    sibling => {
                        write(siblings, &(sibling as i32).to_le_bytes()).unwrap();
                    }
                }
            });
            assert_eq!(wait4(child, WNOTHREAD), Ok(child.into()));
            gone.recv().unwrap();
            assert!(wait4(-1, WNOTHREAD).is_ok());
        });
        let sibling = i32::from_le_bytes(read(told, 4).unwrap().try_into().unwrap());
        assert_eq!(wait4(sibling, WNOTHREAD | libc::WNOHANG), Err(libc::ECHILD));
        assert_eq!(wait4(sibling, libc::WNOHANG), Ok(0));
        close(writer);
        go.send(()).unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn a_child_is_signalled_at_the_end_of_the_thread_that_made_it() {
    isolated(|| {
        let me = unsafe { libc::getpid() };
        let (reader, writer) = pipe();
        let (ready, told) = pipe();
        let made = move || {
            fork(|| {
                let mut set: libc::sigset_t = unsafe { zeroed() };
                let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                let mut info: libc::siginfo_t = unsafe { zeroed() };
                unsafe {
                    libc::sigemptyset(&mut set);
                    libc::sigaddset(&mut set, libc::SIGUSR1);
                    libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut());
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGUSR1);
                }
                write(told, b"!").unwrap();
                close(writer);
                let _ = read(reader, 1);
                let got = check(unsafe { libc::sigtimedwait(&set, &mut info, &none) });
                let sender = if got.is_ok() { unsafe { info.si_pid() } } else { 0 };
                unsafe { libc::_exit(i32::from(sender == me)) };
            })
        };
        let own = made();
        read(ready, 1).unwrap();
        let of_thread = thread::spawn(move || {
            let child = made();
            read(ready, 1).unwrap();
            child
        });
        let of_thread = of_thread.join().unwrap();
        while wait4(of_thread, WNOTHREAD | libc::WNOHANG) == Err(libc::ECHILD) {
            thread::yield_now();
        }
        close(writer);
        assert_eq!(wait(of_thread), Ended::Exited(1), "its parent has ended");
        assert_eq!(wait(own), Ended::Exited(0), "this one has not");
    });
}
