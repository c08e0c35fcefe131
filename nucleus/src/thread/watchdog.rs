//! The watchdog (kernel parameter `skerry.watchdog=SECONDS`): logs every thread once when the
//! system seems stuck.
//!
//! The system counts as stuck if no program ran in user mode or gave its processor up for that
//! time, or if a program's thread has waited that long uninterruptibly and without a deadline. A
//! shell that waits for input makes no progress either, so this is for tests that should be busy.
//! There is one dump a stall: the next one needs progress in between.
use super::{BLOCKED, Policy, Sleep, dump, park, spawn, table, wait};
use crate::{params, time};
use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;
use runqueue::Entity;
use text::{Survey, Watch};

const LOOK_EVERY_NS: u64 = 500_000_000;
/// Priority above every program's.
const PRIORITY: u8 = 99;

/// Surveys the threads of programs, and finds those that wait uninterruptibly and without a
/// deadline.
fn survey() -> Survey {
    let mut survey = Survey::default();
    for thread in table::all().filter(|thread| thread.is_program()) {
        let Entity { ticks, voluntary_switches, .. } = &thread.entity;
        let steps = ticks.user.load(Relaxed) + voluntary_switches.load(Relaxed);
        let since_ns = thread.blocked_at_ns.load(Relaxed);
        let is_stuck =
            thread.state.load(Relaxed) == BLOCKED && wait::deadline_ns(&thread).is_none();
        survey.add(thread.number, steps, is_stuck.then_some(since_ns));
    }
    survey
}

fn watch(limit_ns: u64) {
    let mut watch = Watch::new(limit_ns, &survey(), time::now_ns());
    loop {
        park(Some(time::now_ns() + LOOK_EVERY_NS), Sleep::Uninterruptible);
        for stall in watch.look(&survey(), time::now_ns()) {
            dump::log_all(format_args!("{stall}"));
        }
    }
}

/// Starts the watchdog if the parameter asks for it.
pub fn start() {
    let Some(seconds) = params::number("skerry.watchdog").filter(|&seconds| seconds > 0) else {
        return;
    };
    let limit_ns = seconds.saturating_mul(1_000_000_000);
    let body = Box::new(Box::new(move || watch(limit_ns)) as Box<dyn FnOnce() + Send>);
    if spawn("watchdog", Policy::Fifo(PRIORITY), body).is_err() {
        log::error!("no memory for the watchdog");
    }
}
