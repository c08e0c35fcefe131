//! `/proc/PID` and `/proc/PID/task/TID`: directories of files about one process or thread.
use super::{
    attributes::ContextDirectory,
    descriptors::{Descriptors, View},
    items::parse_id,
    login, maps,
    memory_text::{LayoutPart, MemoryText, PageMap, WholeMemory},
    report, status,
    tree::{network_directory, network_inode},
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::file_system::{Attributes, DirectoryEntry, FileType, TakeEntry};
use memory::{AddressSpace, Dumpable};
use process::{
    Process, Task,
    trace::{self, Mode, Target},
    tree,
    visible::exists_for,
};
use vfs::{
    ChildCache, Errno, Path, Principal,
    credentials::Capabilities,
    digits::Digits,
    file::{File, POSITION_MAX, Places, Ready},
    generated::{self, Child, GENERATED_END, Node, Viewer, attributes},
    security::{self, Label},
};

/// A process, or one thread of it.
#[derive(Clone)]
pub struct Subject {
    /// The process of the directory.
    pub process: Arc<Process>,
    /// The thread, if the directory is that of one.
    pub thread: Option<Arc<Task>>,
}

impl Subject {
    /// Returns that thread, else the process's oldest; `None` if it has ended.
    pub fn task(&self) -> Option<Arc<Task>> {
        self.thread.clone().or_else(|| self.process.oldest_task())
    }
    /// Does the same as [`Subject::task`], and returns the first task of a process that has ended but
    /// was not waited for.
    pub fn known_task(&self) -> Option<Arc<Task>> {
        self.task().or_else(|| tree::known_task(self.process.id()))
    }
    /// Returns whether the process was waited for, or the thread has ended: its files no longer exist.
    pub fn is_gone(&self) -> bool {
        // A process with a task was not waited for.
        let is_known = self.process.task_count() > 0
            || tree::process(self.process.id())
                .is_some_and(|process| Arc::ptr_eq(&process, &self.process));
        let has_ended =
            |task: &Arc<Task>| task.id() != self.process.id() && !self.process.has_task(task);
        !is_known || self.thread.as_ref().is_some_and(has_ended)
    }
    /// Checks that its files exist for `viewer`.
    ///
    /// # Errors
    /// `error` if the process was waited for, if the thread has ended, or if the process does not exist for the viewer (any more).
    pub fn check_known(&self, viewer: &dyn Principal, error: Errno) -> Result<(), Errno> {
        let is_known = exists_for(&self.process, viewer) && !self.is_gone();
        if is_known { Ok(()) } else { Err(error) }
    }
    /// Checks that `writer` may still change the process, whose label may be another one than when its file was opened.
    fn check_change(&self, writer: &dyn Principal) -> Result<(), Errno> {
        Task::of(writer).map_or(Ok(()), |task| task.visible().check_change(&self.process))
    }
    /// Returns effective user and group as owner of its files; root if its own user may not inspect it.
    pub fn owner(&self) -> (u32, u32) {
        let memory = self.process.try_memory();
        match memory {
            Some(memory) if memory.dumpable() == Dumpable::Yes => self.user(),
            _ => (0, 0),
        }
    }
    /// Returns effective user and group as owner of its directory, which shows nothing secret.
    fn user(&self) -> (u32, u32) {
        self.known_task().map_or((0, 0), |task| {
            let credentials = task.credentials();
            (credentials.user.effective, credentials.group.effective)
        })
    }
    /// Returns the result of `take` for the task, if `caller` may inspect it ([`trace::look`]).
    ///
    /// # Errors
    /// `EACCES`; `ESRCH` if it has ended.
    pub fn look<T>(
        &self,
        caller: &dyn Principal,
        take: impl FnOnce(&Arc<Task>) -> T,
    ) -> Result<T, Errno> {
        let caller = Task::of(caller).ok_or(Errno::EACCES)?;
        let target = match &self.thread {
            Some(task) => Target::task(&self.process, task),
            None => Target::process(&self.process),
        };
        trace::look(caller, Mode::Files, target, take).map_err(|error| match error {
            Errno::EPERM => Errno::EACCES,
            other => other,
        })
    }
    /// Does the same as [`Subject::look`] for names in its directories: the names of a task that has
    /// ended do not exist.
    ///
    /// # Errors
    /// `EACCES`, `ENOENT`.
    pub fn look_up<T>(
        &self,
        caller: &dyn Principal,
        take: impl FnOnce(&Arc<Task>) -> T,
    ) -> Result<T, Errno> {
        self.look(caller, take).map_err(|error| match error {
            Errno::ESRCH => Errno::ENOENT,
            other => other,
        })
    }
    /// Returns the cache of its files. A thread has none, as its files would stay until its process
    /// ends.
    pub fn cache(&self) -> Option<&ChildCache> {
        self.thread.is_none().then_some(&self.process.files_about_it)
    }
    fn inode(&self, place: u64) -> u64 {
        inode(self.process.id(), self.thread.as_ref().map_or(0, |task| task.id()), place)
    }
}

/// Returns the inode number of entry `place` in a process's or thread's directory.
pub fn inode(process: u32, thread: u32, place: u64) -> u64 {
    u64::from(process) << 32 | u64::from(thread) << 8 | place
}

#[derive(Clone, Copy)]
enum Item {
    File(u16, fn(&Subject) -> Result<Vec<u8>, Errno>),
    /// A file that shows more to a reader that may inspect the process.
    Graded(u16, fn(&Subject, &dyn Principal) -> Result<Vec<u8>, Errno>),
    /// A file that only tasks that may inspect the process may open and read.
    Secret(u16, fn(&Subject) -> Result<Vec<u8>, Errno>),
    /// A file about the address space at the time of its opening, for tasks that might inspect the
    /// process then.
    Map(MapText),
    Memory(MemoryView),
    Link(fn(&Task) -> Option<Path>),
    Descriptors(View),
    Threads,
    Network,
    /// A directory in systems with a monitor.
    Contexts,
}

const ITEMS: &[(&str, Item)] = &[
    ("stat", Item::Graded(0o444, report::stat)),
    ("status", Item::File(0o444, status::status)),
    ("statm", Item::File(0o444, report::statm)),
    ("cmdline", Item::File(0o444, report::cmdline)),
    ("comm", Item::File(0o644, report::comm)),
    ("environ", Item::Memory(MemoryView::Part(|layout| layout.environment))),
    ("auxv", Item::Memory(MemoryView::Part(|layout| layout.auxiliary))),
    ("mem", Item::Memory(MemoryView::Whole)),
    ("pagemap", Item::Memory(MemoryView::Pages)),
    ("cgroup", Item::File(0o444, |_| Ok(Vec::new()))),
    ("loginuid", Item::File(0o644, login::user)),
    ("sessionid", Item::File(0o444, login::session)),
    ("uid_map", Item::File(0o444, report::identity_map)),
    ("gid_map", Item::File(0o444, report::identity_map)),
    ("setgroups", Item::File(0o444, |_| Ok(b"allow\n".to_vec()))),
    ("coredump_filter", Item::File(0o444, |_| Ok(b"00000033\n".to_vec()))),
    ("timerslack_ns", Item::File(0o444, |_| Ok(b"50000\n".to_vec()))),
    ("mountstats", Item::Secret(0o400, report::mountstats)),
    ("personality", Item::Secret(0o400, report::personality)),
    ("maps", Item::Map(maps::maps)),
    ("smaps", Item::Map(maps::details)),
    ("smaps_rollup", Item::Map(maps::sums)),
    ("io", Item::Secret(0o400, report::io)),
    ("limits", Item::File(0o444, report::limits)),
    ("mounts", Item::File(0o444, report::mounts)),
    ("mountinfo", Item::File(0o444, report::mountinfo)),
    ("wchan", Item::File(0o444, |_| Ok(b"0".to_vec()))),
    ("oom_score", Item::File(0o444, report::oom_score)),
    ("oom_score_adj", Item::File(0o644, report::oom_adjustment)),
    ("exe", Item::Link(report::executable)),
    ("cwd", Item::Link(|task| Some(task.fs().working()))),
    ("root", Item::Link(|task| Some(task.fs().root()))),
    ("fd", Item::Descriptors(View::Links)),
    ("fdinfo", Item::Descriptors(View::Reports)),
    ("task", Item::Threads),
    ("net", Item::Network),
    (CHILDREN, Item::Graded(0o444, report::children)),
    ("attr", Item::Contexts),
];

/// Number of the directories that both a process and a thread have: `fd`, `fdinfo`, `net`.
const DIRECTORIES: u32 = 3;
/// Name of the one file that a thread has and a process has not.
const CHILDREN: &str = "children";
/// Files with the same content for all processes: they can be read after the process has ended.
const COMMON: [&str; 6] = ["uid_map", "gid_map", "setgroups", "mounts", "mountinfo", "mountstats"];

/// The directory of a process or thread.
pub struct ProcessDirectory {
    subject: Subject,
    place: DirectoryPlace,
}

/// The place of a directory of a process or thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DirectoryPlace {
    /// A directory in `/proc`.
    Root,
    /// A directory in the `task` directory of its process.
    Tasks,
}

