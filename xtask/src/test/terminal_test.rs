//! A test of `./x run` at a terminal, as a user sits before it: a pty is typed at and read, its size is
//! changed, and its settings must be restored once the run has ended.
//!
//! Each step waits for what is shown; time only bounds how long.
use super::{levels, noninterference};
use anyhow::{Context, Result, anyhow, bail};
use harness::{
    build::{self, Features},
    debian, disk, shell,
    tally::{Tally, Target},
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    pty::openpty,
    sys::{
        signal::{Signal, killpg},
        termios,
    },
    unistd::Pid,
};
use std::{
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// The time limit of each step.
const PATIENCE: Duration = Duration::from_secs(240);

/// A step at the terminal.
pub enum Step {
    /// Types a text. Output before it does not count from here on.
    Type(&'static str),
    /// Waits until this text has been shown.
    Expect(&'static str),
    /// Waits until the second text has been shown, and fails if the first came before it.
    Without(&'static str, &'static str),
    /// Sets the window's rows and columns.
    Resize(u16, u16),
}
use Step::{Expect, Resize, Type, Without};

const PROMPT: &str = "skerry:~# ";

/// Tests line editing, job control, full-screen programs, the window's size, and another user.
///
/// The job prints when it has begun and when it continues, because only then it has the keyboard.
const SESSION: &[Step] = &[
    Expect(PROMPT),
    Type("echo ac\x1b[Db\r"),
    Expect("\nabc\r"),
    Expect(PROMPT),
    Type("\x1b[A\x7f\x7fd\r"),
    Expect("\nad\r"),
    Expect(PROMPT),
    Type("tty\r"),
    Expect("\n/dev/hvc0\r"),
    Expect(PROMPT),
    // Pasted faster than it is taken.
    Type(concat!(
        "echo '",
        "012345678901234567890123456789012345678901234567890123456789",
        "012345678901234567890123456789012345678901234567890123456789",
        "012345678901234567890123456789012345678901234567890123456789",
        "012345678901234567890123456789012345678901234567890123456789",
        "' | wc -c\r"
    )),
    Expect("\n241\r"),
    Expect(PROMPT),
    Type("sh -c 'trap \"echo goes on\" CONT; echo begun; while :; do sleep 1; done'\r"),
    Expect("\nbegun\r"),
    Type("\x1a"),
    Expect("Stopped"),
    Expect(PROMPT),
    Type("jobs\r"),
    Expect("[1]+  Stopped"),
    Expect(PROMPT),
    Type("bg\r"),
    Expect("goes on\r"),
    Type("jobs\r"),
    Expect("[1]+  Running"),
    Expect(PROMPT),
    Type("fg\r"),
    Expect("\ngoes on\r"),
    Type("\x03"),
    Expect(PROMPT),
    Type("jobs; echo none\r"),
    Expect("echo none\r\nnone\r"),
    Expect(PROMPT),
    // Input that is typed before a program reads goes to the shell, so the program prints when it is
    // ready.
    Type("echo reads; cat\r"),
    Expect("\nreads\r"),
    Type("a line\r"),
    Expect("a line\r\na line\r"),
    Type("\x04"),
    Expect(PROMPT),
    Resize(33, 111),
    Type("until stty size | grep 33.111; do :; done\r"),
    Expect("\n33 111\r"),
    Expect(PROMPT),
    Type("vi /tmp/f\r"),
    Expect("- /tmp/f"),
    Type("ihello"),
    // This puts the cursor behind it.
    Expect("\x1b[1;6H"),
    Type("\x1b"),
    Expect("- /tmp/f"),
    Type(":wq\r"),
    Expect(PROMPT),
    Type("cat /tmp/f; su user -c id\r"),
    Expect("\nhello\r"),
    Expect("\nuid=1000(user)"),
    Expect(PROMPT),
    Type("top -b -n1\r"),
    Expect("\nMem: "),
    Expect("  PID  PPID USER "),
    Expect("top -b -n1"),
    Expect(PROMPT),
];

/// The console on the port of the kernel's log.
const SERIAL: &[Step] = &[
    Expect("I image: system"),
    Expect(PROMPT),
    Type("tty; echo ac\x1b[Db\r"),
    Expect("\n/dev/ttyS0\r"),
    Expect("\nabc\r"),
    Expect(PROMPT),
    // The job prints that it has begun, not the shell: a ^C before the job has the keyboard is the
    // shell's, and busybox's shell then waits for the job first.
    Type("sh -c 'echo begun; sleep 1000'\r"),
    Expect("\nbegun\r"),
    Type("\x03"),
    Expect(PROMPT),
    // The text is longer than the chip's FIFO, in both directions.
    Type("seq 1000 1999 | md5sum; echo 0123456789012345678901234567890123456789 >/dev/console\r"),
    Expect("\n54b022b0bb28abd0d1e5ff1b42c49d0f"),
    Expect("\n0123456789012345678901234567890123456789\r"),
    Expect(PROMPT),
];

/// Busybox's init as process 1, to a shell that it starts and starts again.
const BUSYBOX_INIT: &[Step] = &[
    Expect("Please press Enter to activate this console."),
    Type("\r"),
    Expect("# "),
    Type("ps | grep -c '^ *1 .*init'; cat /proc/$$/stat | cut -d' ' -f4\r"),
    Expect("\r\n1\r\n"),
    Expect("# "),
    Type("(sh -c 'sleep 1; echo parent $PPID; grep PPid /proc/self/status' &); sleep 3\r"),
    Expect("PPid:"),
    Expect("# "),
    Type("kill -9 1; kill -STOP 1; exit\r"),
    Expect("Please press Enter to activate this console."),
    Type("\r"),
    Expect("# "),
];

/// A session at a terminal.
struct Seat {
    name: &'static str,
    /// Arguments of `./x run`.
    arguments: &'static [&'static str],
    steps: &'static [Step],
    /// Input that ends it.
    ending: &'static str,
}

impl Seat {
    fn is_chosen(&self, filter: Option<&str>) -> bool {
        filter.is_none_or(|filter| self.name.contains(filter))
    }
}

const fn seat(name: &'static str, steps: &'static [Step], ending: &'static str) -> Seat {
    Seat { name, arguments: &[], steps, ending }
}

const INIT: &[&str] = &["--append", "init=/bin/init"];

const SITTINGS: [Seat; 7] = [
    seat("an interactive session and poweroff", SESSION, "poweroff\r"),
    seat("an interactive session left by exit", &[Expect(PROMPT)], "exit\r"),
    seat("an interactive session left by Ctrl-A X", &[Expect(PROMPT)], "\x01x"),
    seat("an interactive session left by Ctrl-Alt-Del", &[Expect(PROMPT)], "\x01d"),
    Seat {
        arguments: &["--serial-console", "--machine", "microvm"],
        ..seat("an interactive session on the first serial port", SERIAL, "poweroff\r")
    },
    Seat {
        arguments: INIT,
        ..seat("busybox's init as process 1, and poweroff", BUSYBOX_INIT, "poweroff\r")
    },
    // This init asked to be told of the keys, and runs its action for them: reboot.
    Seat {
        arguments: INIT,
        ..seat("busybox's init as process 1, and Ctrl-Alt-Del", BUSYBOX_INIT, "\x01d")
    },
];

/// Debian's sysvinit as process 1, to its login.
const SYSVINIT: &[Step] = &[
    Expect("INIT: Entering runlevel: 2"),
    Expect("login: "),
    Type("root\r"),
    Expect("# "),
    Type("runlevel; tty; ps -p 1 -o comm=\r"),
    // Bash ends its bracketed paste before them.
    Expect("\rN 2\r"),
    Expect("\n/dev/hvc0\r"),
    Expect("\ninit\r"),
    Expect("# "),
    Type("telinit 3; sleep 2; runlevel\r"),
    Expect("\n2 3\r"),
];

/// Name of the package with Debian's sysvinit.
const INIT_PACKAGE: &str = "sysvinit-core";

/// The session of a Debian root.
const DEBIAN: Seat = seat("Debian's sysvinit to its login and down again", SYSVINIT, "poweroff\r");

/// The session of a Debian root whose users have levels.
const LEVELS: Seat = seat("a Debian whose users log in at levels", levels::SESSION, "poweroff\r");

/// Does [`run`] in a Debian root.
///
/// # Errors
/// Those of [`run`].
pub fn run_debian(tally: &mut Tally, target: &Target, filter: Option<&str>) -> Result<()> {
    let with_levels = (target.system == noninterference::SYSTEM).then_some(&LEVELS);
    let plain: (&Seat, &[&str]) = (&DEBIAN, &[INIT_PACKAGE]);
    let seats = [plain].into_iter().chain(with_levels.map(|seat| (seat, &levels::PACKAGES[..])));
    for (seat, packages) in seats.filter(|(seat, _)| seat.is_chosen(filter)) {
        // It is made here, because within the session that would take longer than a step may.
        debian::image(&packages.iter().map(|&package| package.to_owned()).collect::<Vec<_>>())?;
        let packages = packages.join(",");
        let root = ["--root", debian::NAME, "--packages", &packages, "--append", "init=/sbin/init"];
        sit_at(&[seat], tally, target, &root)?;
    }
    Ok(())
}

/// The attention sequence.
const ATTENTION: &str = "\x1e\x1e\x1e";
const OPEN: &str = "[ Skerry: the trusted path is open on ";
const TRUSTED_PROMPT: &str = "trusted> ";
const CLOSED: &str = "[ The trusted path is closed. ]";
/// The word that the hostile program shows without rest.
const FORGED: &str = "hostile";

/// A hostile program has the terminal when the trusted path is opened; then a session at another level.
const TRUSTED: &[Step] = &[
    Expect(PROMPT),
    Type("/abi/hostile_terminal\r"),
    Expect(FORGED),
    Type(ATTENTION),
    Expect(OPEN),
    Without(FORGED, TRUSTED_PROMPT),
    Type("sesame\r"),
    Without(FORGED, "There is no such command"),
    Without(FORGED, TRUSTED_PROMPT),
    // Keys that would signal, stop output or end a line elsewhere, and half of the sequence.
    Type("\x03\x1a\x1c\x13\x1e\x1e"),
    Type("\r\x04"),
    Without(FORGED, TRUSTED_PROMPT),
    Type("level\r"),
    Without(FORGED, "Level:   s0 (unclassified), at most s15:c0.c1023 (system-high)"),
    Without(FORGED, TRUSTED_PROMPT),
    Type("continue\r"),
    Without(FORGED, CLOSED),
    Expect(FORGED),
    Type("q"),
    Expect("saw only its own"),
    Expect(PROMPT),
    Type("cat /proc/skerry/trusted; echo end > /proc/skerry/trusted; echo done\r"),
    Without("terminal", "Operation not permitted\r\ndone"),
    Expect(PROMPT),
    Type(ATTENTION),
    Expect(TRUSTED_PROMPT),
    Type("new s16\r"),
    Expect("That was refused"),
    Expect(TRUSTED_PROMPT),
    Type("new s2\r"),
    Expect(PROMPT),
    Type("tr -d '\\0' </proc/self/attr/current; tty\r"),
    Expect("kernel_t:s2-s15:c0.c1023"),
    Expect("/dev/hvc0\r"),
    Expect(PROMPT),
    Type(ATTENTION),
    Expect("Level:   s2 (secret), at most"),
    Expect(TRUSTED_PROMPT),
    Type("end\r"),
    Expect(CLOSED),
    Type("tr -d '\\0' </proc/self/attr/current\r"),
    Expect("kernel_t:s0-s15:c0.c1023"),
    Expect(PROMPT),
];

/// A break on a serial line, sent by QEMU's monitor, opens the trusted path, and ends the session of a login.
const TRUSTED_BREAK: &[Step] = &[
    Expect("Please press Enter to activate this console."),
    Type("\r"),
    Expect("# "),
    Type("/abi/hostile_terminal\r"),
    Expect(FORGED),
    Type("\x01c"),
    Type("chardev-send-break terminal\r"),
    Type("\x01c"),
    Expect(OPEN),
    Without(FORGED, TRUSTED_PROMPT),
    Type("end\r"),
    Without(FORGED, CLOSED),
    Without(FORGED, "Please press Enter to activate this console."),
    Type("\r"),
    Expect("# "),
    Type("ps | grep -c '[h]ostile'\r"),
    Expect("\n0\r"),
    Expect("# "),
];

/// The sessions on a system with a monitor.
const LABELLED: [Seat; 2] = [
    seat("the trusted path on the console", TRUSTED, "poweroff\r"),
    Seat {
        arguments: &["--serial-console", "--machine", "microvm", "--append", "init=/bin/init"],
        ..seat("the trusted path on a serial line", TRUSTED_BREAK, "poweroff\r")
    },
];

/// Does [`run`] for the trusted path, on a system with a monitor.
///
/// # Errors
/// Those of [`run`].
pub fn run_labelled(tally: &mut Tally, target: &Target, filter: Option<&str>) -> Result<()> {
    let seats: Vec<&Seat> = LABELLED.iter().filter(|seat| seat.is_chosen(filter)).collect();
    if seats.is_empty() {
        return Ok(());
    }
    build::image(&target.system, &Features::default())?;
    let image = disk::programs_image()?;
    let root = ["--root", image.to_str().context("the path of an image")?];
    seats.into_iter().for_each(|seat| take_seat(seat, tally, target, &root));
    Ok(())
}

/// Runs each sitting that `filter` leaves in.
///
/// # Errors
/// Fails if the system does not build.
pub fn run(tally: &mut Tally, target: &Target, filter: Option<&str>) -> Result<()> {
    let chosen: Vec<&Seat> = SITTINGS.iter().filter(|seat| seat.is_chosen(filter)).collect();
    sit_at(&chosen, tally, target, &[])
}

fn sit_at(seats: &[&Seat], tally: &mut Tally, target: &Target, root: &[&str]) -> Result<()> {
    for seat in target.some(seats) {
        build::image(&target.system, &Features::default())?;
        disk::default_root()?;
        take_seat(seat, tally, target, root);
    }
    Ok(())
}

/// Runs a session, and counts its result.
fn take_seat(seat: &Seat, tally: &mut Tally, target: &Target, root: &[&str]) {
    let bar = shell::progress(seat.name);
    let result = sit(&target.system, seat, root).map_err(|error| format!("{error:#}"));
    bar.finish_and_clear();
    tally.count(seat.name, result);
}

fn sit(system: &str, seat: &Seat, root: &[&str]) -> Result<()> {
    let pty = openpty(None, None).context("opening a pty")?;
    let before = termios::tcgetattr(&pty.slave)?;
    let mut desk = Desk { master: File::from(pty.master), slave: pty.slave, shown: String::new() };
    desk.resize(30, 100)?;
    let plain = ["run", "--system", system, "--snapshot", "--accel", "tcg"];
    let mut sitting = desk.start(&[&plain, seat.arguments, root].concat())?;
    seat.steps.iter().chain([&Type(seat.ending)]).try_for_each(|step| desk.take(step))?;
    let status = desk.end(&mut sitting)?;
    if !status.success() {
        bail!("the run ended with {status}; shown was {:?}", desk.shown);
    }
    if before != termios::tcgetattr(&desk.slave)? {
        bail!("the terminal was left with other settings");
    }
    Ok(())
}

/// The run at the terminal, a session and process group of its own, which ends with this.
struct Sitting(Child);

impl Drop for Sitting {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // This kills QEMU and all other processes of the group; it may also have just ended.
            let _ = killpg(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGKILL);
            let _ = self.0.wait();
        }
    }
}

