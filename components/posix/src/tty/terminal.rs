//! [`Terminal`]: settings, queues and window of one terminal, and the thread that takes its input.
use super::{
    input::{Effects, Flow, Input, KeySignal},
    job::Control,
    output::{Echo, OutputState},
    termios::Termios,
};
use crate::signal::{self, Info};
use alloc::{
    collections::VecDeque,
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, Ordering};
use interfaces::terminal::{Port, PortSink};
use linux_raw_sys::general as raw;
use rt::{
    NoMemory, lock_class,
    sync::{Event, Mutex},
    thread::Policy,
};
use vfs::poll::WaitQueue;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

lock_class! {
    static SETTINGS = "tty.settings";
    static INPUT = "tty.input";
    static OUTPUT = "tty.output";
    static ARRIVALS = "tty.arrivals";
    static ECHO = "tty.echo";
    static CONTROL = "tty.control";
    static WINDOW = "tty.window";
}

/// Bytes kept between the driver and the line discipline.
const ARRIVALS_MAX: usize = 4096;
/// Echo held back while output is stopped; what is beyond is not shown, as on Linux.
const ECHO_MAX: usize = 4096;

/// `struct winsize`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Window {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
    /// Pixels across, unused.
    pub width_pixels: u16,
    /// Pixels down, unused.
    pub height_pixels: u16,
}

/// What came in and was not looked at yet.
#[derive(Default)]
struct Arrivals {
    bytes: VecDeque<u8>,
    /// Counts flushes, so that bytes taken out before one are not put back after it.
    flushes: u64,
    /// The driver was told that there was no room.
    has_refused: bool,
}

/// A terminal.
pub struct Terminal {
    pub(super) this: Weak<Terminal>,
    pub(super) port: Arc<dyn Port>,
    pub(super) device: (u32, u32),
    settings: Mutex<Termios>,
    pub(super) input: Mutex<Input>,
    pub(super) output: Mutex<OutputState>,
    arrivals: Mutex<Arrivals>,
    echo: Mutex<Vec<Echo>>,
    window: Mutex<Window>,
    pub(super) control: Mutex<Control>,
    /// Input came, or the other end went away.
    pub(super) readable: WaitQueue,
    /// Output was started again.
    pub(super) started: WaitQueue,
    /// There is work for the terminal's thread.
    pub(super) work: Event,
    is_stopped: AtomicBool,
    is_hung_up: AtomicBool,
}

