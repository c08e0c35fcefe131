//! Waiting on a word and waking (a futex on kernel addresses), park and unpark.
//!
//! Waiters are in a bucket by the word's address. A waker first claims a blocked thread (`Thread::claim`: BLOCKED to WAKING).
//! Of waker, deadline and kick only one succeeds, and it sets the result of the wait. Comparing the word and blocking are one
//! step because both sides hold the bucket. A word in shared memory can have an handler ([`set_handler`]), which is called in the
//! place of a waiter.
use super::{
    BLOCKED, INTERRUPTIBLE, RUNNABLE, Ref, Thread, WAKING, Waiter, consume_kick, current,
    scheduler, table, timers,
};
use crate::{
    arch::{
        boot::{DIRECT_MAP, KERNEL_BASE},
        paging::STACK_AREA,
    },
    spin::{NoInterrupts, NoPreempt, SpinLock},
    time,
};
use alloc::boxed::Box;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Relaxed, SeqCst},
};
use runqueue::{Fifo, Node, Store};
use sync::{Outcome, Sleep};

/// The outcome of a wait that was woken.
pub(super) const SIGNALLED: u8 = 0;
/// The outcome of a wait whose deadline passed.
pub const TIMED_OUT: u8 = 1;
const KICKED: u8 = 2;

const BUCKETS: usize = 256;

/// The waiters by the words of one hash.
struct Bucket {
    waiters: Fifo<Ref>,
    handlers: Option<&'static HandledWord>,
}

/// A word with an handler. It exists for ever.
struct HandledWord {
    address: usize,
    handler: WakeHandler,
    next: Option<&'static HandledWord>,
}

/// A function that is called when a word is woken, by the waking thread, as if it were the body of a thread that had waited.
pub type WakeHandler = Box<dyn Fn() + Send + Sync>;

static TABLE: [SpinLock<Bucket>; BUCKETS] = [const {
    SpinLock::new(class!("nucleus.wait"), Bucket { waiters: Fifo::new(), handlers: None })
}; BUCKETS];

fn bucket(address: usize) -> &'static SpinLock<Bucket> {
    let hash = (address as u64 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    &TABLE[hash as usize % BUCKETS]
}

/// Returns the waiter's links of `thread`; the lock of its bucket is held.
fn waiter<'a>(thread: Ref) -> &'a mut Waiter {
    // SAFETY: as the caller says.
    unsafe { &mut *thread.get().waiter.get() }
}

/// The links of threads in buckets.
struct Links;

impl Store<Ref> for Links {
    fn node(&mut self, of: Ref) -> &mut Node<Ref> {
        &mut waiter(of).node
    }
}

fn unlink(bucket: &mut Bucket, thread: Ref) {
    waiter(thread).is_linked = false;
    bucket.waiters.remove(&mut Links, thread);
}

/// Removes and claims the first blocked waiter of `address`.
fn take(bucket: &mut Bucket, address: usize) -> Option<Ref> {
    let is_ours = |thread: Ref| waiter(thread).address == address && thread.get().claim(SIGNALLED);
    let thread = bucket.waiters.find(&mut Links, is_ours)?;
    unlink(bucket, thread);
    Some(thread)
}

/// Blocks while `word` holds `expected`, until [`wake`], the deadline, or (if interruptible) a kick.
pub fn wait_on(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>, sleep: Sleep) -> Outcome {
    let (me, is_interruptible) = (current(), sleep == Sleep::Interruptible);
    let address = core::ptr::from_ref(word).addr();
    let _off = NoInterrupts::new();
    {
        let mut bucket = bucket(address).lock();
        if word.load(SeqCst) != expected {
            return Outcome::Signalled;
        }
        if is_interruptible && consume_kick(me) {
            return Outcome::Kicked;
        }
        if deadline_ns.is_some_and(|deadline_ns| time::now_ns() >= deadline_ns) {
            return Outcome::TimedOut;
        }
        let waiter = waiter(Ref::of(me));
        (waiter.address, waiter.is_linked) = (address, true);
        bucket.waiters.push_back(&mut Links, Ref::of(me));
        me.state.store(if is_interruptible { INTERRUPTIBLE } else { BLOCKED }, SeqCst);
    }
    let outcome = suspend(me, deadline_ns, sleep, None);
    finish(me, address, outcome)
}

/// Blocks the caller, whose state is set already, until it is claimed. `next`, which the caller claimed, runs in its place.
/// Returns the outcome. Interrupts are off.
#[inline]
pub(super) fn suspend(
    me: &Thread,
    deadline_ns: Option<u64>,
    sleep: Sleep,
    next: Option<Ref>,
) -> u8 {
    if let Some(deadline_ns) = deadline_ns {
        timers::arm(me, deadline_ns);
    }
    // The sender of an earlier kick found no blocked thread to wake.
    let kicked_before =
        sleep == Sleep::Interruptible && me.is_kicked.load(SeqCst) && me.claim(KICKED);
    if kicked_before {
        me.state.store(RUNNABLE, SeqCst);
    }
    match next {
        Some(next) if kicked_before => scheduler::unblock(next.get()),
        Some(next) => scheduler::hand_over(next.get()),
        None if kicked_before => {}
        None => scheduler::block(),
    }
    if deadline_ns.is_some() {
        timers::disarm(me);
    }
    outcome(me)
}

