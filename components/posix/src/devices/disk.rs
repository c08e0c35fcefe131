//! Disks as files: [`BlockFile`] reads a disk through a page cache of its own.
//!
//! The cache needs a file system beneath it: [`Volume`] is one with a single file, the disk. Its
//! instance lives from the first open to the last close, as pages of it are dropped when clean.
//! Writing comes with writing file systems; until then a disk opened for writing is `EROFS`.
use crate::{files::Scope, memory::AddressSpace, process};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use interfaces::{
    block::{Block, BlockError, BlockSink, Operation, Request, SECTOR_BYTES, Segment},
    file_system::{
        AttributeChange, Attributes, Backing, DirectoryEntry, FileSystem, FileTime, FileType,
        FsError, InodeNumber, MountInfo, NewInode, PageSink, Usage,
    },
};
use linux_raw_sys::{general as raw, ioctl as request};
use rt::{PAGE_BYTES, lock_class, memory::Frame, sync::Mutex};
use vfs::{
    Active, Caller, Credentials, Errno, OpenFile, OpenHow, Path, Vnode, Whence,
    devices::Registry,
    file::{File, IoFlags, Mappable, Opener},
    io::{Sink, Source},
};

lock_class! {
    static ACTIVE = "disk.active";
}

const SECTORS_A_PAGE: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;
/// The one file's number.
const INODE: InodeNumber = 1;

/// Registers an opener for each disk.
pub fn register(registry: &Registry, disks: &[Arc<dyn Block>]) {
    for (index, disk) in disks.iter().enumerate() {
        let (major, minor) = super::disk_number(index);
        let opener = Disk { disk: disk.clone(), active: Mutex::new(&ACTIVE, Weak::new()) };
        registry.register_block(major, minor..=minor, Arc::new(opener));
    }
}

/// Opens one disk.
struct Disk {
    disk: Arc<dyn Block>,
    active: Mutex<Weak<Active>>,
}

impl Disk {
    fn active(&self) -> Result<Arc<Active>, Errno> {
        let mut kept = self.active.lock();
        if let Some(active) = kept.upgrade() {
            return Ok(active);
        }
        let volume = Arc::new(Volume { disk: self.disk.clone() });
        let active = Active::stored(volume, None)?;
        *kept = Arc::downgrade(&active);
        Ok(active)
    }
}

impl Opener for Disk {
    fn open(&self, _: &Arc<Vnode>, flags: u32) -> Result<Arc<dyn File>, Errno> {
        if flags & raw::O_ACCMODE != raw::O_RDONLY {
            return Err(Errno::EROFS);
        }
        let task = process::current().ok_or(Errno::ENXIO)?;
        let active = self.active()?;
        let vnode = active.root().vnode().clone();
        let path = Path::anonymous(&active, self.disk.info().name.as_bytes(), vnode)?;
        let scope = Scope::of(&task);
        let root = Credentials::root();
        let caller = Caller { credentials: &root, ..scope.caller() };
        let pages = caller.open_path(&path, OpenHow::new(raw::O_RDONLY))?;
        Ok(Arc::new(BlockFile { disk: self.disk.clone(), pages }))
    }
}

/// An open disk.
pub struct BlockFile {
    disk: Arc<dyn Block>,
    pages: Arc<OpenFile>,
}

impl BlockFile {
    /// Answers an ioctl.
    ///
    /// # Errors
    /// `ENOTTY`, `EFAULT`.
    pub fn ioctl(&self, memory: &AddressSpace, command: u32, argument: u64) -> Result<u64, Errno> {
        let info = self.disk.info();
        match command {
            request::BLKGETSIZE64 => {
                memory.write(argument, &(info.sectors * SECTOR_BYTES as u64))?
            }
            request::BLKGETSIZE => memory.write(argument, &info.sectors)?,
            request::BLKSSZGET => memory.write(argument, &(SECTOR_BYTES as u32))?,
            request::BLKPBSZGET => memory.write(argument, &info.block_bytes)?,
            request::BLKBSZGET => memory.write(argument, &(PAGE_BYTES as u32))?,
            request::BLKROGET => memory.write(argument, &u32::from(info.is_read_only))?,
            request::BLKFLSBUF => {}
            _ => return Err(Errno::ENOTTY),
        }
        Ok(0)
    }
}

