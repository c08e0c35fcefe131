//! [`Candidates`]: the calls of a task that rules may select. Most calls that no rule selects are told apart by their number and their
//! arguments, and the others by their result, before facts are collected.
use crate::{
    AuditRule, CallFacts, FieldValue, RuleAction, RuleField, RuleSet, SyscallMask, TaskFacts,
    classes, field, matching::Asked,
};
use alloc::{sync::Arc, vec::Vec};

/// Returns whether a call may have named the file at a place ([`field::WATCH`]), or one below it ([`field::DIR`]).
pub type MayName<'a> = &'a dyn Fn(u32, &[u8]) -> bool;

/// The rules that may select calls of a task, and those calls. They hold as long as the credentials, the program and the login of the
/// task stay the same.
#[derive(Clone, Debug)]
pub struct Candidates {
    calls: SyscallMask,
    /// For each of the calls of [`classes::OPENS`], the ways of access (`flags & 3`) of which a rule may select, a bit each.
    opens: [u8; classes::OPENS.len()],
    rules: Vec<Arc<AuditRule>>,
}

/// rt_sigreturn(2), execve(2) and execveat(2): calls that replace the registers with their arguments.
const REPLACING: [u32; 3] = [15, 59, 322];
/// All ways of access.
const ANY_ACCESS: u8 = 0xf;

impl Candidates {
    /// Finds the candidates of a task.
    pub fn of(rules: &RuleSet, task: &TaskFacts) -> Candidates {
        let may = |rule: &&Arc<AuditRule>| rule.fields.iter().all(|field| field.may_hold(task));
        let rules: Vec<_> = rules.exits().filter(may).cloned().collect();
        let mut found =
            Candidates { calls: SyscallMask::NONE, opens: [0; classes::OPENS.len()], rules };
        let selecting = found.rules.iter().filter(|rule| rule.action == RuleAction::Always);
        for rule in selecting {
            let accesses = rule.fields.iter().filter_map(RuleField::accesses);
            let accesses: Vec<u32> = accesses.collect();
            found.calls.unite(
                &rule.calls.only(|number| {
                    accesses.iter().all(|wanted| classes::may_access(number, *wanted))
                }),
            );
            for ((number, _), bits) in classes::OPENS.iter().zip(&mut found.opens) {
                let is_wanted = |flags: &u32| {
                    let has = |wanted: &u32| {
                        classes::has_access(*number, Some(u64::from(*flags)), *wanted)
                    };
                    rule.calls.has(*number) && accesses.iter().all(has)
                };
                *bits |= (0..4).filter(is_wanted).fold(0, |bits, flags| bits | 1 << flags);
            }
        }
        REPLACING.iter().for_each(|number| found.calls.add(*number));
        found
    }
    /// Returns whether a rule may select the call with this number, or the arguments are not there any more when the call has ended.
    #[inline]
    pub fn has(&self, number: u32) -> bool {
        self.calls.has(number)
    }
    /// Returns whether a rule may select a call that is to be made, of those that [`Candidates::has`].
    #[inline]
    pub fn may_select(&self, number: u32, arguments: &[u64; 6]) -> bool {
        let mut opens = classes::OPENS.iter().zip(self.opens);
        let ways =
            opens.find(|((open, _), _)| *open == number).map_or(ANY_ACCESS, |(open, ways)| {
                let flags = arguments.get(open.1).copied().unwrap_or(0);
                ways >> (flags & 3)
            });
        ways & 1 != 0
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

impl RuleField {
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
