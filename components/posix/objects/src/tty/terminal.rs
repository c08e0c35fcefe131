//! [`Terminal`]: settings, queues and window of one terminal, and how its input is taken.
use super::{
    flow::OutputFlow,
    input::{Effects, Flow, Input, KeySignal},
    job::JobControl,
    line::{Notice, PortLine, TerminalLine},
    open::TerminalUsers,
    output::{Echo, OutputState},
    shared::SharedLine,
    termios::Termios,
};
use alloc::{
    collections::VecDeque,
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use interfaces::terminal::{Port, PortSink};
use linux_raw_sys::general as raw;
use process::signal;
use rt::{
    NoMemory, lock_class,
    sync::{Event, Mutex},
    thread::Policy,
};
use vfs::poll::WaitQueue;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

lock_class! {
    static SETTINGS = "tty.settings";
    static LOCKED = "tty.locked";
    static INTAKE = "tty.intake";
    static INPUT = "tty.input";
    static OUTPUT = "tty.output";
    static ARRIVALS = "tty.arrivals";
    static ECHO = "tty.echo";
    static CONTROL = "tty.control";
    static WINDOW = "tty.window";
    static LIFE = "tty.life";
}

/// Bytes kept between the driver and the line discipline.
const ARRIVALS_MAX: usize = 4096;
/// The same limit for a terminal that shares its line with the trusted path. Bytes beyond it are lost, as on Linux beyond 64 KiB: if
/// they stayed with the driver, a program that reads nothing would keep the attention sequence there, too.
const SHARED_ARRIVALS_MAX: usize = 64 << 10;
/// The same limit for a pty, whose master writes more at once than a person types. Linux accepts 12 to 20 KiB, including
/// the readable bytes.
const PTY_ARRIVALS_MAX: usize = 12 << 10;
/// The greatest number of bytes of echo held back while output is stopped; further echo is not shown, as on Linux.
const ECHO_MAX: usize = 4096;
/// The greatest number of bytes that one [`Echo`] produces (a tab).
const ECHO_BYTES_MAX: usize = 8;

/// `struct winsize`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct WindowSize {
    /// Number of lines.
    pub rows: u16,
    /// Number of characters in a line.
    pub columns: u16,
    /// Width in pixels, unused.
    pub width_pixels: u16,
    /// Height in pixels, unused.
    pub height_pixels: u16,
}

/// Input that was not processed yet.
#[derive(Default)]
struct Arrivals {
    bytes: VecDeque<u8>,
    /// Number of flushes, so that bytes removed before one are not put back after it.
    flushes: u64,
    /// The driver was told that there was no room.
    has_refused: bool,
}

/// The thread that processes input by the line discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    /// A thread of the terminal's own.
    Thread,
    /// A caller that brings input or makes room.
    Caller,
}

/// A terminal.
pub struct Terminal {
    pub(super) this: Weak<Terminal>,
    pub(super) line: Arc<dyn TerminalLine>,
    /// The line that it shares with the trusted path.
    pub(super) shared: Option<Weak<SharedLine>>,
    pub(super) device: (u32, u32),
    worker: Worker,
    settings: Mutex<Termios>,
    pub(super) locked: Mutex<Termios>,
    /// Held while input is processed, so that it is processed in order.
    intake: Mutex<()>,
    pub(super) input: Mutex<Input>,
    pub(super) output: Mutex<OutputState>,
    arrivals: Mutex<Arrivals>,
    echo: Mutex<Vec<Echo>>,
    window: Mutex<WindowSize>,
    pub(super) control: Mutex<JobControl>,
    /// Wait queue for input, or the end of the other side.
    pub(super) readable: WaitQueue,
    /// Wait queue: output was continued, or the line has room again.
    pub(super) started: WaitQueue,
    /// Event: the terminal's thread has work.
    work: Event,
    pub(super) flow: AtomicU32,
    pub(super) life: Mutex<TerminalUsers>,
    /// Number of hang-ups: a description opened before the last one is dead.
    pub(super) hang_ups: AtomicU64,
}

