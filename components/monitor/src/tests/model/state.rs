//! States of the model, and what observers see of them.

/// The number of subjects.
pub const SUBJECTS: usize = 2;
/// Bits of a [`State::code`].
pub const CODE_BITS: u32 = 26;

/// The object in the directory of a label: none, or one with a bit.
pub type Object = Option<bool>;

/// An object in the lowest directory, whose label the administrator changes: a file or an upgraded directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labelled {
    pub label: usize,
    pub value: bool,
    pub is_locked: bool,
}

/// A descriptor of the labelled object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    Reads,
    Writes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    pub label: usize,
    /// The bit that it knows.
    pub memory: bool,
    pub open: Option<Descriptor>,
}

impl Subject {
    const FIRST: Subject = Subject { label: 0, memory: false, open: None };
}

/// The system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub objects: [Object; 4],
    pub labelled: Labelled,
    pub subjects: [Option<Subject>; SUBJECTS],
    /// The bit that a device keeps; none in a right system.
    pub kept: bool,
}

fn object_code(object: Object) -> u32 {
    object.map_or(0, |value| 1 + u32::from(value))
}

impl State {
    pub const FIRST: State = State {
        objects: [None; 4],
        labelled: Labelled { label: 0, value: false, is_locked: false },
        subjects: [Some(Subject::FIRST); SUBJECTS],
        kept: false,
    };

    /// Returns a number that no other state has.
    pub fn code(&self) -> u32 {
        self.seen(&[true; 4])
    }
    /// Returns whether an observer that dominates the labels `seen` sees a subject.
    pub fn sees_subject(&self, who: usize, seen: &[bool; 4]) -> bool {
        self.subjects.get(who).is_some_and(|one| one.is_some_and(|one| seen[one.label]))
    }
    /// Returns a number that states which look alike to an observer have in common. Of what it does not see it is told nothing, and a
    /// subject that it does not see is not there.
    pub fn seen(&self, seen: &[bool; 4]) -> u32 {
        let of_subject = |one: &Option<Subject>| {
            one.filter(|one| seen[one.label]).map_or(0, |Subject { label, memory, open }| {
                let open = open.map_or(0, |open| 1 + open as u32);
                1 + (label as u32 * 2 + u32::from(memory)) * 3 + open
            })
        };
        let objects = (0..4)
            .fold(0, |sum, at| sum << 2 | if seen[at] { object_code(self.objects[at]) } else { 3 });
        let Labelled { label, value, is_locked } = self.labelled;
        let labelled = match seen[label] {
            true => (label as u32 * 2 + u32::from(value)) * 2 + u32::from(is_locked),
            false => 16,
        };
        let all = objects << 5 | labelled;
        let all = self.subjects.iter().fold(all, |sum, one| sum << 5 | of_subject(one));
        // The range of the device begins at the second label.
        all << 1 | u32::from(self.kept && seen[1])
    }
}
