//! The nucleus: frames, address spaces, threads, interrupts, devices, time, trace, in ring 0.
//!
//! Components never see this crate: `rt`'s kernel back end calls it. With `rt` and `libs/sync` it
//! holds all unsafe code of the system. Everything below `arch` and what touches it is built for
//! `target_os = "none"` only; pure parts (the buddy allocator's arithmetic, parsers) build and are tested on
//! the host too.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(target_os = "none")]
pub mod arch;
pub mod chacha;
pub mod params;
