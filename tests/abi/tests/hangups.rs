//! Hang-up: by the end of a session's leader, by a master that is closed, by giving the terminal up and
//! by vhangup(2) (POSIX.1-2017 chapter 11, ioctl_tty(2)).
use abi::{
    Ended, check, close, fork, handle,
    identity::setresuid,
    jobs::{
        count, counted, foreground, id, ignore, lead, limited, own_group, pause_ms, reset,
        set_foreground,
    },
    must, open, pipe,
    pty::{self, Pty, ioctl_number},
    read, wait, write,
};
use libc::*;

#[test]
fn a_leader_that_gives_the_terminal_up_hangs_its_foreground_up() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        ignore(SIGHUP);
        ignore(SIGTTOU);
        handle(SIGCONT, count, 0);
        let child = fork(|| {
            own_group();
            reset(SIGHUP);
            set_foreground(pty.slave, id()).expect("tcsetpgrp");
            pause_ms(5000);
        });
        while foreground(pty.slave) != Ok(i64::from(child)) {
            pause_ms(1);
        }
        must(ioctl_number(pty.slave, TIOCNOTTY, 0).expect("TIOCNOTTY"));
        assert_eq!(wait(child), Ended::Signalled(SIGHUP));
        assert_eq!(counted(SIGCONT), 0, "the leader was not in the foreground");
        assert_eq!(foreground(pty.slave), Err(ENOTTY));
    });
}

#[test]
fn a_leader_s_end_hangs_the_foreground_up_and_frees_the_terminal() {
    limited(|| {
        let pty = Pty::new();
        let (told, tell) = pipe();
        let leader = fork(|| {
            lead(&pty);
            ignore(SIGTTOU);
            let child = fork(|| {
                own_group();
                set_foreground(pty.slave, id()).expect("tcsetpgrp");
                handle(SIGHUP, count, 0);
                handle(SIGCONT, count, 0);
                write(tell, b"r").expect("telling");
                while counted(SIGHUP) == 0 {
                    pause_ms(1);
                }
                let is_lost = open("/dev/tty", O_RDWR, 0) == Err(ENXIO);
                // The terminal of a pty lives on, without a session.
                let can_write = write(pty.slave, b"x") == Ok(1);
                write(tell, &[u8::from(is_lost), u8::from(can_write)]).expect("telling");
            });
            let _ = child;
            read(told, 1).expect("being told");
        });
        assert_eq!(wait(leader), Ended::Exited(0));
        assert_eq!(read(told, 2).expect("being told"), [1, 1]);
        lead(&pty);
    });
}

#[test]
fn a_closed_master_hangs_the_leader_up_and_its_end_the_foreground() {
    limited(|| {
        let pty = Pty::new();
        let (told, tell) = pipe();
        let leader = fork(|| {
            close(pty.master);
            lead(&pty);
            ignore(SIGTTOU);
            handle(SIGHUP, count, 0);
            handle(SIGCONT, count, 0);
            fork(|| {
                own_group();
                set_foreground(pty.slave, id()).expect("tcsetpgrp");
                write(tell, b"r").expect("telling");
                while counted(SIGHUP) == 0 {
                    pause_ms(1);
                }
                pause_ms(10);
                let signals = [counted(SIGHUP) as u8, counted(SIGCONT) as u8];
                write(tell, &[b'c', signals[0], signals[1]]).expect("telling");
            });
            while counted(SIGHUP) == 0 {
                pause_ms(1);
            }
            pause_ms(50);
            let signals = [counted(SIGHUP) as u8, counted(SIGCONT) as u8];
            write(tell, &[b'l', signals[0], signals[1]]).expect("telling");
        });
        assert_eq!(read(told, 1).expect("being told"), b"r");
        close(pty.master);
        assert_eq!(wait(leader), Ended::Exited(0));
        let mut all = Vec::new();
        while all.len() < 6 {
            all.extend(read(told, 6).expect("being told"));
        }
        assert_eq!(all, [b'l', 1, 1, b'c', 1, 1], "the leader first, the foreground at its end");
    });
}

#[test]
fn vhangup_needs_the_right_and_kills_descriptions() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        handle(SIGHUP, count, 0);
        let child = fork(|| {
            assert_eq!(setresuid(1000, 1000, 1000), Ok(0));
            // SAFETY: no conditions.
            assert_eq!(check(unsafe { vhangup() }), Err(EPERM));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        // SAFETY: no conditions.
        must(unsafe { vhangup() });
        assert_eq!(counted(SIGHUP), 1);
        assert_eq!(read(pty.slave, 1).as_deref(), Ok(&b""[..]));
        assert_eq!(write(pty.slave, b"x"), Err(EIO));
        assert_eq!(open("/dev/tty", O_RDWR, 0), Err(ENXIO));
        // The terminal itself can be opened again.
        let again = open(pty::path(pty.master), O_RDWR, 0).expect("the slave");
        assert_eq!(write(again, b"x"), Ok(1));
    });
}
