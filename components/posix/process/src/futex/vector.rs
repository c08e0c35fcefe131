//! Waiting for any of several words (futex_waitv(2)).
use super::{
    Scope, enqueue, key,
    table::{self, FutexWaiter},
};
use crate::task::Task;
use alloc::{sync::Arc, vec::Vec};
use rt::{sync::Event, thread::Woken, time::Instant, user::Access};
use vfs::Errno;

/// The greatest number of words that are waited for at once.
pub const VECTOR_MAX: usize = 128;

/// A word that is waited for, while it holds a value.
#[derive(Clone, Copy, Debug)]
pub struct WantedWord {
    /// Address of the word.
    pub address: u64,
    /// The processes that may wait for it.
    pub scope: Scope,
    /// The value that the word must have.
    pub expected: u32,
}

/// Waits while every word is as expected, until one is woken. Returns its index.
///
/// # Errors
/// `EAGAIN` if a word differs, `ETIMEDOUT`, `EFAULT`, `EINVAL`, `RestartUnhandled` when interrupted.
pub fn wait_for_any(
    task: &Task,
    words: &[WantedWord],
    deadline: Option<Instant>,
) -> Result<usize, Errno> {
    let memory = task.memory();
    let event = Arc::new(Event::new());
    let mut waiters = Vec::with_capacity(words.len());
    for word in words {
        let key = key(&memory, word.address, word.scope, Access::Read)?;
        waiters.push(Arc::new(FutexWaiter::of_many(key, &event)));
    }
    for (at, (word, waiter)) in words.iter().zip(&waiters).enumerate() {
        let place = (word.address, &waiter.key());
        if let Err(error) = enqueue(&memory, place, word.expected, || waiter.clone()) {
            return leave_all(waiters.iter().take(at)).ok_or(error);
        }
    }
    loop {
        let ticket = event.ticket();
        let outcome = match waiters.iter().any(|waiter| waiter.is_woken()) {
            true => Woken::Signalled,
            false => event.wait_interruptible(ticket, deadline),
        };
        let error = match outcome {
            Woken::Signalled if !waiters.iter().any(|waiter| waiter.is_woken()) => continue,
            Woken::Signalled | Woken::Kicked => Errno::RestartUnhandled,
            Woken::TimedOut => Errno::ETIMEDOUT,
        };
        return leave_all(waiters.iter()).ok_or(error);
    }
}

/// Removes waiters from their buckets. Returns the last one that was woken.
fn leave_all<'w>(waiters: impl Iterator<Item = &'w Arc<FutexWaiter>>) -> Option<usize> {
    let mut woken = None;
    for (at, waiter) in waiters.enumerate() {
        if !table::leave(waiter) {
            woken = Some(at);
        }
    }
    woken
}
