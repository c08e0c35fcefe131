//! One-shot timers of a thread that receives, so that it waits for messages, bits and a time at once.
use crate::{
    message::{Endpoint, Error, Message},
    time::{self, Instant},
};
use alloc::vec::Vec;

/// The timers that are set. When one is due its bits come as if they had been signalled. Cost as a system call: none; a
/// receive with a timer is a receive with a deadline.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    set: Vec<(Instant, u64)>,
}

impl Timers {
    /// Makes timers of which none is set.
    pub const fn new() -> Timers {
        Timers { set: Vec::new() }
    }

    /// Sets the timer of `bits`: they come once, at `at`. This replaces an earlier setting; `None` removes it.
    pub fn set(&mut self, bits: u64, at: Option<Instant>) {
        self.set.retain(|&(_, other)| other != bits);
        self.set.extend(at.map(|at| (at, bits)));
    }

    /// Returns the time at which the first timer is due.
    pub fn first(&self) -> Option<Instant> {
        self.set.iter().map(|&(at, _)| at).min()
    }

    /// Removes the timers that are due and returns their bits.
    fn take_due(&mut self) -> u64 {
        let now = time::now();
        let due = self.set.extract_if(.., |&mut (at, _)| at <= now);
        due.fold(0, |all, (_, bits)| all | bits)
    }

    /// Receives as [`Endpoint::receive`] does. The bits of timers that are due come alone or with signalled bits.
    ///
    /// # Errors
    /// Those of [`Endpoint::receive`].
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

    /// Replies and receives as [`Endpoint::reply_and_receive`] does, with timers as [`Timers::receive`].
    ///
    /// # Errors
    /// Those of [`Endpoint::reply_and_receive`].
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

    /// Returns the result of a step that ended in this way; `None` if the step is to be repeated.
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
