//! Tests of the order of names and their positions: compared with Linux's answers for the same
//! images (`tests/linux`, recorded by `record.sh`), with debugfs' hashes, and with colliding
//! hashes.
use crate::common::{
    device::{Completion, MemoryBlock},
    image::{Recipe, name, run, source},
};
use ext4::{Ext4, MountOptions, mount};
use interfaces::file_system::*;
use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};
use tempfile::TempDir;

const SEED: &str = "01234567-89ab-cdef-0123-456789abcdef";
const SEED_OPTION: &str = "hash_seed=01234567-89ab-cdef-0123-456789abcdef";
const FLAG_INDEX: u32 = 0x1000;
const FLAG_INLINE: u32 = 0x1000_0000;

/// Ends of names with the same legacy hash behind 240 letters `p`: a chain over several leaves.
const COLLIDING: [&str; 5] = ["brFXA", "dB9KR", "jsjt2", "lL2xU", "mL99J"];

fn open(image: &[u8]) -> Arc<Ext4> {
    let device = MemoryBlock::new(image.to_vec(), Completion::AtOnce, 128);
    mount(device, MountOptions { cache_bytes: 64 << 10, ..MountOptions::default() }).unwrap()
}

/// Returns the images for which Linux's answers were recorded.
fn subjects() -> [(&'static str, Recipe); 4] {
    let plain = Recipe::new(&["-b", "4096", "-E", SEED_OPTION], 16 << 10).indexed();
    let inline = ["-b", "4096", "-O", "inline_data", "-I", "256", "-E", SEED_OPTION];
    let inline = Recipe::new(inline.to_vec().leak(), 16 << 10);
    let small = &["-b", "1024", "-N", "4096", "-E", SEED_OPTION];
    let linear = Recipe::new(small, 16 << 10);
    let legacy = linear.clone().indexed().with("ssv def_hash_version legacy");
    [("plain", plain), ("inline", inline), ("legacy", legacy), ("linear", linear)]
}

/// Makes directories of 3 to 2000 names, and one of long names some of which collide.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    for count in [3, 6, 40, 2000] {
        let directory = folder.path().join(format!("d{count}"));
        fs::create_dir(&directory).unwrap();
        for number in 0..count {
            fs::write(directory.join(format!("{number}{}", ["", "é"][number % 2])), b"").unwrap();
        }
    }
    let directory = folder.path().join("long");
    fs::create_dir(&directory).unwrap();
    for number in 0..40 {
        fs::write(directory.join(format!("{number:0>200}")), b"").unwrap();
    }
    for end in COLLIDING {
        fs::write(directory.join("p".repeat(240) + end), b"").unwrap();
    }
    folder
}

/// Returns all names of a directory with their positions, `max` names a call.
fn list(fs: &Ext4, directory: InodeNumber, max: usize) -> Vec<(u64, Vec<u8>)> {
    let (mut position, mut seen) = (0, Vec::new());
    loop {
        let entries = list_directory(fs, directory, position, max).unwrap();
        assert!(entries.len() <= max);
        if entries.is_empty() {
            return seen;
        }
        for entry in entries {
            assert!(entry.next > position && entry.next < i64::MAX as u64, "positions rise");
            seen.push((position, entry.name));
            position = entry.next;
        }
    }
}

/// Lists the directory in steps of several lengths, which must not change the result.
fn list_all_ways(fs: &Ext4, directory: InodeNumber) -> Vec<(u64, Vec<u8>)> {
    let whole = list(fs, directory, usize::MAX);
    for max in [1, 2, 3, 64] {
        assert!(list(fs, directory, max) == whole, "the length of a step does not matter");
    }
    let names: BTreeSet<_> = whole.iter().map(|(_, name)| name).collect();
    assert_eq!(names.len(), whole.len(), "no name twice");
    whole
}

fn linux_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/linux")
}

