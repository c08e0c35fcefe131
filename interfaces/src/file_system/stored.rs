//! [`Stored`]: the place of a part of a file on its device.

/// The storage of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A hole: no storage.
    Hole,
    /// Data at this byte of the device.
    Data(u64),
    /// Allocated blocks that read as zeroes, at this byte of the device.
    Unwritten(u64),
    /// Data that is stored beside the inode, not in blocks of its own.
    Inline,
}
