//! Kinds of requests to a file system.
#[cfg(doc)]
use super::FileSystem;

/// The data that a [`FileSystem::sync_inode`] makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// Contents, and what is needed to find them again: blocks, length, the name it was made under
    /// (`fdatasync`).
    Data,
    /// Every attribute too (`fsync`).
    All,
}

/// The effect of a [`FileSystem::allocate`] on a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Blocks for the range, which read as zeroes until written; the file grows to its end.
    Extend,
    /// As `Extend`, the length stays.
    KeepSize,
    /// The range reads as zeroes, its whole blocks are given back; the length stays.
    PunchHole,
    /// The range reads as zeroes and has blocks; the file grows to its end.
    Zero,
    /// As `Zero`, the length stays.
    ZeroKeepSize,
    /// The range goes and what follows moves down; whole blocks, ending before the file's end.
    Collapse,
    /// A hole is made at the offset and what follows moves up; whole blocks, inside the file.
    Insert,
}

/// The target of a [`FileSystem::seek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Bytes that storage holds (`SEEK_DATA`).
    Data,
    /// Bytes that read as zeroes because nothing is there (`SEEK_HOLE`); the end of the file is one.
    Hole,
}

/// Whether a mount may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing changes.
    ReadOnly,
    /// Everything may.
    Writable,
}

/// The required former state when an extended attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Made or replaced.
    Set,
    /// Refused with `Exists` if it is there (`XATTR_CREATE`).
    Create,
    /// Refused with `NoAttribute` unless it is there (`XATTR_REPLACE`).
    Replace,
}
