//! Tests of what rt promises in every world: on the host each is a test of its own (`tests/host.rs`), in the process world a
//! component runs them one after the other in ring 3. A test fails by a panic, which ends the component.
#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]
extern crate alloc;

mod memory;
mod messages;
#[cfg(all(target_os = "none", skerry_process))]
mod process;
mod rings;
mod threads;
mod time;

use alloc::{boxed::Box, sync::Arc};
use rt::{
    lock_class,
    sync::{Event, Mutex},
    thread::{self, Policy},
};

/// A test, and its name.
pub type Test = (&'static str, fn());

/// The tests of every world.
pub const EVERYWHERE: &[&[Test]] =
    &[memory::TESTS, messages::TESTS, rings::TESTS, threads::TESTS, time::TESTS];

lock_class! {
    static RESULT = "test.result";
}

/// The result of a thread.
pub(crate) struct Joiner<T>(Arc<(Mutex<Option<T>>, Event)>);

impl<T> Joiner<T> {
    /// Blocks until the thread has returned.
    pub(crate) fn join(self) -> T {
        loop {
            let ticket = self.0.1.ticket();
            if let Some(result) = self.0.0.lock().take() {
                return result;
            }
            self.0.1.wait(ticket, None);
        }
    }
}

/// Runs `body` on a thread of rt.
pub(crate) fn on_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Joiner<T> {
    let shared = Arc::new((Mutex::new(&RESULT, None), Event::new()));
    let theirs = shared.clone();
    let body = Box::new(move || {
        let result = body();
        *theirs.0.lock() = Some(result);
        theirs.1.signal();
    });
    thread::spawn("test", Policy::default(), body).expect("no memory for a thread");
    Joiner(shared)
}

/// The component's main function: runs all tests, and then answers pings.
#[cfg(all(target_os = "none", skerry_process))]
pub fn main() {
    use interfaces::service::{self, Serve};
    let lists = EVERYWHERE.iter().chain([&process::TESTS]);
    let mut count = 0;
    for (name, test) in lists.copied().flatten() {
        rt::trace::point(name, count, 0);
        test();
        count += 1;
    }
    log::info!("all {count} tests passed");
    thread::spawn("wall", Policy::default(), process::report_wall).expect("no memory for a thread");
    process::leave_free_memory();
    let ended = service::run::<Box<dyn Serve>>(&rt::message::service(), &[]);
    log::info!("no more calls: {ended:?}");
}
