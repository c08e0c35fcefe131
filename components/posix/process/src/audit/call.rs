//! The audit of system calls ([`AuditedCalls`]).
//!
//! A task whose calls rules may select runs them in a loop of its own (`run`), so that others pay nothing. There, a call that no rule
//! names costs a bit of a mask and a test of [`event::CallMark`]. The mask is made anew when the login, the credentials or the program of
//! the task change. For a call that a rule names, vfs tells of the names that it uses; at its end its arguments and its result are
//! looked at first, and the facts of task and files are collected only if they may decide.
use super::{
    Enabling, RULES_EXIST,
    backlog::{self, AuditRecord},
    facts::{command, facts, terminal},
    rules, settings,
};
use crate::{call::Call, event, noted::NoteList, task::Task};
use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use audit::{
    CallEnd, CallFacts, Candidates, Interest, NameFacts, RecordText, RuleSet, StampedTime,
    TaskFacts, arguments, kind,
};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use memory::AddressSpace;
use vfs::uses::ObservedNames;

/// Result of an interrupted call, as Linux tells it.
const INTERRUPTED: i64 = -4;
/// The longest command line that is recorded.
const ARGUMENTS_MAX: u64 = 1 << 20;

/// The rules about the calls of a task.
pub struct AuditedCalls {
    rules: Arc<RuleSet>,
    candidates: Candidates,
}

