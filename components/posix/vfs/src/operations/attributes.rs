//! Attributes: stat, access, chmod, chown, utimensat, truncate, readlink.
use crate::{
    base::{
        acls::AclKind, credentials::Capabilities, errno::Errno, mount_flags::MountFlags,
        observers::Events, security::flows, time,
    },
    files::regular::resize,
    tree::{
        mount::Path,
        notify,
        vnode::{FLAG_APPEND, FLAG_IMMUTABLE, Vnode},
    },
    walk::{
        caller::{Base, Caller},
        permission::{self, SET_GROUP, Want},
        walker::Walk,
    },
};
use acl::Acl;
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    file_system::{AttributeChange, Attributes, FileTime, FileType},
    monitor::ObjectAccess,
};

/// The answer to `stat` and `statx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// The inode's attributes.
    pub attributes: Attributes,
    /// Device number of its file system.
    pub device: (u32, u32),
    /// Number of the mount it was found through.
    pub mount_id: u64,
    /// The place is the root of its mount.
    pub is_mount_root: bool,
}

/// The setting of one of the times by utimensat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSetting {
    /// UTIME_OMIT: the time is not changed.
    Omit,
    /// UTIME_NOW: the present time.
    Now,
    /// The given time.
    At(FileTime),
}

/// The ids that access(2) uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessIds {
    /// The real ids.
    Real,
    /// The effective ids (AT_EACCESS).
    Effective,
}

impl Path {
    /// Returns the attributes of this place (stat(2)).
    #[inline]
    pub fn status(&self) -> FileStatus {
        flows::reads(|| self.vnode().known_label());
        FileStatus {
            attributes: self.vnode().attributes(),
            device: self.mount.instance().device(),
            mount_id: self.mount.id(),
            is_mount_root: self.is_mount_root(),
        }
    }
}

