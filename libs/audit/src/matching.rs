//! Whether a rule matches (`audit_filter_rules`).
use crate::{
    ARCHITECTURE, AuditRule, CallEnd, CallFacts, FieldValue, InodeFacts, NameFacts, Operator,
    RuleField, TaskFacts, UNSET, classes, field,
};
use labels::{Context, Secrecy};

/// The event that rules are asked about.
#[derive(Clone, Copy)]
pub(crate) enum Asked<'a> {
    /// A task is made.
    Task,
    /// A call ended.
    Call(&'a CallFacts<'a>),
    /// A record of a type is to be written.
    Record(u16),
}

/// Places of the ids in [`TaskFacts`].
const REAL: usize = 0;
const EFFECTIVE: usize = 1;
const SAVED: usize = 2;
const FILE_SYSTEM: usize = 3;

/// The pairs of `AUDIT_COMPARE_UID_TO_AUID` and those that follow; [`LOGIN`] is the login uid.
const USER_PAIRS: [(usize, usize); 10] = [
    (REAL, LOGIN),
    (REAL, EFFECTIVE),
    (REAL, FILE_SYSTEM),
    (REAL, SAVED),
    (LOGIN, FILE_SYSTEM),
    (LOGIN, SAVED),
    (LOGIN, EFFECTIVE),
    (EFFECTIVE, SAVED),
    (EFFECTIVE, FILE_SYSTEM),
    (SAVED, FILE_SYSTEM),
];
/// The pairs of `AUDIT_COMPARE_GID_TO_EGID` and those that follow.
const GROUP_PAIRS: [(usize, usize); 6] = [
    (REAL, EFFECTIVE),
    (REAL, FILE_SYSTEM),
    (REAL, SAVED),
    (EFFECTIVE, FILE_SYSTEM),
    (EFFECTIVE, SAVED),
    (SAVED, FILE_SYSTEM),
];
const LOGIN: usize = 4;

impl AuditRule {
    /// Returns whether all conditions hold.
    pub(crate) fn matches(&self, task: &TaskFacts, asked: Asked<'_>) -> bool {
        self.fields.iter().all(|field| field.holds(task, asked))
    }
}

