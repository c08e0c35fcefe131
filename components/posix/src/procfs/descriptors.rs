//! `/proc/PID/fd`: a magic link for each descriptor.
use super::{process::Subject, report};
use alloc::{format, sync::Arc, vec::Vec};
use interfaces::file_system::{Attributes, DirectoryEntry, FileType};
use vfs::{
    Caller, Errno, OpenFile, Path,
    generated::{Child, Node, attributes},
};

/// The directory.
pub struct Descriptors {
    subject: Subject,
    inode: u64,
}

impl Descriptors {
    /// Of `subject`.
    pub fn new(subject: Subject, inode: u64) -> Descriptors {
        Descriptors { subject, inode }
    }
    fn link_inode(&self, descriptor: u64) -> u64 {
        const SHIFT: u32 = 40;
        self.inode ^ (descriptor + 1) << SHIFT
    }
}

impl Node for Descriptors {
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Directory, 0o500, self.subject.owner())
    }
    fn lookup(&self, name: &[u8], _: &Caller<'_>) -> Result<Child, Errno> {
        let number: i32 = core::str::from_utf8(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or(Errno::ENOENT)?;
        let task = self.subject.task().ok_or(Errno::ENOENT)?;
        let file = task.files().get(number).map_err(|_| Errno::ENOENT)?;
        let inode = self.link_inode(number as u64);
        Ok(Arc::new(Link { subject: self.subject.clone(), inode, file }))
    }
    fn entries(&self, position: u64, max: usize) -> Result<Vec<DirectoryEntry>, Errno> {
        let task = self.subject.task().ok_or(Errno::ENOENT)?;
        let from = usize::try_from(position).unwrap_or(usize::MAX);
        let entry = |number: usize| DirectoryEntry {
            inode: self.link_inode(number as u64),
            file_type: Some(FileType::Symlink),
            name: format!("{number}").into_bytes(),
            next: number as u64 + 1,
        };
        Ok(task.files().descriptors(from, max).into_iter().map(entry).collect())
    }
}

struct Link {
    subject: Subject,
    inode: u64,
    file: Arc<OpenFile>,
}

impl Node for Link {
    fn attributes(&self) -> Attributes {
        let readable = if self.file.is_readable() { 0o500 } else { 0 };
        let writable = if self.file.is_writable() { 0o300 } else { 0 };
        let mut link =
            attributes(self.inode, FileType::Symlink, readable | writable, self.subject.owner());
        const LINK_BYTES: u64 = 64;
        link.size = LINK_BYTES;
        link
    }
    fn read_link(&self, caller: &Caller<'_>) -> Result<Vec<u8>, Errno> {
        self.subject.check_access(caller)?;
        Ok(report::path_text(self.file.path(), caller.root))
    }
    fn follow(&self, caller: &Caller<'_>) -> Result<Option<Path>, Errno> {
        self.subject.check_access(caller)?;
        Ok(Some(self.file.path().clone()))
    }
}
