//! `/proc/skerry/trusted`: the facts for the trusted shell about the session whose terminal it has, and the orders that it gives.
//!
//! Only a process whose controlling terminal is that of the trusted shell reads and writes it. An order is carried out when the shell
//! has ended: `continue`, `end`, or `begin LEVEL UID GID GROUPS NAME HOME SHELL` with tabs between the words.
use super::{shared::SharedLine, terminal::Terminal};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use labels::{Context, Secrecy, SecrecyRange};
use process::{Process, Task, login, tree};
use vfs::{Errno, Principal, security};

/// A session that is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// The context of its programs.
    pub context: String,
    /// The user.
    pub user: u32,
    /// The user's group.
    pub group: u32,
    /// The user's other groups.
    pub groups: Vec<u32>,
    /// The user's name.
    pub name: String,
    /// The directory in which it starts.
    pub home: String,
    /// The program of its leader.
    pub shell: String,
    /// The user that logged in ([`login::Login`]), or [`login::UNSET`].
    pub login: u32,
}

/// An order of the trusted shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The session in front goes on.
    Continue,
    /// The session in front ends.
    End,
    /// A session of the same user starts in front of it.
    Begin(NewSession),
}

/// The session in front of the trusted shell of a caller.
struct HeldSession {
    line: Arc<SharedLine>,
    terminal: Arc<Terminal>,
    leader: Option<Arc<Process>>,
}

impl HeldSession {
    fn of(caller: &dyn Principal) -> Option<HeldSession> {
        let own = Task::of(caller)?.process.terminal()?;
        let own = own.as_any().downcast_ref::<Terminal>()?;
        let line = own.shared_line().filter(|line| line.is_trusted(own))?;
        let terminal = line.session_in_front()?;
        let session = terminal.control.lock().session;
        let leader = tree::process(session).filter(|_| session != 0);
        Some(HeldSession { line, terminal, leader })
    }
    fn task(&self) -> Option<Arc<Task>> {
        self.leader.as_ref()?.tasks().first().cloned()
    }
}

/// Returns the task that leads the session whose terminal the trusted shell took; `None` if the caller is not the trusted shell.
pub fn held_task(caller: &dyn Principal) -> Option<Arc<Task>> {
    HeldSession::of(caller)?.task()
}

/// Returns the user that logged in, or else the one whose rights the leader has.
fn user_of(task: &Task) -> u32 {
    match task.login.user() {
        login::UNSET => task.credentials().user.real,
        user => user,
    }
}

/// Returns the lines `terminal NAME`, `session ID`, `user UID`, `context CONTEXT`; those of the session are missing if there is none.
pub fn facts(reader: &dyn Principal) -> Vec<u8> {
    let Some(held) = HeldSession::of(reader) else { return Vec::new() };
    let mut text = format!("terminal {}\n", held.terminal.name()).into_bytes();
    if let Some(task) = held.task() {
        let (session, user) = (task.process.id(), user_of(&task));
        text.extend_from_slice(format!("session {session}\nuser {user}\ncontext ").as_bytes());
        let label = task.credentials().subject.label().text();
        text.extend(label.iter().filter(|byte| **byte != 0));
        text.push(b'\n');
    }
    text
}

/// Takes an order.
///
/// # Errors
/// `EPERM` for a process that is not of the trusted path; `EINVAL` for no order, or no level; `EACCES` for a level that the user may
/// not have; `ESRCH` if there is no session.
pub fn order(data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
    let held = HeldSession::of(writer).ok_or(Errno::EPERM)?;
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    let words: Vec<&str> = text.trim_end_matches('\n').split('\t').collect();
    let order = match words.as_slice() {
        ["continue"] => Order::Continue,
        ["end"] => Order::End,
        ["begin", rest @ ..] => Order::Begin(new_session(&held, rest)?),
        _ => return Err(Errno::EINVAL),
    };
    held.line.set_order(order);
    Ok(())
}

fn new_session(held: &HeldSession, words: &[&str]) -> Result<NewSession, Errno> {
    let [level, user, group, groups, name, home, shell] = words else { return Err(Errno::EINVAL) };
    let task = held.task().ok_or(Errno::ESRCH)?;
    let number = |word: &str| word.parse::<u32>().map_err(|_| Errno::EINVAL);
    let groups = groups.split(',').filter(|word| !word.is_empty()).map(number);
    Ok(NewSession {
        context: context_at(&task, level)?,
        user: number(user)?,
        group: number(group)?,
        groups: groups.collect::<Result<_, _>>()?,
        name: String::from(*name),
        home: String::from(*home),
        shell: String::from(*shell),
        login: task.login.user(),
    })
}

/// Returns the context of a task at another level: the highest level that it may ask for dominates that, and it is the user's.
fn context_at(task: &Task, level: &str) -> Result<String, Errno> {
    let level: Secrecy = level.parse().map_err(|_| Errno::EINVAL)?;
    let monitor = security::monitor().ok_or(Errno::EPERM)?;
    let own = monitor.context(task.credentials().subject.context());
    let range = SecrecyRange::new(level, *own.range().high()).ok_or(Errno::EACCES)?;
    let new: Context = own.with_range(range);
    let text = format!("{new}");
    monitor.check(text.as_bytes()).map_err(|_| Errno::EACCES)?;
    Ok(text)
}
