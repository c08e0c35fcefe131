//! [`Context`]: the text of a label.
use crate::{CATEGORIES, Categories, Secrecy, SecrecyRange};
use alloc::boxed::Box;
use core::{fmt, str::FromStr};

/// The greatest length of a context's text, in bytes (a page, as on Linux).
pub const CONTEXT_MAX: usize = 4096;

/// The reason why a text is no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextError {
    /// It is longer than [`CONTEXT_MAX`].
    Length,
    /// It has not the form `user:role:type:range`, or a name is empty or has a character that names do not have.
    Form,
    /// A level is not from `s0` to `s15`.
    Level,
    /// A category is not from `c0` to `c1023`, or a run of categories does not ascend.
    Category,
    /// The second secrecy does not dominate the first.
    Range,
}

/// User, role, type and range of a subject or an object. The type of a subject is called its domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Context {
    user: Box<str>,
    role: Box<str>,
    kind: Box<str>,
    range: SecrecyRange,
}

impl Context {
    /// Returns a context.
    ///
    /// # Errors
    /// [`ContextError::Form`] if a name is none.
    pub fn new(
        [user, role, kind]: [&str; 3],
        range: SecrecyRange,
    ) -> Result<Context, ContextError> {
        let name = |text: &str| is_name(text).then(|| Box::from(text)).ok_or(ContextError::Form);
        Ok(Context { user: name(user)?, role: name(role)?, kind: name(kind)?, range })
    }
    /// Returns the user.
    pub fn user(&self) -> &str {
        &self.user
    }
    /// Returns the role.
    pub fn role(&self) -> &str {
        &self.role
    }
    /// Returns the type, of a subject the domain.
    pub fn kind(&self) -> &str {
        &self.kind
    }
    /// Returns the range. The secrecy of an object is its low end.
    pub fn range(&self) -> &SecrecyRange {
        &self.range
    }
    /// Returns the same context with another range.
    #[must_use]
    pub fn with_range(&self, range: SecrecyRange) -> Context {
        Context { range, ..self.clone() }
    }
    /// Returns the same context with another type.
    ///
    /// # Errors
    /// [`ContextError::Form`].
    pub fn with_kind(&self, kind: &str) -> Result<Context, ContextError> {
        Context::new([&self.user, &self.role, kind], self.range)
    }
}

/// Returns whether a text is a name of a user, a role or a type.
fn is_name(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-$".contains(&byte);
    !text.is_empty() && text.bytes().all(is_fit)
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.user, self.role, self.kind, self.range)
    }
}

impl FromStr for Context {
    type Err = ContextError;
    fn from_str(text: &str) -> Result<Context, ContextError> {
        if text.len() > CONTEXT_MAX {
            return Err(ContextError::Length);
        }
        let mut parts = text.splitn(4, ':');
        let mut part = || parts.next().ok_or(ContextError::Form);
        let (names, range) = ([part()?, part()?, part()?], part()?);
        Context::new(names, range.parse()?)
    }
}

impl FromStr for SecrecyRange {
    type Err = ContextError;
    fn from_str(text: &str) -> Result<SecrecyRange, ContextError> {
        match text.split_once('-') {
            Some((low, high)) => {
                SecrecyRange::new(low.parse()?, high.parse()?).ok_or(ContextError::Range)
            }
            None => Ok(SecrecyRange::single(text.parse()?)),
        }
    }
}

impl FromStr for Secrecy {
    type Err = ContextError;
    fn from_str(text: &str) -> Result<Secrecy, ContextError> {
        let (level, categories) = match text.split_once(':') {
            Some((level, categories)) => (level, categories.parse()?),
            None => (text, Categories::NONE),
        };
        let level = numbered(level, "s").and_then(|level| u8::try_from(level).ok());
        level.and_then(|level| Secrecy::new(level, categories)).ok_or(ContextError::Level)
    }
}

impl FromStr for Categories {
    type Err = ContextError;
    fn from_str(text: &str) -> Result<Categories, ContextError> {
        let mut categories = Categories::NONE;
        let category = |text| {
            let number = numbered(text, "c").filter(|number| *number < CATEGORIES);
            number.ok_or(ContextError::Category)
        };
        for run in text.split(',') {
            let (first, last) = match run.split_once('.') {
                Some((first, last)) => (category(first)?, category(last)?),
                None => (category(run)?, category(run)?),
            };
            if run.contains('.') && first >= last {
                return Err(ContextError::Category);
            }
            if !(first..=last).all(|category| categories.insert(category)) {
                return Err(ContextError::Category);
            }
        }
        Ok(categories)
    }
}

/// Returns the number behind `prefix`, in decimal without a sign or leading zeroes.
fn numbered(text: &str, prefix: &str) -> Option<u16> {
    let digits = text.strip_prefix(prefix)?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = digits.len() == 1 || !digits.starts_with('0');
    (is_plain && is_canonical).then(|| digits.parse().ok())?
}
