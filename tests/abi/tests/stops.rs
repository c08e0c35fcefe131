//! Stops and continuations, what they tell a parent, orphaned groups, and the rules of groups and
//! sessions (POSIX.1-2017 chapter 11, wait(2), setpgid(2), setsid(2), signal(7)).
use abi::{
    Ended, fork, handle,
    jobs::{
        await_count, change, count, counted, getpgid, getsid, id, limited, own_group, pause_ms,
        send, setpgid, setsid, stopped_by,
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
        await_count(SIGCHLD, 1);
        handle(SIGCHLD, count, SA_RESTART | SA_NOCLDSTOP);
        send(child, SIGCONT);
        assert!(WIFCONTINUED(change(child, WCONTINUED)));
        await_count(SIGCHLD, 1);
        send(child, SIGKILL);
        wait(child);
        await_count(SIGCHLD, 2);
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
