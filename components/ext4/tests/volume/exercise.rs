//! Random tests: a file against a model, many names, many writers, a volume with errors.
//!
//! `SKERRY_EXERCISE_COUNT` is the number of operations for each shape (default 1500),
//! `SKERRY_EXERCISE_SEED` the seed.
use crate::common::{
    device::{Completion, MemoryBlock},
    image::{Recipe, pattern, run},
    mutate::Random,
    walk::read_pages,
    write::*,
};
use ext4::{ErrorPolicy, MountOptions, mount};
use interfaces::file_system::*;
use std::sync::{Arc, atomic::Ordering::SeqCst};
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
const SIZE_MAX: usize = 600_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn text(fs: &dyn FileSystem, inode: InodeNumber) -> Vec<u8> {
    let size = fs.attributes(inode).unwrap().size;
    let mut bytes = read_pages(fs, inode, 0, size.div_ceil(4096)).unwrap();
    bytes.truncate(size as usize);
    bytes
}

/// A file and its expected contents.
struct Exercise {
    world: World,
    file: InodeNumber,
    model: Vec<u8>,
    random: Random,
    block: usize,
}

impl Exercise {
    /// Returns a range inside the largest file.
    fn range(&mut self) -> (usize, usize) {
        let start = self.random.below(SIZE_MAX - 1);
        let length = [100, 5000, 70_000][self.random.below(3)];
        (start, 1 + self.random.below(length.min(SIZE_MAX - start)))
    }

    fn allocate(&mut self, how: Allocation, start: usize, length: usize) -> Result<(), FsError> {
        let (start, length) = (start as u64, length as u64);
        self.world.fs.allocate(self.file, how, start, length, NOW).map(|_| ())
    }

    fn clear(&mut self, start: usize, end: usize) {
        let end = end.min(self.model.len());
        if start < end {
            self.model[start..end].fill(0);
        }
    }

    fn step(&mut self, number: usize) {
        let (start, length) = self.range();
        let end = start + length;
        let fs = Arc::clone(&self.world.fs);
        match self.random.below(12) {
            0..=3 => {
                let data = pattern(length, number);
                write(&*fs, self.file, start as u64, &data).unwrap();
                self.model.resize(self.model.len().max(end), 0);
                self.model[start..end].copy_from_slice(&data);
            }
            4 => {
                let change = AttributeChange { size: Some(start as u64), ..Default::default() };
                fs.set_attributes(self.file, &change).unwrap();
                self.model.resize(start, 0);
            }
            5 => {
                self.allocate(Allocation::PunchHole, start, length).unwrap();
                self.clear(start, end);
            }
            6 => {
                let how = [Allocation::Zero, Allocation::ZeroKeepSize][self.random.below(2)];
                self.allocate(how, start, length).unwrap();
                self.clear(start, end);
                if how == Allocation::Zero {
                    self.model.resize(self.model.len().max(end), 0);
                }
            }
            7 => {
                let how = [Allocation::Extend, Allocation::KeepSize][self.random.below(2)];
                self.allocate(how, start, length).unwrap();
                if how == Allocation::Extend {
                    self.model.resize(self.model.len().max(end), 0);
                }
            }
            8 => self.shift(start / self.block * self.block, length),
            9 => fs.sync_inode(self.file, SyncKind::Data).unwrap(),
            10 if number.is_multiple_of(40) => self.remount(),
            _ => assert!(text(&*fs, self.file) == self.model, "operation {number}"),
        }
    }

    fn shift(&mut self, start: usize, length: usize) {
        let length = length.next_multiple_of(self.block);
        if self.random.below(2) == 0 {
            let result = self.allocate(Allocation::Collapse, start, length);
            match start + length < self.model.len() {
                true => drop(self.model.drain(start..start + length)),
                false => return assert_eq!(result, Err(FsError::Invalid)),
            }
            result.unwrap();
        } else if self.model.len() + length < 2 * SIZE_MAX {
            let result = self.allocate(Allocation::Insert, start, length);
            if start >= self.model.len() {
                return assert_eq!(result, Err(FsError::Invalid));
            }
            result.unwrap();
            self.model.splice(start..start, std::iter::repeat_n(0, length));
        }
    }

