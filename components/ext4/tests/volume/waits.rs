//! Tests that metadata changes continue while a commit waits for its data, and do not read meaningless
//! blocks.
use crate::common::{
    device::{Completion, MemoryBlock},
    image::Recipe,
    walk::Sink,
    write::{NOW, World, check, make, new},
};
use ext4::{Ext4, MountOptions, Recovery, mount};
use interfaces::{block::*, file_system::*};
use rt::memory::Frame;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
/// Time limit, far longer than any of the operations takes.
const LIMIT: Duration = Duration::from_secs(60);

type Batch = (Vec<Request>, Arc<dyn BlockSink>);

/// A device that counts reads, and holds the next batch of writes back on request.
struct Slow {
    below: Arc<MemoryBlock>,
    reads: AtomicUsize,
    must_hold: AtomicBool,
    held: Mutex<Vec<Batch>>,
}

impl Slow {
    fn new(options: &'static [&'static str], kib: usize) -> Arc<Slow> {
        let folder = TempDir::new().unwrap();
        let image = Recipe::new(options, kib).make(folder.path());
        Arc::new(Slow {
            below: MemoryBlock::writable(image, Completion::AtOnce, 128),
            reads: AtomicUsize::new(0),
            must_hold: AtomicBool::new(false),
            held: Mutex::new(Vec::new()),
        })
    }

    fn let_go(&self) {
        for (mut batch, sink) in self.held.lock().unwrap().drain(..) {
            self.below.submit(&mut batch, &sink);
        }
    }
}

impl Block for Slow {
    fn info(&self) -> BlockInfo {
        self.below.info()
    }

    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        let of = |operation| batch.iter().filter(|one| one.operation == operation).count();
        self.reads.fetch_add(of(Operation::Read), SeqCst);
        if of(Operation::Write) > 0 && self.must_hold.swap(false, SeqCst) {
            self.held.lock().unwrap().push((std::mem::take(batch), Arc::clone(sink)));
            return;
        }
        self.below.submit(batch, sink);
    }

    fn offer(&self, request: Request, sink: &Arc<dyn BlockSink>) -> Result<(), Request> {
        self.below.offer(request, sink)
    }
}

/// Creates `count` files in a thread of its own; sends a message when each tenth part of them is made.
fn make_many(fs: &Arc<Ext4>, count: usize) -> mpsc::Receiver<usize> {
    let (tell, told) = mpsc::channel();
    let fs = Arc::clone(fs);
    std::thread::spawn(move || {
        for number in 0..count {
            make(&*fs, ROOT, &format!("n{number}"), FileType::Regular);
            if (number + 1) % (count / 10) == 0 {
                tell.send(number + 1).unwrap();
            }
        }
    });
    told
}

#[test]
fn names_are_made_while_a_commit_waits_for_its_data() {
    // A transaction has a quarter of the journal: 256 blocks, of 16 inodes each.
    const FILES: usize = 5000;
    let device = Slow::new(&["-b", "4096", "-J", "size=4", "-N", "8192"], 32 << 10);
    let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
    let file = fs.create(ROOT, b"data", &new(FileType::Regular)).unwrap().inode;
    fs.reserve_range(file, 0, 1).unwrap();
    device.must_hold.store(true, SeqCst);
    let sink = Arc::new(Sink::default());
    let handle: Arc<dyn PageSink> = Arc::clone(&sink) as Arc<dyn PageSink>;
    let mut frames = Vec::new();
    Frame::allocate_zeroed(1, &mut frames).unwrap();
    fs.write_pages(file, 0, frames, 4096, 77, &handle);
    assert_eq!(device.held.lock().unwrap().len(), 1, "the data is on its way");
    let told = make_many(&fs, FILES);
    for part in 1..=10 {
        assert_eq!(told.recv_timeout(LIMIT), Ok(part * FILES / 10), "made while the data waits");
    }
    device.let_go();
    assert_eq!(sink.wait(1), Ok(()));
    fs.forget(file, 1);
    fs.unmount().unwrap();
    check(&device.below.image());
}

