//! The endpoint: the threads that wait at it, and the effect of each step on them.
use crate::{Error, Header, Message};
use runqueue::{Fifo, Node, Store};

/// The links of a thread that waits at an endpoint.
pub type Links<T> = Node<T>;

/// The state of a thread at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase<T> {
    /// The thread does nothing at the endpoint.
    Idle,
    /// The thread waits for its message to be received; `is_call` tells whether it also waits for a reply.
    Queued {
        /// The thread called, and so also waits for a reply.
        is_call: bool,
    },
    /// Its call was received by this thread and waits for the reply.
    Served(T),
    /// The thread waits for a message or bits.
    Receiving,
}

/// The state of a thread at the endpoint where it calls, sends or receives.
#[derive(Clone, Debug)]
pub struct Party<T> {
    /// The thread's state.
    pub phase: Phase<T>,
    /// The message that the thread sends, and afterwards the message that it received.
    pub message: Message,
    /// Result of the thread's last step; valid once the thread goes on, unless a deadline or a kick woke it.
    pub result: Result<(), Error>,
    /// Links in the endpoint's list.
    pub links: Links<T>,
}

impl<T> Party<T> {
    /// Makes the party of a thread that does nothing.
    pub const fn new() -> Party<T> {
        Party {
            phase: Phase::Idle,
            message: Message { header: Header(0), badge: 0, words: [0; crate::INLINE_WORDS] },
            result: Ok(()),
            links: Node::new(),
        }
    }
}

impl<T> Default for Party<T> {
    fn default() -> Self {
        Party::new()
    }
}

/// The caller whose call a thread has received and not yet answered: its reply right.
pub type Serving<T> = Option<T>;

/// The operations that the state machine needs of the threads that it names.
pub trait Threads<T: Copy + Eq> {
    /// Returns the party of `thread`, which takes part at this endpoint.
    fn party(&mut self, thread: T) -> &mut Party<T>;
    /// Returns the reply right of `thread`, which serves at this endpoint.
    fn serving(&mut self, thread: T) -> &mut Serving<T>;
    /// Claims `thread`, which is blocked, for being woken. Fails if a deadline or a kick has claimed it.
    fn claim(&mut self, thread: T) -> bool;
    /// Marks `thread`, the caller, as blocked; it may be claimed from now on.
    fn block(&mut self, thread: T);
    /// Copies the message of `from`, with the words that do not travel in registers, to `to`.
    fn copy(&mut self, from: T, to: T);
    /// Lends the priority of `client` to `server`, which runs or was claimed and works for `client` from now on.
    fn lend(&mut self, client: T, server: T);
}

struct PartyLinks<'a, P>(&'a mut P);

impl<T: Copy + Eq, P: Threads<T>> Store<T> for PartyLinks<'_, P> {
    fn node(&mut self, of: T) -> &mut Node<T> {
        &mut self.0.party(of).links
    }
}

/// The caller's action after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next<T> {
    /// The caller continues.
    GoOn,
    /// The caller continues, and wakes this claimed thread.
    Wake(T),
    /// The caller continues, and wakes these claimed threads.
    WakeBoth(T, T),
    /// The caller blocks.
    Block,
    /// The caller blocks, and this claimed thread runs, best at once in the caller's place.
    HandOver(T),
}

/// An endpoint: the object at which threads exchange messages; see the crate.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<T> {
    queued: Fifo<T>,
    receiving: Fifo<T>,
    /// Bits that were signalled and not yet received.
    bits: u64,
    closed: Option<Error>,
}

impl<T> Endpoint<T> {
    /// Makes an endpoint at which no thread waits.
    pub const fn new() -> Endpoint<T> {
        Endpoint { queued: Fifo::new(), receiving: Fifo::new(), bits: 0, closed: None }
    }
}

impl<T> Default for Endpoint<T> {
    fn default() -> Self {
        Endpoint::new()
    }
}

impl<T: Copy + Eq> Endpoint<T> {
    /// Sends the message in the party of `me`, which then waits for the reply.
    #[inline(always)]
    pub fn call<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Next<T> {
        self.offer::<P, true>(threads, me)
    }

    /// Sends the message in the party of `me`.
    #[inline(always)]
    pub fn send<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Next<T> {
        self.offer::<P, false>(threads, me)
    }

    #[inline(always)]
    fn offer<P: Threads<T>, const IS_CALL: bool>(&mut self, threads: &mut P, me: T) -> Next<T> {
        if let Some(error) = self.closed {
            return refuse(threads, me, error);
        }
        let Some(receiver) = self.take_receiver(threads) else {
            threads.party(me).phase = Phase::Queued { is_call: IS_CALL };
            self.queued.push_back(&mut PartyLinks(threads), me);
            threads.block(me);
            return Next::Block;
        };
        threads.copy(me, receiver);
        if IS_CALL {
            serve(threads, me, receiver);
            threads.block(me);
            Next::HandOver(receiver)
        } else {
            threads.party(me).result = Ok(());
            Next::Wake(receiver)
        }
    }

