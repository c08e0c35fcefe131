//! Tests of power cuts during recovery. A volume that crashed is mounted, which replays its journal and frees its
//! orphans, and crashes again at any write of that, several times. At the end it must have the contents that it has
//! after one recovery without a crash, and `e2fsck -fn` must find no fault: no inode and no block is lost.
//!
//! `SKERRY_FUZZ_COUNT` is the number of points (default 60), `SKERRY_FUZZ_SEED` the first, and `SKERRY_COMMIT_NS` the age at
//! which a change is committed: short ones stand for a slow machine. `./x campaign recovery`.
use crate::common::{
    cut::{crashed, number},
    device::{Completion, Event, MemoryBlock},
    image::{Recipe, pattern},
    mutate::Random,
    walk::{Budget, Seen, read_pages, walk},
    write::*,
};
use ext4::{Ext4, MountOptions, mount};
use interfaces::file_system::*;
use std::{collections::BTreeMap, sync::Arc};
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
const STEPS: usize = 400;
/// Number of points at which one workload is cut.
const POINTS_A_WORKLOAD: u64 = 20;
/// The greatest number of crashes of one recovery.
const CRASHES_MAX: usize = 4;

const SHAPES: [(&[&str], usize); 4] = [
    (&["-b", "4096", "-J", "size=4", "-I", "1024"], 4096),
    (&["-b", "1024", "-J", "size=1"], 1024),
    (&["-b", "1024", "-O", "^metadata_csum", "-J", "size=1"], 1024),
    (&["-b", "4096", "-O", "orphan_file", "-J", "size=4", "-I", "1024"], 4096),
];

type Files = BTreeMap<Vec<u8>, Seen>;

/// Returns options with frequent commits, so that recovery, too, takes many transactions.
fn options() -> MountOptions {
    let all = MountOptions::default();
    let commit_ns = number("SKERRY_COMMIT_NS", all.commit_ns);
    MountOptions { cache_bytes: 64 << 10, commit_ns, ..all }
}

fn mounted(image: Vec<u8>) -> (Arc<Ext4>, Arc<MemoryBlock>) {
    let device = MemoryBlock::writable(image, Completion::AtOnce, 128);
    *device.events.lock().unwrap() = Some(Vec::new());
    let fs = mount(Arc::clone(&device) as _, options()).unwrap();
    assert!(!fs.mount_info().is_read_only);
    (fs, device)
}

/// Mounts and unmounts a volume. Returns the writes, the image, and the files.
fn recover(image: Vec<u8>) -> (Vec<Event>, Vec<u8>, Files) {
    let (fs, device) = mounted(image);
    let tree = walk(&*fs, Budget::WHOLE);
    assert_eq!(tree.errors, []);
    fs.unmount().unwrap();
    let events = device.events.lock().unwrap().take().unwrap();
    (events, device.image(), tree.seen)
}

/// Files that are created, cut and removed, many of them while they are open.
struct Work {
    fs: Arc<Ext4>,
    random: Random,
    named: Vec<(String, InodeNumber)>,
    open: Vec<InodeNumber>,
}

impl Work {
    /// Writes a file of many extents: every other page, until the volume is full.
    fn write(&mut self, inode: InodeNumber, salt: usize) {
        let pages = 1 + self.random.below(36);
        for page in 0..pages as u64 {
            match write(&*self.fs, inode, page * 8192, &pattern(3000, salt)) {
                Err(FsError::NoSpace) => return,
                written => written.unwrap(),
            }
        }
    }

