//! Open files of processes: descriptor tables ([`DescriptorTable`]) and file-system contexts ([`FsContext`]).
//!
//! A table is shared by the tasks that share `CLONE_FILES`. Its one lock (`files.table`, a leaf)
//! guards the slots; a description that leaves the table is dropped after the lock, because its last
//! drop may write, wake or block. `docs/descriptors.md` has the details. Source: POSIX.1-2017 2.14,
//! dup(2), fcntl(2), close_range(2).
pub mod anonymous;
pub mod arrival;
pub(crate) mod context;
pub mod install;
pub mod notes;
pub mod notify;
pub mod owner;
pub(crate) mod scope;
pub(crate) mod sharing;
pub mod slots;
pub(crate) mod table;

pub use context::{FsContext, Places};
pub use scope::Scope;
pub use sharing::{FsExec, FsHold, Sharing};
pub use slots::OnExec;
pub use table::{DescriptorTable, LookUp, ReservedDescriptor};
