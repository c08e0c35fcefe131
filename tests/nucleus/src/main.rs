//! A kernel that is the nucleus and its tests: exercises it where only the real machine can, on as many
//! processors as there are, and counts what is left over. `./x test --suite nucleus` boots it.
//!
//! Each test is a function that panics where something is wrong. The line `selftest: N passed` is the last of a
//! good run; then the machine is switched off. The parameter `skerry.selftest` is how often all are
//! run (those whose name holds the value of `skerry.only`); with `overflow` the stack is used up instead, with `bench` and `trace`
//! messages are measured (`costs::probes`), with `ports` accesses of ports (`costs::ports`); with `hostile` a component
//! makes `skerry.calls` random calls. Built for the host it is an empty program.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod costs;
#[cfg(target_os = "none")]
mod devices;
#[cfg(target_os = "none")]
mod domains;
#[cfg(target_os = "none")]
mod gifts;
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
mod shares;
#[cfg(target_os = "none")]
mod suite;
#[cfg(target_os = "none")]
mod threads;

#[cfg(not(target_os = "none"))]
fn main() {}