    fn step(&mut self, number: usize) {
        let place = self.random.below(self.named.len().max(1));
        match (self.random.below(12), self.named.get(place).cloned()) {
            (0..=3, _) | (_, None) => {
                let name = format!("file-{number}");
                let made = self.fs.create(ROOT, name.as_bytes(), &new(FileType::Regular)).unwrap();
                self.write(made.inode, number);
                self.named.push((name, made.inode));
                self.open.push(made.inode);
            }
            (4..=7, Some((name, _))) => {
                self.fs.unlink(ROOT, name.as_bytes(), NOW).unwrap();
                self.named.remove(place);
            }
            (8 | 9, Some((_, inode))) => {
                let size = Some(self.random.below(20_000) as u64);
                let change = AttributeChange { size, ..Default::default() };
                self.fs.set_attributes(inode, &change).unwrap();
            }
            (10, Some((_, inode))) => self.fs.sync_inode(inode, SyncKind::All).unwrap(),
            _ if self.open.len() > 100 => {
                let place = self.random.below(self.open.len());
                let inode = self.open.swap_remove(place);
                if !self.named.iter().any(|(_, other)| *other == inode) {
                    self.fs.forget(inode, 1);
                }
            }
            _ => {}
        }
    }
}

/// Returns an empty volume, and the later writes of a workload.
fn record(shape: &'static [&'static str], seed: u64) -> (Vec<u8>, Vec<Event>) {
    let folder = TempDir::new().unwrap();
    let image = Recipe::new(shape, 20 << 10).make(folder.path());
    let (fs, device) = mounted(image.clone());
    let random = Random::new(seed);
    let mut work = Work { fs, random, named: Vec::new(), open: Vec::new() };
    (0..STEPS).for_each(|number| work.step(number));
    let events = device.events.lock().unwrap().take().unwrap();
    (image, events)
}

/// Returns whether the superblock shows orphans on the list of a volume.
fn has_orphans(image: &[u8]) -> bool {
    image[1024 + 232..1024 + 236] != [0; 4]
}

fn same(found: &Files, wanted: &Files, what: &str) {
    assert!(found.keys().eq(wanted.keys()), "{what}: the same names");
    for (name, seen) in wanted {
        assert!(found[name] == *seen, "{what}: {} is the same", String::from_utf8_lossy(name));
    }
}

#[test]
fn mounted_at_random_points_of_recovery() {
    let count = number("SKERRY_FUZZ_COUNT", 60);
    let first = number("SKERRY_FUZZ_SEED", 0);
    let (mut crashes, mut with_orphans) = (0, 0);
    let mut work = None;
    for seed in first..first + count {
        let (shape, block) = SHAPES[(seed / POINTS_A_WORKLOAD) as usize % SHAPES.len()];
        if work.is_none() || seed % POINTS_A_WORKLOAD == 0 {
            work = Some(record(shape, seed));
        }
        let (empty, events) = work.as_ref().unwrap();
        let mut random = Random::new(seed ^ 0x5eed);
        let cut = random.below(events.len() + 1);
        let mut image = crashed(empty, events, cut, block, &mut random);
        println!("seed {seed}, {shape:?}, cut {cut} of {}", events.len());
        let (mut events, whole, wanted) = recover(image.clone());
        check(&whole);
        let mut seen = None;
        for _ in 0..1 + random.below(CRASHES_MAX) {
            let cut = random.below(events.len() + 1);
            image = crashed(&image, &events, cut, block, &mut random);
            with_orphans += usize::from(has_orphans(&image));
            crashes += 1;
            seen = Some(recover(image.clone()));
            events.clone_from(&seen.as_ref().unwrap().0);
        }
        let (_, end, found) = seen.unwrap();
        same(&found, &wanted, "after crashes of recovery");
        check(&end);
    }
    println!("{count} points, {crashes} crashes of recovery, {with_orphans} with orphans in place");
    assert!(count < 20 || with_orphans > 0);
}

#[test]
fn recovery_may_crash_at_each_of_its_writes() {
    for (shape, block) in SHAPES {
        let seed = number("SKERRY_FUZZ_SEED", 7);
        let (empty, events) = record(shape, seed);
        let mut random = Random::new(seed);
        let image = crashed(&empty, &events, events.len(), block, &mut random);
        let (events, whole, wanted) = recover(image.clone());
        check(&whole);
        println!("{shape:?}: {} writes and flushes", events.len());
        let step = (events.len() / 150).max(1);
        for cut in (0..=events.len()).step_by(step) {
            let again = crashed(&image, &events, cut, block, &mut random);
            let (_, end, found) = recover(again);
            same(&found, &wanted, &format!("cut {cut}"));
            check(&end);
        }
    }
}

