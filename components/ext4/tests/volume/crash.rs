//! Tests of crashes at any instant. A workload's writes are recorded, and images are made of possible
//! contents of a device that loses power: everything up to a flush, and any part of the later writes,
//! in any order, with requests torn into blocks. `e2fsck -p` must repair each without a question,
//! `e2fsck -fn` must then find no fault, the data that fsync made durable must be there, and each inode
//! must have the label that it was made with. Each image is also mounted here, which replays its journal.
//!
//! `SKERRY_CRASH_COUNT` is the number of images for each shape (default 60), `SKERRY_CRASH_SEED` the
//! first seed.
use crate::common::{
    cut::{crashed, number},
    device::{Completion, Event, MemoryBlock},
    image::{Recipe, pattern},
    labels::{check_labels, make_labelled},
    mutate::Random,
    walk::{Budget, Tree, walk},
    write::*,
};
use ext4::{MountOptions, mount};
use interfaces::file_system::*;
use std::{collections::BTreeMap, fs, sync::Arc};
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
const OPERATIONS: usize = 220;

/// Contents of a file that are on stable storage from one event to another.
struct Promise {
    path: String,
    contents: Vec<u8>,
    from: usize,
    until: usize,
}

/// A workload under way.
struct Work {
    world: World,
    random: Random,
    /// The contents of the files.
    files: BTreeMap<String, (InodeNumber, Vec<u8>)>,
    directories: Vec<(String, InodeNumber)>,
    promises: Vec<Promise>,
}

impl Work {
    fn events(&self) -> usize {
        self.world.device.events.lock().unwrap().as_ref().unwrap().len()
    }

    /// Ends the promises of a path.
    fn touch(&mut self, path: &str) {
        let now = self.events();
        let mine = self.promises.iter_mut().filter(|one| one.path == path);
        mine.for_each(|one| one.until = one.until.min(now));
    }

    fn promise(&mut self, path: &str) {
        let (inode, contents) = self.files[path].clone();
        self.world.fs.sync_inode(inode, SyncKind::Data).unwrap();
        let from = self.events();
        self.promises.push(Promise { path: path.into(), contents, from, until: usize::MAX });
    }

    fn parent(&mut self) -> (String, InodeNumber) {
        let place = self.random.below(self.directories.len());
        self.directories[place].clone()
    }

    fn any_file(&mut self) -> Option<String> {
        let place = self.random.below(self.files.len());
        self.files.keys().nth(place).cloned()
    }

    fn parent_of(&self, path: &str) -> (InodeNumber, String) {
        let (directory, name) = path.rsplit_once('/').unwrap();
        let found = self.directories.iter().find(|(path, _)| path == directory).unwrap();
        (found.1, name.to_string())
    }

    fn create(&mut self, number: usize) {
        let (path, directory) = self.parent();
        let name = format!("file-{}-{number}", "n".repeat(self.random.below(60)));
        let inode = make_labelled(&*self.world.fs, directory, &name, &new(FileType::Regular));
        let contents = pattern(self.random.below(40_000), number);
        let (is_promised, is_along) = (self.random.below(2) == 0, self.random.below(2) == 0);
        let how = if is_promised && is_along { write_and_sync } else { write };
        how(&*self.world.fs, inode, 0, &contents).unwrap();
        let path = format!("{path}/{name}");
        self.files.insert(path.clone(), (inode, contents));
        if is_promised {
            self.promise(&path);
        }
    }

    fn change(&mut self, number: usize) {
        let Some(path) = self.any_file() else { return };
        self.touch(&path);
        let fs = Arc::clone(&self.world.fs);
        let (inode, mut contents) = self.files[&path].clone();
        match self.random.below(4) {
            0 => {
                let size = self.random.below(contents.len() + 1);
                let change = AttributeChange { size: Some(size as u64), ..Default::default() };
                fs.set_attributes(inode, &change).unwrap();
                contents.truncate(size);
            }
            1 if contents.len() > 10_000 => {
                fs.allocate(inode, Allocation::PunchHole, 4096, 4096, NOW).unwrap();
                contents[4096..8192].fill(0);
            }
            2 => {
                let value = vec![b'x'; self.random.below(700)];
                fs.set_xattr(inode, b"user.x", &value, XattrMode::Set, NOW).unwrap();
            }
            _ => {
                let at = self.random.below(60_000);
                let more = pattern(1 + self.random.below(20_000), number);
                contents.resize(contents.len().max(at + more.len()), 0);
                contents[at..at + more.len()].copy_from_slice(&more);
                let how = if self.random.below(2) == 0 { write_and_sync } else { write };
                how(&*fs, inode, at as u64, &more).unwrap();
            }
        }
        self.files.insert(path.clone(), (inode, contents));
        if self.random.below(3) == 0 {
            self.promise(&path);
        }
    }

