//! Permission checks: the rules of POSIX and Linux for a vnode and some credentials (path_resolution(7), acl(5), B7).
pub use crate::tree::vnode::capabilities::FileCapabilities;
use crate::{
    base::{
        acls::AclKind,
        credentials::{Capabilities, Credentials},
        errno::Errno,
        mount_flags::MountFlags,
        rights::HAS_ACCESS_ACL,
    },
    tree::{
        mount::Path,
        vnode::{FLAG_APPEND, FLAG_IMMUTABLE, Vnode},
    },
    walk::caller::Caller,
};
use bitflags::bitflags;
use interfaces::{file_system::FileType, monitor::ObjectAccess};

/// The setuid bit.
pub const SET_USER: u16 = 0o4000;
/// The setgid bit.
pub const SET_GROUP: u16 = 0o2000;
/// The sticky bit.
pub const STICKY: u16 = 0o1000;
/// Execute permission of the group.
pub const GROUP_EXECUTE: u16 = 0o010;
const ANY_EXECUTE: u16 = 0o111;
/// The permission bits of owner, group and others.
pub(crate) const CLASSES: u16 = 0o777;
const GROUP_BITS: u16 = 0o070;

bitflags! {
    /// The kinds of access to a file; the values are those of access(2).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Want: u16 {
        /// X_OK: execute, or search a directory.
        const EXECUTE = 1;
        /// W_OK
        const WRITE = 2;
        /// R_OK
        const READ = 4;
    }
}

/// Checks `want` against owner, group, mode and access control list, which root may override, and then against the label.
///
/// # Errors
/// `EACCES`; `EPERM` for a write to an immutable file; errors of reading the list or the label.
#[inline]
pub fn check(vnode: &Vnode, who: &Credentials, want: Want) -> Result<(), Errno> {
    check_mode(vnode, who, want)?;
    check_label(vnode, who, want)
}

/// Checks `want` against the label: searching a directory is reading it, and reading a FIFO changes it.
///
/// # Errors
/// `EACCES`; errors of reading the label.
#[inline]
pub fn check_label(vnode: &Vnode, who: &Credentials, want: Want) -> Result<(), Errno> {
    if want.contains(Want::WRITE) {
        vnode.admit(who, ObjectAccess::Write)?;
    }
    if want.contains(Want::READ) {
        vnode.admit(who, ObjectAccess::Read)?;
        match vnode.file_type() {
            FileType::Fifo => vnode.admit(who, ObjectAccess::Write)?,
            // A read takes input away, which others of the device's secrecy see.
            FileType::Character if !vnode.has_own_secrecy(who)? => return Err(Errno::EACCES),
            _ => {}
        }
    }
    if want.contains(Want::EXECUTE) {
        let is_program = vnode.is_regular();
        vnode.admit(who, if is_program { ObjectAccess::Execute } else { ObjectAccess::Read })?;
    }
    Ok(())
}

#[inline]
fn check_mode(vnode: &Vnode, who: &Credentials, want: Want) -> Result<(), Errno> {
    let everyone = (want.bits() & 7) * 0o111;
    let is_open_to_all = vnode.rights() & (everyone | HAS_ACCESS_ACL) == everyone;
    if is_open_to_all && !want.contains(Want::WRITE) {
        return Ok(());
    }
    check_class(vnode, who, want)
}

#[inline(never)]
fn check_class(vnode: &Vnode, who: &Credentials, want: Want) -> Result<(), Errno> {
    if want.contains(Want::WRITE) && vnode.flags() & FLAG_IMMUTABLE != 0 {
        return Err(Errno::EPERM);
    }
    let rights = vnode.rights();
    let (user, group) = vnode.owner();
    let wanted = want.bits() & 7;
    let is_allowed = if user == who.user.fs {
        rights >> 6 & wanted == wanted
    } else if rights & HAS_ACCESS_ACL != 0
        && rights & GROUP_BITS != 0
        && let Some(list) = vnode.acl(AclKind::Access)?
    {
        // As on Linux, the list is not read if the group (that is, the mask) has no permission.
        list.allows(who, (user, group), wanted)
    } else if who.is_in_group(group) {
        rights >> 3 & wanted == wanted
    } else {
        rights & wanted == wanted
    };
    if is_allowed || overrides(vnode, who, want, rights) {
        return Ok(());
    }
    Err(Errno::EACCES)
}

fn overrides(vnode: &Vnode, who: &Credentials, want: Want, mode: u16) -> bool {
    let is_directory = vnode.is_directory();
    let can_read = if is_directory { Want::READ | Want::EXECUTE } else { Want::READ };
    if who.has(Capabilities::DAC_READ_SEARCH) && can_read.contains(want) {
        return true;
    }
    let is_executable = is_directory || mode & ANY_EXECUTE != 0;
    who.has(Capabilities::DAC_OVERRIDE) && (is_executable || !want.contains(Want::EXECUTE))
}

/// Does the same as [`check`]; also, on a read-only mount only devices, FIFOs and sockets can be written.
///
/// # Errors
/// `EROFS`, and those of [`check`].
pub fn check_path(path: &Path, who: &Credentials, want: Want) -> Result<(), Errno> {
    check_mount(path, want)?;
    check(path.vnode(), who, want)
}

fn check_mount(path: &Path, want: Want) -> Result<(), Errno> {
    let holds_data = matches!(
        path.vnode().file_type(),
        FileType::Regular | FileType::Directory | FileType::Symlink
    );
    if want.contains(Want::WRITE) && holds_data {
        path.mount.check_writable()?;
    }
    Ok(())
}

