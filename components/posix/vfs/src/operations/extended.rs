//! Extended attributes (xattr(7)), including those that are access control lists (acl(5)).
use crate::{
    base::{
        acls::AclKind,
        credentials::Capabilities,
        errno::Errno,
        observers::Events,
        security::{self, flows},
        time,
    },
    tree::{
        mount::Path,
        notify,
        vnode::{
            FLAG_APPEND, FLAG_IMMUTABLE, Vnode,
            capabilities::{self, FileCapabilities},
        },
    },
    walk::{
        caller::Caller,
        permission::{self, CLASSES, SET_GROUP, STICKY, Want},
    },
};
use acl::{Acl, AclEntry, FormError};
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    file_system::{Backing, FileSystem, LABEL_NAME, XattrMode},
    monitor::ObjectAccess,
};

/// Bytes of the longest name (XATTR_NAME_MAX).
const NAME_BYTES_MAX: usize = 255;

/// Decodes a list in the format of setxattr(2); one without entries means that there is no list.
fn decode_list(value: &[u8]) -> Result<Option<Vec<AclEntry>>, Errno> {
    if value.is_empty() {
        return Ok(None);
    }
    acl::from_portable(value).map_err(|error| match error {
        FormError::Malformed => Errno::EINVAL,
        FormError::Version => Errno::EOPNOTSUPP,
    })
}

