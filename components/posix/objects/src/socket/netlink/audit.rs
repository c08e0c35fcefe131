//! NETLINK_AUDIT (audit(8)): requests of programs, and the ways of records to the daemon and to the group of readers.
//! Source: Linux `kernel/audit.c`, `audit_receive_msg`.
use super::{NetlinkSocket, Parcel, hub};
use ::audit::{AuditRule, RuleChange, RuleError, kind};
use alloc::vec::Vec;
use interfaces::monitor::Privileges;
use netadmin::{
    NetErrno,
    audit::{AuditAnswer, AuditControl, RecordTarget, record},
    session::NetlinkProtocol,
};
use process::{
    Task,
    audit::{
        self, AuditFeatures, AuditSettings, Enabling, RuleEdit, Signaller,
        backlog::{self, AuditDaemon, AuditRecord, RecordReader},
    },
};
use rt::{lock_class, sync::Mutex};
use vfs::{Capabilities, security};

lock_class! {
    static CONTROL = "netlink.audit";
}

/// AUDIT_NLGRP_READLOG.
pub(super) const READERS: u32 = 1;
/// Features that auditctl(8) looks for (`AUDIT_FEATURE_BITMAP_...`): all but rules about file systems.
const ABILITIES: u32 = 0x3f;
/// The longest time to wait for room that can be set, in hundredths of a second.
const WAIT_TIME_MAX: u32 = 10 * 60 * 100;

/// Bits of `mask` in `struct audit_status`, in the order of the words that follow.
mod status {
    pub(super) const ENABLED: u32 = 1;
    pub(super) const FAILURE: u32 = 2;
    pub(super) const PID: u32 = 4;
    pub(super) const RATE_LIMIT: u32 = 8;
    pub(super) const BACKLOG_LIMIT: u32 = 16;
    pub(super) const WAIT_TIME: u32 = 32;
    pub(super) const LOST: u32 = 64;
    pub(super) const WAITED: u32 = 128;
    pub(super) const WORDS: usize = 11;
}

/// One change at a time, with the record of it.
static ONE: Mutex<()> = Mutex::new(&CONTROL, ());

/// A program that controls audit.
pub(super) struct AuditCaller<'a> {
    pub(super) task: &'a Task,
    /// Port of its socket.
    pub(super) port: u32,
}

fn has(task: &Task, capability: Capabilities, privilege: Privileges) -> bool {
    let who = task.credentials();
    who.has(capability) && security::has(&who.subject, privilege)
}

/// Returns whether a task may listen to the group of readers.
pub(super) fn may_listen(task: &Task) -> bool {
    has(task, Capabilities::AUDIT_READ, Privileges::AUDIT_READ)
}

impl AuditControl for AuditCaller<'_> {
    fn handle(&self, kind: u16, body: &[u8]) -> Result<AuditAnswer, NetErrno> {
        self.check(kind)?;
        match kind {
            kind::GET => Ok(AuditAnswer::One(kind::GET, status_bytes())),
            kind::SET => self.set(body),
            kind::GET_FEATURE => Ok(AuditAnswer::One(kind, feature_bytes())),
            kind::SET_FEATURE => self.set_features(body),
            kind::LIST_RULES => {
                let rules = audit::rules().all().map(AuditRule::encode).collect();
                Ok(AuditAnswer::Many(kind, rules))
            }
            kind::ADD_RULE => self.edit(RuleEdit::Add, body),
            kind::DEL_RULE => self.edit(RuleEdit::Remove, body),
            kind::SIGNAL_INFO => {
                let Signaller { user, process, context } = audit::last_signaller();
                let words = [user, process].into_iter().flat_map(u32::to_le_bytes);
                Ok(AuditAnswer::One(kind, words.chain(context.into_bytes()).collect()))
            }
            // Trees are found by their names: there is nothing to be forgotten.
            kind::TRIM => Ok(AuditAnswer::Done),
            // Input of terminals is not audited.
            kind::TTY_GET => Ok(AuditAnswer::One(kind, [0; 8].into())),
            kind if kind::is_of_program(kind) => self.say(kind, body),
            _ => Err(NetErrno::EOPNOTSUPP),
        }
    }
}

