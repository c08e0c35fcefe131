//! The model of integrity: subjects and objects of each grade at one level. In no reachable state data of an object were written, or a
//! program is run, that a subject of a lesser grade wrote.
use crate::SecurityPolicy;
use alloc::{format, string::String, vec::Vec};
use interfaces::monitor::ObjectAccess;
use labels::{Context, Grade};
use std::collections::HashSet;
extern crate std;

const GRADES: [Grade; 4] = [Grade::Untrusted, Grade::User, Grade::Admin, Grade::Tcb];

/// Two subjects; for each object the least grade that has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    subjects: [Running; 2],
    written: [u8; 4],
}

/// A subject, by its grade, and the least grade that has written what it runs, or that has sent it a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Running {
    grade: u8,
    code: u8,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Write(usize),
    /// The second grade is that of the domain that it asks for.
    Execute(usize, usize),
    Signal,
}

/// A wrong decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    WritesAbove,
    ExecutesBelow,
    /// A program is checked in the domain of the subject that executes it.
    ChecksOldDomain,
}

struct Answers {
    writes: [[bool; 4]; 4],
    /// By the grades of a subject, of a program's file, and of the domain that it asks for.
    enters: [[[bool; 4]; 4]; 4],
}

fn policy() -> SecurityPolicy {
    let mut text = String::new();
    for grade in GRADES.map(Grade::name) {
        text += &format!("type {grade}_o grade {grade}\ndomain {grade}_t grade {grade}\n");
    }
    // Each domain may ask for each other one by executing a file of any grade: the monitor checks the file in the new domain.
    for (own, new) in GRADES.into_iter().flat_map(|own| GRADES.map(|new| (own, new))) {
        for file in GRADES.map(Grade::name) {
            text += &format!("allow {}_t from {}_t by {file}_o\n", new.name(), own.name());
        }
    }
    text +=
        "role any_r domains untrusted_t,user_t,admin_t,tcb_t\nuser any_u roles any_r range s0\n";
    for of in [
        "kernel any_u:any_r:tcb_t",
        "unlabeled any_u:object_r:untrusted_o",
        "file any_u:object_r:admin_o",
        "netif any_u:object_r:untrusted_o",
        "netmsg any_u:object_r:untrusted_o",
        "anonymous any_u:object_r:untrusted_o",
    ] {
        text += &format!("initial {of}:s0\n");
    }
    SecurityPolicy::parse(text.as_bytes()).expect("a policy")
}

impl Answers {
    fn new(mistake: Mistake) -> Answers {
        let policy = policy();
        let context = |text: String| -> Context { text.parse().expect("a context") };
        let subject = |at: usize| context(format!("any_u:any_r:{}_t:s0", GRADES[at].name()));
        let object = |at: usize| context(format!("any_u:object_r:{}_o:s0", GRADES[at].name()));
        let write = |own, other| {
            policy.decide(&subject(own), &object(other), ObjectAccess::Write).is_ok()
                || mistake == Mistake::WritesAbove
        };
        let enter = |own: usize, file: usize, new: usize| match mistake {
            Mistake::ExecutesBelow => new <= own,
            Mistake::ChecksOldDomain => file >= own,
            _ => policy.entered(&subject(own), &object(file), Some(&subject(new))).is_ok(),
        };
        let each = core::array::from_fn::<usize, 4, _>(|at| at);
        Answers {
            writes: each.map(|own| each.map(|other| write(own, other))),
            enters: each.map(|own| each.map(|file| each.map(|new| enter(own, file, new)))),
        }
    }
    /// Does a deed of one of the subjects. Returns `None` if it is refused.
    fn step(&self, state: &State, who: usize, deed: Deed) -> Option<State> {
        let mut next = *state;
        let own = state.subjects[who];
        let by = own.code.min(own.grade);
        match deed {
            Deed::Write(at) if self.writes[usize::from(own.grade)][at] => {
                next.written[at] = state.written[at].min(by);
            }
            Deed::Execute(file, new) if self.enters[usize::from(own.grade)][file][new] => {
                next.subjects[who] = Running { grade: new as u8, code: state.written[file] };
            }
            Deed::Signal => {
                let other = &mut next.subjects[1 - who];
                if !self.writes[usize::from(own.grade)][usize::from(other.grade)] {
                    return None;
                }
                other.code = other.code.min(by);
            }
            _ => return None,
        }
        Some(next)
    }
    /// Visits all states. Returns their number.
    ///
    /// # Errors
    /// A state in which something of a lesser grade is in something of a greater one.
    fn explore(&self) -> Result<usize, State> {
        let first = |grade| Running { grade, code: grade };
        let pairs = (0..4).flat_map(|one| (0..4).map(move |other| [first(one), first(other)]));
        let mut states: Vec<State> =
            pairs.map(|subjects| State { subjects, written: [0, 1, 2, 3] }).collect();
        let mut known: HashSet<State> = states.iter().copied().collect();
        let programs = (0..4).flat_map(|file| (0..4).map(move |new| Deed::Execute(file, new)));
        let deeds: Vec<Deed> =
            (0..4).map(Deed::Write).chain(programs).chain([Deed::Signal]).collect();
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            at += 1;
            let is_sound = (0..4).all(|at| usize::from(state.written[at]) >= at)
                && state.subjects.iter().all(|one| one.code >= one.grade);
            if !is_sound {
                return Err(state);
            }
            for (who, deed) in (0..2).flat_map(|who| deeds.iter().map(move |deed| (who, *deed))) {
                let next = self.step(&state, who, deed);
                states.extend(next.filter(|next| known.insert(*next)));
            }
        }
        Ok(states.len())
    }
}

#[test]
fn nothing_of_a_lesser_grade_gets_into_a_greater_one() {
    assert_eq!(Answers::new(Mistake::None).explore(), Ok(100));
}

#[test]
fn the_model_of_integrity_finds_each_wrong_decision() {
    for mistake in [Mistake::WritesAbove, Mistake::ExecutesBelow, Mistake::ChecksOldDomain] {
        assert!(Answers::new(mistake).explore().is_err(), "{mistake:?}");
    }
}
