//! Files that a program asks: it writes a question, then reads the answer at the same descriptor.
//! Source: Linux `security/selinux/selinuxfs.c` (`sel_write_access` and the like), `fs/libfs.c` (`simple_transaction_get`).
use super::{
    classes::{self, Class},
    loads,
};
use alloc::{format, string::String, vec, vec::Vec};
use interfaces::monitor::{Denial, Monitor};
use labels::{Context, SecrecyRange};
use rt::{lock_class, sync::Mutex};
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Places},
    generated::{GENERATED_END, put_from},
    io::{Sink, Source},
    security,
};

lock_class! {
    static ANSWER = "selinuxfs.answer";
}

/// The greatest number of bytes of a question or an answer.
const TEXT_MAX: usize = 4096 - 8;

/// A kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// The canonical form of a context.
    Context,
    /// The permissions of a subject on an object of a class.
    Access,
    /// The context of a new object.
    Create,
    /// The context of an object that a subject's session uses, such as a terminal.
    Relabel,
    /// The context of a part of an object for a subject.
    Member,
    /// The contexts that a user may have.
    User,
}

/// An open file of questions. One question can be asked.
pub struct OpenQuery {
    query: Query,
    answer: Mutex<Option<Vec<u8>>>,
}

impl OpenQuery {
    /// Opens a file.
    pub fn new(query: Query) -> OpenQuery {
        OpenQuery { query, answer: Mutex::new(&ANSWER, None) }
    }
}

impl File for OpenQuery {
    fn is_seekable(&self) -> bool {
        true
    }
    fn places(&self) -> Places {
        Places::UpTo(GENERATED_END)
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        let answer = self.answer.lock().clone().unwrap_or_default();
        put_from(&answer, offset, sink)
    }
    /// The position stays, so that the answer is read from its start.
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        _: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        if source.remaining() > TEXT_MAX {
            return Err(Errno::EFBIG);
        }
        let mut question = vec![0; source.remaining()];
        source.take_whole(&mut question)?;
        let mut answer = self.answer.lock();
        if answer.is_some() {
            return Err(Errno::EBUSY);
        }
        let text = self.query.answer(&question);
        // A question that was refused was asked.
        *answer = Some(text.as_ref().map_or_else(|_| Vec::new(), Vec::clone));
        text.map(|_| (question.len(), offset))
    }
    fn truncate(&self, _: u64, _: &dyn Principal) -> Result<(), Errno> {
        Ok(())
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

fn ended(context: &Context) -> Vec<u8> {
    format!("{context}\0").into_bytes()
}

impl Query {
    /// Returns the answer to a question.
    fn answer(self, question: &[u8]) -> Result<Vec<u8>, Errno> {
        let monitor = &**security::monitor().ok_or(Errno::EINVAL)?;
        let question = question.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = core::str::from_utf8(question).map_err(|_| Errno::EINVAL)?;
        if self == Query::Context {
            return Ok(ended(&monitor.check(text.as_bytes())?));
        }
        let mut words = text.split_ascii_whitespace();
        let mut word = || words.next().ok_or(Errno::EINVAL);
        let subject = monitor.check(word()?.as_bytes())?;
        if self == Query::User {
            return users(monitor, &subject, word()?);
        }
        let object = monitor.check(word()?.as_bytes())?;
        let class = word()?.parse().ok().and_then(Class::numbered);
        let answer = match (self, class) {
            // There are no permissions of a class that is not known.
            (Query::Access, class) => {
                let bits = class.map_or(0, |class| class.allowed(monitor, &subject, &object));
                return Ok(format!("{bits:x} ffffffff 0 ffffffff {} 0", loads()).into_bytes());
            }
            (Query::Create, Some(class)) => classes::created(monitor, &subject, &object, class)?,
            (Query::Create, None) => monitor.made_by(&subject, &object)?,
            (_, Some(class)) if class.is_of_processes() => subject,
            (Query::Member, _) => of_session(&object, &subject, &object)?,
            (Query::Relabel, _) if serves(&object, &subject) => object,
            _ => of_session(&subject, &subject, &object)?,
        };
        Ok(ended(&answer))
    }
}

/// Returns whether an object, such as a terminal, serves several levels, and that of a subject is one of them.
fn serves(object: &Context, subject: &Context) -> bool {
    let range = object.range();
    !range.is_single() && range.contains(subject.range().low())
}

/// Returns the context of an object with the level of a subject.
fn of_session(owner: &Context, subject: &Context, object: &Context) -> Result<Context, Denial> {
    let range = SecrecyRange::single(*subject.range().low());
    Context::new([owner.user(), "object_r", object.kind()], range).map_err(|_| Denial::Invalid)
}

fn users(monitor: &dyn Monitor, subject: &Context, user: &str) -> Result<Vec<u8>, Errno> {
    let contexts = monitor.contexts_of(subject, user);
    let mut answer = format!("{}\0", contexts.len());
    for context in contexts {
        answer.push_str(&format!("{context}\0"));
    }
    let is_short = answer.len() <= TEXT_MAX;
    is_short.then(|| String::into_bytes(answer)).ok_or(Errno::ERANGE)
}
