//! The nucleus: frames, address spaces, threads, interrupts, devices, time, trace, in ring 0.
//!
//! Components never see this crate: `rt`'s kernel back end calls it. With `rt` and `libs/sync` it holds all
//! unsafe code of the system. It is built for `target_os = "none"` only; pure code (arithmetic, encodings,
//! parsers) is in `libs/`, tested on the host.
#![no_std]
#![cfg(target_os = "none")]
extern crate alloc;

#[macro_use]
pub mod spin;

pub mod arch;
pub mod backtrace;
pub mod capability;
pub mod device;
pub mod dma;
pub mod domain;
pub mod entropy;
pub mod irq;
pub mod log;
pub mod memory;
pub mod objects;
mod panic;
pub mod params;
mod start;
pub mod thread;
pub mod time;
pub mod trace;
