//! Controlling terminals, and the rights of foreground and background groups on them (POSIX.1-2017
//! chapter 11, tcsetpgrp(3), ioctl_tty(2), credentials(7)).
use abi::{
    Ended, check, fork, handle,
    jobs::{
        count, counted, foreground, group, id, ignore, lead, limited, nothing, own_group, pause_ms,
        reset, send, set_foreground, setsid, stopped_by,
    },
    must, open, pipe,
    pty::{self, Pty, ioctl_number},
    read, wait, write, zeroed,
};
use libc::*;

#[test]
fn a_terminal_is_claimed_by_a_session_s_leader_that_has_none() {
    limited(|| {
        let pty = Pty::new();
        let other = Pty::new();
        assert_eq!(ioctl_number(pty.slave, TIOCSCTTY, 0), Err(EPERM), "no leader");
        assert_eq!(open("/dev/tty", O_RDWR, 0), Err(ENXIO));
        assert_eq!(foreground(pty.slave), Err(ENOTTY));
        lead(&pty);
        assert!(ioctl_number(pty.slave, TIOCSCTTY, 0).is_ok(), "it has it already");
        assert_eq!(ioctl_number(other.slave, TIOCSCTTY, 0), Err(EPERM), "it has another");
        assert_eq!(foreground(pty.slave), Ok(i64::from(id())));
        // SAFETY: plain numbers.
        assert_eq!(must(unsafe { tcgetsid(pty.slave) }), i64::from(id()));
        assert_eq!(foreground(other.slave), Err(ENOTTY));
        let tty = open("/dev/tty", O_RDWR, 0).expect("/dev/tty");
        assert_eq!(write(tty, b"x"), Ok(1));
        pty.expect_screen(b"x");
    });
}

#[test]
fn opening_a_free_terminal_claims_it_unless_noctty() {
    limited(|| {
        let pty = Pty::new();
        let path = pty::path(pty.master);
        setsid().expect("setsid");
        open(&path, O_RDWR | O_NOCTTY, 0).expect("the slave");
        assert_eq!(open("/dev/tty", O_RDWR, 0), Err(ENXIO));
        open(&path, O_WRONLY, 0).expect("the slave");
        assert_eq!(open("/dev/tty", O_RDWR, 0), Err(ENXIO), "not open for reading");
        open(&path, O_RDWR, 0).expect("the slave");
        assert!(open("/dev/tty", O_RDWR, 0).is_ok());
    });
}

#[test]
fn a_terminal_of_another_session_is_taken_by_force_only() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        let (told, tell) = pipe();
        let child = fork(|| {
            setsid().expect("setsid");
            assert_eq!(ioctl_number(pty.slave, TIOCSCTTY, 0), Err(EPERM));
            must(ioctl_number(pty.slave, TIOCSCTTY, 1).expect("by force"));
            assert_eq!(foreground(pty.slave), Ok(i64::from(id())));
            write(tell, b"x").expect("telling");
            pause_ms(50);
        });
        read(told, 1).expect("being told");
        assert_eq!(open("/dev/tty", O_RDWR, 0), Err(ENXIO), "the former owner has none");
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_member_that_gives_the_terminal_up_leaves_it_to_the_others() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        let child = fork(|| {
            must(ioctl_number(pty.slave, TIOCNOTTY, 0).expect("TIOCNOTTY"));
            assert_eq!(open("/dev/tty", O_RDWR, 0), Err(ENXIO));
            assert_eq!(ioctl_number(pty.slave, TIOCNOTTY, 0), Err(ENOTTY));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert!(open("/dev/tty", O_RDWR, 0).is_ok());
    });
}

#[test]
fn the_foreground_group_must_be_of_the_session() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        assert_eq!(set_foreground(pty.slave, -5), Err(EINVAL));
        assert_eq!(set_foreground(pty.slave, 4_000_000), Err(ESRCH));
        assert_eq!(set_foreground(pty.slave, 1), Err(EPERM));
        let (told, tell) = pipe();
        let child = fork(|| {
            own_group();
            write(tell, b"x").expect("telling");
            pause_ms(5000);
        });
        read(told, 1).expect("being told");
        assert_eq!(set_foreground(pty.slave, child), Ok(0));
        assert_eq!(foreground(pty.slave), Ok(i64::from(child)));
        assert_eq!(foreground(pty.master), Ok(i64::from(child)), "the master may always ask");
        send(child, SIGKILL);
        wait(child);
        assert_eq!(foreground(pty.slave), Ok(i64::from(child)), "it may name nobody");
    });
}

