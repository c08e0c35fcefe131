//! `on_pty COMMAND [ARGUMENT...]`: runs a command on a pseudo-terminal of 24 rows and 80 columns and plays
//! the user by the orders on stdin, one a line:
//!
//! ```text
//! wait TEXT     until TEXT has come since the last wait
//! send TEXT     types TEXT
//! size R C      changes the window
//! close         hangs up
//! ```
//! TEXT may hold `\e`, `\n`, `\r`, `\t`, `\\` and `\xNN`. The command's output goes to stdout; the exit
//! status is the command's, or 124 if a TEXT did not come in time.
use abi::Ended;
use std::{
    ffi::CString,
    fs::File,
    io::{self, BufRead, Read, Write},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    process::ExitCode,
    time::{Duration, Instant},
};

/// Longest wait for one TEXT.
const LIMIT: Duration = Duration::from_secs(50);
const TIMED_OUT: u8 = 124;
static WINDOW: libc::winsize = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// The user's side of the terminal.
struct User {
    master: Option<File>,
    /// Output since the last wait.
    unseen: Vec<u8>,
}

fn main() -> ExitCode {
    let words: Vec<CString> = std::env::args_os().skip(1).map(abi::c).collect();
    if words.is_empty() {
        eprintln!("usage: on_pty COMMAND [ARGUMENT...]");
        return ExitCode::from(2);
    }
    match play(&words) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("on_pty: {error}");
            ExitCode::from(if error.kind() == io::ErrorKind::TimedOut { TIMED_OUT } else { 1 })
        }
    }
}

fn play(words: &[CString]) -> io::Result<u8> {
    let (master, terminal) = open_terminal()?;
    let child = start(words, &terminal);
    drop(terminal);
    let mut user = User { master: Some(master), unseen: Vec::new() };
    let result = follow(&mut user).and_then(|()| {
        while user.read(LIMIT)? {}
        Ok(())
    });
    if result.is_err() {
        // SAFETY: no memory is passed.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
    let status = match abi::wait(child) {
        Ended::Exited(code) => code,
        Ended::Signalled(signal) => 128 + signal,
    };
    result.map(|()| status as u8)
}

fn open_terminal() -> io::Result<(File, OwnedFd)> {
    let (mut master, mut terminal) = (-1, -1);
    // SAFETY: two numbers to fill, a window size to read; no name and no termios are given.
    let result = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut terminal,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const WINDOW,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    let master = unsafe { File::from_raw_fd(master) };
    // SAFETY: as above.
    let terminal = unsafe { OwnedFd::from_raw_fd(terminal) };
    for end in [master.as_raw_fd(), terminal.as_raw_fd()] {
        // SAFETY: no memory is passed.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok((master, terminal))
}

/// Starts a child that leads a session on the terminal and becomes the command.
fn start(words: &[CString], terminal: &OwnedFd) -> libc::pid_t {
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    abi::fork(|| {
        take_terminal(terminal.as_raw_fd());
        // SAFETY: words ended by NUL in a list ended by null, alive over the call.
        unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
        panic!("{:?}: {}", words[0], io::Error::last_os_error());
    })
}

/// Makes `terminal` the standard files and the controlling terminal of a new session with default signal
/// actions.
fn take_terminal(terminal: i32) {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
        // SAFETY: the default action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: no memory is passed.
    abi::must(unsafe { libc::setsid() });
    for standard in 0..3 {
        // SAFETY: as above.
        abi::must(unsafe { libc::dup2(terminal, standard) });
    }
    // SAFETY: as above.
    abi::must(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) });
}

fn follow(user: &mut User) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "wait" => user.wait_for(&unescape(rest))?,
            "send" => user.send(&unescape(rest))?,
            "size" => user.resize(rest)?,
            "close" => user.master = None,
            "" => {}
            other => return Err(io::Error::other(format!("no such step: {other}"))),
        }
    }
    Ok(())
}

impl User {
    fn wait_for(&mut self, text: &[u8]) -> io::Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.unseen.windows(text.len()).position(|part| part == text) {
                self.unseen.drain(..at + text.len());
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            let outcome = match self.read(left) {
                Ok(true) if !left.is_zero() => continue,
                Ok(_) => io::Error::from(io::ErrorKind::TimedOut),
                Err(error) => error,
            };
            let text = String::from_utf8_lossy(text);
            return Err(io::Error::new(
                outcome.kind(),
                format!("`{text}` did not come: {outcome}"),
            ));
        }
    }

    /// Takes output that comes within `limit`. Returns `false` at the terminal's end.
    fn read(&mut self, limit: Duration) -> io::Result<bool> {
        let Some(master) = &mut self.master else { return Ok(false) };
        let mut ready = libc::pollfd { fd: master.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, ours.
        let count = unsafe { libc::poll(&raw mut ready, 1, limit.as_millis() as i32) };
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing came, nor did it end"));
        }
        let mut bytes = [0; 4096];
        let taken = match master.read(&mut bytes) {
            Ok(count) => count,
            // Linux reports this once every descriptor of the terminal is closed.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => 0,
            Err(error) => return Err(error),
        };
        io::stdout().write_all(&bytes[..taken])?;
        self.unseen.extend_from_slice(&bytes[..taken]);
        Ok(taken > 0)
    }

    fn send(&mut self, text: &[u8]) -> io::Result<()> {
        self.master.as_mut().map_or(Ok(()), |master| master.write_all(text))
    }

    fn resize(&self, text: &str) -> io::Result<()> {
        let (rows, columns) = text.split_once(' ').ok_or_else(|| io::Error::other("size R C"))?;
        let number = |text: &str| text.trim().parse().map_err(io::Error::other);
        let window = libc::winsize { ws_row: number(rows)?, ws_col: number(columns)?, ..WINDOW };
        let Some(master) = &self.master else { return Ok(()) };
        // SAFETY: the size outlives the call.
        match unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const window) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let Some((kind, tail)) = rest.split_first() else { break };
        rest = tail;
        bytes.push(match kind {
            b'e' => 0x1b,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let (digits, tail) = rest.split_at(rest.len().min(2));
                rest = tail;
                let digits = String::from_utf8_lossy(digits);
                u8::from_str_radix(&digits, 16).unwrap_or(b'?')
            }
            other => *other,
        });
    }
    bytes
}
