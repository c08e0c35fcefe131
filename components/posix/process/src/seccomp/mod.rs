//! seccomp(2): the system calls that a task may make.
//!
//! A task has no [`Confinement`] or one for ever; [`process::run`](crate::run) has a loop of its own for tasks with one,
//! so that others pay nothing. [`Filter`]s never change: those that a task adds point at those it had, which others may have
//! too. A call whose number is allowed whatever its arguments are is one bit; for any other the chain is asked
//! ([`verdict`]). Guards change under `process.signals` (`syscall/seccomp.rs`). [`audit`] is what the log is told,
//! [`listener`] who answers calls in the kernel's place.
//! Source: seccomp(2), Linux `kernel/seccomp.c`.
pub mod audit;
pub(crate) mod filter;
pub mod listener;
mod verdict;

pub use filter::{Confinement, Filter, Logging, Prepared, action};
pub use verdict::check;
