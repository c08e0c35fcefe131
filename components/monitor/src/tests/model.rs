//! A model of the system around the monitor: every reachable state of two subjects, four labels and four objects satisfies the
//! unwinding conditions of noninterference. Each decision is the monitor's.
//!
//! - *Output consistency and step consistency*: two states that look alike to an observer give an action that the observer may know
//!   of the same result, and look alike afterwards.
//! - *Local respect*: an action that the observer may not know of changes nothing that the observer sees.
//!
//! An observer of label `u` sees each object and each subject whose label `u` dominates. The model has the checks where the
//! personality has them: a lookup reads the directory, creation and removal write it, a descriptor is checked when it is opened,
//! received and kept over a change of label.
//!
//! Source: J. Rushby, "Noninterference, Transitivity, and Channel-Control Security Policies", SRI CSL-92-02, section 2.
extern crate std;
use crate::SecurityPolicy;
use alloc::{format, vec::Vec};
use interfaces::monitor::ObjectAccess;
use labels::{Context, Secrecy};
use std::collections::HashMap;

const LABELS: [&str; 4] = ["s0", "s1:c0", "s1:c1", "s2:c0,c1"];
const POLICY: &str = "
type file_t grade user
type shell_exec_t grade tcb
domain kernel_t grade tcb
domain user_t grade user
role system_r domains kernel_t
role user_r domains user_t
user system_u roles system_r range s0-s15:c0.c1023
user user_u roles user_r range s0-s2:c0,c1
initial kernel system_u:system_r:kernel_t:s0
initial unlabeled system_u:object_r:file_t:s15:c0.c1023
initial file system_u:object_r:file_t:s0
initial netif system_u:object_r:file_t:s0
initial netmsg system_u:object_r:file_t:s0
initial anonymous system_u:object_r:file_t:s0
";

/// The monitor's answers, asked once each.
struct Answers {
    reads: [[bool; 4]; 4],
    writes: [[bool; 4]; 4],
    /// A subject may ask for the second label when it executes a program.
    execs: [[bool; 4]; 4],
    dominates: [[bool; 4]; 4],
}

impl Answers {
    fn new() -> Answers {
        let policy = SecurityPolicy::parse(POLICY.as_bytes()).unwrap();
        let subject = |label: usize| -> Context {
            format!("user_u:user_r:user_t:{}", LABELS[label]).parse().unwrap()
        };
        let object = |label: usize| -> Context {
            format!("user_u:object_r:file_t:{}", LABELS[label]).parse().unwrap()
        };
        let program = "system_u:object_r:shell_exec_t:s0".parse().unwrap();
        let secrecy = |label: usize| LABELS[label].parse::<Secrecy>().unwrap();
        let table = |ask: &dyn Fn(usize, usize) -> bool| {
            core::array::from_fn(|own| core::array::from_fn(|other| ask(own, other)))
        };
        let decide =
            |own, other, access| policy.decide(&subject(own), &object(other), access).is_ok();
        Answers {
            reads: table(&|own, other| decide(own, other, ObjectAccess::Read)),
            writes: table(&|own, other| decide(own, other, ObjectAccess::Write)),
            execs: table(&|own, new| {
                policy.entered(&subject(own), &program, Some(&subject(new))).is_ok()
            }),
            dominates: table(&|own, other| secrecy(own).dominates(&secrecy(other))),
        }
    }
}

/// The object in the directory of a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Object {
    is_there: bool,
    value: bool,
    is_locked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Subject {
    label: usize,
    /// The bit that it knows.
    memory: bool,
    /// The object that it has open to read.
    open: Option<usize>,
}

/// The system, or what an observer sees of it: objects and subjects that are not there, or not seen, are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    objects: [Option<Object>; 4],
    subjects: [Option<Subject>; 2],
}

/// Bits of a [`State::code`].
const CODE_BITS: u32 = 24;

impl State {
    /// Returns a number that no other state has.
    fn code(&self) -> u32 {
        let of_object = |object: &Option<Object>| {
            object.map_or(0, |Object { is_there, value, is_locked }| {
                1 + u32::from(is_there) * (1 + u32::from(value) * 2 + u32::from(is_locked))
            })
        };
        let of_subject = |subject: &Option<Subject>| {
            subject.map_or(0, |Subject { label, memory, open }| {
                let open = open.map_or(0, |open| 1 + open as u32);
                1 + (label as u32 * 2 + u32::from(memory)) * 5 + open
            })
        };
        let objects = self.objects.iter().fold(0, |sum, one| sum << 3 | of_object(one));
        self.subjects.iter().fold(objects, |sum, one| sum << 6 | of_subject(one))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Think(bool),
    Read(usize),
    Write(usize),
    Create(usize),
    Remove(usize),
    List(usize),
    Lock(usize),
    Unlock(usize),
    Open(usize),
    ReadOpen,
    SendOpen,
    Exec(usize),
    Signal,
    See,
    /// The subject ends.
    Exit,
    /// The trusted login gives the subject's place to a new session. Nobody's label causes it.
    Login(usize),
}

/// The answer that a deed gives its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Refused,
    Absent,
    There,
    Done,
    Value(bool),
}

