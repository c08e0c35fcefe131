//! `/proc/PID/fd`, a magic link for each descriptor, and `/proc/PID/fdinfo`, a file for each.
use super::{process::Subject, report};
use crate::{files::OnExec, locks};
use alloc::{format, sync::Arc, vec::Vec};
use interfaces::file_system::{Attributes, DirectoryEntry, FileType};
use linux_raw_sys::general::O_CLOEXEC;
use vfs::{
    Caller, Errno, OpenFile, Path,
    generated::{Child, Node, attributes},
};

/// The two directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// `fd`.
    Links,
    /// `fdinfo`.
    Reports,
}

/// The directory.
pub struct Descriptors {
    subject: Subject,
    inode: u64,
    view: View,
}

impl Descriptors {
    /// Of `subject`.
    pub fn new(subject: Subject, inode: u64, view: View) -> Descriptors {
        Descriptors { subject, inode, view }
    }
    fn link_inode(&self, descriptor: u64) -> u64 {
        const SHIFT: u32 = 40;
        self.inode ^ (descriptor + 1) << SHIFT
    }
}

impl Node for Descriptors {
    fn attributes(&self) -> Attributes {
        let permissions = if self.view == View::Links { 0o500 } else { 0o555 };
        attributes(self.inode, FileType::Directory, permissions, self.subject.owner())
    }
    /// A process's own descriptors stay open to it when its files belong to root (after setuid), as on Linux.
    fn is_open_to_caller(&self) -> bool {
        self.view == View::Links
            && crate::process::current()
                .is_some_and(|caller| Arc::ptr_eq(&caller.process, &self.subject.process))
    }
    fn lookup(&self, name: &[u8], _: &Caller<'_>) -> Result<Child, Errno> {
        let number: i32 = core::str::from_utf8(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or(Errno::ENOENT)?;
        let found = self.subject.look_up(|task| task.files().get(number))?;
        let file = found.map_err(|_| Errno::ENOENT)?;
        let inode = self.link_inode(number as u64);
        let subject = self.subject.clone();
        Ok(match self.view {
            View::Links => Arc::new(Link { subject, inode, file }),
            View::Reports => Arc::new(Report { subject, inode, number, file }),
        })
    }
    fn entries(&self, position: u64, max: usize) -> Result<Vec<DirectoryEntry>, Errno> {
        let from = usize::try_from(position).unwrap_or(usize::MAX);
        let entry = |number: usize| DirectoryEntry {
            inode: self.link_inode(number as u64),
            file_type: Some(match self.view {
                View::Links => FileType::Symlink,
                View::Reports => FileType::Regular,
            }),
            name: format!("{number}").into_bytes(),
            next: number as u64 + 1,
        };
        let numbers = match self.subject.look_up(|task| task.files().descriptors(from, max)) {
            // A process that was not waited for has none.
            Err(Errno::ENOENT) if !self.subject.is_gone() => Vec::new(),
            numbers => numbers?,
        };
        Ok(numbers.into_iter().map(entry).collect())
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
        self.subject.look_up(|_| ())?;
        Ok(report::path_text(self.file.path(), caller.root))
    }
    fn follow(&self, _: &Caller<'_>) -> Result<Option<Path>, Errno> {
        self.subject.look_up(|_| ())?;
        Ok(Some(self.file.path().clone()))
    }
}

struct Report {
    subject: Subject,
    inode: u64,
    number: i32,
    file: Arc<OpenFile>,
}

impl Node for Report {
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Regular, 0o444, self.subject.owner())
    }
    fn generate(&self) -> Result<Vec<u8>, Errno> {
        let file = &self.file;
        let on_exec = self.subject.look_up(|task| task.files().on_exec(self.number))?;
        let is_closing = on_exec.unwrap_or(OnExec::Keep) == OnExec::Close;
        let flags = file.flags() | if is_closing { O_CLOEXEC } else { 0 };
        let position = if file.file().is_seekable() { file.offset() } else { 0 };
        let mut text = format!(
            "pos:\t{position}\nflags:\t0{flags:o}\nmnt_id:\t{}\nino:\t{}\n",
            file.path().mount.id(),
            file.vnode().inode()
        );
        for (number, lock) in (1..).zip(locks::report_of(file.vnode())) {
            text.push_str(&format!("lock:\t{number}: {lock}\n"));
        }
        text.push_str(&file.file().details());
        Ok(text.into_bytes())
    }
}
