//! Extended attributes, reading (xattr(7)).
use crate::{
    credentials::Capabilities,
    errno::Errno,
    mount::Path,
    permission::{self, Want},
    vnode::Vnode,
    walk::Caller,
};
use alloc::vec::Vec;

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
        self.check_attribute(vnode, name)?;
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
    fn check_attribute(&self, vnode: &Vnode, name: &[u8]) -> Result<(), Errno> {
        if name.starts_with(b"trusted.") && !self.credentials.has(Capabilities::SYS_ADMIN) {
            return Err(Errno::ENODATA);
        }
        if name.starts_with(b"user.") {
            if !vnode.is_regular() && !vnode.is_directory() {
                return Err(Errno::ENODATA);
            }
            return permission::check(vnode, self.credentials, Want::READ);
        }
        let known: [&[u8]; 3] = [b"trusted.", b"security.", b"system."];
        match known.iter().any(|prefix| name.starts_with(prefix)) {
            true => Ok(()),
            false => Err(Errno::EOPNOTSUPP),
        }
    }
}
