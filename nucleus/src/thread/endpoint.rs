//! Endpoints: messages between threads, and notifications (L1, L2).
//!
//! The state machine is `libs/ipc`, which is model-checked there; this module adds its lock, its threads and the switch.
//! A client whose server waits on the same processor runs the server at once in its place, and the server its client on
//! the way back, on the client's time and with its priority. The lock of an endpoint is taken with interrupts off, so
//! that interrupt handlers may signal; no other lock is taken under it.
use super::{
    BLOCKED, INTERRUPTIBLE, Ref, Sleep, Thread, current, scheduler,
    wait::{self, SIGNALLED, TIMED_OUT},
};
use crate::{
    capability::Capability,
    memory::space::Inner,
    spin::{NoInterrupts, SpinLock},
};
use core::{
    mem::MaybeUninit,
    ptr,
    sync::atomic::Ordering::{Relaxed, SeqCst},
};
use ipc::{Error, INLINE_WORDS, MESSAGE_WORDS, Message, Next, Party, Serving, Threads};

/// The limits of a step's wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// End of the wait in monotonic nanoseconds; `None` for no end.
    pub deadline_ns: Option<u64>,
    /// Whether a kick ends the wait.
    pub sleep: Sleep,
}

/// The meeting place of threads.
#[derive(Debug)]
pub struct Endpoint(pub(super) SpinLock<ipc::Endpoint<Ref>>);

impl Default for Endpoint {
    fn default() -> Self {
        Endpoint::new()
    }
}

/// The interface through which the state machine sees threads. The endpoint's lock is held.
pub(super) struct Seen {
    pub(super) is_interruptible: bool,
}

impl Threads<Ref> for Seen {
    #[inline]
    fn party(&mut self, thread: Ref) -> &mut Party<Ref> {
        // SAFETY: it takes part at the endpoint whose lock is held, and nobody holds another's reference.
        unsafe { &mut *thread.get().party.get() }
    }
    #[inline]
    fn serving(&mut self, thread: Ref) -> &mut Serving<Ref> {
        // SAFETY: it serves at the endpoint whose lock is held, and nobody holds another's reference.
        unsafe { &mut *thread.get().serving.get() }
    }
    #[inline]
    fn claim(&mut self, thread: Ref) -> bool {
        thread.get().claim(SIGNALLED)
    }
    #[inline]
    fn block(&mut self, thread: Ref) {
        let state = if self.is_interruptible { INTERRUPTIBLE } else { BLOCKED };
        thread.get().state.store(state, SeqCst);
    }
    #[inline(always)]
    fn copy(&mut self, from: Ref, to: Ref) {
        let message = self.party(from).message;
        self.party(to).message = message;
        if message.header.words() > INLINE_WORDS {
            copy_rest(from, to, message.header.words());
        }
        if message.header.has_capability() {
            // SAFETY: as `party`.
            let given = unsafe { &mut *from.get().capability.get() }.take();
            // SAFETY: as `party`.
            unsafe { *to.get().capability.get() = given };
        }
    }
    #[inline]
    fn lend(&mut self, client: Ref, server: Ref) {
        client.get().entity.lend_policy(&server.get().entity);
    }
}

/// Copies the words that do not travel in registers, once, from one thread's area to the other's.
pub(super) fn copy_rest(from: Ref, to: Ref, words: usize) {
    let source = from.get().message_area.load(Relaxed);
    let target = to.get().message_area.load(Relaxed);
    if target.is_null() {
        return;
    }
    for index in INLINE_WORDS..words {
        let word = match source.is_null() {
            true => 0,
            // SAFETY: 64 words that their thread keeps while it takes part, and it wrote so many; a program may
            // write them meanwhile, so each is read once.
            false => unsafe { source.wrapping_add(index).read_volatile() },
        };
        // SAFETY: as above.
        unsafe { target.wrapping_add(index).write_volatile(word) };
    }
}

/// The parts of a message besides its first words. They belong to the caller until the step ends.
#[derive(Debug)]
pub struct Along<'a> {
    /// The words; those that do not travel in registers are read and written here.
    pub area: &'a mut [MaybeUninit<u64>; MESSAGE_WORDS],
    /// The capability that is sent or received.
    pub capability: Option<Capability>,
}

/// Does a step of the calling thread (`act`) with the parts in `along`.
pub fn with_along<R>(along: &mut Along<'_>, act: impl FnOnce() -> R) -> R {
    let before = set_message_area(along.area.as_mut_ptr().cast());
    lay_along(along.capability.take());
    let result = act();
    along.capability = take_along();
    set_message_area(before);
    result
}

/// Sets the area for the words of the calling thread's messages that do not travel in registers: 64 words that the thread
/// keeps in place, or null. Returns the previous area.
pub fn set_message_area(area: *mut u64) -> *mut u64 {
    current().message_area.swap(area, Relaxed)
}

/// Attaches the capability to the calling thread's next message.
pub fn lay_along(capability: Option<Capability>) {
    // SAFETY: the caller takes part nowhere now, so it is its own.
    let old = unsafe { core::mem::replace(&mut *current().capability.get(), capability) };
    drop(old);
}

/// Takes the capability that came with the calling thread's last message.
pub fn take_along() -> Option<Capability> {
    // SAFETY: as in `lay_along`.
    unsafe { &mut *current().capability.get() }.take()
}

impl Endpoint {
    /// Makes an endpoint at which no thread waits.
    pub const fn new() -> Endpoint {
        Endpoint(SpinLock::new(class!("nucleus.endpoint"), ipc::Endpoint::new()))
    }

