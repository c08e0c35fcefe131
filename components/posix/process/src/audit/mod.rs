//! Audit: the state of audit(8), its rules, and the records that wait for the audit daemon. Formats and matching are the crate
//! `audit`'s; netlink's messages are in `objects`.
//!
//! A record is text. It waits in the backlog ([`backlog`]) until the daemon takes it, or the group of readers was told and no daemon is
//! there. A thread never waits while it writes a record. If the backlog is full then, the thread waits before it goes back to its
//! program ([`crate::task::attention::AUDIT`]), so that no lock is held, and a task can exceed the limit by the records of one call.
//!
//! Locks: `audit.rules`, `audit.signaller` and `audit.state` are leaves.
//! Source: Linux `kernel/audit.c`, `kernel/auditfilter.c`.
pub mod backlog;
mod facts;
mod login;
mod signaller;
mod state;
mod write;

pub(crate) use facts::command;
pub use facts::{facts, terminal};
pub use login::log_in;
pub use signaller::{Signaller, last_signaller, note_signal};
pub use state::{AuditFeatures, AuditSettings, Enabling, change, features, set_features, settings};
pub use write::{config_change, stamp, write};

use alloc::sync::Arc;
use audit::{AuditRule, RuleChange, RuleSet};
use rt::{
    lock_class,
    sync::{Once, RwLock},
};

lock_class! {
    static RULES_LOCK = "audit.rules";
}

static RULES: Once<RwLock<Arc<RuleSet>>> = Once::new();

fn all_rules() -> &'static RwLock<Arc<RuleSet>> {
    RULES.get_or_init(|| RwLock::new(&RULES_LOCK, Arc::default()))
}

/// Returns the rules.
pub fn rules() -> Arc<RuleSet> {
    all_rules().read().clone()
}

/// A change of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleEdit {
    /// A rule is added.
    Add,
    /// A rule is removed.
    Remove,
}

/// Adds or removes a rule.
///
/// # Errors
/// [`RuleChange`].
pub fn edit_rules(edit: RuleEdit, rule: AuditRule) -> Result<(), RuleChange> {
    let mut place = all_rules().write();
    let mut new = (**place).clone();
    match edit {
        RuleEdit::Add => new.add(rule)?,
        RuleEdit::Remove => new.remove(&rule)?,
    }
    let old = core::mem::replace(&mut *place, Arc::new(new));
    drop(place);
    drop(old);
    Ok(())
}