    fn remount(&mut self) {
        self.world.fs.unmount().unwrap();
        let image = self.world.device.image();
        check(&image);
        self.world = World::of(image);
        let found = self.world.fs.lookup(ROOT, b"file").unwrap();
        assert_eq!((found.inode, found.size), (self.file, self.model.len() as u64));
    }
}

fn exercise(options: &'static [&'static str], block: usize) {
    let world = World::empty(options, 24 << 10);
    let file = world.fs.create(ROOT, b"file", &new(FileType::Regular)).unwrap().inode;
    let random = Random::new(number("SKERRY_EXERCISE_SEED", 5));
    let mut exercise = Exercise { world, file, model: Vec::new(), random, block };
    for number in 0..number("SKERRY_EXERCISE_COUNT", 1500) as usize {
        exercise.step(number);
    }
    assert!(text(&*exercise.world.fs, file) == exercise.model);
    exercise.world.fs.forget(file, 1);
    exercise.world.finish();
}

#[test]
fn a_file_holds_what_its_model_does_with_a_journal() {
    exercise(&["-b", "4096", "-J", "size=4"], 4096);
}

#[test]
fn a_file_holds_what_its_model_does_in_small_blocks() {
    exercise(&["-b", "1024", "-O", "^has_journal"], 1024);
}

#[test]
fn a_hundred_thousand_names_are_made_found_and_taken_away() {
    let world = World::empty(&["-b", "4096", "-N", "110000"], 128 << 10);
    let fs = &*world.fs;
    let dir = make(fs, ROOT, "many", FileType::Directory);
    let count = 100_000;
    let name = |number: usize| format!("name-{number}");
    for number in 0..count {
        make(fs, dir, &name(number), FileType::Regular);
    }
    settle(fs);
    check(&world.device.image());
    for number in (0..count).step_by(97) {
        let found = fs.lookup(dir, name(number).as_bytes()).unwrap();
        fs.forget(found.inode, 1);
    }
    let (mut position, mut seen) = (0, 0);
    loop {
        let entries = list_directory(fs, dir, position, 1000).unwrap();
        let Some(last) = entries.last() else { break };
        (position, seen) = (last.next, seen + entries.len());
    }
    assert_eq!(seen, count);
    for number in 0..count {
        fs.unlink(dir, name(number).as_bytes(), NOW).unwrap();
    }
    fs.remove_directory(ROOT, b"many", NOW).unwrap();
    world.finish();
}

#[test]
fn eight_writers_at_once_each_find_their_own() {
    let folder = TempDir::new().unwrap();
    let image = Recipe::new(&["-b", "4096", "-g", "4096"], 128 << 10).make(folder.path());
    let world = World::with(MemoryBlock::writable(image, Completion::Reversed, 128));
    std::thread::scope(|scope| {
        for writer in 0..8_usize {
            let fs = Arc::clone(&world.fs);
            scope.spawn(move || {
                let dir = make(&*fs, ROOT, &format!("dir-{writer}"), FileType::Directory);
                for file in 0..40 {
                    let name = format!("file-{file}");
                    let made = fs.create(dir, name.as_bytes(), &new(FileType::Regular)).unwrap();
                    let data = pattern(1000 + 3777 * file, writer * 100 + file);
                    write(&*fs, made.inode, 0, &data).unwrap();
                    if file % 8 == writer {
                        fs.sync_inode(made.inode, SyncKind::All).unwrap();
                    }
                    if file % 5 == 0 {
                        let to = format!("moved-{writer}-{file}");
                        fs.rename((dir, name.as_bytes()), (ROOT, to.as_bytes()), NOW).unwrap();
                    }
                    assert!(text(&*fs, made.inode) == data);
                    if file % 7 == 1 {
                        let _ = fs.unlink(dir, name.as_bytes(), NOW);
                    }
                    fs.forget(made.inode, 1);
                }
            });
        }
        let fs = Arc::clone(&world.fs);
        scope.spawn(move || (0..20).for_each(|_| fs.sync().unwrap()));
    });
    world.finish();
}

