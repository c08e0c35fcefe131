//! The kernel image: starts a [`System`] and gives its components their grants.
//!
//! `./x` writes the kernel's program from the descriptions (`libs/description`): a static [`System`] and [`run!`]. It links this
//! crate with the components of the kernel world, and with `launch`, which starts them, if the personality is in the kernel. Built for the host, by `cargo check --workspace`, this crate is empty.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(target_os = "none")]
mod start;

#[cfg(target_os = "none")]
pub use start::{PersonalityPlace, System, start};

#[cfg(target_os = "none")]
pub use ::{rt::thread::Policy, supervisor};

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
