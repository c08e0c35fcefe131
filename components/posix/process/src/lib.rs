//! Processes and tasks (Linux threads), and what belongs to each: descriptors, credentials, signals, futexes, timers, filters.
//!
//! [`Process`] is a thread group: one address space, one set of signal dispositions, limits and
//! timers. [`Task`] is one thread of it: an rt thread in a loop around `rt::user::Context::run` ([`run::run`]). [`tree`] knows
//! every process, task, process group and session by number. System calls are handlers in a table ([`call`]) that the crates
//! above give to the first process ([`upcalls`]). `docs/processes.md` tells the way of a system call through the house.
//!
//! Source: POSIX.1-2017 2.11 to 2.13, Linux's manual pages.
//!
//! # Locks
#![doc = include_str!("../LOCKS.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

pub mod audit;
pub mod call;
pub mod event;
pub mod exec;
pub mod exec_guard;
pub mod exit;
pub mod files;
pub mod fork;
pub mod futex;
pub mod host;
pub mod init;
pub mod io_counts;
pub mod limits;
pub mod locks;
pub mod login;
mod noted;
pub mod object;
pub mod oom;
pub mod pidfd;
pub mod power;
pub mod principal;
pub mod profile;
pub mod rseq;
pub mod run;
pub mod seccomp;
pub mod session;
pub mod signal;
pub mod status;
pub mod system;
pub mod task;
pub mod time;
pub mod totals;
pub mod trace;
pub mod tree;
pub mod undo;
pub mod upcalls;
pub mod user_memory;
pub mod visible;
pub mod wait;

pub use host::HOST;
pub use object::Process;
pub use status::ExitStatus;
pub use task::Task;
