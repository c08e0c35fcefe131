//! Job control: controlling terminals, foreground and background, stops and continuations, hang-up,
//! and busybox's shell doing all of it (POSIX.1-2017 chapter 11, setpgid(2), wait(2), credentials(7)).
use abi::{
    Ended, check, close, fork, handle, isolated, must, open, pipe,
    pty::{self, Pty, ioctl_number},
    read, wait, write, zeroed,
};
use libc::*;
use std::{
    os::unix::process::CommandExt,
    process::Command,
    sync::atomic::{AtomicI32, Ordering},
};

static SIGNALS: [AtomicI32; 65] = [const { AtomicI32::new(0) }; 65];

extern "C" fn count(signal: i32) {
    SIGNALS[signal as usize].fetch_add(1, Ordering::SeqCst);
}

extern "C" fn nothing(_: i32) {}

fn counted(signal: i32) -> i32 {
    SIGNALS[signal as usize].load(Ordering::SeqCst)
}

/// A test that hangs ends by SIGALRM.
#[track_caller]
fn limited(body: impl FnOnce()) {
    isolated(|| {
        // SAFETY: plain numbers.
        unsafe { alarm(30) };
        body();
    });
}

fn pause_ms(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

fn ignore(signal: i32) {
    // SAFETY: ignoring has no conditions.
    unsafe { libc::signal(signal, SIG_IGN) };
}

fn group() -> i32 {
    // SAFETY: no conditions.
    unsafe { getpgrp() }
}

fn id() -> i32 {
    // SAFETY: no conditions.
    unsafe { getpid() }
}

/// A new session with the slave as its terminal.
fn lead(pty: &Pty) {
    // SAFETY: plain numbers.
    must(unsafe { setsid() });
    must(ioctl_number(pty.slave, TIOCSCTTY, 0).expect("TIOCSCTTY"));
}

/// The calling process gets a group of its own.
fn own_group() {
    // SAFETY: plain numbers.
    must(unsafe { setpgid(0, 0) });
}

fn set_foreground(fd: i32, group: i32) -> Result<i64, i32> {
    // SAFETY: plain numbers.
    check(unsafe { tcsetpgrp(fd, group) })
}

fn foreground(fd: i32) -> Result<i64, i32> {
    // SAFETY: plain numbers.
    check(unsafe { tcgetpgrp(fd) })
}

/// Waits for a change of `child` that `options` name; the status word.
#[track_caller]
fn change(child: i32, options: i32) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: room for the status.
        match check(unsafe { waitpid(child, &mut status, options) }) {
            Err(EINTR) => {}
            Err(number) => panic!("waitpid: {number}"),
            Ok(0) => return -1,
            Ok(_) => return status,
        }
    }
}

#[track_caller]
fn stopped_by(child: i32) -> i32 {
    let status = change(child, WUNTRACED);
    assert!(WIFSTOPPED(status), "{status:#x}");
    WSTOPSIG(status)
}