impl Caller<'_> {
    /// Does the same as [`check`] for the caller, which may use a generated node that is open to it
    /// ([`crate::generated::Node::is_open_to`]) whatever its mode.
    ///
    /// # Errors
    /// Those of [`check`].
    #[inline]
    pub fn check(&self, vnode: &Vnode, want: Want) -> Result<(), Errno> {
        self.check_mode(vnode, want)?;
        check_label(vnode, self.credentials, want)
    }
    /// Does the same without the label.
    #[inline]
    pub(super) fn check_mode(&self, vnode: &Vnode, want: Want) -> Result<(), Errno> {
        check_mode(vnode, self.credentials, want)
            .or_else(|refusal| self.unless_open(vnode, refusal))
    }
    /// Does the same as [`check_path`] for the caller, with the exception of [`Caller::check`].
    ///
    /// # Errors
    /// Those of [`check_path`].
    pub fn check_path(&self, path: &Path, want: Want) -> Result<(), Errno> {
        check_mount(path, want)?;
        self.check(path.vnode(), want)
    }
    #[cold]
    fn unless_open(&self, vnode: &Vnode, refusal: Errno) -> Result<(), Errno> {
        match vnode.node() {
            Some(node) if refusal == Errno::EACCES && node.is_open_to(self.task) => Ok(()),
            _ => Err(refusal),
        }
    }
}

/// Checks that a file may be executed as a program: a regular file with execute permission on a mount that allows it. The label is
/// checked for reading only: exec asks whether the domain that it enters may execute the file
/// ([`crate::security::SecuritySubject::entered`]).
///
/// # Errors
/// `EACCES`.
pub fn check_execute(path: &Path, who: &Credentials) -> Result<(), Errno> {
    let is_refused = path.mount.flags().contains(MountFlags::NO_EXECUTE);
    if !path.vnode().is_regular() || is_refused {
        return Err(Errno::EACCES);
    }
    check_mode(path.vnode(), who, Want::EXECUTE)?;
    path.vnode().admit(who, ObjectAccess::Read)
}

/// The user and the group that a program gets from its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetIds {
    /// The owner, if the set-user-id bit is set.
    pub user: Option<u32>,
    /// The group, if the set-group-id bit is set.
    pub group: Option<u32>,
}

/// Returns the ids that the file at `path` gives to a process that executes it; none if the mount forbids them or
/// `who` may no longer execute it. Permissions, owner and group are read at one moment: chmod and chown cannot come
/// between.
///
/// # Locks
/// Takes the vnode's `contents` to read.
pub fn set_ids(path: &Path, who: &Credentials) -> SetIds {
    if path.mount.flags().contains(MountFlags::NO_SETUID) {
        return SetIds::default();
    }
    let vnode = path.vnode();
    let _contents = vnode.contents().read();
    let mode = vnode.permissions();
    if mode & (SET_USER | SET_GROUP) == 0 || check_mode(vnode, who, Want::EXECUTE).is_err() {
        return SetIds::default();
    }
    let (user, group) = vnode.owner();
    let group_program = SET_GROUP | GROUP_EXECUTE;
    SetIds {
        user: (mode & SET_USER != 0).then_some(user),
        group: (mode & group_program == group_program).then_some(group),
    }
}

/// Returns the capabilities that the file at `path` gives to a process that executes it; none if the mount forbids
/// them.
///
/// # Errors
/// `EINVAL` if they are malformed, and errors of the file system.
pub fn file_capabilities(path: &Path) -> Result<Option<FileCapabilities>, Errno> {
    match path.mount.flags().contains(MountFlags::NO_SETUID) {
        true => Ok(None),
        false => path.vnode().capabilities(),
    }
}

/// Returns whether the caller owns the file or may act as its owner.
pub fn is_owner(vnode: &Vnode, who: &Credentials) -> bool {
    vnode.owner().0 == who.user.fs || who.has(Capabilities::FOWNER)
}

/// Checks that a name may be made in `directory`.
///
/// # Errors
/// `EACCES`, `EPERM`; `ENOENT` in a directory that was removed.
pub fn check_create(directory: &Vnode, who: &Credentials) -> Result<(), Errno> {
    if directory.is_dead() {
        return Err(Errno::ENOENT);
    }
    check(directory, who, Want::WRITE | Want::EXECUTE)
}

/// Checks that the name of `victim` may be removed from `directory` (from a sticky directory only the user's own
/// names).
///
/// # Errors
/// `EACCES`; `EPERM` for sticky directories and for immutable or append-only files.
pub fn check_remove(directory: &Vnode, victim: &Vnode, who: &Credentials) -> Result<(), Errno> {
    check(directory, who, Want::WRITE | Want::EXECUTE)?;
    victim.admit(who, ObjectAccess::Write)?;
    let is_theirs = victim.owner().0 == who.user.fs || directory.owner().0 == who.user.fs;
    let is_kept =
        directory.permissions() & STICKY != 0 && !is_theirs && !who.has(Capabilities::FOWNER);
    let fixed = FLAG_APPEND | FLAG_IMMUTABLE;
    if is_kept || directory.flags() & FLAG_APPEND != 0 || victim.flags() & fixed != 0 {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Returns the mode of a file after a write by another user or a change of its owner: without setuid, and without
/// setgid if that gives the rights of a group.
pub fn without_privilege(mode: u16, group: u32, who: &Credentials) -> u16 {
    let mut mode = mode & !SET_USER;
    let is_member = who.is_in_group(group) || who.has(Capabilities::FSETID);
    if mode & GROUP_EXECUTE != 0 || !is_member {
        mode &= !SET_GROUP;
    }
    mode
}
