//! The endpoint: who waits there, and what each step does to them.
use crate::{Error, Header, Message};
use runqueue::{Fifo, Node, Store};

/// The links of a thread that waits at an endpoint.
pub type Links<T> = Node<T>;

/// The state of a thread at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase<T> {
    /// Nothing.
    Idle,
    /// Waits to be received; `is_call` tells whether it also waits for a reply.
    Queued {
        /// It called.
        is_call: bool,
    },
    /// Its call was received by this thread and waits for the reply.
    Served(T),
    /// Waits for a message or bits.
    Receiving,
}

/// A thread's part in what goes on at the endpoint where it calls, sends or receives.
#[derive(Clone, Debug)]
pub struct Party<T> {
    /// The thread's state.
    pub phase: Phase<T>,
    /// The message that it sends, and then the one it got.
    pub message: Message,
    /// Result of its last step; valid once the thread goes on, unless a deadline or a kick woke it.
    pub result: Result<(), Error>,
    /// Its place in the endpoint's list.
    pub links: Links<T>,
}

impl<T> Party<T> {
    /// Of a thread that does nothing.
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
    /// The part of `thread`, which takes part at this endpoint.
    fn party(&mut self, thread: T) -> &mut Party<T>;
    /// The reply right of `thread`, which serves at this endpoint.
    fn serving(&mut self, thread: T) -> &mut Serving<T>;
    /// Takes the right to let `thread`, which is blocked, go on; fails where a deadline or a kick has it.
    fn claim(&mut self, thread: T) -> bool;
    /// From now on `thread`, the caller, is blocked and may be claimed.
    fn block(&mut self, thread: T);
    /// Copies the message of `from` (what does not travel in registers, too) to `to`.
    fn copy(&mut self, from: T, to: T);
    /// `server`, which runs or was claimed, works for `client` from now on: its priority goes along.
    fn lend(&mut self, client: T, server: T);
}

struct PartyLinks<'a, P>(&'a mut P);

impl<T: Copy + Eq, P: Threads<T>> Store<T> for PartyLinks<'_, P> {
    fn node(&mut self, of: T) -> &mut Node<T> {
        &mut self.0.party(of).links
    }
}

/// The work to be done after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next<T> {
    /// The caller goes on.
    GoOn,
    /// The caller goes on, and this claimed thread too.
    Wake(T),
    /// The caller goes on, and these claimed threads too.
    WakeBoth(T, T),
    /// The caller blocks.
    Block,
    /// The caller blocks, and this claimed thread goes on, best at once in its place.
    HandOver(T),
}

/// The meeting place of threads; see the crate.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<T> {
    queued: Fifo<T>,
    receiving: Fifo<T>,
    /// Signalled and not yet received.
    bits: u64,
    closed: Option<Error>,
}

impl<T> Endpoint<T> {
    /// Nobody waits.
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
    /// `me` sends the message in its party; with `is_call` it waits for the reply.
    #[inline(always)]
    pub fn send<P: Threads<T>>(&mut self, threads: &mut P, me: T, is_call: bool) -> Next<T> {
        if let Some(error) = self.closed {
            return refuse(threads, me, error);
        }
        let Some(receiver) = self.take_receiver(threads) else {
            threads.party(me).phase = Phase::Queued { is_call };
            self.queued.push_back(&mut PartyLinks(threads), me);
            threads.block(me);
            return Next::Block;
        };
        threads.copy(me, receiver);
        if is_call {
            serve(threads, me, receiver);
            threads.block(me);
            Next::HandOver(receiver)
        } else {
            threads.party(me).result = Ok(());
            Next::Wake(receiver)
        }
    }

    /// `me` waits for a message or bits. A call that it received before and did not answer is cancelled.
    #[inline]
    pub fn receive<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Next<T> {
        let cancelled = finish_call(threads, me, Err(Error::Cancelled));
        self.take_next(threads, me, cancelled)
    }

    /// `me` replies to the call it received with the message in its party.
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

    /// [`Endpoint::reply`], where there is somebody to reply to, and [`Endpoint::receive`].
    #[inline(always)]
    pub fn reply_and_receive<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Next<T> {
        let answered = finish_call(threads, me, Ok(()));
        self.take_next(threads, me, answered)
    }

