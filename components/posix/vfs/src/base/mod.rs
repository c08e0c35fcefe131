//! The lowest floor: errors, the traits of open files, and values that know nothing of a tree of files.
pub(crate) mod acls;
pub mod credentials;
pub mod digits;
pub mod errno;
pub(crate) mod errors;
pub(crate) mod file;
pub(crate) mod host;
pub mod io;
pub(crate) mod mount_flags;
pub(crate) mod observers;
pub mod poll;
pub(crate) mod principal;
pub(crate) mod rights;
pub(crate) mod seals;
pub mod security;
pub(crate) mod time;
