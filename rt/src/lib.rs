//! `rt`: what a component may ask of the world, the one narrow waist.
//!
//! A component sees this crate, the interfaces and the pure libraries, nothing else. Three back
//! ends implement it: `kernel` (ring 0, calls into the nucleus), `host` (std, under tests) and,
//! from a later issue, `process` (ring 3). The contract that keeps all three possible:
//! **every operation is plain data in and plain data out; a buffer or a [`user::Context`] is lent
//! for the length of the call and no longer.** No guard, closure or lock crosses into the
//! nucleus, and a component never holds a nucleus lock. Each operation's docs say what it costs
//! where it is a system call (the process world).
//!
//! The modules here are the same in every world: they are thin safe types over the functions of
//! `world`, whose signatures are the whole list of operations.
#![cfg_attr(target_os = "none", no_std)]
extern crate alloc;

#[cfg(target_os = "none")]
#[path = "kernel/mod.rs"]
mod world;
#[cfg(not(target_os = "none"))]
#[path = "host/mod.rs"]
mod world;

/// Controls of the host world for tests (mock devices, memory limits).
#[cfg(not(target_os = "none"))]
pub use world::control as host;

pub mod device;
pub mod entropy;
pub mod memory;
pub mod power;
pub mod sync;
pub mod system;
pub mod thread;
pub mod time;
pub mod trace;
pub mod user;

/// Memory was refused: the charge did not fit. `ENOMEM` or `EAGAIN` to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// Size of a page and of a frame, in bytes.
pub const PAGE_BYTES: usize = 4096;