impl Terminal {
    /// A terminal over `port`, with device number `device`; its thread runs until the port closes.
    ///
    /// # Errors
    /// [`NoMemory`] for the thread.
    pub fn start(
        port: Arc<dyn Port>,
        device: (u32, u32),
        window: Window,
    ) -> Result<Arc<Terminal>, NoMemory> {
        let terminal = Arc::new_cyclic(|this| Terminal {
            this: this.clone(),
            port: port.clone(),
            device,
            settings: Mutex::new(&SETTINGS, Termios::default()),
            input: Mutex::new(&INPUT, Input::new()),
            output: Mutex::new(&OUTPUT, OutputState::default()),
            arrivals: Mutex::new(&ARRIVALS, Arrivals::default()),
            echo: Mutex::new(&ECHO, Vec::new()),
            window: Mutex::new(&WINDOW, window),
            control: Mutex::new(&CONTROL, Control::default()),
            readable: WaitQueue::new(),
            started: WaitQueue::new(),
            work: Event::new(),
            is_stopped: AtomicBool::new(false),
            is_hung_up: AtomicBool::new(false),
        });
        let worker = terminal.clone();
        let name = format!("tty {}", port.name());
        rt::thread::spawn(&name, Policy::default(), move || worker.take_arrivals())?;
        port.set_sink(terminal.clone());
        Ok(terminal)
    }
    /// The terminal as what is counted.
    pub fn shared(&self) -> Option<Arc<Terminal>> {
        self.this.upgrade()
    }
    /// Its device number.
    pub fn number(&self) -> (u32, u32) {
        self.device
    }
    /// Its name in `/dev`.
    pub fn name(&self) -> String {
        self.port.name()
    }
    /// The settings now.
    pub fn settings(&self) -> Termios {
        *self.settings.lock()
    }
    /// Changes the settings.
    pub fn set_settings(&self, new: Termios) {
        let mut input = self.input.lock();
        let old = core::mem::replace(&mut *self.settings.lock(), new);
        input.settings_changed(&old, &new);
        drop(input);
        if !new.has_input(raw::IXON) && old.has_input(raw::IXON) {
            self.set_flow(Flow::Start);
        }
        self.readable.wake();
        self.work.signal();
    }
    /// The window's size.
    pub fn window(&self) -> Window {
        *self.window.lock()
    }
    /// The window has another size: the foreground group is told, if it is another.
    pub fn set_window(&self, window: Window) {
        let before = core::mem::replace(&mut *self.window.lock(), window);
        if before != window {
            self.signal_foreground(signal::SIGWINCH);
        }
    }
    /// Output is held back.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
    /// The other end is gone: reads give nothing, writes are `EIO`.
    pub fn is_hung_up(&self) -> bool {
        self.is_hung_up.load(Ordering::Acquire)
    }
    /// Holds output back or lets it go on.
    pub(super) fn set_flow(&self, flow: Flow) {
        self.is_stopped.store(flow == Flow::Stop, Ordering::Release);
        if flow == Flow::Start {
            self.started.wake();
            self.work.signal();
        }
    }
    /// Throws away input that was not read (`TCIFLUSH`).
    pub(super) fn flush_input(&self) {
        let has_refused = {
            let mut arrivals = self.arrivals.lock();
            arrivals.bytes.clear();
            arrivals.flushes += 1;
            core::mem::take(&mut arrivals.has_refused)
        };
        self.input.lock().flush();
        if has_refused {
            self.port.resume();
        }
    }
    /// As if `byte` had been typed (`TIOCSTI`).
    pub(super) fn simulate(&self, byte: u8) {
        self.arrivals.lock().bytes.push_back(byte);
        self.work.signal();
    }
    pub(super) fn signal_foreground(&self, number: u8) {
        let foreground = self.control.lock().foreground;
        if foreground != 0 {
            signal::send_to_group(foreground, Info::kernel(number));
        }
    }

    /// The terminal's thread.
    fn take_arrivals(&self) {
        while !self.is_hung_up() {
            let ticket = self.work.ticket();
            self.show_echo();
            if !self.take_some() {
                let _ = self.work.wait(ticket, None, false);
            }
        }
    }
    /// Runs what came in through the line discipline; `false` if there was nothing it could take.
    fn take_some(&self) -> bool {
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
        if has_refused {
            self.port.resume();
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
        for signal in &effects.signals {
            self.signal_foreground(match signal {
                KeySignal::Interrupt => signal::SIGINT,
                KeySignal::Quit => signal::SIGQUIT,
                KeySignal::Suspend => signal::SIGTSTP,
            });
        }
        if let Some(flow) = effects.flow {
            self.set_flow(flow);
        }
        let mut echo = self.echo.lock();
        let room = ECHO_MAX.saturating_sub(echo.len());
        echo.extend(effects.echoes.into_iter().take(room));
        drop(echo);
        self.show_echo();
    }
    /// Sends the echo that waits, unless output is stopped.
    fn show_echo(&self) {
        if self.is_stopped() {
            return;
        }
        let mut output = self.output.lock();
        let echoes = core::mem::take(&mut *self.echo.lock());
        if echoes.is_empty() {
            return;
        }
        let mut bytes = Vec::with_capacity(echoes.len() * 2);
        output.echo(&self.settings(), &echoes, &mut bytes);
        self.port.send(&bytes);
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
        self.work.signal();
        taken
    }
    fn connected(&self, is_open: bool) {
        if is_open || self.is_hung_up.swap(true, Ordering::AcqRel) {
            return;
        }
        self.hang_up_session();
        self.work.signal();
        self.readable.wake();
        self.started.wake();
    }
    fn resized(&self, rows: u16, columns: u16) {
        self.set_window(Window { rows, columns, ..self.window() });
    }
}
