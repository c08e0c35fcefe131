//! [`Waiter`]: a sleeping call, and the answer that it is woken with.
use alloc::sync::Arc;
use process::Task;
use rt::{
    lock_class,
    sync::{Event, Mutex},
    thread::Woken,
    time::Instant,
};

lock_class! {
    static ANSWER = "ipc.answer";
}

/// A sleeping call. The lock of its object is held while it is answered.
pub struct Waiter<T> {
    answer: Mutex<Option<T>>,
    event: Event,
}

/// The end of a sleep.
#[derive(Debug)]
pub enum Slept<T> {
    /// The answer came.
    Answered(T),
    /// The time limit has passed.
    TimedOut,
    /// A signal is to be handled, or the task stops or ends.
    Interrupted,
}

impl<T> Waiter<T> {
    /// Makes a waiter without an answer.
    pub fn new() -> Arc<Waiter<T>> {
        Arc::new(Waiter { answer: Mutex::new(&ANSWER, None), event: Event::new() })
    }
    /// Wakes the call with `answer`.
    pub fn answer(&self, answer: T) {
        *self.answer.lock() = Some(answer);
        self.event.signal();
    }
    /// Returns the answer, if it has come.
    pub fn take(&self) -> Option<T> {
        self.answer.lock().take()
    }
    /// Sleeps until the answer comes. Called by `task` itself, with no lock held. After another end of the sleep, the answer
    /// may have come meanwhile: the caller checks with the object's lock held.
    pub fn sleep(&self, task: &Task, deadline: Option<Instant>) -> Slept<T> {
        loop {
            let ticket = self.event.ticket();
            if let Some(answer) = self.take() {
                return Slept::Answered(answer);
            }
            match self.event.wait_interruptible(ticket, deadline) {
                Woken::TimedOut => return Slept::TimedOut,
                Woken::Kicked if task.has_signal() => return Slept::Interrupted,
                Woken::Signalled | Woken::Kicked => {}
            }
        }
    }
}

impl<T> PartialEq for Waiter<T> {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}
