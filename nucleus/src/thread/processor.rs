//! One processor's scheduler: its run queue, the lock that guards it, and its use of time.
//!
//! [`Processor`] is the object, one for each processor, made by `scheduler::init_cpu` and never freed. Its lock guards the
//! queue and the scheduling state of the threads on it (`libs/runqueue`, where all is decided); interrupts are off while it is
//! held. The [`Load`] beside it is read by all processors.
use super::{Queued, Ref, Thread};
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
        AtomicPtr,
        Ordering::{Acquire, SeqCst},
    },
};
use program::ProcessorTime;
use runqueue::{Load, QueueState, RunQueue};
use sync::spin::ByteLock;

/// A processor's scheduler.
pub(super) struct Processor {
    /// Guards `queue`. Interrupts are off while it is taken.
    pub(super) lock: ByteLock,
    queue: UnsafeCell<QueueState<Ref>>,
    pub(super) load: Load,
}

// SAFETY: `queue` is touched under `lock` only.
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
pub const IS_LOCKED_OFFSET: usize = offset_of!(Processor, lock);

impl Processor {
    /// Makes the scheduler of this processor, which runs `idle`. The idle thread stays for ever.
    pub(super) fn new(idle: Arc<Thread>) -> Processor {
        // SAFETY: a thread that stays.
        let idle = Ref::of(unsafe { &*Arc::into_raw(idle) });
        Processor {
            lock: ByteLock::new(),
            queue: UnsafeCell::new(QueueState::new(idle, time::now_ns())),
            load: Load::default(),
        }
    }

    /// Returns the queue that the lock guards. The lock is held.
    #[inline(always)]
    pub(super) fn queue(&self) -> RunQueue<'_, Ref, Queued> {
        // SAFETY: the caller holds the lock and no other reference from here.
        RunQueue::new(unsafe { &mut *self.queue.get() }, &self.load, Queued)
    }
}

pub(super) fn may_run(thread: &Thread, cpu: usize) -> bool {
    runqueue::allows(thread.affinity.load(SeqCst), cpu, smp::online())
}

/// Returns a set with a bit for each running processor.
pub fn online_mask() -> u64 {
    runqueue::all_of(smp::online())
}

/// Returns the times of every processor.
pub fn processor_times() -> Vec<ProcessorTime> {
    (0..smp::online()).filter_map(processor).map(|one| one.load.times()).collect()
}

/// Returns the number of threads that run or could.
pub fn runnable() -> usize {
    (0..smp::online()).filter_map(processor).map(|one| one.load.runnable()).sum()
}
