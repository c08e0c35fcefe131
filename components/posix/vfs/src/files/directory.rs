//! Open directories, of file systems and generated ones.
use crate::{
    base::{
        errno::Errno,
        file::{File, IoFlags, POSITION_MAX, Places},
        io::Sink,
        principal::Principal,
    },
    files::regular::AccessTime,
    tree::{hidden_names::is_hidden_name, mount::Path, node::Node, vnode::Vnode},
};
use core::ops::ControlFlow;
use interfaces::file_system::{Backing, DirectoryEntry, FileType, SyncKind, TakeEntry};

/// An open directory.
pub(crate) struct DirectoryFile {
    path: Path,
    access_time: AccessTime,
}

/// Position of `..`. Positions 0 and 1 are `.` and `..`; those of the file system follow.
const POSITION_PARENT: u64 = 1;
const POSITION_FIRST: u64 = 2;

impl DirectoryFile {
    pub(crate) fn new(path: &Path, access_time: AccessTime) -> DirectoryFile {
        DirectoryFile { path: path.clone(), access_time }
    }
    fn dot(&self) -> DirectoryEntry<&[u8]> {
        special(b".", self.path.vnode(), POSITION_PARENT)
    }
    fn dot_dot(&self) -> DirectoryEntry<&[u8]> {
        let mut at = self.path.clone();
        loop {
            match at.is_mount_root() {
                true => match at.mount.at() {
                    Some(below) => at = below,
                    None => break,
                },
                false if at.dentry.is_hidden() => match at.dentry.parent() {
                    Some(multilevel) => at.dentry = multilevel,
                    None => break,
                },
                false => break,
            }
        }
        let parent = at.dentry.parent().unwrap_or(at.dentry);
        special(b"..", parent.vnode(), POSITION_FIRST)
    }
    /// Passes `.` and `..` to `take`, unless `position` is after them.
    fn take_dots(&self, position: u64, take: &mut TakeEntry<'_>) -> ControlFlow<()> {
        if position == 0 {
            take(&self.dot())?;
        }
        if position <= POSITION_PARENT { take(&self.dot_dot()) } else { ControlFlow::Continue(()) }
    }
    fn read_stored(&self, position: u64, take: &mut TakeEntry<'_>) -> Result<(), Errno> {
        let vnode = self.path.vnode();
        if vnode.is_dead() {
            return Err(Errno::ENOENT);
        }
        if self.take_dots(position, take).is_break() {
            return Ok(());
        }
        let _names = vnode.contents().read();
        if vnode.is_dead() {
            return Err(Errno::ENOENT);
        }
        let (from, mut result) = (position.saturating_sub(POSITION_FIRST), Ok(()));
        let mut take_it = |entry: &DirectoryEntry<&[u8]>| take_shifted(entry, take, &mut result);
        if vnode.instance().is_kept() {
            vnode.read_names(from, &mut take_it);
        } else {
            let fs = vnode.instance().file_system()?;
            fs.read_directory(vnode.inode(), from, &mut take_it)?;
        }
        result
    }
    fn read_generated(
        &self,
        node: &dyn Node,
        (position, caller): (u64, &dyn Principal),
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        let (mut has_dots, mut result) = (false, Ok(()));
        let mut take_it = |entry: &DirectoryEntry<&[u8]>| {
            // The entries `.` and `..` are passed with the first other entry: it shows that the object of the
            // directory still exists.
            if !has_dots {
                has_dots = true;
                self.take_dots(position, take)?;
            }
            take_shifted(entry, take, &mut result)
        };
        node.entries(position.saturating_sub(POSITION_FIRST), caller, &mut take_it)?;
        if !has_dots {
            let _ = self.take_dots(position, take);
        }
        result
    }
}

/// Passes an entry on with its position moved behind those of `.` and `..`; sets `result` to `EOVERFLOW` if there is
/// no such position.
#[inline]
fn take_shifted(
    entry: &DirectoryEntry<&[u8]>,
    take: &mut TakeEntry<'_>,
    result: &mut Result<(), Errno>,
) -> ControlFlow<()> {
    match entry.next.checked_add(POSITION_FIRST) {
        Some(next) => take(&DirectoryEntry { next, ..*entry }),
        None => {
            *result = Err(Errno::EOVERFLOW);
            ControlFlow::Break(())
        }
    }
}

fn special(name: &'static [u8], vnode: &Vnode, next: u64) -> DirectoryEntry<&'static [u8]> {
    let (inode, file_type) = (vnode.inode(), Some(FileType::Directory));
    DirectoryEntry { inode, file_type, name, next }
}

impl File for DirectoryFile {
    fn is_seekable(&self) -> bool {
        true
    }
    /// A directory in memory has no end: its positions are numbers of names.
    fn places(&self) -> Places {
        let vnode = self.path.vnode();
        match (vnode.node(), vnode.instance().info().backing) {
            (Some(node), _) => node.places(),
            (None, Backing::Storage) => Places::UpTo(POSITION_MAX),
            (None, Backing::Cache) => Places::Endless,
        }
    }
    /// Positions of a directory on storage are hashes of names, and the last one is its end.
    fn end(&self) -> u64 {
        if self.path.vnode().node().is_some() { self.size() } else { POSITION_MAX }
    }
    fn read(&self, _: u64, _: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        Err(Errno::EISDIR)
    }
    fn read_directory(
        &self,
        position: u64,
        caller: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        let vnode = self.path.vnode();
        match vnode.node() {
            Some(node) => self.read_generated(&**node, (position, caller), take)?,
            None if vnode.is_multilevel() && !caller.sees_hidden_names() => {
                self.read_stored(position, &mut |entry| match is_hidden_name(entry.name) {
                    false => take(entry),
                    true => ControlFlow::Continue(()),
                })?;
            }
            None => self.read_stored(position, take)?,
        }
        if self.access_time == AccessTime::Updated {
            vnode.touch_accessed(self.path.mount.flags());
        }
        Ok(())
    }
    fn size(&self) -> u64 {
        self.path.vnode().size()
    }
    fn sync(&self, kind: SyncKind) -> Result<(), Errno> {
        let vnode = self.path.vnode();
        match vnode.node() {
            None => vnode.sync(kind),
            Some(_) => Err(Errno::EINVAL),
        }
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
