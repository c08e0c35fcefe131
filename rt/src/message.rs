//! Messages between components: calls that block until the reply, and notifications (L1, L2).
//!
//! An [`Endpoint`] is where a server receives and its clients call; [`Message`] is at most
//! [`MESSAGE_WORDS`] words and one [`Capability`]. Bits that anybody signals at an endpoint come to its
//! receiver before any message. The death of a server ends the calls it had received with
//! [`Error::Restarted`]; those not yet received wait for its successor. Cost as a system call: one a
//! step; a call and its reply are three (call, and the server's reply-and-receive before and after).
use crate::{memory::Region, time::Instant, world};
pub use ipc::{Error, MESSAGE_WORDS};

/// What may go along with a message.
#[derive(Clone, Debug)]
pub enum Capability {
    /// Shared memory.
    Region(Region),
    /// The right to call at an endpoint.
    Endpoint(Endpoint),
}

/// A message as its sender makes it and its receiver gets it.
#[derive(Debug)]
pub struct Message {
    pub(crate) label: u64,
    pub(crate) length: usize,
    pub(crate) words: [u64; MESSAGE_WORDS],
    pub(crate) badge: u64,
    pub(crate) is_notification: bool,
    /// What goes along.
    pub capability: Option<Capability>,
}

impl Message {
    /// An empty message; `label` has 48 bits.
    pub fn new(label: u64) -> Message {
        Message {
            label,
            length: 0,
            words: [0; MESSAGE_WORDS],
            badge: 0,
            is_notification: false,
            capability: None,
        }
    }
    /// Makes it an empty message of `label`, to be sent.
    pub fn reset(&mut self, label: u64) {
        (self.label, self.length, self.badge) = (label, 0, 0);
        (self.is_notification, self.capability) = (false, None);
    }
    /// What the sender said that it is.
    pub fn label(&self) -> u64 {
        self.label
    }
    /// Who sent it, as the server named the endpoint's capability.
    pub fn badge(&self) -> u64 {
        self.badge
    }
    /// The bits signalled, where it is no message but a notification.
    pub fn bits(&self) -> Option<u64> {
        self.is_notification.then_some(self.badge)
    }
    /// Its words.
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.length).unwrap_or_default()
    }
    /// Appends a word; `false` where it is full.
    #[must_use]
    pub fn push(&mut self, word: u64) -> bool {
        let Some(slot) = self.words.get_mut(self.length) else { return false };
        *slot = word;
        self.length += 1;
        true
    }
}

/// What a thread does with a message at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Call,
    Send,
    Receive,
    Reply,
    ReplyAndReceive,
}

/// Where a server and its clients meet. Clones are the same place.
#[derive(Clone, Debug)]
pub struct Endpoint(pub(crate) world::message::EndpointHandle);

impl Endpoint {
    /// A new one.
    ///
    /// # Errors
    /// [`crate::NoMemory`].
    pub fn new() -> Result<Endpoint, crate::NoMemory> {
        world::message::endpoint_new().map(Endpoint)
    }
    /// The right to call here, under `badge`.
    ///
    /// # Errors
    /// [`crate::NoMemory`].
    pub fn badged(&self, badge: u64) -> Result<Endpoint, crate::NoMemory> {
        world::message::endpoint_badged(&self.0, badge).map(Endpoint)
    }
    /// Sends `message` and blocks until the reply, which comes in its place.
    ///
    /// # Errors
    /// [`Error`].
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
    /// Blocks until there is a message or bits. A call received before and not answered is cancelled.
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
    /// Replies, where there is a caller, and blocks until there is a message or bits.
    ///
    /// # Errors
    /// [`Error`].
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

/// Where the component serves: its own endpoint, at which its clients call. Only in the process world.
#[cfg(all(target_os = "none", skerry_process))]
pub fn service() -> Endpoint {
    Endpoint(world::message::service())
}