impl ProcessDirectory {
    /// Makes `/proc/PID`.
    pub fn of_process(process: Arc<Process>) -> ProcessDirectory {
        ProcessDirectory { subject: Subject { process, thread: None }, place: DirectoryPlace::Root }
    }
    /// Makes `/proc/TID`, which is not listed.
    pub fn of_thread(task: Arc<Task>) -> ProcessDirectory {
        let subject = Subject { process: task.process.clone(), thread: Some(task) };
        ProcessDirectory { subject, place: DirectoryPlace::Root }
    }
    /// Returns the entries of this directory: one in `task` has no `task`, and only such a one has
    /// `children`.
    fn items(&self) -> impl Iterator<Item = (usize, &'static (&'static str, Item))> {
        let place = self.place;
        ITEMS.iter().enumerate().filter(move |(_, (name, item))| match item {
            Item::Threads => place == DirectoryPlace::Root,
            Item::Contexts => security::is_enforced(),
            _ => *name != CHILDREN || place == DirectoryPlace::Tasks,
        })
    }
    fn find(&self, wanted: &[u8]) -> Option<(usize, &'static (&'static str, Item))> {
        self.items().find(|(_, (known, _))| known.as_bytes() == wanted)
    }
}

/// Permissions of the directory of a process or thread.
const PERMISSIONS: u16 = 0o555;