#[test]
fn a_device_that_refuses_writes_leaves_what_was_durable() {
    for left in [0, 1, 3, 7, 20, 45] {
        let world = World::empty(&["-b", "4096"], 16 << 10);
        let fs = &*world.fs;
        let safe = fs.create(ROOT, b"safe", &new(FileType::Regular)).unwrap().inode;
        write(fs, safe, 0, &pattern(20_000, 1)).unwrap();
        fs.sync_inode(safe, SyncKind::All).unwrap();
        world.device.writes_left.store(left, SeqCst);
        let mut errors = 0;
        for file in 0..30 {
            let name = format!("file-{file}");
            let Ok(made) = fs.create(ROOT, name.as_bytes(), &new(FileType::Regular)) else {
                errors += 1;
                continue;
            };
            let written = write(fs, made.inode, 0, &pattern(9000, file));
            let synced = fs.sync_inode(made.inode, SyncKind::All);
            errors += usize::from(written.is_err() || synced.is_err());
            fs.forget(made.inode, 1);
        }
        assert!(errors > 0, "somebody was told");
        assert!(text(fs, safe) == pattern(20_000, 1), "reads go on");
        assert!(fs.mount_info().is_read_only, "after a commit failed");
        world.device.writes_left.store(usize::MAX, SeqCst);
        let image = world.device.image();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, &image).unwrap();
        fsck(&path, &["-p"], &[0, 1]);
        fsck(&path, &["-f", "-n"], &[0]);
        let again = World::of(std::fs::read(&path).unwrap());
        let found = again.fs.lookup(ROOT, b"safe").unwrap();
        assert!(text(&*again.fs, found.inode) == pattern(20_000, 1));
        again.fs.forget(found.inode, 1);
        again.finish();
    }
}

#[test]
fn data_the_device_refused_is_never_read_as_something_else() {
    let folder = TempDir::new().unwrap();
    let mut image = Recipe::new(&["-b", "4096", "-J", "size=4"], 16 << 10).make(folder.path());
    // The former contents of free blocks must not be seen.
    let secret = [0x5a; 4096];
    let free = image.len() - (4 << 20)..image.len();
    let is_free = image[free.clone()].iter().all(|byte| *byte == 0);
    assert!(is_free);
    image[free].as_chunks_mut::<4096>().0.iter_mut().for_each(|block| *block = secret);
    let world = World::of(image);
    let fs = &*world.fs;
    let file = fs.create(ROOT, b"file", &new(FileType::Regular)).unwrap().inode;
    settle(fs);
    let mut at = 0;
    world.device.writes_left.store(0, SeqCst);
    while at < 8 << 20 {
        assert_eq!(write(fs, file, at, &pattern(1 << 20, 1)), Err(FsError::Io));
        at += 1 << 20;
    }
    world.device.writes_left.store(usize::MAX, SeqCst);
    fs.sync_inode(file, SyncKind::All).unwrap();
    assert!(text(fs, file).iter().all(|byte| *byte == 0));
    fs.forget(file, 1);
    world.finish();
}

#[test]
fn errors_found_are_marked_and_end_writing_where_the_volume_says_so() {
    for policy in [ErrorPolicy::Continue, ErrorPolicy::RemountReadOnly] {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("sick")).unwrap();
        let recipe = Recipe::new(&["-b", "4096", "-O", "^has_journal,^metadata_csum"], 8 << 10);
        // This is a directory whose first block is not a valid one.
        let image = recipe.with("zap_block -f sick 0").make(folder.path());
        let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
        let options = MountOptions { errors: Some(policy), ..MountOptions::default() };
        let fs = mount(Arc::clone(&device) as _, options).unwrap();
        let sick = fs.lookup(ROOT, b"sick").unwrap().inode;
        let made = fs.create(sick, b"name", &new(FileType::Regular));
        assert_eq!(made.map(|_| ()), Err(FsError::Corrupt));
        let next = fs.create(ROOT, b"name", &new(FileType::Fifo)).map(|_| ());
        match policy {
            ErrorPolicy::Continue => assert_eq!(next, Ok(())),
            ErrorPolicy::RemountReadOnly => {
                assert_eq!(next, Err(FsError::ReadOnly));
                assert_eq!(fs.remount(MountAccess::Writable), Err(FsError::ReadOnly));
            }
        }
        let _ = fs.unmount();
        let state = device.image()[1024 + 58];
        assert_eq!(state & 2, 2, "marked as having errors");
    }
}

