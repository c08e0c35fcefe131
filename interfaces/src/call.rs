//! The client's side of messages: [`Caller`], the failures of a call ([`Failure`]), and the result that
//! stands for a lost call ([`Lost`]).
//!
//! ```text
//! call      label  interface << 16 | method       words  instance, arguments
//! answer    label  0, or a Refusal                words  result
//! ```
//!
//! If the server dies after it received a call, the call returns [`Error::Restarted`], and the caller
//! issues it again if the method is idempotent. A call that no server has received yet waits for the
//! successor.
use crate::wire::{Reader, Wire};
use rt::{
    message::{Endpoint, Error, Message},
    time::{self, Instant},
};

/// The label of an answer that holds the result.
pub const DONE: u64 = 0;
/// Servers that may die over one call before the caller gives it up.
const RESTARTS_MAX: usize = 8;

/// The reason why a server did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Refusal {
    /// The words are not those of the method's arguments.
    Malformed = 1,
    /// There is no such instance.
    NoInstance = 2,
    /// The instance has another interface.
    NoInterface = 3,
    /// The interface has no such message.
    NoMethod = 4,
}

impl Refusal {
    /// Returns the refusal for the label of an answer.
    pub const fn of(label: u64) -> Option<Refusal> {
        match label {
            1 => Some(Refusal::Malformed),
            2 => Some(Refusal::NoInstance),
            3 => Some(Refusal::NoInterface),
            4 => Some(Refusal::NoMethod),
            _ => None,
        }
    }
    /// Returns the reason why an instance of `interface` has no message with that label.
    #[cold]
    pub const fn of_stray(label: u64, interface: u16) -> Refusal {
        if label >> 16 == interface as u64 { Refusal::NoMethod } else { Refusal::NoInterface }
    }
}

/// The reason why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No answer came.
    Lost(Error),
    /// The server refused the call.
    Refused(Refusal),
    /// The answer is malformed.
    Malformed,
}

/// A type of result with a value for a lost call.
pub trait Lost {
    /// The value for a lost call.
    fn lost(failure: Failure) -> Self;
}

impl Lost for () {
    fn lost(_: Failure) {}
}

impl<T> Lost for Option<T> {
    fn lost(_: Failure) -> Option<T> {
        None
    }
}

impl<T, E: From<Failure>> Lost for Result<T, E> {
    fn lost(failure: Failure) -> Result<T, E> {
        Err(failure.into())
    }
}

/// Whether a call may be done twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The call is never repeated.
    Never,
    /// If the server dies over the call, its successor is asked.
    OnRestart,
}

/// An instance behind an endpoint.
#[derive(Clone, Debug)]
pub struct Caller {
    endpoint: Endpoint,
    instance: u64,
    timeout_ns: Option<u64>,
}

impl Caller {
    /// Calls instance number `instance` of the server at `endpoint`. A call ends after `timeout_ns`,
    /// unless its method has a deadline of its own.
    pub fn new(endpoint: Endpoint, instance: u64, timeout_ns: Option<u64>) -> Caller {
        Caller { endpoint, instance, timeout_ns }
    }
    /// Timeout of a call whose method has no deadline of its own, in nanoseconds; `None` for no limit.
    #[inline]
    pub fn timeout_ns(&self) -> Option<u64> {
        self.timeout_ns
    }
    /// Calls with the arguments that `put` appends.
    ///
    /// # Errors
    /// [`Failure`].
    #[inline]
    pub fn call<T: Wire>(
        &self,
        label: u64,
        again: Again,
        timeout_ns: Option<u64>,
        put: impl Fn(&mut Message),
    ) -> Result<T, Failure> {
        let mut message = Message::new(label);
        self.instance.put(&mut message);
        put(&mut message);
        let deadline = timeout_ns.map(|ns| time::now().after_ns(ns));
        let outcome = match self.endpoint.call(&mut message, deadline) {
            Err(Error::Restarted) if again == Again::OnRestart => {
                self.call_again(label, deadline, &mut message, put)
            }
            outcome => outcome,
        };
        outcome.map_err(Failure::Lost)?;
        answer(&mut message)
    }
    /// Repeats a call to the successors of a server that died over it.
    #[cold]
    fn call_again(
        &self,
        label: u64,
        deadline: Option<Instant>,
        message: &mut Message,
        put: impl Fn(&mut Message),
    ) -> Result<(), Error> {
        for _ in 0..RESTARTS_MAX {
            message.reset(label);
            self.instance.put(message);
            put(message);
            match self.endpoint.call(message, deadline) {
                Err(Error::Restarted) => {}
                outcome => return outcome,
            }
        }
        Err(Error::Restarted)
    }
}

/// Reads an answer.
#[inline]
fn answer<T: Wire>(message: &mut Message) -> Result<T, Failure> {
    if message.label() != DONE {
        return Err(refused(message.label()));
    }
    let read = |mut reader: Reader<'_>| {
        let result = reader.take()?;
        reader.finish().map(|()| result)
    };
    Reader::of_answer(message, T::WORDS).and_then(read).map_err(|_| Failure::Malformed)
}

/// Returns the failure for an answer under `label` without a result.
#[cold]
fn refused(label: u64) -> Failure {
    Refusal::of(label).map_or(Failure::Malformed, Failure::Refused)
}
