//! `/proc/PID` and `/proc/PID/task/TID`: directories of files about one process or thread.
use super::{
    descriptors::{Descriptors, View},
    maps,
    memory_text::{MemoryText, PageMap, Part, WholeMemory},
    report, status,
    tree::parse_id,
};
use crate::process::{Process, Task, trace};
use alloc::{
    format,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::Ordering;
use interfaces::file_system::{Attributes, DirectoryEntry, FileType};
use vfs::{
    Caller, Errno, Path,
    credentials::Capabilities,
    file::File,
    generated::{Child, Node, attributes},
};

/// A process, or one thread of it.
#[derive(Clone)]
pub struct Subject {
    /// The process.
    pub process: Arc<Process>,
    /// The thread, where one was named.
    pub thread: Option<Arc<Task>>,
}

impl Subject {
    /// The thread named, else the process's oldest; none if it has ended.
    pub fn task(&self) -> Option<Arc<Task>> {
        self.thread.clone().or_else(|| self.process.tasks().first().cloned())
    }
    /// Effective user and group; root's for what may not be read by its own user.
    pub fn owner(&self) -> (u32, u32) {
        let is_dumpable = self.process.is_dumpable.load(Ordering::Relaxed);
        match self.task() {
            Some(task) if is_dumpable => {
                let credentials = task.credentials();
                (credentials.user.effective, credentials.group.effective)
            }
            _ => (0, 0),
        }
    }
    /// `caller` may look at memory, files and places of the process.
    pub fn check_access(&self, caller: &Caller<'_>) -> Result<(), Errno> {
        let is_own =
            caller.process == self.process.id() || caller.credentials.user.fs == self.owner().0;
        if is_own || caller.credentials.has(Capabilities::SYS_PTRACE) {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }
    fn inode(&self, place: u64) -> u64 {
        inode(self.process.id(), self.thread.as_ref().map_or(0, |task| task.id()), place)
    }
}

/// Inode number of place `place` in a process's or thread's directory.
pub fn inode(process: u32, thread: u32, place: u64) -> u64 {
    u64::from(process) << 32 | u64::from(thread) << 8 | place
}

#[derive(Clone, Copy)]
enum Item {
    File(u16, fn(&Subject) -> Result<Vec<u8>, Errno>),
    /// To be opened by who may look into the process alone.
    Secret(u16, fn(&Subject) -> Result<Vec<u8>, Errno>),
    Memory(MemoryView),
    Link(fn(&Subject) -> Option<Path>),
    Descriptors(View),
    Threads,
}

const ITEMS: &[(&str, Item)] = &[
    ("stat", Item::File(0o444, report::stat)),
    ("status", Item::File(0o444, status::status)),
    ("statm", Item::File(0o444, report::statm)),
    ("cmdline", Item::File(0o444, report::cmdline)),
    ("comm", Item::File(0o644, report::comm)),
    ("environ", Item::Memory(MemoryView::Part(|layout| layout.environment))),
    ("auxv", Item::Memory(MemoryView::Part(|layout| layout.auxiliary))),
    ("mem", Item::Memory(MemoryView::Whole)),
    ("pagemap", Item::Memory(MemoryView::Pages)),
    ("cgroup", Item::File(0o444, |_| Ok(Vec::new()))),
    ("loginuid", Item::File(0o444, |_| Ok(b"4294967295".to_vec()))),
    ("sessionid", Item::File(0o444, |_| Ok(b"4294967295".to_vec()))),
    ("uid_map", Item::File(0o444, report::identity_map)),
    ("gid_map", Item::File(0o444, report::identity_map)),
    ("setgroups", Item::File(0o444, |_| Ok(b"allow\n".to_vec()))),
    ("coredump_filter", Item::File(0o444, |_| Ok(b"00000033\n".to_vec()))),
    ("timerslack_ns", Item::File(0o444, |_| Ok(b"50000\n".to_vec()))),
    ("mountstats", Item::Secret(0o400, report::mountstats)),
    ("personality", Item::Secret(0o400, report::personality)),
    ("maps", Item::Secret(0o444, maps::maps)),
    ("smaps", Item::Secret(0o444, maps::details)),
    ("smaps_rollup", Item::Secret(0o444, maps::sums)),
    ("io", Item::Secret(0o400, report::io)),
    ("limits", Item::File(0o444, report::limits)),
    ("mounts", Item::File(0o444, report::mounts)),
    ("mountinfo", Item::File(0o444, report::mountinfo)),
    ("wchan", Item::File(0o444, |_| Ok(b"0".to_vec()))),
    ("oom_score", Item::File(0o444, report::oom_score)),
    ("oom_score_adj", Item::File(0o644, report::oom_adjustment)),
    ("exe", Item::Link(report::executable)),
    ("cwd", Item::Link(|subject| Some(subject.task()?.fs().working()))),
    ("root", Item::Link(|subject| Some(subject.task()?.fs().root()))),
    ("fd", Item::Descriptors(View::Links)),
    ("fdinfo", Item::Descriptors(View::Reports)),
    ("task", Item::Threads),
];

/// The directory of a process or thread.
pub struct ProcessDirectory(Subject);

impl ProcessDirectory {
    /// `/proc/PID`.
    pub fn of_process(process: Arc<Process>) -> ProcessDirectory {
        ProcessDirectory(Subject { process, thread: None })
    }
    /// Names of this directory: a thread's has no `task`.
    fn items(&self) -> impl Iterator<Item = (usize, &'static (&'static str, Item))> {
        let is_thread = self.0.thread.is_some();
        ITEMS
            .iter()
            .enumerate()
            .filter(move |(_, (_, item))| !(is_thread && matches!(item, Item::Threads)))
    }
}

fn type_of(item: &Item) -> FileType {
    match item {
        Item::File(..) | Item::Secret(..) | Item::Memory(_) => FileType::Regular,
        Item::Link(_) => FileType::Symlink,
        Item::Descriptors(_) | Item::Threads => FileType::Directory,
    }
}

fn place(index: usize) -> u64 {
    index as u64 + 1
}

impl Node for ProcessDirectory {
    fn attributes(&self) -> Attributes {
        attributes(self.0.inode(0), FileType::Directory, 0o555, self.0.owner())
    }
    fn subject(&self) -> Option<&dyn core::any::Any> {
        Some(&self.0)
    }
    fn lookup(&self, wanted: &[u8], _: &Caller<'_>) -> Result<Child, Errno> {
        let (index, &(name, ref item)) =
            self.items().find(|(_, (known, _))| known.as_bytes() == wanted).ok_or(Errno::ENOENT)?;
        let (subject, inode) = (self.0.clone(), self.0.inode(place(index)));
        Ok(match *item {
            Item::File(permissions, content) | Item::Secret(permissions, content) => {
                let is_secret = matches!(item, Item::Secret(..));
                Arc::new(ProcessFile { subject, inode, name, permissions, is_secret, content })
            }
            Item::Memory(view) => Arc::new(MemoryFile { subject, inode, view }),
            Item::Link(target) => Arc::new(ProcessLink { subject, inode, target }),
            Item::Descriptors(view) => Arc::new(Descriptors::new(subject, inode, view)),
            Item::Threads => Arc::new(Threads { subject, inode }),
        })
    }
    fn entries(&self, position: u64, max: usize) -> Result<Vec<DirectoryEntry>, Errno> {
        let entry = |(index, (name, item)): (usize, &(&str, Item))| DirectoryEntry {
            inode: self.0.inode(place(index)),
            file_type: Some(type_of(item)),
            name: name.as_bytes().to_vec(),
            next: place(index),
        };
        Ok(self
            .items()
            .filter(|(index, _)| place(*index) > position)
            .take(max)
            .map(entry)
            .collect())
    }
}

struct ProcessFile {
    subject: Subject,
    inode: u64,
    name: &'static str,
    permissions: u16,
    is_secret: bool,
    content: fn(&Subject) -> Result<Vec<u8>, Errno>,
}

impl Node for ProcessFile {
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Regular, self.permissions, self.subject.owner())
    }
    fn open(&self, _: u32) -> Result<Option<Arc<dyn File>>, Errno> {
        if self.is_secret {
            check_insight(&self.subject)?;
        }
        Ok(None)
    }
    fn generate(&self) -> Result<Vec<u8>, Errno> {
        (self.content)(&self.subject)
    }
    fn write(&self, data: &[u8]) -> Result<(), Errno> {
        match self.name {
            "comm" => report::set_comm(&self.subject, data),
            "oom_score_adj" => report::set_oom_adjustment(&self.subject, data),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The caller may look into the process.
fn check_insight(subject: &Subject) -> Result<(), Errno> {
    let own = crate::process::current().ok_or(Errno::EACCES)?;
    trace::check(&own, &subject.process).map_err(|_| Errno::EACCES)
}

/// What a file shows of memory.
#[derive(Clone, Copy)]
enum MemoryView {
    /// By [`MemoryText`].
    Part(Part),
    /// By [`WholeMemory`].
    Whole,
    /// By [`PageMap`].
    Pages,
}

struct MemoryFile {
    subject: Subject,
    inode: u64,
    view: MemoryView,
}

impl Node for MemoryFile {
    fn attributes(&self) -> Attributes {
        let permissions = if matches!(self.view, MemoryView::Whole) { 0o600 } else { 0o400 };
        attributes(self.inode, FileType::Regular, permissions, self.subject.owner())
    }
    fn open(&self, _: u32) -> Result<Option<Arc<dyn File>>, Errno> {
        let memory = self.subject.process.try_memory();
        let memory = memory.as_ref().map_or_else(Weak::new, Arc::downgrade);
        if let MemoryView::Part(part) = self.view {
            return Ok(Some(Arc::new(MemoryText::new(memory, part))));
        }
        check_insight(&self.subject)?;
        if let MemoryView::Whole = self.view {
            return Ok(Some(Arc::new(WholeMemory(memory))));
        }
        let opener = crate::process::current().ok_or(Errno::EACCES)?;
        let shows_frames = opener.credentials().has(Capabilities::SYS_ADMIN);
        Ok(Some(Arc::new(PageMap { memory, shows_frames })))
    }
}

struct ProcessLink {
    subject: Subject,
    inode: u64,
    target: fn(&Subject) -> Option<Path>,
}

impl Node for ProcessLink {
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Symlink, 0o777, self.subject.owner())
    }
    fn read_link(&self, caller: &Caller<'_>) -> Result<Vec<u8>, Errno> {
        self.subject.check_access(caller)?;
        let path = (self.target)(&self.subject).ok_or(Errno::ENOENT)?;
        Ok(report::path_text(&path, caller.root))
    }
    fn follow(&self, caller: &Caller<'_>) -> Result<Option<Path>, Errno> {
        self.subject.check_access(caller)?;
        (self.target)(&self.subject).map(Some).ok_or(Errno::ENOENT)
    }
}

