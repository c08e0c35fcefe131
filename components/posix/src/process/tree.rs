//! Every process, task, process group and session by number, and the family ties.
//!
//! One reader/writer lock guards all of it (`process.tree`); it is the outermost lock of the
//! personality and held only for map operations, for sending signals to a group, and while a child
//! changes and its parent is told ([`crate::signal::stop`]).
use super::{Process, Task};
use crate::signal::SIGCHLD;
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use hashbrown::HashMap;
use rt::{
    lock_class,
    sync::{Once, ReadGuard, RwLock, WriteGuard},
};
use vfs::Errno;

lock_class! {
    static TREE_LOCK = "process.tree";
}

/// The first process, which waits for every orphan.
pub const INIT: u32 = 1;
/// Ids are below this (Linux's default `pid_max`).
pub const ID_MAX: u32 = 32768;
const ID_FIRST_AFTER_WRAP: u32 = 300;

/// A process with its children.
pub struct Node {
    /// The process.
    pub process: Arc<Process>,
    /// Ids of its children, oldest first.
    pub children: Vec<u32>,
}

/// The maps.
#[derive(Default)]
pub struct Tree {
    nodes: BTreeMap<u32, Node>,
    tasks: HashMap<u32, Arc<Task>>,
    groups: HashMap<u32, usize>,
    sessions: HashMap<u32, usize>,
    last: u32,
    forks: u64,
}

static TREE: Once<RwLock<Tree>> = Once::new();

fn tree() -> &'static RwLock<Tree> {
    TREE.get_or_init(|| RwLock::new(&TREE_LOCK, Tree::default()))
}

/// Looks into the tree.
pub fn read() -> ReadGuard<'static, Tree> {
    tree().read()
}

/// Changes the tree.
pub fn write() -> WriteGuard<'static, Tree> {
    tree().write()
}

/// The process `id`, zombies included.
pub fn process(id: u32) -> Option<Arc<Process>> {
    read().process(id)
}

/// The task `id` if it is alive.
pub fn task(id: u32) -> Option<Arc<Task>> {
    read().tasks.get(&id).cloned()
}

/// The process `id`, or the one that task `id` is of.
pub fn process_of(id: u32) -> Option<Arc<Process>> {
    let tree = read();
    tree.process(id).or_else(|| tree.tasks.get(&id).map(|task| task.process.clone()))
}

/// `process` was not waited for yet: its number is still its own.
pub fn is_there(process: &Arc<Process>) -> bool {
    self::process(process.id()).is_some_and(|now| Arc::ptr_eq(&now, process))
}

/// Tasks there may be: as many as an eighth of memory has room for with 16 KiB each, Linux's measure.
pub fn tasks_max() -> u64 {
    const FRAMES_A_TASK: u64 = 32;
    const LEAST: u64 = 20;
    static MAX: Once<u64> = Once::new();
    let from_memory = || rt::memory::statistics().total_frames / FRAMES_A_TASK;
    *MAX.get_or_init(|| from_memory().clamp(LEAST, u64::from(ID_MAX)))
}