    /// Makes `me` wait for a message or bits. A call that it received before and did not answer is cancelled.
    #[inline]
    pub fn receive<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Next<T> {
        let cancelled = finish_call(threads, me, Err(Error::Cancelled));
        self.take_next(threads, me, cancelled)
    }

    /// Answers the call that `me` received with the message in its party.
    #[inline]
    pub fn reply<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Next<T> {
        match finish_call(threads, me, Ok(())) {
            Some(client) => {
                threads.party(me).result = Ok(());
                Next::Wake(client)
            }
            None => refuse(threads, me, Error::NoCaller),
        }
    }

    /// Does [`Endpoint::reply`], if `me` has a call to answer, and then [`Endpoint::receive`].
    #[inline(always)]
    pub fn reply_and_receive<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Next<T> {
        let answered = finish_call(threads, me, Ok(()));
        self.take_next(threads, me, answered)
    }

    /// Returns whether a receiver would block.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.bits == 0 && self.queued.first().is_none() && self.closed.is_none()
    }

    /// Does [`Endpoint::reply_and_receive`] at an endpoint that [is quiet](Endpoint::is_quiet).
    #[inline(always)]
    pub fn reply_and_block<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Next<T> {
        let answered = finish_call(threads, me, Ok(()));
        self.block_receiver(threads, me);
        answered.map_or(Next::Block, Next::HandOver)
    }

    /// Returns the thread that would receive the next call.
    #[inline(always)]
    pub fn first_receiver(&self) -> Option<T> {
        self.receiving.first()
    }

    /// Does [`Endpoint::send`] of a call to the [first receiver](Endpoint::first_receiver), which then continues. The caller
    /// itself brings the message, and nothing is lent. Returns `false`, and does nothing, if another has claimed the receiver.
    #[inline(always)]
    pub fn call_to<P: Threads<T>>(&mut self, threads: &mut P, me: T, receiver: T) -> bool {
        if !threads.claim(receiver) {
            return false;
        }
        self.receiving.remove_first(&mut PartyLinks(threads), receiver);
        threads.party(receiver).phase = Phase::Idle;
        threads.party(me).phase = Phase::Served(receiver);
        *threads.serving(receiver) = Some(me);
        threads.block(me);
        true
    }

    /// Does [`Endpoint::reply_and_block`] to `client`, whose call `me` has received and which then continues. The caller itself
    /// brings the message. Returns `false`, and does nothing, if another has claimed the client.
    #[inline(always)]
    pub fn reply_to<P: Threads<T>>(&mut self, threads: &mut P, me: T, client: T) -> bool {
        if !threads.claim(client) {
            return false;
        }
        *threads.serving(me) = None;
        threads.party(client).phase = Phase::Idle;
        self.block_receiver(threads, me);
        true
    }

    /// Makes `me`, which has no call to answer, wait at an endpoint that [is quiet](Endpoint::is_quiet).
    #[inline(always)]
    pub fn block_receiver<P: Threads<T>>(&mut self, threads: &mut P, me: T) {
        threads.party(me).phase = Phase::Receiving;
        self.receiving.push_back(&mut PartyLinks(threads), me);
        threads.block(me);
    }

    /// Signals `bits`; a waiting receiver gets them at once.
    #[inline]
    pub fn signal<P: Threads<T>>(&mut self, threads: &mut P, bits: u64) -> Next<T> {
        self.bits |= bits;
        if self.bits == 0 {
            return Next::GoOn;
        }
        match self.take_receiver(threads) {
            Some(receiver) => {
                self.give_bits(threads, receiver);
                Next::Wake(receiver)
            }
            None => Next::GoOn,
        }
    }

    /// Takes the bits that were signalled and not received.
    pub fn take_bits(&mut self) -> u64 {
        core::mem::take(&mut self.bits)
    }

    /// Undoes the part of `me`, which a deadline or a kick woke.
    pub fn cancel<P: Threads<T>>(&mut self, threads: &mut P, me: T) {
        match threads.party(me).phase {
            Phase::Idle => {}
            Phase::Queued { .. } => self.queued.remove(&mut PartyLinks(threads), me),
            Phase::Receiving => self.receiving.remove(&mut PartyLinks(threads), me),
            Phase::Served(server) => *threads.serving(server) = None,
        }
        threads.party(me).phase = Phase::Idle;
    }

    /// Ends the part of `me`, which serves here: the call that it received ends with `error`.
    pub fn abandon<P: Threads<T>>(&mut self, threads: &mut P, me: T, error: Error) -> Option<T> {
        finish_call(threads, me, Err(error))
    }

    /// Closes the endpoint: from now on every step here ends with `error`. A call that was received still gets its reply, or
    /// its server's end. The caller repeats this while it returns a thread, and wakes that thread.
    pub fn close<P: Threads<T>>(&mut self, threads: &mut P, error: Error) -> Option<T> {
        self.closed = Some(error);
        self.turn_away(threads, error, |_| true)
    }

    /// Ends the wait of a thread that waits here to be received, for a message or for bits, and for which `is_meant` is true,
    /// with `error`. The caller repeats this while it returns a thread, and wakes that thread.
    pub fn turn_away<P: Threads<T>>(
        &mut self,
        threads: &mut P,
        error: Error,
        is_meant: impl Fn(T) -> bool,
    ) -> Option<T> {
        loop {
            let links = &mut PartyLinks(threads);
            let next = self.queued.find(links, &is_meant);
            let next = next.or_else(|| self.receiving.find(links, &is_meant))?;
            self.cancel(threads, next);
            threads.party(next).result = Err(error);
            // A thread that cannot be claimed is about to leave by itself, and finds nothing left to undo.
            if threads.claim(next) {
                return Some(next);
            }
        }
    }

    /// Opens the endpoint again after [`Endpoint::close`], for threads that come from now on.
    pub fn reopen(&mut self) {
        self.closed = None;
    }

    /// Claims and removes the first receiver that can be claimed.
    #[inline(always)]
    fn take_receiver<P: Threads<T>>(&mut self, threads: &mut P) -> Option<T> {
        let first = self.receiving.first()?;
        let receiver = if threads.claim(first) {
            self.receiving.remove_first(&mut PartyLinks(threads), first);
            first
        } else {
            self.take_later_receiver(threads, first)?
        };
        let party = threads.party(receiver);
        party.phase = Phase::Idle;
        party.result = Ok(());
        Some(receiver)
    }

    /// Claims and removes the first receiver behind `before` that can be claimed.
    #[cold]
    fn take_later_receiver<P: Threads<T>>(&mut self, threads: &mut P, before: T) -> Option<T> {
        let mut next = threads.party(before).links.next();
        while let Some(receiver) = next {
            if threads.claim(receiver) {
                self.receiving.remove(&mut PartyLinks(threads), receiver);
                return Some(receiver);
            }
            next = threads.party(receiver).links.next();
        }
        None
    }

    fn give_bits<P: Threads<T>>(&mut self, threads: &mut P, to: T) {
        let badge = self.take_bits();
        let message = Message { header: Header::notification(), badge, words: [0; 4] };
        threads.party(to).message = message;
    }

    /// Takes bits, or else the first message, or else waits. `woken` continues in any case.
    #[inline(always)]
    fn take_next<P: Threads<T>>(&mut self, threads: &mut P, me: T, woken: Option<T>) -> Next<T> {
        let goes_on = woken.map_or(Next::GoOn, Next::Wake);
        if let Some(error) = self.closed {
            let _ = refuse(threads, me, error);
            return goes_on;
        }
        threads.party(me).result = Ok(());
        if self.bits != 0 {
            self.give_bits(threads, me);
            return goes_on;
        }
        match self.take_message(threads, me) {
            Taken::Call => goes_on,
            Taken::Sent(sender) => match woken {
                Some(client) => Next::WakeBoth(client, sender),
                None => Next::Wake(sender),
            },
            Taken::None => {
                self.block_receiver(threads, me);
                woken.map_or(Next::Block, Next::HandOver)
            }
        }
    }

    /// Takes the first waiting message. A caller stays blocked, a sender continues.
    fn take_message<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Taken<T> {
        while let Some(sender) = self.queued.first() {
            self.queued.remove(&mut PartyLinks(threads), sender);
            let is_call = threads.party(sender).phase == Phase::Queued { is_call: true };
            threads.party(sender).phase = Phase::Idle;
            if is_call {
                threads.copy(sender, me);
                serve(threads, sender, me);
                return Taken::Call;
            }
            // A sender that a deadline or a kick has claimed is told that its message was not received.
            if threads.claim(sender) {
                threads.party(sender).result = Ok(());
                threads.copy(sender, me);
                return Taken::Sent(sender);
            }
        }
        Taken::None
    }
}

/// The result of looking for a message.
enum Taken<T> {
    None,
    Call,
    /// The message of this sender, which is claimed.
    Sent(T),
}

/// Ends the step of `me` with `error`; `me` continues.
fn refuse<T: Copy + Eq, P: Threads<T>>(threads: &mut P, me: T, error: Error) -> Next<T> {
    threads.party(me).result = Err(error);
    Next::GoOn
}

/// Records that `server` has received the call of `client`.
#[inline(always)]
fn serve<T: Copy + Eq, P: Threads<T>>(threads: &mut P, client: T, server: T) {
    threads.party(client).phase = Phase::Served(server);
    *threads.serving(server) = Some(client);
    threads.lend(client, server);
}

/// Ends the call that `me` received. Returns its caller, claimed.
#[inline(always)]
fn finish_call<T: Copy + Eq, P: Threads<T>>(
    threads: &mut P,
    me: T,
    result: Result<(), Error>,
) -> Option<T> {
    let client = threads.serving(me).take()?;
    threads.party(client).phase = Phase::Idle;
    if !threads.claim(client) {
        return None;
    }
    threads.party(client).result = result;
    if result.is_ok() {
        threads.copy(me, client);
    }
    Some(client)
}
