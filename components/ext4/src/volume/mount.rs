//! Mounting: the superblock read and checked, the journal replayed, the root held.
use crate::{
    layout::{
        raw::superblock::{ERRORS_CONTINUE, SUPERBLOCK_OFFSET},
        superblock::{Geometry, ROOT_INODE},
        superblock_edit::{self, Mark},
        volume::Volume,
    },
    store::{
        cache::Cache,
        device::{ChunkBytes, Device},
        health::{ErrorPolicy, Health},
        journal::Journal,
    },
    volume::{background, control},
};
use alloc::sync::Arc;
use core::fmt;
use interfaces::{
    block::BlockHandle,
    file_system::{Access, FileType, FsError},
};
use rt::PAGE_BYTES;

/// Bytes of the shortest device: up to the superblock's end.
const SUPERBLOCK_END_BYTES: u64 = 2048;

/// The options of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most bytes of metadata kept in memory, but for what changed and is not in place yet.
    pub cache_bytes: usize,
    /// Whether it may be written; where the medium forbids that it is read-only all the same.
    pub access: Access,
    /// The effect of an error on the medium; `None` as the superblock says.
    pub errors: Option<ErrorPolicy>,
    /// The treatment of a journal with changes not yet in place.
    pub recovery: Recovery,
    /// Whether it keeps access control lists (`noacl`: those there are mean nothing).
    pub has_acls: bool,
    /// Whether a file that replaces another, or its own contents, is written before that is durable
    /// (`noauto_da_alloc`: it is not).
    pub writes_replacements: bool,
    /// Nanoseconds after which a change is committed at the latest (`commit=SECONDS`).
    pub commit_ns: u64,
}

/// The treatment of a journal with changes not yet in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It is replayed, be it to read only.
    Replay,
    /// The volume is read as it is, and not written.
    Skip,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cache_bytes: 4 << 20,
            access: Access::Writable,
            errors: None,
            recovery: Recovery::Replay,
            has_acls: true,
            writes_replacements: true,
            commit_ns: COMMIT_SECONDS * NS_PER_SECOND,
        }
    }
}

const NS_PER_SECOND: u64 = 1_000_000_000;
/// As on Linux.
const COMMIT_SECONDS: u64 = 5;

/// Options that change nothing here: what they ask for is so, or is the personality's.
const IGNORED: [&[u8]; 12] = [
    b"defaults",
    b"user_xattr",
    b"barrier",
    b"barrier=1",
    b"data=ordered",
    b"delalloc",
    b"nodiscard",
    b"relatime",
    b"strictatime",
    b"noatime",
    b"nodiratime",
    b"",
];

impl Options {
    /// From the option string of `mount`: `ro`, `rw`, `errors=continue|remount-ro|panic`, `noload`, `noacl`,
    /// `noauto_da_alloc`, `commit=SECONDS` (zero: as where nothing is said).
    ///
    /// # Errors
    /// [`FsError::Invalid`] for an option unknown.
    pub fn parse(text: &[u8]) -> Result<Options, FsError> {
        let mut options = Options::default();
        for word in text.split(|byte| *byte == b',') {
            match word {
                b"ro" => options.access = Access::ReadOnly,
                b"rw" => options.access = Access::Writable,
                b"errors=continue" => options.errors = Some(ErrorPolicy::Continue),
                b"errors=remount-ro" | b"errors=panic" => {
                    options.errors = Some(ErrorPolicy::RemountReadOnly);
                }
                b"acl" => options.has_acls = true,
                b"noacl" => options.has_acls = false,
                b"auto_da_alloc" => options.writes_replacements = true,
                b"noauto_da_alloc" => options.writes_replacements = false,
                b"noload" | b"norecovery" => options.recovery = Recovery::Skip,
                word if IGNORED.contains(&word) => {}
                word => options.commit_ns = commit_ns(word).ok_or(FsError::Invalid)?,
            }
        }
        Ok(options)
    }
}

