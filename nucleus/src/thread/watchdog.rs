//! The watchdog (kernel parameter `skerry.watchdog=SECONDS`): logs every thread once the system
//! seems stuck.
//!
//! It is stuck where no program ran in user mode or gave its processor up for so long, or where
//! one has waited so long uninterruptibly and without a deadline. A shell that waits for
//! somebody to type makes no progress either: it is a tool for tests that should be busy.
//! One dump a stall: the next comes only after progress.
use super::{BLOCKED, Policy, dump, park, spawn, table, wait};
use crate::{params, time};
use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;
use text::{Stall, Watch, ms};

const LOOK_EVERY_NS: u64 = 500_000_000;
/// Above every program's.
const PRIORITY: u8 = 99;

/// What changes when programs make progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    threads: u64,
    steps: u64,
}

/// The longest of those who wait uninterruptibly: its number and since when.
type Stuck = Option<(u64, u64)>;

fn survey() -> (Progress, Stuck) {
    let mut progress = Progress { threads: 0, steps: 0 };
    let mut stuck: Stuck = None;
    let mut slot = 0;
    while let Some((thread, next)) = table::next(slot) {
        slot = next;
        if !thread.is_program() {
            continue;
        }
        progress.threads = progress.threads.wrapping_add(thread.number);
        progress.steps += thread.user_ticks.load(Relaxed) + thread.voluntary_switches.load(Relaxed);
        let since_ns = thread.blocked_at_ns.load(Relaxed);
        let is_stuck =
            thread.state.load(Relaxed) == BLOCKED && wait::deadline_ns(&thread).is_none();
        if is_stuck && stuck.is_none_or(|(_, longest_ns)| since_ns < longest_ns) {
            stuck = Some((thread.number, since_ns));
        }
    }
    (progress, stuck)
}

fn watch(limit_ns: u64) {
    let mut watch = Watch::new(limit_ns, survey().0, time::now_ns());
    loop {
        park(Some(time::now_ns() + LOOK_EVERY_NS), false);
        let (progress, stuck) = survey();
        for stall in watch.look(progress, stuck, time::now_ns()) {
            match stall {
                Stall::All(for_ns) => {
                    dump::log_all(format_args!("no progress for {} ms", ms(for_ns)));
                }
                Stall::One(number, for_ns) => dump::log_all(format_args!(
                    "{number:#x} waits uninterruptibly for {} ms",
                    ms(for_ns)
                )),
            }
        }
    }
}

/// Starts it where the parameter asks for it.
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
