//! Disks and their partitions as files, through a page cache of their own.
//!
//! | file | what |
//! | --- | --- |
//! | `table`, `slice` | partition tables; a partition as a block device |
//! | `volume`, `file` | a disk as a file system of one file; the open file of it |
//! | `counted` | a block device that counts its requests |
//! | `wait` | one request, waited for |
//!
//! The cache of a disk lives from the first open to the last close, which writes the dirty pages. A
//! file system mounted from the disk does not share it: the cache is written when the disk is
//! mounted, and not kept up to date while it is. Lock: `disk.cache` is a leaf except for making the
//! cache.
mod counted;
mod file;
mod slice;
mod table;
mod volume;
mod wait;

pub use counted::Statistics;
pub use file::BlockFile;
pub use wait::run as run_request;

use alloc::{
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use counted::Counted;
use interfaces::{
    block::{Block, Operation, SECTOR_BYTES, Segment},
    file_system::FileType,
};
use linux_raw_sys::general as raw;
use process::HOST;
use rt::{PAGE_BYTES, lock_class, memory::Frame, sync::Mutex};
use vfs::{
    Active, Caller, Credentials, Errno, Mount, OpenHow, Path, Vnode,
    devices::Registry,
    file::{File, Opener},
};

lock_class! {
    static CACHE = "disk.cache";
}

/// A disk or a partition, with its number.
pub struct DiskDevice {
    /// Name without `/dev/`.
    pub name: String,
    /// Device number: major and minor.
    pub number: (u32, u32),
    /// The block device.
    pub block: Arc<dyn Block>,
    /// The device is a partition of a disk.
    pub is_partition: bool,
    /// The type of a partition in a GPT; zeroes for others.
    pub partition_type: [u8; 16],
    /// Counters of the requests that passed through it.
    pub statistics: Arc<Statistics>,
    /// The device was set read-only (BLKROSET).
    is_protected: AtomicBool,
    /// Number of pages read ahead, as set by programs; it has no effect.
    read_ahead_pages: AtomicU64,
    cache: Mutex<Weak<Active>>,
}

/// Number of sectors of a page.
const PAGE_SECTORS: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;
/// The greatest number of pages that a description reads ahead.
const READ_AHEAD_PAGES: u64 = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
enum DiskKind {
    Whole,
    /// A partition, with its type.
    Partition([u8; 16]),
}

impl DiskDevice {
    fn new(block: Arc<dyn Block>, number: (u32, u32), kind: DiskKind) -> Arc<DiskDevice> {
        let cache = Mutex::new(&CACHE, Weak::new());
        let counted = Counted::new(block);
        let statistics = counted.statistics().clone();
        let block: Arc<dyn Block> = Arc::new(counted);
        let (is_partition, partition_type) = match kind {
            DiskKind::Whole => (false, [0; 16]),
            DiskKind::Partition(kind) => (true, kind),
        };
        let name = block.info().name;
        Arc::new(DiskDevice {
            name,
            number,
            block,
            is_partition,
            partition_type,
            statistics,
            is_protected: AtomicBool::new(false),
            read_ahead_pages: AtomicU64::new(READ_AHEAD_PAGES),
            cache,
        })
    }
    /// Returns whether neither programs nor new mounts may write it: the device is read-only, or
    /// was set so.
    pub fn is_read_only(&self) -> bool {
        self.block.info().is_read_only || self.is_protected.load(Ordering::Relaxed)
    }
    fn set_read_only(&self, is_read_only: bool) {
        self.is_protected.store(is_read_only, Ordering::Relaxed);
    }
    /// Returns the number of sectors read ahead.
    pub fn read_ahead_sectors(&self) -> u64 {
        self.read_ahead_pages.load(Ordering::Relaxed) * PAGE_SECTORS
    }
    /// Sets the number of sectors read ahead, rounded to whole pages.
    pub fn set_read_ahead(&self, sectors: u64) {
        let pages = (sectors / PAGE_SECTORS).min(u64::from(u32::MAX));
        self.read_ahead_pages.store(pages, Ordering::Relaxed);
    }
    fn cache(&self) -> Result<Arc<Active>, Errno> {
        let mut kept = self.cache.lock();
        if let Some(active) = kept.upgrade() {
            return Ok(active);
        }
        let volume = Arc::new(volume::Volume::new(self.block.clone()));
        let active = Active::stored(HOST, volume, None)?;
        *kept = Arc::downgrade(&active);
        Ok(active)
    }
    /// Writes the pages that programs wrote to the disk itself, before a file system reads the
    /// disk.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn write_cache(&self) -> Result<(), Errno> {
        let kept = self.cache.lock().upgrade();
        kept.map_or(Ok(()), |active| active.instance().sync())
    }
}

/// Returns every disk and every partition found on it, with the numbers of Linux.
pub fn find_all(disks: &[Arc<dyn Block>]) -> Vec<Arc<DiskDevice>> {
    let mut all = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        let (major, minor) = super::disk_number(index);
        let whole = DiskDevice::new(disk.clone(), (major, minor), DiskKind::Whole);
        all.push(whole.clone());
        let disk = &whole.block;
        let sectors = disk.info().sectors;
        let parts = table::partitions(sectors, &mut |sector, out| read_sectors(disk, sector, out));
        for part in parts {
            let number = (major, minor + part.number as u32);
            let slice = Arc::new(slice::Slice::new(disk, part));
            all.push(DiskDevice::new(slice, number, DiskKind::Partition(part.kind)));
        }
    }
    all
}

/// Reads whole sectors, one page at a time; returns `false` if that failed.
fn read_sectors(disk: &Arc<dyn Block>, first: u64, out: &mut [u8]) -> bool {
    let Ok(frame) = Frame::zeroed() else { return false };
    let mut sector = first;
    for part in out.chunks_mut(PAGE_BYTES) {
        let length = part.len() as u32;
        let segments = alloc::vec![Segment { frame: frame.clone(), offset: 0, length }];
        if wait::run(disk, Operation::Read, sector, segments).is_err() {
            return false;
        }
        frame.read(0, part);
        sector += (part.len() / SECTOR_BYTES) as u64;
    }
    true
}

/// Registers an opener for each device.
pub fn register(registry: &Registry, devices: &[Arc<DiskDevice>]) {
    for device in devices {
        let (major, minor) = device.number;
        registry.register_block(major, minor..=minor, Arc::new(DeviceOpener(device.clone())));
    }
}

/// The opener of one device.
struct DeviceOpener(Arc<DiskDevice>);

impl Opener for DeviceOpener {
    fn open(
        &self,
        _: &Arc<Vnode>,
        flags: u32,
        caller: &Caller<'_>,
    ) -> Result<Arc<dyn File>, Errno> {
        let device = &self.0;
        vfs::put_in_place();
        let active = device.cache()?;
        let vnode = active.root().vnode().clone();
        debug_assert!(vnode.file_type() == FileType::Regular);
        let path =
            Path::anonymous(&Mount::unseen(&device.name, active), device.name.as_bytes(), vnode)?;
        let root = Credentials::root();
        let caller = Caller { credentials: &root, ..*caller };
        let is_read_only = device.block.info().is_read_only;
        let how = if is_read_only { raw::O_RDONLY } else { flags & raw::O_ACCMODE };
        let pages = caller.open_path(&path, OpenHow::new(how))?;
        Ok(Arc::new(BlockFile::new(device.clone(), pages)))
    }
}
