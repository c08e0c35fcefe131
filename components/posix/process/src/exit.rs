//! The end of tasks and processes: zombies, orphans, and reports to parents.
use crate::{
    files::sharing::FsHold,
    futex,
    object::{Process, add_time, ticks},
    oom, power, profile,
    signal::{
        action::{self, flags},
        info::{self, ChildCode, Info},
        mask,
        number::{SIGCHLD, SIGCONT, SIGHUP},
        send::{self, Wakes, post_in, signal_group},
        state::StopState,
        stop,
    },
    status::ExitStatus,
    task::Task,
    tree::{self, INIT, Tree},
    visible,
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use rt::thread::CpuTime;
use vfs::security::flows;

/// Ends the calling task with `status` (exit(2)): it does not return to user mode.
pub fn end_task(task: &Task, status: ExitStatus) {
    task.set_exit_status(status);
    task.raise_attention(super::task::attention::EXIT);
}

/// Ends the whole thread group (exit_group(2)).
pub fn end_group(task: &Task, status: ExitStatus) {
    send::begin_exit(&task.process, &mut task.process.signals.lock(), status);
    task.raise_attention(super::task::attention::EXIT);
}

/// Called as the last step of a task's thread.
pub fn task_ended(task: &Arc<Task>) {
    profile::note(task, profile::END_NS);
    release_memory_words(task);
    task.close_files();
    task.drop_guard();
    leave_directories(task);
    task.io_priority.store(0, Ordering::Relaxed);
    // This comes before other tasks can find the children at another thread of the process.
    if task.has_children.load(Ordering::Relaxed) && task.process.signals.lock().tasks.len() > 1 {
        tell_children(task);
    }
    tree::write().remove_task(task.id());
    leave_undo_list(task);
    task.process.upcalls.task_ended(task);
    let last_status = leave_group(task);
    task.process.task_event.signal();
    match last_status {
        Some(status) => end_process(task, status),
        None => {
            task.note_left_memory();
            stop::complete(&task.process);
        }
    }
}

/// Drops root and working directory (a program that is told of the end may unmount them): the task gets the
/// directories of process 1.
fn leave_directories(task: &Task) {
    if let Some(init) = tree::task(INIT) {
        task.set_fs(FsHold::ended(init.fs()));
    }
}

/// Makes the changes to words of its memory when a task leaves it (end or exec): robust futexes are marked, locks
/// with priority inheritance passed on, the thread id word is cleared and a waiter woken. The waiters would sleep for ever if
/// memory for the words were refused.
pub fn release_memory_words(task: &Arc<Task>) {
    rt::memory::with_reserve(|| release_words(task));
}

fn release_words(task: &Arc<Task>) {
    futex::robust::release_list(task);
    futex::inherit::release_all(task);
    let word = task.clear_child_tid.swap(0, Ordering::Relaxed);
    if word != 0 {
        let memory = task.memory();
        if memory.write_bytes(word, &0u32.to_le_bytes()).is_ok() {
            let _ = futex::wake_shared(&memory, word, 1);
        }
    }
}

/// Removes the task from its group. Returns the group's status if it was the last one; its own status counts if
/// the group has none.
fn leave_group(task: &Arc<Task>) -> Option<ExitStatus> {
    let process = &task.process;
    let time = rt::thread::cpu_time(rt::thread::current()).unwrap_or_default();
    process.set_last_command(task.command());
    let mut state = process.signals.lock();
    state.tasks.retain(|other| !Arc::ptr_eq(other, task));
    {
        let mut usage = process.usage.lock();
        add_time(&mut usage.own, &time);
        usage.io += task.io.get();
    }
    if state.tasks.is_empty() {
        return Some(state.exit.unwrap_or(task.exit_status()));
    }
    if state.queue.pending() != 0 {
        for other in &state.tasks {
            mask::refresh(&state, other);
            other.summon(0);
        }
    }
    None
}

/// Ends the process of `last`, its last task.
fn end_process(last: &Task, status: ExitStatus) {
    let process = &last.process;
    crate::time::process_ended(process);
    release_memory(process);
    last.note_left_memory();
    if process.session().id() == process.id() {
        leader_ended(process);
    }
    let mut wakes = Wakes::default();
    bury(last, status, &mut wakes);
    wakes.deliver();
    process.end.wake();
    power::process_ended(process, status);
}

/// Signals the children of a thread that ends while other threads of its process go on (PR_SET_PDEATHSIG).
fn tell_children(task: &Task) {
    let (process, user) = (&task.process, task.credentials().user.real);
    let mut wakes = Wakes::default();
    let tree = tree::read();
    for child in tree.children(process.id()) {
        let number = child.parent_death_signal.load(Ordering::Relaxed);
        let is_own = child.parent_thread.load(Ordering::Relaxed) == task.id();
        if number != 0 && is_own && may_tell(task, child) {
            let info = Info::from_process(number, info::SI_USER, process.id(), user);
            let _ = post_in(&tree, child, None, info, &mut wakes);
        }
    }
    drop(tree);
    wakes.deliver();
}

/// Releases the address space.
fn release_memory(process: &Process) {
    let memory = process.set_memory(None);
    if let Some(memory) = &memory {
        process.note_usage(memory);
    }
    drop(memory);
    oom::memory_released(process);
    process.released.signal();
}

/// Makes the process a zombie, or removes it at once if its parent ignores its end; passes its children on. The
/// signals about it are sent before another process can see its end.
fn bury(last: &Task, status: ExitStatus, wakes: &mut Wakes) {
    let (process, user) = (&last.process, last.credentials().user.real);
    let death = |number| Info::from_process(number, info::SI_USER, process.id(), user);
    let mut tree = tree::write();
    let groups_before = stopped_groups_touched(&tree, process);
    let heir = heir(&tree, process);
    let children = tree.reparent(process.id(), heir);
    wakes.waits.extend(tree.process(heir));
    process.signals.lock().ended = Some(status);
    for group in groups_before {
        if tree.is_orphaned(group, Some(process.id())) {
            continue_orphans(&tree, group, wakes);
        }
    }
    for child in &children {
        let death_signal = child.parent_death_signal.load(Ordering::Relaxed);
        if death_signal != 0 && may_tell(last, child) {
            let _ = post_in(&tree, child, None, death(death_signal), wakes);
        }
    }
    let parent = tree.process(process.parent_id());
    if let Some(parent) = &parent {
        tell_parent(&tree, parent, process, status, wakes);
    }
    if !parent.is_some_and(|parent| wants_zombie(&parent, process)) {
        tree.remove(process);
        drop(tree);
        process.files_about_it.close();
    }
}

/// Returns whether the end of a task may be told to a child by a signal.
fn may_tell(task: &Task, child: &Process) -> bool {
    child.label() == task.process.label()
        || visible::check_signal(child, &task.credentials().subject).is_ok()
}

/// Continues the stopped members of `group` if no process is left that could continue them.
fn continue_orphans(tree: &Tree, group: u32, wakes: &mut Wakes) {
    for number in [SIGHUP, SIGCONT] {
        for member in tree.group(group) {
            flows::writes(|| Some(member.label()));
            let _ = post_in(tree, member, None, Info::kernel(number), wakes);
        }
    }
}

fn tell_parent(
    tree: &Tree,
    parent: &Arc<Process>,
    process: &Process,
    status: ExitStatus,
    wakes: &mut Wakes,
) {
    let exit_signal = process.exit_signal.load(Ordering::Relaxed);
    let is_concealed = visible::is_concealed(process, parent);
    let status = if is_concealed { ExitStatus::Exited(0) } else { status };
    if exit_signal != 0 {
        let time = if is_concealed { CpuTime::default() } else { process.usage.lock().own };
        let notice = death_notice(process, status, time, exit_signal);
        let _ = post_in(tree, parent, None, notice, wakes);
    }
    wakes.waits.push(parent.clone());
}

fn wants_zombie(parent: &Process, process: &Process) -> bool {
    if power::is_in_kernel(parent) || process.exit_signal.load(Ordering::Relaxed) != SIGCHLD {
        return true;
    }
    let action = parent.action(SIGCHLD);
    action.handler != action::IGNORE && action.flags & flags::NOCLDWAIT == 0
}

/// Returns the nearest ancestor that adopts orphans.
fn heir(tree: &Tree, process: &Process) -> u32 {
    let mut next = process.parent_id();
    while let Some(ancestor) = tree.process(next) {
        if ancestor.is_subreaper.load(Ordering::Relaxed) && ancestor.ended().is_none() {
            return next;
        }
        next = ancestor.parent_id();
    }
    INIT
}

/// Returns the groups with stopped members that may lose the last parent that could continue them: the process's
/// own, and those of its children, if the parent and child are in different groups of one session. Groups that are
/// orphaned already are not included.
fn stopped_groups_touched(tree: &Tree, process: &Process) -> Vec<u32> {
    let is_tie = |child: &Process, parent: &Process| {
        child.group() != parent.group() && child.session().id() == parent.session().id()
    };
    let children = tree.children(process.id()).filter(|child| is_tie(child, process));
    let mut groups: Vec<u32> = children.map(|child| child.group()).collect();
    if tree.process(process.parent_id()).is_some_and(|parent| is_tie(process, &parent)) {
        groups.push(process.group());
    }
    groups.sort_unstable();
    groups.dedup();
    let is_stopped = |member: &Arc<Process>| member.signals.lock().stop != StopState::Running;
    groups.retain(|group| {
        tree.group(*group).any(|member| member.id() != process.id() && is_stopped(member))
            && !tree.is_orphaned(*group, None)
    });
    groups
}

fn death_notice(process: &Process, status: ExitStatus, time: CpuTime, exit_signal: u8) -> Info {
    let (code, number) = match status {
        ExitStatus::Exited(code) => (ChildCode::Exited, code),
        ExitStatus::Signalled(signal) => (ChildCode::Killed, signal),
    };
    let times = (ticks(time.user_ns), ticks(time.system_ns));
    let mut info = Info::child(code, process.id(), process.real_user(), i32::from(number), times);
    info.signal = i32::from(exit_signal);
    info
}

/// Called when the leader of a session ends: releases its terminal and hangs the foreground group up.
fn leader_ended(leader: &Process) {
    if let Some(terminal) = leader.terminal() {
        return terminal.leader_ended(leader);
    }
    let lost = leader.lost_foreground.swap(0, Ordering::Relaxed);
    signal_group(lost, SIGHUP);
    signal_group(lost, SIGCONT);
}

/// `task` ends, or shares its list of semaphores to be undone with nobody from now on: if it was the last one that has the list,
/// all is undone.
pub fn leave_undo_list(task: &Task) {
    let Some(list) = task.take_undo_list().and_then(Arc::into_inner) else { return };
    list.undo_all(task.process.id());
}
