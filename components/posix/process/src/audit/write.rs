//! Writing of records that are not about system calls.
use super::{
    Enabling,
    backlog::{self, AuditRecord},
    facts::facts,
    rules, settings,
};
use crate::task::Task;
use audit::{RecordText, kind};

/// Writes a record of a task, unless a rule excludes it.
pub fn write(task: &Task, number: u16, text: impl FnOnce(&mut RecordText, &audit::TaskFacts)) {
    let facts = facts(task);
    if !rules().writes(number, &facts) {
        return;
    }
    let mut record = RecordText::new(task.audit.stamp());
    text(&mut record, &facts);
    backlog::push(task, AuditRecord::new(task, number, &record.finish()));
}

/// Writes the record of a change of the state of audit, if audit is on.
pub fn config_change(task: &Task, (name, new, old): (&str, u32, u32), result: Result<(), ()>) {
    if settings().enabled == Enabling::Off {
        return;
    }
    write(task, kind::CONFIG_CHANGE, |text, facts| {
        text.put(format_args!("op=set {name}={new} old={old} "));
        text.put_session(facts);
        text.put(format_args!(" res={}", u8::from(result.is_ok())));
    });
}
