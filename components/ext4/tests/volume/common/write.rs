//! Writing through the interface, and checking the result by the stock tools.
use super::{
    device::{Completion, MemoryBlock},
    image::{Recipe, run},
    walk::Sink,
};
use ext4::{Ext4, MountOptions, mount};
use interfaces::file_system::*;
use rt::{PAGE_BYTES, memory::Frame};
use std::{path::Path, sync::Arc};
use tempfile::TempDir;

pub const NOW: FileTime = FileTime { seconds: 1_800_000_000, nanoseconds: 123_456_789 };

/// A mounted volume and its device.
pub struct World {
    pub fs: Arc<Ext4>,
    pub device: Arc<MemoryBlock>,
}

impl World {
    /// Makes an empty volume.
    pub fn empty(options: &'static [&'static str], kib: usize) -> World {
        let folder = TempDir::new().unwrap();
        World::of(Recipe::new(options, kib).make(folder.path()))
    }

    /// Mounts the volume of an image.
    pub fn of(image: Vec<u8>) -> World {
        World::with(MemoryBlock::writable(image, Completion::AtOnce, 128))
    }

    /// Mounts the volume on a device.
    pub fn with(device: Arc<MemoryBlock>) -> World {
        let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
        assert!(!fs.mount_info().is_read_only, "it can be written");
        World { fs, device }
    }

    /// Unmounts, checks that e2fsck finds no errors, and returns the image.
    pub fn finish(self) -> Vec<u8> {
        assert_eq!(self.fs.held_inodes(), 1, "everything but the root is forgotten");
        self.fs.unmount().unwrap();
        let image = self.device.image();
        check(&image);
        image
    }
}

/// Makes everything durable, and writes it in place.
pub fn settle(fs: &dyn FileSystem) {
    fs.sync().unwrap();
    fs.put_in_place().unwrap();
}

/// Checks that e2fsck finds no fault.
pub fn check(image: &[u8]) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    std::fs::write(&path, image).unwrap();
    fsck(&path, &["-f", "-n"], &[0]);
}

/// Runs e2fsck on a file.
pub fn fsck(path: &Path, arguments: &[&str], good: &[i32]) -> String {
    run("e2fsck", &[arguments, &[path.to_str().unwrap()]].concat(), good)
}

/// Returns the attributes of a new inode of a type.
pub fn new(file_type: FileType) -> NewInode<'static> {
    NewInode {
        file_type,
        permissions: if file_type == FileType::Directory { 0o755 } else { 0o644 },
        user: 1000,
        group: 100_000,
        device: (0, 0),
        target: b"",
        now: NOW,
        label: &[],
        level: None,
        acls: NewAcls::default(),
    }
}

/// Creates a file or directory and forgets it.
pub fn make(
    fs: &dyn FileSystem,
    directory: InodeNumber,
    name: &str,
    kind: FileType,
) -> InodeNumber {
    let made = fs.create(directory, name.as_bytes(), &new(kind)).unwrap();
    fs.forget(made.inode, 1);
    made.inode
}

/// Writes bytes as a page cache does: whole pages, of which the other bytes stay.
pub fn write(
    fs: &dyn FileSystem,
    inode: InodeNumber,
    offset: u64,
    data: &[u8],
) -> Result<(), FsError> {
    write_by(write_pages, fs, inode, offset, data)
}

/// Writes bytes in the same way, along with a sync.
pub fn write_and_sync(
    fs: &dyn FileSystem,
    inode: InodeNumber,
    offset: u64,
    data: &[u8],
) -> Result<(), FsError> {
    write_by(write_pages_along, fs, inode, offset, data)
}

/// A function such as [`write_pages`].
type WritePages = fn(&dyn FileSystem, InodeNumber, u64, &[u8], u64) -> Result<(), FsError>;

fn write_by(
    how: WritePages,
    fs: &dyn FileSystem,
    inode: InodeNumber,
    offset: u64,
    data: &[u8],
) -> Result<(), FsError> {
    let page = PAGE_BYTES as u64;
    let end = offset + data.len() as u64;
    let (first, last) = (offset / page, end.div_ceil(page));
    let size = fs.attributes(inode)?.size.max(end);
    fs.reserve_range(inode, first, last - first)?;
    let old = super::walk::read_pages(fs, inode, first, last - first)?;
    let mut bytes = old;
    let at = (offset - first * page) as usize;
    bytes[at..at + data.len()].copy_from_slice(data);
    let result = how(fs, inode, first, &bytes, size);
    fs.release_range(inode, first, last - first);
    result
}

/// Writes whole pages and waits for every one.
pub fn write_pages(
    fs: &dyn FileSystem,
    inode: InodeNumber,
    first: u64,
    bytes: &[u8],
    size: u64,
) -> Result<(), FsError> {
    written(bytes, |frames, sink| {
        fs.write_pages(inode, first, frames, size, 77, sink);
        Ok(())
    })
}

/// Writes whole pages along with a sync of the inode, and waits for every page. Returns the first error of these, else
/// the result of the sync.
pub fn write_pages_along(
    fs: &dyn FileSystem,
    inode: InodeNumber,
    first: u64,
    bytes: &[u8],
    size: u64,
) -> Result<(), FsError> {
    written(bytes, |frames, sink| {
        fs.write_along(inode, first, frames, size, 77, sink);
        fs.sync_inode(inode, SyncKind::Data)
    })
}

/// Writes `bytes` by `write`, and waits for every page. Returns the first error of these, else the result of `write`.
fn written(
    bytes: &[u8],
    write: impl FnOnce(Vec<Frame>, &Arc<dyn PageSink>) -> Result<(), FsError>,
) -> Result<(), FsError> {
    let frames = frames_of(bytes);
    let count = frames.len();
    let sink = Arc::new(Sink::default());
    let handle: Arc<dyn PageSink> = Arc::clone(&sink) as Arc<dyn PageSink>;
    let result = write(frames, &handle);
    sink.wait(count as u64).and(result)
}

fn frames_of(bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    Frame::allocate_zeroed(bytes.len().div_ceil(PAGE_BYTES), &mut frames).unwrap();
    for (frame, part) in frames.iter().zip(bytes.chunks(PAGE_BYTES)) {
        frame.write(0, part);
    }
    frames
}
