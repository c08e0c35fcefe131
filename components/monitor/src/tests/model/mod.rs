//! A model of the system around the monitor, of which every reachable state satisfies the unwinding conditions of noninterference.
//! Each decision is the monitor's.
//!
//! - *Output consistency*: two states that look alike to an observer give an action of a subject that the observer sees the same
//!   result.
//! - *Step consistency*: they look alike to it after the same action.
//! - *Local respect*: an action of a subject that the observer does not see changes nothing that the observer sees.
//!
//! An observer of label `u` sees each object and each subject whose label `u` dominates. The model has the checks where the
//! personality has them: a lookup reads the directory, creation and removal write it, a descriptor is checked when it is opened,
//! received and kept over a change of label. What a subject does by a privilege is an exception for those who have it, as in the policy; so
//! that is left out of step consistency and local respect (Rushby's section 4 has the conditions of such policies).
//!
//! | part | what it is |
//! | --- | --- |
//! | [`answers`] | the monitor's decisions for the labels of the model, and wrong ones for the tests of the model |
//! | [`state`] | states, what is seen of them, and their numbers |
//! | [`deeds`] | the operations |
//! | [`integrity`] | the same for grades: nothing of a lesser grade gets into data and programs of a greater one |
//!
//! Source: J. Rushby, "Noninterference, Transitivity, and Channel-Control Security Policies", SRI CSL-92-02, sections 2 and 4.
extern crate std;
mod answers;
mod deeds;
mod integrity;
mod state;

use alloc::vec::Vec;
use answers::{Answers, LABELS, Mistake};
use deeds::{Deed, Flaw, Model, Told};
use state::State;
use std::collections::{HashMap, HashSet, hash_map::Entry};

/// A state, the subject that acts there, and its action, which breaks a condition.
type Breach = (State, usize, Deed);

/// The effects of all actions on an observer, a number for each: what its subject is told, and what is seen afterwards.
type Effects = Vec<u32>;

/// An action that was done.
struct Done {
    who: usize,
    deed: Deed,
    next: State,
    told: Option<Told>,
    /// It was done by a privilege.
    is_exception: bool,
}

impl Told {
    fn number(self) -> u32 {
        match self {
            Told::Refused => 1,
            Told::Absent => 2,
            Told::There => 3,
            Told::Done => 4,
            Told::Busy => 5,
            Told::Value(value) => 6 + u32::from(value),
        }
    }
}

/// The number of an effect that no condition speaks of.
const EXCEPTION: u32 = u32::MAX;

impl Model {
    /// Puts into `effects` what each action tells and leaves to an observer. It is not told of actions of subjects that it does not see.
    ///
    /// # Errors
    /// An action that it does not see, and that changes what it sees.
    fn effects(
        &self,
        state: &State,
        (observer, done): (usize, &[Done]),
        effects: &mut Effects,
    ) -> Result<(), Breach> {
        let seen = &self.answers.dominates[observer];
        let before = state.seen(seen);
        for Done { who, deed, next, told, is_exception } in done {
            if *is_exception {
                effects.push(EXCEPTION);
                continue;
            }
            let after = next.seen(seen);
            let is_seen = state.sees_subject(*who, seen);
            if !is_seen && after != before && !matches!(deed, Deed::Login(_)) {
                return Err((*state, *who, *deed));
            }
            let told = told.filter(|_| is_seen).map_or(0, Told::number);
            effects.push(told << state::CODE_BITS | after);
        }
        Ok(())
    }
    /// Visits all states that can be reached, and checks the conditions for each observer. Returns the number of states.
    ///
    /// # Errors
    /// The first breach that is found.
    fn explore(&self) -> Result<usize, Breach> {
        let deeds = Model::deeds();
        let mut known = HashSet::from([State::FIRST.code()]);
        let mut states = Vec::from([State::FIRST]);
        // The observer of the greatest label sees everything, so no two states look alike to it.
        let observers = LABELS.len() - 1;
        let mut looks: Vec<HashMap<u32, usize>> = (0..observers).map(|_| HashMap::new()).collect();
        let mut kept: Vec<Effects> = (0..observers).map(|_| Vec::new()).collect();
        let (mut done, mut effects) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            at += 1;
            done.clear();
            for (who, deed) in deeds.iter().copied() {
                let mut next = state;
                let (told, is_exception) = self.step(&mut next, who, deed);
                done.push(Done { who, deed, next, told, is_exception });
                if known.insert(next.code()) {
                    states.push(next);
                }
            }
            for observer in 0..observers {
                effects.clear();
                self.effects(&state, (observer, &done), &mut effects)?;
                let all = &mut kept[observer];
                match looks[observer].entry(state.seen(&self.answers.dominates[observer])) {
                    Entry::Vacant(new) => {
                        new.insert(all.len());
                        all.extend_from_slice(&effects);
                    }
                    Entry::Occupied(old) => {
                        let first = &all[*old.get()..][..deeds.len()];
                        let is_breach = |(one, other): (&u32, &u32)| {
                            one != other && *one != EXCEPTION && *other != EXCEPTION
                        };
                        if let Some(place) = first.iter().zip(&effects).position(is_breach) {
                            let (who, deed) = deeds[place];
                            return Err((state, who, deed));
                        }
                    }
                }
            }
        }
        Ok(states.len())
    }
}

#[test]
fn nothing_above_is_seen_below_in_any_reachable_state() {
    let model = Model { answers: Answers::new(Mistake::None), flaw: Flaw::None };
    assert_eq!(model.explore(), Ok(317_520));
}

#[test]
fn the_model_finds_each_check_that_is_left_out() {
    for flaw in Flaw::ALL {
        let model = Model { answers: Answers::new(Mistake::None), flaw };
        assert!(model.explore().is_err(), "{flaw:?}");
    }
}

#[test]
fn the_model_finds_each_wrong_decision() {
    for mistake in Mistake::ALL {
        let model = Model { answers: Answers::new(mistake), flaw: Flaw::None };
        assert!(model.explore().is_err(), "{mistake:?}");
    }
}

#[test]
fn each_operation_is_done_somewhere() {
    let model = Model { answers: Answers::new(Mistake::None), flaw: Flaw::None };
    let mut done = HashSet::new();
    let mut refused = HashSet::new();
    // A short walk is enough.
    let (mut states, mut known) = (Vec::from([State::FIRST]), HashSet::new());
    while let Some(state) = states.pop().filter(|_| known.len() < 20_000) {
        for (who, deed) in Model::deeds() {
            let mut next = state;
            match model.step(&mut next, who, deed).0 {
                Some(Told::Refused | Told::Absent) => {
                    refused.insert(core::mem::discriminant(&deed))
                }
                _ => done.insert(core::mem::discriminant(&deed)),
            };
            if known.insert(next.code()) {
                states.push(next);
            }
        }
    }
    for (_, deed) in Model::deeds() {
        let kind = core::mem::discriminant(&deed);
        assert!(done.contains(&kind) || deed.is_never_done(), "{deed:?} is always refused");
        assert!(refused.contains(&kind) || deed.is_always_done(), "{deed:?} is never refused");
    }
}
