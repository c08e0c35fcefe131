//! [`Label`]: what objects with the same context share.
use super::{
    SECURITY, SecuritySubject,
    answers::{Answer, NO_ANSWER, Question},
    flows::Judged,
};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use interfaces::monitor::ObjectAccess;
use labels::{ContextId, SecrecyId};
use rt::sync::StaticRef;

/// A context, and which subjects may access the objects that have it. Labels are never freed: the monitor limits their number.
#[derive(Debug)]
pub struct Label {
    /// `None`: the object's context was not looked for yet.
    pub(super) context: Option<ContextId>,
    /// The number of the context's secrecy.
    secrecy: SecrecyId,
    text: Vec<u8>,
    readers: AtomicU64,
    writers: AtomicU64,
    executors: AtomicU64,
    made: StaticRef<Answer>,
    entered: StaticRef<Answer>,
    within: StaticRef<Answer>,
    /// Directories that have it are multilevel.
    is_multilevel: AtomicBool,
    #[cfg(feature = "check")]
    pub(super) facts: rt::sync::Once<super::flows::Facts>,
}

/// The label of all objects in a system without a monitor.
static OPEN: Label = Label::allowing(u64::MAX);
/// The label of objects whose context was not looked for.
pub(super) static UNKNOWN: Label = Label::allowing(0);

impl PartialEq for Label {
    fn eq(&self, other: &Label) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for Label {}

impl Label {
    const fn allowing(subjects: u64) -> Label {
        Label {
            context: None,
            secrecy: SecrecyId::NONE,
            text: Vec::new(),
            readers: AtomicU64::new(subjects),
            writers: AtomicU64::new(subjects),
            executors: AtomicU64::new(subjects),
            made: StaticRef::new(&NO_ANSWER),
            entered: StaticRef::new(&NO_ANSWER),
            within: StaticRef::new(&NO_ANSWER),
            is_multilevel: AtomicBool::new(false),
            #[cfg(feature = "check")]
            facts: rt::sync::Once::new(),
        }
    }
    /// Makes the label of a context of a secrecy, whose text ends with a NUL.
    pub(super) fn new((context, secrecy): (ContextId, SecrecyId), text: Vec<u8>) -> Label {
        Label { context: Some(context), secrecy, text, ..Label::allowing(0) }
    }
    /// Makes one with a text, which no monitor knows.
    #[cfg(test)]
    pub(crate) fn of_text(text: &[u8]) -> Label {
        Label { text: text.into(), ..Label::allowing(0) }
    }
    /// Returns the label of an object whose context is looked for when a subject accesses it.
    pub fn of_new_object() -> &'static Label {
        if SECURITY.get().is_some() { &UNKNOWN } else { &OPEN }
    }
    /// Returns the number of the context, if that was looked for.
    pub fn context(&self) -> Option<ContextId> {
        self.context
    }
    /// Returns the number of the secrecy; [`SecrecyId::NONE`] if there is no context.
    pub fn secrecy(&self) -> SecrecyId {
        self.secrecy
    }
    /// Returns whether the context was not looked for, in a system where objects have one.
    pub fn is_unknown(&self) -> bool {
        core::ptr::eq(self, &raw const UNKNOWN)
    }
    /// Returns the context's text with a NUL at its end; an empty text if there is no context.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
    /// Returns whether directories that have it are multilevel ([`super::within`]).
    pub fn is_multilevel(&self) -> bool {
        self.is_multilevel.load(Ordering::Relaxed)
    }
    pub(super) fn set_multilevel(&self, is_so: bool) {
        self.is_multilevel.store(is_so, Ordering::Relaxed);
    }
    /// Returns the answer to the last question of a kind about the label.
    #[inline]
    pub(super) fn answer(&self, question: Question) -> &StaticRef<Answer> {
        match question {
            Question::Made => &self.made,
            Question::Entered => &self.entered,
            Question::Within => &self.within,
        }
    }
    #[inline]
    fn word(&self, access: ObjectAccess) -> &AtomicU64 {
        match access {
            ObjectAccess::Read => &self.readers,
            ObjectAccess::Write => &self.writers,
            ObjectAccess::Execute => &self.executors,
        }
    }
    /// Returns whether the monitor is known to allow an access. If not, it must be asked.
    #[inline]
    pub fn allows(&self, subject: &SecuritySubject, access: ObjectAccess) -> bool {
        self.word(access).load(Ordering::Acquire) & subject.bit() != 0
    }
    pub(super) fn allow(&self, subject: &SecuritySubject, access: ObjectAccess) {
        self.word(access)
            .fetch_or(subject.bit() & !SecuritySubject::ALWAYS_ASKED, Ordering::Release);
    }
    /// Forgets what is known of subjects.
    pub(super) fn forget(&self, subjects: u64) {
        for word in [&self.readers, &self.writers, &self.executors] {
            word.fetch_and(!subjects, Ordering::AcqRel);
        }
    }
}

impl Judged for Label {
    #[cfg(feature = "check")]
    fn facts(&'static self) -> Option<&'static super::flows::Facts> {
        self.facts.get()
    }
}

#[cfg(feature = "check")]
impl Label {
    /// Asks for the properties by which flows are judged, once the label is made and when a policy was loaded.
    pub(super) fn note_facts(&self, monitor: &dyn interfaces::monitor::Monitor) {
        if let Some(number) = self.context {
            let facts = self.facts.get_or_init(|| super::flows::Facts::of(monitor, number));
            facts.renew(monitor, number);
        }
    }
}
