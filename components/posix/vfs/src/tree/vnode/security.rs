//! The label of a vnode: found when a subject first accesses it, and kept.
use super::Vnode;
use crate::base::{
    credentials::Credentials,
    errno::Errno,
    security::{self, Label, SecuritySubject, Witnessed, WitnessedEvent},
};
use alloc::sync::Arc;
use interfaces::{
    file_system::{FsError, LABEL_NAME, XattrMode},
    monitor::{Denial, Initial, ObjectAccess},
};

impl From<Denial> for Errno {
    fn from(denial: Denial) -> Errno {
        match denial {
            Denial::Invalid => Errno::EINVAL,
            Denial::Privilege => Errno::EPERM,
            Denial::Full => Errno::ENOSPC,
            Denial::ReadUp
            | Denial::WriteAcross
            | Denial::WriteIntegrity
            | Denial::ExecuteIntegrity => Errno::EACCES,
        }
    }
}

impl Vnode {
    /// Checks that the monitor allows an access.
    ///
    /// # Errors
    /// `EACCES`; errors of reading the label.
    #[inline]
    pub fn admit(&self, who: &Credentials, access: ObjectAccess) -> Result<(), Errno> {
        match self.is_known_to_admit(who, access) {
            true => Ok(()),
            false => self.ask(&who.subject, access),
        }
    }
    /// Returns whether the monitor is known to allow an access. If not, it must be asked.
    #[inline]
    pub(crate) fn is_known_to_admit(&self, who: &Credentials, access: ObjectAccess) -> bool {
        self.label.get().allows(&who.subject, access)
    }
    #[cold]
    fn ask(&self, subject: &SecuritySubject, access: ObjectAccess) -> Result<(), Errno> {
        if !security::is_enforced() {
            return Ok(());
        }
        let label = self.label()?;
        security::check(subject, label, access).inspect_err(|_| {
            self.tell(WitnessedEvent::Refused(access), subject, label);
        })?;
        Ok(())
    }
    #[cold]
    fn tell(&self, event: WitnessedEvent, subject: &SecuritySubject, label: &'static Label) {
        let (file_type, inode) = (self.file_type(), self.inode());
        security::tell(&Witnessed { event, subject, label, file_type, inode });
    }
    /// Returns whether the vnode has the secrecy at which a subject writes, as all have without a monitor.
    ///
    /// # Errors
    /// Errors of reading the label.
    pub(crate) fn has_own_secrecy(&self, who: &Credentials) -> Result<bool, Errno> {
        Ok(security::is_of_own_secrecy(&who.subject, self.label()?))
    }
    /// Returns whether the monitor allows an access to a vnode whose label is known. A refusal is not told to audit.
    pub fn is_admitted(&self, who: &Credentials, access: ObjectAccess) -> bool {
        let label = self.label.get();
        label.allows(&who.subject, access)
            || !security::is_enforced()
            || self.label().is_ok_and(|label| security::check(&who.subject, label, access).is_ok())
    }
    /// Returns the label, which is looked for if that was not done before.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn label(&self) -> Result<&'static Label, Errno> {
        let label = self.label.get();
        if !label.is_unknown() || !security::is_enforced() {
            return Ok(label);
        }
        if let Some(label) = self.shown_label() {
            return Ok(label);
        }
        let found = self.find_label()?;
        // Another thread may have relabelled the object meanwhile.
        self.label.replace(label, found);
        self.note_multilevel();
        Ok(self.label.get())
    }
    /// Returns the label of the object that a generated file shows, which may get another one.
    fn shown_label(&self) -> Option<&'static Label> {
        self.node.as_ref()?.label()
    }
    /// Returns the label if it was looked for, as it must be before any access.
    pub fn known_label(&self) -> Option<&'static Label> {
        let label = self.label.get();
        match label.is_unknown() {
            false => Some(label),
            true => self.shown_label(),
        }
    }
    /// Returns whether another vnode's known label has the same secrecy, as all have without a monitor.
    pub(crate) fn has_secrecy_of(&self, other: &Vnode) -> bool {
        let secrecy = |vnode: &Vnode| vnode.known_label().map(Label::secrecy);
        !security::is_enforced() || secrecy(self) == secrecy(other)
    }
    /// Returns whether it is known to have a label of multilevel directories.
    #[inline]
    pub(crate) fn is_multilevel(&self) -> bool {
        self.label.get().is_multilevel()
    }
    fn find_label(&self) -> Result<&'static Label, Errno> {
        if let Some(label) = self.instance.labels().whole() {
            return Ok(label);
        }
        let default = || self.instance.labels().default();
        let stored = match self.instance.file_system() {
            Ok(fs) => fs.get_xattr(self.inode, LABEL_NAME),
            Err(_) => Err(FsError::Unsupported),
        };
        match stored {
            Ok(text) => match security::named(&text) {
                Err(Denial::Invalid) => Ok(security::initial(Initial::Unlabeled)?),
                found => Ok(found?),
            },
            Err(FsError::NoAttribute | FsError::Unsupported) => Ok(default()?),
            Err(error) => Err(error.into()),
        }
    }
    /// Gives a label to an object in memory, such as a device, or to the root of a file system as long as it is mounted.
    pub fn assign(&self, label: &'static Label) {
        self.label.set(label);
    }
    /// Sets the label of a new object, which its file system stores already if it stores labels.
    pub fn note_label(&self, label: Option<&'static Label>) {
        if let Some(label) = label {
            self.label.set(label);
        }
    }
    /// Returns whether programs have the file open or mapped.
    fn is_in_use(&self) -> bool {
        let is_mapped = self.pages.as_ref().is_some_and(|pages| Arc::strong_count(pages) > 1);
        is_mapped || self.pipe.lock().is_some()
    }
    /// Gives the object the context of a text, and has its file system store it. The caller holds `contents` alone.
    ///
    /// # Errors
    /// `EINVAL` for a text that is no context; the monitor's refusals; `EBUSY` if programs that could read or write the object under
    /// the old label, but not under the new, may have it open; `EOPNOTSUPP` for a generated file that keeps no label, and where the
    /// mount gives all files one label; errors of the file system.
    pub(crate) fn relabel(&self, who: &Credentials, text: &[u8]) -> Result<(), Errno> {
        let node = self.node.as_ref();
        let place = node.and_then(|node| node.label_place());
        if node.is_some() && place.is_none() || self.instance.labels().whole().is_some() {
            return Err(Errno::EOPNOTSUPP);
        }
        let old = self.label()?;
        let label = security::relabelled(&who.subject, old, text)?;
        if (node.is_some() || self.is_in_use()) && !security::are_equivalent(old, label) {
            return Err(Errno::EBUSY);
        }
        let now = crate::base::time::now();
        if node.is_none() && self.instance.stores_labels() {
            let fs = self.instance.file_system()?;
            fs.set_xattr(self.inode, LABEL_NAME, label.text(), XattrMode::Set, now)?;
        }
        place.unwrap_or(&self.label).set(label);
        self.note_multilevel();
        self.note_changed(now);
        self.tell(WitnessedEvent::Relabelled, &who.subject, label);
        Ok(())
    }
}
