//! The file half of the personality: name cache, page cache, mounts, path walk, open files.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
extern crate alloc;
pub mod errno;
pub mod file;
pub mod io;
pub mod poll;
pub mod vnode;
pub use errno::Errno;
