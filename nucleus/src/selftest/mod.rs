//! The boot self-test (kernel parameter `skerry.selftest`): exercises the nucleus where only the real
//! machine can, on as many processors as there are, and then counts what is left over.
//!
//! Each test is a function that panics where something is wrong. The line
//! `selftest: N passed` is the last of a good run; then the machine is switched off.
mod costs;
mod memory;
mod program;
mod threads;

use crate::{arch::power, memory::statistics, objects, thread, time};
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

const TESTS: &[(&str, fn())] = &[
    ("frames come back", memory::frames_come_back),
    ("heap objects do not overlap", memory::heap_objects_do_not_overlap),
    ("charges are refused before memory ends", memory::charges_are_refused),
    ("pages are cleared and copied whole", memory::pages_are_cleared_and_copied),
    ("space ranges map, move and unmap", memory::space_ranges),
    ("a clone copies on write", memory::clone_copies_on_write),
    ("user copies stop at the exact byte", memory::copies_stop_at_the_byte),
    ("threads start and end", threads::start_and_end),
    ("park keeps a token", threads::park_keeps_a_token),
    ("a deadline ends a wait", threads::deadline_ends_a_wait),
    ("no wake-up is lost", threads::no_wake_up_is_lost),
    ("a kick is kept", threads::kick_is_kept),
    ("loops are preempted", threads::loops_are_preempted),
    ("affinity is obeyed", threads::affinity_is_obeyed),
    ("real time goes first", threads::real_time_goes_first),
    ("a program calls and faults", program::calls_and_faults),
    ("registers survive", program::registers_survive),
    ("a kick ends a loop in user mode", program::kick_ends_a_loop),
    ("many programs in one space", program::many_in_one_space),
    ("bad registers are refused", program::bad_registers_are_refused),
    ("extended state is checked and kept", program::extended_state),
];

/// Runs every test and switches off. With the value `overflow` it uses up its stack instead, and
/// the panic that must come of that is the test.
pub fn run() -> ! {
    if crate::params::get("skerry.selftest") == Some("overflow") {
        panic!("the stack held {} calls", threads::use_up_stack(0));
    }
    warm_up();
    let rounds = crate::params::number("skerry.selftest").unwrap_or(1).max(1);
    let mut passed = 0;
    for _ in 0..rounds {
        for (name, test) in TESTS {
            let before = settled_counts();
            let start_ns = time::now_ns();
            // In a thread of its own, which takes its space and extended state along.
            in_threads(1, move |_| test());
            settle(&before, name);
            log::info!("selftest: ok: {name} ({} us)", (time::now_ns() - start_ns) / 1000);
            passed += 1;
        }
    }
    in_threads(1, |_| costs::report());
    log::info!("selftest: {passed} passed");
    power::off()
}

/// Fills the caches that keep things for ever, so that counts may be compared.
fn warm_up() {
    (0..2).for_each(|_| threads::start_and_end());
    thread::park(Some(time::now_ns() + 50_000_000), false);
}

/// What must be as before: live objects but slabs and cached stacks, and frames free but for those.
fn counts() -> Vec<(&'static str, i64)> {
    let all = objects::all();
    let of = |wanted: &str| {
        all.iter().find(|(name, ..)| *name == wanted).map_or(0, |(_, live, _)| *live)
    };
    let mut counts: Vec<_> = all
        .iter()
        .filter(|(name, ..)| !["slab", "stack", "large frame"].contains(name))
        .map(|(name, live, _)| (*name, *live))
        .collect();
    let memory = statistics();
    let free = memory.free_frames + memory.heap_frames + memory.stack_frames + memory.table_frames;
    counts.push(("free frames", free as i64 + of("frame")));
    counts.push(("charged", memory.charged_bytes as i64));
    counts
}

/// The counts, once two in a row agree: they are not read all at one instant.
fn settled_counts() -> Vec<(&'static str, i64)> {
    let mut before = counts();
    loop {
        thread::park(Some(time::now_ns() + 1_000_000), false);
        let now = counts();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Waits until the counts are as `before`: ended threads go a moment after they said so.
fn settle(before: &[(&'static str, i64)], name: &str) {
    let give_up_ns = time::now_ns() + 2_000_000_000;
    loop {
        let now = counts();
        if now == before {
            return;
        }
        assert!(time::now_ns() < give_up_ns, "{name}: before {before:?}, after {now:?}");
        thread::park(Some(time::now_ns() + 1_000_000), false);
    }
}

/// Runs `body` in `count` threads at once, with their index, and waits for all.
fn in_threads(count: u32, body: impl Fn(u32) + Send + Sync + 'static) {
    struct Shared<F> {
        body: F,
        left: AtomicU32,
    }
    let shared = alloc::sync::Arc::new(Shared { body, left: AtomicU32::new(count) });
    for index in 0..count {
        let own = shared.clone();
        let body: thread::Body = Box::new(Box::new(move || {
            (own.body)(index);
            if own.left.fetch_sub(1, SeqCst) == 1 {
                thread::wake(&own.left, 1);
            }
        }));
        thread::spawn("test", thread::Policy::Fair(0), body)
            .expect("no memory for a test's thread");
    }
    loop {
        let left = shared.left.load(SeqCst);
        if left == 0 {
            return;
        }
        thread::wait_on(&shared.left, left, None, false);
    }
}