impl RuleField {
    pub(crate) fn holds(&self, task: &TaskFacts, asked: Asked<'_>) -> bool {
        match &self.value {
            FieldValue::Number(value) => match self.of_task(task, *value) {
                Some(holds) => holds,
                None => self.of_event(task, *value, asked),
            },
            FieldValue::Text(text) => self.of_text(text, task, asked),
            FieldValue::Level(_, level) => {
                let Some(level) = level else { return false };
                let levels = |context: &Context| {
                    let is_low = matches!(self.number, field::SUBJ_SEN | field::OBJ_LEV_LOW);
                    let range = context.range();
                    self.compares_level(level, if is_low { range.low() } else { range.high() })
                };
                self.of_context(task, asked, levels)
            }
        }
    }
    /// Returns whether a number of the task holds; `None` if the field is about the event.
    pub(crate) fn of_task(&self, task: &TaskFacts, value: u32) -> Option<bool> {
        let is = |own| self.operator.compares(own, value);
        Some(match self.number {
            field::PID => is(task.process),
            field::PPID => is(task.parent),
            field::UID..=field::FSUID => {
                let place = (self.number - field::UID) as usize;
                task.users.get(place).copied().is_some_and(is)
            }
            field::GID..=field::FSGID => {
                let place = (self.number - field::GID) as usize;
                let own = task.groups.get(place).copied().unwrap_or(UNSET);
                let has_more = matches!(self.number, field::GID | field::EGID);
                let is_member = has_more && task.supplementary.binary_search(&value).is_ok();
                match self.operator {
                    Operator::Equal | Operator::NotEqual => {
                        self.operator.agrees(own == value || is_member)
                    }
                    _ => is(own),
                }
            }
            field::LOGINUID => is(task.login),
            field::LOGINUID_SET => is(u32::from(task.login != UNSET)),
            field::SESSIONID => is(task.session),
            field::PERS => is(task.personality),
            field::ARCH => is(ARCHITECTURE),
            field::COMPARE if value >= 10 => {
                self.operator.agrees(are_equal(task, value).unwrap_or(false))
            }
            _ => return None,
        })
    }
    /// Returns whether a number of the event holds.
    fn of_event(&self, task: &TaskFacts, value: u32, asked: Asked<'_>) -> bool {
        let is = |own| self.operator.compares(own, value);
        let call = match asked {
            Asked::Call(call) => call,
            Asked::Record(kind) => return self.number == field::MSGTYPE && is(kind.into()),
            // A new task's calls are not known: a rule about them does not decide.
            Asked::Task => return false,
        };
        if let Some(holds) = self.of_call(call, value) {
            return holds;
        }
        let file = |test: &dyn Fn(&InodeFacts) -> bool| {
            let mut files = call.names.iter().filter_map(|name| name.file.as_ref());
            // Linux's files are those of which one is equal, or of which one is not equal.
            files.any(test)
        };
        match self.number {
            field::DEVMAJOR => file(&|file| is(file.device.0)),
            field::DEVMINOR => file(&|file| is(file.device.1)),
            field::INODE => {
                let is_there = file(&|file| file.inode as u32 == value);
                self.operator.agrees(is_there)
            }
            field::FILETYPE => file(&|file| is(file.mode & 0o170_000)),
            field::OBJ_UID => file(&|file| is(file.user)),
            field::OBJ_GID => file(&|file| is(file.group)),
            field::COMPARE => {
                let own = owner_pair(task, value);
                file(&|file| {
                    let owner = if is_user_pair(value) { file.user } else { file.group };
                    self.operator.agrees(own == Some(owner))
                })
            }
            _ => false,
        }
    }
    /// Returns whether a number of the call holds; `None` if the field is about its files.
    pub(crate) fn of_call(&self, call: &CallFacts<'_>, value: u32) -> Option<bool> {
        let is = |own| self.operator.compares(own, value);
        Some(match (self.number, call.end) {
            (field::EXIT, CallEnd::Returned(result)) => is(result as u32),
            (field::SUCCESS, CallEnd::Returned(result)) => {
                // 1 is success and 2 is failure (`AUDITSC_...`).
                let (own, wanted) =
                    (if result < 0 { 2 } else { 1 }, if value == 0 { 2 } else { 1 });
                self.operator.compares(own, wanted)
            }
            (field::EXIT | field::SUCCESS, CallEnd::Never) => false,
            (field::ARG0..=field::ARG3, _) => {
                let place = (self.number - field::ARG0) as usize;
                call.arguments.get(place).is_some_and(|argument| is(*argument as u32))
            }
            (field::PERM, _) => {
                let has_access = classes::has_access(call.number, call.open_flags, value);
                self.operator.agrees(has_access)
            }
            _ => return None,
        })
    }
    fn of_text(&self, text: &[u8], task: &TaskFacts, asked: Asked<'_>) -> bool {
        let names = match asked {
            Asked::Call(call) => call.names,
            _ => &[],
        };
        let is_below = |name: &NameFacts| {
            name.path
                .strip_prefix(text)
                .is_some_and(|rest| text == b"/" || rest.is_empty() || rest.first() == Some(&b'/'))
        };
        match self.number {
            field::KEY => true,
            field::EXE => self.operator.agrees(*task.program == *text),
            field::WATCH => names.iter().any(|name| *name.path == *text),
            field::DIR => names.iter().any(is_below),
            number => self.of_context(task, asked, |context: &Context| {
                let own = match number {
                    field::SUBJ_USER | field::OBJ_USER => context.user(),
                    field::SUBJ_ROLE | field::OBJ_ROLE => context.role(),
                    _ => context.kind(),
                };
                self.operator.agrees(own.as_bytes() == text)
            }),
        }
    }
    /// Returns whether the task's context, or that of one of the call's files, passes a test.
    fn of_context(
        &self,
        task: &TaskFacts,
        asked: Asked<'_>,
        test: impl Fn(&Context) -> bool,
    ) -> bool {
        match (self.number, asked) {
            (field::SUBJ_USER..=field::SUBJ_CLR, _) => task.context.as_deref().is_some_and(test),
            (_, Asked::Call(call)) => {
                let files = call.names.iter().filter_map(|name| name.file.as_ref());
                files.filter_map(|file| file.context.as_deref()).any(test)
            }
            _ => false,
        }
    }
    fn compares_level(&self, wanted: &Secrecy, own: &Secrecy) -> bool {
        match self.operator {
            Operator::Equal => own == wanted,
            Operator::NotEqual => own != wanted,
            Operator::Less => wanted.dominates(own) && own != wanted,
            Operator::LessEqual => wanted.dominates(own),
            Operator::Greater => own.dominates(wanted) && own != wanted,
            Operator::GreaterEqual => own.dominates(wanted),
            Operator::BitMask | Operator::BitTest => false,
        }
    }
}

/// Returns whether two ids of a task are equal, by the number of the comparison.
fn are_equal(task: &TaskFacts, comparison: u32) -> Option<bool> {
    let user =
        |place| if place == LOGIN { Some(task.login) } else { task.users.get(place).copied() };
    let group = |place: usize| task.groups.get(place).copied();
    match comparison {
        10..=19 => {
            let (one, other) = *USER_PAIRS.get(comparison as usize - 10)?;
            Some(user(one)? == user(other)?)
        }
        _ => {
            let (one, other) = *GROUP_PAIRS.get((comparison as usize).checked_sub(20)?)?;
            Some(group(one)? == group(other)?)
        }
    }
}

/// Returns whether a comparison with a file is one of users.
fn is_user_pair(comparison: u32) -> bool {
    matches!(comparison, 1 | 3 | 5 | 6 | 8)
}

/// Returns the id of the task that is compared with the file's owner or group.
fn owner_pair(task: &TaskFacts, comparison: u32) -> Option<u32> {
    let place = match comparison {
        1 | 2 => REAL,
        3 | 4 => EFFECTIVE,
        5 => return Some(task.login),
        6 | 7 => SAVED,
        _ => FILE_SYSTEM,
    };
    let ids = if is_user_pair(comparison) { &task.users } else { &task.groups };
    ids.get(place).copied()
}
