//! Large pages of anonymous memory: after any operation on a part of one, programs see the expected
//! ordinary pages.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    pages::{PAGE, PAGES, Pages},
    smaps::{field, kib, lines_at},
    *,
};
use std::{fs, sync::Barrier, thread};

const LARGE: usize = 2 << 20;
const LARGE_KIB: u64 = 2048;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const POLICY: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const _: () = assert!(PAGES * PAGE == 4 * LARGE);

/// Maps private pages, as many as four large ones have and aligned to these.
fn aligned(advice: i32) -> Pages {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let (none, bytes) = (std::ptr::null_mut(), 6 * LARGE);
    let at = unsafe { libc::mmap(none, bytes, READ_WRITE, flags, -1, 0) }.cast::<u8>();
    assert_ne!(at.cast(), libc::MAP_FAILED);
    let start = at.wrapping_add(at.align_offset(LARGE));
    let end = start.wrapping_add(PAGES * PAGE);
    let (before, after) = (start.addr() - at.addr(), at.addr() + bytes - end.addr());
    for (rest, length) in [(at, before), (end, after)] {
        assert!(length == 0 || unsafe { libc::munmap(rest.cast(), length) } == 0);
    }
    must(unsafe { libc::madvise(start.cast(), PAGES * PAGE, advice) });
    Pages(start)
}

/// Maps pages for which the system may use large pages, each with its number.
fn filled() -> Pages {
    aligned(libc::MADV_HUGEPAGE).number()
}

fn large_kib(pages: Pages) -> u64 {
    kib(&lines_at(pages.0), "AnonHugePages")
}

fn are_there() -> bool {
    fs::read_to_string(POLICY).is_ok_and(|policy| !policy.contains("[never]"))
}

#[test]
fn memory_that_asks_for_them_gets_them_and_what_forbids_them_does_not() {
    isolated(|| {
        let with = filled();
        with.check(|_| false, 0);
        let lines = lines_at(with.0);
        if are_there() {
            // This holds as far as memory had room for large pages.
            assert!(kib(&lines, "AnonHugePages") >= LARGE_KIB);
            assert_eq!(field(&lines, "THPeligible"), "1");
        }
        assert_eq!(kib(&lines, "Rss"), 4 * LARGE_KIB);
        assert!(field(&lines, "VmFlags").split(' ').any(|word| word == "hg"));
        let without = aligned(libc::MADV_NOHUGEPAGE);
        without.number();
        let lines = lines_at(without.0);
        assert_eq!((kib(&lines, "AnonHugePages"), kib(&lines, "Rss")), (0, 4 * LARGE_KIB));
        assert_eq!(field(&lines, "THPeligible"), "0");
        assert!(field(&lines, "VmFlags").split(' ').any(|word| word == "nh"));
    });
}

#[test]
fn one_touch_of_memory_that_forbids_them_makes_few_pages() {
    isolated(|| {
        let area = aligned(libc::MADV_NOHUGEPAGE);
        area.set(PAGES / 2, 1);
        assert!(kib(&lines_at(area.0), "Rss") <= 64);
    });
}

#[test]
fn a_part_can_be_unmapped_protected_discarded_and_moved() {
    isolated(|| {
        let area = filled();
        let moved = unsafe {
            must(libc::munmap(area.at(10).cast(), 3 * PAGE));
            must(libc::mprotect(area.at(600).cast(), PAGE, libc::PROT_READ));
            must(libc::madvise(area.at(700).cast(), 5 * PAGE, libc::MADV_DONTNEED));
            let bytes = 4 * PAGE;
            libc::mremap(area.at(1100).cast(), bytes, 2 * bytes, libc::MREMAP_MAYMOVE)
        };
        assert_ne!(moved, libc::MAP_FAILED);
        assert_eq!(unsafe { moved.cast::<usize>().read_volatile() }, 1100);
        let is_gone = |page: usize| (10..13).contains(&page) || (1100..1104).contains(&page);
        for page in (0..PAGES).filter(|page| !is_gone(*page)) {
            let expected = if (700..705).contains(&page) { 0 } else { page };
            assert_eq!(area.get(page), expected, "page {page}");
        }
        let faults = |page| wait(fork(|| area.set(page, 1))) == Ended::Signalled(libc::SIGSEGV);
        assert!(faults(10) && faults(600) && faults(1102));
        assert!(!faults(9) && !faults(601) && !faults(1099) && !faults(702));
        area.set(599, 5);
        assert_eq!((area.get(599), area.get(600)), (5, 600));
    });
}

