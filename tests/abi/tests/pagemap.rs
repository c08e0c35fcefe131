//! `/proc/PID/pagemap`: one word for each page.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{identity::as_user, jobs, pages::PAGE, *};
use std::ptr;

const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;
/// Mask of frame numbers; no frame has a number this high.
const FRAME: u64 = (1 << 55) - 1;
/// Bytes of the file: a word for each page that a program can have.
const END: i64 = (1 << 47) / PAGE as i64 * 8;

fn pagemap(process: &str) -> Result<i32, i32> {
    open(format!("/proc/{process}/pagemap"), libc::O_RDONLY, 0)
}

fn pread(descriptor: i32, out: &mut [u8], offset: i64) -> Result<usize, i32> {
    check(unsafe { libc::pread(descriptor, out.as_mut_ptr().cast(), out.len(), offset) } as i64)
        .map(|length| length as usize)
}

/// Returns the words of `pages` pages from `at` on.
fn words(descriptor: i32, at: *const u8, pages: usize) -> Vec<u64> {
    let mut bytes = vec![0; pages * 8];
    let offset = (at.addr() / PAGE * 8) as i64;
    assert_eq!(pread(descriptor, &mut bytes, offset), Ok(bytes.len()));
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

fn word(descriptor: i32, at: *const u8) -> u64 {
    words(descriptor, at, 1)[0]
}

fn map(pages: usize, protection: i32, flags: i32, file: i32) -> *mut u8 {
    let length = pages * PAGE;
    let at = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, file, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

fn store(at: *mut u8) {
    unsafe { at.write_volatile(1) };
}

const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

#[test]
fn a_word_says_whether_a_page_is_there_and_of_what() {
    isolated(|| {
        let map_file = pagemap("self").unwrap();
        let at = map(3, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        let one = at.wrapping_add(PAGE);
        must(unsafe { libc::mprotect(one.cast(), PAGE, BOTH) });
        store(one);
        let seen = words(map_file, at, 3);
        assert_eq!(seen[1] & (PRESENT | OF_FILE | EXCLUSIVE), PRESENT | EXCLUSIVE);
        assert_eq!((seen[0] & (PRESENT | FRAME), seen[2] & (PRESENT | FRAME)), (0, 0));
        must(unsafe { libc::munmap(at.cast(), 3 * PAGE) });
        assert_eq!(words(map_file, at, 3), [0; 3]);
        // A shared mapping is of a file of its own.
        let shared = map(1, BOTH, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
        store(shared);
        assert_eq!(word(map_file, shared) & (PRESENT | OF_FILE), PRESENT | OF_FILE);
    });
}

#[test]
fn a_page_of_a_file_is_ones_own_once_stored_to() {
    isolated(|| {
        let map_file = pagemap("self").unwrap();
        let scratch = Scratch::new();
        let file = open(scratch.file("file", &[7; PAGE]), libc::O_RDWR, 0).unwrap();
        let at = map(1, BOTH, libc::MAP_PRIVATE, file);
        assert_eq!(unsafe { at.read_volatile() }, 7);
        assert_eq!(word(map_file, at) & (PRESENT | OF_FILE), PRESENT | OF_FILE);
        store(at);
        let seen = word(map_file, at) & (PRESENT | OF_FILE | EXCLUSIVE);
        assert_eq!(seen, PRESENT | EXCLUSIVE);
    });
}

#[test]
fn who_maps_the_same_sees_the_same_frame_and_only_root_its_number() {
    isolated(|| {
        let both = || {
            let map_file = pagemap("self").unwrap();
            let file = must(unsafe { libc::memfd_create(c"m".as_ptr(), 0) }) as i32;
            must(unsafe { libc::ftruncate(file, PAGE as i64) });
            let [one, other] = [(); 2].map(|()| map(1, BOTH, libc::MAP_SHARED, file));
            store(one);
            let alone = word(map_file, one);
            store(other);
            let seen = [one, other].map(|at| word(map_file, at));
            assert_eq!(alone & EXCLUSIVE, EXCLUSIVE);
            seen.iter().for_each(|word| assert_eq!(word & (EXCLUSIVE | PRESENT), PRESENT));
            assert_eq!(seen[0], seen[1]);
            seen[0] & FRAME
        };
        assert_ne!(both(), 0);
        // The rights of the opener count, not those of the reader.
        let of_root = pagemap("self").unwrap();
        let at = map(1, BOTH, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
        store(at);
        as_user(1000, &[], || {
            must(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) });
            assert_eq!(both(), 0);
            assert_ne!(word(of_root, at) & FRAME, 0);
        });
    });
}

#[test]
fn words_are_read_whole_and_end_with_the_addresses() {
    isolated(|| {
        let map_file = pagemap("self").unwrap();
        let mut bytes = [0xff; 24];
        assert_eq!(pread(map_file, &mut bytes[..4], 0), Err(libc::EINVAL));
        assert_eq!(pread(map_file, &mut bytes[..12], 0), Err(libc::EINVAL));
        assert_eq!(pread(map_file, &mut bytes[..8], 4), Err(libc::EINVAL));
        assert_eq!(pread(map_file, &mut bytes[..0], 0), Ok(0));
        assert_eq!(pread(map_file, &mut bytes[..0], 4), Err(libc::EINVAL));
        assert_eq!(pread(map_file, &mut bytes[..8], 0), Ok(8));
        assert_eq!(bytes[..8], [0; 8]);
        assert_eq!(pread(map_file, &mut bytes, END + 8), Ok(0));
        assert_eq!(pread(map_file, &mut bytes, i64::MAX - 31), Ok(0));
        let seek = |distance, whence| {
            check(unsafe { libc::lseek(map_file, distance, whence) }).map(|place| place as u64)
        };
        assert_eq!(seek(64, libc::SEEK_SET), Ok(64));
        assert_eq!(read(map_file, 16).unwrap().len(), 16);
        assert_eq!(seek(8, libc::SEEK_CUR), Ok(88));
        assert_eq!(seek(0, libc::SEEK_END), Err(libc::EINVAL));
        assert_eq!(write(map_file, b"12345678"), Err(libc::EBADF));
    });
}

#[test]
fn others_pages_are_for_who_may_trace_them() {
    isolated(|| {
        let at = map(1, BOTH, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        store(at);
        let (reader, writer) = pipe();
        let child = fork(|| {
            close(writer);
            store(at);
            read(reader, 1).unwrap();
        });
        let of_child = pagemap(&child.to_string()).unwrap();
        while word(of_child, at) & (PRESENT | EXCLUSIVE) != PRESENT | EXCLUSIVE {
            jobs::pause_ms(5);
        }
        as_user(1000, &[], || assert_eq!(pagemap(&child.to_string()), Err(libc::EACCES)));
        write(writer, b"x").unwrap();
        assert_eq!(wait(child), Ended::Exited(0));
        // The file shows the memory that the process had when the file was opened.
        assert_eq!(pread(of_child, &mut [0; 8], (at.addr() / PAGE * 8) as i64), Ok(0));
    });
}

/// Returns VmPTE of `/proc/self/status`, in KiB.
fn tables_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:")).expect("VmPTE");
    line.trim().strip_suffix(" kB").and_then(|number| number.parse().ok()).expect("a number")
}

/// Number of bytes that a page table maps, and the number of tables that the tests have made.
const TABLE: usize = 2 << 20;
const TABLES: usize = 64;
/// Size of the tables above those that the tests make, and of those that the test program itself
/// makes meanwhile.
const OTHERS_KIB: u64 = 32;

const NEW: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

fn unmap(at: *mut u8, bytes: usize) {
    must(unsafe { libc::munmap(at.cast(), bytes) });
}

#[test]
fn page_tables_are_counted_and_go_with_what_they_mapped() {
    isolated(|| {
        let before = tables_kib();
        let at = map(TABLES * TABLE / PAGE, libc::PROT_READ, NEW | libc::MAP_NORESERVE, -1);
        for table in 0..TABLES {
            unsafe { at.wrapping_add(table * TABLE).read_volatile() };
        }
        let grown = tables_kib() - before;
        assert!(grown >= 4 * (TABLES as u64 - 1), "{grown} KiB for loads alone");
        unmap(at, TABLES * TABLE);
        assert!(tables_kib() <= before + OTHERS_KIB, "{} KiB are left", tables_kib() - before);
    });
}

#[test]
fn page_tables_go_with_single_pages() {
    isolated(|| {
        let room = map(TABLES * TABLE / PAGE, libc::PROT_NONE, NEW | libc::MAP_NORESERVE, -1);
        unmap(room, TABLES * TABLE);
        let before = tables_kib();
        for table in 0..TABLES {
            let at = room.wrapping_add(table * TABLE);
            let mapped = unsafe { libc::mmap(at.cast(), PAGE, BOTH, NEW | libc::MAP_FIXED, -1, 0) };
            assert_eq!(mapped, at.cast());
            store(at);
            if table % 2 == 0 {
                unmap(at, PAGE);
            } else {
                // It is moved next to the others, so that one table maps them all.
                let to = room.wrapping_add(TABLES * TABLE).wrapping_sub((table + 1) * PAGE);
                let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                let moved = unsafe { libc::mremap(at.cast(), PAGE, PAGE, how, to) };
                assert_eq!(moved, to.cast());
                assert_eq!(unsafe { to.read_volatile() }, 1);
            }
        }
        assert!(tables_kib() <= before + OTHERS_KIB, "{} KiB are left", tables_kib() - before);
    });
}
