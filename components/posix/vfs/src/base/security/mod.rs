//! Mandatory access control: the labels of subjects and objects, and the monitor's decisions, each asked once (K1).
//!
//! A [`SecuritySubject`] is a part of credentials and has a bit. An object refers to the [`Label`] that all objects with its context share.
//! A label has a word for each kind of access, in which the bits of the subjects are set that the monitor has allowed. So a decision
//! that is known costs a load, a test and a branch, and a relabelled object only refers to another label.
//!
//! In a system without a monitor all objects have a label that allows everything. With a monitor, but before [`enforce`] is called,
//! everything is allowed, too, and no decision is kept.
//!
//! Locks, in this order: `vfs.security.decisions` (shared while a decision is made and kept; alone while a policy is loaded),
//! `vfs.security.subjects`, `vfs.security.labels`, `vfs.security.secrecies`. All are leaves but for the monitor's.
mod answers;
pub mod flows;
mod label;
mod level;
mod network;
mod own;
mod refusal;
mod subject;

pub use answers::{made, within};
pub use interfaces::file_system::LEVEL_SLOTS;
pub use label::Label;
pub use level::{Level, Sequence};
pub use network::{may_configure_network, of_packets, packet_labels, sees_socket};
pub use own::OwnContext;
pub(crate) use refusal::tell;
pub use refusal::{Witness, Witnessed, WitnessedEvent, witness};
pub use subject::SecuritySubject;

use alloc::{boxed::Box, collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};
use answers::{Answer, Question};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use interfaces::monitor::{Denial, Initial, Monitor, ObjectAccess, Privileges};
use labels::{Context, ContextId, Secrecy, SecrecyTable};
use level::Levels;
use rt::{
    lock_class,
    sync::{Mutex, Once, RwLock},
};

lock_class! {
    static DECISIONS = "vfs.security.decisions";
    static SUBJECTS = "vfs.security.subjects";
    static LABELS = "vfs.security.labels";
    static SECRECIES = "vfs.security.secrecies";
}

/// The monitor, and what is known of its decisions.
struct Security {
    monitor: Arc<dyn Monitor>,
    has_policy: AtomicBool,
    /// The version of the policy, from 1. It changes with `decisions` held alone.
    version: AtomicU64,
    decisions: RwLock<()>,
    /// The subjects with a bit of their own.
    subjects: Mutex<Vec<Arc<SecuritySubject>>>,
    labels: RwLock<Labels>,
    /// The numbers of secrecies.
    secrecies: RwLock<SecrecyTable>,
}

#[derive(Default)]
struct Labels {
    by_context: BTreeMap<ContextId, &'static Label>,
    levels: Levels,
    /// By question, subject and the context that it is about.
    answers: BTreeMap<(Question, ContextId, ContextId), &'static Answer>,
}

static SECURITY: Once<Security> = Once::new();

/// Puts a monitor into use, before anything has a label; only the first call has an effect.
pub fn announce(monitor: Arc<dyn Monitor>) {
    SECURITY.get_or_init(|| Security {
        monitor,
        has_policy: AtomicBool::new(false),
        version: AtomicU64::new(1),
        decisions: RwLock::new(&DECISIONS, ()),
        subjects: Mutex::new(&SUBJECTS, Vec::new()),
        labels: RwLock::new(&LABELS, Labels::default()),
        secrecies: RwLock::new(&SECRECIES, SecrecyTable::default()),
    });
}

/// Returns the monitor, if the system has one.
pub fn monitor() -> Option<&'static Arc<dyn Monitor>> {
    SECURITY.get().map(|security| &security.monitor)
}

/// Returns the system's security, if it has a monitor with a policy.
fn enforced() -> Option<&'static Security> {
    SECURITY.get().filter(|security| security.has_policy.load(Ordering::Acquire))
}

/// Returns whether a policy is enforced.
pub fn is_enforced() -> bool {
    enforced().is_some()
}

/// Enforces the policy that the monitor has, from now on.
pub fn enforce() {
    if let Some(security) = SECURITY.get() {
        security.has_policy.store(true, Ordering::Release);
    }
}

/// Loads a policy: from now on the monitor decides by it. Files that are open stay open.
///
/// # Errors
/// The line and the reason for which the monitor refuses it; that there is no monitor.
pub fn load(text: &[u8]) -> Result<(), String> {
    let security = SECURITY.get().ok_or("this system has no monitor")?;
    let _alone = security.decisions.write();
    security.monitor.load(text)?;
    security.version.fetch_add(1, Ordering::AcqRel);
    let subjects = security.subjects.lock();
    subjects.iter().for_each(|subject| subject.note_rights(security));
    drop(subjects);
    for label in security.labels.read().by_context.values() {
        label.forget(u64::MAX);
        security.note_kind(label);
    }
    Ok(())
}

/// Decides whether a subject may access an object with a label, and keeps the decision if it is allowed.
///
/// # Errors
/// [`Denial`].
pub fn check(
    subject: &SecuritySubject,
    label: &'static Label,
    access: ObjectAccess,
) -> Result<(), Denial> {
    match label.allows(subject, access) {
        true => Ok(()),
        false => ask(subject, label, access),
    }
}

#[cold]
fn ask(
    subject: &SecuritySubject,
    label: &'static Label,
    access: ObjectAccess,
) -> Result<(), Denial> {
    let Some(security) = enforced() else { return Ok(()) };
    let _shared = security.decisions.read();
    let monitor = &security.monitor;
    let context = match label.context() {
        Some(context) => context,
        None => monitor.initial(Initial::Unlabeled)?,
    };
    monitor.decide(subject.context(), context, access)?;
    // A subject that finds another directory in the place of a multilevel one comes here each time: walks go on from here.
    let is_divided = access == ObjectAccess::Read && label.is_multilevel();
    if !is_divided || monitor.within(subject.context(), context)? == context {
        label.allow(subject, access);
    }
    Ok(())
}

