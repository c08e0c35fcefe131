//! fork, vfork and clone: making tasks and processes.
use crate::{
    files::{OnExec, install::reserve, sharing::FsHold},
    limits::Resource,
    object::{Process, ProcessParts},
    pidfd, run,
    signal::{
        action::Dispositions,
        number::{LAST, SIGCHLD},
        state::{self, TaskSignals},
    },
    status::ExitStatus,
    task::{Task, TaskParts, attention},
    tree,
};
use alloc::{format, sync::Arc, vec, vec::Vec};
use bitflags::bitflags;
use core::sync::atomic::Ordering;
use memory::AddressSpace;
use rt::{
    sync::Mutex,
    user::{Bases, Context},
};
use vfs::{Errno, credentials::Capabilities};

bitflags! {
    /// `CLONE_` flags with Linux's values, without the exit signal.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CloneFlags: u64 {
        /// `CLONE_VM`
        const VM = 0x100;
        /// `CLONE_FS`
        const FS = 0x200;
        /// `CLONE_FILES`
        const FILES = 0x400;
        /// `CLONE_SIGHAND`
        const SIGHAND = 0x800;
        /// `CLONE_PIDFD`
        const PIDFD = 0x1000;
        /// `CLONE_PTRACE`
        const PTRACE = 0x2000;
        /// `CLONE_VFORK`
        const VFORK = 0x4000;
        /// `CLONE_PARENT`
        const PARENT = 0x8000;
        /// `CLONE_THREAD`
        const THREAD = 0x1_0000;
        /// `CLONE_NEWNS`
        const NEWNS = 0x2_0000;
        /// `CLONE_SYSVSEM`
        const SYSVSEM = 0x4_0000;
        /// `CLONE_SETTLS`
        const SETTLS = 0x8_0000;
        /// `CLONE_PARENT_SETTID`
        const PARENT_SETTID = 0x10_0000;
        /// `CLONE_CHILD_CLEARTID`
        const CHILD_CLEARTID = 0x20_0000;
        /// `CLONE_DETACHED`
        const DETACHED = 0x40_0000;
        /// `CLONE_UNTRACED`
        const UNTRACED = 0x80_0000;
        /// `CLONE_CHILD_SETTID`
        const CHILD_SETTID = 0x100_0000;
        /// `CLONE_NEWCGROUP`
        const NEWCGROUP = 0x200_0000;
        /// `CLONE_NEWUTS`
        const NEWUTS = 0x400_0000;
        /// `CLONE_NEWIPC`
        const NEWIPC = 0x800_0000;
        /// `CLONE_NEWUSER`
        const NEWUSER = 0x1000_0000;
        /// `CLONE_NEWTIME`
        const NEWTIME = 0x80;
        /// `CLONE_NEWPID`
        const NEWPID = 0x2000_0000;
        /// `CLONE_NEWNET`
        const NEWNET = 0x4000_0000;
        /// `CLONE_IO`
        const IO = 0x8000_0000;
        /// `CLONE_CLEAR_SIGHAND`
        const CLEAR_SIGHAND = 0x1_0000_0000;
        /// `CLONE_INTO_CGROUP`
        const INTO_CGROUP = 0x2_0000_0000;
    }
}

/// The flags that ask for namespaces, which are not supported.
const NAMESPACES: CloneFlags = CloneFlags::NEWNS
    .union(CloneFlags::NEWCGROUP)
    .union(CloneFlags::NEWUTS)
    .union(CloneFlags::NEWIPC)
    .union(CloneFlags::NEWUSER)
    .union(CloneFlags::NEWTIME)
    .union(CloneFlags::NEWPID)
    .union(CloneFlags::NEWNET);

/// The arguments of clone.
#[derive(Clone, Copy, Debug)]
pub struct CloneRequest {
    /// The flags: shared objects and options.
    pub flags: CloneFlags,
    /// Address in the parent's memory to which the descriptor of `CLONE_PIDFD` is written.
    pub pidfd: u64,
    /// Signal for the parent at the end; 0 means none.
    pub exit_signal: u8,
    /// Stack pointer of the child; 0 means the parent's.
    pub stack: u64,
    /// Address in the parent's memory to which the id is written.
    pub parent_tid: u64,
    /// Address in the child's memory that gets the id and is cleared when the child ends.
    pub child_tid: u64,
    /// FS base of the child.
    pub tls: u64,
}

