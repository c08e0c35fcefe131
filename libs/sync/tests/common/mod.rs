//! A platform on std for the tests: waiters in one list, threads parked by std.
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};
use sync::{Outcome, Platform, Sleep};

/// A platform over std.
#[derive(Clone, Copy, Debug)]
pub struct Std;

struct Waiter {
    address: usize,
    number: u64,
    thread: Thread,
}

static WAITERS: Mutex<Vec<Waiter>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

fn waiters() -> std::sync::MutexGuard<'static, Vec<Waiter>> {
    WAITERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(feature = "check")]
thread_local! {
    static HELD: std::cell::RefCell<sync::check::HeldLocks> =
        const { std::cell::RefCell::new(sync::check::HeldLocks::new()) };
}

fn start() -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *START.get_or_init(Instant::now)
}

impl Platform for Std {
    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>, _: Sleep) -> Outcome {
        let number = NEXT.fetch_add(1, SeqCst);
        {
            let mut waiters = waiters();
            if word.load(SeqCst) != expected {
                return Outcome::Signalled;
            }
            let address = std::ptr::from_ref(word).addr();
            waiters.push(Waiter { address, number, thread: thread::current() });
        }
        loop {
            let now = Self::now_ns();
            match deadline_ns {
                None => thread::park(),
                Some(deadline) => {
                    thread::park_timeout(Duration::from_nanos(deadline.saturating_sub(now)));
                }
            }
            let mut waiters = waiters();
            let Some(ours) = waiters.iter().position(|waiter| waiter.number == number) else {
                return Outcome::Signalled;
            };
            if deadline_ns.is_some_and(|deadline| deadline <= now) {
                waiters.remove(ours);
                return Outcome::TimedOut;
            }
        }
    }

    fn wake(word: &AtomicU32, count: u32) -> u32 {
        let address = std::ptr::from_ref(word).addr();
        let mut woken = 0;
        waiters().retain(|waiter| {
            if waiter.address != address || woken == count {
                return true;
            }
            woken += 1;
            waiter.thread.unpark();
            false
        });
        woken
    }

    fn current() -> u64 {
        0
    }

    fn now_ns() -> u64 {
        start().elapsed().as_nanos() as u64
    }

    #[cfg(feature = "check")]
    fn held(visit: &mut dyn FnMut(&mut sync::check::HeldLocks)) {
        HELD.with_borrow_mut(|held| visit(held));
    }
}
