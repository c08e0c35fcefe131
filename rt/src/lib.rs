//! `rt`: the operations that a component may ask of the world that it runs in, the one narrow runtime
//! interface.
//!
//! A component uses this crate, the interfaces and the pure libraries, and nothing else. Three back ends
//! implement it: `kernel` (ring 0, calls into the nucleus), `process` (ring 3, kernel calls; chosen by `--cfg
//! skerry_process`) and `host` (std, under tests). The contract that keeps all three possible: **an operation takes and
//! returns plain data, or a handle with a drop; a buffer or a [`user::Context`] is lent for the length of the call and no
//! longer.** Nothing but constants of the program is borrowed for ever, a component never holds a nucleus lock, and no closure
//! is run by another thread than the component's own. The exception is [`ring::Bell::set_handler`], which the kernel world
//! runs on the thread that rings, and other worlds on a thread of the component's. An operation that a world lacks does not
//! compile or does not link there; none pretends to work. Each operation's docs say what it costs where it is a system call
//! (the process world).
//!
//! The modules here are the same in every world: they are thin safe types over the functions of
//! `world`, whose signatures are the whole list of operations.
#![cfg_attr(target_os = "none", no_std)]
extern crate alloc;

#[cfg(all(target_os = "none", not(skerry_process)))]
#[path = "kernel/mod.rs"]
mod world;
#[cfg(all(target_os = "none", skerry_process))]
#[path = "process/mod.rs"]
mod world;
#[cfg(not(target_os = "none"))]
#[path = "host/mod.rs"]
mod world;

#[cfg(any(test, target_os = "none"))]
mod compare;
/// Copies to and from memory that other parties write at the same time.
#[cfg_attr(target_os = "none", expect(dead_code, reason = "the rest is for the host's models"))]
mod words;

/// Pure parts of the process back end, compiled here for their tests.
#[cfg(test)]
#[path = "process/answers.rs"]
mod answers;
#[cfg(test)]
#[path = "process/line.rs"]
mod line;

/// Controls of the host world for tests (mock devices, memory limits).
#[cfg(not(target_os = "none"))]
pub use world::control as host;

pub mod checksum;
pub mod device;
#[cfg(all(target_os = "none", not(skerry_process)))]
pub mod domain;
pub mod entropy;
mod frame_pool;
#[allow(dead_code, reason = "a world has one side of each conversion")]
pub mod machine;
pub mod memory;
pub mod message;
pub mod power;
pub mod profile;
pub mod ring;
#[cfg(all(target_os = "none", not(skerry_process)))]
mod shared;
pub mod sync;
pub mod system;
pub mod thread;
pub mod time;
pub mod timers;
pub mod trace;
pub mod user;
#[cfg(all(target_os = "none", skerry_process))]
pub mod window;

/// Makes the named function (`fn()`) the main function of an isolated component. It runs on the component's
/// first thread, which ends when it returns. Only in the process world.
#[cfg(all(target_os = "none", skerry_process))]
#[macro_export]
macro_rules! component_main {
    ($main:path) => {
        #[unsafe(export_name = "skerry_component_main")]
        fn component_main() {
            let main: fn() = $main;
            main();
        }
    };
}

pub use program::NoMemory;

/// Size of a page and of a frame, in bytes.
pub const PAGE_BYTES: usize = 4096;
