//! Memory: the mmap family, protection, sharing, the break.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::fs;

const PAGE: usize = 4096;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

fn map(
    address: usize,
    length: usize,
    protection: i32,
    flags: i32,
    fd: i32,
    offset: i64,
) -> Result<*mut u8, i32> {
    // SAFETY: no test maps over memory it uses.
    check(unsafe { libc::mmap(address as *mut _, length, protection, flags, fd, offset) } as i64)
        .map(|at| at as *mut u8)
}

fn byte(at: *mut u8, offset: usize) -> u8 {
    // SAFETY: the callers stay in their mappings, or mean to fault.
    unsafe { at.add(offset).read_volatile() }
}

fn set(at: *mut u8, offset: usize, value: u8) {
    // SAFETY: as above.
    unsafe { at.add(offset).write_volatile(value) }
}

fn unmap(at: *mut u8, length: usize) -> Result<i64, i32> {
    // SAFETY: the test's own mapping.
    check(unsafe { libc::munmap(at.cast(), length) })
}

fn faults(body: impl FnOnce()) -> bool {
    wait(fork(body)) == Ended::Signalled(libc::SIGSEGV)
}

#[test]
fn anonymous_memory_is_zero_and_keeps_what_is_written() {
    isolated(|| {
        let at = map(0, 64 * PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
        for page in 0..64 {
            assert_eq!(byte(at, page * PAGE + 17), 0);
            set(at, page * PAGE, page as u8);
        }
        assert!((0..64).all(|page| byte(at, page * PAGE) == page as u8));
    });
}

#[test]
fn an_unmapped_page_faults_and_its_neighbours_do_not() {
    isolated(|| {
        let at = map(0, 3 * PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
        set(at, 2 * PAGE, 9);
        unmap(at.wrapping_add(PAGE), PAGE).unwrap();
        assert_eq!((byte(at, 0), byte(at, 2 * PAGE)), (0, 9));
        assert!(faults(|| set(at, PAGE, 1)));
    });
}

#[test]
fn memory_mapped_again_is_fresh() {
    isolated(|| {
        let at = map(0, 4 * PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
        set(at, 0, 7);
        map(at as usize, 4 * PAGE, READ_WRITE, ANONYMOUS | libc::MAP_FIXED, -1, 0).unwrap();
        assert_eq!(byte(at, 0), 0);
    });
}

#[test]
fn protection_is_kept_and_can_change() {
    isolated(|| {
        let at = map(0, 3 * PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
        set(at, PAGE, 1);
        // SAFETY: the test's own mapping.
        must(unsafe { libc::mprotect(at.add(PAGE).cast(), PAGE, libc::PROT_READ) });
        assert_eq!(byte(at, PAGE), 1);
        assert!(faults(|| set(at, PAGE, 2)));
        set(at, 0, 3);
        set(at, 2 * PAGE, 3);
        // SAFETY: the test's own mapping.
        must(unsafe { libc::mprotect(at.add(PAGE).cast(), PAGE, libc::PROT_NONE) });
        assert!(faults(|| {
            byte(at, PAGE);
        }));
        // SAFETY: the test's own mapping.
        must(unsafe { libc::mprotect(at.cast(), 3 * PAGE, READ_WRITE) });
        assert_eq!(byte(at, PAGE), 1);
        set(at, PAGE, 4);
    });
}

#[test]
fn data_cannot_be_executed_unless_allowed() {
    isolated(|| {
        let run = |protection: i32| {
            fork(move || {
                let at = map(0, PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
                set(at, 0, 0xc3);
                // SAFETY: the test's own mapping; it holds a `ret`, or faults.
                unsafe {
                    must(libc::mprotect(at.cast(), PAGE, protection));
                    std::mem::transmute::<*mut u8, extern "C" fn()>(at)();
                }
            })
        };
        assert_eq!(wait(run(libc::PROT_READ | libc::PROT_EXEC)), Ended::Exited(0));
        assert_eq!(wait(run(libc::PROT_READ)), Ended::Signalled(libc::SIGSEGV));
    });
}

#[test]
fn bad_requests_are_refused() {
    isolated(|| {
        assert_eq!(map(0, 0, READ_WRITE, ANONYMOUS, -1, 0), Err(libc::EINVAL));
        assert_eq!(map(0, PAGE, READ_WRITE, libc::MAP_ANONYMOUS, -1, 0), Err(libc::EINVAL));
        assert_eq!(map(0, PAGE, READ_WRITE, libc::MAP_PRIVATE, -1, 0), Err(libc::EBADF));
        assert_eq!(map(1, PAGE, READ_WRITE, ANONYMOUS | libc::MAP_FIXED, -1, 0), Err(libc::EINVAL));
        assert_eq!(map(0, 1 << 62, READ_WRITE, ANONYMOUS, -1, 0), Err(libc::ENOMEM));
        assert_eq!(
            map(0x7fff_ffff_f000, PAGE, READ_WRITE, ANONYMOUS | libc::MAP_FIXED, -1, 0),
            Err(libc::ENOMEM)
        );
        assert_eq!(unmap(std::ptr::dangling_mut::<u8>(), PAGE), Err(libc::EINVAL));
        assert_eq!(unmap(PAGE as *mut u8, 0), Err(libc::EINVAL));
        // SAFETY: nothing is mapped there; the kernel must refuse.
        assert_eq!(
            check(unsafe { libc::mprotect((1usize << 40) as *mut _, PAGE, 0) }),
            Err(libc::ENOMEM)
        );
    });
}

#[test]
fn a_fixed_place_can_be_asked_for_without_replacing() {
    isolated(|| {
        let at = map(0, PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
        assert_eq!(
            map(at as usize, PAGE, READ_WRITE, ANONYMOUS | libc::MAP_FIXED_NOREPLACE, -1, 0),
            Err(libc::EEXIST)
        );
        unmap(at, PAGE).unwrap();
        assert_eq!(
            map(at as usize, PAGE, READ_WRITE, ANONYMOUS | libc::MAP_FIXED_NOREPLACE, -1, 0),
            Ok(at)
        );
    });
}

#[test]
fn a_private_file_mapping_keeps_its_writes() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", &[5; 2 * PAGE]);
        let fd = open(&path, libc::O_RDONLY, 0).unwrap();
        let at = map(0, 2 * PAGE, READ_WRITE, libc::MAP_PRIVATE, fd, 0).unwrap();
        assert_eq!(byte(at, PAGE), 5);
        set(at, PAGE, 6);
        assert_eq!((byte(at, PAGE), fs::read(&path).unwrap()[PAGE]), (6, 5));
    });
}

#[test]
fn a_shared_file_mapping_writes_the_file() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", &[5; 2 * PAGE]);
        let fd = open(&path, libc::O_RDWR, 0).unwrap();
        let at = map(0, 2 * PAGE, READ_WRITE, libc::MAP_SHARED, fd, 0).unwrap();
        set(at, PAGE + 1, 6);
        assert_eq!(fs::read(&path).unwrap()[PAGE + 1], 6);
        fs::write(&path, vec![7; 2 * PAGE]).unwrap();
        assert_eq!(byte(at, 100), 7);
        // SAFETY: the test's own mapping.
        must(unsafe { libc::msync(at.cast(), 2 * PAGE, libc::MS_SYNC) });
    });
}

