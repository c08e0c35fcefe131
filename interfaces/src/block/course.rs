//! Runs a [`Sequence`] on a device that does not order requests itself. The thread that is told of the end of one step begins
//! the next.
use super::{Block, BlockError, BlockSink, Request, Sequence, SequenceStep};
use alloc::{
    sync::{Arc, Weak},
    vec::{IntoIter, Vec},
};
use core::{
    iter::Peekable,
    sync::atomic::{AtomicUsize, Ordering::*},
};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static COURSE = "block.course";
}

/// The owner of a sequence: a client's session, or a client whose device does not order requests itself.
pub trait SequenceOwner: Send + Sync {
    /// Returns whether a step may begin.
    fn may_begin(&self) -> bool;
    /// The device has no room for `batch` now. A thread that may wait must submit it for `sink`.
    fn submit_later(&self, batch: Vec<Request>, sink: Arc<dyn BlockSink>);
    /// The whole sequence has ended. If requests failed, `at` is the index of the first of them.
    fn ended(&self, tag: u64, at: u32, result: Result<(), BlockError>);
}

/// A sequence under way.
pub struct Course {
    block: Arc<dyn Block>,
    owner: Arc<dyn SequenceOwner>,
    tag: u64,
    /// Requests that were begun and have not ended.
    left: AtomicUsize,
    state: Mutex<CourseState>,
    this: Weak<Course>,
}

struct CourseState {
    /// Index and error of the failed request that comes first in the sequence.
    failed: Option<(u64, BlockError)>,
    rest: Peekable<IntoIter<SequenceStep>>,
}

impl Course {
    /// Begins `sequence` at `block`. The calling thread must be one that may wait.
    pub fn begin(block: &Arc<dyn Block>, owner: &Arc<dyn SequenceOwner>, mut sequence: Sequence) {
        let tag = sequence.first.tag;
        sequence.requests_mut().zip(0..).for_each(|(request, at)| request.tag = at);
        let (mut together, rest) = sequence.split();
        let state = CourseState { failed: None, rest: rest.into_iter().peekable() };
        let course = Arc::new_cyclic(|this| Course {
            block: block.clone(),
            owner: owner.clone(),
            tag,
            left: AtomicUsize::new(together.len()),
            state: Mutex::new(&COURSE, state),
            this: this.clone(),
        });
        let sink: Arc<dyn BlockSink> = course;
        block.submit(&mut together, &sink);
    }

    /// Continues with the next step: all requests that were begun have ended.
    fn go_on(&self) {
        let may_begin = self.owner.may_begin();
        let next = {
            let mut state = self.state.lock();
            if state.failed.is_none()
                && !may_begin
                && let Some(next) = state.rest.peek()
            {
                state.failed = Some((next.request.tag, BlockError::Restarted));
            }
            if state.failed.is_none() { state.take_step() } else { Vec::new() }
        };
        let this = self.this.upgrade().filter(|_| !next.is_empty());
        let Some(sink) = this.map(|this| -> Arc<dyn BlockSink> { this }) else {
            let failed = self.state.lock().failed;
            let (at, result) = failed.map_or((0, Ok(())), |(at, error)| (at as u32, Err(error)));
            return self.owner.ended(self.tag, at, result);
        };
        self.left.store(next.len(), Release);
        let mut refused = Vec::new();
        for request in next {
            refused.extend(self.block.offer(request, &sink).err());
        }
        if !refused.is_empty() {
            self.owner.submit_later(refused, sink);
        }
    }
}

impl CourseState {
    /// Takes the requests of the next step.
    fn take_step(&mut self) -> Vec<Request> {
        let mut step = Vec::new();
        step.extend(self.rest.next().map(|step| step.request));
        while let Some(beside) = self.rest.next_if(|next| !next.is_after) {
            step.push(beside.request);
        }
        step
    }
}

impl BlockSink for Course {
    fn completed(&self, at: u64, result: Result<(), BlockError>) {
        if let Err(error) = result {
            let failed = &mut self.state.lock().failed;
            if failed.is_none_or(|(before, _)| at < before) {
                *failed = Some((at, error));
            }
        }
        if self.left.fetch_sub(1, AcqRel) == 1 {
            self.go_on();
        }
    }
}

impl core::fmt::Debug for Course {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Course").field("tag", &self.tag).finish_non_exhaustive()
    }
}
