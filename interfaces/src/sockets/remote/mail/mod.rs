//! A [`ControlChannel`](super::ControlChannel) by message: bytes go through *places* in a region that client and server share, and
//! messages say which place has how many.
//!
//! ```text
//! client                                    server
//! request -> place   post, post ...          appends pieces of the request, 32 KiB each
//!                    call                    appends the last one, handles the request, answer -> place
//! place -> answer    fetch, fetch ...        answer from byte N on -> place
//! ```
//! An exchange has a place for itself, so no lock is held over a message, and the client copies bytes of several exchanges at a
//! time. All bytes go through the region, short ones too: a message then fits in registers.
//!
//! **What was done.** Each exchange has a *ticket*, a number that no other exchange of its place has. The server keeps the last
//! answer of each place, so a message that its sender had to break off (a signal for its thread) is sent again: the server does a
//! ticket once. Each attachment of the region to a server has a number, too, the *epoch*, and a server refuses messages of another
//! one. So a message that was meant for the server before does nothing at its successor, which has neither the pieces of the
//! request nor knows the ticket. What a refusal or a death leaves undone for certain is done again, whatever it is. If the server
//! may have done it before it died, only what is idempotent is.
//!
//! The messages of one region are answered by one thread ([`crate::service::run`]), in the order in which they were sent.
mod client;
#[cfg(any(not(target_os = "none"), skerry_process))]
mod server;
#[cfg(test)]
mod tests;

pub use client::MailChannel;
#[cfg(any(not(target_os = "none"), skerry_process))]
pub use server::MailService;

use crate::{AttachError, call::Failure, wire::Wire};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interfaces_macro::interface;
use rt::memory::Region;

/// Number of places of a region.
const PLACES: usize = 4;
/// Bytes of a place.
const PLACE_BYTES: usize = 32 << 10;
const PLACE_WORDS: usize = PLACE_BYTES / size_of::<u64>();
/// Bytes of a region.
const REGION_BYTES: usize = PLACES * PLACE_BYTES;
/// Bytes of a request, at most: enough for a frame of 64 KiB.
const REQUEST_MAX: usize = 256 << 10;
/// Bytes of an answer, at most: some 200,000 sockets.
const ANSWER_MAX: usize = 64 << 20;
/// The ticket of no exchange.
const NO_TICKET: u64 = 0;

/// An exchange of a place, in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct Exchange {
    /// Number of the attachment.
    pub epoch: u64,
    /// Number of the place.
    pub place: usize,
    /// Number of the exchange in its place.
    pub ticket: u64,
}

/// The reason why a message about an exchange did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum MailError {
    /// The server has no region of this epoch.
    Detached,
    /// The server does not know the exchange, or lacks pieces of its request.
    Unknown,
    /// Numbers are out of their range.
    Malformed,
    /// The message, or its answer, was lost.
    Lost,
}

impl From<Failure> for MailError {
    fn from(_: Failure) -> MailError {
        MailError::Lost
    }
}

/// Requests and answers of any length, through a region.
#[interface(number = 6)]
pub trait MailControl: Send + Sync {
    /// Uses `region` for the messages of `epoch` from now on, and no others.
    #[idempotent]
    fn attach(&self, region: Region, epoch: u64) -> Result<(), AttachError>;
    /// Appends the whole place to the first `from` bytes of the request.
    fn post(&self, exchange: Exchange, from: usize) -> Result<(), MailError>;
    /// Appends the last bytes to a request of `length` bytes, handles it, and puts the beginning of the answer in the place. The
    /// result is the length of the answer. If that was done before, the answer is the one it had then.
    fn call(&self, exchange: Exchange, length: usize) -> Result<usize, MailError>;
    /// Puts the bytes of the answer from `from` on in the place. The result is the length of the answer. Ticket 0 has the server
    /// forget the place's answer.
    fn fetch(&self, exchange: Exchange, from: usize) -> Result<usize, MailError>;
}

/// Returns the words of a place. `None` if the region is too small.
fn place_of(region: &Region, place: usize) -> Option<&[AtomicU64]> {
    let words = region.words().get(..REGION_BYTES / size_of::<u64>())?;
    words.chunks_exact(PLACE_WORDS).nth(place)
}

/// Copies bytes to the beginning of a place, as far as there is room.
fn write(place: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks();
    let mut words = place.iter();
    for (bytes, word) in whole.iter().zip(&mut words) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    if let Some(word) = words.next().filter(|_| !rest.is_empty()) {
        let mut last = [0; size_of::<u64>()];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        word.store(u64::from_le_bytes(last), Relaxed);
    }
}

/// Appends the first `length` bytes of a place to `out`, as far as there are bytes.
fn read(place: &[AtomicU64], length: usize, out: &mut alloc::vec::Vec<u8>) {
    let mut left = length;
    for word in place {
        let bytes = word.load(Relaxed).to_le_bytes();
        let taken = bytes.get(..left).unwrap_or(&bytes);
        out.extend_from_slice(taken);
        left -= taken.len();
        if left == 0 {
            return;
        }
    }
}