impl Tree {
    /// A number nobody uses as process, task, group or session.
    ///
    /// # Errors
    /// `EAGAIN` if all are taken.
    pub fn allocate_id(&mut self) -> Result<u32, Errno> {
        for _ in 0..ID_MAX {
            self.last = if self.last + 1 >= ID_MAX { ID_FIRST_AFTER_WRAP } else { self.last + 1 };
            if !self.is_used(self.last) {
                self.forks += 1;
                return Ok(self.last);
            }
        }
        Err(Errno::EAGAIN)
    }
    fn is_used(&self, id: u32) -> bool {
        self.nodes.contains_key(&id)
            || self.tasks.contains_key(&id)
            || self.groups.contains_key(&id)
            || self.sessions.contains_key(&id)
    }
    /// Takes `id` without asking: for the first process.
    pub fn reserve(&mut self, id: u32) {
        self.last = self.last.max(id);
        self.forks += 1;
    }
    /// Processes and threads made since boot (`/proc/stat`).
    pub fn forks(&self) -> u64 {
        self.forks
    }
    /// The last id given out (`/proc/loadavg`).
    pub fn last_id(&self) -> u32 {
        self.last
    }
    /// Tasks alive.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }
    /// The process `id`.
    pub fn process(&self, id: u32) -> Option<Arc<Process>> {
        self.nodes.get(&id).map(|node| node.process.clone())
    }
    /// Every process, by id.
    pub fn processes(&self) -> impl Iterator<Item = &Arc<Process>> {
        self.nodes.values().map(|node| &node.process)
    }
    /// The children of `id`, oldest first.
    pub fn children(&self, id: u32) -> impl Iterator<Item = &Arc<Process>> {
        let children = self.nodes.get(&id).map_or(&[][..], |node| &node.children);
        children.iter().filter_map(|child| self.nodes.get(child).map(|node| &node.process))
    }
    /// The processes of group `group`.
    pub fn group(&self, group: u32) -> impl Iterator<Item = &Arc<Process>> {
        self.processes().filter(move |process| process.group() == group)
    }
    /// The processes of session `session`.
    pub fn session(&self, session: u32) -> impl Iterator<Item = &Arc<Process>> {
        self.processes().filter(move |process| process.session().id() == session)
    }
    /// The group has a member.
    pub fn has_group(&self, group: u32) -> bool {
        self.groups.contains_key(&group)
    }
    /// Adds a process, as its parent's youngest child.
    pub fn insert(&mut self, process: Arc<Process>) {
        let id = process.id();
        *self.groups.entry(process.group()).or_default() += 1;
        *self.sessions.entry(process.session().id()).or_default() += 1;
        if let Some(parent) = self.nodes.get_mut(&process.parent_id()) {
            parent.children.push(id);
        }
        self.nodes.insert(id, Node { process, children: Vec::new() });
    }
    /// Takes away a process that was waited for.
    pub fn remove(&mut self, process: &Process) {
        self.nodes.remove(&process.id());
        if let Some(parent) = self.nodes.get_mut(&process.parent_id()) {
            parent.children.retain(|child| *child != process.id());
        }
        release(&mut self.groups, process.group());
        release(&mut self.sessions, process.session().id());
    }
    /// Adds a task.
    pub fn insert_task(&mut self, task: Arc<Task>) {
        self.tasks.insert(task.id(), task);
    }
    /// Takes away a task that ended.
    pub fn remove_task(&mut self, id: u32) {
        self.tasks.remove(&id);
    }
    /// Gives every child of `id` to `heir`, who is told of their ends by SIGCHLD whatever they
    /// were made with; returns the children.
    pub fn reparent(&mut self, id: u32, heir: u32) -> Vec<Arc<Process>> {
        let children = self
            .nodes
            .get_mut(&id)
            .map(|node| core::mem::take(&mut node.children))
            .unwrap_or_default();
        let moved: Vec<_> = children.iter().filter_map(|child| self.process(*child)).collect();
        for child in &moved {
            child.parent.store(heir, Ordering::Relaxed);
            child.exit_signal.store(SIGCHLD, Ordering::Relaxed);
        }
        if let Some(heir) = self.nodes.get_mut(&heir) {
            heir.children.extend(children);
        }
        moved
    }
    /// Moves a process to another group.
    pub fn set_group(&mut self, process: &Process, group: u32) {
        release(&mut self.groups, process.group());
        *self.groups.entry(group).or_default() += 1;
        process.group.store(group, Ordering::Relaxed);
    }
    /// Makes `process` leader of a new session and group.
    pub fn start_session(&mut self, process: &Process) {
        release(&mut self.sessions, process.session().id());
        *self.sessions.entry(process.id()).or_default() += 1;
        process.set_session(Arc::new(super::session::Session::new(process.id())));
        process.set_terminal(None);
        self.set_group(process, process.id());
    }
    /// No member of `group` has a parent in another group of the same session: nobody could
    /// continue it (POSIX "orphaned process group"). `without` is a process about to end.
    pub fn is_orphaned(&self, group: u32, without: Option<u32>) -> bool {
        !self.group(group).any(|member| {
            Some(member.id()) != without
                && member.ended().is_none()
                && self.process(member.parent_id()).is_some_and(|parent| {
                    parent.id() != INIT
                        && parent.group() != group
                        && parent.session().id() == member.session().id()
                })
        })
    }
}

fn release(counts: &mut HashMap<u32, usize>, id: u32) {
    if let Some(count) = counts.get_mut(&id) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&id);
        }
    }
}
