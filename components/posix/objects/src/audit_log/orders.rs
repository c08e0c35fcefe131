//! `/proc/skerry/audit`: the state of audit and of the log, and orders of the auditor.
//!
//! An order is a line: `enable`, `disable`, `release BLOCK`, `synchronous on` or `off`, `alarm medium PERCENT PERCENT PERCENT`,
//! `alarm backlog PERCENT`, `channels SECONDS`.
use super::{LOG, LogUse, MachineLog};
use crate::tty::trusted;
use alloc::{format, string::String, vec::Vec};
use core::fmt::Write;
use interfaces::monitor::Privileges;
use process::{
    Task,
    audit::{self, Enabling, alarm::Alarm, backlog, channels, medium},
};
use vfs::{Capabilities, Errno, Principal, security};

/// Returns whether a task has a capability, and the privilege for it. The trusted shell has those of the session whose terminal it took.
fn may(caller: &dyn Principal, wanted: (Capabilities, Privileges)) -> Result<(), Errno> {
    let has = |task: &Task| {
        let who = task.credentials();
        who.has(wanted.0) && security::has(&who.subject, wanted.1)
    };
    let own = Task::of(caller).ok_or(Errno::EPERM)?;
    let may = has(own) || trusted::held_task(caller).is_some_and(|task| has(&task));
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// Checks that a task may read records.
pub(super) fn may_read(caller: &dyn Principal) -> Result<(), Errno> {
    may(caller, (Capabilities::AUDIT_READ, Privileges::AUDIT_READ))
}

fn may_control(caller: &dyn Principal) -> Result<(), Errno> {
    may(caller, (Capabilities::AUDIT_CONTROL, Privileges::AUDIT_CONTROL))
}

fn numbers(words: &[u8]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word}")).collect();
    words.join(" ")
}

impl MachineLog {
    fn describe(&self, text: &mut String) {
        let status = *self.status.lock();
        let use_of_log = match status.use_of_log {
            LogUse::Opening => "opening",
            LogUse::Open => "open",
            LogUse::Full => "full",
            LogUse::Failed => "failed",
            LogUse::Refused => "refused",
        };
        let state = status.state;
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "medium {} {use_of_log}\nused {} %\nblocks {}\nfirst {}\nend {}\nrecord {}\nalarm-medium {}\n",
            self.medium,
            status.percent(),
            state.blocks,
            state.first,
            state.end,
            state.record,
            numbers(&status.alarm.thresholds())
        );
    }
}

/// Returns the state, a value a line.
///
/// # Errors
/// `EPERM` for a task that may neither read records nor control audit.
pub fn status(reader: &dyn Principal) -> Result<Vec<u8>, Errno> {
    may_read(reader).or_else(|_| may_control(reader))?;
    let (settings, counts) = (audit::settings(), backlog::counts());
    let synchronous = if medium::is_set_synchronous() { "on" } else { "off" };
    let mut text = format!(
        "enabled {}\nfailure {}\ndaemon {}\nbacklog {} of {}\nlost {}\nsynchronous {synchronous}\nchannels {}\nalarm-backlog {}\n",
        settings.enabled as u32,
        settings.failure,
        backlog::daemon().process,
        counts.waiting,
        settings.backlog_limit,
        counts.lost,
        channels::interval(),
        backlog::alarm_threshold()
    );
    match LOG.get() {
        Some(log) => log.describe(&mut text),
        None => text.push_str("medium none\n"),
    }
    Ok(text.into_bytes())
}

/// Obeys an order of the auditor.
///
/// # Errors
/// `EPERM` without the right, or if the settings are locked; `EINVAL` for no order, or for a block that is not there; `ENODEV` if there is no
/// medium; `EIO` if it fails.
pub fn obey(data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
    may_control(writer)?;
    let task = Task::of(writer).ok_or(Errno::EPERM)?;
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if audit::settings().enabled == Enabling::Locked && !matches!(words.as_slice(), ["release", _])
    {
        return Err(Errno::EPERM);
    }
    match words.as_slice() {
        ["enable"] => enable(task, Enabling::On),
        ["disable"] => enable(task, Enabling::Off),
        ["release", block] => release(task, block.parse().map_err(|_| Errno::EINVAL)?)?,
        ["synchronous", word @ ("on" | "off")] => {
            let (new, old) = (*word == "on", medium::is_set_synchronous());
            audit::config_change(task, ("audit_synchronous", new.into(), old.into()), Ok(()));
            medium::set_synchronous(new);
        }
        ["alarm", "medium", first, second, third] => set_medium_alarm([first, second, third])?,
        ["channels", seconds] => set_channels(task, seconds)?,
        ["alarm", "backlog", threshold] => backlog::set_alarm_threshold(percent(threshold)?),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Sets the interval of the records about covert channels.
fn set_channels(task: &Task, seconds: &str) -> Result<(), Errno> {
    let new = seconds.parse().map_err(|_| Errno::EINVAL)?;
    audit::config_change(task, ("audit_channels", new, channels::interval()), Ok(()));
    channels::set_interval(new);
    Ok(())
}

fn percent(word: &str) -> Result<u8, Errno> {
    word.parse().ok().filter(|percent| (1..=100).contains(percent)).ok_or(Errno::EINVAL)
}

fn set_medium_alarm(words: [&&str; 3]) -> Result<(), Errno> {
    let [first, second, third] = words.map(|word| percent(word));
    let thresholds = [first?, second?, third?];
    if !thresholds.is_sorted() {
        return Err(Errno::EINVAL);
    }
    let log = LOG.get().ok_or(Errno::ENODEV)?;
    log.status.lock().alarm = Alarm::new(thresholds);
    medium::tell();
    Ok(())
}

/// Turns audit on or off, with the record of that.
fn enable(task: &Task, new: Enabling) {
    let old = audit::settings().enabled;
    let change = || audit::change(|settings| settings.enabled = new);
    if new == Enabling::On {
        change();
    }
    audit::config_change(task, ("audit_enabled", new as u32, old as u32), Ok(()));
    change();
    audit::renew();
}

/// Releases the blocks before one.
fn release(task: &Task, block: u64) -> Result<(), Errno> {
    let log = LOG.get().ok_or(Errno::ENODEV)?;
    let old = log.status.lock().state;
    if block > old.end {
        return Err(Errno::EINVAL);
    }
    let state = log.client.lock().release(block).map_err(|_| Errno::EIO)?;
    log.note(LogUse::Open, Some(state));
    audit::config_change(task, ("audit_released", block as u32, old.first as u32), Ok(()));
    medium::tell();
    Ok(())
}
