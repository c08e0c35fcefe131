//! The fast path of messages between components' threads (L1).
//!
//! A component's thread that calls, or replies and receives, without a deadline and without a capability is *parked* where it
//! blocks: to continue it needs nothing of its kernel stack, only its registers. A thread that sends such a message to a parked
//! thread on the same processor writes it into that thread's registers, and longer messages also into its message area, and
//! enters user mode in its place (`arch::component`). No lock is taken but those of the endpoint and of the run queue. Time is
//! not charged at this switch: the next tick charges the thread that runs then. A parked thread that is woken in another way
//! finds its message in its party.
use super::{
    INTERRUPTIBLE, RUNNABLE, Ref, Sleep, Thread, WAKING, current,
    endpoint::{self, Endpoint, Seen},
    processor::{Processor, may_run, this},
    scheduler,
    wait::{self, SIGNALLED},
};
use crate::{
    arch::{
        component,
        percpu::{self, PerCpu},
        smp,
    },
    memory::{shootdown, space::Inner},
    spin::NoInterrupts,
};
use calls::{NO_HANDLE, PLAIN, Status, message_in, message_out};
use core::{
    mem::offset_of,
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{Relaxed, Release, SeqCst},
        fence,
    },
};
use ipc::{Error, Header, INLINE_WORDS, Next, Party, Serving, Threads};
use program::Registers;

/// The fields that a component's thread needs to be parked.
#[derive(Debug)]
pub(super) struct Parking {
    /// The thread's registers while it is out of user mode; null for other threads.
    registers: AtomicPtr<Registers>,
    /// The same registers while the thread may [pass](Endpoint::pass) messages, else null.
    passable: AtomicPtr<Registers>,
    /// End of the registers.
    registers_end: AtomicPtr<Registers>,
    /// The kernel stack pointer that entry from user mode finds; always the same for a thread.
    kernel_stack: AtomicU64,
    /// The processor on which the thread is parked; [`ELSEWHERE`] if it may not run there any more, [`NOWHERE`] while it is not
    /// parked. Changed by the thread itself, and by a thread that claimed it or holds the lock of its run queue.
    home: AtomicU32,
}

const NOWHERE: u32 = u32::MAX;
const ELSEWHERE: u32 = u32::MAX - 1;

impl Thread {
    /// Returns whether the thread is an isolated component's.
    pub(super) fn is_component(&self) -> bool {
        !self.parking.registers.load(Relaxed).is_null()
    }

    /// Returns the kernel stack on which the thread is parked or is to be left parked, if it is.
    #[inline]
    pub(super) fn parked_on(&self) -> Option<u64> {
        let parking = &self.parking;
        let is_parked = parking.home.load(Relaxed) != NOWHERE;
        is_parked.then(|| parking.kernel_stack.load(Relaxed))
    }

    /// Checks after a change of affinity whether the thread may still continue on the processor where it is parked. The lock of
    /// its run queue is held.
    pub(super) fn check_home(&self) {
        let home = self.parking.home.load(Relaxed);
        if home < ELSEWHERE && !may_run(self, home as usize) {
            self.parking.home.store(ELSEWHERE, Relaxed);
        }
    }

    /// Returns whether this is a component's thread that waits by `handle`, at the endpoint whose lock is held.
    pub(super) fn waits_by(&self, handle: u64) -> bool {
        // SAFETY: its context, or null; what is there changes only after it has left the endpoint, for which it needs the lock.
        let registers = unsafe { self.parking.registers.load(Relaxed).as_ref() };
        registers.is_some_and(|registers| registers.rdi == handle)
    }

    /// Returns whether the thread, a component's that is parked, needs none of its registers besides the message.
    #[inline(always)]
    fn is_parked_plainly(&self) -> bool {
        // SAFETY: its context, which stays while it is parked, which it is until the endpoint's lock is released.
        let number = unsafe { (*self.parking.registers.load(Relaxed)).rax };
        number & PLAIN != 0
    }

    /// Returns whether the message that the thread waits for is to be put into its registers.
    #[inline(always)]
    fn is_parked(&self) -> bool {
        self.parking.home.load(Relaxed) != NOWHERE
    }
}

impl Default for Parking {
    fn default() -> Parking {
        Parking {
            registers: AtomicPtr::new(ptr::null_mut()),
            passable: AtomicPtr::new(ptr::null_mut()),
            registers_end: AtomicPtr::new(ptr::null_mut()),
            kernel_stack: AtomicU64::new(0),
            home: AtomicU32::new(NOWHERE),
        }
    }
}

