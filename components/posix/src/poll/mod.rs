//! Waiting until one of several files is ready: the one loop under poll and select ([`wait_ready`]).
//!
//! Each file adds itself to a [`PollTable`] before it is looked at, so that no change between look
//! and wait is lost; a call that finds something at once, or must not wait, makes no table.
mod epoll;
mod event;
mod nesting;
mod signals;
#[cfg(test)]
mod tests;
mod timeout;
mod timer;

pub use epoll::{Change, Epoll, Interest};
pub use event::{EventCounter, ReadMode};
pub use signals::SignalFile;
pub use timeout::Timeout;
pub use timer::{Setting, TimerFile};

use alloc::sync::Arc;
use rt::thread::Woken;
use vfs::{Errno, OpenFile, file::Ready, poll::PollTable};

/// One file and what is wanted of it.
pub struct Wanted {
    file: Option<Arc<OpenFile>>,
    events: Ready,
    found: Ready,
}

impl Wanted {
    /// What is never ready.
    pub const NOTHING: Wanted =
        Wanted { file: None, events: Ready::empty(), found: Ready::empty() };

    /// To wait for `events` of `file`; where no file that can be polled is there, INVALID is found at once.
    pub fn new(file: Option<Arc<OpenFile>>, events: Ready) -> Wanted {
        let file = file.filter(|file| !file.is_path_only());
        let found = if file.is_some() { Ready::empty() } else { Ready::INVALID };
        Wanted { file, events, found }
    }
    /// What of it was found.
    pub fn found(&self) -> Ready {
        self.found
    }
    fn look(&mut self, table: Option<&PollTable>) -> bool {
        if let Some(file) = &self.file {
            self.found = file.file().poll(table) & self.events;
        }
        !self.found.is_empty()
    }
}

/// Looks at every file, not only up to the first that is ready; `true` if one is.
fn look(wanted: &mut [Wanted], table: Option<&PollTable>) -> bool {
    wanted.iter_mut().filter_map(|wanted| wanted.look(table).then_some(())).count() > 0
}

/// Waits until one of `wanted` is ready or the time is over; what is ready stands in `found`.
///
/// # Errors
/// `RESTART_NO_HANDLER` for a signal.
pub fn wait_ready(wanted: &mut [Wanted], timeout: Timeout) -> Result<(), Errno> {
    if look(wanted, None) || timeout == Timeout::Now {
        return Ok(());
    }
    let mut table = PollTable::new();
    if look(wanted, Some(&table)) {
        return Ok(());
    }
    loop {
        let woken = table.wait(timeout.deadline());
        if look(wanted, None) || woken == Woken::TimedOut {
            return Ok(());
        }
        if woken == Woken::Kicked {
            return Err(Errno::RESTART_NO_HANDLER);
        }
    }
}
