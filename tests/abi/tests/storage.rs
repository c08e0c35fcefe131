//! Files on a disk: the effects of fsync, shared mappings, truncate, fallocate and holes, and a
//! random exerciser against a model.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom},
    ops::Range,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, MetadataExt},
    },
    path::Path,
};

const PAGE: usize = 4096;
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

fn create(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap()
}

fn fallocate(file: &File, mode: i32, offset: usize, length: usize) -> Result<i64, i32> {
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, length as i64) })
}

fn contents(file: &File) -> Vec<u8> {
    let mut all = Vec::new();
    let mut at = [0; 10_000];
    while let Ok(count @ 1..) = file.read_at(&mut at, all.len() as u64) {
        all.extend_from_slice(&at[..count]);
    }
    all
}

/// A shared mapping of a file from its start.
struct Shared(*mut u8, usize);

impl Shared {
    fn of(file: &File, length: usize) -> Shared {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, flags) = (file.as_raw_fd(), libc::MAP_SHARED);
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, 0) };
        Shared(must_map(at), length)
    }
    fn get(&self, at: usize) -> u8 {
        assert!(at < self.1);
        unsafe { self.0.add(at).read_volatile() }
    }
    fn set(&self, at: usize, value: u8) {
        assert!(at < self.1);
        unsafe { self.0.add(at).write_volatile(value) }
    }
    fn sync(&self, flags: i32) -> Result<i64, i32> {
        check(unsafe { libc::msync(self.0.cast(), self.1, flags) })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

fn must_map(at: *mut libc::c_void) -> *mut u8 {
    assert_ne!(at, libc::MAP_FAILED, "mmap: {}", errno());
    at.cast()
}

#[test]
fn fsync_and_its_relatives_take_files_and_directories() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        file.write_at(b"kept", 0).unwrap();
        let fd = file.as_raw_fd();
        assert_eq!(check(unsafe { libc::fsync(fd) }), Ok(0));
        assert_eq!(check(unsafe { libc::fdatasync(fd) }), Ok(0));
        assert_eq!(check(unsafe { libc::syncfs(fd) }), Ok(0));
        let folder = File::open(scratch.path("")).unwrap();
        assert_eq!(check(unsafe { libc::fsync(folder.as_raw_fd()) }), Ok(0));
        let reader = File::open(scratch.path("f")).unwrap();
        assert_eq!(check(unsafe { libc::fsync(reader.as_raw_fd()) }), Ok(0));
        let (read_end, write_end) = pipe();
        assert_eq!(check(unsafe { libc::fsync(read_end) }), Err(libc::EINVAL));
        assert_eq!(check(unsafe { libc::fdatasync(write_end) }), Err(libc::EINVAL));
        assert_eq!(check(unsafe { libc::fsync(99) }), Err(libc::EBADF));
    });
}

#[test]
fn sync_file_range_checks_its_arguments() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        file.write_at(&[1; 20_000], 0).unwrap();
        let call = |fd, offset, length, flags| {
            check(unsafe { libc::sync_file_range(fd, offset, length, flags) })
        };
        let fd = file.as_raw_fd();
        for flags in 0..8 {
            assert_eq!(call(fd, 4096, 0, flags), Ok(0));
            assert_eq!(call(fd, 100, 9000, flags), Ok(0));
        }
        assert_eq!(call(fd, 0, 0, 8), Err(libc::EINVAL));
        assert_eq!(call(fd, -1, 0, 2), Err(libc::EINVAL));
        assert_eq!(call(fd, i64::MAX, 2, 2), Err(libc::EINVAL));
        assert_eq!(call(pipe().0, 0, 0, 2), Err(libc::ESPIPE));
    });
}

#[test]
fn a_shared_mapping_and_the_file_are_one() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        file.set_len(3 * PAGE as u64).unwrap();
        let map = Shared::of(&file, 3 * PAGE);
        for round in 1..=5 {
            map.set(PAGE + 7, round);
            assert_eq!(contents(&file)[PAGE + 7], round);
            file.write_at(&[round + 100], 9).unwrap();
            assert_eq!(map.get(9), round + 100);
            assert_eq!(map.sync(libc::MS_SYNC), Ok(0));
            file.sync_all().unwrap();
        }
        assert_eq!(map.sync(libc::MS_ASYNC), Ok(0));
        assert_eq!(map.sync(libc::MS_ASYNC | libc::MS_SYNC), Err(libc::EINVAL));
    });
}

