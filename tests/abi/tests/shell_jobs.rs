//! Busybox's interactive shell on a terminal: its jobs, their terminal, and editing of lines.
use abi::{
    Ended, close, fork,
    jobs::{lead, limited, pause_ms},
    must,
    pty::{self, Pty},
    read, wait,
};
use libc::*;
use std::{
    os::unix::process::CommandExt,
    process::Command,
    time::{Duration, Instant},
};

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
    /// Waits until the screen shows `end`. Returns the text shown up to there.
    #[track_caller]
    fn until(&self, end: &str) -> String {
        let mut shown = String::new();
        while !shown.contains(end) {
            assert!(pty::poll(self.pty.master, POLLIN, 60_000) != 0, "{end:?} not in {shown:?}");
            let bytes = read(self.pty.master, 4096).expect("the screen");
            shown += &String::from_utf8_lossy(&bytes);
        }
        shown
    }
    /// Waits until a job has the terminal, and keys that stop and end it work.
    #[track_caller]
    fn until_job(&self) {
        let has_job = || {
            // SAFETY: a descriptor.
            let group = unsafe { tcgetpgrp(self.pty.master) };
            let status = std::fs::read_to_string(format!("/proc/{group}/status"));
            let ignored = status.ok().and_then(|status| {
                let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
                u64::from_str_radix(ignored.trim(), 16).ok()
            });
            group != self.child && ignored.is_some_and(|mask| mask >> (SIGTSTP - 1) & 1 == 0)
        };
        let patience = Instant::now() + Duration::from_secs(60);
        while !has_job() {
            assert!(Instant::now() < patience, "the shell keeps its terminal");
            pause_ms(1);
        }
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
        shell.until_job();
        shell.pty.type_bytes(b"\x1a");
        let shown = shell.until("\n$ ");
        assert!(shown.contains("Stopped"), "{shown}");
        assert!(shell.run("jobs").contains("Stopped"));
        // SIGCHLD of a job that goes on interrupts the write of a prompt, which the shell then never shows: it waits for a child.
        let goes_on = "bg; until grep -q '(sleeping)' /proc/$(jobs -p)/status; do sleep 0.1; done";
        assert!(shell.run(goes_on).contains("sleep 100"));
        assert!(shell.run("jobs").contains("Running"));
        shell.pty.type_bytes(b"fg\r");
        shell.until("sleep 100\r\n");
        shell.until_job();
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
        // As above, it stops while the shell waits for a child.
        let go = format!("/tmp/shell_jobs.{}", std::process::id());
        shell.run(&format!("(until test -e {go}; do sleep 0.1; done; exec cat) &"));
        let stops = "until grep -q 'T (st' /proc/$!/status; do sleep 0.1; done";
        let shown = shell.run(&format!(": > {go}; {stops}; rm {go}; jobs"));
        assert!(shown.contains("Stopped (tty input)"), "{shown}");
        shell.pty.type_bytes(b"fg\r");
        shell.until("exec cat)\r\n");
        shell.until_job();
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
