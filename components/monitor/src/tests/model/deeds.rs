//! The operations of the model.
use super::{
    answers::{Answers, PLACE},
    state::{Descriptor, SUBJECTS, State, Subject},
};
use alloc::vec::Vec;

/// Operations. Numbers are those of labels, or of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Think(bool),
    /// These concern the object in the directory of a label.
    Read(usize),
    Write(usize),
    Create(usize),
    Remove(usize),
    List(usize),
    /// These concern an object in the multilevel directory.
    ReadShared,
    WriteShared,
    CreateShared,
    RemoveShared,
    /// These concern the object in the lowest directory, whose label changes.
    ReadLabelled,
    WriteLabelled,
    Lock,
    Unlock,
    Open,
    OpenToWrite,
    Relabel(usize),
    /// These use a descriptor.
    ReadOpen,
    WriteOpen,
    Close,
    SendOpen,
    /// These concern a device that serves a range.
    ReadDevice(usize),
    WriteDevice(usize),
    /// A program with the label is executed, in the same domain and at the same label.
    Execute(usize),
    /// A session begins at the label, by newrole(1); it has the memory of the subject, as arguments.
    Begin(usize),
    /// The subject gives itself the label (setcon(3)).
    SetLabel(usize),
    Signal,
    Look,
    /// Covers the object of the lowest directory.
    Mount,
    Exit,
    /// The trusted login gives the subject's place to a new session. Nobody's label causes it.
    Login(usize),
}

/// The answer that a deed gives its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Refused,
    Absent,
    There,
    Done,
    Busy,
    Value(bool),
}

/// A check of the personality that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    RemovesUnchecked,
    CreatesUnchecked,
    LocksWhatItReads,
    KeepsDescriptors,
    TellsOfProcesses,
    SignalsWhatItReads,
    ReceivesUnchecked,
    RelabelsInUse,
    ListsUnchecked,
    DevicesRemember,
}

impl Flaw {
    /// All but none.
    pub const ALL: [Flaw; 10] = [
        Flaw::RemovesUnchecked,
        Flaw::CreatesUnchecked,
        Flaw::LocksWhatItReads,
        Flaw::KeepsDescriptors,
        Flaw::TellsOfProcesses,
        Flaw::SignalsWhatItReads,
        Flaw::ReceivesUnchecked,
        Flaw::RelabelsInUse,
        Flaw::ListsUnchecked,
        Flaw::DevicesRemember,
    ];
}

/// The number of the administrator, who has privileges and nothing that he remembers.
pub const ADMINISTRATOR: usize = SUBJECTS;

impl Deed {
    /// Returns whether ordinary subjects never do it, and the administrator does another one.
    pub fn is_never_done(self) -> bool {
        matches!(self, Deed::SetLabel(_))
    }
    /// Returns whether nothing refuses it.
    pub fn is_always_done(self) -> bool {
        matches!(self, Deed::Think(_) | Deed::Exit | Deed::Login(_))
    }
}

pub struct Model {
    pub answers: Answers,
    pub flaw: Flaw,
}