#[test]
fn a_store_to_a_mapping_moves_the_times_by_the_next_sync() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        file.write_at(&[1; PAGE], 0).unwrap();
        let old = libc::timespec { tv_sec: 1000, tv_nsec: 0 };
        must(unsafe { libc::futimens(file.as_raw_fd(), [old, old].as_ptr()) });
        let map = Shared::of(&file, PAGE);
        map.set(0, 2);
        assert_eq!(map.sync(libc::MS_SYNC), Ok(0));
        let metadata = file.metadata().unwrap();
        assert!(metadata.mtime() > 1000 && metadata.ctime() > 1000);
    });
}

#[test]
fn what_a_mapping_stores_behind_the_end_never_becomes_part_of_the_file() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        file.write_at(b"short", 0).unwrap();
        let map = Shared::of(&file, PAGE);
        map.set(4, b'T');
        map.set(100, 9);
        drop(map);
        file.sync_all().unwrap();
        file.set_len(200).unwrap();
        let mut expected = b"shorT".to_vec();
        expected.resize(200, 0);
        assert_eq!(contents(&file), expected);
    });
}

#[test]
fn a_cut_file_s_mapping_faults_behind_the_new_end_and_reads_zeroes_up_to_the_page() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        file.write_at(&[7; 4 * PAGE], 0).unwrap();
        let map = Shared::of(&file, 4 * PAGE);
        map.set(3 * PAGE, 8);
        file.set_len(PAGE as u64 + 10).unwrap();
        assert_eq!((map.get(PAGE + 9), map.get(PAGE + 10)), (7, 0));
        let child = fork(|| map.set(2 * PAGE, 1));
        assert_eq!(wait(child), Ended::Signalled(libc::SIGBUS));
        file.set_len(4 * PAGE as u64).unwrap();
        assert_eq!((map.get(2 * PAGE), map.get(3 * PAGE)), (0, 0));
        map.set(3 * PAGE, 5);
        assert_eq!(contents(&file)[3 * PAGE], 5);
    });
}

#[test]
fn fallocate_sets_space_aside_and_gives_it_back() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        let seen = || {
            let metadata = file.metadata().unwrap();
            (metadata.len() as usize, metadata.blocks() as usize * 512)
        };
        fallocate(&file, libc::FALLOC_FL_KEEP_SIZE, 0, 64 * PAGE).unwrap();
        assert_eq!(seen().0, 0);
        assert!(seen().1 >= 64 * PAGE);
        fallocate(&file, 0, 0, 16 * PAGE + 5).unwrap();
        assert_eq!(seen().0, 16 * PAGE + 5);
        assert!(contents(&file).iter().all(|byte| *byte == 0));
        file.write_at(&[3; 16 * PAGE], 0).unwrap();
        file.sync_all().unwrap();
        let before = seen().1;
        fallocate(&file, PUNCH, 2 * PAGE + 1, 9 * PAGE).unwrap();
        assert_eq!(seen().0, 16 * PAGE + 5);
        assert!(before - seen().1 >= 8 * PAGE, "{before} {:?}", seen());
        let now = contents(&file);
        assert_eq!((now[2 * PAGE], now[2 * PAGE + 1], now[11 * PAGE]), (3, 0, 0));
        assert_eq!(now[11 * PAGE + 1], 3);
        fallocate(&file, libc::FALLOC_FL_ZERO_RANGE, 15 * PAGE, 3 * PAGE).unwrap();
        assert_eq!(seen().0, 18 * PAGE);
        assert!(contents(&file)[15 * PAGE..].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn fallocate_refuses_what_makes_no_sense() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        file.write_at(&[1; 8 * PAGE], 0).unwrap();
        assert_eq!(fallocate(&file, 0, 0, 0), Err(libc::EINVAL));
        assert_eq!(fallocate(&file, 0, usize::MAX, 1), Err(libc::EINVAL));
        assert_eq!(fallocate(&file, 0, i64::MAX as usize, 10), Err(libc::EFBIG));
        assert_eq!(fallocate(&file, libc::FALLOC_FL_PUNCH_HOLE, 0, PAGE), Err(libc::EOPNOTSUPP));
        let collapse = libc::FALLOC_FL_COLLAPSE_RANGE;
        assert_eq!(fallocate(&file, collapse, 7 * PAGE, PAGE), Err(libc::EINVAL));
        assert_eq!(fallocate(&file, collapse, 10, PAGE), Err(libc::EINVAL));
        let insert = libc::FALLOC_FL_INSERT_RANGE;
        assert_eq!(fallocate(&file, insert, 8 * PAGE, PAGE), Err(libc::EINVAL));
        let reader = File::open(scratch.path("f")).unwrap();
        assert_eq!(fallocate(&reader, 0, 0, 1), Err(libc::EBADF));
        let call = |fd| check(unsafe { libc::fallocate(fd, 0, 0, 1) });
        assert_eq!(call(pipe().1), Err(libc::ESPIPE));
    });
}

