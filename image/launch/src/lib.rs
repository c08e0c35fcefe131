//! The start of a system's personality with the components that are linked with it and the clients of isolated ones.
//!
//! `./x` writes the program that names the components from the descriptions (`libs/description`). That program is the kernel, or
//! the process that the personality shares with its file systems. [`start`] is the same call in both worlds but for its first
//! argument. Built for the host, this crate has only the parts with tests.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

#[cfg(target_os = "none")]
mod clients;
#[cfg(any(test, all(target_os = "none", skerry_process)))]
mod introductions;
#[cfg(all(target_os = "none", not(skerry_process)))]
mod kernel;
#[cfg(target_os = "none")]
mod lenders;
#[cfg(all(target_os = "none", skerry_process))]
mod process;
#[cfg(target_os = "none")]
mod start;

#[cfg(all(target_os = "none", not(skerry_process)))]
pub use kernel::start;
#[cfg(all(target_os = "none", skerry_process))]
pub use process::start;
#[cfg(target_os = "none")]
pub use {
    ::posix::start::SystemCalls,
    start::{Component, Starter},
};
