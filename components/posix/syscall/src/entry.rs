//! [`Entry`]: one system call, as its family registers it.
use process::call::Handler;

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
