//! `/proc/PID/fd`, a magic link for each descriptor, and `/proc/PID/fdinfo`, a file for each.
use super::{items::parse_id, process::Subject, report};
use alloc::{format, sync::Arc, vec::Vec};
use interfaces::file_system::{Attributes, DirectoryEntry, FileType, TakeEntry};
use linux_raw_sys::general::O_CLOEXEC;
use process::{Task, files::OnExec, locks};
use vfs::{
    ChildCache, Errno, OpenFile, Path, Principal,
    digits::Digits,
    generated::{Child, Node, Viewer, attributes},
    security::Label,
};

/// The two directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The directory `fd`.
    Links,
    /// The directory `fdinfo`.
    Reports,
}

/// A directory of descriptors.
pub struct Descriptors {
    subject: Subject,
    inode: u64,
    view: View,
}

impl Descriptors {
    /// Makes the directory of `subject`.
    pub fn new(subject: Subject, inode: u64, view: View) -> Descriptors {
        Descriptors { subject, inode, view }
    }
    fn link_inode(&self, descriptor: u64) -> u64 {
        const SHIFT: u32 = 40;
        self.inode ^ (descriptor + 1) << SHIFT
    }
}

impl Node for Descriptors {
    fn label(&self) -> Option<&'static Label> {
        Some(self.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Directory, self.permissions(), self.subject.owner())
    }
    /// A process may use the directory of its own descriptors even if its files belong to root (after
    /// setuid), as on Linux.
    fn is_open_to(&self, caller: &dyn Principal) -> bool {
        self.view == View::Links
            && Task::of(caller)
                .is_some_and(|caller| Arc::ptr_eq(&caller.process, &self.subject.process))
    }
    fn permissions(&self) -> u16 {
        if self.view == View::Links { 0o500 } else { 0o555 }
    }
    fn with_cache(
        &self,
        name: &[u8],
        caller: &dyn Principal,
        act: &mut dyn FnMut(&ChildCache, u64),
    ) {
        if let Some(cache) = self.subject.cache()
            && let Some(number) = parse(name)
            && let Ok(Ok(_)) = self.subject.look_up(caller, |task| task.files().get(number))
        {
            act(cache, number as u64);
        }
    }
    fn lookup(&self, name: &[u8], viewer: &Viewer<'_>) -> Result<Child, Errno> {
        let number = parse(name).ok_or(Errno::ENOENT)?;
        let inode = self.link_inode(number as u64);
        let one = Descriptor { subject: self.subject.clone(), inode, number };
        one.file(viewer.task)?;
        Ok(match self.view {
            View::Links => Arc::new(DescriptorLink(one)),
            View::Reports => Arc::new(Report(one)),
        })
    }
    fn entries(
        &self,
        position: u64,
        caller: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        let from = usize::try_from(position).unwrap_or(usize::MAX);
        let file_type = Some(match self.view {
            View::Links => FileType::Symlink,
            View::Reports => FileType::Regular,
        });
        let mut take_number = |number: usize| {
            take(&DirectoryEntry {
                inode: self.link_inode(number as u64),
                file_type,
                name: Digits::decimal(number as u64).bytes(),
                next: number as u64 + 1,
            })
        };
        let visited = self
            .subject
            .look_up(caller, |task| task.files().visit_descriptors(from, &mut take_number));
        match visited {
            // A process that was not waited for has no descriptors, and an empty directory.
            Err(Errno::ENOENT) if !self.subject.is_gone() => Ok(()),
            visited => visited.map(drop),
        }
    }
}

/// Parses a descriptor's number, without leading zeroes.
fn parse(name: &[u8]) -> Option<i32> {
    match name {
        b"0" => Some(0),
        _ => parse_id(name).and_then(|number| number.try_into().ok()),
    }
}

/// The node of a descriptor of a process. It is looked up at each use: the descriptor may have been closed or
/// reused.
struct Descriptor {
    subject: Subject,
    inode: u64,
    number: i32,
}

impl Descriptor {
    /// Returns its file, if `caller` may inspect the process.
    ///
    /// # Errors
    /// `EACCES`, `ENOENT`.
    fn file(&self, caller: &dyn Principal) -> Result<Arc<OpenFile>, Errno> {
        let found = self.subject.look_up(caller, |task| task.files().get(self.number))?;
        found.map_err(|_| Errno::ENOENT)
    }
}

struct DescriptorLink(Descriptor);

impl Node for DescriptorLink {
    fn label(&self) -> Option<&'static Label> {
        Some(self.0.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        let Descriptor { subject, inode, number } = &self.0;
        let file = subject.task().and_then(|task| task.files().get(*number).ok());
        let has = |may: fn(&OpenFile) -> bool| file.as_ref().is_some_and(|file| may(file));
        let readable = if has(OpenFile::is_readable) { 0o500 } else { 0 };
        let writable = if has(OpenFile::is_writable) { 0o300 } else { 0 };
        let mut link = attributes(*inode, FileType::Symlink, readable | writable, subject.owner());
        const LINK_BYTES: u64 = 64;
        link.size = LINK_BYTES;
        link
    }
    fn read_link(&self, viewer: &Viewer<'_>) -> Result<Vec<u8>, Errno> {
        Ok(report::path_text(self.0.file(viewer.task)?.path(), viewer.root))
    }
    fn follow(&self, viewer: &Viewer<'_>) -> Result<Option<Path>, Errno> {
        Ok(Some(self.0.file(viewer.task)?.path().clone()))
    }
}

struct Report(Descriptor);

impl Node for Report {
    fn label(&self) -> Option<&'static Label> {
        Some(self.0.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        attributes(self.0.inode, FileType::Regular, 0o444, self.0.subject.owner())
    }
    fn generate(&self, reader: &dyn Principal) -> Result<Vec<u8>, Errno> {
        let Descriptor { subject, number, .. } = &self.0;
        let found = subject.look_up(reader, |task| {
            let files = task.files();
            files.get(*number).map(|file| (file, files.on_exec(*number)))
        })?;
        let (file, on_exec) = found.map_err(|_| Errno::ENOENT)?;
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