#[test]
fn new_files_and_directories_read_nothing_from_the_disk() {
    for shape in [&["-b", "1024", "-N", "4096"][..], &["-b", "4096", "-N", "4096"]] {
        let device = Slow::new(shape.to_vec().leak(), 32 << 10);
        let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
        let directory = make(&*fs, ROOT, "d", FileType::Directory);
        make(&*fs, directory, "first", FileType::Directory);
        let before = device.reads.load(SeqCst);
        for number in 0..500 {
            let kind = [FileType::Regular, FileType::Directory][number % 2];
            make(&*fs, directory, &format!("n{number}"), kind);
        }
        let reads = device.reads.load(SeqCst) - before;
        // These reads are bitmaps of further groups.
        assert!(reads <= 8, "{shape:?}: {reads} reads");
        fs.unmount().unwrap();
        check(&device.below.image());
    }
}

#[test]
fn inodes_and_blocks_used_again_beside_others_keep_what_the_others_hold() {
    for shape in [&["-b", "1024", "-N", "4096"][..], &["-b", "4096", "-N", "4096"]] {
        let mut world = World::empty(shape.to_vec().leak(), 32 << 10);
        for round in 0..4 {
            let fs = &*world.fs;
            for number in 0..200 {
                let kind = [FileType::Regular, FileType::Directory][number % 2];
                make(fs, ROOT, &format!("r{round}n{number}"), kind);
            }
            // Some of each page of the inode table and of directory blocks go, in some all.
            for number in (0..200).filter(|number| number % 64 < 40 && number % 8 != 5) {
                let name = format!("r{round}n{number}");
                match number % 2 {
                    0 => fs.unlink(ROOT, name.as_bytes(), NOW).unwrap(),
                    _ => fs.remove_directory(ROOT, name.as_bytes(), NOW).unwrap(),
                }
            }
            // After the remount nothing is in memory.
            world = World::of(world.finish());
        }
        world.finish();
    }
}

/// Returns whether a power cut now would leave a volume whose root has `name`, as a mount with
/// `options` sees it.
fn is_kept(device: &Slow, name: &[u8], options: MountOptions) -> bool {
    let image = device.below.image();
    let medium = MemoryBlock::writable(image, Completion::AtOnce, 128);
    let fs = mount(medium, options).unwrap();
    fs.lookup(ROOT, name).is_ok()
}

#[test]
fn a_change_is_committed_and_put_in_place_at_intervals_without_a_sync() {
    let device = Slow::new(&["-b", "4096"], 32 << 10);
    let options = MountOptions { commit_ns: 10_000_000, ..MountOptions::default() };
    let fs = mount(Arc::clone(&device) as _, options).unwrap();
    make(&*fs, ROOT, "file", FileType::Regular);
    let replayed = MountOptions::default();
    let as_it_lies = MountOptions {
        access: MountAccess::ReadOnly,
        recovery: Recovery::Skip,
        ..MountOptions::default()
    };
    let begin = Instant::now();
    for options in [replayed, as_it_lies] {
        while !is_kept(&device, b"file", options) {
            assert!(begin.elapsed() < LIMIT, "not kept: {options:?}");
            thread::yield_now();
        }
    }
    fs.unmount().unwrap();
    check(&device.below.image());
}

#[test]
fn the_interval_is_an_option_in_seconds() {
    let interval = |text: &[u8]| MountOptions::parse(text).map(|options| options.commit_ns);
    let default = MountOptions::default().commit_ns;
    assert_eq!(interval(b"rw,commit=30"), Ok(30_000_000_000));
    assert_eq!(interval(b"commit=0"), Ok(default));
    for wrong in [&b"commit=-1"[..], b"commit=", b"commit=5s", b"commit=4294967296", b"commit"] {
        assert_eq!(interval(wrong), Err(FsError::Invalid), "{}", wrong.escape_ascii());
    }
}
