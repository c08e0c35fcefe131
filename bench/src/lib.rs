//! The shared part of the components of `./x bench`: an interface, its messages written by hand, and a serial port.
//!
//! `interface-server` and `interface-client` use the code that `#[interface]` made for [`adder::Adder`]; `plain-server`
//! and `plain-client` exchange the same messages by `rt::message` alone. A client times itself and logs `bench: NAME:
//! COUNT NS`.
#![cfg_attr(all(target_os = "none", skerry_process), no_std)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
extern crate alloc;

#[cfg(all(target_os = "none", skerry_process))]
pub mod actor;
#[cfg(all(target_os = "none", skerry_process))]
pub mod adder;
#[cfg(all(target_os = "none", skerry_process))]
pub mod plain;
#[cfg(all(target_os = "none", skerry_process))]
pub mod serial;

/// Numbers of calls in a row, ascending.
pub const COUNTS: [u64; 4] = [2000, 4000, 6000, 8000];

/// Times `act` with each count, after a first time that warms up, and logs the times.
#[cfg(all(target_os = "none", skerry_process))]
pub fn probe(name: &str, mut act: impl FnMut(u64)) {
    act(COUNTS[0]);
    for count in COUNTS {
        let start = rt::time::now();
        act(count);
        log::info!("bench: {name}: {count} {}", rt::time::now().0 - start.0);
    }
}
