//! Every process, task, process group and session by number, and the relations of parents and children.
//!
//! One reader/writer lock guards all of it (`process.tree`); it is the outermost lock of the
//! personality and held only for map operations, for sending signals to a group, and while a child
//! changes and its parent is told ([`crate::signal::stop`]).
use crate::{io_counts::Count, object::Process, signal::number::SIGCHLD, task::Task};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use hashbrown::HashMap;
use memory::setting::Setting;
use rt::{
    lock_class,
    sync::{Once, ReadGuard, RwLock, WriteGuard},
};
use vfs::{
    Errno, Principal,
    security::{Level, SecuritySubject},
};

lock_class! {
    static TREE_LOCK = "process.tree";
}

/// The first process, which waits for every orphan.
pub const INIT: u32 = 1;
/// Ids are below this (`/proc/sys/kernel/pid_max`, with Linux's default and bounds).
pub static ID_MAX: Setting = Setting::new(32768, 301, ID_LIMIT);
const ID_LIMIT: i64 = 1 << 22;
/// The greatest number of tasks, if that was set (`/proc/sys/kernel/threads-max`); 0 means that memory decides.
pub static TASKS_MAX: Setting = Setting::new(0, 1, i32::MAX as i64);
const ID_FIRST_AFTER_WRAP: u32 = 300;

/// A process with its children.
pub struct ProcessNode {
    /// The process.
    pub process: Arc<Process>,
    /// Ids of its children, oldest first.
    pub children: Vec<u32>,
    /// Its first task, once that has ended: its scheduling can be queried until the process was waited
    /// for.
    ended_leader: Option<Arc<Task>>,
    /// Its count against its user's limit: one for the process until it was waited for, and one for each
    /// further thread.
    tasks: u64,
    /// The slot of the level at which it is counted.
    level: usize,
}

/// A real user at a level: limits hold for each level alone, so that they tell nothing of others (K1).
type Owner = u64;

fn owner(user: u32, level: usize) -> Owner {
    u64::from(user) | (level as u64) << 32
}

impl ProcessNode {
    fn owner(&self) -> Owner {
        owner(self.process.real_user(), self.level)
    }
}

/// Processes, tasks, groups and sessions by number.
#[derive(Default)]
pub struct Tree {
    nodes: BTreeMap<u32, ProcessNode>,
    tasks: HashMap<u32, Arc<Task>>,
    groups: Members,
    sessions: Members,
    /// Counts of each real user's processes at each level (`RLIMIT_NPROC`).
    users: HashMap<Owner, u64>,
    /// The id that a task got last, by the slot of its level.
    last: Vec<u32>,
    forks: u64,
}

/// Process ids by the group or session of which they are members; no list is empty.
#[derive(Default)]
struct Members(HashMap<u32, Vec<u32>>);

impl Members {
    fn of(&self, id: u32) -> impl Iterator<Item = u32> {
        self.0.get(&id).into_iter().flatten().copied()
    }
    fn has(&self, id: u32) -> bool {
        self.0.contains_key(&id)
    }
    fn insert(&mut self, id: u32, member: u32) {
        self.0.entry(id).or_default().push(member);
    }
    /// Most members leave soon after they were added, so the search begins at the end.
    fn remove(&mut self, id: u32, member: u32) {
        let Some(members) = self.0.get_mut(&id) else { return };
        let place = members.iter().rposition(|other| *other == member);
        place.map(|place| members.swap_remove(place));
        if members.is_empty() {
            self.0.remove(&id);
        }
    }
}

static TREE: Once<RwLock<Tree>> = Once::new();

fn tree() -> &'static RwLock<Tree> {
    TREE.get_or_init(|| RwLock::new(&TREE_LOCK, Tree::default()))
}

/// Locks the tree for reading.
pub fn read() -> ReadGuard<'static, Tree> {
    tree().read()
}

/// Locks the tree for changes.
pub fn write() -> WriteGuard<'static, Tree> {
    tree().write()
}

