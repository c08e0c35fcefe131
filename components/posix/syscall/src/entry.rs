//! [`Entry`]: one system call, as its family registers it.
use process::call::Handler;

/// Completeness of a call; shown in docs/syscalls.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The call does everything in Linux's manual page, as far as this system has the objects.
    Whole,
    /// The call does all except the features in this text.
    Partial(&'static str),
}

/// One call in a family's table.
#[derive(Clone, Copy)]
pub struct Entry {
    /// `__NR_` number.
    pub number: u32,
    /// The call's name in Linux.
    pub name: &'static str,
    /// Completeness of the call.
    pub status: Status,
    /// The handler.
    pub handler: Handler,
}

impl Entry {
    /// Makes an entry of a complete call.
    pub const fn whole(number: u32, name: &'static str, handler: Handler) -> Entry {
        Entry { number, name, status: Status::Whole, handler }
    }
    /// Makes an entry of a call that lacks `missing`.
    pub const fn partial(
        number: u32,
        name: &'static str,
        missing: &'static str,
        handler: Handler,
    ) -> Entry {
        Entry { number, name, status: Status::Partial(missing), handler }
    }
}
