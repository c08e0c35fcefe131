//! One processor's scheduler: its run queue, the lock that guards it, and its use of time.
//!
//! [`Processor`] is the object, one for each processor, made by `scheduler::init_cpu` and never freed. Its lock guards
//! [`Queue`] and the scheduling state of the threads on it; interrupts are off while it is held. The counts beside it are
//! written by their own processor and read by all.
use super::{Policy, QueueNodes, Ref, Thread, timers};
use crate::{
    arch::{percpu, smp},
    time,
};
use alloc::{sync::Arc, vec::Vec};
use core::{
    cell::UnsafeCell,
    mem::offset_of,
    ptr,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
    },
};
use program::ProcessorTime;
use runqueue::{Class, Place, Ready, period, virtual_ns, weight};

pub(super) struct Queue {
    /// Queued threads. Its `next` is a component's parked thread that a signal of the running thread woke; it continues as
    /// soon as the running thread blocks.
    pub(super) ready: Ready<Ref>,
    pub(super) current: Ref,
    /// Time at which `current` was last charged.
    pub(super) charged_at_ns: u64,
}

/// A processor's scheduler.
pub(super) struct Processor {
    pub(super) is_locked: AtomicBool,
    pub(super) queue: UnsafeCell<Queue>,
    pub(super) idle: Arc<Thread>,
    /// Number of threads queued, without the running one: a hint without the lock.
    pub(super) queued: AtomicU32,
    pub(super) is_idle: AtomicBool,
    pub(super) idle_ns: AtomicU64,
    pub(super) user_ticks: AtomicU64,
    pub(super) system_ticks: AtomicU64,
    pub(super) busy_ns: AtomicU64,
    pub(super) switches: AtomicU64,
}

// SAFETY: `queue` is touched under `is_locked` only.
unsafe impl Sync for Processor {}
// SAFETY: as above.
unsafe impl Send for Processor {}

pub(super) static PROCESSORS: [AtomicPtr<Processor>; percpu::MAX_CPUS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; percpu::MAX_CPUS];

pub(super) fn processor(cpu: usize) -> Option<&'static Processor> {
    // SAFETY: made by `init_cpu`, never freed.
    unsafe { PROCESSORS[cpu].load(Acquire).as_ref() }
}

#[inline]
pub(super) fn this() -> &'static Processor {
    let processor = percpu::processor().cast::<Processor>();
    debug_assert!(!processor.is_null(), "no scheduler on this processor");
    // SAFETY: made by `init_cpu`, never freed; before that there are no threads, which alone call this.
    unsafe { &*processor }
}

/// Offset of the lock in a [`Processor`].
pub const IS_LOCKED_OFFSET: usize = offset_of!(Processor, is_locked);

impl Processor {
    /// Takes the lock. Interrupts are off.
    #[inline]
    pub(super) fn lock(&self) {
        if self.is_locked.swap(true, Acquire) {
            self.lock_later();
        }
    }

    #[cold]
    fn lock_later(&self) {
        while self.is_locked.swap(true, Acquire) {
            while self.is_locked.load(Relaxed) {
                core::hint::spin_loop();
            }
        }
    }

    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        self.is_locked.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    #[inline]
    pub(super) fn unlock(&self) {
        self.is_locked.store(false, Release);
    }

