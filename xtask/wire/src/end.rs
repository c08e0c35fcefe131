//! [`End`]: who sits at an end of the wire.
use std::{os::fd::BorrowedFd, time::Duration};

/// The fate of a frame that an end was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The end has it.
    Taken,
    /// The end has no room now; its outlet becomes writable once it has.
    Full,
    /// There is nobody.
    Absent,
}

/// A machine or a peer at an end of the wire. Times are since the wire's start.
pub trait End: Send {
    /// Takes a frame from the wire.
    fn hear(&mut self, frame: &[u8], now: Duration) -> Receipt;

    /// Returns the next frame that the end sends, if it sends one now.
    ///
    /// # Errors
    /// The end can never send again.
    fn say(&mut self, now: Duration) -> anyhow::Result<Option<Vec<u8>>>;

    /// Returns the time at which the end may send a frame without having heard one.
    fn wakes_at(&mut self, now: Duration) -> Option<Duration>;

    /// Returns the descriptor that becomes readable when the end may send a frame.
    fn bell(&self) -> BorrowedFd<'_>;

    /// Returns the descriptor that becomes writable when a full end has room again.
    fn outlet(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
