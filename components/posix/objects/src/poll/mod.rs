//! Waiting until one of several files is ready: the one loop under poll and select ([`wait_ready`]).
//!
//! Each file adds itself to a [`PollTable`] before its state is read, so that no change between the check and the wait is
//! lost; a call that finds a ready file at once, or must not wait, makes no table.
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
use vfs::{Errno, OpenFile, Principal, file::Ready, poll::PollTable};

/// Returns the events of `events` that `file` is ready for, if that is known without calling it: a file that does not
/// implement readiness is always ready, and a missing file is INVALID.
#[inline]
pub fn known(file: Option<&Arc<OpenFile>>, events: Ready) -> Option<Ready> {
    match file {
        Some(file) if file.is_path_only() => Some(Ready::INVALID),
        Some(file) if file.file().is_watchable() => None,
        Some(_) => Some(Ready::ALWAYS & events),
        None => Some(Ready::INVALID),
    }
}

/// A file to be polled, and the wanted events.
pub struct PolledFile {
    file: Arc<OpenFile>,
    events: Ready,
    found: Ready,
    at: usize,
}

impl PolledFile {
    /// Makes an entry for `events` of `file`, which the caller identifies by `at`.
    pub fn new(file: Arc<OpenFile>, events: Ready, at: usize) -> PolledFile {
        PolledFile { file, events, found: Ready::empty(), at }
    }
    /// Returns the events that were found.
    pub fn found(&self) -> Ready {
        self.found
    }
    /// Returns the number by which the caller identifies it.
    pub fn at(&self) -> usize {
        self.at
    }
    fn look(&mut self, table: Option<&PollTable>, caller: &dyn Principal) -> bool {
        self.found = self.file.file().poll(table, caller) & self.events;
        !self.found.is_empty()
    }
}

/// Checks every file, not only up to the first that is ready. Returns `true` if one is.
fn look(wanted: &mut [PolledFile], table: Option<&PollTable>, caller: &dyn Principal) -> bool {
    let mut is_any = false;
    for one in wanted {
        is_any |= one.look(table, caller);
    }
    is_any
}

/// Waits until one of `wanted` is ready for `caller` or the time has passed; the ready events are in `found`.
///
/// # Errors
/// `RestartUnhandled` for a signal.
#[inline]
pub fn wait_ready(
    wanted: &mut [PolledFile],
    timeout: Timeout,
    caller: &dyn Principal,
) -> Result<(), Errno> {
    if look(wanted, None, caller) || timeout == Timeout::Now {
        return Ok(());
    }
    wait(wanted, timeout, caller)
}

/// Waits as [`wait_ready`] does, after a look that found nothing.
#[inline(never)]
fn wait(wanted: &mut [PolledFile], timeout: Timeout, caller: &dyn Principal) -> Result<(), Errno> {
    let mut table = PollTable::new();
    if look(wanted, Some(&table), caller) {
        return Ok(());
    }
    loop {
        let woken = table.wait(timeout.deadline());
        if look(wanted, None, caller) || woken == Woken::TimedOut {
            return Ok(());
        }
        if woken == Woken::Kicked {
            return Err(Errno::RestartUnhandled);
        }
    }
}