fn type_of(item: &Item) -> FileType {
    match item {
        Item::File(..) | Item::Graded(..) | Item::Secret(..) | Item::Map(_) | Item::Memory(_) => {
            FileType::Regular
        }
        Item::Link(_) => FileType::Symlink,
        Item::Descriptors(_) | Item::Threads | Item::Network | Item::Contexts => {
            FileType::Directory
        }
    }
}

fn place(index: usize) -> u64 {
    index as u64 + 1
}

impl Node for ProcessDirectory {
    fn label(&self) -> Option<&'static Label> {
        Some(self.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        let links = 2
            + DIRECTORIES
            + u32::from(self.place == DirectoryPlace::Root)
            + u32::from(security::is_enforced());
        let user = self.subject.user();
        let known = attributes(self.subject.inode(0), FileType::Directory, PERMISSIONS, user);
        Attributes { links, ..known }
    }
    fn permissions(&self) -> u16 {
        PERMISSIONS
    }
    fn subject(&self) -> Option<&dyn core::any::Any> {
        Some(&self.subject)
    }
    fn with_cache(&self, wanted: &[u8], _: &dyn Principal, act: &mut dyn FnMut(&ChildCache, u64)) {
        if let Some(cache) = self.subject.cache()
            && let Some((index, _)) = self.find(wanted)
        {
            act(cache, place(index));
        }
    }
    fn lookup(&self, wanted: &[u8], viewer: &Viewer<'_>) -> Result<Child, Errno> {
        let (index, &(name, ref item)) = self.find(wanted).ok_or(Errno::ENOENT)?;
        self.subject.check_known(viewer.task, Errno::ENOENT)?;
        let (subject, inode) = (self.subject.clone(), self.subject.inode(place(index)));
        Ok(match *item {
            Item::File(permissions, content) => {
                let content = FileContent::Open(content);
                Arc::new(ProcessFile { subject, inode, name, permissions, content })
            }
            Item::Graded(permissions, content) => {
                let content = FileContent::Graded(content);
                Arc::new(ProcessFile { subject, inode, name, permissions, content })
            }
            Item::Secret(permissions, content) => {
                let content = FileContent::Secret(content);
                Arc::new(ProcessFile { subject, inode, name, permissions, content })
            }
            Item::Map(text) => Arc::new(MapFile { subject, inode, text }),
            Item::Memory(view) => Arc::new(MemoryFile { subject, inode, view }),
            Item::Link(target) => Arc::new(ProcessLink { subject, inode, target }),
            Item::Descriptors(view) => Arc::new(Descriptors::new(subject, inode, view)),
            Item::Threads => Arc::new(Threads { subject, inode }),
            Item::Network => network_directory(),
            Item::Contexts => Arc::new(ContextDirectory::new(subject, inode)),
        })
    }
    fn entries(
        &self,
        position: u64,
        caller: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        self.subject.check_known(caller, Errno::ENOENT)?;
        let entry = |(index, (name, item)): (usize, &'static (&str, Item))| DirectoryEntry {
            inode: match item {
                Item::Network => network_inode(),
                _ => self.subject.inode(place(index)),
            },
            file_type: Some(type_of(item)),
            name: name.as_bytes(),
            next: place(index),
        };
        let mut later = self.items().filter(|(index, _)| place(*index) > position).map(entry);
        let _ = later.try_for_each(|entry| take(&entry));
        Ok(())
    }
}

