//! [`Grade`]: integrity.
use core::fmt;

/// The trust in a subject, or in the contents of an object; the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Software or data of unknown origin.
    #[default]
    Untrusted,
    /// Users and what they install for themselves.
    User,
    /// The administrator's work, and the system's daemons.
    Admin,
    /// The trusted computing base: what security depends on.
    Tcb,
}

impl Grade {
    /// Every grade, the least first.
    pub const ALL: [Grade; 4] = [Grade::Untrusted, Grade::User, Grade::Admin, Grade::Tcb];

    /// Returns the name that policies have for it.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Untrusted => "untrusted",
            Grade::User => "user",
            Grade::Admin => "admin",
            Grade::Tcb => "tcb",
        }
    }
    /// Returns the grade of that name.
    pub fn named(name: &str) -> Option<Grade> {
        Grade::ALL.into_iter().find(|grade| grade.name() == name)
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
