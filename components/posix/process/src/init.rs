//! Process 1, and shutting the machine down.
//!
//! If the parameter `init=` names a program, that program is process 1 ([`run_program`]), as on Linux: it gets no signal
//! that it does not handle ([`ProcessSignals::is_unkillable`](crate::signal::ProcessSignals)), and its end stops the
//! machine. Otherwise process 1 lives in the kernel ([`create`]): it starts the session and waits for every orphan.
//! Programs may signal it as they would an init: SIGUSR2 powers off, SIGTERM restarts, SIGUSR1 halts (the signals of
//! busybox's poweroff, reboot and halt). It ignores all other signals.
//!
//! A thread of the kernel waits for either to end, and for requests of programs (reboot(2)), on [`NEWS`].
//! Source: Linux `kernel/reboot.c`, `kernel/exit.c`, `init/main.c`.
use crate::{
    files::{context::FsContext, sharing::FsHold, table::DescriptorTable},
    fork::{self, CloneRequest},
    limits::Limits,
    login,
    object::{Process, ProcessParts},
    power::{ENDED, FAILURE, IS_GOING_DOWN, IS_PROGRAM, NEWS, RUNS, ask, is_in_kernel, request},
    session::Session,
    signal::{
        self,
        action::Dispositions,
        number::{SIGCHLD, SIGINT, SIGKILL},
        send,
        state::TaskSignals,
    },
    status::ExitStatus,
    system,
    task::{Task, TaskParts},
    tree::{self, INIT, Tree},
    upcalls::Upcalls,
    wait::{self, Event, WaitOptions, Which},
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use rt::{power::Action, time::Instant, user::Context};
use vfs::{Credentials, Errno, ErrorNumber};

/// Called when the keys Ctrl, Alt and Del were pressed: restarts the machine, or signals process 1 (reboot(2),
/// LINUX_REBOOT_CMD_CAD_OFF).
pub fn keys_pressed() {
    if system::RESTARTS_BY_KEYS.load(Ordering::Relaxed) {
        return ask(Action::Restart);
    }
    if let Some(init) = tree::process(INIT) {
        let _ = send::send_to_process(&init, signal::Info::kernel(SIGINT));
    }
}

/// Makes process 1 with its task, in group and session `group`.
fn make(fs: Arc<FsContext>, group: u32, upcalls: &'static dyn Upcalls) -> Arc<Task> {
    let credentials = Credentials::root();
    let mut tree = tree::write();
    tree.reserve(credentials.subject.level(), INIT);
    let place = Numbers { id: INIT, parent: 0, group, exit_signal: 0 };
    insert(&mut tree, place, (fs, upcalls, credentials))
}

/// The numbers of a process that the kernel makes.
struct Numbers {
    id: u32,
    parent: u32,
    group: u32,
    exit_signal: u8,
}

/// Makes a process of the kernel's own, with its task.
fn insert(
    tree: &mut Tree,
    place: Numbers,
    (fs, upcalls, credentials): (Arc<FsContext>, &'static dyn Upcalls, Credentials),
) -> Arc<Task> {
    let credentials = Arc::new(credentials);
    let process = Arc::new(Process::new(
        place.id,
        ProcessParts {
            upcalls,
            parent: place.parent,
            group: place.group,
            session: Arc::new(Session::new(place.group)),
            memory: None,
            actions: Dispositions::shared(Dispositions::default()),
            limits: Limits::initial(tree::tasks_max()),
            exit_signal: place.exit_signal,
            owner: 0,
            subject: &credentials.subject,
        },
    ));
    let parts = TaskParts {
        files: Arc::new(DescriptorTable::new()),
        fs: FsHold::first(fs),
        credentials,
        command: *b"init\0\0\0\0\0\0\0\0\0\0\0\0",
        signals: TaskSignals::default(),
    };
    let task = Arc::new(Task::new(place.id, process.clone(), parts));
    process.signals.lock().tasks.push(task.clone());
    tree.insert(process);
    tree.insert_task(task.clone());
    task
}

/// Makes a child of process 1 that inherits nothing from it and has the kernel's rights. It runs `body` first, which loads a program.
///
/// # Errors
/// As clone.
pub fn spawn_of_kernel(
    fs: Arc<FsContext>,
    upcalls: &'static dyn Upcalls,
    body: impl FnOnce(&Arc<Task>, &mut Context) -> Result<(), Errno> + Send + 'static,
) -> Result<(), Errno> {
    let credentials = Credentials::root();
    let task = {
        let mut tree = tree::write();
        let id = tree.allocate_id(credentials.subject.level())?;
        let place = Numbers { id, parent: INIT, group: id, exit_signal: SIGCHLD };
        insert(&mut tree, place, (fs, upcalls, credentials))
    };
    fork::begin(&task, body)
}

/// Makes process 1, below the layers in `upcalls`, on the calling thread.
pub fn create(fs: Arc<FsContext>, upcalls: &'static dyn Upcalls) -> Arc<Task> {
    let task = make(fs, INIT, upcalls);
    task.set_thread(rt::thread::current());
    task.set_in_call(true);
    task
}

/// Makes a child of process 1 that runs `body` first and then enters user mode, unless `body` fails.
///
/// # Errors
/// As clone.
pub fn spawn(
    init: &Arc<Task>,
    body: impl FnOnce(&Arc<Task>, &mut Context) -> Result<(), Errno> + Send + 'static,
) -> Result<u32, Errno> {
    fork::spawn(init, &CloneRequest::fork(), body)
}

/// Outcome of the wait for process 1 or the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitOutcome {
    /// The session leader, or the program that was process 1, ended.
    Ended(ExitStatus),
    /// The program that was to be process 1 could not be started.
    Failed(ErrorNumber),
    /// A program asked for this action.
    Asked(Action),
}

/// Makes process 1 of a program, below the layers in `upcalls`: `body` gives it memory. Waits until it ends or a program asks for the end.
///
/// Its group and session are 0, as on Linux, so that it may begin a session.
///
/// # Errors
/// As clone.
pub fn run_program(
    fs: Arc<FsContext>,
    upcalls: &'static dyn Upcalls,
    body: impl FnOnce(&Arc<Task>, &mut Context) -> Result<(), Errno> + Send + 'static,
) -> Result<InitOutcome, Errno> {
    IS_PROGRAM.store(true, Ordering::Relaxed);
    let task = make(fs, 0, upcalls);
    task.process.signals.lock().is_unkillable = true;
    fork::begin(&task, move |task, context| {
        body(task, context)
            .inspect_err(|errno| FAILURE.store(errno.number() as u64, Ordering::Relaxed))
    })?;
    drop(task);
    loop {
        let ticket = NEWS.ticket();
        if let Some(action) = request() {
            return Ok(InitOutcome::Asked(action));
        }
        match ENDED.load(Ordering::Acquire) {
            RUNS => {}
            word => {
                return Ok(match FAILURE.load(Ordering::Relaxed) {
                    0 => InitOutcome::Ended(ExitStatus::from_wait_word(word)),
                    word => InitOutcome::Failed(
                        ErrorNumber::from_word(word).unwrap_or(ErrorNumber::EIO),
                    ),
                });
            }
        }
        NEWS.wait(ticket, None);
    }
}

/// Waits for every child until `leader` has ended or a program has asked for a power action.
pub fn reap_until(init: &Arc<Task>, leader: u32) -> InitOutcome {
    let options = WaitOptions::EXITED | WaitOptions::ALL;
    loop {
        let ticket = init.process.child_event.ticket();
        if let Some(action) = request() {
            return InitOutcome::Asked(action);
        }
        match wait::look(&init.process, Which::Any, options) {
            Ok(Some(report)) if report.id == leader => {
                if let Event::Ended(status) = report.event {
                    return InitOutcome::Ended(status);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                init.process.child_event.wait(ticket, None);
            }
        }
    }
}

/// Kills every process, except for a process 1 that lives in the kernel, and waits for their ends until `deadline`.
pub fn kill_all(deadline: Instant) {
    IS_GOING_DOWN.store(true, Ordering::Relaxed);
    loop {
        let ticket = NEWS.ticket();
        let left = programs();
        if left.is_empty() || rt::time::now() >= deadline {
            return;
        }
        for process in &left {
            let mut state = process.signals.lock();
            send::begin_exit(process, &mut state, ExitStatus::Signalled(SIGKILL));
        }
        drop(left);
        NEWS.wait(ticket, Some(deadline));
    }
}

/// Kills every process of a session, and those outside of it that its leader's login made, and waits for their ends until `deadline`.
/// Process 1 is left out.
pub fn end_session(session: u32, deadline: Instant) {
    let login = tree::process(session).and_then(|leader| leader.tasks().first().cloned());
    let login = login.map_or(login::UNSET, |task| task.login.session());
    loop {
        let left = members(session, login);
        let Some(first) = left.first() else { return };
        let ticket = first.end.ticket();
        for process in &left {
            let mut state = process.signals.lock();
            send::begin_exit(process, &mut state, ExitStatus::Signalled(SIGKILL));
        }
        if first.ended().is_none() {
            let _ = first.end.wait(ticket, Some(deadline));
        }
        if rt::time::now() >= deadline {
            return log::warn!("session {session} does not end");
        }
    }
}

/// Returns the live processes of a session or a login.
fn members(session: u32, login: u32) -> Vec<Arc<Process>> {
    let of_login = |process: &Process| {
        login != login::UNSET && process.tasks().iter().any(|task| task.login.session() == login)
    };
    let is_member = |process: &&Arc<Process>| {
        let is_of_session = session != 0 && process.session().id() == session;
        process.id() != INIT && process.ended().is_none() && (is_of_session || of_login(process))
    };
    tree::read().processes().filter(is_member).cloned().collect()
}

/// Returns the processes that run programs.
fn programs() -> Vec<Arc<Process>> {
    let runs = |process: &&Arc<Process>| !is_in_kernel(process) && process.ended().is_none();
    tree::read().processes().filter(runs).cloned().collect()
}