#[derive(Clone)]
struct ProcessFile {
    subject: Subject,
    inode: u64,
    name: &'static str,
    permissions: u16,
    content: FileContent,
}

/// The function that makes the content of a file, by the readers that it is for.
#[derive(Clone, Copy)]
enum FileContent {
    /// Any reader.
    Open(fn(&Subject) -> Result<Vec<u8>, Errno>),
    /// Any reader, to which more or less is shown.
    Graded(fn(&Subject, &dyn Principal) -> Result<Vec<u8>, Errno>),
    /// Tasks that may inspect the process.
    Secret(fn(&Subject) -> Result<Vec<u8>, Errno>),
}

impl Node for ProcessFile {
    fn label(&self) -> Option<&'static Label> {
        Some(self.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Regular, self.permissions, self.subject.owner())
    }
    /// Files whose contents Linux makes in one piece have an end.
    fn places(&self) -> Places {
        match self.name {
            "oom_score_adj" => Places::UpTo(POSITION_MAX),
            "cmdline" | "loginuid" | "sessionid" | "coredump_filter" => Places::UpTo(GENERATED_END),
            _ => Places::Endless,
        }
    }
    fn open(&self, _: u32, opener: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        if let FileContent::Secret(_) = self.content {
            self.subject.look(opener, |_| ())?;
        }
        if let "mounts" | "mountinfo" = self.name {
            let task = self.subject.task().ok_or(Errno::EINVAL)?;
            let fs = task.fs();
            let changes = fs.namespace().changes();
            let quiet = Ready::IN | Ready::READ_NORMAL;
            return Ok(Some(generated::watched_file_of(Arc::new(self.clone()), changes, quiet)));
        }
        Ok(None)
    }
    fn generate(&self, reader: &dyn Principal) -> Result<Vec<u8>, Errno> {
        if !COMMON.contains(&self.name) {
            self.subject.check_known(reader, Errno::ESRCH)?;
        }
        match self.content {
            FileContent::Open(content) => content(&self.subject),
            FileContent::Graded(content) => content(&self.subject, reader),
            FileContent::Secret(content) => {
                // The check is repeated: the process may have executed another program since the file was
                // opened.
                self.subject.look(reader, |_| ())?;
                content(&self.subject)
            }
        }
    }
    fn write(&self, data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
        self.subject.check_change(writer)?;
        match self.name {
            "comm" => report::set_comm(&self.subject, data, writer),
            "oom_score_adj" => report::set_oom_adjustment(&self.subject, data, writer),
            _ => Err(Errno::EINVAL),
        }
    }
    fn write_at(&self, offset: u64, data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
        self.subject.check_change(writer)?;
        match self.name {
            "loginuid" => login::set_user(&self.subject, offset, data, writer),
            _ => self.write(data, writer),
        }
    }
}

/// Returns the memory of `subject`, if `opener` may inspect it; an empty reference if it has
/// none or has ended.
fn memory_of(subject: &Subject, opener: &dyn Principal) -> Result<Weak<AddressSpace>, Errno> {
    match subject.look(opener, |task| task.process.try_memory()) {
        Ok(Some(memory)) => Ok(Arc::downgrade(&memory)),
        Ok(None) | Err(Errno::ESRCH) => Ok(Weak::new()),
        Err(error) => Err(error),
    }
}

/// Function that makes a text about memory; it gets `None` if the memory has ended.
type MapText = fn(&Subject, Option<&AddressSpace>) -> Result<Vec<u8>, Errno>;

struct MapFile {
    subject: Subject,
    inode: u64,
    text: MapText,
}

impl Node for MapFile {
    fn label(&self) -> Option<&'static Label> {
        Some(self.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Regular, 0o444, self.subject.owner())
    }
    fn open(&self, _: u32, opener: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        let memory = memory_of(&self.subject, opener)?;
        let (subject, inode, text) = (self.subject.clone(), self.inode, self.text);
        Ok(Some(generated::file_of(Arc::new(OpenMap { subject, inode, text, memory }))))
    }
}

/// An open [`MapFile`].
struct OpenMap {
    subject: Subject,
    inode: u64,
    text: MapText,
    memory: Weak<AddressSpace>,
}

