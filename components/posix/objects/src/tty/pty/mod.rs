//! Pseudo-terminals: a [`Pair`] joins a [`master`] to its slave, an ordinary terminal with a name in
//! [`devpts`].
//!
//! ```text
//! master's write ──> arrivals ──line discipline──> slave's read
//! master's read  <── Pair::output <──────────────── slave's write, echo
//! ```
//!
//! The line discipline runs in the master's write. Both directions are bounded: a writer waits (or
//! gets `EAGAIN`) until the other end reads. `tty.pty` guards the pair and is a leaf. Source:
//! pty(7), ioctl_tty(2), Linux `drivers/tty/pty.c`.
pub mod devpts;
mod master;

pub use master::Master;

use super::{
    line::{Notice, TerminalLine, Use},
    termios::Termios,
};
use alloc::{
    collections::VecDeque,
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as raw;
use rt::{lock_class, sync::Mutex};
use vfs::poll::WaitQueue;

lock_class! {
    static PAIR = "tty.pty";
}

/// The greatest number of bytes of output kept for the master.
const OUTPUT_MAX: usize = 12 << 10;
/// Bytes of output that a flush does not drop: on Linux they are in the master's own buffer already.
const OUTPUT_DELIVERED: usize = 4 << 10;
/// Greatest result of `FIONREAD`: Linux's buffer has that size.
const READABLE_MAX: usize = 4095;

/// The first byte of a read in packet mode (ioctl_tty(2), `TIOCPKT_`).
mod packet {
    pub const DATA: u8 = 0;
    pub const FLUSHREAD: u8 = 1;
    pub const FLUSHWRITE: u8 = 2;
    pub const STOP: u8 = 4;
    pub const START: u8 = 8;
    pub const NOSTOP: u8 = 16;
    pub const DOSTOP: u8 = 32;
}

static LIVE: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);

/// Returns the number of pairs that exist, and of those made since boot.
pub fn counts() -> (u64, u64) {
    (LIVE.load(Ordering::Relaxed), MADE.load(Ordering::Relaxed))
}

/// Tells whether the slave is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slave {
    NotYet,
    Open,
    Closed,
}

struct PtyState {
    output: VecDeque<u8>,
    slave: Slave,
    is_master_open: bool,
    is_locked: bool,
    is_packet: bool,
    /// Bits of [`packet`] to be reported.
    status: u8,
}

/// The object that joins the ends.
pub(super) struct Pair {
    index: u32,
    instance: Weak<devpts::Instance>,
    state: Mutex<PtyState>,
    /// Wait queue of the master: output came, the slave was closed, or packet mode has an event.
    readable: WaitQueue,
    /// The terminal has room for input.
    writable: WaitQueue,
}

impl Pair {
    fn new(index: u32, instance: &Arc<devpts::Instance>) -> Arc<Pair> {
        LIVE.fetch_add(1, Ordering::Relaxed);
        MADE.fetch_add(1, Ordering::Relaxed);
        let state = PtyState {
            output: VecDeque::new(),
            slave: Slave::NotYet,
            is_master_open: true,
            is_locked: true,
            is_packet: false,
            status: 0,
        };
        Arc::new(Pair {
            index,
            instance: Arc::downgrade(instance),
            state: Mutex::new(&PAIR, state),
            readable: WaitQueue::new(),
            writable: WaitQueue::new(),
        })
    }
    /// Takes output for a read of at most `room` bytes (not 0): in packet mode after a byte that
    /// tells the kind. Returns `None` if there is none now, and `Err` if there will be none.
    fn take(&self, room: usize) -> Option<Result<Vec<u8>, SlaveClosed>> {
        let mut state = self.state.lock();
        if state.is_packet && state.status != 0 {
            let status = core::mem::take(&mut state.status);
            return Some(Ok(alloc::vec![status]));
        }
        if state.output.is_empty() {
            return (state.slave == Slave::Closed).then_some(Err(SlaveClosed));
        }
        let mut bytes = Vec::with_capacity(room.min(state.output.len() + 1));
        if state.is_packet {
            bytes.push(packet::DATA);
        }
        let count = (room - bytes.len()).min(state.output.len());
        bytes.extend(state.output.drain(..count));
        Some(Ok(bytes))
    }
    /// Records events for packet mode.
    fn tell(&self, clear: u8, set: u8) {
        let mut state = self.state.lock();
        if state.is_packet {
            state.status = state.status & !clear | set;
            drop(state);
            self.readable.wake();
        }
    }
    fn free_if_unused(&self) {
        let is_unused = {
            let state = self.state.lock();
            !state.is_master_open && state.slave != Slave::Open
        };
        if is_unused && let Some(instance) = self.instance.upgrade() {
            instance.free(self.index);
        }
    }
}

/// The slave is closed.
struct SlaveClosed;

impl Drop for Pair {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TerminalLine for Pair {
    fn name(&self) -> String {
        format!("pts/{}", self.index)
    }
    fn room(&self) -> usize {
        OUTPUT_MAX.saturating_sub(self.state.lock().output.len())
    }
    fn send(&self, bytes: &[u8]) -> usize {
        let mut state = self.state.lock();
        if !state.is_master_open {
            return 0;
        }
        state.output.extend(bytes);
        drop(state);
        self.readable.wake();
        bytes.len()
    }
    // The master has the bytes: there is no device to wait for.
    fn drain(&self) {}
    fn discard(&self) {
        self.state.lock().output.truncate(OUTPUT_DELIVERED);
        self.tell(0, packet::FLUSHWRITE);
    }
    fn resume(&self) {
        self.writable.wake();
    }
    fn notice(&self, notice: Notice) {
        const FLOW: u8 = packet::DOSTOP | packet::NOSTOP;
        match notice {
            Notice::FlushedInput => self.tell(0, packet::FLUSHREAD),
            Notice::Stopped => self.tell(packet::START, packet::STOP),
            Notice::Started => self.tell(packet::STOP, packet::START),
            Notice::Settings(old, new) => match (has_usual_flow(&old), has_usual_flow(&new)) {
                (false, true) => self.tell(FLOW, packet::DOSTOP),
                (true, false) => self.tell(FLOW, packet::NOSTOP),
                _ => {}
            },
        }
    }
    fn used(&self, by: Use) {
        self.state.lock().slave = match by {
            Use::Open => Slave::Open,
            Use::Closed => Slave::Closed,
        };
        if by == Use::Closed {
            self.readable.wake();
            self.free_if_unused();
        }
    }
    fn initial(&self) -> Termios {
        let fresh = Termios::default();
        Termios { control: fresh.control & !raw::HUPCL, ..fresh }
    }
    fn adapt(&self, settings: Termios) -> Termios {
        let control = settings.control & !(raw::CSIZE | raw::PARENB) | raw::CS8 | raw::CREAD;
        Termios { control, ..settings }
    }
    fn is_pseudo(&self) -> bool {
        true
    }
}

/// Returns whether Ctrl-S and Ctrl-Q stop and continue output.
fn has_usual_flow(settings: &Termios) -> bool {
    const CTRL_Q: u8 = 0x11;
    const CTRL_S: u8 = 0x13;
    settings.has_input(raw::IXON)
        && settings.character(raw::VSTART) == CTRL_Q
        && settings.character(raw::VSTOP) == CTRL_S
}