#[test]
fn a_mount_turns_read_only_and_back_and_tells_the_device_of_free_space() {
    let world = World::empty(&["-b", "4096"], 16 << 10);
    let fs = &*world.fs;
    make(fs, ROOT, "file", FileType::Regular);
    fs.remount(MountAccess::ReadOnly).unwrap();
    check(&world.device.image());
    assert_eq!(world.device.image()[1024 + 58] & 1, 1, "marked as left in order");
    assert_eq!(fs.create(ROOT, b"x", &new(FileType::Fifo)).map(|_| ()), Err(FsError::ReadOnly));
    fs.remount(MountAccess::Writable).unwrap();
    let told = fs.trim(0, u64::MAX, 0).unwrap();
    assert_eq!(told, fs.usage().unwrap().free * 4096);
    assert_eq!(world.device.discarded.load(SeqCst) as u64 * 512, told);
    make(fs, ROOT, "other", FileType::Regular);
    world.finish();
}

#[test]
fn a_file_of_four_gigabytes_with_holes_and_a_tree_three_levels_deep_come_and_go() {
    let world = World::empty(&["-b", "1024"], 96 << 10);
    let fs = &*world.fs;
    settle(fs);
    let before = fs.usage().unwrap();
    let file = fs.create(ROOT, b"sparse", &new(FileType::Regular)).unwrap().inode;
    // A node has 84 entries and the root four, so beyond 4 * 84 * 84 pieces a third level is
    // needed.
    let pieces = 4 * 84 * 84 + 500;
    for piece in 0..pieces {
        let size = piece * 40 * 4096 + 1024;
        write_pages(fs, file, piece * 40, &[piece as u8 | 1; 1024], size).unwrap();
    }
    assert!(fs.attributes(file).unwrap().size > 4 << 30);
    settle(fs);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    std::fs::write(&path, world.device.image()).unwrap();
    fsck(&path, &["-f", "-n"], &[0]);
    let shown = run("debugfs", &["-R", "ex /sparse", path.to_str().unwrap()], &[0]);
    assert!(shown.contains("3/ 3"), "the tree has three levels");
    for piece in (0..pieces).step_by(997) {
        assert_eq!(read_pages(fs, file, piece * 40, 1).unwrap()[..2], [piece as u8 | 1; 2]);
        assert_eq!(fs.seek(file, piece * 40 * 4096, Seek::Data), Ok(piece * 40 * 4096));
    }
    fs.unlink(ROOT, b"sparse", NOW).unwrap();
    fs.forget(file, 1);
    settle(fs);
    assert_eq!(fs.usage().unwrap(), before);
    world.finish();
}

#[test]
#[ignore = "takes half a minute"]
fn a_directory_of_more_subdirectories_than_it_counts_says_one() {
    let world = World::empty(&["-b", "1024", "-N", "66000", "-J", "size=16"], 160 << 10);
    let fs = &*world.fs;
    let top = make(fs, ROOT, "top", FileType::Directory);
    let count = 65_005;
    for number in 0..count {
        make(fs, top, &format!("{number}"), FileType::Directory);
    }
    assert_eq!(fs.attributes(top).unwrap().links, 1);
    settle(fs);
    check(&world.device.image());
    for number in 0..count {
        fs.remove_directory(top, format!("{number}").as_bytes(), NOW).unwrap();
    }
    fs.remove_directory(ROOT, b"top", NOW).unwrap();
    world.finish();
}
