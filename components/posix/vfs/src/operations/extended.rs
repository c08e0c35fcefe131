//! Extended attributes (xattr(7)).
use crate::{
    credentials::Capabilities,
    errno::Errno,
    mount::Path,
    notify::{self, Events},
    permission::{self, STICKY, Want},
    vnode::{FLAG_APPEND, FLAG_IMMUTABLE, Vnode},
    walk::Caller,
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::file_system::{FileSystem, XattrMode};

/// Bytes of the longest name (XATTR_NAME_MAX).
const NAME_BYTES_MAX: usize = 255;

impl Caller<'_> {
    /// getxattr(2): the value of `name` (`user.x`).
    ///
    /// # Errors
    /// `ENODATA`, `EOPNOTSUPP` for a namespace nobody keeps, `EACCES`, `ERANGE` for a bad name.
    pub fn get_attribute(&self, place: &Path, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Errno::ERANGE);
        }
        let vnode = place.vnode();
        self.check_attribute(vnode, name, Want::READ)?;
        let fs = vnode.instance().file_system().map_err(|_| Errno::EOPNOTSUPP)?;
        Ok(fs.get_xattr(vnode.inode(), name)?)
    }
    /// listxattr(2): the names, each ended by a NUL.
    ///
    /// # Errors
    /// What the file system says.
    pub fn list_attributes(&self, place: &Path) -> Result<Vec<u8>, Errno> {
        let vnode = place.vnode();
        let Ok(fs) = vnode.instance().file_system() else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for name in fs.list_xattr(vnode.inode())? {
            if name.starts_with(b"trusted.") && !self.credentials.has(Capabilities::SYS_ADMIN) {
                continue;
            }
            names.extend_from_slice(&name);
            names.push(0);
        }
        Ok(names)
    }
    /// setxattr(2).
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA` as `mode` says; `EPERM`, `EACCES`, `EROFS`, `EOPNOTSUPP`, `ENOSPC`.
    pub fn set_attribute(
        &self,
        place: &Path,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<(), Errno> {
        let (vnode, fs) = self.check_change(place, name)?;
        let _contents = vnode.contents().write();
        fs.set_xattr(vnode.inode(), name, value, mode, crate::vnode::now())?;
        vnode.refresh();
        notify::about_dentry(&place.dentry, Events::ATTRIBUTES);
        Ok(())
    }
    /// removexattr(2).
    ///
    /// # Errors
    /// `ENODATA`, and as [`Caller::set_attribute`].
    pub fn remove_attribute(&self, place: &Path, name: &[u8]) -> Result<(), Errno> {
        let (vnode, fs) = self.check_change(place, name)?;
        let _contents = vnode.contents().write();
        fs.remove_xattr(vnode.inode(), name, crate::vnode::now())?;
        vnode.refresh();
        notify::about_dentry(&place.dentry, Events::ATTRIBUTES);
        Ok(())
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
        let fs = vnode.instance().file_system().map_err(|_| Errno::EOPNOTSUPP)?;
        Ok((vnode, fs))
    }
    fn check_attribute(&self, vnode: &Vnode, name: &[u8], want: Want) -> Result<(), Errno> {
        let refusal = if want == Want::READ { Errno::ENODATA } else { Errno::EPERM };
        let is_administrator = self.credentials.has(Capabilities::SYS_ADMIN);
        if name.starts_with(b"trusted.") && !is_administrator {
            return Err(refusal);
        }
        if name.starts_with(b"security.") && want == Want::WRITE && !is_administrator {
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
            return permission::check(vnode, self.credentials, want);
        }
        let known: [&[u8]; 3] = [b"trusted.", b"security.", b"system."];
        match known.iter().any(|prefix| name.starts_with(prefix)) {
            true => Ok(()),
            false => Err(Errno::EOPNOTSUPP),
        }
    }
}
