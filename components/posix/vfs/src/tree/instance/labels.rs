//! [`MountLabels`]: the labels that a mount gives to the objects of a file system.
use crate::base::{
    errno::Errno,
    security::{self, Label},
};
use alloc::{format, string::String};
use interfaces::{
    file_system::{Backing, MountInfo},
    monitor::{Denial, Initial},
};
use rt::sync::Once;

/// The mount options `context=` and `defcontext=`.
#[derive(Debug)]
pub struct MountLabels {
    given: Once<(Option<&'static Label>, Option<&'static Label>)>,
    /// The label of objects for which none is stored, if the mount names none: the machine's, of its root.
    fallback: Once<&'static Label>,
    /// Its file system is one that stores contexts.
    is_stored: bool,
    /// The mount shows that its objects have labels of their own.
    is_shown: bool,
}

impl MountLabels {
    pub(super) fn of(info: &MountInfo) -> MountLabels {
        let is_stored = info.backing == Backing::Storage;
        // SELinux takes the labels of these from its policy alone, and libselinux therefore labels nothing there.
        let is_shown = !matches!(info.type_name, "proc" | "selinuxfs");
        MountLabels { given: Once::new(), fallback: Once::new(), is_stored, is_shown }
    }
    /// Returns whether the mount gives labels.
    pub(super) fn are_given(&self) -> bool {
        let is_given = self.given.get().is_some_and(|given| *given != (None, None));
        is_given || self.fallback.get().is_some()
    }
    /// Returns the label that all its objects have.
    pub fn whole(&self) -> Option<&'static Label> {
        self.given.get()?.0
    }
    /// Returns the label of objects for which none is stored.
    ///
    /// # Errors
    /// [`Denial::Full`].
    pub fn default(&self) -> Result<&'static Label, Denial> {
        let given = self.given.get().and_then(|given| given.1);
        match (given.or(self.fallback.get().copied()), self.is_stored) {
            (Some(label), _) => Ok(label),
            (None, true) => security::initial(Initial::Unlabeled),
            (None, false) => security::initial(Initial::File),
        }
    }
    /// Returns the text of the mount options, with a comma at the beginning, as SELinux shows them.
    pub fn describe(&self) -> String {
        let (whole, default) = self.given.get().copied().unwrap_or_default();
        let named = [("context", whole), ("defcontext", default)].into_iter();
        let named = named.filter_map(|(name, label)| Some((name, label?.text())));
        let mut text = String::new();
        for (name, context) in named {
            let context = String::from_utf8_lossy(context.strip_suffix(b"\0").unwrap_or(context));
            text.push_str(&format!(",{name}=\"{context}\""));
        }
        if self.is_shown && whole.is_none() && security::is_enforced() {
            text.push_str(",seclabel");
        }
        text
    }
    /// Sets the label of objects for which neither the file system nor the mount has one; only the first call has an effect.
    pub fn set_fallback(&self, label: &'static Label) {
        self.fallback.get_or_init(|| label);
    }
    /// Sets the label of all objects, or that of those for which none is stored. The first call has an effect.
    ///
    /// # Errors
    /// `EINVAL` if an earlier call gave others.
    pub fn set(
        &self,
        whole: Option<&'static Label>,
        default: Option<&'static Label>,
    ) -> Result<(), Errno> {
        let given = (whole, default);
        match given == *self.given.get_or_init(|| given) {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }
}
