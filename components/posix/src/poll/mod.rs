//! Waiting until one of several files is ready: the one loop under poll and select ([`wait_ready`]).
//!
//! Each file adds itself to a [`PollTable`] before it is looked at, so that no change between look
//! and wait is lost; a call that finds something at once, or must not wait, makes no table.
mod epoll;
mod event;
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
    /// The file; `None` is never ready.
    pub file: Option<Arc<OpenFile>>,
    /// What to wait for.
    pub events: Ready,
    /// What of it was found.
    pub found: Ready,
}

impl Wanted {
    /// No file that can be polled is there.
    pub fn is_bad(&self) -> bool {
        self.file.as_ref().is_none_or(|file| file.is_path_only())
    }
    fn look(&mut self, table: Option<&PollTable>) -> bool {
        if let Some(file) = self.file.as_ref().filter(|file| !file.is_path_only()) {
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
