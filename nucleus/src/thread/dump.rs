//! The thread dump: what every thread does or waits for, since when, and the calls that led there.
//!
//! A thread that does not run has its registers on its stack, where they are read under its run
//! queue's lock. Those that run on other processors are asked by an NMI, which also answers where
//! interrupts are off; [`Sample`] is the answer. Meant for the log and for eyes: what is printed
//! may be a moment old.
use super::{BLOCKED, DEAD, INTERRUPTIBLE, Thread, current_pointer, scheduler, table, wait};
use crate::{
    arch::{apic, cpu, percpu, smp, switch},
    backtrace,
    log::print,
    memory::stacks,
    time,
};
use core::{
    fmt,
    ops::Range,
    ptr,
    sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use firmware::List;
use text::{Doing, ms};

/// Calls remembered of a thread.
const DEPTH: usize = 24;
/// How long a processor gets to answer an NMI.
const ANSWER_NS: u64 = 20_000_000;

/// What a processor did when it was asked; `depth` is stored last, plus one.
struct Sample {
    thread: AtomicU64,
    depth: AtomicUsize,
    calls: [AtomicU64; DEPTH],
}

static SAMPLES: [Sample; percpu::MAX_CPUS] = [const {
    Sample {
        thread: AtomicU64::new(0),
        depth: AtomicUsize::new(0),
        calls: [const { AtomicU64::new(0) }; DEPTH],
    }
}; percpu::MAX_CPUS];

/// A call chain, innermost first.
type Calls = List<u64, DEPTH>;

fn collect(rip: u64, rbp: u64, stack: &Range<u64>) -> Calls {
    let mut calls = Calls::default();
    calls.push(rip);
    backtrace::walk(rbp, stack, |address| calls.push(address));
    calls
}

fn stack_of(thread: &Thread) -> Range<u64> {
    thread.stack.as_ref().map_or(0..0, |stack| stack.top() - stacks::BYTES as u64..stack.top())
}

/// Notes where this processor was interrupted. From the NMI.
pub fn sample(rip: u64, rbp: u64) {
    let sample = &SAMPLES[percpu::cpu()];
    // SAFETY: the running thread is there while it runs.
    let Some(thread) = (unsafe { current_pointer().as_ref() }) else { return };
    let calls = collect(rip, rbp, &stack_of(thread));
    let calls = calls.as_slice();
    sample.calls.iter().zip(calls).for_each(|(slot, &address)| slot.store(address, Relaxed));
    sample.thread.store(thread.number, Relaxed);
    sample.depth.store(calls.len() + 1, Release);
}

impl Sample {
    /// The answer if it came and was about `thread`.
    fn of(&self, thread: &Thread) -> Option<Calls> {
        let depth = self.depth.load(Acquire).checked_sub(1)?;
        let mut calls = Calls::default();
        self.calls.iter().take(depth).for_each(|call| calls.push(call.load(Relaxed)));
        (self.thread.load(Relaxed) == thread.number).then_some(calls)
    }
}

/// Asks the other processors what they do, and waits a little for their answers.
fn sample_others() {
    SAMPLES.iter().for_each(|sample| sample.depth.store(0, Relaxed));
    let others = smp::online() - 1;
    if others == 0 {
        return;
    }
    apic::send_nmi_to_others();
    let give_up_ns = time::now_ns() + ANSWER_NS;
    let answers = || SAMPLES.iter().filter(|sample| sample.depth.load(Relaxed) != 0).count();
    while answers() < others && time::now_ns() < give_up_ns {
        cpu::relax();
    }
}

/// What `thread` does, and its calls unless it runs. Its run queue's lock is held.
fn look(thread: &Thread, is_running: bool) -> (Doing, Option<Calls>) {
    if is_running {
        return (Doing::Runs, None);
    }
    let now_ns = time::now_ns();
    let doing = match thread.state.load(Relaxed) {
        state @ (BLOCKED | INTERRUPTIBLE) if thread.blocked_at_ns.load(Relaxed) != 0 => {
            let (word, value) = wait::awaited(thread);
            Doing::Waits {
                word,
                value,
                is_interruptible: state == INTERRUPTIBLE,
                for_ns: now_ns.saturating_sub(thread.blocked_at_ns.load(Relaxed)),
                left_ns: wait::deadline_ns(thread).map(|at_ns| at_ns.saturating_sub(now_ns)),
            }
        }
        DEAD => Doing::Ends,
        _ => Doing::Ready,
    };
    // SAFETY: it does not run, so the switch away from it wrote it.
    let saved = unsafe { thread.stack_pointer.get().read_volatile() };
    let stack = stack_of(thread);
    // A parked thread has no calls to show.
    if thread.parked_on().is_some() || !stack.contains(&saved) {
        return (doing, None);
    }
    // SAFETY: saved by the switch, within its stack.
    let (rip, rbp) = unsafe { switch::saved_place(saved) };
    (doing, Some(collect(rip, rbp, &stack)))
}

/// Logs every thread.
pub fn log_all(why: fmt::Arguments<'_>) {
    sample_others();
    print(format_args!("threads: {why}\n"));
    let mut slot = 0;
    while let Some((thread, next)) = table::next(slot) {
        slot = next;
        log_one(&thread);
    }
    print(format_args!("end of threads\n"));
}

fn log_one(thread: &Thread) {
    let Some((doing, calls)) = scheduler::look_at(thread, |is_running| look(thread, is_running))
    else {
        return;
    };
    let cpu = thread.cpu.load(Relaxed) as usize;
    let kicked = if thread.is_kicked.load(Relaxed) { ", kicked" } else { "" };
    print(format_args!(
        "thread {:#x} {}: {doing}; processor {cpu}, ran {} ms{kicked}\n",
        thread.number,
        thread.name(),
        ms(scheduler::run_ns(thread)),
    ));
    log_locks(thread);
    if ptr::eq(thread, current_pointer()) {
        return backtrace::print_here();
    }
    if let Some(calls) = calls.or_else(|| SAMPLES[cpu % SAMPLES.len()].of(thread)) {
        let calls = calls.as_slice().iter().enumerate();
        calls.for_each(|(depth, &address)| backtrace::print_frame(depth, address));
    }
}

/// The locks that a thread which does not run holds, and the one it wants; known with `check` only.
#[cfg(feature = "check")]
fn log_locks(thread: &Thread) {
    let shown = scheduler::look_at(thread, |is_running| {
        // SAFETY: only the thread itself changes the list, with interrupts off, and it does not run.
        (!is_running).then(|| unsafe { &*thread.held.get() }.clone())
    });
    let Some(held) = shown.flatten() else { return };
    crate::panic::print_held(&held);
    if let Some((class, place)) = held.wanted() {
        print(format_args!("  wants {} at {place}\n", class.name()));
    }
}

#[cfg(not(feature = "check"))]
fn log_locks(_thread: &Thread) {}