impl File for BlockFile {
    fn is_seekable(&self) -> bool {
        true
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        self.pages.file().read(offset, sink, flags)
    }
    fn write(&self, _: u64, _: &mut dyn Source, _: IoFlags) -> Result<(usize, u64), Errno> {
        Err(Errno::EROFS)
    }
    fn size(&self) -> u64 {
        self.pages.file().size()
    }
    fn seek_extent(&self, _: u64, _: Whence) -> Result<u64, Errno> {
        Err(Errno::EINVAL)
    }
    fn mappable(&self) -> Result<Arc<dyn Mappable>, Errno> {
        self.pages.file().mappable()
    }
    fn sync(&self, _: bool) -> Result<(), Errno> {
        Ok(())
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

/// A file system with one file: the disk.
struct Volume {
    disk: Arc<dyn Block>,
}

impl Volume {
    fn bytes(&self) -> u64 {
        self.disk.info().sectors * SECTOR_BYTES as u64
    }
    /// The request for page `index` into `frame`; nothing of it may lie beyond the end.
    fn request(&self, tag: u64, index: u64, frame: Frame, sectors: u64) -> Request {
        let first = index.saturating_mul(SECTORS_A_PAGE);
        let length = sectors.saturating_sub(first).min(SECTORS_A_PAGE) as usize * SECTOR_BYTES;
        if length < PAGE_BYTES {
            frame.zero(length, PAGE_BYTES - length);
        }
        let segment = Segment { frame, offset: 0, length: length as u32 };
        Request { tag, operation: Operation::Read, sector: first, segments: alloc::vec![segment] }
    }
}

/// Counts the requests of one transfer, and tells its sink once all have ended.
struct Transfer {
    sink: Arc<dyn PageSink>,
    tag: u64,
    first: u64,
    pages: usize,
    left: AtomicUsize,
    failures: AtomicU64,
}

impl BlockSink for Transfer {
    fn completed(&self, _: u64, result: Result<(), BlockError>) {
        if result.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let has_failed = self.failures.load(Ordering::Relaxed) > 0;
            let result = if has_failed { Err(FsError::Io) } else { Ok(()) };
            self.sink.pages_done(self.tag, self.first, self.pages, result);
        }
    }
}

impl FileSystem for Volume {
    fn mount_info(&self) -> MountInfo {
        MountInfo {
            type_name: "bdev",
            root: INODE,
            is_read_only: true,
            backing: Backing::Storage,
            has_stable_names: true,
        }
    }
    fn usage(&self) -> Result<Usage, FsError> {
        Ok(Usage { magic: 0x6264_6576, block_bytes: PAGE_BYTES as u32, ..Usage::default() })
    }
    fn lookup(&self, _: InodeNumber, _: &[u8]) -> Result<Attributes, FsError> {
        Err(FsError::NotFound)
    }
    fn attributes(&self, _: InodeNumber) -> Result<Attributes, FsError> {
        let epoch = FileTime::default();
        Ok(Attributes {
            inode: INODE,
            file_type: FileType::Regular,
            permissions: 0o600,
            links: 1,
            user: 0,
            group: 0,
            device: (0, 0),
            size: self.bytes(),
            blocks: self.disk.info().sectors,
            accessed: epoch,
            modified: epoch,
            changed: epoch,
            created: epoch,
            flags: 0,
            generation: 0,
        })
    }
    fn set_attributes(&self, _: InodeNumber, _: &AttributeChange) -> Result<Attributes, FsError> {
        Err(FsError::ReadOnly)
    }
    fn read_directory(
        &self,
        _: InodeNumber,
        _: u64,
        _: usize,
    ) -> Result<Vec<DirectoryEntry>, FsError> {
        Err(FsError::NotDirectory)
    }
    fn read_link(&self, _: InodeNumber) -> Result<Vec<u8>, FsError> {
        Err(FsError::Invalid)
    }
    fn read_pages(
        &self,
        _: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        let sectors = self.disk.info().sectors;
        let pages = frames.len();
        let (inside, beyond): (Vec<_>, Vec<_>) = (first..)
            .zip(frames)
            .partition(|(index, _)| index.saturating_mul(SECTORS_A_PAGE) < sectors);
        for (_, frame) in &beyond {
            frame.zero(0, PAGE_BYTES);
        }
        if inside.is_empty() {
            return sink.pages_done(tag, first, pages, Ok(()));
        }
        let transfer: Arc<dyn BlockSink> = Arc::new(Transfer {
            sink: sink.clone(),
            tag,
            first,
            pages,
            left: AtomicUsize::new(inside.len()),
            failures: AtomicU64::new(0),
        });
        let batch =
            inside.into_iter().map(|(index, frame)| self.request(tag, index, frame, sectors));
        self.disk.submit(batch.collect(), &transfer);
    }
    fn create(&self, _: InodeNumber, _: &[u8], _: &NewInode<'_>) -> Result<Attributes, FsError> {
        Err(FsError::ReadOnly)
    }
    fn link(
        &self,
        _: InodeNumber,
        _: InodeNumber,
        _: &[u8],
        _: FileTime,
    ) -> Result<Attributes, FsError> {
        Err(FsError::ReadOnly)
    }
    fn unlink(&self, _: InodeNumber, _: &[u8], _: FileTime) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }
    fn remove_directory(&self, _: InodeNumber, _: &[u8], _: FileTime) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }
    fn rename(
        &self,
        _: (InodeNumber, &[u8]),
        _: (InodeNumber, &[u8]),
        _: FileTime,
    ) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }
    fn get_xattr(&self, _: InodeNumber, _: &[u8]) -> Result<Vec<u8>, FsError> {
        Err(FsError::NoAttribute)
    }
    fn list_xattr(&self, _: InodeNumber) -> Result<Vec<Vec<u8>>, FsError> {
        Ok(Vec::new())
    }
    fn forget(&self, _: InodeNumber, _: u64) {}
    fn sync(&self) -> Result<(), FsError> {
        Ok(())
    }
}
