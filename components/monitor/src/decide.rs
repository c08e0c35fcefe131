//! Decisions: what subjects may do with objects.
use crate::{
    SecurityPolicy,
    policy::{DomainEntry, OBJECT_ROLE},
};
use interfaces::monitor::{Denial, ObjectAccess, Privileges};
use labels::{Context, SecrecyRange};

/// Returns whether an object serves subjects of all secrecies in its range, and lets nothing flow between them: a device such as
/// `/dev/null`. Only the policy, and a domain that may relabel, makes one.
fn is_multilevel(object: &Context) -> bool {
    object.role() == OBJECT_ROLE && !object.range().is_single()
}

fn may_read(privileges: Privileges, subject: &Context, object: &Context) -> bool {
    let (own, secrecy) = (subject.range(), object.range().low());
    if is_multilevel(object) && object.range().contains(own.low()) {
        return true;
    }
    own.low().dominates(secrecy)
        || privileges.contains(Privileges::READ_UP) && own.high().dominates(secrecy)
}

fn may_write(privileges: Privileges, subject: &Context, object: &Context) -> bool {
    let (own, secrecy) = (subject.range(), object.range().low());
    if is_multilevel(object) && object.range().contains(own.low()) {
        return true;
    }
    own.low() == secrecy || privileges.contains(Privileges::WRITE_RANGE) && own.contains(secrecy)
}

impl SecurityPolicy {
    /// Decides whether a subject may access an object. The subject's secrecy is the low end of its range, and so is the object's,
    /// unless the object is multilevel.
    ///
    /// # Errors
    /// [`Denial`]: the first rule that is broken.
    pub fn decide(
        &self,
        subject: &Context,
        object: &Context,
        access: ObjectAccess,
    ) -> Result<(), Denial> {
        let privileges = self.rights(subject).privileges;
        let has = |privilege| privileges.contains(privilege);
        let (grade, own_grade) = (self.grade(object), self.grade(subject));
        match access {
            ObjectAccess::Read | ObjectAccess::Execute
                if !may_read(privileges, subject, object) =>
            {
                Err(Denial::ReadUp)
            }
            ObjectAccess::Execute if grade < own_grade && !has(Privileges::EXECUTE_UNTRUSTED) => {
                Err(Denial::ExecuteIntegrity)
            }
            ObjectAccess::Read | ObjectAccess::Execute => Ok(()),
            ObjectAccess::Write if !may_write(privileges, subject, object) => {
                Err(Denial::WriteAcross)
            }
            ObjectAccess::Write if grade > own_grade && !has(Privileges::RAISE_INTEGRITY) => {
                Err(Denial::WriteIntegrity)
            }
            ObjectAccess::Write => Ok(()),
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
        let privileges = self.rights(subject).privileges;
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
        let privileges = self.rights(subject).privileges;
        let is_same_domain = wanted.kind() == subject.kind();
        let is_same_user = (wanted.user(), wanted.role()) == (subject.user(), subject.role());
        let (own, new) = (subject.range(), wanted.range());
        let is_granted = (is_same_domain || can_enter(wanted.kind()))
            && (is_same_user || privileges.contains(Privileges::SET_USER))
            && (new == own || privileges.may_set_range(own, new));
        is_granted.then_some(()).ok_or(Denial::Privilege)
    }
    /// Returns the context of an object that a subject makes in a directory with the context `place`: with the secrecy of the
    /// subject, and the type that the policy names or else the directory's.
    pub fn made(&self, subject: &Context, place: &Context) -> Option<Context> {
        let key = (subject.kind().into(), place.kind().into());
        let named = self.makes.get(&key).map(|kind| kind.as_str());
        let kind = named.or_else(|| self.contents(place)).unwrap_or(place.kind());
        let range = SecrecyRange::single(*subject.range().low());
        Context::new([subject.user(), OBJECT_ROLE, kind], range).ok()
    }
    /// Returns the context of the directory that a subject finds in the place of one with the context `place`: of a multilevel one
    /// whose secrecy the subject's exceeds it is that of a hidden directory with the subject's secrecy.
    pub fn within(&self, subject: &Context, place: &Context) -> Context {
        let (own, secrecy) = (subject.range().low(), place.range().low());
        let is_above = own != secrecy && own.dominates(secrecy);
        match is_above && place.range().is_single() && self.is_multilevel(place) {
            true => place.with_range(SecrecyRange::single(*own)),
            false => place.clone(),
        }
    }
}
