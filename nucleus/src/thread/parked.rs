//! The fast path of messages between components' threads (L1).
//!
//! A thread of a component that calls or replies and receives without a deadline, with at most the words that
//! travel in registers and no capability, is *parked* where it blocks: nothing of its kernel stack is needed to
//! go on, only its registers. Who then sends such a thread such a message on the same processor writes it into
//! the other's registers and enters user mode in its place (`arch::component`). No lock is taken but the
//! endpoint's and the run queue's own, and time goes on as if one thread ran: the next tick charges whoever
//! runs then. A parked thread that is woken otherwise finds its message in its party.
use super::{
    BLOCKED, INTERRUPTIBLE, RUNNABLE, Ref, Thread, WAKING, current,
    endpoint::{self, Endpoint, Seen},
    processor::{Processor, this},
    wait::{self, SIGNALLED},
};
use crate::{
    arch::{component, percpu},
    memory::{shootdown, space::Inner},
};
use calls::{NO_HANDLE, Status};
use core::{
    ptr,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};
use ipc::{Error, Header, INLINE_WORDS, Message, Next, Party, Serving, Threads};
use program::Registers;

/// What a component's thread needs to be parked.
#[derive(Debug)]
pub(super) struct Parking {
    /// Its registers while it is out of user mode; null for other threads.
    registers: AtomicPtr<Registers>,
    /// Its kernel stack pointer as entry from user mode finds it.
    kernel_stack: AtomicU64,
    /// It is parked; changed by itself, and by whoever claimed it.
    is_parked: AtomicBool,
}

impl Thread {
    /// Whether it is an isolated component's.
    pub(super) fn is_component(&self) -> bool {
        !self.parking.registers.load(Relaxed).is_null()
    }

    /// The kernel stack on which it is parked or is to be left parked, if it is.
    #[inline]
    pub(super) fn parked_on(&self) -> Option<u64> {
        let parking = &self.parking;
        parking.is_parked.load(Relaxed).then(|| parking.kernel_stack.load(Relaxed))
    }
}

impl Parking {
    pub(super) const fn new() -> Parking {
        Parking {
            registers: AtomicPtr::new(ptr::null_mut()),
            kernel_stack: AtomicU64::new(0),
            is_parked: AtomicBool::new(false),
        }
    }
}

/// From now on the calling thread is a component's and may be parked; its registers in between are `registers`
/// (null: no more).
pub fn serve_at(registers: *mut Registers) {
    current().parking.registers.store(registers, Relaxed);
}

/// What came of trying the fast path; where it is taken, nothing returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fast {
    /// Nothing was done.
    NotDone,
    /// It was done on the general path; the message got is in the registers.
    Done(Result<(), Error>),
}

/// Which step is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Call,
    ReplyAndReceive,
}

/// The threads as the state machine sees them on the fast path, where only the caller sends.
struct Direct<'a> {
    registers: &'a Registers,
    badge: u64,
    seen: Seen,
}

/// The message in the registers of whoever sends it.
#[inline]
pub fn message_in(registers: &Registers, badge: u64) -> Message {
    Message {
        header: Header(registers.rsi).as_sent(false),
        badge,
        words: [registers.rdx, registers.r10, registers.r8, registers.r9],
    }
}

/// Puts a message got into `registers`.
#[inline]
pub fn message_out(registers: &mut Registers, message: &Message) {
    registers.rdi = message.badge;
    registers.rsi = message.header.0;
    [registers.rdx, registers.r10, registers.r8, registers.r9] = message.words;
    registers.r12 = NO_HANDLE;
}

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
        // As parked threads block.
        let state = &thread.get().state;
        if state.compare_exchange(INTERRUPTIBLE, WAKING, SeqCst, Relaxed).is_err() {
            return self.seen.claim(thread);
        }
        thread.get().outcome.store(SIGNALLED, Relaxed);
        true
    }
    #[inline(always)]
    fn block(&mut self, thread: Ref) {
        self.seen.block(thread);
    }
    #[inline(always)]
    fn copy(&mut self, _: Ref, to: Ref) {
        let message = message_in(self.registers, self.badge);
        let parking = &to.get().parking;
        if !parking.is_parked.load(Relaxed) {
            self.party(to).message = message;
            return;
        }
        // SAFETY: claimed while parked: its registers are nobody else's.
        let target = unsafe { &mut *parking.registers.load(Relaxed) };
        message_out(target, &message);
        target.rax = Status::Ok as u64;
    }
    #[inline(always)]
    fn lend(&mut self, client: Ref, server: Ref) {
        self.seen.lend(client, server);
    }
}

impl Endpoint {
    /// A call of the calling thread, a component's, with the message in `registers`. Interrupts are off.
    #[inline]
    pub fn fast_call(&self, registers: &mut Registers, badge: u64) -> Fast {
        self.fast(Step::Call, registers, badge)
    }

    /// A reply and receive of the calling thread, a component's, with the message in `registers`. Interrupts are off.
    #[inline]
    pub fn fast_reply_and_receive(&self, registers: &mut Registers, badge: u64) -> Fast {
        self.fast(Step::ReplyAndReceive, registers, badge)
    }