/// Makes the calling thread a component's thread that may be parked, with its registers in `registers`; null ends that. Returns
/// the place for the stack pointer that entry from user mode finds.
pub fn serve_at(registers: *mut Registers) -> *mut u64 {
    let parking = &current().parking;
    parking.registers.store(registers, Relaxed);
    parking.registers_end.store(registers.wrapping_add(1), Relaxed);
    parking.passable.store(ptr::null_mut(), Relaxed);
    parking.kernel_stack.as_ptr()
}

/// Lets the calling thread, a component's, pass from now on, or keeps it from that.
pub fn let_pass(is_allowed: bool) {
    let parking = &current().parking;
    // A thread with extended state has it saved when it leaves the processor.
    let may_pass = is_allowed && current().extended.has_none();
    let registers = if may_pass { parking.registers.load(Relaxed) } else { ptr::null_mut() };
    parking.passable.store(registers, Relaxed);
}

impl Thread {
    /// Returns whether this is a component's thread with `registers` that may [pass](Endpoint::pass).
    #[inline(always)]
    pub fn may_pass(&self, registers: *mut Registers) -> bool {
        self.parking.passable.load(Relaxed) == registers
    }
}

/// The result of a step that was tried on the fast path. If the fast path is taken, the function does not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fast {
    /// The call had no effect.
    NotDone,
    /// The same, and no fast path has: messages or bits wait at the endpoint.
    Busy,
    /// The step was done on the general path; the received message is in the registers.
    Done(Result<(), Error>),
}

/// A step to be tried on the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call.
    Call,
    /// A reply and receive.
    ReplyAndReceive,
}

/// The interface through which the state machine sees threads on the fast path, on which only the caller sends.
struct Direct<'a> {
    registers: &'a Registers,
    badge: u64,
    seen: Seen,
}

/// The general path's view of threads, to which the fast path leaves the rest.
const SEEN: Seen = Seen { is_interruptible: true };

impl Threads<Ref> for Direct<'_> {
    #[inline(always)]
    fn party(&mut self, thread: Ref) -> &mut Party<Ref> {
        self.seen.party(thread)
    }
    #[inline(always)]
    fn serving(&mut self, thread: Ref) -> &mut Serving<Ref> {
        self.seen.serving(thread)
    }
    #[inline(always)]
    fn claim(&mut self, thread: Ref) -> bool {
        // This is the state in which parked threads block.
        let state = &thread.get().state;
        state.compare_exchange(INTERRUPTIBLE, WAKING, SeqCst, Relaxed).is_ok()
            || self.seen.claim(thread)
    }
    #[inline(always)]
    fn block(&mut self, thread: Ref) {
        // The lock of the run queue, taken next, orders this store before the check for a kick.
        thread.get().state.store(INTERRUPTIBLE, Release);
    }
    #[inline(always)]
    fn copy(&mut self, from: Ref, to: Ref) {
        let message = message_in(self.registers, self.badge);
        if message.header.words() > INLINE_WORDS {
            endpoint::copy_rest(from, to, message.header.words());
        }
        if !to.get().is_parked() {
            self.party(to).message = message;
            return;
        }
        // SAFETY: claimed while parked: its registers are nobody else's.
        let target = unsafe { &mut *to.get().parking.registers.load(Relaxed) };
        message_out(target, &message);
        target.rax = Status::Ok as u64;
    }
    #[inline(always)]
    fn lend(&mut self, client: Ref, server: Ref) {
        self.seen.lend(client, server);
    }
}

impl Endpoint {
    /// Signals `bits`. Interrupts are off.
    #[inline(always)]
    pub fn fast_signal(&self, bits: u64) {
        let next = self.0.lock_under(NoInterrupts::kept()).signal(&mut { SEEN }, bits);
        if let Next::Wake(receiver) = next {
            let (next, cpu) = (receiver.get(), percpu::cpu());
            if next.parking.home.load(Relaxed) == cpu as u32 {
                unblock_next(current(), next, cpu);
            } else {
                scheduler::unblock(next);
            }
        }
    }

