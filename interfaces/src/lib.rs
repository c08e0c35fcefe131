//! The interfaces between components, one file each. Control goes through these traits; data goes
//! in whole frames and is never copied between components.
//!
//! `#[interface]` derives the client handle. While both ends share a world (this issue) a handle
//! is a counted trait object and a call is direct; a component in the process world will be called
//! by message with the same handle, so every argument and result is plain data, frames, or another
//! interface's handle, and every error type can say `Restarted`.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod block;
pub mod clock;
pub mod file_system;
pub mod terminal;
