//! execve: replaces the program of a process.
//!
//! The new program is loaded into a new address space first, so that every failure is reported to an unchanged
//! caller. Then the other threads are ended, and only after that the process changes: memory, dispositions,
//! descriptors, credentials, name.
//!
//! All of it is under the process's exec guard ([`crate::exec_guard`]): what the rights of the program are decided by
//! does not change until it has them.
use crate::{
    exec::{self, Image, Program, flush},
    files::sharing::FsExec,
    limits::{Limit, Resource},
    object::Process,
    profile,
    signal::{number::SIGCHLD, state::AlternateStack},
    task::{Task, attention},
    time::timers,
    tree,
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use memory::AddressSpace;
use rt::user::{Bases, Context, Registers};
use vfs::{Credentials, Errno, security::SecuritySubject};

/// Flags of the personality that are cleared by a program whose file sets ids (`PER_CLEAR_ON_SETID`):
/// `READ_IMPLIES_EXEC`, `ADDR_NO_RANDOMIZE`, `ADDR_COMPAT_LAYOUT`, `MMAP_PAGE_ZERO`.
const CLEARED_BY_SET_ID: u32 = 0x040_0000 | 0x004_0000 | 0x020_0000 | 0x010_0000;

/// Loads `program` and makes `task` run it: `context` enters it.
///
/// # Errors
/// Those of execve(2); the task is then as before. `Restart` if another thread is ahead with an exec or
/// an exit: the task ends.
pub fn execute(task: &Arc<Task>, context: &mut Context, program: Program) -> Result<(), Errno> {
    let process = &task.process;
    let _decision = process.exec_guard.decide(|| task.is_ending())?;
    check_process_limit(process)?;
    let context_of_files = task.fs();
    let directories = FsExec::begin(context_of_files.clone(), || {
        let is_user = |other: &&Arc<Task>| Arc::ptr_eq(&other.fs(), &context_of_files);
        process.signals.lock().tasks.iter().filter(is_user).count()
    });
    let image = exec::load(task, program, directories.sharing())?;
    end_other_threads(task)?;
    crate::exit::release_memory_words(task);
    let changed = change(task, context, image);
    task.forget_locks();
    changed
}

/// Checks that the process's new user does not exceed the limit of processes; the count is made only if the limit was
/// exceeded when the user changed.
fn check_process_limit(process: &Process) -> Result<(), Errno> {
    let flag = &process.exceeds_limit;
    if flag.load(Ordering::Relaxed) {
        let count = tree::read().user_tasks(process.real_user(), process.level());
        if count > process.limits.soft(Resource::Processes) {
            return Err(Errno::EAGAIN);
        }
        flag.store(false, Ordering::Relaxed);
    }
    Ok(())
}

/// Does the same as [`execute`] for a task in the kernel that runs its first program.
///
/// # Errors
/// Those of [`execute`].
pub fn execute_named(
    task: &Arc<Task>,
    context: &mut Context,
    path: &[u8],
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
) -> Result<(), Errno> {
    let program = Program {
        directory: linux_raw_sys::general::AT_FDCWD,
        name: path.to_vec(),
        flags: 0,
        arguments: arguments.iter().map(Vec::as_slice).collect(),
        environment: environment.iter().map(Vec::as_slice).collect(),
    };
    execute(task, context, program)
}

/// Ends every other task of the group and takes over the group's id.
fn end_other_threads(task: &Arc<Task>) -> Result<(), Errno> {
    let process = &task.process;
    {
        let mut state = process.signals.lock();
        if state.exit.is_some() || state.exec.is_some() {
            return Err(Errno::Restart);
        }
        if state.tasks.len() > 1 {
            state.exec = Some(task.id());
            for other in state.tasks.iter().filter(|other| !Arc::ptr_eq(other, task)) {
                other.summon(attention::EXIT);
            }
            process.stop_event.signal();
        }
    }
    let is_alone = wait_alone(task);
    process.signals.lock().exec = None;
    if !is_alone {
        return Err(Errno::Restart);
    }
    let mut tree = tree::write();
    if task.id() != process.id() {
        tree.remove_task(task.id());
        task.set_id(process.id());
        tree.insert_task(task.clone());
    }
    Ok(())
}

/// Waits until the task is the only one; returns `false` if it is itself to end.
fn wait_alone(task: &Task) -> bool {
    let process = &task.process;
    loop {
        let ticket = process.task_event.ticket();
        if process.signals.lock().tasks.len() == 1 {
            return !task.is_ending();
        }
        if task.is_ending() {
            return false;
        }
        process.task_event.wait_interruptible(ticket, None);
    }
}

fn change(task: &Arc<Task>, context: &mut Context, image: Image) -> Result<(), Errno> {
    let process = &task.process;
    unshare_files(task)?;
    unshare_actions(process);
    timers::delete_all(process);
    task.signals.lock().stack = AlternateStack::default();
    profile::rename(task, &image.command);
    process.exit_signal.store(SIGCHLD, Ordering::Relaxed);
    process.has_executed.store(true, Ordering::Relaxed);
    task.robust_list.store(0, Ordering::Relaxed);
    task.rseq.end();
    context.registers = Registers { rip: image.entry, rsp: image.stack, ..Registers::default() };
    if let Some(old) = commit(task, image) {
        process.memory().set_large_pages(old.has_large_pages());
        process.note_usage(&old);
    }
    apply_limits(process);
    task.note_left_memory();
    rt::user::reset_extended();
    rt::user::set_bases(Bases::default());
    task.raise_attention(attention::RELOAD | attention::REPLACED);
    Ok(())
}

/// Ends an exec, once nothing of the task uses the memory of the old program: closes descriptors, also those that a new subject may
/// not have, and lets the parent of a
/// vfork go on. The end of a pipe that closes here may tell another program that the new program runs; nothing shows the
/// old one to it then.
#[cold]
pub fn finish(task: &Task) {
    task.files().close_on_exec(task);
    if task.attention() & attention::ENTERED != 0 {
        task.lower_attention(attention::ENTERED);
        flush::flush(task);
    }
    task.process.released.signal();
}

/// Replaces credentials and memory in one step for all threads that inspect the process. Returns the old memory.
fn commit(task: &Task, image: Image) -> Option<Arc<AddressSpace>> {
    let process = &task.process;
    let _commit = process.exec_guard.begin_commit();
    if image.is_secure || image.credentials.departs_from(&task.credentials()) {
        process.parent_death_signal.store(0, Ordering::Relaxed);
    }
    if image.is_set_id {
        process.personality.fetch_and(!CLEARED_BY_SET_ID, Ordering::Relaxed);
    }
    if image.is_secure
        && let Some(stack) = process.limits.get(Resource::Stack as u32)
    {
        let soft = stack.soft.min(image.stack_limit);
        process.limits.set(Resource::Stack as u32, Limit { soft, ..stack });
    }
    tree::set_real_user(process, image.credentials.user.real);
    if image.credentials.subject != task.credentials().subject {
        take_subject(process, &image.credentials.subject);
        task.raise_attention(attention::ENTERED);
    }
    task.set_credentials(image.credentials);
    process.set_memory(Some(image.memory))
}

/// Gives the only task of a process credentials with another subject without an exec (setcon(3)): the process gets its label, and the
/// descriptors that it may not have are taken away. What it has mapped stays.
///
/// # Errors
/// `ENOMEM`.
#[cold]
pub fn change_subject(task: &Task, new: Credentials) -> Result<(), Errno> {
    let process = &task.process;
    unshare_files(task)?;
    {
        let _commit = process.exec_guard.begin_commit();
        take_subject(process, &new.subject);
        task.set_credentials(Arc::new(new));
    }
    flush::flush(task);
    Ok(())
}

/// Gives a process the level and the label of a subject. The caller holds the commit of its exec guard.
fn take_subject(process: &Process, subject: &SecuritySubject) {
    tree::set_level(process, subject.level());
    process.set_subject(subject);
}

fn unshare_files(task: &Task) -> Result<(), Errno> {
    let files = task.files();
    // This reference, the task's and that of its loop are three: more means that another task shares the table.
    if Arc::strong_count(&files) > 3 {
        task.set_files(Arc::new(files.duplicate()?));
    }
    Ok(())
}

fn unshare_actions(process: &Process) {
    let mut state = process.signals.lock();
    let mut copy = state.actions.lock().clone();
    copy.reset_for_exec();
    state.actions = crate::signal::Dispositions::shared(copy);
}

/// Tells the address space of `process` its limits.
pub fn apply_limits(process: &Process) {
    let Some(memory) = process.try_memory() else { return };
    memory.set_limits(exec::limits_of(process));
}