impl CloneRequest {
    /// Makes the request of fork(2).
    pub fn fork() -> CloneRequest {
        CloneRequest {
            flags: CloneFlags::empty(),
            pidfd: 0,
            exit_signal: SIGCHLD,
            stack: 0,
            parent_tid: 0,
            child_tid: 0,
            tls: 0,
        }
    }
    fn check(&self, task: &Task) -> Result<(), Errno> {
        let flags = self.flags;
        let has = |flag| flags.contains(flag);
        let is_nonsense = has(CloneFlags::SIGHAND) && !has(CloneFlags::VM)
            || has(CloneFlags::THREAD) && !has(CloneFlags::SIGHAND)
            || has(CloneFlags::FS | CloneFlags::NEWNS)
            || has(CloneFlags::SIGHAND | CloneFlags::CLEAR_SIGHAND)
            || has(CloneFlags::PIDFD)
                && flags.intersects(CloneFlags::THREAD | CloneFlags::DETACHED)
            || has(CloneFlags::PARENT) && task.process.parent_id() == 0
            || self.exit_signal > LAST;
        if is_nonsense || has(CloneFlags::INTO_CGROUP) {
            return Err(Errno::EINVAL);
        }
        check_namespaces(task, flags)
    }
}

/// Refuses flags that ask for namespaces, which are not supported, with the error that a privileged or unprivileged caller
/// gets.
pub fn check_namespaces(task: &Task, flags: CloneFlags) -> Result<(), Errno> {
    if !flags.intersects(NAMESPACES) {
        return Ok(());
    }
    let is_privileged = task.credentials().has(Capabilities::SYS_ADMIN);
    Err(if is_privileged { Errno::EINVAL } else { Errno::EPERM })
}

/// Makes the child and starts it; returns its id. A vfork parent waits until the child has left the memory.
///
/// # Errors
/// `EINVAL`, `EPERM` for flags; `EPERM` for a segment base outside the addresses of programs; `EAGAIN` for too many
/// processes, `ENOMEM`.
pub fn clone(task: &Arc<Task>, context: &Context, request: &CloneRequest) -> Result<u64, Errno> {
    request.check(task)?;
    check_process_limit(task)?;
    if request.flags.contains(CloneFlags::SETTLS) && request.tls >= rt::user::USER_END {
        return Err(Errno::EPERM);
    }
    let child = make(task, request)?;
    let id = child.id();
    let opened = write_ids(task, &child, request).and_then(|()| open_pidfd(task, &child, request));
    let started = opened.and_then(|fd| {
        let (context, bases) = (child_context(context, request), child_bases(request));
        start(&child, context, bases).inspect_err(|_| {
            fd.map(|fd| task.files().close(fd, &**task));
        })
    });
    if let Err(errno) = started {
        unmake(&child);
        return Err(errno);
    }
    if request.flags.contains(CloneFlags::VFORK) {
        wait_left(task, &child);
    }
    Ok(u64::from(id))
}

fn check_process_limit(task: &Task) -> Result<(), Errno> {
    let credentials = task.credentials();
    let tree = tree::read();
    if tree.task_count() as u64 >= tree::tasks_max() {
        return Err(Errno::EAGAIN);
    }
    let owner = credentials.user.real;
    let is_limited = owner != 0
        && !credentials.has(Capabilities::SYS_RESOURCE)
        && !credentials.has(Capabilities::SYS_ADMIN);
    let limit = task.process.limits.soft(Resource::Processes);
    match is_limited && tree.user_tasks(owner, task.process.level()) >= limit {
        true => Err(Errno::EAGAIN),
        false => Ok(()),
    }
}

fn make(task: &Arc<Task>, request: &CloneRequest) -> Result<Arc<Task>, Errno> {
    let parts = task_parts(task, request)?;
    if request.flags.contains(CloneFlags::THREAD) {
        return make_thread(task, parts, request);
    }
    if request.flags.contains(CloneFlags::VM) {
        return make_process(task, parts, request, Some(task.memory()));
    }
    let memory = task.memory().fork()?;
    let child = make_process(task, parts, request, Some(memory.clone()))?;
    memory.set_owner(child.process.as_owner());
    Ok(child)
}

fn task_parts(task: &Task, request: &CloneRequest) -> Result<TaskParts, Errno> {
    let files = match request.flags.contains(CloneFlags::FILES) {
        true => task.files(),
        false => Arc::new(task.files().duplicate()?),
    };
    let fs = match request.flags.contains(CloneFlags::FS) {
        true => FsHold::join(task.fs())?,
        false => FsHold::first(Arc::new(task.fs().duplicate())),
    };
    let keeps_stack =
        !request.flags.contains(CloneFlags::VM) || request.flags.contains(CloneFlags::VFORK);
    let (mask, stack) = {
        let signals = task.signals.lock();
        (signals.mask, signals.stack)
    };
    let mut signals = TaskSignals::inherited(mask);
    if keeps_stack {
        signals.stack = stack;
    }
    Ok(TaskParts { files, fs, credentials: task.credentials(), command: task.command(), signals })
}

