//! Mutated images through the whole component: mount, walk, read, attributes, then every type of
//! change. It may refuse anything, but must not panic, hang or take memory without limit.
//!
//! `SKERRY_FUZZ_COUNT` is the number of images (default 300), `SKERRY_FUZZ_SEED` the first seed, by
//! which one image can be repeated: `SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED=N`. The images to be
//! mutated are made here, or taken from the folder `SKERRY_FUZZ_IMAGES`, because Miri cannot run
//! mke2fs.
use crate::common::{
    abuse::abuse,
    device::{Completion, MemoryBlock},
    image::Recipe,
    mutate::Subject,
    walk::{Budget, walk},
};
use ext4::{ErrorPolicy, MountOptions, mount};
use interfaces::file_system::FileSystem;
use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

const DEFAULT_COUNT: u64 = 300;
/// Longest time for an image.
const LIMIT: Duration = Duration::from_secs(if cfg!(miri) { 3600 } else { 20 });
/// The greatest amount of memory of the whole test process.
const MEMORY_LIMIT_KIB: u64 = 1 << 20;
/// Number of changes of each image.
const OPERATIONS: usize = if cfg!(miri) { 16 } else { 120 };
const BUDGET: Budget = match cfg!(miri) {
    true => Budget { names: 100, depth: 6, pages: 4 },
    false => Budget { names: 3_000, depth: 12, pages: 96 },
};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Returns the images in the folder that the environment names.
fn given_subjects() -> Option<Vec<Subject>> {
    let folder = std::env::var_os("SKERRY_FUZZ_IMAGES")?;
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    Some(paths.iter().map(|path| Subject::new(fs::read(path).unwrap())).collect())
}

/// Makes small images of each shape, with and without checksums.
fn subjects() -> Vec<Subject> {
    let folder = tempfile::TempDir::new().unwrap();
    let root = folder.path();
    for length in [1, 59, 100, 5000, 70_000] {
        fs::write(root.join(format!("f{length}")), vec![7; length]).unwrap();
    }
    symlink("f1", root.join("fast")).unwrap();
    symlink("a/".repeat(100), root.join("slow")).unwrap();
    fs::create_dir_all(root.join("d/e/f")).unwrap();
    fs::write(root.join("d/e/f/leaf"), b"leaf").unwrap();
    fs::create_dir(root.join("many")).unwrap();
    for file in 0..400 {
        fs::write(root.join(format!("many/{file:04}-{}", "n".repeat(file % 30))), b"").unwrap();
    }
    let pieces: Vec<u8> =
        (0..120).flat_map(|piece| [piece | 1; 4096].into_iter().chain([0; 4096])).collect();
    fs::write(root.join("pieces"), pieces).unwrap();
    let value = "v".repeat(250);
    let recipes = [
        Recipe::new(&["-b", "1024", "-O", "^has_journal"], 3 << 10).indexed(),
        Recipe::new(&["-b", "1024", "-O", "^has_journal,^metadata_csum"], 3 << 10).indexed(),
        Recipe::new(&["-b", "1024", "-J", "size=1"], 5 << 10).indexed(),
        Recipe::new(&["-b", "4096", "-O", "^has_journal,inline_data", "-I", "256"], 5 << 10)
            .indexed(),
        Recipe::new(&["-b", "2048", "-O", "^has_journal,^extent,^64bit,^metadata_csum"], 4 << 10),
        Recipe::new(
            &["-b", "4096", "-O", "^has_journal,inline_data,^metadata_csum", "-I", "256"],
            5 << 10,
        ),
    ];
    let attributes = format!("ea_set f1 user.small x\nea_set f1 user.large {value}");
    recipes.map(|recipe| Subject::new(recipe.with(&attributes).make(root))).into()
}

/// Ends the process, naming the seed, when an image takes too long.
fn watch(current: &'static AtomicU64) {
    std::thread::spawn(move || {
        let (mut seen, mut since) = (u64::MAX, Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(250));
            let now = current.load(SeqCst);
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if now != u64::MAX && since.elapsed() > LIMIT {
                eprintln!("seed {now} hangs");
                std::process::exit(101);
            }
        }
    });
}

/// Mounts the image for writing, makes changes, and unmounts it.
fn write(image: Vec<u8>, seed: u64) {
    let device = MemoryBlock::writable(image, Completion::AtOnce, 16);
    let options = MountOptions { errors: Some(ErrorPolicy::Continue), ..MountOptions::default() };
    let Ok(fs) = mount(device, options) else { return };
    abuse(&*fs, seed, OPERATIONS);
    let _ = fs.unmount();
}

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn mutated_images_neither_panic_nor_hang_nor_eat_memory() {
    static CURRENT: AtomicU64 = AtomicU64::new(u64::MAX);
    // Miri requires that every thread ends.
    if !cfg!(miri) {
        watch(&CURRENT);
    }
    let (count, first) =
        (number("SKERRY_FUZZ_COUNT", DEFAULT_COUNT), number("SKERRY_FUZZ_SEED", 0));
    let subjects = given_subjects().unwrap_or_else(subjects);
    assert!(subjects.iter().all(Subject::agrees), "sound images keep their checksums");
    let (mut mounted, mut clean, mut names) = (0, 0, 0);
    for seed in first..first + count {
        CURRENT.store(seed, SeqCst);
        let image = subjects[seed as usize % subjects.len()].mutate(seed);
        let device = MemoryBlock::new(image.clone(), Completion::AtOnce, 16);
        let outcome = std::panic::catch_unwind(|| {
            let fs =
                mount(device, MountOptions { cache_bytes: 64 << 10, ..MountOptions::default() })
                    .ok()?;
            let tree = walk(&*fs, BUDGET);
            fs.usage().unwrap();
            assert_eq!(fs.held_inodes(), 1);
            write(image, seed);
            Some(tree)
        });
        match outcome {
            Err(_) => panic!("seed {seed} panics"),
            Ok(None) => {}
            Ok(Some(tree)) => {
                mounted += 1;
                names += tree.seen.len();
                clean += u64::from(tree.errors.is_empty());
            }
        }
    }
    CURRENT.store(u64::MAX, SeqCst);
    println!("{count} images: {mounted} mounted, {clean} without an error, {names} names");
    assert!(count < 100 || mounted * 4 > count, "mutations get past the superblock");
    // Under Miri, its own memory makes the number meaningless.
    assert!(cfg!(miri) || peak_kib() < MEMORY_LIMIT_KIB, "{} KiB", peak_kib());
}
