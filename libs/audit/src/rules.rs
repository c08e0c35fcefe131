//! [`RuleSet`]: the rules of all lists, in their order.
use crate::{AuditRule, CallFacts, RuleAction, RuleList, TaskFacts, matching::Asked};
use alloc::{sync::Arc, vec::Vec};

/// The reason for which a rule is neither added nor deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleChange {
    /// The rule is there already.
    Exists,
    /// The rule is not there.
    Absent,
    /// There are as many rules as there may be.
    Full,
}

/// The greatest number of rules. Rules cost memory and time of all calls that they are about.
const RULES_MAX: usize = 4096;

/// All rules.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<Arc<AuditRule>>,
}

impl RuleSet {
    /// Adds a rule.
    ///
    /// # Errors
    /// [`RuleChange::Exists`], [`RuleChange::Full`].
    pub fn add(&mut self, rule: AuditRule) -> Result<(), RuleChange> {
        if self.rules.iter().any(|known| **known == rule) {
            return Err(RuleChange::Exists);
        }
        if self.rules.len() >= RULES_MAX {
            return Err(RuleChange::Full);
        }
        let place = if rule.is_first { 0 } else { self.rules.len() };
        self.rules.insert(place, Arc::new(rule));
        Ok(())
    }
    /// Deletes a rule.
    ///
    /// # Errors
    /// [`RuleChange::Absent`].
    pub fn remove(&mut self, rule: &AuditRule) -> Result<(), RuleChange> {
        let place = self.rules.iter().position(|known| **known == *rule);
        self.rules.remove(place.ok_or(RuleChange::Absent)?);
        Ok(())
    }
    /// Returns all rules.
    pub fn all(&self) -> impl Iterator<Item = &AuditRule> {
        self.rules.iter().map(|rule| &**rule)
    }
    fn of(&self, list: RuleList) -> impl Iterator<Item = &Arc<AuditRule>> {
        self.rules.iter().filter(move |rule| rule.list == list)
    }
    /// Returns whether the calls of a new task are audited at all.
    pub fn audits_task(&self, task: &TaskFacts) -> bool {
        let mut rules = self.of(RuleList::Task);
        let found = rules.find(|rule| rule.matches(task, Asked::Task));
        found.is_none_or(|rule| rule.action == RuleAction::Always)
    }
    /// Returns whether a record is written.
    pub fn writes(&self, kind: u16, task: &TaskFacts) -> bool {
        !self.of(RuleList::Exclude).any(|rule| rule.matches(task, Asked::Record(kind)))
    }
    /// Returns whether rules about records exist, so that [`RuleSet::writes`] may say no.
    pub fn may_exclude(&self) -> bool {
        self.of(RuleList::Exclude).next().is_some()
    }
    /// Returns whether a message of a program is written.
    pub fn takes(&self, kind: u16, task: &TaskFacts) -> bool {
        let mut rules = self.of(RuleList::User);
        let found = rules.find(|rule| rule.matches(task, Asked::Record(kind)));
        found.is_none_or(|rule| rule.action == RuleAction::Always)
    }
    /// Returns the rule that selects a call; `None` if none does.
    pub fn selects(&self, task: &TaskFacts, call: &CallFacts<'_>) -> Option<&Arc<AuditRule>> {
        let mut rules = self.of(RuleList::Exit).filter(|rule| rule.calls.has(call.number));
        let found = rules.find(|rule| rule.matches(task, Asked::Call(call)));
        found.filter(|rule| rule.action == RuleAction::Always)
    }
    /// Returns whether rules select calls at all.
    pub fn has_calls(&self) -> bool {
        self.of(RuleList::Exit).next().is_some()
    }
    /// Returns the rules of the list of exits.
    pub(crate) fn exits(&self) -> impl Iterator<Item = &Arc<AuditRule>> {
        self.of(RuleList::Exit)
    }
}