    /// Does a step of the calling thread, a component's, with the message in `registers`. Interrupts are off.
    #[inline(always)]
    pub fn fast(&self, step: Step, registers: &mut Registers, badge: u64) -> Fast {
        let me = current();
        let may_park = registers.rbx == calls::FOREVER
            && registers.r12 == NO_HANDLE
            && me.extended.has_none()
            && !percpu::needs_reschedule()
            // A client's loan of its policy ends with the reply.
            && !has_loan(step, me, me.entity.policy.load(Relaxed));
        if !may_park {
            return Fast::NotDone;
        }
        let next = {
            let mut state = self.0.lock_under(NoInterrupts::kept());
            if step == Step::ReplyAndReceive && !state.is_quiet() {
                return Fast::Busy;
            }
            let mut direct = Direct { registers, badge, seen: SEEN };
            let next = match step {
                Step::Call => state.call(&mut direct, Ref::of(me)),
                Step::ReplyAndReceive => state.reply_and_block(&mut direct, Ref::of(me)),
            };
            if next == Next::Block && step == Step::Call {
                direct.party(Ref::of(me)).message = message_in(registers, badge);
            }
            next
        };
        match next {
            Next::HandOver(other) => hand_over(step, me, other.get()),
            Next::Block => {
                let here = this();
                here.lock.take();
                match next_of(here, me) {
                    Some(next) => enter_next(here, me, next),
                    None => here.lock.release(),
                }
            }
            _ => {}
        }
        Fast::Done(self.go_slowly(me, registers, badge, next))
    }

    /// Does a step of the calling thread, a component's, whose partner is parked here in such a step too, when no policy is lent
    /// and the message is in registers. The other registers are lost. `may_cross` says whether the partner may be another
    /// component's. A server without a client to answer only blocks. Interrupts are off. The badge is passed by reference because
    /// registers are few.
    #[inline(always)]
    pub fn pass(
        &self,
        step: Step,
        me: &Thread,
        registers: &mut Registers,
        badge: &u64,
        may_cross: impl FnOnce() -> bool,
    ) -> Fast {
        let mut state = self.0.lock_under(NoInterrupts::kept());
        let mut seen = Direct { registers, badge: 0, seen: SEEN };
        let partner = match step {
            Step::Call => match state.first_receiver() {
                Some(receiver) => Some(receiver),
                None => return Fast::NotDone,
            },
            Step::ReplyAndReceive if state.is_quiet() => *seen.serving(Ref::of(me)),
            Step::ReplyAndReceive => return Fast::Busy,
        };
        let (loaded, policy) = (percpu::ready_space(), me.entity.policy.load(Relaxed));
        let is_near = partner
            .is_some_and(|partner| partner.get().space_pointer.load(Relaxed).cast() == loaded);
        if !is_near && (loaded.is_null() || has_loan(step, me, policy) || !may_cross()) {
            return Fast::NotDone;
        }
        let Some(partner) = partner else {
            state.block_receiver(&mut seen, Ref::of(me));
            drop(state);
            return self.go_on(me, registers, *badge);
        };
        let (next, cpu) = (partner.get(), percpu::cpu() as u32);
        // A space is ready if no other thread wants the processor, which is also true for a thread of the same policy.
        if next.parking.home.load(Relaxed) != cpu
            || next.entity.policy.load(Relaxed) != policy
            || !next.is_parked_plainly()
        {
            return Fast::NotDone;
        }
        let is_done = match step {
            Step::Call => state.call_to(&mut seen, Ref::of(me), partner),
            Step::ReplyAndReceive => state.reply_to(&mut seen, Ref::of(me), partner),
        };
        if !is_done {
            return Fast::NotDone;
        }
        drop(state);
        let here = this();
        here.lock.take();
        if !may_leave(me) {
            here.lock.release();
            return Fast::Done(self.go_slowly(me, registers, *badge, Next::HandOver(partner)));
        }
        // Threads of one component keep their own virtual times: a tick charges the thread that it meets.
        if !is_near {
            share_time(step, here, me, next);
            load_space(percpu::this(), next, cpu);
        }
        enter_plainly(here, me, next, cpu, registers, *badge)
    }

    /// Gives the processor from `me`, which waits here, to the thread that its signal woke or to another one.
    #[inline(never)]
    fn go_on(&self, me: &Thread, registers: &mut Registers, badge: u64) -> Fast {
        let here = this();
        here.lock.take();
        let Some(next) = next_of(here, me) else {
            here.lock.release();
            return Fast::Done(self.go_slowly(me, registers, badge, Next::Block));
        };
        if !next.is_parked_plainly() {
            enter_next(here, me, next)
        }
        // SAFETY: about to be run by us, so its party is nobody else's.
        let bits = unsafe { (*next.party.get()).message.badge };
        let (cpu, message) = (percpu::cpu() as u32, NOTIFICATION.as_ptr().cast());
        load_space(percpu::this(), next, cpu);
        enter_plainly(here, me, next, cpu, message, bits)
    }