/// Returns the process `id`, zombies included.
pub fn process(id: u32) -> Option<Arc<Process>> {
    read().process(id)
}

/// Returns the task `id` if it is alive.
pub fn task(id: u32) -> Option<Arc<Task>> {
    read().tasks.get(&id).cloned()
}

/// Returns the task that the calling thread runs, for hooks that no caller is passed to; `None` on the personality's own threads. Every
/// task is looked at: a map would make each fork dearer.
pub fn running() -> Option<Arc<Task>> {
    let thread = rt::thread::current();
    read().tasks.values().find(|task| task.thread() == thread).cloned()
}

/// Returns the task `id` if it is alive, or the first task of the process `id` even if it has ended.
pub fn known_task(id: u32) -> Option<Arc<Task>> {
    let tree = read();
    tree.tasks.get(&id).or_else(|| tree.nodes.get(&id)?.ended_leader.as_ref()).cloned()
}

/// Returns whether `task` has not ended.
pub fn is_alive(task: &Arc<Task>) -> bool {
    self::task(task.id()).is_some_and(|now| Arc::ptr_eq(&now, task))
}

/// Returns the process `id`, or the one to which task `id` belongs.
pub fn process_of(id: u32) -> Option<Arc<Process>> {
    let tree = read();
    tree.process(id).or_else(|| tree.tasks.get(&id).map(|task| task.process.clone()))
}

/// Returns whether `process` was not waited for yet: its number is still its own.
pub fn is_there(process: &Arc<Process>) -> bool {
    self::process(process.id()).is_some_and(|now| Arc::ptr_eq(&now, process))
}

/// Moves a process, with its count, to real user `user`.
pub fn set_real_user(process: &Process, user: u32) {
    if process.real_user() == user {
        return;
    }
    let mut tree = write();
    let Tree { nodes, users, .. } = &mut *tree;
    if let Some(node) = nodes.get(&process.id()) {
        release(users, node.owner(), node.tasks);
        *users.entry(owner(user, node.level)).or_default() += node.tasks;
    }
    process.set_real_user(user);
}

/// Moves a process, with its count, to `level`.
pub fn set_level(process: &Process, level: &Level) {
    let mut tree = write();
    let Tree { nodes, users, .. } = &mut *tree;
    if let Some(node) = nodes.get_mut(&process.id()) {
        release(users, node.owner(), node.tasks);
        node.level = level.slot();
        *users.entry(node.owner()).or_default() += node.tasks;
    }
}

/// Makes the range of ids so large that the part of each level is enough for all tasks.
pub fn give_levels_room() {
    ID_MAX.put(ID_LIMIT);
}

/// Returns the most tasks: those for which an eighth of memory has room with 16 KiB each, as on Linux.
pub fn tasks_max() -> u64 {
    const FRAMES_A_TASK: u64 = 32;
    const LEAST: u64 = 20;
    const MOST: u64 = 32768;
    static MAX: Once<u64> = Once::new();
    let from_memory = || rt::memory::statistics().total_frames / FRAMES_A_TASK;
    match TASKS_MAX.size() {
        0 => *MAX.get_or_init(|| from_memory().clamp(LEAST, MOST)),
        set => set as u64,
    }
}

/// Returns the last id that a task of the caller's level got; `NOBODY` is of the kernel's.
pub fn last_id_for(caller: &dyn Principal) -> u32 {
    let own = Task::of(caller).map(|task| task.process.level());
    read().last_id(own.unwrap_or_else(|| SecuritySubject::kernel().level()))
}

