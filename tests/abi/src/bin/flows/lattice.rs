//! The subjects, their folders, and what the lattice allows between them.

/// Grades of integrity, from the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Untrusted,
    User,
}

/// A level: its rank, and a bit for each category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secrecy {
    rank: u8,
    categories: u8,
}

impl Secrecy {
    /// Returns whether it dominates another one.
    pub fn dominates(self, other: Secrecy) -> bool {
        self.rank >= other.rank && self.categories & other.categories == other.categories
    }
}

/// A program that makes calls.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub name: &'static str,
    pub context: &'static str,
    pub secrecy: Secrecy,
    pub grade: Grade,
}

const fn at(rank: u8, categories: u8) -> Secrecy {
    Secrecy { rank, categories }
}

/// The subjects: a low one, one that is trusted less, two that cannot be compared, and one above the first of these.
pub const SUBJECTS: [Subject; 5] = [
    Subject {
        name: "low",
        context: "user_u:user_r:user_t:s0",
        secrecy: at(0, 0),
        grade: Grade::User,
    },
    Subject {
        name: "untrusted",
        context: "user_u:user_r:untrusted_t:s0",
        secrecy: at(0, 0),
        grade: Grade::Untrusted,
    },
    Subject {
        name: "left",
        context: "user_u:user_r:user_t:s1:c0",
        secrecy: at(1, 1),
        grade: Grade::User,
    },
    Subject {
        name: "right",
        context: "user_u:user_r:user_t:s1:c1",
        secrecy: at(1, 2),
        grade: Grade::User,
    },
    Subject {
        name: "high",
        context: "user_u:user_r:user_t:s2:c0",
        secrecy: at(2, 1),
        grade: Grade::User,
    },
];

/// A folder of files with one label.
#[derive(Clone, Copy, Debug)]
pub struct Folder {
    pub name: &'static str,
    pub label: &'static str,
    pub secrecy: Secrecy,
    pub grade: Grade,
}

/// The folders of a stage.
pub const FOLDERS: [Folder; 6] = [
    Folder {
        name: "low",
        label: "system_u:object_r:tmp_t:s0",
        secrecy: at(0, 0),
        grade: Grade::Untrusted,
    },
    Folder {
        name: "trusted",
        label: "system_u:object_r:home_t:s0",
        secrecy: at(0, 0),
        grade: Grade::User,
    },
    Folder {
        name: "left",
        label: "system_u:object_r:tmp_t:s1:c0",
        secrecy: at(1, 1),
        grade: Grade::Untrusted,
    },
    Folder {
        name: "right",
        label: "system_u:object_r:tmp_t:s1:c1",
        secrecy: at(1, 2),
        grade: Grade::Untrusted,
    },
    Folder {
        name: "middle",
        label: "system_u:object_r:tmp_t:s1",
        secrecy: at(1, 0),
        grade: Grade::Untrusted,
    },
    Folder {
        name: "high",
        label: "system_u:object_r:tmp_t:s2:c0",
        secrecy: at(2, 1),
        grade: Grade::Untrusted,
    },
];

impl Subject {
    /// Returns whether it may see what `other` has written.
    pub fn may_see(&self, other: &Subject) -> bool {
        self.secrecy.dominates(other.secrecy)
    }
    /// Returns whether it may read the files of a folder.
    pub fn may_read(&self, folder: &Folder) -> bool {
        self.secrecy.dominates(folder.secrecy)
    }
    /// Returns whether it may change the names in a folder. The files there may be of another grade, because those that may write to
    /// both move files.
    pub fn may_write(&self, folder: &Folder) -> bool {
        self.secrecy == folder.secrecy && self.grade >= folder.grade
    }
    /// Returns whether it may act on a process of `other`.
    pub fn may_act_on(&self, other: &Subject) -> bool {
        self.secrecy == other.secrecy && self.grade >= other.grade
    }
}

/// Bytes of a token.
pub const TOKEN_BYTES: usize = 8;
const START: [u8; 4] = [0xf5, 0x9d, b't', b'k'];

/// Returns the token that a subject puts into everything that it writes.
pub fn token(subject: usize) -> [u8; TOKEN_BYTES] {
    let [a, b, c, d] = START;
    let letter = b'A' + subject as u8;
    [a, b, c, d, letter, !letter, 0xe7, b'_']
}

/// Returns the subjects whose tokens are in `bytes`, a bit each. A token that a call has overwritten in part is none.
pub fn tokens(bytes: &[u8]) -> u64 {
    let mut found = 0;
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == START[0]) {
        rest = &rest[at..];
        let by = (0..SUBJECTS.len()).find(|subject| rest.starts_with(&token(*subject)));
        found |= by.map_or(0, |subject| 1 << subject);
        rest = &rest[1..];
    }
    found
}

/// Returns the first of the subjects in `found` for which `is_good` does not hold.
pub fn first_bad(found: u64, is_good: impl Fn(&Subject) -> bool) -> Option<usize> {
    (0..SUBJECTS.len()).find(|place| found & 1 << place != 0 && !is_good(&SUBJECTS[*place]))
}
