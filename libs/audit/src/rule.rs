//! [`AuditRule`]: a rule, and its form in bytes (`struct audit_rule_data`).
//!
//! ```text
//!  0       4        8       12           268            524            780         1036     1040
//!  | flags | action | count | mask[64]   | fields[64]   | values[64]   | ops[64]   | length | texts
//! ```
use alloc::{boxed::Box, vec::Vec};
use labels::Secrecy;

/// The number of fields that a rule can have.
pub(crate) const FIELDS_MAX: usize = 64;
/// Words of the mask of calls.
pub(crate) const MASK_WORDS: usize = 64;
/// Bytes of a rule before its texts.
pub(crate) const FIXED_BYTES: usize = 1040;
/// Flag of a rule that is put before the others.
pub(crate) const PREPEND: u32 = 0x10;

/// Numbers of fields (`AUDIT_...`).
#[allow(missing_docs, reason = "the names are Linux's")]
pub mod field {
    pub const PID: u32 = 0;
    pub const UID: u32 = 1;
    pub const FSUID: u32 = 4;
    pub const GID: u32 = 5;
    pub const EGID: u32 = 6;
    pub const FSGID: u32 = 8;
    pub const LOGINUID: u32 = 9;
    pub const PERS: u32 = 10;
    pub const ARCH: u32 = 11;
    pub const MSGTYPE: u32 = 12;
    pub const SUBJ_USER: u32 = 13;
    pub const SUBJ_ROLE: u32 = 14;
    pub const SUBJ_TYPE: u32 = 15;
    pub const SUBJ_SEN: u32 = 16;
    pub const SUBJ_CLR: u32 = 17;
    pub const PPID: u32 = 18;
    pub const OBJ_USER: u32 = 19;
    pub const OBJ_ROLE: u32 = 20;
    pub const OBJ_TYPE: u32 = 21;
    pub const OBJ_LEV_LOW: u32 = 22;
    pub const OBJ_LEV_HIGH: u32 = 23;
    pub const LOGINUID_SET: u32 = 24;
    pub const SESSIONID: u32 = 25;
    pub const DEVMAJOR: u32 = 100;
    pub const DEVMINOR: u32 = 101;
    pub const INODE: u32 = 102;
    pub const EXIT: u32 = 103;
    pub const SUCCESS: u32 = 104;
    pub const WATCH: u32 = 105;
    pub const PERM: u32 = 106;
    pub const DIR: u32 = 107;
    pub const FILETYPE: u32 = 108;
    pub const OBJ_UID: u32 = 109;
    pub const OBJ_GID: u32 = 110;
    pub const COMPARE: u32 = 111;
    pub const EXE: u32 = 112;
    pub const ARG0: u32 = 200;
    pub const ARG3: u32 = 203;
    pub const KEY: u32 = 210;
}

/// The list that a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleList {
    /// Messages of programs.
    User,
    /// New tasks.
    Task,
    /// The ends of system calls.
    Exit,
    /// Records that are not written.
    Exclude,
}

impl RuleList {
    /// Returns Linux's number.
    pub fn number(self) -> u32 {
        match self {
            RuleList::User => 0,
            RuleList::Task => 1,
            RuleList::Exit => 4,
            RuleList::Exclude => 5,
        }
    }
    /// Returns the list of a number.
    pub(crate) fn of_number(number: u32) -> Option<RuleList> {
        use RuleList::{Exclude, Exit, Task, User};
        [User, Task, Exit, Exclude].into_iter().find(|list| list.number() == number)
    }
}

/// The effect of a rule that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// No record is written.
    Never,
    /// A record is written.
    Always,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `&`: a bit is in both.
    BitMask,
    /// `<`.
    Less,
    /// `>`.
    Greater,
    /// `!=`.
    NotEqual,
    /// `=`.
    Equal,
    /// `&=`: all bits of the value are there.
    BitTest,
    /// `<=`.
    LessEqual,
    /// `>=`.
    GreaterEqual,
}

impl Operator {
    const ALL: [(Operator, u32); 8] = [
        (Operator::BitMask, 0x0800_0000),
        (Operator::Less, 0x1000_0000),
        (Operator::Greater, 0x2000_0000),
        (Operator::NotEqual, 0x3000_0000),
        (Operator::Equal, 0x4000_0000),
        (Operator::BitTest, 0x4800_0000),
        (Operator::LessEqual, 0x5000_0000),
        (Operator::GreaterEqual, 0x6000_0000),
    ];
    /// The bits in which an operator is encoded (`AUDIT_OPERATORS`).
    const BITS: u32 = 0x7800_0000;

