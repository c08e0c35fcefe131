//! Files whose content is generated: procfs, pipes and other things without a name on storage.
//!
//! A [`Node`] stands behind a vnode that no file system stores. Its directories change by
//! themselves, so that a step asks [`Node::lookup`], but for names that stay ([`Node::keeps`]). A symbolic link
//! may be magic: [`Node::follow`] jumps to a [`Path`] instead of giving a text (`/proc/PID/exe`).
use crate::{
    child_cache::ChildCache,
    errno::Errno,
    file::{File, IoFlags, Places, Ready},
    io::{Sink, Source},
    mount::Path,
    poll::{Changes, PollTable, Unseen},
    walk::Caller,
};
use alloc::{sync::Arc, vec, vec::Vec};
use interfaces::file_system::{Attributes, FileTime, FileType, InodeNumber, TakeEntry};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static CONTENT = "vfs.generated.content";
}

/// Most bytes one write to a generated file takes.
const WRITE_BYTES_MAX: usize = 4096;

/// The last position of a generated file that has an end (Linux's `MAX_NON_LFS`).
pub const GENERATED_END: u64 = i32::MAX as u64;

/// The node that a generated directory gives for a name.
pub type Child = Arc<dyn Node>;

/// Something generated. A default answers as Linux does for a node that lacks the operation.
#[allow(unused_variables, reason = "the defaults only refuse")]
pub trait Node: Send + Sync {
    /// The attributes for `stat`. Must not change type or inode number.
    fn attributes(&self) -> Attributes;
    /// The permissions of [`Node::attributes`], which each step of a walk looks at.
    fn permissions(&self) -> u16 {
        self.attributes().permissions
    }
    /// The object that the personality is to find in it by a downcast.
    fn subject(&self) -> Option<&dyn core::any::Any> {
        None
    }
    /// Whether the calling process may do anything with it, whatever its owner and mode say.
    fn is_open_to_caller(&self) -> bool {
        false
    }
    /// Of a directory: the node called `name`, as `caller` sees it.
    ///
    /// # Errors
    /// `ENOENT`.
    fn lookup(&self, name: &[u8], caller: &Caller<'_>) -> Result<Child, Errno> {
        Err(Errno::ENOENT)
    }
    /// Of a directory: what it gives for `name`, where it gives anything, stays the same as long as the directory is there, so
    /// that it may be cached.
    fn keeps(&self, name: &[u8]) -> bool {
        false
    }
    /// Of a directory of files about an object that has a cache of them: calls `act` with that cache and the place of what is
    /// called `name` there, as long as the object has anything of that name.
    fn with_cache(&self, name: &[u8], act: &mut dyn FnMut(&ChildCache, u64)) {}
    /// Of a directory: hands the entries from `position` (0 first) on to `take`, without `.` and `..`, until it breaks.
    ///
    /// # Errors
    /// `ENOENT` where what it shows has gone, before the first entry.
    fn entries(&self, position: u64, take: &mut TakeEntry<'_>) -> Result<(), Errno> {
        Err(Errno::ENOTDIR)
    }
    /// Of a directory: programs make names in it and take them away ([`Node::create`], [`Node::remove`]).
    fn can_change(&self) -> bool {
        false
    }
    /// Of such a directory: makes a regular file called `name` for the calling task, who may.
    ///
    /// # Errors
    /// `EEXIST`, and as open(2).
    fn create(&self, name: &[u8], permissions: u16) -> Result<Child, Errno> {
        Err(Errno::EPERM)
    }
    /// Of such a directory: takes `name` away. The calling task may.
    ///
    /// # Errors
    /// `ENOENT`.
    fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }
    /// Of a symbolic link: its text, as `caller` sees it.
    ///
    /// # Errors
    /// `EINVAL`, `ENOENT`.
    fn read_link(&self, caller: &Caller<'_>) -> Result<Vec<u8>, Errno> {
        Err(Errno::EINVAL)
    }
    /// Of a magic link: where it leads. `None`: an ordinary link, followed by its text.
    ///
    /// # Errors
    /// `EACCES`, `ENOENT`.
    fn follow(&self, caller: &Caller<'_>) -> Result<Option<Path>, Errno> {
        Ok(None)
    }
    /// Of a regular file: its content now. Asked at each read from offset 0.
    ///
    /// # Errors
    /// The error that read(2) is to give.
    fn generate(&self) -> Result<Vec<u8>, Errno> {
        Err(Errno::EINVAL)
    }
    /// Of a regular file: takes what was written (one write is one call).
    ///
    /// # Errors
    /// The error that write(2) is to give.
    fn write(&self, data: &[u8]) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }
    /// [`Node::write`], of what was written at `offset` of the file: for files where that matters.
    ///
    /// # Errors
    /// As [`Node::write`].
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.write(data)
    }
    /// Opens it. `None`: a regular file served from [`Node::generate`] and [`Node::write`], or a
    /// directory served from [`Node::entries`]. `flags` are open(2)'s.
    ///
    /// # Errors
    /// As open(2).
    fn open(&self, flags: u32) -> Result<Option<Arc<dyn File>>, Errno> {
        Ok(None)
    }
    /// Places that lseek may go to. By default the contents of a file are a sequence without an end, as most of procfs's are.
    fn places(&self) -> Places {
        match self.attributes().file_type {
            FileType::Directory => Places::UpTo(GENERATED_END),
            _ => Places::Endless,
        }
    }
    /// chmod and chown of it (terminals on /dev/pts): the attributes wanted.
    ///
    /// # Errors
    /// `EPERM`.
    fn set_attributes(&self, wanted: &Attributes) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }
}

