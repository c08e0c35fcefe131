//! Stops and continuations, their reports to a parent, orphaned groups, and the rules of groups and
//! sessions (POSIX.1-2017 chapter 11, wait(2), setpgid(2), setsid(2), signal(7)).
use abi::{
    Ended, check, close, fork, handle,
    jobs::{
        change, count, counted, getpgid, getsid, id, limited, own_group, pause_ms, send, setpgid,
        setsid, stopped_by,
    },
    must, pipe, read, wait, write, zeroed,
};
use libc::*;
use std::process::Command;

#[test]
fn stops_and_continuations_are_reported_once_each() {
    limited(|| {
        let child = fork(|| pause_ms(5000));
        send(child, SIGSTOP);
        // SAFETY: plain numbers and pointers.
        let mut info: siginfo_t = unsafe { zeroed() };
        for _ in 0..2 {
            // SAFETY: room for the answer.
            must(unsafe { waitid(P_PID, child as u32, &mut info, WSTOPPED | WNOWAIT) });
            // SAFETY: the kernel filled it in.
            let pid = unsafe { info.si_pid() };
            // SAFETY: as above.
            let status = unsafe { info.si_status() };
            assert_eq!((pid, status, info.si_code), (child, SIGSTOP, CLD_STOPPED));
        }
        assert_eq!(stopped_by(child), SIGSTOP);
        assert_eq!(change(child, WUNTRACED | WNOHANG), -1, "told already");
        send(child, SIGCONT);
        let status = change(child, WCONTINUED);
        assert!(WIFCONTINUED(status), "{status:#x}");
        assert_eq!(change(child, WCONTINUED | WNOHANG), -1, "told already");
        send(child, SIGKILL);
        assert_eq!(wait(child), Ended::Signalled(SIGKILL));
    });
}

#[test]
fn a_stop_that_was_undone_before_the_wait_is_not_reported() {
    limited(|| {
        let child = fork(|| pause_ms(5000));
        send(child, SIGSTOP);
        // SAFETY: plain numbers and pointers.
        let mut info: siginfo_t = unsafe { zeroed() };
        // SAFETY: room for the answer.
        must(unsafe { waitid(P_PID, child as u32, &mut info, WSTOPPED | WNOWAIT) });
        send(child, SIGCONT);
        assert_eq!(change(child, WUNTRACED | WNOHANG), -1);
        send(child, SIGKILL);
        wait(child);
    });
}

#[test]
fn a_parent_that_wants_no_stops_is_signalled_at_the_end_only() {
    limited(|| {
        handle(SIGCHLD, count, SA_RESTART);
        let child = fork(|| pause_ms(5000));
        send(child, SIGSTOP);
        assert_eq!(stopped_by(child), SIGSTOP);
        assert_eq!(counted(SIGCHLD), 1);
        handle(SIGCHLD, count, SA_RESTART | SA_NOCLDSTOP);
        send(child, SIGCONT);
        assert!(WIFCONTINUED(change(child, WCONTINUED)));
        assert_eq!(counted(SIGCHLD), 1);
        send(child, SIGKILL);
        wait(child);
        assert_eq!(counted(SIGCHLD), 2);
    });
}

#[test]
fn an_end_is_signalled_before_a_wait_tells_of_it_and_interrupts_no_wait() {
    limited(|| {
        handle(SIGCHLD, count, 0);
        for round in 1..=300 {
            let child = fork(|| {});
            let mut status = 0;
            // SAFETY: room for the status.
            let waited = check(unsafe { waitpid(child, &mut status, 0) });
            assert_eq!(waited, Ok(i64::from(child)), "round {round}");
            assert_eq!(counted(SIGCHLD), round);
        }
    });
}

#[test]
fn a_process_of_several_threads_stops_anew_however_soon_it_went_on() {
    limited(|| {
        let (told, tell) = pipe();
        let child = fork(|| {
            for _ in 0..3 {
                std::thread::spawn(|| pause_ms(20_000));
            }
            write(tell, b"x").expect("telling");
            pause_ms(20_000);
        });
        read(told, 1).expect("being told");
        for _ in 0..300 {
            send(child, SIGSTOP);
            assert_eq!(stopped_by(child), SIGSTOP);
            send(child, SIGCONT);
        }
        send(child, SIGKILL);
        assert_eq!(wait(child), Ended::Signalled(SIGKILL));
    });
}