impl AuditCaller<'_> {
    /// Checks the right to make a request (`audit_netlink_ok`).
    fn check(&self, kind: u16) -> Result<(), NetErrno> {
        let is_right = match kind {
            kind::LIST | kind::ADD | kind::DEL => return Err(NetErrno::EOPNOTSUPP),
            kind::GET
            | kind::SET
            | kind::GET_FEATURE
            | kind::SET_FEATURE
            | kind::LIST_RULES
            | kind::ADD_RULE
            | kind::DEL_RULE
            | kind::SIGNAL_INFO
            | kind::TTY_GET
            | kind::TTY_SET
            | kind::TRIM
            | kind::MAKE_EQUIV => {
                has(self.task, Capabilities::AUDIT_CONTROL, Privileges::AUDIT_CONTROL)
            }
            kind if kind::is_of_program(kind) => {
                has(self.task, Capabilities::AUDIT_WRITE, Privileges::AUDIT_WRITE)
            }
            _ => return Err(NetErrno::EINVAL),
        };
        if is_right { Ok(()) } else { Err(NetErrno::EPERM) }
    }
    /// Writes the message of a program.
    fn say(&self, number: u16, body: &[u8]) -> Result<AuditAnswer, NetErrno> {
        let is_on = audit::settings().enabled != Enabling::Off || number == kind::USER_AVC;
        if is_on && audit::rules().takes(number, &audit::facts(self.task)) {
            audit::write(self.task, number, |text, facts| text.put_message(number, facts, body));
        }
        Ok(AuditAnswer::Done)
    }
    /// Changes the settings (`AUDIT_SET`).
    fn set(&self, body: &[u8]) -> Result<AuditAnswer, NetErrno> {
        let mut words = [0; status::WORDS];
        for (word, bytes) in words.iter_mut().zip(body.chunks_exact(4)) {
            *word = u32::from_le_bytes(*bytes.first_chunk().ok_or(NetErrno::EINVAL)?);
        }
        let [mask, enabled, failure, process, rate, limit, _, _, _, wait, _] = words;
        let _one = ONE.lock();
        let has = |bit| mask & bit != 0;
        if has(status::ENABLED) {
            let state = Enabling::of_number(enabled).ok_or(NetErrno::EINVAL)?;
            let field = |settings: &mut AuditSettings| {
                core::mem::replace(&mut settings.enabled, state) as u32
            };
            self.change(("audit_enabled", enabled), field)?;
            audit::renew();
        }
        if has(status::FAILURE) {
            if failure > 2 {
                return Err(NetErrno::EINVAL);
            }
            let field = |it: &mut AuditSettings| core::mem::replace(&mut it.failure, failure);
            self.change(("audit_failure", failure), field)?;
        }
        if has(status::PID) {
            self.set_daemon(process)?;
        }
        if has(status::RATE_LIMIT) {
            let field = |it: &mut AuditSettings| core::mem::replace(&mut it.rate_limit, rate);
            self.change(("audit_rate_limit", rate), field)?;
        }
        if has(status::BACKLOG_LIMIT) {
            let field = |it: &mut AuditSettings| core::mem::replace(&mut it.backlog_limit, limit);
            self.change(("audit_backlog_limit", limit), field)?;
        }
        if has(status::WAIT_TIME) {
            if wait > WAIT_TIME_MAX {
                return Err(NetErrno::EINVAL);
            }
            let field = |it: &mut AuditSettings| core::mem::replace(&mut it.wait_time, wait);
            self.change(("audit_backlog_wait_time", wait), field)?;
        }
        let (name, old) = match mask {
            status::LOST => ("lost", backlog::take_lost()),
            status::WAITED => ("backlog_wait_time_actual", backlog::take_waited()),
            _ => return Ok(AuditAnswer::Done),
        };
        audit::config_change(self.task, (name, 0, old), Ok(()));
        Ok(AuditAnswer::Number(old))
    }
    /// Changes one setting, and writes the record of it.
    ///
    /// # Errors
    /// `EPERM` if the settings are locked.
    fn change(
        &self,
        (name, new): (&str, u32),
        field: impl Fn(&mut AuditSettings) -> u32,
    ) -> Result<(), NetErrno> {
        let mut settings = audit::settings();
        let old = field(&mut settings);
        let is_locked = audit::settings().enabled == Enabling::Locked;
        let result = if is_locked { Err(()) } else { Ok(()) };
        audit::config_change(self.task, (name, new, old), result);
        result.map_err(|()| NetErrno::EPERM)?;
        audit::change(|settings| {
            field(settings);
        });
        Ok(())
    }
    /// Makes the calling process the daemon; it must be its own number. Zero ends that.
    fn set_daemon(&self, process: u32) -> Result<(), NetErrno> {
        let (own, old) = (self.task.process.id(), backlog::daemon().process);
        if process != 0 && process != own {
            return Err(NetErrno::EINVAL);
        }
        let refusal = match (old, process) {
            (0, 0) => Some(NetErrno::EACCES),
            (1.., 1..) => Some(NetErrno::EEXIST),
            (old, 0) if old != own => Some(NetErrno::EACCES),
            _ => None,
        };
        let result = if refusal.is_some() { Err(()) } else { Ok(()) };
        audit::config_change(self.task, ("audit_pid", process, old), result);
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let port = if process == 0 { 0 } else { self.port };
        backlog::set_daemon(AuditDaemon { process, port });
        Ok(())
    }
    fn set_features(&self, body: &[u8]) -> Result<AuditAnswer, NetErrno> {
        let word = |at: usize| {
            let bytes = body.get(at * 4..).and_then(|rest| rest.first_chunk());
            bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or(NetErrno::EINVAL)
        };
        let (mask, wanted, locks) = (word(1)? & AuditFeatures::ALL, word(2)?, word(3)?);
        let _one = ONE.lock();
        let old = audit::features();
        let changed = (old.on ^ wanted) & mask;
        let result = if changed & old.locked == 0 { Ok(()) } else { Err(()) };
        let on = old.on & !mask | wanted & mask;
        let new = AuditFeatures { on, locked: old.locked | locks & mask };
        if audit::settings().enabled != Enabling::Off {
            audit::write(self.task, kind::FEATURE_CHANGE, |text, facts| {
                text.put_session(facts);
                text.put(format_args!(
                    " feature={mask:x} old={:x} new={on:x} old_lock={:x} new_lock={:x} res={}",
                    old.on,
                    old.locked,
                    new.locked,
                    u8::from(result.is_ok())
                ));
            });
        }
        result.map_err(|()| NetErrno::EPERM)?;
        audit::set_features(new);
        Ok(AuditAnswer::Done)
    }
    fn edit(&self, edit: RuleEdit, body: &[u8]) -> Result<AuditAnswer, NetErrno> {
        if body.len() < RULE_BYTES {
            return Err(NetErrno::EINVAL);
        }
        let _one = ONE.lock();
        let settings = audit::settings();
        let name = match edit {
            RuleEdit::Add => "add_rule",
            RuleEdit::Remove => "remove_rule",
        };
        if settings.enabled == Enabling::Locked {
            audit::write(self.task, kind::CONFIG_CHANGE, |text, facts| {
                text.put_session(facts);
                text.put(format_args!(" op={name} audit_enabled=2 res=0"));
            });
            return Err(NetErrno::EPERM);
        }
        let rule = AuditRule::parse(body).map_err(|error| match error {
            RuleError::Invalid => NetErrno::EINVAL,
            RuleError::NameTooLong => NetErrno(36),
        })?;
        let (list, key) = (rule.list.number(), rule.key().map(Vec::from));
        let result = audit::edit_rules(edit, rule);
        if settings.enabled != Enabling::Off {
            audit::write(self.task, kind::CONFIG_CHANGE, |text, facts| {
                text.put_session(facts);
                text.put(format_args!(" op={name}"));
                text.put_key(key.as_deref());
                text.put(format_args!(" list={list} res={}", u8::from(result.is_ok())));
            });
        }
        result.map_err(|refusal| match refusal {
            RuleChange::Exists => NetErrno::EEXIST,
            RuleChange::Absent => NetErrno::ENOENT,
            RuleChange::Full => NetErrno::ENOBUFS,
        })?;
        Ok(AuditAnswer::Done)
    }
}

