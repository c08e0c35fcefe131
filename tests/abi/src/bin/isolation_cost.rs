//! Work that is measured for `./x bench isolation`: marks its beginning and each part of it for `bench/plugin`, and prints
//! `part NAME` a part and what memory is in use at first. `isolation_cost FOLDER`, a folder on a disk.
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
};

const PAGE: usize = 4096;
const FILE_BYTES: usize = 32 << 20;
const BLOCK: usize = 128 << 10;
const CACHED_READS: usize = 40_000;
const RANDOM_READS: usize = 4_000;
const FILES: usize = 2_000;
const PROGRAMS: usize = 200;
const TREE_FOLDERS: usize = 20;
const TREE_FILES: usize = 20;

/// Marks of `bench/plugin`: a point, a part's beginning, its end.
const POINT: i32 = 3;
const BEGIN: i32 = 1;
const END: i32 = 2;

/// Reports a mark to QEMU's plugin.
fn mark<const NUMBER: i32>() {
    // SAFETY: an instruction without effect.
    unsafe { std::arch::asm!("nop dword ptr [rax + {}]", const 0x534b_0000 + NUMBER) };
}

fn measure(name: &str, work: impl FnOnce()) {
    println!("part {name}");
    mark::<BEGIN>();
    work();
    mark::<END>();
}

fn drop_caches() {
    run("sync", &[]);
    fs::write("/proc/sys/vm/drop_caches", "3").expect("caches are dropped");
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new("busybox").arg(program).args(arguments).status().expect("it runs");
    assert!(status.success(), "{program}: {status}");
}

fn memory_kib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("what memory there is");
    let of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect("a line");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a size")
    };
    of("MemTotal:") - of("MemFree:")
}

fn main() {
    mark::<POINT>();
    println!("memory {}", memory_kib());
    let folder = std::env::args().nth(1).expect("a folder");
    let folder = Path::new(&folder);
    fs::create_dir_all(folder).expect("the folder");
    transfers(&folder.join("file"));
    names(&folder.join("many"));
    extraction(folder);
    measure("200 programs", || (0..PROGRAMS).for_each(|_| run("true", &[])));
    fs::remove_dir_all(folder).expect("the folder goes");
}

/// Writes and reads of one file.
fn transfers(path: &Path) {
    let mut page = [0; PAGE];
    let mut block = vec![7; BLOCK];
    measure("write and sync 32 MiB", || {
        let mut file = File::create(path).expect("a file");
        (0..FILE_BYTES / BLOCK).for_each(|_| file.write_all(&block).expect("room"));
        file.sync_all().expect("on disk");
    });
    let mut file = File::open(path).expect("the file");
    measure("40,000 cached reads of 4 KiB", || {
        for index in 0..CACHED_READS {
            let at = (index * 7 % 64 * PAGE) as u64;
            file.read_exact_at(&mut page, at).expect("a page");
        }
    });
    drop_caches();
    measure("sequential read of 32 MiB", || {
        (0..FILE_BYTES / BLOCK).for_each(|_| file.read_exact(&mut block).expect("a block"));
    });
    drop_caches();
    measure("4,000 random reads of 4 KiB", || {
        let mut place = 1_u64;
        for _ in 0..RANDOM_READS {
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (place >> 33) % (FILE_BYTES / PAGE) as u64 * PAGE as u64;
            file.read_exact_at(&mut page, at).expect("a page");
        }
    });
}

/// Many names in a new folder.
fn names(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    measure("2,000 files created and removed", || {
        for index in 0..FILES {
            fs::write(folder.join(index.to_string()), b"text").expect("a file");
        }
        for index in 0..FILES {
            fs::remove_file(folder.join(index.to_string())).expect("the file");
        }
    });
}

/// An archive of a tree of small files, unpacked in `folder`.
fn extraction(folder: &Path) {
    let tree = folder.join("tree");
    let block = vec![7; TREE_FILES * 1000];
    for index in 0..TREE_FOLDERS {
        let under = tree.join(index.to_string());
        fs::create_dir_all(&under).expect("a folder");
        for file in 0..TREE_FILES {
            let bytes = &block[..(file + 1) * 1000];
            fs::write(under.join(file.to_string()), bytes).expect("a file");
        }
    }
    let name = |path: &Path| path.to_str().expect("a plain name").to_owned();
    let (archive, copy) = (name(&folder.join("archive")), name(&folder.join("copy")));
    run("tar", &["-cf", &archive, "-C", &name(&tree), "."]);
    fs::create_dir(&copy).expect("a folder");
    drop_caches();
    measure("untar 400 files and sync", || {
        run("tar", &["-xf", &archive, "-C", &copy]);
        run("sync", &[]);
    });
}
