//! Rules for directories that all users may write, such as `/tmp` (proc_sys_fs(5), `protected_*`).
//!
//! An attacker could put a link, FIFO or file there for a program with more rights to use by
//! mistake. The initial levels are those of Debian; they are changed through `/proc/sys/fs`.
use crate::{
    base::{credentials::Credentials, errno::Errno},
    tree::vnode::Vnode,
    walk::permission::{self, GROUP_EXECUTE, SET_GROUP, SET_USER, STICKY, Want},
};
use core::sync::atomic::{AtomicU8, Ordering};
use interfaces::file_system::FileType;

/// The directory is writable by all users.
const OTHERS_WRITE: u16 = 0o002;
/// The directory is writable by its group.
const GROUP_WRITE: u16 = 0o020;

/// One of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Following a symbolic link of another user.
    Symlinks,
    /// Making a hard link to a file of another user.
    Hardlinks,
    /// Opening a FIFO of another user with O_CREAT.
    Fifos,
    /// Opening a regular file of another user with O_CREAT.
    Regular,
}

static SYMLINKS: AtomicU8 = AtomicU8::new(1);
static HARDLINKS: AtomicU8 = AtomicU8::new(1);
static FIFOS: AtomicU8 = AtomicU8::new(1);
static REGULAR: AtomicU8 = AtomicU8::new(2);

impl Protection {
    fn place(self) -> &'static AtomicU8 {
        match self {
            Protection::Symlinks => &SYMLINKS,
            Protection::Hardlinks => &HARDLINKS,
            Protection::Fifos => &FIFOS,
            Protection::Regular => &REGULAR,
        }
    }
    /// Returns the level of the rule; 0 is off.
    pub fn level(self) -> u8 {
        self.place().load(Ordering::Relaxed)
    }
    /// Sets the level of the rule.
    ///
    /// # Errors
    /// `EINVAL` beyond 1 for links, beyond 2 for the others.
    pub fn set_level(self, level: u8) -> Result<(), Errno> {
        let most = match self {
            Protection::Symlinks | Protection::Hardlinks => 1,
            Protection::Fifos | Protection::Regular => 2,
        };
        if level > most {
            return Err(Errno::EINVAL);
        }
        self.place().store(level, Ordering::Relaxed);
        Ok(())
    }
}

/// Checks that a symbolic link at the end of a path, found in `directory`, may be followed.
///
/// # Errors
/// `EACCES`.
pub(crate) fn check_follow(
    directory: &Vnode,
    link: &Vnode,
    who: &Credentials,
) -> Result<(), Errno> {
    const TRAP: u16 = STICKY | OTHERS_WRITE;
    if Protection::Symlinks.level() == 0 || directory.permissions() & TRAP != TRAP {
        return Ok(());
    }
    let owner = link.owner().0;
    match owner == who.user.fs || owner == directory.owner().0 {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// Checks that a hard link to `vnode` may be made: by its owner, or by a caller that may read and
/// write it.
///
/// # Errors
/// `EPERM`.
pub(crate) fn check_hard_link(vnode: &Vnode, who: &Credentials) -> Result<(), Errno> {
    const GROUP_PROGRAM: u16 = SET_GROUP | GROUP_EXECUTE;
    if Protection::Hardlinks.level() == 0 || permission::is_owner(vnode, who) {
        return Ok(());
    }
    let mode = vnode.permissions();
    let is_privileged = mode & SET_USER != 0 || mode & GROUP_PROGRAM == GROUP_PROGRAM;
    let can_use = permission::check(vnode, who, Want::READ | Want::WRITE).is_ok();
    match vnode.is_regular() && !is_privileged && can_use {
        true => Ok(()),
        false => Err(Errno::EPERM),
    }
}

/// Checks that an existing file in `directory` may be opened with O_CREAT.
///
/// # Errors
/// `EACCES`.
pub(crate) fn check_open_existing(
    directory: &Vnode,
    vnode: &Vnode,
    who: &Credentials,
) -> Result<(), Errno> {
    let mode = directory.permissions();
    let level = match vnode.file_type() {
        FileType::Regular => Protection::Regular.level(),
        FileType::Fifo => Protection::Fifos.level(),
        _ => 1,
    };
    let owner = vnode.owner().0;
    let is_theirs = owner == directory.owner().0 || owner == who.user.fs;
    if level == 0 || mode & STICKY == 0 || is_theirs {
        return Ok(());
    }
    let is_strict = level >= 2 && mode & GROUP_WRITE != 0;
    match mode & OTHERS_WRITE != 0 || is_strict {
        true => Err(Errno::EACCES),
        false => Ok(()),
    }
}