impl Node for OpenMap {
    fn label(&self) -> Option<&'static Label> {
        Some(self.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Regular, 0o444, self.subject.owner())
    }
    fn generate(&self, reader: &dyn Principal) -> Result<Vec<u8>, Errno> {
        self.subject.check_known(reader, Errno::ESRCH)?;
        (self.text)(&self.subject, self.memory.upgrade().as_deref())
    }
}

/// The views of memory in files.
#[derive(Clone, Copy)]
enum MemoryView {
    /// A part of memory, shown by [`MemoryText`].
    Part(LayoutPart),
    /// All memory, shown by [`WholeMemory`].
    Whole,
    /// The mappings, shown by [`PageMap`].
    Pages,
}

struct MemoryFile {
    subject: Subject,
    inode: u64,
    view: MemoryView,
}

impl Node for MemoryFile {
    fn label(&self) -> Option<&'static Label> {
        Some(self.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        let permissions = if matches!(self.view, MemoryView::Whole) { 0o600 } else { 0o400 };
        attributes(self.inode, FileType::Regular, permissions, self.subject.owner())
    }
    fn open(&self, _: u32, opener: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        let memory = memory_of(&self.subject, opener)?;
        if let MemoryView::Part(part) = self.view {
            return Ok(Some(Arc::new(MemoryText::new(memory, part))));
        }
        if let MemoryView::Whole = self.view {
            return Ok(Some(Arc::new(WholeMemory(memory))));
        }
        let shows_frames = opener.has(Capabilities::SYS_ADMIN);
        Ok(Some(Arc::new(PageMap { memory, shows_frames })))
    }
}

struct ProcessLink {
    subject: Subject,
    inode: u64,
    target: fn(&Task) -> Option<Path>,
}

impl ProcessLink {
    fn place(&self, caller: &dyn Principal) -> Result<Path, Errno> {
        self.subject.look_up(caller, |task| (self.target)(task))?.ok_or(Errno::ENOENT)
    }
}

impl Node for ProcessLink {
    fn label(&self) -> Option<&'static Label> {
        Some(self.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Symlink, 0o777, self.subject.owner())
    }
    fn read_link(&self, viewer: &Viewer<'_>) -> Result<Vec<u8>, Errno> {
        Ok(report::path_text(&self.place(viewer.task)?, viewer.root))
    }
    fn follow(&self, viewer: &Viewer<'_>) -> Result<Option<Path>, Errno> {
        self.place(viewer.task).map(Some)
    }
}

/// The directory `/proc/PID/task`.
struct Threads {
    subject: Subject,
    inode: u64,
}

impl Threads {
    /// Returns the ids of the threads, including the first one until the process was waited for.
    fn threads(&self) -> Vec<u32> {
        let process = &self.subject.process;
        let mut ids = process.task_ids();
        if !ids.contains(&process.id()) && !self.subject.is_gone() {
            ids.push(process.id());
        }
        ids.sort_unstable();
        ids
    }
}

impl Node for Threads {
    fn label(&self) -> Option<&'static Label> {
        Some(self.subject.process.label())
    }
    fn attributes(&self) -> Attributes {
        let links = 2 + self.threads().len() as u32;
        let user = self.subject.user();
        Attributes { links, ..attributes(self.inode, FileType::Directory, 0o555, user) }
    }
    fn lookup(&self, name: &[u8], _: &Viewer<'_>) -> Result<Child, Errno> {
        let id = parse_id(name).ok_or(Errno::ENOENT)?;
        let process = self.subject.process.clone();
        if !self.threads().contains(&id) {
            return Err(Errno::ENOENT);
        }
        let alive = process.tasks().into_iter().find(|task| task.id() == id);
        // The first thread is listed even if it has ended.
        let thread = alive.or_else(|| tree::known_task(id));
        let subject = Subject { process, thread };
        Ok(Arc::new(ProcessDirectory { subject, place: DirectoryPlace::Tasks }))
    }
    fn entries(
        &self,
        position: u64,
        caller: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        self.subject.check_known(caller, Errno::ENOENT)?;
        let process = self.subject.process.id();
        let mut later = self.threads().into_iter().filter(|id| u64::from(*id) > position);
        let _ = later.try_for_each(|id| {
            take(&DirectoryEntry {
                inode: inode(process, id, 0),
                file_type: Some(FileType::Directory),
                name: Digits::decimal(id.into()).bytes(),
                next: u64::from(id),
            })
        });
        Ok(())
    }
}
