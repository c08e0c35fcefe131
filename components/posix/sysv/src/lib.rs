//! The models of System V IPC and of POSIX message queues: plain data without locks, memory of programs or threads.
//!
//! | module | model |
//! | --- | --- |
//! | [`table`] | identifiers, sequence numbers and keys (Linux `ipc/util.c`) |
//! | [`semaphores`] | sets of semaphores (Linux `ipc/sem.c`) |
//! | [`messages`] | queues of messages (Linux `ipc/msg.c`) |
//! | [`prioritized`] | POSIX message queues (Linux `ipc/mqueue.c`) |
//! | [`permission`] | owner, creator, mode (`ipcperms`) |
//!
//! A model never blocks. An operation that cannot be done yet leaves a *waiter*, a handle that its caller gave, and a later
//! operation hands out the handles of the waiters that it has served. The personality locks a model, stores the waiters'
//! answers and wakes their threads (`objects::ipc`).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

pub mod messages;
pub mod permission;
pub mod prioritized;
pub mod semaphores;
pub mod table;
#[cfg(test)]
mod testing;

/// The reason for which an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `EAGAIN`: it would have to wait.
    WouldBlock,
    /// `ERANGE`: the value is outside the range of a semaphore.
    OutOfRange,
    /// `EIDRM`: the object was removed meanwhile.
    Removed,
    /// `E2BIG`: the message is longer than its receiver takes.
    TooLong,
    /// `ENOSPC`: there are as many objects as the limit allows.
    TooMany,
}
