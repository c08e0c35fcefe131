//! Multilevel directories (K1): a subject above a directory whose type is multilevel finds a hidden directory of its own level there.
//!
//! A walk that arrives at a directory asks whether the caller may read it. That this is allowed is kept, so that it costs nothing
//! more, unless the directory is multilevel and the caller's secrecy exceeds that of its label ([`crate::base::security`]). In that
//! case the walk goes on in the hidden directory, which is made now if it is not there: with the owner, the mode and the type of
//! the multilevel one, and the level of the caller. A subject of the same level as the multilevel directory works in it itself.
//!
//! Making it changes nothing that subjects of other levels see of the multilevel directory: no times, no size in memory, no number
//! of links, no event.
use crate::base::security::{Label, Level};
use crate::{
    base::{credentials::Credentials, errno::Errno, security, time},
    tree::{
        dentry::{Dentry, Promised},
        hidden_names::{self, is_hidden_name},
        mount::Path,
        vnode::Vnode,
    },
    walk::caller::{Caller, lookup_locked},
};
use alloc::sync::Arc;
use interfaces::{
    file_system::{AttributeChange, FileType, NewAcls, NewInode},
    monitor::Privileges,
};

/// Returns whether a caller finds the names of hidden directories, for backup and cleaning.
pub(crate) fn sees_hidden(who: &Credentials) -> bool {
    security::has(&who.subject, Privileges::READ_UP)
}

/// Checks that a program may make a name: not that of a hidden directory.
///
/// # Errors
/// `EACCES`.
#[inline]
pub(crate) fn check_new_name(name: &[u8]) -> Result<(), Errno> {
    match is_hidden_name(name) && security::is_enforced() {
        true => Err(Errno::EACCES),
        false => Ok(()),
    }
}

impl Caller<'_> {
    /// Returns the hidden directory in which the caller works, if `at` is a multilevel directory that is below it.
    ///
    /// # Errors
    /// Those of mkdir(2) if it must be made.
    pub(super) fn hidden_directory(&self, at: &Path) -> Result<Option<Path>, Errno> {
        let directory = at.vnode();
        let is_whole = directory.instance().labels().whole().is_some();
        if !directory.is_directory()
            || directory.node().is_some()
            || is_whole
            || at.dentry.is_hidden()
        {
            return Ok(None);
        }
        let label = directory.label()?;
        let inner = security::within(&self.credentials.subject, label)?;
        if inner == label {
            return Ok(None);
        }
        let name = hidden_names::of_label(inner);
        let dentry = match self.lookup(&at.dentry, &name)? {
            Some(dentry) => dentry,
            None => make(at, &name, (inner, self.credentials.subject.level()))?,
        };
        let mount = at.mount.clone();
        Ok(Some(self.namespace.cross(Path { mount, dentry })))
    }
    /// Returns whether a dentry that was found is a hidden directory, and the caller does not find those.
    #[cold]
    pub(crate) fn misses(&self, dentry: &Dentry) -> bool {
        dentry.is_hidden() && !sees_hidden(self.credentials)
    }
}

/// Makes a hidden directory in `at`, unless another thread has made it.
fn make(
    at: &Path,
    name: &[u8],
    (label, level): (&'static Label, &Level),
) -> Result<Arc<Dentry>, Errno> {
    let directory = at.vnode();
    let _names = directory.contents().write();
    let key = at.dentry.key(name);
    if let Some(found) = lookup_locked(&at.dentry, &key)? {
        return Ok(found);
    }
    at.mount.check_writable()?;
    let instance = directory.instance();
    let (user, group) = directory.owner();
    let new = NewInode {
        file_type: FileType::Directory,
        permissions: directory.permissions(),
        user,
        group,
        device: (0, 0),
        target: &[],
        now: time::now(),
        label: if instance.stores_labels() { label.text() } else { &[] },
        level: level.of_inodes(),
        acls: NewAcls::default(),
    };
    let promised = Promised::take(name)?;
    let vnode = match instance.is_kept() {
        true => Vnode::kept(instance, &new, 1)?,
        false => {
            let before = directory.attributes();
            let vnode =
                instance.vnode(instance.file_system()?.create(directory.inode(), name, &new)?);
            let (modified, changed) = (Some(before.modified), Some(before.changed));
            directory.change(&AttributeChange { modified, changed, ..Default::default() })?;
            vnode
        }
    };
    vnode.note_label(Some(label));
    let dentry = Dentry::promised(&at.dentry, promised, vnode);
    dentry.set_hidden();
    if instance.is_kept() {
        directory.names().lock().insert(&dentry)?;
    }
    instance.names().insert(&key, dentry.name(), Some(dentry.clone()));
    Ok(dentry)
}
