//! Sequences: requests of which each begins when others have ended well, without the client between them.
//!
//! A caller that waits for a commit of a file system is woken once so, and a driver in another world is sent all of it at once: it
//! begins each step where it hears of the end of the one before.
use super::{Operation, Request};
use alloc::{vec, vec::Vec};

/// Most requests of a sequence.
pub const SEQUENCE_MAX: usize = 64;

/// Another request of a [`Sequence`].
#[derive(Clone, Debug)]
pub struct Step {
    /// The request; its tag says nothing.
    pub request: Request,
    /// It begins when all before it have ended well, else beside the one before it.
    pub is_after: bool,
}

/// Requests that end as one: well where all did, else with an error, and then nothing is begun any more. Where its driver
/// dies all of it may be done again, from the first request on: whatever is done twice must do no harm, and nothing else may
/// be written meanwhile where it writes. It reads nothing.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Begins at once. Its tag is the sequence's.
    pub first: Request,
    /// Those behind it.
    pub more: Vec<Step>,
}

impl Sequence {
    /// Begins `together`, and when they have ended each of `following`; `None` where there is nothing to do.
    pub fn of(
        together: impl IntoIterator<Item = Request>,
        following: impl IntoIterator<Item = Request>,
    ) -> Option<Sequence> {
        let step = |is_after| move |request| Step { request, is_after };
        let together = together.into_iter().map(step(false));
        let mut steps = together.chain(following.into_iter().map(step(true)));
        let first = steps.next()?.request;
        Some(Sequence { first, more: steps.collect() })
    }

    /// All of its requests.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        core::iter::once(&self.first).chain(self.more.iter().map(|step| &step.request))
    }

    /// The same, to be changed.
    pub fn requests_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        let more = self.more.iter_mut().map(|step| &mut step.request);
        core::iter::once(&mut self.first).chain(more)
    }

    /// Those that begin at once, and the steps behind them.
    pub fn split(self) -> (Vec<Request>, Vec<Step>) {
        let Sequence { first, mut more } = self;
        let beside = more.iter().take_while(|step| !step.is_after).count();
        let mut together = vec![first];
        together.extend(more.drain(..beside).map(|step| step.request));
        (together, more)
    }

    /// It has no more requests than allowed, and reads nothing.
    pub(crate) fn is_sound(&self) -> bool {
        self.more.len() < SEQUENCE_MAX
            && self.requests().all(|request| request.operation != Operation::Read)
    }
}
