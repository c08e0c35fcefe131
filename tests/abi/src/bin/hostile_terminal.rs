//! A program that does what it can to stand between the user and the trusted path of its terminal. Several processes set raw mode, type
//! at themselves, stop and flush output, change the foreground group and the window, and show a forged prompt without rest, by every
//! name of the terminal; others read by every name. `q` ends it; then it tells whether it saw bytes that were not typed to it.
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::fd::AsRawFd,
};

/// The forged prompt.
const FORGED: &[u8] = b"hostile trusted> ";
/// Bytes that it may see: those of the sequence, those that it types at itself, and the one that ends it.
const ITS_OWN: &[u8] = b"\x1exq";
const SEEN: &str = "/tmp/seen";

fn open(name: &str) -> Option<File> {
    OpenOptions::new().read(true).write(true).open(name).ok()
}

fn make_raw(terminal: &File) {
    let fd = terminal.as_raw_fd();
    // SAFETY: the structure is valid as zeroes.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    unsafe { libc::tcgetattr(fd, &mut settings) };
    // SAFETY: the structure outlives the call.
    unsafe { libc::cfmakeraw(&mut settings) };
    // SAFETY: the structure outlives the call.
    unsafe { libc::tcsetattr(fd, libc::TCSANOW, &settings) };
}

/// Forks a process that runs `body` for ever.
fn child(mut body: impl FnMut()) -> libc::pid_t {
    // SAFETY: the process has one thread.
    match unsafe { libc::fork() } {
        0 => loop {
            body();
        },
        id => id,
    }
}

/// Opens the terminal by `name` again and again, and shows the forged prompt.
fn forge(name: &str) -> libc::pid_t {
    child(|| {
        if let Some(mut terminal) = open(name) {
            for _ in 0..16 {
                let _ = terminal.write_all(FORGED);
            }
        }
    })
}

/// Opens the terminal by `name` again and again, and keeps what it reads.
fn steal(name: &str) -> libc::pid_t {
    child(|| {
        let (Some(mut terminal), mut bytes) = (open(name), [0; 64]) else { return };
        let count = terminal.read(&mut bytes).unwrap_or(0);
        let mut seen = OpenOptions::new().append(true).create(true).open(SEEN).unwrap();
        let mut news = bytes[..count].to_vec();
        news.retain(|byte| *byte != b'x' && *byte != 0x1e);
        seen.write_all(&news).unwrap();
    })
}

/// Changes the terminal in every way.
fn disturb() -> libc::pid_t {
    let Some(terminal) = open("/dev/tty") else { return 0 };
    child(move || {
        let fd = terminal.as_raw_fd();
        make_raw(&terminal);
        // SAFETY: the call has no arguments.
        let group = unsafe { libc::getpgrp() };
        let window = libc::winsize { ws_row: 25, ws_col: 81, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the byte outlives the call.
        unsafe { libc::ioctl(fd, libc::TIOCSTI, b"x".as_ptr()) };
        // SAFETY: the number outlives the call.
        unsafe { libc::ioctl(fd, libc::TIOCSPGRP, &group) };
        // SAFETY: the structure outlives the call.
        unsafe { libc::ioctl(fd, libc::TIOCSWINSZ, &window) };
        // SAFETY: the arguments are values.
        unsafe { libc::tcflow(fd, libc::TCOOFF) };
        // SAFETY: the arguments are values.
        unsafe { libc::tcflow(fd, libc::TCOON) };
        // SAFETY: the arguments are values.
        unsafe { libc::tcflush(fd, libc::TCOFLUSH) };
    })
}

fn main() {
    let mut terminal = open("/dev/tty").unwrap();
    make_raw(&terminal);
    let name = std::fs::read_link("/proc/self/fd/0").unwrap();
    let names = [name.to_str().unwrap(), "/dev/tty", "/dev/console"];
    // SAFETY: the signal is only ignored.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    let _ = std::fs::remove_file(SEEN);
    let mut children: Vec<libc::pid_t> = names.into_iter().map(forge).collect();
    children.extend(names.into_iter().map(steal));
    children.push(disturb());
    let mut seen = Vec::new();
    while !seen.contains(&b'q') {
        let mut byte = [0];
        if terminal.read(&mut byte).unwrap() == 1 {
            seen.push(byte[0]);
        }
        seen.extend(std::fs::read(SEEN).unwrap_or_default());
        seen.retain(|byte| *byte != b'x' && *byte != 0x1e);
    }
    for child in children {
        // SAFETY: it is a child that was not waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: nothing is written without a place for it.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
    // SAFETY: the arguments are values.
    unsafe { libc::tcflow(terminal.as_raw_fd(), libc::TCOON) };
    seen.extend(std::fs::read(SEEN).unwrap_or_default());
    seen.retain(|byte| !ITS_OWN.contains(byte));
    match seen.is_empty() {
        true => println!("\r\nsaw only its own\r"),
        false => println!("\r\nstole {:?}\r", String::from_utf8_lossy(&seen)),
    }
    // SAFETY: the command resets the terminal.
    unsafe { libc::system(c"stty sane".as_ptr()) };
}