/// Bytes of a rule without texts.
const RULE_BYTES: usize = 1040;

/// Returns `struct audit_status`.
fn status_bytes() -> Vec<u8> {
    let AuditSettings { enabled, failure, rate_limit, backlog_limit, wait_time } =
        audit::settings();
    let (counts, daemon) = (backlog::counts(), backlog::daemon().process);
    let words: [u32; status::WORDS] = [
        0,
        enabled as u32,
        failure,
        daemon,
        rate_limit,
        backlog_limit,
        counts.lost,
        counts.waiting,
        ABILITIES,
        wait_time,
        counts.waited,
    ];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Returns `struct audit_features`.
fn feature_bytes() -> Vec<u8> {
    let AuditFeatures { on, locked } = audit::features();
    [1, u32::MAX, on, locked].into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Tells the sockets of records.
struct Teller;

impl RecordReader for Teller {
    fn waits(&self, port: u32) {
        if let Some(socket) = hub::find(NetlinkProtocol::Audit, port) {
            socket.arrived.wake();
        }
    }
    fn written(&self, written: &AuditRecord) {
        if hub::hears(NetlinkProtocol::Audit, READERS) {
            let bytes = record(written.kind, written.text.as_bytes(), RecordTarget::Group);
            hub::broadcast(NetlinkProtocol::Audit, &Parcel::of_kernel(bytes, READERS), (0, None));
        }
    }
}

/// Begins to tell sockets of records.
pub(super) fn listen() {
    backlog::announce(&Teller);
}

impl NetlinkSocket {
    /// Returns whether a record waits for the socket with this port.
    pub(super) fn has_record(&self, port: u32) -> bool {
        self.protocol == NetlinkProtocol::Audit && backlog::first(port).is_some()
    }
    /// Returns the next record for the daemon, if this socket is the daemon's. A record that is only looked at stays where it is, so
    /// that no record is lost with the socket.
    pub(super) fn record(&self, is_peek: bool) -> Option<Parcel> {
        if self.protocol != NetlinkProtocol::Audit {
            return None;
        }
        let port = self.state.lock().port;
        let found = if is_peek { backlog::first(port) } else { backlog::take(port) }?;
        let bytes = record(found.kind, found.text.as_bytes(), RecordTarget::Daemon);
        Some(Parcel::of_kernel(bytes, 0))
    }
}
