//! Audit: the state of audit(8), its rules, and the records that wait for the audit daemon. Formats and matching are the crate
//! `audit`'s; netlink's messages are in `objects`.
//!
//! A record is text. It waits in the backlog ([`backlog`]) until the daemon takes it, or the group of readers was told and no daemon is
//! there. A thread never waits while it writes a record. If the backlog is full then, the thread waits before it goes back to its
//! program ([`crate::task::attention::AUDIT`]), so that no lock is held, and a task can exceed the limit by the records of one call.
//!
//! Locks: `audit.rules`, `audit.signaller` and `audit.state` are leaves.
//! Source: Linux `kernel/audit.c`, `kernel/auditfilter.c`.
pub mod alarm;
pub mod backlog;
mod call;
pub mod channels;
mod denial;
mod facts;
mod login;
pub mod medium;
mod names;
mod signaller;
mod state;
mod write;

pub use call::AuditedCalls;
pub(crate) use denial::refused_transition;
pub use denial::{policy_loaded, refused_object, refused_process, witnessed};
pub(crate) use facts::command;
pub use facts::{facts, terminal};
pub use login::log_in;
pub use names::name_used;
pub use signaller::{Signaller, last_signaller, note_signal};
pub use state::{
    AuditFeatures, AuditSettings, Enabling, change, features, keep_all, set_features, settings,
};
pub use write::{config_change, write};

use crate::{task::attention, tree};
use alloc::sync::Arc;
use audit::{AuditRule, RuleChange, RuleSet};
use core::sync::atomic::{AtomicBool, Ordering};
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
    renew();
    Ok(())
}

/// Whether rules select calls and audit is on: other tasks need not look at the rules.
static RULES_EXIST: AtomicBool = AtomicBool::new(false);

/// Makes all tasks look at the rules before their next call but one: a call that is under way is done under the old rules.
pub fn renew() {
    let exist = settings().enabled != Enabling::Off && rules().has_calls();
    let existed = RULES_EXIST.swap(exist, Ordering::AcqRel);
    if !exist && !existed {
        return;
    }
    let tree = tree::read();
    for task in tree.known_tasks(tree.processes()) {
        // A call is not interrupted: a task in one looks at its attention at the end of it.
        match task.is_in_user_mode() {
            true => task.summon(attention::RELOAD),
            false => task.raise_attention(attention::RELOAD),
        }
    }
}