    /// Completes a step that was made when the processor could not be handed over at once.
    #[cold]
    #[inline(never)]
    fn go_slowly(
        &self,
        me: &Thread,
        registers: &mut Registers,
        badge: u64,
        next: Next<Ref>,
    ) -> Result<(), Error> {
        // The state is stored before the check for a kick.
        fence(SeqCst);
        let sent = message_in(registers, badge);
        let tell = |other: Ref| {
            other.get().outcome.store(SIGNALLED, Relaxed);
            if other.get().is_parked() {
                // SAFETY: claimed by us, so its party is ours until it is woken.
                let party = unsafe { &mut *other.get().party.get() };
                (party.message, party.result) = (sent, Ok(()));
            }
        };
        let suspend = |next| {
            me.parking.home.store(percpu::cpu() as u32, Relaxed);
            // This returns only if the thread did not leave the processor.
            let outcome = wait::suspend(me, None, Sleep::Interruptible, next);
            me.parking.home.store(NOWHERE, Relaxed);
            outcome
        };
        let outcome = match next {
            Next::HandOver(other) => {
                tell(other);
                suspend(Some(other))
            }
            Next::Block => suspend(None),
            Next::Wake(other) => {
                tell(other);
                endpoint::wake(other, None)
            }
            Next::WakeBoth(..) | Next::GoOn => SIGNALLED,
        };
        let result = self.finish(me, outcome);
        // SAFETY: the caller takes part nowhere now, so the party is its own.
        message_out(registers, unsafe { &(*me.party.get()).message });
        result
    }
}

/// Leaves `me` parked, blocked as its state says, and enters user mode as `next`, which `me` claimed. Returns if that is not
/// possible: `next` is not parked here, or something else wants the processor or `me`.
#[inline(always)]
fn hand_over(step: Step, me: &Thread, next: &Thread) {
    let cpu = percpu::cpu() as u32;
    if next.parking.home.load(Relaxed) == cpu {
        let here = this();
        here.lock.take();
        if !may_leave(me) || here.queue().has_real_time() {
            return here.lock.release();
        }
        share_time(step, here, me, next);
        enter(here, me, next, cpu)
    }
}

/// Returns whether `me`, whose policy is `policy` now, has it as a loan that ends with the step.
#[inline(always)]
fn has_loan(step: Step, me: &Thread, policy: u32) -> bool {
    step == Step::ReplyAndReceive && me.entity.own_policy.load(Relaxed) != policy
}

/// Gives `next` the virtual time of `me`, which works for it, or for which it works, and notes when `me` blocked.
#[inline(always)]
fn share_time(step: Step, here: &Processor, me: &Thread, next: &Thread) {
    match step {
        Step::Call => {
            next.entity.virtual_ns.store(here.queue().lent_ns(&me.entity), Relaxed);
        }
        Step::ReplyAndReceive => next.entity.catch_up(&me.entity),
    }
    me.blocked_at_ns.store(here.queue().charged_at_ns(), Relaxed);
}

/// Loads the space of `next`, which is to run on `cpu`, this processor, and makes it ready.
#[inline(always)]
fn load_space(data: &PerCpu, next: &Thread, cpu: u32) {
    let space = next.space_pointer.load(Relaxed);
    // SAFETY: a thread keeps the space it runs in.
    shootdown::change_to(unsafe { &*space.cast_const().cast::<Inner>() }, cpu as usize);
    data.ready_space.store(space.cast(), Relaxed);
}

/// Unblocks a thread that is parked on this processor, `cpu`, as [`scheduler::unblock`] does, from the running thread `me`. If
/// both have the same fair policy, no other processor is free and no other thread waits in this way, it continues as soon as
/// `me` blocks, or at the next tick (if it is not ahead). Interrupts are off.
#[inline(always)]
fn unblock_next(me: &Thread, next: &Thread, cpu: usize) {
    let here = this();
    let may_wait = me.entity.may_be_followed_by(&next.entity);
    if may_wait && (smp::online() == 1 || scheduler::choose(next) == cpu) {
        here.lock.take();
        let is_queued = here.queue().enqueue_next(Ref::of(next));
        if is_queued {
            next.is_on_queue.store(true, Relaxed);
            next.state.store(RUNNABLE, SeqCst);
        }
        here.lock.release();
        if is_queued {
            return;
        }
    }
    scheduler::unblock(next);
}