    #[inline(always)]
    fn fast(&self, step: Step, registers: &mut Registers, badge: u64) -> Fast {
        let me = current();
        let is_plain = registers.rbx == calls::FOREVER
            && registers.r12 == NO_HANDLE
            && registers.rsi as u8 <= INLINE_WORDS as u8
            && !percpu::needs_reschedule()
            // What a client lent ends with the reply.
            && (step == Step::Call || me.policy.load(Relaxed) == me.own_policy.load(Relaxed));
        if !is_plain {
            return Fast::NotDone;
        }
        let next = {
            let mut state = self.0.lock_with_interrupts_off();
            if step == Step::ReplyAndReceive && !state.is_quiet() {
                return Fast::NotDone;
            }
            let seen = Seen { is_interruptible: true };
            let mut direct = Direct { registers, badge, seen };
            let next = match step {
                Step::Call => state.send(&mut direct, Ref::of(me), true),
                Step::ReplyAndReceive => state.reply_and_block(&mut direct, Ref::of(me)),
            };
            if next == Next::Block && step == Step::Call {
                direct.party(Ref::of(me)).message = message_in(registers, badge);
            }
            next
        };
        if let Next::HandOver(other) = next {
            hand_over(me, other.get());
        }
        self.go_slowly(me, registers, badge, next)
    }

    /// The step was made, but the processor could not be handed over at once.
    #[cold]
    fn go_slowly(
        &self,
        me: &Thread,
        registers: &mut Registers,
        badge: u64,
        next: Next<Ref>,
    ) -> Fast {
        let sent = message_in(registers, badge);
        let tell = |other: Ref| {
            if other.get().parking.is_parked.load(Relaxed) {
                // SAFETY: claimed by us, so its party is ours until it is woken.
                unsafe { (*other.get().party.get()).message = sent };
            }
        };
        let suspend = |next| {
            me.parking.kernel_stack.store(percpu::this().kernel_rsp.load(Relaxed), Relaxed);
            me.parking.is_parked.store(true, Relaxed);
            // Comes back only where it did not leave the processor.
            let outcome = wait::suspend(me, None, true, next);
            me.parking.is_parked.store(false, Relaxed);
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
        Fast::Done(result)
    }
}

/// Leaves `me` parked, blocked as its state says, and enters user mode as `next`, which `me` claimed. Returns where
/// that may not be: `next` is not parked here, or somebody else wants the processor or `me`.
#[inline(always)]
fn hand_over(me: &Thread, next: &Thread) {
    let cpu = percpu::cpu();
    if !next.parking.is_parked.load(Relaxed) || next.cpu.load(Relaxed) != cpu as u32 {
        return;
    }
    let here: &'static Processor = this();
    here.lock();
    let queue = here.queue();
    let may = matches!(me.state.load(Relaxed), BLOCKED | INTERRUPTIBLE)
        && !me.is_kicked.load(SeqCst)
        && queue.real_time.highest().is_none()
        && next.affinity.load(Relaxed) >> cpu & 1 != 0;
    if !may {
        return here.unlock();
    }
    me.blocked_at_ns.store(queue.charged_at_ns, Relaxed);
    me.is_on_queue.store(false, Relaxed);
    me.voluntary_switches.store(me.voluntary_switches.load(Relaxed) + 1, Relaxed);
    next.virtual_ns.store(me.virtual_ns.load(Relaxed), Relaxed);
    next.is_on_queue.store(true, Relaxed);
    next.state.store(RUNNABLE, Relaxed);
    here.switches.store(here.switches.load(Relaxed) + 1, Relaxed);
    queue.current = Ref::of(next);
    let data = percpu::this();
    data.current.store(ptr::from_ref(next).cast_mut().cast(), Relaxed);
    let space = next.space_pointer.load(Relaxed);
    // SAFETY: a thread keeps the space it runs in.
    shootdown::change_to(unsafe { &*space.cast_const().cast::<Inner>() });
    data.ready_space.store(space.cast(), Relaxed);
    next.extended.follow();
    let from = data.kernel_rsp.load(Relaxed);
    me.parking.kernel_stack.store(from, Relaxed);
    me.parking.is_parked.store(true, Relaxed);
    next.parking.is_parked.store(false, Relaxed);
    let to = next.parking.kernel_stack.load(Relaxed);
    let registers = next.parking.registers.load(Relaxed);
    // SAFETY: `next` is parked and ours; its space and bases are loaded; what the caller keeps is in its context.
    unsafe { component::hand_over(registers, to, here.is_locked.as_ptr().cast(), from) }
}

/// The calling thread was parked in a step at `endpoint` and goes on: how the step ended. The message got is in
/// `registers`. Interrupts are off.
pub fn finish_parked(endpoint: &Endpoint, registers: &mut Registers) -> Result<(), Error> {
    let me = current();
    me.parking.is_parked.store(false, Relaxed);
    let result = endpoint.finish(me, wait::outcome(me));
    // SAFETY: the caller takes part nowhere now, so the party is its own.
    message_out(registers, unsafe { &(*me.party.get()).message });
    result
}