#[test]
fn an_orphan_ends_by_sigchld_whatever_it_was_made_with() {
    limited(|| {
        // SAFETY: plain numbers.
        must(unsafe { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) });
        handle(SIGCHLD, count, SA_RESTART);
        handle(SIGUSR1, count, SA_RESTART);
        let (told, tell) = pipe();
        let middle = fork(|| {
            // SAFETY: as fork(2), but for the signal.
            let orphan = must(unsafe { syscall(SYS_clone, SIGUSR1, 0, 0, 0, 0) });
            if orphan == 0 {
                // The process continues when the pipe's last writer has closed it.
                close(tell);
                let _ = read(told, 1);
                // SAFETY: ends the copy at once.
                unsafe { _exit(0) };
            }
        });
        assert_eq!(wait(middle), Ended::Exited(0));
        close(tell);
        assert!(WIFEXITED(change(-1, 0)));
        assert_eq!((counted(SIGCHLD), counted(SIGUSR1)), (2, 0));
    });
}

#[test]
fn a_stopped_group_that_becomes_orphaned_is_hung_up_and_continued() {
    limited(|| {
        let (told, tell) = pipe();
        let middle = fork(|| {
            own_group();
            let child = fork(|| {
                own_group();
                handle(SIGHUP, count, 0);
                handle(SIGCONT, count, 0);
                send(id(), SIGSTOP);
                pause_ms(10);
                write(tell, &[counted(SIGHUP) as u8, counted(SIGCONT) as u8]).expect("telling");
            });
            assert_eq!(stopped_by(child), SIGSTOP);
        });
        assert_eq!(wait(middle), Ended::Exited(0));
        assert_eq!(read(told, 2).expect("being told"), [1, 1]);
    });
}

#[test]
fn stop_characters_of_an_orphaned_group_do_nothing_but_sigstop_does() {
    limited(|| {
        // The leader of a session has no parent in it: its group is orphaned.
        let child = fork(|| {
            setsid().expect("setsid");
            send(id(), SIGTSTP);
            send(id(), SIGTTIN);
            send(id(), SIGSTOP);
        });
        assert_eq!(stopped_by(child), SIGSTOP);
        send(child, SIGCONT);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn groups_and_sessions_have_their_rules() {
    limited(|| {
        setsid().expect("setsid");
        assert_eq!(setsid(), Err(EPERM), "a leader already");
        assert_eq!(setpgid(0, 0), Err(EPERM), "a session's leader stays");
        assert_eq!(setpgid(0, -1), Err(EINVAL));
        assert_eq!(setpgid(4_000_000, 0), Err(ESRCH));
        assert_eq!(getpgid(4_000_000), Err(ESRCH));
        assert_eq!(getsid(4_000_000), Err(ESRCH));
        assert_eq!(getsid(0), Ok(i64::from(id())));
        // SAFETY: no conditions.
        let parent = unsafe { getppid() };
        assert_eq!(setpgid(parent, 0), Err(ESRCH), "no child");
        let child = fork(|| {
            own_group();
            assert_eq!(setsid(), Err(EPERM), "a group's leader");
            assert_eq!(setpgid(0, 4_000_000), Err(EPERM), "no such group");
        });
        assert_eq!(wait(child), Ended::Exited(0));
        let (wait_for, tell) = pipe();
        let child = fork(|| {
            setsid().expect("setsid");
            write(tell, b"x").expect("telling");
            pause_ms(5000);
        });
        read(wait_for, 1).expect("being told");
        assert_eq!(setpgid(child, 0), Err(EPERM), "another session");
        send(child, SIGKILL);
        wait(child);
        let executed = Command::new("/bin/sleep").arg("5").spawn().expect("sleep").id() as i32;
        assert_eq!(setpgid(executed, 0), Err(EACCES), "it has executed");
        send(executed, SIGKILL);
        wait(executed);
    });
}
