//! The facts that rules are matched with.
use alloc::{boxed::Box, sync::Arc};
use labels::Context;

/// A task.
#[derive(Clone, Debug)]
pub struct TaskFacts {
    /// Process id.
    pub process: u32,
    /// Process id of its parent.
    pub parent: u32,
    /// Real, effective, saved and file-system user id.
    pub users: [u32; 4],
    /// Real, effective, saved and file-system group id.
    pub groups: [u32; 4],
    /// Supplementary groups in ascending order.
    pub supplementary: Arc<[u32]>,
    /// Login uid.
    pub login: u32,
    /// Session.
    pub session: u32,
    /// Personality (personality(2)).
    pub personality: u32,
    /// Label, if the system has a monitor.
    pub context: Option<Arc<Context>>,
    /// Path of its program.
    pub program: Box<[u8]>,
}

impl TaskFacts {
    /// Returns the facts of a record that no task causes.
    pub fn of_kernel() -> TaskFacts {
        TaskFacts {
            process: 0,
            parent: 0,
            users: [0; 4],
            groups: [0; 4],
            supplementary: Arc::default(),
            login: u32::MAX,
            session: u32::MAX,
            personality: 0,
            context: None,
            program: Box::default(),
        }
    }
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It returned a value, or a negative error number.
    Returned(i64),
    /// It does not return (exit(2)).
    Never,
}

/// A system call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// Number.
    pub number: u32,
    /// The first four arguments.
    pub arguments: [u64; 4],
    /// Flags of open(2), of a call that opens a file.
    pub open_flags: Option<u64>,
    /// Its end.
    pub end: CallEnd,
    /// The files that it named.
    pub names: &'a [NameFacts],
}

/// The role of a name in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRole {
    /// The file was used.
    Normal,
    /// The directory in which a name was made or removed.
    Parent,
    /// The name was removed.
    Delete,
    /// The name was made.
    Create,
    /// The call did not come to the file.
    Unknown,
}

impl NameRole {
    /// Returns the text in records.
    pub fn text(self) -> &'static str {
        match self {
            NameRole::Normal => "NORMAL",
            NameRole::Parent => "PARENT",
            NameRole::Delete => "DELETE",
            NameRole::Create => "CREATE",
            NameRole::Unknown => "UNKNOWN",
        }
    }
}

/// The attributes of a file that a call named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InodeFacts {
    /// Inode number.
    pub inode: u64,
    /// Device of the file system: major and minor number.
    pub device: (u32, u32),
    /// Type and permissions.
    pub mode: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Device that the file is: major and minor number.
    pub special: (u32, u32),
    /// Label.
    pub context: Option<Arc<Context>>,
}

/// A file that a call named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFacts {
    /// The name as the program gave it.
    pub name: Box<[u8]>,
    /// The absolute path; empty if it is not known.
    pub path: Box<[u8]>,
    /// Role in the call.
    pub role: NameRole,
    /// The file; `None` if there is none.
    pub file: Option<InodeFacts>,
}