/// Returns the label of a context.
///
/// # Errors
/// [`Denial::Full`].
pub fn label(context: &Context) -> Result<&'static Label, Denial> {
    let security = SECURITY.get().ok_or(Denial::Invalid)?;
    let number = security.monitor.number(context)?;
    Ok(security.label(number))
}

/// Returns the label of a context's text, which may end with a NUL.
///
/// # Errors
/// [`Denial::Invalid`] if it is no context under the policy.
pub fn named(text: &[u8]) -> Result<&'static Label, Denial> {
    let security = SECURITY.get().ok_or(Denial::Invalid)?;
    label(&security.context(text)?)
}

/// Returns the label that a subject may give an object instead of `old`, by its text.
///
/// # Errors
/// [`Denial`].
pub fn relabelled(
    subject: &SecuritySubject,
    old: &Label,
    text: &[u8],
) -> Result<&'static Label, Denial> {
    let security = SECURITY.get().ok_or(Denial::Invalid)?;
    let new = security.context(text)?;
    let old = old.context().ok_or(Denial::Invalid)?;
    security.monitor.relabel(subject.context(), old, &new)?;
    label(&new)
}

/// Returns whether the same subjects may read and write objects of both labels.
pub fn are_equivalent(one: &Label, other: &Label) -> bool {
    let (Some(security), Some(one), Some(other)) = (SECURITY.get(), one.context, other.context)
    else {
        return false;
    };
    let monitor = &security.monitor;
    monitor.context(one).range() == monitor.context(other).range()
        && monitor.grade(one) == monitor.grade(other)
}

/// Returns whether an object is of the secrecy at which a subject writes: names that subjects choose find only such objects, so that
/// a name that is taken at one level tells nothing at another.
pub fn is_of_own_secrecy(subject: &SecuritySubject, label: &'static Label) -> bool {
    let written = check(subject, label, ObjectAccess::Write);
    matches!(written, Ok(()) | Err(Denial::WriteIntegrity))
}

/// Returns whether the grades of a subject and a label allow the subject to write.
pub fn is_grade_writable(subject: &SecuritySubject, label: &Label) -> bool {
    let (Some(security), Some(context)) = (enforced(), label.context) else { return true };
    let monitor = &security.monitor;
    monitor.grade(context) <= monitor.grade(subject.context())
        || has(subject, Privileges::RAISE_INTEGRITY)
}

/// Returns whether a subject may inspect the processes of another one that it may read: their domain has no greater grade and no
/// right that the subject lacks, so that their memory holds nothing that could serve it.
pub fn may_inspect(subject: &SecuritySubject, other: &SecuritySubject) -> bool {
    let (own, their) = (subject.context(), other.context());
    let Some(security) = enforced().filter(|_| own != their) else { return true };
    let monitor = &security.monitor;
    let (rights, wanted) = (monitor.rights(own), monitor.rights(their));
    monitor.grade(their) <= monitor.grade(own)
        && rights.privileges.contains(wanted.privileges)
        && rights.capabilities.with(wanted.capabilities) == rights.capabilities
}

/// Returns the label of a number of a context.
///
/// # Errors
/// [`Denial::Invalid`] in a system without a monitor.
pub fn of_context(number: ContextId) -> Result<&'static Label, Denial> {
    Ok(SECURITY.get().ok_or(Denial::Invalid)?.label(number))
}

/// Returns the label that the policy names for the device at `path`, if it names one.
pub fn of_device(path: &str) -> Option<&'static Label> {
    let security = SECURITY.get()?;
    Some(security.label(security.monitor.device(path)?))
}

/// Returns the label of an initial context.
///
/// # Errors
/// [`Denial::Full`].
pub fn initial(of: Initial) -> Result<&'static Label, Denial> {
    let security = SECURITY.get().ok_or(Denial::Invalid)?;
    Ok(security.label(security.monitor.initial(of)?))
}

/// Returns the levels of all subjects; the one without a secrecy is that of the secrecies that have no numbers of their own. None in a system
/// without a monitor.
pub fn levels() -> Vec<(Option<Secrecy>, &'static Level)> {
    SECURITY.get().map_or_else(Vec::new, |security| security.labels.read().levels.all())
}

/// Returns whether a subject has a privilege. All have in a system without a policy.
pub fn has(subject: &SecuritySubject, privilege: Privileges) -> bool {
    enforced().is_none_or(|security| security.has(subject, privilege))
}

impl Security {
    /// Returns the context that a text is under the policy.
    fn context(&self, text: &[u8]) -> Result<Context, Denial> {
        self.monitor.check(text.strip_suffix(b"\0").unwrap_or(text))
    }
    fn has(&self, subject: &SecuritySubject, privilege: Privileges) -> bool {
        subject.privileges(self).contains(privilege)
    }
    fn label(&self, context: ContextId) -> &'static Label {
        if let Some(label) = self.labels.read().by_context.get(&context) {
            return label;
        }
        let secrecy = self.secrecy_of(context);
        let mut labels = self.labels.write();
        labels.by_context.entry(context).or_insert_with(|| {
            let text = format!("{}\0", self.monitor.context(context));
            let label = Box::leak(Box::new(Label::new((context, secrecy), text.into_bytes())));
            self.note_kind(label);
            label
        })
    }
    fn note_kind(&self, label: &Label) {
        let is_multilevel =
            label.context().is_some_and(|context| self.monitor.is_multilevel(context));
        label.set_multilevel(is_multilevel);
        #[cfg(feature = "check")]
        label.note_facts(&*self.monitor);
    }
}