#[test]
fn ranges_collapse_and_are_inserted() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        let mut expected: Vec<u8> = (0..10 * PAGE + 99).map(|at| (at / PAGE + 1) as u8).collect();
        file.write_at(&expected, 0).unwrap();
        fallocate(&file, libc::FALLOC_FL_COLLAPSE_RANGE, 2 * PAGE, 3 * PAGE).unwrap();
        expected.drain(2 * PAGE..5 * PAGE);
        assert!(contents(&file) == expected);
        fallocate(&file, libc::FALLOC_FL_INSERT_RANGE, PAGE, 2 * PAGE).unwrap();
        expected.splice(PAGE..PAGE, vec![0; 2 * PAGE]);
        assert!(contents(&file) == expected);
        file.sync_all().unwrap();
        assert!(contents(&file) == expected);
    });
}

#[test]
fn holes_are_found_and_data_between_them() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let mut file = create(&scratch.path("f"));
        file.write_at(&[1; PAGE], 16 * PAGE as u64).unwrap();
        file.set_len(64 * PAGE as u64).unwrap();
        let fd = file.as_raw_fd();
        let seek = |at: usize, whence| {
            check(unsafe { libc::lseek(fd, at as i64, whence) }).map(|at| at as usize)
        };
        assert_eq!(seek(0, libc::SEEK_DATA), Ok(16 * PAGE));
        assert_eq!(seek(3, libc::SEEK_HOLE), Ok(3));
        assert_eq!(seek(16 * PAGE + 1, libc::SEEK_DATA), Ok(16 * PAGE + 1));
        assert_eq!(seek(16 * PAGE, libc::SEEK_HOLE), Ok(17 * PAGE));
        assert_eq!(seek(17 * PAGE, libc::SEEK_DATA), Err(libc::ENXIO));
        assert_eq!(seek(64 * PAGE, libc::SEEK_HOLE), Err(libc::ENXIO));
        let mut first = [0; 4];
        file.seek(SeekFrom::Start(16 * PAGE as u64 - 2)).unwrap();
        file.read_exact(&mut first).unwrap();
        assert_eq!(first, [0, 0, 1, 1]);
    });
}

#[test]
fn a_large_file_of_holes_takes_little_room() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        for at in [0_u64, 1 << 20, 1 << 30, (4 << 30) - 1] {
            file.write_at(&[9], at).unwrap();
        }
        file.sync_all().unwrap();
        let metadata = fs::metadata(scratch.path("f")).unwrap();
        assert_eq!(metadata.len(), 4 << 30);
        assert!(metadata.blocks() < 400, "{}", metadata.blocks());
        let mut byte = [0];
        file.read_at(&mut byte, (4 << 30) - 1).unwrap();
        assert_eq!(byte, [9]);
        file.read_at(&mut byte, 3 << 30).unwrap();
        assert_eq!(byte, [0]);
        file.set_len(1).unwrap();
        assert_eq!(contents(&file), [9]);
    });
}

#[test]
fn a_removed_file_lives_until_it_is_closed() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        file.write_at(&[4; 3 * PAGE], 0).unwrap();
        fs::remove_file(scratch.path("f")).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        file.write_at(&[5; PAGE], 3 * PAGE as u64).unwrap();
        file.sync_all().unwrap();
        assert_eq!(contents(&file)[2 * PAGE..].len(), 2 * PAGE);
        assert_eq!(file.metadata().unwrap().len(), 4 * PAGE as u64);
    });
}

