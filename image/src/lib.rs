//! The kernel image: starts the components of a [`System`], gives each its grants, and hands their offers to the personality.
//!
//! `./x` writes the kernel's program from the descriptions (`libs/description`): a static [`System`] and [`run!`]. It links this
//! crate with the components of the kernel world. Built for the host, by `cargo check --workspace`, this crate is empty.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(target_os = "none")]
mod clients;
#[cfg(target_os = "none")]
mod start;

#[cfg(target_os = "none")]
pub use start::{Component, ComponentWorld, System, start};

#[cfg(target_os = "none")]
pub use ::{posix::start::SystemCalls, rt::thread::Policy, supervisor};

/// Declares `$system`, a static [`System`], as the one that the nucleus starts.
#[macro_export]
macro_rules! run {
    ($system:ident) => {
        #[unsafe(no_mangle)]
        fn skerry_start() {
            $crate::start(&$system)
        }
    };
}
