//! The interfaces between components, one file each. Control goes through these traits; data goes
//! in whole frames and is never copied between components.
//!
//! `#[interface]` derives the client handle, a counted trait object: a call is direct where both ends share a
//! world. Between worlds a client that sends messages ([`call`]) to a server loop ([`service`]) implements the
//! same trait. Both are derived if arguments and results fit in messages ([`wire`]); otherwise they are written
//! by hand over rings ([`block`], [`terminal`]). The source is the same in every world.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;
extern crate self as interfaces;
#[cfg(test)]
extern crate std;

pub mod audit_log;
pub mod block;
pub mod call;
pub mod clock;
pub mod entropy;
pub mod file_system;
pub mod introduction;
mod link;
pub mod marshal;
pub mod monitor;
pub mod nic;
pub mod offer;
pub mod overdue;
pub mod service;
pub mod sockets;
pub mod supervisor;
pub mod terminal;
pub mod wire;

pub use link::AttachError;