/// Whether a check of the personality is left out: the model must find that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    RemovesUnchecked,
    LocksWhatItReads,
    KeepsDescriptors,
    TellsOfProcesses,
    ReceivesUnchecked,
}

struct Model {
    answers: Answers,
    flaw: Flaw,
}

impl Model {
    /// Does what subject `who` does, and returns what it is told.
    fn step(&self, state: &mut State, who: usize, deed: Deed) -> Option<Told> {
        let Answers { writes, execs, .. } = &self.answers;
        if let Deed::Login(label) = deed {
            let before = state.subjects[who].and_then(|before| before.open);
            let open = before.filter(|_| self.flaw == Flaw::KeepsDescriptors);
            state.subjects[who] = Some(Subject { label, memory: false, open });
            return None;
        }
        let mut own = state.subjects[who]?;
        let label = own.label;
        let told = match deed {
            Deed::Exit => {
                state.subjects[who] = None;
                return None;
            }
            Deed::Think(value) => {
                own.memory = value;
                Told::Done
            }
            Deed::Exec(new) if execs[label][new] => {
                own.label = new;
                Told::Done
            }
            Deed::Signal | Deed::See | Deed::SendOpen => {
                return self.between(state, who, deed);
            }
            Deed::ReadOpen => match own.open {
                Some(open) => self.value(&mut own, state.objects[open]?),
                None => Told::Refused,
            },
            Deed::Create(at) | Deed::Remove(at) => {
                let is_free =
                    self.flaw == Flaw::RemovesUnchecked && matches!(deed, Deed::Remove(_));
                let object = state.objects[at].as_mut()?;
                match (writes[label][at] || is_free, object.is_there, deed) {
                    (false, ..) => Told::Refused,
                    (true, false, Deed::Remove(_)) => Told::Absent,
                    (true, true, Deed::Create(_)) => Told::There,
                    (true, is_there, _) => {
                        *object = Object { is_there: !is_there, ..Object::default() };
                        Told::Done
                    }
                }
            }
            Deed::Exec(_) | Deed::Login(_) => Told::Refused,
            Deed::Read(at)
            | Deed::Write(at)
            | Deed::List(at)
            | Deed::Lock(at)
            | Deed::Unlock(at)
            | Deed::Open(at) => self.with_object(state.objects[at].as_mut()?, (&mut own, at), deed),
        };
        state.subjects[who] = Some(own);
        Some(told)
    }
    fn value(&self, own: &mut Subject, object: Object) -> Told {
        if !object.is_there {
            return Told::Absent;
        }
        own.memory = object.value;
        Told::Value(object.value)
    }
    /// A deed with the object in the directory `at`, behind its lookup.
    fn with_object(
        &self,
        object: &mut Object,
        (own, at): (&mut Subject, usize),
        deed: Deed,
    ) -> Told {
        let (reads, writes) =
            (self.answers.reads[own.label][at], self.answers.writes[own.label][at]);
        let locks = if self.flaw == Flaw::LocksWhatItReads { reads } else { writes };
        match (reads, object.is_there, deed) {
            (false, ..) => Told::Refused,
            (true, false, _) => Told::Absent,
            (true, true, Deed::Read(_)) => self.value(own, *object),
            (true, true, Deed::List(_)) => Told::There,
            (true, true, Deed::Open(_)) => {
                own.open = Some(at);
                Told::Done
            }
            (true, true, Deed::Write(_)) if writes => {
                object.value = own.memory;
                Told::Done
            }
            (true, true, Deed::Lock(_)) if locks => match object.is_locked {
                true => Told::There,
                false => {
                    object.is_locked = true;
                    Told::Done
                }
            },
            (true, true, Deed::Unlock(_)) if locks => {
                object.is_locked = false;
                Told::Done
            }
            _ => Told::Refused,
        }
    }
    /// A deed of `who` with the other subject.
    fn between(&self, state: &mut State, who: usize, deed: Deed) -> Option<Told> {
        let own = state.subjects[who]?;
        // A subject that is not seen is not there.
        let Some(other) = state.subjects[1 - who].as_mut() else { return Some(Told::Absent) };
        let (reads, writes) = (
            self.answers.reads[own.label][other.label],
            self.answers.writes[own.label][other.label],
        );
        if !reads && self.flaw != Flaw::TellsOfProcesses {
            return Some(Told::Absent);
        }
        Some(match deed {
            Deed::See if reads => Told::Value(other.memory),
            Deed::Signal if writes => {
                other.memory = true;
                Told::Done
            }
            Deed::SendOpen if writes || self.flaw == Flaw::ReceivesUnchecked => match own.open {
                Some(open)
                    if self.answers.reads[other.label][open]
                        || self.flaw == Flaw::ReceivesUnchecked =>
                {
                    other.open = Some(open);
                    Told::Done
                }
                _ => Told::Refused,
            },
            _ => Told::Refused,
        })
    }
    /// Returns what an observer sees of a state.
    fn view(&self, state: &State, observer: usize) -> State {
        let seen = &self.answers.dominates[observer];
        State {
            objects: core::array::from_fn(|at| state.objects[at].filter(|_| seen[at])),
            subjects: state.subjects.map(|one| one.filter(|one| seen[one.label])),
        }
    }
    fn deeds() -> Vec<Deed> {
        let at_each: [fn(usize) -> Deed; 9] = [
            Deed::Read,
            Deed::Write,
            Deed::Create,
            Deed::Remove,
            Deed::List,
            Deed::Lock,
            Deed::Unlock,
            Deed::Open,
            Deed::Login,
        ];
        let at_each = at_each.into_iter().flat_map(|deed| (0..4).map(deed));
        let others = [Deed::ReadOpen, Deed::SendOpen, Deed::Signal, Deed::See];
        let own = [Deed::Think(false), Deed::Think(true), Deed::Exit];
        at_each.chain((0..4).map(Deed::Exec)).chain(others).chain(own).collect()
    }
    fn reachable(&self) -> Vec<State> {
        let objects = [Some(Object::default()); 4];
        let first = State { objects, subjects: [Some(Subject::default()); 2] };
        let mut is_known = std::vec![false; 1 << CODE_BITS];
        is_known[first.code() as usize] = true;
        let (mut states, deeds) = (Vec::from([first]), Model::deeds());
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            at += 1;
            for (who, deed) in (0..2).flat_map(|who| deeds.iter().map(move |deed| (who, *deed))) {
                let mut next = state;
                self.step(&mut next, who, deed);
                if !core::mem::replace(&mut is_known[next.code() as usize], true) {
                    states.push(next);
                }
            }
        }
        states
    }
    /// Returns what each deed of each subject tells and leaves to an observer that sees `before`. It is not told of deeds of subjects
    /// that it does not see.
    ///
    /// # Errors
    /// A deed that it does not see and that changes what it sees.
    fn effects(&self, state: &State, observer: usize) -> Result<Vec<u32>, (usize, Deed)> {
        let before = self.view(state, observer);
        let (before, seen) = (before.code(), before.subjects.map(|one| one.is_some()));
        let mut effects = Vec::new();
        for (who, deed) in
            (0..2).flat_map(|who| Model::deeds().into_iter().map(move |deed| (who, deed)))
        {
            let mut next = *state;
            let told = self.step(&mut next, who, deed);
            let after = self.view(&next, observer).code();
            let is_login = matches!(deed, Deed::Login(_));
            if !seen[who] && !is_login && after != before {
                return Err((who, deed));
            }
            let told = told.filter(|_| seen[who]).map_or(0, |told| match told {
                Told::Refused => 1,
                Told::Absent => 2,
                Told::There => 3,
                Told::Done => 4,
                Told::Value(value) => 5 + u32::from(value),
            });
            effects.push(told << CODE_BITS | after);
        }
        Ok(effects)
    }
    /// Returns the first breach of the unwinding conditions.
    fn breach(&self, states: &[State]) -> Option<(State, usize, Deed)> {
        let deeds = Model::deeds();
        // The observer of the greatest label sees everything, so no two states look alike to it.
        for observer in 0..3 {
            let mut known: HashMap<u32, Vec<u32>> = HashMap::new();
            for state in states {
                let effects = match self.effects(state, observer) {
                    Ok(effects) => effects,
                    Err((who, deed)) => return Some((*state, who, deed)),
                };
                let first = known.entry(self.view(state, observer).code());
                let first = first.or_insert_with(|| effects.clone());
                if let Some(at) = first.iter().zip(&effects).position(|(one, other)| one != other) {
                    return Some((*state, at / deeds.len(), deeds[at % deeds.len()]));
                }
            }
        }
        None
    }
}

#[test]
fn nothing_above_is_seen_below_in_any_reachable_state() {
    let model = Model { answers: Answers::new(), flaw: Flaw::None };
    let states = model.reachable();
    // Nearly all: five of each object, and 27 of each subject (none, or a label, a bit and an object that it may have open).
    assert_eq!(states.len(), 451_625);
    assert_eq!(model.breach(&states), None);
}

#[test]
fn the_model_finds_each_check_that_is_left_out() {
    for flaw in [
        Flaw::RemovesUnchecked,
        Flaw::LocksWhatItReads,
        Flaw::KeepsDescriptors,
        Flaw::TellsOfProcesses,
        Flaw::ReceivesUnchecked,
    ] {
        let model = Model { answers: Answers::new(), flaw };
        let states = model.reachable();
        assert!(model.breach(&states).is_some(), "{flaw:?}");
    }
}
