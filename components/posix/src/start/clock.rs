//! The wall clock at the start: it is set from the real-time clock, which is read again later if it fails.
//!
//! Until a program sets the wall clock, each mounted volume moves it forward to the last time recorded on the
//! volume (`rt::time::raise_wall_ns`).
use alloc::sync::Arc;
use interfaces::clock::Clock;
use process::time::wall;
use rt::{
    thread::{self, Policy},
    time,
};

/// The pause before the clock is read for the second time; doubled for each further time.
const FIRST_PAUSE_NS: u64 = 1_000_000_000;
/// The longest pause.
const LONGEST_PAUSE_NS: u64 = 64 * FIRST_PAUSE_NS;

/// Sets the wall clock from `clock`. If that fails, logs a warning and starts a thread that tries again.
pub fn set_wall(clock: Option<&Arc<dyn Clock>>) {
    let Some(clock) = clock else {
        log::warn!(
            "there is no real-time clock: the wall clock starts at the last mount of the root"
        );
        return;
    };
    if let Some(ns) = clock.read_ns() {
        return wall::set(ns);
    }
    log::warn!(
        "the real-time clock gives no time: the wall clock starts at the last mount of the root, and the clock is asked again"
    );
    let clock = clock.clone();
    let asks = move || {
        if let Some(ns) = ask_again(&*clock, FIRST_PAUSE_NS, time::is_wall_set) {
            log::info!("the real-time clock gives the time now");
            wall::set(ns);
        }
    };
    if thread::spawn("clock", Policy::Fair { nice: 0 }, asks).is_err() {
        log::error!("no memory for the thread that asks the real-time clock again");
    }
}

/// Reads `clock` until it succeeds, and returns the time, or until `is_set` says that a program has set the wall
/// clock.
fn ask_again(clock: &dyn Clock, first_pause_ns: u64, is_set: impl Fn() -> bool) -> Option<u64> {
    let mut pause_ns = first_pause_ns;
    loop {
        time::sleep_until(time::now().after_ns(pause_ns));
        if is_set() {
            return None;
        }
        if let Some(ns) = clock.read_ns() {
            return Some(ns);
        }
        pause_ns = pause_ns.saturating_mul(2).min(LONGEST_PAUSE_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// A clock that fails this many times at first.
    struct Late(AtomicU64);

    impl Clock for Late {
        fn read_ns(&self) -> Option<u64> {
            let left = self.0.load(Relaxed);
            self.0.store(left.saturating_sub(1), Relaxed);
            (left == 0).then_some(7)
        }
    }

    #[test]
    fn a_clock_that_gives_no_time_is_asked_until_it_does() {
        let late = Late(AtomicU64::new(3));
        assert_eq!(ask_again(&late, 1_000, || false), Some(7));
        assert_eq!(late.0.load(Relaxed), 0);
    }

    #[test]
    fn a_clock_is_not_asked_once_a_program_has_set_the_time() {
        let late = Late(AtomicU64::new(3));
        assert_eq!(ask_again(&late, 1_000, || true), None);
        assert_eq!(late.0.load(Relaxed), 3);
    }
}
