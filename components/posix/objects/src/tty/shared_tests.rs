//! Tests of a shared line over a port whose other end the test holds.
use super::{
    Claim, Terminal, TerminalFile, WindowSize,
    attention::Attention,
    shared::{LinePrograms, SharedLine},
    transfer_tests::{BLOCKING, Far, NONBLOCKING, read, write},
    trusted::{NewSession, Order},
};
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use interfaces::terminal::Port;
use linux_raw_sys::general as raw;
use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};
use vfs::{
    Errno, NOBODY,
    file::{File, Ready},
};

const SEQUENCE: &[u8] = &[0x1e; 3];
const CLOSED: &str = "\r\n[ The trusted path is closed. ]\r\n";

/// Passes on the terminals on which programs would be started.
struct Started(Sender<Arc<Terminal>>);

impl LinePrograms for Started {
    fn start_shell(&self, terminal: &Arc<Terminal>) -> Result<(), Errno> {
        self.0.send(terminal.clone()).map_err(|_| Errno::ENOENT)
    }
    fn start_session(&self, terminal: &Arc<Terminal>, _: NewSession) -> Result<(), Errno> {
        self.start_shell(terminal)
    }
}

/// A line with a session on it.
struct Seat {
    far: Arc<Far>,
    session: Arc<TerminalFile>,
    line: Arc<SharedLine>,
    started: Receiver<Arc<Terminal>>,
}

fn open(terminal: &Arc<Terminal>, claim: Claim) -> Arc<TerminalFile> {
    Arc::new(terminal.open(raw::O_RDWR, claim, NOBODY).unwrap())
}

fn seat() -> Seat {
    let far = Arc::new(Far::default());
    let (sender, started) = channel();
    let port: Arc<dyn Port> = far.clone();
    let place = ((4, 64), WindowSize::default());
    let attention = Attention::parse("1e1e1e").unwrap();
    let first = SharedLine::start(&port, place, attention, Box::new(Started(sender))).unwrap();
    let line = first.shared_line().unwrap();
    Seat { far, session: open(&first, Claim::Never), line, started }
}

/// Makes input raw and without echo.
fn make_raw(file: &TerminalFile) {
    let mut settings = file.terminal().settings();
    (settings.local, settings.input, settings.output) = (0, 0, 0);
    settings.characters[raw::VMIN as usize] = 1;
    file.terminal().set_settings(settings);
}

impl Seat {
    /// Returns the terminal of the next program that is started.
    fn next(&self) -> Arc<TerminalFile> {
        open(&self.started.recv().unwrap(), Claim::Never)
    }
    /// Closes the trusted path.
    fn close(&self) {
        self.line.shell_ended(Some(Order::Continue));
        self.far.expect(CLOSED);
        while self.session.terminal().is_held() {
            thread::yield_now();
        }
    }
}

fn anybody() -> NewSession {
    NewSession {
        context: String::new(),
        user: 0,
        group: 0,
        groups: Vec::new(),
        name: String::new(),
        home: String::new(),
        shell: String::new(),
        login: 0,
    }
}

#[test]
fn what_is_typed_to_the_trusted_shell_no_other_reader_gets() {
    let seat = seat();
    make_raw(&seat.session);
    seat.far.type_bytes(b"ab\x1e");
    seat.far.type_bytes(b"\x1e");
    assert_eq!(read(&*seat.session, 4, BLOCKING).unwrap(), "ab\x1e\x1e");
    seat.far.type_bytes(b"\x1elost");
    let shell = seat.next();
    seat.far.type_bytes(b"secret\r");
    assert_eq!(read(&*shell, 100, BLOCKING).unwrap(), "secret\n");
    assert_eq!(read(&*seat.session, 100, NONBLOCKING), Err(Errno::EAGAIN));
    assert!(!seat.session.poll(None, NOBODY).intersects(Ready::IN | Ready::OUT));
    seat.far.expect("secret\r\n");
    seat.close();
    seat.far.type_bytes(b"z");
    assert_eq!(read(&*seat.session, 100, BLOCKING).unwrap(), "z");
}

#[test]
fn a_held_program_shows_nothing_until_the_path_is_closed() {
    let seat = seat();
    seat.far.type_bytes(SEQUENCE);
    let shell = seat.next();
    let session = seat.session.clone();
    let writer = thread::spawn(move || write(&*session, "forged", BLOCKING));
    assert_eq!(write(&*seat.session, "forged", NONBLOCKING), Err(Errno::EAGAIN));
    seat.session.terminal().simulate(b'x');
    thread::sleep(Duration::from_millis(20));
    write(&*shell, "prompt", BLOCKING).unwrap();
    seat.far.expect("prompt");
    seat.line.shell_ended(Some(Order::Continue));
    assert_eq!(writer.join().unwrap(), Ok(6));
    let shown = seat.far.take(CLOSED.len() + 1 + 6);
    assert!(shown.starts_with(CLOSED) && shown.contains("forged"), "{shown:?}");
}

