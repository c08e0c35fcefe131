//! The hook by which audit hears of the names that a call uses ([`report`]): the texts that were walked, and the places to which they
//! led. While no call is observed, a walk tests one word.
use crate::{
    base::principal::Principal,
    tree::{mount::Path, vnode::Vnode},
};
use core::sync::atomic::{AtomicU32, Ordering};
use rt::sync::Once;

/// The use of a name.
#[derive(Clone, Copy)]
pub enum NameUse<'a> {
    /// A walk of a text ended at a place; `None` if it failed.
    Walked(&'a [u8], Option<&'a Path>),
    /// A walk of a text ended at the directory of its last name, to make, remove or move that.
    Parent(&'a [u8], &'a Path),
    /// A name is removed, or was made.
    Changed(NameChange<'a>),
    /// A file is used without a name: an open file, or that of an open(2) that fails, of which the name follows.
    Opened(&'a Path),
    /// An open(2) of a text failed.
    FailedOpen(&'a [u8]),
}

/// The kind of a [`NameChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The name was made.
    Made,
    /// The name is to be removed, or another file takes its place.
    Removed,
}

/// A change of a name in a directory. It is told with locks of vfs held.
#[derive(Clone, Copy)]
pub struct NameChange<'a> {
    /// Kind.
    pub kind: ChangeKind,
    /// The directory.
    pub directory: &'a Vnode,
    /// The name.
    pub name: &'a [u8],
    /// The file.
    pub vnode: &'a Vnode,
}

/// A function that is told of names that a task uses. It takes no lock of vfs but those of a vnode.
pub type UseReport = fn(&dyn Principal, &NameUse<'_>);

static REPORT: Once<UseReport> = Once::new();
/// The number of calls that are observed.
static OBSERVED: AtomicU32 = AtomicU32::new(0);
/// The number of calls of which names are told only if they fail.
static OBSERVED_IF_FAILED: AtomicU32 = AtomicU32::new(0);

/// The names of a call that are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedNames {
    /// All.
    All,
    /// Those of an open(2) that fails.
    OfFailedOpen,
}

/// Sets the function that is told; only the first call has an effect.
pub fn report(function: UseReport) {
    REPORT.get_or_init(|| function);
}

fn count_of(names: ObservedNames) -> &'static AtomicU32 {
    match names {
        ObservedNames::All => &OBSERVED,
        ObservedNames::OfFailedOpen => &OBSERVED_IF_FAILED,
    }
}

/// Begins to observe a call.
pub fn observe(names: ObservedNames) {
    count_of(names).fetch_add(1, Ordering::Relaxed);
}

/// Ends what [`observe`] began.
pub fn ignore(names: ObservedNames) {
    count_of(names).fetch_sub(1, Ordering::Relaxed);
}

/// Returns whether a call is observed, perhaps of another task.
#[inline]
pub fn are_observed() -> bool {
    OBSERVED.load(Ordering::Relaxed) != 0
}

/// Tells of a use, if a call is observed.
#[inline]
pub fn tell(task: &dyn Principal, used: NameUse<'_>) {
    if are_observed() {
        tell_observer(task, &used);
    }
}

/// Tells of a use in an open(2) that failed: of the place if it was found, and of the text by the call itself.
#[cold]
pub fn tell_failed_open(task: &dyn Principal, used: NameUse<'_>) {
    if are_observed() || OBSERVED_IF_FAILED.load(Ordering::Relaxed) != 0 {
        tell_observer(task, &used);
    }
}

#[cold]
#[inline(never)]
fn tell_observer(task: &dyn Principal, used: &NameUse<'_>) {
    if let Some(report) = REPORT.get() {
        report(task, used);
    }
}

/// Tells of a change of a name.
#[inline]
pub(crate) fn tell_change(task: &dyn Principal, change: NameChange<'_>) {
    tell(task, NameUse::Changed(change));
}
