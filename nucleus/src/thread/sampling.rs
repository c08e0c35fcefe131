//! The nucleus's part of the sampling profiler (B9). While it is on, the timer interrupts each processor by a vector of its
//! own at the requested rate, and a sample of the processor's activity is pushed to its ring. While it is off, no other
//! path is affected.
//!
//! A sample is: time, thread, its name (two words), calls of the kernel, 0, calls of the program; each innermost first.
use super::{any_current, dump, timers};
use crate::{
    arch::{apic, percpu, smp, traps},
    capability::Region,
    memory::space::Inner,
    spin::SpinLock,
};
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use program::Registers;
use sync::samples::Samples;

/// The greatest number of calls of a program in a sample.
const DEPTH: usize = 32;

static PERIOD_NS: AtomicU64 = AtomicU64::new(0);
/// The memory of the rings, by processor; none while sampling is off.
static RINGS: SpinLock<Vec<Region>> = SpinLock::new(class!("nucleus.samples"), Vec::new());

/// Starts sampling of every processor, each `period_ns`, to its ring of `rings`. A period of 0, without rings, stops it; then
/// no earlier ring is written any more.
pub fn sample_every(period_ns: u64, rings: Vec<Region>) {
    let before = core::mem::replace(&mut *RINGS.lock(), rings);
    drop(before);
    if PERIOD_NS.swap(period_ns, SeqCst) == 0 && period_ns > 0 {
        (0..smp::online()).for_each(|cpu| apic::send_ipi(cpu, apic::SAMPLE_VECTOR));
    }
}

/// Takes a sample. Interrupts are off.
pub fn sample_interrupt(now_ns: u64) {
    let period_ns = PERIOD_NS.load(SeqCst);
    if period_ns == 0 {
        apic::set_timer_vector(apic::TIMER_VECTOR);
        return timers::timer_interrupt(now_ns);
    }
    apic::set_timer_vector(apic::SAMPLE_VECTOR);
    note(now_ns);
    timers::periodic_interrupt(now_ns, period_ns);
}

fn note(now_ns: u64) {
    // An idle thread has no stack from the cache.
    let Some(me) = any_current().filter(|me| me.stack.is_some()) else { return };
    let (here, stack) = (percpu::this(), dump::stack_of(me));
    let end = here.registers_end.load(Relaxed);
    let is_user = here.user_interrupted.load(Relaxed) != 0;
    let calls = (!is_user).then(traps::interrupted);
    let calls = calls.map_or_else(Default::default, |(rip, rbp)| dump::collect(rip, rbp, &stack));
    // Registers of another thread that entered user mode here are elsewhere.
    let has_user = is_user || stack.contains(&(end as u64));
    // SAFETY: the thread runs, so the space and the registers that it left user mode with are there.
    let program = unsafe { me.space_pointer.load(Relaxed).as_ref() }.filter(|_| has_user);
    let program = program.into_iter().flat_map(|space: &Inner| {
        // SAFETY: as above.
        let Registers { rip, rbp, .. } = unsafe { *end.wrapping_sub(1) };
        core::iter::once(rip).chain(space.calls(rbp, DEPTH))
    });
    let head = [now_ns, me.number].into_iter().chain(me.name.words());
    let kernel = calls.as_slice().iter().copied().chain([0]);
    // A ring is released by another thread, so that no memory is freed here.
    if let Some(ring) = RINGS.lock().get(percpu::cpu()) {
        Samples::new(ring.words()).push(head.chain(kernel).chain(program));
    }
}
