//! Messages between components: calls that block until the reply, and notifications (L1, L2).
//!
//! An [`Endpoint`] is the place where a server receives and its clients call. A [`Message`] is at most [`MESSAGE_WORDS`] words
//! and one [`Capability`]. Bits that are signalled at an endpoint come to its receiver before any message. The death of a
//! server ends the calls that it had received with [`Error::Restarted`]; calls not yet received wait for its successor. A
//! capability given as a [`Derivation`] can be revoked. Each step costs one system call; a call and its reply are three steps (the
//! call, and the server's reply-and-receive before and after it).
use crate::{memory::Region, time::Instant, world};
use core::{fmt, mem::MaybeUninit};
use ipc::INLINE_WORDS;
pub use ipc::{Error, MESSAGE_WORDS};

/// A capability that may go along with a message.
#[derive(Clone, Debug)]
pub enum Capability {
    /// Shared memory.
    Region(Region),
    /// The right to call an endpoint.
    Endpoint(Endpoint),
    /// The right to lend frames to a driver's devices. In the process world it is a [`Capability::View`], because each further
    /// variant costs each message some 20 instructions; [`Capability::into_lender`] takes it out.
    #[cfg(not(all(target_os = "none", skerry_process)))]
    Lender(crate::device::DmaWindow),
    /// The right to copy through a window, or to lend. Only in the process world.
    #[cfg(all(target_os = "none", skerry_process))]
    View(crate::window::View),
}

impl Capability {
    /// Makes the capability of the right to lend by `window`.
    pub fn lender(window: crate::device::DmaWindow) -> Capability {
        #[cfg(all(target_os = "none", skerry_process))]
        return Capability::View(crate::window::View(window.0));
        #[cfg(not(all(target_os = "none", skerry_process)))]
        Capability::Lender(window)
    }

    /// Returns the right to lend, if this can be one. In the process world it shows when it is used.
    pub fn into_lender(self) -> Option<crate::device::DmaWindow> {
        match self {
            #[cfg(all(target_os = "none", skerry_process))]
            Capability::View(view) => Some(crate::device::DmaWindow(view.0)),
            #[cfg(not(all(target_os = "none", skerry_process)))]
            Capability::Lender(window) => Some(window),
            _ => None,
        }
    }
}

/// Rights that holders of a [`Derivation`] have in addition to calling and reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The right to serve at an endpoint.
    pub can_serve: bool,
    /// The right to write a region.
    pub can_write: bool,
}

/// A copy of a capability that can be revoked: when this is dropped, all holders of it or of copies made of it lose it. Its
/// endpoint is then [`Error::Gone`] to them, also for threads that wait there; a call that was received is still answered. An
/// isolated component that then touches memory given this way is ended. The end of a component revokes its derivations. The kernel
/// world, which is trusted, keeps memory that it was given.
#[derive(Debug)]
pub struct Derivation {
    capability: Capability,
    derivation: world::message::DerivationHandle,
}

impl Derivation {
    /// Gives `capability` with at most `rights`. A right to call that is made from a right to serve has `badge`; any other has
    /// its own badge. Cost as a system call: one, and one when it is revoked.
    ///
    /// # Errors
    /// [`crate::NoMemory`], also if it was given on too often (16 times) or was revoked.
    pub fn new(
        capability: &Capability,
        rights: Rights,
        badge: u64,
    ) -> Result<Derivation, crate::NoMemory> {
        let (capability, derivation) = world::message::give(capability, rights, badge)?;
        Ok(Derivation { capability, derivation })
    }
    /// Returns the capability to send.
    pub fn capability(&self) -> Capability {
        self.capability.clone()
    }
}

impl Drop for Derivation {
    fn drop(&mut self) {
        world::message::revoke(&self.derivation);
    }
}

/// A message, for its sender to make and its receiver to read.
///
/// Only the words in use, and always those that travel in registers, are ever written, so that making a message costs nothing.
pub struct Message {
    pub(crate) label: u64,
    length: usize,
    words: [MaybeUninit<u64>; MESSAGE_WORDS],
    pub(crate) badge: u64,
    pub(crate) is_notification: bool,
    /// The capability that goes along; it leaves its sender.
    pub capability: Option<Capability>,
}

