//! fork of large memory, which a system may share by whole page tables: to each process it is its own.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    pages::{PAGE, PAGES, Pages},
    *,
};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps private pages, each with its number.
fn private() -> Pages {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let none = std::ptr::null_mut();
    let at = unsafe { libc::mmap(none, PAGES * PAGE, READ_WRITE, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    Pages(at.cast()).number()
}

#[test]
fn stores_are_not_seen_by_the_other_side() {
    isolated(|| {
        let pages = private();
        let ((go_reader, go_writer), (reader, writer)) = (pipe(), pipe());
        let child = fork(|| {
            (0..PAGES).step_by(3).for_each(|page| pages.set(page, 1 << 20));
            write(writer, b"a").unwrap();
            read(go_reader, 1).unwrap();
            pages.check(|page| page % 3 == 0, 1 << 20);
        });
        read(reader, 1).unwrap();
        pages.check(|_| false, 0);
        (0..PAGES).step_by(5).for_each(|page| pages.set(page, 2 << 20));
        write(go_writer, b"b").unwrap();
        assert_eq!(wait(child), Ended::Exited(0));
        pages.check(|page| page % 5 == 0, 2 << 20);
    });
}

#[test]
fn forks_of_forks_have_their_own() {
    isolated(|| {
        let pages = private();
        let child = fork(|| {
            let grandchild = fork(|| {
                (100..1500).for_each(|page| pages.set(page, 7));
                let last = fork(|| pages.check(|page| (100..1500).contains(&page), 7));
                assert_eq!(wait(last), Ended::Exited(0));
            });
            pages.set(700, 8);
            assert_eq!(wait(grandchild), Ended::Exited(0));
            pages.check(|page| page == 700, 8);
        });
        assert_eq!(wait(child), Ended::Exited(0));
        pages.check(|_| false, 0);
        (0..PAGES).for_each(|page| pages.set(page, 9));
    });
}

/// Unmaps, protects, discards and moves parts of it, and then checks the rest.
fn rearrange(pages: Pages) {
    unsafe {
        must(libc::munmap(pages.area(10), 5 * PAGE));
        must(libc::munmap(pages.area(400), 700 * PAGE));
        must(libc::mprotect(pages.area(1200), 10 * PAGE, libc::PROT_READ));
        must(libc::madvise(pages.area(1300), 10 * PAGE, libc::MADV_DONTNEED));
        let bytes = 10 * PAGE;
        let moved = libc::mremap(pages.area(1400), bytes, 2 * bytes, libc::MREMAP_MAYMOVE);
        assert_ne!(moved, libc::MAP_FAILED);
        assert_eq!(moved.cast::<usize>().read_volatile(), 1400);
    }
    let stays = |page: &usize| {
        !(10..15).contains(page) && !(400..1100).contains(page) && !(1300..1410).contains(page)
    };
    (0..PAGES).filter(stays).for_each(|page| assert_eq!(pages.get(page), page));
    (1300..1310).for_each(|page| assert_eq!(pages.get(page), 0));
    assert_eq!(wait(fork(|| pages.set(1205, 1))), Ended::Signalled(libc::SIGSEGV));
    unsafe { must(libc::mprotect(pages.area(1200), 10 * PAGE, READ_WRITE)) };
    pages.set(1205, 1);
}

#[test]
fn the_map_changes_on_one_side_only() {
    isolated(|| {
        let pages = private();
        assert_eq!(wait(fork(|| rearrange(pages))), Ended::Exited(0));
        pages.check(|_| false, 0);
        let ((reader, writer), (go_reader, go_writer)) = (pipe(), pipe());
        let child = fork(|| {
            write(writer, b"a").unwrap();
            read(go_reader, 1).unwrap();
            pages.check(|_| false, 0);
            rearrange(pages);
        });
        read(reader, 1).unwrap();
        rearrange(pages);
        write(go_writer, b"b").unwrap();
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn the_kernel_stores_for_its_caller_only() {
    isolated(|| {
        let pages = private();
        let (reader, writer) = pipe();
        let receive = |value: usize| {
            let bytes = value.to_ne_bytes();
            write(writer, &bytes).unwrap();
            let count = unsafe { libc::read(reader, pages.area(600), bytes.len()) };
            assert_eq!(count, bytes.len() as isize);
            pages.check(|page| page == 600, value);
        };
        assert_eq!(wait(fork(|| receive(1 << 30))), Ended::Exited(0));
        pages.check(|_| false, 0);
        receive(2 << 30);
    });
}

#[test]
fn memory_outlives_the_parent() {
    isolated(|| {
        let (reader, writer) = pipe();
        let parent = fork(|| {
            let pages = private();
            let (gone_reader, gone_writer) = pipe();
            fork(|| {
                unsafe { must(libc::close(gone_writer)) };
                // The read end reports the end of the file when the parent has ended.
                assert_eq!(read(gone_reader, 1).unwrap().len(), 0);
                pages.check(|_| false, 0);
                (0..PAGES).step_by(2).for_each(|page| pages.set(page, 1 << 20));
                pages.check(|page| page % 2 == 0, 1 << 20);
                write(writer, b"d").unwrap();
            });
            (0..PAGES).step_by(100).for_each(|page| pages.set(page, 0));
        });
        assert_eq!(wait(parent), Ended::Exited(0));
        assert_eq!(read(reader, 1).unwrap(), b"d");
    });
}

#[test]
fn what_is_shared_counts_as_resident() {
    isolated(|| {
        let pages = private();
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            text.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
        };
        let child = fork(|| {
            let before = resident();
            assert!(before >= PAGES, "{before}");
            pages.set(1000, 1);
            assert!(resident() >= PAGES);
            unsafe { must(libc::munmap(pages.area(0), PAGES * PAGE)) };
            assert!(resident() <= before - PAGES + 64);
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert!(resident() >= PAGES);
    });
}

#[test]
fn a_fork_stands_still_while_threads_go_on_storing() {
    isolated(|| {
        let pages = private();
        static IS_OVER: AtomicBool = AtomicBool::new(false);
        let store = move || {
            let pages = pages;
            for round in (1..).take_while(|_| !IS_OVER.load(Relaxed)) {
                (0..PAGES).step_by(7).for_each(|page| pages.set(page, round));
            }
        };
        let threads = [thread::spawn(store), thread::spawn(store)];
        for _ in 0..8 {
            let child = fork(|| {
                let see = || (0..PAGES).map(|page| pages.get(page)).collect::<Vec<_>>();
                let seen = see();
                (0..20).for_each(|_| assert!(see() == seen));
            });
            assert_eq!(wait(child), Ended::Exited(0));
        }
        IS_OVER.store(true, Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