/// The nanoseconds of `commit=SECONDS`.
fn commit_ns(word: &[u8]) -> Option<u64> {
    let seconds = core::str::from_utf8(word.strip_prefix(b"commit=")?).ok()?;
    let seconds: u32 = seconds.parse().ok()?;
    let seconds = if seconds == 0 { COMMIT_SECONDS } else { u64::from(seconds) };
    Some(seconds * NS_PER_SECOND)
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
    /// The journal must be replayed, and the device cannot be written.
    NeedsRecovery,
    /// The device failed.
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

/// A mounted volume.
pub struct Ext4 {
    /// Geometry and metadata.
    pub(crate) volume: Arc<Volume>,
    pub(crate) has_acls: bool,
    pub(crate) writes_replacements: bool,
    pub(crate) commit_ns: u64,
}

/// Mounts the volume on `block`.
///
/// A journal with changes not yet in place is replayed, be it to read only. A volume that cannot be
/// written for its features, its device or what is wrong on it is mounted read-only.
///
/// # Errors
/// [`MountError`].
pub fn mount(block: BlockHandle, options: Options) -> Result<Arc<Ext4>, MountError> {
    let mut volume = open(Device::new(Arc::clone(&block)), &options)?;
    let must_skip = options.recovery == Recovery::Skip;
    if volume.geometry.needs_recovery && !must_skip {
        if volume.device.is_read_only() {
            return Err(MountError::NeedsRecovery);
        }
        recover(&volume)?;
        volume = open(Device::new(block), &options)?;
    }
    warn(volume.device.name(), &volume.geometry);
    let root = volume.inodes.hold(&volume, ROOT_INODE).map_err(|error| match error {
        FsError::Corrupt => MountError::Corrupt("root inode"),
        error => MountError::Failed(error),
    })?;
    if root.read().attributes.file_type != FileType::Directory {
        return Err(MountError::Corrupt("root directory"));
    }
    if options.access == Access::Writable
        && let Err(error) = control::make_writable(&volume)
    {
        match error {
            FsError::ReadOnly | FsError::Corrupt | FsError::Unsupported => {
                log::warn!("ext4: {}: mounted read-only: {error:?}", volume.device.name());
            }
            error => return Err(MountError::Failed(error)),
        }
    }
    let volume = Arc::new(volume);
    if volume.health.check_writable().is_ok() {
        background::start(&volume, options.commit_ns);
    }
    let Options { has_acls, writes_replacements, commit_ns, .. } = options;
    Ok(Arc::new(Ext4 { volume, has_acls, writes_replacements, commit_ns }))
}

/// Reads the superblock.
fn open(device: Device, options: &Options) -> Result<Volume, MountError> {
    if device.bytes() < SUPERBLOCK_END_BYTES {
        return Err(MountError::TooShort);
    }
    let chunk = device.read(0, 1).map_err(MountError::Failed)?;
    let bytes: &[u8] = chunk.first().map_or(&[], |chunk: &ChunkBytes| chunk.as_slice());
    let bytes = bytes.get(SUPERBLOCK_OFFSET..).ok_or(MountError::TooShort)?;
    let geometry = Geometry::decode(bytes, device.bytes())?;
    // On a machine without a real-time clock nothing gets a time before the volume's last one.
    rt::time::raise_wall_ns(
        superblock_edit::last_used_seconds(bytes).saturating_mul(NS_PER_SECOND),
    );
    let policy = match geometry.errors {
        ERRORS_CONTINUE => ErrorPolicy::Continue,
        _ => ErrorPolicy::RemountReadOnly,
    };
    let health = Health::new(options.errors.unwrap_or(policy), geometry.state);
    let cache = Cache::new(options.cache_bytes / PAGE_BYTES);
    Ok(Volume::new(geometry, device, cache, health))
}

/// Replays the journal.
fn recover(volume: &Volume) -> Result<(), MountError> {
    let replay = || {
        volume.device.reserve_frames()?;
        let mut journal = Journal::open(volume)?;
        let blocks = journal.replay(volume)?;
        superblock_edit::mark(volume, Mark::Settled)?;
        log::info!("ext4: {}: {blocks} blocks replayed", volume.device.name());
        Ok(())
    };
    replay().map_err(|error| match error {
        FsError::Corrupt => MountError::Corrupt("journal"),
        FsError::Unsupported => MountError::Unsupported("journal format"),
        error => MountError::Failed(error),
    })
}

fn warn(name: &str, geometry: &Geometry) {
    if geometry.needs_recovery {
        log::warn!("ext4: {name}: the journal was not replayed; what it holds is not seen");
    } else if geometry.is_unclean {
        log::warn!("ext4: {name}: not unmounted cleanly, or marked as having errors");
    }
}
