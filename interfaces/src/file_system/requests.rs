//! Types of the arguments of requests to a file system.
#[cfg(doc)]
use super::FileSystem;

/// The data that a [`FileSystem::sync_inode`] makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// Contents, and what is needed to find them again: blocks, length, the name it was made under
    /// (`fdatasync`).
    Data,
    /// The data and every attribute (`fsync`).
    All,
}

/// The effect of a [`FileSystem::allocate`] on a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Allocates blocks for the range, which read as zeroes until written; the file grows to its
    /// end.
    Extend,
    /// Does the same as `Extend`, but the length stays.
    KeepSize,
    /// Makes the range read as zeroes and frees its whole blocks; the length stays.
    PunchHole,
    /// Makes the range read as zeroes and allocates its blocks; the file grows to its end.
    Zero,
    /// Does the same as `Zero`, but the length stays.
    ZeroKeepSize,
    /// Removes the range and moves the following bytes down. The range is whole blocks that end
    /// before the file's end.
    Collapse,
    /// Makes a hole at the offset and moves the following bytes up. The range is whole blocks inside
    /// the file.
    Insert,
}

/// The target of a [`FileSystem::seek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Bytes that storage holds (`SEEK_DATA`).
    Data,
    /// Bytes that read as zeroes because storage holds nothing there (`SEEK_HOLE`). The end of the
    /// file is a hole.
    Hole,
}

/// Whether a mount may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    /// The mount is read-only.
    ReadOnly,
    /// The mount may be written.
    Writable,
}

/// The required state of an extended attribute before it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Creates or replaces the attribute.
    Set,
    /// Creates the attribute; refused with `Exists` if it exists (`XATTR_CREATE`).
    Create,
    /// Replaces the attribute; refused with `NoAttribute` if it does not exist (`XATTR_REPLACE`).
    Replace,
}
