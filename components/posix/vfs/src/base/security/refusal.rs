//! The hook by which audit hears of refused accesses and of new labels ([`witness`]).
use super::{Label, SecuritySubject};
use interfaces::{file_system::FileType, monitor::ObjectAccess};
use rt::sync::Once;

/// The event that audit hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WitnessedEvent {
    /// The monitor refused an access.
    Refused(ObjectAccess),
    /// The subject has no privilege to change mounts.
    RefusedMount,
    /// The object got the label.
    Relabelled,
}

/// An event, and the file that it is about.
#[derive(Clone, Copy, Debug)]
pub struct Witnessed<'a> {
    /// The event.
    pub event: WitnessedEvent,
    /// The subject that wanted it.
    pub subject: &'a SecuritySubject,
    /// The label of the object.
    pub label: &'static Label,
    /// Type of the file.
    pub file_type: FileType,
    /// Inode number.
    pub inode: u64,
}

/// A function that is told of events. It is called with locks of vfs held, and takes none of them.
pub type Witness = fn(&Witnessed<'_>);

static WITNESS: Once<Witness> = Once::new();

/// Sets the function that is told of events; only the first call has an effect.
pub fn witness(function: Witness) {
    WITNESS.get_or_init(|| function);
}

/// Tells of an event.
#[cold]
pub(crate) fn tell(witnessed: &Witnessed<'_>) {
    if let Some(function) = WITNESS.get() {
        function(witnessed);
    }
}
