//! Threads: the thread object, starting and ending threads, and the requests of other threads to them.
//!
//! [`Thread`] is the object; `processor` is a run queue, `scheduler` decides which thread runs, `wait` blocks and wakes,
//! `timers` keep deadlines, `table` finds threads by number. A thread that runs may use its own [`Thread`] freely
//! ([`current`]); other threads reach it by a counted reference from the table, or through a queue whose lock keeps it
//! there.
//!
//! Locks, outermost first: a wait bucket, a processor's timers, a processor's run queue. Each is
//! held alone, but for the table's.
mod dump;
mod endpoint;
mod parked;
mod processor;
mod sampling;
mod scheduler;
mod table;
mod timers;
mod wait;
mod watchdog;

use crate::{
    arch::{cpu, fpu, percpu, switch},
    capability::Capability,
    memory::{
        NoMemory, charge, shootdown,
        space::{Inner, Space},
        stacks::{self, Stack},
    },
    objects::{Kind, LiveObject},
    spin::NoInterrupts,
    time, trace,
};
use alloc::{boxed::Box, sync::Arc};
use core::{
    cell::UnsafeCell,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, SeqCst},
    },
};
pub use dump::{log_all, sample};
pub use endpoint::{Along, Endpoint, Wait, lay_along, set_message_area, take_along, with_along};
use ipc::{Party, Serving};
use parked::Parking;
pub use parked::{Fast, Step, finish_parked, let_pass, serve_at};
pub use processor::{IS_LOCKED_OFFSET, online_mask, processor_times, runnable};
use runqueue::{Entities, Entity, Node, Share, Told};
pub use sampling::{sample_every, sample_interrupt};
pub use scheduler::{
    finish_switch, give_way, idle, idle_stack, init_cpu, preempt_from_interrupt, reschedule,
    reschedule_if_wanted, yield_now,
};
pub use timers::timer_interrupt;
pub use wait::{WakeHandler, park, set_handler, unpark, wait_on, wake};
pub use watchdog::start as start_watchdog;

pub use program::{CpuTime, Policy};
pub use sync::Sleep;
use text::ShortName;

/// The body of a thread.
pub type Body = Box<Box<dyn FnOnce() + Send>>;

const RUNNABLE: u8 = 0;
const BLOCKED: u8 = 1;
/// State: claimed by the thread that wakes it, not yet queued.
const WAKING: u8 = 2;
const DEAD: u8 = 3;
/// State: blocked as in `BLOCKED`, and a kick may claim it too.
const INTERRUPTIBLE: u8 = 4;
/// Links of a wait bucket's list.
#[derive(Debug, Default)]
struct Waiter {
    address: usize,
    is_linked: bool,
    node: Node<Ref>,
}

/// A thread.
#[derive(Debug, Default)]
pub struct Thread {
    _object: LiveObject,
    number: u64,
    /// The kernel stack; `None` for idle threads. It goes back to the cache with the thread.
    stack: Option<Stack>,
    stack_pointer: UnsafeCell<u64>,
    body: UnsafeCell<Option<Body>>,
    state: AtomicU8,
    /// Time at which the thread last gave its processor up to wait, except by passing to a thread of its component.
    blocked_at_ns: AtomicU64,
    entity: Entity,
    affinity: AtomicU64,
    /// The processor whose run queue's lock guards `node` and `is_on_queue`.
    cpu: AtomicU32,
    /// The thread runs or is queued; false once it blocked and left its processor.
    is_on_queue: AtomicBool,
    node: UnsafeCell<Node<Ref>>,
    /// Links in a wait bucket, guarded by the bucket's lock.
    waiter: UnsafeCell<Waiter>,
    outcome: AtomicU8,
    /// Guarded by the lock of the endpoint at which the thread takes part.
    party: UnsafeCell<Party<Ref>>,
    /// Guarded by the lock of the endpoint whose call the thread has received.
    serving: UnsafeCell<Serving<Ref>>,
    /// The 64 words of the messages that the thread sends and receives, while it takes part; or null.
    message_area: AtomicPtr<u64>,
    parking: Parking,
    /// The capability beside its message; guarded as `party`.
    capability: UnsafeCell<Option<Capability>>,
    /// Links in a heap of timers, guarded by the lock of the timers of `timer_cpu`.
    timer: UnsafeCell<Node<Ref>>,
    timer_cpu: AtomicU32,
    is_timer_armed: AtomicBool,
    is_kicked: AtomicBool,
    told: Told,
    /// The thread frees memory, so its allocations may use the reserve.
    uses_reserve: AtomicBool,
    token: AtomicU32,
    /// The space that the thread runs in, kept alive by `space`, which only the thread itself touches.
    space_pointer: AtomicPtr<Inner>,
    space: UnsafeCell<Option<Arc<Inner>>>,
    /// Extended state of the thread's program.
    pub extended: fpu::State,
    #[cfg(feature = "check")]
    held: UnsafeCell<sync::check::HeldLocks>,
    name: ShortName,
}