fn send(target: i32, signal: i32) {
    // SAFETY: plain numbers.
    must(unsafe { kill(target, signal) });
}

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
        // SAFETY: plain numbers.
        must(unsafe { setsid() });
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
            // SAFETY: plain numbers.
            must(unsafe { setsid() });
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
fn a_leader_that_gives_the_terminal_up_hangs_its_foreground_up() {
    limited(|| {
        let pty = Pty::new();
        lead(&pty);
        ignore(SIGHUP);
        ignore(SIGTTOU);
        handle(SIGCONT, count, 0);
        let child = fork(|| {
            own_group();
            // SAFETY: back to the default.
            unsafe { libc::signal(SIGHUP, SIG_DFL) };
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
            // SAFETY: an empty set and one signal.
            unsafe {
                libc::signal(SIGTTIN, SIG_DFL);
                let mut set = zeroed();
                sigemptyset(&mut set);
                sigaddset(&mut set, SIGTTIN);
                must(sigprocmask(SIG_BLOCK, &set, std::ptr::null_mut()));
            }
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
                // SAFETY: whole settings, and a terminal.
                let result = unsafe {
                    match action {
                        0 => tcsetattr(pty.slave, TCSANOW, &settings),
                        1 => tcsetpgrp(pty.slave, id()),
                        _ => tcflush(pty.slave, TCIFLUSH),
                    }
                };
                must(result);
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
                // A shell that ran us may have left it ignored.
                // SAFETY: back to the default.
                unsafe { libc::signal(signal, SIG_DFL) };
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
fn stops_and_continuations_are_reported_once_each() {
    limited(|| {
        let child = fork(|| pause_ms(5000));
        send(child, SIGSTOP);
        // SAFETY: room for the answer.
        let mut info: siginfo_t = unsafe { zeroed() };
        for _ in 0..2 {
            // SAFETY: as above.
            must(unsafe { waitid(P_PID, child as u32, &mut info, WSTOPPED | WNOWAIT) });
            // SAFETY: the kernel filled it in.
            let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
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
        // SAFETY: room for the answer.
        let mut info: siginfo_t = unsafe { zeroed() };
        // SAFETY: as above.
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
            // SAFETY: plain numbers.
            must(unsafe { setsid() });
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
            // SAFETY: plain numbers.
            must(unsafe { setresuid(1000, 1000, 1000) });
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
        // The terminal itself can be opened anew.
        let again = open(pty::path(pty.master), O_RDWR, 0).expect("the slave");
        assert_eq!(write(again, b"x"), Ok(1));
    });
}

#[test]
fn groups_and_sessions_have_their_rules() {
    limited(|| {
        // SAFETY: plain numbers, here and below.
        must(unsafe { setsid() });
        let at = |call: i32| check(call);
        unsafe {
            assert_eq!(at(setsid()), Err(EPERM), "a leader already");
            assert_eq!(at(setpgid(0, 0)), Err(EPERM), "a session's leader stays");
            assert_eq!(at(setpgid(0, -1)), Err(EINVAL));
            assert_eq!(at(setpgid(4_000_000, 0)), Err(ESRCH));
            assert_eq!(at(getpgid(4_000_000)), Err(ESRCH));
            assert_eq!(at(getsid(4_000_000)), Err(ESRCH));
            assert_eq!(at(getsid(0)), Ok(i64::from(id())));
            assert_eq!(at(setpgid(getppid(), 0)), Err(ESRCH), "no child");
        }
        let child = fork(|| {
            own_group();
            // SAFETY: as above.
            assert_eq!(check(unsafe { setsid() }), Err(EPERM), "a group's leader");
            // SAFETY: as above.
            assert_eq!(check(unsafe { setpgid(0, 4_000_000) }), Err(EPERM), "no such group");
        });
        assert_eq!(wait(child), Ended::Exited(0));
        let (wait_for, tell) = pipe();
        let child = fork(|| {
            // SAFETY: as above.
            must(unsafe { setsid() });
            write(tell, b"x").expect("telling");
            pause_ms(5000);
        });
        read(wait_for, 1).expect("being told");
        // SAFETY: as above.
        assert_eq!(check(unsafe { setpgid(child, 0) }), Err(EPERM), "another session");
        send(child, SIGKILL);
        wait(child);
        let executed = Command::new("/bin/sleep").arg("5").spawn().expect("sleep").id() as i32;
        // SAFETY: as above.
        assert_eq!(check(unsafe { setpgid(executed, 0) }), Err(EACCES), "it has executed");
        send(executed, SIGKILL);
        wait(executed);
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
            while counted(SIGALRM) == 0 {
                pause_ms(1300);
                SIGNALS[SIGALRM as usize].store(1, Ordering::SeqCst);
            }
            pty.type_bytes(b"late\n");
        });
        assert_eq!(read(pty.slave, 10).as_deref(), Ok(&b"late\n"[..]));
        assert_eq!(counted(SIGALRM), 1);
        assert_eq!(wait(typist), Ended::Exited(0));
    });
}

/// A shell of busybox's on a pty; its prompt is `$ `.
struct Shell {
    pty: Pty,
    child: i32,
}

impl Shell {
    fn start() -> Shell {
        let pty = Pty::new();
        let child = fork(|| {
            close(pty.master);
            lead(&pty);
            for fd in 0..3 {
                // SAFETY: descriptors.
                must(unsafe { dup2(pty.slave, fd) });
            }
            let mut command = Command::new("/bin/busybox");
            command.args(["sh", "-i"]).env_clear().env("PS1", "$ ").env("PATH", "/bin:/usr/bin");
            panic!("exec: {}", command.exec());
        });
        close(pty.slave);
        let shell = Shell { pty, child };
        shell.until("$ ");
        shell
    }
    /// Waits until the screen shows `end`; what was shown up to there.
    #[track_caller]
    fn until(&self, end: &str) -> String {
        let mut shown = String::new();
        while !shown.contains(end) {
            assert!(pty::poll(self.pty.master, POLLIN, 10_000) != 0, "{end:?} not in {shown:?}");
            let bytes = read(self.pty.master, 4096).expect("the screen");
            shown += &String::from_utf8_lossy(&bytes);
        }
        shown
    }
    #[track_caller]
    fn run(&self, line: &str) -> String {
        self.pty.type_bytes(line.as_bytes());
        self.pty.type_bytes(b"\r");
        self.until("\n$ ")
    }
}

#[test]
fn a_shell_stops_continues_and_ends_its_jobs() {
    limited(|| {
        let shell = Shell::start();
        shell.pty.type_bytes(b"sleep 100\r");
        pause_ms(300);
        shell.pty.type_bytes(b"\x1a");
        let shown = shell.until("\n$ ");
        assert!(shown.contains("Stopped"), "{shown}");
        assert!(shell.run("jobs").contains("Stopped"));
        assert!(shell.run("bg").contains("sleep 100"));
        assert!(shell.run("jobs").contains("Running"));
        shell.pty.type_bytes(b"fg\r");
        shell.until("sleep 100\r\n");
        pause_ms(200);
        shell.pty.type_bytes(b"\x03");
        shell.until("$ ");
        assert!(!shell.run("jobs").contains("sleep"));
        assert!(shell.run("echo status $?").contains("status 0"));
        shell.pty.type_bytes(b"exit 7\r");
        assert_eq!(wait(shell.child), Ended::Exited(7));
    });
}

#[test]
fn a_shell_s_background_reader_stops_and_reads_once_in_the_foreground() {
    limited(|| {
        let shell = Shell::start();
        shell.run("cat &");
        pause_ms(200);
        let shown = shell.run("");
        assert!(shown.contains("Stopped (tty input)"), "{shown}");
        shell.pty.type_bytes(b"fg\r");
        shell.until("cat\r\n");
        shell.pty.type_bytes(b"hello\r");
        shell.until("hello\r\nhello\r\n");
        shell.pty.type_bytes(b"\x04");
        shell.until("$ ");
        shell.pty.type_bytes(b"exit\r");
        assert_eq!(wait(shell.child), Ended::Exited(0));
    });
}

#[test]
fn a_shell_edits_lines_with_the_keys() {
    limited(|| {
        let shell = Shell::start();
        // "echo ac", left, "b", up after it repeats the line.
        shell.pty.type_bytes(b"echo ac\x1b[Db\r");
        let shown = shell.until("\n$ ");
        assert!(shown.contains("\nabc\r\n"), "{shown:?}");
        shell.pty.type_bytes(b"\x1b[A\r");
        let shown = shell.until("\n$ ");
        assert!(shown.contains("\nabc\r\n"), "{shown:?}");
        shell.pty.type_bytes(b"\x04");
        assert!(matches!(wait(shell.child), Ended::Exited(_)));
    });
}
