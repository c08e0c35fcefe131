//! The scheduler: a run queue a processor, switching, waking onto a processor, stealing when idle.
//!
//! The lock of a [`Processor`] guards its queue and the `node`, `is_on_queue` and `cpu` of the threads on it; it is held
//! across the context switch and released by the thread switched to. So a holder that finds a thread not on the queue knows
//! that its registers are saved. Real-time threads run by priority; the rest by smallest virtual time, which ages by weight
//! (CFS); last are those whose component has used up its share of the period (`runqueue::Share`), whatever their policy.
//! Locks: two processors' locks are held at once only if the second was taken by trying.
use super::{
    BLOCKED, DEAD, INTERRUPTIBLE, Policy, RUNNABLE, Ref, Thread, WAKING, current, current_pointer,
    processor::{PROCESSORS, Processor, may_run, processor, this},
    timers,
};
use crate::{
    arch::{apic, component, cpu, percpu, smp, switch},
    memory::{heap, shootdown, stacks::Stack},
    spin::NoInterrupts,
    time,
};
use alloc::{boxed::Box, sync::Arc};
use core::{
    arch::asm,
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering::{Relaxed, Release, SeqCst},
        fence,
    },
};
use runqueue::{Mode, Place, Reason, TICK_NS};

/// Makes this processor's scheduler; the caller becomes its idle thread. Interrupts are off.
pub fn init_cpu() {
    let cpu = percpu::cpu();
    let idle = Arc::new(Thread::new(0, "idle", Policy::Fair { nice: 19 }, None, None, None));
    idle.state.store(RUNNABLE, Relaxed);
    idle.is_on_queue.store(true, Relaxed);
    percpu::this().current.store(Arc::as_ptr(&idle).cast_mut().cast(), Relaxed);
    let made = Box::into_raw(Box::new(Processor::new(idle)));
    percpu::this().processor.store(made.cast(), Relaxed);
    PROCESSORS[cpu].store(made, Release);
}

/// Makes the stack on which processor `cpu` (not 0) starts. Returns its top.
///
/// # Panics
/// If there is no memory for the stack.
pub fn idle_stack(_cpu: usize) -> u64 {
    let stack = Stack::new().expect("no memory for an idle thread's stack");
    let top = stack.top();
    core::mem::forget(stack);
    top
}

/// Runs the idle thread's loop. Interrupts are off at entry.
pub fn idle() -> ! {
    loop {
        cpu::disable_interrupts();
        switch_away(Reason::Preempted);
        heap::shrink_here();
        if percpu::this().need_resched.load(SeqCst) == 0 {
            // SAFETY: interrupts come on with the halt, so one that is pending ends it.
            unsafe { asm!("sti", "hlt", options(nostack)) };
        }
    }
}

/// Gives the processor to the best thread, which may be the caller if that is runnable. Interrupts are off.
fn switch_away(reason: Reason) {
    let me = current();
    let here = this();
    here.lock.take();
    percpu::this().need_resched.store(0, Relaxed);
    let now_ns = time::now_ns();
    here.queue().charge(now_ns);
    match me.state.load(SeqCst) {
        RUNNABLE if here.queue().idle() == Ref::of(me) => {}
        RUNNABLE => {
            let place = here.queue().place_of(Ref::of(me), reason);
            if !may_run(me, percpu::cpu()) {
                return move_away(here, me);
            }
            if here.load.queued() == 0 && !me.entity.is_over_share(|| now_ns) {
                return here.lock.release();
            }
            here.queue().enqueue(Ref::of(me), place);
        }
        _ => {
            me.blocked_at_ns.store(now_ns, Relaxed);
            me.is_on_queue.store(false, Relaxed);
        }
    }
    let next = pick(here);
    switch_to(here, me, next, now_ns, reason);
}

/// Leaves this processor because the caller's affinity changed. Another thread here queues the caller elsewhere. The lock is
/// held.
fn move_away(here: &'static Processor, me: &Thread) {
    me.is_on_queue.store(false, Relaxed);
    me.state.store(WAKING, Relaxed);
    let next = pick(here);
    MOVING[percpu::cpu()].store(ptr::from_ref(me).cast_mut(), Relaxed);
    switch_to(here, me, next, time::now_ns(), Reason::Preempted);
}

