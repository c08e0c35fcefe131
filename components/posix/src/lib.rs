//! The personality makes Skerry a UNIX that runs unmodified Linux programs. This crate starts it ([`start`]).
//!
//! Its parts are crates below this one, which import only those named before them: `vfs` and `sysv`, `memory`, `process`,
//! `objects`, `proc`, `syscall`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

pub mod start;
