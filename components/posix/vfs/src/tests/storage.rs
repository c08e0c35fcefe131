//! Tests of files on storage, with a read-only file system whose pages arrive later, on another
//! thread.
use super::World;
use crate::{
    Active, Errno, NOBODY,
    file::{IoFlags, PageUse},
    io::SliceSink,
};
use interfaces::file_system::{
    AttributeChange, Attributes, Backing, FileSystem, FileSystemUsage, FileTime, FileType, FsError,
    InodeNumber, MountInfo, PageSink, TakeEntry,
};
use linux_raw_sys::general as raw;
use rt::memory::Frame;
use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
};

const FILE: InodeNumber = 2;
const PAGES: u64 = 1000;
const BAD_PAGE: u64 = 777;
const TAIL: u64 = 100;
const PLAIN: IoFlags = IoFlags { is_nonblocking: false, is_append: false };

struct Transfer {
    first: u64,
    frames: Vec<Frame>,
    tag: u64,
    sink: Arc<dyn PageSink>,
}

/// `/file`: page N is full of the byte N; a request with page [`BAD_PAGE`] fails as a whole.
struct Disk {
    queue: Mutex<mpsc::Sender<Transfer>>,
    requests: Arc<Mutex<Vec<(u64, usize)>>>,
    lookups: Mutex<u64>,
}

fn disk() -> Arc<Disk> {
    let (sender, receiver) = mpsc::channel::<Transfer>();
    thread::spawn(move || {
        for transfer in receiver {
            let Transfer { first, frames, tag, sink } = transfer;
            let is_bad = (first..first + frames.len() as u64).contains(&BAD_PAGE);
            for (page, frame) in (first..).zip(&frames) {
                frame.write(0, &[page as u8; rt::PAGE_BYTES]);
                let result = if is_bad { Err(FsError::Io) } else { Ok(()) };
                sink.pages_done(tag, page, 1, result);
            }
        }
    });
    Arc::new(Disk { queue: Mutex::new(sender), requests: Arc::default(), lookups: Mutex::new(0) })
}

fn attributes_of(inode: InodeNumber) -> Attributes {
    let time = FileTime { seconds: 5, nanoseconds: 0 };
    Attributes {
        inode,
        file_type: if inode == FILE { FileType::Regular } else { FileType::Directory },
        permissions: 0o755,
        links: 1,
        user: 0,
        group: 0,
        device: (0, 0),
        size: (PAGES - 1) * 4096 + TAIL,
        blocks: PAGES * 8,
        accessed: time,
        modified: time,
        changed: time,
        created: time,
        flags: 0,
        generation: 0,
        may_have_acls: false,
        may_have_capabilities: false,
    }
}

impl FileSystem for Disk {
    fn mount_info(&self) -> MountInfo {
        MountInfo {
            type_name: "disk",
            root: 1,
            is_read_only: true,
            backing: Backing::Storage,
            has_stable_names: true,
            block_bytes: 4096,
            has_acls: false,
            size_max: crate::file::POSITION_MAX,
            writes_replacements: false,
        }
    }
    fn usage(&self) -> Result<FileSystemUsage, FsError> {
        Ok(FileSystemUsage::default())
    }
    fn lookup(&self, _: InodeNumber, name: &[u8]) -> Result<Attributes, FsError> {
        *self.lookups.lock().unwrap() += 1;
        if name == b"file" { Ok(attributes_of(FILE)) } else { Err(FsError::NotFound) }
    }
    fn attributes(&self, inode: InodeNumber) -> Result<Attributes, FsError> {
        Ok(attributes_of(inode))
    }
    fn set_attributes(&self, _: InodeNumber, _: &AttributeChange) -> Result<Attributes, FsError> {
        Err(FsError::ReadOnly)
    }
    fn read_directory(&self, _: InodeNumber, _: u64, _: &mut TakeEntry<'_>) -> Result<(), FsError> {
        Ok(())
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
        self.requests.lock().unwrap().push((first, frames.len()));
        let transfer = Transfer { first, frames, tag, sink: sink.clone() };
        self.queue.lock().unwrap().send(transfer).unwrap();
    }
    fn reserve_range(&self, _: InodeNumber, _: u64, _: u64) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }
    fn forget(&self, _: InodeNumber, _: u64) {}
    fn sync(&self) -> Result<(), FsError> {
        Ok(())
    }
}

fn world() -> (World, Arc<Disk>) {
    let disk = disk();
    (World::over(Active::stored(&(), disk.clone(), Some((254, 0))).unwrap()), disk)
}

