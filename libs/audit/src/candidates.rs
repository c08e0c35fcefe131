//! [`Candidates`]: the calls of a task that rules may select. Most calls that no rule selects are told apart by their number and their
//! arguments, and the others by their result, before facts are collected.
use crate::{
    AuditRule, CallFacts, FieldValue, Operator, RuleAction, RuleField, RuleSet, TaskFacts, classes,
    field, matching::Asked,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};

/// Returns whether a call may have named the file at a place ([`field::WATCH`]), or one below it ([`field::DIR`]).
pub type MayName<'a> = &'a dyn Fn(u32, &[u8]) -> bool;

/// The part of a call that rules need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// No rule selects it, whatever its result.
    None,
    /// A rule may select it if it fails.
    Failure,
    /// A rule may select it.
    Any,
}

/// The rules that may select calls of a task, and those calls. They hold as long as the credentials, the program and the login of the
/// task stay the same.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// For each call, the ways of access (`flags & 3` of open(2)) of which a rule may select, a bit each: all or none for a call
    /// that is not among [`classes::OPENS`]. [`IF_FAILED`] if only failures are selected.
    ways: Box<[u8; NUMBERS]>,
    rules: Vec<Arc<AuditRule>>,
}

/// The calls that are looked at: there are none beyond.
const NUMBERS: usize = 512;
/// All ways of access.
const ANY_WAY: u8 = 0xf;
const IF_FAILED: u8 = 0x10;
/// rt_sigreturn(2), execve(2) and execveat(2): calls that replace the registers with their arguments.
const REPLACING: [u32; 3] = [15, 59, 322];

impl Candidates {
    /// Finds the candidates of a task.
    pub fn of(rules: &RuleSet, task: &TaskFacts) -> Candidates {
        let may = |rule: &&Arc<AuditRule>| rule.fields.iter().all(|field| field.may_hold(task));
        let rules: Vec<_> = rules.exits().filter(may).cloned().collect();
        let mut ways = Box::new([0; NUMBERS]);
        for (number, place) in (0..).zip(ways.iter_mut()) {
            *place = match REPLACING.contains(&number) {
                true => ANY_WAY,
                false => ways_of(&rules, number),
            };
        }
        Candidates { ways, rules }
    }
    /// Returns whether a rule may select the call with this number, or its arguments are not there any more when it has ended.
    #[inline]
    pub fn has(&self, number: u32) -> bool {
        self.ways.get(number as usize).is_some_and(|ways| *ways != 0)
    }
    /// Returns what rules need to know of a call that is to be made. The arguments of those of no interest are still there when they
    /// have ended.
    #[inline]
    pub fn interest(&self, number: u32, arguments: impl FnOnce() -> [u64; 6]) -> Interest {
        match self.ways.get(number as usize) {
            None | Some(0) => Interest::None,
            Some(&ANY_WAY) => Interest::Any,
            Some(ways) => {
                let [_, second, third, ..] = arguments();
                // open(2), or openat(2).
                let flags = if number == 2 { second } else { third };
                match (ways >> (flags & 3) & 1, ways & IF_FAILED) {
                    (0, _) => Interest::None,
                    (_, 0) => Interest::Any,
                    _ => Interest::Failure,
                }
            }
        }
    }
    /// Returns whether a rule may select a call that has ended, of which `call` has all facts but the names.
    pub fn may_have_selected(&self, call: &CallFacts<'_>, may_name: MayName<'_>) -> bool {
        self.rules.iter().any(|rule| {
            rule.action == RuleAction::Always
                && rule.calls.has(call.number)
                && rule.fields.iter().all(|field| field.may_hold_of(call, may_name))
        })
    }
}

/// Returns the ways of access in which rules may select a call.
fn ways_of(rules: &[Arc<AuditRule>], number: u32) -> u8 {
    let selecting =
        rules.iter().filter(|rule| rule.action == RuleAction::Always && rule.calls.has(number));
    let is_open = classes::OPENS.contains(&number);
    let (mut ways, mut if_failed) = (0, IF_FAILED);
    for rule in selecting {
        let accesses = || rule.fields.iter().filter_map(RuleField::accesses);
        let own = match is_open {
            false if accesses().all(|wanted| classes::may_access(number, wanted)) => ANY_WAY,
            false => 0,
            true => {
                let has = |way: &u8| {
                    let flags = Some(u64::from(*way));
                    accesses().all(|wanted| classes::has_access(number, flags, wanted))
                };
                (0..4).filter(has).fold(0, |ways, way| ways | 1 << way)
            }
        };
        ways |= own;
        if own != 0 && !rule.fields.iter().any(RuleField::needs_failure) {
            if_failed = 0;
        }
    }
    if is_open && ways != 0 { ways | if_failed } else { ways }
}

impl RuleField {
    /// Returns whether the field holds only for calls that fail.
    fn needs_failure(&self) -> bool {
        match (self.number, self.operator, &self.value) {
            (field::SUCCESS, Operator::Equal, FieldValue::Number(value)) => *value == 0,
            (field::EXIT, Operator::Equal, FieldValue::Number(value)) => (*value as i32) < 0,
            _ => false,
        }
    }
    /// Returns whether the field can hold for calls of a task, by what of it seldom changes.
    fn may_hold(&self, task: &TaskFacts) -> bool {
        match self.number {
            // A parent may end, and personality(2) changes the other.
            field::PPID | field::PERS => true,
            field::SUBJ_USER..=field::SUBJ_CLR | field::EXE => self.holds(task, Asked::Task),
            _ => match self.value {
                FieldValue::Number(value) => self.of_task(task, value).unwrap_or(true),
                _ => true,
            },
        }
    }
    /// Returns whether the field can hold for a call, by what it costs little to know.
    fn may_hold_of(&self, call: &CallFacts<'_>, may_name: MayName<'_>) -> bool {
        match (self.number, &self.value) {
            (
                field::EXIT | field::SUCCESS | field::PERM | field::ARG0..=field::ARG3,
                FieldValue::Number(value),
            ) => self.of_call(call, *value).unwrap_or(true),
            (field::WATCH | field::DIR, FieldValue::Text(text)) => may_name(self.number, text),
            _ => true,
        }
    }
    /// Returns the ways of access that the field asks for.
    fn accesses(&self) -> Option<u32> {
        match (self.number, &self.value) {
            (field::PERM, FieldValue::Number(wanted)) => Some(*wanted),
            _ => None,
        }
    }
}
