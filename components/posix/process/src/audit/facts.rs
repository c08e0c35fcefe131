//! The facts of a task that records have and rules are matched with.
use crate::task::Task;
use alloc::{string::String, vec::Vec};
use audit::TaskFacts;
use core::sync::atomic::Ordering;
use vfs::security;

/// Returns the path of the program of a task; `None` if it has no memory any more.
fn exe(task: &Task) -> Option<Vec<u8>> {
    let program = task.process.try_memory().and_then(|memory| memory.executable())?;
    Some(program.path().describe(&task.fs().root()).text)
}

/// Returns the facts of a task.
pub fn facts(task: &Task) -> TaskFacts {
    TaskFacts { program: exe(task).unwrap_or_default().into(), ..ids(task) }
}

/// Returns the facts of a task but for its program, which takes no lock of vfs.
pub(super) fn ids(task: &Task) -> TaskFacts {
    let who = task.credentials();
    let (user, group) = (who.user, who.group);
    let context = security::monitor().filter(|_| security::is_enforced());
    TaskFacts {
        process: task.process.id(),
        parent: task.process.parent_id(),
        users: [user.real, user.effective, user.saved, user.fs],
        groups: [group.real, group.effective, group.saved, group.fs],
        supplementary: who.groups.clone(),
        login: task.login.user(),
        session: task.login.session(),
        personality: task.process.personality.load(Ordering::Relaxed),
        context: context.map(|monitor| monitor.context(who.subject.context())),
        program: [].into(),
    }
}

/// Returns the name of the terminal of a task, as records have it.
pub fn terminal(task: &Task) -> String {
    match task.process.terminal() {
        Some(terminal) => terminal.name().replace('/', ""),
        None => String::from("(none)"),
    }
}

/// Returns the name of a task, without the zeros that pad it.
pub(crate) fn command(task: &Task) -> Vec<u8> {
    task.command().split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}