// SAFETY: each `UnsafeCell` says by whom or under which lock it is touched.
unsafe impl Sync for Thread {}
// SAFETY: nothing in it belongs to a processor while it does not run.
unsafe impl Send for Thread {}

/// A thread's name in a queue: the thread exists as long as it is in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ref(NonNull<Thread>);

// SAFETY: used under the lock of the queue that has it.
unsafe impl Send for Ref {}

impl Ref {
    fn of(thread: &Thread) -> Ref {
        Ref(NonNull::from(thread))
    }
    /// Returns the thread; the caller knows that it still exists.
    fn get<'a>(self) -> &'a Thread {
        // SAFETY: see the type.
        unsafe { self.0.as_ref() }
    }
}

/// Threads as their run queues see them.
#[derive(Debug)]
struct Queued;

impl runqueue::Store<Ref> for Queued {
    fn node(&mut self, of: Ref) -> &mut Node<Ref> {
        // SAFETY: the run queue's lock is held, and nobody holds another node's reference meanwhile.
        unsafe { &mut *of.get().node.get() }
    }
}

impl Entities<Ref> for Queued {
    #[inline(always)]
    fn entity(&self, of: Ref) -> &Entity {
        &of.get().entity
    }
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        time::now_ns()
    }
    fn note_over_share(&self, of: Ref) {
        trace::point("over-share", of.get().number, of.get().entity.run_ns.load(Relaxed));
    }
}

/// The links of threads in heaps of timers.
struct TimerNodes;

impl runqueue::Store<Ref> for TimerNodes {
    fn node(&mut self, of: Ref) -> &mut Node<Ref> {
        // SAFETY: the timers' lock is held, and nobody holds another node's reference meanwhile.
        unsafe { &mut *of.get().timer.get() }
    }
}

impl Thread {
    fn new(
        number: u64,
        name: &str,
        policy: Policy,
        share: Option<Arc<Share>>,
        stack: Option<Stack>,
        body: Option<Body>,
    ) -> Thread {
        Thread {
            _object: LiveObject::new(Kind::Thread),
            number,
            stack,
            body: UnsafeCell::new(body),
            state: AtomicU8::new(BLOCKED),
            entity: Entity::new(policy, share),
            affinity: AtomicU64::new(u64::MAX),
            cpu: AtomicU32::new(percpu::cpu() as u32),
            name: ShortName::new(name),
            ..Thread::default()
        }
    }

    /// Returns the thread's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the thread runs a program: it has an address space and is not a component's.
    fn is_program(&self) -> bool {
        !self.space_pointer.load(Relaxed).is_null() && !self.is_component()
    }

    /// Claims the thread, if it is blocked: the caller may then wake it. `outcome` is the result of its wait.
    fn claim(&self, outcome: u8) -> bool {
        let from = self.state.load(SeqCst);
        let is_blocked = from == BLOCKED || from == INTERRUPTIBLE;
        let is_ours =
            is_blocked && self.state.compare_exchange(from, WAKING, SeqCst, Relaxed).is_ok();
        if is_ours {
            self.outcome.store(outcome, Relaxed);
        }
        is_ours
    }
}

/// Returns the calling thread.
///
/// # Panics
/// Panics before this processor has threads.
#[inline]
pub fn current<'a>() -> &'a Thread {
    let pointer = current_pointer();
    debug_assert!(!pointer.is_null(), "no thread yet");
    // SAFETY: the running thread is there while it runs, and a caller is it.
    unsafe { &*pointer }
}

#[inline]
fn current_pointer() -> *const Thread {
    percpu::current().cast()
}

/// Returns the calling thread; `None` before there are threads.
fn any_current<'a>() -> Option<&'a Thread> {
    // SAFETY: as in `current`.
    unsafe { current_pointer().as_ref() }
}

