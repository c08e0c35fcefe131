//! [`Volume`]: a disk as a file system with one file, for the page cache to stand on.
use super::wait::run;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};
use interfaces::{
    block::{Block, BlockError, BlockSink, Operation, Request, SECTOR_BYTES, Segment},
    file_system::{
        Allocation, AttributeChange, Attributes, Backing, FileSystem, FileSystemUsage, FileTime,
        FileType, FsError, InodeNumber, MountInfo, PageSink, SyncKind, TakeEntry,
    },
};
use rt::{PAGE_BYTES, memory::Frame};

const SECTORS_A_PAGE: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;
/// Number of the one file.
const INODE: InodeNumber = 1;
/// Number of segments of zeroes sent at once if the device cannot make zeroes itself.
const ZERO_SEGMENTS: u64 = 64;

/// A file system with one file: the disk.
pub struct Volume {
    disk: Arc<dyn Block>,
    /// Something was written here since the last flush: a program that only reads a disk need not
    /// wait for a flush.
    was_written: AtomicBool,
}

impl Volume {
    /// Makes a file system of the disk.
    pub fn new(disk: Arc<dyn Block>) -> Volume {
        Volume { disk, was_written: AtomicBool::new(false) }
    }
    fn flush(&self) -> Result<(), FsError> {
        if self.disk.info().is_read_only {
            return Ok(());
        }
        self.was_written.store(false, Ordering::Release);
        let flushed = run(&self.disk, Operation::Flush, 0, Vec::new());
        flushed.inspect_err(|_| self.was_written.store(true, Ordering::Release)).map_err(fs_error)
    }
    fn bytes(&self) -> u64 {
        self.disk.info().sectors * SECTOR_BYTES as u64
    }
    /// Returns the request for page `index`, cut off at the end of the disk.
    fn request(&self, operation: Operation, index: u64, frame: Frame, sectors: u64) -> Request {
        let first = index.saturating_mul(SECTORS_A_PAGE);
        let length = sectors.saturating_sub(first).min(SECTORS_A_PAGE) as usize * SECTOR_BYTES;
        if length < PAGE_BYTES && operation == Operation::Read {
            frame.zero(length, PAGE_BYTES - length);
        }
        let segment = Segment { frame, offset: 0, length: length as u32 };
        Request { tag: index, operation, sector: first, segments: alloc::vec![segment] }
    }
    /// Transfers pages; `sink` is told of each.
    fn transfer(
        &self,
        operation: Operation,
        first: u64,
        frames: Vec<Frame>,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        let sectors = self.disk.info().sectors;
        let is_inside = |index: u64| index.saturating_mul(SECTORS_A_PAGE) < sectors;
        let mut batch = Vec::with_capacity(frames.len());
        let mut beyond = 0;
        for (index, frame) in (first..).zip(frames) {
            if is_inside(index) {
                batch.push(self.request(operation, index, frame, sectors));
            } else {
                beyond += 1;
                frame.zero(0, PAGE_BYTES);
            }
        }
        if beyond > 0 {
            sink.pages_done(tag, first + batch.len() as u64, beyond, Ok(()));
        }
        let transfer: Arc<dyn BlockSink> = Arc::new(TransferSink { sink: sink.clone(), tag });
        self.disk.submit(&mut batch, &transfer);
    }
    /// Writes zeroes to sectors; sends them as data if the device cannot make them itself.
    fn write_zeroes(&self, first: u64, sectors: u64) -> Result<(), BlockError> {
        if self.disk.info().has_write_zeroes {
            return run(&self.disk, Operation::WriteZeroes { sectors }, first, Vec::new());
        }
        let zero = Frame::zeroed().map_err(|_| BlockError::NoMemory)?;
        let (mut at, end) = (first, first + sectors);
        let most = (self.disk.info().max_segments as u64).min(ZERO_SEGMENTS) * SECTORS_A_PAGE;
        while at < end {
            let part = (end - at).min(most);
            let segments = (0..part).step_by(SECTORS_A_PAGE as usize).map(|done| {
                let length = (part - done).min(SECTORS_A_PAGE) as u32 * SECTOR_BYTES as u32;
                Segment { frame: zero.clone(), offset: 0, length }
            });
            run(&self.disk, Operation::Write, at, segments.collect())?;
            at += part;
        }
        Ok(())
    }
}

/// Tells the sink of one transfer of each page.
struct TransferSink {
    sink: Arc<dyn PageSink>,
    tag: u64,
}

impl BlockSink for TransferSink {
    fn completed(&self, page: u64, result: Result<(), BlockError>) {
        self.sink.pages_done(self.tag, page, 1, result.map_err(fs_error));
    }
}

fn fs_error(error: BlockError) -> FsError {
    match error {
        BlockError::ReadOnly => FsError::ReadOnly,
        BlockError::NoMemory => FsError::NoMemory,
        BlockError::Unsupported => FsError::Unsupported,
        BlockError::Invalid => FsError::Invalid,
        BlockError::Restarted => FsError::Restarted,
        BlockError::Device => FsError::Io,
    }
}

impl FileSystem for Volume {
    fn mount_info(&self) -> MountInfo {
        MountInfo {
            type_name: "bdev",
            root: INODE,
            is_read_only: self.disk.info().is_read_only,
            backing: Backing::Storage,
            has_stable_names: true,
            block_bytes: PAGE_BYTES as u32,
            has_acls: false,
            size_max: vfs::file::POSITION_MAX,
            writes_replacements: false,
        }
    }
    fn usage(&self) -> Result<FileSystemUsage, FsError> {
        Ok(FileSystemUsage {
            magic: 0x6264_6576,
            block_bytes: PAGE_BYTES as u32,
            ..FileSystemUsage::default()
        })
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
            may_have_acls: false,
            may_have_capabilities: false,
        })
    }
    /// The times are not stored, and the length is that of the disk.
    fn set_attributes(
        &self,
        inode: InodeNumber,
        change: &AttributeChange,
    ) -> Result<Attributes, FsError> {
        if change.size.is_some() { Err(FsError::Invalid) } else { self.attributes(inode) }
    }
    fn read_directory(&self, _: InodeNumber, _: u64, _: &mut TakeEntry<'_>) -> Result<(), FsError> {
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
        self.transfer(Operation::Read, first, frames, tag, sink);
    }
    fn write_pages(
        &self,
        _: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        _: u64,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        self.was_written.store(true, Ordering::Release);
        self.transfer(Operation::Write, first, frames, tag, sink);
    }
    fn allocate(
        &self,
        inode: InodeNumber,
        how: Allocation,
        offset: u64,
        length: u64,
        _: FileTime,
    ) -> Result<Attributes, FsError> {
        let (first, sectors) = (offset / SECTOR_BYTES as u64, length / SECTOR_BYTES as u64);
        self.was_written.store(true, Ordering::Release);
        let done = match how {
            Allocation::PunchHole => {
                run(&self.disk, Operation::Discard { sectors }, first, Vec::new())
            }
            Allocation::Zero | Allocation::ZeroKeepSize => self.write_zeroes(first, sectors),
            _ => Err(BlockError::Unsupported),
        };
        done.map_err(fs_error)?;
        self.attributes(inode)
    }
    fn forget(&self, _: InodeNumber, _: u64) {}
    /// Flushes the device, so that blocks written without this cache are made durable too
    /// (fsync(2)).
    fn sync_inode(&self, _: InodeNumber, _: SyncKind) -> Result<(), FsError> {
        self.flush()
    }
    fn sync(&self) -> Result<(), FsError> {
        if self.was_written.load(Ordering::Acquire) { self.flush() } else { Ok(()) }
    }
}
