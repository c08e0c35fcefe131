//! The kernel image: links the nucleus and the components of the kernel world, and starts them as the
//! system description says (`build.rs` checked it and wrote the table).
//!
//! Built for the host (by `cargo check --workspace`) it is an empty program.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(target_os = "none")]
mod isolated;
#[cfg(target_os = "none")]
mod wiring;

#[cfg(not(target_os = "none"))]
fn main() {}