/// Returns the number of the calling thread; 0 before there are threads.
pub fn current_number() -> u64 {
    any_current().map_or(0, Thread::number)
}

/// Lets the calling thread's allocations use the reserve of memory from now on. Returns whether they could already.
pub fn use_reserve() -> bool {
    current().uses_reserve.swap(true, Relaxed)
}

/// Ends the calling thread's use of the reserve of memory.
pub fn leave_reserve() {
    current().uses_reserve.store(false, Relaxed);
}

/// Returns whether the calling thread may use the reserve of memory.
pub fn uses_reserve() -> bool {
    any_current().is_some_and(|thread| thread.uses_reserve.load(Relaxed))
}

/// Returns the space that the calling thread runs in; null for none.
#[inline]
pub fn current_space() -> *const Inner {
    any_current().map_or(ptr::null(), |thread| thread.space_pointer.load(Relaxed).cast_const())
}

/// Calls `visit` with the calling thread's held locks, interrupts off.
#[cfg(feature = "check")]
pub fn held_locks(visit: &mut dyn FnMut(&mut sync::check::HeldLocks)) {
    let _off = NoInterrupts::new();
    if let Some(thread) = any_current() {
        // SAFETY: only the thread itself, interrupts off, comes here.
        visit(unsafe { &mut *thread.held.get() });
    }
}

/// Starts a thread.
///
/// # Errors
/// [`NoMemory`] if its stack or itself was refused.
pub fn spawn(name: &str, policy: Policy, body: Body) -> Result<u64, NoMemory> {
    spawn_known(name, policy, None, body, |_| {})
}

/// Starts a thread as [`spawn`] does, with its time counted in `share`. `know` is told the number before the thread
/// runs.
///
/// # Errors
/// Those of [`spawn`].
pub fn spawn_known(
    name: &str,
    policy: Policy,
    share: Option<Arc<Share>>,
    body: Body,
    know: impl FnOnce(u64),
) -> Result<u64, NoMemory> {
    charge::charge(stacks::BYTES)?;
    charge::uncharge(stacks::BYTES);
    let stack = Stack::new()?;
    let top = stack.top();
    let make = |number| Arc::new(Thread::new(number, name, policy, share, Some(stack), Some(body)));
    let thread = table::insert(make).ok_or(NoMemory)?;
    // SAFETY: a new stack; nobody else uses it.
    let stack_pointer = unsafe { switch::prepare(top, begin) };
    // SAFETY: the thread does not run yet.
    unsafe { *thread.stack_pointer.get() = stack_pointer };
    let number = thread.number;
    know(number);
    scheduler::start(thread);
    Ok(number)
}

/// Starts the first thread.
///
/// # Panics
/// If there is no memory for the thread.
pub fn start_first(body: fn()) {
    let body: Body = Box::new(Box::new(body));
    spawn("main", Policy::Fair { nice: 0 }, body).expect("no memory for the first thread");
}

/// The first function of a new thread; interrupts are off.
extern "sysv64" fn begin(previous: *mut u8) -> ! {
    // SAFETY: the first thing after the switch.
    unsafe { scheduler::finish_switch(previous.cast()) };
    // SAFETY: a thread runs with interrupts on; nothing is held.
    unsafe { cpu::enable_interrupts() };
    // SAFETY: only the thread itself takes its body.
    let body = unsafe { &mut *current().body.get() }.take();
    if let Some(body) = body {
        (*body)();
    }
    exit()
}

/// Ends the calling thread.
fn exit() -> ! {
    let me = current();
    leave_space(me);
    table::remove(me.number);
    stacks::trim();
    scheduler::exit()
}

/// Returns whether `thread` (the caller) runs in `space` already, or in that of a program of its component.
#[inline]
pub fn is_in_space(thread: &Thread, space: &Space) -> bool {
    // SAFETY: a thread keeps the space it runs in.
    let own = unsafe { thread.space_pointer.load(Relaxed).as_ref() };
    own.is_some_and(|own| own.shows(Arc::as_ptr(space.inner())))
}

/// Moves the caller, a component's thread, into `space`, which is a program's.
pub fn enter_program(space: &Space) {
    let me = current();
    if me.space_pointer.load(Relaxed).cast_const() != Arc::as_ptr(space.inner()) {
        keep_extended_state();
        enter_space(me, space);
    }
}

/// Gives the calling thread, a component's, extended state from now on.
pub fn keep_extended_state() {
    let me = current();
    me.extended.do_with();
    me.extended.prepare();
    let_pass(false);
}

