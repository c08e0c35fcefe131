//! [`SharedLine`]: a device's line that the trusted path can take from the sessions on it (K1).
//!
//! Several terminals have the same line and the same name. One is in front: it gets what is typed, and sends. The others are held.
//!
//! ```text
//! driver's thread ──received──> Recogniser ──> the terminal in front: the trusted shell's, or else that of the last session
//!                                   │
//!                                 news ──> thread of the line: holds, starts the shell, carries out its order, releases
//! ```
//!
//! The trusted shell gets a new terminal each time, so settings, input and jobs of the sessions stay as they are, and nothing that they
//! do to their terminal reaches the shell. Between the sequence and the shell's terminal everything that is typed is discarded. The
//! driver's thread never waits here and the line never refuses input, so neither output nor a reader that sleeps delays the sequence.
//! Source: TCSEC 3.3.2.1.1; Linux `Documentation/security/sak.rst`.
use super::{
    attention::{Attention, Recogniser},
    terminal::{Terminal, WindowSize},
    trusted::{NewSession, Order},
};
use alloc::{
    boxed::Box,
    format,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::Ordering;
use interfaces::terminal::{Port, PortSink};
use linux_raw_sys::general as raw;
use process::{Process, init};
use rt::{
    NoMemory, lock_class,
    sync::{Event, Mutex},
    thread::Policy,
};
use vfs::Errno;

lock_class! {
    static SHARED = "tty.shared";
}

/// The greatest number of sessions on a line, one in front of the other.
const SESSIONS_MAX: usize = 4;
/// Time that the processes of a session have to end when it is ended.
const END_NS: u64 = 5_000_000_000;
const CANNOT_OPEN: &[u8] = b"\r\n[ The trusted path cannot be opened. Type nothing secret. ]\r\n";
const DIED: &[u8] = b"\r\n[ The trusted shell died. The session is ended. ]\r\n";
const CLOSED: &[u8] = b"\r\n[ The trusted path is closed. ]\r\n";
const NO_SESSION: &[u8] = b"\r\n[ The new session cannot be started. ]\r\n";

/// The programs of a line, which the layer above starts.
pub trait LinePrograms: Send + Sync {
    /// Starts the trusted shell as the leader of a session on `terminal`.
    ///
    /// # Errors
    /// Those of clone; if the program cannot be executed the leader ends.
    fn start_shell(&self, terminal: &Arc<Terminal>) -> Result<(), Errno>;
    /// Starts a session of a user on `terminal`.
    ///
    /// # Errors
    /// As [`LinePrograms::start_shell`].
    fn start_session(&self, terminal: &Arc<Terminal>, session: NewSession) -> Result<(), Errno>;
}

/// The work of the thread of a line.
enum LineWork {
    /// The sequence came: this trusted shell's terminal is to be ended, if there is one, and a new one opened.
    Open(Option<Arc<Terminal>>),
    /// The trusted shell ended.
    Close(ShellEnd),
    /// The leader of a session in front of another one ended.
    Pop(Arc<Terminal>),
}

/// The end of a trusted shell.
enum ShellEnd {
    /// It gave an order.
    Ordered(Order),
    /// It gave none: it was killed.
    Died,
    /// It could not be executed.
    NeverRan,
}

struct LineState {
    recogniser: Recogniser,
    /// The terminals of sessions. The first is the line's own, the last is in front.
    sessions: Vec<Arc<Terminal>>,
    /// The trusted path has the line.
    is_seized: bool,
    /// The sequence came, and the thread has not begun with it.
    is_asked: bool,
    /// The trusted shell's terminal.
    trusted: Option<Arc<Terminal>>,
    order: Option<Order>,
    ended: Option<ShellEnd>,
    /// Terminals of sessions whose leader ended.
    over: Vec<Arc<Terminal>>,
}

impl LineState {
    /// Gives input to the terminal in front.
    fn give(&self, bytes: &[u8]) {
        let front = match (self.is_asked, self.is_seized) {
            (true, _) => None,
            (false, true) => self.trusted.as_ref(),
            (false, false) => self.sessions.last(),
        };
        if let Some(front) = front.filter(|_| !bytes.is_empty()) {
            front.take_shared(bytes);
        }
    }
    fn seize(&mut self) {
        self.recogniser.forget();
        (self.is_seized, self.is_asked) = (true, true);
    }
    fn next_step(&mut self) -> Option<LineWork> {
        if core::mem::take(&mut self.is_asked) {
            (self.ended, self.order) = (None, None);
            return Some(LineWork::Open(self.trusted.take()));
        }
        if let Some(end) = self.ended.take() {
            return Some(LineWork::Close(end));
        }
        self.over.pop().map(LineWork::Pop)
    }
    fn note_end(&mut self, has_executed: impl FnOnce() -> bool) {
        self.ended = Some(match self.order.take() {
            Some(order) => ShellEnd::Ordered(order),
            None if has_executed() => ShellEnd::Died,
            None => ShellEnd::NeverRan,
        });
    }
}

/// A device's line with the trusted path.
pub struct SharedLine {
    this: Weak<SharedLine>,
    port: Arc<dyn Port>,
    device: (u32, u32),
    programs: Box<dyn LinePrograms>,
    state: Mutex<LineState>,
    news: Event,
}

impl SharedLine {
    /// Makes the terminal of a port and receives the port's input for it. Bytes or a break as `attention` says open the trusted path.
    ///
    /// # Errors
    /// [`NoMemory`] for the threads.
    pub fn start(
        port: &Arc<dyn Port>,
        place: ((u32, u32), WindowSize),
        attention: Attention,
        programs: Box<dyn LinePrograms>,
    ) -> Result<Arc<Terminal>, NoMemory> {
        let state = LineState {
            recogniser: Recogniser::new(attention),
            sessions: Vec::new(),
            is_seized: false,
            is_asked: false,
            trusted: None,
            ended: None,
            order: None,
            over: Vec::new(),
        };
        let line = Arc::new_cyclic(|this| SharedLine {
            this: this.clone(),
            port: port.clone(),
            device: place.0,
            programs,
            state: Mutex::new(&SHARED, state),
            news: Event::new(),
        });
        let first = line.make_terminal(place.1)?;
        line.state.lock().sessions.push(first.clone());
        let kept = line.clone();
        let name = format!("trusted {}", port.name());
        rt::thread::spawn(&name, Policy::default(), move || kept.keep())?;
        port.set_sink(line);
        Ok(first)
    }
    fn make_terminal(&self, window: WindowSize) -> Result<Arc<Terminal>, NoMemory> {
        Terminal::begin(&self.port, (self.device, window), Some(self.this.clone()))
    }
    /// Returns the terminal of the session in front.
    pub(super) fn session_in_front(&self) -> Option<Arc<Terminal>> {
        self.state.lock().sessions.last().cloned()
    }
    /// Returns the terminal of a session that has the line now, if that is not `terminal`.
    pub(super) fn session_before(&self, terminal: &Terminal) -> Option<Arc<Terminal>> {
        let state = self.state.lock();
        let front = state.sessions.last().filter(|_| !state.is_seized);
        front.filter(|front| !core::ptr::eq(&***front, terminal)).cloned()
    }
    /// Returns whether `terminal` is that of the trusted shell.
    pub(super) fn is_trusted(&self, terminal: &Terminal) -> bool {
        let state = self.state.lock();
        state.trusted.as_ref().is_some_and(|trusted| core::ptr::eq(&**trusted, terminal))
    }
    /// Notes the order that is carried out when the trusted shell ends.
    pub(super) fn set_order(&self, order: Order) {
        self.state.lock().order = Some(order);
    }
    /// Called when the leader of a session on one of the terminals ends.
    pub(super) fn leader_ended(&self, terminal: &Terminal, leader: &Process) {
        let mut state = self.state.lock();
        let is_it = |other: &&Arc<Terminal>| core::ptr::eq(&***other, terminal);
        if state.trusted.as_ref().is_some_and(|trusted| is_it(&trusted)) {
            state.note_end(|| leader.has_executed.load(Ordering::Relaxed));
        } else if let Some(over) = state.sessions.iter().skip(1).find(is_it).cloned() {
            state.over.push(over);
        }
        drop(state);
        self.news.signal();
    }
    /// Ends the trusted shell of a test, after it gave an order.
    #[cfg(test)]
    pub(super) fn shell_ended(&self, order: Option<Order>) {
        let mut state = self.state.lock();
        state.order = order;
        state.note_end(|| true);
        drop(state);
        self.news.signal();
    }
    /// Ends the leader of a test's session in front.
    #[cfg(test)]
    pub(super) fn session_ended(&self) {
        let mut state = self.state.lock();
        let front = state.sessions.last().cloned();
        state.over.extend(front);
        drop(state);
        self.news.signal();
    }
    /// The main function of the line's thread.
    fn keep(&self) -> ! {
        loop {
            let ticket = self.news.ticket();
            let step = self.state.lock().next_step();
            match step {
                Some(LineWork::Open(before)) => self.open(before),
                Some(LineWork::Close(end)) => self.close(end),
                Some(LineWork::Pop(terminal)) => self.pop(&terminal),
                None => {
                    let _ = self.news.wait(ticket, None);
                }
            }
        }
    }
    /// Takes the line from the sessions and starts a trusted shell on it.
    fn open(&self, before: Option<Arc<Terminal>>) {
        if let Some(before) = before {
            end(&before);
        }
        let front = self.session_in_front();
        front.iter().for_each(|front| front.hold());
        self.port.drain();
        let window = front.map(|front| front.window()).unwrap_or_default();
        let Ok(trusted) = self.make_terminal(window) else { return self.give_up(CANNOT_OPEN) };
        // No key ends or stops the programs of the trusted path.
        let mut settings = trusted.settings();
        settings.local &= !raw::ISIG;
        settings.input &= !raw::IXON;
        trusted.set_settings(settings);
        self.state.lock().trusted = Some(trusted.clone());
        if let Err(errno) = self.programs.start_shell(&trusted) {
            log::error!("{}: no trusted shell: {errno:?}", self.port.name());
            self.give_up(CANNOT_OPEN);
        }
    }
    /// Carries out the order of a trusted shell that has ended. If it gave none it was killed: then a program that shows its prompt
    /// must not get the terminal.
    fn close(&self, end: ShellEnd) {
        match end {
            ShellEnd::Ordered(Order::Continue) => self.give_up(CLOSED),
            ShellEnd::Ordered(Order::Begin(session)) => self.begin(session),
            ShellEnd::Ordered(Order::End) => self.end_front(),
            ShellEnd::Died => {
                self.port.send(DIED);
                self.end_front();
            }
            ShellEnd::NeverRan => self.give_up(CANNOT_OPEN),
        }
    }
    /// Says why the line goes back to the session in front, and gives it back.
    fn give_up(&self, message: &[u8]) {
        self.port.send(message);
        self.release();
    }
    /// Gives the line to the session in front, unless the sequence came again meanwhile.
    fn release(&self) {
        let (trusted, sessions) = {
            let mut state = self.state.lock();
            if state.is_asked {
                return;
            }
            state.is_seized = false;
            (state.trusted.take(), state.sessions.clone())
        };
        trusted.iter().for_each(|trusted| end(trusted));
        sessions.last().iter().for_each(|front| front.release());
        // Writers to the console of a held session can go on, too.
        sessions.iter().for_each(|session| session.started.wake());
    }
    /// Ends the session in front.
    fn end_front(&self) {
        let Some(front) = self.session_in_front() else { return };
        let hang_ups = || front.hang_ups.load(Ordering::Acquire);
        let before = hang_ups();
        end_session_on(&front);
        // The end of the leader hung up before process 1 could open the terminal for the next login.
        if hang_ups() == before {
            front.hang_up();
        }
        if !self.is_first(&front) {
            self.remove(&front);
        }
        self.give_up(CLOSED);
    }
    fn is_first(&self, terminal: &Arc<Terminal>) -> bool {
        self.state.lock().sessions.first().is_some_and(|first| Arc::ptr_eq(first, terminal))
    }
    /// Removes the terminal of a session from those of the line.
    fn remove(&self, terminal: &Arc<Terminal>) {
        self.state.lock().sessions.retain(|other| !Arc::ptr_eq(other, terminal));
        end(terminal);
    }
    /// Starts a session in front of the others.
    fn begin(&self, session: NewSession) {
        let front = self.session_in_front();
        let window = front.map(|front| front.window()).unwrap_or_default();
        let is_full = self.state.lock().sessions.len() >= SESSIONS_MAX;
        let Some(terminal) = self.make_terminal(window).ok().filter(|_| !is_full) else {
            return self.give_up(NO_SESSION);
        };
        self.state.lock().sessions.push(terminal.clone());
        if let Err(errno) = self.programs.start_session(&terminal, session) {
            log::warn!("{}: no session: {errno:?}", self.port.name());
            self.remove(&terminal);
            return self.give_up(NO_SESSION);
        }
        self.release();
    }
    /// Removes a session whose leader ended. The line goes back to the one behind it.
    fn pop(&self, terminal: &Arc<Terminal>) {
        self.remove(terminal);
        let front = {
            let state = self.state.lock();
            state.sessions.last().filter(|_| !state.is_seized).cloned()
        };
        front.iter().for_each(|front| front.release());
    }
    /// Returns every terminal.
    fn terminals(&self) -> Vec<Arc<Terminal>> {
        let state = self.state.lock();
        state.sessions.iter().chain(&state.trusted).cloned().collect()
    }
}

/// Ends a terminal for ever, and what still runs on it.
fn end(terminal: &Terminal) {
    end_session_on(terminal);
    terminal.line_gone();
}

fn end_session_on(terminal: &Terminal) {
    let session = terminal.control.lock().session;
    init::end_session(session, rt::time::now().after_ns(END_NS));
}

impl Terminal {
    /// Takes the size of the window of its line.
    pub fn line_resized(&self, rows: u16, columns: u16) {
        match self.shared_line() {
            Some(line) => line.resized(rows, columns),
            None => self.resized(rows, columns),
        }
    }
    /// Returns the line that it shares with the trusted path.
    pub(super) fn shared_line(&self) -> Option<Arc<SharedLine>> {
        self.shared.as_ref().and_then(Weak::upgrade)
    }
}

impl PortSink for SharedLine {
    fn received(&self, bytes: &[u8]) -> usize {
        let mut state = self.state.lock();
        let mut rest = bytes;
        let completes = |state: &mut LineState, rest: &[u8]| {
            rest.iter().position(|byte| state.recogniser.is_completed_by(*byte))
        };
        while let Some(at) = completes(&mut state, rest) {
            let before = (at + 1).saturating_sub(state.recogniser.length());
            state.give(rest.get(..before).unwrap_or_default());
            rest = rest.get(at + 1..).unwrap_or_default();
            state.seize();
        }
        state.give(rest);
        let is_asked = state.is_asked;
        drop(state);
        if is_asked {
            self.news.signal();
        }
        bytes.len()
    }
    fn broke(&self) {
        self.state.lock().seize();
        self.news.signal();
    }
    fn connected(&self, is_open: bool) {
        if !is_open {
            self.terminals().iter().for_each(|terminal| terminal.line_gone());
        }
    }
    fn resized(&self, rows: u16, columns: u16) {
        for terminal in self.terminals() {
            terminal.resized(rows, columns);
        }
    }
}