#[test]
fn what_goes_whole_reads_as_zeroes_afterwards() {
    isolated(|| {
        let area = filled();
        must(unsafe { libc::madvise(area.at(512).cast(), LARGE, libc::MADV_DONTNEED) });
        assert!(kib(&lines_at(area.0), "Rss") < 4 * LARGE_KIB);
        area.check(|page| (512..1024).contains(&page), 0);
        must(unsafe { libc::munmap(area.at(1024).cast(), LARGE) });
        area.set(1023, 1);
        area.set(1536, 2);
        assert_eq!((area.get(1023), area.get(1536), area.get(1537)), (1, 2, 1537));
    });
}

#[test]
fn a_fork_shares_until_a_store() {
    isolated(|| {
        let area = filled();
        let child = fork(|| {
            area.check(|_| false, 0);
            (0..PAGES).step_by(7).for_each(|page| area.set(page, 1 << 20));
            area.check(|page| page % 7 == 0, 1 << 20);
        });
        assert_eq!(wait(child), Ended::Exited(0));
        area.check(|_| false, 0);
        (0..PAGES).step_by(3).for_each(|page| area.set(page, 2 << 20));
        area.check(|page| page % 3 == 0, 2 << 20);
    });
}

#[test]
fn threads_that_meet_at_the_first_touch_lose_nothing() {
    isolated(|| {
        for _ in 0..8 {
            let area = aligned(libc::MADV_HUGEPAGE);
            let start = Barrier::new(4);
            thread::scope(|scope| {
                for thread in 0..4 {
                    let start = &start;
                    scope.spawn(move || {
                        let area = area;
                        start.wait();
                        (thread..PAGES).step_by(4).for_each(|page| area.set(page, page));
                    });
                }
            });
            area.check(|_| false, 0);
            must(unsafe { libc::munmap(area.0.cast(), PAGES * PAGE) });
        }
    });
}

#[test]
fn one_thread_splits_what_another_stores_to() {
    isolated(|| {
        for _ in 0..8 {
            let area = filled();
            let start = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    (0..PAGES).filter(|page| page % 512 != 100).for_each(|page| area.set(page, 3));
                });
                start.wait();
                for page in (100..PAGES).step_by(512) {
                    must(unsafe { libc::mprotect(area.at(page).cast(), PAGE, libc::PROT_NONE) });
                    must(unsafe { libc::mprotect(area.at(page).cast(), PAGE, READ_WRITE) });
                }
            });
            area.check(|page| page % 512 != 100, 3);
            must(unsafe { libc::munmap(area.0.cast(), PAGES * PAGE) });
        }
    });
}

#[test]
fn the_system_reads_and_writes_them_as_any_memory() {
    isolated(|| {
        let area = filled();
        let (reader, writer) = pipe();
        let at = area.at(511).cast::<u8>().wrapping_add(PAGE - 8);
        assert_eq!(unsafe { libc::write(writer, at.cast(), 16) }, 16);
        let read = unsafe { libc::read(reader, area.at(900).cast(), 16) };
        assert_eq!((read, area.get(900)), (16, 0));
        assert_eq!(unsafe { area.at(900).add(1).read() }, 512);
        let (to, from) = (area.at(1500), area.at(40));
        let child = fork(|| {
            let parent = unsafe { libc::getppid() };
            let iovec = |at: *mut usize| libc::iovec { iov_base: at.cast(), iov_len: PAGE };
            let (here, there) = (iovec(to), iovec(from));
            let moved = unsafe { libc::process_vm_readv(parent, &here, 1, &there, 1, 0) };
            assert_eq!((moved, area.get(1500)), (PAGE as isize, 40));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(area.get(1500), 1500);
    });
}

#[test]
fn a_process_can_do_without_and_its_children_with_it() {
    isolated(|| {
        let prctl = |option, second: u64, third: u64| {
            check(unsafe { libc::prctl(option, second, third, 0u64, 0u64) })
        };
        let line = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("THP_enabled:")).unwrap();
            line.ends_with('1')
        };
        assert_eq!(prctl(libc::PR_GET_THP_DISABLE, 0, 0), Ok(0));
        assert_eq!(prctl(libc::PR_GET_THP_DISABLE, 1, 0), Err(libc::EINVAL));
        assert!(line());
        assert_eq!(prctl(libc::PR_SET_THP_DISABLE, 1, 0), Ok(0));
        assert_eq!(prctl(libc::PR_GET_THP_DISABLE, 0, 0), Ok(1));
        assert!(!line());
        assert_eq!(large_kib(filled()), 0);
        let child = fork(|| {
            assert_eq!(prctl(libc::PR_GET_THP_DISABLE, 0, 0), Ok(1));
            assert_eq!(prctl(libc::PR_SET_THP_DISABLE, 0, 0), Ok(0));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(prctl(libc::PR_GET_THP_DISABLE, 0, 0), Ok(1));
    });
}
