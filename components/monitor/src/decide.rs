//! Decisions: what subjects may do with objects.
use crate::{
    Privileges, SecurityPolicy,
    policy::{DomainEntry, OBJECT_ROLE},
};
use labels::{Context, SecrecyRange};

/// The kinds of access to an object. Sending a signal, locking and reading a FIFO are writes; looking into a process is reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectAccess {
    /// Information flows from the object to the subject.
    Read,
    /// Information flows from the subject to the object; without reading it.
    Write,
    /// The subject runs the object's instructions.
    Execute,
}

/// The rule that a refused access breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The subject does not dominate the object: it may not know of it.
    ReadUp,
    /// The secrecies are not equal: information would flow down, or the low side would learn what exists above.
    WriteAcross,
    /// The object is of a greater grade than the subject.
    WriteIntegrity,
    /// The program is of a lesser grade than the subject.
    ExecuteIntegrity,
    /// The context is none under the policy.
    Invalid,
    /// The domain has not the privilege that this needs, or the policy no way to that domain.
    Privilege,
}

impl SecurityPolicy {
    /// Decides whether a subject may access an object. The subject's secrecy is the low end of its range, and so is the object's.
    ///
    /// # Errors
    /// [`Denial`]: the first rule that is broken.
    pub fn decide(
        &self,
        subject: &Context,
        object: &Context,
        access: ObjectAccess,
    ) -> Result<(), Denial> {
        let privileges = self.privileges(subject);
        let (own, secrecy) = (subject.range(), object.range().low());
        let has = |privilege| privileges.contains(privilege);
        let is_read = own.low().dominates(secrecy)
            || has(Privileges::READ_UP) && own.high().dominates(secrecy);
        let (grade, own_grade) = (self.grade(object), self.grade(subject));
        match access {
            ObjectAccess::Read | ObjectAccess::Execute if !is_read => Err(Denial::ReadUp),
            ObjectAccess::Execute if grade < own_grade && !has(Privileges::EXECUTE_UNTRUSTED) => {
                Err(Denial::ExecuteIntegrity)
            }
            ObjectAccess::Read | ObjectAccess::Execute => Ok(()),
            ObjectAccess::Write => {
                let is_in_range = has(Privileges::WRITE_RANGE) && own.contains(secrecy);
                if own.low() != secrecy && !is_in_range {
                    return Err(Denial::WriteAcross);
                }
                match grade > own_grade && !has(Privileges::RAISE_INTEGRITY) {
                    true => Err(Denial::WriteIntegrity),
                    false => Ok(()),
                }
            }
        }
    }
    /// Decides whether a subject may give an object the context `new` instead of `old`. The caller ensures that nobody else has the
    /// object open.
    ///
    /// # Errors
    /// [`Denial`].
    pub fn relabel(&self, subject: &Context, old: &Context, new: &Context) -> Result<(), Denial> {
        if !self.is_object(new) {
            return Err(Denial::Invalid);
        }
        let privileges = self.privileges(subject);
        let (from, to) = (old.range().low(), new.range().low());
        let own = subject.range();
        let is_in_range = own.contains(from) && own.contains(to);
        if !privileges.contains(Privileges::RELABEL) || !is_in_range {
            return Err(Denial::Privilege);
        }
        if !to.dominates(from) && !privileges.contains(Privileges::DOWNGRADE) {
            return Err(Denial::WriteAcross);
        }
        let greatest = self.grade(old).max(self.grade(new));
        if greatest > self.grade(subject) && !privileges.contains(Privileges::RAISE_INTEGRITY) {
            return Err(Denial::WriteIntegrity);
        }
        Ok(())
    }
    /// Returns the context of a process of `subject` that executes a file with the context `file`; `wanted` is the one that it
    /// asked for. Without a request it is the domain that the policy always enters, or the subject's own context.
    ///
    /// # Errors
    /// [`Denial`], also that of executing the file: a process that enters a domain executes the file as a subject of that domain.
    pub fn entered(
        &self,
        subject: &Context,
        file: &Context,
        wanted: Option<&Context>,
    ) -> Result<Context, Denial> {
        self.decide(subject, file, ObjectAccess::Read)?;
        let key = (subject.kind().into(), file.kind().into());
        let ways = self.entries.get(&key);
        let new = match wanted {
            Some(wanted) => {
                self.check_request(subject, wanted, |kind| {
                    ways.is_some_and(|ways| ways.contains_key(kind))
                })?;
                wanted.clone()
            }
            None => {
                let always = ways.and_then(|ways| {
                    ways.iter()
                        .find(|(_, entry)| **entry == DomainEntry::Always)
                        .map(|(kind, _)| kind)
                });
                match always {
                    Some(kind) => subject.with_kind(kind).map_err(|_| Denial::Invalid)?,
                    None => subject.clone(),
                }
            }
        };
        if !self.is_subject(&new) {
            return Err(Denial::Invalid);
        }
        self.decide(&new, file, ObjectAccess::Execute)?;
        Ok(new)
    }
    /// Checks a request for another context at exec.
    fn check_request(
        &self,
        subject: &Context,
        wanted: &Context,
        can_enter: impl Fn(&str) -> bool,
    ) -> Result<(), Denial> {
        let privileges = self.privileges(subject);
        let is_same_domain = wanted.kind() == subject.kind();
        let is_same_user = (wanted.user(), wanted.role()) == (subject.user(), subject.role());
        let is_same_range = wanted.range() == subject.range();
        let is_granted = (is_same_domain || can_enter(wanted.kind()))
            && (is_same_user || privileges.contains(Privileges::SET_USER))
            && (is_same_range || privileges.contains(Privileges::SET_RANGE));
        is_granted.then_some(()).ok_or(Denial::Privilege)
    }
    /// Returns the context of an object that a subject makes in a directory with the context `place`: with the secrecy of the
    /// subject, and the type that the policy names or else the directory's.
    pub fn made(&self, subject: &Context, place: &Context) -> Option<Context> {
        let key = (subject.kind().into(), place.kind().into());
        let kind = self.makes.get(&key).map_or(place.kind(), |kind| kind);
        let range = SecrecyRange::single(*subject.range().low());
        Context::new([subject.user(), OBJECT_ROLE, kind], range).ok()
    }
}
