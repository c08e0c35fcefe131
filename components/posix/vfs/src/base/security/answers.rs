//! The monitor's answers about a subject and a label that are labels themselves: that of what the subject makes in a place, and
//! that of the process that executes a file.
//!
//! Each label keeps the answer for the subject that asked last, because a file is mostly made, or a program executed, by the subject
//! of the last one. An answer holds for one version of the policy. Answers are never freed; there are at most [`ANSWERS_MAX`], and
//! the monitor is asked each time about more pairs.
use super::{Label, Security, SecuritySubject, enforced};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use interfaces::monitor::Denial;
use labels::ContextId;
use rt::sync::StaticRef;

/// The greatest number of answers.
const ANSWERS_MAX: usize = 1024;

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    /// The label of what the subject makes in a place with the label.
    Made,
    /// The label of the process that executes a file with the label.
    Entered,
    /// The label of the directory that the subject finds in the place of one with the label.
    Within,
}

/// An answer to one subject.
#[derive(Debug)]
pub(super) struct Answer {
    subject: ContextId,
    /// The version of the policy that made it; 0 for none.
    version: AtomicU64,
    label: StaticRef<Label>,
}

/// The answer that a label has before the first.
pub(super) static NO_ANSWER: Answer = Answer {
    subject: ContextId(u32::MAX),
    version: AtomicU64::new(0),
    label: StaticRef::new(&super::label::UNKNOWN),
};

/// Returns the label of an object that a subject makes in a place with the label `place`, which is known; `None` if no policy is
/// enforced.
///
/// # Errors
/// [`Denial::Full`].
pub fn made(subject: &SecuritySubject, place: &Label) -> Result<Option<&'static Label>, Denial> {
    let Some(security) = enforced() else { return Ok(None) };
    let own = subject.context();
    let ask = |place| security.monitor.made(own, place);
    security.answer((Question::Made, own, place), ask).map(Some)
}

/// Returns the label of the directory that a subject finds in the place of one with the label `place`, which is known: another one
/// if that is multilevel and below the subject.
///
/// # Errors
/// [`Denial::Full`].
pub fn within(subject: &SecuritySubject, place: &'static Label) -> Result<&'static Label, Denial> {
    let Some(security) = enforced().filter(|_| place.is_multilevel()) else { return Ok(place) };
    let own = subject.context();
    let ask = |place| security.monitor.within(own, place);
    security.answer((Question::Within, own, place), ask)
}

impl Security {
    /// Returns the answer to a question of a subject about a label: the kept one, or the one that `ask` gets from the monitor.
    #[inline]
    pub(super) fn answer(
        &self,
        (question, subject, about): (Question, ContextId, &Label),
        ask: impl FnOnce(ContextId) -> Result<ContextId, Denial>,
    ) -> Result<&'static Label, Denial> {
        let kept = about.answer(question).get();
        let version = self.version.load(Ordering::Acquire);
        if kept.subject == subject && kept.version.load(Ordering::Acquire) == version {
            return Ok(kept.label.get());
        }
        self.ask_for_label((question, subject, about), ask)
    }
    #[cold]
    fn ask_for_label(
        &self,
        (question, subject, about): (Question, ContextId, &Label),
        ask: impl FnOnce(ContextId) -> Result<ContextId, Denial>,
    ) -> Result<&'static Label, Denial> {
        let context = about.context().ok_or(Denial::Invalid)?;
        let _shared = self.decisions.read();
        let label = self.label(ask(context)?);
        let answers = &mut self.labels.write().answers;
        let key = (question, subject, context);
        if answers.len() >= ANSWERS_MAX && !answers.contains_key(&key) {
            return Ok(label);
        }
        let answer: &'static Answer = answers.entry(key).or_insert_with(|| {
            let version = AtomicU64::new(0);
            Box::leak(Box::new(Answer { subject, version, label: StaticRef::new(label) }))
        });
        answer.label.set(label);
        answer.version.store(self.version.load(Ordering::Relaxed), Ordering::Release);
        about.answer(question).set(answer);
        Ok(label)
    }
}
