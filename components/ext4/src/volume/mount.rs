//! Mounting: the superblock read and checked, the journal replayed, the root held.
use crate::{
    layout::{
        journal,
        mount_error::MountError,
        raw::superblock::{ERRORS_CONTINUE, SUPERBLOCK_OFFSET},
        superblock::{Geometry, ROOT_INODE},
        superblock_edit::{self, Mark},
        volume::Volume,
    },
    store::{
        cache::Cache,
        device::{ChunkBytes, VolumeDevice},
        health::{ErrorPolicy, Health},
    },
    transactions::mount::Mount,
    volume::{background, ext4::Ext4, writable::make_writable},
};
use alloc::sync::Arc;
use interfaces::{
    block::BlockHandle,
    file_system::{FileType, FsError, MountAccess},
};
use rt::PAGE_BYTES;

/// Bytes of the shortest device: up to the superblock's end.
const SUPERBLOCK_END_BYTES: u64 = 2048;

/// The options of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The greatest number of bytes of metadata kept in memory, without changed blocks that are not in place yet.
    pub cache_bytes: usize,
    /// Wanted access; the mount is read-only if the medium forbids writing.
    pub access: MountAccess,
    /// Reaction to an error on the medium; `None` for that of the superblock.
    pub errors: Option<ErrorPolicy>,
    /// The treatment of a journal whose changes are not all in place.
    pub recovery: Recovery,
    /// Access control lists are used (with `noacl` existing ones are ignored).
    pub has_acls: bool,
    /// A file that replaces another, or its own contents, is written before that is durable (with
    /// `noauto_da_alloc` it is not).
    pub writes_replacements: bool,
    /// Nanoseconds after which a change is committed at the latest (`commit=SECONDS`).
    pub commit_ns: u64,
}

/// The treatment of a journal whose changes are not all in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The journal is replayed, even for a read-only mount.
    Replay,
    /// The volume is read without replay, and not written.
    Skip,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            cache_bytes: 4 << 20,
            access: MountAccess::Writable,
            errors: None,
            recovery: Recovery::Replay,
            has_acls: true,
            writes_replacements: true,
            commit_ns: COMMIT_SECONDS * NS_PER_SECOND,
        }
    }
}

const NS_PER_SECOND: u64 = 1_000_000_000;
/// Interval between commits in seconds, as on Linux.
const COMMIT_SECONDS: u64 = 5;

/// Options without an effect, because their effect is always given here, or is up to the personality.
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

impl MountOptions {
    /// Parses the option string of `mount`: `ro`, `rw`, `errors=continue|remount-ro|panic`, `noload`,
    /// `noacl`, `noauto_da_alloc`, `commit=SECONDS` (zero stands for the default).
    ///
    /// # Errors
    /// [`FsError::Invalid`] for an option unknown.
    pub fn parse(text: &[u8]) -> Result<MountOptions, FsError> {
        let mut options = MountOptions::default();
        for word in text.split(|byte| *byte == b',') {
            match word {
                b"ro" => options.access = MountAccess::ReadOnly,
                b"rw" => options.access = MountAccess::Writable,
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

/// Parses `commit=SECONDS` into nanoseconds.
fn commit_ns(word: &[u8]) -> Option<u64> {
    let seconds = core::str::from_utf8(word.strip_prefix(b"commit=")?).ok()?;
    let seconds: u32 = seconds.parse().ok()?;
    let seconds = if seconds == 0 { COMMIT_SECONDS } else { u64::from(seconds) };
    Some(seconds * NS_PER_SECOND)
}

/// Mounts the volume on `block`.
///
/// If the journal has changes that are not in place yet, it is replayed, even for a read-only mount. A
/// volume that cannot be written because of its features, its device or its errors is mounted read-only.
///
/// # Errors
/// [`MountError`].
pub fn mount(block: BlockHandle, options: MountOptions) -> Result<Arc<Ext4>, MountError> {
    let mut volume = open(VolumeDevice::new(Arc::clone(&block)), &options)?;
    let must_skip = options.recovery == Recovery::Skip;
    if volume.geometry.needs_recovery && !must_skip {
        if volume.store.device.is_read_only() {
            return Err(MountError::NeedsRecovery);
        }
        recover(&volume)?;
        volume = open(VolumeDevice::new(block), &options)?;
    }
    warn(volume.store.device.name(), &volume.geometry);
    let mount = Mount::new(volume);
    let volume = &mount.volume;
    let root = mount.inodes.hold(volume, ROOT_INODE).map_err(|error| match error {
        FsError::Corrupt => MountError::Corrupt("root inode"),
        error => MountError::Failed(error),
    })?;
    if root.read().attributes.file_type != FileType::Directory {
        return Err(MountError::Corrupt("root directory"));
    }
    if options.access == MountAccess::Writable
        && let Err(error) = make_writable(&mount)
    {
        match error {
            FsError::ReadOnly | FsError::Corrupt | FsError::Unsupported => {
                log::warn!("ext4: {}: mounted read-only: {error:?}", volume.store.device.name());
            }
            error => return Err(MountError::Failed(error)),
        }
    }
    let mount = Arc::new(mount);
    if mount.volume.store.health.check_writable().is_ok() {
        background::start(&mount, options.commit_ns);
    }
    let MountOptions { has_acls, writes_replacements, commit_ns, .. } = options;
    Ok(Arc::new(Ext4 { mount, has_acls, writes_replacements, commit_ns }))
}

/// Reads the superblock and makes the volume.
fn open(device: VolumeDevice, options: &MountOptions) -> Result<Volume, MountError> {
    if device.bytes() < SUPERBLOCK_END_BYTES {
        return Err(MountError::TooShort);
    }
    let chunk = device.read(0, 1).map_err(MountError::Failed)?;
    let bytes: &[u8] = chunk.first().map_or(&[], |chunk: &ChunkBytes| chunk.as_slice());
    let bytes = bytes.get(SUPERBLOCK_OFFSET..).ok_or(MountError::TooShort)?;
    let geometry = Geometry::decode(bytes, device.bytes())?;
    // On a machine without a real-time clock, no file gets an earlier time than the volume's last one.
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
        volume.store.device.reserve_frames()?;
        let mut journal = journal::open(volume)?;
        let blocks = journal.replay(&volume.store.device, volume.geometry.mount_seconds)?;
        superblock_edit::mark(volume, Mark::Settled)?;
        log::info!("ext4: {}: {blocks} blocks replayed", volume.store.device.name());
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