fn new_task(
    creator: &Task,
    id: u32,
    process: Arc<Process>,
    parts: TaskParts,
    request: &CloneRequest,
) -> Arc<Task> {
    let child = Task::new(id, process, parts);
    child.inherit_scheduling(creator);
    child.login.inherit(&creator.login);
    if !request.flags.contains(CloneFlags::VM) {
        child.rseq.copy(&creator.rseq);
    }
    if request.flags.contains(CloneFlags::SYSVSEM) {
        child.share_undo_list(creator);
    }
    if request.flags.contains(CloneFlags::CHILD_CLEARTID) {
        child.clear_child_tid.store(request.child_tid, Ordering::Relaxed);
    }
    Arc::new(child)
}

fn make_thread(
    task: &Arc<Task>,
    parts: TaskParts,
    request: &CloneRequest,
) -> Result<Arc<Task>, Errno> {
    let level = parts.credentials.subject.level();
    let mut tree = tree::write();
    let id = tree.allocate_id(level)?;
    let child = new_task(task, id, task.process.clone(), parts, request);
    let mut state = task.process.signals.lock();
    if task.is_ending() || state.exit.is_some() || state.exec.is_some() {
        return Err(Errno::Restart);
    }
    if state.stop != state::StopState::Running {
        child.raise_attention(attention::STOP);
    }
    child.inherit_confinement(task);
    state.tasks.push(child.clone());
    tree.insert_task(child.clone());
    Ok(child)
}

fn make_process(
    task: &Arc<Task>,
    parts: TaskParts,
    request: &CloneRequest,
    memory: Option<Arc<AddressSpace>>,
) -> Result<Arc<Task>, Errno> {
    let from = &task.process;
    let actions = child_actions(from, request);
    let owner = parts.credentials.user.real;
    let credentials = parts.credentials.clone();
    let mut tree = tree::write();
    // A caller that kills all processes of a kind must not miss a child.
    if task.is_ending() {
        return Err(Errno::Restart);
    }
    let parent =
        if request.flags.contains(CloneFlags::PARENT) { from.parent_id() } else { from.id() };
    let id = tree.allocate_id(credentials.subject.level())?;
    let process = Arc::new(Process::new(
        id,
        ProcessParts {
            upcalls: from.upcalls,
            parent,
            group: from.group(),
            session: from.session(),
            memory,
            actions,
            limits: from.limits.clone(),
            exit_signal: request.exit_signal,
            owner,
            subject: &credentials.subject,
        },
    ));
    let maker = match request.flags.contains(CloneFlags::PARENT) {
        true => from.parent_thread.load(Ordering::Relaxed),
        false => task.id(),
    };
    process.parent_thread.store(maker, Ordering::Relaxed);
    task.has_children.store(true, Ordering::Relaxed);
    process.inherit_attributes(from);
    process.is_borrowing.store(request.flags.contains(CloneFlags::VM), Ordering::Relaxed);
    let child = new_task(task, id, process.clone(), parts, request);
    child.inherit_confinement(task);
    process.signals.lock().tasks.push(child.clone());
    tree.insert(process);
    tree.insert_task(child.clone());
    Ok(child)
}

fn child_actions(from: &Process, request: &CloneRequest) -> Arc<Mutex<Dispositions>> {
    let shared = from.signals.lock().actions.clone();
    if request.flags.contains(CloneFlags::SIGHAND) {
        return shared;
    }
    let mut copy = shared.lock().clone();
    if request.flags.contains(CloneFlags::CLEAR_SIGHAND) {
        copy.reset_for_exec();
    }
    Dispositions::shared(copy)
}

/// Opens the descriptor of `CLONE_PIDFD`, and writes its number to the parent's memory.
fn open_pidfd(task: &Task, child: &Task, request: &CloneRequest) -> Result<Option<i32>, Errno> {
    if !request.flags.contains(CloneFlags::PIDFD) {
        return Ok(None);
    }
    let files = task.files();
    let descriptor = reserve(task, &files, OnExec::Close)?;
    let file = pidfd::open(task, &child.process, 0)?;
    let fd = descriptor.number();
    task.memory().write_bytes(request.pidfd, &fd.to_le_bytes())?;
    // The child may use the descriptor at once, if it shares the table.
    descriptor.fill(file);
    Ok(Some(fd))
}