/// Returns why the wait of `me`, the caller, ended. A kick that ended it is consumed.
#[inline]
pub(super) fn outcome(me: &Thread) -> u8 {
    let outcome = me.outcome.load(Relaxed);
    if outcome == KICKED {
        consume_kick(me);
    }
    outcome
}

/// Finishes a wait: leaves the bucket and returns why the wait ended.
fn finish(me: &Thread, address: usize, outcome: u8) -> Outcome {
    if outcome == SIGNALLED {
        return Outcome::Signalled;
    }
    {
        let mut bucket = bucket(address).lock();
        if waiter(Ref::of(me)).is_linked {
            unlink(&mut bucket, Ref::of(me));
        }
    }
    if outcome == KICKED { Outcome::Kicked } else { Outcome::TimedOut }
}

/// Calls `handler`, which keeps the memory of `word`, whenever the word is woken from now on. A waker of the word may block.
pub fn set_handler(word: &AtomicU32, handler: WakeHandler) {
    let address = core::ptr::from_ref(word).addr();
    let handled = Box::leak(Box::new(HandledWord { address, handler, next: None }));
    let mut bucket = bucket(address).lock();
    handled.next = bucket.handlers;
    bucket.handlers = Some(handled);
}

/// Wakes up to `count` threads that wait on `word`. Returns how many. Only the address of `word` counts. Calls its handler,
/// if it has one.
///
/// All are taken at once: a thread that waits again before this returns is not woken again.
pub fn wake(word: &AtomicU32, count: u32) -> u32 {
    let address = core::ptr::from_ref(word).addr();
    let (mut others, mut woken) = (Fifo::new(), 0);
    let (first, handled) = {
        let mut bucket = bucket(address).lock();
        let first = if count > 0 { take(&mut bucket, address) } else { None };
        woken += u32::from(first.is_some());
        while (1..count).contains(&woken) {
            let Some(thread) = take(&mut bucket, address) else { break };
            // The thread is claimed and out of the bucket, so no other thread uses its links until it runs.
            others.push_back(&mut Links, thread);
            woken += 1;
        }
        let mut all = core::iter::successors(bucket.handlers, |handled| handled.next);
        (first, all.find(|handled| handled.address == address))
    };
    if let Some(first) = first {
        let _hold = NoPreempt::new();
        scheduler::unblock(first.get());
        while let Some(thread) = others.first() {
            others.remove_first(&mut Links, thread);
            scheduler::unblock(thread.get());
        }
    }
    if let Some(handled) = handled {
        handled.call();
    }
    woken
}

impl HandledWord {
    /// The caller does not sink during the call; if it should have, it does afterwards.
    fn call(&self) {
        let me = current();
        let was_attending = me.entity.is_attending.swap(true, Relaxed);
        (self.handler)();
        me.entity.is_attending.store(was_attending, Relaxed);
        if me.entity.is_over_share(time::now_ns) {
            let _off = NoInterrupts::new();
            scheduler::reschedule();
        }
    }
}

/// Ends `thread`'s wait if it is an interruptible one. Its kick was set before.
pub fn interrupt(thread: &Thread) {
    if thread.state.compare_exchange(INTERRUPTIBLE, WAKING, SeqCst, Relaxed).is_ok() {
        thread.outcome.store(KICKED, Relaxed);
        scheduler::unblock(thread);
    }
}

/// Returns the word on which a blocked thread waits, and its present value.
pub(super) fn awaited(thread: &Thread) -> (usize, u32) {
    // SAFETY: only the address of the field is made.
    let address = unsafe { &raw const (*thread.waiter.get()).address };
    // SAFETY: plain data, written by the thread itself before it blocked.
    let address = unsafe { address.read_volatile() };
    let stays = DIRECT_MAP..STACK_AREA;
    if !stays.contains(&(address as u64)) && address < KERNEL_BASE as usize {
        return (address, 0);
    }
    // SAFETY: the waiter keeps the word; the direct map and the image stay mapped even after.
    (address, unsafe { (*(address as *const AtomicU32)).load(Relaxed) })
}

/// Returns the deadline of a blocked thread's wait.
pub(super) fn deadline_ns(thread: &Thread) -> Option<u64> {
    // SAFETY: only the address of the field is made.
    let key = unsafe { &raw const (*thread.timer.get()).key };
    // SAFETY: plain data, written before the timer is armed.
    let at_ns = unsafe { key.read_volatile() };
    thread.is_timer_armed.load(Relaxed).then_some(at_ns)
}

/// Blocks until [`unpark`], before or after, the deadline or (if interruptible) a kick.
pub fn park(deadline_ns: Option<u64>, sleep: Sleep) -> Outcome {
    let me = current();
    loop {
        if me.token.swap(0, AcqRel) != 0 {
            return Outcome::Signalled;
        }
        match wait_on(&me.token, 0, deadline_ns, sleep) {
            Outcome::Signalled => {}
            other => return other,
        }
    }
}

/// Lets thread `number` return from [`park`], now or the next time.
pub fn unpark(number: u64) {
    if let Some(thread) = table::find(number)
        && thread.token.swap(1, AcqRel) == 0
    {
        wake(&thread.token, 1);
    }
}