/// `/proc/PID/task`.
struct Threads {
    subject: Subject,
    inode: u64,
}

impl Node for Threads {
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Directory, 0o555, self.subject.owner())
    }
    fn lookup(&self, name: &[u8], _: &Caller<'_>) -> Result<Child, Errno> {
        let id = parse_id(name).ok_or(Errno::ENOENT)?;
        let thread = self
            .subject
            .process
            .tasks()
            .into_iter()
            .find(|task| task.id() == id)
            .ok_or(Errno::ENOENT)?;
        Ok(Arc::new(ProcessDirectory(Subject {
            process: self.subject.process.clone(),
            thread: Some(thread),
        })))
    }
    fn entries(&self, position: u64, max: usize) -> Result<Vec<DirectoryEntry>, Errno> {
        let mut ids: Vec<u32> = self.subject.process.tasks().iter().map(|task| task.id()).collect();
        ids.sort_unstable();
        let process = self.subject.process.id();
        let entry = |id: u32| DirectoryEntry {
            inode: inode(process, id, 0),
            file_type: Some(FileType::Directory),
            name: format!("{id}").into_bytes(),
            next: u64::from(id),
        };
        Ok(ids.into_iter().filter(|id| u64::from(*id) > position).take(max).map(entry).collect())
    }
}