#[test]
fn the_rest_of_a_files_last_page_is_zero() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", b"xyz"), libc::O_RDONLY, 0).unwrap();
        let at = map(0, PAGE, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0).unwrap();
        assert_eq!((byte(at, 2), byte(at, 3), byte(at, PAGE - 1)), (b'z', 0, 0));
    });
}

#[test]
fn a_mapping_outlives_its_descriptor_and_its_name() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"kept");
        let fd = open(&path, libc::O_RDONLY, 0).unwrap();
        let at = map(0, PAGE, libc::PROT_READ, libc::MAP_SHARED, fd, 0).unwrap();
        close(fd);
        fs::remove_file(path).unwrap();
        assert_eq!(byte(at, 0), b'k');
    });
}

#[test]
fn mapping_wants_the_descriptors_rights() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"x");
        let reading = open(&path, libc::O_RDONLY, 0).unwrap();
        assert_eq!(map(0, PAGE, READ_WRITE, libc::MAP_SHARED, reading, 0), Err(libc::EACCES));
        assert!(map(0, PAGE, READ_WRITE, libc::MAP_PRIVATE, reading, 0).is_ok());
        let writing = open(&path, libc::O_WRONLY, 0).unwrap();
        assert_eq!(map(0, PAGE, libc::PROT_READ, libc::MAP_PRIVATE, writing, 0), Err(libc::EACCES));
        assert_eq!(map(0, PAGE, libc::PROT_READ, libc::MAP_PRIVATE, reading, 7), Err(libc::EINVAL));
        let (pipe_end, _other) = pipe();
        assert_eq!(
            map(0, PAGE, libc::PROT_READ, libc::MAP_PRIVATE, pipe_end, 0),
            Err(libc::ENODEV)
        );
    });
}

#[test]
fn a_truncated_mapping_loses_its_pages() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", &[1; 2 * PAGE]);
        let fd = open(&path, libc::O_RDWR, 0).unwrap();
        let at = map(0, 2 * PAGE, READ_WRITE, libc::MAP_SHARED, fd, 0).unwrap();
        assert_eq!(byte(at, PAGE), 1);
        // SAFETY: plain numbers.
        must(unsafe { libc::ftruncate(fd, 10) });
        assert_eq!((byte(at, 5), byte(at, 20)), (1, 0));
        assert_eq!(
            wait(fork(|| {
                byte(at, PAGE);
            })),
            Ended::Signalled(libc::SIGBUS)
        );
    });
}

#[test]
fn shared_anonymous_memory_joins_parent_and_child() {
    isolated(|| {
        let at =
            map(0, 2 * PAGE, READ_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0).unwrap();
        let child = fork(|| set(at, PAGE, 42));
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(byte(at, PAGE), 42);
    });
}