impl Tree {
    /// Returns a number that is not in use for a process, task, group or session that a subject of `level` makes.
    ///
    /// # Errors
    /// `EAGAIN` if all of the level are taken.
    pub fn allocate_id(&mut self, level: &Level) -> Result<u32, Errno> {
        let part = level.part(0..ID_MAX.size() as u32);
        let first = part.start.max(ID_FIRST_AFTER_WRAP);
        let mut last = self.last_id(level);
        for _ in part.clone() {
            last = if part.contains(&(last + 1)) { last + 1 } else { first };
            if !self.is_used(last) {
                self.forks += 1;
                if level.is_one_of_many() {
                    level.note_fork();
                }
                self.set_last_id(level, last);
                return Ok(last);
            }
        }
        Err(Errno::EAGAIN)
    }
    /// Makes the next number of a level the first free one after `last`.
    pub fn set_last_id(&mut self, level: &Level, last: u32) {
        if self.last.len() <= level.slot() {
            self.last.resize(level.slot() + 1, 0);
        }
        if let Some(known) = self.last.get_mut(level.slot()) {
            *known = last;
        }
    }
    fn is_used(&self, id: u32) -> bool {
        self.nodes.contains_key(&id)
            || self.tasks.contains_key(&id)
            || self.groups.has(id)
            || self.sessions.has(id)
    }
    /// Takes `id` without a check, for the first process, which is of `level`.
    pub fn reserve(&mut self, level: &Level, id: u32) {
        self.set_last_id(level, self.last_id(level).max(id));
        self.forks += 1;
    }
    /// Returns the processes of a level, ordered by id.
    pub fn of_level(&self, level: &Level) -> Vec<Arc<Process>> {
        let is_of_level = |process: &&Arc<Process>| core::ptr::eq(process.level(), level);
        self.processes().filter(is_of_level).cloned().collect()
    }
    /// Returns the number of processes and threads made since boot (`/proc/stat`).
    pub fn forks(&self) -> u64 {
        self.forks
    }
    /// Returns the last id that a task of a level got (`/proc/loadavg`).
    pub fn last_id(&self, level: &Level) -> u32 {
        self.last.get(level.slot()).copied().unwrap_or(0)
    }
    /// Returns the number of tasks that are alive.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }
    /// Returns the process `id`.
    pub fn process(&self, id: u32) -> Option<Arc<Process>> {
        self.nodes.get(&id).map(|node| node.process.clone())
    }
    /// Returns every process, ordered by id.
    pub fn processes(&self) -> impl Iterator<Item = &Arc<Process>> {
        self.nodes.values().map(|node| &node.process)
    }
    /// Returns the tasks of `processes`, including first tasks that have ended.
    ///
    /// # Locks
    /// `process.signals` of each.
    pub fn known_tasks<'a>(
        &self,
        processes: impl Iterator<Item = &'a Arc<Process>>,
    ) -> Vec<Arc<Task>> {
        let ended = |process: &Process| self.nodes.get(&process.id())?.ended_leader.clone();
        processes.flat_map(|process| process.tasks().into_iter().chain(ended(process))).collect()
    }
    /// Returns the children of `id`, oldest first.
    pub fn children(&self, id: u32) -> impl Iterator<Item = &Arc<Process>> {
        let children = self.nodes.get(&id).map_or(&[][..], |node| &node.children);
        children.iter().filter_map(|child| self.nodes.get(child).map(|node| &node.process))
    }
    /// Returns the process `id`, if it is a child of `parent`.
    pub fn child(&self, parent: u32, id: u32) -> Option<&Arc<Process>> {
        let process = self.nodes.get(&id).map(|node| &node.process);
        process.filter(|process| process.parent_id() == parent)
    }
    /// Returns the processes of group `group`.
    pub fn group(&self, group: u32) -> impl Iterator<Item = &Arc<Process>> {
        self.listed(self.groups.of(group))
    }
    /// Returns the processes of session `session`.
    pub fn session(&self, session: u32) -> impl Iterator<Item = &Arc<Process>> {
        self.listed(self.sessions.of(session))
    }
    fn listed(&self, ids: impl Iterator<Item = u32>) -> impl Iterator<Item = &Arc<Process>> {
        ids.filter_map(|id| self.nodes.get(&id).map(|node| &node.process))
    }
    /// Returns the count of real user `user` at `level`: threads, and processes that were not waited for.
    pub fn user_tasks(&self, user: u32, level: &Level) -> u64 {
        self.users.get(&owner(user, level.slot())).copied().unwrap_or(0)
    }
    /// Returns whether the group has a member.
    pub fn has_group(&self, group: u32) -> bool {
        self.groups.has(group)
    }
    /// Adds a process, as its parent's youngest child.
    pub fn insert(&mut self, process: Arc<Process>) {
        let id = process.id();
        self.groups.insert(process.group(), id);
        self.sessions.insert(process.session().id(), id);
        let level = process.level().slot();
        *self.users.entry(owner(process.real_user(), level)).or_default() += 1;
        if let Some(parent) = self.nodes.get_mut(&process.parent_id()) {
            parent.children.push(id);
        }
        self.nodes.insert(
            id,
            ProcessNode { process, children: Vec::new(), ended_leader: None, tasks: 1, level },
        );
    }
    /// Removes a process that was waited for.
    pub fn remove(&mut self, process: &Process) {
        let Some(node) = self.nodes.remove(&process.id()) else { return };
        if process.level().is_one_of_many() {
            let (own, io) = {
                let usage = process.usage.lock();
                (usage.own, usage.io)
            };
            let switches = own.voluntary_switches + own.forced_switches;
            let [read, written] = [Count::BytesRead, Count::BytesWritten].map(|count| io.of(count));
            process.level().note_end([own.user_ns, own.system_ns, switches, read, written]);
        }
        release(&mut self.users, node.owner(), node.tasks);
        if let Some(parent) = self.nodes.get_mut(&process.parent_id()) {
            let place = parent.children.iter().position(|child| *child == process.id());
            place.map(|place| parent.children.remove(place));
        }
        self.groups.remove(process.group(), process.id());
        self.sessions.remove(process.session().id(), process.id());
    }
    /// Adds a task, of a process that was added.
    pub fn insert_task(&mut self, task: Arc<Task>) {
        let process = &task.process;
        if let Some(node) = self.nodes.get_mut(&process.id()) {
            if task.id() == process.id() {
                node.ended_leader = None;
            } else {
                node.tasks += 1;
                *self.users.entry(node.owner()).or_default() += 1;
            }
        }
        self.tasks.insert(task.id(), task);
    }
    /// Removes a task that ended.
    pub fn remove_task(&mut self, id: u32) {
        let Some(task) = self.tasks.remove(&id) else { return };
        let process = &task.process;
        let Some(node) = self.nodes.get_mut(&process.id()) else { return };
        if id == process.id() {
            node.ended_leader = Some(task);
        } else {
            node.tasks -= 1;
            release(&mut self.users, node.owner(), 1);
        }
    }
    /// Moves every child of `id` to `heir`, which is told of their ends by SIGCHLD, whatever signal they
    /// were made with. Returns the children.
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
        self.groups.remove(process.group(), process.id());
        self.groups.insert(group, process.id());
        process.group.store(group, Ordering::Relaxed);
    }
    /// Makes `process` leader of a new session and group.
    pub fn start_session(&mut self, process: &Process) {
        self.sessions.remove(process.session().id(), process.id());
        self.sessions.insert(process.id(), process.id());
        process.set_session(Arc::new(super::session::Session::new(process.id())));
        process.set_terminal(None);
        self.set_group(process, process.id());
    }
    /// Returns whether no member of `group` has a parent in another group of the same session, so that no
    /// process could continue it (POSIX "orphaned process group"). `without` is a process about to end.
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

fn release(counts: &mut HashMap<Owner, u64>, owner: Owner, fewer: u64) {
    if let Some(count) = counts.get_mut(&owner) {
        *count = count.saturating_sub(fewer);
        if *count == 0 {
            counts.remove(&owner);
        }
    }
}