fn check_takes_acls(vnode: &Vnode) -> Result<(), Errno> {
    if vnode.takes_acls() { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// Returns whether the attribute `name` is an access control list, for which setxattr(2)'s flags are
/// ignored.
pub fn is_acl_name(name: &[u8]) -> bool {
    AclKind::named(name).is_some()
}

impl Caller<'_> {
    /// Returns the value of the attribute `name` (`user.x`; getxattr(2)).
    ///
    /// # Errors
    /// `ENODATA`, `EOPNOTSUPP` for an unknown namespace, `EACCES`, `ERANGE` for a bad name.
    pub fn get_attribute(&self, place: &Path, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Errno::ERANGE);
        }
        let vnode = place.vnode();
        flows::reads(|| vnode.known_label());
        if let Some(kind) = AclKind::named(name) {
            check_takes_acls(vnode)?;
            let list = vnode.acl(kind)?.ok_or(Errno::ENODATA)?;
            return Ok(acl::to_portable(list.entries()));
        }
        if name == LABEL_NAME && security::is_enforced() {
            return Ok(vnode.label()?.text().to_vec());
        }
        self.check_attribute(vnode, name, Want::READ)?;
        let fs = vnode.instance().file_system().map_err(|_| Errno::EOPNOTSUPP)?;
        let value = fs.get_xattr(vnode.inode(), name)?;
        Ok(if name == capabilities::NAME { capabilities::shown(value) } else { value })
    }
    /// Returns the names of the attributes, each ended by a NUL (listxattr(2)).
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn list_attributes(&self, place: &Path) -> Result<Vec<u8>, Errno> {
        let vnode = place.vnode();
        flows::reads(|| vnode.known_label());
        let mut names = Vec::new();
        let is_labelled = security::is_enforced();
        if is_labelled {
            names.extend_from_slice(LABEL_NAME);
            names.push(0);
        }
        let Ok(fs) = vnode.instance().file_system() else { return Ok(names) };
        for name in fs.list_xattr(vnode.inode())? {
            if is_labelled && name == LABEL_NAME {
                continue;
            }
            if name.starts_with(b"trusted.") && !self.credentials.has(Capabilities::SYS_ADMIN) {
                continue;
            }
            if is_acl_name(&name) && !vnode.takes_acls() {
                continue;
            }
            names.extend_from_slice(&name);
            names.push(0);
        }
        Ok(names)
    }
    /// Sets an attribute (setxattr(2)).
    ///
    /// # Errors
    /// `EEXIST` and `ENODATA` according to `mode`; `EPERM`, `EACCES`, `EROFS`, `EOPNOTSUPP`,
    /// `ENOSPC`.
    pub fn set_attribute(
        &self,
        place: &Path,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<(), Errno> {
        if let Some(kind) = AclKind::named(name) {
            place.mount.check_writable()?;
            return self.set_list(place, kind, decode_list(value)?);
        }
        if name == LABEL_NAME && security::is_enforced() {
            return self.set_context(place, value);
        }
        let (vnode, fs) = self.check_change(place, name)?;
        let is_of_capabilities = name == capabilities::NAME;
        if is_of_capabilities {
            FileCapabilities::parse(value)?;
        }
        let _contents = vnode.contents().write();
        let now = time::now();
        fs.set_xattr(vnode.inode(), name, value, mode, now)?;
        if is_of_capabilities {
            vnode.note_capabilities();
        }
        vnode.note_changed(now);
        notify::about_dentry(&place.dentry, Events::ATTRIBUTES);
        Ok(())
    }
    /// Gives a file another context (setfilecon(3)).
    ///
    /// # Errors
    /// `EPERM` for a caller that is not the owner; those of [`Vnode::relabel`].
    fn set_context(&self, place: &Path, text: &[u8]) -> Result<(), Errno> {
        let vnode = place.vnode();
        place.mount.check_writable()?;
        let _contents = vnode.contents().write();
        if !permission::is_owner(vnode, self.credentials) {
            return Err(Errno::EPERM);
        }
        vnode.relabel(self.credentials, text)?;
        notify::about_dentry(&place.dentry, Events::ATTRIBUTES);
        Ok(())
    }
    /// Removes an attribute (removexattr(2)).
    ///
    /// # Errors
    /// `ENODATA`, and those of [`Caller::set_attribute`]; `EACCES` for a context, which every file has.
    pub fn remove_attribute(&self, place: &Path, name: &[u8]) -> Result<(), Errno> {
        if name == LABEL_NAME && security::is_enforced() {
            return Err(Errno::EACCES);
        }
        if let Some(kind) = AclKind::named(name) {
            place.mount.check_writable()?;
            return self.set_list(place, kind, None);
        }
        let (vnode, fs) = self.check_change(place, name)?;
        let _contents = vnode.contents().write();
        let now = time::now();
        fs.remove_xattr(vnode.inode(), name, now)?;
        vnode.note_changed(now);
        notify::about_dentry(&place.dentry, Events::ATTRIBUTES);
        Ok(())
    }
    /// Sets or removes an access control list; a list that is equivalent to a mode is stored as the
    /// mode only.
    fn set_list(
        &self,
        place: &Path,
        kind: AclKind,
        entries: Option<Vec<AclEntry>>,
    ) -> Result<(), Errno> {
        let vnode = place.vnode();
        if vnode.flags() & (FLAG_APPEND | FLAG_IMMUTABLE) != 0 {
            return Err(Errno::EPERM);
        }
        check_takes_acls(vnode)?;
        if kind == AclKind::Default && !vnode.is_directory() {
            return if entries.is_some() { Err(Errno::EACCES) } else { Ok(()) };
        }
        // Under the lock: the list must not become one of another owner's file.
        let _contents = vnode.contents().write();
        if !permission::is_owner(vnode, self.credentials) {
            return Err(Errno::EPERM);
        }
        vnode.admit(self.credentials, ObjectAccess::Write)?;
        let list = match entries {
            Some(entries) => Some(Acl::new(entries).ok_or(Errno::EINVAL)?),
            None => None,
        };
        match (kind, &list) {
            (AclKind::Access, Some(list)) => {
                let mode = self.kept_mode(vnode, vnode.permissions() & !CLASSES | list.mode());
                vnode.check_sealed_mode(mode)?;
                let kept = Some(list).filter(|list| !list.is_mode());
                vnode.set_acl(kind, kept, Some(mode))?;
            }
            // Linux's file systems in memory remove setgid also when the list is set or removed.
            (AclKind::Access, None) if vnode.instance().info().backing == Backing::Cache => {
                let mode = self.kept_mode(vnode, vnode.permissions());
                vnode.set_acl(kind, None, Some(mode))?;
            }
            (_, None) if matches!(vnode.acl(kind), Ok(None)) => {}
            (_, list) => vnode.set_acl(kind, list.as_ref(), None)?,
        }
        notify::about_dentry(&place.dentry, Events::ATTRIBUTES);
        Ok(())
    }
    /// Returns `mode` without setgid, unless the caller is a member of the group or has CAP_FSETID.
    fn kept_mode(&self, vnode: &Vnode, mode: u16) -> u16 {
        let is_member = self.credentials.is_in_group(vnode.owner().1);
        match is_member || self.credentials.has(Capabilities::FSETID) {
            true => mode,
            false => mode & !SET_GROUP,
        }
    }
    /// Checks that the attribute `name` may be set, if the file system supports such attributes.
    ///
    /// # Errors
    /// Those of [`Caller::set_attribute`].
    pub fn check_attribute_change(&self, place: &Path, name: &[u8]) -> Result<(), Errno> {
        self.check_change(place, name).map(drop)
    }
    fn check_change<'p>(
        &self,
        place: &'p Path,
        name: &[u8],
    ) -> Result<(&'p Vnode, &'p Arc<dyn FileSystem>), Errno> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Errno::ERANGE);
        }
        let vnode = place.vnode();
        place.mount.check_writable()?;
        if vnode.flags() & (FLAG_APPEND | FLAG_IMMUTABLE) != 0 {
            return Err(Errno::EPERM);
        }
        self.check_attribute(vnode, name, Want::WRITE)?;
        vnode.admit(self.credentials, ObjectAccess::Write)?;
        let fs = vnode.instance().file_system().map_err(|_| Errno::EOPNOTSUPP)?;
        Ok((vnode, fs))
    }
    fn check_attribute(&self, vnode: &Vnode, name: &[u8], want: Want) -> Result<(), Errno> {
        let refusal = if want == Want::READ { Errno::ENODATA } else { Errno::EPERM };
        let is_administrator = self.credentials.has(Capabilities::SYS_ADMIN);
        if name.starts_with(b"trusted.") && !is_administrator {
            return Err(refusal);
        }
        let may_secure = match name == capabilities::NAME {
            true => self.credentials.has(Capabilities::SETFCAP),
            false => is_administrator,
        };
        if name.starts_with(b"security.") && want == Want::WRITE && !may_secure {
            return Err(refusal);
        }
        if name.starts_with(b"user.") {
            if !vnode.is_regular() && !vnode.is_directory() {
                return Err(refusal);
            }
            let is_sticky = vnode.is_directory() && vnode.permissions() & STICKY != 0;
            let is_foreign = is_sticky && !permission::is_owner(vnode, self.credentials);
            if want == Want::WRITE && is_foreign {
                return Err(Errno::EPERM);
            }
            return self.check(vnode, want);
        }
        let known: [&[u8]; 2] = [b"trusted.", b"security."];
        if known.iter().any(|prefix| name.starts_with(prefix)) {
            return Ok(());
        }
        if !name.starts_with(b"system.") {
            self.check(vnode, want)?;
        }
        Err(Errno::EOPNOTSUPP)
    }
}