/// Takes the thread that a signal of `me` woke out of the queue, if it is still the one to continue next. Its message is bits.
/// The lock of `here` is held.
#[inline(always)]
fn next_of(here: &Processor, me: &Thread) -> Option<&'static Thread> {
    let next = here.queue().take_next(|| may_leave(me))?.get();
    // From now on both share their time, as a client and its server do.
    share_time(Step::ReplyAndReceive, here, me, next);
    Some(next)
}

/// Enters user mode as `next`, which [`next_of`] returned.
#[inline(always)]
fn enter_next(here: &Processor, me: &Thread, next: &Thread) -> ! {
    // SAFETY: parked, and about to be run by us: its registers and party are nobody else's.
    let registers = unsafe { &mut *next.parking.registers.load(Relaxed) };
    // SAFETY: as above.
    message_out(registers, unsafe { &(*next.party.get()).message });
    registers.rax = Status::Ok as u64;
    enter(here, me, next, percpu::cpu() as u32)
}

/// The registers of a sender of bits.
static NOTIFICATION: [u64; size_of::<Registers>() / 8] = {
    let mut words = [0; size_of::<Registers>() / 8];
    words[offset_of!(Registers, rsi) / 8] = Header::notification().0;
    words
};

/// Returns whether `me`, which is to block, may leave the processor: no thread claimed it before the run queue's lock was
/// taken, which is held.
#[inline(always)]
fn may_leave(me: &Thread) -> bool {
    me.state.load(Relaxed) == INTERRUPTIBLE && !me.is_kicked.load(SeqCst)
}

/// Makes `next`, parked here and in no queue, the running thread instead of `me`, which is left parked. Returns the registers
/// to enter user mode with. The lock of `here` is held and must be released when the stack of `me` is left.
#[inline(always)]
fn take_over(
    here: &Processor,
    data: &PerCpu,
    me: &Thread,
    next: &Thread,
    cpu: u32,
) -> *mut Registers {
    me.is_on_queue.store(false, Relaxed);
    me.entity.count_voluntary();
    me.parking.home.store(cpu, Relaxed);
    next.is_on_queue.store(true, Relaxed);
    next.state.store(RUNNABLE, Relaxed);
    next.parking.home.store(NOWHERE, Relaxed);
    here.queue().pass(Ref::of(next));
    data.current.store(ptr::from_ref(next).cast_mut().cast(), Relaxed);
    data.kernel_rsp.store(next.parking.kernel_stack.load(Relaxed), Relaxed);
    data.registers_end.store(next.parking.registers_end.load(Relaxed), Relaxed);
    next.parking.registers.load(Relaxed)
}

/// Does [`take_over`] and enters user mode, also in another space.
#[inline(always)]
fn enter(here: &Processor, me: &Thread, next: &Thread, cpu: u32) -> ! {
    let data = percpu::this();
    let registers = take_over(here, data, me, next, cpu);
    load_space(data, next, cpu);
    let from = me.parking.kernel_stack.load(Relaxed);
    // SAFETY: `next` is parked and ours; its space is loaded; what the caller keeps is in its context.
    unsafe { component::hand_over(registers, here.lock.as_ptr(), from) }
}

/// Does [`take_over`] and enters user mode as `next`, which is [parked plainly](Thread::is_parked_plainly), with the message in
/// the registers `message` and the badge. Its space is loaded, and the caller may pass.
#[inline(always)]
fn enter_plainly(
    here: &Processor,
    me: &Thread,
    next: &Thread,
    cpu: u32,
    message: *const Registers,
    badge: u64,
) -> ! {
    let target = take_over(here, percpu::this(), me, next, cpu);
    // SAFETY: `next` was parked and is ours, and its space is loaded; the lock is held.
    unsafe { component::pass(message, target, ptr::from_ref(here).cast_mut().cast(), badge) }
}

/// Finishes the step at `endpoint` in which the calling thread was parked. Returns the step's result; the received message is
/// in `registers`. Interrupts are off.
pub fn finish_parked(endpoint: &Endpoint, registers: &mut Registers) -> Result<(), Error> {
    let me = current();
    me.parking.home.store(NOWHERE, Relaxed);
    let result = endpoint.finish(me, wait::outcome(me));
    // SAFETY: the caller takes part nowhere now, so the party is its own.
    message_out(registers, unsafe { &(*me.party.get()).message });
    result
}
