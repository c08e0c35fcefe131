//! The personality: what makes Skerry a UNIX that runs unmodified Linux programs.
//!
//! A Linux thread is a [`process::Task`]: an rt thread in a loop around `rt::user::Context::run`
//! ([`process::run`]). System calls go through one table ([`syscall`]), one file a family. Memory
//! of programs is [`memory`], files are the sub-crate `vfs` and [`files`]. `docs/processes.md`
//! tells the way of a system call through the house.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

pub mod devices;
pub mod exec;
pub mod file_systems;
pub mod files;
pub mod futex;
pub mod inotify;
pub mod ipc;
pub mod locks;
pub mod memory;
pub mod pipe;
pub mod poll;
pub mod process;
pub mod procfs;
pub mod profile;
pub mod seccomp;
pub mod setting;
pub mod signal;
pub mod socket;
pub mod start;
pub mod syscall;
pub mod sysfs;
pub mod system;
pub mod time;
pub mod tty;
pub mod user_memory;