    /// Whether a receiver would block.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.bits == 0 && self.queued.first().is_none() && self.closed.is_none()
    }

    /// [`Endpoint::reply_and_receive`] where the endpoint [is quiet](Endpoint::is_quiet).
    #[inline(always)]
    pub fn reply_and_block<P: Threads<T>>(&mut self, threads: &mut P, me: T) -> Next<T> {
        let answered = finish_call(threads, me, Ok(()));
        self.block_receiver(threads, me);
        answered.map_or(Next::Block, Next::HandOver)
    }

    /// The thread that would receive the next call.
    #[inline(always)]
    pub fn first_receiver(&self) -> Option<T> {
        self.receiving.first()
    }

    /// [`Endpoint::send`] of a call to the [first receiver](Endpoint::first_receiver), which then goes on: its message is
    /// the caller's to bring, and nothing is lent. False where somebody else has it; then nothing was done.
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

    /// [`Endpoint::reply_and_block`] to `client`, whose call `me` has received, which then goes on: its message is the
    /// caller's to bring. False where somebody else has it; then nothing was done.
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

    #[inline(always)]
    fn block_receiver<P: Threads<T>>(&mut self, threads: &mut P, me: T) {
        threads.party(me).phase = Phase::Receiving;
        self.receiving.push_back(&mut PartyLinks(threads), me);
        threads.block(me);
    }

    /// Adds `bits` to those signalled; a receiver gets them at once.
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

    /// The bits signalled and not received, which are then received.
    pub fn take_bits(&mut self) -> u64 {
        core::mem::take(&mut self.bits)
    }

    /// Undoes the part of `me`, which was woken by no partner.
    pub fn cancel<P: Threads<T>>(&mut self, threads: &mut P, me: T) {
        match threads.party(me).phase {
            Phase::Idle => {}
            Phase::Queued { .. } => self.queued.remove(&mut PartyLinks(threads), me),
            Phase::Receiving => self.receiving.remove(&mut PartyLinks(threads), me),
            Phase::Served(server) => *threads.serving(server) = None,
        }
        threads.party(me).phase = Phase::Idle;
    }

    /// `me`, which serves here, ends: the call it received ends with `error`.
    pub fn abandon<P: Threads<T>>(&mut self, threads: &mut P, me: T, error: Error) -> Option<T> {
        finish_call(threads, me, Err(error))
    }

    /// From now on every step here ends with `error`; a call that was received still gets its reply, or its
    /// server's end. To be repeated while it returns a thread, which is to be woken.
    pub fn close<P: Threads<T>>(&mut self, threads: &mut P, error: Error) -> Option<T> {
        self.closed = Some(error);
        self.turn_away(threads, error, |_| true)
    }

    /// Tells `error` to a thread that waits here to be received, for a message or for bits, and `is_meant`. To be repeated while
    /// it returns a thread, which is to be woken.
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
            // A thread that cannot be claimed is on its way out by itself, and finds nothing left to undo.
            if threads.claim(next) {
                return Some(next);
            }
        }
    }

    /// Takes back [`Endpoint::close`] for whoever comes from now on.
    pub fn reopen(&mut self) {
        self.closed = None;
    }

    /// Claims the first receiver that can be claimed and takes it out.
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

    /// Claims the first receiver behind `before` that can be claimed and takes it out.
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

    /// Bits, else the first message, else waiting; `woken` goes on in any case.
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

    /// Takes the first message that waits. A caller stays blocked, a sender goes on.
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
            // One that a deadline or a kick has is told that it was not received.
            if threads.claim(sender) {
                threads.party(sender).result = Ok(());
                threads.copy(sender, me);
                return Taken::Sent(sender);
            }
        }
        Taken::None
    }
}

/// The message that a receiver found.
enum Taken<T> {
    None,
    Call,
    /// Of this sender, claimed.
    Sent(T),
}

/// `me` goes on and is told `error`.
fn refuse<T: Copy + Eq, P: Threads<T>>(threads: &mut P, me: T, error: Error) -> Next<T> {
    threads.party(me).result = Err(error);
    Next::GoOn
}

/// `server` has received the call of `client`.
#[inline(always)]
fn serve<T: Copy + Eq, P: Threads<T>>(threads: &mut P, client: T, server: T) {
    threads.party(client).phase = Phase::Served(server);
    *threads.serving(server) = Some(client);
    threads.lend(client, server);
}

/// Ends the call that `me` received; the caller, claimed.
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