#[test]
fn a_sequential_reader_gets_every_byte_with_few_requests() {
    let _reclaim = super::RECLAIM.read();
    let (world, disk) = world();
    let file = world.open("/file", raw::O_RDONLY).unwrap();
    let mut part = vec![0; 4096];
    for page in 0..BAD_PAGE - 256 {
        assert_eq!(file.read(&mut SliceSink::new(&mut part)), Ok(4096));
        assert!(part.iter().all(|byte| *byte == page as u8), "page {page}");
    }
    let requests = disk.requests.lock().unwrap();
    assert!(requests.len() < 20, "{requests:?}");
    assert!(requests.iter().any(|(_, pages)| *pages >= 128));
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_there_and_only_there() {
    let _reclaim = super::RECLAIM.read();
    let (world, disk) = world();
    let file = world.open("/file", raw::O_RDONLY).unwrap();
    let mut part = vec![0; 4096];
    let read =
        |page: u64, part: &mut Vec<u8>| file.read_at(page * 4096, &mut SliceSink::new(part), PLAIN);
    assert_eq!(read(BAD_PAGE, &mut part), Err(Errno::EIO));
    assert_eq!(read(BAD_PAGE + 1, &mut part), Ok(4096));
    assert_eq!(read(BAD_PAGE, &mut part), Err(Errno::EIO));
    let asked = disk.requests.lock().unwrap().iter().filter(|at| at.0 == BAD_PAGE).count();
    assert_eq!(asked, 4, "a failed page is asked for again, each time once more alone");
    let wide = &mut vec![0; 4 * 4096];
    let before = (BAD_PAGE - 2) * 4096;
    let told = file.read_at(before, &mut SliceSink::new(wide), PLAIN);
    assert_eq!(told, Ok(2 * 4096), "the pages before it are read all the same");
    let object = file.file().mappable().unwrap();
    assert_eq!(object.page(BAD_PAGE, PageUse::Read, NOBODY).err(), Some(Errno::EIO));
}

#[test]
fn the_last_page_ends_where_the_file_ends() {
    let (world, _) = world();
    let file = world.open("/file", raw::O_RDONLY).unwrap();
    let mut part = vec![0; 9000];
    let start = (PAGES - 2) * 4096;
    assert_eq!(file.read_at(start, &mut SliceSink::new(&mut part), PLAIN), Ok(4096 + 100));
    assert_eq!(file.read_at(PAGES * 4096, &mut SliceSink::new(&mut part), PLAIN), Ok(0));
}

#[test]
fn names_are_asked_for_once_whether_they_exist_or_not() {
    let _reclaim = super::RECLAIM.read();
    let (world, disk) = world();
    for _ in 0..10 {
        assert!(world.walk("/file").is_ok());
        assert_eq!(world.walk("/none").err(), Some(Errno::ENOENT));
    }
    assert_eq!(*disk.lookups.lock().unwrap(), 2);
}

#[test]
fn a_read_only_file_system_refuses_changes() {
    let (world, _) = world();
    assert_eq!(world.open("/file", raw::O_WRONLY).err(), Some(Errno::EROFS));
    assert_eq!(world.mkdir("/d"), Err(Errno::EROFS));
    assert_eq!(world.unlink("/file"), Err(Errno::EROFS));
    let file = world.open("/file", raw::O_RDONLY).unwrap();
    let object = file.file().mappable().unwrap();
    assert_eq!(object.page(0, PageUse::Store, NOBODY).err(), Some(Errno::EROFS));
    assert_eq!(file.path().status().attributes.accessed.seconds, 5);
}

#[test]
fn idle_pages_are_given_back_and_read_again() {
    let (world, _) = world();
    let file = world.open("/file", raw::O_RDONLY).unwrap();
    let object = file.file().mappable().unwrap();
    for page in 0..64 {
        object.page(page, PageUse::Read, NOBODY).unwrap();
    }
    let pages = file.vnode().pages().unwrap();
    pages.wait_idle();
    let held = object.page(3, PageUse::Read, NOBODY).unwrap();
    while pages.resident_pages() > 1 {
        // The disk's thread holds frames for a moment after they have arrived.
        pages.shrink(usize::MAX);
        thread::yield_now();
    }
    drop(held);
    let mut part = vec![0; 4096];
    assert_eq!(file.read_at(4096 * 9, &mut SliceSink::new(&mut part), PLAIN), Ok(4096));
    assert_eq!(part[0], 9);
}

#[test]
fn many_threads_read_and_fault_the_same_file_while_it_is_shrunk() {
    let _reclaim = super::RECLAIM.write();
    let (world, _) = world();
    let world = Arc::new(world);
    let threads: Vec<_> = (0..4u64)
        .map(|me| {
            let world = world.clone();
            thread::spawn(move || {
                let file = world.open("/file", raw::O_RDONLY).unwrap();
                let object = file.file().mappable().unwrap();
                let mut part = vec![0; 4096];
                for round in 0..700 {
                    let page = (round * (2 * me + 1)) % 700;
                    if round % 3 == 0 {
                        object.page(page, PageUse::Read, NOBODY).unwrap().read(0, &mut part);
                    } else {
                        let mut sink = SliceSink::new(&mut part);
                        assert_eq!(file.read_at(page * 4096, &mut sink, PLAIN), Ok(4096));
                    }
                    assert!(part.iter().all(|byte| *byte == page as u8));
                    if round % 50 == 0 {
                        crate::shrink(100);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
