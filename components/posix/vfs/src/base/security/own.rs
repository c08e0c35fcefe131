//! The contexts that a thread sets for itself (`/proc/PID/attr`).
use super::{SECURITY, Security, SecuritySubject, label};
use crate::base::credentials::{AskedContexts, Credentials};
use alloc::sync::Arc;
use interfaces::monitor::{Denial, Privileges};
use labels::{Context, SecrecyRange};

/// The uses of the contexts that a thread sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnContext {
    /// The thread itself (setcon(3)).
    Current,
    /// The next program (setexeccon(3)).
    Exec,
    /// Files that it makes (setfscreatecon(3)).
    File,
    /// Sockets that it makes (setsockcreatecon(3)).
    Socket,
    /// Keys that it makes (setkeycreatecon(3)).
    Key,
}

impl Credentials {
    /// Returns the credentials of a thread that has set a context for itself; `None` clears what it set before.
    ///
    /// # Errors
    /// [`Denial::Invalid`] for a text that is no such context; [`Denial::Privilege`] for one that the thread may not set.
    pub fn with_context(&self, of: OwnContext, text: Option<&[u8]>) -> Result<Credentials, Denial> {
        let security = SECURITY.get().ok_or(Denial::Invalid)?;
        let context = text.map(|text| security.monitor.check(text)).transpose()?;
        let mut asked = self.asked.as_deref().cloned().unwrap_or_default();
        let mut new = self.clone();
        let object = |context: Option<Context>| {
            context.map(|context| security.object_of(&self.subject, &context)).transpose()
        };
        match of {
            OwnContext::Current => {
                let context = context.ok_or(Denial::Invalid)?;
                new.subject = security.changed(&self.subject, &context)?;
            }
            OwnContext::Exec => {
                if context.as_ref().is_some_and(|context| !security.monitor.is_subject(context)) {
                    return Err(Denial::Invalid);
                }
                asked.exec = context.map(Arc::new);
            }
            OwnContext::File => asked.file = object(context)?,
            OwnContext::Socket => asked.socket = object(context)?,
            // A key has the context of a process.
            OwnContext::Key => asked.key = context.map(Arc::new),
        }
        new.asked = (asked != AskedContexts::default()).then(|| Arc::new(asked));
        Ok(new)
    }
}

impl Security {
    /// Returns the label of objects with a context that a subject may ask for: one of its own secrecy, unless it may relabel. So
    /// that it cannot take all numbers of contexts.
    fn object_of(
        &self,
        subject: &SecuritySubject,
        context: &Context,
    ) -> Result<&'static super::Label, Denial> {
        if self.monitor.is_subject(context) {
            return Err(Denial::Invalid);
        }
        let own = self.monitor.context(subject.context());
        let is_own = *context.range() == SecrecyRange::single(*own.range().low());
        match is_own || self.has(subject, Privileges::RELABEL) {
            true => label(context),
            false => Err(Denial::Privilege),
        }
    }
    /// Returns the subject that has another range than `subject`, and nothing else that differs.
    fn changed(
        &self,
        subject: &SecuritySubject,
        context: &Context,
    ) -> Result<Arc<SecuritySubject>, Denial> {
        if !self.monitor.is_subject(context) {
            return Err(Denial::Invalid);
        }
        let own = self.monitor.context(subject.context());
        let is_same = own.with_range(*context.range()) == *context;
        let privileges = subject.privileges(self);
        match is_same && privileges.may_set_range(own.range(), context.range()) {
            true => Ok(self.subject(self.monitor.number(context)?)),
            false => Err(Denial::Privilege),
        }
    }
}
