//! A kernel that consists of the nucleus and its tests. It exercises what only the real machine can, on all its processors, and
//! checks that no object is left over. `./x test --suite nucleus` boots it.
//!
//! Each test is a function that panics at a fault. The line `selftest: N passed` is the last of a good run; then the machine is
//! switched off. The parameter `skerry.selftest` is the number of times that all tests are run (those whose name contains the
//! value of `skerry.only`). With `overflow` the stack is used up instead; with `bench` and `trace` messages are measured
//! (`costs::probes`), with `ports` accesses of ports (`costs::ports`); with `hostile` a component makes `skerry.calls` random
//! calls. Built for the host it is an empty program.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod costs;
#[cfg(target_os = "none")]
mod derivations;
#[cfg(target_os = "none")]
mod devices;
#[cfg(target_os = "none")]
mod domains;
#[cfg(target_os = "none")]
mod hostile;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod messages;
#[cfg(target_os = "none")]
mod ports;
#[cfg(target_os = "none")]
mod program;
#[cfg(target_os = "none")]
mod servers;
#[cfg(target_os = "none")]
mod shares;
#[cfg(target_os = "none")]
mod suite;
#[cfg(target_os = "none")]
mod threads;

#[cfg(not(target_os = "none"))]
fn main() {}