    /// Returns the state that the lock guards. The lock is held.
    #[inline]
    #[allow(
        clippy::mut_from_ref,
        reason = "the lock word makes it exclusive, also across a switch"
    )]
    pub(super) fn queue(&self) -> &mut Queue {
        // SAFETY: the caller holds the lock and no other reference from here.
        unsafe { &mut *self.queue.get() }
    }

    /// Charges the running thread for its time until now. The lock is held. A thread is charged at every tick. A time of
    /// more than two ticks was not all the thread's (a host took the processor away), so it neither ages the thread nor is
    /// counted.
    pub(super) fn charge(&self, now_ns: u64) {
        let queue = self.queue();
        let used_ns = now_ns.saturating_sub(queue.charged_at_ns);
        queue.charged_at_ns = now_ns;
        let thread = queue.current.get();
        if ptr::eq(thread, &raw const *self.idle) {
            self.idle_ns.store(self.idle_ns.load(Relaxed) + used_ns, Relaxed);
            return;
        }
        self.busy_ns.store(self.busy_ns.load(Relaxed) + used_ns, Relaxed);
        let ran_ns = thread.run_ns.load(Relaxed);
        thread.run_ns.store(ran_ns + used_ns, Relaxed);
        let used_ns = used_ns.min(2 * timers::TICK_NS);
        if let Policy::Fair { nice } = thread.policy() {
            let aged = thread.virtual_ns.load(Relaxed) + virtual_ns(used_ns, weight(nice));
            thread.virtual_ns.store(aged, Relaxed);
        }
        if let Some(share) = &thread.share {
            share.charge(now_ns, ran_ns, used_ns);
        }
    }

    /// Queues `thread`. The lock is held.
    pub(super) fn enqueue(&self, thread: &Thread, place: Place) {
        let (class, virtual_ns) = (thread.class(), thread.virtual_ns.load(Relaxed));
        if class == Class::SUNK && !self.is_idle.load(Relaxed) {
            thread.note_over_share();
        }
        let ready = &mut self.queue().ready;
        ready.insert(&mut QueueNodes, Ref::of(thread), class, virtual_ns, place);
        self.queued.store(self.queued.load(Relaxed) + 1, Relaxed);
    }

    /// Queues `thread`, a fair one, before all other fair threads, unless another one was queued so. Returns whether it
    /// did. The lock is held.
    #[inline]
    pub(super) fn enqueue_next(&self, thread: &Thread) -> bool {
        let is_free = self.queue().ready.insert_next(Ref::of(thread));
        if is_free {
            self.queued.store(self.queued.load(Relaxed) + 1, Relaxed);
        }
        is_free
    }

    /// Removes `thread`, which is queued here, from the queue. The lock is held.
    #[inline]
    pub(super) fn dequeue(&self, thread: &Thread) {
        self.queue().ready.remove(&mut QueueNodes, Ref::of(thread));
        self.queued.store(self.queued.load(Relaxed) - 1, Relaxed);
    }

    /// Removes the next thread, which exists, from the queue. The lock is held.
    #[inline]
    pub(super) fn dequeue_next(&self) {
        self.queue().ready.remove_next();
        self.queued.store(self.queued.load(Relaxed) - 1, Relaxed);
    }

    /// Returns whether a real-time thread is queued. The lock is held.
    #[inline]
    pub(super) fn has_real_time(&self) -> bool {
        self.queue().ready.highest().is_some()
    }

    /// Returns the queued thread that should run next. Threads whose share was used up since they were queued sink. The
    /// lock is held.
    #[inline]
    pub(super) fn best(&self) -> Option<Ref> {
        let best = self.queue().ready.best()?;
        if best.get().is_over_share() { self.best_but_sunk() } else { Some(best) }
    }

    #[cold]
    fn best_but_sunk(&self) -> Option<Ref> {
        loop {
            let ready = &self.queue().ready;
            let best = ready.best()?;
            let thread = best.get();
            if ready.class_of(&mut QueueNodes, best) == Class::SUNK || !thread.is_over_share() {
                return Some(best);
            }
            self.dequeue(thread);
            self.enqueue(thread, Place::Back);
        }
    }

    /// Queues sunk threads again in a new period. They get no compensation for the time of others. The lock is held.
    pub(super) fn raise(&self, now_ns: u64) {
        let mut sunk = self.queue().ready.raise(period(now_ns));
        while let Some(item) = sunk.first() {
            sunk.remove_first(&mut QueueNodes, item);
            self.queued.store(self.queued.load(Relaxed) - 1, Relaxed);
            let thread = item.get();
            let waited_ns = self.queue().ready.waited_ns(thread.virtual_ns.load(Relaxed));
            thread.virtual_ns.store(waited_ns, Relaxed);
            self.enqueue(thread, Place::Back);
        }
    }

    /// Returns whether the processor is idle and has no queued thread that it is about to run.
    pub(super) fn is_free(&self) -> bool {
        self.is_idle.load(Relaxed) && self.queued.load(Relaxed) == 0
    }

    /// Returns the time from which `thread`, which was queued now, should run instead of the running one: 0 for at once, `None`
    /// for the time of the next tick or later. The lock is held.
    pub(super) fn preempted_at(&self, thread: &Thread) -> Option<u64> {
        let queue = self.queue();
        let running = queue.current.get();
        match (thread.class(), running.class()) {
            _ if self.is_idle.load(Relaxed) => Some(0),
            (Class::FAIR, Class::FAIR) => {
                let virtual_ns = [thread, running].map(|one| one.virtual_ns.load(Relaxed));
                let times = [queue.charged_at_ns, time::now_ns()];
                runqueue::preempted_at(virtual_ns, times, running.preemptions.load(Relaxed))
            }
            (new, old) => (new > old).then_some(0),
        }
    }
}

pub(super) fn may_run(thread: &Thread, cpu: usize) -> bool {
    let affinity = thread.affinity.load(SeqCst);
    affinity & 1 << cpu != 0 || affinity & online_mask() == 0
}

/// Returns a set with a bit for each running processor.
pub fn online_mask() -> u64 {
    match smp::online() {
        64.. => u64::MAX,
        online => (1 << online) - 1,
    }
}

/// Returns the times of every processor.
pub fn processor_times() -> Vec<ProcessorTime> {
    let times = |processor: &Processor| {
        let busy = processor.busy_ns.load(Relaxed);
        let (user, system) = (&processor.user_ticks, &processor.system_ticks);
        let user_ns = program::user_ns(busy, user.load(Relaxed), system.load(Relaxed));
        ProcessorTime {
            user_ns,
            system_ns: busy - user_ns,
            idle_ns: processor.idle_ns.load(Relaxed),
            switches: processor.switches.load(Relaxed),
        }
    };
    (0..smp::online()).filter_map(processor).map(times).collect()
}

/// Returns the number of threads that run or could.
pub fn runnable() -> usize {
    let running = |one: &Processor| usize::from(!one.is_idle.load(Relaxed));
    let all = (0..smp::online()).filter_map(processor);
    all.map(|one| one.queued.load(Relaxed) as usize + running(one)).sum()
}
