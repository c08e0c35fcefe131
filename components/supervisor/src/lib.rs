//! The supervisor: starts isolated components, watches them and brings them back (X3, Z2).
//!
//! Each component has a [`Keeper`](keeper) with two threads: one starts it, waits for its end and starts its
//! successor, the other pings it. The response to an end is decided by [`life::Life`], which is pure. A
//! component's endpoint outlives it, so that calls made meanwhile wait for the successor. Key types:
//! [`Plan`] (the component's part of the system description), [`Executable`](archive::Executable) (its
//! program), `Keeper`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

#[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "domains are of the kernel world"))]
mod image;
pub mod life;
mod plan;
pub mod symbols;

#[cfg(target_os = "none")]
mod control;
#[cfg(target_os = "none")]
mod farewell;
#[cfg(target_os = "none")]
mod introduce;
#[cfg(target_os = "none")]
mod keeper;
#[cfg(target_os = "none")]
mod load;
#[cfg(target_os = "none")]
mod record;
#[cfg(target_os = "none")]
mod set;

pub use plan::{DeviceKind, Plan};
#[cfg(target_os = "none")]
pub use set::{Supervisor, start};