#[test]
fn names_come_in_the_order_and_at_the_positions_linux_gives() {
    let folder = folder();
    for (subject, recipe) in subjects() {
        let fs = open(&recipe.make(folder.path()));
        let said = fs::read_to_string(linux_folder().join(format!("{subject}.txt"))).unwrap();
        for part in said.split("= ").skip(1) {
            let mut lines = part.lines();
            let directory = lines.next().unwrap();
            let theirs: Vec<_> = lines.map(|line| line.split_once(' ').unwrap()).collect();
            let inode = fs.lookup(2, directory.as_bytes()).unwrap().inode;
            let ours = list_all_ways(&fs, inode);
            let name = |(_, name): &(u64, Vec<u8>)| String::from_utf8(name.clone()).unwrap();
            let ours_names: Vec<_> = ours.iter().map(name).collect();
            let theirs_names: Vec<_> = theirs.iter().map(|(_, name)| *name).collect();
            assert_eq!(ours_names, theirs_names, "{subject} {directory}");
            // The first name is reached from the start; Linux gives a whole chain one position.
            for ((ours, _), (theirs, name)) in ours.iter().zip(&theirs).skip(1) {
                let theirs = u64::from_str_radix(theirs, 16).unwrap();
                let others = if name.starts_with("ppp") { COLLIDING.len() as u64 } else { 1 };
                let is_near = (theirs..theirs + others).contains(ours);
                // Without hashes the position here is before the checksum at a block's end, and
                // Linux's is behind it.
                let is_at_end = theirs < 1 << 32 && theirs % 1024 == 0 && ours + 12 == theirs;
                assert!(is_near || is_at_end, "{subject} {directory} {name}");
            }
        }
    }
}

/// Writes the images for `tests/linux/record.sh` into the folder `SKERRY_ORDER_IMAGES` names.
#[test]
#[ignore = "makes what record.sh asks Linux about"]
fn images_are_made_for_linux() {
    let (folder, to) = (folder(), std::env::var("SKERRY_ORDER_IMAGES").unwrap());
    for (subject, recipe) in subjects() {
        let path = PathBuf::from(&to).join(format!("{subject}.image"));
        fs::write(path, recipe.make(folder.path())).unwrap();
    }
}

/// Returns the hash and the minor hash of each name, from debugfs.
fn hashes(algorithm: &str, names: &[Vec<u8>]) -> Vec<(u32, u32)> {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("script");
    let mut commands = Vec::new();
    for name in names {
        commands.extend_from_slice(format!("dx_hash -h {algorithm} -s {SEED} ").as_bytes());
        commands.extend_from_slice(&[name, &b"\n"[..]].concat());
    }
    fs::write(&script, commands).unwrap();
    let said = run("debugfs", &["-f", script.to_str().unwrap()], &[0]);
    let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let hash = |line: &str| {
        let (_, numbers) = line.rsplit_once(" is ")?;
        let (major, minor) = numbers.trim_end_matches(')').split_once(" (minor ")?;
        Some((number(major), number(minor)))
    };
    said.lines().filter(|line| line.starts_with("Hash of ")).filter_map(hash).collect()
}

#[test]
fn positions_are_the_hashes_debugfs_computes() {
    // This gives two levels of nodes.
    let folder = source(3000);
    for hash in ["half_md4", "tea", "legacy"] {
        let recipe = Recipe::new(&["-b", "1024", "-N", "4096", "-E", SEED_OPTION], 32 << 10);
        let recipe = recipe.indexed().with(&format!("ssv def_hash_version {hash}\nssv flags 1"));
        let fs = open(&recipe.make(folder.path()));
        let many = fs.lookup(2, b"many").unwrap();
        assert_ne!(many.flags & FLAG_INDEX, 0);
        for directory in [many.inode, fs.lookup(2, b"small").unwrap().inode] {
            let seen = list_all_ways(&fs, directory);
            let names: Vec<_> = seen.iter().map(|(_, name)| name.clone()).collect();
            let hashes = hashes(hash, &names);
            assert_eq!(hashes.len(), names.len());
            assert!(hashes.is_sorted(), "{hash}");
            for ((position, _), (major, minor)) in seen.iter().zip(&hashes).skip(1) {
                assert_eq!(*position, u64::from(major >> 1) << 32 | u64::from(*minor), "{hash}");
            }
        }
        assert_eq!(list_all_ways(&fs, many.inode).len(), 3000);
    }
}