impl Model {
    /// Returns all deeds of all subjects.
    pub fn deeds() -> Vec<(usize, Deed)> {
        let at_each: [fn(usize) -> Deed; 10] = [
            Deed::Read,
            Deed::Write,
            Deed::Create,
            Deed::Remove,
            Deed::List,
            Deed::Relabel,
            Deed::Execute,
            Deed::Begin,
            Deed::SetLabel,
            Deed::Login,
        ];
        let single = [
            Deed::Think(false),
            Deed::Think(true),
            Deed::ReadShared,
            Deed::WriteShared,
            Deed::CreateShared,
            Deed::RemoveShared,
            Deed::ReadLabelled,
            Deed::WriteLabelled,
            Deed::Lock,
            Deed::Unlock,
            Deed::Open,
            Deed::OpenToWrite,
            Deed::ReadOpen,
            Deed::WriteOpen,
            Deed::Close,
            Deed::SendOpen,
            Deed::ReadDevice(0),
            Deed::ReadDevice(1),
            Deed::WriteDevice(0),
            Deed::WriteDevice(1),
            Deed::Signal,
            Deed::Look,
            Deed::Mount,
            Deed::Exit,
        ];
        let at_each = at_each.into_iter().flat_map(|deed| (0..4).map(deed));
        let all: Vec<Deed> = at_each.chain(single).collect();
        let of_subjects = (0..SUBJECTS).flat_map(|who| all.iter().map(move |deed| (who, *deed)));
        let others = (0..4).map(Deed::Relabel).chain([Deed::Mount]);
        of_subjects.chain(others.map(|deed| (ADMINISTRATOR, deed))).collect()
    }
    /// Does a deed of `who`. Returns what it is told, and whether it did it by a privilege.
    pub fn step(&self, state: &mut State, who: usize, deed: Deed) -> (Option<Told>, bool) {
        if who == ADMINISTRATOR {
            let told = match deed {
                Deed::Relabel(new) => {
                    let table = &self.answers.administrator_relabels;
                    self.relabel(state, table[state.labelled.label][new], new)
                }
                _ => mount(state),
            };
            return (Some(told), true);
        }
        (self.step_of_subject(state, who, deed), false)
    }
    fn step_of_subject(&self, state: &mut State, who: usize, deed: Deed) -> Option<Told> {
        if let Deed::Login(label) = deed {
            let before = state.subjects[who].and_then(|before| before.open);
            let open = before.filter(|_| self.flaw == Flaw::KeepsDescriptors);
            state.subjects[who] = Some(Subject { label, memory: false, open });
            return None;
        }
        let own = state.subjects[who]?;
        let label = own.label;
        Some(match deed {
            Deed::Exit => {
                state.subjects[who] = None;
                return None;
            }
            Deed::Think(value) => self.remember(state, who, value, Told::Done),
            Deed::Read(at)
            | Deed::Write(at)
            | Deed::Create(at)
            | Deed::Remove(at)
            | Deed::List(at) => self.with_object(state, who, (at, deed)),
            Deed::ReadShared => self.shared(state, who, Deed::Read),
            Deed::WriteShared => self.shared(state, who, Deed::Write),
            Deed::CreateShared => self.shared(state, who, Deed::Create),
            Deed::RemoveShared => self.shared(state, who, Deed::Remove),
            Deed::ReadLabelled
            | Deed::WriteLabelled
            | Deed::Lock
            | Deed::Unlock
            | Deed::Open
            | Deed::OpenToWrite => self.with_labelled(state, who, deed),
            Deed::Relabel(new) => {
                let old = state.labelled.label;
                match self.answers.reads[label][old] {
                    true => self.relabel(state, self.answers.relabels[label][old][new], new),
                    false => Told::Refused,
                }
            }
            Deed::ReadOpen | Deed::WriteOpen | Deed::Close => with_descriptor(state, who, deed),
            Deed::ReadDevice(at) | Deed::WriteDevice(at) => {
                self.with_device(state, who, (at, deed))
            }
            Deed::Execute(at) if self.answers.executes[label][at] => Told::Done,
            Deed::Begin(new) if self.answers.execs[label][new] => {
                self.become_labelled(state, who, new)
            }
            Deed::SetLabel(new) if self.answers.sets[label][new] => {
                self.become_labelled(state, who, new)
            }
            Deed::Mount if self.answers.mounts => mount(state),
            Deed::Signal | Deed::Look | Deed::SendOpen => self.between(state, who, deed),
            _ => Told::Refused,
        })
    }
    fn remember(&self, state: &mut State, who: usize, value: bool, told: Told) -> Told {
        if let Some(own) = &mut state.subjects[who] {
            own.memory = value;
        }
        told
    }
    /// A change of label by exec or by the subject itself: it keeps its memory, and the descriptor if it may have it.
    fn become_labelled(&self, state: &mut State, who: usize, new: usize) -> Told {
        let object = state.labelled.label;
        let keeps_all = self.flaw == Flaw::KeepsDescriptors;
        if let Some(own) = &mut state.subjects[who] {
            own.label = new;
            own.open = own.open.filter(|open| keeps_all || self.may_have(*open, new, object));
        }
        Told::Done
    }
    fn may_have(&self, open: Descriptor, subject: usize, object: usize) -> bool {
        let writes = open == Descriptor::Reads || self.answers.writes[subject][object];
        self.answers.reads[subject][object] && writes
    }
    /// A deed with the object in the directory `at`.
    fn with_object(&self, state: &mut State, who: usize, (at, deed): (usize, Deed)) -> Told {
        let Some(own) = state.subjects[who] else { return Told::Refused };
        let (reads, writes) =
            (self.answers.reads[own.label][at], self.answers.writes[own.label][at]);
        let lists = reads || self.flaw == Flaw::ListsUnchecked;
        let removes = writes || self.flaw == Flaw::RemovesUnchecked;
        let creates = writes || self.flaw == Flaw::CreatesUnchecked;
        match (deed, state.objects[at]) {
            (Deed::Read(_), Some(value)) if reads => {
                self.remember(state, who, value, Told::Value(value))
            }
            (Deed::Read(_), None) if reads => Told::Absent,
            (Deed::List(_), object) if lists => match object {
                Some(_) => Told::There,
                None => Told::Absent,
            },
            (Deed::Write(_), Some(_)) if writes => {
                state.objects[at] = Some(own.memory);
                Told::Done
            }
            (Deed::Write(_), None) if reads => Told::Absent,
            (Deed::Create(_), None) if creates => {
                state.objects[at] = Some(false);
                Told::Done
            }
            (Deed::Create(_), Some(_)) if creates => Told::There,
            (Deed::Remove(_), Some(_)) if removes => {
                state.objects[at] = None;
                Told::Done
            }
            (Deed::Remove(_), None) if removes => Told::Absent,
            _ => Told::Refused,
        }
    }
    /// The same in the directory that the subject finds in the place of the multilevel one.
    fn shared(&self, state: &mut State, who: usize, deed: fn(usize) -> Deed) -> Told {
        let Some(own) = state.subjects[who] else { return Told::Refused };
        // A lookup reads the multilevel directory.
        if !self.answers.reads[own.label][PLACE] {
            return Told::Refused;
        }
        let at = self.answers.within[own.label];
        self.with_object(state, who, (at, deed(at)))
    }
    fn with_labelled(&self, state: &mut State, who: usize, deed: Deed) -> Told {
        let Some(own) = state.subjects[who] else { return Told::Refused };
        let object = &mut state.labelled;
        let reads = self.answers.reads[own.label][object.label];
        let writes = reads && self.answers.writes[own.label][object.label];
        let locks = if self.flaw == Flaw::LocksWhatItReads { reads } else { writes };
        match deed {
            Deed::ReadLabelled if reads => {
                let value = object.value;
                self.remember(state, who, value, Told::Value(value))
            }
            Deed::WriteLabelled if writes => {
                object.value = own.memory;
                Told::Done
            }
            Deed::Lock if locks && object.is_locked => Told::There,
            Deed::Lock | Deed::Unlock if locks => {
                object.is_locked = deed == Deed::Lock;
                Told::Done
            }
            Deed::Open if reads => open(state, who, Descriptor::Reads),
            Deed::OpenToWrite if writes => open(state, who, Descriptor::Writes),
            _ => Told::Refused,
        }
    }
    /// Gives the labelled object another label, if that is allowed and nobody has it open who may not have it then.
    fn relabel(&self, state: &mut State, is_allowed: bool, new: usize) -> Told {
        let is_in_use = state.subjects.iter().flatten().any(|one| one.open.is_some());
        match (is_allowed, is_in_use && new != state.labelled.label) {
            (false, _) => Told::Refused,
            (true, true) if self.flaw != Flaw::RelabelsInUse => Told::Busy,
            (true, _) => {
                state.labelled.label = new;
                Told::Done
            }
        }
    }
    fn with_device(&self, state: &mut State, who: usize, (at, deed): (usize, Deed)) -> Told {
        let Some(own) = state.subjects[who] else { return Told::Refused };
        if !self.answers.devices[at][own.label] {
            return Told::Refused;
        }
        let keeps = at == 1 && (self.flaw == Flaw::DevicesRemember || self.answers.device_keeps);
        match deed {
            Deed::WriteDevice(_) => {
                state.kept = keeps && own.memory;
                Told::Done
            }
            _ => Told::Value(state.kept),
        }
    }
    /// A deed of `who` with the other subject.
    fn between(&self, state: &mut State, who: usize, deed: Deed) -> Told {
        let object = state.labelled.label;
        let [Some(own), Some(other)] = [who, 1 - who].map(|at| state.subjects[at]) else {
            return Told::Absent;
        };
        let (reads, writes) = (
            self.answers.reads[own.label][other.label],
            self.answers.writes[own.label][other.label],
        );
        // A subject that is not seen is not there.
        let sees = reads || self.answers.sees_all;
        if !sees && self.flaw != Flaw::TellsOfProcesses {
            return Told::Absent;
        }
        let signals = writes || reads && self.flaw == Flaw::SignalsWhatItReads;
        let receives_all = self.flaw == Flaw::ReceivesUnchecked;
        match (deed, own.open) {
            (Deed::Look, _) if sees => {
                self.remember(state, who, other.memory, Told::Value(other.memory))
            }
            (Deed::Signal, _) if signals => self.remember(state, 1 - who, true, Told::Done),
            (Deed::SendOpen, Some(open)) if writes || receives_all => {
                if receives_all || self.may_have(open, other.label, object) {
                    open_other(state, 1 - who, open)
                } else {
                    Told::Refused
                }
            }
            _ => Told::Refused,
        }
    }
}

fn open(state: &mut State, who: usize, descriptor: Descriptor) -> Told {
    if let Some(own) = &mut state.subjects[who] {
        own.open = Some(descriptor);
    }
    Told::Done
}

fn open_other(state: &mut State, other: usize, descriptor: Descriptor) -> Told {
    open(state, other, descriptor)
}

fn mount(state: &mut State) -> Told {
    state.objects[0] = None;
    Told::Done
}

/// A deed with a descriptor: nothing is checked again.
fn with_descriptor(state: &mut State, who: usize, deed: Deed) -> Told {
    let (object, Some(own)) = (&mut state.labelled, &mut state.subjects[who]) else {
        return Told::Refused;
    };
    match (deed, own.open) {
        (Deed::ReadOpen, Some(_)) => {
            own.memory = object.value;
            Told::Value(object.value)
        }
        (Deed::WriteOpen, Some(Descriptor::Writes)) => {
            object.value = own.memory;
            Told::Done
        }
        (Deed::Close, Some(_)) => {
            own.open = None;
            Told::Done
        }
        _ => Told::Refused,
    }
}
