//! The lock kit (M3): locks named by class, counted, order-checked and model-checked.
//!
//! The algorithms are generic over a [`Platform`], which blocks and wakes threads on a 32-bit word
//! (a futex: plain data in, plain data out). `rt` supplies the platform of each world, the nucleus
//! its own. The lock families:
//!
//! | module | lock | waits by |
//! | --- | --- | --- |
//! | [`mutex`] | mutual exclusion | blocking |
//! | [`rwlock`] | readers or one writer, writers first | blocking |
//! | [`event`] | Mach's event | blocking |
//! | [`once`] | first-use initialisation | blocking |
//! | [`spin`] | mutual exclusion (nucleus only) | spinning |
//! | [`broadcast`] | none: requests from one processor to others | spinning, and answers others meanwhile |
//! | [`samples`] | single producer, single consumer; an entry without room is lost | never |
//!
//! Features: `statistics` counts and times every class ([`class`]); `check` reports re-taking,
//! foreign unlocks, blocking under a spin lock and order inversions ([`check`]). Without them a
//! lock is its state word and its data (asserted in `costs_tests`).
//! `RUSTFLAGS="--cfg loom" cargo test -p sync --release` explores the algorithms exhaustively.
#![cfg_attr(not(any(test, loom)), no_std)]
extern crate alloc;

#[cfg(not(loom))]
pub(crate) mod atomic {
    pub use core::hint::spin_loop;
    pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}
#[cfg(loom)]
pub(crate) mod atomic {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

/// Declares `const` constructors, which loom's atomics cannot have.
macro_rules! const_constructor {
    ($($(#[$meta:meta])* pub fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)+) => {
        $(
            $(#[$meta])*
            #[cfg(not(loom))]
            pub const fn $name($($argument: $type),*) -> $result $body
            $(#[$meta])*
            #[cfg(loom)]
            pub fn $name($($argument: $type),*) -> $result $body
        )+
    };
}

pub mod boot;
pub mod broadcast;
#[cfg(feature = "check")]
pub mod check;
pub mod class;
#[cfg(all(test, not(any(feature = "statistics", feature = "check", loom))))]
mod costs_tests;
pub mod event;
pub mod mutex;
pub mod once;
mod platform;
pub mod rwlock;
pub mod samples;
pub mod spin;
pub mod static_ref;
pub mod trace;

pub use platform::{Outcome, Platform, Sleep};
