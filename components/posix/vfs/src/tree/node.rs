//! Nodes: the sources of vnodes that no file system stores (procfs, pipes and other things without a name on storage).
//!
//! A [`Node`]'s directories change by themselves, so that a step asks [`Node::lookup`], but for names that stay
//! ([`Node::keeps`]). A symbolic link may be magic: [`Node::follow`] jumps to a [`Path`] instead of giving a text
//! (`/proc/PID/exe`).
use crate::{
    base::{
        errno::Errno,
        file::{File, Places},
        principal::Principal,
        security::Label,
        time::now,
    },
    tree::{child_cache::ChildCache, mount::Path},
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::file_system::{Attributes, FileTime, FileType, InodeNumber, TakeEntry};
use rt::sync::StaticRef;

/// The thread on whose behalf a generated directory or link is looked at.
#[derive(Clone, Copy)]
pub struct Viewer<'a> {
    /// Its task.
    pub task: &'a dyn Principal,
    /// Its root directory.
    pub root: &'a Path,
    /// Its process id (`/proc/self`).
    pub process: u32,
    /// Its thread id (`/proc/thread-self`).
    pub thread: u32,
}

/// The last position of a generated file that has an end (Linux's `MAX_NON_LFS`).
pub const GENERATED_END: u64 = i32::MAX as u64;

/// The node that a generated directory returns for a name.
pub type Child = Arc<dyn Node>;

/// A generated file. The default of each method answers as Linux does for a node that lacks the operation.
#[allow(unused_variables, reason = "the defaults only refuse")]
pub trait Node: Send + Sync {
    /// Returns the attributes for `stat`. Type and inode number must not change.
    fn attributes(&self) -> Attributes;
    /// Returns the permissions of [`Node::attributes`], which each step of a walk checks.
    fn permissions(&self) -> u16 {
        self.attributes().permissions
    }
    /// Returns the label of mandatory access control, which is asked for at each access, and may change; `None` for that of its
    /// file system.
    fn label(&self) -> Option<&'static Label> {
        None
    }
    /// Returns the place of [`Node::label`] if programs may give it another label.
    fn label_place(&self) -> Option<&StaticRef<Label>> {
        None
    }
    /// Returns the object that the personality finds in it by a downcast.
    fn subject(&self) -> Option<&dyn core::any::Any> {
        None
    }
    /// Returns whether `caller` may use it regardless of its owner and mode.
    fn is_open_to(&self, caller: &dyn Principal) -> bool {
        false
    }
    /// Of a directory: the node called `name`, as `viewer` sees it.
    ///
    /// # Errors
    /// `ENOENT`.
    fn lookup(&self, name: &[u8], viewer: &Viewer<'_>) -> Result<Child, Errno> {
        Err(Errno::ENOENT)
    }
    /// For a directory: returns whether the result of `name`, once there is one, stays the same as long as the directory
    /// exists, so that it may be cached.
    fn keeps(&self, name: &[u8]) -> bool {
        false
    }
    /// For a directory without names: returns whether something can be mounted over it. Its name and those above it are kept.
    fn is_mount_point(&self) -> bool {
        false
    }
    /// For a directory of files about an object that has a cache of them: calls `act` with that cache and the place of `name`
    /// in it, if the object has a file of that name that `caller` may see.
    fn with_cache(
        &self,
        name: &[u8],
        caller: &dyn Principal,
        act: &mut dyn FnMut(&ChildCache, u64),
    ) {
    }
    /// For a directory: passes the entries from `position` (0 first) to `take`, without `.` and `..`, until it breaks, as
    /// `caller` sees them.
    ///
    /// # Errors
    /// `ENOENT` before the first entry if the object that the directory shows has ended.
    fn entries(
        &self,
        position: u64,
        caller: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        Err(Errno::ENOTDIR)
    }
    /// For a directory: returns whether programs make and remove names in it ([`Node::create`], [`Node::remove`]).
    fn can_change(&self) -> bool {
        false
    }
    /// For such a directory: makes a regular file called `name` for `maker`, which was found to have the right to.
    ///
    /// # Errors
    /// `EEXIST`, and those of open(2).
    fn create(&self, name: &[u8], permissions: u16, maker: &dyn Principal) -> Result<Child, Errno> {
        Err(Errno::EPERM)
    }
    /// For such a directory: removes `name` for `remover`, which was found to have the right to.
    ///
    /// # Errors
    /// `ENOENT`.
    fn remove(&self, name: &[u8], remover: &dyn Principal) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }
    /// Of a symbolic link: its text, as `viewer` sees it.
    ///
    /// # Errors
    /// `EINVAL`, `ENOENT`.
    fn read_link(&self, viewer: &Viewer<'_>) -> Result<Vec<u8>, Errno> {
        Err(Errno::EINVAL)
    }
    /// For a magic link: returns the place that it leads to. `None`: an ordinary link, followed by its text.
    ///
    /// # Errors
    /// `EACCES`, `ENOENT`.
    fn follow(&self, viewer: &Viewer<'_>) -> Result<Option<Path>, Errno> {
        Ok(None)
    }
    /// For a regular file: generates its content now, for `reader`. Called at each read from offset 0.
    ///
    /// # Errors
    /// The error for read(2) to return.
    fn generate(&self, reader: &dyn Principal) -> Result<Vec<u8>, Errno> {
        Err(Errno::EINVAL)
    }
    /// For a regular file: accepts data that `writer` writes (one write is one call).
    ///
    /// # Errors
    /// The error for write(2) to return.
    fn write(&self, data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }
    /// Does the same as [`Node::write`] for data written at `offset`, for files to which the offset matters.
    ///
    /// # Errors
    /// Those of [`Node::write`].
    fn write_at(&self, offset: u64, data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
        self.write(data, writer)
    }
    /// Opens it for `opener`. `None`: a regular file served from [`Node::generate`] and [`Node::write`], or a
    /// directory served from [`Node::entries`]. `flags` are open(2)'s.
    ///
    /// # Errors
    /// As open(2).
    fn open(&self, flags: u32, opener: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        Ok(None)
    }
    /// Returns the positions to which lseek may move. By default the contents of a file are a sequence without an end, as
    /// those of most files of procfs are.
    fn places(&self) -> Places {
        match self.attributes().file_type {
            FileType::Directory => Places::UpTo(GENERATED_END),
            _ => Places::Endless,
        }
    }
    /// Sets attributes (chmod and chown of terminals on /dev/pts) to those wanted.
    ///
    /// # Errors
    /// `EPERM`.
    fn set_attributes(&self, wanted: &Attributes) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }
}

/// Returns attributes of a generated node: owned by `user` and `group`, with the present time.
pub fn attributes(
    inode: InodeNumber,
    file_type: FileType,
    permissions: u16,
    (user, group): (u32, u32),
) -> Attributes {
    let now = now();
    Attributes {
        inode,
        file_type,
        permissions,
        links: if file_type == FileType::Directory { 2 } else { 1 },
        user,
        group,
        device: (0, 0),
        size: 0,
        blocks: 0,
        accessed: now,
        modified: now,
        changed: now,
        created: FileTime::default(),
        flags: 0,
        generation: 0,
        may_have_acls: false,
        may_have_capabilities: false,
    }
}