#[test]
fn names_of_one_hash_over_several_leaves_each_have_their_position() {
    let (folder, [_, _, (_, legacy), _]) = (folder(), subjects());
    let image = legacy.make(folder.path());
    let fs = open(&image);
    let long = fs.lookup(2, b"long").unwrap();
    assert_ne!(long.flags & FLAG_INDEX, 0);
    let seen = list_all_ways(&fs, long.inode);
    assert_eq!(seen.len(), 45);
    let places: Vec<_> = (0..45).filter(|at| seen[*at].1.starts_with(b"ppp")).collect();
    assert!(places.windows(2).all(|pair| pair[0] + 1 == pair[1]), "they share a hash");
    let (second, last) = (places[1], places[4]);
    assert_eq!(seen[last].0 - seen[second].0, 3, "positions that follow each other");
    let path = folder.path().join("image");
    fs::write(&path, image).unwrap();
    let dump = run("debugfs", &["-R", "htree_dump /long", path.to_str().unwrap()], &[0]);
    let leaves = dump.split("Reading directory block").skip(1);
    assert!(leaves.filter(|leaf| leaf.contains("ppp")).count() > 1, "{dump}");
}

#[test]
fn directories_in_the_inode_and_of_many_blocks_without_a_tree_are_told_apart() {
    let (folder, [_, (_, inline), _, (_, linear)]) = (folder(), subjects());
    let fs = open(&inline.make(folder.path()));
    let found = fs.lookup(2, b"d3").unwrap();
    assert_ne!(found.flags & FLAG_INLINE, 0);
    assert!(list_all_ways(&fs, found.inode)[1].0 > 1 << 32, "positions are hashes");
    let fs = open(&linear.make(folder.path()));
    let found = fs.lookup(2, b"d2000").unwrap();
    assert_eq!(found.flags & FLAG_INDEX, 0);
    assert!(list_all_ways(&fs, found.inode).iter().all(|(position, _)| *position < found.size));
}

#[test]
fn a_listing_reads_a_leaf_of_a_tree_once_and_a_step_not_the_whole_directory() {
    let folder = source(3000);
    let recipe = Recipe::new(&["-b", "4096", "-N", "4096"], 32 << 10).indexed();
    let device = MemoryBlock::new(recipe.make(folder.path()), Completion::AtOnce, 128);
    let fs = mount(
        Arc::clone(&device) as _,
        MountOptions { cache_bytes: 4096, ..MountOptions::default() },
    )
    .unwrap();
    let many = fs.lookup(2, b"many").unwrap();
    let blocks = many.size as usize / 4096;
    let requests = || device.batches.lock().unwrap().len();
    let before = requests();
    let entries = list_directory(&*fs, many.inode, 0, 10).unwrap();
    assert!(requests() - before < 8 && blocks > 20, "{} of {blocks}", requests() - before);
    let middle = entries[9].next;
    assert_eq!(list_directory(&*fs, many.inode, middle, 1).unwrap().len(), 1);
    let before = requests();
    assert_eq!(list_directory(&*fs, many.inode, 0, usize::MAX).unwrap().len(), 3000);
    assert!(requests() - before <= 2 * blocks, "{} for {blocks}", requests() - before);
    assert_eq!(name(0).len(), 12);
}

#[test]
fn positions_nobody_gave_are_answered() {
    let (folder, subjects) = (folder(), subjects());
    for (_, recipe) in &subjects {
        let fs = open(&recipe.make(folder.path()));
        for directory in [&b"d3"[..], b"d2000", b"long"] {
            let inode = fs.lookup(2, directory).unwrap().inode;
            for position in [1, 0xffff_ffff, 1 << 32, u64::MAX >> 1, u64::MAX - 1, u64::MAX] {
                let entries = list_directory(&*fs, inode, position, 5).unwrap();
                assert!(entries.iter().all(|entry| entry.next > position));
            }
        }
    }
}

#[test]
fn memory_refused_in_a_listing_is_said_and_passes() {
    let folder = source(300);
    let recipe = Recipe::new(&["-b", "1024"], 16 << 10).indexed();
    let fs = open(&recipe.make(folder.path()));
    let many = fs.lookup(2, b"many").unwrap().inode;
    for grants in 0..400 {
        rt::host::refuse_after(Some(grants));
        let listed = list_directory(&*fs, many, 0, usize::MAX);
        rt::host::refuse_after(None);
        match listed {
            Ok(entries) => {
                assert!(grants > 0 && entries.len() == 300);
                return;
            }
            Err(error) => assert_eq!(error, FsError::NoMemory),
        }
    }
    panic!("a listing takes fewer grants");
}