    pub(crate) fn of_flags(flags: u32) -> Option<Operator> {
        let found = Operator::ALL.into_iter().find(|(_, bits)| *bits == flags & Operator::BITS);
        found.map(|(operator, _)| operator)
    }
    fn flags(self) -> u32 {
        Operator::ALL
            .into_iter()
            .find(|(operator, _)| *operator == self)
            .map_or(0, |(_, bits)| bits)
    }
    /// Compares two numbers.
    pub(crate) fn compares(self, left: u32, right: u32) -> bool {
        match self {
            Operator::BitMask => left & right != 0,
            Operator::Less => left < right,
            Operator::Greater => left > right,
            Operator::NotEqual => left != right,
            Operator::Equal => left == right,
            Operator::BitTest => left & right == right,
            Operator::LessEqual => left <= right,
            Operator::GreaterEqual => left >= right,
        }
    }
    /// Returns `is_equal` or its contrary; `false` if the operator is no test for equality.
    pub(crate) fn agrees(self, is_equal: bool) -> bool {
        match self {
            Operator::Equal => is_equal,
            Operator::NotEqual => !is_equal,
            _ => false,
        }
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number.
    Number(u32),
    /// A text.
    Text(Box<[u8]>),
    /// A text that is a secrecy, if it is a valid one. No object has an invalid one.
    Level(Box<[u8]>, Option<Box<Secrecy>>),
}

/// A condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleField {
    /// Number ([`field`]).
    pub number: u32,
    /// Comparison.
    pub operator: Operator,
    /// Value.
    pub value: FieldValue,
}

/// The numbers of system calls, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallMask(pub(crate) [u32; MASK_WORDS]);

impl SyscallMask {
    /// No calls.
    pub const NONE: SyscallMask = SyscallMask([0; MASK_WORDS]);

    /// Returns whether a call is among them.
    #[inline]
    pub fn has(&self, number: u32) -> bool {
        let word = self.0.get((number / 32) as usize).copied().unwrap_or(0);
        word >> (number % 32) & 1 != 0
    }
    /// Adds a call. A number that no mask has is left out.
    pub fn add(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut((number / 32) as usize) {
            *word |= 1 << (number % 32);
        }
    }
    /// Removes a call, and returns whether it was there.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let was_there = self.has(number);
        if let Some(word) = self.0.get_mut((number / 32) as usize) {
            *word &= !(1 << (number % 32));
        }
        was_there
    }
}

/// A rule that is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRule {
    /// The list that it belongs to.
    pub list: RuleList,
    /// It is put before the rules that are there.
    pub is_first: bool,
    /// Effect.
    pub action: RuleAction,
    /// The system calls that it is about.
    pub calls: SyscallMask,
    /// Conditions, all of which hold for what it matches.
    pub fields: Vec<RuleField>,
}

impl AuditRule {
    /// Returns its key, which records of it have.
    pub fn key(&self) -> Option<&[u8]> {
        let field = self.fields.iter().find(|field| field.number == field::KEY)?;
        match &field.value {
            FieldValue::Text(text) => Some(text),
            _ => None,
        }
    }
    /// Returns its form in bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut texts = Vec::new();
        let mut values = [0; FIELDS_MAX];
        for (value, field) in values.iter_mut().zip(&self.fields) {
            *value = match &field.value {
                FieldValue::Number(number) => *number,
                FieldValue::Text(text) | FieldValue::Level(text, _) => {
                    texts.extend_from_slice(text);
                    text.len() as u32
                }
            };
        }
        let column = |part: fn(&RuleField) -> u32| {
            let mut column = [0; FIELDS_MAX];
            column.iter_mut().zip(&self.fields).for_each(|(word, field)| *word = part(field));
            column
        };
        let flags = self.list.number() | if self.is_first { PREPEND } else { 0 };
        let action = match self.action {
            RuleAction::Never => 0,
            RuleAction::Always => 2,
        };
        let words = [flags, action, self.fields.len() as u32].into_iter();
        let words = words.chain(self.calls.0).chain(column(|field| field.number));
        let words = words.chain(values).chain(column(|field| field.operator.flags()));
        let words = words.chain([texts.len() as u32]);
        words.flat_map(u32::to_le_bytes).chain(texts).collect()
    }
}
