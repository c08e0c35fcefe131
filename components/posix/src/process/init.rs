//! Process 1: it lives in the kernel, starts the session and waits for every orphan.
//!
//! Programs may signal it as they would an init: SIGUSR2 powers off, SIGTERM restarts, SIGUSR1
//! halts (what busybox's poweroff, reboot and halt send); everything else it ignores.
use super::{
    ExitStatus, Process, Task,
    fork::{self, CloneRequest},
    limits::Limits,
    object::ProcessParts,
    session::Session,
    task::TaskParts,
    tree::{self, INIT},
    wait::{self, Event, Options, Which},
};
use crate::{
    files,
    signal::{Dispositions, SIGTERM, SIGUSR1, SIGUSR2, TaskSignals},
};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, Ordering};
use rt::{power::Action, user::Context};
use vfs::{Credentials, Errno};

static REQUEST: AtomicU8 = AtomicU8::new(0);

/// A program signalled process 1.
pub fn signalled(signal: u8) {
    if matches!(signal, SIGTERM | SIGUSR1 | SIGUSR2) {
        REQUEST.store(signal, Ordering::Release);
        if let Some(init) = tree::process(INIT) {
            init.child_event.signal();
        }
    }
}

/// How the machine is to go down, if a program asked for it.
fn request() -> Option<Action> {
    match REQUEST.load(Ordering::Acquire) {
        SIGTERM => Some(Action::Restart),
        SIGUSR1 => Some(Action::Halt),
        SIGUSR2 => Some(Action::Off),
        _ => None,
    }
}

/// Makes process 1 on the calling thread.
pub fn create(fs: Arc<files::FsContext>) -> Arc<Task> {
    let process = Arc::new(Process::new(
        INIT,
        ProcessParts {
            parent: 0,
            group: INIT,
            session: Arc::new(Session::new(INIT)),
            memory: None,
            actions: Dispositions::shared(Dispositions::default()),
            limits: Limits::initial(),
            exit_signal: 0,
            owner: 0,
        },
    ));
    let parts = TaskParts {
        files: Arc::new(files::Table::new()),
        fs: files::FsHold::first(fs),
        credentials: Arc::new(Credentials::root()),
        command: *b"init\0\0\0\0\0\0\0\0\0\0\0\0",
        signals: TaskSignals::default(),
    };
    let task = Arc::new(Task::new(INIT, process.clone(), parts));
    task.set_thread(rt::thread::current());
    task.set_in_call(true);
    let mut tree = tree::write();
    tree.reserve(INIT);
    process.signals.lock().tasks.push(task.clone());
    tree.insert(process);
    tree.insert_task(task.clone());
    drop(tree);
    super::task::enter(&task);
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

/// How the wait for the session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The session leader ended.
    Ended(ExitStatus),
    /// A program asked for this.
    Asked(Action),
}

/// Waits for every child until `leader` has ended or a program asks for the end.
pub fn reap_until(init: &Arc<Task>, leader: u32) -> Outcome {
    let options = Options::EXITED | Options::ALL;
    loop {
        let ticket = init.process.child_event.ticket();
        if let Some(action) = request() {
            return Outcome::Asked(action);
        }
        match wait::look(&init.process, Which::Any, options) {
            Ok(Some(report)) if report.id == leader => {
                if let Event::Ended(status) = report.event {
                    return Outcome::Ended(status);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                init.process.child_event.wait(ticket, None, false);
            }
        }
    }
}

/// Kills every process but process 1 and waits for their ends, but not longer than `deadline`.
pub fn kill_all(init: &Arc<Task>, deadline: rt::time::Instant) {
    let all: alloc::vec::Vec<_> =
        tree::read().processes().filter(|process| process.id() != INIT).cloned().collect();
    for process in all {
        let _ = crate::signal::send_to_process(
            &process,
            crate::signal::Info::kernel(crate::signal::SIGKILL),
        );
    }
    loop {
        let ticket = init.process.child_event.ticket();
        match wait::look(&init.process, Which::Any, Options::EXITED | Options::ALL) {
            Ok(Some(_)) => {}
            Ok(None) if rt::time::now() < deadline => {
                init.process.child_event.wait(ticket, Some(deadline), false);
            }
            _ => return,
        }
    }
}