impl Message {
    /// Makes an empty message. `label` has 48 bits.
    #[inline]
    pub fn new(label: u64) -> Message {
        let mut words = [const { MaybeUninit::uninit() }; MESSAGE_WORDS];
        words[..INLINE_WORDS].fill(MaybeUninit::new(0));
        Message { label, length: 0, words, badge: 0, is_notification: false, capability: None }
    }
    /// Makes this an empty message of `label`, to be sent.
    #[inline]
    pub fn reset(&mut self, label: u64) {
        (self.label, self.length, self.badge) = (label, 0, 0);
        (self.is_notification, self.capability) = (false, None);
    }
    /// Returns the label that the sender gave.
    #[inline]
    pub fn label(&self) -> u64 {
        self.label
    }
    /// Returns the badge of the sender: the number that the server gave the sender's capability.
    pub fn badge(&self) -> u64 {
        self.badge
    }
    /// Returns the signalled bits, if this is a notification and not a message.
    #[inline]
    pub fn bits(&self) -> Option<u64> {
        self.is_notification.then_some(self.badge)
    }
    /// Makes this a notification of `bits`.
    pub(crate) fn make_bits(&mut self, bits: u64) {
        self.reset(0);
        (self.badge, self.is_notification) = (bits, true);
    }
    /// Returns the words of the message.
    #[inline]
    pub fn words(&self) -> &[u64] {
        // SAFETY: so many were written, and there are no more than that.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr().cast(), self.length) }
    }
    /// Returns the words and the capability that came along.
    #[inline]
    pub fn parts(&mut self) -> (&[u64], &mut Option<Capability>) {
        // SAFETY: as in `words`.
        let words = unsafe { core::slice::from_raw_parts(self.words.as_ptr().cast(), self.length) };
        (words, &mut self.capability)
    }
    /// Appends a word. Returns `false` if the message is full.
    #[inline]
    #[must_use]
    pub fn push(&mut self, word: u64) -> bool {
        let Some(slot) = self.words.get_mut(self.length) else { return false };
        slot.write(word);
        self.length += 1;
        true
    }
    /// Returns the words that travel in registers, whatever the message's length.
    #[cfg(target_os = "none")]
    #[inline]
    pub(crate) fn inline_words(&self) -> [u64; INLINE_WORDS] {
        // SAFETY: these were written when it was made.
        core::array::from_fn(|index| unsafe { self.words[index].assume_init() })
    }
    /// Sets the first words, which came in registers, and the length of at most that many. Further words are
    /// [`Message::push`]ed.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    #[inline]
    pub(crate) fn set_words(&mut self, first: [u64; INLINE_WORDS], length: usize) {
        self.words[..INLINE_WORDS].copy_from_slice(&first.map(MaybeUninit::new));
        self.length = length.min(INLINE_WORDS);
    }
}

/// Operations of the kernel world, which copies words from message to message.
#[cfg(all(target_os = "none", not(skerry_process)))]
impl Message {
    /// Returns the places of the words.
    pub(crate) fn area(&mut self) -> &mut [MaybeUninit<u64>; MESSAGE_WORDS] {
        &mut self.words
    }
    /// Sets the first words to `first` and the length to `length`; the words behind the first are in place.
    ///
    /// # Safety
    /// The memory behind up to there was written.
    pub(crate) unsafe fn came(&mut self, first: [u64; INLINE_WORDS], length: usize) {
        self.words[..INLINE_WORDS].copy_from_slice(&first.map(MaybeUninit::new));
        self.length = length.min(MESSAGE_WORDS);
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut to = to.debug_struct("Message");
        to.field("label", &self.label).field("words", &self.words()).field("badge", &self.badge);
        to.field("capability", &self.capability).finish_non_exhaustive()
    }
}

/// The kind of a thread's step with a message at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Call,
    Send,
    Receive,
    Reply,
    ReplyAndReceive,
}

/// The meeting place of a server and its clients. Clones are the same endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint(pub(crate) world::message::EndpointHandle);

impl Endpoint {
    /// Makes a new endpoint.
    ///
    /// # Errors
    /// [`crate::NoMemory`].
    pub fn new() -> Result<Endpoint, crate::NoMemory> {
        world::message::endpoint_new().map(Endpoint)
    }
    /// Returns a right to call this endpoint under `badge`.
    ///
    /// # Errors
    /// [`crate::NoMemory`].
    pub fn badged(&self, badge: u64) -> Result<Endpoint, crate::NoMemory> {
        world::message::endpoint_badged(&self.0, badge).map(Endpoint)
    }
    /// Sends `message` and blocks until the reply, which replaces it.
    ///
    /// # Errors
    /// [`Error`].
    #[inline]
    pub fn call(&self, message: &mut Message, deadline: Option<Instant>) -> Result<(), Error> {
        self.step(Step::Call, message, deadline)
    }
    /// Sends `message` and blocks until it was received.
    ///
    /// # Errors
    /// [`Error`].
    pub fn send(&self, message: &mut Message, deadline: Option<Instant>) -> Result<(), Error> {
        self.step(Step::Send, message, deadline)
    }
    /// Blocks until a message or bits come. A call that this thread received before and did not answer is cancelled.
    ///
    /// # Errors
    /// [`Error`].
    pub fn receive(&self, message: &mut Message, deadline: Option<Instant>) -> Result<(), Error> {
        self.step(Step::Receive, message, deadline)
    }
    /// Replies to the call that the calling thread received here last.
    ///
    /// # Errors
    /// [`Error::NoCaller`].
    pub fn reply(&self, message: &mut Message) -> Result<(), Error> {
        self.step(Step::Reply, message, None)
    }
    /// Replies, if there is a caller, and blocks until a message or bits come.
    ///
    /// # Errors
    /// [`Error`].
    #[inline]
    pub fn reply_and_receive(
        &self,
        message: &mut Message,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        self.step(Step::ReplyAndReceive, message, deadline)
    }
    #[inline(always)]
    fn step(
        &self,
        step: Step,
        message: &mut Message,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        world::message::step(&self.0, step, message, deadline.map(|at| at.0))
    }
    /// Signals `bits`; never blocks.
    pub fn signal(&self, bits: u64) {
        world::message::signal(&self.0, bits);
    }
}

/// Returns the component's own endpoint, at which its clients call. Only in the process world.
#[cfg(all(target_os = "none", skerry_process))]
pub fn service() -> Endpoint {
    Endpoint(world::message::service())
}
