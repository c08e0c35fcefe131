//! Processes and tasks (Linux threads): their objects, the tree they form, how they start and end.
//!
//! [`Process`] is a thread group: one address space, one set of signal dispositions, limits and
//! timers. [`Task`] is one thread of it: an rt thread in [`run::run`]. [`tree`] knows every process, task,
//! process group and session by number.
//!
//! Lock order (outer first): `process.commit` ([`exec_guard`]), `process.tree`, `process.signals`, `process.dispositions`,
//! `task.signals`; the rest (`process.memory`, `task.*`, `process.timers`) are leaves and held for
//! a few loads only. No lock is held while user memory is touched or a thread waits.
//! Source: POSIX.1-2017 2.11 to 2.13, Linux's manual pages.
pub mod call;
pub mod exec;
pub mod exec_guard;
pub mod exit;
pub mod fork;
pub mod init;
pub mod io_counts;
pub mod limits;
pub mod login;
pub mod object;
pub mod oom;
pub mod pidfd;
pub mod rseq;
pub mod run;
pub mod session;
pub mod status;
pub mod task;
pub mod trace;
pub mod tree;
pub mod undo;
pub mod upcalls;
pub mod wait;

pub use object::Process;
pub use status::ExitStatus;
pub use task::{Task, current};