#[test]
fn reading_in_the_background_stops_the_whole_group() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        pty.type_bytes(b"text\n");
        let child = fork(|| {
            own_group();
            assert_eq!(read(pty.slave, 100).as_deref(), Ok(&b"text\n"[..]));
        });
        assert_eq!(stopped_by(child), SIGTTIN);
        assert_eq!(set_foreground(pty.slave, child), Ok(0));
        send(-child, SIGCONT);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn reading_in_the_background_is_an_error_where_the_signal_does_nothing() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        let child = fork(|| {
            own_group();
            ignore(SIGTTIN);
            assert_eq!(read(pty.slave, 1), Err(EIO));
            reset(SIGTTIN);
            // SAFETY: a set of no signals is all zeroes.
            let mut set: sigset_t = unsafe { zeroed() };
            // SAFETY: a set and a signal.
            must(unsafe { sigaddset(&mut set, SIGTTIN) });
            // SAFETY: a whole set.
            must(unsafe { sigprocmask(SIG_BLOCK, &set, std::ptr::null_mut()) });
            assert_eq!(read(pty.slave, 1), Err(EIO));
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn writing_in_the_background_stops_with_tostop_only() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        let writer = || {
            fork(|| {
                own_group();
                assert_eq!(write(pty.slave, b"x"), Ok(1));
            })
        };
        assert_eq!(wait(writer()), Ended::Exited(0));
        pty::set(pty.slave, |s| s.c_lflag |= TOSTOP);
        let child = writer();
        assert_eq!(stopped_by(child), SIGTTOU);
        assert_eq!(set_foreground(pty.slave, child), Ok(0));
        send(child, SIGCONT);
        assert_eq!(wait(child), Ended::Exited(0));
        ignore(SIGTTOU);
        assert_eq!(set_foreground(pty.slave, group()), Ok(0));
        assert_eq!(wait(writer()), Ended::Exited(0), "ignored, it is allowed");
    });
}

#[test]
fn changing_the_terminal_in_the_background_stops() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        for action in 0..3 {
            let child = fork(|| {
                own_group();
                let mut settings = pty::settings(pty.slave);
                settings.c_lflag &= !ECHO;
                match action {
                    // SAFETY: whole settings.
                    0 => must(unsafe { tcsetattr(pty.slave, TCSANOW, &settings) }),
                    1 => must(set_foreground(pty.slave, id()).expect("tcsetpgrp")),
                    // SAFETY: plain numbers.
                    _ => must(unsafe { tcflush(pty.slave, TCIFLUSH) }),
                };
            });
            assert_eq!(stopped_by(child), SIGTTOU);
            send(child, SIGKILL);
            wait(child);
        }
    });
}

#[test]
fn an_orphaned_group_in_the_background_gets_an_error_instead_of_a_stop() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        let (told, tell) = pipe();
        // The middle process ends: its child's group has no parent in the session but process 1.
        let middle = fork(|| {
            own_group();
            fork(|| {
                own_group();
                pause_ms(100);
                let settings = pty::settings(pty.slave);
                // SAFETY: whole settings.
                let set_result = check(unsafe { tcsetattr(pty.slave, TCSANOW, &settings) });
                let results = [read(pty.slave, 1).map(|_| 0), set_result];
                let errors = results.map(|result| result.err().unwrap_or(0) as u8);
                write(tell, &errors).expect("telling");
            });
        });
        assert_eq!(wait(middle), Ended::Exited(0));
        assert_eq!(read(told, 2).expect("being told"), [EIO as u8; 2]);
    });
}

#[test]
fn the_terminal_s_characters_signal_the_foreground_group_only() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        ignore(SIGTTOU);
        for (byte, signal) in [(3, SIGINT), (28, SIGQUIT)] {
            let child = fork(|| {
                own_group();
                // A shell that ran this test may have left the signal ignored.
                reset(signal);
                set_foreground(pty.slave, id()).expect("tcsetpgrp");
                write(pty.slave, b"!").expect("telling");
                pause_ms(5000);
            });
            pty.expect_screen(b"!");
            pty.type_bytes(&[byte]);
            assert_eq!(wait(child), Ended::Signalled(signal));
            pty.screen();
        }
        let child = fork(|| {
            own_group();
            set_foreground(pty.slave, id()).expect("tcsetpgrp");
            write(pty.slave, b"!").expect("telling");
            pause_ms(5000);
        });
        pty.expect_screen(b"!");
        pty.type_bytes(b"\x1a");
        assert_eq!(stopped_by(child), SIGTSTP);
        send(child, SIGKILL);
        wait(child);
    });
}

#[test]
fn an_interrupted_read_goes_on_or_not_as_the_handler_says() {
    limited(|| {
        let pty = Pty::new();
        handle(SIGALRM, nothing, 0);
        // SAFETY: plain numbers.
        unsafe { alarm(1) };
        assert_eq!(read(pty.slave, 1), Err(EINTR));
        handle(SIGALRM, count, SA_RESTART);
        // SAFETY: plain numbers.
        unsafe { alarm(1) };
        let typist = fork(|| {
            pause_ms(1300);
            pty.type_bytes(b"late\n");
        });
        assert_eq!(read(pty.slave, 10).as_deref(), Ok(&b"late\n"[..]));
        assert_eq!(counted(SIGALRM), 1);
        assert_eq!(wait(typist), Ended::Exited(0));
    });
}