/// Moves the caller into `space` and prepares its extended state.
#[cold]
pub fn enter_space(me: &Thread, space: &Space) {
    me.extended.prepare();
    set_space(me, Some(space.inner().clone()));
}

fn leave_space(me: &Thread) {
    set_space(me, None);
}

fn set_space(me: &Thread, new: Option<Arc<Inner>>) {
    let pointer = new.as_ref().map_or(ptr::null_mut(), |space| Arc::as_ptr(space).cast_mut());
    let old = {
        let _off = NoInterrupts::new();
        // SAFETY: only the thread itself touches it.
        let old = core::mem::replace(unsafe { &mut *me.space.get() }, new);
        me.space_pointer.store(pointer, Relaxed);
        percpu::forget_ready_space();
        // SAFETY: just stored, kept by `space`.
        if let Some(space) = unsafe { pointer.as_ref() } {
            shootdown::activate(space);
        }
        old
    };
    drop(old);
}

/// Returns whether something must be checked before user mode is entered: a kick, or a request of at least `least` to reschedule.
/// Interrupts are off.
#[inline]
pub fn wants_attention(me: &Thread, least: u32) -> bool {
    me.is_kicked.load(Relaxed) || percpu::this().need_resched.load(Relaxed) >= least
}

/// Consumes a kick of the caller, which checks the reason for it before it enters user mode again.
pub fn consume_kick(me: &Thread) -> bool {
    let is_kicked = me.is_kicked.swap(false, SeqCst);
    if is_kicked {
        percpu::forget_ready_space();
    }
    is_kicked
}

/// Consumes a kick of the calling thread.
pub fn take_kick() -> bool {
    let me = current();
    me.is_kicked.load(Acquire) && consume_kick(me)
}

/// Forces thread `number` out of user mode or an interruptible wait, now or the next time.
pub fn kick(number: u64) {
    if let Some(thread) = table::find(number) {
        thread.is_kicked.store(true, SeqCst);
        // The thread may be the caller. Another thread is interrupted, or checks when it is switched to.
        percpu::forget_ready_space();
        wait::interrupt(&thread);
        scheduler::interrupt_if_running(&thread);
    }
}

/// Makes the calling thread leave user mode as if kicked after it was moved or preempted, or ends that.
pub fn report_moves(is_wanted: bool) {
    let me = current();
    me.told.set(is_wanted.then(|| me.cpu.load(Relaxed)));
}

/// Notes that the caller's program was interrupted, perhaps for other threads to run. Interrupts are off.
pub fn note_preempted() {
    if percpu::this().need_resched.load(Relaxed) != 0 {
        current().told.note_preempted();
    }
}

/// Returns whether the caller wants to be told of a move or preemption and there was one, which it is told by this.
/// Interrupts are off.
pub fn was_moved(me: &Thread) -> bool {
    me.told.tell(me.cpu.load(Relaxed))
}

/// Notes whether an interrupt from user mode is being handled.
#[inline]
pub fn note_user_interrupted(is_so: bool) {
    percpu::this().user_interrupted.store(u32::from(is_so), Relaxed);
}

/// Changes the scheduling policy of thread `number`.
pub fn set_policy(number: u64, policy: Policy) {
    if let Some(thread) = table::find(number) {
        scheduler::change(&thread, |thread| thread.entity.set_policy(policy));
    }
}

/// Restricts thread `number` to `affinity`. Returns `false` if no processor of it exists.
pub fn set_affinity(number: u64, affinity: u64) -> bool {
    if affinity & online_mask() == 0 {
        return false;
    }
    let Some(thread) = table::find(number) else { return true };
    scheduler::change(&thread, |thread| {
        thread.affinity.store(affinity, Relaxed);
        thread.check_home();
    });
    if thread.number == current_number() {
        yield_now();
    }
    true
}

/// Returns the time that thread `number` has used; `None` once it ended.
pub fn cpu_time(number: u64) -> Option<CpuTime> {
    let thread = table::find(number)?;
    let run_ns = scheduler::run_ns(&thread);
    Some(CpuTime {
        processor: thread.cpu.load(Relaxed),
        is_runnable: matches!(thread.state.load(Relaxed), RUNNABLE | WAKING),
        is_interruptible: thread.state.load(Relaxed) == INTERRUPTIBLE,
        ..thread.entity.cpu_time(run_ns)
    })
}
