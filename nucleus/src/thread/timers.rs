//! Deadlines: each processor has a heap of waiting threads, and programs its timer for the first.
//!
//! The timer is a one-shot, and setting it is expensive, so a cancelled deadline is not unprogrammed: the
//! interrupt then finds nothing to do. While a thread runs there is also a tick ([`TICK_NS`]) for time
//! slices and the accounting of user and system time; an idle processor has none.
use super::{Ref, Thread, TimerNodes, scheduler, wait};
use crate::{arch::percpu, spin::SpinLock, time};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use runqueue::{Heap, TICK_NS};

const NEVER: u64 = u64::MAX;

static TIMERS: [SpinLock<Heap<Ref>>; percpu::MAX_CPUS] =
    [const { SpinLock::new(class!("nucleus.timers"), Heap::new()) }; percpu::MAX_CPUS];
/// Time at which each processor's timer goes off; written by that processor alone.
static PROGRAMMED: [AtomicU64; percpu::MAX_CPUS] =
    [const { AtomicU64::new(NEVER) }; percpu::MAX_CPUS];

/// Time of each processor's next tick, while its timer is periodic.
static TICK_AT: [AtomicU64; percpu::MAX_CPUS] = [const { AtomicU64::new(0) }; percpu::MAX_CPUS];

/// Ensures that this processor's timer goes off at `deadline_ns` or before. Interrupts are off.
#[inline]
pub fn program(deadline_ns: u64) {
    let programmed = &PROGRAMMED[percpu::cpu()];
    if deadline_ns < programmed.load(Relaxed) {
        programmed.store(deadline_ns, Relaxed);
        time::set_timer(deadline_ns);
    }
}

/// Ensures that this processor's next tick is at `at_ns` or before. Interrupts are off.
pub fn tick_by(at_ns: u64) {
    TICK_AT[percpu::cpu()].fetch_min(at_ns, Relaxed);
    program(at_ns);
}

/// Wakes `me`, the caller, at `deadline_ns`. Interrupts are off.
pub fn arm(me: &Thread, deadline_ns: u64) {
    let cpu = percpu::cpu();
    let mut heap = TIMERS[cpu].lock();
    me.timer_cpu.store(cpu as u32, Relaxed);
    // SAFETY: the timers' lock is held, and the node is in no heap.
    unsafe { &mut *me.timer.get() }.key = deadline_ns;
    heap.insert(&mut TimerNodes, Ref::of(me));
    me.is_timer_armed.store(true, Relaxed);
    drop(heap);
    program(deadline_ns);
}

/// Cancels [`arm`] if the deadline has not passed.
pub fn disarm(me: &Thread) {
    let mut heap = TIMERS[me.timer_cpu.load(Relaxed) as usize].lock();
    if me.is_timer_armed.load(Relaxed) {
        heap.remove(&mut TimerNodes, Ref::of(me));
        me.is_timer_armed.store(false, Relaxed);
    }
}

/// Takes the first thread whose deadline is not after `now_ns`. If it was still blocked, returns it for the
/// caller to wake.
fn expired(cpu: usize, now_ns: u64) -> Option<Option<Ref>> {
    let mut heap = TIMERS[cpu].lock();
    if heap.smallest(&mut TimerNodes)? > now_ns {
        return None;
    }
    let first = heap.peek()?;
    heap.remove(&mut TimerNodes, first);
    let thread = first.get();
    // The thread is claimed before it can see that it is disarmed: until then it cannot have ended.
    let is_ours = thread.claim(wait::TIMED_OUT);
    thread.is_timer_armed.store(false, Relaxed);
    Some(is_ours.then_some(first))
}

/// Returns the first deadline of processor `cpu`.
#[inline(always)]
fn first_ns(cpu: usize) -> u64 {
    TIMERS[cpu].lock().smallest(&mut TimerNodes).unwrap_or(NEVER)
}

/// Handles the timer's interrupt. Interrupts are off.
pub fn timer_interrupt(now_ns: u64) {
    let cpu = percpu::cpu();
    PROGRAMMED[cpu].store(NEVER, Relaxed);
    while let Some(expired) = expired(cpu, now_ns) {
        if let Some(thread) = expired {
            scheduler::unblock(thread.get());
        }
    }
    if scheduler::tick(now_ns) {
        program(now_ns + TICK_NS);
    }
    program(first_ns(cpu));
}

/// Handles the timer's interrupt while it goes off every `period_ns`, whatever the deadlines. Interrupts
/// are off.
pub fn periodic_interrupt(now_ns: u64, period_ns: u64) {
    let cpu = percpu::cpu();
    let first_ns = first_ns(cpu);
    if now_ns >= first_ns.min(TICK_AT[cpu].load(Relaxed)) {
        TICK_AT[cpu].store(now_ns + TICK_NS, Relaxed);
        timer_interrupt(now_ns);
    } else {
        PROGRAMMED[cpu].store(NEVER, Relaxed);
        program(first_ns);
    }
    program(now_ns + period_ns);
}
