//! The rules by which rows are decided, and what they say of a subject and an object.
use crate::policy::{Cell, Relation, Subject};

/// The answer of an attempt that finds nothing, where no error tells that.
pub const LEFT_OUT: i32 = -1;

/// A rule.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// The level of the subject dominates that of the object.
    Read,
    /// Both levels are the same, and the grade of the object is not above that of the subject.
    Write,
    /// As reading, and the grade of the object is not below that of the subject.
    Execute,
    /// Both levels are the same.
    Equal,
    /// As reading, and the grade of the object is not above that of the subject.
    Inspect,
    /// The context is the subject's own.
    Same,
    /// The level of the object is not below the subject's: of a multilevel directory that is, the subject finds a hidden one.
    NotBelow,
    /// Nobody may.
    Nobody,
    /// Everybody may, whatever the label.
    Everybody,
    /// By the first rule with the privilege, and by the second without it.
    With(&'static str, &'static Rule, &'static Rule),
    /// The grade of the object is not above that of the subject.
    Grade,
    /// By the rule; only the subject with the privilege tries it, which the attempt needs for other things.
    As(&'static str, &'static Rule),
}

impl Rule {
    /// Returns whether a subject may.
    pub fn allows(self, subject: Subject, cell: Cell) -> bool {
        let is_equal = cell.relation == Relation::Equal;
        let reads = is_equal || cell.relation == Relation::Dominates;
        match self {
            Rule::Read => reads,
            Rule::Write => is_equal && cell.grade <= subject.grade,
            Rule::Execute => reads && cell.grade >= subject.grade,
            Rule::Equal => is_equal,
            Rule::Inspect => reads && cell.grade <= subject.grade,
            Rule::Grade => cell.grade <= subject.grade,
            Rule::Same => is_equal && cell.grade == subject.grade,
            Rule::NotBelow => cell.relation != Relation::Dominates,
            Rule::Nobody => false,
            Rule::Everybody => true,
            Rule::As(_, rule) => rule.allows(subject, cell),
            Rule::With(privilege, with, without) => {
                let rule = if subject.privilege == Some(privilege) { with } else { without };
                rule.allows(subject, cell)
            }
        }
    }
    /// Returns whether a subject with a privilege, or none, tries a row with the rule.
    pub fn is_tried_with(self, privilege: Option<&str>) -> bool {
        match self {
            Rule::With(name, ..) => privilege.is_none_or(|privilege| privilege == name),
            Rule::As(name, _) => privilege == Some(name),
            _ => privilege.is_none(),
        }
    }
    /// Returns words of which the docs must have one of each list where they name the rule.
    pub fn words(self) -> Vec<Vec<String>> {
        let words = |list: &[&str]| vec![list.iter().map(|word| (*word).into()).collect()];
        match self {
            Rule::Read => words(&["read", "dominates", "look"]),
            Rule::Write => words(&["write"]),
            Rule::Execute => words(&["execute"]),
            Rule::Equal => words(&[
                "own secrecy",
                "equal secrecy",
                "socket's secrecy",
                "one secrecy",
                "own level",
                "same secrecy",
                "another secrecy",
            ]),
            Rule::Inspect => [words(&["read"]), words(&["no greater grade"])].concat(),
            Rule::Nobody => {
                words(&["nobody", "being of the trusted path", "the thread itself", "range only"])
            }
            Rule::Same => words(&["exec(2) decides"]),
            Rule::NotBelow => words(&["multilevel one"]),
            Rule::Everybody => words(&["any", "itself"]),
            Rule::Grade => words(&["grade"]),
            Rule::As(_, rule) => rule.words(),
            Rule::With(privilege, with, without) => {
                let name = vec![vec![privilege.into(), privilege.replace('-', " ")]];
                let other = match (with, without) {
                    (_, Rule::Nobody) => Vec::new(),
                    (_, other) => other.words(),
                };
                [name, other].concat()
            }
        }
    }
}

/// The errors of a refusal, by what the subject may know of the object.
#[derive(Clone, Copy, Debug)]
pub struct Errors {
    /// The subject may not read the object.
    hidden: i32,
    /// It may, but its level is another one.
    across: i32,
    /// It has the same level.
    same: i32,
    /// The subject lacks the privilege, and could do the operation with it.
    lacking: Option<i32>,
    /// The subject lacks the privilege, which is asked for first.
    lacking_first: Option<i32>,
    /// A subject with the privilege knows of all objects.
    is_seen: bool,
}

impl Errors {
    /// Returns the same error for all.
    pub const fn all(error: i32) -> Errors {
        Errors {
            hidden: error,
            across: error,
            same: error,
            lacking: None,
            lacking_first: None,
            is_seen: false,
        }
    }
    /// Returns errors of which the first is that of an object that the subject may not read.
    pub const fn hidden(hidden: i32, other: i32) -> Errors {
        Errors {
            hidden,
            across: other,
            same: other,
            lacking: None,
            lacking_first: None,
            is_seen: false,
        }
    }
    /// Returns errors of which the second is that of an object of the same level.
    pub const fn named(other: i32, same: i32) -> Errors {
        Errors {
            hidden: other,
            across: other,
            same,
            lacking: None,
            lacking_first: None,
            is_seen: false,
        }
    }
    /// Returns the error of a subject without the privilege, where it could do the operation with it.
    pub const fn lacking(self, error: i32) -> Errors {
        Errors { lacking: Some(error), ..self }
    }
    /// Returns the error of a subject without the privilege, which is looked at before the object.
    pub const fn lacking_first(self, error: i32) -> Errors {
        Errors { lacking_first: Some(error), ..self }
    }
    /// Returns errors of which this is that of an object that the subject may not read.
    pub const fn unread(self, hidden: i32) -> Errors {
        Errors { hidden, ..self }
    }
    /// Returns errors of objects of which subjects with the privilege know.
    pub const fn seen(self) -> Errors {
        Errors { is_seen: true, ..self }
    }
    /// Returns the error of a refusal.
    pub fn of(self, rule: Rule, subject: Subject, cell: Cell) -> i32 {
        if let (Some(lacking), Rule::With(name, with, _)) = (self.lacking, rule)
            && subject.privilege != Some(name)
            && with.allows(subject, cell)
        {
            return lacking;
        }
        if let (Some(lacking), Rule::With(name, ..)) = (self.lacking_first, rule)
            && subject.privilege != Some(name)
            && Rule::Read.allows(subject, cell)
        {
            return lacking;
        }
        if let Rule::With(name, ..) = rule
            && self.is_seen
            && subject.privilege == Some(name)
        {
            return self.same;
        }
        match cell.relation {
            Relation::Equal => self.same,
            Relation::Dominates => self.across,
            Relation::Dominated | Relation::Incomparable => self.hidden,
        }
    }
    /// Returns all of them, without repetition.
    pub fn list(self) -> Vec<i32> {
        let mut all = vec![self.hidden, self.across, self.same];
        all.extend(self.lacking);
        all.extend(self.lacking_first);
        all.sort_unstable();
        all.dedup();
        all
    }
}