    /// Sends `message` and blocks until the reply, which replaces it.
    ///
    /// # Errors
    /// [`Error`].
    #[inline]
    pub fn call(&self, message: &mut Message, wait: Wait) -> Result<(), Error> {
        self.step(message, wait, |endpoint, seen, me| endpoint.call(seen, me))
    }

    /// Sends `message` and blocks until it was received.
    ///
    /// # Errors
    /// [`Error`].
    pub fn send(&self, message: &mut Message, wait: Wait) -> Result<(), Error> {
        self.step(message, wait, |endpoint, seen, me| endpoint.send(seen, me))
    }

    /// Blocks until a message or bits come.
    ///
    /// # Errors
    /// [`Error`].
    pub fn receive(&self, message: &mut Message, wait: Wait) -> Result<(), Error> {
        current().entity.take_own_policy();
        self.step(message, wait, |endpoint, seen, me| endpoint.receive(seen, me))
    }

    /// Replies to the call that the caller received here.
    ///
    /// # Errors
    /// [`Error::NoCaller`].
    pub fn reply(&self, message: &mut Message) -> Result<(), Error> {
        current().entity.take_own_policy();
        self.step(message, Wait::default(), |endpoint, seen, me| endpoint.reply(seen, me))
    }

    /// Replies, if there is a caller, and blocks until a message or bits come.
    ///
    /// # Errors
    /// [`Error`].
    #[inline]
    pub fn reply_and_receive(&self, message: &mut Message, wait: Wait) -> Result<(), Error> {
        current().entity.take_own_policy();
        self.step(message, wait, |endpoint, seen, me| endpoint.reply_and_receive(seen, me))
    }

    /// Ends the call that the calling thread received: its client, which waits for the reply here, is told `error`.
    pub fn abandon(&self, error: Error) {
        let me = Ref::of(current());
        let client = self.0.lock().abandon(&mut Seen { is_interruptible: false }, me, error);
        if let Some(client) = client {
            scheduler::unblock(client.get());
        }
    }

    /// Signals `bits`. Interrupt handlers may call this.
    pub fn signal(&self, bits: u64) {
        let next = self.0.lock().signal(&mut Seen { is_interruptible: false }, bits);
        if let Next::Wake(receiver) = next {
            scheduler::unblock(receiver.get());
        }
    }

    /// Closes the endpoint: every step here ends with `error` from now on. A call that was received still gets its reply.
    pub fn close(&self, error: Error) {
        self.end_waits(|endpoint, seen| endpoint.close(seen, error));
    }

    /// Ends the wait of each of a component's threads of `space` that waits here by `handle`, with [`Error::Gone`]. A
    /// call that was received still gets its reply.
    pub fn turn_away(&self, space: &Inner, handle: u64) {
        let is_meant = |thread: Ref| {
            let thread = thread.get();
            ptr::eq(thread.space_pointer.load(Relaxed), space) && thread.waits_by(handle)
        };
        self.end_waits(|endpoint, seen| endpoint.turn_away(seen, Error::Gone, is_meant));
    }

    /// Wakes the threads whose waits `next` ends, until it returns `None`.
    fn end_waits(&self, next: impl Fn(&mut ipc::Endpoint<Ref>, &mut Seen) -> Option<Ref>) {
        loop {
            let ended = next(&mut self.0.lock(), &mut Seen { is_interruptible: false });
            let Some(ended) = ended else { return };
            scheduler::unblock(ended.get());
        }
    }

    /// Opens the endpoint again after [`Endpoint::close`], for threads that come from now on.
    pub fn reopen(&self) {
        self.0.lock().reopen();
    }

    /// Finishes the step of `me`, the caller, after its wait ended by `outcome`. Returns the step's result.
    #[inline]
    pub(super) fn finish(&self, me: &Thread, outcome: u8) -> Result<(), Error> {
        if outcome == SIGNALLED {
            // SAFETY: whoever claimed the caller is done with it.
            return unsafe { (*me.party.get()).result };
        }
        self.0.lock().cancel(&mut Seen { is_interruptible: false }, Ref::of(me));
        Err(if outcome == TIMED_OUT { Error::TimedOut } else { Error::Cancelled })
    }

    #[inline(always)]
    fn step(
        &self,
        message: &mut Message,
        wait: Wait,
        act: impl FnOnce(&mut ipc::Endpoint<Ref>, &mut Seen, Ref) -> Next<Ref>,
    ) -> Result<(), Error> {
        let me = current();
        let off = NoInterrupts::new();
        // SAFETY: the caller takes part nowhere now, so the party is its own.
        unsafe { (*me.party.get()).message = *message };
        let mut seen = Seen { is_interruptible: wait.sleep == Sleep::Interruptible };
        let next = act(&mut self.0.lock(), &mut seen, Ref::of(me));
        let suspend = |next| wait::suspend(me, wait.deadline_ns, wait.sleep, next);
        let outcome = match next {
            Next::HandOver(next) => suspend(Some(next)),
            Next::Block => suspend(None),
            Next::GoOn => SIGNALLED,
            Next::Wake(one) => wake(one, None),
            Next::WakeBoth(one, other) => wake(one, Some(other)),
        };
        let result = self.finish(me, outcome);
        // SAFETY: as above: whoever claimed the caller is done with it.
        *message = unsafe { (*me.party.get()).message };
        drop(off);
        if matches!(next, Next::Wake(_) | Next::WakeBoth(..)) {
            scheduler::reschedule_if_wanted();
        }
        result
    }
}

#[cold]
pub(super) fn wake(one: Ref, other: Option<Ref>) -> u8 {
    scheduler::unblock(one.get());
    if let Some(other) = other {
        scheduler::unblock(other.get());
    }
    SIGNALLED
}