    fn rename(&mut self, number: usize) {
        let Some(path) = self.any_file() else { return };
        let (to, to_directory) = self.parent();
        // The last part of a name, of which the label is made, stays.
        let name = format!("moved-{number}-{}", path.rsplit('-').next().unwrap());
        self.touch(&path);
        let (directory, old) = self.parent_of(&path);
        let from = (directory, old.as_bytes());
        self.world.fs.rename(from, (to_directory, name.as_bytes()), NOW).unwrap();
        let file = self.files.remove(&path).unwrap();
        self.files.insert(format!("{to}/{name}"), file);
    }

    fn unlink(&mut self) {
        let Some(path) = self.any_file() else { return };
        self.touch(&path);
        let (directory, name) = self.parent_of(&path);
        self.world.fs.unlink(directory, name.as_bytes(), NOW).unwrap();
        self.files.remove(&path);
    }

    fn step(&mut self, number: usize) {
        match self.random.below(20) {
            0 => {
                let (path, directory) = self.parent();
                let name = format!("dir-{number}");
                let inode =
                    make_labelled(&*self.world.fs, directory, &name, &new(FileType::Directory));
                self.directories.push((format!("{path}/{name}"), inode));
            }
            1 => {
                let (_, directory) = self.parent();
                let name = format!("link-{number}");
                let target = "t".repeat(1 + self.random.below(200));
                let new = NewInode { target: target.as_bytes(), ..new(FileType::Symlink) };
                make_labelled(&*self.world.fs, directory, &name, &new);
            }
            2 => self.world.fs.sync().unwrap(),
            3..=8 => self.create(number),
            9..=13 => self.change(number),
            14 | 15 => self.rename(number),
            _ => self.unlink(),
        }
    }
}

/// Runs a workload. Returns the image before it, the writes, and the promises.
fn record(recipe: &Recipe, seed: u64) -> (Vec<u8>, Vec<Event>, Vec<Promise>) {
    let folder = TempDir::new().unwrap();
    let image = recipe.make(folder.path());
    let device = MemoryBlock::writable(image.clone(), Completion::AtOnce, 128);
    *device.events.lock().unwrap() = Some(Vec::new());
    let mut work = Work {
        world: World::with(device),
        random: Random::new(seed),
        files: BTreeMap::new(),
        directories: vec![(String::new(), ROOT)],
        promises: Vec::new(),
    };
    (0..OPERATIONS).for_each(|number| work.step(number));
    let events = work.world.device.events.lock().unwrap().take().unwrap();
    (image, events, work.promises)
}

fn holds(tree: &Tree, promises: &[Promise], cut: usize) -> usize {
    let valid = promises.iter().filter(|one| one.from <= cut && cut <= one.until);
    valid
        .map(|one| {
            let seen = tree.seen.get(one.path.as_bytes());
            let seen = seen.unwrap_or_else(|| panic!("{} was promised", one.path));
            assert!(seen.contents.as_ref() == Ok(&one.contents), "{} is whole", one.path);
        })
        .count()
}

fn look(image: Vec<u8>, promises: &[Promise], cut: usize) -> usize {
    let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
    let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
    let tree = walk(&*fs, Budget::WHOLE);
    assert_eq!(tree.errors, []);
    check_labels(&tree);
    let kept = holds(&tree, promises, cut);
    fs.unmount().unwrap();
    check(&device.image());
    kept
}

fn crash(options: &'static [&'static str], block: usize) {
    let (count, first) = (number("SKERRY_CRASH_COUNT", 60), number("SKERRY_CRASH_SEED", 0));
    let has_journal = !options.iter().any(|option| option.contains("^has_journal"));
    let recipe = Recipe::new(options, 12 << 10);
    let (image, events, promises) = record(&recipe, first);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    let mut kept = 0;
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let cut = random.below(events.len() + 1);
        let cut_image = crashed(&image, &events, cut, block, &mut random);
        println!("seed {seed}, cut {cut} of {}", events.len());
        fs::write(&path, &cut_image).unwrap();
        let said = fsck(&path, &["-p"], &[0, 1]);
        let said = said + &fsck(&path, &["-f", "-n"], &[0]);
        assert!(!said.contains("UNEXPECTED"), "{said}");
        kept += look(fs::read(&path).unwrap(), &promises, cut);
        if has_journal {
            look(cut_image, &promises, cut);
        }
    }
    println!("{options:?}: {count} crashes in {} writes, {kept} promises held", events.len());
    assert!(kept > 0);
}

#[test]
fn a_volume_with_a_journal_is_whole_after_every_crash() {
    crash(&["-b", "4096", "-J", "size=4"], 4096);
}

#[test]
fn a_volume_of_small_blocks_with_a_journal_is_whole_after_every_crash() {
    crash(&["-b", "1024", "-O", "inline_data,^metadata_csum", "-I", "256"], 1024);
}

#[test]
fn a_volume_without_a_journal_is_mended_after_every_crash() {
    crash(&["-b", "4096", "-O", "^has_journal"], 4096);
}

#[test]
fn a_volume_of_small_blocks_without_a_journal_is_mended_after_every_crash() {
    crash(&["-b", "1024", "-O", "^has_journal"], 1024);
}
