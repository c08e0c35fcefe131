//! The control port of a session run for the host (`./x run --exec`): the command is received as a
//! 32-bit little-endian length and that many bytes; the exit status is sent as one line. A personality whose predecessor has
//! ended sends the line `again`, and receives the command once more.
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};
use interfaces::terminal::{Port, PortSink};
use rt::{
    lock_class,
    sync::{Event, Mutex},
};

lock_class! {
    static RECEIVED = "control.received";
}

const LENGTH_BYTES: usize = 4;
/// Greatest length of a command.
const COMMAND_MAX: usize = 1 << 20;

/// The control messages received so far.
pub struct ControlMessages {
    port: Arc<dyn Port>,
    received: Mutex<Vec<u8>>,
    news: Event,
    is_closed: AtomicBool,
}

impl ControlMessages {
    /// Makes a reader of `port`.
    pub fn new(port: Arc<dyn Port>) -> Arc<ControlMessages> {
        let control = Arc::new(ControlMessages {
            port: port.clone(),
            received: Mutex::new(&RECEIVED, Vec::new()),
            news: Event::new(),
            is_closed: AtomicBool::new(false),
        });
        port.set_sink(control.clone());
        control
    }

    /// Asks for the command again, which an earlier personality took.
    pub fn ask_again(&self) {
        self.tell("again\n");
    }

    /// Waits for the whole command; returns `None` if the host closed the port before its end, or
    /// announced one that is too long.
    pub fn command(&self) -> Option<Vec<u8>> {
        loop {
            let ticket = self.news.ticket();
            {
                let received = self.received.lock();
                if let Some((length, rest)) = received.split_first_chunk::<LENGTH_BYTES>() {
                    let length = u32::from_le_bytes(*length) as usize;
                    if length > COMMAND_MAX {
                        return None;
                    }
                    if let Some(command) = rest.get(..length) {
                        return Some(command.to_vec());
                    }
                }
            }
            if self.is_closed.load(Ordering::Acquire) {
                return None;
            }
            self.news.wait(ticket, None);
        }
    }

    /// Sends a line to the host, and waits until it was received.
    pub fn tell(&self, line: &str) {
        self.port.send(line.as_bytes());
        self.port.drain();
    }
}

impl PortSink for ControlMessages {
    fn received(&self, bytes: &[u8]) -> usize {
        let mut received = self.received.lock();
        let taken = bytes.len().min((LENGTH_BYTES + COMMAND_MAX).saturating_sub(received.len()));
        received.extend(bytes.iter().take(taken));
        drop(received);
        self.news.signal();
        taken
    }

    fn connected(&self, is_open: bool) {
        if !is_open {
            self.is_closed.store(true, Ordering::Release);
            self.news.signal();
        }
    }

    fn resized(&self, _: u16, _: u16) {}
}
