//! Threads that wait in a call on a socket.
use crate::{must, tasks::own_id};
use std::{
    fs,
    sync::mpsc,
    thread::{self, JoinHandle},
};

/// A thread that runs a call.
pub struct Sleeper<T> {
    thread: JoinHandle<T>,
    id: u32,
}

impl<T: Send + 'static> Sleeper<T> {
    /// Starts a thread that runs `body`. Returns when the thread sleeps, or when it has ended.
    ///
    /// # Panics
    /// Panics if there is no thread to be had.
    pub fn start(body: impl FnOnce() -> T + Send + 'static) -> Sleeper<T> {
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            sender.send(own_id()).expect("the starter waits");
            body()
        });
        let sleeper = Sleeper { thread, id: receiver.recv().expect("a new thread") };
        while !sleeper.is_asleep() && !sleeper.has_ended() {
            thread::yield_now();
        }
        sleeper
    }
    /// Returns whether the thread sleeps.
    pub fn is_asleep(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", self.id));
        let state = stat.as_ref().ok().and_then(|stat| stat.rsplit(") ").next());
        state.is_some_and(|state| state.starts_with('S'))
    }
    /// Returns whether the call returned.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
    /// Sends the thread a signal.
    pub fn interrupt(&self, signal: i32) {
        let process = std::process::id();
        // SAFETY: plain numbers.
        must(unsafe { libc::syscall(libc::SYS_tgkill, process, self.id, signal) });
    }
    /// Waits for the call's answer.
    ///
    /// # Panics
    /// Panics if the thread did.
    pub fn answer(self) -> T {
        self.thread.join().expect("a thread without a panic")
    }
}