#[test]
fn copies_made_by_fork_part_in_both_directions() {
    isolated(|| {
        let at = map(0, 32 * PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
        (0..32).for_each(|page| set(at, page * PAGE, 1));
        let ((go_reader, go_writer), (reader, writer)) = (pipe(), pipe());
        let child = fork(|| {
            read(go_reader, 1).unwrap();
            assert!((0..32).all(|page| byte(at, page * PAGE) == 1));
            (0..32).for_each(|page| set(at, page * PAGE, 3));
            write(writer, b"d").unwrap();
        });
        (0..32).for_each(|page| set(at, page * PAGE, 2));
        write(go_writer, b"g").unwrap();
        read(reader, 1).unwrap();
        assert!((0..32).all(|page| byte(at, page * PAGE) == 2));
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn mremap_grows_moves_and_shrinks() {
    isolated(|| {
        let at = map(0, 2 * PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
        set(at, PAGE, 8);
        // SAFETY: the test's own mappings.
        let (moved, back) = unsafe {
            let moved =
                libc::mremap(at.cast(), 2 * PAGE, 100 * PAGE, libc::MREMAP_MAYMOVE).cast::<u8>();
            assert_eq!((byte(moved, PAGE), byte(moved, 99 * PAGE)), (8, 0));
            (moved, libc::mremap(moved.cast(), 100 * PAGE, 2 * PAGE, 0).cast::<u8>())
        };
        assert_eq!((moved, byte(back, PAGE)), (back, 8));
        assert!(faults(|| set(back, 2 * PAGE, 1)));
    });
}

#[test]
fn discarded_memory_is_zero_again() {
    isolated(|| {
        let at = map(0, 4 * PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
        set(at, 0, 1);
        // SAFETY: the test's own mapping.
        must(unsafe { libc::madvise(at.cast(), 4 * PAGE, libc::MADV_DONTNEED) });
        assert_eq!(byte(at, 0), 0);
    });
}

#[test]
fn the_break_moves_both_ways() {
    isolated(|| {
        // SAFETY: the raw call; the C library keeps no heap of its own above this break.
        unsafe {
            let start = libc::syscall(libc::SYS_brk, 0);
            let grown = libc::syscall(libc::SYS_brk, start + 10 * PAGE as i64);
            assert_eq!(grown, start + 10 * PAGE as i64);
            set(start as *mut u8, 9 * PAGE, 3);
            assert_eq!(libc::syscall(libc::SYS_brk, start), start);
            assert_eq!(libc::syscall(libc::SYS_brk, 1i64), start, "an absurd break is not taken");
        }
    });
}

#[test]
fn the_limit_on_address_space_holds() {
    isolated(|| {
        let limit = libc::rlimit { rlim_cur: 64 << 20, rlim_max: 64 << 20 };
        // SAFETY: a whole rlimit.
        must(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) });
        assert_eq!(map(0, 128 << 20, READ_WRITE, ANONYMOUS, -1, 0), Err(libc::ENOMEM));
        assert!(map(0, 1 << 20, READ_WRITE, ANONYMOUS, -1, 0).is_ok());
    });
}

#[test]
fn mincore_knows_touched_pages() {
    isolated(|| {
        let at = map(0, 8 * PAGE, READ_WRITE, ANONYMOUS, -1, 0).unwrap();
        set(at, 0, 1);
        let mut present = [0u8; 8];
        // SAFETY: the test's own mapping, a byte a page.
        must(unsafe { libc::mincore(at.cast(), 8 * PAGE, present.as_mut_ptr()) });
        assert_eq!(present[0] & 1, 1);
        unmap(at, PAGE).unwrap();
        // SAFETY: as above, with a hole.
        assert_eq!(
            check(unsafe { libc::mincore(at.cast(), 8 * PAGE, present.as_mut_ptr()) }),
            Err(libc::ENOMEM)
        );
    });
}

#[test]
fn maps_tells_what_is_mapped() {
    isolated(|| {
        let at = map(0, 3 * PAGE, libc::PROT_READ, ANONYMOUS, -1, 0).unwrap() as usize;
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let covers = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let (from, to) =
                (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
            (from <= at && at + 3 * PAGE <= to).then(|| rest.starts_with("r--p"))
        };
        assert_eq!(maps.lines().find_map(covers), Some(true), "{maps}");
        assert!(maps.contains("[stack]"), "{maps}");
    });
}

#[test]
fn a_sparse_giant_costs_nothing() {
    isolated(|| {
        let length = 64usize << 30;
        let at = map(0, length, READ_WRITE, ANONYMOUS | libc::MAP_NORESERVE, -1, 0).unwrap();
        for step in 0..64 {
            set(at, step << 30, step as u8);
        }
        assert!((0..64).all(|step| byte(at, step << 30) == step as u8));
        unmap(at, length).unwrap();
    });
}