impl AuditedCalls {
    /// Returns them; `None` if the task's calls are not audited.
    #[inline]
    pub fn of(task: &Task) -> Option<Box<AuditedCalls>> {
        if RULES_EXIST.load(Ordering::Acquire) {
            return AuditedCalls::found(task);
        }
        task.audit.set_audited(false);
        task.audit.forget();
        None
    }
    #[cold]
    fn found(task: &Task) -> Option<Box<AuditedCalls>> {
        let rules = rules();
        let is_on = settings().enabled != Enabling::Off && rules.has_calls();
        let may_be = is_on && !backlog::is_daemon(&task.process);
        let facts = may_be.then(|| facts(task)).filter(|facts| rules.audits_task(facts));
        task.audit.set_audited(facts.is_some());
        let candidates = Candidates::of(&rules, &facts?);
        Some(Box::new(AuditedCalls { rules, candidates }))
    }
    /// Does a call by `answer`, and audits it.
    #[inline]
    pub fn answer<I: Copy>(
        &self,
        call: &mut Call<'_>,
        answer: impl Fn(&mut Call<'_>) -> Option<I>,
    ) -> Option<I> {
        // As on Linux, the low half of the register is the number.
        let number = call.context.registers.rax as u32;
        if self.candidates.has(number) {
            return self.consider(call, number, answer);
        }
        let outcome = answer(call);
        if call.task.audit.is_stamped() {
            self.accompany(call, number, outcome);
        }
        outcome
    }
    /// Does a call that a rule may select by its number.
    #[inline(never)]
    fn consider<I: Copy>(
        &self,
        call: &mut Call<'_>,
        number: u32,
        answer: impl Fn(&mut Call<'_>) -> Option<I>,
    ) -> Option<I> {
        let names = match self.candidates.interest(number, || call.args()) {
            Interest::Any => ObservedNames::All,
            Interest::Failure => ObservedNames::OfFailedOpen,
            Interest::None => {
                let outcome = answer(call);
                if call.task.audit.is_stamped() {
                    self.accompany(call, number, outcome);
                }
                return outcome;
            }
        };
        self.observe(call, (number, names), answer)
    }
    /// Does a call that a rule may select.
    #[inline(never)]
    fn observe<I: Copy>(
        &self,
        call: &mut Call<'_>,
        (number, names): (u32, ObservedNames),
        answer: impl Fn(&mut Call<'_>) -> Option<I>,
    ) -> Option<I> {
        let task = call.task;
        let arguments = call.args();
        backlog::before_call(task);
        task.names.begin(number, names);
        let outcome = answer(call);
        let notes = task.names.end(names);
        let ended = ended(call, &(number, arguments), outcome);
        let may_name = |number, path: &[u8]| notes.may_name(&task.fs(), (number, path));
        if task.audit.is_stamped() || self.candidates.may_have_selected(&ended, &may_name) {
            self.finish(task, ended, &notes);
        }
        task.names.keep(notes);
        outcome
    }
    /// Writes the record of a call that no rule selects and that another record is about.
    #[cold]
    #[inline(never)]
    fn accompany<I>(&self, call: &Call<'_>, number: u32, outcome: Option<I>) {
        let made = (number, call.args());
        self.finish(call.task, ended(call, &made, outcome), &NoteList::default());
    }
    #[cold]
    fn finish(&self, task: &Task, ended: CallFacts<'_>, notes: &NoteList) {
        let names = notes.facts(&task.fs());
        let facts = facts(task);
        let ended = CallFacts { names: &names, ..ended };
        let (number, end) = (ended.number, ended.end);
        let rule = self.rules.selects(&facts, &ended);
        let stamp = task.audit.take();
        if rule.is_none() && stamp.is_none() {
            return;
        }
        let event = SelectedEvent {
            stamp: stamp.unwrap_or_else(event::stamp),
            task,
            rules: &self.rules,
            facts: &facts,
        };
        event.write(kind::SYSCALL, |text| {
            let (terminal, command) = (terminal(task), command(task));
            text.put_call(&ended, &facts, (&terminal, &command), rule.map(|rule| &**rule));
        });
        let is_execution = matches!(number, raw::__NR_execve | raw::__NR_execveat);
        let line = task.process.try_memory().map(|memory| command_line(&memory));
        let line = line.unwrap_or_default();
        if is_execution && end == CallEnd::Returned(0) {
            event.write_arguments(&line);
        }
        event.write_rest(&line, &names);
    }
}

/// Returns the facts of a call that has ended, but for the files that it named.
fn ended<I>(
    call: &Call<'_>,
    (number, all): &(u32, [u64; 6]),
    outcome: Option<I>,
) -> CallFacts<'static> {
    let end = match (*number, outcome) {
        (raw::__NR_exit | raw::__NR_exit_group, _) => CallEnd::Never,
        (_, Some(_)) => CallEnd::Returned(INTERRUPTED),
        (_, None) => CallEnd::Returned(call.context.registers.rax as i64),
    };
    let [a0, a1, a2, a3, ..] = *all;
    let open_flags = call.task.names.open_flags(*number, all);
    CallFacts { number: *number, arguments: [a0, a1, a2, a3], open_flags, end, names: &[] }
}

/// The records of one event.
struct SelectedEvent<'a> {
    stamp: StampedTime,
    task: &'a Task,
    rules: &'a RuleSet,
    facts: &'a TaskFacts,
}

impl SelectedEvent<'_> {
    fn push(&self, number: u16, text: &str) {
        if self.rules.writes(number, self.facts) {
            backlog::push(self.task, AuditRecord::new(self.task, number, text));
        }
    }
    fn write(&self, number: u16, write: impl FnOnce(&mut RecordText)) {
        let mut text = RecordText::new(self.stamp);
        write(&mut text);
        self.push(number, &text.finish());
    }
    /// Writes the arguments of a program that was executed.
    fn write_arguments(&self, line: &[u8]) {
        let all = line.strip_suffix(&[0]).unwrap_or(line);
        let all: Vec<Vec<u8>> = all.split(|byte| *byte == 0).map(Vec::from).collect();
        arguments(self.stamp, &all).iter().for_each(|text| self.push(kind::EXECVE, text));
    }
    /// Writes the records that are the last of an event.
    fn write_rest(&self, line: &[u8], names: &[NameFacts]) {
        let task = self.task;
        if !names.is_empty() {
            let fs = task.fs();
            let directory = fs.working().describe(&fs.root()).text;
            self.write(kind::CWD, |text| text.put_directory(&directory));
        }
        for (item, name) in names.iter().enumerate() {
            self.write(kind::PATH, |text| text.put_name(item, name));
        }
        self.write(kind::PROCTITLE, |text| text.put_title(line));
        self.write(kind::EOE, |_| {});
    }
}

/// Returns the arguments of the program that a memory has, with a zero after each.
fn command_line(memory: &AddressSpace) -> Vec<u8> {
    let (start, end) = memory.layout().arguments;
    let mut text = vec![0; end.saturating_sub(start).min(ARGUMENTS_MAX) as usize];
    match memory.read_bytes(start, &mut text) {
        Ok(()) => text,
        Err(_) => Vec::new(),
    }
}
