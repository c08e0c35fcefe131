//! The thread dump: for every thread what it does or waits for, since when, and its call stack.
//!
//! A thread that does not run has its registers on its stack, where they are read under its run
//! queue's lock. Threads that run on other processors are asked by an NMI, which is also answered
//! while interrupts are off ([`ANSWERS`]). The dump is for people: an entry may be a moment old.
use super::{
    BLOCKED, DEAD, INTERRUPTIBLE, Thread, any_current, current_pointer, scheduler, table, wait,
};
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
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use firmware::List;
use sync::samples::{HEADER, Samples};
use text::{Doing, ms};

/// The greatest number of calls kept of a thread.
const DEPTH: usize = 24;
/// Words of a ring that holds one answer.
const WORDS: usize = HEADER + DEPTH + 2;
/// Time for the other processors to answer an NMI.
const ANSWER_NS: u64 = 20_000_000;

/// The last answer of each processor: its thread and that thread's calls.
static ANSWERS: [Samples<[AtomicU64; WORDS]>; percpu::MAX_CPUS] =
    [const { Samples::new([const { AtomicU64::new(0) }; WORDS]) }; percpu::MAX_CPUS];

/// A call chain, innermost first.
pub(super) type Calls = List<u64, DEPTH>;

pub(super) fn collect(rip: u64, rbp: u64, stack: &Range<u64>) -> Calls {
    [rip].into_iter().chain(backtrace::walk(rbp, stack)).collect()
}

pub(super) fn stack_of(thread: &Thread) -> Range<u64> {
    thread.stack.as_ref().map_or(0..0, |stack| stack.top() - stacks::BYTES as u64..stack.top())
}

/// Records where this processor was interrupted. Called from the NMI.
pub fn sample(rip: u64, rbp: u64) {
    let Some(thread) = any_current() else { return };
    let calls = collect(rip, rbp, &stack_of(thread));
    ANSWERS[percpu::cpu()]
        .push([thread.number].into_iter().chain(calls.as_slice().iter().copied()));
}

/// Returns the calls of `thread`, which runs on processor `cpu`, if that processor answered for this
/// thread.
fn answer(cpu: usize, thread: &Thread) -> Option<Calls> {
    let answer = ANSWERS[cpu % ANSWERS.len()].take(|words| {
        let is_its = words.next() == Some(thread.number);
        is_its.then(|| words.collect())
    });
    answer.flatten()
}

/// Asks the other processors for their calls, and waits a little for their answers.
fn sample_others() {
    ANSWERS.iter().for_each(|answer| _ = answer.take(|_| ()));
    let others = smp::online() - 1;
    if others == 0 {
        return;
    }
    apic::send_nmi_to_others();
    let give_up_ns = time::now_ns() + ANSWER_NS;
    let answers = || ANSWERS.iter().filter(|answer| answer.first().is_some()).count();
    while answers() < others && time::now_ns() < give_up_ns {
        cpu::relax();
    }
}

/// Returns the activity of `thread`, which does not run, and its calls. Its run queue's lock is held.
fn look(thread: &Thread) -> (Doing, Option<Calls>) {
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
    // A parked thread has no kernel calls to show.
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
    table::all().for_each(|thread| log_one(&thread));
    print(format_args!("end of threads\n"));
}

fn log_one(thread: &Thread) {
    let seen = |is_running| if is_running { (Doing::Runs, None) } else { look(thread) };
    let Some((doing, calls)) = scheduler::look_at(thread, seen) else {
        return;
    };
    let cpu = thread.cpu.load(Relaxed) as usize;
    let kicked = if thread.is_kicked.load(Relaxed) { ", kicked" } else { "" };
    print(format_args!(
        "thread {:#x} {}: {doing}; processor {cpu}, ran {} ms{kicked}\n",
        thread.number,
        thread.name.as_str(),
        ms(scheduler::run_ns(thread)),
    ));
    log_locks(thread);
    if ptr::eq(thread, current_pointer()) {
        return backtrace::print(log_one as *const () as u64, cpu::frame_pointer());
    }
    let answer = || if doing == Doing::Runs { answer(cpu, thread) } else { None };
    if let Some(calls) = calls.or_else(answer) {
        let calls = calls.as_slice().iter().enumerate();
        calls.for_each(|(depth, &address)| backtrace::print_frame(depth, address));
    }
}

/// Logs the locks that a thread which does not run holds, and the one that it waits for; known with
/// `check` only.
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