#[test]
fn a_writer_that_never_rests_is_cut_off_between_two_pieces() {
    let seat = seat();
    make_raw(&seat.session);
    let session = seat.session.clone();
    let writer = thread::spawn(move || while write(&*session, "flood", BLOCKING).is_ok() {});
    seat.far.take(100);
    seat.far.type_bytes(SEQUENCE);
    let shell = seat.next();
    seat.far.take(0);
    make_raw(&shell);
    write(&*shell, "one", BLOCKING).unwrap();
    thread::sleep(Duration::from_millis(20));
    write(&*shell, "two", BLOCKING).unwrap();
    seat.far.expect("onetwo");
    seat.line.shell_ended(Some(Order::End));
    writer.join().unwrap();
}

#[test]
fn neither_full_buffers_nor_stopped_output_keep_the_sequence_away() {
    let seat = seat();
    seat.far.type_bytes(b"\x13");
    make_raw(&seat.session);
    assert_eq!(seat.far.type_bytes(&[b'x'; 100_000]), 100_000);
    seat.far.type_bytes(SEQUENCE);
    let shell = seat.next();
    write(&*shell, "open", BLOCKING).unwrap();
    seat.far.expect("open");
    seat.far.type_bytes(b"\x13");
    write(&*shell, "still", BLOCKING).unwrap();
    seat.far.type_bytes(b"\r");
    assert_eq!(read(&*shell, 10, BLOCKING).unwrap(), "\x13\n");
}

#[test]
fn a_break_opens_the_path_and_settings_of_the_session_stay() {
    let seat = seat();
    make_raw(&seat.session);
    let before = seat.session.terminal().settings();
    seat.far.send_break();
    let shell = seat.next();
    assert!(shell.terminal().settings().is_canonical());
    assert!(!shell.terminal().settings().has_local(raw::ISIG));
    let mut others = shell.terminal().settings();
    others.local = 0;
    shell.terminal().set_settings(others);
    seat.close();
    assert_eq!(seat.session.terminal().settings(), before);
}

#[test]
fn the_sequence_again_gives_a_new_shell() {
    let seat = seat();
    seat.far.type_bytes(SEQUENCE);
    let first = seat.next();
    seat.far.type_bytes(b"half a word");
    seat.far.type_bytes(SEQUENCE);
    let second = seat.next();
    assert_eq!(read(&*first, 10, BLOCKING).unwrap(), "");
    assert_eq!(write(&*first, "late", BLOCKING), Err(Errno::EIO));
    seat.far.type_bytes(b"word\r");
    assert_eq!(read(&*second, 20, BLOCKING).unwrap(), "word\n");
    assert!(seat.session.terminal().is_held());
}

#[test]
fn a_shell_that_is_killed_ends_the_session() {
    let seat = seat();
    seat.far.type_bytes(SEQUENCE);
    let _shell = seat.next();
    seat.line.shell_ended(None);
    let died = "\r\n[ The trusted shell died. The session is ended. ]\r\n";
    seat.far.expect(&[died, CLOSED].concat());
    assert!(seat.session.is_hung_up());
    let again = open(seat.session.terminal(), Claim::Never);
    write(&*again, "login: ", BLOCKING).unwrap();
    seat.far.expect("login: ");
}

#[test]
fn a_session_in_front_holds_the_one_behind_it_until_it_ends() {
    let seat = seat();
    let console = open(seat.session.terminal(), Claim::Console);
    seat.far.type_bytes(SEQUENCE);
    let _shell = seat.next();
    seat.line.shell_ended(Some(Order::Begin(anybody())));
    let front = seat.next();
    write(&*front, "$ ", BLOCKING).unwrap();
    seat.far.expect("$ ");
    write(&*console, "news", BLOCKING).unwrap();
    seat.far.expect("news");
    assert_eq!(write(&*seat.session, "low", NONBLOCKING), Err(Errno::EAGAIN));
    seat.far.type_bytes(b"ls\r");
    assert_eq!(read(&*front, 10, BLOCKING).unwrap(), "ls\n");
    seat.far.expect("ls\r\n");
    seat.line.session_ended();
    assert_eq!(write(&*seat.session, "low", BLOCKING), Ok(3));
    seat.far.expect("low");
    assert_eq!(write(&*front, "x", BLOCKING), Err(Errno::EIO));
}

#[test]
fn no_more_than_four_sessions_stand_one_in_front_of_the_other() {
    let seat = seat();
    for _ in 0..3 {
        seat.far.type_bytes(SEQUENCE);
        let _shell = seat.next();
        seat.line.shell_ended(Some(Order::Begin(anybody())));
        let _front = seat.next();
    }
    seat.far.type_bytes(SEQUENCE);
    let _shell = seat.next();
    seat.line.shell_ended(Some(Order::Begin(anybody())));
    seat.far.expect("\r\n[ The new session cannot be started. ]\r\n");
}
