//! The hooks by which vfs asks for what no caller can be passed to: [`Host`].
//!
//! A file system and a namespace are given a host when they are made. An address space of `memory` has one, too.
use interfaces::file_system::ReservedFor;

/// The keeper of tasks. The defaults are those of a program without tasks.
pub trait Host: Send + Sync {
    /// The function by which a file system asks whether the calling thread may use blocks reserved for privileged users. It
    /// remains a hook: a file system is another component, and its operations have no argument for a caller. It is called
    /// only while the unclaimed blocks of a volume run low.
    fn judge(&self) -> fn(ReservedFor) -> bool {
        |_| false
    }
    /// Makes a task end where memory ran out and nothing can be given back (the out-of-memory killer). Returns whether to try
    /// again. It remains a hook: memory may be refused at any depth, and the killer is above vfs and `memory`.
    ///
    /// # Locks
    /// May wait for the end of a task. It is called with no lock of a page held.
    fn relieve(&self) -> bool {
        false
    }
}

/// A host without tasks: of generated files, which have no storage, of address spaces without a process, and of tests.
impl Host for () {}