#[test]
fn synchronous_writes_are_seen_by_everybody() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let path = scratch.path("f");
        for flags in [libc::O_SYNC, libc::O_DSYNC, libc::O_APPEND | libc::O_SYNC] {
            let fd = open(&path, libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY | flags, 0o600);
            let fd = fd.unwrap();
            assert_eq!(write(fd, b"one"), Ok(3));
            assert_eq!(write(fd, b"two"), Ok(3));
            close(fd);
            assert_eq!(fs::read(&path).unwrap(), b"onetwo");
        }
    });
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

const FILE_MAX: usize = 256 * 1024;

/// A file and a vector, which stay alike.
struct Pair {
    file: File,
    model: Vec<u8>,
}

impl Pair {
    /// The model reaches `end` at least, and holds `value` in the range.
    fn fill(&mut self, range: Range<usize>, value: u8) {
        self.model.resize(self.model.len().max(range.end), 0);
        self.model[range].fill(value);
    }

    /// The part of the range that the file has.
    fn inside(&self, range: Range<usize>) -> Range<usize> {
        range.start.min(self.model.len())..range.end.min(self.model.len())
    }

    fn write(&mut self, range: Range<usize>, value: u8) {
        let bytes = vec![value; range.len()];
        self.fill(range.clone(), value);
        assert_eq!(self.file.write_at(&bytes, range.start as u64).unwrap(), bytes.len());
    }

    fn resize(&mut self, size: usize) {
        self.model.resize(size, 0);
        self.file.set_len(size as u64).unwrap();
    }

    fn store_by_mapping(&mut self, range: Range<usize>, value: u8) {
        let mut range = self.inside(range);
        let map = Shared::of(&self.file, self.model.len());
        range.clone().step_by(97).for_each(|at| map.set(at, value));
        range.clone().step_by(97).for_each(|at| self.model[at] = value);
        assert!(range.all(|at| map.get(at) == self.model[at]));
    }

    fn punch(&mut self, range: Range<usize>) {
        let within = self.inside(range.clone());
        self.model[within].fill(0);
        fallocate(&self.file, PUNCH, range.start, range.len()).unwrap();
    }

    fn zero(&mut self, range: Range<usize>) {
        self.fill(range.clone(), 0);
        let mode = libc::FALLOC_FL_ZERO_RANGE;
        if fallocate(&self.file, mode, range.start, range.len()) == Err(libc::EOPNOTSUPP) {
            self.file.set_len(self.model.len() as u64).unwrap();
            self.file.write_at(&self.model[range.clone()], range.start as u64).unwrap();
        }
    }

    fn allocate(&mut self, range: Range<usize>) {
        self.model.resize(self.model.len().max(range.end), 0);
        fallocate(&self.file, 0, range.start, range.len()).unwrap();
    }

    fn collapse(&mut self, range: Range<usize>) {
        let (at, end) = (range.start / PAGE * PAGE, range.end / PAGE * PAGE);
        let is_inside = at < end && end < self.model.len();
        let mode = libc::FALLOC_FL_COLLAPSE_RANGE;
        if is_inside && fallocate(&self.file, mode, at, end - at).is_ok() {
            self.model.drain(at..end);
        }
    }

    fn insert_page(&mut self, at: usize) {
        let at = at / PAGE * PAGE;
        let is_inside = at < self.model.len() && self.model.len() + PAGE <= FILE_MAX;
        let mode = libc::FALLOC_FL_INSERT_RANGE;
        if is_inside && fallocate(&self.file, mode, at, PAGE).is_ok() {
            self.model.splice(at..at, vec![0; PAGE]);
        }
    }

    fn read(&self, range: Range<usize>, what: &str) {
        let mut seen = vec![0xee; range.len()];
        let count = self.file.read_at(&mut seen, range.start as u64).unwrap();
        assert!(seen[..count] == self.model[self.inside(range)], "{what}");
    }

    fn compare(&self, what: &str) {
        let seen = contents(&self.file);
        let differs = seen.iter().zip(&self.model).position(|(one, other)| one != other);
        assert_eq!(differs, None, "{what}");
    }
}

