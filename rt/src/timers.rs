//! One-shot timers of a thread that receives: it waits for messages, bits and time at once.
use crate::{
    message::{Endpoint, Error, Message},
    time::{self, Instant},
};
use alloc::vec::Vec;

/// The timers that are set, by the bits that come when each is due as if they had been signalled. Cost as a system call:
/// none; a receive with a timer is one with a deadline.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    set: Vec<(Instant, u64)>,
}

impl Timers {
    /// None is set.
    pub const fn new() -> Timers {
        Timers { set: Vec::new() }
    }

    /// From now on `bits` come at `at`, once, and at no other time that was set before; with `None` not at all.
    pub fn set(&mut self, bits: u64, at: Option<Instant>) {
        self.set.retain(|&(_, other)| other != bits);
        self.set.extend(at.map(|at| (at, bits)));
    }

    /// When the first is due.
    pub fn first(&self) -> Option<Instant> {
        self.set.iter().map(|&(at, _)| at).min()
    }

    /// The bits of those that are due, which are set no more.
    fn take_due(&mut self) -> u64 {
        let now = time::now();
        let due = self.set.extract_if(.., |&mut (at, _)| at <= now);
        due.fold(0, |all, (_, bits)| all | bits)
    }

    /// [`Endpoint::receive`]; the bits of timers that are due come alone or with those that were signalled.
    ///
    /// # Errors
    /// As [`Endpoint::receive`].
    pub fn receive(
        &mut self,
        endpoint: &Endpoint,
        message: &mut Message,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        loop {
            let received = endpoint.receive(message, self.before(deadline));
            if let Some(result) = self.finish(received, message, deadline) {
                return result;
            }
        }
    }

    /// [`Endpoint::reply_and_receive`], as [`Timers::receive`].
    ///
    /// # Errors
    /// As [`Endpoint::reply_and_receive`].
    pub fn reply_and_receive(
        &mut self,
        endpoint: &Endpoint,
        message: &mut Message,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let received = endpoint.reply_and_receive(message, self.before(deadline));
        let finished = self.finish(received, message, deadline);
        finished.unwrap_or_else(|| self.receive(endpoint, message, deadline))
    }

    fn before(&self, deadline: Option<Instant>) -> Option<Instant> {
        [self.first(), deadline].into_iter().flatten().min()
    }

    /// The result of a step that ended so; `None` where it is to be gone on with.
    fn finish(
        &mut self,
        received: Result<(), Error>,
        message: &mut Message,
        deadline: Option<Instant>,
    ) -> Option<Result<(), Error>> {
        match received {
            Ok(()) if message.bits().is_none() => Some(Ok(())),
            Ok(()) | Err(Error::TimedOut) => {
                let bits =
                    self.take_due() | message.bits().filter(|_| received.is_ok()).unwrap_or(0);
                if bits != 0 {
                    message.make_bits(bits);
                    return Some(Ok(()));
                }
                let is_over = deadline.is_some_and(|deadline| deadline <= time::now());
                is_over.then_some(Err(Error::TimedOut))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