/// Writes the child's id to where the request says. As on Linux, a bad address is no error.
fn write_ids(task: &Task, child: &Task, request: &CloneRequest) -> Result<(), Errno> {
    let id = child.id().to_le_bytes();
    let write = |memory: &AddressSpace, at: u64| match memory.write_bytes(at, &id) {
        Err(Errno::Refused) => Err(Errno::Refused),
        _ => Ok(()),
    };
    if request.flags.contains(CloneFlags::PARENT_SETTID) {
        write(&task.memory(), request.parent_tid)?;
    }
    if request.flags.contains(CloneFlags::CHILD_SETTID) {
        write(&child.memory(), request.child_tid)?;
    }
    Ok(())
}

fn child_context(parent: &Context, request: &CloneRequest) -> Context {
    let mut context = parent.clone();
    context.registers.rax = 0;
    if request.stack != 0 {
        context.registers.rsp = request.stack;
    }
    context
}

fn child_bases(request: &CloneRequest) -> Bases {
    let bases = rt::user::bases();
    if request.flags.contains(CloneFlags::SETTLS) {
        return Bases { fs: request.tls, ..bases };
    }
    bases
}

/// Starts the child's thread with a copy of the caller's extended state.
fn start(child: &Arc<Task>, context: Context, bases: Bases) -> Result<(), Errno> {
    let mut extended: Vec<u8> = vec![0; rt::user::extended_bytes()];
    let _ = rt::user::save_extended(&mut extended);
    start_thread(child, move |task| {
        // The image is the state of this thread; if a back end refuses it, the initial state stays.
        let _ = rt::user::load_extended(&extended);
        drop(extended);
        rt::user::set_bases(bases);
        run::run(task, context);
    })
}

/// Starts the thread of `child`, and registers it: the creator may continue before it runs, and change its scheduling.
fn start_thread(
    child: &Arc<Task>,
    body: impl FnOnce(&Arc<Task>) + Send + 'static,
) -> Result<(), Errno> {
    let policy = child.own_policy();
    let task = child.clone();
    let thread = rt::thread::spawn(&format!("task {}", child.id()), policy, move || {
        task.set_thread(rt::thread::current());
        task.follow_scheduling(policy);
        body(&task);
    })?;
    child.set_thread(thread);
    Ok(())
}

/// Makes a process without memory for a creator in the kernel. Its thread runs `body`, which loads a program into it
/// (exec), and then enters user mode; if `body` fails the process exits with 127.
///
/// # Errors
/// Those of [`clone`].
pub fn spawn(
    task: &Arc<Task>,
    request: &CloneRequest,
    body: impl FnOnce(&Arc<Task>, &mut Context) -> Result<(), Errno> + Send + 'static,
) -> Result<u32, Errno> {
    let parts = task_parts(task, request)?;
    let child = make_process(task, parts, request, None)?;
    begin(&child, body)?;
    Ok(child.id())
}

/// Starts the first task of a process without memory, as [`spawn`] describes.
///
/// # Errors
/// `ENOMEM`, `EAGAIN`; the process does not exist then.
pub(super) fn begin(
    task: &Arc<Task>,
    body: impl FnOnce(&Arc<Task>, &mut Context) -> Result<(), Errno> + Send + 'static,
) -> Result<(), Errno> {
    const NOT_EXECUTED: ExitStatus = ExitStatus::Exited(127);
    let started = start_thread(task, move |own| {
        let mut context = Context::default();
        if let Err(errno) = body(own, &mut context) {
            log::error!("process {} could not be started: {errno:?}", own.id());
            super::exit::end_task(own, NOT_EXECUTED);
        }
        run::run(own, context);
    });
    started.inspect_err(|_| unmake(task))
}

/// Removes a child whose thread could not be started.
fn unmake(child: &Arc<Task>) {
    let process = &child.process;
    let mut tree = tree::write();
    tree.remove_task(child.id());
    process.signals.lock().tasks.retain(|task| !Arc::ptr_eq(task, child));
    if child.id() == process.id() {
        tree.remove(process);
        let parent = tree.process(process.parent_id());
        drop(tree);
        process.files_about_it.close();
        drop(process.set_memory(None));
        // Another thread of the parent may wait for this child.
        if let Some(parent) = parent {
            parent.child_event.signal();
        }
    }
}

/// Waits until `child`, a process's first task or a thread of the caller's process, has executed or ended; only the
/// caller's own end interrupts that (Linux `wait_for_vfork_done`).
fn wait_left(task: &Task, child: &Task) {
    loop {
        let ticket = child.left_memory.ticket();
        if child.has_left_memory() || task.is_ending() {
            return;
        }
        child.left_memory.wait_interruptible(ticket, None);
    }
}
