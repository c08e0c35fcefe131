//! Reading of rules that a program wrote.
use crate::{
    UNSET, classes,
    rule::{
        AuditRule, FIELDS_MAX, FIXED_BYTES, FieldValue, MASK_WORDS, Operator, PREPEND, RuleAction,
        RuleField, RuleList, SyscallMask, field,
    },
};
use alloc::{boxed::Box, vec::Vec};

/// The longest key.
const KEY_MAX: usize = 256;
/// The longest text.
const TEXT_MAX: usize = 4096;
/// Number of the last comparison of two fields.
const COMPARISONS: u32 = 25;

/// The reason for which bytes are no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// A length, a list, an action, a field, an operator or a value is invalid.
    Invalid,
    /// A text is too long.
    NameTooLong,
}

/// The words of a rule.
struct Words<'b>(&'b [u8]);

impl Words<'_> {
    fn at(&self, place: usize) -> Result<u32, RuleError> {
        let bytes = self.0.get(place * 4..).and_then(|rest| rest.first_chunk());
        bytes.copied().map(u32::from_le_bytes).ok_or(RuleError::Invalid)
    }
}

/// The texts of a rule that were not read yet.
struct Texts<'b>(&'b [u8]);

impl Texts<'_> {
    fn take(&mut self, length: u32, longest: usize) -> Result<Box<[u8]>, RuleError> {
        let length = length as usize;
        if length == 0 || length > self.0.len() {
            return Err(RuleError::Invalid);
        }
        if length > TEXT_MAX {
            return Err(RuleError::NameTooLong);
        }
        let (text, rest) = self.0.split_at_checked(length).ok_or(RuleError::Invalid)?;
        self.0 = rest;
        if length > longest || text.contains(&0) {
            return Err(RuleError::Invalid);
        }
        Ok(text.into())
    }
}

impl AuditRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn parse(bytes: &[u8]) -> Result<AuditRule, RuleError> {
        let words = Words(bytes.get(..FIXED_BYTES).ok_or(RuleError::Invalid)?);
        let flags = words.at(0)?;
        let list = RuleList::of_number(flags & !PREPEND).ok_or(RuleError::Invalid)?;
        let action = match words.at(1)? {
            0 => RuleAction::Never,
            2 => RuleAction::Always,
            _ => return Err(RuleError::Invalid),
        };
        let count = words.at(2)? as usize;
        if count > FIELDS_MAX {
            return Err(RuleError::Invalid);
        }
        let mut calls = SyscallMask::NONE;
        for (place, word) in calls.0.iter_mut().enumerate() {
            *word = words.at(3 + place)?;
        }
        classes::expand(&mut calls);
        let mut texts = Texts(bytes.get(FIXED_BYTES..).unwrap_or_default());
        let mut fields: Vec<RuleField> = Vec::new();
        for place in 3 + MASK_WORDS..3 + MASK_WORDS + count {
            let operator = Operator::of_flags(words.at(place + 2 * FIELDS_MAX)?);
            let operator = operator.ok_or(RuleError::Invalid)?;
            let given = (words.at(place)?, operator, words.at(place + FIELDS_MAX)?);
            let field = read(list, given, &mut texts)?;
            check_together(&fields, &field)?;
            fields.push(field);
        }
        Ok(AuditRule { list, is_first: flags & PREPEND != 0, action, calls, fields })
    }
}

/// Reads a field.
fn read(
    list: RuleList,
    (number, operator, value): (u32, Operator, u32),
    texts: &mut Texts<'_>,
) -> Result<RuleField, RuleError> {
    let is_equality = matches!(operator, Operator::Equal | Operator::NotEqual);
    let is_of_bits = matches!(operator, Operator::BitMask | Operator::BitTest);
    let may_have = match number {
        field::ARG0..=field::ARG3 | field::PERS | field::DEVMINOR => true,
        field::SUBJ_USER..=field::SUBJ_TYPE
        | field::OBJ_USER..=field::OBJ_TYPE
        | field::WATCH
        | field::DIR
        | field::KEY
        | field::LOGINUID_SET
        | field::ARCH
        | field::PERM
        | field::FILETYPE
        | field::COMPARE
        | field::EXE => is_equality,
        field::PID..=field::LOGINUID
        | field::MSGTYPE
        | field::SUBJ_SEN..=field::PPID
        | field::OBJ_LEV_LOW
        | field::OBJ_LEV_HIGH
        | field::SESSIONID
        | field::DEVMAJOR
        | field::EXIT
        | field::SUCCESS
        | field::OBJ_UID
        | field::OBJ_GID => !is_of_bits,
        field::INODE => is_equality,
        _ => false,
    };
    if !may_have || !is_of_list(list, number) || !is_value(number, value) {
        return Err(RuleError::Invalid);
    }
    let value = match number {
        field::SUBJ_USER..=field::SUBJ_TYPE | field::OBJ_USER..=field::OBJ_TYPE | field::EXE => {
            FieldValue::Text(texts.take(value, TEXT_MAX)?)
        }
        field::KEY => FieldValue::Text(texts.take(value, KEY_MAX)?),
        field::SUBJ_SEN | field::SUBJ_CLR | field::OBJ_LEV_LOW | field::OBJ_LEV_HIGH => {
            let text = texts.take(value, TEXT_MAX)?;
            let level = core::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
            FieldValue::Level(text, level.map(Box::new))
        }
        field::WATCH | field::DIR => {
            FieldValue::Text(path(operator, texts.take(value, TEXT_MAX)?)?)
        }
        _ => FieldValue::Number(value),
    };
    Ok(RuleField { number, operator, value })
}

/// Returns whether a list can have a field.
fn is_of_list(list: RuleList, number: u32) -> bool {
    match number {
        field::MSGTYPE => matches!(list, RuleList::User | RuleList::Exclude),
        field::WATCH | field::DIR | field::INODE => list == RuleList::Exit,
        _ => true,
    }
}

/// Returns whether a field can have a value.
fn is_value(number: u32, value: u32) -> bool {
    match number {
        field::LOGINUID_SET => value <= 1,
        field::PERM => value & !15 == 0,
        field::FILETYPE => value & !0o170_000 == 0,
        field::COMPARE => (1..=COMPARISONS).contains(&value),
        // Only the login uid can be one that is not set.
        field::UID..=field::FSUID | field::GID..=field::FSGID | field::OBJ_UID | field::OBJ_GID => {
            value != UNSET
        }
        _ => true,
    }
}

/// Checks a path to be watched.
fn path(operator: Operator, text: Box<[u8]>) -> Result<Box<[u8]>, RuleError> {
    let is_right = operator == Operator::Equal && text.first() == Some(&b'/');
    // The root itself may be watched as a tree.
    let is_right = is_right && (text.len() == 1 || text.last() != Some(&b'/'));
    if is_right { Ok(text) } else { Err(RuleError::Invalid) }
}

/// Checks that a rule has one key, one program and one place at most.
fn check_together(fields: &[RuleField], new: &RuleField) -> Result<(), RuleError> {
    const PLACES: [u32; 3] = [field::WATCH, field::DIR, field::INODE];
    let has = |numbers: &[u32]| fields.iter().any(|field| numbers.contains(&field.number));
    let is_second = match new.number {
        field::KEY | field::EXE => has(&[new.number]),
        field::WATCH | field::DIR | field::INODE => has(&PLACES),
        _ => false,
    };
    if is_second { Err(RuleError::Invalid) } else { Ok(()) }
}
