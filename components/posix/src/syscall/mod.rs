//! The table of system calls: one file a family, each with its `CALLS`, indexed here by number.
//!
//! [`dispatch`] is the hot path: one bounds check, one load, one indirect call; no lock, no
//! allocation. A number nobody registered answers `ENOSYS` and is named once in the log. The
//! table is built at compile time, so that a number registered twice does not compile.
//! Source: Linux x86-64 numbers as in `linux_raw_sys`.
use crate::{files, memory::AddressSpace, process::Task};
use alloc::sync::Arc;
use rt::user::Context;
use vfs::Errno;

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
mod open;
pub(crate) mod pidfd;
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

/// One system call under way.
pub struct Call<'a> {
    /// The calling task.
    pub task: &'a Arc<Task>,
    /// Its memory as it came: exec's new one is the next call's.
    pub memory: &'a Arc<AddressSpace>,
    /// Its descriptors as it came: those that unshare and exec give are the next call's.
    pub files: &'a Arc<files::Table>,
    /// Registers of the caller, which hold its arguments; rip is past the `syscall` instruction.
    pub context: &'a mut Context,
}

/// A function that answers a call.
pub type Handler = fn(&mut Call<'_>) -> Result<u64, Errno>;

/// Completeness of a call; shown in docs/syscalls.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything Linux's manual page says, as far as this system has the objects.
    Whole,
    /// All of it but what the text names.
    Partial(&'static str),
}

/// One line of a family's table.
#[derive(Clone, Copy)]
pub struct Entry {
    /// `__NR_` number.
    pub number: u32,
    /// Name as in Linux.
    pub name: &'static str,
    /// Completeness of the call.
    pub status: Status,
    /// Its handler.
    pub handler: Handler,
}

impl Entry {
    /// A call that is whole.
    pub const fn whole(number: u32, name: &'static str, handler: Handler) -> Entry {
        Entry { number, name, status: Status::Whole, handler }
    }
    /// A call that lacks `missing`.
    pub const fn partial(
        number: u32,
        name: &'static str,
        missing: &'static str,
        handler: Handler,
    ) -> Entry {
        Entry { number, name, status: Status::Partial(missing), handler }
    }
}

/// The families. A family file registers here with one line.
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

/// Numbers below this are in the table.
pub const NUMBERS: usize = bpf::NUMBERS;

/// Handlers by number.
pub struct Table([Handler; NUMBERS]);

static TABLE: Table = Table::build();

impl Table {
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
    const fn build() -> Table {
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
        Table(handlers)
    }
}

/// Answers the call in `number` and `args`.
///
/// # Errors
/// The error of the call; `ENOSYS` if there is no such call.
#[inline]
pub fn dispatch(call: &mut Call<'_>, number: u64) -> Result<u64, Errno> {
    // As on Linux, the low half is the number.
    match TABLE.0.get(number as u32 as usize) {
        Some(handler) => handler(call),
        None => absent::not_implemented(call),
    }
}

/// The value of rax after a call failed.
pub fn failure(errno: Errno) -> u64 {
    errno.0.wrapping_neg()
}

impl Call<'_> {
    /// Its six arguments.
    #[inline(always)]
    pub fn args(&self) -> [u64; 6] {
        let r = &self.context.registers;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]
    }
    /// Answers with `handler` as if `args` were the arguments; the caller's registers keep what they hold.
    pub(crate) fn with(&mut self, args: [u64; 6], handler: Handler) -> Result<u64, Errno> {
        let own = self.args();
        self.set_args(args);
        let result = handler(self);
        self.set_args(own);
        result
    }
    fn set_args(&mut self, args: [u64; 6]) {
        let r = &mut self.context.registers;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = args;
    }
    /// Argument `index` as the `int` it is in C.
    #[inline(always)]
    pub fn int(&self, index: usize) -> i32 {
        self.args().get(index).copied().unwrap_or(0) as i32
    }
    /// Argument `index` as the `unsigned int` it is in C.
    #[inline(always)]
    pub fn uint(&self, index: usize) -> u32 {
        self.args().get(index).copied().unwrap_or(0) as u32
    }
    /// Argument `index`, an address, a length or another whole word.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.args().get(index).copied().unwrap_or(0)
    }
}
