//! [`MountError`]: why a volume cannot be mounted.
use core::fmt;
use interfaces::file_system::FsError;

/// The reason why a volume cannot be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountError {
    /// The device has no ext2, ext3 or ext4 superblock.
    NotExt4,
    /// The device ends before the superblock does.
    TooShort,
    /// The volume has this incompatible feature, by its name for `mke2fs -O`.
    Unsupported(&'static str),
    /// The volume has these incompatible feature bits without a known name.
    UnknownFeature(u32),
    /// Blocks larger than a page: the binary logarithm of the size, less 10.
    BlockSize(u32),
    /// The superblock's checksum is wrong.
    Checksum,
    /// A field of the superblock, or the root directory, is malformed.
    Corrupt(&'static str),
    /// The journal must be replayed, and the device cannot be written.
    NeedsRecovery,
    /// The device returned this error.
    Failed(FsError),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::NotExt4 => f.write_str("no ext4 superblock"),
            MountError::TooShort => f.write_str("device too short"),
            MountError::Unsupported(name) => write!(f, "unsupported feature {name}"),
            MountError::UnknownFeature(bits) => {
                write!(f, "unknown incompatible features {bits:#x}")
            }
            MountError::BlockSize(log) => {
                write!(f, "block size 2^{} unsupported", log.wrapping_add(10))
            }
            MountError::Checksum => f.write_str("superblock checksum is wrong"),
            MountError::Corrupt(what) => write!(f, "superblock makes no sense: {what}"),
            MountError::NeedsRecovery => {
                f.write_str("the journal cannot be replayed on a read-only device (see noload)")
            }
            MountError::Failed(error) => write!(f, "the device failed: {error:?}"),
        }
    }
}