impl Caller<'_> {
    /// Checks access to a file (access(2), faccessat2(2)). An empty `want` asks whether it exists.
    ///
    /// # Errors
    /// `EACCES`, `EROFS`, and those of [`Caller::walk`].
    pub fn access(
        &self,
        base: Base<'_>,
        path: &[u8],
        (want, ids): (Want, AccessIds),
        walk: Walk,
    ) -> Result<(), Errno> {
        let real;
        let credentials = match ids {
            AccessIds::Effective => self.credentials,
            AccessIds::Real => {
                real = self.credentials.with_real_ids();
                &real
            }
        };
        let caller = Caller { credentials, ..*self };
        let place = caller.walk(base, path, walk)?;
        if want.is_empty() {
            return Ok(());
        }
        let is_program = want.contains(Want::EXECUTE) && place.vnode().is_regular();
        if is_program && place.mount.flags().contains(MountFlags::NO_EXECUTE) {
            return Err(Errno::EACCES);
        }
        caller.check_path(&place, want)
    }
    /// Returns the text of a symbolic link, which was walked to without following it (readlink(2)).
    ///
    /// # Errors
    /// `EINVAL` if it is not a symbolic link.
    pub fn read_link(&self, place: &Path) -> Result<Vec<u8>, Errno> {
        let vnode = place.vnode();
        if vnode.file_type() != FileType::Symlink {
            return Err(Errno::EINVAL);
        }
        if let Some(node) = vnode.node() {
            return node.read_link(&self.viewer());
        }
        if vnode.is_admitted(self.credentials, ObjectAccess::Write) {
            vnode.touch_accessed(place.mount.flags());
        }
        Ok(vnode.link_target()?.to_vec())
    }
    /// Changes the permissions (chmod(2)) and the access control list with them.
    ///
    /// # Errors
    /// `EPERM` if the caller is not the owner, `EROFS`, `EOPNOTSUPP` for a symbolic link.
    pub fn change_mode(&self, place: &Path, mode: u16) -> Result<(), Errno> {
        let vnode = place.vnode();
        place.mount.check_writable()?;
        if vnode.file_type() == FileType::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        // Under the lock: a change of owner between check and change would make the mode the new owner's.
        let _contents = vnode.contents().write();
        check_owner(vnode, self)?;
        vnode.admit(self.credentials, ObjectAccess::Write)?;
        let mut mode = mode & 0o7777;
        let is_member = self.credentials.is_in_group(vnode.owner().1);
        if !is_member && !self.credentials.has(Capabilities::FSETID) {
            mode &= !SET_GROUP;
        }
        vnode.check_sealed_mode(mode)?;
        match vnode.acl(AclKind::Access)? {
            Some(list) => {
                let mut list = Acl::clone(&list);
                list.set_mode(mode);
                let kept = (!list.is_mode()).then_some(&list);
                vnode.set_acl(AclKind::Access, kept, Some(mode))?;
            }
            None => vnode.change(&AttributeChange { permissions: Some(mode), ..changed_now() })?,
        }
        notify::about_dentry(&place.dentry, Events::ATTRIBUTES);
        Ok(())
    }
    /// Changes owner and group (chown(2)); `None` leaves an id unchanged. Removes setuid and setgid bits of
    /// programs.
    ///
    /// # Errors
    /// `EPERM`, `EROFS`.
    pub fn change_owner(
        &self,
        place: &Path,
        user: Option<u32>,
        group: Option<u32>,
    ) -> Result<(), Errno> {
        let vnode = place.vnode();
        place.mount.check_writable()?;
        let _contents = vnode.contents().write();
        if user.is_some() || group.is_some() {
            check_mutable(vnode)?;
        }
        let who = self.credentials;
        let (owner, _) = vnode.owner();
        let is_theirs = owner == who.user.fs;
        let may_user = user.is_none_or(|user| is_theirs && user == owner);
        let may_group = group
            .is_none_or(|group| is_theirs && (who.is_in_group(group) || group == vnode.owner().1));
        let is_allowed = may_user && may_group || who.has(Capabilities::CHOWN);
        if !is_allowed {
            return Err(Errno::EPERM);
        }
        vnode.admit(who, ObjectAccess::Write)?;
        let mode = vnode.permissions();
        let plain = permission::without_privilege(mode, vnode.owner().1, who);
        let permissions = (!vnode.is_directory() && plain != mode).then_some(plain);
        vnode.strip_capabilities()?;
        vnode.change(&AttributeChange { user, group, permissions, ..changed_now() })?;
        notify::about_dentry(&place.dentry, Events::ATTRIBUTES);
        Ok(())
    }
    /// Sets the times (utimensat(2)).
    ///
    /// # Errors
    /// `EPERM`; `EACCES` if both times are the present one and the file cannot be written; `EROFS`.
    pub fn set_times(
        &self,
        place: &Path,
        accessed: TimeSetting,
        modified: TimeSetting,
    ) -> Result<(), Errno> {
        if (accessed, modified) == (TimeSetting::Omit, TimeSetting::Omit) {
            return Ok(());
        }
        let vnode = place.vnode();
        place.mount.check_writable()?;
        let is_touch = (accessed, modified) == (TimeSetting::Now, TimeSetting::Now);
        if vnode.flags() & FLAG_IMMUTABLE != 0 || !is_touch && vnode.flags() & FLAG_APPEND != 0 {
            return Err(Errno::EPERM);
        }
        if !permission::is_owner(vnode, self.credentials) {
            if !is_touch {
                return Err(Errno::EPERM);
            }
            permission::check(vnode, self.credentials, Want::WRITE)?;
        }
        vnode.admit(self.credentials, ObjectAccess::Write)?;
        let now = time::now();
        let (accessed, modified) = (time(accessed, now), time(modified, now));
        let changed = Some(now);
        vnode.change(&AttributeChange { accessed, modified, changed, ..Default::default() })?;
        flows::writes(|| vnode.known_label());
        let events = match (accessed, modified) {
            (Some(_), None) => Events::ACCESS,
            (None, Some(_)) => Events::MODIFY,
            _ => Events::ATTRIBUTES,
        };
        notify::about_dentry(&place.dentry, events);
        Ok(())
    }
    /// Sets the inode flags (FS_IOC_SETFLAGS).
    ///
    /// # Errors
    /// `EPERM` if the caller is not the owner, and without CAP_LINUX_IMMUTABLE for the immutable and append-only
    /// flags; `EOPNOTSUPP`, `EROFS`.
    pub fn set_flags(&self, place: &Path, flags: u32) -> Result<(), Errno> {
        let vnode = place.vnode();
        place.mount.check_writable()?;
        let _contents = vnode.contents().write();
        let is_fixed = (vnode.flags() ^ flags) & (FLAG_APPEND | FLAG_IMMUTABLE) != 0;
        let may_fix = !is_fixed || self.credentials.has(Capabilities::LINUX_IMMUTABLE);
        if !may_fix || !permission::is_owner(vnode, self.credentials) {
            return Err(Errno::EPERM);
        }
        vnode.admit(self.credentials, ObjectAccess::Write)?;
        vnode.change(&AttributeChange { flags: Some(flags), ..changed_now() })?;
        notify::about_dentry(&place.dentry, Events::ATTRIBUTES);
        Ok(())
    }
    /// Sets the length of the file at a place (truncate(2)).
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL`, `EACCES`, `EROFS`, `ETXTBSY`, `EFBIG`.
    pub fn truncate(&self, place: &Path, size: u64) -> Result<(), Errno> {
        let vnode = place.vnode();
        match vnode.file_type() {
            FileType::Regular => {}
            FileType::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        self.check_path(place, Want::WRITE)?;
        if vnode.flags() & FLAG_APPEND != 0 {
            return Err(Errno::EPERM);
        }
        vnode.begin_write()?;
        let result = self.truncate_privileged(vnode, size);
        vnode.end_write();
        if result.is_ok() {
            notify::about_dentry(&place.dentry, Events::MODIFY);
        }
        result
    }
    pub(crate) fn truncate_privileged(&self, vnode: &Arc<Vnode>, size: u64) -> Result<(), Errno> {
        if vnode.node().is_some() {
            return Ok(());
        }
        let _contents = vnode.contents().write();
        resize(vnode, size, self.task)?;
        vnode.strip_capabilities()?;
        let mode = vnode.permissions();
        let plain = permission::without_privilege(mode, vnode.owner().1, self.credentials);
        if plain != mode && !self.credentials.has(Capabilities::FSETID) {
            vnode.change(&AttributeChange { permissions: Some(plain), ..Default::default() })?;
        }
        Ok(())
    }
}

fn time(setting: TimeSetting, now: FileTime) -> Option<FileTime> {
    match setting {
        TimeSetting::Omit => None,
        TimeSetting::Now => Some(now),
        TimeSetting::At(time) => Some(time),
    }
}

fn changed_now() -> AttributeChange {
    AttributeChange { changed: Some(time::now()), ..Default::default() }
}

fn check_mutable(vnode: &Vnode) -> Result<(), Errno> {
    match vnode.flags() & (FLAG_APPEND | FLAG_IMMUTABLE) {
        0 => Ok(()),
        _ => Err(Errno::EPERM),
    }
}

fn check_owner(vnode: &Vnode, caller: &Caller<'_>) -> Result<(), Errno> {
    check_mutable(vnode)?;
    match permission::is_owner(vnode, caller.credentials) {
        true => Ok(()),
        false => Err(Errno::EPERM),
    }
}
