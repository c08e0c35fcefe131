//! The objects of programs beside files and memory: pipes, sockets, terminals, devices, System V IPC, what poll waits for, and
//! the file systems that can be mounted.
//!
//! Each module is one kind of object, a file ([`vfs::File`]) where programs have descriptors of it. The calls that make and
//! use them are the crate `syscall`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

pub mod audit_log;
pub mod devices;
pub mod file_systems;
pub mod inotify;
pub mod ipc;
pub mod pipe;
pub mod poll;
pub mod socket;
pub mod tty;
