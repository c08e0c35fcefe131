//! [`SecuritySubject`]: the part of credentials that the monitor decides by.
use super::{Label, Level, SECURITY, Security, answers::Question, enforced, level::ONLY_LEVEL};
use crate::base::credentials::Capabilities;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use interfaces::monitor::{Denial, DomainRights, Initial, Privileges};
use labels::{Context, ContextId};
use rt::sync::{Once, StaticRef};

/// A context of processes, and its bit in the words of labels.
#[derive(Debug)]
pub struct SecuritySubject {
    context: ContextId,
    bit: u64,
    /// The numbers and totals of all subjects of its secrecy.
    level: &'static Level,
    /// The label of its processes as objects.
    label: &'static Label,
    /// The label of pipes and event files that its processes make.
    anonymous: StaticRef<Label>,
    /// The rights of its domain ([`DomainRights`]): the capabilities that it leaves to a process, and its privileges.
    capabilities: AtomicU64,
    privileges: AtomicU32,
}

impl PartialEq for SecuritySubject {
    fn eq(&self, other: &SecuritySubject) -> bool {
        self.context == other.context
    }
}

impl Eq for SecuritySubject {}

/// The subject of all processes in a system without a monitor.
static ONLY: Once<Arc<SecuritySubject>> = Once::new();

impl SecuritySubject {
    /// The bit of subjects for which none was free. No label has it, so that the monitor is asked each time.
    pub(super) const ALWAYS_ASKED: u64 = 1 << 63;

    /// Returns the kernel's subject, which the first program has until it enters a domain.
    pub fn kernel() -> Arc<SecuritySubject> {
        let only = || {
            ONLY.get_or_init(|| {
                Arc::new(SecuritySubject {
                    context: ContextId(0),
                    bit: 1,
                    level: &ONLY_LEVEL,
                    label: Label::of_new_object(),
                    anonymous: StaticRef::new(Label::of_new_object()),
                    capabilities: AtomicU64::new(u64::MAX),
                    privileges: AtomicU32::new(Privileges::all().bits()),
                })
            })
            .clone()
        };
        let Some(security) = SECURITY.get() else { return only() };
        // Without a number for it nothing can run; the table has room when it is first asked for.
        security.monitor.initial(Initial::Kernel).map_or_else(|_| only(), |id| security.subject(id))
    }
    /// Returns the subject of a context.
    pub fn of(context: ContextId) -> Arc<SecuritySubject> {
        SECURITY.get().map_or_else(SecuritySubject::kernel, |security| security.subject(context))
    }
    /// Returns the number of its context.
    pub fn context(&self) -> ContextId {
        self.context
    }
    /// Returns the label that its processes, and what only they use, have as objects.
    pub fn label(&self) -> &'static Label {
        self.label
    }
    /// Returns the numbers and totals of all subjects of its secrecy.
    #[inline]
    pub fn level(&self) -> &'static Level {
        self.level
    }
    /// Returns its bit.
    #[inline]
    pub fn bit(&self) -> u64 {
        self.bit
    }
    /// Returns the capabilities that its domain leaves to a process.
    pub fn capabilities(&self) -> Capabilities {
        let Some(security) = enforced() else { return Capabilities::ALL };
        self.note_new_rights(security);
        Capabilities::from_bits_truncate(self.capabilities.load(Ordering::Relaxed))
    }
    /// Returns the privileges of its domain.
    #[inline]
    pub(super) fn privileges(&self, security: &Security) -> Privileges {
        self.note_new_rights(security);
        Privileges::from_bits_truncate(self.privileges.load(Ordering::Relaxed))
    }
    /// Returns the label of pipes and event files that its processes make: of its secrecy, and of the type that the policy names.
    pub fn anonymous(&self) -> &'static Label {
        if let Some(security) = enforced() {
            self.note_new_rights(security);
        }
        self.anonymous.get()
    }
    /// Asks for the rights of its domain, and for the label of what its processes make.
    pub(super) fn note_rights(&self, security: &Security) {
        let monitor = &security.monitor;
        let DomainRights { privileges, capabilities } = monitor.rights(self.context);
        self.capabilities.store(capabilities.0, Ordering::Relaxed);
        self.privileges.store(privileges.bits(), Ordering::Relaxed);
        let place = monitor.initial(Initial::Anonymous);
        let made = place.and_then(|place| monitor.made(self.context, place));
        self.anonymous.set(made.map_or(self.label, |made| security.label(made)));
    }
    /// Asks again if a new policy does not find this subject, which has no bit of its own.
    fn note_new_rights(&self, security: &Security) {
        if self.bit == SecuritySubject::ALWAYS_ASKED {
            self.note_rights(security);
        }
    }
    /// Returns the subject after the execution of a file with the label `file`; `wanted` is the context that the process asked for.
    ///
    /// # Errors
    /// [`Denial`].
    pub fn entered(
        self: &Arc<SecuritySubject>,
        file: &Label,
        wanted: Option<&Context>,
    ) -> Result<Arc<SecuritySubject>, Denial> {
        let Some(security) = enforced() else { return Ok(self.clone()) };
        let own = self.context;
        let ask = |file| security.monitor.entered(own, file, wanted);
        let new = match wanted {
            None => security.answer((Question::Entered, own, file), ask)?.context(),
            Some(_) => Some(ask(file.context().ok_or(Denial::Invalid)?)?),
        };
        let new = new.ok_or(Denial::Invalid)?;
        Ok(if new == own { self.clone() } else { security.subject(new) })
    }
}

impl Security {
    pub(super) fn subject(&self, context: ContextId) -> Arc<SecuritySubject> {
        let mut subjects = self.subjects.lock();
        if let Some(known) = subjects.iter().find(|known| known.context == context) {
            return known.clone();
        }
        let bit = self.free_bit(&mut subjects);
        let label = self.label(context);
        let (capabilities, privileges) = (AtomicU64::new(0), AtomicU32::new(0));
        let (level, anonymous) = (self.level(context), StaticRef::new(label));
        let subject =
            SecuritySubject { context, bit, level, label, anonymous, capabilities, privileges };
        let subject = Arc::new(subject);
        subject.note_rights(self);
        if bit != SecuritySubject::ALWAYS_ASKED {
            subjects.push(subject.clone());
        }
        subject
    }
    fn level(&self, context: ContextId) -> &'static Level {
        let mut random = [0; 8];
        rt::entropy::fill(&mut random);
        let secrecy = *self.monitor.context(context).range().low();
        self.labels.write().levels.of(secrecy, u64::from_ne_bytes(random))
    }
    /// Returns a bit that no subject has, and that no label has any more. If all are taken it takes those of subjects that no
    /// credentials have; a thread that asks for one holds its credentials.
    fn free_bit(&self, subjects: &mut Vec<Arc<SecuritySubject>>) -> u64 {
        let taken = |subjects: &[Arc<SecuritySubject>]| {
            subjects.iter().fold(SecuritySubject::ALWAYS_ASKED, |bits, one| bits | one.bit)
        };
        if taken(subjects) == u64::MAX {
            let before = taken(subjects);
            subjects.retain(|subject| Arc::strong_count(subject) > 1);
            let retired = before & !taken(subjects);
            self.labels.read().by_context.values().for_each(|label| label.forget(retired));
        }
        match taken(subjects) {
            u64::MAX => SecuritySubject::ALWAYS_ASKED,
            bits => 1 << bits.trailing_ones(),
        }
    }
}
