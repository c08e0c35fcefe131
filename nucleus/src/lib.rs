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
#[cfg(target_os = "none")]
pub mod backtrace;
#[cfg(target_os = "none")]
pub mod capability;
#[cfg(target_os = "none")]
pub mod device;
#[cfg(target_os = "none")]
pub mod dma;
#[cfg(target_os = "none")]
pub mod domain;
#[cfg(target_os = "none")]
pub mod entropy;
#[cfg(target_os = "none")]
pub mod irq;
#[cfg(target_os = "none")]
pub mod log;
#[cfg(target_os = "none")]
pub mod memory;
#[cfg(target_os = "none")]
pub mod objects;
#[cfg(target_os = "none")]
mod panic;
#[cfg(target_os = "none")]
pub mod params;
#[cfg(target_os = "none")]
pub mod spin;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
pub mod thread;
#[cfg(target_os = "none")]
pub mod time;
#[cfg(target_os = "none")]
pub mod trace;
