//! The table of system calls: one file for each family, with its `CALLS`, indexed here by number.
//!
//! [`CallTable::dispatch`] is the hot path: one bounds check, one load, one indirect call; no lock, no
//! allocation. A number nobody registered answers `ENOSYS` and is named once in the log. The
//! table is built at compile time, so that a number registered twice does not compile.
//! Source: Linux x86-64 numbers as in `linux_raw_sys`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod absent;
mod adjust;
mod async_owner;
mod attributes;
mod barrier;
mod bounded;
mod capabilities;
mod copy_range;
mod credentials;
mod descriptors;
mod directory;
mod entry;
mod epoll;
mod extents;
mod fcntl;
mod futex;
mod inotify;
mod io_priority;
mod ioctl;
mod memory;
mod memory_file;
mod messages;
mod mount;
mod names;
mod network_ioctl;
mod open;
mod pidfd;
mod place;
mod poll;
mod process;
mod process_memory;
mod queues;
mod read_write;
mod scheduler;
mod seccomp;
mod select;
mod semaphores;
mod shared_memory;
mod signal;
mod signalfd;
mod socket;
mod socket_filter;
mod socket_message;
mod socket_options;
mod space;
mod splice;
mod stat;
mod syslog;
mod system;
mod terminal;
mod time;
mod timerfd;
mod xattr;

pub use entry::{Entry, Status};

use ::process::call::{CallTable, Handler, NUMBERS};

/// The tables of all families. A family file is added here with one line.
pub const FAMILIES: &[&[Entry]] = &[
    attributes::CALLS,
    descriptors::CALLS,
    directory::CALLS,
    epoll::CALLS,
    fcntl::CALLS,
    ioctl::CALLS,
    capabilities::CALLS,
    credentials::CALLS,
    futex::CALLS,
    inotify::CALLS,
    io_priority::CALLS,
    memory::CALLS,
    memory_file::CALLS,
    process::CALLS,
    scheduler::CALLS,
    seccomp::CALLS,
    signal::CALLS,
    signalfd::CALLS,
    socket::CALLS,
    system::CALLS,
    syslog::CALLS,
    barrier::CALLS,
    terminal::CALLS,
    time::CALLS,
    adjust::CALLS,
    timerfd::CALLS,
    messages::CALLS,
    mount::CALLS,
    names::CALLS,
    open::CALLS,
    pidfd::CALLS,
    poll::CALLS,
    process_memory::CALLS,
    queues::CALLS,
    read_write::CALLS,
    select::CALLS,
    semaphores::CALLS,
    shared_memory::CALLS,
    space::CALLS,
    splice::CALLS,
    copy_range::CALLS,
    stat::CALLS,
    xattr::CALLS,
];

/// The table of all calls.
pub static TABLE: CallTable = build();

#[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
const fn build() -> CallTable {
    let mut handlers: [Handler; NUMBERS] = [absent::not_implemented; NUMBERS];
    let mut taken = [false; NUMBERS];
    let mut family = 0;
    while family < FAMILIES.len() {
        let mut line = 0;
        while line < FAMILIES[family].len() {
            let entry = &FAMILIES[family][line];
            assert!(!taken[entry.number as usize], "a system call is registered twice");
            taken[entry.number as usize] = true;
            handlers[entry.number as usize] = entry.handler;
            line += 1;
        }
        family += 1;
    }
    CallTable::new(handlers, absent::not_implemented)
}
