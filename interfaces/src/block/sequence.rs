//! Sequences: requests in order, of which some begin only when those before have ended well, without the client in between.
//!
//! So a thread that waits for a file system's commit is woken once. A driver in another world is sent the whole sequence at
//! once, and begins each step when it is told of the end of the one before.
use super::{Operation, Request};
use alloc::{vec, vec::Vec};

/// The greatest number of requests of a sequence.
pub const SEQUENCE_MAX: usize = 64;

/// One further request of a [`Sequence`].
#[derive(Clone, Debug)]
pub struct SequenceStep {
    /// The request; its tag is not used.
    pub request: Request,
    /// The request begins when all before it have ended well; otherwise together with the one before it.
    pub is_after: bool,
}

/// Requests that have one result: success if all succeeded, else an error, after which no further request is begun. If the
/// driver dies, the sequence may be done again from its first request on. So repeating a request must do no harm, and nothing
/// else may write to the same sectors meanwhile. A sequence reads nothing.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The request that begins at once. Its tag is the sequence's tag.
    pub first: Request,
    /// The requests behind the first.
    pub more: Vec<SequenceStep>,
}

impl Sequence {
    /// Makes a sequence that begins `together` at once and, when they have ended, each of `following` in turn. Returns `None`
    /// if both are empty.
    pub fn of(
        together: impl IntoIterator<Item = Request>,
        following: impl IntoIterator<Item = Request>,
    ) -> Option<Sequence> {
        let step = |is_after| move |request| SequenceStep { request, is_after };
        let together = together.into_iter().map(step(false));
        let mut steps = together.chain(following.into_iter().map(step(true)));
        let first = steps.next()?.request;
        Some(Sequence { first, more: steps.collect() })
    }

    /// Returns all requests of the sequence.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        core::iter::once(&self.first).chain(self.more.iter().map(|step| &step.request))
    }

    /// Returns all requests of the sequence, mutable.
    pub fn requests_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        let more = self.more.iter_mut().map(|step| &mut step.request);
        core::iter::once(&mut self.first).chain(more)
    }

    /// Splits the sequence into the requests that begin at once and the steps behind them.
    pub fn split(self) -> (Vec<Request>, Vec<SequenceStep>) {
        let Sequence { first, mut more } = self;
        let beside = more.iter().take_while(|step| !step.is_after).count();
        let mut together = vec![first];
        together.extend(more.drain(..beside).map(|step| step.request));
        (together, more)
    }

    /// Returns whether the sequence has no more requests than allowed and reads nothing.
    pub(crate) fn is_sound(&self) -> bool {
        self.more.len() < SEQUENCE_MAX
            && self.requests().all(|request| request.operation != Operation::Read)
    }
}
