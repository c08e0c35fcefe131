//! [`Stored`]: what a file system tells of where a file is.

/// The storage of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing.
    Hole,
    /// Data, from this byte of the device on.
    Data(u64),
    /// Room that reads as zeroes, from this byte of the device on.
    Unwritten(u64),
    /// Data beside the inode, in no blocks of its own.
    Inline,
}
