//! [`MountLabels`]: the labels that a mount gives to the objects of a file system.
use crate::base::security::{self, Label};
use interfaces::{
    file_system::Backing,
    monitor::{Denial, Initial},
};
use rt::sync::Once;

/// The mount options `context=` and `defcontext=`.
#[derive(Debug)]
pub struct MountLabels {
    whole: Once<&'static Label>,
    default: Once<&'static Label>,
    /// Its file system is one that stores contexts.
    is_stored: bool,
}

impl MountLabels {
    pub(super) fn of(backing: Backing) -> MountLabels {
        let is_stored = backing == Backing::Storage;
        MountLabels { whole: Once::new(), default: Once::new(), is_stored }
    }
    /// Returns the label that all its objects have.
    pub fn whole(&self) -> Option<&'static Label> {
        self.whole.get().copied()
    }
    /// Returns the label of objects for which none is stored.
    ///
    /// # Errors
    /// [`Denial::Full`].
    pub fn default(&self) -> Result<&'static Label, Denial> {
        match (self.default.get(), self.is_stored) {
            (Some(label), _) => Ok(label),
            (None, true) => security::initial(Initial::Unlabeled),
            (None, false) => security::initial(Initial::File),
        }
    }
    /// Gives all objects one label; only the first call has an effect.
    pub fn set_whole(&self, label: &'static Label) {
        self.whole.get_or_init(|| label);
    }
    /// Gives a label to objects for which none is stored; only the first call has an effect.
    pub fn set_default(&self, label: &'static Label) {
        self.default.get_or_init(|| label);
    }
}