impl Terminal {
    /// Makes a terminal over `port`, with device number `device`; its thread runs until the port closes.
    ///
    /// # Errors
    /// [`NoMemory`] for the thread.
    pub fn start(
        port: Arc<dyn Port>,
        device: (u32, u32),
        window: WindowSize,
    ) -> Result<Arc<Terminal>, NoMemory> {
        let terminal = Terminal::begin(&port, (device, window), None)?;
        port.set_sink(terminal.clone());
        Ok(terminal)
    }
    /// Makes a terminal over `port` that is not its receiver.
    ///
    /// # Errors
    /// [`NoMemory`] for the thread.
    pub(super) fn begin(
        port: &Arc<dyn Port>,
        (device, window): ((u32, u32), WindowSize),
        shared: Option<Weak<SharedLine>>,
    ) -> Result<Arc<Terminal>, NoMemory> {
        let line = Arc::new(PortLine(port.clone()));
        let terminal = Terminal::make(line, device, (Worker::Thread, shared));
        *terminal.window.lock() = window;
        let worker = terminal.clone();
        let name = format!("tty {}", port.name());
        rt::thread::spawn(&name, Policy::default(), move || worker.take_arrivals())?;
        Ok(terminal)
    }
    /// Makes the terminal of a pty's slave.
    pub(super) fn over(line: Arc<dyn TerminalLine>, device: (u32, u32)) -> Arc<Terminal> {
        Terminal::make(line, device, (Worker::Caller, None))
    }
    fn make(
        line: Arc<dyn TerminalLine>,
        device: (u32, u32),
        (worker, shared): (Worker, Option<Weak<SharedLine>>),
    ) -> Arc<Terminal> {
        let settings = line.initial();
        Arc::new_cyclic(|this| Terminal {
            this: this.clone(),
            line,
            shared,
            device,
            worker,
            settings: Mutex::new(&SETTINGS, settings),
            locked: Mutex::new(&LOCKED, Termios::unlocked()),
            intake: Mutex::new(&INTAKE, ()),
            input: Mutex::new(&INPUT, Input::new()),
            output: Mutex::new(&OUTPUT, OutputState::default()),
            arrivals: Mutex::new(&ARRIVALS, Arrivals::default()),
            echo: Mutex::new(&ECHO, Vec::new()),
            window: Mutex::new(&WINDOW, WindowSize::default()),
            control: Mutex::new(&CONTROL, JobControl::default()),
            readable: WaitQueue::new(),
            started: WaitQueue::new(),
            work: Event::new(),
            flow: AtomicU32::new(OutputFlow::empty().bits()),
            life: Mutex::new(&LIFE, TerminalUsers::default()),
            hang_ups: AtomicU64::new(0),
        })
    }
    /// Returns a counted reference to the terminal.
    pub fn shared(&self) -> Option<Arc<Terminal>> {
        self.this.upgrade()
    }
    /// Sends a line of the kernel's, whatever programs do with the terminal. It waits while the line takes no output.
    pub fn announce(&self, text: &[u8]) {
        self.line.send(text);
    }
    /// Returns its device number.
    pub fn number(&self) -> (u32, u32) {
        self.device
    }
    /// Returns its name in `/dev`.
    pub fn name(&self) -> String {
        self.line.name()
    }
    /// Returns the current settings.
    pub fn settings(&self) -> Termios {
        *self.settings.lock()
    }
    /// Changes the settings that the line supports and that are not locked.
    pub fn set_settings(&self, new: Termios) {
        let mut input = self.input.lock();
        let locked = *self.locked.lock();
        let mut settings = self.settings.lock();
        let old = *settings;
        let new = self.line.adapt(new.with_locked(&locked, &old));
        *settings = new;
        drop(settings);
        input.settings_changed(&old, &new);
        drop(input);
        self.line.notice(Notice::Settings(old, new));
        if !new.has_input(raw::IXON) && old.has_input(raw::IXON) {
            self.set_flow(Flow::Start);
        }
        self.readable.wake();
        self.started.wake();
        self.process_pending();
    }
    /// Returns the window's size.
    pub fn window(&self) -> WindowSize {
        *self.window.lock()
    }
    /// Sets the window's size; if it changes, the foreground group is signalled.
    pub fn set_window(&self, window: WindowSize) {
        let before = core::mem::replace(&mut *self.window.lock(), window);
        if before != window {
            self.signal_foreground(signal::SIGWINCH);
        }
    }
    /// Drops input that was not read (`TCIFLUSH`).
    pub(super) fn flush_input(&self) {
        self.flush_arrivals();
        self.input.lock().flush();
        self.line.notice(Notice::FlushedInput);
    }
    /// Drops echo that was not shown, and output that the line has not sent (`TCOFLUSH`).
    pub(super) fn flush_output(&self) {
        self.line.discard();
        self.started.wake();
    }
    /// Processes `byte` as if it had been typed (`TIOCSTI`).
    pub(super) fn simulate(&self, byte: u8) {
        let mut arrivals = self.arrivals.lock();
        if arrivals.bytes.len() < SHARED_ARRIVALS_MAX {
            arrivals.bytes.push_back(byte);
        }
        drop(arrivals);
        self.process_pending();
    }
    /// Drops input that was not processed yet.
    pub(super) fn flush_arrivals(&self) {
        let has_refused = {
            let mut arrivals = self.arrivals.lock();
            arrivals.bytes.clear();
            arrivals.flushes += 1;
            core::mem::take(&mut arrivals.has_refused)
        };
        if has_refused {
            self.line.resume();
        }
    }
    /// Returns the room for [`Terminal::bring`]; if there is none, the line is resumed once there is.
    pub(super) fn claim_room(&self) -> usize {
        let mut arrivals = self.arrivals.lock();
        let room = PTY_ARRIVALS_MAX.saturating_sub(arrivals.bytes.len());
        arrivals.has_refused |= room == 0;
        room
    }
    /// Accepts input, more than [`Terminal::claim_room`] returned if several threads bring some at once.
    pub(super) fn bring(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.arrivals.lock().bytes.extend(bytes);
            self.process_pending();
        }
    }
    /// Accepts input of a shared line, as far as there is room.
    pub(super) fn take_shared(&self, bytes: &[u8]) {
        let mut arrivals = self.arrivals.lock();
        let room = SHARED_ARRIVALS_MAX.saturating_sub(arrivals.bytes.len());
        arrivals.bytes.extend(bytes.iter().take(room));
        drop(arrivals);
        self.process_pending();
    }
    /// Processes input and shows echo, if there is any, or makes the terminal's thread do so.
    ///
    /// Locks: none of the terminal's may be held.
    pub(super) fn process_pending(&self) {
        match self.worker {
            Worker::Thread => self.work.signal(),
            Worker::Caller => {
                self.show_echo();
                while self.take_some() {}
            }
        }
    }
    /// Resets settings and flow control to those of a fresh terminal.
    pub(super) fn reset(&self) {
        self.flow.fetch_and(OutputFlow::HELD.bits(), Ordering::AcqRel);
        let mut input = self.input.lock();
        let fresh = self.line.initial();
        let old = core::mem::replace(&mut *self.settings.lock(), fresh);
        input.settings_changed(&old, &fresh);
        drop(input);
        self.echo.lock().clear();
    }
    /// Wakes the terminal's thread, if it has one.
    pub(super) fn wake_worker(&self) {
        self.work.signal();
    }
    /// The main function of the terminal's thread.
    fn take_arrivals(&self) {
        while !self.is_gone() {
            let ticket = self.work.ticket();
            self.show_echo();
            if !self.take_some() {
                let _ = self.work.wait(ticket, None);
            }
        }
    }
    /// Processes queued input by the line discipline; returns `false` if there was none that it could accept.
    fn take_some(&self) -> bool {
        let _order = self.intake.lock();
        let (bytes, flushes, has_refused) = {
            let mut arrivals = self.arrivals.lock();
            let bytes: Vec<u8> = arrivals.bytes.drain(..).collect();
            (bytes, arrivals.flushes, core::mem::take(&mut arrivals.has_refused))
        };
        let mut effects = Effects::default();
        let taken = {
            let mut input = self.input.lock();
            let settings = self.settings();
            input.receive(&settings, &bytes, &mut effects)
        };
        self.put_back(bytes.get(taken..).unwrap_or_default(), flushes);
        if has_refused && taken > 0 {
            self.line.resume();
        } else if has_refused {
            self.arrivals.lock().has_refused = true;
        }
        self.apply(effects);
        if taken > 0 {
            self.readable.wake();
        }
        taken > 0
    }
    fn put_back(&self, rest: &[u8], flushes: u64) {
        if rest.is_empty() {
            return;
        }
        let mut arrivals = self.arrivals.lock();
        if arrivals.flushes == flushes {
            for byte in rest.iter().rev() {
                arrivals.bytes.push_front(*byte);
            }
        }
    }
    fn apply(&self, effects: Effects) {
        if effects.is_flushed {
            self.echo.lock().clear();
            self.line.discard();
            self.line.notice(Notice::FlushedInput);
        }
        if let Some(flow) = effects.flow {
            self.set_flow(flow);
        }
        let mut echo = self.echo.lock();
        let room = ECHO_MAX.saturating_sub(echo.len());
        echo.extend(effects.echoes.into_iter().take(room));
        drop(echo);
        self.show_echo();
        // The signals are sent after the echo, so that `^C` is shown before output that the program writes because of it.
        for signal in &effects.signals {
            self.signal_foreground(match signal {
                KeySignal::Interrupt => signal::SIGINT,
                KeySignal::Quit => signal::SIGQUIT,
                KeySignal::Suspend => signal::SIGTSTP,
            });
        }
    }
    /// Sends the echo that waits, unless output is stopped, as far as the line has room.
    fn show_echo(&self) {
        if self.is_stopped() {
            return;
        }
        let mut output = self.output.lock();
        if self.is_held() {
            return;
        }
        let count = self.line.room() / ECHO_BYTES_MAX;
        let echoes: Vec<Echo> = {
            let mut waiting = self.echo.lock();
            let count = count.min(waiting.len());
            waiting.drain(..count).collect()
        };
        if echoes.is_empty() {
            return;
        }
        let mut bytes = Vec::with_capacity(echoes.len() * 2);
        output.echo(&self.settings(), &echoes, &mut bytes);
        self.line.send(&bytes);
    }
}

impl PortSink for Terminal {
    fn received(&self, bytes: &[u8]) -> usize {
        let mut arrivals = self.arrivals.lock();
        let room = ARRIVALS_MAX.saturating_sub(arrivals.bytes.len());
        let taken = bytes.len().min(room);
        arrivals.bytes.extend(bytes.iter().take(taken));
        arrivals.has_refused |= taken < bytes.len();
        drop(arrivals);
        self.process_pending();
        taken
    }
    fn connected(&self, is_open: bool) {
        if !is_open {
            self.line_gone();
        }
    }
    fn resized(&self, rows: u16, columns: u16) {
        self.set_window(WindowSize { rows, columns, ..self.window() });
    }
}
