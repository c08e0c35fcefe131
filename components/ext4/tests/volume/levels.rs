//! Tests of the numbers of inodes in a system with levels: none depends on what other levels make.
use crate::common::{image::run, mutate::Random, write::*};
use interfaces::file_system::*;
use std::{collections::BTreeSet, fs as host};
use tempfile::TempDir;

const ROOT: InodeNumber = 2;
const LOW: usize = 0;
const HIGH: usize = 17;

/// Makes an empty volume on a medium that was full of other data, whose unused inodes mke2fs leaves as they were.
fn dirty(options: &[&str], kib: usize) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    host::write(&path, vec![0xa5; kib << 10]).unwrap();
    let name = path.to_str().unwrap();
    let lazy = ["-q", "-F", "-t", "ext4", "-E", "nodiscard,lazy_itable_init=1"];
    run("mke2fs", &[&lazy, options, &[name]].concat(), &[0]);
    host::read(&path).unwrap()
}

/// Makes a file or directory for a level, and returns its attributes.
fn made(
    fs: &dyn FileSystem,
    directory: InodeNumber,
    name: &str,
    (file_type, level): (FileType, usize),
) -> Attributes {
    let new = NewInode { level: Some(level), ..new(file_type) };
    let attributes = fs.create(directory, name.as_bytes(), &new).unwrap();
    fs.forget(attributes.inode, 1);
    attributes
}

/// Makes and removes files and directories of the level [`LOW`], with those of [`HIGH`] between them or not. Returns the numbers and
/// the first generation's distances that the low level saw.
fn seen_low(fs: &dyn FileSystem, works_above: bool) -> Vec<(InodeNumber, u32)> {
    let (mut random, mut above) = (Random::new(5), Random::new(6));
    let high = made(fs, ROOT, "high", (FileType::Directory, LOW)).inode;
    let mut directories = vec![ROOT, made(fs, ROOT, "low", (FileType::Directory, LOW)).inode];
    let mut seen = Vec::new();
    let mut kept: Vec<(InodeNumber, String)> = Vec::new();
    for number in 0..120 {
        let directory = directories[random.below(directories.len())];
        let file_type = [FileType::Regular, FileType::Directory][random.below(4) / 3];
        let name = format!("low-{number}");
        let found = made(fs, directory, &name, (file_type, LOW));
        seen.push((found.inode, found.generation));
        match file_type {
            FileType::Directory => directories.push(found.inode),
            _ => kept.push((directory, name)),
        }
        if random.below(3) == 0 && !kept.is_empty() {
            let (directory, name) = kept.swap_remove(random.below(kept.len()));
            fs.unlink(directory, name.as_bytes(), NOW).unwrap();
        }
        for turn in (0..above.below(3)).filter(|_| works_above) {
            let kind = [FileType::Regular, FileType::Directory][above.below(4) / 3];
            made(fs, high, &format!("high-{number}-{turn}"), (kind, HIGH));
        }
    }
    let first = seen[0].1;
    seen.iter().map(|(inode, generation)| (*inode, generation.wrapping_sub(first))).collect()
}

const SHAPES: [&[&str]; 5] = [
    &["-N", "8192"],
    &["-N", "8192", "-g", "2048", "-O", "^flex_bg"],
    &["-b", "1024", "-N", "8192"],
    &["-b", "1024", "-N", "4096", "-O", "^metadata_csum,^has_journal,uninit_bg"],
    &["-N", "4096", "-I", "128", "-O", "^metadata_csum,^uninit_bg"],
];

#[test]
fn a_low_level_gets_the_same_numbers_whatever_a_high_one_makes() {
    for shape in SHAPES {
        let image = dirty(shape, 32 << 10);
        let seen = [false, true].map(|works_above| {
            let world = World::of(image.clone());
            let seen = seen_low(&*world.fs, works_above);
            world.finish();
            seen
        });
        assert_eq!(seen[0], seen[1], "{shape:?}");
    }
}

/// Each level has its own part of each group, then shares the rest, and then takes what is left; the volume stays sound.
#[test]
fn levels_take_their_own_inodes_then_shared_ones_then_any() {
    for (shape, per_group) in
        [(["-b", "4096", "-N", "1024"], 1024), (["-b", "1024", "-N", "1024"], 512)]
    {
        let world = World::of(dirty(&shape, 16 << 10));
        let fs = &*world.fs;
        let free = fs.usage().unwrap().files_free;
        let is_own = |inode: InodeNumber| {
            let width = per_group / 4 / 63;
            let first = per_group / 2 + (HIGH as u64 - 1) * width;
            (first..first + width).contains(&((inode - 1) % per_group))
        };
        let mut inodes = BTreeSet::new();
        let mut kept = Vec::new();
        for number in 0..free {
            let name = format!("name-{number}");
            let found = made(fs, ROOT, &name, (FileType::Regular, HIGH)).inode;
            assert!(inodes.insert(found), "{found} was given twice");
            kept.push((name, found));
        }
        let own = kept.iter().take_while(|(_, inode)| is_own(*inode)).count();
        let all = kept.iter().filter(|(_, inode)| is_own(*inode)).count();
        assert!(own == all && own > 0, "{own} of {all} own numbers came first: {:?}", &kept[..9]);
        let new = NewInode { level: Some(HIGH), ..new(FileType::Regular) };
        assert_eq!(fs.create(ROOT, b"more", &new).unwrap_err(), FsError::NoSpace);
        let (name, inode) = &kept[own - 1];
        fs.unlink(ROOT, name.as_bytes(), NOW).unwrap();
        let again = fs.create(ROOT, b"again", &new).unwrap().inode;
        fs.forget(again, 1);
        assert_eq!(again, *inode, "the number of its own that was freed");
        world.finish();
    }
}

/// A power cut at no point leaves a meaningless inode in a table that was never cleared.
#[test]
fn a_table_is_clear_before_inodes_in_it_are_known() {
    use crate::common::{
        cut::crashed,
        device::{Completion, MemoryBlock},
    };
    let image = dirty(&["-N", "4096"], 16 << 10);
    let device = MemoryBlock::writable(image.clone(), Completion::AtOnce, 128);
    *device.events.lock().unwrap() = Some(Vec::new());
    let world = World::with(device);
    let fs = &*world.fs;
    for (level, name) in [(60, "a"), (3, "b"), (LOW, "c")] {
        made(fs, ROOT, name, (FileType::Directory, level));
        fs.sync().unwrap();
    }
    let events = world.device.events.lock().unwrap().take().unwrap();
    let mut random = Random::new(11);
    for cut in 0..=events.len() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("image");
        host::write(&path, crashed(&image, &events, cut, 4096, &mut random)).unwrap();
        fsck(&path, &["-f", "-p"], &[0, 1]);
        fsck(&path, &["-f", "-n"], &[0]);
    }
    settle(fs);
    drop(world);
}
