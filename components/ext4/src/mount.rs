//! Mounting: the superblock read and checked, the root held.
use crate::{
    cache::Cache,
    device::{ChunkBytes, Device},
    inode_table::InodeTable,
    layout::superblock::SUPERBLOCK_OFFSET,
    superblock::{Geometry, ROOT_INODE},
    volume::Volume,
};
use alloc::sync::Arc;
use core::fmt;
use interfaces::{
    block::BlockHandle,
    file_system::{FileType, FsError},
};
use rt::PAGE_BYTES;

/// Bytes of the shortest device: up to the superblock's end.
const SUPERBLOCK_END_BYTES: u64 = 2048;

/// What a mount is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most bytes of metadata kept in memory.
    pub cache_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { cache_bytes: 2 << 20 }
    }
}

/// Why a volume cannot be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountError {
    /// No ext2, ext3 or ext4 superblock.
    NotExt4,
    /// The device ends before the superblock does.
    TooShort,
    /// An incompatible feature, by the name `mke2fs -O` knows.
    Unsupported(&'static str),
    /// Incompatible feature bits without a known name.
    UnknownFeature(u32),
    /// Blocks larger than a page: the binary logarithm of the size, less 10.
    BlockSize(u32),
    /// The superblock's checksum is wrong.
    Checksum,
    /// A field of the superblock, or the root directory, makes no sense.
    Corrupt(&'static str),
    /// Reading failed.
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
            MountError::Failed(error) => write!(f, "reading failed: {error:?}"),
        }
    }
}

/// A mounted volume.
pub struct Ext4 {
    /// Geometry and metadata.
    pub(crate) volume: Volume,
    /// Inodes the personality holds.
    pub(crate) inodes: InodeTable,
}

/// Mounts the volume on `block`, read-only.
///
/// A journal with changes not yet in place is not replayed: the log says so, and the volume is
/// read as it is.
///
/// # Errors
/// [`MountError`].
pub fn mount(block: BlockHandle, options: Options) -> Result<Arc<Ext4>, MountError> {
    let device = Device::new(block);
    if device.bytes() < SUPERBLOCK_END_BYTES {
        return Err(MountError::TooShort);
    }
    let chunk = device.read(0, 1).map_err(MountError::Failed)?;
    let bytes: &[u8] = chunk.first().map_or(&[], |chunk: &ChunkBytes| chunk.as_slice());
    let bytes = bytes.get(SUPERBLOCK_OFFSET..).ok_or(MountError::TooShort)?;
    let geometry = Geometry::decode(bytes, device.bytes())?;
    warn(device.name(), &geometry);
    let cache = Cache::new(options.cache_bytes / PAGE_BYTES);
    let volume = Volume::new(geometry, device, cache);
    let inodes = InodeTable::new();
    let root = inodes.hold(&volume, ROOT_INODE).map_err(|error| match error {
        FsError::Corrupt => MountError::Corrupt("root inode"),
        error => MountError::Failed(error),
    })?;
    if root.attributes.file_type != FileType::Directory {
        return Err(MountError::Corrupt("root directory"));
    }
    Ok(Arc::new(Ext4 { volume, inodes }))
}

fn warn(name: &str, geometry: &Geometry) {
    if geometry.needs_recovery {
        log::warn!("ext4: {name}: the journal was not replayed; what it holds is not seen");
    } else if geometry.is_unclean {
        log::warn!("ext4: {name}: not unmounted cleanly, or marked as having errors");
    }
}