/// Makes an image with orphans on its list, all of it in place: held files without names.
fn orphaned(shape: &'static [&'static str], count: usize) -> Vec<u8> {
    let world = World::empty(shape, 20 << 10);
    for number in 0..count {
        let name = format!("gone-{number}");
        let made = world.fs.create(ROOT, name.as_bytes(), &new(FileType::Regular)).unwrap();
        write(&*world.fs, made.inode, 0, &pattern(9000, number)).unwrap();
        world.fs.unlink(ROOT, name.as_bytes(), NOW).unwrap();
    }
    world.fs.remount(MountAccess::ReadOnly).unwrap();
    world.device.image()
}

/// Returns the offset of an inode's link to the next orphan, in the image of a volume of one group.
fn link_of(image: &[u8], inode: u32) -> usize {
    let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let block_bytes = 1024 << word(1024 + 24);
    let inode_bytes = word(1024 + 88) & 0xffff;
    let descriptors = if block_bytes == 1024 { 2048 } else { block_bytes };
    word(descriptors + 8) * block_bytes + (inode as usize - 1) * inode_bytes + 20
}

fn first_orphan(image: &[u8]) -> u32 {
    u32::from_le_bytes(image[1024 + 232..1024 + 236].try_into().unwrap())
}

const PLAIN: &[&str] = &["-b", "4096", "-O", "^metadata_csum,^flex_bg", "-J", "size=4"];

#[test]
fn a_volume_mounted_read_only_keeps_its_orphans_until_it_may_be_written() {
    let image = orphaned(PLAIN, 5);
    assert!(has_orphans(&image));
    let device = MemoryBlock::writable(image.clone(), Completion::AtOnce, 128);
    let options = MountOptions { access: MountAccess::ReadOnly, ..MountOptions::default() };
    let fs = mount(Arc::clone(&device) as _, options).unwrap();
    assert!(device.image() == image, "nothing is written");
    fs.remount(MountAccess::Writable).unwrap();
    settle(&*fs);
    assert!(!has_orphans(&device.image()));
    fs.unmount().unwrap();
    check(&device.image());
}

#[test]
fn a_list_of_orphans_that_makes_no_sense_marks_the_volume() {
    let image = orphaned(PLAIN, 5);
    let head = first_orphan(&image);
    let second = link_of(&image, head);
    let next = u32::from_le_bytes(image[second..second + 4].try_into().unwrap());
    assert!(next > 10 && next != head, "{next}");
    // The bad links: a loop, a reserved inode, one beyond the last, one that is free.
    for bad in [head, 8, 1 << 30, 500] {
        let mut damaged = image.clone();
        let at = link_of(&image, next);
        damaged[at..at + 4].copy_from_slice(&bad.to_le_bytes());
        let device = MemoryBlock::writable(damaged, Completion::AtOnce, 128);
        let fs = mount(Arc::clone(&device) as _, MountOptions::default()).unwrap();
        let _ = fs.sync();
        fs.unmount().unwrap();
        let image = device.image();
        assert!(image[1024 + 58] & 2 != 0, "{bad}: marked as having errors");
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, image).unwrap();
        fsck(&path, &["-f", "-y"], &[0, 1]);
        fsck(&path, &["-f", "-n"], &[0]);
    }
}

#[test]
fn an_open_file_without_a_name_outlives_a_remount() {
    let world = World::empty(PLAIN, 10 << 10);
    let made = world.fs.create(ROOT, b"gone", &new(FileType::Regular)).unwrap();
    let bytes = pattern(9000, 1);
    write(&*world.fs, made.inode, 0, &bytes).unwrap();
    world.fs.unlink(ROOT, b"gone", NOW).unwrap();
    world.fs.remount(MountAccess::ReadOnly).unwrap();
    assert!(has_orphans(&world.device.image()));
    world.fs.remount(MountAccess::Writable).unwrap();
    let found = read_pages(&*world.fs, made.inode, 0, 3).unwrap();
    assert!(found[..9000] == bytes);
    world.fs.forget(made.inode, 1);
    world.finish();
}