/// Does random operations on a file and on a vector.
fn exercise(path: &Path, seed: u64, operations: usize) {
    let mut pair = Pair { file: create(path), model: Vec::new() };
    let mut random = Random(seed);
    for number in 0..operations {
        let (at, length) = (random.below(FILE_MAX), random.below(20_000) + 1);
        let range = at..(at + length).min(FILE_MAX);
        let value = number as u8 | 1;
        let kind = random.below(13);
        let what = format!("seed {seed}, operation {number}: {kind}");
        match kind {
            0..=2 => pair.write(range, value),
            3 => pair.resize(random.below(FILE_MAX)),
            4 | 5 if at < pair.model.len() => pair.store_by_mapping(range, value),
            6 => pair.punch(range),
            7 => pair.zero(range),
            8 => pair.allocate(range),
            9 => pair.collapse(range),
            10 => pair.insert_page(at),
            11 => pair.file.sync_data().unwrap(),
            _ => pair.read(range, &what),
        }
        assert_eq!(pair.file.metadata().unwrap().len() as usize, pair.model.len(), "{what}");
        if number % 50 == 0 {
            pair.compare(&what);
        }
    }
    let Pair { file, model } = pair;
    drop(file);
    assert!(fs::read(path).unwrap() == model, "seed {seed} at the end");
}

#[test]
fn random_operations_on_a_disk_file_agree_with_a_model() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        (1..=4).for_each(|seed| exercise(&scratch.path("f"), seed * 7919, 1000));
    });
}

#[test]
fn random_operations_on_a_file_in_memory_agree_with_a_model() {
    isolated(|| {
        let scratch = Scratch::new();
        (1..=4).for_each(|seed| exercise(&scratch.path("f"), seed * 104_729, 1000));
    });
}

#[test]
fn several_processes_exercise_files_of_one_directory() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let children: Vec<_> = (1..=4_u64)
            .map(|seed| {
                let path = scratch.path(&seed.to_string());
                fork(move || exercise(&path, seed * 31, 400))
            })
            .collect();
        for child in children {
            assert_eq!(wait(child), Ended::Exited(0));
        }
    });
}

/// Reads `/proc/self/io` by one call each time.
struct Accounts {
    file: File,
    text: String,
}

impl Accounts {
    fn open() -> Accounts {
        let mut accounts =
            Accounts { file: File::open("/proc/self/io").unwrap(), text: String::new() };
        accounts.read();
        accounts
    }
    fn read(&mut self) {
        let mut bytes = [0; 4096];
        let count = self.file.read_at(&mut bytes, 0).unwrap();
        self.text = String::from_utf8_lossy(&bytes[..count]).into_owned();
    }
    fn get(&self, name: &str) -> u64 {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap().parse().unwrap()
    }
    /// Returns the increase of each count since it was last read, without that of the reading
    /// itself.
    fn since<const N: usize>(&mut self, names: [&str; N]) -> [u64; N] {
        let own = |name: &str| match name {
            "rchar" => self.text.len() as u64,
            "syscr" => 1,
            _ => 0,
        };
        let before = names.map(|name| self.get(name) + own(name));
        self.read();
        std::array::from_fn(|at| self.get(names[at]) - before[at])
    }
}

const CALLS: [&str; 4] = ["rchar", "wchar", "syscr", "syscw"];
const STORAGE: [&str; 3] = ["read_bytes", "write_bytes", "cancelled_write_bytes"];