/// Attributes of a generated node: owned by `user` and `group`, times of now.
pub fn attributes(
    inode: InodeNumber,
    file_type: FileType,
    permissions: u16,
    (user, group): (u32, u32),
) -> Attributes {
    let now = crate::vnode::now();
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
    }
}

/// An open file with what `node` generates at each read from offset 0.
pub fn file_of(node: Arc<dyn Node>) -> Arc<dyn File> {
    Arc::new(GeneratedFile::new(node))
}

/// As [`file_of`], where poll tells of `changes` since now, and of `quiet` while there are none.
pub fn watched_file_of(node: Arc<dyn Node>, changes: &Arc<Changes>, quiet: Ready) -> Arc<dyn File> {
    let changes = Some((changes.since_now(), quiet));
    Arc::new(GeneratedFile { changes, ..GeneratedFile::new(node) })
}

/// An open generated file: the content of the last read from offset 0.
pub(crate) struct GeneratedFile {
    node: Arc<dyn Node>,
    content: Mutex<Option<Arc<[u8]>>>,
    /// Of what it shows, where that tells of them.
    changes: Option<(Unseen, Ready)>,
}

impl GeneratedFile {
    pub(crate) fn new(node: Arc<dyn Node>) -> GeneratedFile {
        GeneratedFile { node, content: Mutex::new(&CONTENT, None), changes: None }
    }
    fn content(&self, offset: u64) -> Result<Arc<[u8]>, Errno> {
        if offset > 0
            && let Some(content) = self.content.lock().as_ref()
        {
            return Ok(content.clone());
        }
        let fresh: Arc<[u8]> = Arc::from(self.node.generate()?);
        *self.content.lock() = Some(fresh.clone());
        Ok(fresh)
    }
}

impl File for GeneratedFile {
    fn is_seekable(&self) -> bool {
        true
    }
    fn is_watchable(&self) -> bool {
        self.changes.is_some()
    }
    fn poll(&self, table: Option<&PollTable>) -> Ready {
        match &self.changes {
            None => Ready::ALWAYS,
            Some((changes, quiet)) => match changes.poll(table) {
                news if news.contains(Ready::PRIORITY) => news,
                _ => *quiet,
            },
        }
    }
    fn places(&self) -> Places {
        self.node.places()
    }
    fn size(&self) -> u64 {
        self.node.attributes().size
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        let content = self.content(offset)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        match content.get(start..) {
            Some(rest) if !rest.is_empty() => sink.put(rest),
            _ => Ok(0),
        }
    }
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        _: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        let mut data = vec![0; source.remaining().min(WRITE_BYTES_MAX)];
        let taken = source.take(&mut data)?;
        self.node.write_at(offset, data.get(..taken).unwrap_or_default())?;
        Ok((taken, offset.saturating_add(taken as u64)))
    }
    fn truncate(&self, _: u64) -> Result<(), Errno> {
        Ok(())
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