/// A terminal, and the output on it since the last input or the last match.
struct Desk {
    master: File,
    slave: OwnedFd,
    shown: String,
}

impl Desk {
    fn stdio(&self) -> Result<Stdio> {
        Ok(Stdio::from(self.slave.try_clone()?))
    }
    /// Starts this very program as the leader of a session on the terminal. setsid(1) does not fork
    /// here, as its process leads no group yet.
    fn start(&self, arguments: &[&str]) -> Result<Sitting> {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(std::env::current_exe()?).args(arguments);
        command.stdin(self.stdio()?).stdout(self.stdio()?).stderr(self.stdio()?);
        command.spawn().map(Sitting).context("starting setsid")
    }
    fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let mut stty = Command::new("stty");
        stty.args(["rows", &rows, "cols", &columns]).stdin(self.stdio()?);
        let status = stty.status().context("starting stty")?;
        if status.success() { Ok(()) } else { bail!("stty: {status}") }
    }
    fn take(&mut self, step: &Step) -> Result<()> {
        match step {
            Type(text) => {
                self.shown.clear();
                self.master.write_all(text.as_bytes()).context("typing")
            }
            Resize(rows, columns) => self.resize(*rows, *columns),
            Expect(text) => self.expect(text).map(drop),
            Without(unwanted, text) => match self.expect(text)? {
                before if before.contains(unwanted) => {
                    bail!("{unwanted:?} was shown before {text:?}: {before:?}")
                }
                _ => Ok(()),
            },
        }
    }
    /// Waits for `text`. Returns what was shown before it.
    fn expect(&mut self, text: &str) -> Result<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown.find(text) {
                let before = self.shown.drain(..at + text.len()).take(at).collect();
                return Ok(before);
            }
            if Instant::now() >= end {
                bail!("{text:?} did not appear; shown was {:?}", self.shown);
            }
            self.read_some()?;
        }
    }
    /// Reads available output, or waits a moment for some.
    fn read_some(&mut self) -> Result<()> {
        const MOMENT_MS: u16 = 100;
        let mut entries = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut entries, PollTimeout::from(MOMENT_MS))? > 0 {
            let mut bytes = [0; 4096];
            let count = self.master.read(&mut bytes).context("reading the terminal")?;
            self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        Ok(())
    }
    /// Waits for the end of the run.
    fn end(&mut self, sitting: &mut Sitting) -> Result<ExitStatus> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            self.read_some()?;
            if let Some(status) = sitting.0.try_wait()? {
                return Ok(status);
            }
        }
        Err(anyhow!("the run did not end; shown was {:?}", self.shown))
    }
}