/// For each processor, a thread that left it and waits to be queued on another, which the thread switched to does.
static MOVING: [AtomicPtr<Thread>; percpu::MAX_CPUS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; percpu::MAX_CPUS];

/// Takes the thread to run next from the queue or from another processor's queue, or else the idle thread. The lock is held.
fn pick(here: &'static Processor) -> Ref {
    match here.queue().take_best() {
        Some(best) if !is_over_share(best) => best,
        None => steal(here, |_| true).unwrap_or_else(|| here.queue().idle()),
        Some(sunk) => {
            let Some(better) = steal(here, |thread| !is_over_share(thread)) else { return sunk };
            here.queue().enqueue(sunk, Place::Front);
            better
        }
    }
}

fn is_over_share(thread: Ref) -> bool {
    thread.get().entity.is_over_share(time::now_ns)
}

/// Takes a thread that waits on another processor and that `is_wanted`. The lock of `here` is held.
fn steal(here: &'static Processor, is_wanted: impl Fn(Ref) -> bool) -> Option<Ref> {
    let cpu = percpu::cpu();
    for other in (1..smp::online()).map(|step| (cpu + step) % smp::online()) {
        let Some(victim) = processor(other).filter(|victim| victim.load.queued() > 0) else {
            continue;
        };
        if !victim.lock.try_take() {
            // This processor tries again.
            percpu::this().want_reschedule();
            continue;
        }
        let to_ns = here.queue().smallest_ns();
        let accept = |thread: Ref| may_run(thread.get(), cpu) && is_wanted(thread);
        let found = victim.queue().take_for(to_ns, accept);
        if let Some(thread) = found {
            thread.get().cpu.store(cpu as u32, Relaxed);
        }
        victim.lock.release();
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Switches from `me` to `next`. The lock is held and is released on the other side.
fn switch_to(here: &'static Processor, me: &Thread, next: Ref, now_ns: u64, reason: Reason) {
    let next = next.get();
    if ptr::eq(next, me) {
        return here.lock.release();
    }
    if here.queue().begin(Ref::of(me), Ref::of(next), reason) {
        timers::program(now_ns + TICK_NS);
    }
    me.extended.save_if_live();
    percpu::forget_ready_space();
    percpu::this().current.store(ptr::from_ref(next).cast_mut().cast(), Relaxed);
    // SAFETY: a thread keeps the space it runs in.
    if let Some(space) = unsafe { next.space_pointer.load(Relaxed).as_ref() } {
        shootdown::activate(space);
    }
    let to = match next.parked_on() {
        // SAFETY: the lock makes it ours.
        Some(kernel_stack) => unsafe { component::prepare(kernel_stack) },
        // SAFETY: written by the switch away from `next`, or by `spawn`; the lock makes it ours.
        None => unsafe { *next.stack_pointer.get() },
    };
    if let Some(from) = me.parked_on() {
        // SAFETY: as below; what a parked thread keeps is not on its stack.
        unsafe { component::switch_parked(to, ptr::from_ref(me).cast_mut().cast(), from) };
    }
    // SAFETY: interrupts are off, `next` was not running, and both threads stay while the lock is held.
    let previous =
        unsafe { switch::switch(me.stack_pointer.get(), to, ptr::from_ref(me).cast_mut().cast()) };
    // SAFETY: the first thing after the switch.
    unsafe { finish_switch(previous.cast()) };
}

/// Finishes a switch in the thread switched to: releases the lock, and drops `previous` if it ended.
///
/// # Safety
/// `previous` was switched from just now, and this is the first thing after that.
pub unsafe fn finish_switch(previous: *const Thread) {
    let moving = MOVING[percpu::cpu()].swap(ptr::null_mut(), Relaxed);
    // SAFETY: it is there: nobody else runs or ends it before the lock is let go.
    let is_dead = unsafe { &*previous }.state.load(Relaxed) == DEAD;
    this().lock.release();
    // SAFETY: it waits to be queued, by us.
    if let Some(thread) = unsafe { moving.as_ref() } {
        place(thread);
    }
    if is_dead {
        // SAFETY: the reference `start` left for the running thread; it runs no more.
        drop(unsafe { Arc::from_raw(previous) });
    }
}

/// Ends the calling thread for ever.
pub fn exit() -> ! {
    cpu::disable_interrupts();
    current().state.store(DEAD, SeqCst);
    switch_away(Reason::Blocked);
    unreachable!("a dead thread ran")
}

/// Queues a new thread; it keeps the reference until it ends.
pub fn start(thread: Arc<Thread>) {
    // SAFETY: given back in `finish_switch` after it ended.
    let thread = unsafe { &*Arc::into_raw(thread) };
    let _off = NoInterrupts::new();
    if let Some(here) = processor(percpu::cpu()) {
        here.lock.take();
        thread.entity.virtual_ns.store(here.queue().smallest_ns(), Relaxed);
        here.lock.release();
    }
    thread.state.store(WAKING, SeqCst);
    place(thread);
    drop(_off);
    reschedule_if_wanted();
}

/// Leaves the processor if the calling thread must still block. Interrupts are off.
pub fn block() {
    debug_assert_eq!(percpu::this().preempt_count.load(Relaxed), 0, "blocking with preemption off");
    switch_away(Reason::Blocked);
}

/// Blocks the caller and runs `next`, which it claimed, at once in its place and on its time (L1), without touching a queue.
/// If that is not possible, `next` is queued like any woken thread. Interrupts are off.
pub fn hand_over(next: &Thread) {
    debug_assert_eq!(percpu::this().preempt_count.load(Relaxed), 0, "blocking with preemption off");
    let me = current();
    let here = this();
    let cpu = percpu::cpu();
    let has_left = next.cpu.load(Relaxed) == cpu as u32 || has_left(next);
    here.lock.take();
    let is_blocked = matches!(me.state.load(Relaxed), BLOCKED | INTERRUPTIBLE);
    let is_best = here.queue().may_go_first(Ref::of(next));
    if !(has_left && is_blocked && is_best && may_run(next, cpu)) {
        here.lock.release();
        unblock(next);
        return block();
    }
    let now_ns = time::now_ns();
    here.queue().charge(now_ns);
    me.blocked_at_ns.store(now_ns, Relaxed);
    me.is_on_queue.store(false, Relaxed);
    next.cpu.store(cpu as u32, Relaxed);
    next.entity.virtual_ns.fetch_max(here.queue().lent_ns(&me.entity), Relaxed);
    next.is_on_queue.store(true, Release);
    next.state.store(RUNNABLE, Relaxed);
    switch_to(here, me, Ref::of(next), now_ns, Reason::Blocked);
}

/// Returns whether `thread`, which the caller claimed, has left the processor on which it blocked.
#[cold]
fn has_left(thread: &Thread) -> bool {
    let Some((home, is_on_queue)) = lock_home(thread) else { return false };
    home.lock.release();
    !is_on_queue
}

/// Makes a thread that the caller claimed run again.
pub fn unblock(thread: &Thread) {
    {
        let _off = NoInterrupts::new();
        let Some(home) = processor(thread.cpu.load(Relaxed) as usize) else { return };
        home.lock.take();
        if thread.is_on_queue.load(Relaxed) {
            // The thread has not left its processor yet.
            thread.state.store(RUNNABLE, SeqCst);
            home.lock.release();
            return;
        }
        home.lock.release();
        place(thread);
    }
    reschedule_if_wanted();
}

/// Chooses the processor for a thread that is about to run.
pub(super) fn choose(thread: &Thread) -> usize {
    let last = thread.cpu.load(Relaxed) as usize;
    let is_idle = |cpu: usize| processor(cpu).is_some_and(|one| one.load.is_free());
    let online = smp::online();
    if online == 1 {
        return percpu::cpu();
    }
    runqueue::choose(online, last, |cpu| may_run(thread, cpu), is_idle)
}

/// Queues `thread` (state WAKING, on no queue) on the processor chosen for it. Interrupts are off.
fn place(thread: &Thread) {
    while !place_on(thread, choose(thread)) {}
}

/// Does [`place`] on processor `cpu`. Returns `false` if the thread may not run there any more.
fn place_on(thread: &Thread, cpu: usize) -> bool {
    let Some(target) = processor(cpu) else { return true };
    let home = processor(thread.cpu.load(Relaxed) as usize).unwrap_or(target);
    let mut from_ns = None;
    if !ptr::eq(home, target) {
        home.lock.take();
        from_ns = Some(home.queue().smallest_ns());
        home.lock.release();
    }
    target.lock.take();
    target.queue().admit(Ref::of(thread), from_ns);
    thread.cpu.store(cpu as u32, Relaxed);
    // Stored before the affinity is read: a thread that changes the affinity reads this afterwards ([`change`]).
    thread.is_on_queue.store(true, SeqCst);
    if !may_run(thread, cpu) {
        thread.is_on_queue.store(false, Relaxed);
        target.lock.release();
        return false;
    }
    thread.state.store(RUNNABLE, SeqCst);
    target.queue().enqueue(Ref::of(thread), Place::Back);
    let preempted_at = target.queue().preempted_at(Ref::of(thread));
    let is_here = cpu == percpu::cpu();
    // A thread that wakes another fair thread is often about to wait for it, so waiting saves a switch. Preempting it might
    // also stop it with a lock held that others wait for.
    let is_later = thread.entity.real_time() == 0 && !target.load.is_idle();
    match (preempted_at, is_later) {
        (None, _) => {}
        (Some(at_ns @ 1..), _) if is_here && percpu::this().need_resched.load(Relaxed) == 0 => {
            timers::tick_by(at_ns)
        }
        (_, true) => percpu::of(cpu).want_reschedule_later(),
        (_, false) => percpu::of(cpu).want_reschedule(),
    }
    target.lock.release();
    if preempted_at.is_some() {
        interrupt(cpu);
    }
    true
}

/// Gives the processor away if that is wanted and allowed here.
#[inline]
pub fn reschedule_if_wanted() {
    let data = percpu::this();
    let may = data.is_preempted()
        && data.preempt_count.load(Relaxed) == 0
        && data.interrupt_nesting.load(Relaxed) == 0
        && cpu::interrupts_enabled();
    if may {
        reschedule_now();
    }
}

/// Gives the processor away if that is wanted at all. Nothing is held.
pub fn give_way() {
    if percpu::this().need_resched.load(Relaxed) != 0 {
        reschedule_now();
    }
}

#[cold]
fn reschedule_now() {
    let _off = NoInterrupts::new();
    reschedule();
}

/// Gives the processor to the best thread. Interrupts are off.
pub fn reschedule() {
    if processor(percpu::cpu()).is_some() {
        switch_away(Reason::Preempted);
    }
}

/// Preempts the kernel after an interrupt of it, if that is wanted. Interrupts are off.
pub fn preempt_from_interrupt() {
    let data = percpu::this();
    let may = data.is_preempted()
        && data.preempt_count.load(Relaxed) == 0
        && data.interrupt_nesting.load(Relaxed) == 0
        && !current_pointer().is_null();
    // The idle thread checks by itself as soon as it continues.
    if may && !this().load.is_idle() {
        reschedule();
    }
}

/// Lets other threads of the caller's class run first.
pub fn yield_now() {
    let _off = NoInterrupts::new();
    let me = current();
    let here = this();
    here.lock.take();
    here.queue().charge(time::now_ns());
    here.queue().step_back(Ref::of(me));
    here.lock.release();
    switch_away(Reason::Blocked);
}

/// Handles the tick of a busy processor. Returns whether it is busy. Interrupts are off.
pub fn tick(now_ns: u64) -> bool {
    let Some(here) = processor(percpu::cpu()) else { return false };
    if here.load.is_idle() {
        return false;
    }
    let is_user = percpu::this().user_interrupted.load(Relaxed) != 0;
    let mode = if is_user { Mode::User } else { Mode::System };
    here.lock.take();
    let tick = here.queue().tick(Ref::of(current()), mode, now_ns);
    here.lock.release();
    match tick.gives_way_to {
        Some(_) if tick.is_lazy => percpu::this().want_reschedule_lazily(),
        Some(_) => percpu::this().want_reschedule(),
        None => {}
    }
    if tick.is_contended {
        call_idle();
    }
    true
}

/// Wakes an idle processor so that it may steal.
fn call_idle() {
    let idle = (0..smp::online()).find(|&cpu| processor(cpu).is_some_and(|one| one.load.is_idle()));
    if let Some(cpu) = idle {
        percpu::of(cpu).want_reschedule();
        interrupt(cpu);
    }
}

/// Interrupts processor `cpu`, if it is another one, for it to look at what it should do.
fn interrupt(cpu: usize) {
    if cpu != percpu::cpu() {
        apic::send_ipi(cpu, apic::RESCHEDULE_VECTOR);
    }
}

/// Interrupts the processor that runs `thread`, if it is another one.
pub fn interrupt_if_running(thread: &Thread) {
    let _off = NoInterrupts::new();
    let cpu = thread.cpu.load(Relaxed) as usize;
    let Some(processor) = processor(cpu).filter(|_| cpu != percpu::cpu()) else { return };
    processor.lock.take();
    let is_running = processor.queue().is_running(Ref::of(thread));
    processor.lock.release();
    if is_running {
        interrupt(cpu);
    }
}

/// Locks the run queue of the processor that `thread` is on or was on last. Returns whether it runs or is queued there; if
/// not, it may be woken onto another at any moment. Interrupts are off.
fn lock_home(thread: &Thread) -> Option<(&'static Processor, bool)> {
    loop {
        let cpu = thread.cpu.load(Relaxed);
        let home = processor(cpu as usize)?;
        home.lock.take();
        // A thread that queues it elsewhere stores the new processor first.
        let is_on_queue = thread.is_on_queue.load(SeqCst);
        if thread.cpu.load(Relaxed) == cpu {
            return Some((home, is_on_queue));
        }
        home.lock.release();
    }
}

/// Calls `look` with whether `thread` runs at this moment. During the call it does not start or stop, except that it may be
/// woken onto another processor.
pub fn look_at<T>(thread: &Thread, look: impl FnOnce(bool) -> T) -> Option<T> {
    let _off = NoInterrupts::new();
    let (home, _) = lock_home(thread)?;
    let seen = look(home.queue().is_running(Ref::of(thread)));
    home.lock.release();
    Some(seen)
}

/// Changes by `act` a property that determines the place of `thread` in queues. `act` runs again if the thread was queued
/// meanwhile.
pub fn change(thread: &Thread, act: impl Fn(&Thread)) {
    while !change_at_home(thread, &act) {
        // A thread that queues it either has not seen the change, in which case this sees it queued, or sees the change
        // ([`place_on`]).
        fence(SeqCst);
        if !thread.is_on_queue.load(SeqCst) {
            break;
        }
    }
    reschedule_if_wanted();
}

/// Does [`change`] whether the thread runs or is queued or neither. Returns whether it runs or is queued.
fn change_at_home(thread: &Thread, act: impl Fn(&Thread)) -> bool {
    let _off = NoInterrupts::new();
    let Some((home, is_on_queue)) = lock_home(thread) else { return true };
    let is_running = home.queue().is_running(Ref::of(thread));
    let is_queued = is_on_queue && !is_running;
    if is_queued {
        home.queue().dequeue(Ref::of(thread));
    }
    act(thread);
    let cpu = thread.cpu.load(Relaxed) as usize;
    let must_move = !may_run(thread, cpu);
    if is_queued && must_move {
        thread.is_on_queue.store(false, Relaxed);
        thread.state.store(WAKING, SeqCst);
    } else if is_queued {
        home.queue().enqueue(Ref::of(thread), Place::Back);
    }
    home.lock.release();
    if is_queued && must_move {
        place(thread);
    } else {
        percpu::of(cpu).want_reschedule();
        interrupt(cpu);
    }
    is_on_queue
}

/// Returns the processor time that `thread` has used, up to now if it runs.
pub fn run_ns(thread: &Thread) -> u64 {
    let _off = NoInterrupts::new();
    let used_ns = thread.entity.run_ns.load(Relaxed);
    let Some(home) = processor(thread.cpu.load(Relaxed) as usize) else { return used_ns };
    home.lock.take();
    if home.queue().is_running(Ref::of(thread)) {
        home.queue().charge(time::now_ns());
    }
    home.lock.release();
    thread.entity.run_ns.load(Relaxed)
}