#[test]
fn calls_that_read_and_write_are_counted_with_their_bytes() {
    isolated(|| {
        let scratch = Scratch::in_memory();
        let (file, other) = (create(&scratch.path("f")), create(&scratch.path("g")));
        let (fd, other_fd) = (file.as_raw_fd(), other.as_raw_fd());
        let mut accounts = Accounts::open();
        assert_eq!(accounts.since(CALLS), [0; 4]);
        assert_eq!(write(fd, &[1; 5000]), Ok(5000));
        file.write_at(&[2; 100], 50).unwrap();
        assert_eq!(accounts.since(CALLS), [0, 5100, 0, 2]);
        let mut bytes = [0; 700];
        assert_eq!(file.read_at(&mut bytes, 4900).unwrap(), 100);
        assert_eq!(file.read_at(&mut bytes, 5000).unwrap(), 0);
        assert_eq!(read(99, 1), Err(libc::EBADF));
        assert_eq!(accounts.since(CALLS), [100, 0, 2, 0]);
        let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 300 };
        assert_eq!(check(unsafe { libc::preadv(fd, &part, 1, 0) } as i64), Ok(300));
        assert_eq!(check(unsafe { libc::pwritev(fd, &part, 1, 0) } as i64), Ok(300));
        assert_eq!(accounts.since(CALLS), [300, 300, 1, 1]);
        let mut from = 0;
        assert_eq!(check(unsafe { libc::sendfile(other_fd, fd, &mut from, 600) } as i64), Ok(600));
        assert_eq!(accounts.since(CALLS), [600, 600, 1, 1]);
        let folder = File::open(scratch.path("")).unwrap();
        assert_eq!(read(folder.as_raw_fd(), 1), Err(libc::EISDIR));
        let (read_end, write_end) = pipe();
        assert_eq!(write(write_end, b"abc"), Ok(3));
        assert_eq!(read(read_end, 10).unwrap(), b"abc");
        assert_eq!(accounts.since(CALLS), [3, 3, 2, 1]);
        assert_eq!(wait(fork(|| assert_eq!(write(fd, &[1; 10]), Ok(10)))), Ended::Exited(0));
        assert_eq!(accounts.since(CALLS), [0, 10, 0, 1], "who is waited for");
        assert_eq!(std::thread::spawn(move || write(fd, &[1; 10])).join().unwrap(), Ok(10));
        let [written, calls] = accounts.since(["wchar", "syscw"]);
        assert!(written >= 10 && calls >= 1, "an ended thread's stay");
        assert_eq!(accounts.since(STORAGE), [0; 3], "nothing of it is on storage");
    });
}

#[test]
fn what_storage_reads_and_writes_for_a_process_is_counted() {
    isolated(|| {
        const BYTES: usize = 100_000;
        const BLOCK: i64 = 512;
        let blocks = |who| {
            let mut usage: libc::rusage = unsafe { zeroed() };
            must(unsafe { libc::getrusage(who, &mut usage) });
            (usage.ru_inblock, usage.ru_oublock)
        };
        let scratch = Scratch::on_disk();
        let file = create(&scratch.path("f"));
        let mut accounts = Accounts::open();
        let before = blocks(libc::RUSAGE_SELF);
        file.write_at(&[1; BYTES], 0).unwrap();
        let [_, written, cancelled] = accounts.since(STORAGE);
        assert!((BYTES as u64..1 << 20).contains(&written), "{written}");
        assert_eq!(cancelled, 0);
        let after = blocks(libc::RUSAGE_SELF);
        assert!(after.1 - before.1 >= BYTES as i64 / BLOCK, "{before:?} {after:?}");
        file.set_len(BYTES as u64 / 2).unwrap();
        let [_, _, cancelled] = accounts.since(STORAGE);
        assert!((BYTES as u64 / 4..=BYTES as u64 / 2).contains(&cancelled), "{cancelled}");
        file.sync_all().unwrap();
        accounts.read();
        let advice = libc::POSIX_FADV_DONTNEED;
        assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) }, 0);
        let before = blocks(libc::RUSAGE_SELF);
        assert_eq!(contents(&file).len(), BYTES / 2);
        let [read, ..] = accounts.since(STORAGE);
        assert!((BYTES as u64 / 2..1 << 20).contains(&read), "{read}");
        assert_eq!(blocks(libc::RUSAGE_SELF).0 - before.0, read as i64 / BLOCK);
        let map = Shared::of(&file, PAGE);
        map.set(1, 1);
        let [_, written, _] = accounts.since(STORAGE);
        assert!(written >= PAGE as u64);
        let before = blocks(libc::RUSAGE_CHILDREN);
        let path = scratch.path("g");
        assert_eq!(
            wait(fork(|| create(&path).write_at(&[1; PAGE], 0).map(drop).unwrap())),
            Ended::Exited(0)
        );
        let after = blocks(libc::RUSAGE_CHILDREN);
        assert!(after.1 - before.1 >= PAGE as i64 / BLOCK, "{before:?} {after:?}");
        let gone = create(&scratch.path("h"));
        gone.write_at(&[1; 2 * PAGE], 0).unwrap();
        fs::remove_file(scratch.path("h")).unwrap();
        accounts.read();
        drop(gone);
        let [_, _, cancelled] = accounts.since(STORAGE);
        assert!(cancelled >= 2 * PAGE as u64, "{cancelled}");
    });
}
