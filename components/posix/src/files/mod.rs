//! Open files of processes.

/// A descriptor table.
pub struct Table;

impl Table {
    /// An empty table.
    pub fn new() -> Table {
        Table
    }
}

/// Root, working directory, umask.
pub struct FsContext;
