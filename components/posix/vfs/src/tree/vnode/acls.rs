//! The access control lists of a vnode: read when they are first needed, kept, and dropped when one changes.
use super::Vnode;
use crate::base::{
    acls::{AclKind, Acls, Kept},
    errno::Errno,
    rights::{HAS_ACCESS_ACL, HAS_ACLS, HAS_CAPABILITIES, HAS_DEFAULT_ACL},
    time::now,
};
use acl::Acl;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use interfaces::file_system::{AclChange, FileSystem, FileType, FsError};
use rt::memory::Charge;

fn read(fs: &dyn FileSystem, vnode: &Vnode, kind: AclKind) -> Result<Option<Arc<Kept>>, Errno> {
    if vnode.rights() & kind.hint() == 0 {
        return Ok(None);
    }
    let value = match fs.get_xattr(vnode.inode(), kind.name()) {
        Err(FsError::NoAttribute) => return Ok(None),
        other => other?,
    };
    let charge = Charge::take(size_of::<Acls>() + size_of::<Kept>() + value.len() * 2)?;
    let entries = acl::from_portable(&value).map_err(|_| Errno::EIO)?;
    let list = entries.and_then(Acl::new).ok_or(Errno::EIO)?;
    Ok(Some(Arc::new(Kept::charged(list, charge))))
}

impl Vnode {
    /// Returns whether the file can have such lists at all.
    pub(crate) fn takes_acls(&self) -> bool {
        self.node.is_none() && self.instance.info().has_acls && self.file_type != FileType::Symlink
    }
    /// Returns one of its lists.
    ///
    /// # Errors
    /// Errors of the file system; `EIO` for a malformed list.
    pub(crate) fn acl(&self, kind: AclKind) -> Result<Option<Arc<Kept>>, Errno> {
        if self.rights() & kind.hint() == 0 {
            return Ok(None);
        }
        let mut acls = self.acls.lock();
        let (access, default) = if let Some(acls) = acls.as_deref() {
            (acls.access.clone(), acls.default.clone())
        } else {
            let fs = self.instance.file_system()?.as_ref();
            let access = read(fs, self, AclKind::Access)?;
            let default = read(fs, self, AclKind::Default)?;
            let mut hints = 0;
            hints |= if access.is_some() { HAS_ACCESS_ACL } else { 0 };
            hints |= if default.is_some() { HAS_DEFAULT_ACL } else { 0 };
            if hints != 0 {
                let found = Acls { access: access.clone(), default: default.clone() };
                *acls = Some(Box::new(found));
            }
            self.set_hints(hints);
            (access, default)
        };
        Ok(match kind {
            AclKind::Access => access,
            AclKind::Default => default,
        })
    }
    /// Sets or removes one of its lists, and sets its permissions accordingly.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn set_acl(
        &self,
        kind: AclKind,
        list: Option<&Acl>,
        permissions: Option<u16>,
    ) -> Result<(), Errno> {
        let fs = self.instance.file_system()?;
        let value = list.map_or(Vec::new(), |list| acl::to_portable(list.entries()));
        let change = AclChange { name: kind.name(), value: &value, permissions, now: now() };
        let mut acls = self.acls.lock();
        if self.instance.is_kept() {
            self.set_kept_acl(&**fs, &change)?;
        } else {
            let mut state = self.state.lock();
            let fresh = fs.set_acl(self.inode, &change)?;
            self.learn(&mut state, fresh);
        }
        *acls = None;
        self.set_hints(if self.is_directory() { HAS_ACLS } else { HAS_ACCESS_ACL });
        Ok(())
    }
    fn set_hints(&self, hints: u16) {
        let state = self.state.lock();
        let permissions = state.known.permissions;
        let others = self.rights.load(Ordering::Relaxed) & HAS_CAPABILITIES;
        self.rights.store(permissions | hints | others, Ordering::Release);
    }
}
